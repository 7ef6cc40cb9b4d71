"""The largest calls of a gate: past 2^24 elements, if the kernel is fast enough.

An index in float32 is exact up to there only. A slow kernel would hang in such a call. So the time of each step is predicted
from the step before it.
"""

from __future__ import annotations

import time
from dataclasses import replace

from xverify.contracts.model import Contract
from xverify.engine.asking import Limit, ask
from xverify.engine.gate_plan import LARGEST, Scope
from xverify.engine.plan import numbered
from xverify.engine.state import RunState
from xverify.gate.options import GateOptions
from xverify.strategies import build
from xverify.strategies.large import STEPS, largest_structure
from xverify.workers.case import Case

SHARE = 0.1
"""Share of the budget that one step may take."""

BYTES_PER_VALUE = 64
"""Bytes for each element that a kernel needs if it computes in float64 with a few temporary arrays."""


def ask_for_largest(
    run: RunState, options: GateOptions, contract: Contract, scope: Scope, limit: Limit, turn: int = 0
) -> None:
    """Send one call of each of `STEPS`, while time and memory allow the next one.

    A kernel that showed a fault gets none: judging and shrinking 16 million wrong values would take longer than the rest.

    Args:
        run: The run.
        options: Options of the gate.
        contract: The edition of the calls.
        scope: The calls that the kernel implements.
        limit: Sending ends when it returns True.
        turn: The number of times that such calls were sent before.
    """
    narrow, repair = replace(contract, domain=scope.domain), scope.repair(contract)
    seconds, before = 0.0, STEPS[0]
    most_seconds = min(SHARE * options.budget, options.limits.call / 2)
    for number, size in enumerate(STEPS):
        if (
            run.fault_seen
            or limit()
            or seconds * size / before > most_seconds
            or 0 < options.limits.memory < BYTES_PER_VALUE * size
        ):
            return
        call = repair(build(narrow, largest_structure(narrow, size), f"walk largest {number}"))
        if call is None:
            return
        began = time.monotonic()
        # No number is divisible by 8, so that none of these calls is repeated.
        cases = numbered(iter([[Case(call, 0, "walk")]]), LARGEST + 1 + turn * len(STEPS) + number)
        if not ask(run, {contract.id: cases}, limit, patience=most_seconds):
            return
        seconds, before = time.monotonic() - began, size
