"""Verdicts on single outcomes: from an outcome to its discrepancies.

A sweep and the shrinking of its findings call the same functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic.linear_operands import on_grid
from xverify.arithmetic.reading import Reading
from xverify.contracts.model import Cell, Contract, Judgement
from xverify.core.bits import canonical
from xverify.core.call import AT_RUN, NO_MEMORY, Call, Outcome
from xverify.core.dtypes import FLOATS, INTEGERS
from xverify.core.rounding import is_subnormal
from xverify.core.surroundings import Graph, changing_graph, changing_operators, surround
from xverify.core.verdict import Verdict
from xverify.verify.attribute import RESULTS, Attribution, Misread, Recipe, evaluated, gives
from xverify.verify.compare import Comparison, compare
from xverify.verify.details import NEVER_WRITTEN, detail_of, graph_detail, partly, types_detail
from xverify.verify.findings import Discrepancy, Key
from xverify.verify.graph_values import graph_legal
from xverify.verify.large import by_code
from xverify.verify.legal import Legal, legal_set, official_set
from xverify.verify.messages import slug

NOTES: Mapping[str, tuple[Verdict, str]] = {
    "input-written": (Verdict.MEMORY, "writes to its inputs"),
    "output-aliases-input": (Verdict.MEMORY, "gives a result that shares memory with an input"),
    "outputs-share-memory": (Verdict.MEMORY, "gives results that share memory with each other"),
    "earlier-result-changed": (Verdict.MEMORY, "changes a result that it gave earlier"),
    "internal-buffer": (Verdict.MEMORY, "gives a buffer of its own as the result: writing to it changes later results"),
    "written-before-output": (Verdict.MEMORY, "writes before the beginning of the output"),
    "written-after-output": (Verdict.MEMORY, "writes past the end of the output"),
    "written-beside-input": (Verdict.MEMORY, "writes to memory beside its inputs"),
    "never-written": (Verdict.MEMORY, "leaves elements of the output unwritten"),
    "second-call-differs": (Verdict.NONDETERMINISTIC, "answers the same call twice with different bits"),
    "threads-differ": (
        Verdict.NONDETERMINISTIC,
        "answers the same call otherwise when several threads call it at once",
    ),
}
"""The notes of a worker beside the values: the verdict, and the words."""


@dataclass(frozen=True, eq=False)
class Judged:
    """A call with its edition's judgement, and its legal set if it has one."""

    contract: Contract
    call: Call
    judgement: Judgement
    cell: Cell | None
    """The call's cell; None for a forbidden call."""
    legal: Legal | None
    """The legal set of an allowed call, and of an open call whose result an official case states; None for others."""
    number: int = 0
    """The number of the call within its contract."""
    places: NDArray[np.int64] | None = None
    """The flat indices of the values that a search looks at first; None for all."""
    more: bool = False
    """True if more probes of the cell follow, see `xverify.strategies.lap.Probe`."""
    codes_by_reading: dict[Reading, NDArray[Any]] = field(default_factory=dict)
    """Codes by reading, as far as they were evaluated."""

    def give(self, readings: Sequence[Reading]) -> list[NDArray[Any]]:
        """The codes of each reading for the call. They are evaluated once for all implementations."""
        missing = [reading for reading in readings if reading not in self.codes_by_reading]
        if missing:
            operands = self.contract.operands(self.call)
            table = by_code(on_grid(operands))
            codes = (
                evaluated(missing, operands) if table is None else table.spread_each(evaluated(missing, table.operands))
            )
            self.codes_by_reading.update(zip(missing, (each.reshape(operands.shape) for each in codes), strict=True))
        return [self.codes_by_reading[reading] for reading in readings]


IN_GRAPH = "in a graph"
"""The variant of a cell whose calls stand among neighbours that change values."""


def cell_of(contract: Contract, call: Call) -> Cell:
    """The cell of an allowed call or an open one.

    A call among neighbours that change values has a cell of its own.
    """
    return _cell(contract, call, changing_graph(call))


def _cell(contract: Contract, call: Call, graph: Graph | None) -> Cell:
    cell = contract.cell(call)
    return cell if graph is None else replace(cell, variant=f"{cell.variant} {IN_GRAPH}".strip())


