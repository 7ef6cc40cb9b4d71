"""Kernels for the tests of certify, of ONNX's signature, with NumPy alone: a sound one, wrong ones, and ones that misbehave."""

from __future__ import annotations

import os
import time

import numpy as np

FATAL = 0x4321
"""The float16 scale that some do not survive."""


def sound(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):
    """Per tensor, per axis, and one block a row; exact for types of 4 bits or fewer with a scale of 16 bits."""
    shape = [1] * x.ndim
    if scale.ndim == 1:
        shape[axis] = -1
    elif scale.ndim:
        shape = scale.shape
    factor = scale.reshape(shape).astype(np.float64)
    away = x.astype(np.float64)
    if zero_point is not None:
        away = away - zero_point.reshape(shape).astype(np.float64)
    return (away * factor).astype(out_dtype or scale.dtype)


def wraps(x, scale, zero_point=None, **attributes):
    """Differences below -2 come out as if they had wrapped, from a scale of 3 on."""
    y = sound(x, scale, zero_point, **attributes)
    wrong = (x.astype(int) - zero_point.astype(int)[:, None] < -2) & (scale.astype(np.float32)[:, None] >= 3)
    return np.where(wrong, -y, y)


def drops_the_tail(x, scale, zero_point=None, **attributes):
    """The last value of the second half of a call of more than 64 rows is left 7."""
    y = sound(x, scale, zero_point, **attributes)
    if len(x) > 64:
        y[-1, -1] = 7
    return y


def flushes(x, scale, zero_point=None, **attributes):
    y = sound(x, scale, zero_point, **attributes)
    y[np.abs(y) < np.finfo(np.float16).tiny] *= 0
    return y


def by_turns(x, scale, zero_point=None, **attributes):
    """Rounds the difference to the output type in every other row: each value is admitted, but by no reading all."""
    y = np.array(sound(x, scale, zero_point, **attributes))
    away = x.astype(np.float32) - zero_point.astype(np.float32)[:, None]
    rounded = away.astype(y.dtype).astype(np.float64) * scale.astype(np.float64)[:, None]
    y[::2] = rounded.astype(y.dtype)[::2]
    return y


def slow(x, scale, zero_point=None, **attributes):
    time.sleep(5e-4)
    return sound(x, scale, zero_point, **attributes)


def dies(x, scale, zero_point=None, **attributes):
    if (scale.view(np.uint16) == FATAL).any():
        os.abort()
    return sound(x, scale, zero_point, **attributes)


def hangs(x, scale, zero_point=None, **attributes):
    if (scale.view(np.uint16) == FATAL).any():
        time.sleep(60)
    return sound(x, scale, zero_point, **attributes)


def refuses(x, scale, zero_point=None, **attributes):
    raise NotImplementedError("not today")


def refuses_some(x, scale, zero_point=None, **attributes):
    if (scale.view(np.uint16) == FATAL).any():
        raise ValueError("not that one")
    return sound(x, scale, zero_point, **attributes)


def of_another_type(x, scale, zero_point=None, **attributes):
    return sound(x, scale, zero_point, **attributes).astype(np.float64)
