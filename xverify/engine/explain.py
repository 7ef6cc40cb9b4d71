"""One value explained: what every reading gives for a triple of operands, what is legal by which clause, who gives what."""

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
from xverify.core.rounding import is_subnormal
from xverify.engine.select import nearest
from xverify.oracles import all_oracles, answers, installed_version
from xverify.oracles.protocol import Oracle
from xverify.verify.attribute import neighbours
from xverify.verify.legal import legal_set
from xverify.workers.process import Limits
from xverify.workers.worker import Worker

ORACLE_SECONDS = 60.0
"""How long one implementation may take to start and answer."""


@dataclass(frozen=True, eq=False)
class Result:
    """Bits that some reading gives. legal: None where the edition forbids the call or leaves it or this zero open. clause: by
    which the bits are legal, which they contradict, or which is silent. ulp: distance from the nearest of the admitted bits, -1
    when one is NaN."""

    code: int
    legal: bool | None
    clause: Clause
    ulp: int
    admitted: tuple[Reading, ...]
    others: tuple[Reading, ...]

    @property
    def readings(self) -> tuple[Reading, ...]:
        return (*self.admitted, *self.others)


@dataclass(frozen=True, eq=False)
class Explanation:
    """problem: why no reading can be evaluated, or "". subnormal: the clause that leaves a subnormal result open, when there
    is one. assumed: what the user did not say and was assumed, or had to be rounded; a few words each."""

    contract: Contract
    call: Call
    assumed: tuple[str, ...]
    judgement: Judgement
    out_dtype: str
    results: tuple[Result, ...]
    subnormal: Clause | None = None
    problem: str = ""

    def result_of(self, code: int) -> Result | None:
        """The readings that give a code; None when no known reading does."""
        wanted = _canonical(code, self.out_dtype)
        return next((result for result in self.results if result.code == wanted), None)

    def leaves_open(self, code: int) -> bool:
        """Whether the code is the zero that comes of flushing a subnormal result, and no reading that is admitted gives it."""
        admitted = [result.code for result in self.results if result.admitted]
        return self.subnormal is not None and code not in admitted and _is_flushed(code, admitted, self.out_dtype)


@dataclass(frozen=True, eq=False)
class Answer:
    """What one implementation gives, on the ways through it that agree. outcome: None when it gave none, and ``problem`` says
    why. code: of the values, when it gave a tensor of the due type whose values are all the same."""

    name: str
    version: str
    paths: tuple[str, ...]
    outcome: Outcome | None
    code: int | None = None
    problem: str = ""


# -- the readings -------------------------------------------------------------------------------------


def recipes(contract: Contract, call: Call) -> Sequence[Reading]:
    """The known readings that the edition does not admit for this call: of a linear formula those that differ from an
    admitted one in at most two stages, the nearest and simplest first; of a range formula all."""
    admitted = contract.readings(call)
    names = {reading.name for reading in admitted}
    start = [reading for reading in admitted if isinstance(reading, Stepwise)]
    others = [reading for reading in neighbours(contract, call) if reading.name not in names]
    # A stable sort: of equally near ones the simplest stays first; range recipes have an order of their own.
    return sorted(others, key=lambda reading: _departures(reading, start))


def _departures(reading: Reading, start: Sequence[Stepwise]) -> int:
    if not isinstance(reading, Stepwise):
        return 0
    return min((reading.departures(admitted) for admitted in start), default=0)


def explain(contract: Contract, call: Call, assumed: tuple[str, ...] = ()) -> Explanation:
    """What every reading gives for a call whose values all have the same operands: bits in which readings agree are one
    result, the legal ones first, the others in the order in which attribution prefers their readings."""
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
    """Whether the code is the zero that comes of a subnormal one among the admitted."""
    sign = 1 << (BITS[dtype] - 1)
    return any(_is_subnormal_code(other, dtype) and other & sign == code for other in admitted)


def _by_bits(readings: Sequence[Reading], operands: Operands) -> dict[int, list[Reading]]:
    """The readings by the code that they give; those proven equal are evaluated once."""
    first = (0,) * len(operands.shape)
    known: dict[Reading, int] = {}
    found: dict[int, list[Reading]] = {}
    for reading in readings:
        simple = reading.simplified(operands)
        if simple not in known:
            codes: Any = simple.evaluate(operands)
            known[simple] = _canonical(int(codes[first]), operands.output_dtype)
        found.setdefault(known[simple], []).append(reading)
    return found


def _canonical(code: int, dtype: str) -> int:
    return int(canonical(np.array([code], code_dtype(dtype)), dtype)[0])


def _distance(code: int, admitted: Mapping[int, object], dtype: str) -> int:
    """ULP from the nearest of the admitted codes; -1 when that is no number."""
    nearest_ones = np.array(list(admitted), code_dtype(dtype))
    distances = ulp_distance(np.full_like(nearest_ones, code), nearest_ones, dtype)
    return int(min((d for d in distances if d >= 0), default=-1))


def _is_subnormal_code(code: int, dtype: str) -> bool:
    """Whether one code is a subnormal number."""
    return bool(is_subnormal(np.array([code], code_dtype(dtype)), dtype)[0])


# -- the implementations ------------------------------------------------------------------------------


def implementations(contract: Contract, names: Sequence[str]) -> tuple[tuple[Oracle, ...], tuple[str, ...]]:
    """The implementations to ask (of those named, or of all), and a sentence for each that cannot be asked.

    Raises UsageError for an unknown name.
    """
    known = all_oracles()
    chosen, sentences = [], []
    for name in names or known:
        if name not in known:
            raise UsageError(f"no implementation is called {name!r}{nearest(name, known)}; see: xverify oracles")
        oracle = known[name]
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
    """What the implementations give, each in a worker of its own, all at once; ``limit``: seconds for each."""
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
        same = next((paths for known, paths in merged if known.same(outcome)), None)
        if same is None:
            merged.append((outcome, [path.options]))
        else:
            same.append(path.options)
    return [
        Answer(oracle.name, version, tuple(paths), outcome, _one_code(explanation, outcome))
        for outcome, paths in merged
    ]


def _one_code(explanation: Explanation, outcome: Outcome) -> int | None:
    """The code of a tensor of the due type and shape, if all its values are the same."""
    got = outcome.tensor
    if got is None or got.dtype != explanation.out_dtype or got.shape != explanation.call.data.shape:
        return None
    codes = np.unique(canonical(got.codes, got.dtype))
    return int(codes[0]) if codes.size == 1 else None
