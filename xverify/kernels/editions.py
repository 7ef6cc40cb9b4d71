"""The domain of an edition, and the refusal of a call outside it."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Never, SupportsIndex

import numpy as np

from xverify.contracts.model import Domain
from xverify.kernels.casting import Array


@dataclass(frozen=True)
class Edition:
    """An edition, as far as the checks read it."""

    id: str
    """The full id of the contract."""

    domain: Domain
    """The types, attributes and modes that the document lists."""

    clauses: frozenset[str]
    """Names of clauses, without the contract's id."""

    def first(self, *names: str) -> str:
        """The first of these names of clauses that the edition has, or the last one."""
        return next((name for name in names if name in self.clauses), names[-1])

    def refuse(self, kind: type[Exception], clause: str, where: str, got: object, expected: object) -> Never:
        """Raise ``kind`` with the clause, the operand, the value and the expected value."""
        raise kind(f"{self.id}/{clause}: {where} is {got}; expected {expected}")

    def require_dtype(self, clause: str, where: str, dtype: np.dtype[Any], admitted: tuple[str, ...]) -> None:
        """Raise TypeError unless the dtype is admitted."""
        if dtype_name(dtype) not in admitted:
            self.refuse(TypeError, clause, f"the dtype of {where}", dtype, " or ".join(admitted))

    def require_attribute(self, name: str, value: object) -> None:
        """Raise TypeError if an attribute is not None and the edition lacks it."""
        if value is not None and name not in self.domain.attributes:
            listed = ", ".join(self.domain.attributes) or "no attribute"
            self.refuse(
                TypeError, self.first("arguments", "attributes"), f"the attribute {name}", repr(value), f"only {listed}"
            )

    def integer(self, clause: str, name: str, value: object) -> int:
        """The attribute's value as an int; TypeError if it is not an integer."""
        if not isinstance(value, SupportsIndex) or isinstance(value, bool | np.bool_ | np.ndarray):
            self.refuse(TypeError, clause, name, repr(value), "an integer")
        return operator.index(value)

    def front_axis(self, clause: str, axis: int, rank: int) -> int:
        """The axis counted from the front; ValueError outside [-rank, rank - 1]."""
        if not -rank <= axis < rank:
            self.refuse(ValueError, clause, "axis", axis, f"one of [-{rank}, {rank - 1}], since the rank is {rank}")
        return axis % rank


@lru_cache(maxsize=64)
def edition(contract: str, family: str) -> Edition:
    """The edition of that id, whose operator belongs to the family.

    Args:
        contract: the id of an edition.
        family: "linear", "onednn" or "range".

    Raises:
        ValueError: if there is no such edition.
        DocumentError: if its document cannot be read here.
    """
    # Here, because reading an edition's document may import the framework that carries it.
    from xverify.contracts import get, ids

    try:
        document = get(contract)
    except KeyError:
        raise ValueError(f"unknown contract {contract!r}; known are {', '.join(ids())}") from None
    own = "onednn" if document.id.startswith("onednn/") else document.domain.family
    if own != family:
        raise ValueError(f"{document.id} is the contract of another function")
    return Edition(document.id, document.domain, frozenset(name.rpartition("/")[2] for name in document.clauses))


@lru_cache(maxsize=256)
def dtype_name(dtype: np.dtype[Any]) -> str:
    """The name of the dtype, cached because NumPy builds it anew each time."""
    return dtype.name


def output(out: Array | None, shape: tuple[int, ...], dtype: np.dtype[Any], *inputs: Array | None) -> Array:
    """``out`` after its checks, or a new array of that shape and dtype.

    Raises:
        TypeError: if ``out`` is not an array of that dtype.
        ValueError: if ``out`` has another shape, is read-only, or shares an element with an input.
    """
    if out is None:
        return np.empty(shape, dtype)
    if not isinstance(out, np.ndarray) or (out.dtype is not dtype and out.dtype != dtype):
        got = out.dtype if isinstance(out, np.ndarray) else type(out).__name__
        raise TypeError(f"out is {got}; expected an array of {dtype}")
    if out.shape != shape:
        raise ValueError(f"the shape of out is {out.shape}; expected {shape}")
    flags = out.flags.num
    if not flags & _WRITEABLE:
        raise ValueError("out is read-only; expected an array that can be written")
    for operand in inputs:
        # Two arrays that own their memory share none. NumPy's test takes five times as long.
        if operand is None or (flags & operand.flags.num & _OWNS_MEMORY and operand is not out):
            continue
        if np.may_share_memory(out, operand) and _overlap(out, operand):
            raise ValueError("out overlaps an input; expected memory of its own")
    return out


def _overlap(out: Array, operand: Array) -> bool:
    """True if the arrays share an element, or may share one.

    They may share one where elements of one array lie between those of the other.
    """
    try:
        return np.shares_memory(out, operand, max_work=_WORK)  # type: ignore[arg-type]  # whose stubs know two numbers
    except np.exceptions.TooHardError:
        return True


_WORK = 1000
"""Steps that NumPy may take to decide, in microseconds. Every other row or column takes a few."""

_OWNS_MEMORY, _WRITEABLE = 0x4, 0x400
"""NumPy's flags OWNDATA and WRITEABLE."""
