"""Resolution of names that a user types: contracts, implementations, budgets, runs.

Each error is one sentence.
"""

from __future__ import annotations

import importlib.machinery
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from xverify import contracts
from xverify.contracts.model import Contract
from xverify.core.call import Call
from xverify.core.codec import read_json
from xverify.core.errors import ContractFileError, DocumentError, UsageError
from xverify.core.machine import MISSING, instruction_sets
from xverify.core.near import nearest
from xverify.environments import naming, other_versions
from xverify.environments.cache import EnvironmentFailedError
from xverify.environments.installers import Say, unsaid
from xverify.oracles import all_oracles, answers, installed_version, with_option
from xverify.oracles.plugin import PATHS, USERS, TargetError, distinguished, plugin
from xverify.oracles.protocol import Oracle

if TYPE_CHECKING:
    from xverify.strategies.limits import CallLimits

RUNS = Path("reports", "runs")
"""The folder of runs, below the current directory."""

LEDGER = Path("reports", "ledger.toml")
"""The file of accepted findings, below the current directory."""

KERNEL = "xverify-numpy"
"""The kernel under test by default."""


def contracts_named(patterns: Sequence[str]) -> tuple[tuple[Contract, ...], tuple[str, ...]]:
    """Resolve ids, glob patterns and Python files to editions; all built-in ones if there are no patterns.

    Returns:
        The editions; and a sentence for each whose document cannot be read here, or has what the code does not know.

    Raises:
        UsageError: A pattern names nothing, a file defines no editions, or no named edition can be read.
    """
    chosen: dict[str, Contract] = {}
    sentences: list[str] = []
    for pattern in dict.fromkeys(patterns or ("*",)):
        for contract in contracts_of_file(pattern) if is_file(pattern) else _built_in(pattern, sentences):
            if chosen.get(contract.id, contract) is not contract:
                raise UsageError(f"{pattern}: {contract.id} is defined by a file that was named before")
            chosen[contract.id] = contract
            sentences.extend(contract.assumptions)
    if not chosen:
        raise UsageError(sentences[0])
    return tuple(chosen.values()), tuple(dict.fromkeys(sentences))


def is_file(pattern: str) -> bool:
    """True if the name of a contract is a Python file, not an id or a glob pattern."""
    return pattern.endswith(".py") or os.path.isfile(pattern)


def contracts_of_file(path: str) -> tuple[Contract, ...]:
    """Run a Python file and return the editions that it defines.

    Raises:
        UsageError: The file has an error; the message holds the first one.
    """
    try:
        return contracts.from_file(Path(path))
    except (ContractFileError, DocumentError) as error:
        raise UsageError(str(error)) from None


def contract_named(pattern: str) -> Contract:
    """The only edition that an id, a pattern or a file names.

    Raises:
        UsageError: It names none or several.
    """
    named, _ = contracts_named([pattern])
    if len(named) > 1:
        listed = ", ".join(contract.id for contract in named)
        raise UsageError(f"{pattern!r} names {len(named)} editions, and one is wanted here: {listed}")
    return named[0]


def _built_in(pattern: str, sentences: list[str]) -> Iterator[Contract]:
    identities = contracts.matching(pattern)
    if not identities:
        raise UsageError(f"no contract matches {pattern!r}{nearest(pattern, contracts.ids())}; see: xverify contracts")
    for identity in identities:
        try:
            yield contracts.get(identity)
        except DocumentError as error:
            sentences.append(f"{identity} is left out: {error}")


