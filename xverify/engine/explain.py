"""One value explained: what every reading gives for a triple of operands, what is legal by which clause, who gives what."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from oracles import all_oracles, answers, installed_version
from oracles.protocol import Oracle
from xverify import __version__
from xverify.contracts.external import SCALES
from xverify.contracts.model import Clause, Contract, Domain, Judgement, Operands, Reading
from xverify.contracts.single import Number, single_call
from xverify.core.bits import canonical, ulp_distance
from xverify.core.call import Attribute, Call, Outcome, code_dtype, encode_call
from xverify.core.dtypes import FLOATS, INTEGERS, QUANTIZED, SMALL_FLOATS, decimal, hexadecimal
from xverify.core.rounding import is_subnormal
from xverify.engine.numerals import Numeral, code_of, exact, holds, numeral
from xverify.engine.select import UsageError, nearest
from xverify.engine.workers import Worker, WorkerFailedError
from xverify.verify.attribute import readings_of
from xverify.verify.legal import legal_set

X_TYPES = ("uint8", "int8", "uint16", "int16", "int32", "uint4", "int4", "uint2", "int2", *SMALL_FLOATS)
"""The types of x in the order in which they are tried when none is given."""

ORACLE_SECONDS = 60.0
"""How long one implementation may take to start and answer."""


@dataclass(frozen=True)
class Question:
    """What the user typed: numbers as text, None where nothing was; types by name, "" where none was."""

    x: str
    scale: str | None = None
    zero_point: str | None = None
    low: str | None = None
    high: str | None = None
    mode: str = ""
    narrow_range: bool = False
    types: Mapping[str, str] = field(default_factory=dict)
    """By "x", "scale", "zero_point" and "out"."""


@dataclass(frozen=True, eq=False)
class Result:
    """Bits that some reading gives. legal: None where the edition forbids the call or leaves it open. clause: by which the
    bits are legal, or which they contradict. ulp: distance from the nearest of the admitted bits, -1 when one is NaN."""

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


# -- the call -----------------------------------------------------------------------------------------


def make_call(contract: Contract, question: Question) -> tuple[Call, tuple[str, ...]]:
    """The call of one value that a question asks for, and a few words on each thing that was assumed or rounded.

    Raises UsageError for a number that is none, or is outside its type, and for what the family of operators does not have.
    """
    assumed: list[str] = []
    family = contract.domain.family
    foreign = {"scale": question.scale, "zero-point": question.zero_point} if family == "range" else {
        "min": question.low, "max": question.high, "mode": question.mode or None,
        "narrow-range": question.narrow_range or None,
    }  # fmt: skip
    for name, given in foreign.items():
        if given is not None:
            raise UsageError(f"{contract.id} has no --{name}; {_asks_for(family)}")
    attributes: dict[str, Attribute] = {}
    if family == "range":
        operands = _range_operands(contract, question, attributes, assumed)
    else:
        operands = _linear_operands(contract, question, assumed)
    _set_output(contract, question, operands, attributes, assumed)
    call = single_call(contract, operands, attributes)
    wanted = question.types.get("out")
    if wanted and not _output_attribute(contract.domain):
        try:
            due = contract.operands(call).output_dtype
        except ValueError:
            due = wanted
        if due != wanted:
            raise UsageError(f"{contract.id} has no attribute for the output's type: here it is {due}, not {wanted}")
    return call, tuple(assumed)


def _asks_for(family: str) -> str:
    return "it takes --x, --min, --max, --mode" if family == "range" else "it takes --x, --scale, --zero-point"


def _linear_operands(contract: Contract, question: Question, assumed: list[str]) -> dict[str, Number]:
    domain = contract.domain
    if question.scale is None:
        raise UsageError(f"--scale is missing: {contract.id} computes with one")
    text = question.zero_point
    if text is None and domain.zero_point_required:
        text = "0"
        assumed.append("assumed a zero point of 0, since the edition requires one")
    x, scale = numeral(question.x, "x"), numeral(question.scale, "scale")
    zero_point = None if text is None else numeral(text, "zero point")
    together = [x] if zero_point is None or domain.zero_point_dtypes is not None else [x, zero_point]
    x_dtype = _given(question, "x", QUANTIZED) or _first_holding(contract, "x", domain.x_dtypes, together, assumed)
    scale_dtype = _given(question, "scale", SCALES)
    if not scale_dtype:
        scale_dtype = next(dtype for dtype in SCALES if dtype in domain.scale_dtypes)
        assumed.append(f"assumed a scale of {scale_dtype}")
    operands = {"x": _number(x, x_dtype, "x", assumed), "scale": _number(scale, scale_dtype, "scale", assumed)}
    if zero_point is not None:
        dtype = _given(question, "zero_point", QUANTIZED)
        admitted = domain.zero_points_for(x_dtype)
        if not dtype and x_dtype in admitted and (holds(zero_point, x_dtype) or len(admitted) == 1):
            dtype = x_dtype
        dtype = dtype or _first_holding(contract, "zero point", admitted, [zero_point], assumed)
        operands["zero_point"] = _number(zero_point, dtype, "zero point", assumed)
    return operands


def _range_operands(
    contract: Contract, question: Question, attributes: dict[str, Attribute], assumed: list[str]
) -> dict[str, Number]:
    domain = contract.domain
    if question.low is None or question.high is None:
        raise UsageError(
            f"--{'min' if question.low is None else 'max'} is missing: {contract.id} computes with a range"
        )
    for name in ("scale", "zero_point"):
        if question.types.get(name):
            raise UsageError(f"{contract.id} has no {name.replace('_', ' ')}: its range is float32")
    x = numeral(question.x, "x")
    attributes["mode"] = question.mode or domain.modes[0]
    if not question.mode:
        assumed.append(f"assumed mode {domain.modes[0]}")
    if question.narrow_range:
        attributes["narrow_range"] = True
    x_dtype = _given(question, "x", INTEGERS) or _first_holding(contract, "x", domain.x_dtypes, [x], assumed)
    ends = {"min_range": (question.low, "min"), "max_range": (question.high, "max")}
    return {
        "input": _number(x, x_dtype, "x", assumed),
        **{role: _number(numeral(text, name), "float32", name, assumed) for role, (text, name) in ends.items()},
    }


def _given(question: Question, name: str, known: Sequence[str]) -> str:
    """The type that was asked for, if any."""
    dtype = question.types.get(name, "")
    if dtype and dtype not in known:
        listed = ", ".join(known)
        raise UsageError(
            f"{dtype!r} is no type of {name.replace('_', ' ')} here{nearest(dtype, known)}; there are {listed}"
        )
    return dtype


def _first_holding(
    contract: Contract, role: str, admitted: Sequence[str], numbers: Sequence[Numeral], assumed: list[str]
) -> str:
    """The first admitted type that has all the numbers; of a float, when none has them, the first."""
    for dtype in sorted(admitted, key=X_TYPES.index):
        if all(holds(number, dtype) for number in numbers):
            assumed.append(f"assumed {role} of {dtype}, the first type of the edition that holds {_listed(numbers)}")
            return dtype
    types = ", ".join(admitted)
    raise UsageError(
        f"{role}: no type of {contract.id} holds {_listed(numbers)}; it has {types}; --x-dtype chooses one"
    )


def _listed(numbers: Sequence[Numeral]) -> str:
    return " and ".join(dict.fromkeys(number.text for number in numbers))


def _number(number: Numeral, dtype: str, role: str, assumed: list[str]) -> Number:
    """The code of a number; that it had to be rounded is said."""
    code = code_of(number, dtype, role)
    if number.value is not None and exact(dtype, code) != number.value:
        assumed.append(
            f"{role} {number.text} rounded to {decimal(dtype, code)} ({hexadecimal(dtype, code)}) in {dtype}"
        )
    return dtype, code


def _output_attribute(domain: Domain) -> str:
    """The attribute that chooses the output's type, or ""."""
    name = "dtype" if domain.family == "range" else "output_dtype"
    return name if name in domain.attributes else ""


