"""Arrays on a CUDA device, from any library.

They become CuPy arrays of codes, beside the dtype that the codes have.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike

INSTALL = "pip install 'xverify[cuda]'"

CUDA_DEVICES = (2, 13)
"""kDLCUDA and kDLCUDAManaged of DLPack's DLDeviceType."""

_BY_BITS = {
    6: ("float6_e2m3fn", "float6_e3m2fn"), 4: ("int4", "uint4", "float4_e2m1fn"), 2: ("int2", "uint2"),
}  # fmt: skip

SUB_BYTE: dict[np.dtype[Any], int] = {
    np.dtype(dtype): bits
    for bits, dtypes in _BY_BITS.items()
    for dtype in (getattr(ml_dtypes, name) for name in dtypes)
}
"""Bits of the dtypes that have fewer than 8."""

_BFLOAT16, _UINT16 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.uint16)
_AS_IT_IS = nullcontext()


class Given(NamedTuple):
    """An operand on a device."""

    codes: Any
    """A CuPy array in C order."""

    dtype: np.dtype[Any]
    """The dtype of the codes."""

    shape: tuple[int, ...]
    """The shape of the tensor; packed codes have another shape."""


def cupy() -> Any:
    """Import CuPy.

    Raises:
        ImportError: if CuPy cannot be imported.
    """
    try:
        import cupy as found
    except Exception as error:  # A broken installation may raise any exception.
        raise ImportError(f"the CUDA kernels need CuPy ({error}); install it with: {INSTALL}") from error
    return found


@lru_cache(maxsize=1)
def require_device() -> Any:
    """Import CuPy, and check that there is a card. A card that was found is not looked for again.

    Raises:
        ImportError: without CuPy.
        RuntimeError: without a card, or a driver that CuPy can use.
    """
    module = cupy()
    try:
        count, reason = module.cuda.runtime.getDeviceCount(), "it counts 0 devices"
    except Exception as error:  # CuPy's own class, which is not documented.
        count, reason = 0, str(error)
    if count < 1:
        raise RuntimeError(
            f"CuPy finds no CUDA device here ({reason}); the CUDA kernels need an NVIDIA card, its driver, and the CuPy for "
            f"that driver's CUDA: {INSTALL}"
        )
    return module


def current(x: Any, stream: Any) -> AbstractContextManager[None]:
    """Make x's device and a stream CuPy's current ones.

    The stream waits for the work of the stream that was current before, where CuPy arrays are made. A stream that is
    being captured
    does not: a graph waits for nothing outside.

    Args:
        x: an array on the device.
        stream: a CuPy stream, another object with ``__cuda_stream__``, or a cudaStream_t as an integer; None for the
            device's current
            stream.

    Raises:
        TypeError: for another stream.
    """
    device = _device_of(x)
    if stream is None and device == require_device().cuda.runtime.getDevice():
        return _AS_IT_IS
    return _entered(device, stream)


@contextmanager
def _entered(device: int, stream: Any) -> Iterator[None]:
    """Enter a device, and a stream unless it is None."""
    module = require_device()
    with module.cuda.Device(device):
        if stream is None:
            yield
            return
        entered = _stream(stream)
        if not entered.is_capturing():
            entered.wait_event(module.cuda.get_current_stream().record())
        with entered:
            yield


def _device_of(x: Any) -> int:
    """The CUDA device of an array; the current one if the array is on none, which is refused later."""
    module = require_device()
    if isinstance(x, module.ndarray):
        return int(x.data.device_id)
    if _has_dlpack(x):
        return int(x.__dlpack_device__()[1])
    if hasattr(x, "__cuda_array_interface__"):
        return int(module.asarray(x).data.device_id)
    return int(module.cuda.runtime.getDevice())


def _has_dlpack(value: Any) -> bool:
    """True for an array on a CUDA device by DLPack."""
    return hasattr(value, "__dlpack_device__") and value.__dlpack_device__()[0] in CUDA_DEVICES


def _stream(stream: Any) -> Any:
    """CuPy's stream for a stream of any kind."""
    streams = require_device().cuda.Stream
    if isinstance(stream, int):
        stream = _Address(stream)
    if not hasattr(stream, "__cuda_stream__"):
        raise TypeError(
            f"stream is {type(stream).__name__}; expected the address of a cudaStream_t, or what has __cuda_stream__"
        )
    return stream if isinstance(stream, streams) else streams.from_external(stream)


@dataclass(frozen=True)
class _Address:
    """A stream of which only the address is known."""

    address: int

    def __cuda_stream__(self) -> tuple[int, int]:
        """Version and handle, of the CUDA stream protocol."""
        return 0, self.address


