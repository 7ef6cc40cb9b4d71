"""Hand-made linear calls, and two answers on which a call and its twins agree."""

from __future__ import annotations

import numpy as np

from xverify import contracts
from xverify.core.call import Call, Outcome, Tensor
from xverify.core.dtypes import tensor

MULTIPLY, DIVIDE = "onednn/DynamicDequantize-1@multiply", "onednn/DynamicDequantize-1@divide"
ONNX = "ai.onnx/DequantizeLinear-"


def linear(contract: str, x, scale, zero_point=None, dtype="int8", scale_dtype="float32", **attributes) -> Call:
    tensors = {"x": tensor(dtype, x), "scale": tensor(scale_dtype, scale)}
    if zero_point is not None:
        tensors["zero_point"] = zero_point
    return Call(contract, tensors, attributes)


def of_value(call: Call, role: str) -> np.ndarray:
    """Return the parameter's code for every value of x, by the documents' rules for axes and blocks."""
    codes, x = call.tensors[role].codes, call.data.codes
    if codes.size == 1 and codes.ndim <= 1:
        return np.full(x.shape, codes.reshape(-1)[0])
    where = list(np.indices(x.shape))
    axis = int(call.attributes.get("axis", 1)) % x.ndim
    if call.attributes.get("block_size", 0):
        where[axis] = where[axis] // int(call.attributes["block_size"])
        return codes[tuple(where)]
    return codes[where[axis]]


def fingerprint(call: Call) -> Outcome:
    """Answer with a hash of each value's own operands and of the dtypes. All readings share only these."""
    if "x" in call.tensors:
        operands = [call.data.codes, of_value(call, "scale")]
        operands += [of_value(call, "zero_point")] if "zero_point" in call.tensors else []
        out = call.attributes.get("output_dtype", call.tensors["scale"].dtype)
        kind = [str(out)]
    else:
        operands = [call.data.codes, *(np.asarray(call.tensors[end].codes) for end in ("min_range", "max_range"))]
        kind = [str(call.attributes.get(k, d)) for k, d in (("mode", "MIN_COMBINED"), ("narrow_range", False))]
        kind.append(str(call.attributes.get("dtype", "float32")))
    kind += [t.dtype for t in call.tensors.values()]
    total = np.full(call.data.shape, sum(map(ord, " ".join(kind))), np.uint64)
    for operand in operands:
        total = (total * np.uint64(1_000_003) + operand.astype(np.uint64)) % np.uint64(2**30)
    return Outcome("tensor", Tensor("float32", total.astype(np.uint32)))


def first_reading(call: Call) -> Outcome:
    contract = contracts.get(call.contract)
    operands = contract.operands(call)
    return Outcome("tensor", Tensor(operands.output_dtype, contract.readings(call)[0].evaluate(operands)))
