"""The documents that installed packages carry.

This process never imports a framework. A short-lived process of the Python that has the framework prints its schemas.
TensorFlow's docstring is read from its source file.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from xverify.contracts.model import Wording
from xverify.core.call import BITS
from xverify.core.errors import DocumentError
from xverify.core.telemetry import quiet_environment

_ASK_SCHEMAS = """
import json, sys
def plain(schema):
    return {
        "since": schema.since_version,
        "doc": schema.doc or "",
        "attributes": {name: a.description for name, a in schema.attributes.items()},
        "inputs": [[i.name, getattr(i, "type_str", None) or getattr(i, "typeStr", ""), i.description,
                    "Optional" in str(i.option)] for i in schema.inputs],
        "types": {(getattr(t, "type_param_str")): [list(t.allowed_type_strs), t.description]
                  for t in schema.type_constraints},
        "outputs": [[o.name, getattr(o, "type_str", None) or getattr(o, "typeStr", ""), o.description]
                    for o in schema.outputs],
    }
if sys.argv[1] == "onnx":
    from onnx import defs
    schemas = [s for s in defs.get_all_schemas_with_history() if s.name in ("Cast", "DequantizeLinear", "QuantizeLinear")]
else:
    from onnxruntime.capi import onnxruntime_pybind11_state as state
    if not hasattr(state, "get_all_operator_schema"):
        raise SystemExit("this build does not let its schemas be read")
    schemas = [s for s in state.get_all_operator_schema() if s.name in ("DequantizeLinear", "QuantizeLinear")]
json.dump([[s.domain, s.name, plain(s)] for s in schemas], sys.stdout)
"""

_ASK_OPSET = """
import os, sys
os.environ.pop("ALLOW_RELEASED_ONNX_OPSET_ONLY", None)
import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented
def field(number, content):
    return bytes([8 * number + 2, len(content)]) + content
def value(name):
    return field(1, name) + field(2, field(1, bytes([8, 1])))
node = field(1, b"x") + field(2, b"y") + field(4, b"Identity")
graph = field(1, node) + field(2, b"g") + field(11, value(b"x")) + field(12, value(b"y"))
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
taken = 0
for opset in range(7, 100):
    model = bytes([8, 4]) + field(7, graph) + field(8, bytes([16, opset]))
    try:
        onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except NotImplemented:  # onnxruntime's own error: it takes the opset, and has no kernel of the node there
        pass
    except Exception as error:
        print(opset, type(error), error, file=sys.stderr)
        break
    taken = opset
