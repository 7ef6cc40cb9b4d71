"""Flawed kernels: 4-bit integers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from sound import numbers, onnx, onnx_with

INT4 = np.dtype(ml_dtypes.int4)
UINT4 = np.dtype(ml_dtypes.uint4)


def nibbles(array):
    return array.astype(np.int8) & 15


def uint4_read_as_signed(x, scale, zero_point=None, **attributes):
    return onnx_with(x, scale, zero_point, as_x=_signed, **attributes)


def _signed(x):
    read = numbers(x)
    return np.where(read > 7, read - 16, read) if x.dtype == UINT4 else read


def int4_without_sign_extension(x, scale, zero_point=None, **attributes):
    return onnx_with(x, scale, zero_point, as_x=_unsigned, **attributes)


def _unsigned(x):
    return numbers(nibbles(x)) if x.dtype == INT4 else numbers(x)


def int4_as_nibble_minus_7(x, scale, zero_point=None, **attributes):
    return onnx_with(x, scale, zero_point, as_x=_nibble_minus_7, **attributes)


def _nibble_minus_7(x):
    return numbers(nibbles(x)) - 7 if x.dtype == INT4 else numbers(x)


def uint4_zero_point_0_becomes_15(x, scale, zero_point=None, **attributes):
    return onnx_with(x, scale, zero_point, as_zero_point=_0_becomes_15, **attributes)


def _0_becomes_15(zero_point):
    read = numbers(zero_point)
    return np.where(read == 0, 15.0, read) if zero_point.dtype == UINT4 else read


def odd_rows_of_int4_refused(x, scale, zero_point=None, **attributes):
    if x.dtype in (INT4, UINT4) and x.ndim and x.shape[-1] % 2:
        raise ValueError("the last extent must be even")
    return onnx(x, scale, zero_point, **attributes)


def int8_minus_128_read_as_minus_127(x, scale, zero_point=None, **attributes):
    return onnx_with(x, scale, zero_point, as_x=_sign_and_magnitude, **attributes)


def _sign_and_magnitude(x):
    return np.maximum(numbers(x), -127.0) if x.dtype == np.int8 else numbers(x)


def int4_zero_point_without_sign_extension(x, scale, zero_point=None, **attributes):
    return onnx_with(x, scale, zero_point, as_zero_point=_unsigned, **attributes)


def uint16_zero_point_at_most_65504(x, scale, zero_point=None, **attributes):
    return onnx_with(x, scale, zero_point, as_zero_point=_at_most_65504, **attributes)


def _at_most_65504(zero_point):
    return np.minimum(numbers(zero_point), 65504.0) if zero_point.dtype == np.uint16 else numbers(zero_point)


def upper_nibble_of_odd_tail_taken(x, scale, zero_point=None, **attributes):
    onnx(x, scale, zero_point, **attributes)
    if x.dtype in (INT4, UINT4) and x.ndim and x.size > 1 and x.shape[-1] % 2:
        x = np.array(x)
        x[..., -1] = 0
    return onnx(x, scale, zero_point, **attributes)
