"""What a script needs of a call inside a small graph: the graph as plain data, and how it is run.

The functions from `message_of_node` on are copied into scripts, like those of `script_bodies`.
"""

# ruff: noqa: UP031

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from xverify.core.call import BITS, Call, Tensor
from xverify.core.codec import call_from_json, tensor_to_json
from xverify.core.surroundings import Graph
from xverify.oracles.onnx_model import extents, graph_of, ir_version, list_inputs, operator_sets
from xverify.report.script_bodies import (
    element_type,
    message,
    onnx_attributes,
    operator_set,
    packed,
    provider_of,
)
from xverify.report.script_literals import onnx_type
from xverify.report.script_values import WIDTHS, read_codes, to_array, to_codes
from xverify.report.summary import Json


def graph_of_witness(call: Json) -> tuple[Call, Graph] | None:
    """A witness in its surroundings; None when it stands alone, has values in a file, is damaged, or in a graph that cannot be
    made."""
    if not call.get("around") or not all("hex" in tensor for tensor in call["tensors"].values()):
        return None
    try:
        read = call_from_json(call, Path())
        return read, graph_of(read)
    except (ValueError, KeyError, IndexError):
        return None


def graph_data(call: Json) -> Json | None:
    """The graph around a witness as plain data."""
    found = graph_of_witness(call)
    if found is None:
        return None
    read, graph = found
    sets = {} if read.contract.startswith(("tensorflow/", "onednn/")) else operator_sets(read)
    nodes: list[list[Any]] = []
    lists: dict[str, list[int]] = {}
    for node in graph.nodes:
        if not sets:  # no ONNX: every attribute is one
            nodes.append([node.operator, list(node.inputs), node.output, dict(node.attributes)])
            continue
        inputs, attributes = list_inputs(node, sets[""])
        lists.update(inputs)
        names = [*node.inputs, *(name for name, _ in inputs)]
        # Of the call's own attributes the names will do; QuantizeLinear has not all of them.
        nodes.append([node.operator, names, node.output, list(attributes) if node.of_call else attributes])
    return {
        "operators": sets,
        "nodes": nodes,
        "inputs": {name: _plain(tensor) for name, tensor in graph.inputs.items()},
        "constants": {name: _plain(tensor) for name, tensor in graph.constants.items()},
        "lists": lists,
        "extents": {name: extents(name, tensor, graph.symbolic) for name, tensor in graph.inputs.items()},
        "output": graph.output,
        "shape": list(graph.shape),
        "places": " ".join(map(str, graph.places.tolist())),
        "lone_shape": list(graph.lone_shape),
    }


def _plain(tensor: Tensor) -> Json:
    """A tensor as a script has it."""
    made = tensor_to_json(tensor)
    return {
        "dtype": tensor.dtype,
        "shape": list(tensor.shape),
        "layout": tensor.layout,
        "bits": " ".join(made["hex"]),
    }


def graph_lines(call: Call, graph: Graph) -> list[str]:
    """Lines of Python that make ``model`` with onnx.helper; the constants are arrays by their names."""
    domain, sets = operator_set(call.contract)[0], operator_sets(call)
    nodes: list[str] = []
    initializers = [f'    numpy_helper.from_array({name}, "{name}"),' for name in graph.constants]
    for node in graph.nodes:
        inputs, attributes = list_inputs(node, sets[""])
        initializers += [
            f'    helper.make_tensor("{name}", TensorProto.INT64, [{len(values)}], {values}),'
            for name, values in inputs
        ]
        names = ", ".join(f'"{name}"' for name in (*node.inputs, *(name for name, _ in inputs)))
        words = {name: _spelled(name, value) for name, value in attributes.items()}
        if node.of_call and domain:
            words["domain"] = repr(domain)
        keywords = "".join(f", {name}={value}" for name, value in words.items())
        nodes.append(f'    helper.make_node("{node.operator}", [{names}], ["{node.output}"]{keywords}),')
    inputs_made = [
        f'    helper.make_tensor_value_info("{name}", {onnx_type(tensor.dtype)}, {extents(name, tensor, graph.symbolic)}),'
        for name, tensor in graph.inputs.items()
    ]
    opsets = ", ".join(f"helper.make_opsetid({name!r}, {version})" for name, version in sets.items())
    return [
        *("nodes = [", *nodes, "]"),
        *("inputs = [", *inputs_made, "]"),
        *("constants = [", *initializers, "]"),
        f'graph = helper.make_graph(nodes, "g", inputs, [ValueInfoProto(name="{graph.output}")], constants)',
        f"model = helper.make_model(graph, opset_imports=[{opsets}], ir_version={ir_version(sets[''])})",
    ]


