"""Calls of more than 2^31 elements, which the user asks for with ``--huge``.

An index of 32 bits ends there. Such a call is per tensor, and its x has few runs of equal codes. So the call and a right answer
take a few bytes between processes, and the legal set needs one value of each run. The kernel runs in a process of its own,
without the usual limit of memory.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.contracts.model import Contract
from xverify.core.bits import canonical
from xverify.core.call import BITS, Call, Outcome, encode_call, runs_of
from xverify.core.dtypes import decimal, hexadecimal
from xverify.core.verdict import Verdict
from xverify.engine.coverage import HUGE
from xverify.engine.gate_plan import Scope
from xverify.engine.record import record
from xverify.engine.state import RunState
from xverify.gate.options import GateOptions
from xverify.oracles.protocol import Oracle
from xverify.strategies import build
from xverify.strategies.large import huge_call, huge_structure
from xverify.verify import verdicts
from xverify.verify.findings import Discrepancy, Key, Subject
from xverify.verify.legal import Legal, legal_set
from xverify.verify.verdicts import Judged
from xverify.workers.pool import MakeWorker
from xverify.workers.process import Limits

CALL_SECONDS = 600.0
"""The longest time of the call, in seconds."""

SPARE = 1 << 30
"""Bytes of memory that are left for everything else."""

DETAIL = "huge"
"""The detail of the finding on wrong values."""

_NEEDED = "--huge needs calls per tensor with an x of at most 8 bits, which the kernel or the edition does not have"


@dataclass(frozen=True)
class Examined:
    """The result of a huge call."""

    judged: Judged
    outcome: Outcome | None = None
    """The outcome; None if the call was not made."""
    discrepancy: Discrepancy | None = None
    impossible: str = ""
    """A sentence that says why the call decides nothing; "" if it decides."""


def ask_huge(run: RunState, options: GateOptions, contract: Contract, scope: Scope) -> str:
    """Make a call of more than 2^31 elements, and record a wrong answer.

    Args:
        run: The run.
        options: Options of the gate.
        contract: The edition of the call.
        scope: The calls that the kernel implements.

    Returns:
        A sentence that says why the call is impossible; "" if it was answered.
    """
    narrow = replace(contract, domain=scope.domain)
    structure = huge_structure(narrow)
    small = None if structure is None else build(narrow, structure, "huge call")
    if small is None or not scope.admits(contract, small):
        return _NEEDED
    call = huge_call(small)
    kernel = run.pool.subjects[options.kernel.name][0]
    examined = examine(contract, run.options.oracles[0], kernel, call, options.worker, options.directory / "huge")
    if not examined.impossible:
        run.coverage.met[HUGE] += 1
    if examined.discrepancy is not None and examined.outcome is not None:
        record(run, examined.discrepancy, kernel, examined.judged, replace(examined.outcome, tensor=None))
    return examined.impossible


def examine(
    contract: Contract, oracle: Oracle, kernel: Subject, call: Call, worker: MakeWorker, directory: Path
) -> Examined:
    """Make a huge call, and compare its answer.

    Args:
        contract: The edition that judges the call.
        oracle: The kernel.
        kernel: The kernel as findings name it.
        call: A call per tensor. Its x has few runs of equal codes.
        worker: Makes the worker of the kernel.
        directory: A folder for the worker's files.
    """
    small = replace(call, tensors={**call.tensors, "x": _one_of_each_run(call)})
    judgement = contract.judge(small)
    judged = Judged(contract, call, judgement, None, None)
    if judgement.verdict != "allowed" or contract.cell(small).granularity != "per_tensor":
        return Examined(judged, impossible=_NEEDED)
    judged, legal = replace(judged, cell=contract.cell(small)), legal_set(contract, small)
    if missing := missing_memory(oracle, call, legal.dtype):
        return Examined(judged, impossible=missing)
    outcome = _answer(worker(oracle, directory, limits=_LIMITS), call.under(contract.asked_as))
    if outcome.kind == "unsupported":
        why = f"the kernel does not implement the call of --huge: {outcome.error} {outcome.message}".rstrip()
        return Examined(judged, outcome, impossible=why)
    if outcome.kind in ("crash", "hang"):
        # The memory that a kernel needs is unknown, so a crash or a hang here is no finding.
        why = outcome.message.partition("\n")[0] or outcome.kind
        return Examined(judged, outcome, impossible=f"the call of --huge, of {call.values} elements, failed: {why}")
    return Examined(judged, outcome, _discrepancy(judged, kernel.name, outcome, legal))


_LIMITS = Limits(call=CALL_SECONDS, memory=0, resident=1 << 62)


def _answer(worker: Any, call: Call) -> Outcome:
    try:
        worker.start()
        outcome: Outcome = worker.ask(encode_call(call))
        return outcome
    finally:
        worker.stop()


def _one_of_each_run(call: Call) -> Any:
    return replace(call.data, codes=runs_of(call.data.codes)[0], layout="C")


def missing_memory(kernel: Oracle, call: Call, out_dtype: str) -> str:
    """A sentence if the available memory does not hold the call; "" if it does.

    A Python kernel has x and its result, and a copy of the result is compared. A native kernel has guarded copies of both.
    """
    of_x, of_result = (6, 6) if kernel.module.endswith("native_kernel") else (1, 2)
    needed = call.values * (of_x + of_result * BITS[out_dtype] // 8) + SPARE
    available = _available()
    if available >= needed:
        return ""
    return (
        f"--huge needs {needed / 2**30:.0f} GiB of memory for {call.values} elements and their {out_dtype} result, and "
        f"{available / 2**30:.0f} GiB are available"
    )


def _available() -> int:
    """Bytes of memory that programs can get without swapping."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _discrepancy(judged: Judged, name: str, outcome: Outcome, legal: Legal) -> Discrepancy | None:
    call, got = judged.call, outcome.tensor
    if got is None:
        return verdicts.rejected(judged, name, outcome)
    key = Key(name, judged.contract.id, Verdict.VIOLATION, judged.contract.value_clause(call, None), DETAIL)
    if (got.dtype, got.shape) != (legal.dtype, call.data.shape):
        kinds = (f"{dtype} {list(shape)}" for dtype, shape in ((got.dtype, got.shape), (legal.dtype, call.data.shape)))
        return Discrepancy(key, f"{name} gives {' instead of '.join(kinds)}", values=call.values)
    wrong = first_wrong(call.data.codes, got.codes, legal)
    if wrong is None:
        return next(iter(verdicts.noted(judged, name, outcome)), None)
    wrong_value, legal_value = (
        f"{decimal(got.dtype, code)} ({hexadecimal(got.dtype, code)})" for code in (wrong.code, wrong.legal)
    )
    summary = (
        f"{name} gives wrong values in a call of {call.values} elements, first at flat index {wrong.index}: {wrong_value} "
        f"instead of {legal_value}"
    )
    return Discrepancy(key, summary, values=wrong.count)


