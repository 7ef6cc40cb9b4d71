"""xverify replay."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xverify.cli.common import FINDINGS, PASS, clear, say
from xverify.core.errors import UnableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xverify.contracts.model import Contract
    from xverify.engine.replay import AskAny, Replayed
    from xverify.oracles.protocol import Oracle


@click.command()
@click.argument("finding", metavar="FINDING|FILE|CALL")
@click.option("--run", metavar="RUN", help="The run that holds the finding (default: the newest).")
@click.option(
    "--contract", "files", multiple=True, metavar="ID|FILE", help="An edition of your own, or that of a CALL."
)
@click.option("--kernel", "target", metavar="TARGET", help="The kernel of the user's that is asked.")
@click.option(
    "--oracle",
    "names",
    multiple=True,
    metavar="NAME",
    help="An implementation with an option or in another Python: NAME[:OPTION][@PYTHON].",
)
@click.option(
    "--was", metavar="VERDICT", default="", help="Of a CALL: what was found, e.g. violation or violation:float32."
)
@click.option("--threads", is_flag=True, help="Of a CALL: asked by several threads at once.")
@click.option("--strict", is_flag=True, help="NotImplementedError is a refusal like any other, as for the gate.")
@click.option("--denormals", type=click.Choice(["keep", "flush"]), default="keep", help="Of a CALL, as for the gate.")
@click.option("--like", "like_name", metavar="ORACLE", help="Of a CALL, as for the gate.")
@clear
def replay(
    finding: str,
    run: str | None,
    files: tuple[str, ...],
    target: str | None,
    names: tuple[str, ...],
    was: str,
    threads: bool,
    strict: bool,
    denormals: str,
    like_name: str | None,
) -> int:
    """Run a finding again: FIXED, STILL or CHANGED.

    FINDING is a finding's id; a report's FILE: then every finding of it is run; a certificate's FILE: then a sample of what is
    proven is asked again, HOLDS or CHANGED, and its counterexamples; or a CALL as the gate prints it, which needs no report."""
    from xverify.certify import certificate as certificates
    from xverify.core.verdict import Verdict
    from xverify.engine import select
    from xverify.engine.replay import asking

    if certificates.is_certificate(Path(finding)):
        _refuse(names=names, was=was, run=run, like=like_name)
        return _certificate(Path(finding), target, files)
    is_call = " " in finding.strip()
    kernel = _kernel(select.KERNEL if target is None else target, strict) if target is not None or is_call else None
    others = [select.oracle_named(name, say) for name in names]
    if was and was.partition(":")[0] not in set(Verdict):
        raise UsageError(f"--was takes a verdict, {', '.join(Verdict)}, and after a colon readings; not {was!r}")
    unfixed, count = False, 0
    with tempfile.TemporaryDirectory(prefix="xverify-") as scratch, asking(Path(scratch), kernel, others, say) as ask:
        if is_call and kernel is not None:
            path = "threads" if threads else ""
            results = iter([_call(finding, files, kernel, path, was, denormals, like_name, ask)])
        else:
            results = _of_report(finding, run, files, target, ask)
        for result in results:
            unfixed, count = unfixed or result.state != "FIXED", count + 1
            click.echo(f"{result.state:7} {result.id}: {result.summary}")
            if result.got:
                click.echo(f"        gives {result.got}")
    if not count:
        raise UnableError(f"no finding of {finding} has a call: there is nothing to ask again")
    return FINDINGS if unfixed else PASS


def _refuse(**given: object) -> None:
    """UsageError for an option that a certificate has no use for."""
    from xverify.core.errors import UsageError

    options = {"names": "--oracle", "was": "--was", "run": "--run", "like": "--like"}
    odd = [options[name] for name, value in given.items() if value]
    if odd:
        raise UsageError(
            f"a certificate is asked again without {' and '.join(odd)}; another kernel is named by --kernel"
        )


def _kernel(target: str, strict: bool) -> Oracle:
    """A kernel watched as in the gate, or an implementation that was certified, by its name."""
    from xverify.certify.subjects import subject_named
    from xverify.engine import select

    named = subject_named(target, say)
    return select.kernel_under_test(target, strict) if named.role == "kernel" else named


def _certificate(path: Path, target: str | None, files: tuple[str, ...]) -> int:
    from xverify.certify.certificate import load
    from xverify.certify.replay import replay as ask_again
    from xverify.certify.replay import subject_of
    from xverify.core.errors import UnableError

    certificate = load(path)
    oracle = subject_of(certificate, target, say)
    with tempfile.TemporaryDirectory(prefix="xverify-") as scratch:
        results = list(ask_again(certificate, oracle, files[0] if files else None, Path(scratch)))
    if not results:
        raise UnableError(f"nothing is proven in {path}, and there is no counterexample: there is nothing to ask again")
    for result in results:
        click.echo(f"{result.state:7} {result.summary}")
    return FINDINGS if any(result.state in ("STILL", "CHANGED") for result in results) else PASS


def _of_report(
    finding: str, run: str | None, files: tuple[str, ...], target: str | None, ask: AskAny
) -> Iterator[Replayed]:
    from xverify import report as reports
    from xverify.engine import select
    from xverify.engine.replay import finding_from_report
    from xverify.engine.replay import replay as run_again

    if not Path(finding).exists() and (finding.endswith(".json") or "/" in finding):
        raise UsageError(f"there is no file {finding}")
    path = select.report_file(finding if Path(finding).exists() else run)
    report = reports.load(path)
    entries = report["findings"]
    if not Path(finding).exists():
        entries = [entry for entry in entries if entry["id"] == finding]
        if not entries:
            raise UsageError(f"{path} has no finding {finding!r}")
    else:
        entries = [entry for entry in entries if entry["witness"] is not None]
    own = [contract for file in files for contract in select.contracts_of_file(file)]
    gate = report.get("gate")
    if gate:
        if gate["like"] is not None:
            select.require_plain_name(gate["like"], "--like", str(path))
        held_to = sorted({entry["contract"] for entry in entries})
        own = [_held_to(one, own, gate["denormals"], gate["like"], ask) for one in held_to]
        if target is None and any(entry["subject"]["name"] == gate["kernel"] for entry in entries):
            _in_house_or_named(gate["kernel"])
    for entry in entries:
        yield run_again(finding_from_report(entry, path.parent), ask, own)


def _in_house_or_named(name: str) -> None:
    """A user's kernel runs only when the user names it."""
    from xverify.core.errors import UsageError
    from xverify.oracles import all_oracles

    if name not in all_oracles():
        raise UsageError(f"the kernel {name} is run only when it is named: add --kernel TARGET")


