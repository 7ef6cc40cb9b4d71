"""Conversion of codes to arrays and back, and checks of what an implementation did to its arrays."""

from __future__ import annotations

import functools
import hashlib
from math import gcd
from typing import Any, Dict, Iterable, List, Mapping, Tuple

import numpy as np

from xverify.core.call import BEHIND, BITS, RUNS_FROM, Call, Outcome, Tensor, code_dtype

Array = Any  # "np.ndarray[Any, Any]", which NumPy for Python 3.8 can't subscript at run time

NUMPY_OWN = frozenset(
    ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]
)
"""The dtypes that NumPy itself has. The others come from ml_dtypes."""


_LEAST_BEHIND, _MOST_BEHIND = 64, 1 << 16
"""The numbers of bytes behind the memory of a small and of a large array."""


class UnreadableResultError(TypeError):
    """A result that cannot be read as a tensor. The message says what it is, and what to return.

    It is no refusal: a worker answers with the outcome "unreadable".
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        """The type of the result, or the dtype of the array, as one word."""


@functools.lru_cache(maxsize=None)
def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy or ml_dtypes dtype of that name.

    Raises:
        AttributeError: The installed ml_dtypes lacks it.
    """
    if name in NUMPY_OWN:
        return np.dtype(name)
    import ml_dtypes

    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return dtype


def to_array(tensor: Tensor) -> Array:
    """A fresh array of the tensor's values, in its layout; 0-d stays an array."""
    return tensor.laid_out().view(numpy_dtype(tensor.dtype))


def from_array(array: Any) -> Tensor:
    """The tensor of an array or a scalar that an implementation returned; they may share memory.

    Raises:
        UnreadableResultError: An unknown dtype, or another byte order than this machine's.
    """
    values = np.asarray(array, order="C")
    name = values.dtype.name
    if name not in BITS or not values.dtype.isnative:
        kind = name if values.dtype.isnative else "%s-other-byte-order" % name
        due = "return an array of the output type, in the byte order of this machine"
        raise UnreadableResultError(kind, "the result has the dtype %s; %s" % (values.dtype, due))
    codes = values.view(code_dtype(name))
    if BITS[name] < 8:  # ml_dtypes fills the unused high bits with the sign
        codes = codes & np.uint8((1 << BITS[name]) - 1)
    return Tensor(name, codes)


def hand_out(call: Call) -> Dict[str, Array]:
    """The call's tensors as fresh arrays by name, each in its layout."""
    return {name: to_array(tensor) for name, tensor in call.tensors.items()}


def fenced(handed: Mapping[str, Array]) -> Dict[str, Array]:
    """The arrays from `hand_out` in new memory, with bytes of `BEHIND` after each.

    A library that gets addresses may read past an operand. It then reads the same each time.
    """
    return {name: _fenced(array) for name, array in handed.items()}


def _fenced(array: Array) -> Array:
    owner = array if array.base is None else array.base
    room = np.full(owner.nbytes + max(_LEAST_BEHIND, min(owner.nbytes, _MOST_BEHIND)), BEHIND, np.uint8)
    room[: owner.nbytes] = owner.ravel(order="K").view(np.uint8)
    first = array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    moved: Array = np.ndarray(array.shape, array.dtype, room, first, array.strides)
    moved.flags.writeable = array.flags.writeable
    return moved


def answered(result: Any, call: Call, handed: Mapping[str, Array]) -> Outcome:
    """The outcome of a result, with notes on what happened to the arrays from `hand_out`."""
    written = memory(handed) != memory({name: to_array(call.tensors[name]) for name in handed})
    notes: Tuple[str, ...] = ("input-written",) if written else ()
    if shares_memory(result, handed.values()):
        notes += ("output-aliases-input",)
    return Outcome("tensor", from_array(result), notes=notes)


def memory(handed: Mapping[str, Array]) -> List[bytes]:
    """All bytes of the memory of the arrays from `hand_out`, including those between their elements.

    A large array has a digest in place of its bytes.
    """
    owners = (array if array.base is None else array.base for array in handed.values())
    return [_digest(owner) if owner.nbytes >= RUNS_FROM else bytes(owner.tobytes("A")) for owner in owners]


def _digest(owner: Array) -> bytes:
    return hashlib.blake2b(memoryview(owner.ravel(order="K").view(np.uint8))).digest()


def shares_memory(result: Any, others: Iterable[Array]) -> bool:
    """True if a byte of the other arrays lies between the first and the last byte of a result."""
    return isinstance(result, np.ndarray) and any(np.may_share_memory(result, other) for other in others)


def pack(codes: Array, bits: int) -> Array:
    """Codes of ``bits`` (8, 6, 4 or 2) bits as packed bytes in C order, low bits first.

    Four codes of 6 bits fill 3 bytes.
    """
    flat = np.asarray(codes, order="C").reshape(-1)
    if bits == 8:
        return flat
    in_group = 8 // gcd(bits, 8)
    word = np.dtype(np.uint8 if bits * in_group == 8 else "<u4")
    padded = np.zeros(-(-flat.size // in_group) * in_group, word)
    padded[: flat.size] = flat
    shifts = np.arange(0, bits * in_group, bits).astype(word)
    words = np.bitwise_or.reduce(padded.reshape(-1, in_group) << shifts, axis=1).astype(word)
    of_group = words.view(np.uint8).reshape(-1, word.itemsize)[:, : bits * in_group // 8]
    return of_group.reshape(-1)[: -(-flat.size * bits // 8)]


def unpack(raw: Array, bits: int, size: int) -> Array:
    """The first ``size`` codes of packed bytes, low bits first.

    Codes of a byte or more are returned unchanged.
    """
    if bits >= 8:
        return raw
    single = np.unpackbits(raw.reshape(-1), bitorder="little")[: size * bits].reshape(size, bits)
    return np.bitwise_or.reduce(single << np.arange(bits, dtype=np.uint8), axis=1)
