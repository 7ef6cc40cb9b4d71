"""Causes: groups of a report's findings that one fix would remove, worst first.

Everything here works on the data of a report, so a run, a merge of runs and a reader of an old file group alike.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from xverify.core.dtypes import MANTISSA_BITS, common_first
from xverify.core.severity import Severity
from xverify.core.verdict import Verdict
from xverify.verify import cause_titles
from xverify.verify.cause_keys import (
    EXPANDED,
    FLUSHES,
    TEXT,
    UNEXPLAINED,
    UNOPTIMISED,
    UNROUNDED,
    VALUES,
    CauseKey,
    Json,
    alike,
    clause_in,
    departure_token,
    detail_in,
    is_in_house,
    keys_of,
    operator_of,
    region_in,
)
from xverify.verify.cause_titles import is_unconfirmed, some
from xverify.verify.details import refuses_in_one_setting, wrote_nothing

NOBODY = "nobody:"
"""The beginning of the mistake of a sentence that no implementation follows."""

FEW_PLACES = 16
"""The largest number of last places of a range that rounding makes wrong."""

_FIRM_BITS = 6
"""Bits of the significand that rounding never makes wrong, so that few places of bfloat16 are fewer: two."""

_COMMONEST_FIRST = ("per_tensor", "per_axis", "blocked")


@dataclass(frozen=True)
class Context:
    """The facts of a report that causes depend on besides its findings."""

    clauses: Mapping[str, Json]
    """Every clause by its id, with the implementations that follow it and that depart from it."""
    families: Mapping[str, str]
    """The family of each implementation."""
    in_house: frozenset[str]
    """Names of implementations that say nothing about how others read a text."""
    answered: Mapping[str, frozenset[str]]
    """The types of x that each family answers."""


def context(editions: Iterable[Json], workers: Iterable[Json], cells: Iterable[Json]) -> Context:
    """The context from a report's editions, the workers of its run, and its cells."""
    rows = list(workers)
    families = {row["name"]: row.get("family", row["name"]) for row in rows}
    answered: dict[str, set[str]] = defaultdict(set)
    for cell in cells:
        if cell["status"] not in ("unsupported", "unspecified"):
            name = cell["subject"].partition("[")[0]
            answered[families.get(name, name)].add(cell["x_dtype"])
    return Context(
        {clause["id"]: clause for edition in editions for clause in edition["clauses"]},
        families,
        frozenset(row["name"] for row in rows if is_in_house(row)),
        {family: frozenset(dtypes) for family, dtypes in answered.items()},
    )


def causes_of(report: Json) -> list[dict[str, Any]]:
    """The entries "causes" of a report that has all its other parts."""
    return causes(
        report["findings"], context(report["editions"], report["run"]["workers"], report["coverage"]["cells"])
    )


def causes(findings: Sequence[Json], about: Context) -> list[dict[str, Any]]:
    """The entries "causes" of a report: worst first, then the commonest types and paths.

    Args:
        findings: findings as a report holds them.
        about: the context of the report.
    """
    groups = grouped(findings, about)
    entries = [(_rank(key, group), _entry(key, group, about)) for key, group in groups.items()]
    return [entry for _, entry in sorted(entries, key=lambda item: item[0])]


def grouped(findings: Sequence[Json], about: Context) -> dict[CauseKey, list[Json]]:
    """Group findings by cause; in each group the finding whose witness is shown comes first.

    A finding belongs to several causes if its values depart in several stages. Values that no recipe explains join the cause of
    the same implementation whose findings have the same region.
    """
    groups: dict[CauseKey, list[Json]] = defaultdict(list)
    explained: dict[tuple[str, str, str], CauseKey] = {}
    listed = [(finding, list(keys_of(finding))) for finding in sorted(findings, key=_order)]
    for finding, keys in listed:
        for key in keys:
            if key.kind == VALUES and key.mistake != UNEXPLAINED and region_in(finding):
                explained.setdefault((key.family, key.standing, region_in(finding)), key)
    same = _same_mistakes(listed)
    for finding, keys in listed:
        for key in keys:
            joins = (
                explained.get((key.family, key.standing, region_in(finding))) if key.mistake == UNEXPLAINED else None
            )
            group = groups[same.get(joins or key, joins or key)]
            if not group or group[-1] is not finding:  # two mistakes of a finding may be one
                group.append(finding)
    for key, group in groups.items():
        if key.mistake == FLUSHES:
            # Findings that show another mistake, too, belong to its cause.
            alone = [finding for finding in group if len(list(keys_of(finding))) == 1]
            group[:] = alone or group
        group.sort(key=_order)
    return _without_steps(_with_texts(groups, about))


