"""The gate inside a test suite.

    from xverify.testing import verify_kernel

    def test_my_dequantize():
        verify_kernel(my_dequantize, "ai.onnx/DequantizeLinear-25", budget="60s")

It works under pytest, under other test runners, and without one.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, get_args

import hypothesis

from xverify import contracts as editions
from xverify.contracts.model import Contract, Denormals, Domain
from xverify.core import fenv
from xverify.core.call import Call, Outcome
from xverify.core.errors import UsageError
from xverify.core.line import call_from_line, call_to_line
from xverify.engine import select
from xverify.engine.state import RunState
from xverify.gate import ledger_file
from xverify.gate.decide import UNABLE
from xverify.gate.examples import Examples, ask_fully
from xverify.gate.gate import gate, narrowed
from xverify.gate.options import LEAST_SECONDS, GateOptions
from xverify.gate.signature import misfit
from xverify.oracles.plugin import USERS
from xverify.oracles.protocol import Oracle
from xverify.report import decision
from xverify.report.decision import MOST_ARGUMENT, replay_line
from xverify.workers.in_process import InProcessWorker
from xverify.workers.pool import AnyWorker
from xverify.workers.process import Limits
from xverify.workers.worker import Worker

Kernel = str | Callable[..., Any]
"""A TARGET or a function.

