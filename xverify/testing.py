"""The gate inside a test suite.

    from xverify.testing import verify_kernel

    def test_my_dequantize():
        verify_kernel(my_dequantize, "ai.onnx/DequantizeLinear-25", budget="60s")

Works under pytest, under any other test runner, and without one.
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
from typing import Any, Literal

import hypothesis

from xverify import contracts as editions
from xverify.contracts.model import Contract, Domain
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
from xverify.gate.options import GateOptions
from xverify.oracles.plugin import USERS
from xverify.oracles.protocol import Oracle
from xverify.report import decision
from xverify.report.replay_line import MOST_ARGUMENT, replay_line
from xverify.workers.in_process import InProcessWorker
from xverify.workers.pool import AnyWorker
from xverify.workers.process import Limits
from xverify.workers.worker import Worker

Kernel = str | Callable[..., Any]
"""A TARGET ("package.module:function", "path/file.py:function", "path/library.so:symbol", or the name of an in-house kernel),
or a function with the signature that README.md gives."""

Json = Mapping[str, Any]

CALL_SECONDS = 10.0
"""A call of a kernel in a process of its own that takes longer hangs."""

MEMORY = 4096 << 20
"""Bytes that a kernel in a process of its own may take."""

MOST_FINDINGS = 12
MOST_CLAUSE = 240
"""Findings, and characters of a quoted clause, that an error shows."""


class KernelError(AssertionError):
    """The kernel is wrong. findings: what was found, as in a report (see ``xverify/report/schema.json``)."""

    def __init__(self, text: str, findings: Sequence[Json] = ()) -> None:
        super().__init__(text)
        self.findings = tuple(findings)


class NotVerifiedError(AssertionError):
    """Nothing can be said of the kernel: it could not be started, refused everything, or there was too little time."""


def verify_kernel(
    kernel: Kernel,
    contract: str | Sequence[str] | None = None,
    *,
    budget: str | float = "60s",
    like: str | None = None,
    x_dtypes: Sequence[str] = (),
    scale_dtypes: Sequence[str] = (),
    granularity: Sequence[str] = (),
    denormals: Literal["keep", "flush"] = "keep",
    strict: bool = False,
    allow_mixed: bool = False,
    ledger: str | Path | None = None,
    seed: int = 0,
    settings: hypothesis.settings | None = None,
) -> None:
    """Hold a kernel to an edition, bit for bit, and raise if it departs from it.

    First come the calls that failed in an earlier run, from Hypothesis' database, and if one still fails nothing else is asked;
    then the witnesses of the ledger; then the walk, which meets every type, structure and clause; then what Hypothesis
    draws, as the settings of the test suite say (max_examples of each edition, derandomize, database, verbosity, phases). Calls
    that fail are shrunk, and kept in that database. Nothing is printed and no report is written.

    kernel: the TARGET of one runs in a process of its own, as in ``xverify gate``. A function object runs in this process: it is
    not protected from one that crashes, hangs, or takes all memory. But its floating-point environment is its own: a kernel
    that turns on flush-to-zero falsifies neither what is computed here nor the tests after this one.

    contract: the id of an edition, a glob pattern, a Python file with editions, or several of them; without, the newest ONNX
    edition. budget: the most that all of it may take, "60s", "2m", or a number of seconds. like: an implementation that is to be
    matched instead of the text. x_dtypes, scale_dtypes, granularity: only these. denormals: "flush" if subnormal results may
    come out as zero. strict: NotImplementedError is a refusal like any other. allow_mixed: legal values may follow several
    readings in one cell. ledger: the file of known findings, reports/ledger.toml if not given. seed: of the walk; what
    Hypothesis draws follows its own. settings: instead of Hypothesis' current default profile.

    Raises KernelError with the smallest call for each thing that is wrong; NotVerifiedError where a pass would say nothing; a
    ValueError (UsageError) with one sentence for an argument that names nothing.
    """
    __tracebackhide__ = True
    held = _held(
        kernel, [contract] if isinstance(contract, str) else contract or (), like, denormals, strict, allow_mixed
    )
    profile = settings or hypothesis.settings()
    named = (x_dtypes, scale_dtypes, granularity)
    within = _within(held.contracts, *named)
    identity = [like or "", denormals, str(strict), str(allow_mixed), *(",".join(sorted(one)) for one in named)]
    examples = Examples(profile, held.oracle.name, identity, within, allow_mixed)
    path = select.LEDGER if ledger is None else Path(ledger)
    if ledger is not None and not path.is_file():
        raise UsageError(f"there is no ledger {ledger}")
    report = _gate(
        held,
        budget=select.seconds(str(budget)),
        within=within,
        ledger=ledger_file.read(path),
        ledger_path=str(path),
        seed=seed,
        first=examples.first,
        draw=examples.draw,
    )
    found = decision.failing(report)
    for finding in found:
        examples.remember(finding["contract"], finding["line"])
    _raise_findings(held, report, found)
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
    denormals: Literal["keep", "flush"] = "keep",
    strict: bool = False,
    allow_mixed: bool = False,
) -> None:
    """Hold a kernel to an edition on one call, which is asked several times and from several threads.

    line: as `verify_kernel` and ``xverify gate`` show it. contract: an edition of the user's own, where it is not the one in the
    line. The rest is as for `verify_kernel`, and so is what is raised.
    """
    __tracebackhide__ = True
    try:
        call = call_from_line(line)
    except ValueError as error:
        raise UsageError(str(error)) from None
    held = _held(kernel, [contract or call.contract], like, denormals, strict, allow_mixed)
    came: list[Outcome] = []

    def first(run: RunState) -> bool:
        held_to = next(
            (one for one in run.options.contracts if one.asked_as == call.contract), run.options.contracts[0]
        )
        ask_fully(run, held_to, call.under(held_to.id))
        if not run.pool.failures:
            came.append(run.pool.ask(run.pool.subjects[held.oracle.name][0], call.under(held_to.id)))
        return True

    report = _gate(held, budget=60.0, shrink=False, first=first)
    _raise_findings(held, report, decision.failing(report))
    if not came:
        raise NotVerifiedError(_nothing(held, report))
    if came[0].kind == "unsupported":
        raise NotVerifiedError(f"{held.name} does not implement this call: {came[0].error} {came[0].message}".rstrip())


@dataclass(frozen=True)
class _Held:
    """A kernel and what it is held to."""

    kernel: Kernel
    oracle: Oracle
    contracts: tuple[Contract, ...]
    like: Oracle | None
    denormals: str
    strict: bool
    allow_mixed: bool
    files: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.kernel if isinstance(self.kernel, str) else self.oracle.name


def _held(
    kernel: Kernel, patterns: Sequence[str], like: str | None, denormals: str, strict: bool, allow_mixed: bool
) -> _Held:
    if denormals not in ("keep", "flush"):
        raise UsageError(f"denormals is 'keep' or 'flush', not {denormals!r}")
    if isinstance(kernel, str):
        oracle = select.kernel_under_test(kernel, strict)
    elif callable(kernel):
        oracle = _oracle(kernel)
    else:
        raise UsageError(f"a kernel is a TARGET or a function, not {type(kernel).__name__}")
    named, unread = select.contracts_named(patterns or (editions.newest(),))
    taken, left_out = select.taken_by(oracle, named)
    for sentence in (*unread, *left_out):
        warnings.warn(sentence, stacklevel=3)
    reference = select.oracle_named(like) if like else None
    files = tuple(pattern for pattern in patterns if select.is_file(pattern))
    return _Held(kernel, oracle, taken, reference, denormals, strict, allow_mixed, files)


def _oracle(function: Callable[..., Any]) -> Oracle:
    """The description of a function of this process; a finding of it has the name that its TARGET would have."""
    of = function if hasattr(function, "__qualname__") else type(function)
    return replace(USERS, name=f"{of.__module__}:{of.__qualname__}", module="", version="in this process")


def _within(held_to: Sequence[Contract], *named: Sequence[str]) -> dict[str, Domain]:
    parts = [[part] if isinstance(part, str) else part for part in named]
    try:
        return {contract.id: narrowed(contract.domain, *parts) for contract in held_to}
    except ValueError as error:
        raise UsageError(str(error)) from None


def _gate(held: _Held, *, budget: float, **options: Any) -> Json:
    """The gate's report, which is written nowhere. Raises KeyboardInterrupt after ^C."""
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
                today=date.today(),
                budget=budget,
                keep_subnormals=held.denormals == "keep",
                allow_mixed=held.allow_mixed,
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
    return InProcessWorker(held.kernel, theirs, bell=options["bell"], strict=held.strict)


