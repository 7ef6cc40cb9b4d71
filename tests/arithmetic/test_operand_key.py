"""Cached results of readings: they serve equal operands only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from xverify.arithmetic.operand_key import MOST_CACHED, evaluate_cached, operand_key
from xverify.arithmetic.reading import Codes, Operands
from xverify.arithmetic.readings import EXACT, FLOAT32

CODES = {
    "x": np.arange(12, dtype=np.uint8).reshape(3, 4),
    "scale": np.array([[0x3F80, 0x3F81, 0x4049, 0xC000]], np.uint16),
    "zero_point": np.array([[5]], np.uint8),
}
OPERANDS = Operands(
    CODES, {"x": "uint8", "scale": "bfloat16", "zero_point": "uint8"}, "float32", (3, 4), {"mode": "SCALED"}
)


class Counting:
    """A reading that counts how often it is evaluated."""

    name, words = "counting", "counts"

    def __init__(self) -> None:
        self.times = 0

    def evaluate(self, operands: Operands) -> Codes:
        self.times += 1
        return np.full(operands.shape, self.times, np.uint32)

    def simplified(self, operands: Operands) -> Counting:
        return self


def other_codes(**codes: Codes) -> dict[str, Codes]:
    return {**CODES, **codes}


OTHERS: dict[str, dict[str, Any]] = {
    "a code of x": {"codes": other_codes(x=CODES["x"] ^ np.uint8(1))},
    "a code of the scale": {"codes": other_codes(scale=CODES["scale"] ^ np.uint16(1))},
    "a zero point": {"codes": other_codes(zero_point=CODES["zero_point"] ^ np.uint8(1))},
    "no zero point": {"codes": {role: CODES[role] for role in ("x", "scale")}},
    "codes in another shape": {"codes": other_codes(x=CODES["x"].reshape(4, 3)), "shape": (4, 3)},
    "scales along another axis": {"codes": other_codes(scale=CODES["scale"].reshape(4, 1))},
    "another type of x": {"dtypes": {**OPERANDS.dtypes, "x": "int8"}},
    "another type of the scale": {"dtypes": {**OPERANDS.dtypes, "scale": "float16"}},
    "another output": {"output_dtype": "float16"},
    "another mode": {"options": {"mode": "MIN_FIRST"}},
    "another option": {"options": {"mode": "SCALED", "narrow_range": True}},
}


@pytest.mark.parametrize("changes", OTHERS.values(), ids=OTHERS.keys())
def test_other_operands_are_evaluated_anew(changes: dict[str, Any]) -> None:
    other, reading = replace(OPERANDS, **changes), Counting()
    assert operand_key(other) != operand_key(OPERANDS)
    assert [int(evaluate_cached(reading, operands).max()) for operands in (OPERANDS, other, OPERANDS)] == [1, 2, 1]


def test_equal_operands_are_evaluated_once() -> None:
    """The order of the roles and the memory layout do not matter."""
    turned = np.asfortranarray(CODES["x"])
    again = replace(OPERANDS, codes={role: turned if role == "x" else CODES[role] for role in reversed(CODES)})
    reading = Counting()
    assert operand_key(again) == operand_key(OPERANDS)
    assert [int(evaluate_cached(reading, operands).max()) for operands in (OPERANDS, again)] == [1, 1]
    assert evaluate_cached(Counting(), OPERANDS).max() == 1


@pytest.mark.parametrize("reading", [EXACT, FLOAT32], ids=lambda reading: reading.name)
def test_cached_codes_are_those_of_the_reading(reading: Any) -> None:
    operands = replace(OPERANDS, options={})
    for codes in (
        evaluate_cached(reading, operands),
        evaluate_cached(reading, operands),
        reading.evaluate(operand_key(operands).operands()),
    ):
        np.testing.assert_array_equal(codes, reading.evaluate(operands), strict=True)


def test_cached_codes_are_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        evaluate_cached(Counting(), OPERANDS)[0, 0] = 7


@pytest.mark.parametrize(("size", "times"), [(MOST_CACHED, 1), (MOST_CACHED + 1, 2)])
def test_large_operands_are_not_cached(size: int, times: int) -> None:
    codes = {"x": np.zeros(size, np.uint8), "scale": CODES["scale"][0, :1]}
    operands = Operands(codes, {"x": "uint8", "scale": "bfloat16"}, "float32", (size,))
    reading = Counting()
    for _ in range(2):
        evaluate_cached(reading, operands)
    assert reading.times == times
