"""Simplified readings: a proof removes stages, and no bit changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from linear_operands import MIXED, OUTPUTS, SCALES, STAGES, crossed, drawn_reading, drawn_types, triples

from xverify.arithmetic.reading import Operands
from xverify.arithmetic.readings import EXACT, FLOAT32, FLOAT32_QUOTIENT, OUTPUT, Stepwise
from xverify.arithmetic.simplify import Types, simplified, types_of
from xverify.core.bits import canonical
from xverify.core.call import BITS, code_dtype
from xverify.core.dtypes import FLOATS, QUANTIZED
from xverify.strategies import values


def rich(types: Types, seed: int) -> tuple[Operands, ...]:
    """Every special scale with several pairs, every recipe of scales, and all codes of small types."""
    return crossed(types, 16, seed), triples(types, 400, seed)


def check(reading: Stepwise, types: Types, operand_sets: tuple[Operands, ...]) -> bool:
    """Check that the simplified form gives the same bits. True if it is another reading."""
    simple = simplified(reading, types)
    if simple == reading:
        return False
    for operands in operand_sets:
        got, want = (canonical(each.evaluate(operands), types.out) for each in (simple, reading))
        if not np.array_equal(got, want):
            index = int(np.flatnonzero(got != want)[0])
            triple = {role: hex(codes[index]) for role, codes in operands.codes.items()}
            pytest.fail(
                f"{reading.name} is not {simple.name} for {types}: {triple} gives {want[index]:#x}, {got[index]:#x}"
            )
    return True


@pytest.mark.parametrize("seed", range(4))
def test_drawn_compositions(seed: int) -> None:
    rng, changed = np.random.default_rng(100 + seed), 0
    for number in range(35):
        types = drawn_types(rng)
        operand_sets = rich(types, 1000 * seed + number)
        changed += sum(check(drawn_reading(rng, rng.random()), types, operand_sets) for _ in range(10))
    assert changed > 150


@pytest.mark.parametrize(("x", "zero_point"), MIXED)
def test_operands_of_different_types(x: str, zero_point: str) -> None:
    """The types have 4 bits, 8 bits with 32, or are different kinds of float8."""
    rng, changed = np.random.default_rng(sum(map(ord, x + zero_point))), 0
    for number in range(4):
        types = Types(x, zero_point, SCALES[number], OUTPUTS[rng.integers(3)])
        operand_sets = rich(types, number)
        changed += sum(check(drawn_reading(rng, rng.random()), types, operand_sets) for _ in range(10))
    assert changed > 8


@pytest.mark.parametrize("zero_point", FLOATS)
@pytest.mark.parametrize("x", ["int32", "uint8", "int2", "float8_e5m2"])
def test_simplified_readings_give_the_same_bits_with_float_zero_points(x: str, zero_point: str) -> None:
    rng, changed = np.random.default_rng(len(x + zero_point)), 0
    for number in range(4):
        types = Types(x, zero_point, SCALES[number], OUTPUTS[rng.integers(3)])
        operand_sets = (crossed(types, 16, number), triples(types, 200, number))
        for _ in range(12):
            reading = drawn_reading(rng, rng.random())
            changed += check(reading, types, operand_sets)
            simple = simplified(reading, types)
            assert simplified(simple, types) == simple
    assert changed > 8


@pytest.mark.parametrize("out", OUTPUTS)
@pytest.mark.parametrize("scale", SCALES)
def test_single_stages_on_every_type(scale: str, out: str) -> None:
    """Readings that differ from an admitted one in one stage, which a search tries first."""
    rng = np.random.default_rng(len(scale + out))
    every = [
        replace(start, **{stage: option})
        for start in (EXACT, FLOAT32, FLOAT32_QUOTIENT, OUTPUT[3])
        for stage in STAGES
        for option in STAGES[stage]
    ]
    for number, x in enumerate(QUANTIZED):
        types = Types(x, x if number % 4 else "", scale, out)
        operand_sets = (crossed(types, 8, number),)
        for index in rng.choice(len(every), 12, replace=False).tolist():
            check(every[index], types, operand_sets)


@pytest.mark.parametrize("x", ["int2", "uint4", "float4_e2m1fn", "int4"])
def test_every_triple_of_small_types(x: str) -> None:
    """All pairs of codes, with every power of two that float8_e8m0fnu holds."""
    code, count = code_dtype(x), 1 << BITS[x]
    pairs = np.stack(np.meshgrid(np.arange(count), np.arange(count), np.arange(256), indexing="ij")).reshape(3, -1)
    codes = {"x": pairs[0].astype(code), "zero_point": pairs[1].astype(code), "scale": pairs[2].astype(np.uint8)}
    rng = np.random.default_rng(count)
    for number in range(8):
        types = Types(x, x, "float8_e8m0fnu", OUTPUTS[number % 3])
        dtypes = {"x": x, "zero_point": x, "scale": types.scale}
        check(drawn_reading(rng), types, (Operands(codes, dtypes, types.out, (pairs.shape[1],)),))


@pytest.mark.parametrize("scale", ["float16", "bfloat16", "float8_e8m0fnu"])
def test_every_scale_of_16_bits(scale: str) -> None:
    """Each code of the scale, with the ends of x and their neighbours."""
    scales = np.arange(1 << BITS[scale]).astype(code_dtype(scale))
    rng = np.random.default_rng(5)
    for number, x in enumerate(("int8", "uint16", "int32", "float8_e5m2")):
        for out in OUTPUTS:
            types = Types(x, x, scale, out)
            drawn = np.random.default_rng(number)
            pair = {role: values.data(x, scales.shape, drawn) for role in ("x", "zero_point")}
            operands = Operands({**pair, "scale": scales}, {"x": x, "zero_point": x, "scale": scale}, out, scales.shape)
            for _ in range(2):
                check(drawn_reading(rng), types, (operands,))


def test_a_simplified_form_is_its_own() -> None:
    """A second simplification changes nothing. Otherwise two equal readings could have two forms."""
    rng = np.random.default_rng(11)
    for _ in range(150):
        types = drawn_types(rng)
        for _ in range(25):
            reading = drawn_reading(rng, rng.random())
            simple = simplified(reading, types)
            again = simplified(simple, types)
            assert again == simple, f"{reading.name} for {types} is {simple.name}, and that is {again.name}"


@pytest.mark.parametrize("x", QUANTIZED)
def test_a_simplified_form_without_a_zero_point_is_its_own(x: str) -> None:
    rng = np.random.default_rng(12)
    for number in range(12):
        types = Types(x, "", SCALES[number % 4], OUTPUTS[number % 3])
        for _ in range(30):
            reading: Any = replace(drawn_reading(rng), subtraction=STAGES["subtraction"][1 + number % 5])
            simple = simplified(reading, types)
            assert simplified(simple, types) == simple, f"{reading.name} for {types} is {simple.name}"


@pytest.mark.parametrize(
    ("types", "reading", "simple"),
    [
        (Types("int8", "int8", "float32", "float32"), FLOAT32, EXACT),
        (Types("int8", "int8", "float32", "float16"), FLOAT32, Stepwise(precision="float32")),
        (Types("int32", "int32", "float32", "float32"), FLOAT32, Stepwise(difference="float32")),
        (Types("int8", "int8", "float16", "float16"), Stepwise(precision="float64"), EXACT),
        (Types("int8", "", "float16", "float16"), Stepwise("ignored"), EXACT),
        (Types("int8", "int8", "float32", "float32"), Stepwise("wrap-int32"), EXACT),
        (Types("int32", "int32", "float32", "float32"), Stepwise("wrap-x"), Stepwise("wrap-int32")),
        (Types("float8_e5m2", "float8_e5m2", "float32", "float32"), Stepwise("wrap-x"), EXACT),
        (Types("uint8", "uint8", "float32", "float32"), Stepwise("wrap-unsigned"), Stepwise("wrap-x")),
        (Types("int8", "", "float32", "float32"), Stepwise(operation="folded", precision="float64"), EXACT),
        (Types("uint8", "", "float8_e8m0fnu", "float32"), Stepwise(zero="unsigned"), EXACT),
    ],
)
def test_forms_by_hand(types: Types, reading: Stepwise, simple: Stepwise) -> None:
    assert simplified(reading, types) == simple


@pytest.mark.parametrize(
    ("types", "reading"),
    [
        (Types("int32", "int32", "float32", "float32"), FLOAT32),
        (Types("int16", "int16", "float32", "bfloat16"), OUTPUT[0]),
        (Types("int8", "int8", "float32", "float32"), Stepwise("wrap-x")),
        (Types("int8", "int8", "float32", "float32"), Stepwise("ignored")),
        (Types("int8", "int8", "float32", "float32"), Stepwise(zero="unsigned")),
        (Types("float8_e5m2", "float8_e5m2", "float32", "float32"), Stepwise(difference="float32")),
        (Types("int4", "int4", "float32", "float32"), Stepwise(operation="divide")),
        (Types("int4", "int4", "float32", "float32"), Stepwise(operation="reciprocal")),
        (Types("int4", "int4", "float32", "float32"), Stepwise(operation="fused")),
        (Types("int4", "int4", "float32", "float16"), Stepwise(subnormals="flush-results")),
        (Types("int4", "int4", "float32", "float16"), Stepwise(final="saturated")),
    ],
)
def test_what_matters_is_kept(types: Types, reading: Stepwise) -> None:
    """For some triple, the values differ from those of the exact reading."""
    assert simplified(reading, types) != simplified(EXACT, types)
    seen = (crossed(types, 64, 3), triples(types, 4000, 3))
    differing = [canonical(reading.evaluate(o), types.out) != canonical(EXACT.evaluate(o), types.out) for o in seen]
    assert any(each.any() for each in differing), f"{reading.name} for {types}"


def test_readings_have_the_simplified_form_of_their_operands() -> None:
    types = Types("int8", "int8", "float32", "float32")
    operands = triples(types, 3, 1)
    assert types_of(operands) == types
    assert FLOAT32.simplified(operands) == EXACT
    without = triples(replace(types, zero_point=""), 3, 1)
    assert types_of(without).zero_point == ""
