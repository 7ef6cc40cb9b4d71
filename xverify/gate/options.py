"""The options of a gate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from xverify.contracts.model import Contract, Denormals, Domain
from xverify.engine.asking import Limit
from xverify.engine.state import RunState
from xverify.gate.ledger import Ledger
from xverify.oracles.protocol import Oracle
from xverify.strategies.limits import CallLimits
from xverify.workers.pool import MakeWorker
from xverify.workers.process import Limits
from xverify.workers.worker import Worker

LEAST_SECONDS = 1.0
"""The smallest budget of a gate, in seconds. A kernel needs about this long to start and to answer its first call."""


@dataclass(frozen=True)
class GateOptions:
    """The options of a gate."""

    kernel: Oracle
    """The implementation under test."""

    contracts: tuple[Contract, ...]
    """The editions that the kernel is held to."""

    directory: Path
    run_id: str
    command: str
    contract_files: tuple[str, ...] = ()

    target: str = ""
    """The kernel as the user named it."""

    like: Oracle | None = None
    """An implementation to match instead of the text, on the calls of the contracts."""

    like_target: str = ""
    """The implementation to match as the user named it."""

    within: Mapping[str, Domain] = field(default_factory=dict)
    """Narrower domains, by contract."""

    call_limits: CallLimits = field(default_factory=CallLimits)
    """Limits of the kernel that the user states. Calls outside them are not made."""

    values_only: bool = False
    """Make only calls that the edition allows."""

    threads: bool = True
    """Make some calls from several threads at once."""

    ledger: Ledger = field(default_factory=Ledger)
    ledger_path: str = ""
    today: date = date(1970, 1, 1)
    seed: int = 0

    budget: float = 60.0
    """Seconds for the whole gate."""

    denormals: Denormals = "keep"
    allow_mixed: bool = False
    fail_fast: bool = False

    huge: bool = False
    """Send a call of more than 2^31 elements too."""

    check_signature: bool = True
    """Check that a Python kernel takes the arguments of every call of its editions, before the first call."""

    shrink: bool = True
    """Search the smallest call that shows each finding."""

    limits: Limits = field(default_factory=Limits)

    left_out: tuple[str, ...] = ()
    """A sentence for each named edition that the kernel is not held to."""

    worker: MakeWorker = Worker
    """Makes the worker of each implementation."""

    first: Callable[[RunState], bool] = lambda state: False
    """first(state): sends calls before all others; True if no other calls are needed."""

    draw: Callable[[RunState, Limit], None] | None = None
    """draw(state, limit): sends the calls after the walk, in place of endless rounds of Hypothesis."""
