"""The stages of y = (x - zero point) * scale: their options, the words for them, and their arithmetic.

Each stage lists its options, the plain one first. A reading has one option for each stage (see `readings`). The search over
all readings evaluates one stage after the other (see `lattice`). All arithmetic here is on float64 arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic.reading import Operands
from xverify.core.call import BITS
from xverify.core.dtypes import FLOATS, INTEGERS, MIN_EXPONENT, SMALL_FLOATS, UNIT_EXPONENT, integer_range, values
from xverify.core.rounding import (
    F64,
    cast,
    cast_by_last_bit,
    cast_clamped,
    cast_saturated,
    cast_toward_zero,
    difference_over,
    difference_times,
    difference_to_odd,
    exact_difference,
    is_subnormal,
    product_to_odd,
    quotient_to_odd,
    sums,
    to_dtype,
)

Subtraction = Literal[
    "exact", "operands-output", "operands-float32", "operands-float16", "operands-bfloat16", "operands-float64",
    "zero-point-rounded", "zero-point-truncated",
    "wrap-x", "wrap-unsigned", "wrap-int32", "saturate-x", "saturate-int32", "ignored", "negated", "limited-float16",
    "cast-last-bit",
]  # fmt: skip
Difference = Literal["exact", "float32", "output", "float16", "bfloat16"]
ScaleCast = Literal["none", "output", "float32", "float16", "bfloat16", "last-bit"]
Operation = Literal[
    "multiply", "divide", "reciprocal",
    "folded", "fused", "folded-always", "fused-last-bit", "fused-float16", "fused-float16-always",
]  # fmt: skip
Precision = Literal["once", "float32", "output", "float64", "float16", "bfloat16"]
Final = Literal["nearest", "truncated", "saturated", "via-float32", "last-bit", "clamped"]
Subnormals = Literal[
    "kept", "flush-results", "flush-products", "flush-inputs", "flush-all", "flush-to-plus", "flush-folded"
]
Zero = Literal["signed", "unsigned"]

FOLDED: tuple[Operation, ...] = (
    "folded", "fused", "folded-always", "fused-last-bit", "fused-float16", "fused-float16-always"
)  # fmt: skip
"""The operations that multiply x and the zero point by the scale."""

LIMITED: tuple[Final, ...] = ("saturated", "clamped")
"""The final casts that give no infinity."""

_SUBTRACTION: dict[Subtraction, str] = {
    "exact": "subtracts exactly",
    "operands-output": "casts x and the zero point to the output type and subtracts",
    "operands-float32": "casts x and the zero point to float32 and subtracts",
    "operands-float16": "casts x and the zero point to float16 and subtracts",
    "operands-bfloat16": "casts x and the zero point to bfloat16 and subtracts",
    "operands-float64": "casts x and the zero point to float64 and subtracts",
    "zero-point-rounded": "subtracts the zero point rounded to a whole number",
    "zero-point-truncated": "subtracts the zero point truncated to int32",
    "wrap-x": "subtracts in the type of x with wrap-around",
    "wrap-unsigned": "subtracts in the unsigned type of the width of x with wrap-around",
    "wrap-int32": "subtracts in int32 with wrap-around",
    "saturate-x": "subtracts in the type of x and saturates",
    "saturate-int32": "subtracts in int32 and saturates",
    "ignored": "ignores the zero point",
    "negated": "adds 0 - zero point, which loses the sign of -0 - 0",
    "limited-float16": "casts x and the zero point to float16 with the largest number for what overflows and subtracts",
    "cast-last-bit": "casts x and the zero point to bfloat16 by half of the last kept bit and subtracts",
}
_FINAL: dict[Final, str] = {
    "nearest": "",
    "truncated": ", truncates the result",
    "saturated": ", takes the largest finite number for what overflows",
    "via-float32": ", rounds the result to float32 before it is cast",
    "last-bit": ", casts float32 to bfloat16 by half of the last kept bit, so that it never rounds up where that bit is 0",
    "clamped": ", takes the largest finite number for what overflows and for NaN",
}
_SUBNORMALS: dict[Subnormals, str] = {
    "kept": "",
    "flush-results": ", flushes subnormal products and results to zero",
    "flush-products": ", flushes subnormal products to zero",
    "flush-inputs": ", takes subnormal scales for zero",
    "flush-all": ", takes subnormal scales for zero and flushes subnormal products and results to zero",
    "flush-to-plus": ", takes scales that are -0 or subnormal in float32 for +0",
    "flush-folded": ", takes subnormal scales for zero in x * scale only",
}


def in_words(
    subtraction: Subtraction,
    difference: Difference,
    scale_cast: ScaleCast,
    operation: Operation,
    precision: Precision,
    final: Final,
    subnormals: Subnormals,
    zero: Zero,
) -> str:
    """The options of all stages as a sentence's predicate."""
    subtracts = _SUBTRACTION[subtraction]
    if operation in FOLDED:
        # The product with the scale comes before the subtraction.
        subtracts = "" if subtraction == "exact" else subtracts.removesuffix(" and subtracts")
    rounds = "" if difference == "exact" else f"rounds the difference to {_type(difference)}"
    casts = "" if scale_cast == "none" else f"casts the scale to {_type(scale_cast)}"
    sign = ", loses the sign of zero" if zero == "unsigned" else ""
    steps = filter(None, (subtracts, rounds, casts, _combining(operation, precision)))
    return f"{', '.join(steps)}{_FINAL[final]}{_SUBNORMALS[subnormals]}{sign}"


