"""The findings of several runs, those of one id folded: their counts are added up, the smallest witness is kept."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from xverify.core.verdict import Verdict
from xverify.report.summary import NO_REGION, Json

_ADDED = ("cases", "values")


def merged_findings(reports: Sequence[Json]) -> list[dict[str, Any]]:
    """The findings of all reports. An id does not hold the version: ``subject.versions`` lists those that show it when there
    are several."""
    groups: dict[str, list[Json]] = defaultdict(list)
    for report in reports:
        for finding in report["findings"]:
            groups[finding["id"]].append(finding)
    found = [_folded(listed) for listed in groups.values()]
    return sorted(found, key=lambda f: (f["subject"]["name"], f["contract"], Verdict(f["verdict"]).severity, f["id"]))


def _order(finding: Json) -> tuple[Any, ...]:
    """Smaller witnesses first, those on the plain path before; of equal ones the text decides."""
    witness = finding["witness"]
    if witness is None:
        return (1, json.dumps(finding, sort_keys=True))
    shapes = [tensor["shape"] for role, tensor in sorted(witness["call"]["tensors"].items()) if role in ("x", "input")]
    size = [(math.prod(shape), len(shape)) for shape in shapes]
    shrunk = ("minimal", "not reached", "not shrinkable").index(finding["shrunk"])
    whole = {name: finding[name] for name in ("witness", "others", "summary", "shrunk", "reproduce", "subject")}
    return (0, bool(finding["subject"]["options"]), size, shrunk, json.dumps(whole, sort_keys=True))


def _folded(listed: Sequence[Json]) -> dict[str, Any]:
    first = min(listed, key=_order)
    found = dict(first)
    found |= {name: sum(finding[name] for finding in listed) for name in _ADDED}
    distances = [finding["max_ulp"] for finding in listed]
    found["max_ulp"] = -1 if -1 in distances else max(distances)
    found["known"] = any(finding["known"] for finding in listed)
    cells = {json.dumps(cell, sort_keys=True): cell for finding in listed for cell in finding["cells"]}
    found["cells"] = [cells[text] for text in sorted(cells)]
    found["subject"] = _subject(first["subject"], [finding["subject"] for finding in listed])
    found["attribution"] = _attribution([finding["attribution"] for finding in listed])
    if any("region" in finding for finding in listed):
        found["region"] = _region([finding.get("region") for finding in listed])
    if any("ulp_histogram" in finding for finding in listed):
        found["ulp_histogram"] = _histogram(listed)
    if any("followed" in finding for finding in listed):
        found["followed"] = _followed(listed)
    return found


def _subject(first: Json, listed: Sequence[Json]) -> dict[str, Any]:
    found = {name: first[name] for name in ("name", "version", "role", "options")}
    if any("paths" in subject for subject in listed):
        found["paths"] = sorted({path for subject in listed for path in subject.get("paths", ())})
    versions = {version for subject in listed for version in subject.get("versions", [subject["version"]])}
    return {**found, "versions": sorted(versions)} if len(versions) > 1 else found


def _attribution(listed: Sequence[Any]) -> dict[str, Any] | None:
    """The recipe of all, with its counts added up; None when a run knows none, or another."""
    if None in listed or len({one["reading"] for one in listed}) > 1:
        return None
    chosen = max(listed, key=lambda one: json.dumps([one.get("words", ""), one.get("elsewhere")], sort_keys=True))
    return {**chosen, **{name: sum(one[name] for one in listed) for name in ("explained_values", "values")}}


def _region(listed: Sequence[Any]) -> dict[str, Any] | None:
    """The region that all runs found which found one; where they differ there is no simple one."""
    distinct = {json.dumps(one, sort_keys=True): one for one in listed if one is not None}
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
