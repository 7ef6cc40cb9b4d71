"""Implementations whose answer depends on the granularity, the edition or the position of a value."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from xverify.core.call import Call, Outcome
from xverify.oracles.arrays import answered, hand_out
from xverify.oracles.onednn_formulas import load_divide, load_multiply
from xverify.oracles.protocol import Loaded


def _operands(call: Call) -> tuple[Any, Any, Any]:
    arrays = hand_out(call)
    x = arrays["x"]
    shape = [1] * x.ndim
    if call.attributes.get("qtype") == "per_channel":
        shape[int(call.attributes.get("axis", 1))] = -1
    scale = arrays["scale"].reshape(shape)
    zero_point = arrays["zero_point"].reshape(shape) if "zero_point" in arrays else np.zeros([1] * x.ndim, np.int32)
    return x, scale, zero_point


def _exact(x: Any, scale: Any, zero_point: Any) -> Any:
    """Round once: a long double holds the product of a 34-bit difference and a 24-bit scale."""
    with np.errstate(all="ignore"):
        difference = x.astype(np.int64) - zero_point.astype(np.int64)
        return (difference.astype(np.longdouble) * scale.astype(np.longdouble)).astype(np.float32)


def _float32(x: Any, scale: Any, zero_point: Any) -> Any:
    """Round the difference to float32 before the product."""
    with np.errstate(all="ignore"):
        difference = x.astype(np.int64) - zero_point.astype(np.int64)
        return np.float32(difference) * np.float32(scale)


def _by_onednn(compute: Any) -> Loaded:
    """Return an implementation with the sound formula's refusals and the values of ``compute(call)``."""
    sound = load_multiply()

    def answer(call: Call, path: str) -> Outcome:
        sound.answer(call, path)
        return answered(np.asarray(compute(call)), call, {})

    return Loaded(answer, sound.not_implemented)


def _per_channel(call: Call) -> bool:
    return call.attributes.get("qtype") == "per_channel"


def load_by_granularity() -> Loaded:
    return _by_onednn(lambda call: (_exact if _per_channel(call) else _float32)(*_operands(call)))


def load_exact() -> Loaded:
    return _by_onednn(lambda call: _exact(*_operands(call)))


def load_tail() -> Loaded:
    """Compute the elements after the last whole group of 16 in a row by the other reading."""

    def compute(call: Call) -> Any:
        x, scale, zero_point = _operands(call)
        result, other = _exact(x, scale, zero_point), _float32(x, scale, zero_point)
        if not np.ndim(result):
            return other
        start = result.shape[-1] // 16 * 16
        result[..., start:] = other[..., start:]
        return result

    return _by_onednn(compute)


def load_wrong_per_channel() -> Loaded:
    """Right per tensor. Adds 1 per channel."""
    return _by_onednn(lambda call: _exact(*_operands(call)) + np.float32(_per_channel(call)))


def load_refusing_per_channel() -> Loaded:
    def compute(call: Call) -> Any:
        if _per_channel(call):
            raise ValueError("per tensor only")
        return _float32(*_operands(call))

    return _by_onednn(compute)


def load_dying_per_channel() -> Loaded:
    def compute(call: Call) -> Any:
        if _per_channel(call):
            os.abort()
        return _float32(*_operands(call))

    return _by_onednn(compute)


def load_hanging() -> Loaded:
    def compute(call: Call) -> Any:
        time.sleep(1000)

    return _by_onednn(compute)


def load_both_documents() -> Loaded:
    """Follow each document of oneDNN as it stands."""
    loaded = {"multiply": load_multiply(), "divide": load_divide()}
    return Loaded(lambda call, path: loaded[call.contract.partition("@")[2]].answer(call, path))


def load_by_version() -> Loaded:
    """int32 to float32 per tensor without a zero point: exact from ONNX version 13 on, in float32 before."""

    def answer(call: Call, path: str) -> Outcome:
        arrays = hand_out(call)
        types = (arrays["x"].dtype.name, arrays["scale"].dtype.name)
        if set(arrays) != {"x", "scale"} or arrays["scale"].shape or types != ("int32", "float32"):
            raise NotImplementedError("per tensor, without a zero point, int32 to float32")
        how = _float32 if call.contract.endswith("-10") else _exact
        return answered(np.asarray(how(arrays["x"], arrays["scale"], np.int32(0))), call, {})

    return Loaded(answer)


def load_onnx_by_granularity() -> Loaded:
    """int32 to float32 with zero points of 0: in float32 per tensor, exact per axis and in blocks."""

    def answer(call: Call, path: str) -> Outcome:
        arrays = hand_out(call)
        x, scale = arrays["x"], arrays["scale"]
        if (x.dtype.name, scale.dtype.name) != ("int32", "float32") or arrays.get("zero_point", np.zeros(1)).any():
            raise NotImplementedError("without a zero point, int32 to float32")
        if not scale.shape:
            return answered(np.asarray(_float32(x, scale, np.int32(0))), call, {})
        axis, size = int(call.attributes.get("axis", 1)), int(call.attributes.get("block_size", 0))
        if size:
            scale = np.repeat(scale, size, axis)[tuple(slice(extent) for extent in x.shape)]
        else:
            shape = [1] * x.ndim
            shape[axis] = -1
            scale = scale.reshape(shape)
        return answered(np.asarray(_exact(x, scale, np.int32(0))), call, {})

    return Loaded(answer)
