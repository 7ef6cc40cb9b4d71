"""The report of a run as data (schema xverify.report/2).

Findings are on disk before they are announced.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from xverify import __version__
from xverify.contracts.model import Cell, Contract
from xverify.core.bits import canonical
from xverify.core.call import Call, Outcome
from xverify.core.codec import call_to_json, is_large, outcome_to_json, write_call
from xverify.core.dtypes import decimal, hexadecimal
from xverify.core.machine import MISSING, machine, versions
from xverify.core.surroundings import changes_values
from xverify.core.verdict import Verdict
from xverify.engine.characterize import characterize, followers
from xverify.engine.combine import Session, combined
from xverify.engine.events import Consumer, Event, FindingFound
from xverify.engine.state import RunState
from xverify.oracles import installed_version
from xverify.oracles.protocol import Oracle, version_of
from xverify.oracles.releases import release_of
from xverify.verify import editions
from xverify.verify.cause_titles import graph_in_words
from xverify.verify.causes import context, grouped
from xverify.verify.departures import Departure
from xverify.verify.findings import Finding, Subject
from xverify.verify.legal import legal_set
from xverify.verify.shown import shown as shown_departures
from xverify.verify.tally import CellTally
from xverify.verify.verdicts import compared, judge

SCHEMA = "xverify.report/2"
MOST_VALUES = 64
"""The largest number of a witness's wrong values in the report."""

MOST_MESSAGE = 300
"""The largest number of characters of a refusal's message in the report."""

_PACKAGES = ("numpy", "ml_dtypes", "hypothesis", "onnx", "onnxruntime", "onednn-cpu-gomp", "tensorflow-cpu", "execnet")


def write_json(path: Path, data: Any) -> None:
    """Write JSON so that the file is either the old one or the complete new one."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(data, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    os.replace(partial, path)


def on_disk_first(state: RunState, emit: Consumer) -> Consumer:
    """A consumer that writes each new finding to the run's directory before it passes the event on.

    Findings that an earlier process of the run has written are not written again.
    """
    written = written_findings(state.options.directory)

    def announce(event: Event) -> None:
        if isinstance(event, FindingFound) and event.id not in written:
            append_finding(state, state.findings.by_id(event.id))
        emit(event)

    return announce


def written_findings(directory: Path) -> set[str]:
    """The ids of the findings in ``findings.jsonl``. The file is cut after its last complete line."""
    path, identities, end = directory / "findings.jsonl", set(), 0
    if not path.exists():
        return set()
    content = path.read_bytes()
    for line in content.splitlines(keepends=True):
        try:
            identity = str(json.loads(line)["id"])
        except (ValueError, KeyError, TypeError):
            break
        if not line.endswith(b"\n"):
            break
        identities.add(identity)
        end += len(line)
    if end < len(content):
        os.truncate(path, end)
    return identities


def append_finding(state: RunState, finding: Finding) -> None:
    """Append a finding in its present state to the run's ``findings.jsonl``, and flush it to the disk."""
    with (state.options.directory / "findings.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(_finding(state, finding), ensure_ascii=False, allow_nan=False) + "\n")
        file.flush()
        os.fsync(file.fileno())


def result_of(state: RunState) -> Session:
    """The result of a session: a report without causes, and the facts that `combine` needs beside it."""
    state.pool.announce()  # a worker may have been lost since
    result = {
        "schema": SCHEMA,
        "run": _run(state),
        "editions": [_edition(state, contract) for contract in state.options.contracts],
        "coverage": {
            "cases": sum(state.cases_by_phase.values()),
            "values": state.values,
            "cells": _cells(state),
            "trust": state.coverage.report(contract.domain for contract in state.options.contracts),
        },
        "findings": [_finding(state, finding) for finding in state.findings.sorted()],
    }
    return Session("", result, _beside(state))


def report(state: RunState) -> dict[str, Any]:
    """The whole report of a run of one session."""
    return combined([result_of(state)])


def _beside(state: RunState) -> dict[str, Any]:
    """Facts about a session's editions that make sense only with those of the others."""
    findings = state.findings.sorted()
    values: Counter[tuple[str, str]] = Counter()
    differing: Counter[tuple[str, str]] = Counter()
    for (subject, cell), tally in state.tally.cells.items():
        values[subject.name, cell.contract] += tally.due
        differing[subject.name, cell.contract] += tally.wrong + tally.unreadable_values
    return {
        "editions": [contract.id for contract in state.options.editions],
        "slices": {
            contract.id: [state.options.part(contract).slice.index, state.options.part(contract).slice.count]
            for contract in state.options.contracts
        },
        "codes": state.coverage.codes(),
        "values": [[*key, differing[key], values[key]] for key in sorted(values)],
        "ways": {f.id: [[_departure(d) for d in way] for way in f.ways] for f in findings if f.ways},
        "follows": {
            f.id: {other.id: other.id in f.follows for other in editions.neighbours(state.contract_of(f))}
            for f in findings
            if f.key.verdict == Verdict.NOT_FOLLOWED
        },
        "changes": {
            f.id: {"description": f.description, "preference": list(f.preference)} for f in findings if f.description
        },
    }


def shown_first(state: RunState) -> set[str]:
    """The ids of the findings whose witnesses stand for a cause."""
    findings = [_finding(state, finding, with_values=False) for finding in state.findings.sorted()]
    editions_of_run = [_edition(state, contract) for contract in state.options.contracts]
    groups = grouped(findings, context(editions_of_run, _workers(state), []))
    return {group[0]["id"] for group in groups.values()}


def _run(state: RunState) -> dict[str, Any]:
    options = state.options
    return {
        "id": options.run_id,
        "command": options.command,
        "seed": options.seed,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(state.started)),
        "seconds": round(state.elapsed(), 1),
        "own_seconds": {purpose: round(seconds, 1) for purpose, seconds in state.timer.seconds().items()},
        "attribution_seconds": round(state.tally.attribution_seconds(), 1),
        "budget": options.budget,
        "cases": options.cases,
        "complete": state.complete,
        "versions": {
            "xverify": __version__,
            "python": platform.python_version(),
            **versions(_PACKAGES),
            **_versions_beside(state.pool.oracles.values()),
        },
        "machine": machine(),
        "phases": dict(sorted(state.cases_by_phase.items())),
        "workers": _workers(state),
        "left_out": [*options.left_out, *state.troubles],
    }


