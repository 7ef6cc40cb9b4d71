"""Tables of gates: flawed kernels, sound kernels, and kernels that answer almost nothing.

`make detection` and `make alarms` run this.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import click

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from flawed_kernels.table import ALMOST_NOTHING, FLAWED, SOUND, AlmostNothing, Flawed, Sound  # noqa: E402
from native_compiler import compiled  # noqa: E402

from xverify import contracts  # noqa: E402
from xverify.engine.select import kernel_under_test  # noqa: E402
from xverify.gate.gate import gate  # noqa: E402
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


def table(detections: Sequence[Detection], startup: float, command: str) -> str:
    """Format detections as Markdown, the slowest first."""
    by_name: dict[str, list[Detection]] = {}
    for detection in detections:
        by_name.setdefault(detection.name, []).append(detection)
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
    late = sum(run.seconds is None or startup + run.seconds > 30 for run in detections)
    missed = sum(not run.verdicts & _expected(run.name) for run in detections)
    return "\n".join(
        [
            "# How soon the gate stops flawed kernels",
            "",
            f"Made by `{command}`: {len(medians)} kernels written from public bug reports, {len(detections)} gates, "
            f"each until the first fault. Seconds from the start of the command; the start of Python and imports took "
            f"{startup:.1f} of them (measured once). Stopped: with a verdict that the kernel's table expects. A call that takes "
            f"{CALL_SECONDS:g} s hangs here (of a gate by itself: 10 s).",
            "",
            f"Not stopped: {missed} of {len(detections)} gates. Half of the kernels within {statistics.median(medians):.1f} s; "
            f"{within} of {len(medians)} within 2 s ({within / max(1, len(medians)):.0%}, medians over seeds); "
            f"{late} gates took longer than 30 s; the slowest one that stopped its kernel took "
            f"{max((startup + r.seconds for r in detections if r.seconds is not None), default=0):.1f} s.",
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
    program = "import xverify.gate.gate, xverify.gate.ledger_file, xverify.engine.select, xverify.report.console"
    times = []
    for _ in range(3):
        began = time.monotonic()
        subprocess.run([sys.executable, "-c", program], check=True)
        times.append(time.monotonic() - began)
    return min(times)


@click.command()
@click.option("--seeds", default=1, show_default=True, help="Gates of each kernel, with the seeds 0, 1, ...")
@click.option("--only", default="", help="Only kernels whose target, file.py:function, contains this.")
@click.option("--sound", "kind", flag_value="sound", help="Whole gates of the sound kernels instead, which must pass.")
@click.option(
    "--almost-nothing", "kind", flag_value="nothing", help="Whole gates of kernels that answer almost nothing."
)
@click.option("--jobs", default=1, show_default=True, help="Whole gates at once.")
@click.option("--budget", default=30.0, show_default=True, help="Seconds of each gate.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write (default: standard output).")
def main(seeds: int, only: str, kind: str | None, jobs: int, budget: float, output: Path | None) -> None:
    """Measure how soon the gate stops each flawed kernel, or run whole gates of other kernels."""
    command = "python " + " ".join(["tests/support/detection.py", *sys.argv[1:]])
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if kind:
            kernels = [kernel for kernel in WHOLE_GATES[kind] if only in kernel.target and installed(kernel)]
            sys.exit(whole_gates(kernels, seeds, budget, folder, jobs, command, output))
        startup = start_of_command()
        detections: list[Detection] = []
        for seed in range(seeds):
            for flawed in FLAWED:
                if only in flawed.target:
                    detections.append(detect(flawed, seed, folder, budget))
                    report(detections[-1])
    write(table(detections, startup, command), output)


def write(text: str, output: Path | None) -> None:
    if output is None:
        print(text)
    else:
        output.write_text(text, encoding="utf-8")


def report(detection: Detection) -> None:
    stopped = "stopped" if detection.verdicts & _expected(detection.name) else "MISSED"
    seen = ", ".join(sorted(detection.verdicts))
    line = (
        f"{stopped:8} {detection.name:40} seed {detection.seed} {detection.seconds} s, "
        f"{detection.wall:.1f} s in all, {detection.calls} calls, {seen}"
    )
    print(line, file=sys.stderr, flush=True)


WHOLE_GATES: dict[str, tuple[Sound | AlmostNothing, ...]] = {"sound": SOUND, "nothing": ALMOST_NOTHING}


@dataclass(frozen=True)
class Whole:
    """The outcome of a whole gate."""

    kernel: Sound | AlmostNothing
    seed: int
    exit_code: int
    calls: int
    values: int
    lines: tuple[str, ...]
    """The reason of the gate's decision, and a line for each finding."""

    @property
    def right(self) -> bool:
        """True if the gate decided right."""
        return self.exit_code == self.kernel.exit_code


