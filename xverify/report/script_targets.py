"""How a user's own kernel is called in a reproduction script; `script` copies the source of these functions.

The subject of such a finding is named by its target, ``kernels.py:function``, ``package.module:function`` or
``library.so:symbol``: of a path only the last part, so the script is told, or looks, where the file is.
"""

# ruff: noqa: UP031

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from xverify.oracles.plugin import is_library
from xverify.report.script_bodies import packed
from xverify.report.script_values import WIDTHS, numpy_dtype

HEAD = """
The kernel's file or library is this script's argument, or else is looked for in the current directory and beside this
script; a module is looked for in the directory that is the argument, the current one, and where Python looks.
"""
"""What the first lines of such a script say besides."""


def kernel_file(name: str) -> str:
    """The file of a target: the script's argument, or one of that name here or beside the script."""
    base = os.path.basename(name.rpartition(":")[0])
    given = [argument for argument in sys.argv[1:] if argument != "--child"]
    for path in given or [base, os.path.join(os.path.dirname(os.path.abspath(__file__)), base)]:
        if os.path.isfile(path):
            return os.path.abspath(path)
    raise ImportError("there is no file %s here; give its path as the argument of this script" % (given or [base])[0])


def python_function(name: str) -> Any:
    """The function that a target names; its module is imported once."""
    import importlib.util

    place, _, path = name.rpartition(":")
    try:
        if place.endswith(".py"):
            file, place = kernel_file(name), "kernel_under_test"
            if place not in sys.modules:
                sys.path.insert(0, os.path.dirname(file))
                spec: Any = importlib.util.spec_from_file_location(place, file)
                sys.modules[place] = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(sys.modules[place])
        elif place not in sys.modules:
            sys.path[:0] = [argument for argument in sys.argv[1:] if argument != "--child"] + [os.getcwd()]
        found: Any = importlib.import_module(place)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise ImportError("%s cannot be had: %s: %s" % (name, type(error).__name__, error)) from error
    return found


def python_kernel(call: dict[str, Any]) -> Any:
    keywords = dict(call["attributes"])
    for name in ("output_dtype", "dtype"):
        if name in keywords:
            keywords["out_dtype"] = numpy_dtype(keywords.pop(name))
    family = call["contract"].split("/")[0]
    if family == "com.microsoft":
        keywords.setdefault("axis", None)
    if family == "tensorflow" and keywords.get("axis") == -1:
        keywords["axis"] = None
    roles = ("x", "scale", "zero_point", "input", "min_range", "max_range")
    operands = [call["arrays"][role] for role in roles if role in call["arrays"]]
    return python_function(call["name"])(*operands, **keywords)


