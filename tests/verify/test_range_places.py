"""Values near 0 of a range formula are measured by the last places of the range."""

from __future__ import annotations

import numpy as np
import pytest

from xverify import contracts
from xverify.core.call import Call
from xverify.core.dtypes import tensor
from xverify.verify import verdicts
from xverify.verify.range_places import NO_NUMBER, farther, range_places

TENSORFLOW = "tensorflow/Dequantize@installed"


def places(
    given: list[float],
    low: float = -1.0,
    high: float = 1.0,
    mode: str = "MIN_COMBINED",
    codes: tuple[int, ...] = (0, 127),
) -> int:
    """Return the distance of given values from what uint8 codes in a range give."""
    operands = {
        "input": tensor("uint8", codes),
        "min_range": tensor("float32", low),
        "max_range": tensor("float32", high),
    }
    judged = verdicts.judge(contracts.get(TENSORFLOW), Call(TENSORFLOW, operands, {"mode": mode}))
    return range_places(judged, np.array(given, np.float32).view(np.uint32), np.array([False, True]))


def test_a_value_near_zero_is_few_places_of_the_range_away() -> None:
    due = np.float32(-1 + 127 * 2 / 255)
    assert abs(due) < 0.004
    assert places([-1.0, due + np.float32(2.0**-23)]) == 1
    assert places([-1.0, 0.0]) == pytest.approx(abs(due) * 2**23, abs=2)
    assert places([-1.0, -due]) > 1 << 15


def test_a_wrong_value_of_a_narrow_range_is_far_away() -> None:
    assert places([-1e-6, 1e-6], -1e-6, 1e-6) > 1 << 22


def test_what_is_no_sum_of_numbers_of_a_range_has_no_distance() -> None:
    assert places([-1.0, float("nan")]) == NO_NUMBER
    assert places([-1.0, float("inf")]) == NO_NUMBER
    assert places([0.0, 0.0], mode="SCALED") == NO_NUMBER
    onnx = "ai.onnx/DequantizeLinear-25"
    judged = verdicts.judge(
        contracts.get(onnx), Call(onnx, {"x": tensor("int8", [1]), "scale": tensor("float32", 0.5)})
    )
    assert range_places(judged, np.zeros(1, np.uint32), np.ones(1, np.bool_)) == NO_NUMBER


def test_no_number_is_farther_than_any_number() -> None:
    assert (farther(3, 5), farther(NO_NUMBER, 5), farther(5, NO_NUMBER)) == (5, NO_NUMBER, NO_NUMBER)
