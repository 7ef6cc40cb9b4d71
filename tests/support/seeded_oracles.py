"""Implementations of ONNX's DequantizeLinear with one defect each, for sweeps to find, name and rank."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xverify.core.call import Call, Outcome
from xverify.oracles.arrays import answered, hand_out, numpy_dtype
from xverify.oracles.protocol import Loaded
from xverify.oracles.xverify_numpy import load as load_in_house

Array = np.ndarray[Any, Any]
Index = Callable[[Array, bool], Array]
"""A function from the right index of each value's parameter along the axis to the one that is taken. True for blocks."""


@dataclass(frozen=True)
class Operands:
    """An allowed call."""

    call: Call
    x: Array
    arrays: dict[str, Array]

    def parameter(self, role: str, taken: Index = lambda index, blocked: index) -> Array:
        """Return the parameter of each value of x, as float64, in a shape that broadcasts to x."""
        rank = self.x.ndim
        parameter = self.arrays[role].astype(np.float64) if role in self.arrays else np.zeros(())
        if parameter.size == 1 and parameter.ndim <= 1:
            return parameter.reshape([1] * rank)
        axis = int(self.call.attributes.get("axis", 1)) % rank
        block = int(self.call.attributes.get("block_size", 0)) if parameter.ndim == rank else 0
        index = taken(np.arange(self.x.shape[axis]) // max(1, block), block > 0)
        shape = parameter.shape if parameter.ndim == rank else [-1 if i == axis else 1 for i in range(rank)]
        return parameter.reshape(shape).take(index, axis, mode="clip")

    @property
    def difference(self) -> Array:
        return self.x.astype(np.float64) - self.parameter("zero_point")

    @property
    def scale(self) -> Array:
        return self.parameter("scale")

    @property
    def product(self) -> Array:
        """The right values. float64 holds them exactly, except for a few types of official examples."""
        return np.array(np.broadcast_to(self.difference * self.scale, self.x.shape))


def _answering(compute: Callable[[Operands], Array]) -> Loaded:
    """Return an implementation that rounds what ``compute`` gives to the output type.

    It refuses like the in-house kernel.
    """
    sound = load_in_house()

    def answer(call: Call, path: str) -> Outcome:
        right = sound.answer(call, path)
        assert isinstance(right, Outcome)
        assert right.tensor is not None
        arrays = hand_out(call)
        with np.errstate(all="ignore"):
            values = compute(Operands(call, arrays["x"], arrays)).astype(numpy_dtype(right.tensor.dtype))
        return answered(np.array(np.broadcast_to(values, arrays["x"].shape), order="C"), call, arrays)

    return Loaded(answer)


# -- arithmetic -------------------------------------------------------------------------------------------


def load_two_departures() -> Loaded:
    """Ignore the zero point, and round the product to float16."""
    return _answering(lambda operands: (operands.x.astype(np.float64) * operands.scale).astype(np.float16))


def load_folded() -> Loaded:
    """Compute x * s - 0 * s where the zero point is absent."""

    def compute(operands: Operands) -> Array:
        return operands.product if "zero_point" in operands.arrays else operands.product - 0 * operands.scale

    return _answering(compute)


def load_flushing() -> Loaded:
    """Give +0 for every result below the normal numbers."""

    def compute(operands: Operands) -> Array:
        return np.where(np.abs(operands.product) < np.finfo(np.float32).tiny, 0.0, operands.product)

    return _answering(compute)


def load_wrapping() -> Loaded:
    """Subtract in the type of x, if that is an integer."""

    def compute(operands: Operands) -> Array:
        dtype = operands.x.dtype
        difference = operands.difference.astype(np.int64).astype(dtype) if dtype.kind in "iu" else operands.difference
        return difference.astype(np.float64) * operands.scale

    return _answering(compute)


def load_truncating() -> Loaded:
    """Round the result toward zero."""

    def compute(operands: Operands) -> Array:
        nearest = operands.product.astype(np.float32)
        return np.where(np.abs(nearest) > np.abs(operands.product), np.nextafter(nearest, np.float32(0)), nearest)

    return _answering(compute)


def load_magnitude() -> Loaded:
    """Take the magnitude of the scale."""
    return _answering(lambda operands: operands.difference * np.abs(operands.scale))


def load_nan_as_number() -> Loaded:
    """Take the NaN of float8_e4m3fn with a sign for -480."""

    def compute(operands: Operands) -> Array:
        x = operands.x.astype(np.float64)
        if operands.x.dtype.name == "float8_e4m3fn":
            x = np.where(operands.x.view(np.uint8) == 0xFF, -480.0, x)
        return (x - operands.parameter("zero_point")) * operands.scale

    return _answering(compute)


def load_clamping() -> Loaded:
    """Give the largest finite number for infinity and NaN."""

    def compute(operands: Operands) -> Array:
        largest = np.finfo(np.float32).max
        return np.clip(np.nan_to_num(operands.product, nan=largest), -largest, largest)

    return _answering(compute)


def load_negating() -> Loaded:
    """Add 0 - zero point, which is never -0."""

    def compute(operands: Operands) -> Array:
        if "zero_point" not in operands.arrays:
            return operands.product
        return (operands.x.astype(np.float64) + (0.0 - operands.parameter("zero_point"))) * operands.scale

    return _answering(compute)


def load_flushing_to_plus() -> Loaded:
    """Take a scale that is subnormal or -0 for +0."""

    def compute(operands: Operands) -> Array:
        scale = np.where(np.abs(operands.scale) < np.finfo(np.float32).tiny, 0.0, operands.scale)
        return operands.difference * scale

    return _answering(compute)


def load_nan_as_zero() -> Loaded:
    """Give 0 where x is NaN."""

    def compute(operands: Operands) -> Array:
        return np.where(np.isnan(operands.x.astype(np.float64)), 0.0, operands.product)

    return _answering(compute)


# -- indexing ---------------------------------------------------------------------------------------------


def load_first_zero_point() -> Loaded:
    def compute(operands: Operands) -> Array:
        first = operands.parameter("zero_point", lambda index, blocked: index * 0)
        return (operands.x.astype(np.float64) - first) * operands.scale

    return _answering(compute)


def load_first_scale() -> Loaded:
    return _answering(
        lambda operands: operands.difference * operands.parameter("scale", lambda index, blocked: index * 0)
    )


def load_next_block() -> Loaded:
    """Take each block's scale from the next block; the last one's from the last."""
    return _answering(
        lambda operands: operands.difference * operands.parameter("scale", lambda index, blocked: index + blocked)
    )


def load_tail() -> Loaded:
    """Give 0 behind the last whole vector of 8 values."""

    def compute(operands: Operands) -> Array:
        flat = operands.product.reshape(-1)
        flat[flat.size // 8 * 8 :] = 0
        return flat.reshape(operands.x.shape)

    return _answering(compute)


# -- more than arithmetic ---------------------------------------------------------------------------------


def load_dying() -> Loaded:
    """End the process if the axis counts from the back."""

    def compute(operands: Operands) -> Array:
        if int(operands.call.attributes.get("axis", 1)) < 0:
            os.abort()
        return operands.product

    return _answering(compute)


def load_refusing() -> Loaded:
    """Refuse tensors of rank 0."""

    def compute(operands: Operands) -> Array:
        if operands.x.ndim == 0:
            raise IndexError("tuple index out of range")
        return operands.product

    return _answering(compute)


def load_requantizing() -> Loaded:
    """Quantize the result again to uint8 without a zero point, if a Transpose follows.

    Only an optimised graph does so.
    """
    sound = _answering(lambda operands: operands.product)
    moved = _answering(lambda operands: np.clip(np.rint(operands.difference), 0, 255) * operands.scale)

    def answer(call: Call, path: str) -> Outcome:
        is_moved = path.endswith("basic") and any(word.startswith("y>transpose") for word in call.around)
        outcome = (moved if is_moved else sound).answer(replace(call, around=()), path)
        assert isinstance(outcome, Outcome)
        return outcome

    return Loaded(answer)
