"""A contract: the machine-readable form of one edition of one operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from xverify.arithmetic.reading import Codes, Operands, Reading
from xverify.core.call import Call

Verdict = Literal["allowed", "forbidden", "unspecified"]
Granularity = Literal["per_tensor", "per_axis", "blocked"]


@dataclass(frozen=True)
class Clause:
    """One sentence of a document: ``id`` is "<edition>/<name>", ``text`` is quoted from ``document``,
    with " ... " where something is left out.

    An empty text means that the document is silent where one would look for it; ``note`` then says so.
    """

    id: str
    text: str
    document: str
    note: str = ""


@dataclass(frozen=True)
class Judgement:
    """What an edition says of a call; ``clauses`` are the ids that forbid it or leave it open."""

    verdict: Verdict
    clauses: tuple[str, ...] = ()


ALLOWED = Judgement("allowed")


def judged(identity: str, forbidden: list[str], unspecified: list[str]) -> Judgement:
    """What follows from the names of clauses that forbid, or leave open; a ban outweighs an open question."""
    if forbidden:
        return Judgement("forbidden", tuple(f"{identity}/{name}" for name in forbidden))
    if unspecified:
        return Judgement("unspecified", tuple(f"{identity}/{name}" for name in unspecified))
    return ALLOWED


@dataclass(frozen=True)
class Domain:
    """What an edition's types and attributes admit; the strategies draw from it.

    zero_point_dtypes: None means that the zero point has the type of x. output_dtypes: the admitted output
    types; the output type is the scale's unless ``output_dtype_attribute``. attributes: the names that the edition has.
    """

    family: Literal["linear", "range"]
    x_dtypes: tuple[str, ...]
    scale_dtypes: tuple[str, ...]
    output_dtypes: tuple[str, ...]
    granularities: tuple[Granularity, ...]
    zero_point_dtypes: tuple[str, ...] | None = None
    zero_point_required: bool = False
    attributes: tuple[str, ...] = ()
    default_axis: int | None = 1
    modes: tuple[str, ...] = ()

    def zero_points_for(self, x_dtype: str) -> tuple[str, ...]:
        """The dtypes that a zero point for x of that dtype may have."""
        return (x_dtype,) if self.zero_point_dtypes is None else self.zero_point_dtypes

    @property
    def output_dtype_attribute(self) -> bool:
        return "output_dtype" in self.attributes


@dataclass(frozen=True, order=True)
class Cell:
    """The unit in which coverage and characterisation are counted, without the implementation."""

    contract: str
    x_dtype: str
    scale_dtype: str
    zero_point_dtype: str
    out_dtype: str
    granularity: str
    variant: str


@dataclass(frozen=True)
class TextCheck:
    """A place where a document contradicts itself: the two sentences, and how the contradiction shows."""

    clause: str
    name: str
    """A machine token that tells the checks of a document apart: it is part of a finding's id."""
    summary: str
    call: Call | None = None


@dataclass(frozen=True, eq=False)
class Given:
    """A result that is given instead of computed by readings: dtype and codes of the output."""

    dtype: str
    codes: Codes


@dataclass(frozen=True)
class Contract:
    """One edition of one operator.

    judge(call): what the edition says of it. cell(call): the cell of an allowed or unspecified call. operands(call):
    the indexed operands. readings(call): what the formula clause admits, the first being what the
    in-house kernel computes. value_clause(call, reading name or None): the clause that a value
    outside the legal set contradicts. text_checks(): contradictions inside the document itself.
    like: for an edition that no implementation knows by its id, the edition whose calls have the same form.
    keeps_subnormals: whether a subnormal result that came out as zero is wrong; no text says so, a user may.
    given(call): the one result of an allowed call, where an implementation stands for the text (`xverify.engine.reference_contract`).
    """

    id: str
    title: str
    document: str
    domain: Domain
    clauses: Mapping[str, Clause]
    judge: Callable[[Call], Judgement]
    cell: Callable[[Call], Cell]
    operands: Callable[[Call], Operands]
    readings: Callable[[Call], tuple[Reading, ...]]
    value_clause: Callable[[Call, str | None], str]
    text_checks: Callable[[], tuple[TextCheck, ...]] = tuple
    like: str = ""
    keeps_subnormals: bool = False
    given: Callable[[Call], Given] | None = None

    @property
    def asked_as(self) -> str:
        """The id under which implementations are asked for calls of this edition."""
        return self.like or self.id
