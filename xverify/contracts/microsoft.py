"""com.microsoft DequantizeLinear: the seed document, and the schemas of the installed onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from xverify.arithmetic.linear_operands import linear_operands, normal_axis
from xverify.arithmetic.reading import Operands, Reading
from xverify.arithmetic.readings import EXACT, FLOAT32
from xverify.contracts.documents import (
    Schema,
    assumptions,
    of_known_types,
    schemas,
    version_of,
    versions,
)
from xverify.contracts.model import Cell, Clause, Contract, Domain, Judgement, OfficialCase, TextCheck, judged
from xverify.core.bits import canonical
from xverify.core.call import Call
from xverify.core.dtypes import tensor, values
from xverify.core.errors import DocumentError

NEWEST_READ = 1
"""The newest version whose whole text a person has read and put into rules."""

_NAME = "com.microsoft/DequantizeLinear"
_SEED = f"{_NAME}-1@seed"
_ATTRIBUTES = ("axis",)
_SEED_DOCUMENT = "ONNX Runtime's published page on com.microsoft DequantizeLinear-1"

_AXIS = (
    "The axis along which same quantization parameters are applied. It's optional.If it's not specified, it means "
    "per-tensor quantization and input 'x_scale' and 'x_zero_point' must be scalars.If it's specified, it means per "
    "'axis' quantization and input 'x_scale' and 'x_zero_point' must be 1-D tensors."
)
_SEED_CLAUSES = {
    "formula": (
        "y = (x.astype(np.float32) - x_zero_point.reshape(1, 3, 1, 1).astype(np.float32)) * x_scale.reshape(1, 3, 1, 1)",
        "the page's summary is empty: the formula is taken from its examples",
    ),
    "x-type": (
        "T1 in ( tensor(int8), tensor(uint8) ): Constrain 'x' and 'x_zero_point' to 8-bit integer tensors.",
        "",
    ),
    "scale-type": (
        "T2 in ( tensor(float), tensor(float16) ): Constrain 'y', 'x_scale' to float tensors.",
        "",
    ),
    "zero-point-type": ("x_zero_point (heterogeneous) - T1", ""),
    "zero-point-required": (
        "x_zero_point (heterogeneous) - T1",
        "the page does not mark this input as optional",
    ),
    "granularity": (_AXIS, ""),
    "zero-point-shape": (_AXIS, ""),
    "output-type": ("y (heterogeneous) - T2", ""),
    "attributes": ("axis - INT", ""),
}

_SILENT = {
    "axis": "no sentence gives the axis' range, or says what a negative axis means",
    "axis-length": "no sentence says that a 1-D scale has the length of the axis, or what one element means",
    "shape-1-scale": "the text asks for scalars and does not say whether a tensor of shape [1] is one",
    "output-shape": "no sentence says that y has the shape of x, but the examples show it",
    "subnormal": "no sentence mentions subnormal results: whether they are kept or flushed to zero is open",
}

_EXAMPLES: tuple[tuple[str, str, Any, Any, Any, int | None, list[float] | None], ...] = (
    ("default", "uint8", [0, 3, 128, 255], 2.0, 128, None, [-256, -250, 0, 254]),
    (
        "_axis",
        "uint8",
        [
            [
                [[3, 89], [34, 200], [74, 59]],
                [[5, 24], [24, 87], [32, 13]],
                [[245, 99], [4, 142], [121, 102]],
            ]
        ],
        [2.0, 4.0, 5.0],
        [84, 24, 196],
        1,
        None,
    ),
    ("_e4m3fn", "float8_e4m3fn", [0, 0.5, 1, 448, 104], 2.0, None, None, [0.0, 1.0, 2.0, 896.0, 208.0]),
    ("_e5m2", "float8_e5m2", [0, 0.5, 1, 49152, 96], 2.0, None, None, [0.0, 1.0, 2.0, 98304.0, 192.0]),
)
"""The page's examples: name, type of x, x, scale, zero point, axis, and y or None where the page computes it."""