def oracles_named(
    names: Sequence[str],
    kernel: str | None,
    say: Say = unsaid,
    held_to: Sequence[Contract] = (),
    newest: bool = False,
) -> tuple[tuple[Oracle, ...], tuple[str, ...]]:
    """Resolve the implementations of a sweep.

    Args:
        names: Names of implementations, and TARGETs of a user's kernels; all installed implementations if there are none.
        kernel: The kernel under test.
        say: Called with a sentence when something takes long.
        held_to: The editions of the sweep.
        newest: Run every implementation at its newest release, also those that are not installed.

    Returns:
        The kernel under test, then the implementations; and a sentence for each that is left out, or that an edition does not
        judge since its package carries another text.

    Raises:
        UsageError: A name is unknown, a named implementation is not installed, or none takes calls of the editions.
        EnvironmentFailedError: No named implementation can be installed at its version or run in its Python.
    """
    oracles = all_oracles()
    chosen, sentences, idle = [kernel_named(kernel or KERNEL)], [], []
    for name in names or by_default(oracles.values(), instruction_sets()):
        if names and is_target(name):
            mine = _user_kernel(name, chosen)
            if mine is not None:
                idle += _takes_none(mine, held_to)
                chosen.append(mine)
            continue
        wants_newest = newest and not oracles[name].in_house
        if not wants_newest and not names and installed_version(oracle := oracles[name]) is None:
            sentences.append(
                f"{name} is left out: {oracle.distribution} is not installed; pip install {oracle.distribution}"
            )
            continue
        try:
            if wants_newest:
                (oracle, reasons), older = _newest(oracles[name], say)
                sentences += older
            else:
                oracle, reasons = _resolved(name, say, TARGET_TOO)
        except EnvironmentFailedError as error:
            here = installed_version(oracles[name]) if wants_newest else None
            if here is None:
                sentences.append(f"{name} is left out: {error}")
                continue
            sentences.append(f"{name} runs at the installed version {here}, not at the newest: {error}")
            oracle, reasons = _resolved(name, say)
        if oracle not in chosen:
            if any(other.name == oracle.name for other in chosen):
                raise UsageError(
                    f"two files give the name {oracle.name}: give one of them another file name, with a link"
                )
            takes_none = _takes_none(replace(oracle, name=name), held_to)
            if names:
                idle += takes_none
            elif takes_none and not any(map(contracts.matching, oracle.contracts)):
                listed = ", ".join(map(repr, oracle.contracts)) or "nothing"
                sentences.append(f"{name} is left out: no edition matches its contracts {listed}")
                continue
            chosen.append(oracle)
            sentences.extend(other_versions.not_judged(oracle, reasons, {contract.id for contract in held_to}))
    if names and idle and len(idle) == len(chosen) - 1:
        raise UsageError("; ".join(idle))
    sentences.extend(idle)
    if sentences and names and len(chosen) == 1:
        raise EnvironmentFailedError("; ".join(sentences))
    return tuple(chosen), tuple(sentences)


def _takes_none(oracle: Oracle, held_to: Sequence[Contract]) -> list[str]:
    """A sentence if the implementation takes calls of no edition of the sweep."""
    if not held_to or any(answers(oracle, contract.asked_as) for contract in held_to):
        return []
    listed = ", ".join(map(repr, oracle.contracts)) or "nothing"
    return [f"{oracle.name} takes no calls of {_in_words(held_to)}; it takes {listed}"]


TARGET_TOO = "; a kernel of your own is named path/file.py:function, package.module:function or path/library.so:symbol"
"""The end of the message on an unknown implementation, where the option also takes the TARGET of a kernel."""

RELEASES_TRIED = 3
"""Releases that are tried, newest first, when the newest is named. Each failure may take a minute."""


def _user_kernel(target: str, chosen: Sequence[Oracle]) -> Oracle | None:
    """A kernel of the user for a sweep; None if it was named before.

    Args:
        chosen: The implementations that were named before. A kernel with the name of one of them gets its folders too.

    Raises:
        UsageError: The target names neither an implementation nor a kernel.
    """
    oracle = user_kernel(target)
    for other in chosen:
        if other.arguments == oracle.arguments and other.module == oracle.module:
            return None
        oracle = distinguished(oracle, other)
    return oracle


