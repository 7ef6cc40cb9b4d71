"""The shortest script that shows a finding, for a maintainer: the framework's own calls on the witness, and prints.

Where `script` makes a file that decides whether a discrepancy is still there, this makes twenty lines to be read in an
issue. Nothing from a report becomes code but numbers that were parsed, names that were looked up, and ``repr`` of
attributes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from xverify.core.call import BITS
from xverify.oracles.plugin import is_library
from xverify.report.script import environment
from xverify.report.script_bodies import implementation
from xverify.report.script_literals import is_numpy, operand
from xverify.report.script_short_call import ShortScript, WitnessCall, constants_of, feeds, read_witness, spelled
from xverify.report.script_short_onnx import onnx_reference, onnxruntime
from xverify.report.script_tensorflow import function_lines
from xverify.report.summary import Json
from xverify.verify.variants import setting_of

MOST_PLACES = 4
"""Places of a result that a script prints one by one."""

_QUANTIZED = {"int8": "qint8", "uint8": "quint8", "int16": "qint16", "uint16": "quint16", "int32": "qint32"}


def short_script(finding: Json) -> str | None:
    """The script's text, or None: on a text alone, on an implementation that this module does not know, on one that is run in two
    ways or by an environment variable, or with a witness whose values are in a file."""
    name = implementation(finding["subject"])
    if setting_of(finding["subject"]["name"]) and (
        finding["verdict"] == "nondeterministic" or environment(finding["subject"])
    ):
        return None
    write = _target if _TARGET.fullmatch(name) and not is_library(name.rpartition(":")[0]) else _WRITERS.get(name)
    call = read_witness(finding)
    if write is None or call is None:
        return None
    made = write(call)
    operands = [
        line
        for role, tensor in call.tensors.items()
        for line in operand(role, tensor, "" if role in constants_of(call) else call.name)
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


_TENSORFLOW_IMPORTS = [
    'os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # seen on the CPU',
    "import tensorflow as tf",
]


def _tensorflow(call: WitnessCall) -> ShortScript:
    first, data, keywords = _range_operands(call)
    operands = ", ".join([data, *(role for role in call.tensors if role != "input")])
    return ShortScript(
        _TENSORFLOW_IMPORTS, [*first, f"y = tf.quantization.dequantize({operands}{keywords}).numpy()"], ("os",)
    )


def _tensorflow_graph(call: WitnessCall) -> ShortScript:
    """Inside tf.function, with what the path lets the graph know."""
    compiled = call.name.startswith("tensorflow-xla")
    if call.surrounded is not None:
        lines = function_lines(*call.surrounded, call.options, compiled, _range_keywords(call))
        return ShortScript(_TENSORFLOW_IMPORTS, lines, ("os",))
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
    return ShortScript(_TENSORFLOW_IMPORTS, [*first, *body], ("os",))


def _range_operands(call: WitnessCall) -> tuple[list[str], str, str]:
    """The line that gives the input its quantized type, if it has one; the input's name then; attributes as keywords."""
    quantized = _QUANTIZED.get(call.tensors["input"].dtype)
    first = [f"quantized = tf.bitcast(tf.constant(input), tf.{quantized})"] if quantized else []
    return first, "quantized" if quantized else "tf.constant(input)", _range_keywords(call)


def _range_keywords(call: WitnessCall) -> str:
    words = {name: spelled(value) for name, value in call.attributes.items()}
    if words.get("dtype", "").strip('"') in BITS:
        words["dtype"] = f"tf.{call.attributes['dtype']}"
    return "".join(f", {name}={value}" for name, value in words.items())


def _onednn_formula(call: WitnessCall) -> ShortScript:
    combine = "divide" if call.name.endswith("divide") else "multiply"
    keywords = "".join(f", {name}={spelled(value)}" for name, value in call.attributes.items())
    operands = ", ".join(call.tensors)
    imports = ["from xverify.oracles.onednn_formulas import dequantize"]
    return ShortScript(imports, [f"y = dequantize(np.{combine}, {operands}{keywords})"])


def _xverify(call: WitnessCall) -> ShortScript:
    functions = {"onednn": "dynamic_dequantize", "tensorflow": "dequantize_range"}
    function = functions.get(call.contract.partition("/")[0], "dequantize_linear")
    return _python(call, "import xverify", f"xverify.{function}", {"contract": spelled(call.contract)})


def _python(call: WitnessCall, statement: str, function: str, more: Mapping[str, str]) -> ShortScript:
    """An import, and a call by the signature that kernels under test have."""
    words = {name: spelled(value) for name, value in call.attributes.items()}
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
    return ShortScript([statement], [f"y = {function}({', '.join(call.tensors)}{keywords})"], modules)


def _target(call: WitnessCall) -> ShortScript:
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


_WRITERS: dict[str, Callable[[WitnessCall], ShortScript]] = {
    "onnxruntime": onnxruntime,
    "onnx-reference": onnx_reference,
    "tensorflow": _tensorflow,
    "tensorflow-function": _tensorflow_graph,
    "tensorflow-xla": _tensorflow_graph,
    "onednn-formula-multiply": _onednn_formula,
    "onednn-formula-divide": _onednn_formula,
    "xverify-numpy": _xverify,
}


# What is printed


def _shown(finding: Json, call: WitnessCall, made: ShortScript) -> list[str]:
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


def _place(call: WitnessCall, index: list[int]) -> list[int]:
    """Where a value of the lone call's result is in what the script calls y."""
    if call.surrounded is None:
        return index
    graph = call.surrounded[1]
    flat = int(np.ravel_multi_index(tuple(index), graph.lone_shape)) if index else 0
    return [int(i) for i in np.unravel_index(int(graph.places[flat]), graph.shape)]


def _comment(text: str) -> str:
    """Text that stays a comment."""
    return "".join(character for character in text if character.isprintable())[:400]


def _watched(call: WitnessCall, made: ShortScript) -> list[str]:
    """Whether inputs are written to, and whether the output shares memory with them."""
    roles = [role for role, tensor in call.tensors.items() if call.name != "onnxruntime" or is_numpy(tensor.dtype)]
    return [
        f"handed = {feeds(roles)}",
        "before = {name: array.tobytes() for name, array in handed.items()}",
        *made.body,
        "for name, array in handed.items():",
        '    print(name, "unchanged:", array.tobytes() == before[name], '
        '"shared with the output:", np.may_share_memory(array, y))',
    ]
