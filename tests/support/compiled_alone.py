"""Functions that write LLVM instructions, each compiled alone with Numba's code generator.

The result is a function over arrays. Compilation takes milliseconds.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

from xverify.kernels.compiled.vectors import CHUNK

Array = np.ndarray[Any, Any]
Write = Callable[..., Any]
"""``write(builder, *values)`` emits instructions for elements or vectors of the operands. It returns the result."""

TYPES = {
    "b": ir.IntType(1), "u1": ir.IntType(8), "u2": ir.IntType(16), "u4": ir.IntType(32), "u8": ir.IntType(64),
    "i4": ir.IntType(32), "f4": ir.FloatType(), "f8": ir.DoubleType(),
}  # fmt: skip

_numbers = count()


def applied(write: Write, result: str, *operands: Array, lanes: int = CHUNK) -> Array:
    """Compile and run instructions on arrays.

    Args:
        write: Emits the instructions.
        result: NumPy's dtype of the result.
        operands: Arrays of one length, a multiple of ``lanes``.
        lanes: Elements at once; 1 for no vectors.
    """
    size = operands[0].size
    out = np.zeros(size, result)
    function = written(write, lanes, *(array.dtype.str[1:] for array in (*operands, out)))
    with global_compiler_lock:
        library = cpu_target.target_context.codegen().create_library(function.module.name)
        library.add_ir_module(function.module)
        library.finalize()
        address = library.get_pointer_to_function(function.name)
    call = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * (len(operands) + 1))(address)
    call(size // lanes, *(array.ctypes.data for array in (*operands, out)))
    return out


def written(write: Write, lanes: int, *names: str) -> ir.Function:
    """Return the function without compiling it.

    Args:
        names: NumPy's dtypes of the operands, then of the result.
    """
    kinds = [TYPES[name] if lanes == 1 else ir.VectorType(TYPES[name], lanes) for name in names]
    module, pointer = ir.Module(f"alone{next(_numbers)}"), ir.IntType(8).as_pointer()
    function_type = ir.FunctionType(ir.VoidType(), [ir.IntType(64), *[pointer] * len(kinds)])
    function = ir.Function(module, function_type, f"{module.name}_each")
    builder = ir.IRBuilder(function.append_basic_block())
    arrays = [builder.bitcast(a, kind.as_pointer()) for a, kind in zip(function.args[1:], kinds, strict=True)]
    with cgutils.for_range(builder, function.args[0]) as loop:
        *given, to = [builder.gep(array, [loop.index]) for array in arrays]
        builder.store(write(builder, *(builder.load(at, align=1) for at in given)), to, align=1)
    builder.ret_void()
    return function
