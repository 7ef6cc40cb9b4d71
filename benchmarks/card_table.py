"""Print what `on_a_card.sh` measured beside the goals (issue 52), as a table in Markdown.

    python benchmarks/card_table.py FOLDER

A step that is missing, failed or ran past its limit is "not measured". A peer with other bits than NumPy's is named, and does
not count.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from xverify.bench.cases import size_in_words, types_in_words
from xverify.core.call import BITS

LARGE, MEDIUM = 1 << 28, 1 << 20
"""Elements of a case whose bandwidth counts, and of one that is compared with `PEER` only."""

PEER = "torch.compile"

PACKED_SHARE, NARROW_SHARE, WIDE_SHARE = 0.9, 0.95, 0.9
"""Goals for the share of the copy's bandwidth: packed types of 4 and 2 bits, other types of 8 bits or fewer, wider types."""

HOST_US, FIRST_CALL, GATES, CERTIFICATE = 8.0, 0.3, 180.0, 30.0
"""Goals in microseconds, and in seconds."""


@dataclass(frozen=True)
class Row:
    """A figure beside its goal."""

    measure: str
    measured: str
    goal: str
    is_reached: bool | None
    """None if it was not measured."""

    def __str__(self) -> str:
        verdict = {True: "reached", False: "MISSED", None: "not measured"}[self.is_reached]
        return f"| {self.measure} | {self.measured} | {self.goal} | {verdict} |"


class Step(NamedTuple):
    """A step of the script."""

    code: int
    seconds: float
    limit: int

    @property
    def failure(self) -> str:
        """Why the step gives no figure; "" if it passed."""
        if self.code in (124, 137):
            return f"stopped after {self.limit} s"
        return f"exit code {self.code}" if self.code else ""


def steps_of(folder: Path) -> dict[str, Step]:
    """The steps by name."""
    try:
        lines = (folder / "steps.tsv").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    parts = (line.split("\t") for line in lines)
    return {name: Step(int(code), float(seconds), int(limit)) for name, code, seconds, limit in parts}


def rows(folder: Path) -> Iterator[Row]:
    """All rows: the checks, then each case of the bench."""
    steps = steps_of(folder)
    yield _tests(folder, steps)
    yield _gates(folder, steps)
    for tool in ("memcheck", "initcheck"):
        yield _sanitizer(folder, tool, steps)
    yield _certificate(steps)
    reason = steps["bench"].failure if "bench" in steps else ""
    try:
        report = json.loads((folder / "bench.json").read_text(encoding="utf-8"))
        figures, left_out = report["figures"], report["left_out"]
    except (OSError, ValueError, KeyError):
        figures, left_out = [], []
    if not figures:
        yield Row("bench", reason or "no figures", "figures", None)
        return
    yield from _bench(figures)
    if left_out or reason.startswith("stopped"):
        text = "; ".join(filter(None, [reason, f"{len(left_out)} named in bench.json" if left_out else ""]))
        yield Row("other cases of the bench", text, "figures", None)


def _missing(measure: str, step: Step | None, goal: str, otherwise: str = "") -> Row:
    """A row without a figure. otherwise: the reason if the step passed."""
    return Row(measure, "did not run" if step is None else step.failure or otherwise, goal, None)


def _tests(folder: Path, steps: dict[str, Step]) -> Row:
    measure, goal, step = "tests with the real CuPy", "all pass", steps.get("tests")
    if step is None or step.code not in (0, 1):
        return _missing(measure, step, goal)
    lines = (folder / "tests.log").read_text(encoding="utf-8", errors="replace").splitlines()
    return Row(measure, lines[-1].strip("= ") if lines else "", goal, step.code == 0)


