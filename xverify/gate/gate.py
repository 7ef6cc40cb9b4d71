"""The gate: run a kernel on the calls most likely to show a mistake, and decide whether it passes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from xverify.contracts.model import Domain
from xverify.core.call import Call, Outcome
from xverify.engine import equivalences
from xverify.engine.asking import Limit, ask, interruptible, start
from xverify.engine.conclude import conclude
from xverify.engine.events import Consumer, SweepFinished
from xverify.engine.gate_plan import drawn_batches, walk_batches, witness_batches
from xverify.engine.options import Options
from xverify.engine.reference_contract import like
from xverify.engine.rules import Rules
from xverify.engine.select import nearest, version_of
from xverify.engine.shrink import shrink_all
from xverify.engine.state import RunState, new_run
from xverify.engine.store import on_disk_first, report, write_json
from xverify.engine.sweep import handling_interrupts
from xverify.gate import ledger_lookup
from xverify.gate.decide import decided
from xverify.gate.evidence import ask_for_evidence
from xverify.gate.huge import ask_huge
from xverify.gate.largest import ask_for_largest
from xverify.gate.options import GateOptions
from xverify.gate.signature import with_signature
from xverify.oracles.protocol import Oracle
from xverify.verify.findings import Subject

EXPLORE = 0.88
"""Share of the budget for calls while no fault is seen."""

EXPLORE_FAULTY = 0.65
"""Share of the budget for calls after a fault is seen. The rest is for shrinking."""

SEVERAL_WAYS = 0.08
"""Share of the budget for repeating calls in several ways, at the end."""

PATIENCE = 2.0
"""Seconds that a call may take after the time for calls is over."""

SHRINK_SECONDS = 6.0
"""Longest shrinking, in seconds, of a run that stops at the first fault."""

MOST_ANSWERS = 4096
"""Number of remembered answers of the implementation to match: more than are in progress at once."""

KEPT_SECONDS = 1.0
"""Seconds of the budget reserved for writing the report."""


def gate(options: GateOptions, emit: Consumer) -> dict[str, Any]:
    """Run the gate, and write ``report.json`` into its directory.

    Each finding is on disk before its event is emitted. After Ctrl-C, the report covers the calls made so far.

    Args:
        options: Options of the gate.
        emit: Consumer of events.

    Returns:
        The report, with the decision under "gate".

    Raises:
        OSError: The directory cannot be written.
    """
    options.directory.mkdir(parents=True, exist_ok=True)
    memory = ledger_lookup.Memory(options.ledger, options.today)
    run = _run(options, memory, lambda event: announce(event))
    announce = on_disk_first(run, emit)
    try:
        with handling_interrupts(run):
            start(run)
            walked = _ask(run, options)
            with run.timer.on("judging"):
                conclude(run)
            if run.complete and options.shrink:
                with run.timer.on("shrinking"):
                    shrink_all(run, partial(_out_of_shrinking, options, run, time.monotonic()))
            result = report(run)
    finally:
        run.pool.stop()
    decided(result, run, options, memory, walked)
    write_json(options.directory / "report.json", result)
    emit(SweepFinished(options.directory / "report.json"))
    return result


def _run(options: GateOptions, memory: ledger_lookup.Memory, emit: Consumer) -> RunState:
    texts = tuple(
        replace(text, domain=options.within.get(text.id, text.domain), denormals=options.denormals)
        for text in options.contracts
    )
    kernel = with_signature(options.kernel, texts)
    oracles: tuple[Oracle, ...] = (kernel,)
    contracts = texts
    if options.like is not None:
        reference = replace(options.like, ships=(), role="oracle", paths=options.like.paths[:1])
        answers = _Answers(reference.name)
        oracles = (kernel, with_signature(reference, texts))
        contracts = tuple(like(text, reference.name, version_of(reference), answers.of) for text in texts)
    rules = Rules(
        every_call=True,
        on_texts=False,
        characterise=False,
        repeat_each=8,
        fail_fast=options.fail_fast,
        standing=memory.standing,
        might_be_known=memory.might_be_known,
    )
    if options.like is not None:
        rules = replace(rules, learn=answers.learn)
    run = new_run(
        Options(
            contracts, oracles, options.directory, options.run_id, options.command, options.seed, options.budget,
            rules=rules, limits=options.limits, texts=texts, worker=options.worker, left_out=options.left_out,
        ),
        emit,
    )  # fmt: skip
    if options.like is not None:
        answers.ask = partial(run.pool.ask, run.pool.subjects[options.like.name][0])
        answers.busy = lambda: bool(run.pool.under_way)
    return run


class _Answers:
    """A cache of recent answers of the implementation to match.

    A missing answer is requested, unless the implementation is busy.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._known: dict[str, Outcome] = {}
        self.ask: Callable[[Call], Outcome] = lambda call: Outcome("unasked")
        self.busy: Callable[[], bool] = lambda: True

    def learn(self, call: Call, subject: Subject, outcome: Outcome) -> None:
        if subject.name == self._name:
            self._remember(call.digest(), outcome)

    def _remember(self, digest: str, outcome: Outcome) -> None:
        self._known[digest] = outcome
        if len(self._known) > MOST_ANSWERS:
            del self._known[next(iter(self._known))]

    def of(self, call: Call) -> Outcome:
        digest = call.digest()
        if digest not in self._known:
            if self.busy():
                return Outcome("unasked")
            self._remember(digest, self.ask(call))
        return self._known[digest]


