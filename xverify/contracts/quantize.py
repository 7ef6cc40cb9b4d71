"""QuantizeLinear of ONNX and com.microsoft: the legal codes of a node in the surroundings of a call.

The text gives y = saturate((x / y_scale) + y_zero_point). "For (x / y_scale), it rounds to the nearest even": so the quotient is
rounded, and then the zero point is added. Each rule below names the clause that it rests on, see `clauses`.

The legal set of an element is the union of these readings. No text says which of them is meant.

- The quotient is exact, or it is first rounded to the type of the division, see `_division_types`. So both codes are legal where
  the quotient is within such a rounding of a tie. Operands that the type cannot hold are cast to it first, or they are not.
- A subnormal operand of float32 may count as a zero of its sign.
- For float types, (x / y_scale) is rounded to the type of y before the sum, or only the sum is. An absent zero point is not
  added, or it is added as +0, which turns -0 into +0.

An element is open where no sentence covers it: division by zero, also by a subnormal that counts as zero, and NaN in a type
that has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic.linear_operands import ceil_div, normal_axis, spread
from xverify.contracts.documents import Schema, schemas, sentence, version_of
from xverify.contracts.model import Clause, Judgement, judged
from xverify.core.call import BITS, Tensor, code_dtype
from xverify.core.dtypes import INTEGERS, UNIT_EXPONENT, integer_range, values
from xverify.core.errors import DocumentError
from xverify.core.rounding import F64, difference_over, smallest_normal, sum_to_odd, to_dtype

MICROSOFT = "com.microsoft"

_SMALLEST_NORMAL = smallest_normal("float32")

_HELD_EXACTLY = {
    "float32": ("float32", "float16", "bfloat16", "float8_e8m0fnu"),
    "float16": ("float16",),
    "bfloat16": ("bfloat16", "float8_e8m0fnu"),
}
"""The operand types whose values a type of the division holds exactly."""

_INFINITY = {"float8_e5m2": 0x7C}
_NAN = {"float8_e4m3fn": 0x7F, "float8_e5m2": 0x7F, "float8_e4m3fnuz": 0x80, "float8_e5m2fnuz": 0x80}
"""Codes by type. Types without an entry have no infinity or no NaN."""


_PATTERNS = {
    "formula": r"quantization formula is",
    "rounding": r"For .?\(x / y_scale\).?, it('s rounding| rounds) to (the )?nearest.*",
    "saturation": r"saturates to \[0, 255\]|Saturation is done according to",
    "zero-point-type": r"must have (the )?same type",
    "zero-point-default": r"Default (value )?is uint8",
    "float-zero-point": r"formula remains the same for consistency",
    "zero-point-shape": r"must have (the )?same shape( as `y_scale`)?[ ,.]",
    "scalar": r"It's a scalar, which means a per-tensor",
    "granularity": r"It can be a scalar|with the length of the quantization axis|They must be either scalar",
    "axis-range": r"Accepted range is .{0,2}\[-r, r-1\]",
    "rank-1": r"When the rank of the input is 1",
    "block-size": r"block size is a positive integer",
    "block-shape": r"ceil\(Di/B\)",
    "block-size-unused": r"Used only for blocked quantization",
    "output-dtype": r"If both `output_dtype` and `y_zero_point` are specified",
    "division-precision": r"determines the precision of the division",
    "precision": r"The precision of the division operation",
    "saturate": r"conversion behaves if an input value is out of range",
    "saturate-float8": r"only applies for float 8",
    "saturate-float4": r"It has no effect for float4e2m1",
    "saturate-tables": r"two tables inserted in the operator description",
    "output-shape": r"same shape as input",
}
"""The pattern that finds the sentence of each clause in a schema's text."""

