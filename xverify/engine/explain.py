"""Explanation of one value: the result of every reading, and the implementations that give it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xverify import __version__
from xverify.arithmetic.reading import Operands, Reading
from xverify.arithmetic.readings import Stepwise
from xverify.contracts.model import Clause, Contract, Judgement
from xverify.core.bits import canonical, ulp_distance
from xverify.core.call import BITS, Call, Outcome, code_dtype, encode_call
from xverify.core.errors import UsageError, WorkerFailedError
from xverify.core.near import nearest
from xverify.core.rounding import is_subnormal
from xverify.oracles import all_oracles, answers, installed_version
from xverify.oracles.protocol import Oracle
from xverify.verify.attribute import neighbours
from xverify.verify.legal import legal_set
from xverify.workers.process import Limits
from xverify.workers.worker import Worker

ORACLE_SECONDS = 60.0
"""Seconds for one implementation to start and answer."""


@dataclass(frozen=True, eq=False)
class Result:
    """A code that some reading gives."""

    code: int

    legal: bool | None
    """None if the edition forbids the call, or leaves the call or this zero open."""

    clause: Clause
    """The clause that makes the code legal, that it contradicts, or that is silent about it."""

    ulp: int
    """Distance in ULP from the nearest admitted code; -1 if one of them is NaN."""

    admitted: tuple[Reading, ...]
    """The admitted readings that give the code."""

    others: tuple[Reading, ...]
    """The other readings that give the code."""

    @property
    def readings(self) -> tuple[Reading, ...]:
        return (*self.admitted, *self.others)


@dataclass(frozen=True, eq=False)
class Explanation:
    """The results of all readings for one call."""

    contract: Contract
    call: Call

    assumed: tuple[str, ...]
    """Operands that the user left out and that were assumed, or that were rounded; a few words each."""

    judgement: Judgement
    out_dtype: str
    results: tuple[Result, ...]

    subnormal: Clause | None = None
    """The clause that leaves a subnormal result open, if there is one."""

    problem: str = ""
    """Why no reading can be evaluated, or ""."""

    def result_of(self, code: int) -> Result | None:
        """The readings that give a code; None if no known reading does."""
        wanted = _canonical(code, self.out_dtype)
        return next((result for result in self.results if result.code == wanted), None)

    def leaves_open(self, code: int) -> bool:
        """True if the code is a flushed subnormal result that no admitted reading gives."""
        admitted = [result.code for result in self.results if result.admitted]
        return self.subnormal is not None and code not in admitted and _is_flushed(code, admitted, self.out_dtype)


@dataclass(frozen=True, eq=False)
class Answer:
    """The outcome of one implementation on paths that agree."""

    name: str
    version: str
    paths: tuple[str, ...]

    outcome: Outcome | None
    """None if it gave none; ``problem`` then says why."""

    code: int | None = None
    """The code of its values, if they are all the same and their tensor has the right type."""

    problem: str = ""


# -- the readings -------------------------------------------------------------------------------------


def recipes(contract: Contract, call: Call) -> Sequence[Reading]:
    """The known readings that the edition does not admit for this call.

    For a linear formula: those that differ from an admitted one in at most two stages, the nearest and simplest first. For a
    range formula: all of them.
    """
    admitted = contract.readings(call)
    names = {reading.name for reading in admitted}
    start = [reading for reading in admitted if isinstance(reading, Stepwise)]
    others = [reading for reading in neighbours(contract, call) if reading.name not in names]
    # The sort is stable: of equally near readings the simplest stays first; range recipes keep their own order.
    return sorted(others, key=lambda reading: _departures(reading, start))


def _departures(reading: Reading, start: Sequence[Stepwise]) -> int:
    if not isinstance(reading, Stepwise):
        return 0
    return min((reading.departures(admitted) for admitted in start), default=0)


def explain(contract: Contract, call: Call, assumed: tuple[str, ...] = ()) -> Explanation:
    """Evaluate every reading for a call whose values all have the same operands.

    Readings that agree are one result. Legal results come first, the others in the order in which attribution prefers them.
    """
    judgement = contract.judge(call)
    try:
        if "mode" in call.attributes and call.attributes["mode"] not in contract.domain.modes:
            raise ValueError(f"the edition has no formula for the mode {call.attributes['mode']!r}")
        operands = contract.operands(call)
        legal = legal_set(contract, call)
    except ValueError as error:
        problem = f"no reading can be evaluated: {error}"
        return Explanation(contract, call, assumed, judgement, "", (), problem=problem)
    first = (0,) * len(operands.shape)
    admitted: dict[int, list[Reading]] = {}
    for number, reading in enumerate(legal.readings):
        admitted.setdefault(int(legal.codes(number)[first]), []).append(reading)
    others = _by_bits(recipes(contract, call), operands)
    allowed = judgement.verdict == "allowed"
    silent = contract.clauses.get(f"{contract.id}/subnormal") if allowed and legal.subnormal.any() else None
    results = []
    for code in dict.fromkeys((*admitted, *others)):
        right = tuple(admitted.get(code, ()))
        beside = tuple(others.get(code, ()))
        name = None if right else beside[0].name
        clause = contract.clauses[contract.value_clause(call, name)]
        is_legal = bool(right) if allowed else None
        if silent is not None and not right and _is_flushed(code, admitted, legal.dtype):
            is_legal, clause = None, silent
        ulp = 0 if right else _distance(code, admitted, legal.dtype)
        results.append(Result(code, is_legal, clause, ulp, right, beside))
    return Explanation(contract, call, assumed, judgement, legal.dtype, tuple(results), silent)


def _is_flushed(code: int, admitted: Iterable[int], dtype: str) -> bool:
    """True if the code is the zero to which a subnormal code among the admitted ones is flushed."""
    sign = 1 << (BITS[dtype] - 1)
    return any(_is_subnormal_code(other, dtype) and other & sign == code for other in admitted)


def _by_bits(readings: Sequence[Reading], operands: Operands) -> dict[int, list[Reading]]:
    """Group readings by the code that they give; those proven equal are evaluated once."""
    first = (0,) * len(operands.shape)
    code_of: dict[Reading, int] = {}
    by_code: dict[int, list[Reading]] = {}
    for reading in readings:
        simple = reading.simplified(operands)
        if simple not in code_of:
            codes: Any = simple.evaluate(operands)
            code_of[simple] = _canonical(int(codes[first]), operands.output_dtype)
        by_code.setdefault(code_of[simple], []).append(reading)
    return by_code


def _canonical(code: int, dtype: str) -> int:
    return int(canonical(np.array([code], code_dtype(dtype)), dtype)[0])


def _distance(code: int, admitted: Mapping[int, object], dtype: str) -> int:
    """Distance in ULP from the nearest admitted code; -1 if none is a number."""
    others = np.array(list(admitted), code_dtype(dtype))
    distances = ulp_distance(np.full_like(others, code), others, dtype)
    return int(min((d for d in distances if d >= 0), default=-1))


def _is_subnormal_code(code: int, dtype: str) -> bool:
    """True if the code is a subnormal number."""
    return bool(is_subnormal(np.array([code], code_dtype(dtype)), dtype)[0])


# -- the implementations ------------------------------------------------------------------------------


def implementations(contract: Contract, names: Sequence[str]) -> tuple[tuple[Oracle, ...], tuple[str, ...]]:
    """Choose the implementations that answer.

    Args:
        names: Names of implementations; all if there are none.

    Returns:
        The implementations, and a sentence for each that cannot answer.

    Raises:
        UsageError: A name is unknown.
    """
    oracles = all_oracles()
    chosen, sentences = [], []
    for name in names or oracles:
        if name not in oracles:
            raise UsageError(f"no implementation is called {name!r}{nearest(name, oracles)}; see: xverify oracles")
        oracle = oracles[name]
        if not answers(oracle, contract.asked_as):
            if names:
                sentences.append(f"{name} does not take calls of {contract.asked_as}")
        elif installed_version(oracle) is None:
            sentences.append(f"{name} is not installed: pip install {oracle.distribution}")
        else:
            chosen.append(oracle)
    return tuple(chosen), tuple(sentences)


def ask(
    explanation: Explanation, oracles: Sequence[Oracle], directory: Path, limit: float = ORACLE_SECONDS
) -> list[Answer]:
    """Get the outcomes of the implementations, each in a worker of its own, all at once.

    Args:
        directory: Where the workers keep their files.
        limit: Seconds for each implementation.
    """
    call = explanation.call.under(explanation.contract.asked_as)
    limits = Limits(call=min(10.0, limit), start=limit)
    workers = [Worker(oracle, directory, limits=limits) for oracle in oracles]
    try:
        for worker in workers:
            worker.start()
            worker.submit([(encode_call(call), path.options) for path in worker.oracle.paths])
        until = time.monotonic() + limit
        return [answer for worker in workers for answer in _answers(explanation, worker, until, limit)]
    finally:
        for worker in workers:
            worker.stop()


def _answers(explanation: Explanation, worker: Worker, until: float, limit: float) -> list[Answer]:
    oracle = worker.oracle
    version = __version__ if oracle.distribution == "xverify" else installed_version(oracle) or ""
    try:
        outcomes = worker.collect(max(0.1, until - time.monotonic()))
    except TimeoutError:
        return [Answer(oracle.name, version, (), None, problem=f"no answer within {limit:g} s")]
    except WorkerFailedError as error:
        return [Answer(oracle.name, version, (), None, problem=str(error))]
    merged: list[tuple[Outcome, list[str]]] = []
    for path, outcome in zip(oracle.paths, outcomes, strict=True):
        same = next((paths for other, paths in merged if other.same(outcome)), None)
        if same is None:
            merged.append((outcome, [path.options]))
        else:
            same.append(path.options)
    return [
        Answer(oracle.name, version, tuple(paths), outcome, _single_code(explanation, outcome))
        for outcome, paths in merged
    ]


def _single_code(explanation: Explanation, outcome: Outcome) -> int | None:
    """The code of a tensor of the right type and shape, if all its values are the same."""
    got = outcome.tensor
    if got is None or got.dtype != explanation.out_dtype or got.shape != explanation.call.data.shape:
        return None
    codes = np.unique(canonical(got.codes, got.dtype))
    return int(codes[0]) if codes.size == 1 else None
