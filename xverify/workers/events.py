"""Events that a pool of workers emits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class WorkerReady:
    """A worker has imported its framework."""

    name: str
    version: str


@dataclass(frozen=True)
class WorkerFailed:
    """A worker could not be started, or died too often."""

    name: str
    sentence: str


WorkerConsumer = Callable[[WorkerReady | WorkerFailed], None]
"""consumer(event): takes the events of a pool."""
