"""Measure the goals of the in-house kernels with ``xverify bench``, and check them.

The script runs three benches, or reads their JSON from files:

- uint8 and int8 to float32 at every size;
- the same at one size beyond the last-level cache, if no other size is;
- all other types, in all granularities, at 16 Mi elements.

A line for each goal and case shows the measured value, the goal, and the verdict. Exit codes: 1 if a goal is missed, 3 if one
could not be measured.

    python benchmarks/measures.py                                # about 30 minutes
    python benchmarks/measures.py --from bench.json others.json  # files that `xverify bench --json` wrote
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from xverify.bench.cases import SIZES, pairs_of, size_in_words
from xverify.bench.machine import machine
from xverify.bench.present import is_unsteady, x_in_words
from xverify.bench.result import load
from xverify.cli.common import console_of_output

MAIN = (("uint8", "float32"), ("int8", "float32"))
LARGE = (1 << 24, 1 << 26)

NOT_SLOWER, OVER_ONNX_RUNTIME, OF_LIMIT, OF_LIMIT_OTHERS = 0.97, 1.4, 0.9, 0.8

BLOCK_BYTES = {"xverify-numba": 1 << 20, "xverify-numpy": 5 << 19}
"""Bytes that a kernel may take beside its output: a block, and memory that Linux counts late.