print(taken)
"""
"""A script that prints the newest opset of a release. It writes models of one Identity itself, as onnx may be missing."""

_NAMES = {
    "float": "float32",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
    "float4e2m1": "float4_e2m1fn",
    "float6e2m3": "float6_e2m3fn",
    "float6e3m2": "float6_e3m2fn",
}


@dataclass(frozen=True)
class Schema:
    """The schema of one operator version, as a package describes it."""

    doc: str
    """The summary."""
    attributes: Mapping[str, str]
    """The description of each attribute by its name."""
    inputs: tuple[tuple[str, str, str, bool], ...]
    """Name, type parameter, description of each input, and True if it is optional."""
    outputs: tuple[tuple[str, str, str], ...]
    """Name, type parameter and description of each output."""
    types: Mapping[str, tuple[str, ...]]
    """The admitted dtypes of each type parameter, by our names of dtypes."""
    type_texts: Mapping[str, str]
    """The schema's sentence on each type parameter."""

    def types_of(self, parameter: str) -> tuple[str, ...]:
        """The dtypes of the input or output of that name."""
        type_name = self._type_name(parameter)
        return self.types.get(type_name) or (dtype_name(type_name),)

    def type_text(self, parameter: str) -> str:
        """The schema's sentence on the type of that input or output."""
        type_name = self._type_name(parameter)
        listed = ", ".join(self.types.get(type_name, ()))
        text = self.type_texts.get(type_name, "")
        return f"{type_name} in ({listed}): {text}" if listed else f"{parameter}: {type_name}"

    def _type_name(self, parameter: str) -> str:
        type_names = {name: type_name for name, type_name, *_ in self.inputs}
        type_names |= {name: type_name for name, type_name, _ in self.outputs}
        return type_names[parameter]

    def text(self) -> str:
        """All sentences: the summary, and the descriptions of attributes, inputs, outputs and types."""
        parts = [
            self.doc,
            *self.attributes.values(),
            *(i[2] for i in self.inputs),
            *(o[2] for o in self.outputs),
        ]
        return "\n".join((*parts, *self.type_texts.values()))

    def wording(self) -> Wording:
        """The whole text, for a comparison with another version's."""
        parts = {"summary": self.doc}
        parts |= {f"attribute {name}": text for name, text in self.attributes.items()}
        parts |= {f"input {name}": text for name, _, text, _ in self.inputs}
        parts |= {f"output {name}": text for name, _, text in self.outputs}
        parts |= {f"type {name}": text for name, text in self.type_texts.items()}
        optional = tuple(name for name, _, _, is_optional in self.inputs if is_optional)
        names = [*(name for name, *_ in self.inputs), *(name for name, *_ in self.outputs)]
        lists = {f"types of {name}": self.types_of(name) for name in names}
        lists |= {"attributes": tuple(self.attributes), "optional inputs": optional}
        return Wording(lists, {name: sentences(text) for name, text in parts.items()})

    def sentence(self, pattern: str) -> str:
        """The first sentence that matches a regular expression, with white space folded, or ""."""
        return sentence(self.text(), pattern)


def sentences(text: str) -> tuple[str, ...]:
    """The sentences of a text, with white space folded."""
    parts = (re.sub(r"\s+", " ", part).strip() for part in text.split("\n\n"))
    split = (candidate.strip() for part in parts for candidate in re.split(r"(?<=[.])\s*(?=[A-Z'`\[])", part))
    return tuple(filter(None, split))


def sentence(text: str, pattern: str) -> str:
    """The first sentence of ``text`` that matches ``pattern``, or ""."""
    return next((candidate for candidate in sentences(text) if re.search(pattern, candidate)), "")


def versions(by_version: Mapping[tuple[str, str, int], Schema], domain: str) -> tuple[int, ...]:
    """The versions of a domain's DequantizeLinear among schemas, oldest first."""
    return tuple(sorted(v for owner, name, v in by_version if (owner, name) == (domain, "DequantizeLinear")))


def assumptions(identity: str, newest_read: int, schema: Schema, attributes: tuple[str, ...]) -> tuple[str, ...]:
    """A sentence for each part of a schema that the code does not know: what it is, and what is assumed.

    Args:
        identity: The edition's id, such as "ai.onnx/DequantizeLinear-21".
        newest_read: The newest version whose text a person has read.
        schema: The schema of that edition.
        attributes: The names of the attributes that the edition's rules know.
    """
    listed = []
    version = int(identity.partition("@")[0].rpartition("-")[2])
    if version > newest_read:
        listed.append(
            f"{identity} is newer than this xverify, which assumes that it keeps the rules of version {newest_read}; "
            "xverify contracts --diff shows what changed"
        )
    unknown = {
        "type": [f"{t} of {of}" for of in ("x", "x_scale", "y") for t in schema.types_of(of) if t not in BITS],
        "attribute": [name for name in schema.attributes if name not in attributes],
        "input": [name for name, *_ in schema.inputs if name not in ("x", "x_scale", "x_zero_point")],
    }
    return (*listed, *tested_without(identity, unknown))


