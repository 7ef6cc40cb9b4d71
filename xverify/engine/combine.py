"""Combination of the sessions of a run, of one process or of several shards, into its report.

What a session says about a part of an edition depends on that part alone. Everything that depends on several editions is
decided here, from data: so the report does not depend on how the parts were grouped into sessions and shards.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xverify.core.verdict import Verdict
from xverify.engine.conclude import not_followed_in_words
from xverify.engine.coverage import trust
from xverify.engine.folding import (
    TYPES,
    Json,
    folded,
    joined,
    merged_cells,
    merged_edition,
    merged_findings,
    own_seconds,
    versions_of,
    with_processors,
)
from xverify.verify.cause_keys import departure_token
from xverify.verify.causes import causes_of


@dataclass(frozen=True)
class Session:
    """The result of one session."""

    folder: str
    """The folder of its large calls, below the run's directory; "" for the directory itself."""

    report: Json
    """A report about the session's editions, without causes."""

    beside: Json
    """Facts about its editions that make sense only together with those of the run's other editions."""


def combined(sessions: Sequence[Session]) -> dict[str, Any]:
    """The report of a run.

    Args:
        sessions: The sessions of the run, or of one shard. No slice of an edition is in two of them.
    """
    sessions = sorted(sessions, key=_place)
    reports = with_processors([session.report for session in sessions])
    parts: dict[str, list[Json]] = defaultdict(list)
    for report in reports:
        for edition in report["editions"]:
            parts[edition["id"]].append(_only(report, edition["id"]))
    order = [name for name in _order_of_editions(sessions) if name in parts]
    cells = [cell for name in order for cell in _cells_of(parts[name])]
    findings = [finding for name in order for finding in _findings_of(parts[name])]
    findings = _changes_over_editions(findings, sessions)
    for finding in findings:
        _say_who_is_followed(finding, sessions)
    findings.sort(key=lambda f: (f["subject"]["name"], f["contract"], f["verdict"], f["id"]))
    _settle_departures(findings, sessions)
    whole = {
        "schema": reports[0]["schema"],
        "run": _run([report["run"] for report in reports], order),
        "editions": [_edition_of(parts[name]) for name in order],
        "coverage": {
            "cases": sum(report["coverage"]["cases"] for report in reports),
            "values": sum(report["coverage"]["values"] for report in reports),
            "cells": sorted(cells, key=lambda cell: (*(cell[name] for name in TYPES), cell["subject"])),
            "trust": _trust(sessions),
        },
        "findings": findings,
    }
    return {**whole, "causes": causes_of(whole)}


def _place(session: Session) -> tuple[Any, ...]:
    """A sort key that does not depend on shards: the slices of a session."""
    return (sorted((index, name) for name, (index, _) in session.beside["slices"].items()),)


def _order_of_editions(sessions: Sequence[Session]) -> list[str]:
    return list(dict.fromkeys(name for session in sessions for name in session.beside["editions"]))


def _only(report: Json, edition: str) -> Json:
    """The part of a report that is about one edition."""
    return {
        **report,
        "editions": [entry for entry in report["editions"] if entry["id"] == edition],
        "coverage": {
            **report["coverage"],
            "cells": [cell for cell in report["coverage"]["cells"] if cell["contract"] == edition],
        },
        "findings": [finding for finding in report["findings"] if finding["contract"] == edition],
    }


def _cells_of(reports: Sequence[Json]) -> Sequence[Json]:
    """The cells of an edition, from a report about each slice."""
    if len(reports) == 1:
        cells: Sequence[Json] = reports[0]["coverage"]["cells"]
        return cells
    return merged_cells(reports, versions_of(reports))


def _findings_of(reports: Sequence[Json]) -> list[dict[str, Any]]:
    if len(reports) == 1:
        return [dict(finding) for finding in reports[0]["findings"]]
    return merged_findings(reports)


def _edition_of(reports: Sequence[Json]) -> Json:
    listed = [report["editions"][0] for report in reports]
    return listed[0] if len(listed) == 1 else merged_edition(listed)


# -- what depends on several editions -----------------------------------------------------------------------


def _changes_over_editions(findings: Sequence[dict[str, Any]], sessions: Sequence[Session]) -> list[dict[str, Any]]:
    """Make one finding of each change between versions that shows under several editions."""
    about = {name: entry for session in sessions for name, entry in session.beside["changes"].items()}
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for finding in findings:
        groups[about[finding["id"]]["description"] if finding["id"] in about else finding["id"]].append(finding)
    return [
        folded(listed, min(listed, key=lambda finding: about[finding["id"]]["preference"]))
        if len(listed) > 1
        else listed[0]
        for listed in groups.values()
    ]