def _set_output(
    contract: Contract,
    question: Question,
    operands: Mapping[str, Number],
    attributes: dict[str, Attribute],
    assumed: list[str],
) -> None:
    domain, wanted = contract.domain, _given(question, "out", FLOATS)
    name = _output_attribute(domain)
    natural = operands["scale"][0] if "scale" in operands else "float32"
    if name and wanted and wanted != natural:
        attributes[name] = wanted
    elif name and not wanted and natural not in domain.output_dtypes:
        attributes[name] = next(dtype for dtype in FLOATS if dtype in domain.output_dtypes)
        assumed.append(f"assumed an output of {attributes[name]}, since the type of the scale is none")


# -- the readings -------------------------------------------------------------------------------------


def recipes(contract: Contract, call: Call) -> Sequence[Reading]:
    """The known readings of the edition's family that it does not admit for this call."""
    admitted = {reading.name for reading in contract.readings(call)}
    return [reading for name, reading in readings_of(contract.domain.family).items() if name not in admitted]


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
    results = []
    for code in dict.fromkeys((*admitted, *others)):
        right = tuple(admitted.get(code, ()))
        beside = tuple(others.get(code, ()))
        name = None if right else beside[0].name
        clause = contract.clauses[contract.value_clause(call, name)]
        ulp = 0 if right else _distance(code, admitted, legal.dtype)
        results.append(Result(code, bool(right) if allowed else None, clause, ulp, right, beside))
    silent = contract.clauses.get(f"{contract.id}/subnormal") if legal.subnormal.any() else None
    return Explanation(contract, call, assumed, judgement, legal.dtype, tuple(results), silent)


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


def is_subnormal_code(code: int, dtype: str) -> bool:
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
    workers = [Worker(oracle, directory, start_timeout=limit, call_timeout=min(10.0, limit)) for oracle in oracles]
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
