"""A certificate run again: a sample of its proven triples, and every counterexample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from xverify.core.errors import DamagedFileError, UnableError, UsageError
from xverify.core.machine import machine
from xverify.engine.replay import Replayed
from xverify.engine.select import is_file, require_plain_name
from xverify.environments import naming
from xverify.environments.installers import Say
from xverify.oracles import all_oracles
from xverify.oracles.protocol import Oracle
from xverify.workers.process import Limits

SAMPLE = 1 << 20
"""Triples in the sample at most."""

WINDOW = 1 << 12
"""Neighbouring triples in one draw, so that a draw costs little."""


def subject_of(certificate: Mapping[str, Any], target: str | None, say: Say) -> Oracle:
    """The implementation to replay a certificate with.

    Args:
        target: The implementation that the user named, if any.

    Raises:
        UsageError: The certificate is on a user's kernel, which runs only when the user names it.
    """
    name = certificate["subject"]["name"]
    if target is not None:
        return subject_named(target, say)
    parts = naming.parse_or_none(name)
    if parts is None or parts.name not in all_oracles():
        raise UsageError(f"the kernel {name} is run only when it is named: add --kernel TARGET")
    require_plain_name(name, "--kernel", "the certificate")
    return subject_named(name, say)


def replay_certificate(
    certificate: Mapping[str, Any], oracle: Oracle, contract: str | None, directory: Path, seed: int = 0
) -> Iterator[Replayed]:
    """Run a sample of the proven triples and each counterexample again.

    Args:
        contract: A file of the user's that defines the edition, if it is not built in.
        directory: Where the worker keeps its files.
        seed: Draws the sample.

    Raises:
        UsageError: The edition is not the certificate's, or is in a file that the user did not name.
        UnableError: The certificate proves nothing and has no counterexample.
        WorkerFailedError: The implementation cannot be run.
    """
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
    proven = proven_of(certificate)
    if not proven and not certificate["counterexamples"]:
        raise UnableError("the certificate proves nothing and has no counterexample: there is nothing to ask again")
    bulk = Bulk(oracle, through, directory, Limits())
    bulk.start()
    try:
        if proven:
            yield _sample(certificate, bulk, judge, _drawn(domain, proven, seed), seed)
        for entry in certificate["counterexamples"]:
            yield _replay_counterexample(entry, bulk, judge, explaining)
    finally:
        bulk.stop()


def _sample(certificate: Mapping[str, Any], bulk: Bulk, judge: Judge, drawn: Columns, seed: int) -> Replayed:
    through, oracle = bulk.through, bulk.oracle
    names = tuple(certificate["readings"]["explain"])
    for columns in _requests(drawn, through):
        outcome, y = bulk.ask(columns)
        if not is_tensor(outcome) or not judge.explaining(names, columns, y, whole=False):
            entry = counterexample(bulk, judge, names, 0, (0, 1), columns, outcome, y)
            return Replayed("CHANGED", f"{oracle.name}: {in_words(entry, where=False)}")
    sources = bulk.sources()
    now = {
        **certificate,
        "subject": subject(oracle, sources.files),
        "versions": versions(bulk.worker.versions, sources.versions),
        "machine": machine(),
    }
    since = changed(certificate, now)
    proven = certificate["counts"]["proven"]
    sample = "all of" if drawn.size >= proven else f"drawn by seed {seed} of"
    words = f"{oracle.name}: {grouped(drawn.size)} triples again, {sample} {grouped(proven)} proven by the reading {names[0]}"
    return Replayed("HOLDS", f"{words}; but since then {'; '.join(since)}" if since else words)


def _replay_counterexample(entry: Mapping[str, Any], bulk: Bulk, judge: Judge, names: tuple[str, ...]) -> Replayed:
    """Run a counterexample again.

    It is fixed if the readings ``names``, which explain the proven triples, explain it too.
    """
    columns = bulk.through.domain.columns(entry["slice"], *entry["range"])
    outcome, y = bulk.ask(columns)
    if is_tensor(outcome) and judge.explaining(names, columns, y, whole=False):
        return Replayed("FIXED", in_words(entry))
    now = counterexample(bulk, judge, names, entry["slice"], tuple(entry["range"]), columns, outcome, y)
    parts = ("kind",) if entry["triple"] is None else ("kind", "triple", "got")
    is_same = all(now[part] == entry[part] for part in parts)
    return Replayed("STILL" if is_same else "CHANGED", in_words(now))


def _requests(columns: Columns, through: Through) -> Iterator[Columns]:
    step = through.columns_of_request
    for first in range(0, columns.scale.size, step):
        yield columns.some(slice(first, first + step), slice(None))


def _drawn(domain: Domain, proven: Mapping[int, Ranges], seed: int) -> Columns:
    """Columns of `SAMPLE` triples, drawn evenly from the proven ones; all of them if there are no more."""
    if triples(domain, proven) <= SAMPLE:
        return _joined([domain.columns(part, *units) for part, listed in proven.items() for units in listed])
    random = np.random.default_rng(seed)
    spans = [(part, units) for part, listed in proven.items() for units in listed]
    weights = np.array([float(stop - start) for _, (start, stop) in spans])
    wide = max(1, WINDOW // triples_of_unit(domain))  # units of a window, or columns of one unit
    columns = max(1, min(domain.columns_of_unit, WINDOW // domain.codes))
    windows = []
    for number in random.choice(len(spans), max(1, SAMPLE // max(WINDOW, domain.codes)), p=weights / weights.sum()):
        part, (start, stop) = spans[number]
        first = int(random.integers(start, max(start + 1, stop - wide + 1)))
        window = domain.columns(part, first, min(stop, first + wide))
        if wide == 1:
            begin = int(random.integers(0, window.scale.size - columns + 1))
            window = window.some(slice(begin, begin + columns), slice(None))
        windows.append(window)
    return _joined(windows)


def _joined(parts: list[Columns]) -> Columns:
    x = parts[0].x if len(parts[0].x) == 1 and parts[0].shape[1] > 1 else np.concatenate([part.x for part in parts])
    zero_points = [part.zero_point for part in parts if part.zero_point is not None]
    return Columns(
        x, np.concatenate([part.scale for part in parts]), np.concatenate(zero_points) if zero_points else None
    )