def _say_who_is_followed(finding: dict[str, Any], sessions: Sequence[Session]) -> None:
    """Write the words of a finding on an edition that an implementation need not follow, and does not."""
    if finding["verdict"] != Verdict.NOT_FOLLOWED:
        return
    values: dict[str, Counter[str]] = {"differing": Counter(), "due": Counter()}
    name, follows = finding["subject"]["name"], Counter[str]()
    for session in sessions:
        for subject, edition, differing, due in session.beside["values"]:
            if subject == name:
                values["differing"][edition] += differing
                values["due"][edition] += due
        follows.update({k: not v for k, v in session.beside["follows"].get(finding["id"], {}).items()})

    def counts(edition: str) -> tuple[int, int]:
        return values["differing"][edition], values["due"][edition]

    edition = finding["contract"]
    neighbours = {other: counts(other) for other in follows}
    finding["words"] = not_followed_in_words(
        edition, counts(edition), neighbours, [other for other, against in follows.items() if not against]
    )
    finding["summary"] = f"{name} {finding['words']}"


def _settle_departures(findings: Sequence[dict[str, Any]], sessions: Sequence[Session]) -> None:
    """Choose the departures of every finding with a recipe, as `departing` does in one session."""
    ways: dict[str, list[Any]] = defaultdict(list)
    for session in sessions:
        for name, listed in session.beside["ways"].items():
            ways[name] += [way for way in listed if way not in ways[name]]
    families: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for finding in findings:
        if finding["attribution"] is not None and ways.get(finding["id"]):
            families[finding["subject"].get("family", "")].append(finding)
    for members in families.values():
        counts = Counter(
            each for finding in members for each in {departure_token(d) for way in ways[finding["id"]] for d in way}
        )
        for finding in members:

            def preference(way: Sequence[Json], counts: Counter[str] = counts) -> tuple[int, int]:
                return len(way), -sum(counts[departure_token(departure)] for departure in way)

            chosen = min(ways[finding["id"]], key=preference)
            finding["attribution"] = {**finding["attribution"], "departures": chosen}


def _trust(sessions: Sequence[Session]) -> dict[str, object]:
    """Counts of what the calls contained, and the names of what they could contain but did not."""
    met: Counter[str] = Counter()
    possible: set[str] = set()
    codes: dict[str, int] = defaultdict(int)
    for session in sessions:
        listed = session.report["coverage"]["trust"]
        met.update({name: count for name, count in listed["met"].items() if not name.startswith("codes of ")})
        possible |= {*listed["met"], *listed["not_met"]}
        for dtype, bits in session.beside["codes"].items():
            codes[dtype] |= int(bits, 16)
    counts = {dtype: bits.bit_count() for dtype, bits in codes.items()}
    return trust(met, possible, counts)


# -- the header ---------------------------------------------------------------------------------------------


def _run(runs: Sequence[Json], order: Sequence[str]) -> dict[str, Any]:
    """The header of a run of several sessions."""
    first = min(runs, key=lambda run: (run["started"], run["id"]))
    if len(runs) == 1:
        return dict(first)
    return {
        **first,
        "seconds": round(math.fsum(run["seconds"] for run in runs), 1),
        **own_seconds(runs),
        "attribution_seconds": round(math.fsum(run.get("attribution_seconds", 0) for run in runs), 1),
        "complete": all(run["complete"] for run in runs),
        "versions": _each(joined, [run["versions"] for run in runs]),
        "machine": _each(joined, [run["machine"] for run in runs]),
        "phases": dict(sorted(_each(sum, [run["phases"] for run in runs]).items())),
        "workers": _workers(runs, order),
        "left_out": list(dict.fromkeys(sentence for run in runs for sentence in run.get("left_out", ()))),
    }


def _each(fold: Callable[[Iterable[Any]], Any], tables: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A table of the folded values of several tables."""
    return {
        name: fold([table[name] for table in tables if name in table])
        for name in dict.fromkeys(n for t in tables for n in t)
    }


def _workers(runs: Sequence[Json], order: Sequence[str]) -> list[dict[str, Any]]:
    """One row for each implementation, in the order of the first session that has it."""
    rows: dict[str, list[Json]] = defaultdict(list)
    for run in runs:
        for worker in run["workers"]:
            rows[worker["name"]].append(worker)
    workers = []
    for listed in rows.values():
        troubles = sorted({row["status"] for row in listed if row["status"] != "answered"})
        judging = {name for row in listed for name in row.get("judged_by", ())}
        workers.append(
            {
                **listed[0],
                **{name: sum(row[name] for row in listed) for name in ("calls", "restarts", "spared")},
                # Hundredths are whole numbers, so the order of the sum does not matter.
                "seconds": sum(round(100 * row["seconds"]) for row in listed) / 100,
                "status": "; ".join(troubles) or "answered",
                "judged_by": [name for name in order if name in judging],
            }
        )
    return workers
