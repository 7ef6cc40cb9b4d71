"""What the CUDA kernels' tests share: the CuPy of ours that the package imports, arrays on its device, codes and scales."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_on_cpu import DeviceArray
from kernel_arrays import WIDTHS, Array, coded, dtype_of

from xverify.kernels.blocks import Spread
from xverify.kernels.cuda.launch import Launch
from xverify.kernels.plans import Operand


def on_device(array: Array, start: int = 0) -> Any:
    """A copy of the array's codes, that many elements after a multiple of 64 bytes, in an array of a dtype that CuPy has."""
    code = array.dtype if array.dtype.isbuiltin == 1 else f"u{array.itemsize}"
    room = np.zeros(array.nbytes + 128, np.uint8)
    first = -room.ctypes.data % 64 + start * array.itemsize
    placed = room[first : first + array.nbytes].view(code).reshape(array.shape)
    placed[...] = array.view(code)
    return placed.view(DeviceArray)


def launch_of(
    shape: tuple[int, ...], scale: tuple[int, ...], spread: Spread, x: str = "uint8", out: str = "float32"
) -> Launch:
    """The launch for a tensor and one scale, or as many as the spread wants."""
    return Launch.of(dtype_of(out), Operand(dtype_of(x), shape), Operand(np.dtype(np.float32), scale), None, spread)


def random(name: str, shape: tuple[int, ...], seed: int) -> Array:
    """Any codes of a type; those of 4 and 2 bits as ml_dtypes has them."""
    rng = np.random.default_rng(seed)
    width = dtype_of(name).itemsize
    return coded(name, rng.integers(0, 1 << WIDTHS.get(name, 8 * width), shape))


def scales(name: str, shape: tuple[int, ...], seed: int) -> Array:
    """Ordinary scales, all different for the most part, so that one of a wrong place shows."""
    rng = np.random.default_rng(seed)
    if name == "float8_e8m0fnu":
        return coded(name, rng.integers(100, 150, shape))
    return (rng.standard_normal(shape) * 0.37).astype(dtype_of(name))


def refused_alike(here: Any, there: Any, operands: Any, keywords: Any) -> None:
    """A call of the CUDA kernel ``there`` is refused with the type of error and the words of NumPy's form, ``here``."""
    arrays = [np.asarray(a) for a in operands]
    with pytest.raises((TypeError, ValueError)) as expected:
        here(*arrays, backend="numpy", **keywords)
    with pytest.raises(expected.type) as got:
        there(*map(on_device, arrays), **keywords)
    assert str(got.value) == str(expected.value)