def _judge(identity: str, domain: Domain, call: Call) -> Judgement:
    x, scale, zero_point = call.tensors["x"], call.tensors["scale"], call.tensors.get("zero_point")
    forbidden: list[str] = []
    unspecified: list[str] = []
    if x.dtype not in domain.x_dtypes:
        forbidden.append("x-type")
    if scale.dtype not in domain.scale_dtypes:
        forbidden.append("scale-type")
    if any(name not in domain.attributes for name in call.attributes):
        forbidden.append("attributes")
    axis = call.attributes.get("axis")
    if axis is None:
        if scale.shape == (1,):
            unspecified.append("shape-1-scale")
        elif scale.shape != ():
            forbidden.append("granularity")
    elif len(scale.shape) != 1:
        forbidden.append("granularity")
    else:
        from_front = normal_axis(int(axis), len(x.shape))
        if from_front is None or int(axis) < 0:
            unspecified.append("axis")
        elif scale.shape[0] != x.shape[from_front]:
            unspecified.append("axis-length")
    if zero_point is None:
        if domain.zero_point_required:
            forbidden.append("zero-point-required")
    else:
        if zero_point.dtype != x.dtype:
            forbidden.append("zero-point-type")
        if zero_point.shape != scale.shape:
            # The installed text wants the same shape. The seed wants two scalars or two 1-D tensors.
            if identity == _SEED and len(zero_point.shape) == len(scale.shape):
                unspecified.append("axis-length")
            else:
                forbidden.append("zero-point-shape")
    return judged(identity, forbidden, unspecified)


def _cell(identity: str, call: Call) -> Cell:
    tensors = call.tensors
    zero_point = tensors["zero_point"].dtype if "zero_point" in tensors else ""
    scale = tensors["scale"].dtype
    granularity = "per_axis" if "axis" in call.attributes else "per_tensor"
    return Cell(identity, tensors["x"].dtype, scale, zero_point, scale, granularity, "")


def _operands(call: Call) -> Operands:
    axis = call.attributes.get("axis")
    return linear_operands(call, call.tensors["scale"].dtype, None if axis is None else int(axis))


def _readings(call: Call) -> tuple[Reading, ...]:
    return (EXACT, FLOAT32)


def _value_clause(identity: str, call: Call, reading: str | None) -> str:
    return f"{identity}/formula"


def _build(identity: str, document: str, domain: Domain, clauses: dict[str, tuple[str, str]]) -> Contract:
    edition = identity.rpartition("@")[2]
    named = {name: Clause(f"{identity}/{name}", text, document, note) for name, (text, note) in clauses.items()}
    return Contract(
        id=identity,
        title=f"ONNX Runtime's com.microsoft DequantizeLinear, {edition} edition",
        document=document,
        domain=domain,
        clauses={clause.id: clause for clause in named.values()},
        judge=partial(_judge, identity, domain),
        cell=partial(_cell, identity),
        operands=_operands,
        readings=_readings,
        value_clause=partial(_value_clause, identity),
        text_checks=partial(_check_examples, domain) if identity == _SEED else tuple,
        official_cases=partial(_official_cases, domain) if identity == _SEED else tuple,
    )


def example_calls() -> tuple[tuple[str, Call, list[float] | None], ...]:
    """The examples of the seed page: name, call, and the output that the page prints or None."""
    calls = []
    for name, dtype, x, scale, zero_point, axis, expected in _EXAMPLES:
        tensors = {"x": tensor(dtype, x), "scale": tensor("float32", scale)}
        if zero_point is not None:
            tensors["zero_point"] = tensor(dtype, zero_point)
        attributes = {} if axis is None else {"axis": axis}
        calls.append((name, Call(_SEED, tensors, attributes, f"example {name}"), expected))
    return tuple(calls)


@cache
def _official_cases(domain: Domain) -> tuple[OfficialCase, ...]:
    """The examples of the seed page that its clauses allow.

    Where an example computes y, so does this function.
    """
    cases = []
    for name, call, printed in example_calls():
        if _judge(_SEED, domain, call).verdict == "allowed":
            due = tensor("float32", _computed(call) if printed is None else printed)
            cases.append(
                OfficialCase(f"example {name}", _SEED_DOCUMENT, replace(call, origin=f"official: {name}"), due)
            )
    return tuple(cases)


def _computed(call: Call) -> Any:
    """The y of the example _axis, which the page computes in float32 with parameters of (1, 3, 1, 1)."""
    x, scale, zero_point = (
        values(call.tensors[role].dtype, call.tensors[role].codes) for role in ("x", "scale", "zero_point")
    )
    return (x - zero_point.reshape(1, 3, 1, 1)) * scale.reshape(1, 3, 1, 1)