def _gates(folder: Path, steps: dict[str, Step]) -> Row:
    measure, goal = "gates of the whole domain", f"all pass, at most {GATES:g} s"
    gates = {name: step for name, step in steps.items() if name.startswith("gate-")}
    try:
        seconds = float((folder / "gates.seconds").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return Row(measure, "did not end", goal, None)
    if not gates:
        return Row(measure, "did not run", goal, None)
    failed = [f"{name}: {step.failure}" for name, step in gates.items() if step.code]
    text = f"{len(gates) - len(failed)} of {len(gates)} pass, {seconds:g} s"
    return Row(measure, "; ".join([text, *failed]), goal, not failed and seconds <= GATES)


def _sanitizer(folder: Path, tool: str, steps: dict[str, Step]) -> Row:
    measure, goal, step = f"{tool} of a short gate", "0 errors, and the gate passes", steps.get(tool)
    counts = [
        int(count)
        for file in folder.glob(f"{tool}-*.txt")
        for count in re.findall(r"ERROR SUMMARY: (\d+) error", file.read_text(encoding="utf-8", errors="replace"))
    ]
    if step is None or not counts:
        return _missing(measure, step, goal, "the tool wrote no summary")
    text = "; ".join(filter(None, [f"{sum(counts)} errors in {len(counts)} processes", step.failure]))
    return Row(measure, text, goal, not sum(counts) and step.code == 0)


def _certificate(steps: dict[str, Step]) -> Row:
    measure, goal = "certificate int8 by float16", f"proven, at most {CERTIFICATE:g} s"
    step = steps.get("certificate")
    if step is None or step.code not in (0, 1):
        return _missing(measure, step, goal)
    words = "proven" if step.code == 0 else "a counterexample"
    return Row(measure, f"{words}, {step.seconds:g} s", goal, step.code == 0 and step.seconds <= CERTIFICATE)


def _bench(figures: list[dict[str, Any]]) -> Iterator[Row]:
    wrong = [name_of(figure) for figure in figures if not figure["right"]]
    yield Row(
        "bits of the bench's cases", f"{len(figures) - len(wrong)} of {len(figures)} equal", "all equal", not wrong
    )
    first = max(figures, key=lambda figure: figure["first_call_s"])
    yield Row(
        f"slowest first call ({name_of(first)})",
        f"{first['first_call_s']:.2f} s",
        f"at most {FIRST_CALL:g} s",
        first["first_call_s"] <= FIRST_CALL,
    )
    for figure in figures:
        if "host_us" in figure:
            microseconds = figure["host_us"]
            yield Row(
                f"host time, {name_of(figure)}",
                f"{microseconds:.1f} us",
                f"at most {HOST_US:g} us",
                microseconds <= HOST_US,
            )
            continue
        if figure["elements"] == LARGE:
            share, goal = figure["per_cent"] / 100, share_goal(figure)
            yield Row(name_of(figure), f"{share:.3f} of copy", f"at least {goal:.2f}", share >= goal)
        if figure["elements"] == MEDIUM or (figure["elements"] == LARGE and _counts_peer(figure)):
            yield _beside(figure)


def share_goal(figure: dict[str, Any]) -> float:
    """The goal for a case's share of the copy's bandwidth."""
    if BITS[figure["x"]] > 8:
        return WIDE_SHARE
    return PACKED_SHARE if figure["packed"] and BITS[figure["x"]] in (2, 4) else NARROW_SHARE


def _counts_peer(figure: dict[str, Any]) -> bool:
    """True if the issue compares the case with `PEER` at `LARGE` elements."""
    return BITS[figure["x"]] <= 8 and not figure["packed"]


def _beside(figure: dict[str, Any]) -> Row:
    measure, goal = f"{name_of(figure)}, beside {PEER}", "at least 1.00"
    peer = figure["peers"].get(PEER, {"reason": "not installed"})
    if "ratio" not in peer:
        return Row(measure, peer["reason"], goal, None)
    if not peer["right"]:
        return Row(measure, f"{peer['ratio']:.2f}, with other bits", goal, None)
    return Row(measure, f"{peer['ratio']:.2f}", goal, peer["ratio"] >= 1)


def name_of(figure: dict[str, Any]) -> str:
    """A case in words."""
    types = f"{types_in_words(figure['x'], figure['packed'])} to {figure['mode'] or figure['out']}"
    return f"{types}, {figure['granularity']}, {size_in_words(figure['elements'])}"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder that on_a_card.sh wrote")
    folder = parser.parse_args(argv).folder
    if not folder.is_dir():
        parser.error(f"{folder} is no folder; name the one that on_a_card.sh wrote")
    print("| measure | measured | goal | |\n|---|---|---|---|")
    for row in rows(folder):
        print(row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