def judge(contract: Contract, call: Call, number: int = 0, legal: Legal | None = None, refused: bool = False) -> Judged:
    """Judge a call by its contract.

    Args:
        contract: The edition.
        call: The call.
        number: Its number in the run.
        legal: Its legal set, if it was computed before.
        refused: True if no implementation gave a result, so that no legal set is needed.
    """
    judgement = contract.judge(call)
    if judgement.verdict == "forbidden":
        return Judged(contract, call, judgement, None, None, number)
    graph = changing_graph(call)
    cell = _cell(contract, call, graph)
    if judgement.verdict == "unspecified":
        # Open calls are counted apart from the allowed calls of their cell.
        clause = judgement.clauses[0].removeprefix(contract.id + "/")
        cell = replace(cell, variant=f"{cell.variant} open: {clause}".strip())
        no_set = refused or bool(call.around)
        return Judged(contract, call, judgement, cell, None if no_set else official_set(contract, call), number)
    if refused:
        legal = None
    elif graph is not None:
        legal = graph_legal(contract, graph)
    else:
        legal = legal or legal_set(contract, call)
    return Judged(contract, call, judgement, cell, legal, number)


SAME_AS = "same-as-"
"""The beginning of the name of the clause that stands for an implementation to match."""

_TESTED_BY_VALUES = (
    "output-shape", "output-type", "multiplication-precision", "rounding", "scaled-bounds", "narrow-range",
)  # fmt: skip
"""Clauses that an allowed call tests if the edition has them, since its result is compared."""


def tested(judged: Judged) -> tuple[str, ...]:
    """The ids of the clauses that a call tests.

    They are the clauses that it breaks or enters, or, for an allowed call, those that its result must follow.
    """
    contract, call = judged.contract, judged.call
    if judged.legal is None or judged.judgement.clauses:
        return judged.judgement.clauses
    names = [name for name in _TESTED_BY_VALUES if name in ("output-shape", "output-type") or _applies(name, call)]
    if judged.legal.subnormal.any():
        names.append("subnormal")
    if "zero_point" in call.tensors and call.data.dtype.startswith("float"):
        names.append("float-zero-point")
    others = {f"{contract.id}/{name}" for name in names} & contract.clauses.keys()
    return (contract.value_clause(call, None), *sorted(others))


def _applies(name: str, call: Call) -> bool:
    if name == "narrow-range":
        return "narrow_range" in call.attributes
    if name == "scaled-bounds":
        return call.attributes.get("mode") == "SCALED"
    return name in ("multiplication-precision", "rounding")


def clause_text(judged: Judged, clause: str) -> str:
    """The clause's name, without its edition."""
    return clause.removeprefix(judged.contract.id + "/")


def died(judged: Judged, subject: str, outcome: Outcome) -> Discrepancy | None:
    """The discrepancy of a crash or a hang, whatever the call."""
    if outcome.kind not in ("crash", "hang"):
        return None
    if outcome.message.startswith(NO_MEMORY):
        # Memory is lost call by call, so the last call is not to blame.
        key = Key(subject, judged.contract.id, Verdict.CRASH, _formula(judged), "out-of-memory")
        return Discrepancy(key, f"{subject} ends the process: {outcome.message.splitlines()[0]}")
    clause = judged.judgement.clauses[0] if judged.judgement.clauses else _formula(judged)
    what = "ends the process" if outcome.kind == "crash" else "does not answer"
    is_empty = judged.call.values == 0
    size = "an empty tensor" if is_empty else "values"
    name = clause_text(judged, clause) if judged.judgement.clauses else ""
    detail = detail_of(judged.judgement.verdict, name, "empty" if is_empty else "values")
    if judged.judgement.clauses:
        how = (
            f"a call that the clause {name!r} {'forbids' if judged.judgement.verdict == 'forbidden' else 'leaves open'}"
        )
    else:
        how = f"an allowed call of {size} ({_types(judged.cell)})" if judged.cell else "an allowed call"
    first_line = outcome.message.splitlines()[0] if outcome.message else "no message"
    summary = f"{subject} {what} on {how}: {first_line}"
    return Discrepancy(Key(subject, judged.contract.id, Verdict(outcome.kind), clause, detail), summary)