def user_kernel(target: str) -> Oracle:
    """A kernel of the user by its TARGET, where an option takes names of implementations too.

    Raises:
        UsageError: The target names neither an implementation nor a kernel.
    """
    oracles = all_oracles()
    first = re.split("[:=@]", target, maxsplit=1)[0]
    try:
        oracle = plugin(target)
    except TargetError as error:
        raise UsageError(_neither(target, str(error), first, oracles)) from None
    module = target.rpartition(":")[0].partition(".")[0]
    if oracle.search_path and importlib.machinery.PathFinder.find_spec(module, [os.getcwd(), *sys.path]) is None:
        raise UsageError(_neither(target, f"there is no module {module!r}", first, oracles))
    return oracle


def user_kernels(targets: Iterable[str]) -> tuple[Oracle, ...]:
    """Kernels of the user by their TARGETs, each once, with different names.

    Raises:
        UsageError: A target names no kernel of the user.
    """
    kernels: list[Oracle] = []
    for target in targets:
        if target.partition(":")[0] in all_oracles():
            raise UsageError(
                f"{target} is no kernel of yours, and the bench times the implementations of xverify anyway; leave out "
                "this --kernel"
            )
        kernel = _user_kernel(target, kernels)
        kernels += [kernel] if kernel is not None else []
    return tuple(kernels)


def _neither(target: str, reason: str, first: str, oracles: Iterable[str]) -> str:
    return (
        f"{target!r} names neither an implementation{nearest(first, oracles)} nor a kernel of yours: {reason}; "
        "see: xverify oracles"
    )


def by_default(oracles: Iterable[Oracle], instructions: Collection[str]) -> list[str]:
    """The names of the implementations that a sweep without names asks.

    Args:
        oracles: All oracles and kernels.
        instructions: The processor's flags, by their names in Linux.
    """
    return [o.name for o in oracles if o.role != "kernel" and (not o.only_with or o.only_with in instructions)]


def _in_words(held_to: Sequence[Contract]) -> str:
    """The id of the only edition, or the number of editions."""
    return held_to[0].id if len(held_to) == 1 else f"these {len(held_to)} editions"


def kernel_named(target: str) -> Oracle:
    """The kernel under test: an in-house one by its name, or a user's by its TARGET.

    Raises:
        UsageError: The target names no kernel.
    """
    kernels = {name: oracle for name, oracle in all_oracles().items() if oracle.role == "kernel"}
    name, colon, option = target.partition(":")
    try:
        if name in kernels:
            return with_option(kernels[name], option) if colon else kernels[name]
        return plugin(target)
    except TargetError as error:
        listed = ", ".join(kernels)
        raise UsageError(f"{error}. Kernels of xverify are {listed}{nearest(target, kernels)}") from None
    except ValueError as error:
        raise UsageError(str(error)) from None


def kernel_under_test(target: str, strict: bool = False) -> Oracle:
    """A kernel for the gate. An in-house one gets the same checks as a user's.

    Args:
        strict: NotImplementedError is a refusal like any other.

    Raises:
        UsageError: The target names no kernel.
    """
    kernel = kernel_named(target)
    if kernel.distribution == "xverify":
        kernel = replace(kernel, load="load_watched", paths=PATHS)
    return replace(kernel, strict=strict)


def reference_named(name: str, kernel: Oracle, say: Say = unsaid) -> Oracle:
    """The implementation whose answers replace the text, by its name or by a kernel's TARGET.

    A kernel of a user is another build of the kernel under test. There NotImplementedError is a refusal like any other, so
    that it makes a difference if only one build raises it.

    Args:
        kernel: The kernel under test.
        say: Called with a sentence when something takes long.

    Raises:
        UsageError: The name is unknown, the implementation is not installed, or it is the kernel itself.
        EnvironmentFailedError: It cannot be installed at that version, or run in that Python.
    """
    try:
        if not is_target(name):
            return distinguished(oracle_named(name, say), kernel)
        return replace(distinguished(plugin(name), kernel), strict=True)
    except TargetError as error:
        raise UsageError(str(error)) from None