_TYPES = {"output": "the output type", "last-bit": "bfloat16 by half of the last kept bit"}


def _type(option: str) -> str:
    return _TYPES.get(option, option)


def _combining(operation: Operation, precision: Precision) -> str:
    if operation in ("multiply", "divide"):
        what = "product" if operation == "multiply" else "quotient by the scale"
        if precision in ("once", "output"):
            return f"rounds the {what} once to the output type"
        return f"rounds the {what} to {precision}, then casts to the output type"
    each = f"each step rounded to {_type('output' if precision == 'once' else precision)}"
    if operation == "reciprocal":
        return f"multiplies by the scale's reciprocal, {each}"
    if operation == "folded":
        return f"computes x * scale - zero point * scale, {each}"
    if operation == "folded-always":
        return f"computes x * scale - zero point * scale, also with 0 for an absent zero point, {each}"
    fused = f"computes x * scale - zero point * scale by a fused multiply-add, {each}"
    if operation == "fused":
        return fused
    to = _TYPES["last-bit"] if operation == "fused-last-bit" else "float16"
    omits = ", subtracts no product that is 0" if operation == "fused-float16" else ""
    return f"casts the zero point and zero point * scale to {to}{omits}, {fused}"


@dataclass(frozen=True)
class StageOptions:
    """One option for each stage. The defaults are the plain ones."""

    subtraction: Subtraction = "exact"
    """The subtraction of the zero point: exact, after a cast of both, wrapping, saturating, or none.

    A float zero point may also be rounded or truncated first. Where the difference wraps or saturates, it is truncated to int32.
    """
    difference: Difference = "exact"
    """The type to which the difference is rounded."""
    scale_cast: ScaleCast = "none"
    """The type to which the scale is cast first.

    "last-bit" means the cast to bfloat16 of the final cast "last-bit".
    """
    operation: Operation = "multiply"
    """The way to combine difference and scale.

    "folded" and "fused" mean x * scale - zero point * scale. "folded-always" subtracts 0 * scale if there is no zero point.
    "fused-last-bit" means "fused", with the zero point and its product cast as the final cast "last-bit" does.
    "fused-float16-always" means the same with the usual cast to float16, and "fused-float16" subtracts no product that is 0.
    """
    precision: Precision = "once"
    """The type of each result of the operation; "once" stands for one rounding, to the output type."""
    final: Final = "nearest"
    """The cast to the output type."""
    subnormals: Subnormals = "kept"
    """The subnormal numbers that are replaced by zero."""
    zero: Zero = "signed"
    """The sign of a zero result: "unsigned" turns -0 into +0."""

    @property
    def folds(self) -> bool:
        """True if x * scale - zero point * scale can do this subtraction."""
        return self.subtraction in ("exact", "cast-last-bit") or self.subtraction.startswith("operands-")


@dataclass(frozen=True, eq=False)
class Triples:
    """The operands of a linear call as numbers."""

    x: F64
    zero_point: F64 | None
    scale: F64
    x_dtype: str
    scale_dtype: str
    out: str
    exponent: int
    """x and the zero point are integers times 2 ** exponent."""
    wide: bool
    """True if the difference times a 24-bit scale may need more than float64's 53 bits."""
    float_zero_point: bool = False
    """True if the zero point is a float32, float16 or bfloat16, or any float beside an integer x.

    An exact difference may then need more than 53 bits.
    """


