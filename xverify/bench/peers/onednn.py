"""oneDNN, the library: a compiled partition of one operation, executed on buffers that are there already.

Of Dequantize the scales and zero points are attributes, that is part of what is compiled, and its output is float32; other
outputs are DynamicDequantize's, whose scales are an operand.
"""

from __future__ import annotations

from ctypes import byref, c_void_p

import numpy as np

from xverify.bench.problem import Array, Problem, Solve, Way
from xverify.core.call import BITS, code_dtype
from xverify.oracles.arrays import pack
from xverify.oracles.onednn_graph_api import DEQUANTIZE, DYNAMIC_DEQUANTIZE, IN_ORDER, Library, LogicalTensor, Operation
from xverify.oracles.onednn_graphs import packed
from xverify.oracles.onednn_library import installed


def load(threads: int) -> Solve:
    """Load the library of the wheel; its threads are OpenMP's, by the process's environment."""
    library = Library(installed())
    stream = library.made("dnnl_stream_create", library.engine, IN_ORDER)

    def solve(problem: Problem) -> list[Way]:
        if problem.case.block_size:
            raise NotImplementedError("oneDNN's Dequantize and DynamicDequantize have no blocks in this release")
        operation, operands = (_static if problem.case.out_dtype == "float32" else _dynamic)(problem)
        compiled = library.compile(operation)
        memory = [*operands, problem.out]
        logical = [library.logical(i, one) for i, one in enumerate((*operation.inputs, operation.output))]
        tensors = [
            library.made("dnnl_graph_tensor_create", byref(one), library.engine, c_void_p(array.ctypes.data))
            for one, array in zip(logical, memory, strict=True)
        ]
        inputs, output = (c_void_p * len(operands))(*tensors[:-1]), (c_void_p * 1)(tensors[-1])
        handle = compiled._handle
        execute = "dnnl_graph_compiled_partition_execute"

        def run() -> None:
            library.call(execute, handle, stream, len(operands), inputs, 1, output)
            library.call("dnnl_stream_wait", stream)

        return [Way("compiled partition", run, memory=memory)]

    return solve


def _static(problem: Problem) -> tuple[Operation, list[Array]]:
    case = problem.case
    zero_point = problem.zero_point
    zps = (0,) * problem.scale.size if zero_point is None else tuple(int(i) for i in zero_point.reshape(-1))
    operation = Operation(
        DEQUANTIZE,
        (_logical(problem.x),),
        _logical(problem.out),
        qtype="per_tensor" if case.axis is None else "per_channel",
        axis=case.axis,
        scales=tuple(float(i) for i in problem.scale.reshape(-1)),
        zps=zps,
    )
    return operation, [_bytes(problem.x)]


def _dynamic(problem: Problem) -> tuple[Operation, list[Array]]:
    case = problem.case
    operands = [problem.x, problem.scale.reshape(-1)]
    if problem.zero_point is not None:
        operands.append(problem.zero_point.reshape(-1))
    operation = Operation(
        DYNAMIC_DEQUANTIZE,
        tuple(_logical(operand) for operand in operands),
        _logical(problem.out),
        qtype="per_tensor" if case.axis is None else "per_channel",
        axis=case.axis,
    )
    return operation, [_bytes(operand) for operand in operands]


def _logical(array: Array) -> LogicalTensor:
    return packed(array.dtype.name, array.shape)


def _bytes(array: Array) -> Array:
    """The memory that the library reads: of types of less than a byte packed."""
    bits = BITS[array.dtype.name]
    if bits >= 8:
        return array
    return np.asarray(pack(array.view(code_dtype(array.dtype.name)) & np.uint8((1 << bits) - 1), bits))
