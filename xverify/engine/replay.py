"""Replay of a finding or a call: is it FIXED, is it there STILL, has it CHANGED, or is a crash UNSEEN?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from xverify import contracts
from xverify.contracts.model import Contract, Denormals
from xverify.core.call import RUNS_FROM, Call, Outcome, encode_call
from xverify.core.codec import call_from_json
from xverify.core.errors import DamagedFileError, UnableError, UsageError
from xverify.core.line import HUGE_VALUES, call_from_line, call_to_line
from xverify.core.verdict import Verdict
from xverify.engine import select, vary
from xverify.engine.reference_contract import like
from xverify.engine.store import describe
from xverify.environments import naming
from xverify.environments.installers import Say, unsaid
from xverify.oracles import all_oracles
from xverify.oracles.protocol import Oracle
from xverify.verify import verdicts
from xverify.verify.attribute import Attribution
from xverify.verify.details import modernized, modernized_step
from xverify.verify.findings import Change, Finding, Key, Subject
from xverify.verify.shrink import faults, reproduces
from xverify.verify.verdicts import judge
from xverify.workers.worker import Worker

AskAny = Callable[[Subject, Call], Outcome]
"""ask(implementation, call) returns the outcome of any implementation, by its name."""


MOST_TRIES = 20
"""Number of fresh processes in which a crash is tried again before it counts as not seen."""


@dataclass(frozen=True)
class Replayed:
    """The result of a replay."""

    state: str
    """FIXED, STILL or CHANGED; for the proven triples of a certificate HOLDS or CHANGED.

    UNSEEN is a crash or hang that did not show in any of several processes. It may still be there.
    """

    summary: str

    got: str = ""
    """The present result of the implementation, in a few words."""

    id: str = ""
    """The finding, or the kernel of a call; "" for parts of a certificate."""

    @property
    def sentence(self) -> str:
        """The summary after the id that it belongs to."""
        return f"{self.id}: {self.summary}" if self.id else self.summary


@dataclass(frozen=True)
class Terms:
    """The terms on which a gate held a kernel to an edition."""

    denormals: Denormals = "keep"

    like: Oracle | None = None
    """The implementation whose answers replace the text."""

    def contract(self, identity: str, own: Sequence[Contract], ask: AskAny) -> Contract:
        """The edition on these terms.

        Args:
            own: Editions of the user, in addition to the built-in ones.
        """
        text = _contract(identity, own)
        if self.like is None:
            return replace(text, denormals=self.denormals)
        subject, version = Subject(self.like.name, "", self.like.role), select.version_of(self.like)
        return like(text, self.like.name, version, lambda call: ask(subject, call.under(text.asked_as)))


def _contract(identity: str, own: Sequence[Contract]) -> Contract:
    return next((contract for contract in own if contract.id == identity), None) or contracts.get(identity)


# -- workers ---------------------------------------------------------------------------------------------


@contextmanager
def asking(
    directory: Path, kernel: Oracle | None = None, others: Sequence[Oracle] = (), say: Say = unsaid
) -> Iterator[AskAny]:
    """Return a function that gets outcomes from any implementation. Each worker starts when first needed.

    Args:
        directory: Where the workers keep their files.
        kernel: A kernel of the user. It replaces an implementation of the same name.
        others: Implementations of another Python or with an option.
        say: Called with a sentence when the environment of another version has to be made.
    """
    oracles = all_oracles() | {oracle.name: oracle for oracle in others}
    if kernel is not None:
        oracles[kernel.name] = kernel
    workers = Workers(directory, lambda name: oracles.get(name) or _of_version(name, say))
    try:
        yield workers
    finally:
        workers.stop()


class Workers:
    """The workers of a replay. Each starts when first needed."""

    def __init__(self, directory: Path, oracle_of: Callable[[str], Oracle]) -> None:
        self._directory = directory
        self._oracle_of = oracle_of
        self._workers: dict[str, Worker] = {}

    def __call__(self, subject: Subject, call: Call) -> Outcome:
        if subject.name not in self._workers:
            oracle = vary.named(subject.name, self._oracle_of)
            self._workers[subject.name] = Worker(oracle, self._directory)
            self._workers[subject.name].start()
        return self._workers[subject.name].ask(encode_call(call), subject.options)

    def renew(self, subject: Subject) -> None:
        """Replace the process of an implementation, so that its next call is the first of a process."""
        if subject.name in self._workers:
            self._workers[subject.name].renew()

    def stop(self) -> None:
        for worker in self._workers.values():
            worker.stop()


def _of_version(name: str, say: Say) -> Oracle:
    """An implementation at a version that is not installed here.

    An implementation that a report names by a path is refused.
    """
    parts = naming.parse_or_none(name)
    if parts is None or parts.name not in all_oracles():
        raise UnableError(f"no implementation is called {name!r} here; see: xverify oracles")
    if not parts.version or parts.option:
        raise UnableError(f"{name} is run only when it is named: add --oracle {name}")
    return select.oracle_named(name, say)


# -- findings --------------------------------------------------------------------------------------------


def replay_entries(
    report: Mapping[str, Any],
    entries: Sequence[Mapping[str, Any]],
    path: Path,
    ask: AskAny,
    files: Sequence[str] = (),
    target: str | None = None,
    reference: Oracle | None = None,
    say: Say = unsaid,
) -> Iterator[Replayed]:
    """Run findings of a report again, on the terms of its gate if it is a gate's.

    Args:
        entries: The findings of the report.
        path: The report's file; large calls lie in its folder.
        files: Files with editions of the user.
        target: The kernel that the user named.
        reference: The implementation to match that the user named. Without it, the report's name counts.
        say: Called with a sentence when something takes long.

    Raises:
        UsageError: A finding is on a user's kernel, or the gate's reference is at a path, and the user did not name it.
    """
    own = [contract for file in files for contract in select.contracts_of_file(file)]
    gate = report.get("gate")
    if gate:
        if gate["like"] is not None and reference is None:
            typed = gate.get("like_target") or gate["like"]
            if select.is_target(typed):
                raise UsageError(f"{gate['like']} is run only when it is named: add --like TARGET")
            select.require_plain_name(typed, "--like", str(path))
            reference = select.oracle_named(typed, say)
        terms = Terms(gate["denormals"], reference)
        own = [terms.contract(identity, own, ask) for identity in sorted({entry["contract"] for entry in entries})]
        if target is None and any(entry["subject"]["name"] == gate["kernel"] for entry in entries):
            _require_in_house(gate["kernel"])
    for entry in entries:
        yield replay_finding(finding_from_report(entry, path.parent), ask, own)


def _require_in_house(kernel: str) -> None:
    """Refuse a user's kernel, which runs only when the user names it."""
    if kernel not in all_oracles():
        raise UsageError(f"the kernel {kernel} is run only when it is named: add --kernel TARGET")


