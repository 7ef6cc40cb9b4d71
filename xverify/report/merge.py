"""Several runs' reports as one.

What is added up is whole numbers, and what is chosen is chosen by what it is, so that the result does not depend on the
order in which reports are merged, nor on whether some of them were merged before.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xverify.core.errors import UsageError
from xverify.report.check import SCHEMA, check
from xverify.report.merge_cells import merged_cells, versions_of
from xverify.report.merge_findings import merged_findings
from xverify.report.summary import Json

_DESCRIBED = ("id", "command", "seed", "started", "seconds", "budget", "cases", "complete", "machine", "versions")
"""What is kept of each run."""

_CODES = re.compile(r"(\d+) of the (\d+) codes of (.*)")


def merged(reports: Sequence[Json]) -> dict[str, Any]:
    """The reports as one report of the same schema, whose ``run.merged`` describes each run.

    Counts are added up, findings of one id folded, cells of the same types joined (see `merge_cells`). Cells of an
    implementation whose version is not the same in all runs are kept apart, each with its ``version``.

    Raises ValueError for what is no report of this schema; UsageError, a ValueError, when there is none or a run is there
    twice, whose counts would be added twice.
    """
    if not reports:
        raise UsageError("there is no report to merge")
    for report in reports:
        check(report)
    runs = sorted(
        (run for report in reports for run in _described(report["run"])), key=lambda r: (r["started"], r["id"])
    )
    for identity, count in Counter(run["id"] for run in runs).items():
        if count > 1:
            raise UsageError(f"the run {identity} is there {count} times; its counts would be added up twice")
    several = versions_of(reports)
    return {
        "schema": SCHEMA,
        "run": _run(runs, [report["run"] for report in reports]),
        "editions": _editions(reports),
        "coverage": {
            "cases": sum(report["coverage"]["cases"] for report in reports),
            "values": sum(report["coverage"]["values"] for report in reports),
            "cells": merged_cells(reports, several),
            "trust": _trust([report["coverage"]["trust"] for report in reports]),
        },
        "findings": merged_findings(reports),
    }


def _described(run: Json) -> list[dict[str, Any]]:
    """What is kept of a run, or of each run that was merged into it."""
    if "merged" in run:
        return [dict(one) for one in run["merged"]]
    return [{name: run[name] for name in _DESCRIBED}]


def _run(runs: Sequence[Json], headers: Sequence[Json]) -> dict[str, Any]:
    first = runs[0]
    name = "+".join(run["id"] for run in runs)
    if len(runs) > 3:
        name = f"{len(runs)}-runs-{hashlib.sha256(name.encode()).hexdigest()[:10]}"
    packages = sorted({package for run in runs for package in run["versions"]})
    return {
        "id": name,
        "command": "; ".join(dict.fromkeys(run["command"] for run in runs)),
        "seed": first["seed"],
        "started": first["started"],
        "seconds": round(math.fsum(run["seconds"] for run in runs), 1),
        "budget": _sum_of_all([run["budget"] for run in runs]),
        "cases": _sum_of_all([run["cases"] for run in runs]),
        "complete": all(run["complete"] for run in runs),
        "versions": {p: _said(run["versions"][p] for run in runs if p in run["versions"]) for p in packages},
        "machine": {
            fact: _said(run["machine"][fact] for run in runs if fact in run["machine"])
            for fact in sorted({fact for run in runs for fact in run["machine"]})
        },
        "phases": _added(header["phases"] for header in headers),
        "workers": _workers(headers),
        **_own_seconds(headers),
        "left_out": list(dict.fromkeys(sentence for header in headers for sentence in header.get("left_out", ()))),
        "merged": list(runs),
    }


def _sum_of_all(numbers: Sequence[Any]) -> Any:
    """The sum; None where one is not given."""
    return (
        None if None in numbers else math.fsum(numbers) if any(isinstance(n, float) for n in numbers) else sum(numbers)
    )


def _said(values: Iterable[Any]) -> Any:
    """The value, or the different ones in words."""
    distinct = sorted(set(values), key=str)
    return distinct[0] if len(distinct) == 1 else " and ".join(map(str, distinct))


def _added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(sorted(total.items()))


def _own_seconds(headers: Sequence[Json]) -> dict[str, Any]:
    tenths = _added(
        {purpose: round(10 * seconds) for purpose, seconds in header.get("own_seconds", {}).items()}
        for header in headers
    )
    return {"own_seconds": {purpose: count / 10 for purpose, count in tenths.items()}} if tenths else {}


def _workers(headers: Sequence[Json]) -> list[dict[str, Any]]:
    """One for each implementation and version."""
    groups: dict[tuple[str, str], list[Json]] = defaultdict(list)
    for header in headers:
        for worker in header["workers"]:
            groups[worker["name"], worker["version"]].append(worker)
    rows = []
    for (name, version), listed in sorted(groups.items()):
        paths = {path for worker in listed for path in worker["options"].split(", ") if path}
        troubles = sorted({s for worker in listed for s in worker["status"].split("; ") if s != "answered"})
        row = {
            "name": name,
            "version": version,
            "options": ", ".join(sorted(paths)),
            "calls": sum(worker["calls"] for worker in listed),
            # In hundredths, so that the order of adding does not matter.
            "seconds": sum(round(100 * worker["seconds"]) for worker in listed) / 100,
            "status": "; ".join(troubles) or "answered",
        }
        for count in ("restarts", "spared"):
            if any(count in worker for worker in listed):
                row[count] = sum(worker.get(count, 0) for worker in listed)
        rows.append(row)
    return rows


# -- editions -----------------------------------------------------------------------------------------------


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Sorts text with the numbers in it by their size."""
    parts = re.findall(r"\d+|\D+", text)
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts)


