"""Simplified linear readings: without the stages that cannot change a value of the call's types.

The proofs count the significant bits of numbers. Readings with equal simplified forms give equal bits for every value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, TypeVar, cast

import numpy as np

from xverify.arithmetic.reading import Operands
from xverify.arithmetic.stages import FOLDED, LIMITED, StageOptions, resolved
from xverify.core.call import BITS
from xverify.core.dtypes import (
    FLOATS,
    INTEGERS,
    NAN_AS_NUMBER,
    SIGNED,
    SMALL_FLOATS,
    UNIT_EXPONENT,
    integer_range,
    values,
)

Recipe = TypeVar("Recipe", bound=StageOptions)

_PRECISION = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8, "float8_e8m0fnu": 1}
"""Significant bits of each real type."""

_LARGEST = {
    "float4_e2m1fn": 6,
    "float6_e2m3fn": 7.5,
    "float6_e3m2fn": 28,
    "float8_e4m3fn": 448,
    "float8_e4m3fnuz": 240,
    "float8_e5m2": 57344,
    "float8_e5m2fnuz": 57344,
    **dict.fromkeys(NAN_AS_NUMBER, 480),
}
_CASTING = ("fused-last-bit", "fused-float16", "fused-float16-always")
"""Operations that cast the zero point and its product."""

_CHANGES_SCALE = ("flush-inputs", "flush-all", "flush-to-plus", "flush-folded")
"""Kinds of flushing that change a scale."""

_OPERAND_BITS = 4
"""Largest number of significant bits of a small float."""

_LEAST = {"float32": -149, "bfloat16": -133, "float16": -24, "float8_e8m0fnu": -127}
"""Exponent of the unit: every finite number of the type is a multiple of 2 ** this."""


@dataclass(frozen=True)
class Types:
    """The types of a linear call."""

    x: str
    zero_point: str
    """The type of the zero point, "" where there is none."""
    scale: str
    out: str

    @property
    def has_float_zero_point(self) -> bool:
        """True if the zero point is a float32, float16 or bfloat16, or any float beside an integer x."""
        return self.zero_point in FLOATS or (self.zero_point in SMALL_FLOATS and self.x in INTEGERS)

    @property
    def lowest(self) -> int:
        """Exponent of the unit of x and the zero point."""
        return min(UNIT_EXPONENT.get(dtype, 0) for dtype in (self.x, self.zero_point or self.x))

    def ends(self, dtype: str) -> tuple[int, int]:
        """Lowest and highest value of a type of x or of the zero point, in units of 2 ** ``lowest``."""
        if dtype in INTEGERS:
            low, high = integer_range(dtype)
            return low << -self.lowest, high << -self.lowest
        largest = int(_LARGEST[dtype] * 2.0**-self.lowest)
        return -largest, largest


def types_of(operands: Operands) -> Types:
    """The types of a linear call's operands."""
    dtypes = operands.dtypes
    return Types(dtypes["x"], dtypes.get("zero_point", ""), dtypes["scale"], operands.output_dtype)


def simplified(reading: Recipe, types: Types) -> Recipe:
    """An equal reading without the stages that cannot change a value of these types."""
    return cast(Recipe, _simplified(reading, types))


@lru_cache(maxsize=1 << 16)
def _simplified(reading: StageOptions, types: Types) -> StageOptions:
    if reading.operation == "folded-always" and types.zero_point:
        return _simplified(replace(reading, operation="folded"), types)
    if reading.operation == "fused-last-bit" and types.out != "bfloat16":
        return _simplified(replace(reading, operation="fused"), types)
    if reading.operation.startswith("fused-float16") and types.out != "float16":
        return _simplified(replace(reading, operation="fused"), types)
    if reading.final == "last-bit" and types.out != "bfloat16":
        return _simplified(replace(reading, final="nearest"), types)
    if types.has_float_zero_point:
        return _with_float_zero_point(reading, types)
    out = types.out
    options: dict[str, Any] = {
        "subtraction": resolved(reading.subtraction, out),
        "difference": resolved(reading.difference, out),
        "scale_cast": resolved(reading.scale_cast, out),
        "operation": reading.operation,
        "precision": resolved(reading.precision, out),
    }
    if reading.operation in (*FOLDED, "reciprocal") and reading.precision == "once":
        options["precision"] = out
    result = replace(reading, **options)
    if result.operation in FOLDED:
        folds = result.folds and (result.operation == "folded-always" or bool(types.zero_point))
        result = replace(result, difference="exact") if result.folds else result
        result = result if folds else replace(result, operation="multiply")
    if result.operation in FOLDED and result.operation not in _CASTING and _folds_exactly(result, types):
        result = replace(result, operation="multiply")
    if not types.zero_point:
        result = _cast_once(result, types)
    result = replace(result, subtraction=_simpler_subtraction(result.subtraction, types))
    if result.difference != "exact" and _fits(_difference_bits(result.subtraction, types), result.difference):
        result = replace(result, difference="exact")
    result = _simpler_flushing(_simpler_scale_cast(result, types), types)
    result = _simpler_end(_simpler_precision(result, types), types)
    if result.scale_cast == out == "bfloat16" and types.scale == "float16" and _rounded_bits(result, types) == 1:
        # The other factor is a power of two, so the rounding may come before the product or after it.
        result = replace(result, scale_cast="none") if _plain_product(result) else result
    if result.difference == out == "bfloat16" and types.scale == "float8_e8m0fnu" and types.x in INTEGERS:
        result = _scaled_by_power(result)
    return result if result == reading else _simplified(result, types)


