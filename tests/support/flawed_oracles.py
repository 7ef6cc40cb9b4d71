"""Implementations of oneDNN's formula with one mistake each, for sweeps to find, name and shrink."""

from __future__ import annotations

import os

import numpy as np

from xverify.core.call import Call, Outcome
from xverify.oracles.arrays import answered, hand_out
from xverify.oracles.onednn_formulas import load_multiply
from xverify.oracles.protocol import Loaded


def _formula(call: Call) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    arrays = hand_out(call)
    x = arrays["x"]
    shape = [1] * x.ndim
    if call.attributes.get("qtype") == "per_channel":
        shape[int(call.attributes.get("axis", 1))] = -1
    scale = arrays["scale"].reshape(shape)
    zero_point = arrays["zero_point"].reshape(shape) if "zero_point" in arrays else np.zeros([1] * x.ndim, np.int32)
    return x, scale, zero_point


def _answering(flawed) -> Loaded:
    """Return an implementation that refuses like the sound formula and computes with ``flawed``."""
    sound = load_multiply()

    def answer(call: Call, path: str) -> Outcome:
        sound.answer(call, path)
        x, scale, zero_point = _formula(call)
        with np.errstate(all="ignore"):
            result = np.broadcast_to(flawed(x, scale, zero_point), x.shape).astype(np.float32)
        return answered(result, call, {})

    return Loaded(answer, sound.not_implemented)


def load_ignoring() -> Loaded:
    return _answering(lambda x, scale, zero_point: x.astype(np.float32) * scale)


def load_tail() -> Loaded:
    """Leave the last element of a row 0, if the row has more than 16 elements and 16 does not divide it."""

    def flawed(x, scale, zero_point):
        result = (x.astype(np.float64) - zero_point).astype(np.float32) * scale
        result = np.broadcast_to(result, x.shape).copy()
        if x.ndim and x.shape[-1] > 16 and x.shape[-1] % 16:
            result[..., -1] = 12345.0
        return result

    return _answering(flawed)


def load_dying() -> Loaded:
    """End the process on an empty tensor."""
    sound = load_multiply()

    def answer(call: Call, path: str) -> Outcome:
        if call.values == 0:
            os.abort()
        result = sound.answer(call, path)
        assert isinstance(result, Outcome)
        return result

    return Loaded(answer, sound.not_implemented)


def load_fickle() -> Loaded:
    """Give 1 ULP more in every second call of the process."""
    turn = iter(range(2**62))

    def flawed(x, scale, zero_point):
        result = (x.astype(np.float64) - zero_point).astype(np.float32) * scale
        return np.nextafter(result, np.float32(np.inf)) if next(turn) % 2 else result

    return _answering(flawed)