_SILENT = {
    "division-precision": "no sentence gives the precision of the division",
    "division-by-zero": "no sentence says what a division by zero gives",
    "nan": "no sentence says what NaN becomes in a type that has none",
    "subnormal": "no sentence mentions subnormal numbers: whether an operand may count as zero is open",
    "zero-sign": "no sentence says whether an absent zero point is added, which turns -0 into +0",
    "float-sum": "no sentence gives the precision of the sum with a float zero point",
    "shape-1-scale": "the text asks for scalars and does not say whether a tensor of shape [1] is one",
    "axis": "no sentence gives the axis' range, or says what a negative axis means",
    "axis-length": "no sentence says that a 1-D scale has the length of the axis, or what one element means",
    "blocked-empty-axis": "no sentence covers blocked quantization of an axis of extent 0",
    "precision-type": "no sentence says which types the attribute precision may name",
    "saturate-value": "no sentence says what values of the attribute saturate other than 0 and 1 mean",
    "shape-1-zero-point": (
        "onnx's node tests contradict the sentence on shapes: they pass a zero point of shape [1] beside a scalar scale"
    ),
}
"""Subjects on which the text is silent, if no pattern finds a sentence."""

_FLOAT8_TABLES = {"float8-saturated": "By default the conversion", "float8-overflow": "'saturate' is set to False"}
"""The tables of Cast, and words of the paragraph before each."""


@dataclass(frozen=True, eq=False)
class Quantized:
    """The legal codes of a QuantizeLinear node."""

    dtype: str
    """The type of the codes."""
    alternatives: tuple[NDArray[Any], ...]
    """Arrays of codes in the shape of the operand. Any code of an element in one of them is legal.

    Every NaN has the code that `canonical` gives it.
    """
    open: NDArray[np.bool_]
    """True for each element that no sentence covers. Its codes mean nothing."""


def quantized_dtype(zero_point: Tensor | None, attributes: Mapping[str, Any]) -> str:
    """The type of y. Clause: output-type."""
    return zero_point.dtype if zero_point is not None else str(attributes.get("output_dtype", "uint8"))


def canonical(dtype: str, codes: NDArray[Any]) -> NDArray[Any]:
    """The codes, with one code for every NaN of the type."""
    if dtype not in _NAN:
        return codes
    return np.where(np.isnan(values(dtype, codes)), codes.dtype.type(_NAN[dtype]), codes)


def edition(opset: int, domain: str = "") -> str:
    """The id of the newest edition up to an opset, such as "ai.onnx/QuantizeLinear-21".

    Raises:
        DocumentError: The package of the edition is not installed, or no edition is that old.
    """
    return _edition(opset, domain)[0]


@cache
def _edition(opset: int, domain: str) -> tuple[str, int, Schema]:
    """The id, the version and the schema of the newest edition up to an opset."""
    if domain == MICROSOFT:
        package, name, key = "onnxruntime", MICROSOFT, MICROSOFT
    else:
        package, name, key = "onnx", "ai.onnx", ""
    by_version = schemas(package)
    versions = [v for d, operator, v in by_version if (d, operator) == (key, "QuantizeLinear")]
    version = max((v for v in versions if domain == MICROSOFT or v <= opset), default=0)
    if not version:
        raise DocumentError(f"{package} {version_of(package)} has no {name} QuantizeLinear up to opset {opset}")
    return f"{name}/QuantizeLinear-{version}", version, by_version[key, "QuantizeLinear", version]