def versions_of(oracles: Sequence[Oracle]) -> dict[str, str]:
    """The versions of all that answers or judges calls, also in other environments."""
    elsewhere = {oracle.name: installed_version(oracle) or MISSING for oracle in oracles if oracle.python}
    here = {"xverify": __version__, "python": platform.python_version(), **versions(_PACKAGES)}
    return {**here, **_versions_beside(oracles), **elsewhere}


def _versions_beside(oracles: Iterable[Oracle]) -> dict[str, str]:
    """Versions of the other packages that implementations in this environment run on."""
    here = (oracle for oracle in oracles if not oracle.python)
    named = (name for oracle in here for name in (oracle.distribution, *oracle.distributions, *oracle.needs))
    wanted = dict.fromkeys(name for name in named if name not in ("", "xverify", *_PACKAGES))
    return {name: version for name in wanted if (version := version_of(name))}


def _workers(state: RunState) -> list[dict[str, Any]]:
    rows = []
    for name, worker in state.pool.workers.items():
        status = state.pool.failures.get(name, "answered")
        version = state.pool.subjects[name][0].version
        options = ", ".join(s.options for s in state.pool.subjects[name] if s.options)
        rows.append(
            {
                "name": name,
                "version": version,
                "options": options,
                "calls": worker.calls,
                "seconds": round(worker.seconds, 2),
                "restarts": worker.restarts,
                "spared": sum(n for label, n in state.spared_calls.items() if label.partition("[")[0] == name),
                "status": status,
                "family": state.pool.oracles[name].kernels,
                "in_house": state.pool.oracles[name].in_house,
                **_claim(state, state.pool.oracles[name], version),
            }
        )
    return rows


