"""What a run is asked for, and with what patience."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from xverify.contracts.model import Contract
from xverify.engine.pool import MakeWorker
from xverify.engine.rules import Rules
from xverify.oracles.protocol import Oracle
from xverify.workers.process import Limits
from xverify.workers.worker import Worker


@dataclass(frozen=True)
class Options:
    """What a sweep or a gate was asked for.

    budget in seconds, or cases; with cases the result depends on the seed only. texts: the contracts as their documents have
    them, where ``contracts`` judge by something else. worker: what makes a worker. left_out: a sentence for each thing that was
    wanted and is not asked, or is judged by less than it could be.
    """

    contracts: tuple[Contract, ...]
    oracles: tuple[Oracle, ...]
    directory: Path
    run_id: str
    command: str
    seed: int = 0
    budget: float = 60.0
    cases: int | None = None
    rules: Rules = field(default_factory=Rules)
    limits: Limits = field(default_factory=Limits)
    texts: tuple[Contract, ...] = ()
    worker: MakeWorker = Worker
    left_out: tuple[str, ...] = ()
