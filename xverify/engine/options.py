"""The options of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from xverify.contracts.model import Contract
from xverify.core.shard import Shard
from xverify.engine.parts import MOST_CASES, Part
from xverify.engine.rules import Rules
from xverify.oracles.protocol import Oracle
from xverify.workers.pool import MakeWorker
from xverify.workers.process import Limits
from xverify.workers.worker import Worker


@dataclass(frozen=True)
class Options:
    """The options of a sweep, or of the run of a gate."""

    contracts: tuple[Contract, ...]
    oracles: tuple[Oracle, ...]

    directory: Path
    """The folder for the report, the scripts and the workers' files."""

    run_id: str

    command: str
    """The command line, for the report."""

    seed: int = 0

    budget: float = 60.0
    """Seconds for the whole run."""

    cases: int | None = None
    """The number of cases to make, instead of the budget. The result then depends on the seed only."""

    rules: Rules = field(default_factory=Rules)
    limits: Limits = field(default_factory=Limits)

    texts: tuple[Contract, ...] = ()
    """The contracts by their documents, if ``contracts`` judge by a reference implementation instead."""

    worker: MakeWorker = Worker
    """Makes the worker of each implementation."""

    left_out: tuple[str, ...] = ()
    """A sentence for each implementation or edition that the run leaves out, or judges less fully, against the user's wish."""

    journal: str = ""
    """A digest of what the run is, see `xverify.engine.resume`. With one, the answers are kept in a journal in ``directory``, and
    those that are there already are not asked for again."""

    session: int = 1
    """The number of the session, if the run has several: each has a journal of its own."""

    started: float | None = None
    """When the run began, in seconds since 1970, if that was in an earlier process."""

    shard: Shard | None = None
    """The shard of the run to do; None for the whole run."""

    most_cases: int = MOST_CASES
    """The largest number of cases of a part of the run, see `xverify.engine.parts`."""

    parts: Mapping[str, Part] = field(default_factory=dict)
    """For a session: the part of each edition, by id. An edition without one is done whole."""

    run_contracts: tuple[Contract, ...] = ()
    """For a session: all editions of the run. Empty if they are ``contracts``."""

    scripts: Path | None = None
    """The folder for large calls of witnesses. None: ``scripts`` in the directory."""

    cache: Path | None = None
    """The folder that keeps results of searches between runs, see `xverify.arithmetic.kept`; None to keep none."""

    def part(self, contract: Contract) -> Part:
        """The part of an edition that the session does."""
        return self.parts.get(contract.id, Part(contract.id))

    @property
    def editions(self) -> tuple[Contract, ...]:
        """All editions of the run."""
        return self.run_contracts or self.contracts
