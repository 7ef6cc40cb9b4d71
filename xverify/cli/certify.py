"""xverify certify: an exhaustive proof over a closed domain."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from xverify.cli.common import FINDINGS, PASS, UNABLE, clear, console_of_output, say
from xverify.core.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from xverify.certify.certificate import Book
    from xverify.certify.prove import Task

FILE = click.Path(path_type=Path)


@click.command()
@click.option(
    "--kernel",
    "--oracle",
    "target",
    metavar="TARGET",
    help="package.module:function, file.py:function, library.so:symbol, or an implementation's NAME[:OPTION][==VERSION].",
)
@click.option("--domain", "domain_name", metavar="DOMAIN", help="What is proven; see --list.")
@click.option("--list", "listing", is_flag=True, help="List the domains, with sizes and estimates.")
@click.option("--contract", metavar="ID|FILE", help="The edition (default: newest ONNX).")
@click.option("--range", "units", metavar="A:B", help="Of the domain's units, those from A up to B (see --list).")
@click.option("--difference", metavar="D|A:B", help="Of NAME-float32, only this difference, or these.")
@click.option("--scale", "scales", multiple=True, metavar="NUMBER", help="The scale of a 16-bit domain, e.g. 0x1.8p-3.")
@click.option(
    "--zero-point",
    type=click.Choice(["all", "absent"]),
    default="all",
    show_default=True,
    help="All of the type of x, or none.",
)
@click.option(
    "--out-dtype", type=click.Choice(["float32", "float16", "bfloat16"]), help="Where the edition has output_dtype."
)
@click.option(
    "--granularity",
    type=click.Choice(["per_axis", "per_tensor", "blocked"]),
    default="per_axis",
    show_default=True,
    help="Of the calls; per_tensor is much slower.",
)
@click.option(
    "-n", "--workers", type=click.IntRange(1, 64), help="Processes that run the kernel (default: one a core)."
)
@click.option("--budget", metavar="TIME", help="Stop after this: 60s, 5m, 1h.")
@click.option("--timeout", default="10s", show_default=True, metavar="TIME", help="A call that takes longer hangs.")
@click.option(
    "--memory", default=4096, type=click.IntRange(0), show_default=True, metavar="MIB", help="For the kernel."
)
@click.option("-k", "--keep-going", is_flag=True, help="Do not stop at a counterexample.")
@click.option("--anew", is_flag=True, help="Do not go on with the certificate that is there: begin again.")
@click.option("-o", "--output", type=FILE, metavar="CERTIFICATE.json", help="The certificate (default: by its names).")
@clear
def certify(
    target: str | None,
    domain_name: str | None,
    listing: bool,
    contract: str | None,
    units: str | None,
    difference: str | None,
    scales: tuple[str, ...],
    zero_point: str,
    out_dtype: str | None,
    granularity: Literal["per_axis", "per_tensor", "blocked"],
    workers: int | None,
    budget: str | None,
    timeout: str,
    memory: int,
    keep_going: bool,
    anew: bool,
    output: Path | None,
) -> int:
    """Prove a kernel on a closed domain: every triple (x, zero point, scale) of it, bit for bit.

    What is proven so far is in the certificate at every moment: after a break, the same command goes on from there. Exits 0 when
    all that was asked is proven, 1 with a counterexample, 3 when it did not come to an end."""
    from xverify.certify.certificate import Book, changed, domain_to_json, held, load
    from xverify.certify.identity import subject, versions
    from xverify.certify.judging import Judge
    from xverify.certify.listing import grouped, print_domains
    from xverify.certify.prove import Task, prove, seal, start, triples_left, try_out
    from xverify.certify.subjects import domain_named, parts_asked, readings_of, subject_named, through_of
    from xverify.core.machine import machine
    from xverify.engine import select
    from xverify.workers.process import Limits

    console = console_of_output()
    count = workers or os.cpu_count() or 1
    if listing:
        print_domains(console, count)
        return PASS
    if domain_name is None:
        raise UsageError("--domain is missing: what is to be proven; see: xverify certify --list")
    until = time.monotonic() + select.seconds(budget) if budget else float("inf")
    target = select.KERNEL if target is None else target
    oracle = subject_named(target, say)
    domain = domain_named(domain_name, zero_point, scales)
    asked = parts_asked(domain, units, difference)
    through = through_of(oracle, contract, domain, granularity, out_dtype)
    judge = Judge(domain, through.out, readings_of(through))
    limits = Limits(call=select.seconds(timeout), memory=memory << 20)
    if output is not None and not output.name:
        raise UsageError("-o is empty: it takes the name of a file")
    path = output or select.RUNS / "certificates" / _file_name(
        oracle.name, through.contract.id, domain.name, through.out
    )
    select.writable(path.resolve().parent)
    with ExitStack() as stack:
        stack.enter_context(held(path))
        before = load(path) if path.exists() and not anew else None
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="xverify-")))
        bulks = start(oracle, through, scratch, limits, count)
        for bulk in bulks:
            stack.callback(bulk.stop)
        judge.prepare()
        estimate = try_out(bulks[0], judge, asked)
        for bulk in bulks[1:]:
            bulk.patience = bulks[0].patience
        found = bulks[0].sources()
        head = {
            "subject": subject(oracle, found.files),
            "contract": through.contract.id,
            "domain": domain_to_json(domain, through.out),
            "through": {"granularity": granularity, "shapes": through.words()},
            "versions": versions(bulks[0].worker.versions, found.versions),
            "machine": machine(),
        }
        book = Book(path, head, through, judge.readings, count)
        if before is not None:
            if differences := changed(before, book.head):
                raise UsageError(
                    f"{path} is another proof: {'; '.join(differences)}. Begin again with --anew, or write to another file (-o)"
                )
            book.go_on(before)
        task = Task(book, judge, asked, keep_going, until)
        todo = triples_left(task)
        if book.counterexamples and not keep_going:
            todo = 0
        say(f"{oracle.name}: {domain.words}, {through.granularity}, {through.out} out")
        if todo:
            took = estimate.seconds(todo, min(count, os.cpu_count() or 1))
            already = f"{grouped(book.triples())} are proven; " if book.triples() else ""
            say(f"{already}{grouped(todo)} triples to prove, {_length(took)} with {count} worker{'s' * (count > 1)}")
            book.write()
            try:
                _watched(console, task, lambda show: prove(task, bulks, show), todo)
            except KeyboardInterrupt:
                seal(book, oracle, found, (), before)
                say(f"interrupted; {_proven(book)}. The same command goes on from there")
                return UNABLE
            seal(book, oracle, found, bulks, before)
    return _told(console, task, target, contract if contract and select.is_file(contract) else "")


def _file_name(*parts: str) -> str:
    import re

    return re.sub(r"[^\w.=@-]+", "_", "-".join(parts)) + ".json"


def _length(seconds: float) -> str:
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"


def _proven(book: Book) -> str:
    from xverify.certify.domains import size
    from xverify.certify.listing import grouped

    done, total = book.triples(), size(book.domain)
    return f"{grouped(done)} of {grouped(total)} triples are proven ({100 * done / total:.3g} %), in {book.path}"


def _watched(console: Console, task: Task, run: object, todo: int) -> None:
    """Run with a progress bar, or lines where there is no terminal."""
    from collections.abc import Callable
    from typing import cast

    from xverify.certify.listing import progress

    work = cast("Callable[[Callable[[int], None]], None]", run)
    begun = task.book.triples()
    with progress(console, todo) as advance:
        work(lambda triples: advance(triples - begun))


def _told(console: Console, task: Task, target: str, contract_file: str) -> int:
    """Say what came of it; the exit code."""
    from xverify.certify.prove import left
    from xverify.certify.witness import in_words, replay_line

    book = task.book
    for entry in book.counterexamples:
        console.print(in_words(entry), style="red", markup=False, highlight=False, soft_wrap=True)
        line = replay_line(entry, target, contract_file) or f"xverify replay {book.path} --kernel {target}"
        console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)
    if book.counterexamples:
        say(f"refuted: {_proven(book)}")
        return FINDINGS
    if left(task):
        say(f"not all that was asked: {_proven(book)}. The same command goes on from there")
        return UNABLE
    say(f"proven by the reading {book.explaining[0]}: {_proven(book)}")
    return PASS