@cache
def clauses(opset: int, domain: str = "") -> Mapping[str, Clause]:
    """The clauses of an edition by id, quoted from its installed schema.

    Raises:
        DocumentError: See `edition`.
    """
    identity, version, schema = _edition(opset, domain)
    package = "onnxruntime" if domain == MICROSOFT else "onnx"
    document = f"{identity.rpartition('/')[2]} in the schemas of {package} {version_of(package)}"
    texts = {name: text for name, pattern in _PATTERNS.items() if (text := _sentence(schema, pattern))}
    texts["rounding"] = texts["rounding"][texts["rounding"].index("For ") :]  # A list without full stops is before it.
    texts |= {
        "x-type": schema.type_text("x"),
        "scale-type": schema.type_text("y_scale"),
        "output-type": schema.type_text("y"),
        "attributes": "Attributes: " + (", ".join(schema.attributes) or "none"),
    }
    named = {name: Clause(f"{identity}/{name}", text, document) for name, text in texts.items()}
    for name, note in _SILENT.items():
        named.setdefault(name, Clause(f"{identity}/{name}", "", document, note))
    if "saturate" in schema.attributes:
        casts = {v: s for (d, operator, v), s in schemas("onnx").items() if (d, operator) == ("", "Cast")}
        newest = max(v for v in casts if v <= version)
        for name, words in _FLOAT8_TABLES.items():
            parts = casts[newest].doc.split("\n\n")
            (before,) = (number for number, part in enumerate(parts) if words in part)
            source = f"Cast-{newest} in the schemas of onnx {version_of('onnx')}"
            note = "QuantizeLinear names two tables that its own description lacks; Cast has them"
            named[name] = Clause(f"{identity}/{name}", " ".join(parts[before + 1].split()), source, note)
    return {clause.id: clause for clause in named.values()}


def _sentence(schema: Schema, pattern: str) -> str:
    """The first sentence of one of the schema's texts that matches, or ""."""
    texts = [schema.doc, *schema.attributes.values(), *(i[2] for i in schema.inputs), *(o[2] for o in schema.outputs)]
    return next((text for text in (sentence(part, pattern) for part in texts) if text), "")


def judge(
    opset: int,
    domain: str,
    operand: Tensor,
    scale: Tensor,
    zero_point: Tensor | None,
    attributes: Mapping[str, Any],
) -> Judgement:
    """The verdict of the edition on a node. Arguments as in `quantize`.

    Raises:
        DocumentError: See `edition`.
    """
    identity, version, schema = _edition(opset, domain)
    microsoft = domain == MICROSOFT
    forbidden, unspecified = (
        _judge_microsoft_shapes(operand, scale, attributes)
        if microsoft
        else _judge_shapes(version, operand, scale, attributes)
    )
    parameters = {name: parameter for name, parameter, *_ in schema.inputs}
    if operand.dtype not in schema.types_of("x"):
        forbidden.append("x-type")
    same_type = parameters["x"] == parameters["y_scale"]
    if scale.dtype not in schema.types_of("y_scale") or (same_type and scale.dtype != operand.dtype):
        forbidden.append("scale-type")
    if quantized_dtype(zero_point, attributes) not in schema.types_of("y"):
        forbidden.append("output-type")
    if any(name not in schema.attributes for name in attributes):
        forbidden.append("attributes")
    if zero_point is not None:
        if attributes.get("output_dtype", zero_point.dtype) != zero_point.dtype:
            forbidden.append("output-dtype")
        if not microsoft and version >= 19 and (scale.shape, zero_point.shape) == ((), (1,)):
            unspecified.append("shape-1-zero-point")
        elif zero_point.shape != scale.shape:
            forbidden.append("scalar" if version == 10 else "zero-point-shape")
    if attributes.get("precision", "float32") not in ("float32", "float16", "bfloat16"):
        unspecified.append("precision-type")
    if attributes.get("saturate", 1) not in (0, 1):
        unspecified.append("saturate-value")
    return judged(identity, forbidden, unspecified)


def _judge_microsoft_shapes(
    operand: Tensor, scale: Tensor, attributes: Mapping[str, Any]
) -> tuple[list[str], list[str]]:
    """The clauses on shapes that forbid a node of com.microsoft, and those that leave it open."""
    axis = attributes.get("axis")
    if axis is None:
        return (
            ([], []) if scale.shape == () else ([], ["shape-1-scale"]) if scale.shape == (1,) else (["granularity"], [])
        )
    if len(scale.shape) != 1:
        return ["granularity"], []
    if not 0 <= int(axis) < len(operand.shape):
        return [], ["axis"]
    return [], [] if scale.shape[0] == operand.shape[int(axis)] else ["axis-length"]


