"""The call of one value that a user wants explained.

Types and operands that the user left out are assumed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xverify.contracts.external import SCALES, ZERO_POINTS
from xverify.contracts.model import Contract, Domain
from xverify.contracts.single import Number, single_call
from xverify.core.call import Attribute, Call
from xverify.core.dtypes import FLOATS, INTEGERS, QUANTIZED, SMALL_FLOATS, decimal, hexadecimal
from xverify.core.errors import UsageError
from xverify.core.near import nearest
from xverify.engine.numerals import Numeral, code_of, exact, holds, numeral

X_TYPES = ("uint8", "int8", "uint16", "int16", "int32", "uint4", "int4", "uint2", "int2", *SMALL_FLOATS)
"""The types of x in the order in which they are tried if the user names none."""


@dataclass(frozen=True)
class Question:
    """The operands as the user typed them; None where the user typed nothing."""

    x: str
    scale: str | None = None
    zero_point: str | None = None
    low: str | None = None
    high: str | None = None

    mode: str = ""
    """The mode of a range formula, "" for the edition's first."""

    narrow_range: bool = False
    types: Mapping[str, str] = field(default_factory=dict)
    """Names of types, by "x", "scale", "zero_point" and "out"."""


def make_call(contract: Contract, question: Question) -> tuple[Call, tuple[str, ...]]:
    """Make the call of one value that a question describes.

    Returns:
        The call, and a few words on each operand or type that was assumed or rounded.

    Raises:
        UsageError: A text is no number, a number is outside its type, or the edition has no such operand or attribute.
    """
    assumed: list[str] = []
    family = contract.domain.family
    foreign = {"scale": question.scale, "zero-point": question.zero_point} if family == "range" else {
        "min": question.low, "max": question.high, "mode": question.mode or None,
        "narrow-range": question.narrow_range or None,
    }  # fmt: skip
    for name, value in foreign.items():
        if value is not None:
            raise UsageError(f"{contract.id} has no --{name}; {_accepted(family)}")
    attributes: dict[str, Attribute] = {}
    if family == "range":
        operands = _range_operands(contract, question, attributes, assumed)
    else:
        operands = _linear_operands(contract, question, assumed)
    _set_output(contract, question, operands, attributes, assumed)
    call = single_call(contract, operands, attributes)
    wanted = question.types.get("out")
    if wanted and not _output_attribute(contract.domain):
        try:
            out_dtype = contract.operands(call).output_dtype
        except ValueError:
            out_dtype = wanted
        if out_dtype != wanted:
            raise UsageError(
                f"{contract.id} has no attribute for the output's type: here it is {out_dtype}, not {wanted}"
            )
    return call, tuple(assumed)


def _accepted(family: str) -> str:
    return "it takes --x, --min, --max, --mode" if family == "range" else "it takes --x, --scale, --zero-point"


def _linear_operands(contract: Contract, question: Question, assumed: list[str]) -> dict[str, Number]:
    domain = contract.domain
    if question.scale is None:
        raise UsageError(f"--scale is missing: {contract.id} computes with one")
    text = question.zero_point
    if text is None and domain.zero_point_required:
        text = "0"
        assumed.append("assumed a zero point of 0, since the edition requires one")
    x, scale = numeral(question.x, "x"), numeral(question.scale, "scale")
    zero_point = None if text is None else numeral(text, "zero point")
    together = [x] if zero_point is None or domain.zero_point_dtypes is not None else [x, zero_point]
    x_dtype = _typed(question, "x", QUANTIZED) or _first_holding(contract, "x", domain.x_dtypes, together, assumed)
    scale_dtype = _typed(question, "scale", SCALES)
    if not scale_dtype:
        scale_dtype = next(dtype for dtype in SCALES if dtype in domain.scale_dtypes)
        assumed.append(f"assumed a scale of {scale_dtype}")
    operands = {"x": _number(x, x_dtype, "x", assumed), "scale": _number(scale, scale_dtype, "scale", assumed)}
    if zero_point is not None:
        dtype = _typed(question, "zero_point", ZERO_POINTS)
        admitted = domain.zero_points_for(x_dtype)
        if not dtype and x_dtype in admitted and (holds(zero_point, x_dtype) or len(admitted) == 1):
            dtype = x_dtype
        dtype = dtype or _first_holding(contract, "zero point", admitted, [zero_point], assumed)
        operands["zero_point"] = _number(zero_point, dtype, "zero point", assumed)
    return operands


