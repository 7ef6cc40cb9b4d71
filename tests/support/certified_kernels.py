"""Kernels for the tests of certify, with ONNX's signature: right, wrong and misbehaving ones.

They need NumPy only.
"""

from __future__ import annotations

import os
import time

import numpy as np

FATAL = 0x4321
"""A float16 scale on which some kernels end the process."""


def sound(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):
    """Right for types of 4 bits or fewer with a 16-bit scale: per tensor, per axis, one block a row."""
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
    """Wrong: differences below -2 change their sign, as if they had wrapped, for scales of 3 or more."""
    y = sound(x, scale, zero_point, **attributes)
    wrong = (x.astype(int) - zero_point.astype(int)[:, None] < -2) & (scale.astype(np.float32)[:, None] >= 3)
    return np.where(wrong, -y, y)


def drops_the_tail(x, scale, zero_point=None, **attributes):
    """Wrong: in a call of more than 64 rows, the last value is 7."""
    y = sound(x, scale, zero_point, **attributes)
    if len(x) > 64:
        y[-1, -1] = 7
    return y


def flushes(x, scale, zero_point=None, **attributes):
    y = sound(x, scale, zero_point, **attributes)
    y[np.abs(y) < np.finfo(np.float16).tiny] *= 0
    return y


def by_turns(x, scale, zero_point=None, **attributes):
    """Wrong: rounds the difference to the output type in every second row.

    Each value is legal, but no reading gives all of them.
    """
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
