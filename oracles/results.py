"""Results of functions under test as NumPy arrays, whatever framework made them.

A result is read through DLPack, without a copy, or through ``__array__``. DLPack comes first because it has bfloat16 and the
8-bit floats, which NumPy lacks. NumPy's own reader of DLPack refuses them, so this file reads the description.
"""

from __future__ import annotations

import ctypes
from typing import Any, List, Optional, Tuple

import numpy as np

from xverify.core.call import BITS, code_dtype
from xverify.oracles.arrays import Array, UnreadableResultError, numpy_dtype
from xverify.oracles.dlpack import TYPE_CODES, DLTensor

IN_MAIN_MEMORY = (1, 3, 11, 13)
"""DLPack's devices whose memory this process can read: CPU, pinned by CUDA, pinned by ROCm, managed by CUDA."""

DEVICES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 14: "oneAPI", 15: "WebGPU", 16: "Hexagon"}
"""Other devices of DLPack, by number."""

READ_ONLY = 1
"""The flag of a tensor whose memory must not be written."""

DUE = "return a NumPy array, or a tensor in main memory with __dlpack__ or __array__"

_TYPES = {code: name for name, code in TYPE_CODES.items()}


class _Version(ctypes.Structure):
    _fields_ = (("major", ctypes.c_uint32), ("minor", ctypes.c_uint32))


class _Versioned(ctypes.Structure):
    """The tensor that a capsule holds since DLPack 1.0."""

    _fields_ = (
        ("version", _Version),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    )


class _Memory:
    """The memory of a tensor as an object that NumPy reads.

    It holds the capsule, which frees the memory when it is deleted.
    """

    def __init__(self, capsule: Any, interface: Any) -> None:
        self.capsule = capsule
        self.__array_interface__ = interface


def as_array(result: Any) -> Array:
    """A result as an array. It shares the result's memory where that is possible.

    Returns:
        An array, or a scalar of NumPy. An array over memory that must not be written is not writable.

    Raises:
        UnreadableResultError: The result is no array, or its memory cannot be read.
    """
    if isinstance(result, (np.ndarray, np.generic)):
        return result
    if isinstance(result, type) or not (hasattr(result, "__dlpack__") or hasattr(result, "__array__")):
        raise unreadable(result)
    reasons: List[str] = []
    detach = getattr(result, "detach", None)  # PyTorch exports no tensor that requires a gradient
    detached = result
    if callable(detach):
        try:
            detached = detach()
        except Exception as error:
            reasons.append(_first_line(error))
    for read in (_through_dlpack, _through_array):
        try:
            array = read(detached)
        except MemoryError:
            raise
        except Exception as error:
            reasons.append(_first_line(error))
            continue
        if array is not None:
            return array
    raise unreadable(result, "; ".join(dict.fromkeys(filter(None, reasons))))


def unreadable(result: Any, reason: str = "") -> UnreadableResultError:
    """The error for a result that is no array."""
    if result is None:
        what = "None"
    else:
        kind = type(result)
        module = "" if kind.__module__ in ("builtins", "__main__") else kind.__module__ + "."
        what = "of type " + module + kind.__qualname__
    return UnreadableResultError(
        type(result).__name__, "the result is %s%s; %s" % (what, reason and " (%s)" % reason, DUE)
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _through_array(result: Any) -> Optional[Array]:
    if not hasattr(result, "__array__"):
        return None
    array = np.asarray(result)
    if array.dtype == object:
        raise TypeError("its __array__ gives objects")
    return array


def _through_dlpack(result: Any) -> Optional[Array]:
    """The array of a tensor with ``__dlpack__``; None if the type of its elements is unknown."""
    if not hasattr(result, "__dlpack__") or not hasattr(result, "__dlpack_device__"):
        return None
    device = int(result.__dlpack_device__()[0])
    if device not in IN_MAIN_MEMORY:
        # Some frameworks copy to main memory in __array__, which is tried next.
        raise ValueError("its memory is on a device: %s" % DEVICES.get(device, device))
    try:
        capsule = result.__dlpack__(max_version=(1, 0))
    except TypeError:  # DLPack before 1.0 has no versions
        capsule = result.__dlpack__()
    tensor, is_read_only = _opened(capsule)
    name = _name_of(tensor)
    if name is None:
        return None
    step = BITS[name] // 8
    shape: Tuple[int, ...] = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    strides = None
    if tensor.strides:
        strides = tuple(tensor.strides[axis] * step for axis in range(tensor.ndim))
    address = (tensor.data or 0) + tensor.byte_offset
    if 0 in shape or not address:
        return np.empty(shape, numpy_dtype(name))
    interface = {
        "version": 3,
        "shape": shape,
        "strides": strides,
        "typestr": np.dtype(code_dtype(name)).str,
        "data": (address, is_read_only),
    }
    return np.asarray(_Memory(capsule, interface)).view(numpy_dtype(name))


def _opened(capsule: Any) -> Tuple[DLTensor, bool]:
    """The tensor of a capsule, and True if its memory must not be written.

    Capsules of DLPack before 1.0 have no such flag. So their memory counts as read-only, as in NumPy.
    """
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    is_valid = ctypes.pythonapi.PyCapsule_IsValid
    is_valid.restype, is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
    if is_valid(capsule, b"dltensor_versioned"):
        whole = _Versioned.from_address(pointer_of(capsule, b"dltensor_versioned"))
        if whole.version.major != 1:
            raise ValueError("its DLPack has version %d, which is unknown here" % whole.version.major)
        return whole.tensor, bool(whole.flags & READ_ONLY)
    return DLTensor.from_address(pointer_of(capsule, b"dltensor")), True


def _name_of(tensor: DLTensor) -> Optional[str]:
    """The name of the tensor's type; None if it is unknown or smaller than a byte."""
    kind = tensor.dtype
    name = _TYPES.get(kind.code, "")
    name = name if name in BITS else "%s%d" % (name, kind.bits)
    return name if kind.lanes == 1 and BITS.get(name, 0) == kind.bits >= 8 else None
