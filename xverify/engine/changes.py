"""What changed between versions, said at the end of a run: folded over cells and editions, with the recipe of wrong values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xverify.contracts.model import Cell
from xverify.core.call import Call
from xverify.core.verdict import Verdict
from xverify.oracles import answers
from xverify.verify import verdicts
from xverify.verify.changes import ANSWERS, KINDS, REFUSES, Changes, ObservedChange, base_name
from xverify.verify.details import change_detail, detail_of, partly, types_detail
from xverify.verify.findings import Change, Discrepancy, Key, Subject
from xverify.verify.verdicts import Judged, clause_text

if TYPE_CHECKING:
    from xverify.engine.run import Sweep  # which observes

Answered = defaultdict[tuple[str, str], set[Cell]]
"""By a version's name and an edition, the cells of which it answers calls."""

_OTHER = {
    "both-wrong": "values that contradict the clause {clause!r} in both",
    "both-legal": "the text admits both",
    "subnormals": "one of them flushes subnormal results to zero",
    "not-judged": "values under an edition that does not come with both",
}


@dataclass(frozen=True)
class _Said:
    """What is said of what was seen in one cell; what is equal in this is one finding.

    token: what changed, as the end of a finding's detail. what: the same in a few words, without a version; words: the
    same as a predicate of the version that is at fault, or as what is new. clause: its name. readings: names of the
    recipe of wrong values, see `Discrepancy`.
    """

    older: Subject
    newer: Subject
    kind: str
    token: str
    what: str
    words: str
    clause: str
    readings: tuple[str, ...] = ()


def changes_of(sweep: Sweep) -> Changes:
    """What compares the versions of a run's implementations."""
    fleet = sweep.fleet

    def expected(subject: Subject, judged: Judged) -> bool:
        asked_as = judged.contract.asked_as
        return subject.name not in fleet.failures and answers(fleet.oracles[subject.name], asked_as)

    def judges(subject: Subject, judged: Judged) -> bool:
        return fleet.judges(judged.contract, subject.name)

    return Changes([one for subjects in fleet.subjects.values() for one in subjects], expected, judges)


def conclude_changes(sweep: Sweep) -> None:
    """Add to the run's findings what changed from each version to the next: one finding for all editions, cells and paths
    that are alike in it."""
    groups: dict[_Said, list[ObservedChange]] = defaultdict(list)
    answered = _answered(sweep)
    for seen in sweep.changes.seen():
        groups[_said(sweep, seen, answered)].append(seen)
    order = {contract.id: place for place, contract in enumerate(sweep.options.contracts)}
    for said, listed in groups.items():
        witness = min(listed, key=lambda one: _preference(one, order))
        found = _discrepancy(said, witness)
        for seen in listed:
            shown = replace(witness.judged, cell=seen.judged.cell)
            counted = replace(found, values=seen.values)
            sweep.add(counted, witness.newer, shown, witness.after, witness.older, seen.cases)
        finding = sweep.findings.of(found.key)
        if finding is not None:
            finding.paths.update(seen.newer.options for seen in listed)


def _preference(seen: ObservedChange, order: dict[str, int]) -> tuple[object, ...]:
    """Which witness is taken: the path that most people run, a call that is allowed, one with values, the first edition, the
    smallest call."""
    allowed = seen.judged.judgement.verdict == "allowed"
    return (
        bool(seen.newer.options),
        not allowed,
        not seen.judged.call.values,
        order[seen.judged.contract.id],
        seen.order,
        seen.newer.options,
    )


def _discrepancy(said: _Said, witness: ObservedChange) -> Discrepancy:
    name = base_name(said.newer.name)
    older, newer = _labels(said.older, said.newer)
    head = f"{KINDS[said.kind]} {name} {newer}"
    refusal = next((f" ({one.error})" for one in (witness.before, witness.after) if one.refused and one.error), "")
    summary = {
        "fixed": f"{head}: {older} {said.words}",
        "broken": f"{head}, which {said.words}; {older} does not",
        "supported": f"{head}: {said.words}, refused by {older}{refusal}",
        "dropped": f"{head}: {said.words}{refusal}, computed by {older}",
        "other": f"{head} than in {older}: {said.words}",
    }[said.kind]
    contract = witness.judged.contract.id
    change = Change(name, older, newer, said.kind, said.what, witness.step.sign, witness.is_judged)
    detail = change_detail(older, newer, said.kind, said.token)
    key = Key(said.newer.name, contract, Verdict.CHANGED, f"{contract}/{said.clause}", detail)
    return Discrepancy(key, summary, readings=said.readings, change=change)


def _labels(older: Subject, newer: Subject) -> tuple[str, str]:
    """Their versions; where those are equal, the names as they were typed."""
    return (older.name, newer.name) if older.version == newer.version else (older.version, newer.version)


