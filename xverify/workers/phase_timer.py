"""The time of a run's own process, by purpose, for example making calls or judging."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

ELSE = "everything else"
"""The purpose of all other time, for example starting and writing."""

WAITING = "waiting for answers"


@dataclass(eq=False)
class PhaseTimer:
    """Seconds by purpose. Time in an inner purpose does not count for the outer one."""

    clock: Callable[[], float] = time.monotonic
    """Seconds since some fixed moment."""

    _seconds: dict[str, float] = field(default_factory=dict)
    _purposes: list[str] = field(default_factory=lambda: [ELSE])
    _since: float | None = None

    @contextmanager
    def on(self, purpose: str) -> Iterator[None]:
        """Count the time inside for that purpose."""
        self._account()
        self._purposes.append(purpose)
        try:
            yield
        finally:
            self._account()
            self._purposes.pop()

    def seconds(self) -> dict[str, float]:
        """Seconds of every purpose until now, the largest first."""
        self._account()
        return dict(sorted(self._seconds.items(), key=lambda item: -item[1]))

    def _account(self) -> None:
        now = self.clock()
        if self._since is not None:
            purpose = self._purposes[-1]
            self._seconds[purpose] = self._seconds.get(purpose, 0.0) + now - self._since
        self._since = now
