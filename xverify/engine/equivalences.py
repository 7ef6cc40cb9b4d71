"""Phase: comparison of calls that ask for the same values in different ways.

A few calls of each contract are chosen, spread over types and granularities. Each goes to every implementation that the edition
judges, together with its twins (see `xverify.strategies.equivalents`), and the outcomes are compared bit for bit. A legal set
is computed only where they differ.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
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

MOST_AGAIN = 100
"""The largest number of questions that go out together after an implementation refused a twin of each."""

BATCH = 10
"""The number of calls that go out together, each with its twins."""


@dataclass(frozen=True, eq=False)
class Question:
    """A call for one implementation on one path, and its twins.

    A twin asks for the same values in another way. A question without twins only checks the call's values.
    """

    subject: Subject

    number: int
    """Position of the call among the chosen calls of its contract."""

    call: Call
    twins: tuple[Twin, ...]

    later: tuple[Twin, ...] = ()
    """Twins under later editions, to be asked if the implementation refuses that of the next edition."""

    is_again: bool = False
    """True if the call was asked before, with a twin that was refused. Its outcome is counted already."""

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
    like any other, and becomes a finding when the run concludes. The calls depend on the seed and on the twins that
    implementations refuse. An interrupted run sends fewer calls.

    Args:
        limit: True if no further calls are to be sent.

    Returns:
        The number of outcomes that were compared with that of a twin.
    """
    count = 0
    before: _Sent | None = None
    refused: list[tuple[Contract, Question]] = []
    turns, is_overdue = _turns(state), state.overdue(limit, state.patience)
    while not (limit() or state.interrupted.is_set()) and (turn := next(turns, None)) is not None:
        sent = _send(state, turn)
        count += _receive(state, before, refused, is_overdue) if before is not None else 0
        before = sent
    count += _receive(state, before, refused, is_overdue) if before is not None else 0
    while refused and not (limit() or state.interrupted.is_set()):
        contract = refused[0][0]
        batch = [question for of, question in refused if of is contract][:MOST_AGAIN]
        refused = [(of, question) for of, question in refused if question not in batch]
        count += _receive(state, _submit(state, contract, _by_implementation(batch)), refused, is_overdue)
    return count


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


Group = tuple[int, Call, tuple[Twin, ...]]
"""A chosen call of an edition with its number, and all its twins."""


@dataclass(frozen=True, eq=False)
class _Turn:
    """A batch of one edition."""

    contract: Contract

    groups: tuple[Group, ...]

    earlier: Contract | None = None
    """The edition that the calls are from. Only their twins under ``contract`` are sent, to check their values.

    The session of ``earlier`` makes these twins too, to compare them. It does not count them, because what a session says about
    an edition must not depend on the other editions in it.
    """


def _turns(state: RunState) -> Iterator[_Turn]:
    """Yield a batch of each contract in turn, so that all contracts share the time."""
    made: dict[str, list[Group]] = {}

    def groups(contract: Contract) -> list[Group]:
        if contract.id not in made:
            calls = enumerate(base_calls(contract, state.options.seed, repair=state.repair(contract)))
            made[contract.id] = [(n, call, _admitted(state, contract, twins(contract, call))) for n, call in calls]
        return made[contract.id]

    def stream(contract: Contract) -> Iterator[_Turn]:
        part = state.options.part(contract).slice
        for source in (contract, *_earlier(state, contract)):
            chosen = iter(groups(source)[part.index :: part.count])
            while batch := tuple(islice(chosen, BATCH)):
                yield _Turn(contract, batch, None if source is contract else source)

    streams = [stream(contract) for contract in state.options.contracts]
    while streams:
        turns = [(each, next(each, None)) for each in streams]
        streams = [each for each, turn in turns if turn is not None]
        yield from (turn for _, turn in turns if turn is not None)


def _earlier(state: RunState, contract: Contract) -> list[Contract]:
    """The earlier editions of the run that judge an implementation which this one judges too."""
    pool = state.pool
    names = [oracle.name for oracle in pool.answering(contract.id) if pool.judges(contract, oracle.name)]
    return [
        other
        for other in state.options.editions
        if _is_later(contract.id, other.id) and any(_judges(state, other, name) for name in names)
    ]


def _is_later(edition: str, other: str) -> bool:
    """True if an edition comes after another one. No edition comes before or after a user's own."""
    ids = contracts.ids()
    return edition in ids and other in ids and ids.index(edition) > ids.index(other)


