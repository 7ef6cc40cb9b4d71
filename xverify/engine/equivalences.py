"""Asking every implementation the same thing in several ways, at the end of a run.

Of each contract a few calls are chosen, spread over types and granularities; each goes to every implementation that the
edition judges, together with its twins (see `xverify.strategies.equivalents`), and the answers are compared bit for bit. Only
where they differ is a legal set computed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from xverify import contracts
from xverify.contracts.model import Contract
from xverify.core.call import Call, Outcome, encode_call
from xverify.engine.plan import derived_seed
from xverify.strategies import build
from xverify.strategies.equivalents import Twin, joined, twins
from xverify.strategies.structures import Range, Structure
from xverify.strategies.values import RANGE_RECIPES, SCALE_RECIPES
from xverify.strategies.walk import cell_structures, shape_structures
from xverify.verify import equivalence
from xverify.verify.findings import Subject
from xverify.verify.verdicts import compared, judge

if TYPE_CHECKING:
    from xverify.engine.run import Sweep  # which calls `check`

CALLS = 45
"""Calls of each contract whose twins are asked for: one for each type of x and granularity of the newest edition."""

MOST_VALUES = 1000

BATCH = 10
"""Calls that go out together, each with its twins."""


@dataclass(frozen=True, eq=False)
class Question:
    """A call that one implementation is asked on one path, and the other ways in which it is asked for the same."""

    subject: Subject
    number: int
    call: Call
    twins: tuple[Twin, ...]

    @property
    def calls(self) -> tuple[Call, ...]:
        """The call, then those of its twins in order."""
        return (self.call, *(call for twin in self.twins for call in twin.calls))


@dataclass(frozen=True, eq=False)
class _Sent:
    contract: Contract
    to: tuple[tuple[str, tuple[Question, ...]], ...]


def check(sweep: Sweep, limit: Callable[[], bool]) -> int:
    """Ask, compare, and add what differs to the run's findings; how many answers were compared with one of a twin.

    To be called when no batch is under way, and before the run concludes: an answer outside its legal set is counted in
    its cell like any other, and said at the run's end. limit: whether the time has run out. What is asked depends on the
    seed and on which cells the implementations answered; an interrupted run, or one out of time, asks less.
    """
    count = 0
    before: _Sent | None = None
    turns = _turns(sweep)
    while not (limit() or sweep.interrupted.is_set()) and (turn := next(turns, None)) is not None:
        contract, calls = turn
        sent = _send(sweep, contract, calls)
        count += _receive(sweep, before) if before is not None else 0
        before = sent
    return count + (_receive(sweep, before) if before is not None else 0)


def base_calls(contract: Contract, seed: int, most: int = CALLS) -> list[Call]:
    """Allowed calls of 2 to 1 000 values: types and granularities (or modes) in turn, their structures from the walk,
    every other one with drawn scales and the rest with each other kind in turn."""
    rng = np.random.default_rng(derived_seed(seed, contract.id, "equivalences"))
    groups: dict[tuple[str, ...], list[Structure]] = defaultdict(list)
    for structure in (*cell_structures(contract), *shape_structures(contract)):
        if 2 <= np.prod(structure.shape, dtype=np.int64) <= MOST_VALUES:
            groups[_group(contract, structure)].append(structure)
    queues = [[group[i] for i in rng.permutation(len(group))] for _, group in sorted(groups.items())]
    queues = [queues[i] for i in rng.permutation(len(queues))]
    calls: list[Call] = []
    for turn in range(max(map(len, queues), default=0)):
        for queue in queues:
            if turn < len(queue) and len(calls) < most:
                structure = _with_recipe(queue[turn], len(calls), int(rng.integers(2**32)))
                calls.append(build(contract, structure, f"equivalences {len(calls)}"))
    return [call for call in calls if contract.judge(call).verdict == "allowed"]


def _group(contract: Contract, structure: Structure) -> tuple[str, ...]:
    if isinstance(structure, Range):
        return structure.input_dtype, structure.mode
    # Where the zero point's type is free, a wide one is what readings differ on.
    zero_point = "" if contract.domain.zero_point_dtypes is None else structure.zero_point_dtype
    return structure.x_dtype, zero_point, structure.granularity


def _with_recipe(structure: Structure, number: int, seed: int) -> Structure:
    if isinstance(structure, Range):
        return replace(structure, range_recipe=RANGE_RECIPES[number % len(RANGE_RECIPES)], seed=seed)
    half, odd = divmod(number, 2)
    recipe = SCALE_RECIPES[1 + half % (len(SCALE_RECIPES) - 1)] if odd else SCALE_RECIPES[0]
    return replace(structure, scale_recipe=recipe, zero_point_recipe="random", seed=seed)


def _turns(sweep: Sweep) -> Iterator[tuple[Contract, list[tuple[int, Call]]]]:
    """A batch of each contract in turn, so that time that runs out is divided among them."""
    streams = [
        (contract, iter(enumerate(base_calls(contract, sweep.options.seed)))) for contract in sweep.options.contracts
    ]
    while streams:
        batches = [(contract, stream, list(islice(stream, BATCH))) for contract, stream in streams]
        streams = [(contract, stream) for contract, stream, batch in batches if batch]
        yield from ((contract, batch) for contract, _, batch in batches if batch)


# -- asking -------------------------------------------------------------------------------------------------


def _send(sweep: Sweep, contract: Contract, calls: Sequence[tuple[int, Call]]) -> _Sent:
    """Send the calls and their twins to every implementation that the contract judges, each path taking its share."""
    fleet = sweep.fleet
    asked = [(number, call, twins(contract, call)) for number, call in calls]
    every = (one for _, call, others in asked for one in (call, *(c for twin in others for c in twin.calls)))
    # A user's own edition is asked as the one that implementations know.
    asked_as = {contract.id: contract.asked_as}
    blobs = {id(call): encode_call(call.under(asked_as.get(call.contract, call.contract))) for call in every}
    to = []
    for oracle in fleet.answering(contract.id):
        worker = fleet.workers[oracle.name]
        if worker.failed or not fleet.judges(contract, oracle.name):
            continue
        questions = []
        for number, call, others in asked:
            for path, subject in zip(oracle.paths, fleet.subjects[oracle.name], strict=True):
                if int((number + 1) * path.share) > int(number * path.share):
                    chosen = twins_for(sweep, contract, subject, others)
                    questions.append(Question(subject, number, call, chosen))
        worker.submit([(blobs[id(call)], q.subject.options) for q in questions for call in q.calls])
        to.append((oracle.name, tuple(questions)))
    return _Sent(contract, tuple(to))


def twins_for(sweep: Sweep, contract: Contract, subject: Subject, others: Sequence[Twin]) -> tuple[Twin, ...]:
    """The twins that an implementation is asked: those of the call's own edition, and one in the next edition that judges
    it. Equality is transitive, so a change between two editions is then seen once, where it happens."""
    own = tuple(twin for twin in others if twin.kind != "edition")
    known = {one.id: one for one in sweep.options.contracts}
    order = {identity: place for place, identity in enumerate(contracts.ids())}
    for twin in others[len(own) :]:
        (call,) = twin.calls
        later = order.get(call.contract, 0) > order.get(contract.id, len(order))
        if not later or call.contract not in known or not _takes(sweep, known[call.contract], subject, call):
            continue
        return (*own, twin)
    return own


def _takes(sweep: Sweep, contract: Contract, subject: Subject, call: Call) -> bool:
    """Whether an edition judges the implementation, which takes its calls, and is not known to refuse that cell."""
    fleet = sweep.fleet
    if not fleet.judges(contract, subject.name) or fleet.oracles[subject.name] not in fleet.answering(contract.id):
        return False
    tally = sweep.tally.cells.get((subject, contract.cell(call)))
    return tally is None or tally.answered > 0


# -- comparing ----------------------------------------------------------------------------------------------


def _receive(sweep: Sweep, sent: _Sent) -> int:
    count = 0
    for name, questions in sent.to:
        outcomes = iter(sweep.fleet.oldest(name, sweep.interrupted))
        for question in questions:
            given = list(islice(outcomes, len(question.calls)))
            if len(given) == len(question.calls):
                count += _compare(sweep, sent.contract, question, given)
    return count


def _compare(sweep: Sweep, contract: Contract, question: Question, given: Sequence[Outcome]) -> int:
    """Compare the answers to one question; of the twins of one kind the first that differs is said, since what they have
    in common is what differs."""
    judged, count = None, 0
    outcome, rest = given[0], iter(given[1:])
    said: set[str] = set()
    passed_on: set[int] = set()
    for twin in question.twins:
        pieces = list(islice(rest, len(twin.calls)))
        other = joined(twin, pieces)
        count += outcome.kind == other.kind == "tensor"
        if equivalence.same(outcome, other):
            continue
        for call, answer in ((question.call, outcome), *zip(twin.calls, pieces, strict=True)):
            if id(answer) not in passed_on:
                passed_on.add(id(answer))
                _pass_on(sweep, question, call, answer)
        judged = judged or judge(contract, question.call, question.number)
        found = equivalence.differs(judged, question.subject.name, twin, outcome, other)
        if found is not None and twin.kind not in said:
            said.add(twin.kind)
            sweep.add(found, question.subject, judged, outcome)
    return count


def _pass_on(sweep: Sweep, question: Question, call: Call, outcome: Outcome) -> None:
    """Have the ordinary judgement count an answer that is wrong by itself, or a death: nobody else may have asked that
    call. Right answers are not counted, as they tell a cell nothing new."""
    if outcome.tensor is None and outcome.kind not in ("crash", "hang"):
        return
    contract = next(one for one in sweep.options.contracts if one.id == call.contract)
    judged = judge(contract, call, question.number)
    comparison = compared(judged, outcome)
    if comparison is not None and not comparison.wrong_values:
        return
    for found in sweep.tally.observe(judged, question.subject, outcome, True):
        sweep.add(found, question.subject, judged, outcome)
