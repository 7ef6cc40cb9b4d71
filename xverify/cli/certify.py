"""The command ``xverify certify``: an exhaustive proof over a closed domain."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from xverify.cli import divided
from xverify.cli.common import FINDINGS, PASS, UNABLE, clear, console_of_output, say
from xverify.cli.divided import option_on
from xverify.core.errors import UsageError
from xverify.core.shard import MOST_SHARDS

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
    help="Kernel (package.module:function, file.py:function, library.so:symbol) or implementation "
    "(NAME[:OPTION][==VERSION]) to check.  [default: xverify-numpy]",
)
@click.option("--domain", "domain_name", metavar="DOMAIN", help="Domain to check; --list shows all.")
@click.option("--list", "listing", is_flag=True, help="List the domains with their sizes and estimated times.")
@click.option(
    "--contract",
    metavar="ID|FILE",
    help="Edition to check against.  [default: the newest ONNX edition; for a framework, the newest that onnxruntime has]",
)
@click.option(
    "--range",
    "units",
    metavar="A:B",
    help="Check only units A to B-1 of the domain; --list says what a unit is.  [default: all]",
)
@click.option(
    "--difference",
    metavar="D|A:B",
    help="Check only this difference x - zero point, or these. For domains TYPE-float32.  [default: all]",
)
@click.option(
    "--shard",
    "shard_text",
    metavar="K/N",
    help="Check only part K of N equal parts; xverify merge combines their certificates.  [default: everything]",
)
@click.option(
    "--scale",
    "scales",
    multiple=True,
    metavar="NUMBER",
    help="Scale to check, for example 0x1.8p-3. Required for domains of 16-bit types. Repeatable.",
)
@click.option(
    "--zero-point",
    type=click.Choice(["all", "absent"]),
    default="all",
    show_default=True,
    help="Check all zero points of the type of x, or calls without a zero point.",
)
@click.option(
    "--out-dtype",
    type=click.Choice(["float32", "float16", "bfloat16"]),
    help="Output type, for editions that have output_dtype.  [default: the type of the scale]",
)
@click.option(
    "--granularity",
    type=click.Choice(["per_axis", "per_tensor", "blocked"]),
    default="per_axis",
    show_default=True,
    help="Granularity of the calls; per_tensor is much slower than the others.",
)
@click.option(
    "-n", "--workers", type=click.IntRange(1, 64), help="Processes that run the kernel.  [default: one per core]"
)
@click.option("--budget", metavar="TIME", help="Stop after this time: 60s, 5m, 1h.  [default: no limit]")
@click.option(
    "--timeout", default="10s", show_default=True, metavar="TIME", help="Report a call that takes longer as a hang."
)
@click.option(
    "--memory",
    default=4096,
    type=click.IntRange(0),
    show_default=True,
    metavar="MIB",
    help="Memory limit of each kernel process; 0 for no limit.",
)
@click.option("-k", "--keep-going", is_flag=True, help="Continue after a counterexample.")
@click.option("--anew", is_flag=True, help="Discard the existing certificate and start again.")
@click.option(
    "-o",
    "--output",
    type=FILE,
    metavar="CERTIFICATE.json",
    help="Certificate to write or continue.  [default: reports/runs/certificates/NAMES.json]",
)
@click.option(
    "--shards",
    type=click.IntRange(1, MOST_SHARDS),
    metavar="N",
    help="With --on: divide the proof into N tasks.  [default: one for each thread of the workers]",
)
@option_on
@clear
@click.pass_context
def certify(
    context: click.Context,
    /,
    target: str | None,
    domain_name: str | None,
    listing: bool,
    contract: str | None,
    units: str | None,
    difference: str | None,
    shard_text: str | None,
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
    shards: int | None,
    on: str | None,
    needs: tuple[str, ...],
    shard_timeout: str | None,
) -> int:
    """Check every triple (x, zero point, scale) of a domain.

    Results are compared bit for bit with those that the edition allows. The certificate always holds what is proven
    so far. The same command continues an interrupted proof.

    Exit codes: 0 everything requested is proven, 1 counterexample, 2 wrong usage, 3 unfinished.
    """
    from xverify.certify import ranges
    from xverify.certify.certificate import Book, changed, domain_to_json, held, load, shard_of
    from xverify.certify.identity import subject, versions
    from xverify.certify.judging import Judge
    from xverify.certify.listing import grouped, print_domains
    from xverify.certify.prove import Task, prove, seal, start, triples_left, try_out
    from xverify.certify.subjects import domain_named, parts_asked, readings_of, subject_named, through_of
    from xverify.core.machine import machine
    from xverify.core.shard import Shard, shard_named
    from xverify.engine import select
    from xverify.workers.process import Limits

    console = console_of_output()
    count = workers or os.cpu_count() or 1
    if listing:
        print_domains(console, count)
        return PASS
    if domain_name is None:
        raise UsageError("--domain is missing: name the domain to check; see: xverify certify --list")
    shard = shard_named(shard_text) if shard_text else None
    seconds = divided.timeout_of_shard(shard_timeout, select.seconds(budget) if budget else None, None)
    division = divided.division(shard_text, shards if on is not None else None, on, needs, seconds)
    if on is None and (shards is not None or shard_timeout is not None):
        raise UsageError("--shards and --shard-timeout need --on ADDRESS; on this machine, -n divides the work")
    until = time.monotonic() + select.seconds(budget) if budget else float("inf")
    target = select.KERNEL if target is None else target
    oracle = subject_named(target, say)
    domain = domain_named(domain_name, zero_point, scales)
    requested = parts_asked(domain, units, difference)
    through = through_of(oracle, contract, domain, granularity, out_dtype)
    units_of_run = requested if shard is None else ranges.share(requested, through.units_of_request, shard)
    judge = Judge(domain, through.out, readings_of(through))
    limits = Limits(call=select.seconds(timeout), memory=memory << 20)
    if output is not None and not output.name:
        raise UsageError("-o is empty: give it the name of a file")
    path = output or select.RUNS / "certificates" / _file_name(
        oracle.name,
        through.contract.id,
        domain.name,
        through.out,
        *(() if shard is None else (f"shard={shard.index}-of-{shard.count}",)),
    )
    select.writable_file(path)
    if division is not None:

        def share(part: Shard) -> dict[int, ranges.Ranges]:
            return ranges.share(requested, through.units_of_request, part)

        return divided.certify_in_shards(context, division, path, workers, share, keep_going)
    with ExitStack() as stack:
        stack.enter_context(held(path))
        before = load(path) if path.exists() and not anew else None
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="xverify-")))
        bulks = start(oracle, through, scratch, limits, count)
        for bulk in bulks:
            stack.callback(bulk.stop)
        judge.prepare()
        estimate = try_out(bulks[0], judge, units_of_run or requested)
        for bulk in bulks[1:]:
            bulk.patience = bulks[0].patience
        sources = bulks[0].sources()
        head = {
            "subject": subject(oracle, sources.files),
            "contract": through.contract.id,
            "domain": domain_to_json(domain, through.out),
            "through": {"granularity": granularity, "shapes": through.words()},
            "versions": versions(bulks[0].worker.versions, sources.versions),
            "machine": machine(),
        }
        book = Book(path, head, through, judge.readings, count, requested=requested, shard=shard)
        if before is not None:
            differences = changed(before, book.head)
            if shard_of(before) != shard:
                differences.append(f"the shard was {shard_of(before) or 'none'}, is {shard or 'none'}")
            if differences:
                raise UsageError(
                    f"{path} holds another proof: {'; '.join(differences)}. "
                    "Start again with --anew, or write to another file with -o"
                )
            book.go_on(before)
        task = Task(book, judge, units_of_run, keep_going, until)
        todo = triples_left(task)
        if book.counterexamples and not keep_going:
            todo = 0
        of_shard = "" if shard is None else f", shard {shard}"
        say(f"{oracle.name}: {domain.words}, {through.granularity}, {through.out} out{of_shard}")
        if todo:
            took = estimate.seconds(todo, min(count, os.cpu_count() or 1))
            already = f"{grouped(book.triples())} are proven; " if book.triples() else ""
            say(f"{already}{grouped(todo)} triples to prove, {_duration(took)} with {count} worker{'s' * (count > 1)}")
            book.write()
            try:
                _watched(console, task, lambda show: prove(task, bulks, show), todo)
            except KeyboardInterrupt:
                seal(book, oracle, sources, (), before)
                say(f"interrupted; {_proven(book)}. Repeat the command to continue")
                return UNABLE
            seal(book, oracle, sources, bulks, before)
        elif shard is not None and before is None:
            book.write()  # an empty shard has a certificate too
    return _print_result(console, task, target, contract if contract and select.is_file(contract) else "")


def _file_name(*parts: str) -> str:
    import re

    return re.sub(r"[^\w.=@-]+", "_", "-".join(parts)) + ".json"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"


def _proven(book: Book) -> str:
    from xverify.certify.domains import size
    from xverify.certify.listing import grouped

    done, total = book.triples(), size(book.domain)
    return f"{grouped(done)} of {grouped(total)} triples are proven ({100 * done / total:.3g} %), in {book.path}"


def _watched(console: Console, task: Task, run: object, todo: int) -> None:
    """Run the proof with a progress bar, or with lines of progress where there is no terminal."""
    from collections.abc import Callable
    from typing import cast

    from xverify.certify.listing import progress

    work = cast("Callable[[Callable[[int], None]], None]", run)
    begun = task.book.triples()
    with progress(console, todo) as advance:
        work(lambda triples: advance(triples - begun))


def _print_result(console: Console, task: Task, target: str, contract_file: str) -> int:
    """Print the result. Return the exit code."""
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
        say(f"unfinished: {_proven(book)}. Repeat the command to continue")
        return UNABLE
    if not task.asked:
        say(f"shard {book.shard} is empty: there are more shards than requests. Its certificate is {book.path}")
        return PASS
    say(f"proven by the reading {book.explaining[0]}: {_proven(book)}")
    if book.shard is not None:
        say(f"this is shard {book.shard}. Combine all shards with: xverify merge CERTIFICATE... -o CERTIFICATE")
    return PASS
