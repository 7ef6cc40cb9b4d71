"""TensorFlow Dequantize: the seed document (TensorFlow 1), and the installed docstring."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np

from xverify.arithmetic.linear_operands import along_axis, normal_axis
from xverify.arithmetic.range_readings import MIN_COMBINED, MIN_FIRST, SCALED_FLOAT, SCALED_SYMMETRIC
from xverify.arithmetic.reading import Operands, Reading
from xverify.contracts.documents import sentence, tensorflow_docstring, tested_without, version_of
from xverify.contracts.model import Cell, Clause, Contract, Domain, Judgement, TextCheck, judged
from xverify.core.call import Call, Tensor
from xverify.core.dtypes import FLOATS, floats, integer_range

_NAME = "tensorflow/Dequantize"
_SEED_DOCUMENT = "TensorFlow 1, Dequantize"
_QUANTIZED = {"qint8": "int8", "quint8": "uint8", "qint16": "int16", "quint16": "uint16", "qint32": "int32"}

_MODES = ("MIN_COMBINED", "MIN_FIRST", "SCALED")
"""The modes that have a formula here."""

_SEED_LOWEST = "-(1 << (num_bits - 1) - 1)"
_SEED_CLAUSES = {
    "formula-min-combined": (
        "if T == qint8: in[i] += (range(T) + 1)/ 2.0 out[i] = min_range + (in[i]* (max_range - min_range) / range(T))"
    ),
    "formula-min-first": (
        "num_discrete_values = 1 << (# of bits in T) range_adjust = num_discrete_values / (num_discrete_values - 1) "
        "range = (range_max - range_min) * range_adjust range_scale = range / num_discrete_values "
        "const double offset_input = static_cast<double>(input) - lowest_quantized; "
        "result = range_min + ((input - numeric_limits<T>::min()) * range_scale)"
    ),
    "formula-scaled": (
        "m = max(abs(input_min), abs(input_max)) ... [min_fixed, max_fixed] = [-(1 << (num_bits - 1) - 1), "
        "(1 << (num_bits - 1)) - 1] ... s = (2 * m) / (max_fixed - min_fixed) ... result = input * s"
    ),
    "scaled-bounds": "(e.g., output range is -127 to 127, not -128 to 127 for signed 8 bit quantization)",
    "input-type": "input A Tensor. Must be one of the following types: qint8, quint8, qint32, qint16, quint16.",
    "range-type": "min_range A Tensor of type float32. The minimum scalar value possibly produced for the input.",
    "range-shape": "[min_range, max_range] are scalar floats that specify the range for the 'input' data.",
    "mode": 'mode An optional string from: "MIN_COMBINED", "MIN_FIRST", "SCALED". Defaults to "MIN_COMBINED".',
    "output-type": "A Tensor of type float32.",
    "attributes": (
        'mode An optional string from: "MIN_COMBINED", "MIN_FIRST", "SCALED". ... name A name for the operation (optional).'
    ),
}
_SILENT = {
    "range-order": "no sentence covers min_range >= max_range, or a range that is NaN or infinite",
    "output-shape": "no sentence says that the output has the shape of the input",
    "subnormal": "no sentence mentions subnormal results: whether they are kept or flushed to zero is open",
}


def _mode(call: Call) -> str:
    return str(call.attributes.get("mode", "MIN_COMBINED"))


def _axis(call: Call) -> int | None:
    """The axis, or None. The docstring's default of -1 stands for none."""
    axis = call.attributes.get("axis", -1)
    return None if axis == -1 else int(axis)


def _out(call: Call) -> str:
    return str(call.attributes.get("dtype", "float32"))


def _ordered(low: Tensor, high: Tensor) -> bool:
    """True if every range is finite, with its minimum below its maximum."""
    a, b = floats("float32", low.codes), floats("float32", high.codes)
    return a.shape == b.shape and bool(np.all(np.isfinite(a) & np.isfinite(b) & (a < b)))


