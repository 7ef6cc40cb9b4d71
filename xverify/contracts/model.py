"""A contract: the machine-readable form of one edition of one operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from xverify.arithmetic.reading import Codes, Operands, Reading
from xverify.core.call import Call, Tensor

Verdict = Literal["allowed", "forbidden", "unspecified"]
Granularity = Literal["per_tensor", "per_axis", "blocked"]
Denormals = Literal["keep", "flush", "flush-inputs"]
"""The treatment of subnormal numbers that is accepted. Each mode accepts everything that the mode before it does.

"keep": a subnormal result must not be zero. "flush": it may be zero. "flush-inputs": an input that is subnormal in float32 may
also count as a zero of the same sign. The flags FTZ and DAZ of a processor do that.
"""


@dataclass(frozen=True)
class Clause:
    """One sentence of a document, or a subject on which the document is silent."""

    id: str
    """Edition and name: "<edition>/<name>"."""
    text: str
    """The quoted sentence, with " ... " where words are left out. Empty where the document is silent."""
    document: str
    """The title of the document."""
    note: str = ""
    """A remark on the sentence. Where the document is silent, the note says on what."""


@dataclass(frozen=True)
class Wording:
    """The whole text of an edition, in a form that two editions can be compared by."""

    lists: Mapping[str, tuple[str, ...]]
    """Lists of names by their title, such as the admitted types of x. Their order has no meaning."""
    sentences: Mapping[str, tuple[str, ...]]
    """The sentences of each part of the document by the part's title."""


@dataclass(frozen=True)
class Judgement:
    """The verdict of an edition on a call."""

    verdict: Verdict
    clauses: tuple[str, ...] = ()
    """Ids of the clauses that forbid the call or leave it open."""


ALLOWED = Judgement("allowed")


def judged(identity: str, forbidden: list[str], unspecified: list[str]) -> Judgement:
    """The judgement that follows from clauses. A ban outweighs an open question.

    Args:
        identity: The edition's id.
        forbidden: Names of the clauses that forbid the call.
        unspecified: Names of the clauses that leave the call open.
    """
    if forbidden:
        return Judgement("forbidden", tuple(f"{identity}/{name}" for name in forbidden))
    if unspecified:
        return Judgement("unspecified", tuple(f"{identity}/{name}" for name in unspecified))
    return ALLOWED


@dataclass(frozen=True)
class Domain:
    """The types and attributes that an edition admits. The strategies draw from it."""

    family: Literal["linear", "range"]
    """The form of the formula: "linear" has scale and zero point, "range" has min_range and max_range."""
    x_dtypes: tuple[str, ...]
    scale_dtypes: tuple[str, ...]
    output_dtypes: tuple[str, ...]
    """The admitted output types. Without an attribute output_dtype, the output has the type of the scale."""
    granularities: tuple[Granularity, ...]
    zero_point_dtypes: tuple[str, ...] | None = None
    """The admitted types of a zero point. None: the zero point has the type of x."""
    zero_point_required: bool = False
    attributes: tuple[str, ...] = ()
    """The names of the attributes that the edition has."""
    default_axis: int | None = 1
    """The axis of a call without the attribute axis. None: such a call is per tensor."""
    modes: tuple[str, ...] = ()
    """The admitted values of TensorFlow's attribute mode."""
    ranks: tuple[int, ...] = ()
    """The admitted ranks of x; empty if the edition limits none."""
    whole_blocks: bool = False
    """True if the last block of an axis must be a whole one."""

    def zero_points_for(self, x_dtype: str) -> tuple[str, ...]:
        """The dtypes that a zero point may have beside an x of that dtype."""
        return (x_dtype,) if self.zero_point_dtypes is None else self.zero_point_dtypes

    @property
    def output_dtype_attribute(self) -> bool:
        """True if the edition has the attribute output_dtype."""
        return "output_dtype" in self.attributes


