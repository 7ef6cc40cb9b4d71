"""Arrays on a CUDA device, from any library.

They become CuPy arrays of codes, beside the dtype that the codes have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

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


def require_device() -> Any:
    """Import CuPy, and check that there is a card.

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


@lru_cache(maxsize=1)
def with_device() -> Any:
    """CuPy, where there is a card: `require_device`, which a process needs once."""
    return require_device()


def current(x: Any, stream: Any) -> AbstractContextManager[None]:
    """Make x's device and a stream CuPy's current ones.

    The stream waits for the work of the stream that was current before, where CuPy arrays are made. A stream that is
    being captured does not: a graph waits for nothing outside.

    Args:
        x: an array on the device.
        stream: a CuPy stream, another object with ``__cuda_stream__``, or a cudaStream_t as an integer; None for the
            device's current stream.

    Raises:
        TypeError: for another stream.
    """
    device = _device_of(x)
    if stream is None and device == with_device().cuda.runtime.getDevice():
        return _AS_IT_IS
    return _entered(device, stream)


@contextmanager
def _entered(device: int, stream: Any) -> Iterator[None]:
    """Enter a device, and a stream unless it is None."""
    module = with_device()
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
    module = with_device()
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
    streams = with_device().cuda.Stream
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
    module = with_device()
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


def named(dtype: DTypeLike | None, name: str) -> np.dtype[Any] | None:
    """The dtype of that name in NumPy or ml_dtypes; None for None.

    Raises:
        TypeError: if there is no such dtype.
    """
    if dtype is None or isinstance(dtype, np.dtype):
        return dtype
    try:
        return _by_name(dtype) if isinstance(dtype, str) else np.dtype(dtype)
    except TypeError:
        raise TypeError(f"{name} is {dtype!r}; expected the name of a dtype of NumPy or ml_dtypes") from None


@lru_cache(maxsize=256)
def _by_name(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


def meaning(own: np.dtype[Any], dtype: np.dtype[Any] | None, name: str) -> np.dtype[Any]:
    """The dtype of the codes in an array of the dtype ``own``.

    Args:
        dtype: the dtype that the caller named; None for that of the array.

    Raises:
        TypeError: if the codes do not have the width of the dtype.
    """
    if dtype is None or own == dtype:
        return own
    if own.kind not in "iu" or own.itemsize != dtype.itemsize:
        raise TypeError(f"{name} is an array of {own}; expected codes of {dtype} as uint{8 * dtype.itemsize}")
    return dtype


def require_packed(
    own: np.dtype[Any], own_shape: tuple[int, ...], name: str, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> None:
    """Refuse an array that cannot hold packed codes of a dtype of fewer than 8 bits.

    Args:
        own, own_shape: the dtype and the shape of the array.
        dtype, shape: the dtype and the shape of the tensor.

    Raises:
        TypeError: if the array is not of uint8.
        ValueError: if it has another length.
    """
    expected = -(-prod(shape) * SUB_BYTE[dtype] // 8)
    if own != np.uint8:
        raise TypeError(f"the dtype of {name} is {own}; expected packed codes in uint8")
    if own_shape != (expected,):
        raise ValueError(
            f"the shape of {name} is {own_shape}; expected ({expected},), for {prod(shape)} packed codes of {dtype}"
        )


def code_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the CuPy array that holds an output: its own, or uint16 for bfloat16."""
    return _UINT16 if dtype == _BFLOAT16 else dtype


def ready(
    out: Any, shape: tuple[int, ...], dtype: np.dtype[Any], names: Sequence[str], operands: Sequence[Any]
) -> tuple[Any, Sequence[Any]]:
    """The CuPy array of ``out``'s memory after its checks, or a new one, and the operands in C order.

    Args:
        shape, dtype: those of the output.
        names, operands: CuPy arrays and their names; None for an operand that is absent. One not in C order is copied.

    Raises:
        TypeError: if ``out`` is not an array of that dtype on a CUDA device.
        ValueError: if ``out`` has another shape, is not in C order, is read-only, is on another device or overlaps an
            input, if the inputs are on several devices, or if an array is not aligned.
    """
    device = operands[0].data.device_id
    start = stop = 0
    if out is None:
        target = with_device().empty(shape, code_dtype(dtype))
    else:
        target = on_device(out, "out")
        memory = target.data
        start = memory.ptr
        stop = start + target.nbytes
        own = target.dtype
        if own is not dtype and own not in (dtype, code_dtype(dtype)):
            raise TypeError(f"out is {own}; expected an array of {code_dtype(dtype)}, for {dtype}")
        if target.shape != shape:
            raise ValueError(f"the shape of out is {target.shape}; expected {shape}")
        if not target.flags.c_contiguous:
            raise ValueError(f"out has the strides {target.strides}; expected an array in C order")
        if start % dtype.itemsize:
            raise ValueError(f"out lies at {start:#x}; expected a multiple of its {dtype.itemsize} bytes")
        if target is not out:
            _require_writable(out)
        if memory.device_id != device:
            _require_same_device(operands)
            raise ValueError(f"out lies on device {memory.device_id}; expected that of x, {device}")
    in_order = operands
    for codes in operands:
        if codes is not None:
            data = codes.data
            address = data.ptr
            if data.device_id != device:
                _require_same_device(operands)
            if address % codes.dtype.itemsize or not codes.flags.c_contiguous:
                in_order = [
                    None if other is None else _in_order(other, name)
                    for other, name in zip(operands, names, strict=True)
                ]
            elif address < stop and start < address + codes.nbytes:
                raise ValueError("out overlaps an input; expected memory of its own")
    return target, in_order


def _require_writable(out: Any) -> None:
    interface = getattr(out, "__cuda_array_interface__", None)
    if interface and interface["data"][1]:
        raise ValueError("out is read-only; expected an array that can be written")


def _require_same_device(operands: Sequence[Any]) -> None:
    devices = sorted({operand.data.device_id for operand in operands if operand is not None})
    if len(devices) > 1:
        raise ValueError(f"the operands lie on the devices {devices}; expected one device")


def _in_order(codes: Any, name: str) -> Any:
    """An array in C order, copied if it is in another.

    Raises:
        ValueError: if an element is not aligned: a misaligned read ends the card's work for the whole process.
    """
    address, width = codes.data.ptr, codes.dtype.itemsize
    if address % width:
        raise ValueError(f"{name} lies at {address:#x}; expected a multiple of its {width} bytes")
    if codes.flags.c_contiguous:
        return codes
    if any(stride % width for stride, extent in zip(codes.strides, codes.shape, strict=True) if extent > 1):
        raise ValueError(f"{name} has the strides {codes.strides}; expected multiples of its {width} bytes")
    return with_device().ascontiguousarray(codes)