def on_device(value: Any, name: str) -> Any:
    """The CuPy array of the same memory, ordered after the work of its maker's stream.

    Raises:
        TypeError: if it is not an array on a CUDA device.
    """
    module = require_device()
    if isinstance(value, module.ndarray):
        return value
    # First, since DLPack always names the stream to wait for; PyTorch's __cuda_array_interface__ does not.
    if _has_dlpack(value):
        return module.from_dlpack(value)
    if hasattr(value, "__cuda_array_interface__"):
        return module.asarray(value)
    raise TypeError(
        f"{name} is {type(value).__name__}, not on a CUDA device; expected a CuPy array, or one with __dlpack__ or "
        "__cuda_array_interface__ there"
    )


def named(dtype: DTypeLike, name: str) -> np.dtype[Any]:
    """The dtype of that name in NumPy or ml_dtypes.

    Raises:
        TypeError: if there is no such dtype.
    """
    if isinstance(dtype, np.dtype):
        return dtype
    try:
        return _by_name(dtype) if isinstance(dtype, str) else np.dtype(dtype)
    except TypeError:
        raise TypeError(f"{name} is {dtype!r}; expected the name of a dtype of NumPy or ml_dtypes") from None


@lru_cache(maxsize=256)
def _by_name(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


def given(value: Any, name: str, dtype: DTypeLike | None) -> Given:
    """An operand: its codes in C order, copied if necessary, and their dtype.

    Args:
        dtype: the dtype of the codes; None for that of the array.

    Raises:
        TypeError: if the codes do not have the width of the dtype.
        ValueError: if they are not aligned.
    """
    codes = on_device(value, name)
    own = codes.dtype
    meant = own if dtype is None else named(dtype, f"{name}_dtype")
    width = own.itemsize
    if own is not meant and own != meant and not (own.kind in "iu" and width == meant.itemsize):
        raise TypeError(f"{name} is an array of {own}; expected codes of {meant} as uint{8 * meant.itemsize}")
    # Before any copy: a misaligned read ends the card's work for the whole process.
    if codes.data.ptr % width:
        raise ValueError(f"{name} lies at {codes.data.ptr:#x}; expected a multiple of its {width} bytes")
    shape = codes.shape
    if not codes.flags.c_contiguous:
        if any(stride % width for stride, extent in zip(codes.strides, shape, strict=True) if extent > 1):
            raise ValueError(f"{name} has the strides {codes.strides}; expected multiples of its {width} bytes")
        codes = require_device().ascontiguousarray(codes)
    return Given(codes, meant, shape)


def packed(value: Any, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Given:
    """An operand of that shape whose codes of fewer than 8 bits are packed in bytes.

    Raises:
        TypeError: if the array is not of uint8.
        ValueError: if it has another length.
    """
    codes = given(value, name, None).codes
    expected = -(-prod(shape) * SUB_BYTE[dtype] // 8)
    if codes.dtype != np.uint8:
        raise TypeError(f"the dtype of {name} is {codes.dtype}; expected packed codes in uint8")
    if codes.shape != (expected,):
        raise ValueError(
            f"the shape of {name} is {codes.shape}; expected ({expected},), for {prod(shape)} packed codes of {dtype}"
        )
    return Given(codes, dtype, shape)


def code_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the CuPy array that holds an output: its own, or uint16 for bfloat16."""
    return _UINT16 if dtype == _BFLOAT16 else dtype


def output(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any], x: Given, *others: Given | None) -> Any:
    """The CuPy array of ``out``'s memory after its checks, or a new one.

    Raises:
        TypeError: if ``out`` is not an array of that dtype on a CUDA device.
        ValueError: if ``out`` has another shape, is not in C order, is read-only, is on another device or overlaps an
            input, or if the
            inputs are on several devices.
    """
    device, inputs = x.codes.data.device_id, (x, *others)
    for operand in others:
        if operand is not None and operand.codes.data.device_id != device:
            devices = sorted({operand.codes.data.device_id for operand in inputs if operand is not None})
            raise ValueError(f"the operands lie on the devices {devices}; expected one device")
    if out is None:
        return require_device().empty(shape, code_dtype(dtype))
    target = on_device(out, "out")
    if target.dtype not in (dtype, code_dtype(dtype)):
        raise TypeError(f"out is {target.dtype}; expected an array of {code_dtype(dtype)}, for {dtype}")
    if target.shape != shape:
        raise ValueError(f"the shape of out is {target.shape}; expected {shape}")
    if not target.flags.c_contiguous:
        raise ValueError(f"out has the strides {target.strides}; expected an array in C order")
    if target is not out:
        interface = getattr(out, "__cuda_array_interface__", None)
        if interface and interface["data"][1]:
            raise ValueError("out is read-only; expected an array that can be written")
    start = target.data.ptr
    if target.data.device_id != device:
        raise ValueError(f"out lies on device {target.data.device_id}; expected that of x, {device}")
    if start % dtype.itemsize:
        raise ValueError(f"out lies at {start:#x}; expected a multiple of its {dtype.itemsize} bytes")
    stop = start + target.nbytes
    for operand in inputs:
        if operand is not None:
            other = operand.codes.data.ptr
            if other < stop and start < other + operand.codes.nbytes:
                raise ValueError("out overlaps an input; expected memory of its own")
    return target