def finding_from_report(entry: Mapping[str, Any], directory: Path) -> Finding:
    """Read a finding of a report whose files are in ``directory``.

    Raises:
        DamagedFileError: The finding or a file of it is damaged.
    """
    if entry.get("witness") is None:
        raise DamagedFileError(
            f"{entry.get('id')} has no witness: it is a finding on a text alone, with nothing to run"
        )
    call = call_from_json(entry["witness"]["call"], directory / "scripts")
    who = entry["subject"]
    subject = Subject(who["name"], who["version"], who["role"], who["options"])
    key = Key(
        subject.name,
        entry["contract"],
        Verdict(entry["verdict"]),
        entry["clause"],
        modernized(entry["verdict"], entry["detail"]),
    )
    finding = Finding(key, subject, entry["summary"], call, None)
    finding.readings = tuple(entry.get("readings", ()))
    by = entry.get("attribution")
    if by is not None:
        other = by.get("elsewhere")
        elsewhere = None if other is None else (str(other["reading"]), str(other["words"]))
        finding.attribution = Attribution(
            by["reading"], by.get("words", ""), by["explained_values"], by["values"], elsewhere
        )
    if entry.get("change"):
        finding.change = Change(**{**entry["change"], "step": modernized_step(entry["change"]["step"])})
    reference = entry.get("reference")
    if reference:
        oracle = all_oracles().get(reference)
        finding.reference = Subject(reference, "", oracle.role if oracle else "oracle")
    return finding


