"""A certificate again: a sample of what is proven, and every counterexample, asked of the implementation as it is now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xverify.certify.bulk import Bulk, Through
from xverify.certify.certificate import changed, domain_of, proven_of, triples
from xverify.certify.domains import Columns, Domain, triples_of_unit
from xverify.certify.identity import subject, versions
from xverify.certify.judging import Judge
from xverify.certify.listing import grouped
from xverify.certify.ranges import Ranges
from xverify.certify.subjects import readings_of, subject_named, through_of
from xverify.certify.witness import counterexample, in_words, is_tensor
from xverify.core.errors import DamagedFileError, UsageError
from xverify.core.machine import machine
from xverify.engine.select import is_file, require_plain_name
from xverify.environments import naming
from xverify.environments.installers import Say
from xverify.oracles import all_oracles
from xverify.oracles.protocol import Oracle
from xverify.workers.process import Limits

SAMPLE = 1 << 20
"""Triples that are drawn; all, where no more are proven."""

WINDOW = 1 << 12
"""Triples of one draw: neighbours, so that a draw costs little."""


@dataclass(frozen=True)
class Again:
    """state: HOLDS, FIXED, STILL or CHANGED; summary: of what, in a sentence."""

    state: str
    summary: str


def subject_of(certificate: Mapping[str, Any], target: str | None, say: Say) -> Oracle:
    """The implementation that is asked again. Raises UsageError: a user's kernel runs only when the user names it."""
    name = certificate["subject"]["name"]
    if target is not None:
        return subject_named(target, say)
    parts = naming.parse_or_none(name)
    if parts is None or parts.name not in all_oracles():
        raise UsageError(f"the kernel {name} is run only when it is named: add --kernel TARGET")
    require_plain_name(name, "--kernel", "the certificate")
    return subject_named(name, say)


def replay(
    certificate: Mapping[str, Any], oracle: Oracle, contract: str | None, directory: Path, seed: int = 0
) -> Iterator[Again]:
    """Ask a sample of what is proven, drawn by ``seed``, and each counterexample. contract: a file of the user's that defines the
    edition, if it is none of ours. Raises UsageError and WorkerFailedError."""
    domain = domain_of(certificate["domain"])
    granularity, out = certificate["through"]["granularity"], certificate["domain"]["out_dtype"]
    if contract is None and is_file(certificate["contract"]):
        raise UsageError(f"the edition {certificate['contract']} is read only when it is named: add --contract FILE")
    through = through_of(oracle, contract or certificate["contract"], domain, granularity, out)
    judge = Judge(domain, out, readings_of(through))
    explaining = tuple(certificate["readings"]["explain"])
    if others := set(explaining) - set(judge.readings):
        raise UsageError(
            f"the certificate is of an edition that admits {', '.join(sorted(others))}; "
            f"{through.contract.id} admits {', '.join(judge.readings)}"
        )
    for entry in certificate["counterexamples"]:
        if entry["range"][1] - entry["range"][0] > through.units_of_request:
            raise DamagedFileError(
                "the certificate is damaged: a counterexample's range is longer than what is asked at once"
            )
    bulk = Bulk(oracle, through, directory, Limits())
    bulk.start()
    try:
        proven = proven_of(certificate)
        if proven:
            yield _sample(certificate, bulk, judge, _drawn(domain, proven, seed), seed)
        for entry in certificate["counterexamples"]:
            yield _again(entry, bulk, judge, explaining)
    finally:
        bulk.stop()


def _sample(certificate: Mapping[str, Any], bulk: Bulk, judge: Judge, drawn: Columns, seed: int) -> Again:
    through, oracle = bulk.through, bulk.oracle
    names = tuple(certificate["readings"]["explain"])
    for columns in _requests(drawn, through):
        outcome, y = bulk.ask(columns)
        if not is_tensor(outcome) or not judge.explaining(names, columns, y, whole=False):
            entry = counterexample(bulk, judge, names, 0, (0, 1), columns, outcome, y)
            return Again("CHANGED", f"{oracle.name}: {in_words(entry, where=False)}")
    found = bulk.sources()
    now = {
        **certificate,
        "subject": subject(oracle, found.files),
        "versions": versions(bulk.worker.versions, found.versions),
        "machine": machine(),
    }
    since = changed(certificate, now)
    proven = certificate["counts"]["proven"]
    sample = "all of" if drawn.size >= proven else f"drawn by seed {seed} of"
    words = f"{oracle.name}: {grouped(drawn.size)} triples again, {sample} {grouped(proven)} proven by the reading {names[0]}"
    return Again("HOLDS", f"{words}; but since then {'; '.join(since)}" if since else words)


def _again(entry: Mapping[str, Any], bulk: Bulk, judge: Judge, names: tuple[str, ...]) -> Again:
    """names: the readings that explain what is proven: a counterexample is fixed if it goes with that."""
    columns = bulk.through.domain.columns(entry["slice"], *entry["range"])
    outcome, y = bulk.ask(columns)
    if is_tensor(outcome) and judge.explaining(names, columns, y, whole=False):
        return Again("FIXED", in_words(entry))
    now = counterexample(bulk, judge, names, entry["slice"], tuple(entry["range"]), columns, outcome, y)
    is_same = all(now[part] == entry[part] for part in ("kind", "triple", "got"))
    return Again("STILL" if is_same else "CHANGED", in_words(now))


def _requests(columns: Columns, through: Through) -> Iterator[Columns]:
    step = through.columns_of_request
    for first in range(0, columns.scale.size, step):
        yield columns.some(slice(first, first + step), slice(None))


def _drawn(domain: Domain, proven: Mapping[int, Ranges], seed: int) -> Columns:
    """Columns of `SAMPLE` triples, drawn evenly from all that are proven, or of all."""
    if triples(domain, proven) <= SAMPLE:
        return _joined([domain.columns(part, *units) for part, listed in proven.items() for units in listed])
    random = np.random.default_rng(seed)
    places = [(part, units) for part, listed in proven.items() for units in listed]
    weights = np.array([float(stop - start) for _, (start, stop) in places])
    wide = max(1, WINDOW // triples_of_unit(domain))  # units of a window, or columns of one unit
    columns = max(1, min(domain.columns_of_unit, WINDOW // domain.codes))
    found = []
    for number in random.choice(len(places), max(1, SAMPLE // max(WINDOW, domain.codes)), p=weights / weights.sum()):
        part, (start, stop) = places[number]
        first = int(random.integers(start, max(start + 1, stop - wide + 1)))
        window = domain.columns(part, first, min(stop, first + wide))
        if wide == 1:
            begin = int(random.integers(0, window.scale.size - columns + 1))
            window = window.some(slice(begin, begin + columns), slice(None))
        found.append(window)
    return _joined(found)


def _joined(parts: list[Columns]) -> Columns:
    x = parts[0].x if len(parts[0].x) == 1 and parts[0].shape[1] > 1 else np.concatenate([part.x for part in parts])
    zero_points = [part.zero_point for part in parts if part.zero_point is not None]
    return Columns(
        x, np.concatenate([part.scale for part in parts]), np.concatenate(zero_points) if zero_points else None
    )
