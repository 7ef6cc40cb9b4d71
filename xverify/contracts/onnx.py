"""ai.onnx DequantizeLinear, in every version that the installed onnx has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from xverify.arithmetic.linear_operands import ceil_div, has_nonzero, linear_operands, normal_axis
from xverify.arithmetic.reading import Operands, Reading
from xverify.arithmetic.readings import EXACT, FLOAT32, OUTPUT, by_name
from xverify.contracts import official_cases
from xverify.contracts.documents import (
    Schema,
    assumptions,
    newest_opset,
    of_known_types,
    schemas,
    version_of,
    versions,
)
from xverify.contracts.model import (
    Cell,
    Clause,
    Contract,
    Domain,
    Granularity,
    Judgement,
    OfficialCase,
    TextCheck,
    judged,
)
from xverify.contracts.official_cases import onnx_node_tests
from xverify.core.call import Call
from xverify.core.errors import DocumentError

NEWEST_READ = 28
"""The newest version whose whole text a person has read and put into rules.

Compare a newer one with it by ``xverify contracts --diff``. Write the rules of what changed, then raise this number.
"""

_NAME = "ai.onnx/DequantizeLinear"
_ATTRIBUTES = ("axis", "block_size", "output_dtype")

_PATTERNS = {
    "formula": r"dequantization formula is",
    "zero-point-type": r"must have (the )?same type",
    "zero-point-shape": r"Shape must match x_scale|must have (the )?same shape|are both scalars",
    "granularity": r"(can be )?either a scalar|determining the quantization's granularity|are both scalars",
    "axis-range": r"Accepted range is .{0,2}\[-r, r-1\]",
    "block-size": r"block size is a positive integer",
    "block-shape": r"blocked dequantization it has the same shape as the input",
    "block-size-unused": r"Used only for blocked quantization",
    "output-shape": r"must have (the )?same shape\.|same shape as input",
    "int32-zero-point": r"zero point is supposed to be 0",
    "float-zero-point": r"usually not used in the case of float8",
    "rank-1": r"When the rank of the input is 1",
    "output-type": r"output type is determined by|'x_scale' determines the output type",
    "multiplication-precision": r"determines the precision of the multiplication",
}
"""The pattern that finds the sentence of each clause in the schema's text."""

_SILENT: Mapping[str, tuple[int, int | None, str]] = {
    "axis-length": (
        13,
        19,
        "no sentence says that a 1-D scale has the length of the axis, or what one element means",
    ),
    "shape-1-scale": (
        10,
        10,
        "the text asks for scalars and does not say whether a tensor of shape [1] is one",
    ),
    "blocked-empty-axis": (21, None, "no sentence covers blocked quantization of an axis of extent 0"),
    "subnormal": (
        10,
        None,
        "no sentence mentions subnormal results: whether they are kept or flushed to zero is open",
    ),
}
"""Subjects on which the text is silent: the first and last such version, and a note. None: every later version."""

_CONTRADICTED = {
    "shape-1-zero-point": (
        19,
        "zero-point-shape",
        "onnx's node tests contradict this sentence: they pass a zero point of shape (1,) beside a scalar scale",
    ),
}
"""Sentences that onnx's node tests contradict: the first such version, the clause of the sentence, and a note."""