def noted(judged: Judged, subject: str, outcome: Outcome) -> list[Discrepancy]:
    """The discrepancies that the worker noted: memory faults, and different answers to one call."""
    discrepancies = []
    for note in outcome.notes:
        verdict, words = NOTES.get(note, (Verdict.MEMORY, note))
        key = Key(subject, judged.contract.id, verdict, _formula(judged), note)
        discrepancies.append(Discrepancy(key, f"{subject} {words}"))
    return discrepancies


def accepted(judged: Judged, subject: str, outcome: Outcome) -> Discrepancy | None:
    """The discrepancy of a forbidden call that was computed, or that returned without a result."""
    got = outcome.tensor
    if judged.judgement.verdict != "forbidden" or outcome.kind != "tensor" or got is None:
        return None
    # All elements hold one pattern, and some of them were never written: none was.
    is_unwritten = NEVER_WRITTEN in outcome.notes and np.unique(got.codes).size == 1
    clause = judged.judgement.clauses[0]
    name = clause_text(judged, clause)
    matched = name.removeprefix(SAME_AS) if judged.contract.fixed_result is not None else ""
    by = f"{matched} refuses" if matched else f"the clause {name!r} forbids"
    does = f"accepts a call that {by}, and writes nothing" if is_unwritten else f"computes a call that {by}"
    detail = detail_of(name, NEVER_WRITTEN if is_unwritten else "")
    key = Key(subject, judged.contract.id, Verdict.WRONGLY_ACCEPTED, clause, detail)
    return Discrepancy(key, f"{subject} {does}", values=0 if is_unwritten else judged.call.values)


def rejected(judged: Judged, subject: str, outcome: Outcome) -> Discrepancy | None:
    """The discrepancy of an allowed call that was refused."""
    if judged.judgement.verdict != "allowed" or outcome.kind != "rejected" or judged.cell is None:
        return None
    cell, contract = judged.cell, judged.contract
    if contract.fixed_result is not None:
        return _refuses_alone(judged, subject, outcome)
    has_float_zero_point = bool(cell.zero_point_dtype) and cell.x_dtype.startswith("float")
    names = ["float-zero-point"] if has_float_zero_point else ["granularity"]
    names += ["block-shape"] if cell.granularity == "blocked" and not has_float_zero_point else []
    clauses = [clause for name in names if (clause := f"{contract.id}/{name}") in contract.clauses]
    clause = clauses[0] if clauses else _formula(judged)
    kind = "integer" if cell.x_dtype in INTEGERS else cell.x_dtype.split("_")[0]
    has_zero_point = "zero-point" if cell.zero_point_dtype else "no-zero-point"
    detail = detail_of(kind, has_zero_point, outcome.error, reason_of(judged.call, outcome))
    does = "accepts, and fails to run," if outcome.stage == AT_RUN else "refuses"
    summary = (
        f"{subject} {does} an allowed {cell.granularity.replace('_', ' ')} call with x of {cell.x_dtype} "
        f"{'and a zero point ' if cell.zero_point_dtype else ''}({outcome.error})"
    )
    return Discrepancy(
        Key(subject, contract.id, Verdict.WRONGLY_REJECTED, clause, detail), summary, values=judged.call.values
    )


def reason_of(call: Call, outcome: Outcome) -> str:
    """The words of the message if the call is in a graph, which has many operators to refuse; else empty."""
    return slug(outcome.message) if call.around else ""


def _refuses_alone(judged: Judged, subject: str, outcome: Outcome) -> Discrepancy:
    """The discrepancy of a refused call that the implementation to match answers."""
    clause = _formula(judged)
    matched = clause_text(judged, clause).removeprefix(SAME_AS)
    summary = f"{subject} refuses a call that {matched} answers ({outcome.error})"
    key = Key(subject, judged.contract.id, Verdict.WRONGLY_REJECTED, clause, outcome.error)
    return Discrepancy(key, summary, values=judged.call.values)


def unreadable(judged: Judged, subject: str, outcome: Outcome) -> Discrepancy | None:
    """The discrepancy of a result that cannot be read, unless the call is left open.

    A forbidden call that returns anything counts as not refused.
    """
    if outcome.kind != "unreadable" or judged.judgement.verdict == "unspecified":
        return None
    contract = judged.contract
    clause = f"{contract.id}/output-type"
    clause = clause if clause in contract.clauses else _formula(judged)
    if judged.cell is None:
        of = f"a call that the clause {clause_text(judged, judged.judgement.clauses[0])!r} forbids"
        due = f"{outcome.message}. To refuse a call, raise an exception"
        detail = detail_of(outcome.error, "forbidden")
    else:
        of, due, detail = f"an allowed call ({_types(judged.cell)})", outcome.message, outcome.error
    summary = f"{subject} returns what xverify cannot read from {of}: {due}"
    key = Key(subject, contract.id, Verdict.UNREADABLE, clause, detail)
    return Discrepancy(key, summary, values=judged.call.values)