def _simpler_flushing(reading: StageOptions, types: Types) -> StageOptions:
    """The reading with a plainer kind of flushing that gives the same."""
    if reading.subnormals == "flush-folded" and reading.operation not in FOLDED:
        return replace(reading, subnormals="kept")
    if (reading.subnormals, types.scale, reading.scale_cast) == ("flush-to-plus", "float8_e8m0fnu", "none"):
        return replace(reading, subnormals="flush-inputs")
    return reading


def _simpler_scale_cast(reading: StageOptions, types: Types) -> StageOptions:
    """The reading without a cast of the scale that changes no scale."""
    if types.scale == "float16" and reading.scale_cast in ("float32", "bfloat16", "last-bit"):
        # A subnormal of float16 is a normal number of these types.
        without_inputs: Any = {"flush-inputs": "kept", "flush-all": "flush-results"}
        reading = replace(reading, subnormals=without_inputs.get(reading.subnormals, reading.subnormals))
    holds = reading.scale_cast != "none" and _holds(reading.scale_cast, types.scale)
    return replace(reading, scale_cast="none") if holds else reading


def _with_float_zero_point(reading: StageOptions, types: Types) -> StageOptions:
    """The reading without stages that never matter with a float zero point.

    Its differences may have hundreds of bits, so only types that hold every number of another type make a stage superfluous.
    """
    kind = reading.subtraction.partition("-")[0]
    if kind in ("wrap", "saturate") and types.x in INTEGERS:
        # The zero point is an int32 then, and may be any. No option of the subtraction is the same as another without it.
        return _simplified(reading, replace(types, zero_point="int32"))
    out = types.out
    if reading.operation in FOLDED and not reading.folds:
        precision: Any = out if reading.precision == "once" else reading.precision
        reading = replace(reading, operation="multiply", precision=precision)
    if kind == "ignored":
        plain = _simplified(replace(reading, subtraction="exact"), replace(types, zero_point=""))
        return replace(plain, subtraction="ignored")
    result: Any = replace(
        reading,
        subtraction=resolved(reading.subtraction, out) if kind not in ("wrap", "saturate") else "exact",
        difference=resolved(reading.difference, out),
        scale_cast=resolved(reading.scale_cast, out),
        precision=resolved(reading.precision, out),
    )
    where = "bfloat16" if result.subtraction == "cast-last-bit" else result.subtraction.removeprefix("operands-")
    if where != result.subtraction and _holds_operands(where, types):
        result = replace(result, subtraction="exact")
    result = _simpler_flushing(_simpler_scale_cast(result, types), types)
    if result.subtraction in ("negated", "limited-float16"):
        result = replace(result, subtraction=_simpler_subtraction(result.subtraction, types))
    if result.operation in FOLDED:
        result = replace(result, difference="exact")
    if result.operation in ("multiply", "divide"):
        if result.precision == out:
            final = result.final if result.final in LIMITED else "nearest"
            flushes = "flush-results" if result.subnormals == "flush-products" else result.subnormals
            result = replace(result, precision="once", final=final, subnormals=flushes)
        if result.precision in ("once", "float64"):
            result = _with_flushing(result, products=False)
    elif result.precision == "once":
        result = replace(result, precision=out)
    single = out == "float32" or result.precision in ("float32", "float16", "bfloat16")
    if result.final == "via-float32" and single:
        result = replace(result, final="nearest")
    return cast(StageOptions, result)