def _claim(state: RunState, oracle: Oracle, version: str) -> dict[str, Any]:
    """The fields of a worker in the report that name its documents and its release."""
    release = release_of(oracle, version)
    judged_by = [contract.id for contract in state.options.contracts if state.pool.judges(contract, oracle.name)]
    return {
        **({"claim": oracle.claim} if oracle.claim else {}),
        "judged_by": judged_by,
        **({"release": release} if release else {}),
    }


def _edition(state: RunState, contract: Contract) -> dict[str, Any]:
    readings: dict[str, str] = {}
    for reading in state.readings_of(contract):
        readings[reading.name] = reading.words
    return {
        "id": contract.id,
        "title": contract.title,
        "document": contract.document,
        "clauses": [
            {
                "id": clause.id,
                "text": clause.text,
                "document": clause.document,
                "note": clause.note,
                "tested": state.clause_cases[clause.id],
                **followers(state, contract, clause.id),
            }
            for clause in contract.clauses.values()
        ],
        "readings": [{"name": name, "words": words} for name, words in readings.items()],
    }


def cell_to_json(cell: Cell) -> dict[str, str]:
    """A cell by its fields."""
    return {
        "contract": cell.contract,
        "x_dtype": cell.x_dtype,
        "scale_dtype": cell.scale_dtype,
        "zero_point_dtype": cell.zero_point_dtype,
        "out_dtype": cell.out_dtype,
        "granularity": cell.granularity,
        "variant": cell.variant,
    }


def _cells(state: RunState) -> list[dict[str, Any]]:
    rows = []
    for (subject, cell), tally in state.tally.ordered():
        reading = [] if tally.wrong or not tally.answered else list(tally.alive or ())
        status = state.tally.status(subject, cell)
        rows.append(
            {
                **cell_to_json(cell),
                "subject": subject.label,
                "cases": tally.cases,
                "values": tally.values,
                "status": status,
                "reading": reading,
                **_refusal(tally),
                **characterize(state, cell, tally),
            }
        )
    return rows


def _refusal(tally: CellTally) -> dict[str, Any]:
    """The field "refusal" of a cell in the report: the smallest allowed call that was refused."""
    if tally.refused is None:
        return {}
    outcome = tally.refused[1]
    message = " ".join(outcome.message.split())[:MOST_MESSAGE]
    return {"refusal": {"error": outcome.error, "message": message, "all": not (tally.answered or tally.unreadable)}}


def _finding(state: RunState, finding: Finding, with_values: bool = True) -> dict[str, Any]:
    """A finding as data. Without values, its witness has no tensors and no legal values."""
    call, subject = finding.call, finding.subject
    cells = sorted(finding.cells)
    head = _witness_scalars(state, finding)
    by = finding.attribution
    return {
        "id": finding.id,
        "verdict": finding.key.verdict,
        "contract": finding.key.contract,
        "clause": finding.key.clause,
        "subject": {
            "name": subject.name,
            "version": subject.version,
            "role": subject.role,
            "options": subject.options,
            "paths": sorted(finding.paths),
            "family": _family(state, subject),
        },
        **head,
        "cells": [cell_to_json(cell) for cell in cells],
        "attribution": None
        if by is None
        else {
            "reading": by.reading,
            "words": by.words,
            "explained_values": by.explained,
            "values": by.values,
            "departures": [_departure(d) for d in finding.departures],
            **(
                {}
                if by.elsewhere is None
                else {"elsewhere": dict(zip(("reading", "words"), by.elsewhere, strict=True))}
            ),
        },
        "region": None if finding.region is None else {"name": finding.region.name, "words": finding.region.words},
        "ulp_histogram": [
            {"from": low, "to": 2 * low - 1 if low > 0 else low, "count": finding.histogram[low]}
            for low in (sorted(finding.histogram) if by is None else ())
        ],
        "followed": [
            {"subject": label, "contract": edition, "values": values, "of": finding.followed[label, ""]}
            for (label, edition), values in sorted(finding.followed.items())
            if edition
        ],
        "detail": finding.key.detail,
        "words": finding.words,
        "cases": finding.cases,
        "values": finding.values,
        "max_ulp": finding.max_ulp,
        **({"range_places": finding.range_places} if finding.range_places > 0 else {}),
        "witness": None if call is None else _witness(state, finding, call, with_values),
        **(
            {}
            if finding.survives_without_breach is None
            else {"survives_without_breach": finding.survives_without_breach}
        ),
        **({"unconfirmed": True} if finding.unconfirmed else {}),
        **({"needs": finding.needs} if finding.needs else {}),
        **({"lowest": finding.lowest} if finding.lowest else {}),
        **({"rewrite": finding.rewrite} if finding.rewrite else {}),
        "others": [{"name": name, "outcome": text} for name, text in finding.others],
        "reference": None if finding.reference is None else finding.reference.label,
        "readings": list(finding.readings),
        **({} if finding.change is None else {"change": asdict(finding.change)}),
        "shrunk": finding.shrunk,
        "reproduce": f"scripts/{finding.id}.py" if call is not None else "",
        "known": False,
        "summary": _summary(state, finding),
    }