def shape_or_type(judged: Judged, subject: str, outcome: Outcome) -> Discrepancy | None:
    """The discrepancy of a result with another dtype or shape than the contract's."""
    legal, got = judged.legal, outcome.tensor
    if legal is None or got is None or (got.dtype == legal.dtype and got.shape == legal.shape):
        return None
    name = "output-type" if got.dtype != legal.dtype else "output-shape"
    clause = f"{judged.contract.id}/{name}"
    clause = clause if clause in judged.contract.clauses else _formula(judged)
    detail = detail_of("result-type", got.dtype, legal.dtype) if name == "output-type" else "result-shape"
    summary = f"{subject} gives {got.dtype} {list(got.shape)} instead of {legal.dtype} {list(legal.shape)}"
    key = Key(subject, judged.contract.id, Verdict.VIOLATION, clause, detail)
    return Discrepancy(key, summary, values=judged.call.values, max_ulp=-1)


def compared(judged: Judged, outcome: Outcome) -> Comparison | None:
    """The comparison of an allowed call's values; None if they have not the right dtype and shape."""
    legal, got = judged.legal, outcome.tensor
    if legal is None or got is None or got.dtype != legal.dtype or got.shape != legal.shape:
        return None
    return compare(legal, got)


def flushed(judged: Judged, subject: str, outcome: Outcome, comparison: Comparison) -> Discrepancy | None:
    """The discrepancy of results that are legal only if subnormal numbers may be zero."""
    if not comparison.flushed_values or comparison.wrong_values:
        return None
    count, legal, got = comparison.flushed_values, judged.legal, outcome.tensor
    words = "flushes subnormal results to zero"
    if legal is not None and got is not None:
        codes, normal = canonical(got.codes, got.dtype), comparison.flushed & ~legal.subnormal
        if any((codes == steps)[normal].all() for steps in legal.flushed_steps) and normal.any():
            words = "flushes subnormal intermediate results to zero"
        elif normal.any():
            words = "takes subnormal inputs for zero"
        elif is_subnormal(codes, got.dtype).any():
            words = "gives zero for some subnormal results and keeps others"
    by = Attribution("flush-subnormals", words, count, count)
    key = Key(subject, judged.contract.id, Verdict.AMBIGUITY, f"{judged.contract.id}/subnormal", by.reading)
    return Discrepancy(key, f"{subject} {by.words}, which no sentence of the text mentions", by, count)


def violates(
    judged: Judged,
    subject: str,
    outcome: Outcome,
    comparison: Comparison,
    recipe: Recipe | None,
    elsewhere: Reading | None = None,
) -> Discrepancy | None:
    """The discrepancy of values outside the legal set.

    Args:
        judged: the call.
        subject: the implementation's name.
        outcome: its outcome.
        comparison: the comparison of its values.
        recipe: the recipe that explains the cell; None if none is known. It must give every value of this call too, or only
            every wrong one if there is ``elsewhere``.
        elsewhere: the reading that gives the right values, if the recipe does not.

    Returns:
        None if no value is wrong, or the recipe does not give the values.
    """
    contract, cell, got = judged.contract, judged.cell, outcome.tensor
    if not comparison.wrong_values or cell is None or got is None:
        return None
    where = None if elsewhere is None else comparison.wrong
    if recipe is not None and not gives(contract, judged.call, got, recipe, where):
        return None
    clause = value_clause(judged, recipe)
    contradicts = f"contradicts {clause_text(judged, clause)!r}"
    count = comparison.wrong_values
    if judged.legal is not None and judged.legal.in_graph:
        beside = changing_operators(surround(judged.call))
        key = Key(subject, contract.id, Verdict.VIOLATION, clause, graph_detail(beside))
        # A second consumer of the result adds no operator.
        graph = f"a graph with {' and '.join(beside)}" if beside else "a graph"
        summary = f"{subject} gives values of {graph} that no legal result of its nodes leads to"
        return Discrepancy(key, summary, None, count, comparison.max_ulp)
    if recipe is None:
        key = Key(subject, contract.id, Verdict.VIOLATION, clause, types_detail(cell.x_dtype, cell.out_dtype))
        summary = f"{subject} gives values that no known recipe explains, with x of {cell.x_dtype}, which {contradicts}"
        return Discrepancy(key, summary, None, count, comparison.max_ulp)
    if elsewhere is None:
        by = Attribution(recipe.name, recipe.words, count, count)
        key = Key(subject, contract.id, Verdict.VIOLATION, clause, recipe.name)
        summary = f"{subject} {by.words}, which {contradicts}"
        return Discrepancy(key, summary, by, count, comparison.max_ulp, (recipe.name,))
    by = Attribution(recipe.name, recipe.words, count, count, (elsewhere.name, elsewhere.words))
    key = Key(subject, contract.id, Verdict.VIOLATION, clause, partly(recipe.name))
    summary = f"{subject} in part {by.words}, which {contradicts}"
    return Discrepancy(key, summary, by, count, comparison.max_ulp, (recipe.name, elsewhere.name))