@dataclass(frozen=True)
class Wrong:
    """The wrong values of a huge result."""

    index: int
    """The flat index of the first one."""
    code: int
    legal: int
    """A legal code there."""
    count: int


def first_wrong(x: NDArray[Any], y: NDArray[Any], legal: Legal) -> Wrong | None:
    """The wrong values of a result; None if there is none.

    Args:
        x: The codes of x.
        y: The codes of the result.
        legal: The legal set of one value of each run of x.
    """
    (_, x_counts), (y_codes, y_counts) = runs_of(x), runs_of(y)
    y_codes = canonical(y_codes, legal.dtype)
    x_ends, y_ends = np.cumsum(x_counts), np.cumsum(y_counts)
    ends = np.union1d(x_ends, y_ends)
    starts = np.append(0, ends[:-1])
    of_x, of_y = np.searchsorted(x_ends, starts, "right"), np.searchsorted(y_ends, starts, "right")
    wrong = np.logical_and.reduce([codes.reshape(-1)[of_x] != y_codes[of_y] for codes in legal.distinct])
    if not wrong.any():
        return None
    first = int(np.argmax(wrong))
    admitted = legal.distinct[0].reshape(-1)[of_x[first]]
    return Wrong(int(starts[first]), int(y_codes[of_y[first]]), int(admitted), int((ends - starts)[wrong].sum()))
