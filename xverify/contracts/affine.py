"""Recipes of min + (input - origin) * step, composed of stages, for attribution: what an implementation of TensorFlow's
range formulas may compute instead of what the text says. None of them is admitted by a text as it stands here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from xverify.contracts.model import Operands, Reading
from xverify.contracts.ranges import (
    MIN_COMBINED,
    MIN_FIRST,
    SCALED_FLOAT,
    SCALED_SYMMETRIC,
    AsItIs,
    decoded,
    scale_factor,
)
from xverify.core.call import BITS
from xverify.core.dtypes import integer_range
from xverify.core.rounding import cast

Origin = Literal["lowest", "lowest-folded", "lowest-of-int8", "zero"]
Span = Literal["float32", "float64"]
Step = Literal["float32", "float64", "float64-to-float32", "adjusted-float64", "adjusted-to-float32"]
Snap = Literal["kept", "snapped-float32", "snapped"]
Steps = Literal["float32", "float64"]
Subnormals = Literal["kept", "flushed"]

_ORIGIN = {
    "lowest": "takes the input from the lowest value of its type",
    "lowest-folded": "multiplies the input as it is, with the lowest value's product taken into the base",
    "lowest-of-int8": "takes the input from the lowest value of its type for int8 only",
    "zero": "takes the input from zero",
}
_SNAP = {
    "kept": "",
    "snapped-float32": ", rounds min to a multiple of the step in float32",
    "snapped": ", rounds min to a multiple of the step",
}
_STEP = {
    "float32": "the quotient by the levels in float32",
    "float64": "the quotient by the levels in float64",
    "float64-to-float32": "the quotient by the levels in float64, rounded to float32",
    "adjusted-float64": "the adjusted range by the number of values in float64",
    "adjusted-to-float32": "the adjusted range by the number of values in float64, rounded to float32",
}
_SMALLEST = np.float32(2.0**-126)


@dataclass(frozen=True)
class Affine:
    """base + (input - origin) * step, each stage in its own precision.

    span: max - min. step: how it becomes the step from one code to the next. snap: whether the base is min or min rounded
    (half away from zero) to a multiple of the step. steps: of the last product and sum. subnormals: of the ends of the range
    and of every float32 result.
    """

    origin: Origin
    span: Span
    step: Step
    snap: Snap
    steps: Steps
    subnormals: Subnormals

    @property
    def name(self) -> str:
        parts = (self.origin, f"span-{self.span}", f"step-{self.step}", self.snap, f"in-{self.steps}", self.subnormals)
        return "affine-" + "-".join(part for part in parts if part != "kept")

    @property
    def words(self) -> str:
        flushed = ", flushes subnormals to zero" if self.subnormals == "flushed" else ""
        return (
            f"{_ORIGIN[self.origin]}, takes the range in {self.span} and {_STEP[self.step]}{_SNAP[self.snap]}, "
            f"multiplies and adds in {self.steps}{flushed}"
        )

    def simplified(self, operands: Operands) -> Affine:
        """An equal recipe for the type of the input, so that recipes which cannot differ are evaluated once."""
        dtype = operands.dtypes["input"]
        changes: dict[str, Any] = {}
        if self.origin in ("lowest", "lowest-of-int8"):
            shifts = integer_range(dtype)[0] != 0 and (self.origin == "lowest" or dtype == "int8")
            changes["origin"] = "lowest" if shifts else "zero"
        # A quotient of two 24-bit numbers is the same when it is rounded to 53 bits first (Figueroa, 1995).
        if self.step == "float64-to-float32" and self.span == "float32" and BITS[dtype] <= 16:
            changes["step"] = "float32"
        if self.snap == "snapped" and self.step.endswith("float32"):
            changes["snap"] = "snapped-float32"
        return replace(self, **changes)

    def evaluate(self, operands: Operands) -> NDArray[Any]:
        given = decoded(operands)
        with np.errstate(all="ignore"):
            low, high = (self._flush(np.asarray(end, np.float32)) for end in (given.low, given.high))
            step = self._step(low, high, given.levels)
            real: Any = np.float32 if self.steps == "float32" else np.float64
            base, step = self._base(low, high, step).astype(real), step.astype(real)
            lowest = real(integer_range(given.dtype)[0])
            if self.origin == "lowest-folded":
                base = self._flush(base - self._flush(lowest * step))
            moved = given.codes.astype(real)
            if self.origin == "lowest" or (self.origin == "lowest-of-int8" and given.dtype == "int8"):
                moved = self._flush(moved - lowest)
            result = self._flush(base + self._flush(moved * step))
            out = operands.output_dtype
            final = self._flush(np.asarray(result, np.float32)).astype(np.float64)
            wide = np.asarray(result, np.float64) if self.subnormals == "kept" else final
        return np.broadcast_to(cast(wide, out), operands.shape)

    def _flush(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Float32 subnormals as zeros of their sign, when they are flushed; float64 has none of that size."""
        if self.subnormals == "kept" or numbers.dtype != np.float32:
            return numbers
        return np.where(np.abs(numbers) < _SMALLEST, np.copysign(np.float32(0), numbers), numbers)

    def _step(self, low: NDArray[Any], high: NDArray[Any], levels: int) -> NDArray[Any]:
        span = self._flush(high - low) if self.span == "float32" else high.astype(np.float64) - low
        if self.step == "float32":
            return self._flush(span.astype(np.float32) / np.float32(levels))
        wide = span.astype(np.float64)
        count = float(levels) + 1.0
        quotient = wide * (count / float(levels)) / count if self.step.startswith("adjusted") else wide / float(levels)
        return self._flush(quotient.astype(np.float32)) if self.step.endswith("to-float32") else quotient

    def _base(self, low: NDArray[Any], high: NDArray[Any], step: NDArray[Any]) -> NDArray[Any]:
        if self.snap == "kept":
            return low
        if self.snap == "snapped-float32":
            step = self._flush(step.astype(np.float32))
        multiple = (low.astype(step.dtype) / step).astype(np.float64)
        whole = np.copysign(np.floor(np.abs(multiple) + 0.5), multiple).astype(step.dtype)
        # Ends that are equal, perhaps because both were flushed, leave no step that min could be a multiple of.
        return np.where(low == high, low, self._flush(np.asarray(whole * step)))


