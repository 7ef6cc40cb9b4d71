"""``-n`` and ``--on``: a command as several shards, on this machine or on a Dask cluster."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xverify.cli.arguments import arguments
from xverify.cli.common import PASS, UNABLE, say
from xverify.core.errors import UnableError, UsageError
from xverify.core.shard import MOST_SHARDS, Shard

if TYPE_CHECKING:
    from rich.console import Console

    from xverify.certify.ranges import Ranges
    from xverify.engine.events import SweepStarted
    from xverify.shards.local import Interrupts
    from xverify.shards.task import Done, Task

ALLOWANCE = 600.0
"""Seconds that a shard may take beyond its work, before it is killed as hanging: to start, to judge and to shrink."""

SECONDS_OF_CASE = 2.0
"""Seconds that a case may take."""

SECONDS_OF_PROOF = 24 * 3600.0
"""Seconds that the shard of a certificate may take, if it has no budget."""

EFFORT = ("budget", "timeout", "memory", "keep_going")
"""Parameters of a proof that may change when it is continued."""

CERTIFICATE = "certificate.json"
"""The name of a shard's certificate."""

OWN = ("processes", "shards", "on", "needs", "shard_timeout", "shard", "shard_text", "events", "neighbours", "whole")
"""Parameters of the division, which a shard does not get."""