def decoded(operands: Operands) -> Triples:
    """The operands of a linear call as numbers, in shapes that broadcast to each other."""
    dtypes = operands.dtypes
    x_dtype, zero_point_dtype = dtypes["x"], dtypes.get("zero_point")
    integer_dtypes = (x_dtype, zero_point_dtype or x_dtype)
    return Triples(
        values(x_dtype, operands.codes["x"]),
        values(zero_point_dtype, operands.codes["zero_point"]) if zero_point_dtype else None,
        values(dtypes["scale"], operands.codes["scale"]),
        x_dtype,
        dtypes["scale"],
        operands.output_dtype,
        min(UNIT_EXPONENT.get(dtype, 0) for dtype in integer_dtypes),
        "int32" in integer_dtypes or any(dtype.startswith("float8_e5m2") for dtype in integer_dtypes),
        zero_point_dtype in FLOATS or (zero_point_dtype in SMALL_FLOATS and x_dtype in INTEGERS),
    )


def is_single(operands: Operands) -> bool:
    """True if float32 holds the differences, the scale and the result: then only the product rounds."""
    dtypes = operands.dtypes
    narrow = all(
        dtypes[role] in INTEGERS and BITS[dtypes[role]] <= 16 for role in ("x", "zero_point") if role in dtypes
    )
    return narrow and dtypes["scale"] == operands.output_dtype == "float32"


def single(operands: Operands) -> NDArray[np.uint32]:
    """The codes of (x - zero point) * scale in float32. Exact and rounded once where `is_single` holds."""
    codes, dtypes = operands.codes, operands.dtypes
    difference = _small(dtypes["x"], codes["x"])
    if "zero_point" in dtypes:
        difference = _into(np.subtract, difference, _small(dtypes["zero_point"], codes["zero_point"]))
    with np.errstate(all="ignore"):
        return _into(np.multiply, difference, codes["scale"].view(np.float32)).view(np.uint32)


