"""Every composition of the stages of a linear reading, value by value, against fractions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import exact
import exact_stages
import numpy as np
import pytest
from linear_operands import OUTPUTS, SCALES, STAGES, crossed, drawn_reading, drawn_types, triples

from xverify.arithmetic import lattice, stages
from xverify.arithmetic.reading import Operands
from xverify.arithmetic.readings import EXACT, EXACT_QUOTIENT, FLOAT32, FLOAT32_QUOTIENT, Stepwise
from xverify.arithmetic.simplify import Types
from xverify.core.bits import canonical
from xverify.core.dtypes import FLOATS, QUANTIZED, encode

decode = cache(exact.decode)


def triple_at(operands: Operands, index: int) -> exact_stages.TypedTriple:
    number = {role: decode(dtype, int(operands.codes[role][index])) for role, dtype in operands.dtypes.items()}
    dtypes, out = operands.dtypes, operands.output_dtype
    return exact_stages.TypedTriple(
        number["x"],
        number.get("zero_point"),
        number["scale"],
        dtypes["x"],
        dtypes["scale"],
        out,
        dtypes.get("zero_point", ""),
    )


def compare(reading: Stepwise, operands: Operands, places: Any = None) -> int:
    """Compare a reading with fractions on some triples, and return the number of comparisons."""
    codes, out = reading.evaluate(operands), operands.output_dtype
    assert codes.shape == operands.shape
    compared = range(operands.shape[0]) if places is None else places
    for index in compared:
        triple = triple_at(operands, index)
        got, want = int(codes[index]), exact_stages.by_stages(reading, triple)
        same = got == want or decode(out, got) == decode(out, want) == "nan"
        assert same, f"{reading.name} of {triple}: got {got:#x}, expected {want:#x}"
    return len(compared)


# -- compositions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_drawn_compositions(seed: int) -> None:
    """Options, types and triples are random."""
    rng, compared = np.random.default_rng(seed), 0
    for number in range(60):
        types = drawn_types(rng)
        compared += compare(drawn_reading(rng, rng.random()), triples(types, 24, 1000 * seed + number))
    assert compared > 1400


@pytest.mark.parametrize("out", OUTPUTS)
@pytest.mark.parametrize("scale", SCALES)
def test_special_scales(scale: str, out: str) -> None:
    """Every special scale with every operation: zeros, subnormals, ends, infinities and NaN."""
    rng = np.random.default_rng(len(scale + out))
    for x in ("int8", "uint16", "int32", "float8_e5m2", "float8_e4m3fnuz"):
        operands = crossed(Types(x, x, scale, out), 4, int(rng.integers(1 << 30)))
        for operation in STAGES["operation"]:
            reading = replace(drawn_reading(rng), operation=operation)
            compare(reading, operands, rng.choice(operands.shape[0], 16))


@pytest.mark.parametrize(("stage", "option"), [(stage, option) for stage in STAGES for option in STAGES[stage]])
def test_each_option(stage: str, option: str) -> None:
    """Each option alone, and with each operation, on every type of x."""
    rng = np.random.default_rng(sum(map(ord, stage + option)))
    for number, x in enumerate(QUANTIZED):
        scale, out = SCALES[rng.integers(4)], OUTPUTS[rng.integers(3)]
        operands = triples(Types(x, x, scale, out), 8, number)
        compare(replace(Stepwise(), **{stage: option}), operands)
        operation = STAGES["operation"][number % len(STAGES["operation"])]
        compare(replace(Stepwise(operation=operation), **{stage: option}), operands)


@pytest.mark.parametrize("operation", STAGES["operation"])
@pytest.mark.parametrize("precision", STAGES["precision"])
def test_each_operation_in_each_precision(operation: str, precision: str) -> None:
    """The types have 32 bits or differences of 35 bits, so float64 does not hold the products."""
    rng = np.random.default_rng(len(operation + precision))
    for number, x in enumerate(("int32", "float8_e5m2", "float8_e5m2fnuz", "int16", "uint8")):
        for final in STAGES["final"]:
            scale, out = SCALES[rng.integers(4)], OUTPUTS[rng.integers(3)]
            reading: Any = replace(Stepwise(), operation=operation, precision=precision, final=final)
            zero_point = x if number % 4 else "float8_e5m2" if x.startswith("float") else x
            compare(reading, triples(Types(x, zero_point, scale, out), 24, number))


@pytest.mark.parametrize("x", ["float8_e4m3fn", "float8_e5m2", "int4"])
def test_operands_of_different_types(x: str) -> None:
    rng = np.random.default_rng(len(x))
    others = ("uint4",) if x == "int4" else ("float8_e4m3fnuz", "float8_e5m2fnuz", "float4_e2m1fn", "float8_e5m2")
    for zero_point in others:
        for number in range(6):
            types = Types(x, zero_point, SCALES[number % 4], OUTPUTS[rng.integers(3)])
            compare(drawn_reading(rng), triples(types, 16, number))


@pytest.mark.parametrize("zero_point", FLOATS)
@pytest.mark.parametrize("x", ["int32", "uint8", "int2", "float8_e5m2"])
def test_readings_agree_with_exact_fractions_for_float_zero_points(x: str, zero_point: str) -> None:
    """Drawn compositions, and each option alone, with zero points of all kinds."""
    rng = np.random.default_rng(len(x + zero_point))
    for number in range(12):
        types = Types(x, zero_point, SCALES[rng.integers(4)], OUTPUTS[rng.integers(3)])
        compare(drawn_reading(rng, 0.6), triples(types, 16, number))
    for stage, options in STAGES.items():
        for number, option in enumerate(options):
            reading = replace(Stepwise(operation=STAGES["operation"][number % 5]), **{stage: option})
            compare(reading, triples(Types(x, zero_point, SCALES[number % 4], OUTPUTS[number % 3]), 12, number))


@pytest.mark.parametrize(("reading", "steps"), [(EXACT, ()), (FLOAT32, ("float32", "float32"))])
def test_admitted_readings_round_a_float_zero_point_as_documented(reading: Stepwise, steps: tuple[str, ...]) -> None:
    """EXACT rounds the whole formula once. FLOAT32 subtracts and multiplies in float32."""
    operands = triples(Types("uint4", "float32", "float32", "float32"), 400, 3)
    numbers = [[decode(dtype, int(code)) for code in operands.codes[role]] for role, dtype in operands.dtypes.items()]
    x, scale, zero_point = numbers
    difference, *_ = (*steps, None)
    for index, code in enumerate(reading.evaluate(operands)):
        value = exact.subtract(x[index], zero_point[index])
        value = value if difference is None else exact.rounded(difference, value)
        want = exact.round_to("float32", exact.multiply(value, scale[index]))
        assert int(code) == want or decode("float32", int(code)) == decode("float32", want) == "nan"


# -- pitfalls -------------------------------------------------------------------------------------------


def one(types: Types, x: int, zero_point: int, scale: float) -> Operands:
    """One triple of integers and a scale."""
    codes = {
        "x": encode(types.x, [x]),
        "zero_point": encode(types.zero_point, [zero_point]),
        "scale": encode(types.scale, [scale]),
    }
    dtypes = {"x": types.x, "zero_point": types.zero_point, "scale": types.scale}
    return Operands(codes, dtypes, types.out, (1,))


INT32 = Types("int32", "int32", "float32", "float32")


def test_a_fused_product_is_not_rounded() -> None:
    """For x = zero point, the result is the rounding error of zero point * scale in float32."""
    operands = one(INT32, 16777217, 16777217, 1.5)
    assert compare(Stepwise(operation="fused"), operands) == 1
    rest = Fraction(16777217) * Fraction(3, 2) - Fraction(exact.rounded("float32", Fraction(16777217) * Fraction(3, 2)))
    assert decode("float32", int(Stepwise(operation="fused").evaluate(operands)[0])) == rest != 0


@pytest.mark.parametrize("out", OUTPUTS)
def test_a_fused_product_in_float64_is_not_rounded(out: str) -> None:
    """A product of 31 and 24 bits does not fit in float64 either."""
    operands = one(replace(INT32, out=out), 1101521725, 1101521725, 1.0 + 2.0**-23)
    reading = Stepwise(operation="fused", precision="float64")
    assert exact_stages.by_stages(reading, triple_at(operands, 0)) != 0
    compare(reading, operands)


@pytest.mark.parametrize("precision", STAGES["precision"])
@pytest.mark.parametrize(("x", "zero_point", "scale"), [(-1, 1, 0.0), (1, -1, -0.0), (-3, 0, 0.0), (0, 5, -0.0)])
def test_the_sign_of_a_fused_zero(x: int, zero_point: int, scale: float, precision: Any) -> None:
    """-0 - (+0) is -0, by IEEE 754."""
    for operation in ("folded", "fused"):
        for out in OUTPUTS:
            types = Types("int8", "int8", "float32", out)
            compare(Stepwise(operation=operation, precision=precision), one(types, x, zero_point, scale))


@pytest.mark.parametrize(
    ("subtraction", "x", "zero_point", "difference"),
    [
        ("wrap-x", -128, 1, 127),
        ("wrap-x", 127, -128, -1),
        ("wrap-unsigned", -128, 1, 127),
        ("wrap-unsigned", 0, 1, 255),
        ("wrap-int32", -128, 127, -255),
        ("saturate-x", -128, 1, -128),
        ("saturate-x", 127, -1, 127),
        ("saturate-int32", 127, -128, 255),
        ("ignored", 5, 3, 5),
        ("operands-bfloat16", 127, -128, 255),
        ("exact", 127, -128, 255),
    ],
)
def test_differences_of_int8_by_hand(subtraction: Any, x: int, zero_point: int, difference: int) -> None:
    operands = one(Types("int8", "int8", "float32", "float32"), x, zero_point, 1.0)
    assert decode("float32", int(Stepwise(subtraction).evaluate(operands)[0])) == difference
    compare(Stepwise(subtraction), operands)


@pytest.mark.parametrize(
    ("subtraction", "difference"),
    [("wrap-int32", -(2**31)), ("saturate-int32", 2**31 - 1), ("exact", 2**31), ("operands-float16", "inf")],
)
def test_differences_of_int32_by_hand(subtraction: Any, difference: Any) -> None:
    operands = one(INT32, 2**31 - 1, -1, 1.0)
    want = exact.round_to("float32", Fraction(difference) if isinstance(difference, int) else difference)
    assert int(Stepwise(subtraction).evaluate(operands)[0]) == want


@pytest.mark.parametrize(
    ("options", "scale", "code"),
    [
        ({}, 2.0**-149, 0x00000003),
        ({"subnormals": "flush-results"}, 2.0**-149, 0x00000000),
        ({"subnormals": "flush-results"}, -(2.0**-149), 0x80000000),
        ({"subnormals": "flush-results", "zero": "unsigned"}, -(2.0**-149), 0x00000000),
        ({"subnormals": "flush-products"}, 2.0**-149, 0x00000003),
        ({"subnormals": "flush-products", "precision": "float32"}, 2.0**-149, 0x00000000),
        ({"subnormals": "flush-inputs"}, 2.0**-127, 0x00000000),
        ({"subnormals": "flush-results"}, 2.0**-127, 0x00C00000),
        ({"subnormals": "flush-all"}, 2.0**-127, 0x00000000),
        ({"operation": "divide"}, 2.0**-149, 0x7F800000),
        ({"operation": "divide", "final": "truncated"}, 2.0**-149, 0x7F7FFFFF),
        ({"operation": "divide", "final": "saturated"}, -(2.0**-149), 0xFF7FFFFF),
        ({"operation": "divide", "final": "saturated"}, 0.0, 0x7F7FFFFF),
        ({"operation": "divide", "final": "truncated"}, 0.0, 0x7F800000),
        ({"operation": "reciprocal", "precision": "float32", "final": "truncated"}, 2.0**-149, 0x7F800000),
        ({"operation": "divide"}, 3.0, 0x3F800000),
        ({"operation": "reciprocal"}, 3.0, 0x3F800000),
    ],
)
def test_ends_by_hand(options: dict[str, Any], scale: float, code: int) -> None:
    """3 times the scale or divided by it, in float32."""
    operands = one(Types("int8", "int8", "float32", "float32"), 3, 0, scale)
    assert int(Stepwise(**options).evaluate(operands)[0]) == code
    compare(Stepwise(**options), operands)


def test_the_stages_do_not_share_memory_with_the_operands() -> None:
    """An evaluation does not change its operands."""
    rng = np.random.default_rng(3)
    operands = triples(Types("int8", "int8", "float16", "float16"), 50, 1)
    before = {role: codes.copy() for role, codes in operands.codes.items()}
    for _ in range(50):
        drawn_reading(rng).evaluate(operands)
    assert all(np.array_equal(before[role], operands.codes[role]) for role in before)


def test_decoded_operands_have_no_zero_point_where_none_is_given() -> None:
    operands = triples(Types("float8_e5m2", "", "float32", "float32"), 4, 1)
    assert stages.decoded(operands).zero_point is None
    assert stages.decoded(operands).wide
    assert stages.decoded(triples(Types("float8_e5m2", "int16", "float32", "float32"), 4, 1)).wide
    assert not stages.decoded(triples(Types("float8_e4m3fn", "", "float32", "float32"), 4, 1)).wide


@pytest.mark.parametrize("x", ["int8", "uint8", "int16", "uint16", "int4", "uint4", "int2", "uint2"])
@pytest.mark.parametrize("has_zero_point", [False, True])
def test_one_operation_in_float32_is_exact_where_the_types_say_so(x: str, has_zero_point: bool) -> None:
    """The result equals that of the separate stages, and that of fractions."""
    operands = crossed(Types(x, x if has_zero_point else "", "float32", "float32"), 40, 3)
    assert stages.is_single(operands)
    decoded = stages.decoded(operands)
    product = stages.combined(decoded, stages.subtracted(decoded, "exact", "exact"), decoded.scale, "multiply", "once")
    expected = canonical(stages.finished(product, "float32", "nearest", "kept", "signed"), "float32")
    np.testing.assert_array_equal(canonical(stages.single(operands), "float32"), expected)
    assert compare(Stepwise(), operands, range(0, operands.shape[0], 7)) > 50


@pytest.mark.parametrize(
    ("x", "zero_point", "scale", "out"),
    [
        ("int32", "", "float32", "float32"), ("int8", "int32", "float32", "float32"), ("int8", "int8", "float16", "float32"),
        ("int8", "int8", "float32", "float16"), ("float8_e4m3fn", "", "float32", "float32"), ("int8", "", "bfloat16", "bfloat16"),
    ],
)  # fmt: skip
def test_elsewhere_one_operation_in_float32_is_not_taken(x: str, zero_point: str, scale: str, out: str) -> None:
    assert not stages.is_single(crossed(Types(x, zero_point, scale, out), 2, 0))


DIFFERENCE, SCALE = 1347502757, 16045357
"""Their product has 55 bits; rounded to float64 first it becomes another float32."""


@pytest.mark.parametrize(
    ("x_dtype", "zero_point_dtype", "x", "zero_point"),
    [
        ("int32", "", DIFFERENCE, 0),
        ("int32", "int32", DIFFERENCE - 100, -100),
        ("int32", "int32", DIFFERENCE, 0),
        ("int32", "int32", 0, -DIFFERENCE),
        ("uint8", "int32", 255, 255 - DIFFERENCE),
        ("int8", "int32", -1, -1 - DIFFERENCE),
    ],
)
def test_products_that_float64_does_not_hold(x_dtype: str, zero_point_dtype: str, x: int, zero_point: int) -> None:
    """A reading and the search both compute them."""
    numbers = {"x": (x_dtype, x), "zero_point": (zero_point_dtype, zero_point), "scale": ("float32", SCALE)}
    given = {role: (dtype, number) for role, (dtype, number) in numbers.items() if dtype}
    codes = {role: encode(dtype, np.array([number])) for role, (dtype, number) in given.items()}
    operands = Operands(codes, {role: dtype for role, (dtype, _) in given.items()}, "float32", (1,))
    assert compare(Stepwise(), operands) == compare(Stepwise(precision="float64"), operands) == 1
    once = Stepwise().evaluate(operands)
    assert once != Stepwise(precision="float64").evaluate(operands)
    for precision in ("float32", "once"):
        assert compare(Stepwise(precision=precision), operands) == 1
        assert compare(Stepwise(operation="folded", precision=precision), operands) == 1
    found = lattice.search(operands, once, (Stepwise(),), most=1)
    assert Stepwise() in found
    assert Stepwise(precision="float64") not in found


@pytest.mark.parametrize("x_dtype", ["int32", "float8_e5m2"])
def test_what_a_difference_is_rounded_to_does_not_matter_where_it_is_not_rounded(x_dtype: str) -> None:
    """A fused product has no difference, so no difference of few bits."""
    codes = {"x": encode(x_dtype, np.array([DIFFERENCE])), "scale": encode("float32", np.array([SCALE]))}
    operands = Operands(codes, {"x": x_dtype, "scale": "float32"}, "float32", (1,))
    for operation in ("folded", "fused"):
        for difference in ("float32", "output", "exact"):
            assert compare(Stepwise(operation=operation, difference=difference), operands) == 1


def test_a_fused_product_of_every_bit_of_an_int32() -> None:
    """Its two halves have exact products with a scale of 24 bits. A half of 31 bits would not."""
    numbers = np.array([2**31 - 1, -(2**31) + 1, DIFFERENCE, -DIFFERENCE, 0x55555555])
    scales = np.array([SCALE, 2.0**24 - 1, 2.0**24 - 3])
    x, scale, zero_point = (a.reshape(-1) for a in np.meshgrid(numbers, scales, np.array([0, 1, -3])))
    given = {"x": ("int32", x), "zero_point": ("int32", zero_point), "scale": ("float32", scale)}
    codes = {role: encode(dtype, listed) for role, (dtype, listed) in given.items()}
    operands = Operands(codes, {role: dtype for role, (dtype, _) in given.items()}, "float32", x.shape)
    for precision in ("once", "float32"):
        assert compare(Stepwise(operation="fused", precision=precision), operands) == 45


def test_a_result_that_passes_through_float32_is_rounded_twice() -> None:
    """7 times the scale is 1 + 2^-11 + 2^-25. float32 rounds that to halfway between two float16."""
    scale = encode("float32", np.array([4795831 * 2.0**-25]))
    operands = Operands(
        {"x": np.array([7], np.uint8), "scale": scale}, {"x": "uint8", "scale": "float32"}, "float16", (1,)
    )
    assert Stepwise().evaluate(operands).tolist() == [0x3C01]
    assert Stepwise(final="via-float32").evaluate(operands).tolist() == [0x3C00]
    assert compare(Stepwise(final="via-float32"), operands) == 1


def test_a_quotient_in_float32_is_rounded_there_before_it_is_cast() -> None:
    """20 / s is next to the midpoint of two float16, and float32 rounds it to that midpoint."""
    scale = encode("float32", np.array([float.fromhex("0x1.3aecee0p+4")]))
    operands = Operands(
        {"x": np.array([20], np.uint8), "scale": scale}, {"x": "uint8", "scale": "float32"}, "float16", (1,)
    )
    assert EXACT_QUOTIENT.evaluate(operands).tolist() == [15377]
    assert FLOAT32_QUOTIENT.evaluate(operands).tolist() == [15376]
    assert compare(EXACT_QUOTIENT, operands) == compare(FLOAT32_QUOTIENT, operands) == 1


def test_operands_are_broadcast_to_each_other() -> None:
    x, scale = np.arange(3, dtype=np.uint8), encode("float32", np.array([[2.0]]))
    for shape in ((1, 3), (2, 3)):
        scales = np.broadcast_to(scale, (shape[0], 1))
        operands = Operands({"x": x, "scale": scales}, {"x": "uint8", "scale": "float32"}, "float32", shape)
        expected = np.broadcast_to(encode("float32", np.array([0.0, 2.0, 4.0])), shape)
        np.testing.assert_array_equal(Stepwise().evaluate(operands), expected)
    assert x.tolist() == [0, 1, 2]
    for x_shape, scale_shape in (((2, 1), (1, 3)), ((2, 1), (3,)), ((3, 1), (1, 2)), ((1, 1), (3,)), ((2, 1), (2,))):
        column, row = (
            np.arange(np.prod(x_shape), dtype=np.uint8).reshape(x_shape),
            np.arange(np.prod(scale_shape)) + 1.0,
        )
        codes = {"x": column, "scale": encode("float32", row).reshape(scale_shape)}
        shape = np.broadcast_shapes(x_shape, scale_shape)
        given = Operands(codes, {"x": "uint8", "scale": "float32"}, "float32", shape)
        expected = encode("float32", column.astype(float) * row.reshape(scale_shape))
        np.testing.assert_array_equal(Stepwise().evaluate(given), expected)


def test_what_has_no_number_warns_of_nothing() -> None:
    infinite = encode("float32", np.array([np.inf, 3.4e38]))
    single = Operands(
        {"x": np.array([0, 200], np.uint8), "scale": infinite}, {"x": "uint8", "scale": "float32"}, "float32", (2,)
    )
    infinity = np.array([0x7C], np.uint8)
    types = {"x": "float8_e5m2", "zero_point": "float8_e5m2", "scale": "float32"}
    none = Operands({"x": infinity, "zero_point": infinity, "scale": infinite[:1]}, types, "float32", (1,))
    zero = Operands({"x": infinity * 0, "zero_point": infinity * 0, "scale": infinite[:1]}, types, "float32", (1,))
    with np.errstate(all="raise"):
        assert Stepwise().evaluate(single).view(np.float32).tolist()[1] == np.inf
        for operation in ("multiply", "divide", "reciprocal", "folded", "fused"):
            assert np.isnan(Stepwise(operation=operation).evaluate(none).view(np.float32)).all()
        for operation in ("multiply", "folded", "fused"):
            assert np.isnan(Stepwise(operation=operation).evaluate(zero).view(np.float32)).all()


def test_a_zero_point_and_its_product_are_cast_by_the_last_bit() -> None:
    """523 becomes 520, and 520 * 1.265625 = 658.125 becomes 656. The usual casts give 524 and 664."""
    codes = {role: np.array([number], np.int16).view(np.uint16) for role, number in (("x", 600), ("zero_point", 523))}
    types = {"x": "int16", "zero_point": "int16", "scale": "bfloat16"}
    operands = Operands({**codes, "scale": encode("bfloat16", np.array([1.265625]))}, types, "bfloat16", (1,))
    reading = Stepwise(operation="fused-last-bit", precision="float32", final="last-bit")
    assert exact.decode("bfloat16", int(reading.evaluate(operands)[0])) == 103
    assert compare(reading, operands) == 1


@pytest.mark.parametrize(
    ("operation", "scale", "zero_point", "due"),
    [
        ("fused-float16", -1.0, 0, 0x8000),  # 0 * -1, without a subtraction
        ("fused-float16-always", -1.0, 0, 0x0000),  # -0 - -0
        ("fused-float16", np.inf, 3, 0xFFFF),  # infinity - infinity
        ("fused-float16-always", 30000.0, 3, 0xFC00),  # 90000 is infinity in float16
    ],
)
def test_a_product_of_the_zero_point_is_cast_to_float16(
    operation: Any, scale: float, zero_point: int, due: int
) -> None:
    codes = {"x": np.array([0 if zero_point == 0 else 1], np.uint8), "zero_point": np.array([zero_point], np.uint8)}
    types = {"x": "uint8", "zero_point": "uint8", "scale": "float16"}
    operands = Operands({**codes, "scale": encode("float16", np.array([scale]))}, types, "float16", (1,))
    reading = Stepwise(operation=operation, precision="float32")
    assert canonical(reading.evaluate(operands), "float16").tolist() == [due]
    assert compare(reading, operands) == 1


@pytest.mark.parametrize(("operation", "scale_cast"), [("multiply", "last-bit"), ("fused-last-bit", "none")])
def test_a_cast_by_the_last_bit_keeps_infinity(operation: Any, scale_cast: Any) -> None:
    """With the largest float32 for infinity, 0 * infinity were 0, and infinity - infinity infinity."""
    codes = {"x": np.array([0, 2], np.int8).view(np.uint8), "zero_point": np.array([1, 1], np.int8).view(np.uint8)}
    types = {"x": "int8", "zero_point": "int8", "scale": "bfloat16"}
    if operation == "multiply":
        del codes["zero_point"], types["zero_point"]
    operands = Operands({**codes, "scale": encode("bfloat16", np.array([np.inf] * 2))}, types, "bfloat16", (2,))
    reading = Stepwise(scale_cast=scale_cast, operation=operation, precision="float32")
    infinite = 0xFFFF if operation == "fused-last-bit" else 0x7F80
    assert canonical(reading.evaluate(operands), "bfloat16").tolist() == [0xFFFF, infinite]
    assert compare(reading, operands) == 2


def test_operands_are_cast_by_the_last_bit() -> None:
    """600 stays, and 523 becomes 520: the difference is 80. The usual casts give 524 and 76."""
    codes = {role: np.array([number], np.int16).view(np.uint16) for role, number in (("x", 600), ("zero_point", 523))}
    types = {"x": "int16", "zero_point": "int16", "scale": "float32"}
    operands = Operands({**codes, "scale": encode("float32", np.array([0.5]))}, types, "float32", (1,))
    reading = Stepwise("cast-last-bit")
    assert exact.decode("float32", int(reading.evaluate(operands)[0])) == 40
    assert compare(reading, operands) == 1


def test_a_cast_by_the_last_bit_truncates_even_numbers_and_rounds_odd_ones() -> None:
    """The rest of a gap decides with an odd number only."""
    numbers = np.array([1 + 0.9 * 2**-7, 1 + 1.5 * 2**-7, 1 + 1.4 * 2**-7, np.inf])
    assert stages.finished(numbers, "bfloat16", "last-bit", "kept", "signed").tolist() == [
        0x3F80,
        0x3F82,
        0x3F81,
        0x7F80,
    ]
    assert stages.finished(numbers, "float16", "last-bit", "kept", "signed")[0] == 0x3C07
