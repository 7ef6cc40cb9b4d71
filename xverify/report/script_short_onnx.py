"""How a short script makes a call through ONNX: the model, ONNX Runtime on each of its paths, and the reference evaluator."""

from __future__ import annotations

import re
from collections.abc import Mapping

from xverify.core.call import BITS, code_dtype
from xverify.oracles.onnx_model import ir_version
from xverify.report.script_bodies import provider_of, setting
from xverify.report.script_graph import graph_lines
from xverify.report.script_literals import is_numpy, onnx_type
from xverify.report.script_short_call import ShortScript, WitnessCall, constants_of, feeds, spelled


def _onnx_node(call: WitnessCall) -> list[str]:
    if call.surrounded is not None:
        return graph_lines(*call.surrounded)
    domain, _, operator = call.contract.partition("/")
    version = int(re.sub(r"\D", "", operator.partition("@")[0].rpartition("-")[2])[:6] or 0)
    domain = "" if domain == "ai.onnx" else domain
    given = {name: spelled(value) for name, value in call.attributes.items()}
    if given.get("output_dtype", "").strip('"') in BITS:
        given["output_dtype"] = onnx_type(str(call.attributes["output_dtype"]))
    if domain:
        given["domain"] = spelled(domain)
    keywords = "".join(f", {name}={value}" for name, value in given.items())
    constants = constants_of(call)
    inputs = [
        f'    helper.make_tensor_value_info("{role}", {onnx_type(tensor.dtype)}, None),'
        for role, tensor in call.tensors.items()
        if role not in constants
    ]
    listed = ", ".join(f'numpy_helper.from_array({role}, "{role}")' for role in constants)
    return [
        f'node = helper.make_node("DequantizeLinear", {_quoted(call.tensors)}, ["y"]{keywords})',
        "inputs = [",
        *inputs,
        "]",
        f'graph = helper.make_graph([node], "g", inputs, [ValueInfoProto(name="y")]{listed and f", [{listed}]"})',
        f"opset = helper.make_opsetid({spelled(domain)}, {version})",
        f"model = helper.make_model(graph, opset_imports=[opset], ir_version={ir_version(version)})",
    ]


def _fed(call: WitnessCall) -> list[str]:
    return [role for role in call.tensors if role not in constants_of(call)]


def _quoted(names: Mapping[str, object] | list[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"


def _onnx_imports(call: WitnessCall) -> str:
    helper = ", numpy_helper" if constants_of(call) else ""
    return f"from onnx import TensorProto, ValueInfoProto, helper{helper}"


_LEVELS = {"off": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED"}
"""Those that are not the default."""


def _session_options(call: WitnessCall) -> list[str]:
    """The lines that set what the call's path, or the setting in the implementation's name, wants of a session."""
    asked = {"options": call.options, "name": call.full_name}
    entries = {
        "session.disable_quant_qdq": call.options == "all initializers",
        "session.set_denormal_as_zero": setting(asked, "denormals") == "zero",
        "session.disable_cpu_ep_fallback": provider_of(call.full_name) != "CPUExecutionProvider",
    }
    lines = [f'options.add_session_config_entry("{name}", "1")' for name, wanted in entries.items() if wanted]
    if level := _LEVELS.get(call.options.rpartition("optimization=")[2]):
        lines.append(f"options.graph_optimization_level = ort.GraphOptimizationLevel.{level}")
    if threads := setting(asked, "threads"):
        lines.append(f"options.intra_op_num_threads = {int(threads)}")
    return lines


def _bound(call: WitnessCall, roles: list[str]) -> list[str]:
    """Lines that define a function which runs the session with everything bound."""
    how = {role: "cpu" if is_numpy(call.tensors[role].dtype) else "ortvalue" for role in roles}
    return [
        "def bound():",
        "    binding = session.io_binding()",
        *[f'    binding.bind_{how[role]}_input("{role}", {role})' for role in roles],
        f"    y = np.full({list(call.tensors['x'].shape)}, 0.5, np.{call.out_dtype})",
        '    binding.bind_output("y", "cpu", 0, y.dtype.type, y.shape, y.ctypes.data)',
        "    session.run_with_iobinding(binding)",
        "    return y",
    ]


def onnxruntime(call: WitnessCall) -> ShortScript:
    constants = constants_of(call)
    roles = [role for role in call.tensors if role not in constants]
    body = _onnx_node(call)
    settings = _session_options(call)
    body += ["options = ort.SessionOptions()", *settings] if settings else []
    provider = provider_of(call.full_name)
    body.append(
        f"session = ort.InferenceSession(model.SerializeToString(){', options' if settings else ''}, "
        f'providers=["{provider}"]{"" if provider == "CPUExecutionProvider" else ", enable_fallback=0"})'
    )
    imports = ["import onnxruntime as ort", _onnx_imports(call)]
    if is_numpy(call.out_dtype) and call.options == "io binding":
        return ShortScript(imports, [*body, *_bound(call, roles), "y = bound()"])
    if is_numpy(call.out_dtype):
        return ShortScript(imports, [*body, f"y = session.run(None, {feeds(roles)})[0]"])
    held = [
        f"{role} = ort.OrtValue.ortvalue_from_numpy({role})" for role in roles if is_numpy(call.tensors[role].dtype)
    ]
    codes = code_dtype(call.out_dtype).name
    return ShortScript(
        imports,
        [
            *body,
            *held,
            f"result = session.run_with_ort_values(None, {feeds(roles)})[0]",
            f"memory = ctypes.string_at(result.data_ptr(), int(np.prod(result.shape())) * {code_dtype(call.out_dtype).itemsize})",
            f"y = np.frombuffer(memory, np.{codes}).reshape(result.shape()).view(ml_dtypes.{call.out_dtype})",
        ],
        ("ctypes", "ml_dtypes"),
    )


def onnx_reference(call: WitnessCall) -> ShortScript:
    imports = [_onnx_imports(call), "from onnx.reference import ReferenceEvaluator"]
    return ShortScript(
        imports,
        [*_onnx_node(call), f"y = np.asarray(ReferenceEvaluator(model).run(None, {feeds(_fed(call))})[0])"],
    )