def _clauses(identity: str, version: int, schema: Schema, quantize: Schema | None, document: str) -> dict[str, Clause]:
    clauses = {}
    for name, pattern in _PATTERNS.items():
        text = schema.sentence(pattern)
        if text:
            clauses[name] = Clause(f"{identity}/{name}", text, document)
    for name, parameter in (("x-type", "x"), ("scale-type", "x_scale")):
        clauses[name] = Clause(f"{identity}/{name}", schema.type_text(parameter), document)
    listed = ", ".join(schema.attributes) or "none"
    clauses["attributes"] = Clause(f"{identity}/attributes", f"Attributes: {listed}", document)
    if "block-shape" in clauses and quantize is not None:
        for name, pattern in (("granularity", r"length of the quantization axis"), ("block-shape", r"ceil\(Di/B\)")):
            shape = quantize.sentence(pattern)
            note = f"QuantizeLinear, to which the text refers for granularity, gives the shape: {shape}"
            clauses[name] = Clause(f"{identity}/{name}", clauses[name].text, document, note)
    clauses.setdefault("output-type", Clause(f"{identity}/output-type", schema.type_text("y"), document))
    for name, (first, last, note) in _SILENT.items():
        if first <= version and (last is None or version <= last):
            clauses[name] = Clause(f"{identity}/{name}", "", document, note)
    for name, (first, sentence, note) in _CONTRADICTED.items():
        if version >= first and sentence in clauses:
            clauses[name] = Clause(f"{identity}/{name}", clauses[sentence].text, document, note)
    return clauses


def _output_dtype(call: Call) -> str:
    return str(call.attributes.get("output_dtype", call.tensors["scale"].dtype))


def _granularity(version: int, call: Call) -> Granularity:
    x, scale = call.tensors["x"], call.tensors["scale"]
    if scale.codes.ndim == 0 or version == 10:
        return "per_tensor"
    blocked = int(call.attributes.get("block_size", 0)) > 0
    return "blocked" if blocked and scale.codes.ndim == len(x.shape) else "per_axis"


def _judge_shapes(version: int, call: Call) -> tuple[list[str], list[str]]:
    """The clauses on shapes, axis and block size that forbid the call, and those that leave it open."""
    x, scale = call.tensors["x"], call.tensors["scale"]
    shape, rank = scale.shape, len(x.shape)
    # Before version 21 the attribute itself forbids the call, so its value does not matter.
    block_size = int(call.attributes.get("block_size", 0)) if version >= 21 else 0
    if version == 10:
        return ([], []) if shape == () else ([], ["shape-1-scale"]) if shape == (1,) else (["granularity"], [])
    if block_size < 0:
        return ["block-size"], []
    if shape == ():
        return [], ["block-size-unused"] if block_size else []
    axis = normal_axis(int(call.attributes.get("axis", 1)), rank)
    if version >= 21 and rank == 1 and block_size and shape == x.shape and axis is not None:
        # A 1-D scale says "per axis", and has the rank of x, which says "blocked".
        return [], ["block-size-unused"]
    if version >= 21 and len(shape) == rank and (block_size or rank > 1):
        if not block_size:
            return ["block-size"], []
        if axis is None:
            return ["axis-range"], []
        expected = tuple(ceil_div(e, block_size) if i == axis else e for i, e in enumerate(x.shape))
        if shape != expected:
            return ["block-shape"], []
        return [], ["blocked-empty-axis"] if x.shape[axis] == 0 else []
    if len(shape) != 1:
        return ["granularity"], []
    if version == 19 and rank == 1:
        return [], ["rank-1"]
    if axis is None:
        return ["axis-range"], []
    open_clauses = ["block-size-unused"] if block_size else []
    if shape[0] == x.shape[axis]:
        return [], open_clauses
    return (["granularity"], []) if version >= 21 else ([], ["axis-length"])


def _judge(identity: str, version: int, domain: Domain, call: Call) -> Judgement:
    x, scale, zero_point = call.tensors["x"], call.tensors["scale"], call.tensors.get("zero_point")
    forbidden, unspecified = _judge_shapes(version, call)
    if x.dtype not in domain.x_dtypes:
        forbidden.append("x-type")
    if scale.dtype not in domain.scale_dtypes:
        forbidden.append("scale-type")
    elif _output_dtype(call) not in domain.output_dtypes:
        forbidden.append("output-type")
    if any(name not in domain.attributes for name in call.attributes):
        forbidden.append("attributes")
    if zero_point is not None:
        if zero_point.dtype != x.dtype:
            forbidden.append("zero-point-type")
        elif x.dtype == "int32" and has_nonzero(zero_point):
            unspecified.append("int32-zero-point")
        if version >= _CONTRADICTED["shape-1-zero-point"][0] and (scale.shape, zero_point.shape) == ((), (1,)):
            unspecified.append("shape-1-zero-point")
        elif zero_point.shape != scale.shape:
            forbidden.append("zero-point-shape")
    return judged(identity, forbidden, unspecified)