def _range_operands(
    contract: Contract, question: Question, attributes: dict[str, Attribute], assumed: list[str]
) -> dict[str, Number]:
    domain = contract.domain
    if question.low is None or question.high is None:
        raise UsageError(
            f"--{'min' if question.low is None else 'max'} is missing: {contract.id} computes with a range"
        )
    for name in ("scale", "zero_point"):
        if question.types.get(name):
            raise UsageError(f"{contract.id} has no {name.replace('_', ' ')}: its range is float32")
    x = numeral(question.x, "x")
    attributes["mode"] = question.mode or domain.modes[0]
    if not question.mode:
        assumed.append(f"assumed mode {domain.modes[0]}")
    if question.narrow_range:
        attributes["narrow_range"] = True
    x_dtype = _typed(question, "x", INTEGERS) or _first_holding(contract, "x", domain.x_dtypes, [x], assumed)
    ends = {"min_range": (question.low, "min"), "max_range": (question.high, "max")}
    return {
        "input": _number(x, x_dtype, "x", assumed),
        **{role: _number(numeral(text, name), "float32", name, assumed) for role, (text, name) in ends.items()},
    }


def _typed(question: Question, name: str, admitted: Sequence[str]) -> str:
    """The type that the user named for an operand, or ""."""
    dtype = question.types.get(name, "")
    if dtype and dtype not in admitted:
        listed = ", ".join(admitted)
        raise UsageError(
            f"{dtype!r} is no type of {name.replace('_', ' ')} here{nearest(dtype, admitted)}; there are {listed}"
        )
    return dtype


def _first_holding(
    contract: Contract, role: str, admitted: Sequence[str], numbers: Sequence[Numeral], assumed: list[str]
) -> str:
    """The first admitted type that holds all the numbers exactly."""
    for dtype in sorted(admitted, key=(*X_TYPES, *FLOATS).index):
        if all(holds(number, dtype) for number in numbers):
            assumed.append(f"assumed {role} of {dtype}, the first type of the edition that holds {_listed(numbers)}")
            return dtype
    if widest := next((dtype for dtype in FLOATS if dtype in admitted), None):
        assumed.append(f"assumed {role} of {widest}, the widest type of the edition")
        return widest
    types = ", ".join(admitted)
    raise UsageError(
        f"{role}: no type of {contract.id} holds {_listed(numbers)}; it has {types}; --x-dtype chooses one"
    )


def _listed(numbers: Sequence[Numeral]) -> str:
    return " and ".join(dict.fromkeys(number.text for number in numbers))


def _number(number: Numeral, dtype: str, role: str, assumed: list[str]) -> Number:
    """The code of a number. Adds a note to ``assumed`` if it had to be rounded."""
    code = code_of(number, dtype, role)
    if number.value is not None and exact(dtype, code) != number.value:
        assumed.append(
            f"{role} {number.text} rounded to {decimal(dtype, code)} ({hexadecimal(dtype, code)}) in {dtype}"
        )
    return dtype, code


def _output_attribute(domain: Domain) -> str:
    """The attribute that chooses the output's type, or ""."""
    name = "dtype" if domain.family == "range" else "output_dtype"
    return name if name in domain.attributes else ""


def _set_output(
    contract: Contract,
    question: Question,
    operands: Mapping[str, Number],
    attributes: dict[str, Attribute],
    assumed: list[str],
) -> None:
    domain, wanted = contract.domain, _typed(question, "out", FLOATS)
    name = _output_attribute(domain)
    natural = operands["scale"][0] if "scale" in operands else "float32"
    if name and wanted and wanted != natural:
        attributes[name] = wanted
    elif name and not wanted and natural not in domain.output_dtypes:
        attributes[name] = next(dtype for dtype in FLOATS if dtype in domain.output_dtypes)
        assumed.append(f"assumed an output of {attributes[name]}, since the type of the scale is none")