def guarded(image: Any, step: int, place: str, writable: bool = True) -> tuple[Any, Any]:
    """The bytes between two pages that nobody may touch: at the "left" one, at the "right" one (as far as a multiple
    of ``step`` can), or in the "middle"; all that lies between the pages, filled up with 0xa5, and the bytes in it."""
    import ctypes
    import mmap

    libc, page = ctypes.CDLL(None), mmap.PAGESIZE
    inner = (1 - (-image.size // page)) * page
    block = mmap.mmap(-1, inner + 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(block))
    between = np.frombuffer(block, np.uint8)[page : page + inner]
    between.fill(0xA5)
    room = (inner - image.size) // step * step
    first = {"left": 0, "right": room, "middle": room // 128 * 64}[place]
    between[first : first + image.size] = image
    for address, length, rights in (
        (start, page, 0), (start + page + inner, page, 0), (start + page, inner, 3 if writable else 1),
    ):  # fmt: skip
        libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(length), rights)
    return between, between[first : first + image.size]


def compact_strides(shape: Any) -> list[int]:
    """Row-major strides, in elements."""
    return [int(np.prod([max(1, extent) for extent in shape[axis + 1 :]])) for axis in range(len(shape))]


def in_memory(call: dict[str, Any], role: str) -> tuple[Any, int, Any]:
    """A tensor's bytes, where its first element is in them, and its strides in elements.

    Types of 4 and 2 bits are packed; below the size of an element C has no alignment.
    """
    tensor, array = call["tensors"][role], call["arrays"][role]
    if WIDTHS[tensor["dtype"]] < 8 or tensor["layout"] == "misaligned" or not array.size:
        return packed(tensor).view(np.uint8), 0, compact_strides(array.shape)
    owner = array if array.base is None else array.base
    image = owner.ravel(order="K").view(np.uint8)
    return image, array.ctypes.data - owner.ctypes.data, [stride // array.itemsize for stride in array.strides]


def described(address: int, dtype: str, shape: Any, strides: Any, offset: int) -> Any:
    """A DLTensor, the structure by which DLPack describes a tensor to C."""
    import ctypes

    class DLTensor(ctypes.Structure):
        _fields_ = (
            ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
            ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
            ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
            ("byte_offset", ctypes.c_uint64),
        )  # fmt: skip

    codes = {
        "int": 0, "uint": 1, "float": 2, "bfloat": 4, "float8_e4m3fn": 10, "float8_e4m3fnuz": 11,
        "float8_e5m2": 12, "float8_e5m2fnuz": 13, "float8_e8m0fnu": 14, "float4_e2m1fn": 17,
    }  # fmt: skip
    code = codes[dtype if dtype in codes else dtype.rstrip("0123456789")]
    extents = ctypes.c_int64 * max(1, len(shape))
    sizes, steps = extents(*map(int, shape)), extents(*map(int, strides))
    return DLTensor(address, 1, 0, len(shape), code, WIDTHS[dtype], 1, sizes, steps, offset)


def library_call(call: dict[str, Any], function: Any, dtype: str, place: str, poison: int) -> Any:
    """Call the library once, every tensor at that place between pages and the output filled with ``poison``. Gives the
    output's bytes, a row for each element; what happened to other bytes goes to the call's notes."""
    import ctypes

    tensors, attributes, notes = call["tensors"], call["attributes"], call["notes"]
    shape, step = tensors["x"]["codes"].shape, WIDTHS[dtype] // 8
    held, given = {}, {}
    for role, tensor in tensors.items():
        image, first, strides = in_memory(call, role)
        aligned = max(1, WIDTHS[tensor["dtype"]] // 8)
        whole, part = held[role] = guarded(image, aligned, place, tensor["layout"] != "read-only")
        offset = first if tensor["layout"] == "offset" else 0
        start = part.ctypes.data + first - offset
        given[role] = ctypes.byref(described(start, tensor["dtype"], tensor["codes"].shape, strides, offset))
    before = {role: (whole.tobytes(), part.tobytes()) for role, (whole, part) in held.items()}
    around, y = guarded(np.full(tensors["x"]["codes"].size * step, poison, np.uint8), step, place)
    status = function(
        *[given.get(role) for role in ("x", "scale", "zero_point")],
        ctypes.c_int64(attributes.get("axis", -(2**63))),
        ctypes.c_int64(attributes.get("block_size", 0)),
        ctypes.byref(described(y.ctypes.data, dtype, shape, compact_strides(shape), 0)),
    )
    for role, (whole, part) in held.items():
        if part.tobytes() != before[role][1]:
            notes.append("input-written")
        elif whole.tobytes() != before[role][0]:
            notes.append("written-beside-input")
    first = y.ctypes.data - around.ctypes.data
    if (around[:first] != 0xA5).any():
        notes.append("written-before-output")
    if (around[first + y.size :] != 0xA5).any():
        notes.append("written-after-output")
    if status == 2:
        raise NotImplementedError("the kernel returned 2")
    if status != 0:
        raise ValueError("the kernel returned %d" % status)
    return y.reshape(-1, step).copy()


def native_kernel(call: dict[str, Any]) -> Any:
    """Called twice: to look at the bytes around all tensors, or to have what touches them end the process."""
    import ctypes

    library, symbol = kernel_file(call["name"]), call["name"].rpartition(":")[2]
    try:
        function = getattr(ctypes.CDLL(library), symbol)
    except (OSError, AttributeError) as error:
        raise ImportError("%s cannot be had: %s" % (call["name"], error)) from error
    dtype = call["attributes"].get("output_dtype", call["tensors"]["scale"]["dtype"])
    first, second = ("right", "left") if call["verdict"] == "crash" else ("middle", "middle")
    one = library_call(call, function, dtype, first, 0x3C)
    other = library_call(call, function, dtype, second, 0xC3)
    if ((one == 0x3C).all(1) & (other == 0xC3).all(1)).any():
        call["notes"].append("never-written")
    elif one.tobytes() != other.tobytes():
        call["notes"].append("second-call-differs")
    return dtype, one.reshape(-1).view("uint%d" % WIDTHS[dtype]).reshape(call["tensors"]["x"]["codes"].shape)


def body_of(name: str) -> Callable[[dict[str, Any]], Any]:
    """The body for a target."""
    return native_kernel if is_library(name.rpartition(":")[0]) else python_kernel


HELPERS: dict[str, tuple[Callable[..., Any], ...]] = {
    "python_kernel": (kernel_file, python_function),
    "native_kernel": (packed, kernel_file, guarded, compact_strides, in_memory, described, library_call),
}
"""What a body calls besides what every script has, by the body's name."""
