"""Flawed kernels: float8 and float4 codes and float8_e8m0fnu scales read wrongly."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from sound import numbers, onnx, onnx_with

E4M3FN = np.dtype(ml_dtypes.float8_e4m3fn)
E5M2FNUZ = np.dtype(ml_dtypes.float8_e5m2fnuz)
FNUZ = (np.dtype(ml_dtypes.float8_e4m3fnuz), E5M2FNUZ)
E2M1FN = np.dtype(ml_dtypes.float4_e2m1fn)
E8M0FNU = np.dtype(ml_dtypes.float8_e8m0fnu)


def codes(array):
    return np.ascontiguousarray(array).reshape(np.shape(array)).view(np.uint8)


def e4m3fn_subnormals_as_normal(x, scale, zero_point=None, **attributes):
    return onnx_with(x, scale, zero_point, as_x=_e4m3fn_always_normal, **attributes)


def _e4m3fn_always_normal(x):
    if x.dtype != E4M3FN:
        return numbers(x)
    code = codes(x).astype(np.int64)
    sign = np.where(code & 0x80, -1.0, 1.0)
    return sign * np.ldexp(1 + (code & 7) / 8, ((code >> 3) & 15) - 7)


def e4m3fn_negative_zero_unsigned(x, scale, zero_point=None, **attributes):
    return onnx_with(x, scale, zero_point, as_x=_e4m3fn_positive_zero, **attributes)


def _e4m3fn_positive_zero(x):
    read = numbers(x)
    return np.where(codes(x) == 0x80, 0.0, read) if x.dtype == E4M3FN else read


def fnuz_nan_as_negative_zero(x, scale, zero_point=None, **attributes):
    return onnx_with(x, scale, zero_point, as_x=_fnuz_negative_zero, **attributes)


def _fnuz_negative_zero(x):
    read = numbers(x)
    return np.where(codes(x) == 0x80, -0.0, read) if x.dtype in FNUZ else read


def e5m2fnuz_with_bias_of_e5m2(x, scale, zero_point=None, **attributes):
    return onnx_with(x, scale, zero_point, as_x=_e5m2fnuz_doubled, **attributes)


def _e5m2fnuz_doubled(x):
    return 2.0 * numbers(x) if x.dtype == E5M2FNUZ else numbers(x)


def float4_subnormals_as_normal(x, scale, zero_point=None, **attributes):
    return onnx_with(x, scale, zero_point, as_x=_float4_always_normal, **attributes)


def _float4_always_normal(x):
    if x.dtype != E2M1FN:
        return numbers(x)
    code = codes(x).astype(np.int64)
    sign = np.where(code & 8, -1.0, 1.0)
    return sign * np.ldexp(1 + (code & 1) / 2, ((code >> 1) & 3) - 1)


def e8m0_nan_found_by_value_128(x, scale, zero_point=None, **attributes):
    return onnx_with(x, scale, zero_point, as_scale=_nan_at_128, **attributes)


def _nan_at_128(scale):
    if scale.dtype != E8M0FNU:
        return numbers(scale)
    read = np.ldexp(1.0, codes(scale).astype(np.int64) - 127)
    return np.where(read == 128.0, np.nan, np.where(codes(scale) == 255, np.inf, read))


def e8m0_smallest_as_zero(x, scale, zero_point=None, **attributes):
    return onnx_with(x, scale, zero_point, as_scale=_exponent_shifted_into_place, **attributes)


def _exponent_shifted_into_place(scale):
    if scale.dtype != E8M0FNU:
        return numbers(scale)
    return numbers((codes(scale).astype(np.uint32) << 23).view(np.float32))


def e8m0_below_float16_normal_as_zero(x, scale, zero_point=None, **attributes):
    result = onnx(x, scale, zero_point, **attributes)
    if result.dtype != np.float16:
        return result
    return onnx_with(x, scale, zero_point, as_scale=_without_float16_subnormal, **attributes)


def _without_float16_subnormal(scale):
    read = numbers(scale)
    return np.where(read < 2.0**-14, 0.0, read) if scale.dtype == E8M0FNU else read