_STEPS = (
    "scale_cast:",
    "subtraction:operands-",
    "difference:",
    "precision:",
    "final:truncated",
    "final:via-float32",
    UNROUNDED,
)
"""The beginnings of mistakes that are the rounding of one step."""

_COMPUTATIONS = ("operation:", "precision:", "graph:")
"""The beginnings of mistakes that replace several steps, each of which may be rounded."""


def _without_steps(groups: Mapping[CauseKey, list[Json]]) -> dict[CauseKey, list[Json]]:
    """Leave out each rounding that is seen only beside another computation: it is a step of that one.

    All its findings belong to the cause of the computation, too. That cause has others, which are as severe without the rounding.
    """
    members = {key: {finding["id"] for finding in group} for key, group in groups.items()}
    names = {key: {finding["subject"]["name"] for finding in group} for key, group in groups.items()}

    def is_step_of(step: CauseKey, whole: CauseKey) -> bool:
        others = [finding for finding in groups[whole] if finding["id"] not in members[step]]
        return (
            step.kind == whole.kind == VALUES
            and (step.family, names[step]) == (whole.family, names[whole])
            and (
                (step.mistake.startswith(_STEPS) and whole.mistake.startswith(_COMPUTATIONS))
                # An expansion subtracts zeros, which may lose a sign.
                or (step.mistake.startswith("zero:") and whole.mistake == EXPANDED)
            )
            and members[step] < members[whole]
            and severity(whole, others).rank <= severity(step, groups[step]).rank
        )

    return {key: group for key, group in groups.items() if not any(is_step_of(key, whole) for whole in groups)}


def _same_mistakes(listed: Iterable[tuple[Json, Sequence[CauseKey]]]) -> dict[CauseKey, CauseKey]:
    """Map mistakes to equal ones: in a region to anywhere, and of all parameters to the scale.

    Without a zero point the latter two cannot be told apart. Where cells with a zero point show both, they are two mistakes.
    What no optimiser does is another mistake than a rewrite.
    """
    wrong_zero_point: dict[CauseKey, bool] = {}
    for finding, keys in listed:
        has = any(cell.get("zero_point_dtype") for cell in finding["cells"])
        for key in keys:
            wrong_zero_point[key] = wrong_zero_point.get(key, False) or has
    explained = [key for key in wrong_zero_point if key.mistake != UNEXPLAINED and key.region != UNOPTIMISED]
    same = {key: anywhere for key in explained if (anywhere := replace(key, region="")) in wrong_zero_point}
    for key in wrong_zero_point:
        whole = replace(key, mistake=key.mistake.removesuffix("-scale"))
        if whole != key and not wrong_zero_point.get(whole, True):
            same[whole] = key
    return same


def _with_texts(groups: Mapping[CauseKey, list[Json]], about: Context) -> dict[CauseKey, list[Json]]:
    """Make one cause of a sentence from which every implementation departs in the same way.

    The implementations must be of two families at least, and none may follow the sentence in any edition.
    """
    asked: dict[tuple[str, str], set[str]] = defaultdict(set)
    for identity_of_clause, clause in about.clauses.items():
        contract, _, name = identity_of_clause.rpartition("/")
        subjects = {entry["subject"] for entry in clause.get("depart", ())} | set(clause.get("follow", ()))
        asked[operator_of(contract), name] |= {about.families.get(each, each) for each in subjects - about.in_house}
    departing: dict[tuple[str, str, str, str], set[str]] = defaultdict(set)
    for key, group in groups.items():
        for finding in group if key.kind == VALUES and key.mistake != UNEXPLAINED else ():
            if (finding["witness"] or {}).get("in_graph"):
                continue  # another operator of the graph may be to blame
            departing[_departure_from_text(key, finding)].add(key.family)
    nobody = {where for where, families in departing.items() if len(families) > 1 and families >= asked[where[:2]]}
    result: dict[CauseKey, list[Json]] = defaultdict(list)
    for key, group in groups.items():
        for finding in group:
            operator, name, mistake, standing = where = _departure_from_text(key, finding)
            if key.kind == VALUES and where in nobody:
                key_of_text = CauseKey(operator, TEXT, f"{NOBODY}{mistake}:{name}", "", standing)
                result[key_of_text].append(finding)
            else:
                result[key].append(finding)
    for key, group in result.items():
        # The mistake of a sentence that nobody follows has the sentence's name at its end.
        mistake = key.mistake.removeprefix(NOBODY).rpartition(":")[0] if key.kind == TEXT else key.mistake
        group.sort(key=partial(_order, mistake=mistake))
    return dict(result)


