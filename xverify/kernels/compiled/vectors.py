"""LLVM types and small helpers that write instructions for one value and for a vector of values alike."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from llvmlite import ir
from numba.core.registry import cpu_target

I1, I8, I16, I32, I64 = ir.IntType(1), ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64)

F16, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()

_NAMES = {F32: "f32", F64: "f64"}
"""LLVM's names of float types in the names of its functions. Integer types keep their own spelling."""

CHUNK = 16
"""Elements of a vector that a loop writes at once: as many float32 as the widest register holds."""


@cache
def has(feature: str) -> bool:
    """True if the processor that Numba compiles for has the LLVM feature."""
    return f"+{feature}" in cpu_target.target_context.codegen().magic_tuple()[2].split(",")


def is_x86() -> bool:
    """True on an x86 processor."""
    return platform.machine().lower() in ("x86_64", "amd64")


def has_half_instruction() -> bool:
    """True if one instruction converts between float32 and float16.

    Elsewhere LLVM calls a library function, which may be missing.
    """
    return platform.machine().lower() in ("aarch64", "arm64") or has("f16c")


def is_register(value: Any, feature: str) -> bool:
    """True for a full 512-bit register of float32 on a processor that has the feature."""
    return value.type == ir.VectorType(F32, 16) and has(feature)


def shaped(element: Any, value: Any) -> Any:
    """The element type, or a vector type with as many elements as the value has."""
    return ir.VectorType(element, value.type.count) if isinstance(value.type, ir.VectorType) else element


def element_of(value: Any) -> Any:
    """The type of the value, or of the elements of a vector."""
    return getattr(value.type, "element", value.type)


def constant(kind: Any, number: float) -> Any:
    """A constant of the type; a vector type repeats the number in every element."""
    return ir.Constant(kind, [number] * kind.count if isinstance(kind, ir.VectorType) else number)


def is_single(value: Any) -> bool:
    """True for float32."""
    return bool(element_of(value) == F32)


def integer(value: Any) -> Any:
    """The integer type that holds the bits of a float value."""
    return shaped(I32 if is_single(value) else I64, value)


def room_for(builder: Any, kind: Any, count: int, align: int | None = None) -> Any:
    """The address of stack memory for ``count`` values of a type; every call of the function reuses it.

    The memory is not initialised. Numba's own allocation clears it element by element whenever the function is
    entered.
    """
    with builder.goto_entry_block():
        room = builder.alloca(ir.ArrayType(kind, count))
    room.align = align
    return room


def spread(builder: Any, scalar: Any, like: Any) -> Any:
    """The scalar, repeated as often as ``like`` has elements."""
    if not isinstance(like.type, ir.VectorType):
        return scalar
    vector = ir.VectorType(scalar.type, like.type.count)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(I32, 0))
    zeros = ir.Constant(ir.VectorType(I32, like.type.count), [0] * like.type.count)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)


def shuffled(builder: Any, left: Any, right: Any, indices: Iterable[int]) -> Any:
    """Elements of two concatenated vectors, by their indices."""
    lanes = list(indices)
    return builder.shuffle_vector(left, right, ir.Constant(ir.VectorType(I32, len(lanes)), lanes))


def of_llvm(builder: Any, name: str, *arguments: Any) -> Any:
    """Call an LLVM intrinsic whose arguments and result have one type."""
    kind, element = arguments[0].type, element_of(arguments[0])
    count = f"v{kind.count}" if isinstance(kind, ir.VectorType) else ""
    full = f"llvm.{name}.{count}{_NAMES.get(element, element)}"
    function = builder.module.globals.get(full)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(kind, [kind] * len(arguments)), full)
    return builder.call(function, arguments)


def of_x86(builder: Any, name: str, result: Any, *arguments: Any) -> Any:
    """Call an x86 intrinsic of LLVM by its name."""
    full = f"llvm.x86.{name}"
    function = builder.module.globals.get(full)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(result, [argument.type for argument in arguments]), full)
    return builder.call(function, arguments)


Generated = tuple[Any, Callable[..., Any]]
"""A Numba signature, and the function that writes the LLVM instructions for it."""
