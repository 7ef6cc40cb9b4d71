"""The gate: run a kernel on the calls most likely to show a mistake, and decide whether it passes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

from xverify.contracts.model import Contract, Domain
from xverify.core.call import Call, Outcome
from xverify.core.near import nearest
from xverify.engine import equivalences
from xverify.engine.asking import Limit, ask, interruptible, start
from xverify.engine.conclude import conclude
from xverify.engine.events import Consumer, SweepFinished
from xverify.engine.gate_plan import Scope, drawn_batches, walk_batches, witness_batches
from xverify.engine.options import Options
from xverify.engine.reference_contract import like
from xverify.engine.rules import Rules
from xverify.engine.select import version_of
from xverify.engine.shrink import shrink_all
from xverify.engine.state import RunState, new_run
from xverify.engine.store import on_disk_first, report, write_json
from xverify.engine.sweep import handling_interrupts, note_failure
from xverify.gate import ledger_lookup
from xverify.gate.decide import decided
from xverify.gate.evidence import ask_for_evidence
from xverify.gate.huge import ask_huge
from xverify.gate.largest import ask_for_largest
from xverify.gate.learning import FIRST_BATCHES, answers_little, in_report, is_outside, learn
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

LEAST_SHRINKING = 3.0
"""Seconds that shrinking gets if the budget is spent already."""

EARLY_BATCHES = 120
"""Batches of the walk before the largest calls: they show most faults, and take a few seconds."""

MOST_ANSWERS = 4096
"""Number of remembered answers of the implementation to match: more than are in progress at once."""

WALKS_WITHIN = 2
"""The most walks that the gate adds within limits that it learnt."""

KEPT_SECONDS = 1.0
"""Seconds of the budget reserved for writing the report."""


def gate(options: GateOptions, emit: Consumer) -> dict[str, Any]:
    """Run the gate, and write ``report.json`` into its directory.

    Each finding is on disk before its event is emitted. After Ctrl-C, the report covers the calls made so far. So does the
    report of a run in which a phase fails. It is written before the exception passes, and decides nothing.

    Args:
        options: Options of the gate.
        emit: Consumer of events.

    Returns:
        The report, with the decision under "gate".

    Raises:
        OSError: The directory cannot be written.
        NoSpaceError: The disk is full.
    """
    options.directory.mkdir(parents=True, exist_ok=True)
    memory = ledger_lookup.Memory(options.ledger, options.today)
    run = _run(options, memory, lambda event: announce(event))
    announce = on_disk_first(run, emit)
    walked, failures = False, list[Exception]()
    try:
        with handling_interrupts(run):
            with _noting(run, failures):
                start(run)
                walked = _ask(run, options)
            if failures:  # no later phase must meet calls that are still under way
                run.pool.give_up("it did not answer before the run failed")
            with _noting(run, failures), run.timer.on("judging"):
                conclude(run)
            if run.complete and options.shrink:
                with _noting(run, failures), run.timer.on("shrinking"):
                    shrink_all(run, partial(_out_of_shrinking, options, run, time.monotonic()), LEAST_SHRINKING)
            result = report(run)
    finally:
        run.pool.stop()  # which also removes the files of the workers, so that a full disk has room for the report
    try:
        decided(result, run, options, memory, walked)
        result["gate"] |= in_report(run, {text.id: text for text in options.contracts}, _domains(options))
    except Exception as error:
        failures.append(error)
        result = _without_decision(result, run, error)
    try:
        write_json(options.directory / "report.json", result)
    except OSError as error:
        failures.append(error)
    if failures:
        raise failures[0]
    emit(SweepFinished(options.directory / "report.json"))
    return result


@contextmanager
def _noting(run: RunState, failures: list[Exception]) -> Iterator[None]:
    """Let the run go on to its report after a phase failed, and note why."""
    try:
        yield
    except Exception as error:
        failures.append(error)
        note_failure(run, error)


def _without_decision(result: dict[str, Any], run: RunState, error: Exception) -> dict[str, Any]:
    """The report of a run whose decision failed. It says so."""
    note_failure(run, error)
    facts = {**result["run"], "complete": False, "left_out": [*run.options.left_out, *run.troubles]}
    return {name: part for name, part in {**result, "run": facts}.items() if name != "gate"}


def _run(options: GateOptions, memory: ledger_lookup.Memory, emit: Consumer) -> RunState:
    texts = tuple(
        replace(text, domain=options.within.get(text.id, text.domain), denormals=options.denormals)
        for text in options.contracts
    )
    kernel = options.kernel if options.threads else without_threads(options.kernel)
    kernel = with_signature(kernel, texts) if options.check_signature else kernel
    oracles: tuple[Oracle, ...] = (kernel,)
    contracts = texts
    if options.like is not None:
        reference = replace(options.like, judged_by=(), role="oracle", paths=options.like.paths[:1])
        answers = _Answers(reference.name)
        oracles = (kernel, with_signature(reference, texts))
        contracts = tuple(like(text, reference.name, version_of(reference), answers.of) for text in texts)
    rules = Rules(
        every_call=True,
        saves_time_to_shrink=False,
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
        name = options.like.name
        answers.ask = partial(run.pool.ask, run.pool.subjects[name][0])
        # If it cannot be loaded, it answers nothing, and the gate ends.
        answers.busy = lambda: bool(run.pool.under_way) or name in run.pool.failures
    return run


def without_threads(kernel: Oracle) -> Oracle:
    """The kernel without the path on which several threads make a call at once."""
    return replace(kernel, paths=tuple(path for path in kernel.paths if path.options != "threads"))


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
    run.scopes = {name: _stated(options, domain) for name, domain in _domains(options).items()}
    with interruptible(run):
        if options.first(run):
            return False
        witnesses = ledger_lookup.witnesses(options.ledger, options.kernel.name, options.contracts)
        admitted = {
            name: [call for call in calls if run.admits(texts[name], call)] for name, calls in witnesses.items()
        }
        ask(run, {name: witness_batches(calls) for name, calls in admitted.items()}, limit, patience=PATIENCE)
        walk = {
            name: walk_batches(text, run.scopes[name], options.seed, 0, lambda call: is_outside(run, call))
            for name, text in texts.items()
        }
        first = {name: islice(batches, FIRST_BATCHES) for name, batches in walk.items()}
        walked = ask(run, first, limit, patience=PATIENCE)
        # If the kernel answers nearly nothing, learn what it takes before the rest of the walk.
        if answers_little(run):
            _walk_within(run, options, texts, limit)
        early = {name: islice(batches, EARLY_BATCHES) for name, batches in walk.items()}
        walked &= ask(run, early, limit, patience=PATIENCE)
        # Before the rest, so that a fault in large tensors shows within half a minute.
        newest = options.contracts[-1]
        scope = run.scopes[newest.id]
        ask_for_largest(run, options, newest, scope, limit)
        walked &= ask(run, walk, limit, patience=PATIENCE)
        # If the kernel supports little, the walk tested little: the second walk has only supported calls.
        _walk_within(run, options, texts, limit)
        if walked:
            ask_for_evidence(run, options.kernel.name, _domains(options), limit)
        if options.kernel.name not in run.tally.answering:
            return walked  # a kernel that answers nothing needs no further calls
        if walked:
            if run.scopes[newest.id] != scope:
                ask_for_largest(run, options, newest, run.scopes[newest.id], limit, 1)
            if options.huge and not run.ended():
                run.impossible = ask_huge(run, options, newest, run.scopes[newest.id])
        if options.draw is None:
            drawn = {name: drawn_batches(text, run.scopes[name], options.seed) for name, text in texts.items()}
            ask(run, drawn, lambda: limit() or run.out_of(EXPLORE - SEVERAL_WAYS), patience=PATIENCE)
        elif walked:
            options.draw(run, limit)
        if options.like is None:
            equivalences.check(run, limit)
    return walked


def _domains(options: GateOptions) -> dict[str, Domain]:
    """The domain of each edition, as the user narrowed it."""
    return {text.id: options.within.get(text.id, text.domain) for text in options.contracts}


def _stated(options: GateOptions, domain: Domain) -> Scope:
    return Scope(domain, options.call_limits, options.call_limits, options.values_only)


def _walk_within(run: RunState, options: GateOptions, texts: Mapping[str, Contract], limit: Limit) -> None:
    """Learn which calls the kernel takes, and run the walk within them, until nothing new is learnt."""
    for _ in range(WALKS_WITHIN):
        before = dict(run.scopes)
        stated = {name: _stated(options, domain) for name, domain in _domains(options).items()}
        learn(run, texts, stated, options.seed, limit)
        run.scopes = stated
        changed = [name for name in texts if run.scopes[name] != before[name]]
        if not changed or limit():
            break
        again = {}
        for name in changed:
            run.reach[name].walks += 1
            again[name] = walk_batches(texts[name], run.scopes[name], options.seed, run.reach[name].walks)
        ask(run, again, limit, patience=PATIENCE)


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
