"""Operands as a key of caches: only equal operands have equal keys."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from xverify.arithmetic.operand_key import operand_key
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
def test_other_operands_have_another_key(changes: dict[str, Any]) -> None:
    assert operand_key(replace(OPERANDS, **changes)) != operand_key(OPERANDS)


def test_equal_operands_have_equal_keys() -> None:
    """The order of the roles and the memory layout do not matter."""
    turned = np.asfortranarray(CODES["x"])
    again = replace(OPERANDS, codes={role: turned if role == "x" else CODES[role] for role in reversed(CODES)})
    assert operand_key(again) == operand_key(OPERANDS)


@pytest.mark.parametrize("reading", [EXACT, FLOAT32], ids=lambda reading: reading.name)
def test_a_key_stands_for_its_operands(reading: Any) -> None:
    operands = replace(OPERANDS, options={})
    codes = reading.evaluate(operand_key(operands).operands())
    np.testing.assert_array_equal(codes, reading.evaluate(operands), strict=True)