# -- what is said ----------------------------------------------------------------------------------------------


def _raise_findings(held: _Held, report: Json, found: Sequence[Json]) -> None:
    __tracebackhide__ = True
    if not found:
        return
    parts = [decision.plain(decision.verdict(report))]
    parts += ["\n".join(_lines(held, report, finding)) for finding in found[:MOST_FINDINGS]]
    if len(found) > MOST_FINDINGS:
        parts.append(f"and {len(found) - MOST_FINDINGS} more")
    raise KernelError("\n\n".join(parts), found)


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
    said = [f"  {label:8}{decision.plain(text)}" for label, text in rows if text]
    return [
        decision.plain(f"{finding['verdict']}: {finding['summary']}"),
        *said,
        f"  {'again':8}{_again(held, report, finding)}",
    ]


def _again(held: _Held, report: Json, finding: Json) -> str:
    line = finding["line"]
    if not line or len(line) > MOST_ARGUMENT:
        return "the call is too large for a line; run the whole test"
    if isinstance(held.kernel, str):
        return replay_line(report, finding)
    built_in = finding["contract"] in editions.ids()
    options = {
        "contract": None if built_in else finding["contract"] if not held.files else held.files[0],
        "like": report["gate"]["like"],
        "denormals": "flush" if held.denormals == "flush" else None,
        "strict": held.strict,
    }
    words = [f"{name}={value!r}" for name, value in options.items() if value]
    name = held.oracle.name.rpartition(":")[2].rpartition("<locals>.")[2]
    return f"verify_call({name}, {', '.join([repr(line), *words])})"


def _wavers(held: _Held, call: Call) -> str:
    return (
        f"{held.name} gave a wrong answer, and when asked again a right one: it is not deterministic\n\n"
        f"  {'call':8}{call_to_line(call)}"
    )


def _nothing(held: _Held, report: Json) -> str:
    """Why nothing is verified; what the gate calls by the names of its options is called by the names of ours."""
    reason = re.sub(r"--([a-z]+(?:-[a-z]+)*)", lambda option: option[1].replace("-", "_"), report["gate"]["reason"])
    return f"nothing is verified of {held.name}: {reason}"
