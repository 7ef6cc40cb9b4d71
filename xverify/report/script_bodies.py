"""How each implementation is called in a reproduction script; `script` copies the source of these functions.

A body takes the call (contract, tensors with codes, arrays, attributes, options, name) and gives an array or a pair of
dtype and codes; whatever it raises is a refusal, but for ImportError. An implementation may bring its own instead: a
function ``reproduce`` in the module of its oracle.
"""

# ruff: noqa: UP031

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xverify.report.script_values import WIDTHS, numpy_dtype


def implementation(subject: Mapping[str, Any]) -> str:
    """Whom a finding's subject is a way of running: onnxruntime for onnxruntime:CPUExecutionProvider[threads=8]==1.17.0. The
    whole name where that is a target, or of nobody who is known here."""
    from xverify.oracles import all_oracles

    name = str(subject["name"])
    first = re.split(r"[:@[]|==", name, maxsplit=1)[0]
    return first if subject["role"] != "kernel" and (first in BODIES or first in all_oracles()) else name


def element_type(dtype: str) -> int:
    """The number that ONNX has for a type."""
    return {
        "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "float16": 10,
        "float64": 11, "uint32": 12, "uint64": 13, "bfloat16": 16, "float8_e4m3fn": 17, "float8_e4m3fnuz": 18,
        "float8_e5m2": 19, "float8_e5m2fnuz": 20, "uint4": 21, "int4": 22, "float4_e2m1fn": 23,
        "float8_e8m0fnu": 24, "uint2": 25, "int2": 26,
    }[dtype]  # fmt: skip


def operator_set(contract: str) -> tuple[str, int]:
    """Domain and version: ("", 21) for ai.onnx/DequantizeLinear-21."""
    domain, name = contract.split("/")
    return "" if domain == "ai.onnx" else domain, int(name.split("@")[0].rpartition("-")[2])


def onnx_attributes(call: dict[str, Any]) -> dict[str, Any]:
    given = dict(call["attributes"])
    if "output_dtype" in given:
        given["output_dtype"] = element_type(given["output_dtype"])
    return given


def message(*fields: tuple[int, Any]) -> bytes:
    """A protobuf message of numbered fields: whole numbers, or bytes and text, or messages."""

    def varint(number: int) -> bytes:
        number &= (1 << 64) - 1
        out = b""
        while number > 127:
            out += bytes([number & 127 | 128])
            number >>= 7
        return out + bytes([number])

    blob = b""
    for number, value in fields:
        if isinstance(value, int):
            blob += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            blob += varint(number << 3 | 2) + varint(len(data)) + data
    return blob


def onnx_model(call: dict[str, Any], constants: list[str]) -> bytes:
    """A ModelProto with one node; the numbers are those of onnx.proto."""
    domain, opset = operator_set(call["contract"])
    tensors = call["tensors"]
    roles = ["x", "scale", "zero_point"][: 3 if "zero_point" in tensors else 2]
    node: list[tuple[int, Any]] = [(1, role) for role in roles] + [(2, "y"), (4, "DequantizeLinear"), (7, domain)]
    for name, value in onnx_attributes(call).items():
        kind, field = (3, 4) if isinstance(value, str) else (2, 3)
        node.append((5, message((1, name), (field, value), (20, kind))))
    graph: list[tuple[int, Any]] = [(1, message(*node)), (2, "call")]
    for role in roles:
        number, shape = element_type(tensors[role]["dtype"]), tensors[role]["codes"].shape
        if role in constants:
            dims = [(1, extent) for extent in shape]
            graph.append((5, message(*dims, (2, number), (8, role), (9, packed(tensors[role]).tobytes()))))
        else:
            graph.append((11, message((1, role), (2, message((1, message((1, number))))))))
    graph.append((12, message((1, "y"))))
    # The oldest version of the format that goes with the opset: an old release takes none that is newer than itself.
    return message((1, 10 if opset >= 21 else 5), (7, message(*graph)), (8, message((1, domain), (2, opset))))