def _judge_shapes(
    version: int, operand: Tensor, scale: Tensor, attributes: Mapping[str, Any]
) -> tuple[list[str], list[str]]:
    """The clauses on shapes, axis and block size that forbid a node of ONNX, and those that leave it open."""
    extents, shape = operand.shape, scale.shape
    rank = len(extents)
    block_size = int(attributes.get("block_size", 0)) if version >= 21 else 0
    if version == 10:
        return ([], []) if shape == () else ([], ["shape-1-scale"]) if shape == (1,) else (["scalar"], [])
    if block_size < 0:
        return ["block-size"], []
    if shape == ():
        return [], ["block-size-unused"] if block_size else []
    axis = normal_axis(int(attributes.get("axis", 1)), rank)
    if version >= 21 and rank == 1 and len(shape) == 1:
        return [], ["rank-1"]
    if version >= 21 and len(shape) == rank:
        if not block_size:
            return ["block-size"], []
        if axis is None:
            return ["axis-range"], []
        if shape != tuple(ceil_div(e, block_size) if i == axis else e for i, e in enumerate(extents)):
            return ["block-shape"], []
        return [], ["blocked-empty-axis"] if extents[axis] == 0 else []
    if len(shape) != 1:
        return ["granularity"], []
    if axis is None:
        return ["axis-range"], []
    if shape[0] == extents[axis]:
        return [], ["block-size-unused"] if block_size else []
    return (["granularity"], []) if version >= 21 else ([], ["axis-length"])


def quantize(
    opset: int,
    domain: str,
    operand: Tensor,
    scale: Tensor,
    zero_point: Tensor | None,
    attributes: Mapping[str, Any],
) -> Quantized:
    """The legal codes of a node that `judge` allows.

    Args:
        opset: The opset of the model.
        domain: "" or "ai.onnx" for ONNX, or "com.microsoft".
        operand: The node's x.
        scale: The node's y_scale.
        zero_point: The node's y_zero_point.
        attributes: The node's attributes. Types in them are our names of dtypes, such as "int8".
    """
    dtype = quantized_dtype(zero_point, attributes)
    axis = attributes.get("axis", None if domain == MICROSOFT else 1)
    block_size = int(attributes.get("block_size", 0))
    x = values(operand.dtype, operand.codes)
    divisor = values(scale.dtype, spread(scale, operand, axis, block_size))
    offset = None if zero_point is None else values(dtype, spread(zero_point, operand, axis, block_size))
    division_types = _division_types(0 if domain == MICROSOFT else opset, operand.dtype, scale.dtype, attributes)
    saturations = _saturations(opset, dtype, attributes)
    is_open = np.zeros(operand.shape, np.bool_)
    arrays: dict[bytes, NDArray[Any]] = {}
    with np.errstate(all="ignore"):
        for reading in _readings(x, divisor, operand.dtype, scale.dtype, division_types):
            # Clause: division-by-zero. A subnormal divisor may count as zero. Clause: subnormal.
            is_open |= np.abs(reading.divisor) < _SMALLEST_NORMAL
            quotient = reading.quotient()
            sums: tuple[F64, ...] = (quotient,)
            if dtype in INTEGERS:
                results: Iterable[NDArray[Any]] = (_integer_codes(quotient, offset, dtype),)
            else:
                sums = tuple(_sums(reading, quotient, offset, dtype))
                results = [_float_codes(total, dtype, rule) for total in sums for rule in saturations]
            if dtype not in _NAN:  # Clause: nan.
                for total in sums:
                    is_open |= np.isnan(total)
            for codes in results:
                arrays.setdefault(codes.tobytes(), codes)
    return Quantized(dtype, tuple(arrays.values()), is_open)