def _judge(edition: str, domain: Domain, call: Call) -> Judgement:
    tensors = call.tensors
    low, high = tensors["min_range"], tensors["max_range"]
    forbidden: list[str] = []
    unspecified: list[str] = []
    if tensors["input"].dtype not in domain.x_dtypes:
        forbidden.append("input-type")
    if low.dtype != "float32" or high.dtype != "float32":
        forbidden.append("range-type")
    if _mode(call) not in domain.modes:
        forbidden.append("mode")
    if any(name not in domain.attributes for name in call.attributes):
        forbidden.append("attributes")
    if _out(call) not in domain.output_dtypes:
        forbidden.append("output-type")
    elif _out(call) == "bfloat16" and _mode(call) != "MIN_COMBINED":
        forbidden.append("bfloat16-mode")
    if _axis(call) is not None:
        unspecified.append("axis")
    elif low.shape != () or high.shape != ():
        forbidden.append("range-shape")
    if not forbidden and not _ordered(low, high):
        unspecified.append("range-order")
    return judged(f"{_NAME}@{edition}", forbidden, unspecified)


def _cell(edition: str, call: Call) -> Cell:
    granularity = "per_tensor" if _axis(call) is None else "per_axis"
    variant = _mode(call) + (" narrow" if call.attributes.get("narrow_range") else "")
    ranges = call.tensors["min_range"].dtype
    return Cell(f"{_NAME}@{edition}", call.data.dtype, ranges, "", _out(call), granularity, variant)


def _operands(call: Call) -> Operands:
    x = call.tensors["input"]
    codes = {"input": x.codes}
    for role in ("min_range", "max_range"):
        end = call.tensors[role].codes
        axis = _axis(call)
        if axis is not None and end.size != 1:
            from_front = normal_axis(axis, len(x.shape))
            if from_front is None:
                raise ValueError(f"axis {axis} is outside [-{len(x.shape)}, {len(x.shape) - 1}]")
            codes[role] = along_axis(end, from_front, len(x.shape))
        else:
            codes[role] = end.reshape(())
    dtypes = {role: call.tensors[role].dtype for role in codes}
    options: dict[str, int | str | bool] = {
        "mode": _mode(call),
        "narrow_range": bool(call.attributes.get("narrow_range", False)),
    }
    return Operands(codes, dtypes, _out(call), x.shape, options)


def _readings(edition: str, call: Call) -> tuple[Reading, ...]:
    if _mode(call) == "MIN_COMBINED":
        return MIN_COMBINED
    if _mode(call) == "MIN_FIRST":
        return MIN_FIRST
    return SCALED_SYMMETRIC if edition == "seed" else SCALED_FLOAT


def _value_clause(edition: str, call: Call, reading: str | None) -> str:
    if _mode(call) not in _MODES:
        return f"{_NAME}@{edition}/mode"
    return f"{_NAME}@{edition}/formula-{_mode(call).lower().replace('_', '-')}"


def _build(
    edition: str,
    document: str,
    domain: Domain,
    clauses: dict[str, tuple[str, str]],
    checks: tuple[TextCheck, ...],
) -> Contract:
    identity = f"{_NAME}@{edition}"
    named = [Clause(f"{identity}/{name}", text, document, note) for name, (text, note) in clauses.items()]
    return Contract(
        id=identity,
        title=f"TensorFlow Dequantize, {edition} edition",
        document=document,
        domain=domain,
        clauses={clause.id: clause for clause in named},
        judge=partial(_judge, edition, domain),
        cell=partial(_cell, edition),
        operands=_operands,
        readings=partial(_readings, edition),
        value_clause=partial(_value_clause, edition),
        text_checks=lambda: checks,
    )


def _seed_check() -> tuple[TextCheck, ...]:
    """Compare the seed's expression for the lowest fixed value with its prose.

    Python gives shifts and sums the same precedence as C, so it can evaluate the expression.
    """
    lowest = eval(_SEED_LOWEST, {"__builtins__": {}}, {"num_bits": 8})
    prose = -integer_range("int8")[1]
    if lowest == prose:
        return ()
    summary = (
        f"the text's expression {_SEED_LOWEST} is {lowest} for 8 bits by C's precedence, where its prose says {prose}"
    )
    return (TextCheck(f"{_NAME}@seed/formula-scaled", "lowest-value", summary),)


def seed_contract() -> Contract:
    """The edition tensorflow/Dequantize@seed."""
    domain = Domain(
        family="range",
        x_dtypes=tuple(_QUANTIZED.values()),
        scale_dtypes=("float32",),
        output_dtypes=("float32",),
        granularities=("per_tensor",),
        attributes=("mode",),
        default_axis=None,
        modes=_MODES,
    )
    clauses = {name: (text, "") for name, text in _SEED_CLAUSES.items()}
    silent = {name: ("", note) for name, note in _SILENT.items()}
    return _build("seed", _SEED_DOCUMENT, domain, clauses | silent, _seed_check())


