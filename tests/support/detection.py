"""Tables of how soon the gate stops flawed kernels, and of its gates of sound kernels.

`make detection` and `make alarms` run this.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from flawed_kernels.table import FLAWED, SOUND, Flawed, Sound  # noqa: E402
from native_compiler import compiled  # noqa: E402

from xverify import contracts  # noqa: E402
from xverify.engine.select import kernel_under_test  # noqa: E402
from xverify.gate.gate import gate, narrowed, nothing_more  # noqa: E402
from xverify.gate.options import GateOptions  # noqa: E402
from xverify.workers.pool import MakeWorker  # noqa: E402
from xverify.workers.process import Limits  # noqa: E402
from xverify.workers.worker import Worker  # noqa: E402

KERNELS = HERE.parent / "flawed_kernels"

CALL_SECONDS = 3.0
"""Seconds after which a call of a flawed kernel hangs. The gate's own default is 10."""


@dataclass(frozen=True)
class Detection:
    """The outcome of one gate of one flawed kernel."""

    name: str
    seed: int
    seconds: float | None
    """From the start of the gate to the first fault; None without a fault."""
    verdicts: frozenset[str]
    """Verdicts of the failing findings."""
    calls: int
    """Calls that the kernel answered until the gate ended."""
    wall: float
    """Seconds of the whole gate."""


def target_of(target: str, folder: Path, flags: Sequence[str] = ()) -> str:
    """Return a kernel's name on the gate's command line. Compile native kernels into the folder."""
    file, _, function = target.rpartition(":")
    path = KERNELS / file
    return f"{library(path, folder, *flags) if path.suffix == '.c' else path}:{function}"


@cache
def library(source: Path, folder: Path, *flags: str) -> Path:
    """Compile a source into the folder, once for all of its functions."""
    return compiled(source, Path(tempfile.mkdtemp(dir=folder)), flags)


def options_of(target: str, contract: str, seed: int, folder: Path, budget: float) -> GateOptions:
    return GateOptions(
        kernel=kernel_under_test(target),
        target=target,
        contracts=(contracts.get(contract),),
        directory=Path(tempfile.mkdtemp(dir=folder)),
        run_id="detection",
        command="",
        seed=seed,
        budget=budget,
        shrink=False,
        limits=Limits(call=CALL_SECONDS, start=budget, memory=4 << 30),
    )


def detect(flawed: Flawed, seed: int, folder: Path, budget: float = 30.0, worker: MakeWorker = Worker) -> Detection:
    """Run the gate on a flawed kernel until the first fault. ``worker`` makes the worker that calls it."""
    target = target_of(flawed.target, folder, flawed.flags)
    began = time.monotonic()
    options = replace(options_of(target, flawed.contract, seed, folder, budget), fail_fast=True, worker=worker)
    report = gate(options, lambda event: None)
    made = report["gate"]
    failing = frozenset(f["verdict"] for f in report["findings"] if f["id"] in made["failing"])
    wall = time.monotonic() - began
    return Detection(flawed.name, seed, made["first_fault_seconds"], failing, made["calls"], wall)


def until_walked(
    sound: Sound, seed: int, folder: Path, scales: Sequence[str] = (), budget: float = 120.0
) -> dict[str, Any]:
    """Run a gate of a sound kernel that ends after the coverage walk. Return its report.

    The walk has the kernel's types of x, and the named types of scale, or all if none is named.
    """
    options = options_of(target_of(sound.target, folder), sound.contract, seed, folder, budget)
    within = {contract.id: narrowed(contract.domain, sound.x_dtypes, scales, ()) for contract in options.contracts}
    return gate(replace(options, draw=nothing_more, within=within), lambda event: None)


def until_the_end(sound: Sound, seed: int, folder: Path, budget: float) -> dict[str, Any]:
    """Run a whole gate of a sound kernel. Return its report."""
    return gate(options_of(target_of(sound.target, folder), sound.contract, seed, folder, budget), lambda event: None)


def table(found: Sequence[Detection], startup: float, command: str) -> str:
    """Format detections as Markdown, the slowest first."""
    by_name: dict[str, list[Detection]] = {}
    for one in found:
        by_name.setdefault(one.name, []).append(one)
    rows, medians = [], []
    for flawed in FLAWED:
        runs = by_name.get(flawed.name, [])
        if not runs:
            continue
        times = sorted(startup + run.seconds for run in runs if run.seconds is not None)
        stopped = sum(bool(run.verdicts & flawed.expected) for run in runs)
        median = statistics.median(times) if times else float("inf")
        medians.append(median)
        seen = ", ".join(sorted(frozenset().union(*(run.verdicts for run in runs))))
        slowest = f"{times[-1]:.1f}" if times else "never"
        rows.append(
            (
                median,
                f"| {flawed.name} | {flawed.source} | {stopped} of {len(runs)} | {median:.1f} | {slowest} | {seen} |",
            )
        )
    rows.sort(key=lambda row: -row[0])
    within = sum(median <= 2 for median in medians)
    missed = sum(not run.verdicts & _expected(run.name) for run in found)
    return "\n".join(
        [
            "# How soon the gate stops flawed kernels",
            "",
            f"Made by `{command}`: {len(medians)} kernels written from public bug reports, {len(found)} gates, each until the "
            f"first fault. Seconds from the start of the command, of which {startup:.1f} are the start of Python and imports "
            "(measured once). Stopped: with a verdict that the kernel's table expects. A call that takes "
            f"{CALL_SECONDS:g} s hangs here (of a gate by itself: 10 s).",
            "",
            f"Not stopped: {missed} of {len(found)} gates. Half of the kernels within {statistics.median(medians):.1f} s; "
            f"{within} of {len(medians)} within 2 s (medians over seeds); the slowest gate "
            f"{max((startup + r.seconds for r in found if r.seconds is not None), default=0):.1f} s.",
            "",
            "| kernel | report | stopped | median s | slowest s | verdicts |",
            "| --- | --- | --- | --- | --- | --- |",
            *(row for _, row in rows),
            "",
        ]
    )