def _judges(state: RunState, contract: Contract, name: str) -> bool:
    """True if an edition judges the implementation, and the implementation takes its calls."""
    pool = state.pool
    return pool.judges(contract, name) and pool.oracles[name] in pool.answering(contract.id)


# -- sending ------------------------------------------------------------------------------------------------


def _send(state: RunState, turn: _Turn) -> _Sent:
    """Send calls and twins to every implementation that the contract judges. Each path gets its share."""
    pool, contract = state.pool, turn.contract
    to: dict[str, list[Question]] = {}
    for oracle in pool.answering(contract.id):
        if pool.workers[oracle.name].failed or not pool.judges(contract, oracle.name):
            continue
        to[oracle.name] = []
        for number, call, others in turn.groups:
            for path, subject in zip(oracle.paths, pool.subjects[oracle.name], strict=True):
                if int((number + 1) * path.share) > int(number * path.share):
                    to[oracle.name] += _questions(state, turn, subject, number, call, others)
    return _submit(state, contract, to)


def _questions(
    state: RunState, turn: _Turn, subject: Subject, number: int, call: Call, others: Sequence[Twin]
) -> list[Question]:
    if turn.earlier is None:
        own = tuple(twin for twin in others if twin.kind != "edition")
        later = later_twins(state, turn.contract, subject, others)
        # Equality is transitive. With the next edition only, a change between two editions shows once, where it happens.
        return [Question(subject, number, call, (*own, *later[:1]), later[1:])]
    if not _judges(state, turn.earlier, subject.name):
        return []
    later = later_twins(state, turn.earlier, subject, others)[:1]
    return [
        Question(subject, number, twin.calls[0], ()) for twin in later if twin.calls[0].contract == turn.contract.id
    ]


def _by_implementation(questions: Sequence[Question]) -> dict[str, list[Question]]:
    to: dict[str, list[Question]] = defaultdict(list)
    for question in questions:
        to[question.subject.name].append(question)
    return to


def _submit(state: RunState, contract: Contract, to: Mapping[str, Sequence[Question]]) -> _Sent:
    # A user's own edition is sent under the id that implementations know.
    asked_as = {contract.id: contract.asked_as}
    blobs: dict[int, bytes] = {}
    for question in (question for questions in to.values() for question in questions):
        for call in question.calls:
            if id(call) not in blobs:
                blobs[id(call)] = encode_call(call.under(asked_as.get(call.contract, call.contract)))
    for name, questions in to.items():
        state.pool.workers[name].submit([(blobs[id(call)], q.subject.options) for q in questions for call in q.calls])
    return _Sent(contract, tuple((name, tuple(questions)) for name, questions in to.items()))


def _admitted(state: RunState, contract: Contract, others: Sequence[Twin]) -> tuple[Twin, ...]:
    """The twins whose calls are within the limits that the user stated."""
    return tuple(twin for twin in others if all(state.admits(contract, call) for call in twin.calls))


def later_twins(state: RunState, contract: Contract, subject: Subject, others: Sequence[Twin]) -> tuple[Twin, ...]:
    """The twins under later editions of the run that judge the implementation, the next edition first."""
    by_id = {edition.id: edition for edition in state.options.editions}
    return tuple(
        twin
        for twin in others
        if twin.kind == "edition"
        and (other := by_id.get(twin.calls[0].contract)) is not None
        and _is_later(other.id, contract.id)
        and _judges(state, other, subject.name)
    )


# -- comparing ----------------------------------------------------------------------------------------------


def _receive(
    state: RunState, sent: _Sent, refused: list[tuple[Contract, Question]], is_overdue: Callable[[], bool]
) -> int:
    """Compare the outcomes of a batch. Append the questions to be sent again to ``refused``."""
    count = 0
    for name, questions in sent.to:
        outcomes = iter(state.pool.collect_oldest(name, state.interrupted, is_overdue))
        for question in questions:
            answers = list(islice(outcomes, len(question.calls)))
            if len(answers) != len(question.calls):
                continue
            if question.twins:
                count += _compare(state, sent.contract, question, answers)
            else:
                _count_wrong(state, question, question.call, answers[0])
            if question.later and answers[0].tensor is not None and answers[-1].refused:
                again = replace(question, twins=question.later[:1], later=question.later[1:], is_again=True)
                refused.append((sent.contract, again))
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
        of_edition = [(question.call, outcome)] if not question.is_again else []
        of_edition += zip(twin.calls, pieces, strict=True) if twin.kind != "edition" else ()
        for call, answer in of_edition:
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