def _into(operation: np.ufunc, left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
    """The result of an operation, in the memory of ``left`` if the shapes surely allow it."""
    fits = right.shape == left.shape or (right.size == 1 and right.ndim <= left.ndim)
    return np.asarray(operation(left, right, out=left if fits else None))


def _small(dtype: str, codes: NDArray[Any]) -> NDArray[np.float32]:
    """The values of integers of at most 16 bits, as float32."""
    if BITS[dtype] < 8:
        return values(dtype, codes).astype(np.float32)
    return codes.view(dtype).astype(np.float32)


def resolved(option: Any, out: str) -> Any:
    """The option, with the output type in place of "output"."""
    if option == "operands-output":
        return f"operands-{out}"
    return out if option == "output" else option


def operands_of(triples: Triples, subtraction: str) -> tuple[F64, F64]:
    """The operands of the subtraction. A zero point that is absent or ignored is 0.0."""
    x, zero_point = triples.x, np.asarray(0.0)
    if triples.zero_point is not None and subtraction != "ignored":
        zero_point = triples.zero_point
        if triples.float_zero_point:
            zero_point = _whole(zero_point, subtraction, triples.x_dtype)
    if subtraction == "limited-float16":
        rounded = (
            np.where(np.isfinite(each), _limited(to_dtype(each, "float16"), 65504.0), each) for each in (x, zero_point)
        )
        x, zero_point = rounded
        return x, zero_point
    if subtraction == "cast-last-bit":
        x, zero_point = _by_last_bit(x), _by_last_bit(zero_point)
    if subtraction.startswith("operands-") and subtraction != "operands-float64":
        dtype = resolved(subtraction, triples.out).removeprefix("operands-")
        x, zero_point = to_dtype(x, dtype), to_dtype(zero_point, dtype)
    return x, zero_point


def _limited(numbers: F64, largest: float) -> F64:
    """The numbers with the largest finite one, of the same sign, for infinity."""
    return np.where(np.isinf(numbers), np.copysign(largest, numbers), numbers)


def _whole(zero_point: F64, subtraction: str, x_dtype: str) -> F64:
    """A float zero point as the whole number that a subtraction takes, or unchanged."""
    kind = subtraction.partition("-")[0]
    if subtraction == "zero-point-rounded":
        with np.errstate(invalid="ignore"):  # A signalling NaN warns.
            return np.rint(zero_point)
    if subtraction == "zero-point-truncated" or (kind in ("wrap", "saturate") and x_dtype in INTEGERS):
        # x86 converts NaN and everything outside int32 to its lowest number.
        lowest, highest = integer_range("int32")
        inside = (zero_point > lowest - 1) & (zero_point < highest + 1)
        return np.where(inside, np.trunc(np.where(inside, zero_point, 0.0)) + 0.0, float(lowest))
    return zero_point


def subtracted(triples: Triples, subtraction: str, difference: str) -> NDArray[Any]:
    """The difference after both of its stages.

    float64 holds it exactly before it is rounded: integers have differences of at most 34 bits, and small floats of at most
    35 bits in their unit. A float zero point may need more. The exact difference is then complex, see `exact_difference`.
    """
    x, zero_point = operands_of(triples, subtraction)
    bounded = subtraction.partition("-")[0] in ("wrap", "saturate") and triples.x_dtype in INTEGERS
    if triples.float_zero_point and not bounded:
        exact = exact_difference(x, zero_point)
        exact = exact + 0.0 if subtraction == "negated" else exact
        return exact if difference == "exact" else to_dtype(difference_to_odd(exact), resolved(difference, triples.out))
    with np.errstate(all="ignore"):
        result = np.asarray(x - zero_point)
    if subtraction == "negated" and triples.zero_point is not None:
        result = result + 0.0
    kind, _, where = subtraction.partition("-")
    if kind in ("wrap", "saturate") and triples.x_dtype in INTEGERS:
        name = {"x": triples.x_dtype, "unsigned": "u" + triples.x_dtype.removeprefix("u")}.get(where, where)
        lowest, highest = integer_range(name)
        if kind == "wrap":
            result = np.asarray(np.mod(result - lowest, float(highest - lowest + 1)) + lowest)
        else:
            result = np.clip(result, lowest, highest)
    return result if difference == "exact" else to_dtype(result, resolved(difference, triples.out))


def factor(triples: Triples, scale_cast: str, subnormals: str) -> F64:
    """The scale after its cast and flushing."""
    dtype = triples.scale_dtype if scale_cast == "none" else resolved(scale_cast, triples.out)
    if scale_cast == "last-bit":
        dtype, scale = "bfloat16", _by_last_bit(triples.scale)
    else:
        scale = triples.scale if scale_cast == "none" else to_dtype(triples.scale, dtype)
    # float8_e8m0fnu has no subnormals, but its least numbers are subnormal in float32, the type of the arithmetic.
    kind = dtype if dtype in MIN_EXPONENT else "float32"
    if subnormals == "flush-to-plus":
        return np.where(np.abs(scale) < 2.0 ** MIN_EXPONENT["float32"], 0.0, scale)
    return flushed(scale, kind) if subnormals in ("flush-inputs", "flush-all") else scale


def flushed(numbers: F64, dtype: str) -> F64:
    """The numbers, with zeros of the same sign in place of those that are subnormal in a type."""
    return np.where(np.abs(numbers) < 2.0 ** MIN_EXPONENT[dtype], np.copysign(0.0, numbers), numbers)


def combined(
    triples: Triples,
    difference: NDArray[Any],
    scale: F64,
    operation: str,
    precision: str,
    subnormals: str = "kept",
    narrow: bool = False,
) -> F64:
    """Combine difference and scale.

    Args:
        triples: The operands, for their types.
        difference: The difference. It is complex if it needs more than 53 bits.
        scale: The scale.
        operation: "multiply", "divide" or "reciprocal".
        precision: The type of each result, or "once".
        subnormals: The subnormal numbers that become zero.
        narrow: True if the difference has at most 24 bits.

    Returns:
        float64 numbers rounded to ``precision``. For "once", one more rounding gives the same as for the exact value.

    A quotient d / s of two numbers of at most 24 bits is harmless to round to 53 bits: it is at least 2^-49 of itself away
    from any other number m of at most 25 bits, since m * s differs from d by at least one unit. The difference to a float
    zero point may be longer, so that its products and quotients are rounded to odd. In float64, it is rounded itself.
    """
    kind = resolved(precision, triples.out)
    plainly = narrow or not triples.wide
    with np.errstate(all="ignore"):
        if operation == "reciprocal":
            kind = triples.out if kind == "once" else kind
            inverse = np.asarray(1.0 / scale)
            scale = _rounded(inverse, inverse, kind, subnormals)
        plain = np.asarray(difference.real / scale if operation == "divide" else difference.real * scale)
    if triples.float_zero_point and kind != "float64":
        exactly = difference_over if operation == "divide" else difference_times
        odd = exactly(difference, scale)
        return odd if kind == "once" else _rounded(odd, plain, kind, subnormals)
    if kind == "float64" or plainly:
        return plain if kind in ("once", "float64") else _rounded(plain, plain, kind, subnormals)
    combine = quotient_to_odd if operation == "divide" else product_to_odd
    odd = combine(difference, triples.exponent, scale)
    return odd if kind == "once" else _rounded(odd, plain, kind, subnormals)


def folded(
    triples: Triples, x: F64, zero_point: F64, scale: F64, operation: str, precision: str, subnormals: str = "kept"
) -> F64:
    """x * scale - zero_point * scale, each step rounded to ``precision``.

    precision: "once" stands for the output type here.
    operation: those that begin with "fused" do not round x * scale before the subtraction.
    """
    kind = triples.out if precision == "once" else resolved(precision, triples.out)

    def product(operand: F64) -> F64:
        """The rounded product with the scale, which is flushed before the second use only."""
        with np.errstate(all="ignore"):
            plain = np.asarray(operand * scale)
        odd = product_to_odd(operand, triples.exponent, scale) if triples.wide and kind != "float64" else plain
        return _rounded(odd, plain, kind, subnormals)

    omitted: NDArray[np.bool_] | None = None
    if operation == "fused-last-bit" and triples.out == "bfloat16":
        base = _by_last_bit(product(_by_last_bit(zero_point)))
    elif operation.startswith("fused-float16") and triples.out == "float16":
        base = to_dtype(product(to_dtype(zero_point, "float16")), "float16")
        omitted = (zero_point == 0) | (base == 0) if operation == "fused-float16" else None
    else:
        base = product(zero_point)
    if subnormals == "flush-folded":
        scale = flushed(scale, "float32")
    if not operation.startswith("fused"):
        with np.errstate(all="ignore"):
            # A rounding to 53 bits is innocuous before one to at most 24 bits (Figueroa, 1995).
            plain = np.asarray(product(x) - base)
        return _rounded(plain, plain, kind, subnormals)
    with np.errstate(all="ignore"):
        nearest = np.asarray(x * scale - base)
        # Each half of an integer of 32 bits has an exact product with the scale.
        upper = np.ldexp(np.rint(np.ldexp(x, -triples.exponent - 16)), triples.exponent + 16)
        total, odd = sums(upper * scale, (x - upper) * scale, -base)
    # The halves lose the sign of a product that is zero.
    regular = np.isfinite(nearest) & (total != 0.0)
    result = _rounded(np.where(regular, odd, nearest), np.where(regular, total, nearest), kind, subnormals)
    return result if omitted is None else np.where(omitted, product(x), result)


def _by_last_bit(numbers: F64) -> F64:
    return values("bfloat16", cast_by_last_bit(numbers))


def finished(numbers: F64, out: str, final: str, subnormals: str, zero: str) -> NDArray[Any]:
    """The output codes of numbers, after the last three stages."""
    if final == "truncated":
        codes = cast_toward_zero(numbers, out)
    elif final == "saturated":
        codes = cast_saturated(numbers, out)
    elif final == "clamped":
        codes = cast_clamped(numbers, out)
    elif final == "last-bit" and out == "bfloat16":
        codes = cast_by_last_bit(numbers)
    else:
        codes = cast(to_dtype(numbers, "float32") if final == "via-float32" else numbers, out)
    sign = codes.dtype.type(1 << (8 * codes.dtype.itemsize - 1))
    if subnormals in ("flush-results", "flush-all"):
        codes = np.where(is_subnormal(codes, out), codes & sign, codes)
    return np.where(codes == sign, codes.dtype.type(0), codes) if zero == "unsigned" else codes


def _rounded(odd: F64, plain: F64, kind: str, subnormals: str) -> F64:
    """The numbers ``odd`` rounded to a type, or ``plain`` for float64."""
    if kind == "float64":
        return plain
    result = to_dtype(odd, kind)
    return flushed(result, kind) if subnormals in ("flush-results", "flush-products", "flush-all") else result
