"""Distances of wrong values of a range formula in last places of the range.

A value near 0 is the difference of numbers of the range's size. Rounding one of these changes the value by many of its own last
places, or all of it, but by few of theirs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.core.dtypes import MANTISSA_BITS, values
from xverify.verify.verdicts import Judged

NO_NUMBER = -1
"""The distance if some value is no finite number, or the formula adds no numbers of a range."""


def range_places(judged: Judged, codes: NDArray[Any], wrong: NDArray[np.bool_]) -> int:
    """The largest distance of wrong values from legal ones, in last places of the larger end of the range.

    Args:
        judged: The call.
        codes: The result.
        wrong: The mask of wrong values.

    Returns:
        A whole number, rounded up, or `NO_NUMBER`.
    """
    legal, call = judged.legal, judged.call
    if legal is None or legal.in_graph or "min_range" not in call.tensors or call.attributes.get("mode") == "SCALED":
        return NO_NUMBER
    if not wrong.any() or legal.dtype not in MANTISSA_BITS:
        return NO_NUMBER
    operands = judged.contract.operands(call)
    ends = [
        np.abs(np.asarray(values(operands.dtypes[role], np.asarray(operands.codes[role])), np.float64))
        for role in ("min_range", "max_range")
    ]
    size = np.broadcast_to(np.maximum(*ends), legal.shape)[wrong]
    got = np.asarray(values(legal.dtype, codes[wrong]), np.float64)
    with np.errstate(all="ignore"):
        errors = [np.abs(got - np.asarray(values(legal.dtype, due[wrong]), np.float64)) for due in legal.distinct]
        places = np.ceil(np.min(errors, axis=0) / size * 2.0 ** MANTISSA_BITS[legal.dtype])
    return int(places.max()) if np.isfinite(places).all() and (places < 2.0**53).all() else NO_NUMBER


def farther(a: int, b: int) -> int:
    """The larger of two distances. One that is no number is larger than any other."""
    return NO_NUMBER if NO_NUMBER in (a, b) else max(a, b)
