"""The shortest script that shows a finding, for a maintainer: the framework's own calls on the witness, and prints.

Where `script` makes a file that decides whether a discrepancy is still there, this makes twenty lines to be read in an
issue. Nothing from a report becomes code but numbers that were parsed, names that were looked up, and ``repr`` of
attributes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from oracles.onnx_model import ir_version
from oracles.plugin import is_library
from xverify.core.call import BITS, Call, Tensor, code_dtype
from xverify.core.codec import tensor_from_json
from xverify.core.surroundings import Graph
from xverify.report.script_bodies import implementation, provider_of, setting
from xverify.report.script_graph import graph_lines, graph_of_witness
from xverify.report.script_literals import is_numpy, onnx_type, operand
from xverify.report.script_tensorflow import function_lines
from xverify.report.summary import Json

MOST_PLACES = 4
"""Places of a result that a script prints one by one."""

_ONNX_ROLES = ("x", "scale", "zero_point")
_RANGE_ROLES = ("input", "min_range", "max_range")
_QUANTIZED = {"int8": "qint8", "uint8": "quint8", "int16": "qint16", "uint16": "quint16", "int32": "qint32"}


@dataclass(frozen=True)
class _Call:
    """A witness that was read: tensors by role in the operator's order, attributes, and who is asked by which way. full_name: the
    implementation's name with its option, its setting, its version. surrounded: the call in its graph, if it stands in one; then
    the tensors are what that is fed, and its constants."""

    contract: str
    tensors: dict[str, Tensor]
    attributes: dict[str, int | str | bool]
    name: str
    options: str
    out_dtype: str
    full_name: str
    surrounded: tuple[Call, Graph] | None = None


@dataclass(frozen=True)
class _Script:
    """Imports and set-up before the tensors, the lines that make the call, of which the last assigns y, and the modules
    that they need besides."""

    imports: list[str]
    body: list[str]
    modules: tuple[str, ...] = ()


def short_script(finding: Json) -> str | None:
    """The script's text, or None: on a text alone, on an implementation that this module does not know, or with a
    witness whose values are in a file."""
    name = implementation(finding["subject"])
    write = _target if _TARGET.fullmatch(name) and not is_library(name.rpartition(":")[0]) else _WRITERS.get(name)
    call = _read(finding)
    if write is None or call is None:
        return None
    made = write(call)
    operands = [
        line
        for role, tensor in call.tensors.items()
        for line in operand(role, tensor, "" if role in _constants(call) else call.name)
    ]
    imports = ["import numpy as np", *made.imports]
    # Of the literals it can be read which modules they need: they hold numbers only.
    text = "\n".join(operands)
    modules = {name for name in ("base64", "ml_dtypes", "zlib") if f"{name}." in text} | set(made.modules)
    if "ml_dtypes" in modules:
        imports.insert(0, "import ml_dtypes")
    standard = [f"import {name}" for name in sorted(modules - {"ml_dtypes"})]
    head = [*standard, *([""] if standard else []), *imports]
    return "\n".join([*head, "", *operands, "", *_shown(finding, call, made)]) + "\n"


def _read(finding: Json) -> _Call | None:
    witness, subject = finding["witness"], finding["subject"]
    if witness is None or subject["role"] == "edition":
        return None
    given, attributes = witness["call"]["tensors"], witness["call"]["attributes"]
    roles = _ONNX_ROLES if "x" in given else _RANGE_ROLES
    if not set(given) <= set(roles) or not all(re.fullmatch("[a-z_]{1,40}", name) for name in attributes):
        return None
    try:
        tensors = {role: tensor_from_json(given[role]) for role in roles if role in given}
    except (KeyError, ValueError, OverflowError):
        return None
    surrounded = graph_of_witness(witness["call"])
    if surrounded is not None:
        tensors = {**surrounded[1].inputs, **surrounded[1].constants}
    elif witness["call"].get("around"):
        return None
    got = (witness["got"] or {}).get("tensor")
    out = got["dtype"] if got and got["dtype"] in BITS else finding["out_dtype"]
    return _Call(
        witness["call"]["contract"], tensors, dict(attributes), implementation(subject), subject["options"],
        out or "float32", subject["name"], surrounded,
    )  # fmt: skip


def _onnx_node(call: _Call) -> list[str]:
    if call.surrounded is not None:
        return graph_lines(*call.surrounded)
    domain, _, operator = call.contract.partition("/")
    version = int(re.sub(r"\D", "", operator.partition("@")[0].rpartition("-")[2])[:6] or 0)
    domain = "" if domain == "ai.onnx" else domain
    given = {name: _spelled(value) for name, value in call.attributes.items()}
    if given.get("output_dtype", "").strip('"') in BITS:
        given["output_dtype"] = onnx_type(str(call.attributes["output_dtype"]))
    if domain:
        given["domain"] = _spelled(domain)
    keywords = "".join(f", {name}={value}" for name, value in given.items())
    constants = _constants(call)
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
        f"opset = helper.make_opsetid({_spelled(domain)}, {version})",
        f"model = helper.make_model(graph, opset_imports=[opset], ir_version={ir_version(version)})",
    ]


def _spelled(value: object) -> str:
    """An attribute as a literal."""
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_.@/-]*", value)
    return f'"{value}"' if plain else repr(value)


def _constants(call: _Call) -> list[str]:
    """Roles that are initializers on the call's path through ONNX Runtime, or in its graph."""
    if call.surrounded is not None:
        return list(call.surrounded[1].constants)
    first = {"initializers": 1, "all initializers": 0}.get(call.options, len(call.tensors))
    return list(call.tensors)[first:]


