"""Folding of report entries about the same thing: cells, findings, editions, workers.

Only whole numbers are added, and choices depend only on content. So the result does not depend on the order of the
reports, nor on earlier merges.

A run names the simplest recipe that gives every value of a cell, and the other recipes that the values did not
exclude. A recipe remains if no run excluded it. A run that could not list all remaining recipes excludes none.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xverify.arithmetic import range_lattice, readings
from xverify.arithmetic.reading import Operands
from xverify.arithmetic.simplify import Types, simplified
from xverify.core.verdict import Verdict
from xverify.engine.coverage import by_importance

Json = Mapping[str, Any]

STATUSES = (
    Verdict.CRASH.value,
    Verdict.HANG.value,
    Verdict.VIOLATION.value,
    Verdict.UNREADABLE.value,
    Verdict.WRONGLY_ACCEPTED.value,
    Verdict.WRONGLY_REJECTED.value,
    Verdict.MIXED.value,
    "ambiguous",
    "not-judged-differs",
    "agrees",
    "not-judged-agrees",
    "unsupported",
    "unspecified",
)
"""Statuses of cells, worst first. The last ones count only where nothing else was seen."""

NO_REGION = "no simple region"

_CODES = re.compile(r"(\d+) of the (\d+) codes of (.*)")


def base(subject: str) -> str:
    """Return a label without its options."""
    return subject.partition("[")[0]


def sum_of_all(numbers: Sequence[Any]) -> Any:
    """Return the sum, or None if a number is missing."""
    return (
        None if None in numbers else math.fsum(numbers) if any(isinstance(n, float) for n in numbers) else sum(numbers)
    )


def joined(values: Iterable[Any]) -> Any:
    """Return the common value, or the different values in words."""
    distinct = sorted(set(values), key=str)
    return distinct[0] if len(distinct) == 1 else " and ".join(map(str, distinct))


def added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for mapping in counts:
        total.update(mapping)
    return dict(sorted(total.items()))


def own_seconds(headers: Sequence[Json]) -> dict[str, Any]:
    tenths = added(
        {purpose: round(10 * seconds) for purpose, seconds in header.get("own_seconds", {}).items()}
        for header in headers
    )
    return {"own_seconds": {purpose: count / 10 for purpose, count in tenths.items()}} if tenths else {}


def merged_workers(headers: Sequence[Json]) -> list[dict[str, Any]]:
    """Return one row for each implementation and version."""
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
            # Hundredths are whole numbers, so the order of the sum does not matter.
            "seconds": sum(round(100 * worker["seconds"]) for worker in listed) / 100,
            "status": "; ".join(troubles) or "answered",
        }
        row |= {name: listed[0][name] for name in ("family", "in_house") if name in listed[0]}
        for count in ("restarts", "spared"):
            if any(count in worker for worker in listed):
                row[count] = sum(worker.get(count, 0) for worker in listed)
        rows.append(row)
    return rows


# -- editions -----------------------------------------------------------------------------------------------


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that orders the numbers in a text by their size."""
    parts = re.findall(r"\d+|\D+", text)
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts)


def merged_editions(reports: Sequence[Json]) -> list[dict[str, Any]]:
    groups: dict[str, list[Json]] = defaultdict(list)
    for report in reports:
        for edition in report["editions"]:
            groups[edition["id"]].append(edition)
    return [merged_edition(groups[identity]) for identity in sorted(groups, key=natural)]


def merged_edition(listed: Sequence[Json]) -> dict[str, Any]:
    # Packages may carry several versions of an edition: quote the newest document.
    newest = max(listed, key=lambda e: (natural(e["document"]), natural(e["title"])))
    clauses: dict[str, list[Json]] = defaultdict(list)
    for edition in listed:
        for clause in edition["clauses"]:
            clauses[clause["id"]].append(clause)
    words: dict[str, str] = {}
    for reading in (reading for edition in listed for reading in edition["readings"]):
        words[reading["name"]] = max(words.get(reading["name"], ""), reading["words"])
    # The in-house kernel's reading comes first. The others are in the order of their names.
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
    clause_entry: dict[str, Any] = {name: newest[name] for name in ("id", "text", "document", "note")}
    clause_entry["tested"] = sum(clause["tested"] for clause in listed)
    if not any(name in clause for clause in listed for name in ("follow", "depart", "untold")):
        return clause_entry
    depart = {(e["subject"], e["finding"]) for clause in listed for e in clause.get("depart", ())}
    departing = {subject for subject, _ in depart}
    follow = {subject for clause in listed for subject in clause.get("follow", ())} - departing
    why: dict[str, str] = {}
    for entry in (entry for clause in listed for entry in clause.get("untold", ())):
        why[entry["subject"]] = max(why.get(entry["subject"], ""), entry["why"])
    return {
        **clause_entry,
        "follow": sorted(follow),
        "depart": [{"subject": subject, "finding": finding} for subject, finding in sorted(depart)],
        "untold": [{"subject": s, "why": why[s]} for s in sorted(why) if s not in follow | departing],
    }