@dataclass(frozen=True)
class _Reading:
    """The division of one reading."""

    precision: str
    """The type to which the quotient is rounded, "" for none."""
    x: F64
    divisor: F64

    def quotient(self) -> F64:
        """The quotient, rounded to float64 unless it is rounded to the type of the division.

        Rounding to float64 changes no decision that follows. Decisions compare the quotient with a number t: half an odd
        integer, or the middle of two neighbours of a float type. float64 holds t. So a rounded quotient is on the same side of
        t as the exact one, or equal to t. It is equal to t only if the exact one is:

        Let x = X 2^a, divisor = S 2^b and t = T 2^c with integers X, S and T. If the quotient is not t, then x - divisor t is
        not 0, and it is a multiple of 2^a or of 2^(b + c). So the relative distance of quotient and t is about 1/|X| or
        1/|S T| at least. X has at most 31 bits (int32), and S has 24, or 31 for int32. T has at most 18 bits for integers,
        5 for small floats, 25 for the type of a division. So the distance is at least 2^-49, as float64 rounds by at most
        2^-53. The pair of an int32 scale and a division in float32 would be closer, so there both operands are cast first.
        """
        quotient = np.asarray(self.x / self.divisor)
        return to_dtype(quotient, self.precision) if self.precision else quotient


def _division_types(opset: int, operand: str, scale: str, attributes: Mapping[str, Any]) -> tuple[str, ...]:
    """The types to which a quotient may be rounded. Clauses: division-precision, precision.

    From version 23 on, the text states a type. No sentence says that a division must not be more precise. So float32 is legal
    beside a narrower type, and so is the exact quotient. Before, the types of the operands and float32 are legal.
    int32 and float8_e8m0fnu cannot hold quotients. So they state no precision.
    """
    stated = str(attributes.get("precision", scale)) if opset >= 23 else ""
    if stated in ("float32", "float64"):
        return ("float32",) if stated == "float32" else ()
    if stated in _HELD_EXACTLY:
        return "float32", stated
    return "float32", *sorted({operand, scale} & {"float16", "bfloat16"})


def _readings(x: F64, divisor: F64, operand: str, scale: str, division_types: tuple[str, ...]) -> Iterator[_Reading]:
    """Every reading of the division, the exact one first."""
    yield _Reading("", x, divisor)
    for dtype in division_types:
        exact = _HELD_EXACTLY[dtype]
        if scale != "int32":
            yield _Reading(dtype, x, divisor)
        if operand not in exact or scale not in exact:
            yield _Reading(dtype, to_dtype(x, dtype), to_dtype(divisor, dtype))
    # Clause: subnormal.
    flushed = (np.abs(x) < _SMALLEST_NORMAL) & (x != 0.0)
    if flushed.any():
        yield from _readings(np.where(flushed, np.copysign(0.0, x), x), divisor, operand, scale, division_types)


def _integer_codes(quotient: F64, offset: F64 | None, dtype: str) -> NDArray[Any]:
    """The quotient rounded half to even, plus the zero point, saturated. Clauses: formula, rounding, saturation.

    Infinity saturates, since it is above every bound.
    """
    whole = np.rint(quotient)
    if offset is not None:
        whole = whole + offset
    lowest, highest = integer_range(dtype)
    numbers = np.fmin(np.fmax(whole, lowest), highest).astype(np.int32)
    if BITS[dtype] < 8:
        numbers = numbers & ((1 << BITS[dtype]) - 1)
    return np.asarray(numbers).astype(code_dtype(dtype))


Saturation = Literal["all", "finite", "none"]
"""The numbers beyond the largest one that become it."""


