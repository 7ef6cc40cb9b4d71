"""Check of a kernel's signature before the first call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from xverify import contracts
from xverify.gate.signature import expected
from xverify.oracles.python_target import LoadError
from xverify.oracles.signature import expected_in, require_signature

NEWEST = "ai.onnx/DequantizeLinear-25"


def right(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None): ...
def by_position(x, scale, zero_point=None, axis=1, block_size=0, out_dtype=None, more=()): ...
def any_keyword(x, scale, zero_point=None, **keywords): ...
def anything(*operands, **keywords): ...
def of_13(x, scale, zero_point=None, axis=1): ...
def of_10(x, scale, zero_point=None): ...
def without_defaults(x, scale, zero_point, *, axis, block_size=0, out_dtype=None): ...
def further(x, scale, zero_point=None, *, group, axis=1, block_size=0, out_dtype=None): ...
def one_operand(x, *, axis=1, block_size=0, out_dtype=None): ...
def misplaced(x, scale, axis=1, block_size=0, zero_point=None, out_dtype=None): ...
def onednn(src, scales, zps=None, *, qtype="per_tensor", axis=1): ...
def ranged(input, low, high, *, mode="MIN_COMBINED", narrow_range=False, axis=None, out_dtype=None): ...  # noqa: A002


class Instance:
    def __call__(self, x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None): ...
    def method(self, x, scale, zero_point=None, *, axis=1, block_size=0): ...


@functools.wraps(of_10)
def adapted(*operands, axis=1, block_size=0, out_dtype=None): ...


def check(function: Callable[..., Any], edition: str) -> None:
    require_signature(function, "k.py:f", expected_in(expected(contracts.get(edition)).text()))


@pytest.mark.parametrize(
    ("function", "edition"),
    [
        *((f, NEWEST) for f in (right, by_position, any_keyword, anything, Instance(), adapted, max)),
        (functools.partial(further, group=1), NEWEST),
        (of_13, "ai.onnx/DequantizeLinear-19"),
        (of_10, "ai.onnx/DequantizeLinear-10"),
        (onednn, "onednn/DynamicDequantize-1@multiply"),
        (ranged, "tensorflow/Dequantize@seed"),
    ],
)
def test_functions_that_take_every_call(function: Callable[..., Any], edition: str) -> None:
    check(function, edition)


@pytest.mark.parametrize(
    ("function", "edition", "words"),
    [
        (
            of_13,
            NEWEST,
            "add block_size=0, out_dtype=None to its parameters, .* without them: --contract ai.onnx/.*-19$",
        ),
        (
            of_10,
            "ai.onnx/DequantizeLinear-13",
            "add axis=1 to its parameters, .* without it: --contract ai.onnx/.*-10$",
        ),
        (Instance().method, NEWEST, "add out_dtype=None .*: --contract ai.onnx/DequantizeLinear-21$"),
        (of_10, "com.microsoft/DequantizeLinear-1@seed", "add axis=None to its parameters$"),
        (without_defaults, NEWEST, "write zero_point=None, because .*; write axis=1, because a call may have no axis$"),
        (further, NEWEST, "give a default to group, which no call has$"),
        (one_operand, NEWEST, "it takes 1 argument by position, and calls have x, scale, zero_point there"),
        (misplaced, NEWEST, "the parameter axis stands where a tensor comes: put it after x, scale, zero_point"),
    ],
)
def test_one_sentence_says_what_to_change(function: Callable[..., Any], edition: str, words: str) -> None:
    with pytest.raises(LoadError, match=f"k.py:f does not fit the calls of {edition}: .*{words}"):
        check(function, edition)


def test_functions_compiled_by_numba_show_the_signature_of_their_source() -> None:
    numba = pytest.importorskip("numba")
    check(numba.njit(right), NEWEST)
    with pytest.raises(LoadError, match="add axis=1"):
        check(numba.njit(of_10), NEWEST)