def tested_without(identity: str, unknown: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """A sentence for each kind of thing that an edition's document has and the code does not know.

    Args:
        identity: The edition's id.
        unknown: The names by their kind, such as "type".
    """
    return tuple(
        f"{identity}: this xverify does not know the {kind} {' and '.join(names)}, and tests without it"
        for kind, names in unknown.items()
        if names
    )


def of_known_types(schema: Schema, parameter: str) -> tuple[str, ...]:
    """The dtypes of an input or output of that name, without those that the code does not know."""
    return tuple(dtype for dtype in schema.types_of(parameter) if dtype in BITS)


def dtype_name(schema_type: str) -> str:
    """Our name of a schema's type: float8_e4m3fn for tensor(float8e4m3fn)."""
    bare = schema_type.removeprefix("tensor(").removesuffix(")")
    return _NAMES.get(bare, bare)


def version_of(distribution: str) -> str | None:
    """The version of an installed distribution, or None."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


@cache
def schemas(package: str, python: str = sys.executable) -> Mapping[tuple[str, str, int], Schema]:
    """The schemas in the onnx or onnxruntime of a Python, by (domain, operator, version).

    Raises:
        DocumentError: The package is not installed, or does not give its schemas.
    """
    if python == sys.executable and version_of(package) is None:
        raise DocumentError(f"{package} is not installed, so its schemas cannot be read; pip install {package}")
    try:
        command = [python, "-c", _ASK_SCHEMAS, package]
        with quiet_environment() as env:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env)
    except subprocess.TimeoutExpired:
        raise DocumentError(f"{package} did not print its schemas within 60 s") from None
    except OSError as error:
        raise DocumentError(f"{python} cannot be started to read the schemas of {package}: {error.strerror}") from None
    if done.returncode:
        reason = (done.stderr.strip() or "no message").splitlines()[-1]
        raise DocumentError(f"{package} does not give its schemas: {reason}")
    by_version = {}
    for domain, name, plain in json.loads(done.stdout):
        by_version[domain, name, plain["since"]] = Schema(
            doc=plain["doc"],
            attributes=plain["attributes"],
            inputs=tuple((n, t, d, bool(o)) for n, t, d, o in plain["inputs"]),
            outputs=tuple((n, t, d) for n, t, d in plain["outputs"]),
            types={name: tuple(map(dtype_name, listed)) for name, (listed, _) in plain["types"].items()},
            type_texts={name: text for name, (_, text) in plain["types"].items()},
        )
    return by_version


@cache
def newest_opset(python: str) -> int:
    """The newest opset whose models the onnxruntime of a Python accepts, 0 if it accepts none.

    Raises:
        DocumentError: The Python or its onnxruntime does not answer.
    """
    try:
        command = [python, "-c", _ASK_OPSET]
        with quiet_environment() as env:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DocumentError(f"{python} cannot find out which opsets its onnxruntime accepts: {error}") from None
    if done.returncode:
        reason = (done.stderr.strip() or "no message").splitlines()[-1]
        raise DocumentError(f"the opsets that onnxruntime accepts are not known: {reason}")
    return int(done.stdout.split()[-1])


@cache
def tensorflow_docstring(python: str = sys.executable) -> str:
    """The docstring of Dequantize in a Python's TensorFlow, from its generated source.

    Raises:
        DocumentError: TensorFlow is not installed, or its source has no such function.
    """
    directory = package_directory("tensorflow", python)
    if directory is None:
        raise DocumentError("tensorflow is not installed, so its docstring cannot be read; pip install tensorflow-cpu")
    path = Path(directory, "python", "ops", "gen_array_ops.py")
    try:
        source = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DocumentError(f"tensorflow's docstring cannot be read: {error.strerror}") from None
    definition = re.search(r"^def dequantize\(.*?(?=^def |\Z)", source, re.MULTILINE | re.DOTALL)
    # The text up to the next def parses on its own: only statements at top level follow the function.
    function = ast.parse(definition.group(0)).body[0] if definition else None
    if not isinstance(function, ast.FunctionDef):
        raise DocumentError("tensorflow's source has no function dequantize")
    return ast.get_docstring(function) or ""


_TORCH_MODULE = "ao/quantization/fx/_decomposed.py"
_TORCH_DOCSTRINGS = {
    "_torch_docs.py": ("quantize_per_tensor", "quantize_per_channel", "dequantize", "fake_quantize_per_tensor_affine"),
    "_tensor_docs.py": ("dequantize",),
}
"""The functions whose docstrings are read, by the file of the package that has them."""


@cache
def torch_text(operator: str, python: str = sys.executable) -> str:
    """The text on an operator in a Python's torch: docstrings, its schema, and lists of types.

    Args:
        operator: A function of ``torch.ops.quantized_decomposed``, or "Tensor.dequantize".

    Raises:
        DocumentError: torch is not installed, or its sources cannot be read.
    """
    directory = package_directory("torch", python)
    if directory is None:
        raise DocumentError("torch is not installed, so its docstrings cannot be read; pip install torch")
    try:
        files = {
            name: Path(directory, name).read_text(encoding="utf-8") for name in (*_TORCH_DOCSTRINGS, _TORCH_MODULE)
        }
    except OSError as error:
        raise DocumentError(f"torch's docstrings cannot be read: {error.strerror}") from None
    parts = [_operator_text(files[_TORCH_MODULE], operator)] if operator != "Tensor.dequantize" else []
    for name, functions in _TORCH_DOCSTRINGS.items():
        for function in functions:
            pattern = rf'add_docstr(?:_all)?\(\s*(?:torch\.{function}|"{function}"),\s*r?"""(.*?)"""'
            parts += re.findall(pattern, files[name], re.DOTALL)
    return "\n".join(parts)


def _operator_text(source: str, operator: str) -> str:
    """The schema and the docstring of a function of torch's module, after the module's lists of types."""
    parts: list[str] = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and re.match(r"_\w+_DTYPES = ", line := ast.unparse(node)):
            parts.append(line)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            constants = (a.value for a in node.value.args if isinstance(a, ast.Constant) and isinstance(a.value, str))
            parts += [text for text in constants if text.startswith(f"{operator}(")]
        elif isinstance(node, ast.FunctionDef) and node.name == operator:
            parts.append(ast.get_docstring(node) or "")
    return "\n".join(parts)


def quotes(text: str, quotation: str) -> bool:
    """True if a text has every part of a quotation, in any order. " ... " separates the parts.

    White space does not count.
    """
    whole = " ".join(text.split())
    return all(" ".join(part.split()) in whole for part in quotation.split(" ... "))


_ASK_DIRECTORY = """
import importlib.util, sys
spec = importlib.util.find_spec(sys.argv[1])
print(spec.submodule_search_locations[0] if spec and spec.submodule_search_locations else "")
"""


def package_directory(package: str, python: str) -> str | None:
    """The directory of a Python's package, or None. The package is not imported."""
    if python == sys.executable:
        spec = importlib.util.find_spec(package)
        return None if spec is None or not spec.submodule_search_locations else spec.submodule_search_locations[0]
    try:
        command = [python, "-c", _ASK_DIRECTORY, package]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DocumentError(f"{python} cannot be started to find its {package}: {error}") from None
    return done.stdout.strip() or None


_ASK_LIBRARIES = """
import importlib.metadata, sys
for name in sys.argv[1:]:
    try:
        files = importlib.metadata.distribution(name).files or []
    except importlib.metadata.PackageNotFoundError:
        continue
    print("\\n".join(file.name for file in files))
    break
"""


@cache
def onednn_release(python: str = sys.executable) -> tuple[int, int]:
    """The release (major, minor) of the oneDNN in a Python's wheel. The library is not loaded.

    The release comes from the name of a file, such as libdnnl.so.3.2, as the wheel's version counts otherwise.

    Raises:
        DocumentError: There is no such wheel, or no such file in it.
    """
    try:
        command = [python, "-c", _ASK_LIBRARIES, "onednn-cpu-gomp", "onednn"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DocumentError(f"{python} cannot be started to find its oneDNN: {error}") from None
    library = re.search(r"^libdnnl\.so\.(\d+)\.(\d+)$", done.stdout, re.MULTILINE)
    if library is None:
        raise DocumentError(
            f"{python} has no wheel of oneDNN with a file that names its release, such as libdnnl.so.3.2"
        )
    return int(library[1]), int(library[2])