def merged_trust(listed: Sequence[Json]) -> dict[str, Any]:
    """Merge the lists of things that were met. For the codes of a type, the run counts that met most.

    It is not known which codes a run met, so counts of different runs cannot be added.
    """
    met: Counter[str] = Counter()
    for coverage in listed:
        for name, count in coverage["met"].items():
            met[name] = max(met[name], count) if name.startswith("codes of ") else met[name] + count
    missing: set[str] = set()
    for name in {name for coverage in listed for name in coverage["not_met"]}:
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
    return {"met": dict(sorted(met.items())), "not_met": by_importance(sorted(plain, key=natural))}


# -- cells --------------------------------------------------------------------------------------------------

MOST_OTHERS = 64

TYPES = ("contract", "x_dtype", "scale_dtype", "zero_point_dtype", "out_dtype", "granularity", "variant")
"""The keys of an entry that say which cell it is, besides its implementation."""

_SILENT = ("unsupported", "unspecified", "crash", "hang", "unreadable-result")
"""Statuses of cells that may have no answer, so that no reading is excluded."""

_DIFFERS = ("violation", "mixed", "not-judged-differs")
"""Statuses that prove that no recipe gives every value, if none is named."""

_Key = tuple[str, ...]


def versions_of(reports: Sequence[Json]) -> Mapping[str, set[str]]:
    """Return the versions of each implementation in the reports."""
    versions: dict[str, set[str]] = defaultdict(set)
    for report in reports:
        for worker in report["run"]["workers"]:
            versions[worker["name"]].add(worker["version"])
    return versions


def merged_cells(reports: Sequence[Json], versions: Mapping[str, set[str]]) -> list[dict[str, Any]]:
    """Join the cells of the same types, implementation and version.

    Args:
        reports: Reports of the runs.
        versions: Versions of each implementation, see `versions_of`.
    """
    groups: dict[_Key, list[Json]] = defaultdict(list)
    for report in reports:
        own = {worker["name"]: worker["version"] for worker in report["run"]["workers"]}
        for cell in report["coverage"]["cells"]:
            version = cell.get("version", own.get(base(cell["subject"]), ""))
            groups[(*(cell[name] for name in TYPES), cell["subject"], version)].append(cell)
    cells = []
    for key, listed in sorted(groups.items()):
        *types, subject, version = key
        cell = {**dict(zip(TYPES, types, strict=True)), "subject": subject, **_joined(listed)}
        if len(versions.get(base(subject), ())) > 1:
            cell["version"] = version
        cells.append(cell)
    return cells


def _joined(listed: Sequence[Json]) -> dict[str, Any]:
    status = min((cell["status"] for cell in listed), key=STATUSES.index)
    described = [cell for cell in listed if _is_described(cell)]
    apart = sorted({name for cell in described for name in _recipes(cell)})
    cell_entry: dict[str, Any] = {
        "cases": sum(cell["cases"] for cell in listed),
        "values": sum(cell["values"] for cell in listed),
        "status": status,
        "reading": _common(
            [c["reading"] for c in listed if c["reading"] or c["status"] not in _SILENT or c in described]
        ),
    }
    if not any("attribution" in cell for cell in listed):
        return cell_entry
    left, more = _remaining(described)
    cell_entry |= {"attribution": None, "remaining": None}
    if left:
        return cell_entry | _attributed(described, left, more, cell_entry["reading"])
    if len(apart) > 1:
        # Runs name different recipes, and no recipe is common to all.
        cell_entry["status"] = min(status, "mixed", key=STATUSES.index)
    if apart or (described and status in _SILENT):
        cell_entry["across_runs"] = apart
    return cell_entry


def _is_described(cell: Json) -> bool:
    """Return True if a cell says which recipes give its values, including none."""
    if "attribution" not in cell:
        return False
    return bool(cell["attribution"]) or "across_runs" in cell or cell["status"] in _DIFFERS


def _recipes(cell: Json) -> list[str]:
    """List the recipes that a cell names: its own, or those of merged runs that had none in common."""
    by = cell.get("attribution")
    return [by["reading"]] if by else list(cell.get("across_runs", ()))


def _common(lists: Sequence[Sequence[str]]) -> list[str]:
    """Return the names that are in all lists. Their order is the edition's, so it is the same in all."""
    if not lists:
        return []
    return [
        name for name in min(lists, key=lambda names: (len(names), names)) if all(name in others for others in lists)
    ]


