"""Tensors as Python literals that give back their very bits, for scripts that people read."""

from __future__ import annotations

import base64
import re
import textwrap
import zlib
from typing import Any

import numpy as np

from xverify.core.call import BITS, Tensor, code_dtype, constant_axes
from xverify.core.dtypes import decimal

MOST_SPELLED = 300
"""Values of a tensor that are spelled out: one of every code of a byte, and a few; more are compressed."""

_NUMPY = frozenset(["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
_NUMPY_FLOATS = frozenset(["float16", "float32", "float64"])


def operand(role: str, tensor: Tensor, name: str) -> list[str]:
    """Lines that make one tensor, as it lies in memory."""
    if name == "onnxruntime" and not is_numpy(tensor.dtype):
        # The array of bytes must outlive the OrtValue, so it has a name of its own.
        carrier = np.zeros(tensor.shape, code_dtype(tensor.dtype))
        packed = _packed(tensor)
        carrier.reshape(-1)[: packed.size] = packed
        how = _sharing(tensor.dtype) or f"the bits of {tensor.dtype}"
        return [
            f"# {how}: {_few(tensor)}",
            *_assigned(f"{role}_bits", Tensor(carrier.dtype.name, carrier)),
            f"{role} = ort.OrtValue.ortvalue_from_numpy_with_onnx_type({role}_bits, {onnx_type(tensor.dtype)})",
        ]
    if (tensor.shape == () and tensor.layout != "misaligned") or tensor.layout == "C" or name == "tensorflow":
        # TensorFlow copies what it is given.
        return _assigned(role, tensor)
    return [*_assigned(role, tensor), *_laid_out(role, tensor)]


def _assigned(role: str, tensor: Tensor) -> list[str]:
    own = is_numpy(tensor.dtype)
    dtype = tensor.dtype if own else tensor.codes.dtype.name
    spelled = _spelled(tensor) if own else None
    bits = tensor.codes.reshape(-1)
    view = "" if own else f".view(ml_dtypes.{tensor.dtype})"
    if spelled is None:
        digits = max(1, BITS[tensor.dtype] // 4)
        spelled = [f"0x{int(code):0{digits}x}" for code in bits]
        if own:
            dtype, view = tensor.codes.dtype.name, f".view(np.{tensor.dtype})"
    comment = f"  # {_few(tensor)}" if view and tensor.size else ""
    if tensor.size > 1 and (bits == bits[0]).all():
        shape = _extents(tensor.shape)
        return [f"{role} = np.full({shape}, {spelled[0]}, np.{dtype}){view}{comment}"]
    reshape = "" if len(tensor.shape) < 2 else f".reshape{_extents(tensor.shape)}"
    if tensor.size > MOST_SPELLED:
        packed = base64.b64encode(zlib.compress(np.asarray(tensor.codes, order="C").tobytes(), 9)).decode()
        lines = textwrap.wrap(packed, 96)
        made = f'np.frombuffer(zlib.decompress(base64.b64decode({role}_bytes)), "<{_kind(tensor, own)}"){reshape}'
        return [f"{role}_bytes = (", *(f'    "{line}"' for line in lines), ")", f"{role} = {made}{view}"]
    values = ", ".join(spelled)
    listed = values if tensor.shape == () else f"[{values}]"
    line = f"{role} = np.array({listed}, np.{dtype}){reshape}{view}{comment}"
    if len(line) <= 110:
        return [line]
    folded = textwrap.wrap(values, 104, break_long_words=False, break_on_hyphens=False)
    return [f"{role} = np.array([", *(f"    {part}" for part in folded), f"], np.{dtype}){reshape}{view}{comment}"]


def _spelled(tensor: Tensor) -> list[str] | None:
    """The values in decimal where that gives back the very bits (a NaN's, for one, it may not)."""
    codes = [int(code) for code in tensor.codes.reshape(-1)]
    texts = [decimal(tensor.dtype, code) for code in codes]
    if tensor.dtype not in _NUMPY_FLOATS:
        return texts
    with np.errstate(all="ignore"):
        again = np.array([float(text) for text in texts], np.float64).astype(tensor.dtype).view(tensor.codes.dtype)
    if again.tolist() != codes:
        return None
    return [re.sub(r"\b(nan|inf)\b", r"np.\1", text) for text in texts]


def _laid_out(role: str, tensor: Tensor) -> list[str]:
    """How the tensor lies in memory where that is not as NumPy makes it."""
    still = constant_axes(tensor.codes)
    if tensor.layout == "broadcast" and not any(still):
        return []
    few = ", ".join(":1" if one else ":" for one in still)
    line = {
        "F": f"{role} = np.asfortranarray({role})",
        "reversed": f"{role} = {role}[..., ::-1].copy()[..., ::-1]",
        "strided": f"{role} = np.concatenate([{role}[..., :1], np.repeat({role}, 2, axis=-1)], -1)[..., 1::2]",
        "offset": f"{role} = np.concatenate([np.zeros(1, {role}.dtype), {role}.ravel()])[1:].reshape({role}.shape)",
        "read-only": f"{role}.flags.writeable = False",
        "misaligned": f"{role} = np.frombuffer(bytearray(1) + {role}.tobytes(), {role}.dtype, -1, 1).reshape({role}.shape)",
        "broadcast": f"{role} = np.broadcast_to({role}[{few}].copy(), {role}.shape)",
    }[tensor.layout]
    return [f"{line}  # memory layout: {tensor.layout}"]


def _few(tensor: Tensor) -> str:
    codes = tensor.codes.reshape(-1)
    shown = ", ".join(decimal(tensor.dtype, int(code)) for code in codes[:8])
    return shown + (", ..." if codes.size > 8 else "")


def _extents(shape: tuple[int, ...]) -> str:
    return "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def _kind(tensor: Tensor, own: bool) -> str:
    """NumPy's short name of what the bytes are: i4, f2, u1."""
    dtype = np.dtype(tensor.dtype) if own else tensor.codes.dtype
    return f"{dtype.kind}{dtype.itemsize}"


def is_numpy(dtype: str) -> bool:
    return dtype in _NUMPY or dtype in _NUMPY_FLOATS


def _sharing(dtype: str) -> str:
    """How several values share a byte; nothing where they do not."""
    return {4: "two 4-bit values a byte, low bits first", 2: "four 2-bit values a byte, low bits first"}.get(
        BITS[dtype], ""
    )


def _packed(tensor: Tensor) -> Any:
    """The codes as ONNX Runtime's memory holds them."""
    flat, bits = np.asarray(tensor.codes, order="C").reshape(-1), BITS[tensor.dtype]
    if bits >= 8:
        return flat
    several = 8 // bits
    padded = np.zeros(-(-flat.size // several) * several, np.uint8)
    padded[: flat.size] = flat
    shifts = np.arange(several, dtype=np.uint8) * np.uint8(bits)
    return np.bitwise_or.reduce(padded.reshape(-1, several) << shifts, axis=1)


def onnx_type(dtype: str) -> str:
    names = {"float32": "FLOAT", "float64": "DOUBLE", "float8_e8m0fnu": "FLOAT8E8M0", "float4_e2m1fn": "FLOAT4E2M1"}
    return "TensorProto." + names.get(dtype, dtype.replace("_", "").upper())
