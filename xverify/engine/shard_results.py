"""Results of a sweep's shards: their sessions and files, and the report of the run from them.

The file ``shard.json`` lies beside the shard's ``report.json``. It holds the shard's sessions, which the report no longer tells
apart, and a digest of what the run is.
"""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xverify import __version__
from xverify.contracts.model import Contract
from xverify.core.codec import MOST_BYTES, read_json
from xverify.core.errors import DamagedFileError, UnableError, UsageError
from xverify.core.machine import MISSING
from xverify.core.shard import MOST_SHARDS, Shard
from xverify.engine import parts as dividing
from xverify.engine.combine import Session, combined
from xverify.engine.options import Options
from xverify.oracles import answers, installed_version
from xverify.oracles.protocol import Oracle

SCHEMA = "xverify.shard/1"

FILE = "shard.json"
"""The name of a shard's file in its run directory."""

SESSIONS = "sessions"
"""The folder for the large calls of a run of several sessions."""


def sessions_of(options: Options) -> list[Options]:
    """The options of each session of a run or shard. A shard without work has one without editions."""
    weights = {contract.id: dividing.weight(contract) for contract in options.contracts}
    shard = options.shard or Shard(1, 1)
    listed = dividing.parts(weights, options.cases, shard.count, options.most_cases)
    answering = {
        contract.id: [oracle.name for oracle in options.oracles if answers(oracle, contract.asked_as)]
        for contract in options.contracts
    }
    grouped = dividing.sessions(dividing.divided(listed, weights, shard, answering, options.budget))
    if not grouped:
        return [replace(options, contracts=(), oracles=(), run_contracts=options.contracts)]
    by_session = [{part.contract: part for part in group} for group in grouped]

    def needed(contracts: tuple[Contract, ...]) -> tuple[Oracle, ...]:
        """The implementations without those that other sessions need."""
        return tuple(
            oracle
            for oracle in options.oracles
            if any(answers(oracle, contract.asked_as) for contract in contracts)
            or not any(answers(oracle, contract.asked_as) for contract in options.contracts)
        )

    editions = [tuple(contract for contract in options.contracts if contract.id in of) for of in by_session]
    return [
        replace(
            options,
            contracts=contracts,
            oracles=needed(contracts),
            parts=of,
            run_contracts=options.contracts,
            scripts=None if len(by_session) == 1 else options.directory / SESSIONS / str(number) / "scripts",
        )
        for number, (of, contracts) in enumerate(zip(by_session, editions, strict=True), 1)
    ]


def digest_of(options: Options) -> str:
    """A short name of what a run is. All shards of the run have the same, and no shard of another run."""
    return dividing.digest(
        xverify=__version__,
        editions=[(contract.id, contract.title, contract.document) for contract in options.contracts],
        implementations=[
            (
                oracle.name,
                installed_version(oracle) or MISSING,
                [path.options for path in (*oracle.paths, *oracle.surrounded)],
            )
            for oracle in options.oracles
        ],
        seed=options.seed,
        cases=options.cases,
        budget=options.budget if options.cases is None else None,
        most_cases=options.most_cases,
        division=(dividing.CASES_OF_START, dividing.CASES_PER_SECOND),
        count=options.shard.count if options.shard else 1,
    )


