"""The largest calls of a gate: their sizes, and when a kernel gets none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from xverify import contracts
from xverify.engine import select
from xverify.engine.gate_plan import Scope
from xverify.gate import largest
from xverify.gate.options import GateOptions
from xverify.strategies.large import STEPS
from xverify.workers.case import Case

CONTRACT = contracts.get("ai.onnx/DequantizeLinear-25")
SCOPE = Scope(replace(CONTRACT.domain, x_dtypes=("int8",)))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that moves by a number of seconds for each element. It notes the calls that were sent."""
    clock = SimpleNamespace(now=0.0, seconds=0.0, calls=[], answers=True)

    def ask(run: Any, streams: dict[str, Iterator[list[Case]]], *_: Any, **__: Any) -> bool:
        for cases in streams[CONTRACT.id]:
            for case in cases:
                clock.calls.append(case.call)
                clock.now += clock.seconds * case.call.values
        return bool(clock.answers)

    monkeypatch.setattr(largest, "STEPS", STEPS)
    monkeypatch.setattr(largest, "ask", ask)
    monkeypatch.setattr(largest.time, "monotonic", lambda: clock.now)
    return clock


def sizes(clock: SimpleNamespace, *, faulty: bool = False, over: bool = False, memory: int = 4 << 30) -> list[int]:
    """The number of elements of each call that a gate of 60 s sends."""
    options = GateOptions(
        kernel=select.kernel_under_test("xverify-numpy"), contracts=(CONTRACT,), directory=Path(), run_id="", command="",
        budget=60.0,
    )  # fmt: skip
    options = replace(options, limits=replace(options.limits, memory=memory))
    run: Any = SimpleNamespace(fault_seen=faulty)
    clock.calls.clear()
    largest.ask_for_largest(run, options, CONTRACT, SCOPE, lambda: over)
    return [call.values for call in clock.calls]


def test_the_last_call_has_more_elements_than_float32_counts(clock: SimpleNamespace) -> None:
    made = sizes(clock)
    assert len(made) == len(STEPS)
    assert made == sorted(made)
    assert made[-1] > 1 << 24
    assert {CONTRACT.judge(call).verdict for call in clock.calls} == {"allowed"}


def test_a_slow_kernel_gets_only_what_it_can_answer_in_time(clock: SimpleNamespace) -> None:
    clock.seconds = 1e-6
    assert [size > 1 << 24 for size in sizes(clock)] == [False, False], "16 s are more than half of a call's limit"
    clock.seconds = 1e-5
    assert len(sizes(clock)) == 1, "2 million elements would take 21 s"
    clock.seconds, clock.answers = 0.0, False
    assert len(sizes(clock)) == 1, "it did not answer"


def test_a_faulty_kernel_or_a_late_gate_or_little_memory_gets_none(clock: SimpleNamespace) -> None:
    assert not sizes(clock, faulty=True)
    assert not sizes(clock, over=True)
    assert len(sizes(clock, memory=largest.BYTES_PER_VALUE * STEPS[0])) == 1