@dataclass(frozen=True)
class ScaledFlushed(AsItIs):
    """The newer text's SCALED in float32, with subnormals flushed to zero at every stage."""

    name: str = "scaled-float32-flushed"
    words: str = "takes the scale factor in float32, multiplies there, flushes subnormals to zero"

    def evaluate(self, operands: Operands) -> NDArray[Any]:
        given = decoded(operands)
        narrow = bool(operands.options.get("narrow_range", False))

        def flush(numbers: NDArray[Any]) -> NDArray[np.float32]:
            single = np.asarray(numbers, np.float32)
            return np.where(np.abs(single) < _SMALLEST, np.copysign(np.float32(0), single), single)

        with np.errstate(all="ignore"):
            low, high = flush(given.low).astype(np.float64), flush(given.high).astype(np.float64)
            factor = flush(scale_factor(given.dtype, low, high, narrow))
            result = flush(given.codes.astype(np.float32) * factor).astype(np.float64)
        return np.broadcast_to(cast(result, operands.output_dtype), operands.shape)


def _composed() -> tuple[Affine, ...]:
    stages = product(*map(get_args, (Subnormals, Origin, Snap, Span, Step, Steps)))
    return tuple(
        Affine(origin, span, step, snap, steps, subnormals) for subnormals, origin, snap, span, step, steps in stages
    )


RANGE_READINGS: tuple[Reading, ...] = (
    *MIN_COMBINED,
    *MIN_FIRST,
    *SCALED_FLOAT,
    *SCALED_SYMMETRIC,
    ScaledFlushed(),
    *_composed(),
)
"""Every reading of a range formula known here, legal or not; attribution searches them in this order."""