def _editions(reports: Sequence[Json]) -> list[dict[str, Any]]:
    groups: dict[str, list[Json]] = defaultdict(list)
    for report in reports:
        for edition in report["editions"]:
            groups[edition["id"]].append(edition)
    return [_edition(groups[identity]) for identity in sorted(groups, key=natural)]


def _edition(listed: Sequence[Json]) -> dict[str, Any]:
    # Of an edition that packages carry in several versions, the newest document is quoted.
    newest = max(listed, key=lambda e: (natural(e["document"]), natural(e["title"])))
    clauses: dict[str, list[Json]] = defaultdict(list)
    for edition in listed:
        for clause in edition["clauses"]:
            clauses[clause["id"]].append(clause)
    words: dict[str, str] = {}
    for reading in (reading for edition in listed for reading in edition["readings"]):
        words[reading["name"]] = max(words.get(reading["name"], ""), reading["words"])
    # The in-house kernel's reading is the first; where runs know others besides, their order is that of their names.
    firsts = [edition["readings"][0]["name"] for edition in listed if edition["readings"]]
    names = sorted(words, key=lambda name: (name != min(firsts), name))
    return {
        "id": newest["id"],
        "title": newest["title"],
        "document": newest["document"],
        "clauses": [_clause(same) for _, same in sorted(clauses.items(), key=lambda item: natural(item[0]))],
        "readings": [{"name": name, "words": words[name]} for name in names],
    }


def _clause(listed: Sequence[Json]) -> dict[str, Any]:
    newest = max(listed, key=lambda c: (natural(c["document"]), c["text"], c["note"]))
    found: dict[str, Any] = {name: newest[name] for name in ("id", "text", "document", "note")}
    found["tested"] = sum(clause["tested"] for clause in listed)
    if not any(name in clause for clause in listed for name in ("follow", "depart", "untold")):
        return found
    depart = {(e["subject"], e["finding"]) for clause in listed for e in clause.get("depart", ())}
    departing = {subject for subject, _ in depart}
    follow = {subject for clause in listed for subject in clause.get("follow", ())} - departing
    why: dict[str, str] = {}
    for entry in (entry for clause in listed for entry in clause.get("untold", ())):
        why[entry["subject"]] = max(why.get(entry["subject"], ""), entry["why"])
    return {
        **found,
        "follow": sorted(follow),
        "depart": [{"subject": subject, "finding": finding} for subject, finding in sorted(depart)],
        "untold": [{"subject": s, "why": why[s]} for s in sorted(why) if s not in follow | departing],
    }


def _trust(listed: Sequence[Json]) -> dict[str, Any]:
    """What was met in some run; codes of a type are those of the run that met most, since which ones is not known."""
    met: Counter[str] = Counter()
    for one in listed:
        for name, count in one["met"].items():
            met[name] = max(met[name], count) if name.startswith("codes of ") else met[name] + count
    missing: set[str] = set()
    for name in {name for one in listed for name in one["not_met"]}:
        codes = _CODES.fullmatch(name)
        if codes is None:
            missing |= set() if met[name] else {name}
            continue
        left = int(codes[2]) - max(met[f"codes of {codes[3]}"], int(codes[2]) - int(codes[1]))
        missing |= {f"{left} of the {codes[2]} codes of {codes[3]}"} if left else set()
    fewest: dict[str, int] = {}
    plain = [name for name in missing if not _CODES.fullmatch(name)]
    for codes in filter(None, map(_CODES.fullmatch, missing)):
        rest = f"{codes[2]} codes of {codes[3]}"
        fewest[rest] = min(fewest.get(rest, int(codes[1])), int(codes[1]))
    plain += [f"{count} of the {rest}" for rest, count in fewest.items()]
    return {"met": dict(sorted(met.items())), "not_met": sorted(plain, key=natural)}