def value_clause(judged: Judged, recipe: Recipe | None) -> str:
    """The clause that a recipe's values contradict.

    It is the formula's for an indexing mistake and for zeros.
    """
    name = None if recipe is None or isinstance(recipe, Misread) or recipe.name in RESULTS else recipe.name
    return judged.contract.value_clause(judged.call, name)


def mixed(
    judged: Judged,
    subject: str,
    outcome: Outcome,
    comparison: Comparison | None,
    alive: tuple[str, ...],
    recipe: Recipe | None = None,
) -> Discrepancy | None:
    """The discrepancy of legal values that no single reading explains.

    Args:
        judged: the call.
        subject: the implementation's name.
        outcome: its outcome.
        comparison: the comparison of its values; None to compute it.
        alive: names of the readings that explain all values before this call.
        recipe: a recipe that the text does not admit and that explains the cell. It must then explain this call too.
    """
    contract, cell, got = judged.contract, judged.cell, outcome.tensor
    comparison = comparison or compared(judged, outcome)
    if (
        judged.legal is None
        or cell is None
        or got is None
        or comparison is None
        or comparison.wrong_values
        or not alive
    ):
        return None
    names = [reading.name for reading in judged.legal.readings]
    if any(comparison.explains[names.index(name)] for name in alive if name in names):
        return None
    if recipe is not None and not gives(contract, judged.call, got, recipe):
        return None
    clause = value_clause(judged, recipe)
    summary = f"{subject} gives legal values that no single reading of the text explains ({_types(cell)})"
    count = judged.call.values
    if recipe is None:
        key = Key(subject, contract.id, Verdict.MIXED, clause, types_detail(cell.x_dtype, cell.out_dtype))
        return Discrepancy(key, summary, None, count, 0, alive)
    by = Attribution(recipe.name, recipe.words, count, count)
    summary = f"{summary}; a recipe that the text does not admit does: it {by.words}"
    return Discrepancy(Key(subject, contract.id, Verdict.MIXED, clause, recipe.name), summary, by, count, 0, alive)


def departs(judged: Judged, subject: str, outcome: Outcome, reading: str) -> Discrepancy | None:
    """The discrepancy of values that are legal by ``reading`` but differ from the first reading's."""
    comparison = compared(judged, outcome)
    legal, got = judged.legal, outcome.tensor
    if comparison is None or legal is None or got is None or comparison.wrong_values or comparison.explains[0]:
        return None
    names = [r.name for r in legal.readings]
    if reading not in names or not comparison.explains[names.index(reading)]:
        return None
    differing = canonical(got.codes, got.dtype) != legal.codes(0)
    by = legal.readings[names.index(reading)]
    count = int(differing.sum())
    clause = judged.contract.value_clause(judged.call, None)
    key = Key(subject, judged.contract.id, Verdict.AMBIGUITY, clause, reading)
    summary = (
        f"the text admits more than one result: {subject} {by.words}; another implementation follows another reading"
    )
    return Discrepancy(key, summary, Attribution(by.name, by.words, count, count), count, readings=(reading,))


