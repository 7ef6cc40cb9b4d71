"""Sending batches of calls to the implementations, and judging the answers.

One process plans and judges; each implementation answers in a process of its own. While they answer a batch, the next one is
made. The findings do not depend on which contract's batch comes back first.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from xverify.contracts.model import Contract
from xverify.engine.events import SweepStarted
from xverify.engine.judging import judge_batch
from xverify.engine.parts import shares, weight
from xverify.engine.state import RunState
from xverify.workers.case import Case
from xverify.workers.pool import DRAIN_SECONDS, MOST_BATCHES

Streams = Mapping[str, Iterator[list[Case]]]
"""Batches of cases, by the id of their contract."""

Limit = Callable[[], bool]
"""limit(): True if no further calls are to be sent."""


def start(state: RunState) -> None:
    """Start the workers."""
    with state.timer.on("starting processes"):
        state.pool.start()
    names = tuple(subject.label for subjects in state.pool.subjects.values() for subject in subjects)
    contracts = tuple(contract.id for contract in state.options.contracts)
    state.emit(SweepStarted(state.options.run_id, contracts, names, state.options.budget, state.options.cases))


@contextmanager
def interruptible(state: RunState) -> Iterator[None]:
    """End the body of the context at ^C. Calls under way are then judged if they are answered soon."""
    try:
        yield
        if state.interrupted.is_set():
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        state.complete = False
        _drain(state)


def ask(
    state: RunState,
    streams: Streams,
    limit: Limit,
    cases: int | Mapping[str, int] | None = None,
    patience: float = math.inf,
) -> bool:
    """Send the batches of the streams, and judge the answers.

    Args:
        streams: Batches of cases by contract.
        limit: Sending ends when it returns True, or when all streams have ended.
        cases: The number of cases to send: over all streams, or of each by contract. None for all.
        patience: Seconds past the limit after which calls under way are cancelled.

    Returns:
        True if all streams ended and every call was answered.
    """
    remaining, unasked_before = dict(streams), state.unasked_calls
    for contract, batch in _turns(state, remaining, limit, cases):
        with state.timer.on("sending calls"):
            state.pool.send(contract, batch)
        _judge_answered(state)
        while len(state.pool.under_way) >= MOST_BATCHES and (patience == math.inf or not limit()):
            _judge_answered(state, wait=0.05)
    is_overdue = state.overdue(limit, patience)
    while state.pool.under_way:
        _judge_answered(state, wait=0.05)
        if is_overdue():
            state.pool.abandon()
    return not remaining and state.unasked_calls == unasked_before


def _turns(
    state: RunState, streams: dict[str, Iterator[list[Case]]], limit: Limit, cases: int | Mapping[str, int] | None
) -> Iterator[tuple[Contract, list[Case]]]:
    """Batches of the contracts in turn; those whose workers are still starting come later.

    Removes a stream from ``streams`` when it has ended.
    """
    contracts = [contract for contract in state.options.contracts if contract.id in streams]
    weights = {contract.id: weight(contract) for contract in contracts}
    quota = (
        dict.fromkeys(streams, 2**62)
        if cases is None
        else shares(cases, weights)
        if isinstance(cases, int)
        else dict(cases)
    )
    sent: Counter[str] = Counter()
    while any(quota[name] for name in streams):
        if limit():
            return
        if state.interrupted.is_set():
            raise KeyboardInterrupt
        state.pool.announce()
        ready = [c for c in contracts if c.id in streams and quota[c.id] and state.pool.has_room(c)]
        if not ready:
            _judge_answered(state, wait=0.02)
            continue
        # The contract that is farthest behind: one whose worker had to be replaced catches up.
        contract = min(ready, key=lambda c: sent[c.id] / weights[c.id])
        with state.timer.on("making calls"):
            batch = next(streams[contract.id], [])[: quota[contract.id]]
        if not batch:
            del streams[contract.id]
            continue
        quota[contract.id] -= len(batch)
        sent[contract.id] += len(batch)
        yield contract, batch


def _judge_answered(state: RunState, wait: float = 0.0) -> None:
    """Judge the batches that every implementation has answered. Wait at most these seconds for one."""
    with state.timer.on("taking answers in"):
        answered = state.pool.collect_answered(wait)
    for batch in answered:
        with state.timer.on("judging"):
            judge_batch(state, batch)


def _drain(state: RunState) -> None:
    """After ^C: judge the calls under way if they are answered soon, so that no answer is lost."""
    until = time.monotonic() + DRAIN_SECONDS
    while state.pool.under_way and time.monotonic() < until:
        _judge_answered(state, wait=0.05)
    state.pool.give_up("it did not answer before the run was interrupted")