A TARGET is "package.module:function", "path/file.py:function", "path/library.so:symbol", or the name of an in-house
kernel. README.md gives the signature of a function.
"""

Json = Mapping[str, Any]

CALL_SECONDS = 10.0
"""Time limit of a call, in seconds, for a kernel in its own process."""

MEMORY = 4096 << 20
"""Memory limit, in bytes, for a kernel in its own process."""

MOST_FINDINGS = 12
"""Number of findings in an error."""
MOST_CLAUSE = 240
"""Longest quotation of a clause in an error, in characters."""


class KernelError(AssertionError):
    """The kernel is wrong.

    Attributes:
        findings: The findings, as in a report (see ``xverify/report/schema.json``).
    """

    def __init__(self, text: str, findings: Sequence[Json] = ()) -> None:
        super().__init__(text)
        self.findings = tuple(findings)


class NotVerifiedError(AssertionError):
    """The gate cannot decide: the kernel did not start, refused everything, or had too little time."""


def verify_kernel(
    kernel: Kernel,
    contract: str | Sequence[str] | None = None,
    *,
    budget: str | float = "60s",
    like: str | None = None,
    x_dtypes: Sequence[str] = (),
    scale_dtypes: Sequence[str] = (),
    granularity: Sequence[str] = (),
    block_sizes: Sequence[int] = (),
    axes: Sequence[int] = (),
    ranks: Sequence[int | str] = (),
    contiguous: bool = False,
    values_only: bool = False,
    threads: bool = True,
    denormals: Denormals = "keep",
    strict: bool = False,
    allow_mixed: bool = False,
    huge: bool = False,
    ledger: str | Path | None = None,
    seed: int = 0,
    settings: hypothesis.settings | None = None,
) -> None:
    """Test a kernel against an edition, bit for bit, and raise if it departs from it.

    The calls come in this order:

    1. Calls that failed in an earlier run, from Hypothesis' database. If one still fails, nothing else is tested.
    2. Calls of the accepted findings in the ledger.
    3. The walk, which meets every type, structure and clause.
    4. Calls that Hypothesis draws, by the settings of the test suite (max_examples for each edition, derandomize, database,
       verbosity, phases).

    Failing calls are shrunk and kept in that database. Nothing is printed, and no report is written.

    Args:
        kernel: A TARGET runs in its own process, as in ``xverify gate``. A function object runs in this process, without
            protection from a crash, a hang or memory exhaustion. It gets its own floating-point environment, so a kernel
            that turns on flush-to-zero spoils neither the expected values nor later tests.
        contract: Id of an edition, a glob pattern, a Python file with editions, or a list of these. The default is the
            newest ONNX edition; with ``like`` and a framework, the newest that onnxruntime has.
        budget: Time for the whole run: "60s", "2m", or a number of seconds.
        like: An implementation whose bits and refusals the kernel must have, instead of those of the edition: a name, or the
            TARGET of another build.
        x_dtypes: Test only these types of x.
        scale_dtypes: Test only these types of scale.
        granularity: Test only these granularities.
        block_sizes: Test only blocks of these sizes.
        axes: Test only these axes of the parameters; a negative axis counts from the back.
        ranks: Test only x of these ranks: numbers, or ranges such as "1-4".
        contiguous: Test only tensors that are contiguous in memory.
        values_only: Test only calls that the edition allows, and none that the kernel must refuse.
        threads: Make some calls from several threads at once.
        denormals: "flush" if subnormal results may also be zero. "flush-inputs" if an input that is subnormal in float32 may
            also count as zero, as in kernels of XLA or with -ffast-math.
        strict: Count NotImplementedError as a refusal, not as an unsupported feature.
        allow_mixed: Accept legal values of a cell that no single reading explains.
        huge: Also make a call of more than 2^31 elements, which needs 11 GiB of memory or more and some minutes.
        ledger: File of accepted findings. The default is reports/ledger.toml.
        seed: Seed of the walk. Hypothesis has its own.
        settings: Hypothesis settings. The default is the current profile.

    Raises:
        KernelError: The kernel is wrong. The message holds the smallest call for each fault.
        NotVerifiedError: The gate cannot decide.
        UsageError: An argument names nothing. It is a ValueError.
    """
    __tracebackhide__ = True
    held = _held(
        kernel, [contract] if isinstance(contract, str) else contract or (), like, denormals, strict, allow_mixed
    )
    profile = settings or hypothesis.settings()
    held = replace(held, threads=threads)
    call_limits = select.call_limits(block_sizes, axes, ranks, contiguous)
    restrictions = (x_dtypes, scale_dtypes, granularity)
    within = _within(held.contracts, *restrictions)
    identity = [
        like or "",
        denormals,
        str(strict),
        str(allow_mixed),
        *(",".join(sorted(names)) for names in restrictions),
        *([f"{call_limits} {values_only}"] if call_limits or values_only else []),
    ]
    examples = Examples(profile, held.oracle.name, identity, within, allow_mixed)
    path = select.LEDGER if ledger is None else Path(ledger)
    if ledger is not None and not path.is_file():
        raise UsageError(f"there is no ledger {ledger}")
    report = _gate(
        held,
        budget=select.seconds(str(budget), LEAST_SECONDS),
        within=within,
        call_limits=call_limits,
        values_only=values_only,
        ledger=ledger_file.read(path),
        ledger_path=str(path),
        seed=seed,
        huge=huge,
        first=examples.first,
        draw=examples.draw,
    )
    findings = decision.failing(report)
    for finding in findings:
        examples.remember(finding["contract"], finding["line"])
    _raise_findings(held, report, findings)
    if examples.falsified:
        raise KernelError(_wavers(held, examples.falsified[0]))
    if report["gate"]["outcome"] == UNABLE:
        raise NotVerifiedError(_nothing(held, report))


def verify_call(
    kernel: Kernel,
    line: str,
    contract: str | None = None,
    *,
    like: str | None = None,
    threads: bool = True,
    denormals: Denormals = "keep",
    strict: bool = False,
    allow_mixed: bool = False,
) -> None:
    """Test a kernel on one call, which is repeated and also made from several threads.

    Args:
        kernel: As for `verify_kernel`.
        line: A call, as `verify_kernel` and ``xverify gate`` print it.
        contract: An edition of the user's own, instead of the one in the line.
        like: As for `verify_kernel`.
        threads: As for `verify_kernel`.
        denormals: As for `verify_kernel`.
        strict: As for `verify_kernel`.
        allow_mixed: As for `verify_kernel`.

    Raises:
        KernelError: The kernel is wrong on this call.
        NotVerifiedError: The gate cannot decide.
        UsageError: An argument names nothing. It is a ValueError.
    """
    __tracebackhide__ = True
    try:
        call = call_from_line(line)
    except ValueError as error:
        raise UsageError(str(error)) from None
    held = _held(kernel, [contract or call.contract], like, denormals, strict, allow_mixed)
    held = replace(held, threads=threads)
    came: list[Outcome] = []

    def first(run: RunState) -> bool:
        held_to = next(
            (contract for contract in run.options.contracts if contract.asked_as == call.contract),
            run.options.contracts[0],
        )
        ask_fully(run, held_to, call.under(held_to.id))
        if not run.pool.failures:
            came.append(run.pool.ask(run.pool.subjects[held.oracle.name][0], call.under(held_to.id)))
        return True

    report = _gate(held, budget=60.0, check_signature=False, shrink=False, first=first)
    _raise_findings(held, report, decision.failing(report))
    if not came:
        raise NotVerifiedError(_nothing(held, report))
    if came[0].kind == "unsupported":
        raise NotVerifiedError(f"{held.name} does not implement this call: {came[0].error} {came[0].message}".rstrip())


@dataclass(frozen=True)
class _Held:
    """A kernel and the requirements that it must satisfy."""

    kernel: Kernel
    oracle: Oracle
    contracts: tuple[Contract, ...]
    like: Oracle | None
    like_target: str
    denormals: Denormals
    strict: bool
    allow_mixed: bool
    files: tuple[str, ...]
    threads: bool = True

    @property
    def name(self) -> str:
        return self.kernel if isinstance(self.kernel, str) else self.oracle.name


def _held(
    kernel: Kernel, patterns: Sequence[str], like: str | None, denormals: Denormals, strict: bool, allow_mixed: bool
) -> _Held:
    if denormals not in get_args(Denormals):
        raise UsageError(f"denormals is 'keep', 'flush' or 'flush-inputs', not {denormals!r}")
    if isinstance(kernel, str):
        oracle = select.kernel_under_test(kernel, strict)
    elif callable(kernel):
        oracle = _oracle(kernel)
    else:
        raise UsageError(f"a kernel is a TARGET or a function, not {type(kernel).__name__}")
    reference = select.reference_named(like, oracle) if like else None
    named, unread = select.contracts_named(patterns or (select.edition_by_default(reference),))
    taken, left_out = select.taken_by(oracle, named)
    for sentence in (*unread, *left_out):
        warnings.warn(sentence, stacklevel=3)
    if reference is not None:
        taken, not_matched = select.matched_by(reference, taken)
        for sentence in not_matched:
            warnings.warn(sentence, stacklevel=3)
        strict = strict or reference.strict
        oracle = replace(oracle, strict=strict)
    files = tuple(pattern for pattern in patterns if select.is_file(pattern))
    return _Held(kernel, oracle, taken, reference, like or "", denormals, strict, allow_mixed, files)


def _oracle(function: Callable[..., Any]) -> Oracle:
    """Describe a function of this process. Its findings have the name that its TARGET would have."""
    while isinstance(function, partial):
        function = function.func
    of = function if hasattr(function, "__qualname__") else type(function)
    return replace(USERS, name=f"{of.__module__}:{of.__qualname__}", module="", version="in this process")


def _within(held_to: Sequence[Contract], *named: Sequence[str]) -> dict[str, Domain]:
    parts = [[part] if isinstance(part, str) else part for part in named]
    try:
        return {contract.id: narrowed(contract.domain, *parts) for contract in held_to}
    except ValueError as error:
        raise UsageError(str(error)) from None


def _gate(held: _Held, *, budget: float, **options: Any) -> Json:
    """Run the gate, and return its report, which is written nowhere.

    Raises:
        KeyboardInterrupt: The user interrupted.
    """
    theirs = fenv.current()
    with fenv.standard(), tempfile.TemporaryDirectory(prefix="xverify-") as scratch:
        report = gate(
            GateOptions(
                kernel=held.oracle,
                target=held.name,
                contracts=held.contracts,
                directory=Path(scratch),
                run_id="test",
                command="xverify.testing",
                contract_files=held.files,
                like=held.like,
                like_target=held.like_target,
                today=date.today(),
                budget=budget,
                denormals=held.denormals,
                allow_mixed=held.allow_mixed,
                threads=held.threads,
                limits=Limits(call=CALL_SECONDS, start=max(budget, CALL_SECONDS), memory=MEMORY),
                worker=partial(_worker, held, theirs),
                **options,
            ),
            lambda event: None,
        )
    if not report["run"]["complete"]:
        raise KeyboardInterrupt
    return report


def _worker(held: _Held, theirs: fenv.Environment, oracle: Oracle, directory: Path, **options: Any) -> AnyWorker:
    if oracle.name != held.oracle.name or isinstance(held.kernel, str):
        return Worker(oracle, directory, **options)
    mistake = misfit(held.kernel, held.name, oracle)
    return InProcessWorker(held.kernel, theirs, bell=options["bell"], strict=held.strict, failed=mistake)


# -- messages -----------------------------------------------------------------------------------------------------


def _raise_findings(held: _Held, report: Json, findings: Sequence[Json]) -> None:
    __tracebackhide__ = True
    if not findings:
        return
    parts = [decision.plain(decision.verdict(report))]
    parts += ["\n".join(_lines(held, report, finding)) for finding in findings[:MOST_FINDINGS]]
    if len(findings) > MOST_FINDINGS:
        parts.append(f"and {len(findings) - MOST_FINDINGS} more")
    raise KernelError("\n\n".join(parts), findings)


def _lines(held: _Held, report: Json, finding: Json) -> list[str]:
    quoted = decision.clause(report, finding)
    if len(quoted) > MOST_CLAUSE:
        quoted = f'{quoted[:MOST_CLAUSE]}..." ({finding["clause"]})'
    rows = [
        ("ledger", decision.standing(finding)),
        ("clause", quoted),
        ("call", decision.operands(finding)),
        *(("result", line) for line in decision.results(finding)),
        ("seen in", decision.seen(finding)),
    ]
    details = [f"  {label:8}{decision.plain(text)}" for label, text in rows if text]
    return [
        decision.plain(f"{finding['verdict']}: {finding['summary']}"),
        *details,
        f"  {'again':8}{_again(held, report, finding)}",
    ]


def _again(held: _Held, report: Json, finding: Json) -> str:
    line = finding["line"]
    if not line or len(line) > MOST_ARGUMENT:
        return "the call is too large for one line; run the whole test again"
    if isinstance(held.kernel, str):
        return replay_line(report, finding)
    built_in = finding["contract"] in editions.ids()
    options = {
        "contract": None if built_in else finding["contract"] if not held.files else held.files[0],
        "like": held.like_target,
        "denormals": None if held.denormals == "keep" else held.denormals,
        "strict": held.strict,
    }
    words = [f"{name}={value!r}" for name, value in options.items() if value]
    words += [] if held.threads else ["threads=False"]
    name = held.oracle.name.rpartition(":")[2].rpartition("<locals>.")[2]
    return f"verify_call({name}, {', '.join([repr(line), *words])})"


def _wavers(held: _Held, call: Call) -> str:
    return (
        f"{held.name} gave a wrong result, and a right one when the call was repeated: it is not deterministic\n\n"
        f"  {'call':8}{call_to_line(call)}"
    )


def _nothing(held: _Held, report: Json) -> str:
    """Explain why the gate cannot decide, with the names of our arguments instead of command-line options."""
    reason = re.sub(r"--([a-z]+(?:-[a-z]+)*)", lambda option: option[1].replace("-", "_"), report["gate"]["reason"])
    return f"nothing is verified of {held.name}: {reason}"