def _saturations(opset: int, dtype: str, attributes: Mapping[str, Any]) -> tuple[Saturation, ...]:
    """The conversions of numbers beyond the largest one. Clauses: saturate, float8-saturated, float8-overflow.

    "All cases are fully described in two tables inserted in the operator description", but only Cast has these tables. Before
    version 24, its first table has NaN for an infinity in a type without negative zero. The formula's own word is "saturate".
    So both are legal there.
    """
    if dtype not in _NAN:
        return ("all",)
    if not attributes.get("saturate", 1):
        return ("none",)
    return ("all", "finite") if dtype.endswith("fnuz") and opset < 24 else ("all",)


def _sums(reading: _Reading, quotient: F64, offset: F64 | None, dtype: str) -> Iterator[F64]:
    """Every reading of (x / y_scale) + y_zero_point in a float type, as numbers that a cast rounds.

    Clauses: formula, float-sum, zero-sign.
    """
    zero = np.zeros(()) if offset is None else offset
    rounded_first = np.asarray(_to_width(quotient, dtype) + zero)
    if not zero.any():
        yield quotient
        if (np.signbit(quotient) & ~np.signbit(rounded_first)).any():
            yield rounded_first
        return
    # A quotient rounded to odd is on the same side of every number that decides, and so is its sum.
    exact = quotient if reading.precision else difference_over(reading.x, reading.divisor)
    plain = np.asarray(exact + zero)
    total = np.where(np.isfinite(plain) & (plain != 0.0), sum_to_odd(exact, zero, np.zeros_like(exact)), plain)
    yield np.where(zero == 0.0, quotient, total)
    yield total
    if reading.precision:
        yield to_dtype(total, reading.precision)
    yield rounded_first


def _float_codes(numbers: F64, dtype: str, saturation: Saturation) -> NDArray[Any]:
    """Codes of numbers, rounded half to even. Clauses: float8-saturated, float8-overflow."""
    magnitudes = _magnitudes(dtype)
    rounded = np.abs(_to_width(numbers, dtype))
    is_nan, is_infinite = np.isnan(numbers), np.isinf(numbers)
    codes = np.searchsorted(magnitudes, np.fmin(rounded, magnitudes[-1])).astype(code_dtype(dtype))
    if saturation == "none":
        is_beyond = rounded > magnitudes[-1]
        if dtype in _INFINITY:
            codes = np.where(is_beyond, codes.dtype.type(_INFINITY[dtype]), codes)
        else:
            is_nan = is_nan | is_beyond
    elif saturation == "finite":
        is_nan = is_nan | is_infinite
    minus = codes.dtype.type(1 << (BITS[dtype] - 1))
    is_negative = np.signbit(numbers)
    if dtype.endswith("fnuz"):  # There is no negative zero.
        is_negative = is_negative & (codes != 0)
    codes = np.where(is_negative, codes | minus, codes)
    return np.asarray(np.where(is_nan, codes.dtype.type(_NAN.get(dtype, 0)), codes))


def _to_width(numbers: F64, dtype: str) -> F64:
    """Numbers rounded to the width of a float type's mantissa, ties to even, without a largest exponent.

    Cast's tables call that [x].
    """
    exponents = np.frexp(np.where(np.isfinite(numbers), numbers, 0.0))[1]
    units = np.ldexp(1.0, np.maximum(exponents - 1 - _mantissa_bits(dtype), UNIT_EXPONENT[dtype]))
    return np.asarray(np.rint(numbers / units) * units)


@cache
def _mantissa_bits(dtype: str) -> int:
    """The number of codes from one power of two to the next is 2 ** this."""
    magnitudes = _magnitudes(dtype)
    return int(np.searchsorted(magnitudes, 2.0) - np.searchsorted(magnitudes, 1.0)).bit_length() - 1


@cache
def _magnitudes(dtype: str) -> F64:
    """The finite values of the codes from 0 on, which rise."""
    numbers = values(dtype, np.arange(1 << (BITS[dtype] - 1), dtype=code_dtype(dtype)))
    return np.asarray(numbers[np.isfinite(numbers)])