def _departure_from_text(key: CauseKey, finding: Json) -> tuple[str, str, str, str]:
    """Operator, clause, mistake and standing of a finding in the group of a cause.

    The clause is that of the mistake alone, which may be one of several in the finding.
    """
    listed = (finding["attribution"] or {}).get("departures", ())
    own = [each["clause"] for each in listed if "clause" in each and departure_token(each) == key.mistake]
    clause = str(own[0]).rpartition("/")[2] if own else clause_in(finding)
    return operator_of(finding["contract"]), clause, key.mistake, key.standing


def identity(key: CauseKey) -> str:
    """A short name of a cause that is the same in every run."""
    text = "\n".join((key.family, key.kind, key.mistake, key.region))
    accepted = "" if key.standing in ("", "new") else f"-{key.standing.replace(':', '-', 1)}"
    return f"cause-{hashlib.sha256(text.encode()).hexdigest()[:10]}{accepted}"


def _entry(key: CauseKey, group: Sequence[Json], about: Context) -> dict[str, Any]:
    cells = [cell for finding in group for cell in finding["cells"]]
    x_dtypes = {cell["x_dtype"] for cell in cells} or {finding["x_dtype"] for finding in group if finding["x_dtype"]}
    granularities = {cell["granularity"] for cell in cells}
    subjects = {finding["subject"]["name"]: None for finding in group if finding["subject"]["role"] != "edition"}
    largest = [finding["max_ulp"] for finding in group]
    return {
        "id": identity(key),
        "kind": key.kind,
        "severity": severity(key, group).value,
        "implementations": sorted(subjects),
        "documents": sorted({finding["contract"] for finding in group}),
        "title": cause_titles.title(key, group, about.answered.get(key.family, frozenset())),
        "effect": _effect(key, group),
        "findings": [finding["id"] for finding in group],
        "x_dtypes": sorted(x_dtypes, key=common_first),
        "granularities": sorted(granularities, key=lambda g: (g not in _COMMONEST_FIRST, g)),
        "paths": sorted({path for finding in group for path in finding["subject"].get("paths", ())}),
        "cases": sum(finding["cases"] for finding in group),
        "values": sum(finding["values"] for finding in alike(group)),
        "cells": len({tuple(sorted(cell.items())) for cell in cells}),
        "max_ulp": -1 if min(largest) < 0 else max(largest),
        **processors_of(group),
    }


def processors_of(findings: Iterable[Json]) -> dict[str, list[str]]:
    """The field "processors" of a cause; absent if its findings have none."""
    names = {name for finding in findings for name in finding.get("processors", ())}
    return {"processors": sorted(names)} if names else {}


def _effect(key: CauseKey, group: Sequence[Json]) -> str:
    """A wrong value of a cause in numbers, with the other departures that it shows too; "" without one."""
    if key.kind != VALUES and not key.mistake.startswith(NOBODY):
        return ""
    wrong = cause_titles.effect(group[0], severity(key, group) is Severity.WRONG, key.mistake)
    others = [] if key.kind != VALUES else cause_titles.other_departures(key.mistake, group[0])
    return f"{wrong}; in this call it also {some(others, len(others))}" if wrong and others else wrong


