"""What the engine says while it works. A consumer is any callable that takes an event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SweepStarted:
    run_id: str
    contracts: tuple[str, ...]
    subjects: tuple[str, ...]
    budget: float | None
    cases: int | None


@dataclass(frozen=True)
class WorkerReady:
    name: str
    version: str


@dataclass(frozen=True)
class WorkerFailed:
    name: str
    sentence: str


@dataclass(frozen=True)
class Progressed:
    phase: str
    cases: int
    values: int
    findings: int
    elapsed: float


@dataclass(frozen=True)
class FindingFound:
    id: str
    verdict: str
    subject: str
    contract: str
    summary: str


@dataclass(frozen=True)
class FaultSeen:
    """The first sign that an implementation is wrong; findings come later. origin: what made the call; seconds: since the run
    began."""

    subject: str
    contract: str
    origin: str
    seconds: float


@dataclass(frozen=True)
class ShrinkStarted:
    count: int


@dataclass(frozen=True)
class FindingShrunk:
    id: str
    evaluations: int
    minimal: bool


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
