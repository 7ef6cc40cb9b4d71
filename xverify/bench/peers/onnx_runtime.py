"""ONNX Runtime on the CPU: IO binding to operands and an output that are there already."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from xverify.bench.problem import Array, Problem, Solve, Way
from xverify.core.call import BITS, Attribute, Call, Tensor, code_dtype
from xverify.oracles.arrays import NUMPY_OWN, pack
from xverify.oracles.onnx_model import element_type, model_bytes

CONTRACTS = ("ai.onnx/DequantizeLinear-21", "ai.onnx/DequantizeLinear-25")
"""The editions of the model, tried in turn: most types are in the first, and the others in the second."""


def load(threads: int) -> Solve:
    """Import ONNX Runtime; its sessions have so many threads."""
    import onnxruntime as ort

    def session_of(problem: Problem) -> Any:
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = threads
        refused: list[Exception] = []
        for contract in CONTRACTS:
            try:
                model = model_bytes(_call(problem, contract))
                return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"], enable_fallback=0)
            except Exception as error:
                refused.append(error)
        raise refused[-1]

    def value(array: Array) -> tuple[Array, Any]:
        """An OrtValue over memory, which is to be kept. What NumPy has no type for goes in by its bytes, packed."""
        dtype = array.dtype.name
        if dtype in NUMPY_OWN:
            return array, ort.OrtValue.ortvalue_from_numpy(array)
        codes = array.view(code_dtype(dtype))
        if BITS[dtype] < 8:
            packed = pack(codes & np.uint8((1 << BITS[dtype]) - 1), BITS[dtype])
            # Its shape is the array's, so the packed bytes stand at the beginning of one of x's shape.
            codes = np.empty(codes.shape, np.uint8)
            codes.reshape(-1)[: packed.size] = packed
        return codes, ort.OrtValue.ortvalue_from_numpy_with_onnx_type(codes, element_type(dtype))

    def solve(problem: Problem) -> list[Way]:
        session = session_of(problem)
        bound = session.io_binding()
        given = {"x": problem.x, "scale": problem.scale, "zero_point": problem.zero_point}
        kept = {role: value(array) for role, array in given.items() if array is not None}
        for role, (_, fed) in kept.items():
            bound.bind_ortvalue_input(role, fed)
        out, dtype = problem.out, problem.out.dtype.name
        kind = out.dtype.type if dtype in NUMPY_OWN else element_type(dtype)
        bound.bind_output("y", "cpu", 0, kind, list(out.shape), out.ctypes.data)
        return [Way("run_with_iobinding", partial(session.run_with_iobinding, bound), memory=kept)]

    return solve


def _call(problem: Problem, contract: str) -> Call:
    case = problem.case
    operands = {"x": problem.x, "scale": problem.scale, "zero_point": problem.zero_point}
    # Of the tensors only the types count: each is an input whose shape is not said.
    tensors = {
        role: Tensor(array.dtype.name, np.zeros((), code_dtype(array.dtype.name)))
        for role, array in operands.items()
        if array is not None
    }
    attributes: dict[str, Attribute] = {}
    if case.axis is not None:
        attributes["axis"] = case.axis
    if case.block_size:
        attributes["block_size"] = case.block_size
    return Call(contract, tensors, attributes)