def _holds_operands(dtype: str, types: Types) -> bool:
    """True if a type holds every value of x and of a float zero point."""
    if dtype == "float64":
        return True
    if dtype not in ("float32", types.zero_point) and types.zero_point not in SMALL_FLOATS:
        return False
    in_range = dtype != "float16" or types.x not in INTEGERS or BITS[types.x] <= 8
    return in_range and _significant(types.x) <= _PRECISION[dtype]


def _plain_product(reading: StageOptions) -> bool:
    return (reading.operation, reading.precision, reading.final) == ("multiply", "once", "nearest")


def _folds_exactly(reading: StageOptions, types: Types) -> bool:
    """True if both products with the scale are exact, as products by powers of two in float64 are.

    A scale that is flushed to zero or cast to infinity would show. An absent zero point gives a product of 0 with all others.
    """
    finite = types.scale == "float8_e8m0fnu" and reading.scale_cast in ("none", "float32", "bfloat16")
    if reading.operation == "folded-always":
        return finite
    return finite and reading.precision == "float64" and reading.subnormals not in _CHANGES_SCALE


def _scaled_by_power(reading: StageOptions) -> StageOptions:
    """The reading with an exact difference, where the scale is a power of two.

    The product is then rounded to bfloat16 instead of the difference. A result is subnormal only if the difference is 1 or 0.
    """
    if reading.operation != "multiply" or reading.scale_cast != "none":
        return reading
    if (
        reading.precision == "float32"
        and reading.final == "truncated"
        and reading.subnormals in ("kept", "flush-inputs")
    ):
        # A product that overflows is infinite before the cast, and any other is a bfloat16.
        return replace(reading, difference="exact", precision="once", final="nearest")
    return replace(reading, difference="exact") if _plain_product(reading) else reading


def _cast_once(reading: StageOptions, types: Types) -> StageOptions:
    """Without a zero point, the cast of the operands written as the rounding of the difference."""
    kind, _, dtype = reading.subtraction.partition("-")
    if kind != "operands" or reading.operation in FOLDED:
        return reading
    wider = reading.difference in ("exact", dtype) or (
        _PRECISION[reading.difference] >= _PRECISION[dtype]
        and (reading.difference != "float16" or max(map(abs, types.ends(types.x))) < 1 << 15 or types.x == "int16")
    )
    if not wider or dtype == "float64":
        return reading
    first: Any = dtype
    return replace(reading, subtraction="exact", difference=first)


def _simpler_subtraction(subtraction: Any, types: Types) -> Any:
    """The subtraction, or "exact" where every pair of operands gives the same."""
    kind, _, where = subtraction.partition("-")
    if kind == "ignored":
        return subtraction if types.zero_point else "exact"
    if kind == "negated":
        signed = types.x not in INTEGERS and not types.x.endswith("fnuz")
        return subtraction if signed and types.zero_point else "exact"
    if kind == "limited":
        if not all(_within_float16(dtype) for dtype in (types.x, types.zero_point or types.x)):
            return subtraction
        return _simpler_subtraction("operands-float16", types)
    if kind == "cast":
        wide = max(_significant(types.x), _significant(types.zero_point)) > _PRECISION["bfloat16"]
        return subtraction if wide else "exact"
    if kind == "zero":  # The zero point is a whole number already, or a number of a small float, which stays.
        return "exact"
    if kind == "operands":
        bits = max(_significant(types.x), _significant(types.zero_point))
        return "exact" if bits <= _PRECISION[where] else subtraction
    if kind not in ("wrap", "saturate"):
        return subtraction
    if types.x not in INTEGERS:
        return "exact"
    unsigned = "u" + types.x.removeprefix("u")
    dtype = {"x": types.x, "unsigned": unsigned}.get(where, where)
    low, high = _difference_ends("exact", types)
    lowest, highest = integer_range(dtype)
    if lowest <= low and high <= highest:
        return "exact"
    if subtraction == "wrap-unsigned" and dtype == types.x:
        return "wrap-x"
    return f"{kind}-int32" if dtype == "int32" else subtraction


def _within_float16(dtype: str) -> bool:
    """True if no finite value of a type is infinite in float16."""
    return dtype not in FLOATS and (dtype not in INTEGERS or max(map(abs, integer_range(dtype))) < 65520)


def _difference_ends(subtraction: str, types: Types) -> tuple[int, int]:
    """Lowest and highest difference, in the unit of x and the zero point."""
    low, high = types.ends(types.x)
    kind, _, where = subtraction.partition("-")
    if kind in ("wrap", "saturate"):
        name = {"x": types.x, "unsigned": "u" + types.x.removeprefix("u")}.get(where, where)
        return integer_range(name)
    if not types.zero_point or kind == "ignored":
        return low, high
    least, most = types.ends(types.zero_point)
    return low - most, high - least


