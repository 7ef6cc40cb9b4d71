"""Random floats to round, near numbers and midpoints of output types."""

from __future__ import annotations

import math
from fractions import Fraction

import exact
from hypothesis import strategies as st

from xverify.core import dtypes
from xverify.core.call import BITS

OUTPUTS = ("float32", "float16", "bfloat16")


def as_value(number: float) -> exact.Value:
    """Return a float as a value of `exact`, with the sign of zero."""
    if math.isnan(number):
        return "nan"
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    return "-0" if number == 0 and math.copysign(1, number) < 0 else Fraction(number)


@st.composite
def float64s(draw: st.DrawFn) -> float:
    """Draw any float64, or one within a few steps of a number or midpoint of an output type."""
    if draw(st.integers(0, 3)) == 0:
        return draw(st.floats(width=64))
    dtype = draw(st.sampled_from(OUTPUTS))
    width = BITS[dtype]
    code = draw(st.integers(0, (1 << (width - 1)) - 1))
    below, above = exact.decode(dtype, code), exact.decode(dtype, code + 1)
    if isinstance(below, str) or isinstance(above, str):
        # The threshold of overflow is halfway from the largest number to the next power of two.
        mantissa = dtypes.MANTISSA_BITS[dtype]
        number = 2.0 ** (16 if dtype == "float16" else 128) * (1 - 2.0 ** -(mantissa + 2))
    else:
        number = float(draw(st.sampled_from([below, (below + above) / 2])))
    for _ in range(draw(st.integers(0, 2))):
        number = math.nextafter(number, draw(st.sampled_from([-math.inf, math.inf])))
    return -number if draw(st.booleans()) else number