def _cell(identity: str, version: int, call: Call) -> Cell:
    tensors = call.tensors
    zero_point = tensors["zero_point"].dtype if "zero_point" in tensors else ""
    out, granularity = _output_dtype(call), _granularity(version, call)
    return Cell(identity, tensors["x"].dtype, tensors["scale"].dtype, zero_point, out, granularity, "")


def _operands(call: Call) -> Operands:
    axis, block_size = call.attributes.get("axis", 1), call.attributes.get("block_size", 0)
    zero_point = call.tensors.get("zero_point")
    if zero_point is not None and zero_point.dtype == "int32" and not has_nonzero(zero_point):
        # The zero point is "supposed to be 0", as in every allowed call, so no reading depends on it.
        call = replace(call, tensors={role: t for role, t in call.tensors.items() if role != "zero_point"})
    return linear_operands(call, _output_dtype(call), int(axis), int(block_size))


def _readings(version: int, call: Call) -> tuple[Reading, ...]:
    return (EXACT, *OUTPUT) if version >= 23 else (EXACT, FLOAT32)


def _value_clause(identity: str, version: int, call: Call, reading: str | None) -> str:
    # A product in a type that the text does not name contradicts the sentence on the precision of the product. Another operand,
    # operation or cast contradicts the formula, whatever the precision.
    recipe = None if version < 23 or reading is None else by_name(reading)
    precision = recipe is not None and (
        (recipe.subtraction, recipe.operation) == ("exact", "multiply")
        and recipe.final in ("nearest", "via-float32")
        and recipe.precision not in ("once", "output")
    )
    return f"{identity}/{'multiplication-precision' if precision else 'formula'}"


def _essence(schema: Schema) -> tuple[object, ...]:
    """The content of a schema, without white space and the order of types."""
    types = {name: frozenset(listed) for name, listed in schema.types.items()}
    return (" ".join(schema.text().split()), types, schema.inputs, schema.outputs)


def _check_onnxruntime(version: int, schema: Schema) -> tuple[TextCheck, ...]:
    """Compare the edition with the one in the installed onnxruntime, which is judged by onnx's text."""
    if version_of("onnxruntime") is None:
        return ()
    theirs = schemas("onnxruntime").get(("", "DequantizeLinear", version))
    if theirs is None or _essence(theirs) == _essence(schema):
        return ()
    summary = (
        f"the schema of DequantizeLinear-{version} in onnxruntime {version_of('onnxruntime')} is not that of "
        f"onnx {version_of('onnx')}"
    )
    return (TextCheck(f"ai.onnx/DequantizeLinear-{version}/formula", "schema-differs:onnxruntime", summary),)


def _official_cases(version: int, domain: Domain) -> tuple[OfficialCase, ...]:
    """The node tests of the installed onnx whose types, attributes and granularity the edition has.

    The tests' models have the newest opset. Each version admits what the one before it does, and keeps its meaning. So a test
    also holds for an earlier version that has all its types, attributes and granularity.
    """
    return official_cases.of_edition(onnx_node_tests(), f"ai.onnx/DequantizeLinear-{version}", version, domain)


def _text_checks(version: int, domain: Domain, schema: Schema) -> tuple[TextCheck, ...]:
    identity = f"ai.onnx/DequantizeLinear-{version}"
    cases = official_cases.contradictions(
        _official_cases(version, domain),
        partial(_judge, identity, version, domain),
        {f"{identity}/{name}": f"{identity}/{sentence}" for name, (_, sentence, _) in _CONTRADICTED.items()},
    )
    return (*_check_onnxruntime(version, schema), *cases)