def _difference_bits(subtraction: str, types: Types) -> int:
    """Largest number of significant bits of a difference."""
    if subtraction.startswith(("operands", "limited", "cast")):
        return 64
    if types.x not in INTEGERS and (not types.zero_point or subtraction == "ignored"):
        return _OPERAND_BITS
    if types.x in SMALL_FLOATS and types.zero_point in SMALL_FLOATS:
        return _small_difference_bits(types.x, types.zero_point)
    low, high = _difference_ends(subtraction, types)
    # The lowest value of a signed type is a power of two, and has one bit.
    return max((-low - 1 if -low & (-low - 1) == 0 else -low).bit_length() if low < 0 else 0, high.bit_length())


@cache
def _small_difference_bits(x: str, zero_point: str) -> int:
    """Largest number of significant bits of a difference of two small floats, over all pairs."""
    unit = 2.0 ** min(UNIT_EXPONENT[x], UNIT_EXPONENT[zero_point])
    numbers = [np.unique(values(dtype, np.arange(1 << BITS[dtype], dtype=np.uint8))) for dtype in (x, zero_point)]
    left, right = (listed[np.isfinite(listed)] / unit for listed in numbers)
    differences = np.unique(np.abs(left[:, None] - right).astype(np.int64))[1:]  # without 0
    odd = differences // (differences & -differences)
    return int(odd.max()).bit_length()


def _significant(dtype: str) -> int:
    """Significant bits of an operand. An output type with that many bits has the range for it too."""
    if not dtype:
        return 0
    return BITS[dtype] - (dtype in SIGNED) if dtype in INTEGERS else _OPERAND_BITS


def _fits(bits: int, dtype: str) -> bool:
    return bits <= _PRECISION[dtype]


def _holds(dtype: str, scale: str) -> bool:
    """True if a type holds every value of the scale type."""
    dtype = _type_of_cast(dtype)
    return scale == dtype or dtype == "float32" or (dtype == "bfloat16" and scale == "float8_e8m0fnu")


def _simpler_precision(reading: StageOptions, types: Types) -> StageOptions:
    """The reading with one rounding instead of two, where the first rounding changes nothing."""
    precision, out = reading.precision, types.out
    flushes = reading.subnormals in ("flush-results", "flush-products", "flush-all")
    if reading.operation not in ("multiply", "divide") or precision == "once":
        return reading
    if precision == out:
        # The final cast has nothing left to round. A product that was flushed is a result that was flushed.
        final: Any = reading.final if reading.final in LIMITED else "nearest"
        subnormals = "flush-results" if reading.subnormals == "flush-products" else reading.subnormals
        return replace(reading, precision="once", final=final, subnormals=subnormals)
    scale, bits = _scale_type(reading, types), _rounded_bits(reading, types)
    if reading.operation == "divide":
        # See `stages.combined` for the distance of a quotient from every midpoint of the next rounding.
        gap = max(_PRECISION[out] + 1 + _PRECISION[scale], bits)
        if precision == "float64" and gap < _PRECISION["float64"]:
            return replace(reading, precision="once")
        return reading
    if _product_bits(reading, types) > _PRECISION[precision]:
        return reading
    if precision == "float64":
        return replace(reading, precision="once")
    ranged = precision in ("float32", "bfloat16") and (
        types.lowest + _LEAST[scale] >= _LEAST[precision]
        # A number too small for the precision is a zero in the output type.
        or _LEAST[precision] + _product_bits(reading, types) <= _LEAST[out]
        or out == "float16"
    )
    # A product that overflows becomes infinite. Truncation would have kept it finite.
    finite = reading.final != "truncated" or scale == "float16"
    # A subnormal number of float32 or bfloat16 is a zero in float16.
    if ranged and finite and (not flushes or out == "float16"):
        return replace(reading, precision="once")
    return reading


def _scale_type(reading: StageOptions, types: Types) -> str:
    return types.scale if reading.scale_cast == "none" else _type_of_cast(reading.scale_cast)


def _type_of_cast(scale_cast: str) -> str:
    """The type that holds every scale after a cast."""
    return "bfloat16" if scale_cast == "last-bit" else scale_cast


def _rounded_bits(reading: StageOptions, types: Types) -> int:
    """Significant bits of the difference after its rounding."""
    bits = _difference_bits(reading.subtraction, types)
    return bits if reading.difference == "exact" else min(bits, _PRECISION[reading.difference])


