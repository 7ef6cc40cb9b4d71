"""Phase: comparison of calls that ask for the same values in different ways.

A few calls of each contract are chosen, spread over types and granularities. Each goes to every implementation that the edition
judges, together with its twins (see `xverify.strategies.equivalents`), and the outcomes are compared bit for bit. A legal set
is computed only where they differ.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import numpy as np

from xverify import contracts
from xverify.contracts.model import Contract
from xverify.core.call import Call, Outcome, encode_call
from xverify.engine.plan import derived_seed
from xverify.engine.record import record
from xverify.engine.state import FINAL_SHARE, RunState
from xverify.strategies import build
from xverify.strategies.equivalents import Twin, joined, twins
from xverify.strategies.repair import Repair
from xverify.strategies.structures import Range, Structure
from xverify.strategies.values import RANGE_RECIPES, SCALE_RECIPES
from xverify.strategies.walk import cell_structures, shape_structures
from xverify.verify import equivalence
from xverify.verify.findings import Subject
from xverify.verify.verdicts import compared, judge

CALLS = 48
"""The number of calls of each contract that get twins: one for each type of x and granularity of the newest edition."""

MOST_VALUES = 1000
"""The largest number of values of a call."""

BATCH = 10
"""The number of calls that go out together, each with its twins."""


@dataclass(frozen=True, eq=False)
class Question:
    """A call for one implementation on one path, and its twins.

    A twin asks for the same values in another way.
    """

    subject: Subject

    number: int
    """Position of the call among the chosen calls of its contract."""

    call: Call
    twins: tuple[Twin, ...]

    @property
    def calls(self) -> tuple[Call, ...]:
        """The call, then those of its twins in order."""
        return (self.call, *(call for twin in self.twins for call in twin.calls))


@dataclass(frozen=True, eq=False)
class _Sent:
    """A batch under way."""

    contract: Contract

    to: tuple[tuple[str, tuple[Question, ...]], ...]
    """The questions of each implementation."""


def check_equivalences(state: RunState) -> None:
    """Compare calls with their twins within this phase's share of the budget."""
    check(state, partial(state.out_of, 1 - state.end_share - FINAL_SHARE / 2))


def check(state: RunState, limit: Callable[[], bool]) -> int:
    """Send calls and their twins, and record where the outcomes differ.

    It runs when no batch is under way, and before the run concludes: an outcome outside its legal set is counted in its cell
    like any other, and becomes a finding when the run concludes. The calls depend on the seed and on the cells that the
    implementations answered. An interrupted run sends fewer calls.

    Args:
        limit: True if no further calls are to be sent.

    Returns:
        The number of outcomes that were compared with that of a twin.
    """
    count = 0
    before: _Sent | None = None
    turns = _turns(state)
    while not (limit() or state.interrupted.is_set()) and (turn := next(turns, None)) is not None:
        contract, calls = turn
        sent = _send(state, contract, calls)
        count += _receive(state, before) if before is not None else 0
        before = sent
    return count + (_receive(state, before) if before is not None else 0)


def base_calls(contract: Contract, seed: int, most: int = CALLS, repair: Repair | None = None) -> list[Call]:
    """Choose allowed calls of 2 to `MOST_VALUES` values, with structures from the walk.

    Types and granularities (or modes) alternate. Every other call has random scales; the rest have one of the other kinds each.
    """
    rng = np.random.default_rng(derived_seed(seed, contract.id, "equivalences"))
    groups: dict[tuple[str, ...], list[Structure]] = defaultdict(list)
    for structure in (*cell_structures(contract), *shape_structures(contract)):
        if 2 <= np.prod(structure.shape, dtype=np.int64) <= MOST_VALUES:
            groups[_group(contract, structure)].append(structure)
    queues = [[group[i] for i in rng.permutation(len(group))] for _, group in sorted(groups.items())]
    queues = [queues[i] for i in rng.permutation(len(queues))]
    calls: list[Call] = []
    repair = repair or Repair(contract)
    for turn in range(max(map(len, queues), default=0)):
        for queue in queues:
            if turn < len(queue) and len(calls) < most:
                structure = _with_recipe(queue[turn], len(calls), int(rng.integers(2**32)))
                calls.append(build(contract, structure, f"equivalences {len(calls)}"))
    repaired = map(repair, calls)
    return [call for call in repaired if call is not None and 2 <= call.values <= MOST_VALUES]


def _group(contract: Contract, structure: Structure) -> tuple[str, ...]:
    if isinstance(structure, Range):
        return structure.input_dtype, structure.mode
    # If the zero point's type is free, readings differ on wide types.
    zero_point = "" if contract.domain.zero_point_dtypes is None else structure.zero_point_dtype
    return structure.x_dtype, zero_point, structure.granularity


def _with_recipe(structure: Structure, number: int, seed: int) -> Structure:
    if isinstance(structure, Range):
        return replace(structure, range_recipe=RANGE_RECIPES[number % len(RANGE_RECIPES)], seed=seed)
    half, odd = divmod(number, 2)
    recipe = SCALE_RECIPES[1 + half % (len(SCALE_RECIPES) - 1)] if odd else SCALE_RECIPES[0]
    return replace(structure, scale_recipe=recipe, zero_point_recipe="random", seed=seed)


