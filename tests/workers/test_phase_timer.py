"""The time of a run's own process by purpose."""

from __future__ import annotations

import pytest

from xverify.workers.phase_timer import ELSE, PhaseTimer


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def fail(clock: Clock, timer: PhaseTimer) -> None:
    with timer.on("judging"):
        clock.now += 4
        raise RuntimeError("it ends all the same")


def test_what_is_inside_counts_as_itself_only() -> None:
    clock = Clock()
    timer = PhaseTimer(clock)
    with timer.on("judging"):
        clock.now += 2
        with timer.on("waiting"):
            clock.now += 5
        clock.now += 1
    clock.now += 0.5
    with pytest.raises(RuntimeError, match="ends all the same"):
        fail(clock, timer)
    clock.now += 0.25
    assert timer.seconds() == {"judging": 7, "waiting": 5, ELSE: 0.75}
    clock.now += 10
    assert list(timer.seconds().items()) == [(ELSE, 10.75), ("judging", 7), ("waiting", 5)]