def severity(key: CauseKey, group: Sequence[Json]) -> Severity:
    """The severity of a cause, from the worst of its findings."""
    if key.kind in ("crash", "hang", "memory"):
        return Severity.ENDS_PROCESS if any(map(cause_titles.kills_allowed_calls, group)) else Severity.OPEN
    if key.kind == VALUES:
        if all(finding["verdict"] == Verdict.MIXED for finding in group):
            return Severity.OPEN
        return Severity.WRONG if any(map(_by_a_factor, group)) else Severity.LAST_PLACES
    if key.kind == "nondeterministic" and refuses_in_one_setting(key.mistake):
        return Severity.REFUSES
    return {
        "unreadable": Severity.WRONG,
        "nondeterministic": Severity.WRONG,
        "refusal": Severity.REFUSES,
        "validation": Severity.NO_VALIDATION,
    }.get(key.kind, Severity.OPEN)


def is_near_in_range(finding: Json) -> bool:
    """True if each wrong value is wrong in few last places of its range."""
    most = 2.0 ** (MANTISSA_BITS.get(finding["out_dtype"], 0) - _FIRM_BITS)
    places = int(finding.get("range_places", 0))
    return 0 < places <= min(FEW_PLACES, most)


def _by_a_factor(finding: Json) -> bool:
    """True if some value is wrong by a factor of two or more, judged by its distance in ULP.

    A graph may end in codes, which have no ULP. Then the values of the witness decide. Near 0, a range formula is the difference
    of larger numbers: a value that is wrong in few of their last places is wrong by no factor.
    """
    if is_near_in_range(finding):
        return False
    witness = finding["witness"] or {}
    out = witness["got"]["tensor"]["dtype"] if witness.get("in_graph") else finding["out_dtype"]
    if witness.get("in_graph") and out not in MANTISSA_BITS:
        return finding["verdict"] == Verdict.VIOLATION and cause_titles.is_by_a_factor(witness)
    bits = MANTISSA_BITS.get(out)
    return finding["verdict"] == Verdict.VIOLATION and (
        finding["max_ulp"] < 0 or (bits is not None and finding["max_ulp"] >= 1 << bits)
    )


def _rank(key: CauseKey, group: Sequence[Json]) -> tuple[Any, ...]:
    """The place of a cause, by standing, severity, verdict, path, types and number of cells."""
    first = group[0]
    is_special = bool(first["subject"]["options"]) or _is_in_graph(first)
    types = common_first(first["x_dtype"]), common_first(first["scale_dtype"])
    cells = sum(len(finding["cells"]) for finding in group)
    is_accepted, verdict = key.standing.startswith("known"), Verdict(first["verdict"]).severity
    # A death that no new process showed again comes after the wrong values, which are certain.
    effect = Severity.LAST_PLACES if is_unconfirmed(group) else severity(key, group)
    return (is_accepted, effect.rank, is_unconfirmed(group), verdict, is_special, *types, -cells, identity(key))


def _is_in_graph(finding: Json) -> bool:
    return finding["witness"] is not None and bool(finding["witness"]["call"].get("around"))


def _shows(finding: Json, mistake: str) -> bool:
    """True unless the witness of a finding with several departures shows others than a mistake."""
    told = [entry["departures"] for entry in (finding["witness"] or {}).get("legal", ()) if "departures" in entry]
    return not told or any(mistake in tokens for tokens in told)


def _order(finding: Json, mistake: str = "") -> tuple[Any, ...]:
    """The place of a finding in a cause, by verdict, recipe, witness, path, document and types."""
    explained = finding["attribution"] is not None
    is_special = bool(finding["subject"]["options"]) or _is_in_graph(finding)
    types = common_first(finding["x_dtype"]), common_first(finding["scale_dtype"]), common_first(finding["out_dtype"])
    worst = (
        is_unconfirmed([finding]),
        Verdict(finding["verdict"]).severity,
        detail_in(finding).startswith(("forbidden:", "unspecified:")),
        wrote_nothing(detail_in(finding)),
    )
    several = len((finding["attribution"] or {}).get("departures", ()))
    # The text that an implementation ships is nearer to its maintainers than the older one of a seed.
    is_seed = str(finding["contract"]).endswith("@seed")
    return (
        *worst,
        not explained,
        not _shows(finding, mistake),
        several,
        is_special,
        is_seed,
        *types,
        -len(finding["cells"]),
        finding["id"],
    )
