"""Phase: differences between versions, over cells and editions, with the recipe of wrong values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from xverify.contracts.model import Cell
from xverify.core.call import Call
from xverify.core.verdict import Verdict
from xverify.engine.record import record
from xverify.engine.state import RunState
from xverify.engine.support import supports
from xverify.verify import verdicts
from xverify.verify.changes import ANSWERS, KINDS, REFUSES, ObservedChange, base_name
from xverify.verify.details import change_detail, detail_of, partly, types_detail
from xverify.verify.findings import Change, Discrepancy, Key, Subject
from xverify.verify.verdicts import Judged, clause_text

Answered = defaultdict[tuple[str, str], set[Cell]]
"""The cells in which a version answers calls, by the version's name and the edition's id."""

_OTHER = {
    "both-wrong": "values that contradict the clause {clause!r} in both",
    "both-legal": "the text admits both",
    "subnormals": "one of them flushes subnormal results to zero",
    "not-judged": "values under an edition that does not come with both",
}


@dataclass(frozen=True)
class _Description:
    """A change in words. Changes of several cells with the same description are one finding."""

    older: Subject
    newer: Subject

    kind: str
    """One of `xverify.verify.changes.KINDS`."""

    token: str
    """The change as a machine token: the end of a finding's detail."""

    what: str
    """The change in a few words that name no version."""

    words: str
    """The same as a predicate of the version at fault, or of the newer version."""

    clause: str
    """The name of the clause that the change concerns."""

    readings: tuple[str, ...] = ()
    """Names of the recipe of wrong values, see `Discrepancy`."""


def conclude_changes(state: RunState) -> None:
    """Record the changes from each version to the next.

    Cells and paths of an edition that are alike in a change make one finding. The findings of several editions become one in
    `xverify.engine.combine`.
    """
    groups: dict[tuple[_Description, str], list[ObservedChange]] = defaultdict(list)
    answered = _answered(state)
    for seen in state.changes.seen():
        groups[_described(state, seen, answered), seen.judged.contract.id].append(seen)
    order = {contract.id: index for index, contract in enumerate(state.options.editions)}
    for (description, _), alike in groups.items():
        witness = min(alike, key=lambda seen: _preference(seen, order))
        discrepancy = _discrepancy(description, witness)
        for seen in alike:
            shown = replace(witness.judged, cell=seen.judged.cell)
            counted = replace(discrepancy, values=seen.values)
            record(state, counted, witness.newer, shown, witness.after, witness.older, seen.cases)
        finding = state.findings.of(discrepancy.key)
        if finding is not None:
            finding.paths.update(seen.newer.options for seen in alike)
            finding.description = repr(description)
            finding.preference = _preference(witness, order)


def _preference(seen: ObservedChange, order: dict[str, int]) -> tuple[object, ...]:
    """Sort key of witnesses.

    The default path comes first, then allowed calls, calls with values, the first edition, small calls.
    """
    allowed = seen.judged.judgement.verdict == "allowed"
    return (
        bool(seen.newer.options),
        not allowed,
        not seen.judged.call.values,
        order[seen.judged.contract.id],
        seen.order,
        seen.newer.options,
    )


def _discrepancy(described: _Description, witness: ObservedChange) -> Discrepancy:
    name = base_name(described.newer.name)
    older, newer = _labels(described.older, described.newer)
    head = f"{KINDS[described.kind]} {name} {newer}"
    refusal = next(
        (f" ({outcome.error})" for outcome in (witness.before, witness.after) if outcome.refused and outcome.error), ""
    )
    summary = {
        "fixed": f"{head}: {older} {described.words}",
        "broken": f"{head}, which {described.words}; {older} does not",
        "supported": f"{head}: {described.words}, refused by {older}{refusal}",
        "dropped": f"{head}: {described.words}{refusal}, computed by {older}",
        "other": f"{head} than in {older}: {described.words}",
    }[described.kind]
    contract = witness.judged.contract.id
    change = Change(name, older, newer, described.kind, described.what, witness.step.sign, witness.is_judged)
    detail = change_detail(older, newer, described.kind, described.token)
    key = Key(described.newer.name, contract, Verdict.CHANGED, f"{contract}/{described.clause}", detail)
    return Discrepancy(key, summary, readings=described.readings, change=change)