def option_on(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--on``, ``--needs`` and ``--shard-timeout`` to a command."""
    for decorate in (
        click.option(
            "--shard-timeout",
            metavar="TIME",
            help="With -n or --on: kill a shard that takes longer, and repeat it.  [default: twice its budget and 10m]",
        ),
        click.option(
            "--needs",
            multiple=True,
            metavar="NAME",
            help="With --on: run shards only on Dask workers with this resource, for example avx512. Repeatable.",
        ),
        click.option(
            "--on",
            metavar="ADDRESS",
            help="Run the shards on a Dask cluster: dask://HOST:PORT, or local-cluster:N for a trial.",
        ),
    ):
        command = decorate(command)
    return command


@dataclass(frozen=True)
class Division:
    """The user's wish to divide a run."""

    count: int | None
    """The number of shards; None for one for each thread of the cluster."""

    on: str | None
    """The address of a cluster in Dask's form, or local-cluster:N; None for this machine."""

    needs: tuple[str, ...]

    seconds: float
    """Seconds after which a shard is killed."""


def count_named(text: str | None) -> int | None:
    """The number of shards that ``-n`` names; None without the option.

    Raises:
        UsageError: The text is no number of shards.
    """
    if text is None:
        return None
    if text == "auto":
        from xverify.shards.local import cores_of_machine, number_for

        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return number_for(len(cores_of_machine()), memory)
    if not text.isdecimal() or not 1 <= int(text) <= MOST_SHARDS:
        raise UsageError(f"-n {text}: write a number from 1 to {MOST_SHARDS}, or auto")
    return int(text)


def division(
    shard: str | None, count: int | None, on: str | None, needs: tuple[str, ...], seconds: float
) -> Division | None:
    """The user's wish to divide a run; None if the run is not divided.

    Args:
        shard: The shard to do, as typed.
        count: The number of shards.
        on: The address of a cluster, as typed.
        needs: Resources that workers must state.
        seconds: Seconds after which a shard is killed.

    Raises:
        UsageError: The options contradict each other, the address is wrong, or the package distributed is missing.
    """
    if shard is not None and (count is not None or on is not None):
        raise UsageError("--shard does one part of a run, and -n and --on do all: leave one of them out")
    if on is None:
        if needs:
            raise UsageError("--needs names resources of Dask workers: it needs --on ADDRESS")
        return Division(count, None, (), seconds) if count is not None and count > 1 else None
    from xverify.shards.cluster import checked_address

    return Division(count, checked_address(on, needs), needs, seconds)


def timeout_of_shard(text: str | None, budget: float | None, cases: int | None) -> float:
    """Seconds after which a shard is killed.

    Args:
        text: The user's time.
        budget: The budget of the run in seconds, if it has one.
        cases: The number of cases of the run, if it has one.
    """
    from xverify.engine import select

    if text is not None:
        return select.seconds(text)
    if cases is not None:
        return SECONDS_OF_CASE * cases + ALLOWANCE
    return SECONDS_OF_PROOF if budget is None else 2 * budget + ALLOWANCE


@contextlib.contextmanager
def runner(wish: Division, interrupts: Interrupts) -> Iterator[tuple[int, int, Run]]:
    """The number of shards, the most on one machine at the same time, and a function that runs all.

    Raises:
        UsageError: Nothing says how many shards there are.
        UnableError: No cluster answers.
    """
    if wish.on is None:
        from xverify.shards.local import run_here

        count = wish.count or 1

        def here(tasks: Sequence[Task], folder: Path, watch: Watch) -> list[Done]:
            return run_here(tasks, folder, watch.announce, watch.on_line, interrupts, watch.restarted)

        yield count, count, here
        return
    from xverify.shards import cluster

    with cluster.connected(wish.on) as client:
        count = wish.count or cluster.number_of_shards(client)
        for name in cluster.without_workers(client, wish.needs):
            say(f"no worker of the cluster states the resource {name} now; the shards wait for one")

        def there(tasks: Sequence[Task], folder: Path, watch: Watch) -> list[Done]:
            return cluster.run_on(client, tasks, folder, watch.announce, interrupts)

        yield count, cluster.threads_of_machine(client), there


def tasks_of(command: str, written: Sequence[str], count: int, result: str, wish: Division) -> list[Task]:
    """The tasks of all shards of a command.

    Args:
        command: The name of the command.
        written: Its arguments, without those of the shard.
        count: The number of shards.
        result: The glob pattern of the result file.
        wish: The user's wish.
    """
    from xverify.shards.task import PYTHON, Task

    return [
        Task(
            f"{command}-{index}-of-{count}",
            (PYTHON, "-m", "xverify", command, *written, "--shard", str(Shard(index, count))),
            result,
            wish.seconds,
            wish.needs,
            os.getcwd(),
        )
        for index in range(1, count + 1)
    ]


def sweep_in_shards(
    context: click.Context, wish: Division, directory: Path, started: SweepStarted, console: Console
) -> tuple[dict[str, Any], int]:
    """Run a sweep in shards, and write its report into its directory.

    Args:
        context: The context of the command.
        wish: The user's wish.
        directory: The directory of the run.
        started: The first event of the run.
        console: Where progress goes.

    Returns:
        The report, and `UNABLE` if shards are missing, else `PASS`.

    Raises:
        UnableError: No shard has a result.
        UsageError: Every shard refused its options.
    """
    from xverify.engine.resume import DESCRIPTION, SHARDS
    from xverify.shards.local import Interrupts
    from xverify.shards.merging import merged_shards, write_run
    from xverify.shards.task import EVENTS, FOLDER, PYTHON, reopen

    interrupts, folder, begun = Interrupts(), directory / SHARDS, time.monotonic()
    written = arguments(context, (*OWN, "runs", "json_file", "html_file", "junit_file", "history_file", "fail_on"))
    with _without_empty(directory), runner(wish, interrupts) as (count, neighbours, run):
        written += ["--runs", FOLDER, "--events", f"{FOLDER}/{EVENTS}", "--neighbours", str(neighbours)]
        written += ["--whole", os.path.relpath(directory)]
        again = (PYTHON, "-m", "xverify", "resume", "--runs", FOLDER)
        listed = tasks_of("sweep", written, count, "*/shard.json", wish)
        tasks = [replace(task, again=again, lock=f"*/{DESCRIPTION}") for task in listed]
        reopen(tasks, folder)
        watch = Watch(tasks, started, console if wish.on is None else None)
        try:
            ends = run(tasks, folder, watch)
        finally:
            watch.close()
    files = _results(ends)
    command = shlex.join(["xverify", *sys.argv[1:]])
    merged = merged_shards(files)
    merged.report["run"] |= {"command": command, "seconds": round(time.monotonic() - begun, 1)}
    write_run(merged, directory)
    if merged.missing:
        for end in ends:
            if end.result is None:
                say(f"{_name(end)} is missing: {end.error}")
        say(f"the other shards are in {folder}; to make the missing ones: xverify resume {os.path.relpath(directory)}")
        return merged.report, UNABLE
    return merged.report, PASS


@contextlib.contextmanager
def _without_empty(directory: Path) -> Iterator[None]:
    """Remove the directory of a run that fails before a shard has begun."""
    from xverify.engine.resume import DESCRIPTION, SHARDS

    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            (directory / SHARDS).rmdir()
        if {path.name for path in directory.iterdir()} == {DESCRIPTION}:
            shutil.rmtree(directory)
        raise


def certify_in_shards(
    context: click.Context, wish: Division, path: Path, workers: int | None, share: Share, keep_going: bool
) -> int:
    """Prove a domain in shards, and write the certificate.

    Args:
        context: The context of the command.
        wish: The user's wish.
        path: The certificate. If it exists, it is of the same proof.
        workers: Processes that run the kernel, for each shard.
        share: Returns the units of a shard, by slice.
        keep_going: True if a shard continues after a counterexample.

    Returns:
        The exit code.
    """
    from xverify.certify.merge import merge_certificates
    from xverify.shards.local import Interrupts
    from xverify.shards.task import FOLDER

    written = arguments(context, (*OWN, "workers", "anew", "output"))
    # Shards of the same proof are found again.
    proof = arguments(context, (*OWN, *EFFORT, "workers", "anew", "output"))
    name = hashlib.sha256(shlex.join(proof).encode()).hexdigest()[:10]
    folder = path.parent / f"{path.name}.shards-{name}"
    if context.params["anew"]:
        shutil.rmtree(folder, ignore_errors=True)
    with runner(wish, Interrupts()) as (count, _, run):
        written += ["-n", str(workers or 1), "-o", f"{FOLDER}/{CERTIFICATE}"]
        listed = tasks_of("certify", written, count, CERTIFICATE, wish)
        # The same command continues a certificate.
        tasks = [replace(task, again=task.argv, lock=f"{CERTIFICATE}.lock") for task in listed]
        _reopen_unfinished(tasks, folder, share, keep_going)
        watch = Watch(tasks, None, None)
        ends = run(tasks, folder, watch)
    files = _results(ends)
    before = [path] if path.exists() and not context.params["anew"] else []
    if context.params["anew"]:
        path.unlink(missing_ok=True)
    result = merge_certificates([*files, *before], path)
    for end in ends:
        if end.result is None:
            say(f"{_name(end)} is missing: {end.error}")
    # The last sentence on an unfinished proof is about the commands of single shards.
    for sentence in result.sentences[:-1] if result.code == UNABLE else result.sentences:
        say(sentence)
    if result.code == UNABLE or any(end.result is None for end in ends):
        say(f"the shards so far are in {folder}; repeat the command to continue")
        return result.code or UNABLE
    shutil.rmtree(folder, ignore_errors=True)
    return result.code


def _reopen_unfinished(tasks: Sequence[Task], folder: Path, share: Share, keep_going: bool) -> None:
    """Make certificates of interrupted shards attempts again, so that no unit is proven twice."""
    from xverify.certify.certificate import load
    from xverify.certify.merge import undecided
    from xverify.shards.task import as_attempt, result_of

    for task in tasks:
        result = result_of(task, folder)
        if result is None:
            continue
        certificate = load(result)
        is_refuted = bool(certificate["counterexamples"]) and not keep_going
        if not is_refuted and undecided(certificate, share(_shard(task.key))):
            (as_attempt(task, folder) / task.lock).touch()


def _results(ends: Sequence[Done]) -> list[Path]:
    """The result files of shards.

    Raises:
        UsageError: Every shard refused its options.
        UnableError: There is no result.
    """
    files = [end.result for end in ends if end.result is not None]
    if files:
        return files
    first = next((end for end in ends if not end.is_hopeless), ends[0])
    sentence = f"no shard has a result; {_name(first)}: {first.error}"
    raise UsageError(sentence) if first.is_hopeless else UnableError(sentence)


def _shard(key: str) -> Shard:
    _, index, _, count = key.rsplit("-", 3)
    return Shard(int(index), int(count))


def _name(end: Done) -> str:
    return f"shard {_shard(end.key)}"


class Watch:
    """The display of a divided run.

    On this machine it is one line of counts, as of an undivided run. On a cluster it is a sentence for the end of each shard.

    Args:
        tasks: The shards.
        started: The first event of a sweep.
        console: Where the counts go; None for sentences.
    """

    def __init__(self, tasks: Sequence[Task], started: SweepStarted | None, console: Console | None) -> None:
        from xverify.report.console import ConsoleProgress
        from xverify.shards.progress import Together

        self._count, self._ended = len(tasks), 0
        self._progress: ConsoleProgress | None = None
        self._together: Together | None = None
        if started is not None and console is not None:
            self._progress = ConsoleProgress(console)
            self._together = Together(started, [task.key for task in tasks], self._progress)
        else:
            say(f"{self._count} shards, as tasks")

    def announce(self, end: Done) -> None:
        self._ended += 1
        if self._together is not None:
            self._together.ended(end.key)
            if end.result is None:
                say(f"{_name(end)} ended without a result: {end.error}")
            return
        done = f"done in {end.seconds:.0f} s on {end.processor}" if end.processor else "was done before"
        state = done if end.result is not None else f"failed: {end.error}"
        say(f"{_name(end)} {state} ({self._ended} of {self._count})")

    def on_line(self, key: str, line: str) -> None:
        if self._together is not None:
            self._together.line(key, line)

    def restarted(self, key: str) -> None:
        if self._together is not None:
            self._together.restart(key)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.close()


Run = Callable[[Sequence["Task"], Path, Watch], list["Done"]]
"""Run the tasks with a folder for their results. Return their ends in the same order."""

Share = Callable[[Shard], dict[int, "Ranges"]]
"""The units of a shard, by slice."""