def _code_block(text: str, first: str) -> str:
    """The fenced block of the docstring that contains ``first``, with white space folded."""
    for block in re.findall(r"```(?:c\+\+)?\n(.*?)```", text, re.DOTALL):
        if first in block:
            return re.sub(r"\s+", " ", block).strip()
    return ""


def _redeclared(text: str) -> tuple[TextCheck, ...]:
    """Find names that one code block of the docstring declares twice.

    C++ rejects that, and a reader cannot know which declaration counts.
    """
    checks = []
    for block in re.findall(r"```c\+\+\n(.*?)```", text, re.DOTALL):
        names = Counter(re.findall(r"\bconst\s+\w+\s+(\w+)\s*=", block))
        for name in sorted(name for name, count in names.items() if count > 1):
            lines = [" ".join(part.split()) for part in block.split(";") if re.search(rf"\b{name}\s*=", part)]
            summary = f"the text declares {name} twice: " + " and ".join(f"`{line}`" for line in lines)
            checks.append(TextCheck(f"{_NAME}@installed/formula-scaled", f"declared-twice:{name}", summary))
    return tuple(checks)


def installed_contract() -> Contract:
    """The edition tensorflow/Dequantize@installed.

    Raises:
        DocumentError: TensorFlow is not installed.
    """
    text = tensorflow_docstring()
    document = f"docstring of tf.quantization.dequantize in tensorflow {version_of('tensorflow-cpu') or version_of('tensorflow')}"

    def argument(name: str) -> str:
        match = re.search(rf"^ *{name}: (.*?)(?=^ *\w+: |\Z)", text.split("Args:")[-1], re.MULTILINE | re.DOTALL)
        return re.sub(r"\s+", " ", match.group(0)).strip() if match else ""

    types = re.findall(r"`(q\w+)`", argument("input"))
    outputs = re.findall(r"tf\.(\w+)", argument("dtype").split("Defaults")[0].replace("tf.DType", ""))
    domain = Domain(
        family="range",
        x_dtypes=tuple(_QUANTIZED[name] for name in types if name in _QUANTIZED),
        scale_dtypes=("float32",),
        output_dtypes=tuple(sorted(set(outputs) & set(FLOATS), reverse=True)) or ("float32",),
        granularities=("per_tensor", "per_axis") if argument("axis") else ("per_tensor",),
        attributes=tuple(name for name in ("mode", "narrow_range", "axis", "dtype") if argument(name)),
        default_axis=None,
        modes=tuple(re.findall(r'"(\w+)"', argument("mode").split("Defaults")[0])),
    )
    sentences = {
        "formula-min-combined": _code_block(text, "out[i] ="),
        "formula-min-first": _code_block(text, "num_discrete_values"),
        "formula-scaled": _code_block(text, "scale_factor"),
        "input-type": argument("input"),
        "range-type": argument("min_range"),
        "range-shape": sentence(text, "are scalar floats"),
        "mode": argument("mode"),
        "narrow-range": argument("narrow_range"),
        "output-type": sentence(argument("dtype"), "supports float") or argument("dtype"),
        "bfloat16-mode": sentence(argument("dtype"), "only supports"),
        "attributes": "Args: " + ", ".join(domain.attributes),
    }
    silent = dict(_SILENT)
    axis = (
        argument("axis"),
        "the text says nothing of what the axis does: ranges are called scalars throughout",
    )
    clauses = {name: (quote, "") for name, quote in sentences.items()} | {"axis": axis}
    built = _build(
        "installed",
        document,
        domain,
        clauses | {name: ("", note) for name, note in silent.items()},
        _redeclared(text),
    )
    unknown = [f"{name} of input" for name in types if name not in _QUANTIZED]
    unknown += [f"{name} of output" for name in outputs if name not in FLOATS]
    return replace(built, assumptions=tested_without(built.id, {"type": unknown}))


def carried(identity: str, distribution: str, python: str) -> bool:
    """True if another Python's TensorFlow has the same docstring as the installed one.

    Raises:
        DocumentError: One of the docstrings cannot be read.
    """
    return identity.endswith("@installed") and tensorflow_docstring(python) == tensorflow_docstring()
