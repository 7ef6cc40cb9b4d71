"""Arrays, codes, scales and launches for tests of the CUDA kernels with any CuPy."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
from cuda_on_cpu import FakeCuPy, Launched
from kernel_arrays import WIDTHS, Array, coded, dtype_of

from xverify.kernels.blocks import Spread
from xverify.kernels.cuda.arrays import cupy as imported_cupy
from xverify.kernels.cuda.launch import Launch
from xverify.kernels.plans import Operand


def on_device(array: Array, start: int = 0) -> Any:
    """Copy codes to the device, ``start`` elements after a multiple of 64 bytes, in a dtype that CuPy has."""
    code = array.dtype if array.dtype.isbuiltin == 1 else f"u{array.itemsize}"
    module = imported_cupy()
    room = module.empty(array.nbytes + 128, np.uint8)
    first = -room.data.ptr % 64 + start * array.itemsize
    target = room[first : first + array.nbytes].view(code).reshape(array.shape)
    # As unsigned codes, since CuPy fills a scalar -0.0 with +0.0.
    unsigned = np.dtype(f"u{array.itemsize}")
    target.view(unsigned)[...] = module.asarray(array.view(unsigned))
    return target


def on_host(array: Any) -> Array:
    """Copy an array from the device."""
    copy: Array = imported_cupy().asnumpy(array)
    return copy


def guarded(shape: tuple[int, ...], dtype: np.dtype[Any], start: int, compute: Callable[[Any], Any]) -> Array:
    """Compute into memory ``start`` elements after a boundary. Check that the bytes around it stay.

    Args:
        compute: gets the output, an array of ``dtype``, or of uint16 for bfloat16.
    """
    code = np.dtype(np.uint16) if dtype.name == "bfloat16" else dtype
    size = prod(shape) * code.itemsize
    room = imported_cupy().full(size + 256, 0x5A, np.uint8)
    first = -room.data.ptr % 64 + start * code.itemsize
    compute(room[first : first + size].view(code).reshape(shape))
    memory = on_host(room)
    assert (memory[:first] == 0x5A).all()
    assert (memory[first + size :] == 0x5A).all()
    return memory[first : first + size].view(dtype).reshape(shape)


def launches_of(module: Any) -> list[Launched]:
    """The launches that the fake recorded. The real CuPy records none."""
    return module.launches if isinstance(module, FakeCuPy) else []


def launch_of(
    shape: tuple[int, ...], scale: tuple[int, ...], spread: Spread, x: str = "uint8", out: str = "float32"
) -> Launch:
    """Return the launch for a tensor and its scales."""
    return Launch.of(dtype_of(out), Operand(dtype_of(x), shape), Operand(np.dtype(np.float32), scale), None, spread)


def random(name: str, shape: tuple[int, ...], seed: int) -> Array:
    """Draw any codes of a type; 4-bit and 2-bit codes take a byte each, as in ml_dtypes."""
    rng = np.random.default_rng(seed)
    width = dtype_of(name).itemsize
    return coded(name, rng.integers(0, 1 << WIDTHS.get(name, 8 * width), shape))


def scales(name: str, shape: tuple[int, ...], seed: int) -> Array:
    """Draw ordinary scales. Almost all differ, so that a scale at a wrong index shows."""
    rng = np.random.default_rng(seed)
    if name == "float8_e8m0fnu":
        return coded(name, rng.integers(100, 150, shape))
    return (rng.standard_normal(shape) * 0.37).astype(dtype_of(name))


def refused_alike(here: Any, there: Any, operands: Any, keywords: Any) -> None:
    """Assert that the CUDA kernel ``there`` refuses a call with the same exception as NumPy's ``here``."""
    arrays = [np.asarray(a) for a in operands]
    with pytest.raises((TypeError, ValueError)) as expected:
        here(*arrays, backend="numpy", **keywords)
    with pytest.raises(expected.type) as got:
        there(*map(on_device, arrays), **keywords)
    assert str(got.value) == str(expected.value)
