"""A call, its tensors and its outcome, and their form on the wire.

With `surroundings` and `moves` this is all of ours that a worker process imports, and a worker may be another Python
with another version of a framework: so it needs the standard library and NumPy, and nothing else.

Tensors carry *codes*: the bits of each element as an unsigned integer, one element an array item, also for
types of 4 and 2 bits (in the low bits, the others 0). Dtype names are NumPy's and ml_dtypes'.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Union

import numpy as np

Attribute = Union[int, str, bool]

BITS: dict[str, int] = {
    "int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4,
    "int8": 8, "uint8": 8, "float8_e4m3fn": 8, "float8_e4m3fnuz": 8, "float8_e5m2": 8, "float8_e5m2fnuz": 8,
    "float8_e8m0fnu": 8,
    "int16": 16, "uint16": 16, "float16": 16, "bfloat16": 16,
    "int32": 32, "uint32": 32, "float32": 32,
    "int64": 64, "uint64": 64, "float64": 64,
}  # fmt: skip
"""Every dtype that a call or an outcome can hold, and its width in bits."""

LAYOUTS = ("C", "F", "reversed", "strided", "offset", "read-only", "misaligned", "broadcast")
"""How the array that an implementation is given lies in memory; the values are the same. Misaligned: from one byte past
an aligned address. Broadcast: with stride 0 along each axis on which the values are constant, where there is one."""

_WIRE_MAGIC = b"xvc1"


def code_dtype(dtype: str) -> np.dtype[Any]:
    """The unsigned NumPy dtype that holds one code of ``dtype``."""
    return np.dtype("uint%d" % max(8, BITS[dtype]))


@dataclass(frozen=True, eq=False)
class Tensor:
    """Codes of one dtype in one shape; ``layout`` says how an implementation is to be given them."""

    dtype: str
    codes: np.ndarray[Any, Any]
    layout: str = "C"

    def __post_init__(self) -> None:
        if self.dtype not in BITS:
            raise ValueError("unknown dtype %r" % (self.dtype,))
        if self.codes.dtype != code_dtype(self.dtype):
            raise ValueError("codes of %s must be %s, not %s" % (self.dtype, code_dtype(self.dtype), self.codes.dtype))
        if self.layout not in LAYOUTS:
            raise ValueError("unknown layout %r" % (self.layout,))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.codes.shape)

    @property
    def size(self) -> int:
        return int(self.codes.size)

    def laid_out(self) -> np.ndarray[Any, Any]:
        """A fresh array of the codes in this tensor's layout."""
        return lay_out(self.codes, self.layout)

    def same_bits(self, other: Tensor) -> bool:
        return self.dtype == other.dtype and self.shape == other.shape and self.codes.tobytes() == other.codes.tobytes()


def lay_out(array: np.ndarray[Any, Any], layout: str) -> np.ndarray[Any, Any]:
    """A fresh array equal to ``array`` that lies in memory as ``layout`` says."""
    result: np.ndarray[Any, Any]
    if layout == "misaligned":
        memory = np.zeros(array.nbytes + 1, np.uint8)
        result = memory[1:].view(array.dtype).reshape(array.shape)
        result[...] = array
    elif layout == "C" or array.ndim == 0:
        result = np.array(array, order="C")
    elif layout == "F":
        result = np.array(array, order="F")
    elif layout == "reversed":
        result = np.array(array[..., ::-1], order="C")[..., ::-1]
    elif layout == "strided":
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1] + 1), array.dtype)
        result = wide[..., 1::2]
        result[...] = array
    elif layout == "offset":
        flat = np.zeros(array.size + 1, array.dtype)[1:]
        result = flat.reshape(array.shape)
        result[...] = array
    elif layout == "broadcast":
        still = constant_axes(array)
        few = np.array(array[tuple(slice(1) if one else slice(None) for one in still)], order="C")
        strides = tuple(0 if one else few.strides[axis] for axis, one in enumerate(still))
        result = np.ndarray(array.shape, array.dtype, few, strides=strides)
    else:
        result = np.array(array, order="C")
    if layout == "read-only":
        result.flags.writeable = False
    return result


def constant_axes(array: np.ndarray[Any, Any]) -> tuple[bool, ...]:
    """For each axis whether it is longer than 1 and all elements along it are equal; of an empty array none is."""
    extents = enumerate(array.shape)
    return tuple(n > 1 and array.size > 0 and bool((array == array.take([0], axis)).all()) for axis, n in extents)