def _call(
    line: str,
    files: tuple[str, ...],
    kernel: Oracle,
    path: str,
    was: str,
    denormals: str,
    like_name: str | None,
    ask: AskAny,
) -> Replayed:
    from xverify.core.line import call_from_line
    from xverify.engine import select
    from xverify.engine.replay import replay_call

    try:
        call = call_from_line(line)
    except ValueError as error:
        raise UsageError(str(error)) from None
    own = [contract for file in files for contract in select.contracts_named([file])[0]]
    identity = own[0].id if own else call.contract
    contract = _held_to(identity, own, denormals, like_name, ask)
    select.require_operands(call, contract)
    verdict, _, readings = was.partition(":")
    named = tuple(filter(None, readings.split(",")))
    return replay_call(call.under(contract.id), contract, kernel, path, ask, verdict, named)


def _held_to(identity: str, own: list[Contract], denormals: str, like_name: str | None, ask: AskAny) -> Contract:
    """The edition as the gate held the kernel to it."""
    from dataclasses import replace

    from xverify import contracts
    from xverify.engine import select
    from xverify.engine.reference_contract import like
    from xverify.verify.findings import Subject

    found = next((one for one in own if one.id == identity), None) or contracts.get(identity)
    if like_name is None:
        return replace(found, keeps_subnormals=denormals == "keep")
    oracle = select.oracle_named(like_name, say)
    subject = Subject(oracle.name, "", oracle.role)
    return like(found, oracle.name, select.version_of(oracle), lambda call: ask(subject, call.under(found.asked_as)))