def disagrees(
    judged: Judged, subject: str, outcome: Outcome, reference: str, other: Outcome, recipes: Sequence[Recipe] = ()
) -> Discrepancy | None:
    """The discrepancy of a call that the text leaves open and that two implementations treat differently.

    Args:
        judged: the call.
        subject: the implementation's name.
        outcome: its outcome.
        reference: the other implementation's name.
        other: the other implementation's outcome.
        recipes: recipes by which they give wrong values of allowed calls too. If each outcome follows an admitted reading or
            one of these, both take the call for the same one, and the clause does not tell them apart.
    """
    if judged.judgement.verdict != "unspecified" or not {outcome.kind, other.kind} <= {
        "tensor",
        "rejected",
        "unsupported",
    }:
        return None
    if "unsupported" in (outcome.kind, other.kind) or (outcome.refused and other.refused):
        return None
    another = "another of its paths" if subject == reference else reference
    if outcome.refused or other.refused:
        words = f"refuses what {another} computes" if outcome.refused else f"computes what {another} refuses"
        detail = detail_of("refuses" if outcome.refused else "computes", reference)
    elif _same_values(outcome, other) or all(_follows(judged, each, recipes) for each in (outcome, other)):
        return None
    else:
        words, detail = f"gives other values than {another}", detail_of("other-values", reference)
    clause = judged.judgement.clauses[0]
    key = Key(subject, judged.contract.id, Verdict.AMBIGUITY, clause, detail)
    summary = f"the clause {clause_text(judged, clause)!r} leaves the call open, and {subject} {words}"
    names = tuple(recipe.name for recipe in recipes)
    return Discrepancy(key, summary, values=judged.call.values, readings=names, words=words)


def _follows(judged: Judged, outcome: Outcome, recipes: Sequence[Recipe]) -> bool:
    """True if an admitted reading gives the values, with the usual meaning of the call.

    The ``recipes`` count as admitted.
    """
    contract, got = judged.contract, outcome.tensor
    if got is None:
        return False
    try:
        return any(gives(contract, judged.call, got, recipe) for recipe in (*contract.readings(judged.call), *recipes))
    except ValueError:  # the shapes have no usual meaning
        return False


def _same_values(a: Outcome, b: Outcome) -> bool:
    x, y = a.tensor, b.tensor
    if x is None or y is None or x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.dtype not in FLOATS:
        return x.same_bits(y)
    return bool((canonical(x.codes, x.dtype) == canonical(y.codes, y.dtype)).all())


def nondeterministic(judged: Judged, subject: str, first: Outcome, second: Outcome) -> Discrepancy | None:
    """The discrepancy of two answers to the same call that differ in bits."""
    if {first.kind, second.kind} & {"crash", "hang", "unasked"} or first.same(second):
        return None
    key = Key(subject, judged.contract.id, Verdict.NONDETERMINISTIC, _formula(judged), "")
    once = first.tensor is None or second.tensor is None
    what = "answers a call once and not another time" if once else "answers the same call twice with different bits"
    return Discrepancy(key, f"{subject} {what}", values=judged.call.values)


def not_followed(judged: Judged, subject: str, outcome: Outcome) -> Discrepancy | None:
    """The discrepancy of an allowed call from an edition that does not judge the implementation.

    All such calls have one key, so that they are one finding. Refusals are no values, so they count as gaps.
    """
    comparison = compared(judged, outcome)
    odd = unreadable(judged, subject, outcome) if judged.cell is not None else None
    odd = odd or shape_or_type(judged, subject, outcome)
    if odd is None and (comparison is None or not comparison.wrong_values):
        return None
    contract = judged.contract
    clause = f"{contract.id}/formula"
    clause = clause if clause in contract.clauses else next(iter(contract.clauses))
    key = Key(subject, contract.id, Verdict.NOT_FOLLOWED, clause, "")
    words = f"does not follow {contract.id}, which it does not claim to implement"
    values, max_ulp = (judged.call.values, -1) if comparison is None else (comparison.wrong_values, comparison.max_ulp)
    return Discrepancy(key, f"{subject} {words}", values=values, max_ulp=max_ulp, words=words)


def _formula(judged: Judged) -> str:
    return judged.contract.value_clause(judged.call, None)


def _types(cell: Cell) -> str:
    parts = (cell.x_dtype, cell.scale_dtype, "to " + cell.out_dtype, cell.granularity.replace("_", " "), cell.variant)
    return ", ".join(part for part in parts if part)