def replay_finding(finding: Finding, ask: AskAny, own: Sequence[Contract] = ()) -> Replayed:
    """Run a finding's witness again and judge it.

    Args:
        own: Editions of the user, in addition to the built-in ones.

    Raises:
        UnableError, DocumentError, WorkerFailedError: The witness cannot be run or judged here.
    """
    contract = _contract(finding.key.contract, own)
    call, key = finding.call, finding.key
    assert call is not None
    if call.values >= RUNS_FROM:
        line = call_to_line(call, HUGE_VALUES)
        raise UsageError(f"{finding.id} has {call.values} elements: replay its call with --huge, {line!r}")

    def ask_as_known(subject: Subject, call: Call) -> Outcome:
        return ask(subject, call.under(contract.asked_as))

    ask_subject = partial(ask_as_known, finding.subject)
    ask_reference = partial(ask_as_known, finding.reference) if finding.reference else None
    if key.verdict == "conflict" and key.subject == key.contract:
        still = any((check.clause, check.name) == (key.clause, key.detail) for check in contract.text_checks())
        return Replayed("STILL" if still else "FIXED", finding.summary, "the document's own example", finding.id)
    reproduced = reproduces(finding, contract, call, ask_subject, ask_reference)
    if reproduced is not None:
        discrepancy, outcome = reproduced
        return Replayed("STILL", discrepancy.summary, "" if outcome is None else describe(outcome), finding.id)
    if key.verdict == "conflict":
        return Replayed("FIXED", "the two editions have a result in common", "", finding.id)
    summary, state = finding.summary, "FIXED"
    if key.verdict in (Verdict.CRASH, Verdict.HANG):
        seen, tries, last = _tried_again(finding, contract, call, ask_subject, ask)
        if last is not None:
            return Replayed("STILL", f"{summary}; seen in {seen} of {tries} tries", describe(last), finding.id)
        summary, state = f"{summary}; not seen in {tries} tries", "UNSEEN"
    outcome = ask_subject(call)
    if not _is_right(finding, contract, call, outcome):
        state = "CHANGED"
    return Replayed(state, summary, describe(outcome), finding.id)


def _tried_again(
    finding: Finding, contract: Contract, call: Call, ask_subject: Callable[[Call], Outcome], ask: AskAny
) -> tuple[int, int, Outcome | None]:
    """Make a call in many fresh processes, after a first try in which the process did not end.

    Returns:
        The number of tries that show it, the number of tries, and the last outcome that shows it.
    """
    seen, tries, last = 0, 1, None
    while tries < MOST_TRIES:
        if isinstance(ask, Workers):
            ask.renew(finding.subject)
        tries += 1
        reproduced = reproduces(finding, contract, call, ask_subject)
        if reproduced is not None:
            seen, last = seen + 1, reproduced[1]
            if finding.key.verdict == Verdict.HANG:
                break  # each takes as long as the time limit
    return seen, tries, last


def _is_right(finding: Finding, contract: Contract, call: Call, outcome: Outcome) -> bool:
    """True if nothing is wrong with an outcome that no longer shows the finding."""
    if outcome.kind in ("crash", "hang") or outcome.notes:
        return False
    judged = judge(contract, call)
    if judged.judgement.verdict == "forbidden":
        return outcome.refused
    if judged.judgement.verdict == "unspecified":
        return True
    comparison = verdicts.compared(judged, outcome)
    if comparison is None or not comparison.clean:
        return False
    return comparison.explains[0] if finding.key.verdict == "ambiguity" else any(comparison.explains)


# -- calls -----------------------------------------------------------------------------------------------


def replay_call(
    line: str,
    kernel: Oracle,
    path: str,
    ask: AskAny,
    own: Sequence[Contract] = (),
    terms: Terms | None = None,
    was: str = "",
) -> Replayed:
    """Run a call line again and judge it.

    Args:
        path: The path of the kernel that the call takes.
        own: Editions that the user named; the first one judges the call.
        was: VERDICT or VERDICT:READINGS of the finding on the call. Without it, any fault counts as STILL there.

    Raises:
        UsageError: The line is no call of the edition.
        UnknownRecipeError: A reading is unknown.
    """
    try:
        call = call_from_line(line)
    except ValueError as error:
        raise UsageError(str(error)) from None
    contract = (terms or Terms()).contract(own[0].id if own else call.contract, own, ask)
    select.require_operands(call, contract)
    call = call.under(contract.id)
    subject = Subject(kernel.name, kernel.version, kernel.role, path)

    def ask_subject(call: Call) -> Outcome:
        return ask(subject, call.under(contract.asked_as))

    verdict, _, readings = was.partition(":")
    before = Finding(
        Key(subject.name, contract.id, Verdict(verdict or Verdict.VIOLATION), "", ""), subject, "", call, None
    )
    before.readings = tuple(filter(None, readings.split(",")))
    outcome = ask_subject(call)
    discrepancies = faults(before, judge(contract, call), outcome, ask_subject)
    got = describe(outcome)
    if not discrepancies:
        return Replayed("FIXED", "nothing is wrong with this call", got, kernel.name)
    same = next((each for each in discrepancies if not verdict or each.key.verdict == verdict), None)
    if same is not None:
        return Replayed("STILL", same.summary, got, kernel.name)
    return Replayed("CHANGED", discrepancies[0].summary, got, kernel.name)