def edition_by_default(oracle: Oracle | None = None) -> str:
    """The id of the edition to use when the user names none: ONNX's newest.

    Frameworks refuse opsets that are newer than they. They get the newest edition that onnxruntime has.

    Args:
        oracle: The implementation that answers, or that the kernel has to match.
    """
    is_framework = oracle is not None and oracle.role != "kernel" and not oracle.in_house
    return contracts.newest_run() if is_framework else contracts.newest()


def is_target(name: str) -> bool:
    """True if a name is that of a user's kernel: a file or a module, a colon, and a function."""
    return ":" in name and re.split("[:=@]", name, maxsplit=1)[0] not in all_oracles()


def matched_by(reference: Oracle, held_to: Sequence[Contract]) -> tuple[tuple[Contract, ...], tuple[str, ...]]:
    """Keep the editions that the implementation to match answers.

    Returns:
        Those editions, and a sentence for the others.

    Raises:
        UsageError: It answers none of them.
    """
    matched = tuple(contract for contract in held_to if answers(reference, contract.asked_as))
    others = ", ".join(contract.id for contract in held_to if contract not in matched)
    if not matched:
        listed = ", ".join(reference.contracts) or "nothing"
        raise UsageError(f"{reference.name} cannot be matched on {others}, because it takes calls of {listed} only")
    return matched, (f"{others} left out: {reference.name} takes no calls of it",) if others else ()


def taken_by(kernel: Oracle, held_to: Sequence[Contract]) -> tuple[tuple[Contract, ...], tuple[str, ...]]:
    """Keep the editions that the kernel's interface has arguments for.

    Returns:
        Those editions, and a sentence for the others.

    Raises:
        UsageError: It has arguments for none of them.
    """
    taken = tuple(contract for contract in held_to if answers(kernel, contract.asked_as))
    others = ", ".join(contract.id for contract in held_to if contract not in taken)
    if not taken:
        raise UsageError(f"a native kernel is not called for {others}; it takes {', '.join(kernel.contracts)}")
    return taken, (f"{others} left out: a native kernel is not called for them",) if others else ()


def day(text: str, today: date) -> date:
    """Parse a day such as 2027-02-21, or a number of days from today such as 90d.

    Raises:
        UsageError: The text is neither.
    """
    try:
        if days := re.fullmatch(r"(\d{1,5})d", text.strip()):
            return today + timedelta(days=int(days[1]))
        return date.fromisoformat(text.strip())
    except (ValueError, OverflowError):
        raise UsageError(f"a day is written 2027-02-21, or 90d for 90 days from today, not {text!r}") from None


def version_of(oracle: Oracle) -> str:
    """The version of an implementation, for people."""
    return installed_version(oracle) or MISSING


def oracle_named(name: str, say: Say = unsaid) -> Oracle:
    """The implementation that NAME[:OPTION][==VERSION | @PYTHON] names.

    An environment for another version is made if there is none yet.

    Args:
        say: Called with a sentence when something takes long.

    Raises:
        UsageError: The name is unknown, or the implementation is not installed.
        EnvironmentFailedError: It cannot be installed at that version, or run in that Python.
    """
    return _resolved(name, say)[0]


def _resolved(text: str, say: Say, more: str = "") -> other_versions.Moved:
    oracles = all_oracles()
    try:
        named = naming.parse(text)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if named.name not in oracles:
        raise UsageError(
            f"no implementation is called {named.name!r}{nearest(named.name, oracles)}; see: xverify oracles{more}"
        )
    oracle = oracles[named.name]
    if named.option:
        try:
            oracle = with_option(oracle, named.option)
        except ValueError as error:
            raise UsageError(str(error)) from None
    if named.python:
        return other_versions.of_python(oracle, named.python)
    if named.version == naming.NEWEST:
        moved, older = _newest(oracle, say)
        for sentence in older:
            say(sentence)
        return moved
    return _at(oracle, named.version, say)