@dataclass(frozen=True, order=True)
class Cell:
    """The unit of coverage and of characterisation, without the implementation."""

    contract: str
    x_dtype: str
    scale_dtype: str
    zero_point_dtype: str
    """The type of the zero point, "" where there is none."""
    out_dtype: str
    granularity: str
    variant: str
    """Other choices that lead to other arithmetic, such as TensorFlow's mode; "" if there are none."""

    def sort_key(self) -> tuple[str, ...]:
        """The fields in order. Python compares tuples much faster than the objects of a class."""
        return tuple(vars(self).values())


@dataclass(frozen=True)
class TextCheck:
    """A place where a document contradicts itself."""

    clause: str
    """The id of the clause."""
    name: str
    """A machine token that tells the checks of a document apart: it is part of a finding's id."""
    summary: str
    """Both sentences, and how the contradiction shows."""
    call: Call | None = None
    """A call that shows the contradiction."""


@dataclass(frozen=True, eq=False)
class OfficialCase:
    """A call whose result a document states, such as a conformance test that is published with a standard."""

    name: str
    """The name that the document gives the case."""
    source: str
    """The document or the package that states the case, with its release."""
    call: Call
    """The call, under the edition that the case belongs to."""
    due: Tensor
    """The stated result."""


@dataclass(frozen=True, eq=False)
class FixedResult:
    """The only legal result of a call, where an implementation stands for the text."""

    dtype: str
    codes: Codes


@dataclass(frozen=True, repr=False)
class Contract:
    """One edition of one operator."""

    id: str
    title: str
    document: str
    """The title of the document, with the release that it belongs to."""
    domain: Domain
    clauses: Mapping[str, Clause]
    """Each clause by its id."""
    judge: Callable[[Call], Judgement]
    """The verdict of the edition on a call."""
    cell: Callable[[Call], Cell]
    """The cell of an allowed or unspecified call."""
    operands: Callable[[Call], Operands]
    """The operands of an allowed or unspecified call, after indexing."""
    readings: Callable[[Call], tuple[Reading, ...]]
    """The readings that the formula admits. The first is the one that the in-house kernel computes."""
    value_clause: Callable[[Call, str | None], str]
    """The id of the clause that a value outside the legal set contradicts.

    Takes the call and the name of the reading that gives the value, if there is one.
    """
    text_checks: Callable[[], tuple[TextCheck, ...]] = tuple
    """The contradictions inside the document itself."""
    official_cases: Callable[[], tuple[OfficialCase, ...]] = tuple
    """The calls whose results the document states. They are part of it: see `due`."""
    wording: Callable[[], Wording] | None = field(default=None, repr=False)
    """The whole text. None if only the clauses are quoted from the document."""
    assumptions: tuple[str, ...] = ()
    """Sentences on what the document has and the code does not know, and what is assumed instead."""
    like: str = ""
    """For an edition that no implementation knows by its id: the edition whose calls have the same form."""
    denormals: Denormals = "flush-inputs"
    """The accepted treatment of subnormal numbers. No text mentions them, so a sweep accepts every one and reports it.

    A gate requires "keep" unless its user says otherwise.
    """
    fixed_result: Callable[[Call], FixedResult] | None = None
    """The only legal result of an allowed call, where an implementation stands for the text.

    See `xverify.engine.reference_contract`.
    """

    def __repr__(self) -> str:
        """The id alone, since the clauses have pages of text."""
        return f"Contract({self.id!r})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The same for Hypothesis, which writes the arguments of each rejected example."""
        printer.text(repr(self))

    @property
    def asked_as(self) -> str:
        """The id of the edition under which implementations get the calls of this edition."""
        return self.like or self.id

    def due(self, call: Call) -> Tensor | None:
        """The result that an official case states for the call; None if the call is no such case."""
        case = _by_digest(self.official_cases()).get(call.digest())
        return None if case is None else case.due


@cache
def _by_digest(cases: tuple[OfficialCase, ...]) -> Mapping[str, OfficialCase]:
    return {case.call.digest(): case for case in cases}


__all__ = [
    "ALLOWED",
    "Cell",
    "Clause",
    "Codes",
    "Contract",
    "Denormals",
    "Domain",
    "FixedResult",
    "Granularity",
    "Judgement",
    "OfficialCase",
    "Operands",
    "Reading",
    "TextCheck",
    "Verdict",
    "Wording",
    "judged",
]
