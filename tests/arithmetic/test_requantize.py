"""Results that are quantized once more: the codes of the second QuantizeLinear, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from xverify.arithmetic.reading import Operands
from xverify.arithmetic.requantize import requantized
from xverify.core.dtypes import tensor, values

INF, NAN = np.inf, np.nan


def operands(dtype: str, x: list[float], scale: float, zero_point: float | None = None) -> Operands:
    tensors = {"x": tensor(dtype, x), "scale": tensor("float32", scale)}
    tensors |= {} if zero_point is None else {"zero_point": tensor(dtype, zero_point)}
    codes = {role: each.codes for role, each in tensors.items()}
    return Operands(codes, {role: each.dtype for role, each in tensors.items()}, "float32", (len(x),))


@pytest.mark.parametrize(
    ("dtype", "x", "scale", "zero_point", "target", "keeps", "again"),
    [
        ("int8", [-5, 0, 3], 0.5, None, "uint8", False, [0, 0, 3]),
        ("int32", [-300, 255, 256, 70000], 0.5, None, "uint8", False, [0, 255, 255, 255]),
        ("int32", [-300, 127, 128], 0.5, None, "int8", False, [-128, 127, 127]),
        ("uint8", [0, 5, 255], 0.5, 5, "uint8", False, [0, 0, 250]),
        ("uint8", [0, 5, 255], 0.5, 5, "uint8", True, [0, 5, 255]),
        # 0 / 0 and inf / inf are NaN, whose conversion gives the lowest value.
        ("int8", [1, -1], 0.0, None, "int8", True, [-128, -128]),
        ("int8", [1, 0], INF, None, "uint8", False, [0, 0]),
        # 127 * 3e38 overflows.
        ("int8", [127, 1, -128], 3e38, None, "int8", True, [127, 1, -128]),
        ("int8", [5, -5], 3e38, None, "int8", True, [127, -128]),
        # Ties go to the even integer.
        ("float8_e4m3fn", [0.5, 1.5, 2.5, -1.0], 2.0, None, "uint8", False, [0, 2, 2, 0]),
        ("float8_e4m3fn", [448.0, -0.0, 1.75], 0.5, None, "float8_e4m3fn", True, [448.0, -0.0, 1.75]),
        ("float8_e4m3fn", [1.0], 0.0, None, "float8_e4m3fn", True, [NAN]),
        ("float8_e5m2", [INF, -INF], 0.5, None, "float8_e5m2", True, [57344.0, -57344.0]),
    ],
)
def test_codes(
    dtype: str, x: list[float], scale: float, zero_point: float | None, target: str, keeps: bool, again: list[float]
) -> None:
    codes = requantized(operands(dtype, x, scale, zero_point), target, keeps)
    assert codes is not None
    np.testing.assert_array_equal(values(target, codes), again)
    assert (np.signbit(values(target, codes)) == np.signbit(again))[~np.isnan(again)].all()


def test_types_that_are_not_quantized_to() -> None:
    assert requantized(operands("float4_e2m1fn", [1.0], 0.5), "float4_e2m1fn", True) is None
    assert requantized(operands("int8", [], 0.5), "uint8", False) is None