def _candidates(cell: Json) -> tuple[list[str], int]:
    """Return the recipes that a cell allows, its own first, and the number of unnamed ones.

    Recipes go by the names of their simplified forms, because runs may use different names for equal recipes.
    """
    by, left = cell.get("attribution"), cell.get("remaining")
    names = [by["reading"]] if by else []
    names += [] if left is None else left["others"]
    return list(dict.fromkeys(_simplest_name(cell, name) for name in names)), 0 if left is None else left["more"]


def _simplest_name(cell: Json, name: str) -> str:
    """Return the name of a recipe's simplified form on the types of a cell.

    An unknown name stays as it is.
    """
    try:
        types = Types(cell["x_dtype"], cell["zero_point_dtype"], cell["scale_dtype"], cell["out_dtype"])
        return simplified(readings.by_name(name), types).name
    except KeyError:
        pass
    try:
        narrow = {"narrow_range": cell["variant"].endswith(" narrow")}
        operands = Operands({}, {"input": cell["x_dtype"]}, cell["out_dtype"], (), narrow)
        return range_lattice.by_name(name).simplified(operands).name
    except KeyError:
        return name


def _remaining(cells: Sequence[Json]) -> tuple[list[str], int]:
    """Return the recipes that no cell excludes, and the number of unnamed ones."""
    every = [_candidates(cell) for cell in cells]
    closed = [names for names, more in every if not more]
    if closed:
        return _common(closed), 0
    if not every:
        return [], 0
    names = dict.fromkeys(
        name for names, _ in sorted(every, key=lambda candidates: (len(candidates[0]), candidates[0])) for name in names
    )
    return list(names), min(more for _, more in every)


def _attributed(cells: Sequence[Json], left: Sequence[str], more: int, admitted: Sequence[str]) -> dict[str, Any]:
    """Return attribution and remaining recipes of joined cells.

    Args:
        cells: The cells to join.
        left: Recipes that remain.
        more: Number of further recipes that may remain.
        admitted: Recipes that the edition admits.
    """
    named_by_runs = {_simplest_name(c, c["attribution"]["reading"]) for c in cells if c.get("attribution")}
    admitted = [_simplest_name(cells[0], name) for name in admitted]
    # Prefer a recipe that the text admits, then one that a run named.
    chosen = min(left, key=lambda name: (name not in admitted, name not in named_by_runs, left.index(name)))
    agreeing = [c for c in cells if c.get("attribution") and _simplest_name(c, c["attribution"]["reading"]) == chosen]
    shown = [
        (len(c["attribution"]["reading"]), c["attribution"]["reading"], c["attribution"]["words"]) for c in agreeing
    ]
    _, name, words = min(shown, default=(0, chosen, chosen))
    by = {
        "reading": name,
        "words": words,
        "values": sum(cell["attribution"]["values"] for cell in cells if cell.get("attribution")),
        "legal": any(cell["attribution"]["legal"] for cell in agreeing) if agreeing else chosen in admitted,
    }
    stated = [cell["remaining"] for cell in cells if cell.get("remaining")]
    if len(stated) < len(cells):
        return {"attribution": by, "remaining": None}
    others = [name for name in left if name != chosen]
    equal = [cell["remaining"]["equal"] for cell in agreeing if cell.get("remaining")]
    remaining = {
        "equal": min(equal, default=0),
        "others": others[:MOST_OTHERS],
        "more": more + len(others[MOST_OTHERS:]),
    }
    if any("tried" in entry for entry in stated):
        remaining["tried"] = sum(entry.get("tried", 0) for entry in stated)
    return {"attribution": by, "remaining": remaining}


# -- findings -----------------------------------------------------------------------------------------------

_ADDED = ("cases", "values")


def merged_findings(reports: Sequence[Json]) -> list[dict[str, Any]]:
    """Fold the findings with the same id, and return all in the order of a report.

    An id does not contain the version. If several versions show a finding, ``subject.versions`` lists them.
    """
    groups: dict[str, list[Json]] = defaultdict(list)
    for report in reports:
        for finding in report["findings"]:
            groups[finding["id"]].append(finding)
    each = [folded(listed) for listed in groups.values()]
    return sorted(each, key=lambda f: (f["subject"]["name"], f["contract"], Verdict(f["verdict"]).severity, f["id"]))


def with_processors(reports: Sequence[Json]) -> Sequence[Json]:
    """Add to each finding the processors that showed it, if the reports come from several kinds."""
    if len({processor for report in reports for processor in processors(report["run"])}) < 2:
        return reports
    return [
        {
            **report,
            "findings": [{"processors": processors(report["run"]), **finding} for finding in report["findings"]],
        }
        for report in reports
    ]


def processors(run: Json) -> list[str]:
    """The processors on which a run, or the runs that were merged into it, took place."""
    machines = [each["machine"] for each in run.get("merged", ())] or [run["machine"]]
    return sorted({str(machine["processor"]) for machine in machines if "processor" in machine})