def _departure(departure: Departure) -> dict[str, str]:
    words = {"stage": departure.stage, "is": departure.actual, "instead": departure.due, "words": departure.words}
    return {**words, "clause": departure.clause} if departure.clause else words


def _family(state: RunState, subject: Subject) -> str:
    """The implementation whose kernels a subject runs; an edition's own id."""
    oracle = state.pool.oracles.get(subject.name)
    return subject.name if oracle is None else oracle.kernels


def _summary(state: RunState, finding: Finding) -> str:
    """The finding in a sentence, with the rest of its cells and the surroundings of its witness."""
    if finding.key.verdict == Verdict.NOT_FOLLOWED:  # shrinking leaves the words, which have the counts of all calls
        return f"{finding.key.subject} {finding.words}"
    summary = finding.summary + _rest_of_cells(state, finding)
    around = finding.call.around if finding.call is not None else ()
    words = graph_in_words(around, finding.subject.options, finding.lowest, finding.rewrite)
    return f"{summary}; in a graph: {words}" if words else summary


def _rest_of_cells(state: RunState, finding: Finding) -> str:
    """For a refused call: the treatment of the other calls of its cells, as the end of a sentence."""
    if finding.key.verdict != Verdict.WRONGLY_REJECTED:
        return ""
    tallies: dict[Cell, list[CellTally]] = {}
    for (subject, cell), tally in state.tally.cells.items():
        if subject.name == finding.key.subject and cell in finding.cells:
            tallies.setdefault(cell, []).append(tally)
    answering = [cell for cell, listed in tallies.items() if any(tally.answered for tally in listed)]
    if not answering:
        several = sum(tally.cases for listed in tallies.values() for tally in listed) > len(tallies)
        return f", and it answers no call of the same cell{'s' if len(tallies) > 1 else ''}" if several else ""
    if len(tallies) == 1:
        return ", though it answers others of the same cell"
    which = "the same" if len(answering) == len(tallies) else f"{len(answering)} of these {len(tallies)}"
    return f", though it answers others of {which} cells"


def _witness_scalars(state: RunState, finding: Finding) -> dict[str, str]:
    call = finding.call
    if call is None:
        return dict.fromkeys(("x_dtype", "scale_dtype", "out_dtype", "granularity", "variant"), "")
    contract = state.contract_of(finding)
    if contract.judge(call).verdict == "forbidden":
        scale = call.tensors.get("scale") or call.tensors.get("min_range")
        return {
            "x_dtype": call.data.dtype,
            "scale_dtype": scale.dtype if scale is not None else "",
            "out_dtype": "",
            "granularity": "",
            "variant": "",
        }
    cell = contract.cell(call)
    return {
        "x_dtype": cell.x_dtype,
        "scale_dtype": cell.scale_dtype,
        "out_dtype": cell.out_dtype,
        "granularity": cell.granularity,
        "variant": cell.variant,
    }


