"""Kernels for the gate's own tests, with oneDNN's signature: right, wrong and misbehaving ones."""

from __future__ import annotations

import os
import time

import numpy as np

import xverify

CONTRACT = "onednn/DynamicDequantize-1@multiply"
hoarded: list[np.ndarray] = []


def sound(src, scales, zps=None, **attributes):
    return xverify.dynamic_dequantize(src, scales, zps, contract=CONTRACT, backend="numpy", **attributes)


def wraps(src, scales, zps=None, **attributes):
    """Wrong: subtracts in the type of src, if the zero points have that type."""
    y = sound(src, scales, zps, **attributes)
    if zps is not None and zps.dtype == src.dtype and attributes.get("qtype", "per_tensor") == "per_tensor":
        with np.errstate(all="ignore"):
            return ((src - zps).astype(np.float32) * scales).reshape(src.shape)
    return y


def wraps_and_drops_tails(src, scales, zps=None, **attributes):
    """Wrong: like `wraps`, and the last element of a long row is 0."""
    y = np.array(wraps(src, scales, zps, **attributes))
    if y.ndim and y.shape[-1] > 16 and y.shape[-1] % 16:
        y[..., -1] = 0
    return y


def flushes(src, scales, zps=None, **attributes):
    y = np.array(sound(src, scales, zps, **attributes))
    y[np.abs(y) < np.finfo(np.float32).tiny] *= 0
    return y


def alternates(src, scales, zps=None, **attributes):
    """Wrong: rounds every second difference to float32. Each value is legal, but by no single reading."""
    y = np.array(sound(src, scales, zps, **attributes))
    if zps is not None and attributes.get("qtype", "per_tensor") == "per_tensor":
        with np.errstate(all="ignore"):
            rounded = (src.astype(np.int64) - zps.astype(np.int64)).astype(np.float32) * scales
        y.reshape(-1)[::2] = rounded.reshape(-1)[::2]
    return y


def no_zero_points(src, scales, zps=None, **attributes):
    if zps is not None:
        raise NotImplementedError("zero points")
    return sound(src, scales, **attributes)


def nothing(*operands, **attributes):
    raise NotImplementedError


def forgets_to_return(src, scales, zps=None, **attributes):
    sound(src, scales, zps, **attributes)


def without_axis(src, scales, zps=None, *, qtype="per_tensor"):
    return sound(src, scales, zps, qtype=qtype)


def misspelt(src, scales, zps=None, **attributes):
    return soudn(src, scales, zps, **attributes)  # noqa: F821


def takes_anything(src, scales, zps=None, qtype="per_tensor", axis=1):
    try:
        return sound(src, scales, zps, qtype=qtype, axis=axis)
    except Exception:
        return np.zeros(src.shape, np.float32)


def slow(*operands, **attributes):
    time.sleep(10)
    return sound(*operands, **attributes)


def hoards(*operands, **attributes):
    hoarded.append(np.ones(1 << 22))
    return sound(*operands, **attributes)


def talks(*operands, **attributes):
    print("x" * (1 << 22), flush=True)
    return sound(*operands, **attributes)


def leaves(src, *operands, **attributes):
    if src.size == 0:
        os._exit(0)
    return sound(src, *operands, **attributes)


turn = 0


def forgets(src, scales, zps=None, **attributes):
    """Wrong: ignores the zero points in every third call."""
    global turn
    turn += 1
    return sound(src, scales, None if turn % 3 == 0 else zps, **attributes)