def _spelled(name: str, value: Any) -> str:
    """An attribute as Python; what is no number is a type."""
    return onnx_type(str(value)) if name == "output_dtype" and value in BITS else repr(value)


# -- copied -----------------------------------------------------------------------------------------------


def message_of_node(call: dict[str, Any], domain: str, node: list[Any]) -> bytes:
    """A NodeProto; one of the call's own domain has the call's attributes."""
    operator, names, output, attributes = node
    of_call = isinstance(attributes, list)  # their names
    if of_call:
        attributes = {name: value for name, value in onnx_attributes(call).items() if name in attributes}
    fields: list[tuple[int, Any]] = [*((1, name) for name in names), (2, output), (4, operator)]
    fields.append((7, domain if of_call else ""))
    for name, value in attributes.items():
        if isinstance(value, list):
            fields.append((5, message((1, name), *((8, one) for one in value), (20, 7))))
        else:
            kind, number = (3, 4) if isinstance(value, str) else (2, 3)
            fields.append((5, message((1, name), (number, value), (20, kind))))
    return message(*fields)


def graph_model(call: dict[str, Any], tensors: dict[str, dict[str, Any]]) -> bytes:
    """A ModelProto of the call in its graph; the numbers are those of onnx.proto."""
    graph, domain = call["graph"], operator_set(call["contract"])[0]
    fields: list[tuple[int, Any]] = [(1, message_of_node(call, domain, node)) for node in graph["nodes"]]
    fields.append((2, "call"))
    for name, tensor in tensors.items():
        number = element_type(tensor["dtype"])
        if name in graph["constants"]:
            dims = [(1, extent) for extent in tensor["codes"].shape]
            fields.append((5, message(*dims, (2, number), (8, name), (9, packed(tensor).tobytes()))))
        else:
            named = [(1, message((2 if isinstance(one, str) else 1, one))) for one in graph["extents"][name]]
            fields.append((11, message((1, name), (2, message((1, message((1, number), (2, message(*named)))))))))
    for name, values in graph["lists"].items():
        raw = np.array(values, "<i8").tobytes()
        fields.append((5, message((1, len(values)), (2, 7), (8, name), (9, raw))))
    fields.append((12, message((1, graph["output"]))))
    sets = [(8, message((1, name), (2, version))) for name, version in graph["operators"].items()]
    of_format = 10 if graph["operators"][""] >= 21 else 5
    return message((1, of_format), (7, message(*fields)), *sets)