def _witness(state: RunState, finding: Finding, call: Call, with_values: bool) -> dict[str, Any]:
    if not with_values:
        got = None if finding.outcome is None else {"message": finding.outcome.message}
        return {"call": {"around": list(call.around)}, "got": got, "legal": []}
    file = ""
    contract = state.contract_of(finding)
    sent = call.under(contract.asked_as)  # as the implementation got it, for scripts and replays
    if is_large(call):
        file = f"{finding.id}.call"
        directory = state.options.scripts or state.options.directory / "scripts"
        directory.mkdir(parents=True, exist_ok=True)
        write_call(sent, directory / file)
    outcome = finding.outcome
    return {
        "call": call_to_json(sent, f"scripts/{file}" if file else ""),
        "got": None if outcome is None else outcome_to_json(outcome),
        "legal": [] if outcome is None else legal_entries(contract, call, outcome, finding),
        **({"in_graph": True} if changes_values(call) else {}),
    }


def legal_entries(contract: Contract, call: Call, outcome: Outcome, finding: Finding) -> list[dict[str, Any]]:
    """The wrong values of an outcome, each with its legal codes, and the departures that it shows.

    Departures are told apart only if the recipe has several. If there are no wrong values, the entries are the flushed ones; if
    there are none of those, the values that differ from the first reading.
    """
    judged = judge(contract, call)
    legal, got = judged.legal, outcome.tensor
    comparison = compared(judged, outcome)
    if legal is None or got is None or comparison is None:
        return []
    shown = comparison.wrong if comparison.wrong.any() else comparison.flushed
    if not shown.any():
        shown = np.asarray(canonical(got.codes, got.dtype) != legal.codes(0))
    masks = shown_departures(judged, outcome, finding.attribution.reading) if finding.attribution is not None else {}
    entries = []
    for flat in np.flatnonzero(shown)[:MOST_VALUES]:
        index = tuple(int(i) for i in np.unravel_index(int(flat), legal.shape))
        code = int(got.codes[index])
        admitted: dict[int, list[str]] = {}
        for number, reading in enumerate(legal.readings):
            admitted.setdefault(int(legal.codes(number)[index]), []).append(reading.name)
        if legal.in_graph:
            admitted = {int(codes[index]): [legal.readings[0].name] for codes in legal.distinct}
        entries.append(
            {
                "index": list(index),
                "got": hexadecimal(got.dtype, code),
                "got_decimal": decimal(got.dtype, code),
                "legal": [
                    {"hex": hexadecimal(legal.dtype, c), "decimal": decimal(legal.dtype, c), "readings": names}
                    for c, names in admitted.items()
                ],
                **({"departures": [token for token, mask in masks.items() if mask[index]]} if masks else {}),
            }
        )
    return entries


def describe(outcome: Outcome, most: int = 4) -> str:
    """An outcome in a few words: the first values in decimal and hex, or the refusal."""
    if outcome.tensor is None:
        return f"{outcome.kind}: {outcome.error}" if outcome.error else outcome.kind
    codes = [int(code) for code in outcome.tensor.codes.reshape(-1)[:most]]
    dtype = outcome.tensor.dtype
    shown = ", ".join(f"{decimal(dtype, c)} ({hexadecimal(dtype, c)})" for c in codes)
    more = ", ..." if outcome.tensor.size > most else ""
    return f"{dtype} [{shown}{more}]" if codes else f"{dtype}, empty"


def ask_others(state: RunState, finding: Finding) -> list[tuple[str, str]]:
    """The outcomes of the other implementations for the witness; for a conflict also the edition's own."""
    call = finding.call
    if call is None:
        return []
    others = []
    in_graph = changes_values(call)
    for oracle in state.pool.answering(finding.key.contract):
        # A path that makes no graphs gives the result of the lone call.
        paths = state.pool.surrounded[oracle.name][-1:] if in_graph else state.pool.subjects[oracle.name]
        if not paths:
            continue
        subject: Subject = paths[0]
        if subject.name != finding.key.subject:
            outcome = state.pool.ask(subject, call)
            if outcome.kind != "unasked":
                others.append((subject.label, describe(outcome)))
    if finding.key.verdict == "conflict":
        contract = state.contract_of(finding)
        if contract.judge(call).verdict == "allowed":
            own = editions.by_formula(contract, legal_set(contract, call))
            others.insert(0, (contract.id, describe(own)))
    return others