def _product_bits(reading: StageOptions, types: Types) -> int:
    """Largest number of significant bits of an exact product. A factor of one bit is a power of two."""
    bits, scale = _rounded_bits(reading, types), _PRECISION[_scale_type(reading, types)]
    return bits + scale - (1 in (bits, scale))


def _simpler_end(reading: StageOptions, types: Types) -> StageOptions:
    """The reading without the final cast, the flushing and the sign of zero where they cannot matter."""
    out, scale = types.out, _scale_type(reading, types)
    multiplies, moderate = reading.operation == "multiply", "float16" in (types.scale, scale)
    if multiplies and moderate and reading.precision != "float16":
        # The least numbers of float16 and of the type of x have a product that is normal in float32 and bfloat16.
        reading = _simpler_precision(_with_flushing(reading, results=out == "float16", products=False), types)
    if multiplies and not moderate and out == "float16":
        # Both are a zero in float16: a product with a subnormal scale, and a product that is subnormal in a wider type.
        infinite = _may_be_infinite(reading, types)
        reading = _with_flushing(reading, inputs=infinite, products=reading.precision == "float16")
        reading = _simpler_precision(reading, types)
    if reading.operation in ("multiply", "divide") and reading.precision in ("once", "float64"):
        reading = _with_flushing(reading, products=False)
    if reading.final == "via-float32":
        if out == "float32" or reading.precision in ("float32", "float16", "bfloat16"):
            reading = replace(reading, final="nearest")
        elif reading.precision == "once" and reading.subnormals in ("kept", "flush-inputs"):
            reading = _simpler_precision(replace(reading, precision="float32", final="nearest"), types)
    if reading.final == "truncated" and multiplies and _is_exact(reading, types):
        reading = _simpler_precision(replace(reading, final="nearest"), types)
    # The cast by the last bit begins in float32, so a product that is too large is infinite there as well.
    if reading.final == "last-bit" and multiplies and _is_exact(replace(reading, precision="float32"), types):
        reading = _simpler_precision(replace(reading, final="nearest"), types)
    if reading.zero == "unsigned" and multiplies and _never_negative_zero(reading, types, scale):
        reading = replace(reading, zero="signed")
    return reading


def _is_exact(reading: StageOptions, types: Types) -> bool:
    """True if the final cast changes no infinity and no finite number in the output type's range."""
    out, scale = types.out, _scale_type(reading, types)
    if out == "float16" or _product_bits(reading, types) > _PRECISION[out]:
        return False
    # In float32 or bfloat16, a product that is too large is infinite before the cast.
    return "float16" in (types.scale, scale) or (
        reading.precision in ("float32", "bfloat16")
        and _product_bits(reading, types) <= _PRECISION[reading.precision]
        and types.lowest + _LEAST[scale] >= max(_LEAST[out], _LEAST[reading.precision])
    )


def _may_be_infinite(reading: StageOptions, types: Types) -> bool:
    """True if a difference may be infinite. A zero scale then gives NaN, and a very small one does not."""
    if "float8_e5m2" in (types.x, types.zero_point):
        return True
    ends = (*types.ends(types.x), *_difference_ends(reading.subtraction, types))
    largest = max(abs(end) for end in ends) * 2.0**types.lowest
    return "float16" in (reading.difference, reading.subtraction.removeprefix("operands-")) and largest >= 65504


def _with_flushing(
    reading: StageOptions, results: bool = True, products: bool = True, inputs: bool = True
) -> StageOptions:
    """The reading without the kinds of flushing whose argument is False."""
    kind: Any = reading.subnormals
    if kind == "flush-products" and not products:
        kind = "kept"
    if kind == "flush-all" and not inputs:
        kind = "flush-results"
    if kind == "flush-all" and not results:
        kind = "flush-inputs"
    if kind == "flush-results" and not results:
        kind = "kept"
    if kind == "flush-inputs" and not inputs:
        kind = "kept"
    return replace(reading, subnormals=kind)


def _never_negative_zero(reading: StageOptions, types: Types, scale: str) -> bool:
    """True if no result is -0.

    Scales are positive here, and no difference is negative or no product underflows.
    """
    if types.scale != "float8_e8m0fnu" or not (types.x in INTEGERS or types.x.endswith("fnuz")):
        return False
    low, _ = _difference_ends(reading.subtraction, types)
    in_range = types.out != "float16" and "float16" not in (reading.precision, reading.difference, scale)
    in_range = in_range and types.lowest + _LEAST[scale] >= max(_LEAST[types.out], _LEAST.get(reading.precision, -149))
    return low >= 0 or (in_range and reading.subnormals == "kept")