def graph_tensors(call: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What is fed to the graph, and its constants, with their codes."""
    graph = call["graph"]
    return {
        name: dict(tensor, codes=read_codes(tensor))
        for name, tensor in {**graph["inputs"], **graph["constants"]}.items()
    }


def moved_back(call: dict[str, Any], result: Any) -> Any:
    """The values where the operator alone has them; a result of another shape as it is."""
    graph = call["graph"]
    dtype, codes = to_codes(result)
    if list(codes.shape) != graph["shape"]:
        return dtype, codes
    places = [int(place) for place in graph["places"].split()]
    return dtype, codes.reshape(-1)[places].reshape(graph["lone_shape"])


def run_session(session: Any, tensors: dict[str, dict[str, Any]]) -> Any:
    """What ONNX Runtime gives for the tensors. What NumPy has no type for goes in as an OrtValue over its bytes, in an array
    of the tensor's shape."""
    import ctypes

    import onnxruntime as ort

    fed, keep = {}, []
    for name, tensor in tensors.items():
        array = to_array(tensor)
        if array.dtype.isbuiltin == 1:
            fed[name] = ort.OrtValue.ortvalue_from_numpy(np.asarray(array, order="C"))
            continue
        codes = packed(tensor)
        keep.append(np.zeros(tensor["codes"].shape, codes.dtype))
        keep[-1].reshape(-1)[: codes.size] = codes
        fed[name] = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(keep[-1], element_type(tensor["dtype"]))
    result = session.run_with_ort_values(None, fed)[0]
    kind = result.data_type()[7:-1]
    dtype = {"float": "float32", "double": "float64"}.get(kind, kind)
    width = max(8, WIDTHS[dtype])
    raw = ctypes.string_at(result.data_ptr(), int(np.prod(result.shape())) * width // 8)
    return dtype, np.frombuffer(raw, "uint%d" % width).reshape(result.shape())


def surrounded_onnxruntime(call: dict[str, Any]) -> Any:
    import onnxruntime as ort

    tensors = graph_tensors(call)
    settings = ort.SessionOptions()
    settings.log_severity_level = 4
    settings.intra_op_num_threads = 1
    level = {"off": "DISABLE_ALL", "basic": "ENABLE_BASIC", "extended": "ENABLE_EXTENDED"}.get(
        call["options"].rpartition("optimization=")[2], "ENABLE_ALL"
    )
    settings.graph_optimization_level = getattr(ort.GraphOptimizationLevel, "ORT_" + level)
    provider = provider_of(call["name"])
    session = ort.InferenceSession(graph_model(call, tensors), settings, providers=[provider], enable_fallback=0)
    fed = {name: tensor for name, tensor in tensors.items() if name in call["graph"]["inputs"]}
    return moved_back(call, run_session(session, fed))


def surrounded_onnx_reference(call: dict[str, Any]) -> Any:
    import onnx
    from onnx.reference import ReferenceEvaluator

    tensors = graph_tensors(call)
    evaluator = ReferenceEvaluator(onnx.load_model_from_string(graph_model(call, tensors)))
    return moved_back(call, evaluator.run(None, {name: to_array(tensors[name]) for name in call["graph"]["inputs"]})[0])


def surrounded_openvino(call: dict[str, Any]) -> Any:
    import openvino as ov

    types = {"bfloat16": "bf16", "int4": "i4", "uint4": "u4", "uint2": "u2", "float8_e4m3fn": "f8e4m3",
             "float8_e5m2": "f8e5m2", "float8_e8m0fnu": "f8e8m0", "float4_e2m1fn": "f4e2m1"}  # fmt: skip
    graph, tensors = call["graph"], graph_tensors(call)
    if call["attributes"].get("block_size"):  # it wants to know all extents
        graph["extents"] = {name: tensor["shape"] for name, tensor in graph["inputs"].items()}
    settings: dict[str, Any] = {"INFERENCE_NUM_THREADS": 1}
    if "precision=float32" in call["options"]:
        settings["INFERENCE_PRECISION_HINT"] = "f32"
    core = ov.Core()
    request = core.compile_model(core.read_model(graph_model(call, tensors)), "CPU", settings).create_infer_request()
    fed = {}
    for name in graph["inputs"]:
        array = to_array(tensors[name])
        if array.dtype.isbuiltin == 1:
            fed[name] = ov.Tensor(np.asarray(array, order="C"), shared_memory=False)
        else:
            kind = getattr(ov.Type, types[tensors[name]["dtype"]])
            fed[name] = ov.Tensor(packed(tensors[name]).copy(), ov.Shape(array.shape), kind)
    request.infer(fed)
    result = request.get_output_tensor(0)
    data = np.array(result.data, order="C")
    return moved_back(call, ("bfloat16", data.view(np.uint16)) if result.element_type == ov.Type.bf16 else data)


BODIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "onnxruntime": surrounded_onnxruntime,
    "onnx-reference": surrounded_onnx_reference,
    "openvino": surrounded_openvino,
}

_MODEL = (
    element_type, operator_set, onnx_attributes, message, packed, message_of_node, graph_model, graph_tensors, moved_back,
)  # fmt: skip

HELPERS: dict[str, tuple[Callable[..., Any], ...]] = {
    "surrounded_onnxruntime": (*_MODEL, provider_of, run_session),
    "surrounded_onnx_reference": _MODEL,
    "surrounded_openvino": _MODEL,
}