def _labels(older: Subject, newer: Subject) -> tuple[str, str]:
    """The versions of both. If they are equal: their names as the user typed them."""
    return (older.name, newer.name) if older.version == newer.version else (older.version, newer.version)


def _described(state: RunState, seen: ObservedChange, answered: Answered) -> _Description:
    kind, token, what, judged = seen.step.kind, seen.step.what, seen.step.words, seen.judged
    older, newer = (replace(subject, options="", often=True) for subject in (seen.older, seen.newer))
    clause = clause_text(judged, seen.step.clause)
    if kind in (ANSWERS, REFUSES):
        kind, token, what, words = _refusal_in_words(state, seen, answered)
        # A call that is computed in one version only is about the formula, whatever else it puts to the test.
        clause = clause_text(judged, _formula(judged)) if kind in ("supported", "dropped") else clause
        return _Description(older, newer, kind, token, what, words, clause)
    if kind == "other":
        words = _OTHER.get(token, f"values {what}").format(clause=clause)
        return _Description(older, newer, kind, token, what, words, clause)
    if token != "values" or judged.cell is None:
        words = f"{what} on {_calls(judged)}" if token in (Verdict.CRASH, Verdict.HANG) else what
        return _Description(older, newer, kind, token, what, words, clause)
    tally = state.tally.cells.get((seen.older if kind == "fixed" else seen.newer, judged.cell))
    by = None if tally is None else tally.explained
    if by is None or by.recipe is None:
        types = f"{judged.cell.x_dtype} to {judged.cell.out_dtype}"
        token, words = (
            types_detail(judged.cell.x_dtype, judged.cell.out_dtype),
            f"gives values that contradict {clause!r} ({types})",
        )
        return _Description(older, newer, kind, token, types, words, clause)
    name, words = by.recipe.name, by.recipe.words
    if by.elsewhere is not None:
        words = f"in part {words}, which contradicts {clause!r}"
        return _Description(
            older, newer, kind, partly(name), f"in part {name}", words, clause, (name, by.elsewhere.name)
        )
    return _Description(older, newer, kind, name, name, f"{words}, which contradicts {clause!r}", clause, (name,))


def _formula(judged: Judged) -> str:
    return judged.contract.value_clause(judged.call, None)


def _calls(judged: Judged) -> str:
    if judged.judgement.verdict == "allowed":
        return "allowed calls"
    clause = clause_text(judged, judged.judgement.clauses[0])
    return f"calls that {clause!r} {'forbids' if judged.judgement.verdict == 'forbidden' else 'leaves open'}"


