"""Events that the engine emits while it works. A consumer is any callable that takes an event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from xverify.workers.events import WorkerFailed, WorkerReady


@dataclass(frozen=True)
class SweepStarted:
    run_id: str
    contracts: tuple[str, ...]
    subjects: tuple[str, ...]
    budget: float | None
    """Seconds."""

    cases: int | None


@dataclass(frozen=True)
class Progressed:
    """A batch was judged. All counts are totals since the run began."""

    phase: str
    """The part of the plan that made the batch's last call."""

    cases: int
    values: int
    findings: int
    elapsed: float
    """Seconds since the run began."""


@dataclass(frozen=True)
class FindingFound:
    id: str
    verdict: str
    subject: str
    contract: str
    summary: str


@dataclass(frozen=True)
class FaultSeen:
    """The first sign that an implementation is wrong. The finding follows when the run concludes."""

    subject: str
    contract: str
    origin: str
    """The part of the plan that made the call, and its number there."""

    seconds: float
    """Seconds since the run began."""


@dataclass(frozen=True)
class ShrinkStarted:
    count: int
    """Findings to shrink."""


@dataclass(frozen=True)
class FindingShrunk:
    id: str
    evaluations: int
    """Calls that were tried."""

    minimal: bool
    """True if no smaller call that shrinking tries shows the finding."""


@dataclass(frozen=True)
class SweepFinished:
    report_path: Path


Event = (
    SweepStarted
    | WorkerReady
    | WorkerFailed
    | Progressed
    | FindingFound
    | FaultSeen
    | ShrinkStarted
    | FindingShrunk
    | SweepFinished
)
Consumer = Callable[[Event], None]

__all__ = [
    "Consumer",
    "Event",
    "FaultSeen",
    "FindingFound",
    "FindingShrunk",
    "Progressed",
    "ShrinkStarted",
    "SweepFinished",
    "SweepStarted",
    "WorkerFailed",
    "WorkerReady",
]
