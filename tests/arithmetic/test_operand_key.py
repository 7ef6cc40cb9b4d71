"""What is remembered of a reading is for the operands that it was asked for, and for no others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from xverify.arithmetic.operand_key import FEW, asked, given
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
def test_other_operands_are_asked_anew(changes: dict[str, Any]) -> None:
    other, reading = replace(OPERANDS, **changes), Counting()
    assert asked(other) != asked(OPERANDS)
    assert [int(given(reading, operands).max()) for operands in (OPERANDS, other, OPERANDS)] == [1, 2, 1]


def test_the_same_operands_are_asked_once() -> None:
    """In whatever order they are named, and wherever they lie."""
    turned = np.asfortranarray(CODES["x"])
    again = replace(OPERANDS, codes={role: turned if role == "x" else CODES[role] for role in reversed(CODES)})
    reading = Counting()
    assert asked(again) == asked(OPERANDS)
    assert [int(given(reading, operands).max()) for operands in (OPERANDS, again)] == [1, 1]
    assert given(Counting(), OPERANDS).max() == 1


@pytest.mark.parametrize("reading", [EXACT, FLOAT32], ids=lambda reading: reading.name)
def test_what_is_remembered_is_what_the_reading_gives(reading: Any) -> None:
    operands = replace(OPERANDS, options={})
    for found in (given(reading, operands), given(reading, operands), reading.evaluate(asked(operands).operands())):
        np.testing.assert_array_equal(found, reading.evaluate(operands), strict=True)


def test_what_is_remembered_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        given(Counting(), OPERANDS)[0, 0] = 7


@pytest.mark.parametrize(("size", "times"), [(FEW, 1), (FEW + 1, 2)])
def test_many_values_are_not_remembered(size: int, times: int) -> None:
    codes = {"x": np.zeros(size, np.uint8), "scale": CODES["scale"][0, :1]}
    operands = Operands(codes, {"x": "uint8", "scale": "bfloat16"}, "float32", (size,))
    reading = Counting()
    for _ in range(2):
        given(reading, operands)
    assert reading.times == times