def _refusal_in_words(state: RunState, seen: ObservedChange, answered: Answered) -> tuple[str, str, str, str]:
    """Kind, token, what and words of a change in which one version refuses.

    The version lacks a feature, the refusal is right, or it is wrong.
    """
    judged, since = seen.judged, seen.step.kind == ANSWERS
    refusing, refusal = (seen.older, seen.before) if since else (seen.newer, seen.after)
    computing = seen.newer if since else seen.older
    contract, cell = judged.contract.id, judged.cell
    missing = answered[refusing.name, contract]
    if cell is None:
        token, what = seen.step.what, seen.step.words
        words = f"computes {_calls(judged)}"
        if _has_types_that_one_lacks(judged.call, answered[computing.name, contract], missing):
            which = "the older" if since else "the newer"
            token, what = detail_of(token, "types-missing"), f"{what}, of types that one lacks"
            return "other", token, what, f"{words}, of types that {which} does not support"
        return ("other" if not seen.is_judged else "broken" if since else "fixed"), token, what, words
    if not _supports(state, refusing, judged, missing):
        token, what = _feature(contract, judged.contract.cell(judged.call), missing)
        return ("supported" if since else "dropped"), token, what, what
    if judged.judgement.verdict == "unspecified":
        before = "refused" if since else "computed"
        token, what = detail_of(seen.step.what, "refused-or-computed"), f"{seen.step.words}, computed or refused"
        return "other", token, what, f"{_calls(judged)} were {before} before"
    error, granularity = refusal.error or refusal.kind, cell.granularity.replace("_", " ")
    token, what = detail_of("refuses", cell.granularity, error), f"refuses {granularity} calls ({error})"
    comparison = verdicts.compared(judged, seen.after if since else seen.before)
    if not seen.is_judged or comparison is None or comparison.wrong_values:
        return (
            "other",
            token,
            what,
            f"{granularity} calls that one refuses ({error}) and the other answers otherwise than it is due",
        )
    return ("fixed" if since else "broken"), token, what, f"refuses allowed {granularity} calls ({error})"


def _answered(state: RunState) -> Answered:
    """The cells that each version answers, on any path."""
    cells: Answered = defaultdict(set)
    for (subject, cell), tally in state.tally.cells.items():
        if tally.answered:
            cells[subject.name, cell.contract].add(cell)
    return cells


def _supports(state: RunState, subject: Subject, judged: Judged, answered: Collection[Cell]) -> bool:
    """True if a version computes some call of a cell.

    If none was seen, its default path is asked, while there is time.
    """
    cell = judged.contract.cell(judged.call)
    if cell in answered:
        return True
    if state.out_of(1.0):
        return False
    plain = state.pool.subjects[subject.name][0]
    return supports(state, plain, judged)


def _feature(contract: str, cell: Cell, answered: Collection[Cell]) -> tuple[str, str]:
    """The feature that a version lacks if it refuses a whole cell, as a token and in words.

    It is the first property of the cell that no answered cell has.
    """
    granularity = cell.granularity.replace("_", " ")
    zero_point = cell.zero_point_dtype or "none"
    scaled = f"a scale of {cell.scale_dtype} with a result of {cell.out_dtype}"
    whole = detail_of("x", cell.x_dtype, cell.granularity), f"x of {cell.x_dtype}, {granularity}"
    features: dict[tuple[str, str], Callable[[Cell], object]] = {
        (contract, contract): lambda other: contract,
        (detail_of("x", cell.x_dtype), f"x of {cell.x_dtype}"): lambda other: other.x_dtype,
        (detail_of("scale", cell.scale_dtype, cell.out_dtype), scaled): lambda other: (
            other.scale_dtype,
            other.out_dtype,
        ),
        (detail_of("granularity", cell.granularity), f"{granularity} calls"): lambda other: other.granularity,
        (detail_of("zero-point", zero_point), f"a zero point of {zero_point}"): lambda other: other.zero_point_dtype,
        whole: lambda other: (other.x_dtype, other.granularity),
    }
    for names, feature in features.items():
        if not any(feature(other) == feature(cell) for other in answered):
            return names
    return whole


def _has_types_that_one_lacks(call: Call, answered: Collection[Cell], missing: Collection[Cell]) -> bool:
    """True if one version answers allowed calls with a call's types, and the other answers none."""
    scale = call.tensors.get("scale")
    scaled = "" if scale is None else scale.dtype
    out = str(call.attributes.get("output_dtype", scaled))

    def lacks(has: Callable[[Cell], bool]) -> bool:
        return any(map(has, answered)) and not any(map(has, missing))

    return lacks(lambda cell: cell.x_dtype == call.data.dtype) or lacks(
        lambda cell: (cell.scale_dtype, cell.out_dtype) == (scaled, out)
    )
