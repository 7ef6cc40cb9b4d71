"""The kernels that Numba compiles: the bits of NumPy's, on every path through them."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_arrays import INTEGERS, SCALES, SMALL_FLOATS, Array, all_codes, coded, codes_of, dtype_of, some_zero_points

import xverify

pytest.importorskip("numba")
OUTPUTS = ("float32", "float16", "bfloat16")


def both(x: Array, scale: Array, zero_point: Array | None, **keywords: object) -> tuple[list[int], list[int]]:
    """What the two backends give."""
    results = [xverify.dequantize_linear(x, scale, zero_point, backend=b, **keywords) for b in ("numpy", "numba")]  # type: ignore[arg-type]
    assert results[0].dtype == results[1].dtype
    return codes_of(results[0]), codes_of(results[1])


@pytest.mark.parametrize("name", [*INTEGERS, *SMALL_FLOATS])
def test_every_code_of_the_small_types(name: str) -> None:
    for scale_name, codes in SCALES.items():
        for number, code in enumerate(codes):
            zero_points = some_zero_points(name)
            zero = zero_points[number % len(zero_points)]
            x, scale = all_codes(name), coded(scale_name, code)
            zero_point = None if zero is None else coded(name, zero)
            want, got = both(x, scale, zero_point, out_dtype=OUTPUTS[number % 3])
            assert got == want
            want, got = both(
                np.tile(x, 8), np.tile(scale, 8 * x.size), None, out_dtype=dtype_of(OUTPUTS[number % 3]), axis=0
            )
            assert got == want
