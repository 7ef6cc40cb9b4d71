"""TensorFlow's Dequantize on a CUDA device: the checks of `xverify.kernels.ranges`, and its bits."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from xverify.kernels import ranges
from xverify.kernels.blocks import Spread
from xverify.kernels.cuda.arrays import code_dtype, cupy, current, on_device, ready, with_device
from xverify.kernels.cuda.launch import Launch, loaded
from xverify.kernels.cuda.repeated import accept, repeated
from xverify.kernels.editions import edition
from xverify.kernels.plans import Operand, Plan, remembered

NAMES = ("input", "min_range", "max_range")

LOOK_UP_FROM = 1 << 18
"""Elements of 8 bits from which on the results of all codes are computed first: a guess that no card has confirmed.

The formulas take doubles, for which many cards have few units. A table costs two more launches.
"""


def dequantize_range(
    input: Any,  # noqa: A002  (the document's name for it)
    min_range: Any,
    max_range: Any,
    *,
    mode: str = "MIN_COMBINED",
    narrow_range: bool | None = None,
    axis: int | None = None,
    out_dtype: DTypeLike | None = None,
    out: Any = None,
    contract: str = "tensorflow/Dequantize@installed",
    stream: Any = None,
) -> Any:
    """TensorFlow's Dequantize, by the mode's formula, of arrays on a CUDA device.

    As `xverify.dequantize_range` (formulas, editions, refusals, what is computed for ranges outside the text); arrays, ``out``,
    ``stream`` and what is raised as for `xverify.kernels.cuda.dequantize_linear`. A bfloat16 output is an array of uint16.
    """
    with_device()
    attributes = ("range", contract, mode, None if narrow_range is None else str(narrow_range), axis, out_dtype)
    if stream is None and repeated(input, min_range, max_range, out, attributes):
        return out
    with current(input, stream):
        operands = x, low, high = tuple(map(on_device, (input, min_range, max_range), NAMES))
        described = (x.dtype, x.shape, low.dtype, low.shape, high.dtype, high.shape)
        plan = range_plan(contract, *described, mode, narrow_range, axis, out_dtype)
        target, in_order = ready(out, x.shape, plan.dtype, NAMES, operands)
        plan.apply(target, *in_order)
        if in_order is operands:
            accept(plan.apply, operands, target, attributes)
        return target


@dataclass(frozen=True)
class LookedUp:
    """Two launches: the results of all 256 codes, and a lookup; in a capture one without a table."""

    out: np.dtype[Any]
    """The output's dtype."""

    entries: Launch
    """The launch that computes the results of all codes."""

    look_up: Launch
    """The launch that looks up the codes of x."""

    direct: Launch
    """The launch that needs no table: the formula of `entries`, for x."""

    @classmethod
    def of(cls, out: np.dtype[Any], x: Operand, low: Operand, high: np.dtype[Any], formula: str) -> LookedUp:
        """The launches for an input of 8 bits with one range."""
        codes = Operand(x.dtype, (256,))
        entries = Launch.of(out, codes, low, high, Spread(), formula)
        look_up = Launch.of(out, x, Operand(out, ()), None, Spread(), "TABLE")
        return cls(out, entries, look_up, Launch.of(out, x, low, high, Spread(), formula))

    def __call__(self, out: Any, x: Any, low: Any, high: Any) -> None:
        """Put the launches on the current stream. Arrays: as for `Launch`."""
        if cupy().cuda.get_current_stream().is_capturing():
            # The graph would write to the table's memory after CuPy has given it to another array.
            self.direct(out, x, low, high)
            return
        # A capture of this call may not load it. From 2^31 elements on its indices are wider than those of `entries`.
        loaded(self.direct.macros, out.data.device_id)
        table = cupy().empty(256, code_dtype(self.out))
        self.entries(table, cupy().arange(256, dtype=np.uint8), low, high)
        self.look_up(out, x, table, None)


@remembered
def range_plan(
    contract: str,
    x_dtype: np.dtype[Any],
    x_shape: tuple[int, ...],
    low_dtype: np.dtype[Any],
    low_shape: tuple[int, ...],
    high_dtype: np.dtype[Any],
    high_shape: tuple[int, ...],
    mode: str,
    narrow_range: bool | None,
    axis: int | None,
    out_dtype: DTypeLike | None,
) -> Plan:
    """Check a call as `xverify.dequantize_range`, and plan the launch."""
    x, low = Operand(x_dtype, x_shape), Operand(low_dtype, low_shape)
    described = (x_dtype, x_shape, low_dtype, low_shape, high_dtype, high_shape)
    checked = ranges.range_plan(contract, *described, mode, narrow_range, axis, out_dtype, "numpy")
    formula = mode if mode != "SCALED" else _scaled(edition(contract, "range").id, bool(narrow_range))
    if x_dtype.itemsize == 1 and checked.spread.axis is None and prod(x_shape) >= LOOK_UP_FROM:
        return Plan(checked.dtype, LookedUp.of(checked.dtype, x, low, high_dtype, formula))
    return Plan(checked.dtype, Launch.of(checked.dtype, x, low, high_dtype, checked.spread, formula))


def _scaled(contract: str, narrow_range: bool) -> str:
    """The formula of SCALED in that edition."""
    if not contract.endswith("@installed"):
        return "SCALED_SYMMETRIC"
    return "SCALED_FACTOR_NARROW" if narrow_range else "SCALED_FACTOR"