def _expected(name: str) -> frozenset[str]:
    return next(flawed.expected for flawed in FLAWED if flawed.name == name)


def start_of_command() -> float:
    """Return the seconds from the start of `xverify gate` until it begins to work."""
    import subprocess

    program = "import xverify.gate.gate, xverify.gate.ledger_file, xverify.engine.select, xverify.report.console"
    times = []
    for _ in range(3):
        began = time.monotonic()
        subprocess.run([sys.executable, "-c", program], check=True)
        times.append(time.monotonic() - began)
    return min(times)


@click.command()
@click.option("--seeds", default=1, show_default=True, help="Gates of each kernel, with the seeds 0, 1, ...")
@click.option("--only", default="", help="Only kernels whose names contain this.")
@click.option("--sound", is_flag=True, help="Whole gates of the sound kernels instead, which must find nothing.")
@click.option("--jobs", default=1, show_default=True, help="Gates of sound kernels at once.")
@click.option("--budget", default=30.0, show_default=True, help="Seconds of each gate.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write (default: standard output).")
def main(seeds: int, only: str, sound: bool, jobs: int, budget: float, output: Path | None) -> None:
    """Measure how soon the gate stops each flawed kernel."""
    command = "python " + " ".join(["tests/support/detection.py", *sys.argv[1:]])
    with tempfile.TemporaryDirectory() as scratch:
        if sound:
            sys.exit(alarms(seeds, only, budget, Path(scratch), jobs, command, output))
        startup = start_of_command()
        found: list[Detection] = []
        for seed in range(seeds):
            for flawed in FLAWED:
                if only in flawed.name:
                    found.append(detect(flawed, seed, Path(scratch), budget))
                    say(found[-1])
    text = table(found, startup, command)
    if output is None:
        print(text)
    else:
        output.write_text(text, encoding="utf-8")


def say(one: Detection) -> None:
    stopped = "stopped" if one.verdicts & _expected(one.name) else "MISSED"
    seen = ", ".join(sorted(one.verdicts))
    line = (
        f"{stopped:8} {one.name:40} seed {one.seed} {one.seconds} s, {one.wall:.1f} s in all, {one.calls} calls, {seen}"
    )
    print(line, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Whole:
    """The outcome of a whole gate of a sound kernel."""

    target: str
    seed: int
    outcome: str
    reason: str
    """The reason why the gate did not run to its end, if it did not."""
    calls: int
    values: int
    found: tuple[str, ...]
    """A line for each finding."""


def alarms(seeds: int, only: str, budget: float, folder: Path, jobs: int, command: str, output: Path | None) -> int:
    """Run whole gates of sound kernels. Return how many did not pass, at most 100."""
    ended: list[Whole] = []
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        gates = [
            pool.submit(alarm, one, seed, folder, budget)
            for seed in range(seeds)
            for one in SOUND
            if only in one.target
        ]
        for done in as_completed(gates):
            one = done.result()
            ended.append(one)
            if output is not None:  # write what there is: all gates take more than an hour
                output.write_text(table_of_alarms(ended, len(gates), command), encoding="utf-8")
            print(
                f"{one.outcome:8} {one.target} seed {one.seed}, {one.calls} calls, {one.values} values {one.reason}",
                flush=True,
            )
            for line in one.found:
                print("        ", line, flush=True)
    if output is None:
        print(table_of_alarms(ended, len(gates), command))
    return min(sum(one.outcome != "pass" for one in ended), 100)


def alarm(one: Sound, seed: int, folder: Path, budget: float) -> Whole:
    """Run one whole gate of a sound kernel."""
    report = until_the_end(one, seed, folder, budget)
    made, values = report["gate"], report["coverage"]["values"]
    found = tuple(f"{f['verdict']}: {f['summary']} {f['line'][:400]}" for f in report["findings"])
    return Whole(one.target, seed, made["outcome"], made["reason"], made["calls"], values, found)


def table_of_alarms(ended: Sequence[Whole], of: int, command: str) -> str:
    """Format whole gates as Markdown, a row for each kernel."""
    rows = []
    for sound in SOUND:
        runs = [one for one in ended if one.target == sound.target]
        if not runs:
            continue
        passed = sum(one.outcome == "pass" for one in runs)
        calls, values = (statistics.median(getattr(one, name) for one in runs) for name in ("calls", "values"))
        others = sorted({line for one in runs for line in (*one.found, one.reason) if line})
        said = "<br>".join(line.replace("|", "\\|") for line in others)
        rows.append(
            f"| {sound.target} | `{sound.contract}` | {passed} of {len(runs)} | {calls:.0f} | {values / 1e6:.1f} | {said} |"
        )
    return "\n".join(
        [
            "# Whole gates of kernels that are right",
            "",
            f"Made by `{command}`: {len(ended)} of {of} gates. One passes when it finds nothing and its walk comes to its end.",
            "",
            f"Passed: {sum(one.outcome == 'pass' for one in ended)} of {len(ended)} gates.",
            "",
            "| kernel | contract | passed | calls (median) | million values (median) | what was found, or why it did not end |",
            "| --- | --- | --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    main()