@dataclass(frozen=True, eq=False)
class Call:
    """One application of an operator: tensors and attributes under one edition.

    ``tensors`` are named x, scale, zero_point (linear operators) or input, min_range, max_range
    (TensorFlow); an absent optional tensor or attribute has no entry. ``origin`` says what made the call
    and is not part of its identity. ``around``: what stands around the operator in a small graph, in words that
    `xverify.core.surroundings` explains; what it is to give is what the operator gives alone.
    """

    contract: str
    tensors: Mapping[str, Tensor]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    origin: str = ""
    around: tuple[str, ...] = ()

    @property
    def values(self) -> int:
        """Elements of the quantized tensor."""
        return self.data.size

    @property
    def data(self) -> Tensor:
        """The quantized tensor: x, or TensorFlow's input."""
        return self.tensors["x"] if "x" in self.tensors else self.tensors["input"]

    def under(self, contract: str) -> Call:
        """The same application under another edition."""
        return replace(self, contract=contract)

    def digest(self) -> str:
        """32 hex digits that identify the call: SHA-256 of its wire form without the origin."""
        return hashlib.sha256(encode_call(replace(self, origin=""))).hexdigest()[:32]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of a call.

    kind: "tensor", "rejected", "unsupported" (refused by an exception whose type says not implemented),
    "crash" (the process died) or "hang" (no answer in time). ``error`` is the exception's type,
    ``notes`` what was seen besides: "input-written", "output-aliases-input".
    """

    kind: str
    tensor: Tensor | None = None
    error: str = ""
    message: str = ""
    notes: tuple[str, ...] = ()

    @property
    def refused(self) -> bool:
        return self.kind in ("rejected", "unsupported")

    def same(self, other: Outcome) -> bool:
        """The same answer: equal bits, or a refusal of the same kind (messages may differ)."""
        if self.kind != other.kind:
            return False
        if self.tensor is None or other.tensor is None:
            return self.tensor is other.tensor
        return self.tensor.same_bits(other.tensor)


def _pack(header: dict[str, Any], tensors: list[tuple[str, Tensor]]) -> bytes:
    header["tensors"] = [[name, t.dtype, list(t.shape), t.layout] for name, t in tensors]
    head = json.dumps(header, separators=(",", ":"), sort_keys=True).encode()
    return b"".join([_WIRE_MAGIC, struct.pack("<I", len(head)), head, *(t.codes.tobytes() for _, t in tensors)])


def _unpack(blob: bytes) -> tuple[dict[str, Any], dict[str, Tensor]]:
    if blob[:4] != _WIRE_MAGIC or len(blob) < 8:
        raise ValueError("not a call of xverify: it does not begin with %r" % (_WIRE_MAGIC,))
    (length,) = struct.unpack_from("<I", blob, 4)
    try:
        header = json.loads(blob[8 : 8 + length].decode())
        tensors = {}
        offset = 8 + length
        for name, dtype, shape, layout in header["tensors"]:
            code = code_dtype(dtype)
            count = 1
            for extent in shape:
                count *= int(extent)
            codes = np.frombuffer(blob, code, count, offset).reshape(shape)
            offset += count * code.itemsize
            tensors[name] = Tensor(dtype, codes, layout)
    except (KeyError, TypeError, UnicodeDecodeError, struct.error) as error:
        raise ValueError("damaged call: %s" % (error,)) from None
    if offset != len(blob):
        raise ValueError("damaged call: %d bytes, expected %d" % (len(blob), offset))
    return header, tensors


def encode_call(call: Call) -> bytes:
    """The call as bytes: a JSON header, then each tensor's codes in C order, little-endian."""
    header: dict[str, Any] = {"contract": call.contract, "attributes": dict(call.attributes), "origin": call.origin}
    if call.around:
        header["around"] = list(call.around)
    return _pack(header, list(call.tensors.items()))


def decode_call(blob: bytes) -> Call:
    """Inverse of `encode_call`; the tensors are read-only views of ``blob``. ValueError when damaged."""
    header, tensors = _unpack(blob)
    around = read_around(header.get("around", []))
    return Call(header["contract"], tensors, header["attributes"], header["origin"], around)


def read_around(words: Any) -> tuple[str, ...]:
    """What stands around a call, from JSON. ValueError when that is no list of strings."""
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError("what stands around a call is a list of strings, not %r" % (words,))
    return tuple(words)


def encode_outcome(outcome: Outcome) -> bytes:
    """The outcome as bytes, in the form of `encode_call`."""
    header = {
        "kind": outcome.kind,
        "error": outcome.error,
        "message": outcome.message[:2000],
        "notes": list(outcome.notes),
    }
    return _pack(header, [] if outcome.tensor is None else [("y", outcome.tensor)])


def decode_outcome(blob: bytes) -> Outcome:
    """Inverse of `encode_outcome`. ValueError when damaged."""
    header, tensors = _unpack(blob)
    return Outcome(header["kind"], tensors.get("y"), header["error"], header["message"], tuple(header["notes"]))
