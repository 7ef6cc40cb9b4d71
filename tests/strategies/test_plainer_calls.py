"""Candidates for plainer calls keep the shape, and shrinking reaches ordinary numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from xverify import contracts
from xverify.core.call import Call
from xverify.core.dtypes import decimal, tensor, values
from xverify.strategies.plainer import plainer_calls, plainness

ONNX = "ai.onnx/DequantizeLinear-25"


def call_of(x: str, x_value: float, scale: str, scale_value: float, zero_point: float, **attributes: int) -> Call:
    operands = {"x": tensor(x, x_value), "scale": tensor(scale, scale_value), "zero_point": tensor(x, zero_point)}
    return Call(ONNX, operands, attributes)


def plainest(call: Call, shows: Callable[[Call], bool]) -> Call:
    """Shrink as `xverify.verify.shrink` does."""
    contract = contracts.get(ONNX)
    for candidates in plainer_calls(call):
        allowed = (each for each in candidates(call) if contract.judge(each).verdict == "allowed")
        call = next((each for each in allowed if plainness(each) < plainness(call) and shows(each)), call)
    return call


def number(call: Call, role: str) -> float:
    return float(values(call.tensors[role].dtype, call.tensors[role].codes).item())


def wraps(call: Call) -> bool:
    return number(call, "x") < number(call, "zero_point")


def is_negative_scale(call: Call) -> bool:
    return number(call, "scale") < 0


def rounds(call: Call) -> bool:
    x, scale, zero_point = (np.float32(number(call, role)) for role in ("x", "scale", "zero_point"))
    return bool(x * scale - zero_point * scale != (x - zero_point) * scale)


@pytest.mark.parametrize(
    ("call", "shows", "expected"),
    [
        (call_of("int16", 4711, "float16", 3.139, 4712, axis=0), wraps, ("uint8", "float32", "1", "0.5", "2")),
        (call_of("int32", 77, "bfloat16", -0.3333, 0), is_negative_scale, ("uint8", "float32", "1", "-0.3", "0")),
        (call_of("int8", 89, "float32", 167.53374, 123), rounds, None),
    ],
)
def test_the_plainest_call_has_common_types_and_short_numbers(
    call: Call, shows: Callable[[Call], bool], expected: tuple[str, ...] | None
) -> None:
    assert shows(call)
    plain = plainest(call, shows)
    assert shows(plain)
    assert not plain.attributes
    numbers = [
        decimal(plain.tensors[role].dtype, int(plain.tensors[role].codes)) for role in ("x", "scale", "zero_point")
    ]
    if expected is not None:
        assert (plain.data.dtype, plain.tensors["scale"].dtype, *numbers) == expected
    assert all(len(each) <= 4 for each in numbers), numbers


def test_candidates_keep_the_shape_and_the_layout() -> None:
    x, scale = tensor("int4", [[1, -2, 3]], "strided"), tensor("float16", [[1.5, 2.25, 0.1]])
    call = Call(ONNX, {"x": x, "scale": scale}, {"axis": 0, "block_size": 1})
    for candidates in plainer_calls(call):
        for candidate in candidates(call):
            assert {role: t.shape for role, t in candidate.tensors.items()} == {"x": (1, 3), "scale": (1, 3)}
            assert candidate.tensors["x"].layout == "strided"


def test_a_range_becomes_a_plain_one() -> None:
    ends = {"min_range": tensor("float32", -0.4282484), "max_range": tensor("float32", 26.33672)}
    call = Call("tensorflow/Dequantize@installed", {"input": tensor("uint8", 89), **ends})
    (candidates,) = list(plainer_calls(call))[1:]
    below_zero = next(each for each in candidates(call) if number(each, "min_range") < 0)
    assert (number(below_zero, "min_range"), number(below_zero, "max_range")) == (-1, 1)
    assert plainness(below_zero) < plainness(call)


@pytest.mark.parametrize(("needs_negative", "axis"), [(True, -2), (False, 0)])
def test_an_axis_is_counted_from_the_front_unless_the_fault_needs_it(needs_negative: bool, axis: int) -> None:
    call = Call(ONNX, {"x": tensor("int8", [[1], [2]]), "scale": tensor("float32", [0.5, 0.5])}, {"axis": -2})
    shrunk = plainest(call, lambda each: int(each.attributes.get("axis", 1)) in ((-2,) if needs_negative else (-2, 0)))
    assert shrunk.attributes == {"axis": axis}