def _ask(run: RunState, options: GateOptions) -> bool:
    """Send all calls in order, while the budget lasts.

    Returns:
        True if the whole walk was sent and answered.
    """
    walked, needed = False, {oracle.name for oracle in run.options.oracles}

    def limit() -> bool:
        return not needed.isdisjoint(run.pool.failures) or run.out_of(EXPLORE_FAULTY if run.fault_seen else EXPLORE)

    texts = {text.id: text for text in options.contracts}
    domains = {name: options.within.get(name, text.domain) for name, text in texts.items()}
    with interruptible(run):
        if options.first(run):
            return False
        witnesses = ledger_lookup.witnesses(options.ledger, options.kernel.name, options.contracts)
        ask(run, {name: witness_batches(calls) for name, calls in witnesses.items()}, limit, patience=PATIENCE)
        walk = {name: walk_batches(text, domains[name], options.seed) for name, text in texts.items()}
        walked = ask(run, walk, limit, patience=PATIENCE)
        # If the kernel supports little, the walk tested little: the second walk has only supported calls.
        supported = {name: _supported(run, options, domains[name], name) for name in texts}
        again = {
            name: walk_batches(text, supported[name], options.seed, 1)
            for name, text in texts.items()
            if supported[name] != domains[name]
        }
        ask(run, again, limit, patience=PATIENCE)
        if walked:
            ask_for_evidence(run, options.kernel.name, domains, limit)
        if options.kernel.name not in run.tally.answering:
            return walked  # a kernel that answers nothing needs no further calls
        if walked:
            largest = options.contracts[-1]
            ask_for_largest(run, options, largest, supported[largest.id], limit)
            if options.huge and not run.ended():
                run.impossible = ask_huge(run, options, largest, supported[largest.id])
        if options.draw is None:
            drawn = {name: drawn_batches(text, supported[name], options.seed) for name, text in texts.items()}
            ask(run, drawn, lambda: limit() or run.out_of(EXPLORE - SEVERAL_WAYS), patience=PATIENCE)
        elif walked:
            options.draw(run, limit)
        if options.like is None:
            equivalences.check(run, limit)
    return walked


def _supported(run: RunState, options: GateOptions, domain: Domain, contract: str) -> Domain:
    """The domain without the types and granularities that the kernel does not implement.

    The kernel answered no call with them, and reported at least one of those calls as not implemented.
    """
    cells = [
        (cell, tally)
        for (subject, cell), tally in run.tally.cells.items()
        if subject.name == options.kernel.name and cell.contract == contract and not tally.open
    ]
    if not any(tally.answered for _, tally in cells):
        return domain

    def kept(field: str, admitted: tuple[Any, ...]) -> tuple[Any, ...]:
        answered = {getattr(cell, field) for cell, tally in cells if tally.answered or not tally.unsupported}
        return tuple(value for value in admitted if value in answered)

    return replace(
        domain,
        x_dtypes=kept("x_dtype", domain.x_dtypes),
        scale_dtypes=kept("scale_dtype", domain.scale_dtypes),
        output_dtypes=kept("out_dtype", domain.output_dtypes),
        granularities=kept("granularity", domain.granularities),
    )


def _out_of_shrinking(options: GateOptions, run: RunState, began: float) -> bool:
    if options.fail_fast and time.monotonic() - began > SHRINK_SECONDS:
        return True
    return run.interrupted.is_set() or run.elapsed() > options.budget - KEPT_SECONDS


def nothing_more(run: RunState, limit: Limit) -> None:
    """Draw no calls after the walk."""


def narrowed(domain: Domain, x: Sequence[str], scale: Sequence[str], granularity: Sequence[str]) -> Domain:
    """Restrict a domain to the named types and granularities; an empty list restricts nothing.

    Raises:
        ValueError: A name does not belong to the domain. The message is one sentence.
    """
    changes: dict[str, Any] = {}
    for name, what, wanted in (
        ("x_dtypes", "type of x", x),
        ("scale_dtypes", "type of scale", scale),
        ("granularities", "granularity", granularity),
    ):
        admitted = getattr(domain, name)
        for value in wanted:
            if value not in admitted:
                raise ValueError(
                    f"{value!r} is not a {what} of this edition{nearest(value, admitted)}; choose from {', '.join(admitted)}"
                )
        if wanted:
            changes[name] = tuple(value for value in admitted if value in wanted)
    return replace(domain, **changes)
