"""Tensors in every reproduction script: read, laid out in memory, taken from a result, compared and shown.

Copied, like `script_parts`; nothing newer than Python 3.8's syntax.
"""

# ruff: noqa: B905, UP031

from __future__ import annotations

import os
import struct
from typing import Any

import numpy as np

WIDTHS = {
    "int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4,
    "int8": 8, "uint8": 8, "float8_e4m3fn": 8, "float8_e4m3fnuz": 8, "float8_e5m2": 8, "float8_e5m2fnuz": 8,
    "float8_e8m0fnu": 8, "int16": 16, "uint16": 16, "float16": 16, "bfloat16": 16,
    "int32": 32, "uint32": 32, "float32": 32, "int64": 64, "uint64": 64, "float64": 64,
}  # fmt: skip

FRACTION_BITS = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}


def read_call(call: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The tensors by role, each with its dtype, its codes (the bits of each element) and its layout."""
    files = {tensor["file"] for tensor in call["tensors"].values() if tensor.get("file")}
    if files:
        return read_file(files.pop())
    return {role: dict(tensor, codes=read_codes(tensor)) for role, tensor in call["tensors"].items()}


def read_codes(tensor: dict[str, Any]) -> Any:
    codes = [int(bits, 16) for bits in tensor["bits"].split()]
    return np.array(codes, "uint%d" % max(8, WIDTHS[tensor["dtype"]])).reshape(tensor["shape"])


def read_file(name: str) -> dict[str, dict[str, Any]]:
    """The same from the file beside this script: a JSON header, then each tensor's codes in C order."""
    import json

    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.path.basename(name)), "rb") as file:
        blob = file.read()
    (length,) = struct.unpack_from("<I", blob, 4)
    offset = 8 + length
    tensors = {}
    for role, dtype, shape, layout in json.loads(blob[8:offset].decode())["tensors"]:
        code = np.dtype("uint%d" % max(8, WIDTHS[dtype]))
        count = int(np.prod(shape, dtype=np.int64))
        codes = np.frombuffer(blob, code, count, offset).reshape(shape)
        offset += count * code.itemsize
        tensors[role] = {"dtype": dtype, "codes": codes, "layout": layout, "shape": shape}
    return tensors


def to_array(tensor: dict[str, Any]) -> Any:
    """The tensor as an array of its dtype that lies in memory as its layout says."""
    codes, layout = tensor["codes"], tensor["layout"]
    if layout == "misaligned":  # by one byte
        array = np.zeros(codes.nbytes + 1, np.uint8)[1:].view(codes.dtype).reshape(codes.shape)
        array[...] = codes
    elif codes.ndim == 0 or layout in ("C", "read-only"):
        array = np.array(codes, order="C")
    elif layout == "F":
        array = np.array(codes, order="F")
    elif layout == "reversed":
        array = np.array(codes[..., ::-1], order="C")[..., ::-1]
    elif layout == "strided":
        array = np.zeros((*codes.shape[:-1], 2 * codes.shape[-1] + 1), codes.dtype)[..., 1::2]
        array[...] = codes
    elif layout == "broadcast":  # stride 0 along each axis on which the values are constant
        axes = enumerate(codes.shape)
        still = [n > 1 and codes.size > 0 and (codes == codes.take([0], axis)).all() for axis, n in axes]
        few = np.array(codes[tuple(slice(1) if one else slice(None) for one in still)], order="C")
        strides = [0 if one else stride for one, stride in zip(still, few.strides)]
        array = np.ndarray(codes.shape, codes.dtype, few, strides=strides)
    else:  # offset
        array = np.zeros(codes.size + 1, codes.dtype)[1:].reshape(codes.shape)
        array[...] = codes
    array = array.view(numpy_dtype(tensor["dtype"]))
    array.flags.writeable = layout != "read-only"
    return array


def numpy_dtype(name: str) -> Any:
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))


def to_codes(result: Any) -> tuple[str, Any]:
    """Dtype and codes of what the implementation gave: an array, or already such a pair."""
    if isinstance(result, tuple):
        return result
    values = np.asarray(result, order="C")
    name = values.dtype.name
    codes = values.view("uint%d" % (8 * values.dtype.itemsize))
    return name, codes & np.uint8((1 << WIDTHS[name]) - 1) if WIDTHS[name] < 8 else codes


def canonical(dtype: str, code: int) -> int:
    """The code, with every NaN the same: any NaN equals any NaN, while -0 and +0 differ."""
    if dtype in FRACTION_BITS:
        magnitude = (1 << (WIDTHS[dtype] - 1)) - 1
        infinity = magnitude >> FRACTION_BITS[dtype] << FRACTION_BITS[dtype]
        return -1 if code & magnitude > infinity else code
    return code


def words(dtype: str, code: int) -> str:
    """A code in decimal and in hex."""
    digits = "0x%0*x" % (max(1, WIDTHS[dtype] // 4), code)
    if dtype == "bfloat16":
        return "%s (%s)" % (float(np.array([code << 16], np.uint32).view(np.float32)[0]), digits)
    if dtype in FRACTION_BITS:
        return "%s (%s)" % (str(np.array([code], "uint%d" % WIDTHS[dtype]).view(dtype)[0]), digits)
    return digits


def listed(dtype: str, codes: Any, most: int = 8) -> str:
    flat = [words(dtype, int(code)) for code in codes.reshape(-1)[:most]]
    return "%s %s: %s%s" % (dtype, list(codes.shape), ", ".join(flat), ", ..." if codes.size > most else "")


def memory(arrays: dict[str, Any]) -> list[bytes]:
    """All bytes of the memory that the arrays lie in, those between their elements too."""
    return [(array if array.base is None else array.base).tobytes("A") for array in arrays.values()]