def _newest(oracle: Oracle, say: Say) -> tuple[other_versions.Moved, list[str]]:
    """The newest release that can be installed, and a sentence for each newer one that cannot.

    A new release may need packages that the index does not have yet for this Python.
    """
    failures: dict[str, str] = {}
    for version in other_versions.newest_versions(oracle)[:RELEASES_TRIED]:
        try:
            moved = _at(oracle, version, say)
        except EnvironmentFailedError as error:
            failures[version] = str(error)
        else:
            return moved, [f"{oracle.name} runs at {version}, not at {v}: {why}" for v, why in failures.items()]
    raise EnvironmentFailedError("; ".join(failures.values()))


def _at(oracle: Oracle, version: str, say: Say) -> other_versions.Moved:
    """The implementation at a version; the installed one for an empty version."""
    here = installed_version(oracle)
    if version and (here is None or not naming.same_version(version, here)):
        return other_versions.of_version(oracle, version, say)
    if here is None:
        raise UsageError(
            f"{oracle.name} cannot be run: {oracle.distribution} is not installed; pip install {oracle.distribution}"
        )
    # An oracle with a version of its own is no installed package.
    return oracle if oracle.version else replace(oracle, judged_by=contracts.shipped(oracle.judged_by)), {}


def without_other_releases(oracle: Oracle) -> Oracle:
    """The implementation without the documents of other releases of itself, such as oneDNN's guides."""
    others = [
        identity
        for identity in contracts.ids()
        if fnmatchcase(identity, "*@[0-9]*") and answers(oracle, identity) and not _is_judged_by(oracle, identity)
    ]
    if not others:
        return oracle
    kept = (identity for identity in contracts.ids() if answers(oracle, identity) and identity not in others)
    return replace(oracle, contracts=tuple(kept))


def held_by_default(oracle: Oracle) -> Oracle:
    """The implementation with the editions that it answers in a sweep that names none.

    A kernel of the user claims no document. As in the gate, it is held to ONNX's newest edition.
    """
    if is_of_user(oracle):
        return replace(oracle, contracts=(contracts.newest(),))
    return without_other_releases(oracle)


def is_of_user(oracle: Oracle) -> bool:
    """True for a kernel that the user named by a TARGET."""
    return oracle.role == USERS.role and not oracle.distribution


def _is_judged_by(oracle: Oracle, identity: str) -> bool:
    return any(fnmatchcase(identity, pattern) for pattern in oracle.judged_by)


def seconds(text: str, least: float = 0.0) -> float:
    """Parse a budget such as 60s, 5m, 1.5h, or plain seconds.

    Args:
        text: The duration as typed.
        least: The shortest duration that is accepted, in seconds.

    Raises:
        UsageError: The text is no duration, or a shorter one.
    """
    parts = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|m|h)?\s*", text)
    if not parts or float(parts[1]) <= 0:
        raise UsageError(f"a time is a number above zero, such as 60s, 5m or 1h, not {text!r}")
    duration = float(parts[1]) * {"s": 1, "m": 60, "h": 3600}[parts[2] or "s"]
    if duration < least:
        raise UsageError(
            f"a budget of {text.strip()} is too small: {least:g}s is the least, to start and make a few calls"
        )
    return duration


