"""xverify replay."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from xverify.cli.common import FINDINGS, PASS, clear, say
from xverify.core.errors import UsageError

if TYPE_CHECKING:
    from xverify.contracts.model import Contract, Denormals
    from xverify.engine.replay import AskAny, Replayed
    from xverify.oracles.protocol import Oracle

Kind = Literal["certificate", "call", "report", "finding"]


@dataclass(frozen=True)
class Options:
    """The options of the command, see their help texts."""

    run: str | None
    files: tuple[str, ...]
    target: str | None
    names: tuple[str, ...]
    was: str
    threads: bool
    strict: bool
    denormals: Denormals
    like_name: str | None
    huge: bool


@click.command()
@click.argument("finding", metavar="FINDING|FILE|CALL")
@click.option(
    "--run", metavar="RUN", help="Run that holds FINDING: id, folder or report.  [default: the newest that has it]"
)
@click.option(
    "--contract",
    "files",
    multiple=True,
    metavar="ID|FILE",
    help="File with editions of your own, or the edition of a certificate. Repeatable.  [default: built-in editions]",
)
@click.option(
    "--kernel",
    "target",
    metavar="TARGET",
    help="Kernel to run, as for the gate. Needed for findings on your kernel.  [default for CALL: xverify-numpy]",
)
@click.option(
    "--oracle",
    "names",
    multiple=True,
    metavar="NAME",
    help="Implementation with an option or in another Python: NAME[:OPTION][@PYTHON]. Repeatable.  [default: none]",
)
@click.option(
    "--was",
    metavar="VERDICT",
    default="",
    help="Earlier verdict on CALL: violation, or violation:READING.  [default: none]",
)
@click.option("--threads", is_flag=True, help="Run CALL from several threads at once.")
@click.option("--strict", is_flag=True, help="Count NotImplementedError as a refusal, as for the gate.")
@click.option(
    "--denormals",
    type=click.Choice(["keep", "flush", "flush-inputs"]),
    default="keep",
    show_default=True,
    help="Judge subnormal numbers of CALL as the option of the gate does.",
)
@click.option("--huge", is_flag=True, help="Accept a CALL of more than 2^20 values, which may need many GiB of memory.")
@click.option(
    "--like",
    "like_name",
    metavar="ORACLE|TARGET",
    help="Judge CALL by this implementation, as for the gate. A finding of a gate that matched another build needs it.",
)
@clear
def replay(finding: str, **options: Any) -> int:
    """Run a finding again: FIXED, STILL, CHANGED or UNSEEN.

    FINDING is the id of a finding or a cause. FILE is a report or a certificate: replay runs every finding of a report. It runs
    every counterexample of a certificate and a sample of its proven triples (HOLDS or CHANGED). CALL is a call line
    that the gate printed; it needs no report. A crash that does not show at once is tried in 20 processes. UNSEEN is
    one that did not show in any of them: it may still be there.

    Exit codes: 0 everything is FIXED, HOLDS or UNSEEN, 1 something is STILL or CHANGED, 2 wrong usage, 3 could not do its work.
    """
    chosen = Options(**options)
    any_left = False
    for result in _HANDLERS[classify(finding)](finding, chosen):
        any_left = any_left or result.state in ("STILL", "CHANGED")
        click.echo(f"{result.state:7} {result.sentence}")
        if result.got:
            click.echo(f"        gives {result.got}")
    return FINDINGS if any_left else PASS


def classify(argument: str) -> Kind:
    """Tell which kind of argument the user typed."""
    from xverify.certify.certificate import is_certificate

    path = Path(argument)
    if is_certificate(path):
        return "certificate"
    if " " in argument.strip():
        return "call"
    if path.exists():
        return "report"
    if argument.endswith(".json") or "/" in argument:
        raise UsageError(f"there is no file {argument}")
    return "finding"


# -- handlers --------------------------------------------------------------------------------------------


def _certificate(file: str, options: Options) -> Iterator[Replayed]:
    from xverify.certify.certificate import load
    from xverify.certify.replay import replay_certificate, subject_of

    excluded = {"--oracle": options.names, "--was": options.was, "--run": options.run, "--like": options.like_name}
    typed = [name for name, value in excluded.items() if value]
    if typed:
        raise UsageError(
            f"a certificate is replayed without {' and '.join(typed)}; --kernel names another implementation"
        )
    certificate = load(Path(file))
    oracle = subject_of(certificate, options.target, say)
    contract = options.files[0] if options.files else None
    with tempfile.TemporaryDirectory(prefix="xverify-") as scratch:
        yield from replay_certificate(certificate, oracle, contract, Path(scratch))


def _call(line: str, options: Options) -> Iterator[Replayed]:
    from xverify.engine import select
    from xverify.engine.replay import Terms, replay_call

    kernel = _kernel(select.KERNEL if options.target is None else options.target, options.strict)
    own = [contract for file in options.files for contract in select.contracts_named([file])[0]]
    if options.huge:
        yield _huge(line, kernel, own, options)
        return
    reference = _reference(options, kernel)
    if reference is not None:
        kernel = replace(kernel, strict=kernel.strict or reference.strict)
    with _asking(options, kernel, reference) as ask:
        terms = Terms(options.denormals, reference)
        yield replay_call(line, kernel, "threads" if options.threads else "", ask, own, terms, options.was)


def _huge(line: str, kernel: Oracle, own: Sequence[Contract], options: Options) -> Replayed:
    from xverify.core.call import Outcome
    from xverify.core.errors import UnableError
    from xverify.core.line import HUGE_VALUES, call_from_line
    from xverify.engine import select
    from xverify.engine.replay import Replayed, Terms
    from xverify.gate.huge import examine
    from xverify.gate.signature import with_signature
    from xverify.verify.findings import Subject
    from xverify.workers.worker import Worker

    excluded = {"--oracle": options.names, "--threads": options.threads, "--like": options.like_name}
    if typed := [name for name, value in excluded.items() if value]:
        raise UsageError(f"--huge cannot be combined with {' and '.join(typed)}")
    try:
        call = call_from_line(line, HUGE_VALUES)
    except ValueError as error:
        raise UsageError(str(error)) from None
    contract = Terms(options.denormals).contract(
        own[0].id if own else call.contract, own, lambda *_: Outcome("unasked")
    )
    call = call.under(contract.id)
    select.require_operands(call, contract)
    subject = Subject(kernel.name, kernel.version, kernel.role, "")
    with tempfile.TemporaryDirectory(prefix="xverify-") as scratch:
        examined = examine(contract, with_signature(kernel, (contract,)), subject, call, Worker, Path(scratch))
    if examined.impossible:
        raise UnableError(examined.impossible)
    if examined.discrepancy is None:
        return Replayed("FIXED", "nothing is wrong with this call", "", kernel.name)
    return Replayed("STILL", examined.discrepancy.summary, "", kernel.name)


def _finding(identity: str, options: Options) -> Iterator[Replayed]:
    from xverify.engine.replay import replay_entries
    from xverify.report.causes import findings_of

    report, path = _report_with(identity, options.run)
    entries = findings_of(report, identity)
    kernel = _kernel_named(options)
    reference = _reference(options, kernel)
    with _asking(options, kernel, reference) as ask:
        yield from replay_entries(report, entries, path, ask, options.files, options.target, reference, say)


def _whole_report(file: str, options: Options) -> Iterator[Replayed]:
    from xverify.core.errors import UnableError
    from xverify.engine.replay import replay_entries

    report, path = _report(file)
    entries = [entry for entry in report["findings"] if entry["witness"] is not None]
    if not entries:
        raise UnableError(f"no finding of {file} has a call: there is nothing to ask again")
    kernel = _kernel_named(options)
    reference = _reference(options, kernel)
    with _asking(options, kernel, reference) as ask:
        yield from replay_entries(report, entries, path, ask, options.files, options.target, reference, say)


_HANDLERS: Mapping[Kind, Callable[[str, Options], Iterator[Replayed]]] = {
    "certificate": _certificate,
    "call": _call,
    "finding": _finding,
    "report": _whole_report,
}


# -- parts of handlers -----------------------------------------------------------------------------------


def _report(run: str | None) -> tuple[dict[str, Any], Path]:
    from xverify import report as reports
    from xverify.engine import select

    path = select.report_file(run)
    return reports.load(path), path


def _report_with(identity: str, run: str | None) -> tuple[dict[str, Any], Path]:
    """The report that holds a finding. Print the run if the user did not name it."""
    from xverify import report as reports
    from xverify.engine import select

    path = select.report_with(identity, run)
    if run is None:
        say(f"{identity} is from run {path.parent.name}")
    return reports.load(path), path


@contextmanager
def _asking(options: Options, kernel: Oracle | None, reference: Oracle | None) -> Iterator[AskAny]:
    """Workers for the named implementations, for the duration of a replay."""
    from xverify.core.verdict import Verdict
    from xverify.engine import select
    from xverify.engine.replay import asking

    others = [select.oracle_named(name, say) for name in options.names]
    others += [] if reference is None else [reference]
    if options.was and options.was.partition(":")[0] not in set(Verdict):
        raise UsageError(
            f"--was takes a verdict, {', '.join(Verdict)}, and after a colon readings; not {options.was!r}"
        )
    with tempfile.TemporaryDirectory(prefix="xverify-") as scratch, asking(Path(scratch), kernel, others, say) as ask:
        yield ask


def _reference(options: Options, kernel: Oracle | None) -> Oracle | None:
    """The implementation to match, if the user named one."""
    from xverify.engine import select

    if options.like_name is None:
        return None
    return select.reference_named(options.like_name, kernel or select.kernel_named(select.KERNEL), say)


def _kernel_named(options: Options) -> Oracle | None:
    return None if options.target is None else _kernel(options.target, options.strict)


def _kernel(target: str, strict: bool) -> Oracle:
    """A kernel watched as in the gate, or an implementation that was certified, by its name."""
    from xverify.certify.subjects import subject_named
    from xverify.engine import select

    named = subject_named(target, say)
    return select.kernel_under_test(target, strict) if named.role == "kernel" else named
