"""Readings of ranges at ties, very close to ties, at special ends and with narrow_range."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from typing import Any

import exact
import numpy as np
import pytest
from range_operands import DTYPES, RANGES, codes_of

from xverify.arithmetic.range_readings import MIN_COMBINED, MIN_FIRST, SCALED_FLOAT, SCALED_SYMMETRIC
from xverify.arithmetic.reading import Operands
from xverify.core.dtypes import encode

OUTPUTS = ("float32", "bfloat16")
LINEAR_IN_X = (*MIN_COMBINED, *MIN_FIRST)
SCALED = (*SCALED_SYMMETRIC, *SCALED_FLOAT)
decode = cache(exact.decode)
Triple = tuple[int, float, float]


def operands_of(dtype: str, triples: Iterable[Triple], out: str, narrow_range: bool | None = False) -> Operands:
    """Operands of a range call. narrow_range: None leaves the attribute out."""
    x, low, high = (np.array(column) for column in zip(*triples, strict=True))
    codes = {"input": encode(dtype, x), "min_range": encode("float32", low), "max_range": encode("float32", high)}
    types = {"input": dtype, "min_range": "float32", "max_range": "float32"}
    return Operands(codes, types, out, x.shape, {} if narrow_range is None else {"narrow_range": narrow_range})


def check(readings: Iterable[Any], operands: Operands) -> None:
    """Compare every value of every reading with fractions."""
    dtype, out = operands.dtypes["input"], operands.output_dtype
    x, low, high = (operands.codes[role] for role in ("input", "min_range", "max_range"))
    narrow_range = bool(operands.options.get("narrow_range", False))
    with np.errstate(all="raise"):
        results = [(reading.name, reading.evaluate(operands)) for reading in readings]
    for name, codes in results:
        assert codes.shape == operands.shape
        for index, got in enumerate(codes.tolist()):
            ends = (decode("float32", int(side[index])) for side in (low, high))
            element = exact.Ranged(dtype, decode(dtype, int(x[index])), *ends, narrow_range, out)
            want = exact.RANGED[name](element)
            assert got == want or decode(out, got) == decode(out, want) == "nan", (
                f"{name}: {got:#x} {want:#x} {element}"
            )


# -- beside the middle of two outputs ---------------------------------------------------------------------


def in_doubt(dtype: str, reading: Any, operands: Operands) -> int:
    """The number of results that float64 alone would round to another code."""
    x = np.array([int(decode(dtype, int(code))) for code in operands.codes["input"]], np.float64)
    low, high = (operands.codes[role].view(np.float32).astype(np.float64) for role in ("min_range", "max_range"))
    if reading is MIN_COMBINED[0]:
        levels = float((1 << int(dtype.lstrip("uint"))) - 1)
        estimate = low + (x + 128 * (dtype == "int8")) * (high - low) / levels
    else:
        largest = np.maximum(np.abs(low), np.abs(high))
        bits = int(dtype.lstrip("uint"))
        estimate = x * (largest / ((1 << (bits - 1)) - 1 if dtype.startswith("int") else (1 << bits) - 1))
    return int((encode(operands.output_dtype, estimate) != reading.evaluate(operands)).sum())


def test_just_beside_the_middle_of_two_float32() -> None:
    """With R = 2^32 - 1 and a range of 1, 256 steps are 2^-24 + 2^-56: half a unit of 1.0 and a lost bit."""
    triples = [
        (sign * steps, low * 2.0**power, high * 2.0**power)
        for steps in (0, 1, 64, 127, 128, 129, 255, 256, 257, 384, 512, 640, 768, 896, 1024, 3 << 7, 5 << 7, 1 << 15)
        for sign in (1, -1)
        for low, high in ((1.0, 2.0), (-2.0, -1.0), (1.0, 3.0), (3.0, 4.0), (-1.0, 0.0))
        for power in (0, -60, 100)
    ]
    operands = operands_of("int32", triples, "float32")
    check(LINEAR_IN_X, operands)
    assert in_doubt("int32", MIN_COMBINED[0], operands) > 20


def test_on_the_middle_of_two_float32() -> None:
    """One step of uint8 is 1 here. Beyond 2^24, float32 holds every second integer only."""
    triples = [(x, 2.0**24 - 253, 2.0**24 + 2) for x in range(0, 256, 3)] + [
        (x, -(2.0**24) - 2, 253 - 2.0**24) for x in range(0, 256, 3)
    ]
    check(LINEAR_IN_X, operands_of("uint8", triples, "float32"))
    check(LINEAR_IN_X, operands_of("int8", [(x - 128, low, high) for x, low, high in triples], "float32"))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16"])
def test_just_beside_the_middle_of_two_bfloat16(dtype: str) -> None:
    """From 256 on, 3 x has nine bits, one more than a bfloat16. A tiny end decides the side of the tie."""
    levels = (1 << int(dtype.lstrip("uint"))) - 1
    triples = [
        (x - 128 * (dtype == "int8"), low, 3.0 * levels * scale)
        for x in (0, 1, 85, 86, 87, 89, 91, 125, 127, 129, 141, 200, 254)
        for low in (0.0, 2.0**-70, -(2.0**-70), 2.0**-30, -(2.0**-30), -(2.0**-149))
        for scale in (1.0, 2.0**20, 2.0**-9)
    ]
    operands = operands_of(dtype, triples, "bfloat16")
    check((*LINEAR_IN_X, *SCALED), operands)
    assert in_doubt(dtype, MIN_COMBINED[0], operands) > 5


def test_products_just_beside_the_middle_of_two_float32() -> None:
    """If M = 2^31 - 1, 2 x m = Q M +- 1 and Q is odd with 25 bits, x m / M is 2^-55 beside a midpoint."""
    most, rng, triples = 2**31 - 1, np.random.default_rng(1), []
    while len(triples) < 60:
        m, beside = 2 * int(rng.integers(2**22, 2**23)) + 1, int(rng.choice((-1, 1)))
        x = beside * pow(2 * m, -1, most) % most
        quotient = (2 * x * m - beside) // most
        if 2**24 < quotient < 2**25 and quotient % 2:
            triples.append((int(rng.choice((-1, 1))) * x, -float(m) if m % 4 == 1 else 0.0, float(m)))
    operands = operands_of("int32", triples, "float32")
    check(SCALED, operands)
    assert in_doubt("int32", SCALED_SYMMETRIC[0], operands) > 10


def test_products_of_int32_just_beside_the_middle_of_two_float32() -> None:
    """A product of 24 and 31 bits whose lowest 31 bits are 2^30 +- 1. float64 keeps 53 of its 55 bits."""
    rng, triples = np.random.default_rng(5), []
    while len(triples) < 60:
        m, beside = 2 * int(rng.integers(2**22, 2**23)) + 1, int(rng.choice((-1, 1)))
        x = (2**30 + beside) * pow(m, -1, 2**31) % 2**31
        if x * m >= 2**54:
            power = int(rng.integers(-60, 60))
            triples.append((int(rng.choice((-1, 1))) * x, 0.0, math.ldexp(m, power)))
    operands = operands_of("int32", triples, "float32")
    check(SCALED, operands)
    x, _, high = (np.array(column, np.float64) for column in zip(*triples, strict=True))
    doubtful = encode("float32", x * (high / 2.0**31)) != SCALED_FLOAT[0].evaluate(operands)
    assert doubtful.sum() > 10


def test_subnormal_factors_on_the_middle_of_two_float32() -> None:
    """An odd multiple of 2^-119 divided by 2^31, to which float32 rounds 2^31 - 1."""
    ends = [(2 * k + 1) * 2.0**-119 for k in (0, 1, 2, 3, 4, 6, 100, 2**20)]
    triples = [(x, *end) for x in (1, 3, -5, 2**30) for high in ends for end in ((0.0, high), (-high, 0.0))]
    for narrow_range in (False, True):
        check(SCALED, operands_of("int32", triples, "float32", narrow_range))


def test_ranges_from_zero_just_beside_the_middle_of_two_float32() -> None:
    """R = 2^32 - 1, 2^k x max = Q R +- 1, and Q is an odd number of 25 bits."""
    levels, rng, triples = 2**32 - 1, np.random.default_rng(2), []
    while len(triples) < 60:
        high, power = int(rng.integers(2**23, 2**24)), int(rng.integers(1, 5))
        if math.gcd(high, levels) > 1:
            continue
        beside = int(rng.choice((-1, 1)))
        x = beside * pow(high << power, -1, levels) % levels
        quotient = ((x * high << power) - beside) // levels
        if x < 2**31 and 2**24 < quotient < 2**25 and quotient % 2:
            triples.append((x, 0.0, float(high)))
    operands = operands_of("int32", triples, "float32")
    check(LINEAR_IN_X, operands)
    assert in_doubt("int32", MIN_COMBINED[0], operands) > 10


def test_results_of_twice_min_just_beside_the_middle_of_two_float32() -> None:
    """x (max - min) = w R +- 1, w is about as large as min, and min + w is odd with 25 bits."""
    levels, rng, triples = 2**32 - 1, np.random.default_rng(3), []
    while len(triples) < 60:
        span, beside = int(rng.integers(2**24, 2**26 - 2**24)), int(rng.choice((-1, 1)))
        if math.gcd(span, levels) > 1:
            continue
        x = beside * pow(span, -1, levels) % levels
        whole = (x * span - beside) // levels
        low = next((whole + odd for odd in (-3, -1, 1, 3) if (whole + odd + span) % 4 == 0), 0)
        if x < 2**31 and 0 < low < 2**24 < low + whole < 2**25:
            triples.append((x, float(low), float(low + span)))
    operands = operands_of("int32", triples, "float32")
    assert (encode("float32", np.array([high for *_, high in triples])) == operands.codes["max_range"]).all()
    check(LINEAR_IN_X, operands)
    assert in_doubt("int32", MIN_COMBINED[0], operands) > 10
    first = triples[:1]
    scalar = operands_of("int32", first, "float32")
    codes = {role: listed.reshape(()) for role, listed in scalar.codes.items()}
    for reading in LINEAR_IN_X:
        alone = reading.evaluate(Operands(codes, scalar.dtypes, "float32", (), {}))
        assert alone.shape == ()
        assert alone == reading.evaluate(scalar)[0]


# -- ends of every kind -----------------------------------------------------------------------------------


@pytest.mark.parametrize("narrow_range", [None, False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_range_with_and_without_narrow_range(dtype: str, narrow_range: bool | None) -> None:
    """Without the attribute, only bfloat16: an attribute left out is False, from the same code."""
    rng = np.random.default_rng(4)
    x = [int(decode(dtype, int(code))) for code in rng.choice(codes_of(dtype, 64, rng), 4, replace=False)]
    zeros = ((0.0, -1.0), (-0.0, -1.0), (-0.0, 0.0), (0.0, -0.0), (-0.0, 1.0), (1.0, -0.0), (-1.0, 0.0))
    lowest = 0 if dtype.startswith("u") else -(1 << (int(dtype.lstrip("uint")) - 1))
    triples = [(code, low, high) for code in (lowest, 0, lowest + 1, *x) for low, high in (*RANGES, *zeros)]
    for out in OUTPUTS[narrow_range is None :]:
        check((*LINEAR_IN_X, *SCALED), operands_of(dtype, triples, out, narrow_range))


@pytest.mark.parametrize("out", OUTPUTS)
def test_ends_that_are_not_finite(out: str) -> None:
    """Such ends give IEEE 754's results without a warning, and other elements of the call do not change."""
    inf, nan = np.inf, np.nan
    triples = [
        (3, 0.0, 6.0),
        (0, 0.0, inf),
        (3, 0.0, inf),
        (3, -inf, 1.0),
        (3, -inf, inf),
        (3, nan, 1.0),
        (3, 0.0, nan),
    ]
    operands = operands_of("uint8", triples, out)
    expected = {"MIN": ("nan", "inf", "nan", "nan", "nan", "nan"), "SCALED": ("nan", "inf", "inf", "inf", "nan", "nan")}
    expected["HIGH"] = ("nan", "inf", None, "inf", None, "nan")  # the factor of an unsigned type is of max only
    for kind, readings in (("MIN", LINEAR_IN_X), ("SCALED", SCALED_SYMMETRIC), ("HIGH", SCALED_FLOAT)):
        for reading in readings:
            with np.errstate(all="raise"):
                codes = reading.evaluate(operands)
            got = [decode(out, int(code)) for code in codes]
            assert codes[0] == reading.evaluate(operands_of("uint8", triples[:1], out))[0]
            assert [g for g, d in zip(got[1:], expected[kind], strict=True) if d] == [d for d in expected[kind] if d], (
                reading.name
            )