def _fed(call: _Call) -> list[str]:
    return [role for role in call.tensors if role not in _constants(call)]


def _quoted(names: Mapping[str, object] | list[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"


def _feeds(roles: list[str]) -> str:
    return "{" + ", ".join(f'"{role}": {role}' for role in roles) + "}"


def _onnx_imports(call: _Call) -> str:
    helper = ", numpy_helper" if _constants(call) else ""
    return f"from onnx import TensorProto, ValueInfoProto, helper{helper}"


_LEVELS = {"off": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED"}
"""Those that are not the default."""


def _session_options(call: _Call) -> list[str]:
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


def _bound(call: _Call, roles: list[str]) -> list[str]:
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


def _onnxruntime(call: _Call) -> _Script:
    constants = _constants(call)
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
        return _Script(imports, [*body, *_bound(call, roles), "y = bound()"])
    if is_numpy(call.out_dtype):
        return _Script(imports, [*body, f"y = session.run(None, {_feeds(roles)})[0]"])
    held = [
        f"{role} = ort.OrtValue.ortvalue_from_numpy({role})" for role in roles if is_numpy(call.tensors[role].dtype)
    ]
    codes = code_dtype(call.out_dtype).name
    return _Script(
        imports,
        [
            *body,
            *held,
            f"result = session.run_with_ort_values(None, {_feeds(roles)})[0]",
            f"memory = ctypes.string_at(result.data_ptr(), int(np.prod(result.shape())) * {code_dtype(call.out_dtype).itemsize})",
            f"y = np.frombuffer(memory, np.{codes}).reshape(result.shape()).view(ml_dtypes.{call.out_dtype})",
        ],
        ("ctypes", "ml_dtypes"),
    )


def _onnx_reference(call: _Call) -> _Script:
    imports = [_onnx_imports(call), "from onnx.reference import ReferenceEvaluator"]
    return _Script(
        imports,
        [*_onnx_node(call), f"y = np.asarray(ReferenceEvaluator(model).run(None, {_feeds(_fed(call))})[0])"],
    )


_TENSORFLOW_IMPORTS = [
    'os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # seen on the CPU',
    "import tensorflow as tf",
]


def _tensorflow(call: _Call) -> _Script:
    first, data, keywords = _range_operands(call)
    operands = ", ".join([data, *(role for role in call.tensors if role != "input")])
    return _Script(
        _TENSORFLOW_IMPORTS, [*first, f"y = tf.quantization.dequantize({operands}{keywords}).numpy()"], ("os",)
    )


def _tensorflow_graph(call: _Call) -> _Script:
    """Inside tf.function, with what the path lets the graph know."""
    compiled = call.name.startswith("tensorflow-xla")
    if call.surrounded is not None:
        lines = function_lines(*call.surrounded, call.options, compiled, _range_keywords(call))
        return _Script(_TENSORFLOW_IMPORTS, lines, ("os",))
    first, data, keywords = _range_operands(call)
    given = ["input"] if call.options == "ranges=constant" else list(call.tensors)
    static = compiled or call.options in ("shapes=static", "ranges=constant")
    specs = []
    for role in given:
        tensor = call.tensors[role]
        shape: object = list(tensor.shape) if static else [None] * len(tensor.shape)
        dtype = _QUANTIZED.get(tensor.dtype, tensor.dtype) if role == "input" else tensor.dtype
        specs.append(f"tf.TensorSpec({None if call.options == 'shapes=unknown' else shape}, tf.{dtype})")
    inner = f"tf.quantization.dequantize({', '.join(call.tensors)}{keywords})"
    fed = ", ".join([data, *(f"tf.constant({role})" for role in given if role != "input")])
    body = [
        f"function = tf.function(lambda {', '.join(given)}: {inner}{', jit_compile=True' if compiled else ''})",
        f"specs = [{', '.join(specs)}]",
        f"y = function.get_concrete_function(*specs)({fed}).numpy()",
    ]
    return _Script(_TENSORFLOW_IMPORTS, [*first, *body], ("os",))


def _range_operands(call: _Call) -> tuple[list[str], str, str]:
    """The line that gives the input its quantized type, if it has one; the input's name then; attributes as keywords."""
    quantized = _QUANTIZED.get(call.tensors["input"].dtype)
    first = [f"quantized = tf.bitcast(tf.constant(input), tf.{quantized})"] if quantized else []
    return first, "quantized" if quantized else "tf.constant(input)", _range_keywords(call)


def _range_keywords(call: _Call) -> str:
    words = {name: _spelled(value) for name, value in call.attributes.items()}
    if words.get("dtype", "").strip('"') in BITS:
        words["dtype"] = f"tf.{call.attributes['dtype']}"
    return "".join(f", {name}={value}" for name, value in words.items())


def _onednn_formula(call: _Call) -> _Script:
    combine = "divide" if call.name.endswith("divide") else "multiply"
    keywords = "".join(f", {name}={_spelled(value)}" for name, value in call.attributes.items())
    operands = ", ".join(call.tensors)
    imports = ["from oracles.onednn_formulas import dequantize"]
    return _Script(imports, [f"y = dequantize(np.{combine}, {operands}{keywords})"])


def _xverify(call: _Call) -> _Script:
    functions = {"onednn": "dynamic_dequantize", "tensorflow": "dequantize_range"}
    function = functions.get(call.contract.partition("/")[0], "dequantize_linear")
    return _python(call, "import xverify", f"xverify.{function}", {"contract": _spelled(call.contract)})


def _python(call: _Call, statement: str, function: str, more: Mapping[str, str]) -> _Script:
    """An import, and a call by the signature that kernels under test have."""
    words = {name: _spelled(value) for name, value in call.attributes.items()}
    for name in ("output_dtype", "dtype"):
        if words.pop(name, "").strip('"') in BITS:
            dtype = str(call.attributes[name])
            words["out_dtype"] = f"np.{dtype}" if is_numpy(dtype) else f"ml_dtypes.{dtype}"
    if call.contract.startswith("com.microsoft/"):
        words.setdefault("axis", "None")
    if call.contract.startswith("tensorflow/") and words.get("axis") == "-1":
        words["axis"] = "None"
    keywords = "".join(f", {name}={value}" for name, value in {**words, **more}.items())
    modules = ("ml_dtypes",) if words.get("out_dtype", "").startswith("ml_dtypes.") else ()
    return _Script([statement], [f"y = {function}({', '.join(call.tensors)}{keywords})"], modules)


def _target(call: _Call) -> _Script:
    """A user's Python kernel, in a file in the current directory or in a module."""
    place, _, function = call.name.rpartition(":")
    module = place.removesuffix(".py")
    made = _python(call, f"import {module} as kernel", f"kernel.{function}", {})
    if module == place:
        return made
    return replace(
        made, imports=['sys.path.insert(0, ".")  # where the kernel is', *made.imports], modules=(*made.modules, "sys")
    )


_DOTTED = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"
_TARGET = re.compile(rf"([A-Za-z_]\w*\.py|{_DOTTED}):{_DOTTED}", re.ASCII)
"""Targets that are spelled in Python as they are. A library needs more than a short script."""


_WRITERS: dict[str, Callable[[_Call], _Script]] = {
    "onnxruntime": _onnxruntime,
    "onnx-reference": _onnx_reference,
    "tensorflow": _tensorflow,
    "tensorflow-function": _tensorflow_graph,
    "tensorflow-xla": _tensorflow_graph,
    "onednn-formula-multiply": _onednn_formula,
    "onednn-formula-divide": _onednn_formula,
    "xverify-numpy": _xverify,
}


# What is printed


def _shown(finding: Json, call: _Call, made: _Script) -> list[str]:
    """The call with the comment that a reader needs before it, and what is printed after it."""
    verdict, got = finding["verdict"], finding["witness"]["got"]
    *before, last = made.body
    if verdict == "crash":
        return [*before, "# The process ends here instead of raising an exception.", last]
    if verdict == "hang":
        return [*before, "# This does not return.", last]
    if got is not None and got["kind"] in ("rejected", "unsupported"):
        return ["# One of the lines below raises." if before else "# This raises.", *before, last]
    if verdict == "nondeterministic":
        expression = last.partition(" = ")[2]
        repeated = f"answers = {{{expression}.tobytes() for _ in range(100)}}"
        return [*before, repeated, 'print(len(answers), "different answers to the same call")']
    if verdict == "memory":
        return _watched(call, made)
    width = BITS[call.out_dtype]
    entries = finding["witness"]["legal"][:MOST_PLACES]
    lines = [*made.body, f"bits = y.view(np.uint{max(8, width)})", "print(y.dtype, y.shape)"]
    for entry in entries:
        place = ", ".join(map(str, _place(call, entry["index"]))) or "()"
        due = " or ".join(f"{one['decimal']} {one['hex']}" for one in entry["legal"])
        lines.append(f"print(y[{place}], hex(bits[{place}]))  # allowed: {_comment(due)}")
    if entries:
        return lines
    return [*lines[:-1], "print(y.dtype, y.shape, y.ravel()[:8], [hex(code) for code in bits.ravel()[:8]])"]


def _place(call: _Call, index: list[int]) -> list[int]:
    """Where a value of the lone call's result is in what the script calls y."""
    if call.surrounded is None:
        return index
    graph = call.surrounded[1]
    flat = int(np.ravel_multi_index(tuple(index), graph.lone_shape)) if index else 0
    return [int(i) for i in np.unravel_index(int(graph.places[flat]), graph.shape)]


def _comment(text: str) -> str:
    """Text that stays a comment."""
    return "".join(character for character in text if character.isprintable())[:400]


def _watched(call: _Call, made: _Script) -> list[str]:
    """Whether inputs are written to, and whether the output shares memory with them."""
    roles = [role for role, tensor in call.tensors.items() if call.name != "onnxruntime" or is_numpy(tensor.dtype)]
    return [
        f"handed = {_feeds(roles)}",
        "before = {name: array.tobytes() for name, array in handed.items()}",
        *made.body,
        "for name, array in handed.items():",
        '    print(name, "unchanged:", array.tobytes() == before[name], '
        '"shared with the output:", np.may_share_memory(array, y))',
    ]
