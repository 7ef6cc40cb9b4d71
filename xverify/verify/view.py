"""The values of a judged call, decoded: their operands, their legal results and their positions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic.linear_operands import normal_axis
from xverify.contracts.model import Contract
from xverify.core.call import Call
from xverify.core.dtypes import UNIT_EXPONENT, values
from xverify.core.rounding import cast, product_to_odd
from xverify.verify.legal import Legal


@dataclass(frozen=True, eq=False)
class Sample:
    """A judged call with a mask of mismatches, from which a region is found."""

    contract: Contract
    call: Call
    legal: Legal
    wrong: NDArray[np.bool_]
    """The mask of mismatches, in the output's shape."""
    telling: NDArray[np.bool_] | None = None
    """The mask of values that could mismatch; None for all. A wrong recipe may give right values too."""

    def told(self) -> NDArray[np.int64]:
        """The flat indices of the values that could mismatch, or do."""
        return np.arange(self.wrong.size) if self.telling is None else np.flatnonzero(self.telling | self.wrong)


class View:
    """Selected values of a sample, decoded on demand.

    An operand that is one number for the whole call stays one number.
    """

    def __init__(self, sample: Sample, at: NDArray[np.int64]) -> None:
        self.sample, self.at, self.call = sample, at, sample.call
        self.shape = sample.legal.shape
        self.operands = sample.contract.operands(sample.call)
        self.linear = "x" in self.operands.codes

    def _chosen(self, codes: NDArray[Any]) -> NDArray[Any]:
        if codes.size == 1:
            return codes.reshape(())
        return np.broadcast_to(codes, self.shape).reshape(-1)[self.at]

    def codes(self, role: str) -> NDArray[Any]:
        """An operand's codes for the selected values."""
        return self._chosen(np.asarray(self.operands.codes[role]))

    def number(self, role: str) -> NDArray[np.float64]:
        """An operand's exact numbers for the selected values."""
        return np.asarray(values(self.operands.dtypes[role], self.codes(role)), np.float64)

    def dtype(self, role: str) -> str:
        return self.operands.dtypes[role]

    @cached_property
    def x(self) -> NDArray[np.float64]:
        return self.number("x" if self.linear else "input")

    @cached_property
    def x_dtype(self) -> str:
        return self.dtype("x" if self.linear else "input")

    @cached_property
    def zero_point(self) -> NDArray[np.float64]:
        return self.number("zero_point") if "zero_point" in self.operands.codes else np.zeros(())

    @cached_property
    def scale(self) -> NDArray[np.float64]:
        return self.number("scale")

    @cached_property
    def low(self) -> NDArray[np.float64]:
        return self.number("min_range")

    @cached_property
    def high(self) -> NDArray[np.float64]:
        return self.number("max_range")

    @cached_property
    def y(self) -> NDArray[np.float64]:
        return np.asarray(values(self.sample.legal.dtype, self.y_codes), np.float64)

    @cached_property
    def y_codes(self) -> NDArray[Any]:
        return self.sample.legal.codes(0).reshape(-1)[self.at]

    @cached_property
    def difference(self) -> NDArray[np.float64]:
        # Exact: integers of 32 bits differ by at most 34 bits, small floats by at most 35 units.
        return np.asarray(self.x - self.zero_point)

    @cached_property
    def product(self) -> NDArray[np.float64]:
        """(x - zero point) * scale, exact or rounded to odd; NaN where y is not this product rounded once."""
        exponent = UNIT_EXPONENT.get(self.x_dtype, 0)
        both = np.broadcast_arrays(self.difference, self.scale)
        exact = np.broadcast_to(product_to_odd(both[0], exponent, both[1]), self.at.shape)
        return np.where(cast(exact, self.sample.legal.dtype) == self.y_codes, exact, np.nan)

    @cached_property
    def halfway(self) -> NDArray[np.bool_]:
        """The mask of exact products halfway between two neighbouring numbers of the output type."""
        dtype = self.sample.legal.dtype
        finite = np.isfinite(self.product) & np.isfinite(self.y)
        exact = np.where(finite, self.product, 0.0)
        mirrored = 2 * exact - np.where(finite, self.y, 0.0)
        back = values(dtype, cast(mirrored, dtype))
        return np.asarray((mirrored != exact) & (back == mirrored))

    @cached_property
    def granularity(self) -> str:
        return self.sample.contract.cell(self.call).granularity

    @cached_property
    def axis(self) -> int | None:
        """The non-negative axis of the parameters; None per tensor."""
        if self.granularity == "per_tensor" or not self.shape:
            return None
        axis = self.call.attributes.get("axis", self.sample.contract.domain.default_axis)
        return None if axis is None else normal_axis(int(axis), len(self.shape))

    @cached_property
    def block_size(self) -> int | None:
        return int(self.call.attributes["block_size"]) if self.granularity == "blocked" else None

    @cached_property
    def along(self) -> NDArray[np.int64] | None:
        """The index along the axis of the parameters."""
        if self.axis is None:
            return None
        stride = int(np.prod(self.shape[self.axis + 1 :], dtype=np.int64))
        return np.asarray(self.at // stride % self.shape[self.axis])

    @cached_property
    def group(self) -> NDArray[np.int64]:
        """A number for each distinct set of parameters (scale and zero point, or range)."""
        roles = [role for role in self.operands.codes if role not in ("x", "input")]
        sets = [np.broadcast_to(self.codes(role), self.at.shape).astype(np.uint64) for role in roles]
        joined = sets[0] if len(sets) == 1 else (sets[0] << np.uint64(32)) | sets[1]
        return np.asarray(np.unique(joined, return_inverse=True)[1], np.int64).reshape(-1)
