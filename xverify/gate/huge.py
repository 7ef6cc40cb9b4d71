"""A call of more than 2^31 elements, which the user asks for with ``--huge``.

Indices of 32 bits end there. x is two rows, each of one code, so the call and a right answer are a few bytes between processes.
The answer is compared block by block. The kernel runs in a process of its own, without the usual limit of memory.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.contracts.model import Contract, Domain
from xverify.core.call import BITS, Call, Outcome, encode_call
from xverify.core.dtypes import decimal, hexadecimal
from xverify.core.verdict import Verdict
from xverify.engine.coverage import HUGE
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
from xverify.workers.process import Limits

CALL_SECONDS = 600.0
"""The longest time of the call, in seconds."""

SPARE = 1 << 30
"""Bytes that remain for everything else."""

BLOCK = 1 << 22
"""Values that are compared together."""


def ask_huge(run: RunState, options: GateOptions, contract: Contract, within: Domain) -> str:
    """Send a call of more than 2^31 elements, and judge the answer.

    Args:
        run: The run.
        options: Options of the gate.
        contract: The edition of the call.
        within: The types and granularities that the kernel implements.

    Returns:
        A sentence that says why the call is impossible; "" if it was answered.
    """
    narrow = replace(contract, domain=within)
    structure = huge_structure(narrow)
    small = None if structure is None else build(narrow, structure, "huge call")
    if small is None or contract.judge(small).verdict != "allowed":
        return (
            "--huge needs calls per tensor with an x of 8 bits or fewer, which the kernel or the edition does not have"
        )
    call, legal = huge_call(small), legal_set(contract, small)
    missing = missing_memory(run.options.oracles[0], call, legal.dtype)
    if missing:
        return missing
    kernel = run.pool.subjects[options.kernel.name][0]
    outcome = _answer(run, options, call.under(contract.asked_as))
    judged = Judged(contract, call, contract.judge(small), contract.cell(small), None, 0)
    if outcome.kind == "unsupported":
        return f"the kernel does not implement the call of --huge: {outcome.error} {outcome.message}".rstrip()
    if outcome.kind in ("crash", "hang"):
        # Nobody knows the memory that a kernel needs, so its end is no finding.
        first_line = outcome.message.partition("\n")[0]
        return f"the call of --huge, of {call.values} elements, was not answered: {first_line or outcome.kind}"
    discrepancy = _discrepancy(judged, kernel, outcome, legal)
    if discrepancy is not None:
        record(run, discrepancy, kernel, judged, replace(outcome, tensor=None))
    run.coverage.met[HUGE] += 1
    return ""


def missing_memory(kernel: Oracle, call: Call, out_dtype: str) -> str:
    """A sentence if the available memory does not hold the call; "" if it does.

    A Python kernel has x and its result, and a copy of the result is compared. A native kernel has guarded copies of both.
    """
    copies = (6, 6) if kernel.module.endswith("native_kernel") else (1, 2)
    needed = call.values * (copies[0] + copies[1] * BITS[out_dtype] // 8) + SPARE
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            available = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        pass
    if available >= needed:
        return ""
    return (
        f"--huge needs {needed / 2**30:.0f} GiB of memory for {call.values} elements and their {out_dtype} result, and "
        f"{available / 2**30:.0f} GiB are available"
    )


def _answer(run: RunState, options: GateOptions, call: Call) -> Outcome:
    limits = Limits(call=max(CALL_SECONDS, options.limits.call), start=options.limits.start, memory=0, resident=1 << 62)
    worker = options.worker(run.options.oracles[0], options.directory / "huge", limits=limits)
    try:
        worker.start()
        return worker.ask(encode_call(call))
    finally:
        worker.stop()


def _discrepancy(judged: Judged, kernel: Subject, outcome: Outcome, legal: Legal) -> Discrepancy | None:
    call, got = judged.call, outcome.tensor
    if got is None:
        return verdicts.rejected(judged, kernel.name, outcome)
    clause = judged.contract.value_clause(call, None)
    key = Key(kernel.name, judged.contract.id, Verdict.VIOLATION, clause, "huge")
    if (got.dtype, got.shape) != (legal.dtype, call.data.shape):
        words = (
            f"gives {got.dtype} {list(got.shape)} for {call.values} elements, not {legal.dtype} {list(call.data.shape)}"
        )
        return Discrepancy(key, f"{kernel.name} {words}", values=call.values)
    place, wrong = first_wrong(got.codes, legal)
    if place is None:
        noted = verdicts.noted(judged, kernel.name, outcome)
        return noted[0] if noted else None
    row, column = divmod(place, got.shape[1])
    code = int(got.codes[row, column])
    right = int(legal.distinct[0][row, 0])
    summary = (
        f"{kernel.name} gives wrong values in a call of {call.values} elements, which is more than 2^31, first at flat index "
        f"{place}: {decimal(got.dtype, code)} ({hexadecimal(got.dtype, code)}) instead of {decimal(got.dtype, right)} "
        f"({hexadecimal(got.dtype, right)})"
    )
    return Discrepancy(key, summary, values=wrong)


def first_wrong(codes: NDArray[Any], legal: Legal) -> tuple[int | None, int]:
    """The flat index of the first value that no reading gives, and the number of such values.

    Args:
        codes: The codes of a result of two rows.
        legal: The legal set of one value of each row.
    """
    first: int | None = None
    count = 0
    for row, values in enumerate(codes):
        admitted = [int(distinct[row, 0]) for distinct in legal.distinct]
        is_constant = values.strides[0] == 0
        for begin in range(0, 1 if is_constant else len(values), BLOCK):
            block = values[:1] if is_constant else values[begin : begin + BLOCK]
            wrong = np.logical_and.reduce([block != code for code in admitted])
            if wrong.any():
                first = row * len(values) + begin + int(np.argmax(wrong)) if first is None else first
                count += len(values) if is_constant else int(wrong.sum())
    return first, count
