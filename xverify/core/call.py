"""A call, its tensors and its outcome, and their wire form.

A worker process may be another Python with another version of a framework. Of xverify, it imports this module, `surroundings`,
`neighbours` and `moves` only. So they need the standard library and NumPy, and nothing else.

Tensors hold *codes*: the bits of each element as an unsigned integer. Elements of 4 and 2 bits have an array item of their
own too, with their bits lowest and the other bits 0. Names of dtypes are those of NumPy and ml_dtypes.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Union

import numpy as np

Attribute = Union[int, str, bool]

BITS: dict[str, int] = {
    "int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4,
    "float6_e2m3fn": 6, "float6_e3m2fn": 6,
    "int8": 8, "uint8": 8, "float8_e4m3fn": 8, "float8_e4m3fnuz": 8, "float8_e5m2": 8, "float8_e5m2fnuz": 8,
    "float8_e8m0fnu": 8,
    "int16": 16, "uint16": 16, "float16": 16, "bfloat16": 16,
    "int32": 32, "uint32": 32, "float32": 32,
    "int64": 64, "uint64": 64, "float64": 64,
}  # fmt: skip
"""The width in bits of every dtype that a call or an outcome can hold."""

LAYOUTS = (
    "C", "F", "reversed", "strided", "offset", "read-only", "misaligned", "broadcast", "row-slice", "permuted",
)  # fmt: skip
"""Memory layouts of the array that an implementation gets. The values are the same in all of them.

"misaligned" begins one byte past an aligned address. "broadcast" has stride 0 along each axis on which the values are
constant. "row-slice" is the first columns of wider rows, such as ``big[:, :k]``. "permuted" has the second axis last in memory,
as NHWC memory has for NCHW. In rank 2 it is the transpose of a row slice. So it is in neither C nor Fortran order.
"""

LEAST_RANK: Mapping[str, int] = {"F": 2, "reversed": 1, "strided": 1, "row-slice": 2, "permuted": 2}
"""The smallest rank at which the elements of a layout do not lie in memory as in layout C.