NumPy's arithmetic has up to seven arrays of 256 KiB for a block at once, the most for bfloat16.
"""


@dataclass(frozen=True)
class Check:
    """A goal in one case."""

    goal: str
    """The name of the goal."""

    case: str
    """Types, granularity and size."""

    measured: float | None
    """The measured value; None if it could not be measured."""

    wanted: float
    """The value of the goal."""

    at_least: bool = True
    """True if larger values are better."""

    remark: str = ""
    """The fastest peer, or the way in which the limit was measured."""

    @property
    def passed(self) -> bool | None:
        if self.measured is None:
            return None
        return self.measured >= self.wanted if self.at_least else self.measured <= self.wanted


def last_level_cache(machine_facts: dict[str, Any]) -> int:
    """Bytes of the last-level cache; 32 MiB if the platform does not tell."""
    return machine_facts["last_level_cache"] or 1 << 25


def size_beyond(cache: int) -> int | None:
    """The number of elements, a power of two, whose bytes (one of x, four of float32) exceed that cache.

    None if the bench's largest size exceeds it already.
    """
    elements = SIZES[-1]
    while 5 * elements <= cache:
        elements *= 2
    return elements if elements > SIZES[-1] else None


def checks(bench: dict[str, Any], kernel: str) -> Iterator[Check]:
    """The checks of all goals for the cases of a bench."""
    cache = last_level_cache(bench["run"]["machine"])
    for case in bench["cases"]:
        lines = {line["peer"]: line for line in case["lines"]}
        mine, runtime = lines.get(kernel, {}), lines.get("onnxruntime", {})
        pair = (x_in_words(case), case["out_dtype"])
        name = f"{pair[0]} to {pair[1]}, {case['granularity']}, {size_in_words(case['elements'])}"
        fastest = case.get("fastest_peer")
        if case["elements"] == 1:
            if "seconds" in runtime:
                took = _microseconds(mine)
                yield Check(
                    "call overhead below ONNX Runtime's, in microseconds",
                    name,
                    took,
                    _microseconds(runtime) or 0,
                    False,
                )
            continue
        if fastest:
            faster = _faster_with_other_bits(case["lines"], lines[fastest])
            remark = ", ".join([fastest, *(f"{name} faster, with other bits" for name in faster)])
            remark += _by_medians(mine, "ratio_to_fastest_peer", "medians_to_fastest_peer")
            yield Check(
                "not slower than the fastest peer", name, mine.get("ratio_to_fastest_peer"), NOT_SLOWER, remark=remark
            )
        if pair in MAIN and "seconds" in runtime and case["bytes_read"] + case["bytes_written"] > cache:
            goal = "times ONNX Runtime, past the last-level cache"
            yield Check(goal, name, _times(mine, runtime), OVER_ONNX_RUNTIME, remark=_times_of_limit(lines, runtime))
        limit = _way(lines) + _by_medians(mine, "part_of_limit", "medians_to_limit")
        if pair in MAIN and case["elements"] in LARGE:
            yield Check("part of the limit", name, mine.get("part_of_limit"), OF_LIMIT, remark=limit)
        elif case["elements"] == LARGE[0]:
            yield Check(
                "part of the limit, other types", name, mine.get("part_of_limit"), OF_LIMIT_OTHERS, remark=limit
            )
        for line in lines.values():
            if line["role"] == "kernel" and line.get("peak_bytes") is not None:
                taken = line["peak_bytes"] / (1 << 20)
                allowed = BLOCK_BYTES.get(line["peer"], 1 << 20) / (1 << 20)
                yield Check("MiB beside the output", name, taken, allowed, False, line["peer"])


def _faster_with_other_bits(listed: list[dict[str, Any]], fastest: dict[str, Any]) -> list[str]:
    limit = fastest["seconds"]["median"]
    timed = [line for line in listed if line["role"] == "peer" and "seconds" in line]
    return [line["peer"] for line in timed if line["other_bits"] and line["seconds"]["median"] < limit]


def _by_medians(line: dict[str, Any], by_rounds: str, by_medians: str) -> str:
    """The ratio of medians, if it differs from the median ratio.

    They differ where the machine's speed changed between rounds.
    """
    other = line.get(by_medians)
    return f"; by the medians {other:.2f}" if is_unsteady(line.get(by_rounds), other) else ""


def _times(mine: dict[str, Any], other: dict[str, Any]) -> float | None:
    """The speed relative to another line: the median over rounds."""
    if "seconds" not in mine:
        return None
    rounds = mine["seconds"]["rounds"], other["seconds"]["rounds"]
    if len(rounds[0]) != len(rounds[1]):  # one was lost on the way
        return float(other["seconds"]["median"] / mine["seconds"]["median"])
    return float(statistics.median(theirs / ours for ours, theirs in zip(*rounds, strict=True)))


def _times_of_limit(lines: dict[str, Any], other: dict[str, Any]) -> str:
    """The speed of moving the same bytes, which no kernel can exceed."""
    limit = next((line for line in lines.values() if line["role"] == "limit" and "seconds" in line), None)
    return "" if limit is None else f"the limit itself {_times(limit, other):.2f}"


def _microseconds(line: dict[str, Any]) -> float | None:
    return line["seconds"]["median"] * 1e6 if "seconds" in line else None


def _way(lines: dict[str, Any]) -> str:
    return str(next((line["way"] for line in lines.values() if line["role"] == "limit" and "way" in line), ""))


def run(arguments: list[str], folder: Path, number: int) -> dict[str, Any]:
    """The JSON of one bench.

    Raises:
        CalledProcessError: if the bench fails.
    """
    file = folder / f"bench-{number}.json"
    subprocess.run([sys.executable, "-m", "xverify", "bench", *arguments, "--json", str(file)], check=True)
    return load(file)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--from", dest="files", nargs="+", type=Path, help="JSON files of `xverify bench` to read instead of measuring"
    )
    parser.add_argument("--kernel", default="xverify-numba", help="the kernel to check (default: %(default)s)")
    parser.add_argument(
        "--budget",
        type=float,
        default=300.0,
        help="seconds of a bench; the bench of other types gets four times as many (default: %(default)s)",
    )
    parser.add_argument("--all", action="store_true", help="also show goals that are reached")
    arguments = parser.parse_args()
    if arguments.files:
        benches = [load(file) for file in arguments.files]
    else:
        others = ",".join(":".join(pair) for pair in pairs_of("all") if pair not in MAIN)
        with tempfile.TemporaryDirectory(prefix="xverify-measures-") as folder:
            budgets = [f"{arguments.budget * factor:g}s" for factor in (1, 4)]
            mains = ",".join(map(":".join, MAIN))
            options_of_benches = [["--dtypes", mains, "--budget", budgets[0]]]
            if beyond := size_beyond(last_level_cache(machine())):
                options_of_benches.append(["--dtypes", mains, "--sizes", str(beyond), "--budget", budgets[0]])
            options_of_benches.append(
                ["--dtypes", others, "--granularity", "all", "--sizes", "16Mi", "--budget", budgets[1]]
            )
            benches = [run(options, Path(folder), number) for number, options in enumerate(options_of_benches)]
    left_out = [case for bench in benches for case in bench["cases"] if case["reason"]]
    results = [check for bench in benches for check in checks(bench, arguments.kernel)]
    _print(results, arguments.all)
    for case in left_out:
        name = f"{x_in_words(case)} to {case['out_dtype']}, {case['granularity']}, {case['elements']}"
        print(f"not measured: {name}: {case['reason']}")
    if any(check.passed is False for check in results):
        return 1
    return 3 if left_out or not results or any(check.passed is None for check in results) else 0


def _print(results: list[Check], everything: bool) -> None:
    console = console_of_output()
    summary = Table(title="Goals", title_justify="left")
    for column in ("goal", "reached", "missed", "not measured", "worst"):
        summary.add_column(column, justify="left" if column == "goal" else "right")
    for goal in dict.fromkeys(check.goal for check in results):
        mine = [check for check in results if check.goal == goal]
        measured_checks = [check for check in mine if check.measured is not None]
        worst = min(
            measured_checks, key=lambda check: (check.measured or 0.0) * (1 if check.at_least else -1), default=None
        )
        counts = [sum(check.passed is state for check in mine) for state in (True, False, None)]
        shown = "" if worst is None else f"{worst.measured:.2f} for {worst.wanted:.2f}"
        summary.add_row(goal, *map(str, counts), shown)
    console.print(summary)
    table = Table(title="Every goal" if everything else "Missed, or not measured", title_justify="left")
    for column in ("", "goal", "case", "measured", "goal value", "fastest peer, or limit"):
        table.add_column(column, justify="right" if column in ("measured", "goal value") else "left")
    for check in results:
        if everything or not check.passed:
            word = {True: "pass", False: "FAIL", None: "?"}[check.passed]
            measured = "-" if check.measured is None else f"{check.measured:.2f}"
            table.add_row(word, check.goal, check.case, measured, f"{check.wanted:.2f}", check.remark)
    if table.row_count:
        console.print(table)


if __name__ == "__main__":
    sys.exit(main())