def installed(kernel: Sound | AlmostNothing) -> bool:
    """Return True if the packages that a kernel needs are installed."""
    return all(find_spec(package) for package in kernel.needs)


def whole_gate(
    kernel: Sound | AlmostNothing, seed: int, folder: Path, budget: float, options: Sequence[str] = ()
) -> Whole:
    """Run `xverify gate` on a kernel to the end of its budget, as a user does."""
    directory = Path(tempfile.mkdtemp(dir=folder))
    report = directory / "report.json"
    command = [
        *(sys.executable, "-m", "xverify", "gate", "--kernel", target_of(kernel.target, folder)),
        *("--contract", kernel.contract, "--seed", str(seed), "--budget", f"{budget:g}s", "--json", str(report)),
        *kernel.options,
        *options,
    ]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
    ended = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    if not report.is_file():
        return Whole(kernel, seed, ended.returncode, 0, 0, tuple((ended.stdout + ended.stderr).splitlines()[-3:]))
    written = json.loads(report.read_text(encoding="utf-8"))
    made = written["gate"]
    findings = (f"{f['verdict']}: {f['summary']} {f['line'][:400]}" for f in written["findings"])
    lines = tuple(line for line in (made["reason"], *findings) if line)
    return Whole(kernel, seed, ended.returncode, made["calls"], written["coverage"]["values"], lines)


def whole_gates(
    kernels: Sequence[Sound | AlmostNothing],
    seeds: int,
    budget: float,
    folder: Path,
    jobs: int,
    command: str,
    output: Path | None,
) -> int:
    """Run whole gates. Return the number of wrong decisions, at most 100."""
    ended: list[Whole] = []
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(whole_gate, kernel, seed, folder, budget) for seed in range(seeds) for kernel in kernels]
        for future in as_completed(futures):
            run = future.result()
            ended.append(run)
            if output is not None:  # after each gate, since all of them take more than an hour
                write(table_of_gates(ended, len(futures), command), output)
            right = "right" if run.right else "WRONG"
            print(
                f"{right:6} {run.kernel.target} {run.kernel.options} seed {run.seed}, exit {run.exit_code}, {run.calls} calls"
            )
            for line in run.lines:
                print("        ", line, flush=True)
    if output is None:
        print(table_of_gates(ended, len(futures), command))
    return min(sum(not run.right for run in ended), 100)


def table_of_gates(ended: Sequence[Whole], of: int, command: str) -> str:
    """Format whole gates as Markdown, a row for each kernel."""
    rows = []
    for kernel in (*SOUND, *ALMOST_NOTHING):
        runs = [run for run in ended if run.kernel == kernel]
        if not runs:
            continue
        right = sum(run.right for run in runs)
        exits = ", ".join(str(code) for code in sorted({run.exit_code for run in runs}))
        calls, values = (statistics.median(getattr(run, name) for run in runs) for name in ("calls", "values"))
        others = sorted({line for run in runs for line in run.lines})
        cell = "<br>".join(line.replace("|", "\\|") for line in others)
        options = "".join(f" {option}" for option in kernel.options)
        rows.append(
            f"| {kernel.target}{options} | `{kernel.contract}` | {right} of {len(runs)} | {exits} | {calls:.0f} | "
            f"{values / 1e6:.1f} | {cell} |"
        )
    return "\n".join(
        [
            "# Whole gates",
            "",
            f"Made by `{command}`: {len(ended)} of {of} gates. A right kernel must pass: exit code 0. A kernel that answers "
            "almost nothing must not: exit code 3, or 1 if it has a fault.",
            "",
            f"Right: {sum(run.right for run in ended)} of {len(ended)} gates.",
            "",
            "| kernel | contract | right | exit codes | calls (median) | million values (median) | reasons and findings |",
            "| --- | --- | --- | --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    main()