A layout without an entry always has them in that order, apart from "broadcast".
"""

SLACK = 3
"""Elements between the end of a row slice and the next row."""

RUNS_FROM = 1 << 30
"""Number of elements from which the wire form of a tensor has runs of equal codes. A result then has at most `MOST_RUNS`."""

MOST_RUNS = 1 << 20
"""Largest number of runs of such a tensor."""

_WIRE_MAGIC = b"xvc1"


_CODE_DTYPES: dict[str, np.dtype[Any]] = {name: np.dtype("uint%d" % max(8, bits)) for name, bits in BITS.items()}


def code_dtype(dtype: str) -> np.dtype[Any]:
    """The unsigned NumPy dtype that holds one code of ``dtype``."""
    return _CODE_DTYPES[dtype]


@dataclass(frozen=True, eq=False)
class Tensor:
    """Codes of one dtype in one shape."""

    dtype: str
    codes: np.ndarray[Any, Any]
    """The codes, as unsigned integers of `code_dtype`."""
    layout: str = "C"
    """The memory layout in which an implementation gets the tensor, one of `LAYOUTS`."""

    def __post_init__(self) -> None:
        if self.dtype not in BITS:
            raise ValueError("unknown dtype %r; expected one of %s" % (self.dtype, ", ".join(BITS)))
        if self.codes.dtype != code_dtype(self.dtype):
            raise ValueError(
                "codes of %s must have dtype %s, not %s" % (self.dtype, code_dtype(self.dtype), self.codes.dtype)
            )
        if self.layout not in LAYOUTS:
            raise ValueError("unknown layout %r; expected one of %s" % (self.layout, ", ".join(LAYOUTS)))

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the tensor."""
        return tuple(self.codes.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(self.codes.size)

    def laid_out(self) -> np.ndarray[Any, Any]:
        """A new array of the codes, in the layout of this tensor."""
        return lay_out(self.codes, self.layout)

    def same_bits(self, other: Tensor) -> bool:
        """True if dtype, shape and codes are equal. Layouts may differ."""
        return self.dtype == other.dtype and self.shape == other.shape and self.codes.tobytes() == other.codes.tobytes()


BEHIND = 0x40
"""The byte that fills the memory behind operands which a library gets by address.

A read past the end then gives the same in every run: a plain number in each float type, such as 3 in bfloat16.
"""


def lay_out(array: np.ndarray[Any, Any], layout: str) -> np.ndarray[Any, Any]:
    """A new array with the values of ``array``, in a memory layout of `LAYOUTS`."""
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
    elif layout == "row-slice":
        result = _row_slice(array)
    elif layout == "permuted" and array.ndim == 2:
        result = _row_slice(array.T).T
    elif layout == "permuted" and array.ndim > 2:
        result = np.moveaxis(np.array(np.moveaxis(array, 1, -1), order="C"), -1, 1)
    elif layout == "offset":
        flat = np.zeros(array.size + 1, array.dtype)[1:]
        result = flat.reshape(array.shape)
        result[...] = array
    elif layout == "broadcast":
        is_constant = constant_axes(array)
        few = np.array(array[tuple(slice(1) if constant else slice(None) for constant in is_constant)], order="C")
        strides = tuple(0 if constant else few.strides[axis] for axis, constant in enumerate(is_constant))
        result = np.ndarray(array.shape, array.dtype, few, strides=strides)
    else:
        result = np.array(array, order="C")
    if layout == "read-only":
        result.flags.writeable = False
    return result


def _row_slice(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The values as the first columns of an array with longer rows. A vector is a single row."""
    wide = np.zeros((*array.shape[:-1], array.shape[-1] + SLACK), array.dtype)
    wide[..., : array.shape[-1]] = array
    return wide[..., : array.shape[-1]]


def constant_axes(array: np.ndarray[Any, Any]) -> tuple[bool, ...]:
    """True for each axis that is longer than 1 and along which a non-empty array is constant."""
    extents = enumerate(array.shape)
    return tuple(n > 1 and array.size > 0 and bool((array == array.take([0], axis)).all()) for axis, n in extents)


@dataclass(frozen=True, eq=False)
class Call:
    """One application of an operator: tensors and attributes under one edition."""

    contract: str
    """The id of the edition."""
    tensors: Mapping[str, Tensor]
    """Tensors by role: x, scale, zero_point, or TensorFlow's input, min_range, max_range. An absent one has no entry."""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    """Attributes by name. An absent one has no entry."""
    origin: str = ""
    """A note on what made the call. It is not part of the call's identity."""
    around: tuple[str, ...] = ()
    """The surroundings of the operator in a small graph, in words of `xverify.core.surroundings`.

    If they only move data, the expected result is that of the operator alone.
    """

    @property
    def values(self) -> int:
        """The number of elements of the quantized tensor."""
        return self.data.size

    @property
    def data(self) -> Tensor:
        """The quantized tensor: x, or TensorFlow's input."""
        return self.tensors["x"] if "x" in self.tensors else self.tensors["input"]

    def under(self, contract: str) -> Call:
        """The same application under another edition."""
        return replace(self, contract=contract)

    def digest(self) -> str:
        """32 hex digits that identify the call.

        They are the beginning of the SHA-256 of its wire form without the origin.
        """
        return hashlib.sha256(encode_call(replace(self, origin=""))).hexdigest()[:32]


NO_MEMORY = "out of memory"
"""The beginning of a crash's message if memory ran out."""

AT_RUN = "run"
"""The stage of a failure in an implementation that accepts a model first and runs it later."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """The outcome of a call."""

    kind: str
    """One of "tensor", "rejected", "unsupported", "unreadable", "crash" (the process died) and "hang" (no answer in time).

    "unsupported" is a refusal by an exception whose type says that something is not implemented. "unreadable" is a result that
    is no tensor of a known type. "rewrite" is the answer to another question: its message names the rewrite of a graph.
    """
    tensor: Tensor | None = None
    """The result, for the kind "tensor"."""
    error: str = ""
    """The type of the exception, or of an unreadable result."""
    message: str = ""
    """The message of the exception, or a sentence on an unreadable result."""
    notes: tuple[str, ...] = ()
    """Further observations, such as "input-written" or "output-aliases-input"."""
    stage: str = ""
    """`AT_RUN` if the implementation accepted the call's model, and then failed when it ran it; "" otherwise."""

    @property
    def refused(self) -> bool:
        """True if the implementation refused the call."""
        return self.kind in ("rejected", "unsupported")

    def same(self, other: Outcome) -> bool:
        """True if two outcomes have equal bits, or are of the same kind without a tensor. Messages may differ."""
        if self.kind != other.kind:
            return False
        if self.tensor is None or other.tensor is None:
            return self.tensor is other.tensor
        return self.tensor.same_bits(other.tensor)


def runs_of(codes: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The first code and the length of each run of equal codes in C order.

    At most `MOST_RUNS` runs are returned. The last one then counts all remaining codes. Only the runs need memory.
    """
    if not codes.size:
        return codes.reshape(-1), np.zeros(0, np.int64)
    few = codes
    while few.ndim and few.strides[-1] == 0:
        few = few[..., 0]
    repeats = codes.size // few.size
    flat = few.reshape(-1)
    starts = [np.zeros(1, np.int64)]
    left, step = MOST_RUNS - 1, 1 << 22
    for begin in range(0, flat.size - 1, step):
        part = flat[begin : begin + step + 1]
        changes = np.flatnonzero(part[1:] != part[:-1])[:left] + (begin + 1)
        starts.append(changes)
        left -= len(changes)
        if not left:
            break
    every = np.concatenate(starts)
    return flat[every], np.diff(np.append(every, flat.size)) * repeats


def from_runs(values: np.ndarray[Any, Any], counts: np.ndarray[Any, Any], shape: Sequence[int]) -> Any:
    """The codes of these runs. Equal rows, each of one code, need no memory."""
    if len(values) == 1:
        return np.broadcast_to(values.reshape(()), shape)
    if len(shape) > 1 and len(values) == shape[0] and len(set(counts.tolist())) == 1:
        return np.broadcast_to(values.reshape((-1,) + (1,) * (len(shape) - 1)), shape)
    return np.repeat(values, counts).reshape(shape)


def _pack(header: dict[str, Any], tensors: list[tuple[str, Tensor]], exact: bool) -> bytes:
    runs = {name: runs_of(t.codes) for name, t in tensors if t.size >= RUNS_FROM}
    if exact and any(len(values) == MOST_RUNS for values, _ in runs.values()):
        raise ValueError("a call of 2^30 elements or more must have fewer than %d runs of equal codes" % MOST_RUNS)
    header["tensors"] = [
        [name, t.dtype, list(t.shape), t.layout, *([len(runs[name][0])] if name in runs else [])] for name, t in tensors
    ]
    head = json.dumps(header, separators=(",", ":"), sort_keys=True).encode()
    parts = [_WIRE_MAGIC, struct.pack("<I", len(head)), head]
    for name, t in tensors:
        if name in runs:
            parts += [runs[name][1].astype(np.int64).tobytes(), runs[name][0].tobytes()]
        else:
            parts.append(t.codes.tobytes())
    return b"".join(parts)


def _unpack(blob: bytes) -> tuple[dict[str, Any], dict[str, Tensor]]:
    if blob[:4] != _WIRE_MAGIC or len(blob) < 8:
        raise ValueError("these bytes are no call of xverify: they do not begin with %r" % (_WIRE_MAGIC,))
    (length,) = struct.unpack_from("<I", blob, 4)
    try:
        header = json.loads(blob[8 : 8 + length].decode())
        tensors = {}
        offset = 8 + length
        for name, dtype, shape, layout, *runs in header["tensors"]:
            code = code_dtype(dtype)
            size = 1
            for extent in shape:
                size *= int(extent)
            count = runs[0] if runs else size
            if runs:
                counts = np.frombuffer(blob, np.int64, count, offset)
                offset += counts.nbytes
                if int(counts.sum()) != size or (counts < 0).any():
                    raise ValueError("damaged call: the runs of %s have %d codes" % (name, counts.sum()))
            codes = np.frombuffer(blob, code, count, offset)
            offset += count * code.itemsize
            tensors[name] = Tensor(dtype, from_runs(codes, counts, shape) if runs else codes.reshape(shape), layout)
    except (KeyError, TypeError, UnicodeDecodeError, struct.error) as error:
        raise ValueError("damaged call: %s" % (error,)) from None
    if offset != len(blob):
        raise ValueError("damaged call: %d bytes, expected %d" % (len(blob), offset))
    return header, tensors


def encode_call(call: Call) -> bytes:
    """The wire form of a call: a JSON header, then the codes of each tensor in C order, little-endian."""
    header: dict[str, Any] = {"contract": call.contract, "attributes": dict(call.attributes), "origin": call.origin}
    if call.around:
        header["around"] = list(call.around)
    return _pack(header, list(call.tensors.items()), exact=True)


def decode_call(blob: bytes) -> Call:
    """Read a call from its wire form. The tensors are read-only views of ``blob``.

    Raises:
        ValueError: The bytes are damaged.
    """
    header, tensors = _unpack(blob)
    around = read_around(header.get("around", []))
    return Call(header["contract"], tensors, header["attributes"], header["origin"], around)


def read_around(words: Any) -> tuple[str, ...]:
    """Read the surroundings of a call from JSON.

    Raises:
        ValueError: They are no list of strings.
    """
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError("the surroundings of a call must be a list of strings, not %r" % (words,))
    return tuple(words)


def encode_outcome(outcome: Outcome) -> bytes:
    """The wire form of an outcome, like that of `encode_call`."""
    header = {
        "kind": outcome.kind,
        "error": outcome.error,
        "message": outcome.message[:2000],
        "notes": list(outcome.notes),
        **({"stage": outcome.stage} if outcome.stage else {}),
    }
    return _pack(header, [] if outcome.tensor is None else [("y", outcome.tensor)], exact=False)


def decode_outcome(blob: bytes) -> Outcome:
    """Read an outcome from its wire form.

    Raises:
        ValueError: The bytes are damaged.
    """
    header, tensors = _unpack(blob)
    kind, error, message, notes = header["kind"], header["error"], header["message"], tuple(header["notes"])
    return Outcome(kind, tensors.get("y"), error, message, notes, header.get("stage", ""))