def writable(path: Path) -> Path:
    """Make a directory if it does not exist.

    Raises:
        UsageError: Nothing can be written there.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / f".write-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UsageError(f"nothing can be written to {path}: {error.strerror}") from None
    return path


def writable_file(path: Path) -> Path:
    """Check that a file can be written, and make its folder, before work that takes long.

    Raises:
        UsageError: The file cannot be written.
    """
    writable(path.resolve().parent)
    exists = path.exists()
    if exists and not (path.is_file() or path.is_dir()):
        return path  # opening a pipe or a device could wait for a reader
    try:
        with path.open("ab"):
            pass
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    if not exists:
        path.unlink()
    return path


def report_file(run: str | None, runs: Path = RUNS) -> Path:
    """The report of a run by its id, its directory or its file; by default the newest.

    Raises:
        UsageError: There is no such report.
    """
    if run is None:
        return _newest_first(runs)[0]
    for path in (Path(run), Path(run, "report.json"), runs / run / "report.json"):
        if path.is_file():
            return path
    for directory in (Path(run), runs / run):
        if directory.is_dir():
            raise UsageError(
                f"{directory} has no report.json: the run ended before its report; make one with: xverify sweep"
            )
    raise UsageError(f"{run!r} is neither a report, nor a run's directory, nor the id of a run under {runs}")


_FINDING_ID = re.compile(rb'"id":\s*"([a-z-]+-[0-9a-f]{10}(?:-(?:known|expired|changed)-[^"]*)?)"')
"""The id of a cause or finding in a report.json."""


def report_with(finding: str, run: str | None, runs: Path = RUNS) -> Path:
    """The report that holds a cause or a finding: of the named run, or of the newest run that has it.

    Args:
        finding: The id.
        run: The run as a user names it; None for any.
        runs: The folder of runs.

    Raises:
        UsageError: There is no such run, or no report holds that id.
        DamagedFileError: The report of the named run is not JSON.
    """
    paths = [report_file(run, runs)] if run is not None else _newest_first(runs)
    all_ids: dict[str, None] = {}
    for path in paths:
        # To parse a report takes a hundred times as long.
        ids = {identity.decode() for identity in _FINDING_ID.findall(path.read_bytes())}
        if finding in ids:
            return path
        all_ids.update(dict.fromkeys(sorted(ids)))
    if run is not None:
        read_json(paths[0])  # A truncated report lacks ids for another reason, which this names.
    where = f"{paths[0]} has no" if run is not None else f"none of the runs under {runs} ({len(paths)}) has a"
    raise UsageError(f"{where} cause or finding {finding!r}{nearest(finding, all_ids)}")


def _newest_first(runs: Path) -> list[Path]:
    reports = sorted(runs.glob("*/report.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    if not reports:
        raise UsageError(f"there is no run under {runs}; make one with: xverify sweep")
    return reports


def require_plain_name(name: str, option: str, where: str) -> None:
    """Refuse a name that comes from a file and contains a path.

    The program at that path would run: a Python, a library of oneDNN, or an execution provider.

    Args:
        option: The option by which the user can name it.
        where: The file.

    Raises:
        UsageError: The name contains a path.
    """
    named = naming.parse_or_none(name)
    if named is None or named.python or named.file or os.sep in named.option:
        raise UsageError(f"{where} names {name!r}, which is run only when you name it: add {option} {name}")


_OPERANDS = {"linear": (("x", "scale"), ("zero_point",)), "range": (("input", "min_range", "max_range"), ())}
"""The operands that a call must have, and those that it may have, by the family of its operator."""


def require_operands(call: Call, contract: Contract) -> None:
    """Check the operands and attributes of a typed call.

    Raises:
        UsageError: An operand is missing or unknown, or an attribute has the wrong type.
    """
    needed, optional = _OPERANDS[contract.domain.family]
    for role in needed:
        if role not in call.tensors:
            raise UsageError(f"the call lacks {role}: {contract.id} has {', '.join(needed)}")
    for role in call.tensors:
        if role not in (*needed, *optional):
            raise UsageError(f"{contract.id} has no operand {role}{nearest(role, (*needed, *optional))}")
    for name in ("axis", "block_size"):
        value = call.attributes.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int):
            raise UsageError(f"{name} is {value!r}; expected a whole number")


def call_limits(
    block_sizes: Iterable[object], axes: Iterable[object], ranks: Iterable[object], contiguous: bool
) -> CallLimits:
    """The limits that a user states for a kernel. Empty words restrict nothing.

    Raises:
        UsageError: A word is no number, or no range of ranks.
    """
    from xverify.strategies.limits import parsed  # it imports Hypothesis, which certify does not need

    words = [[str(word).strip() for word in listed if str(word).strip()] for listed in (block_sizes, axes, ranks)]
    try:
        return parsed(words[0], words[1], words[2], contiguous)
    except ValueError as error:
        raise UsageError(str(error)) from None