def write_shard(options: Options, results: Sequence[Session]) -> dict[str, Any]:
    """Write the shard's file, and return the entry ``run.shard`` of its report."""
    assert options.shard is not None
    entry = {"index": options.shard.index, "count": options.shard.count, "of": digest_of(options)}
    data = {"schema": SCHEMA, **entry, "sessions": [vars(session) for session in results]}
    partial = options.directory / f"{FILE}.partial"
    partial.write_text(json.dumps(data, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    partial.replace(options.directory / FILE)
    return entry


def copy_calls(report: Mapping[str, Any], sessions: Iterable[tuple[Session, Path]], directory: Path) -> None:
    """Copy the large calls of a report's witnesses into the ``scripts`` of its directory.

    Args:
        report: The combined report.
        sessions: Its sessions, each with the run directory that it is from.
        directory: The directory of the report.
    """
    wanted = {finding["id"]: finding["witness"] for finding in report["findings"]}
    for session, origin in sessions:
        for finding in session.report["findings"]:
            name = f"scripts/{finding['id']}.call"
            source, target = origin / session.folder / name, directory / name
            if finding["witness"] == wanted.get(finding["id"]) and source.is_file() and source != target:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)


# -- reading ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ShardResult:
    """The result of one shard, as its file holds it."""

    path: Path
    """The file."""

    shard: Shard

    of: str
    """The digest of the run."""

    sessions: tuple[Session, ...]


def read_shard(path: Path) -> ShardResult:
    """Read a shard's file.

    Raises:
        DamagedFileError: The file cannot be read, is too large, or is not the file of a shard.
    """
    data = read_json(path, MOST_BYTES)
    try:
        if data["schema"] != SCHEMA:
            raise ValueError
        index, count = int(data["index"]), int(data["count"])
        if not 1 <= index <= count <= MOST_SHARDS:
            raise ValueError
        sessions = tuple(
            Session(_folder(entry["folder"]), entry["report"], entry["beside"]) for entry in data["sessions"]
        )
        for session in sessions:
            _check(session.beside)
        return ShardResult(path, Shard(index, count), str(data["of"]), sessions)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DamagedFileError(
            f"{path} is not the file of a shard (schema {SCHEMA}), or is damaged: make the shard again"
        ) from None


def _folder(name: str) -> str:
    parts = Path(name).parts
    if parts and (len(parts) != 2 or parts[0] != SESSIONS or not parts[1].isdigit()):
        raise ValueError
    return name


def _check(beside: Mapping[str, Any]) -> None:
    """Raise an error if the facts beside a session's report are not of their types."""
    for bits in beside["codes"].values():
        if len(bits) > 64:
            raise ValueError
        int(bits, 16)
    for subject, edition, differing, due in beside["values"]:
        if not all(isinstance(text, str) for text in (subject, edition)) or not all(
            isinstance(number, int) for number in (differing, due)
        ):
            raise ValueError
    for index, count in beside["slices"].values():
        if not 0 <= index < count:
            raise ValueError
    if not all(isinstance(name, str) for name in beside["editions"]):
        raise ValueError
    for listed in beside["ways"].values():
        if not all(isinstance(departure["words"], str) for way in listed for departure in way):
            raise ValueError
    for table in beside["follows"].values():
        if not all(isinstance(follows, bool) for follows in table.values()):
            raise ValueError
    for change in beside["changes"].values():
        if not isinstance(change["description"], str) or not isinstance(change["preference"], list):
            raise ValueError


# -- merging ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Merged:
    """The report of the merged shards of a run."""

    report: dict[str, Any]

    missing: tuple[Shard, ...]
    """The shards that were not there."""

    repeated: tuple[ShardResult, ...]
    """Shards that were left out, because an equal one was there."""

    used: tuple[ShardResult, ...]


def merge(results: Sequence[ShardResult]) -> Merged:
    """Combine the shards of one run.

    Raises:
        UsageError: There is none, they are of several runs, or two results of one shard differ.
    """
    if not results:
        raise UsageError("there is no shard to merge")
    first = results[0]
    for other in results[1:]:
        if (other.of, other.shard.count) != (first.of, first.shard.count):
            raise UsageError(
                f"{other.path} and {first.path} are shards of different runs: their editions, implementations, versions, seed, "
                "cases, budget or number of shards differ"
            )
    by_shard: dict[Shard, list[ShardResult]] = defaultdict(list)
    for result in results:
        by_shard[result.shard].append(result)
    for shard, listed in by_shard.items():
        if any(_lasting(other) != _lasting(listed[0]) for other in listed[1:]):
            paths = " and ".join(str(result.path) for result in listed)
            raise UsageError(f"shard {shard} is there {len(listed)} times with different results: {paths}; keep one")
    used = tuple(by_shard[shard][0] for shard in sorted(by_shard))
    report = combined([session for result in used for session in result.sessions])
    missing = tuple(
        shard for index in range(1, first.shard.count + 1) if (shard := Shard(index, first.shard.count)) not in by_shard
    )
    if missing:
        report["run"]["complete"] = False
        report["run"]["left_out"] = [
            *report["run"]["left_out"],
            f"missing of the run's shards: {', '.join(map(str, missing))}",
        ]
    repeated = tuple(result for listed in by_shard.values() for result in listed[1:])
    return Merged(report, missing, repeated, used)


_PASSING = ("id", "command", "started", "seconds", "own_seconds", "attribution_seconds")
"""Facts about a run that differ when it is made again."""


def _lasting(result: ShardResult) -> Any:
    """The result of a shard without what differs when it is made again on the same machine."""
    return [
        (
            session.beside,
            {
                **session.report,
                "run": {
                    **{name: fact for name, fact in session.report["run"].items() if name not in _PASSING},
                    "workers": [{**row, "seconds": 0} for row in session.report["run"]["workers"]],
                },
            },
        )
        for session in result.sessions
    ]


def shard_file(path: Path) -> Path | None:
    """The shard's file of a run directory, or beside a report; None if there is none."""
    for candidate in (path / FILE, path.parent / FILE if path.name == "report.json" else path):
        if candidate.is_file() and candidate.name == FILE:
            return candidate
    return None


def unable(missing: Sequence[Shard]) -> UnableError:
    """The error that shards are missing."""
    names = ", ".join(map(str, missing[:12])) + (" and others" if len(missing) > 12 else "")
    if len(missing) == 1:
        return UnableError(f"shard {names} is missing: run it, or merge with --partial")
    return UnableError(f"shards {names} are missing: run them, or merge with --partial")