def test_names_and_words() -> None:
    each = "each step in"
    assert {reading.name: reading.words for reading in (*LINEAR_IN_X, *SCALED)} == {
        "min-combined-exact": "rounds the exact value of min + in * range / R once",
        "min-combined-float32-product-first": f"computes min + (in * range) / R, {each} float32",
        "min-combined-float32-factor-first": f"computes min + in * (range / R), {each} float32",
        "min-combined-float64-product-first": f"computes min + (in * range) / R, {each} float64",
        "min-combined-float64-factor-first": f"computes min + in * (range / R), {each} float64",
        "min-first-float64": "computes MIN_FIRST's formula in float64 and casts the result once",
        "min-first-float32": "computes MIN_FIRST's formula in float32 and casts the result once",
        "min-first-exact": "rounds the exact value of MIN_FIRST's formula once",
        "scaled-symmetric-exact": "scales by 2 max(|min|, |max|) / (max_fixed - min_fixed), rounds the exact product once",
        "scaled-symmetric-float32": f"scales by 2 max(|min|, |max|) / (max_fixed - min_fixed), {each} float32",
        "scaled-symmetric-float64": f"scales by 2 max(|min|, |max|) / (max_fixed - min_fixed), {each} float64",
        "scaled-float32-factor": "takes the scale factor in float32, rounds the product once",
        "scaled-float32": "takes the scale factor in float32, rounds the input to float32 and multiplies there",
    }