def _check_examples(domain: Domain) -> tuple[TextCheck, ...]:
    """Judge the page's examples by the page's own clauses and formula."""
    checks = []
    for name, call, expected in example_calls():
        judgement = _judge(_SEED, domain, call)
        if judgement.verdict == "forbidden":
            broken = ", ".join(clause.rsplit("/", 1)[1] for clause in judgement.clauses)
            summary = f"the page's example {name!r} is forbidden by the page's own clauses: {broken}"
            checks.append(TextCheck(judgement.clauses[0], f"example-forbidden:{name}", summary, call))
        elif expected is not None:
            printed = tensor("float32", expected).codes
            legal = [reading.evaluate(_operands(call)) for reading in _readings(call)]
            if not any(np.array_equal(canonical(printed, "float32"), canonical(y, "float32")) for y in legal):
                summary = f"the page's example {name!r} prints values that its formula does not give"
                checks.append(TextCheck(f"{_SEED}/formula", f"example-values:{name}", summary, call))
    return tuple(checks)


def seed_contract() -> Contract:
    """The edition com.microsoft/DequantizeLinear-1@seed."""
    domain = Domain(
        family="linear",
        x_dtypes=("int8", "uint8"),
        scale_dtypes=("float32", "float16"),
        output_dtypes=("float32", "float16"),
        granularities=("per_tensor", "per_axis"),
        zero_point_required=True,
        attributes=("axis",),
        default_axis=None,
    )
    silent = {name: ("", note) for name, note in _SILENT.items()}
    return _build(_SEED, _SEED_DOCUMENT, domain, _SEED_CLAUSES | silent)


def _installed_clauses(schema: Schema) -> dict[str, tuple[str, str]]:
    same_shape = schema.sentence(r"must have same shape")
    sentences = {
        "formula": schema.sentence("dequantization formula"),
        "x-type": schema.type_text("x"),
        "scale-type": schema.type_text("x_scale"),
        "output-type": schema.type_text("y"),
        "zero-point-type": schema.type_text("x_zero_point"),
        "zero-point-shape": same_shape,
        "granularity": schema.attributes.get("axis", ""),
        "output-shape": schema.sentence("same shape as input"),
        "attributes": "Attributes: " + ", ".join(schema.attributes),
    }
    silent = {name: ("", note) for name, note in _SILENT.items() if name not in sentences}
    return {name: (text, "") for name, text in sentences.items()} | silent


def editions() -> Mapping[str, Callable[[], Contract]]:
    """The editions by id: the seed document's, then those of the installed onnxruntime, oldest first.

    If onnxruntime gives no schemas, there is one of its editions, whose text cannot be read.
    """
    try:
        listed = versions(schemas("onnxruntime"), "com.microsoft")
    except DocumentError:
        listed = (NEWEST_READ,)
    return {_SEED: seed_contract, **{f"{_NAME}-{v}@installed": partial(installed_contract, v) for v in listed}}


def installed_contract(version: int = 1) -> Contract:
    """The edition com.microsoft/DequantizeLinear-<version>@installed.

    Raises:
        DocumentError: onnxruntime is not installed, or has no such schema.
    """
    schema = schemas("onnxruntime").get(("com.microsoft", "DequantizeLinear", version))
    if schema is None:
        raise DocumentError(
            f"onnxruntime {version_of('onnxruntime')} has no schema of com.microsoft DequantizeLinear-{version}"
        )
    optional = any(name == "x_zero_point" and optional for name, _, _, optional in schema.inputs)
    domain = Domain(
        family="linear",
        x_dtypes=of_known_types(schema, "x"),
        scale_dtypes=of_known_types(schema, "x_scale"),
        output_dtypes=of_known_types(schema, "y"),
        granularities=("per_tensor", "per_axis"),
        zero_point_required=not optional,
        attributes=tuple(sorted(set(_ATTRIBUTES) & set(schema.attributes))),
        default_axis=None,
    )
    document = f"the schema of com.microsoft DequantizeLinear-{version} in onnxruntime {version_of('onnxruntime')}"
    clauses = _installed_clauses(schema)
    if domain.zero_point_required:
        silent = "the schema does not mark this input as optional"
        clauses["zero-point-required"] = (schema.type_text("x_zero_point"), silent)
    identity = f"{_NAME}-{version}@installed"
    return replace(
        _build(identity, document, domain, clauses),
        wording=schema.wording,
        assumptions=assumptions(identity, NEWEST_READ, schema, _ATTRIBUTES),
    )


def carried(identity: str, distribution: str, python: str) -> bool:
    """True if another Python's onnxruntime has the same schema as the installed one.

    Raises:
        DocumentError: One of the schemas cannot be read.
    """
    if not identity.endswith("@installed"):
        return False
    key = ("com.microsoft", "DequantizeLinear", int(identity.partition("@")[0].rpartition("-")[2]))
    theirs = schemas("onnxruntime", python).get(key)
    return theirs is not None and theirs == schemas("onnxruntime").get(key)