def _said(sweep: Sweep, seen: ObservedChange, answered: Answered) -> _Said:
    kind, token, what, judged = seen.step.kind, seen.step.what, seen.step.words, seen.judged
    older, newer = (replace(subject, options="", often=True) for subject in (seen.older, seen.newer))
    clause = clause_text(judged, seen.step.clause)
    if kind in (ANSWERS, REFUSES):
        kind, token, what, words = _of_refusal(sweep, seen, answered)
        # One sentence leads to what is computed now and was not: the formula's, whatever else the call puts to the test.
        clause = clause_text(judged, _formula(judged)) if kind in ("supported", "dropped") else clause
        return _Said(older, newer, kind, token, what, words, clause)
    if kind == "other":
        words = _OTHER.get(token, f"values {what}").format(clause=clause)
        return _Said(older, newer, kind, token, what, words, clause)
    if token != "values" or judged.cell is None:
        words = f"{what} on {_calls(judged)}" if token in (Verdict.CRASH, Verdict.HANG) else what
        return _Said(older, newer, kind, token, what, words, clause)
    tally = sweep.tally.cells.get((seen.older if kind == "fixed" else seen.newer, judged.cell))
    by = None if tally is None else tally.explained
    if by is None or by.recipe is None:
        types = f"{judged.cell.x_dtype} to {judged.cell.out_dtype}"
        token = types_detail(judged.cell.x_dtype, judged.cell.out_dtype)
        return _Said(older, newer, kind, token, types, f"gives values that contradict {clause!r} ({types})", clause)
    name, words = by.recipe.name, by.recipe.words
    if by.elsewhere is not None:
        words = f"in part {words}, which contradicts {clause!r}"
        return _Said(older, newer, kind, partly(name), f"in part {name}", words, clause, (name, by.elsewhere.name))
    return _Said(older, newer, kind, name, name, f"{words}, which contradicts {clause!r}", clause, (name,))


def _formula(judged: Judged) -> str:
    return judged.contract.value_clause(judged.call, None)


def _calls(judged: Judged) -> str:
    if judged.judgement.verdict == "allowed":
        return "allowed calls"
    clause = clause_text(judged, judged.judgement.clauses[0])
    return f"calls that {clause!r} {'forbids' if judged.judgement.verdict == 'forbidden' else 'leaves open'}"


def _of_refusal(sweep: Sweep, seen: ObservedChange, answered: Answered) -> tuple[str, str, str, str]:
    """Kind, token, what and words where one of the versions refuses: a missing feature, or a refusal that is right or wrong."""
    judged, since = seen.judged, seen.step.kind == ANSWERS
    refusing, refusal = (seen.older, seen.before) if since else (seen.newer, seen.after)
    computing = seen.newer if since else seen.older
    contract, cell = judged.contract.id, judged.cell
    missing = answered[refusing.name, contract]
    if cell is None:
        token, what = seen.step.what, seen.step.words
        words = f"computes {_calls(judged)}"
        if _of_types_that_one_lacks(judged.call, answered[computing.name, contract], missing):
            which = "the older" if since else "the newer"
            token, what = detail_of(token, "types-missing"), f"{what}, of types that one lacks"
            return "other", token, what, f"{words}, of types that {which} does not support"
        return ("other" if not seen.is_judged else "broken" if since else "fixed"), token, what, words
    if not _supports(sweep, refusing, judged, missing):
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


def _answered(sweep: Sweep) -> Answered:
    """The cells that each version answers, on whichever path."""
    found: Answered = defaultdict(set)
    for (subject, cell), tally in sweep.tally.cells.items():
        if tally.answered:
            found[subject.name, cell.contract].add(cell)
    return found


def _supports(sweep: Sweep, subject: Subject, judged: Judged, answered: Collection[Cell]) -> bool:
    """Whether a version computes any call of a cell: if none was seen, its default path is asked, while there is time."""
    cell = judged.contract.cell(judged.call)
    if cell in answered:
        return True
    if sweep.out_of(1.0):
        return False
    plain = sweep.fleet.subjects[subject.name][0]
    return sweep.supports(plain, judged)


def _feature(contract: str, cell: Cell, answered: Collection[Cell]) -> tuple[str, str]:
    """What a version that refuses a whole cell lacks, as a token and in words: the first property of the cell that no cell it
    answers has."""
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


def _of_types_that_one_lacks(call: Call, answered: Collection[Cell], missing: Collection[Cell]) -> bool:
    """Whether a call has types of which one version answers allowed calls, and the other none."""
    scale = call.tensors.get("scale")
    scaled = "" if scale is None else scale.dtype
    out = str(call.attributes.get("output_dtype", scaled))

    def lacks(has: Callable[[Cell], bool]) -> bool:
        return any(map(has, answered)) and not any(map(has, missing))

    return lacks(lambda one: one.x_dtype == call.data.dtype) or lacks(
        lambda one: (one.scale_dtype, one.out_dtype) == (scaled, out)
    )