def packed(tensor: dict[str, Any]) -> Any:
    """The codes as memory holds them: those of 4 and 2 bits share bytes, low bits first."""
    flat, bits = np.asarray(tensor["codes"], order="C").reshape(-1), WIDTHS[tensor["dtype"]]
    if bits >= 8:
        return flat
    several = 8 // bits
    padded = np.zeros(-(-flat.size // several) * several, np.uint8)
    padded[: flat.size] = flat
    return np.bitwise_or.reduce(
        padded.reshape(-1, several) << np.arange(several, dtype=np.uint8) * np.uint8(bits), axis=1
    )


def provider_of(name: str) -> str:
    """The execution provider in a name such as onnxruntime:CUDAExecutionProvider."""
    found = re.match(r"\w+:(\w+)", name)
    return found.group(1) if found else "CPUExecutionProvider"


def setting(call: dict[str, Any], dimension: str) -> str:
    """Its value, where the path or the implementation's name has one: "8" of onnxruntime[threads=8]."""
    found = re.search(r"\b%s=(\w+)" % dimension, call["options"] + " " + call["name"])
    return found.group(1) if found else ""


def onnxruntime(call: dict[str, Any]) -> Any:
    import ctypes

    import onnxruntime as ort

    tensors, arrays, keep = call["tensors"], call["arrays"], []
    options, provider = call["options"], provider_of(call["name"])
    whole = ["x"] if options == "all initializers" else []
    constants = [role for role in tensors if role != "x"] + whole if options.endswith("initializers") else []
    settings = ort.SessionOptions()
    settings.log_severity_level = 4
    settings.intra_op_num_threads = int(setting(call, "threads") or 1)
    if options == "optimization=off":
        settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if whole:  # otherwise the call is kept, to be fused with what follows it
        settings.add_session_config_entry("session.disable_quant_qdq", "1")
    if setting(call, "denormals") == "zero":
        settings.add_session_config_entry("session.set_denormal_as_zero", "1")
    if provider != "CPUExecutionProvider":
        settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    model = onnx_model(call, constants)
    session = ort.InferenceSession(model, settings, providers=[provider], enable_fallback=0)

    def value(role: str) -> Any:
        """What NumPy has no type for goes in as an OrtValue over its bytes, in an array of the tensor's shape."""
        if arrays[role].dtype.isbuiltin == 1:
            return arrays[role]
        codes = packed(tensors[role])
        carrier = np.zeros(tensors[role]["codes"].shape, codes.dtype)
        carrier.reshape(-1)[: codes.size] = codes
        keep.append(carrier)
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(carrier, element_type(tensors[role]["dtype"]))

    feeds = {role: value(role) for role in tensors if role not in constants}
    kind = session.get_outputs()[0].type
    plain = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}
    if kind in plain and options != "io binding":
        return session.run(None, feeds)[0]
    held = {
        role: ort.OrtValue.ortvalue_from_numpy(np.asarray(fed, order="C")) if isinstance(fed, np.ndarray) else fed
        for role, fed in feeds.items()
    }
    if kind in plain:
        binding, y = session.io_binding(), np.full(tensors["x"]["codes"].shape, 0.5, plain[kind])
        for role, one in held.items():
            binding.bind_ortvalue_input(role, one)
        binding.bind_output("y", "cpu", 0, plain[kind], list(y.shape), y.ctypes.data)
        session.run_with_iobinding(binding)
        return y
    result = session.run_with_ort_values(None, held)[0]
    dtype = {"tensor(bfloat16)": "bfloat16"}.get(result.data_type(), result.data_type()[7:-1])
    size = int(np.prod(result.shape())) * WIDTHS[dtype] // 8  # tensor_size_in_bytes is younger than some releases
    raw = ctypes.string_at(result.data_ptr(), size)
    return dtype, np.frombuffer(raw, "uint%d" % WIDTHS[dtype]).reshape(result.shape())


def onnx_reference(call: dict[str, Any]) -> Any:
    import onnx
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    domain, opset = operator_set(call["contract"])
    tensors = call["tensors"]
    roles = ["x", "scale", "zero_point"][: 3 if "zero_point" in tensors else 2]
    node = helper.make_node("DequantizeLinear", roles, ["y"], domain=domain, **onnx_attributes(call))
    inputs = [helper.make_tensor_value_info(role, element_type(tensors[role]["dtype"]), None) for role in roles]
    graph = helper.make_graph([node], "call", inputs, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, opset)], ir_version=10)
    return ReferenceEvaluator(model).run(None, call["arrays"])[0]


def tensorflow(call: dict[str, Any]) -> Any:
    import os

    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
    import tensorflow as tf

    quantized = {
        "int8": tf.qint8, "uint8": tf.quint8, "int16": tf.qint16, "uint16": tf.quint16, "int32": tf.qint32,
    }  # fmt: skip
    operands = {role: tf.constant(array) for role, array in call["arrays"].items()}
    dtype = call["tensors"]["input"]["dtype"]
    if dtype in quantized:
        operands["input"] = tf.bitcast(operands["input"], quantized[dtype])
    attributes = dict(call["attributes"])
    if "dtype" in attributes:
        attributes["dtype"] = tf.as_dtype(attributes["dtype"])
    return tf.quantization.dequantize(**operands, **attributes).numpy()


def onednn_formula(call: dict[str, Any]) -> Any:
    from xverify.oracles.onednn_formulas import dequantize

    combine = np.divide if call["name"].endswith("divide") else np.multiply
    arrays = call["arrays"]
    return dequantize(combine, arrays["x"], arrays["scale"], arrays.get("zero_point"), **call["attributes"])


def xverify_kernel(call: dict[str, Any]) -> Any:
    import xverify  # what is in question here

    family = call["contract"].split("/")[0]
    functions: dict[str, Any] = {
        "onednn": xverify.dynamic_dequantize,
        "tensorflow": xverify.dequantize_range,
    }
    keywords = dict(call["attributes"], contract=call["contract"])
    for name in ("output_dtype", "dtype"):
        if name in keywords:
            keywords["out_dtype"] = numpy_dtype(keywords.pop(name))
    if family == "com.microsoft":
        keywords.setdefault("axis", None)
    roles = ("x", "scale", "zero_point", "input", "min_range", "max_range")
    operands = [call["arrays"][role] for role in roles if role in call["arrays"]]
    return functions.get(family, xverify.dequantize_linear)(*operands, **keywords)


def unknown(call: dict[str, Any]) -> Any:
    raise ImportError("this script does not know how to call %s; the call is above" % call["name"])


BODIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "onnxruntime": onnxruntime,
    "onnx-reference": onnx_reference,
    "tensorflow": tensorflow,
    "onednn-formula-multiply": onednn_formula,
    "onednn-formula-divide": onednn_formula,
    "xverify-numpy": xverify_kernel,
}

HELPERS: dict[str, tuple[Callable[..., Any], ...]] = {
    "onnxruntime": (element_type, operator_set, onnx_attributes, message, onnx_model, packed, provider_of, setting),
    "onnx_reference": (element_type, operator_set, onnx_attributes),
}
"""What a body calls besides what every script has, by the body's name."""