def _turns(state: RunState) -> Iterator[tuple[Contract, list[tuple[int, Call]]]]:
    """Yield a batch of each contract in turn, so that all contracts share the time."""
    streams = [
        (contract, iter(enumerate(base_calls(contract, state.options.seed, repair=state.repair(contract)))))
        for contract in state.options.contracts
    ]
    while streams:
        batches = [(contract, stream, list(islice(stream, BATCH))) for contract, stream in streams]
        streams = [(contract, stream) for contract, stream, batch in batches if batch]
        yield from ((contract, batch) for contract, _, batch in batches if batch)


# -- sending ------------------------------------------------------------------------------------------------


def _send(state: RunState, contract: Contract, calls: Sequence[tuple[int, Call]]) -> _Sent:
    """Send calls and twins to every implementation that the contract judges. Each path gets its share."""
    pool = state.pool
    groups = [(number, call, _admitted(state, contract, twins(contract, call))) for number, call in calls]
    every = [c for _, call, others in groups for c in (call, *(c for twin in others for c in twin.calls))]
    # A user's own edition is sent under the id that implementations know.
    asked_as = {contract.id: contract.asked_as}
    blobs = {id(call): encode_call(call.under(asked_as.get(call.contract, call.contract))) for call in every}
    to = []
    for oracle in pool.answering(contract.id):
        worker = pool.workers[oracle.name]
        if worker.failed or not pool.judges(contract, oracle.name):
            continue
        questions = []
        for number, call, others in groups:
            for path, subject in zip(oracle.paths, pool.subjects[oracle.name], strict=True):
                if int((number + 1) * path.share) > int(number * path.share):
                    chosen = twins_for(state, contract, subject, others)
                    questions.append(Question(subject, number, call, chosen))
        worker.submit([(blobs[id(call)], q.subject.options) for q in questions for call in q.calls])
        to.append((oracle.name, tuple(questions)))
    return _Sent(contract, tuple(to))


def _admitted(state: RunState, contract: Contract, others: Sequence[Twin]) -> tuple[Twin, ...]:
    """The twins whose calls are within the limits that the user stated."""
    return tuple(twin for twin in others if all(state.admits(contract, call) for call in twin.calls))


def twins_for(state: RunState, contract: Contract, subject: Subject, others: Sequence[Twin]) -> tuple[Twin, ...]:
    """The twins for one implementation: those of this edition, and one of the next edition that judges it.

    Equality is transitive, so a change between two editions then shows once, where it happens.
    """
    own = tuple(twin for twin in others if twin.kind != "edition")
    by_id = {edition.id: edition for edition in state.options.contracts}
    order = {identity: index for index, identity in enumerate(contracts.ids())}
    for twin in others[len(own) :]:
        (call,) = twin.calls
        later = order.get(call.contract, 0) > order.get(contract.id, len(order))
        if not later or call.contract not in by_id or not _takes(state, by_id[call.contract], subject, call):
            continue
        return (*own, twin)
    return own


def _takes(state: RunState, contract: Contract, subject: Subject, call: Call) -> bool:
    """True if an edition judges the implementation, and the implementation takes its calls and this cell."""
    pool = state.pool
    if not pool.judges(contract, subject.name) or pool.oracles[subject.name] not in pool.answering(contract.id):
        return False
    tally = state.tally.cells.get((subject, contract.cell(call)))
    return tally is None or tally.answered > 0


# -- comparing ----------------------------------------------------------------------------------------------


def _receive(state: RunState, sent: _Sent) -> int:
    count = 0
    for name, questions in sent.to:
        outcomes = iter(state.pool.collect_oldest(name, state.interrupted))
        for question in questions:
            answers = list(islice(outcomes, len(question.calls)))
            if len(answers) == len(question.calls):
                count += _compare(state, sent.contract, question, answers)
    return count


def _compare(state: RunState, contract: Contract, question: Question, answers: Sequence[Outcome]) -> int:
    """Compare the outcomes of a call and its twins.

    Only the first twin of a kind that differs is recorded, since the cause is what the twins of a kind have in common.
    """
    judged, count = None, 0
    outcome, rest = answers[0], iter(answers[1:])
    recorded: set[str] = set()
    counted: set[int] = set()
    for twin in question.twins:
        pieces = list(islice(rest, len(twin.calls)))
        other = joined(twin, pieces)
        count += outcome.kind == other.kind == "tensor"
        if equivalence.same(outcome, other):
            continue
        for call, answer in ((question.call, outcome), *zip(twin.calls, pieces, strict=True)):
            if id(answer) not in counted:
                counted.add(id(answer))
                _count_wrong(state, question, call, answer)
        judged = judged or judge(contract, question.call, question.number)
        discrepancy = equivalence.differs(judged, question.subject.name, twin, outcome, other)
        if discrepancy is not None and twin.kind not in recorded:
            recorded.add(twin.kind)
            record(state, discrepancy, question.subject, judged, outcome)
    return count


def _count_wrong(state: RunState, question: Question, call: Call, outcome: Outcome) -> None:
    """Count a wrong outcome, or a death, in its cell, since no other phase may have made the call.

    Right outcomes are not counted, as they tell nothing new about a cell.
    """
    if outcome.tensor is None and outcome.kind not in ("crash", "hang", "unreadable"):
        return
    contract = state.contract(call.contract)
    judged = judge(contract, call, question.number)
    comparison = compared(judged, outcome)
    if comparison is not None and not comparison.wrong_values:
        return
    for discrepancy in state.tally.observe(judged, question.subject, outcome, True):
        record(state, discrepancy, question.subject, judged, outcome)