def _order(finding: Json) -> tuple[Any, ...]:
    """Return a sort key: the default path first, then smaller calls, then the text."""
    witness = finding["witness"]
    if witness is None:
        return (1, json.dumps(finding, sort_keys=True))
    shapes = [tensor["shape"] for role, tensor in sorted(witness["call"]["tensors"].items()) if role in ("x", "input")]
    size = [(math.prod(shape), len(shape)) for shape in shapes]
    shrunk = ("minimal", "not reached", "not shrinkable").index(finding["shrunk"])
    whole = {name: finding[name] for name in ("witness", "others", "summary", "shrunk", "reproduce", "subject")}
    return (
        0,
        bool(finding.get("unconfirmed")),
        bool(finding["subject"]["options"]),
        size,
        shrunk,
        json.dumps(whole, sort_keys=True),
    )


def folded(listed: Sequence[Json], first: Json | None = None) -> dict[str, Any]:
    """Fold findings that are the same. ``first`` shows them; None for the one with the best witness."""
    first = first or min(listed, key=_order)
    whole = dict(first)
    whole |= {name: sum(finding[name] for finding in listed) for name in _ADDED}
    distances = [finding["max_ulp"] for finding in listed]
    whole["max_ulp"] = -1 if -1 in distances else max(distances)
    if all("range_places" in finding for finding in listed):
        whole["range_places"] = max(finding["range_places"] for finding in listed)
    else:
        whole.pop("range_places", None)
    if any(finding.get("needs") != whole.get("needs") for finding in listed):
        whole.pop("needs", None)
    whole["known"] = any(finding["known"] for finding in listed)
    cells = {json.dumps(cell, sort_keys=True): cell for finding in listed for cell in finding["cells"]}
    whole["cells"] = [cells[text] for text in sorted(cells)]
    whole["subject"] = _subject(first["subject"], [finding["subject"] for finding in listed])
    whole["attribution"] = _attribution([finding["attribution"] for finding in listed])
    if any("region" in finding for finding in listed):
        whole["region"] = _region([finding.get("region") for finding in listed])
    if any("ulp_histogram" in finding for finding in listed):
        whole["ulp_histogram"] = _histogram(listed)
    if processors := {name for finding in listed for name in finding.get("processors", ())}:
        whole["processors"] = sorted(processors)
    if any("followed" in finding for finding in listed):
        whole["followed"] = _followed(listed)
    return whole


def _subject(first: Json, listed: Sequence[Json]) -> dict[str, Any]:
    subject_entry = {name: first[name] for name in ("name", "version", "role", "options", "family") if name in first}
    if any("paths" in subject for subject in listed):
        subject_entry["paths"] = sorted({path for subject in listed for path in subject.get("paths", ())})
    versions = {version for subject in listed for version in subject.get("versions", [subject["version"]])}
    return {**subject_entry, "versions": sorted(versions)} if len(versions) > 1 else subject_entry


def _attribution(listed: Sequence[Any]) -> dict[str, Any] | None:
    """Return the common recipe with its counts added up; None if runs name none or different ones."""
    if None in listed or len({attribution["reading"] for attribution in listed}) > 1:
        return None
    chosen = max(
        listed,
        key=lambda attribution: json.dumps(
            [attribution.get("words", ""), attribution.get("elsewhere")], sort_keys=True
        ),
    )
    return {
        **chosen,
        **{name: sum(attribution[name] for attribution in listed) for name in ("explained_values", "values")},
    }


def _region(listed: Sequence[Any]) -> dict[str, Any] | None:
    """Return the region that all runs name. If they differ, there is no simple region."""
    distinct = {json.dumps(region, sort_keys=True): region for region in listed if region is not None}
    if len(distinct) > 1:
        return {"name": "", "words": NO_REGION}
    return next(iter(distinct.values()), None)


def _histogram(listed: Sequence[Json]) -> list[dict[str, int]]:
    counts: Counter[tuple[int, int]] = Counter()
    for entry in (entry for finding in listed for entry in finding.get("ulp_histogram", ())):
        counts[entry["from"], entry["to"]] += entry["count"]
    return [{"from": low, "to": high, "count": count} for (low, high), count in sorted(counts.items())]


def _followed(listed: Sequence[Json]) -> list[dict[str, Any]]:
    values: Counter[tuple[str, str]] = Counter()
    of: Counter[tuple[str, str]] = Counter()
    for entry in (entry for finding in listed for entry in finding.get("followed", ())):
        values[entry["subject"], entry["contract"]] += entry["values"]
        of[entry["subject"], entry["contract"]] += entry["of"]
    return [
        {"subject": subject, "contract": contract, "values": count, "of": of[subject, contract]}
        for (subject, contract), count in sorted(values.items())
    ]
