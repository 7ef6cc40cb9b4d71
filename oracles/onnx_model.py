"""One-node ONNX models of a call, for the oracles that read ONNX."""

from __future__ import annotations

from typing import Any, Dict, Sequence, Tuple

from oracles.arrays import pack
from xverify.core.call import BITS, Call, Tensor


def ir_version(opset: int) -> int:
    """A version of the model format that every release with that opset takes: ONNX 1.5 had IR 5, 1.16 with opset 21 had IR 10.

    Implementations do not tie types to it. The version of another domain's opset may stand for an early one.
    """
    return 10 if opset >= 21 else 5


_NAMES = {
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "float8_e8m0fnu": "FLOAT8E8M0",
    "float4_e2m1fn": "FLOAT4E2M1",
}

ROLES = ("x", "scale", "zero_point")


def element_type(dtype: str) -> int:
    """The TensorProto number of a dtype. NotImplementedError when the installed onnx has none."""
    from onnx import TensorProto

    name = _NAMES.get(dtype, dtype.replace("_", "").upper())
    try:
        return int(TensorProto.DataType.Value(name))
    except ValueError:
        raise NotImplementedError("the installed onnx has no type %s" % (name,)) from None


def operator_set(contract: str) -> Tuple[str, int]:
    """Domain and version of an edition: "ai.onnx/DequantizeLinear-21" is ("", 21)."""
    domain, operator = contract.split("/")
    version = int(operator.split("@")[0].rpartition("-")[2])
    return ("" if domain == "ai.onnx" else domain), version


def structure(call: Call) -> Tuple[Any, ...]:
    """What a model depends on when every tensor is an input: a key for caches."""
    dtypes = tuple((name, tensor.dtype) for name, tensor in call.tensors.items())
    return (call.contract.split("@")[0], dtypes, tuple(sorted(call.attributes.items())))


def model_bytes(call: Call, initializers: Sequence[str] = ()) -> bytes:
    """A model of the call whose tensors are inputs without shape, but for those that are initializers.

    The output is declared by its name only, so that the implementation infers its type.
    """
    import onnx
    from onnx import helper

    domain, version = operator_set(call.contract)
    names = [role if role in call.tensors else "" for role in ROLES]
    attributes: Dict[str, Any] = dict(call.attributes)
    if "output_dtype" in attributes:
        attributes["output_dtype"] = element_type(str(attributes["output_dtype"]))
    node = helper.make_node("DequantizeLinear", names if names[2] else names[:2], ["y"], domain=domain, **attributes)
    inputs = [
        helper.make_tensor_value_info(name, element_type(tensor.dtype), None)
        for name, tensor in call.tensors.items()
        if name not in initializers
    ]
    constants = [_constant(name, call.tensors[name]) for name in initializers]
    graph = helper.make_graph([node], "call", inputs, [onnx.ValueInfoProto(name="y")], constants)
    opsets = [helper.make_opsetid(domain, version)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version(version))
    return bytes(model.SerializeToString())


def _constant(name: str, tensor: Tensor) -> Any:
    from onnx import TensorProto

    raw = pack(tensor.codes, BITS[tensor.dtype]) if BITS[tensor.dtype] < 8 else tensor.codes
    return TensorProto(name=name, data_type=element_type(tensor.dtype), dims=list(tensor.shape), raw_data=raw.tobytes())
