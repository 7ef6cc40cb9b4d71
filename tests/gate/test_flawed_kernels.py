"""The flawed kernels exist, cite their reports, and differ from the right ones."""

from __future__ import annotations

import importlib
import os
import re
import signal

import numpy as np
import pytest
from flawed_kernels.demonstrations import demonstrations, large_demonstrations
from flawed_kernels.table import FLAWED, SOUND, Flawed
from folders import FLAWED_KERNELS

VERDICTS = {
    "violation", "mixed", "wrongly-accepted", "wrongly-rejected", "crash", "hang", "nondeterministic", "memory",
}  # fmt: skip
OF_CONTRACT = {kernel.contract: kernel for kernel in SOUND if kernel.target.startswith("sound.py:")}
BY_NAME = {kernel.name: kernel for kernel in FLAWED}
SHOWN = demonstrations()
SHOWN_LARGE = large_demonstrations()
SHOWN_BY_MEMORY_OR_END = {
    "scales_of_first_call", "input_used_as_scratch", "scales_inverted_in_place", "output_buffer_kept",
    "output_in_shared_pool", "output_in_donated_input", "scratch_shared_by_threads", "tail_of_output_uninitialised",
    "block_size_0_never_ends", "several_ranges_abort",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _siblings_are_found(monkeypatch):
    monkeypatch.syspath_prepend(str(FLAWED_KERNELS))


def function_of(kernel):
    file, _, name = kernel.target.partition(":")
    return getattr(importlib.import_module(file.removesuffix(".py")), name)


def outcome(function, operands, attributes):
    """Return type, shape and bits of the result, with one NaN for all, or "refused"."""
    try:
        result = np.asarray(function(*operands, **attributes))
    except Exception:
        return "refused"
    return result.dtype.name, result.shape, np.where(np.isnan(result), result.dtype.type("nan"), result).tobytes()


def array_copies(operands):
    return tuple(np.array(operand, order="K", copy=True) for operand in operands)


def test_there_are_enough_and_each_cites_a_report():
    assert len(FLAWED) == len(BY_NAME)
    assert len({kernel.source for kernel in FLAWED}) >= 60
    assert sum(kernel.native for kernel in FLAWED) >= 12
    for kernel in FLAWED:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", kernel.source), kernel.name
        assert kernel.what.endswith("."), kernel.name
        assert kernel.expected, kernel.name
        assert kernel.expected <= VERDICTS, kernel.name


def test_every_python_kernel_is_shown_to_be_flawed_once():
    assert SHOWN.keys() | SHOWN_LARGE.keys() | SHOWN_BY_MEMORY_OR_END == {
        kernel.name for kernel in FLAWED if not kernel.native
    }
    assert not (SHOWN.keys() | SHOWN_LARGE.keys()) & SHOWN_BY_MEMORY_OR_END


@pytest.mark.parametrize("kernel", [BY_NAME[name] for name in (*SHOWN, *SHOWN_LARGE)], ids=lambda k: k.name)
def test_a_flawed_kernel_differs_from_the_sound_one(kernel: Flawed):
    flawed, sound = function_of(kernel), function_of(OF_CONTRACT[kernel.contract])
    operands, attributes = SHOWN.get(kernel.name) or SHOWN_LARGE[kernel.name]
    operands = tuple(np.asarray(operand) for operand in operands)  # a copy would have other strides
    assert outcome(flawed, operands, attributes) != outcome(sound, operands, attributes)


@pytest.mark.parametrize("kernel", [BY_NAME[name] for name in SHOWN], ids=lambda k: k.name)
def test_a_flawed_kernel_is_right_elsewhere(kernel: Flawed):
    flawed, sound = function_of(kernel), function_of(OF_CONTRACT[kernel.contract])
    calls = [
        (array_copies(operands), attributes)
        for name, (operands, attributes) in SHOWN.items()
        if name != kernel.name and BY_NAME[name].contract == kernel.contract
    ]
    agreements = sum(outcome(flawed, *call) == outcome(sound, *call) for call in calls)
    assert agreements >= 0.4 * len(calls), f"{agreements} of {len(calls)}"


X, Y = np.array([1, -2, 3], np.int8), np.array([9, 8, 7], np.int8)
SCALE, ZERO_POINT = np.array(0.5, np.float32), np.array(4, np.int8)


@pytest.mark.parametrize("name", ["input_used_as_scratch", "scales_inverted_in_place"])
def test_inputs_are_written(name):
    operands = (X.copy(), SCALE.copy().reshape(-1 if name.startswith("scales") else ()), ZERO_POINT.copy())
    operands = (*operands[:2], operands[2].reshape(operands[1].shape))
    before = [operand.tobytes() for operand in operands]
    function_of(BY_NAME[name])(*operands)
    assert [operand.tobytes() for operand in operands] != before


@pytest.mark.parametrize("name", ["output_buffer_kept", "output_in_shared_pool"])
def test_results_change_with_a_later_call(name):
    function = function_of(BY_NAME[name])
    first = function(X, SCALE)
    before = first.tobytes()
    function(Y, SCALE)
    assert first.tobytes() != before


def test_a_result_lies_in_its_input():
    x = np.arange(3, dtype=np.int32)
    assert np.shares_memory(function_of(BY_NAME["output_in_donated_input"])(x, SCALE), x)


def test_scales_of_an_earlier_call_are_used():
    function = function_of(BY_NAME["scales_of_first_call"])
    first, second = function(X, np.float32([0.5])), function(X, np.float32([2.0]))
    assert first.tobytes() == second.tobytes()


def test_scratch_memory_is_shared(monkeypatch):
    function = function_of(BY_NAME["scratch_shared_by_threads"])
    alone = function(X, SCALE).tobytes()
    other_thread = iter([lambda: function(Y, SCALE), lambda: None])
    monkeypatch.setattr("memory.time.sleep", lambda seconds: next(other_thread)())
    assert function(X, SCALE).tobytes() != alone


def test_some_output_is_never_written(monkeypatch):
    sound = function_of(OF_CONTRACT[BY_NAME["tail_of_output_uninitialised"].contract])
    expected = sound(X, SCALE).tobytes()
    monkeypatch.setattr(np, "empty", lambda shape, dtype=float: np.full(shape, 77, dtype))
    assert function_of(BY_NAME["tail_of_output_uninitialised"])(X, SCALE).tobytes() != expected


def test_a_call_never_ends():
    def alarm(number, frame):
        raise TimeoutError

    function = function_of(BY_NAME["block_size_0_never_ends"])
    previous = signal.signal(signal.SIGALRM, alarm)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(TimeoutError):
            function(np.zeros((2, 4), np.int8), np.ones((2, 2), np.float32))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def test_a_call_aborts(monkeypatch):
    def abort():
        raise SystemExit

    monkeypatch.setattr(os, "abort", abort)
    with pytest.raises(SystemExit):
        function_of(BY_NAME["several_ranges_abort"])(X, np.float32([-1, -2]), np.float32([1, 2]))
