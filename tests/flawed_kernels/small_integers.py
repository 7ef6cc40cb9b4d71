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