def editions() -> Mapping[str, Callable[[], Contract]]:
    """The editions of the installed onnx by id, oldest first.

    Without onnx there is one, whose text cannot be read.
    """
    try:
        listed = versions(schemas("onnx"), "")
    except DocumentError:
        listed = (NEWEST_READ,)
    return {f"{_NAME}-{version}": partial(contract, version) for version in listed}


def key(identity: str) -> tuple[str, str, int]:
    """The key of an edition among schemas."""
    return "", "DequantizeLinear", int(identity.rpartition("-")[2])


def missing(identity: str) -> int | None:
    """The version of an edition that there is, but that the installed onnx is too old to have; else None."""
    name, _, version = identity.rpartition("-")
    if name != _NAME or not version.isdecimal() or int(version) > NEWEST_READ:
        return None
    try:
        newest = max(versions(schemas("onnx"), ""), default=0)
    except DocumentError:
        newest = 0
    return int(version) if int(version) > newest else None


def contract(version: int) -> Contract:
    """The edition ai.onnx/DequantizeLinear-<version>.

    Raises:
        DocumentError: The installed onnx does not have that version.
    """
    by_version = schemas("onnx")
    schema = by_version.get(("", "DequantizeLinear", version))
    if schema is None:
        raise DocumentError(f"onnx {version_of('onnx')} has no DequantizeLinear-{version}; install a newer onnx")
    identity = f"{_NAME}-{version}"
    document = f"DequantizeLinear-{version} in onnx.defs of onnx {version_of('onnx')}"
    granularities: tuple[Granularity, ...] = ("per_tensor", "per_axis", "blocked")
    domain = Domain(
        family="linear",
        x_dtypes=of_known_types(schema, "x"),
        scale_dtypes=of_known_types(schema, "x_scale"),
        output_dtypes=of_known_types(schema, "y"),
        granularities=granularities[: 1 + ("axis" in schema.attributes) + ("block_size" in schema.attributes)],
        attributes=tuple(sorted(set(_ATTRIBUTES) & set(schema.attributes))),
    )
    clauses = _clauses(identity, version, schema, by_version.get(("", "QuantizeLinear", version)), document)
    if version > NEWEST_READ:
        clauses = _kept(identity, document) | clauses
    return Contract(
        id=identity,
        title=f"ONNX DequantizeLinear, version {version}",
        document=document,
        domain=domain,
        clauses={clause.id: clause for clause in clauses.values()},
        judge=partial(_judge, identity, version, domain),
        cell=partial(_cell, identity, version),
        operands=_operands,
        readings=partial(_readings, version),
        value_clause=partial(_value_clause, identity, version),
        text_checks=partial(_text_checks, version, domain, schema),
        official_cases=partial(_official_cases, version, domain),
        wording=schema.wording,
        assumptions=assumptions(identity, NEWEST_READ, schema, _ATTRIBUTES),
    )


def _kept(identity: str, document: str) -> dict[str, Clause]:
    """The clauses of the newest version that a person has read, for a newer one whose text may lack them."""
    read = contract(max(version for version in versions(schemas("onnx"), "") if version <= NEWEST_READ))
    kept = {}
    for clause in read.clauses.values():
        name = clause.id.rpartition("/")[2]
        note = f"a sentence of {read.id}, assumed to hold here" if clause.text else clause.note
        kept[name] = Clause(f"{identity}/{name}", clause.text, document, note)
    return kept


def carried(identity: str, distribution: str, python: str) -> bool:
    """True if the onnx or onnxruntime of another Python has the edition.

    Every package has the same text of an edition. An onnxruntime that hides its schemas has those of the opsets it accepts.

    Raises:
        DocumentError: The package of that Python does not answer.
    """
    try:
        return key(identity) in schemas(distribution, python)
    except DocumentError:
        if distribution != "onnxruntime":
            raise
        return key(identity)[2] <= newest_opset(python)
