"""What a bench measured, and its JSON form, schema ``xverify.bench/1``."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from xverify.bench.cases import Case
from xverify.bench.problem import Peer

SCHEMA = "xverify.bench/1"


@dataclass
class Timed:
    """One way of one peer in one case. seconds: of a call, by round."""

    way: str
    peak_bytes: int | None
    other_bits: int | None
    seconds: dict[int, float] = field(default_factory=dict)

    @property
    def median(self) -> float:
        return median(self.seconds.values()) if self.seconds else math.inf


@dataclass
class Line:
    """One peer in one case. reason: why it was not measured, or not to the end; "" where it was. lost: its process died or hung;
    otherwise it does not have the operation, or refused it."""

    peer: Peer
    ways: list[Timed] = field(default_factory=list)
    reason: str = ""
    lost: bool = False

    @property
    def best(self) -> Timed | None:
        """The fastest way; None where nothing was measured."""
        measured = [way for way in self.ways if way.seconds]
        return min(measured, key=lambda way: way.median) if measured else None


@dataclass
class Measured:
    """A case and its lines. reason: why nothing was measured, "" where it was."""

    case: Case
    lines: list[Line]
    reason: str = ""

    def line(self, name: str) -> Line | None:
        return next((line for line in self.lines if line.peer.name == name), None)

    def fastest(self, role: str) -> Line | None:
        """The line of that role with the lowest median, of those with the right bits where there are any: who computes something
        else does not say how fast this can be done."""
        measured = [
            (bool(line.best.other_bits), line.best.median, i)
            for i, line in enumerate(self.lines)
            if line.peer.role == role and line.best
        ]
        return self.lines[min(measured)[2]] if measured else None


def speed_ratio(line: Line, other: Line | None) -> float | None:
    """How many times as fast a line is as another: the median over the rounds that both have, since what slows one round down
    slows both. None where there is no such round."""
    mine, theirs = line.best, other.best if other else None
    if mine is None or theirs is None:
        return None
    ratios = [theirs.seconds[i] / mine.seconds[i] for i in mine.seconds.keys() & theirs.seconds.keys()]
    return median(ratios) if ratios else None


def ratio_of_medians(line: Line, other: Line | None) -> float | None:
    """How many times as fast by the medians of both alone. It is far from `speed_ratio` where the machine was fast in some rounds
    and slow in others, and the median of one fell among the first and that of the other among the second."""
    mine, theirs = line.best, other.best if other else None
    return theirs.median / mine.median if mine and theirs else None


def bench_to_json(run: Mapping[str, Any], peers: list[dict[str, Any]], measured: list[Measured]) -> dict[str, Any]:
    """The whole as JSON's types."""
    return {"schema": SCHEMA, "run": dict(run), "peers": peers, "cases": [_case(one) for one in measured]}


def _case(measured: Measured) -> dict[str, Any]:
    case = measured.case
    peer, limit = measured.fastest("peer"), measured.fastest("limit")
    return {
        **asdict(case),
        "shape": list(case.shape),
        "axis": case.axis,
        "block_size": case.block_size,
        "bytes_read": case.bytes_read,
        "bytes_written": case.bytes_written,
        "bytes_of_parameters": case.bytes_of_parameters,
        "reason": measured.reason,
        "fastest_peer": peer.peer.name if peer else None,
        "lines": [_line(line, case, peer, limit) for line in measured.lines],
    }


def _line(line: Line, case: Case, peer: Line | None, limit: Line | None) -> dict[str, Any]:
    best = line.best
    status = "measured" if best and not line.reason else "lost" if line.lost else "partial" if best else "missing"
    shown: dict[str, Any] = {"peer": line.peer.name, "role": line.peer.role, "status": status, "reason": line.reason}
    if best is None:
        return shown
    seconds = list(best.seconds.values())
    low, _, high = quantiles(seconds, n=4, method="inclusive") if len(seconds) > 1 else (seconds[0],) * 3
    return {
        **shown,
        "way": best.way,
        "seconds": {"median": best.median, "lower_quartile": low, "upper_quartile": high, "rounds": seconds},
        "elements_per_second": case.elements / best.median,
        "ratio_to_fastest_peer": speed_ratio(line, peer),
        "part_of_limit": speed_ratio(line, limit),
        "medians_to_fastest_peer": ratio_of_medians(line, peer),
        "medians_to_limit": ratio_of_medians(line, limit),
        "peak_bytes": best.peak_bytes,
        "other_bits": best.other_bits,
        "other_ways": {way.way: way.median for way in line.ways if way is not best and way.seconds},
    }


def save(bench: Mapping[str, Any], path: Path) -> None:
    """Write it as JSON (which has no NaN and no infinity)."""
    path.write_text(json.dumps(bench, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def load(path: Path) -> dict[str, Any]:
    """Read it again. DamagedFileError, a ValueError, when it is no bench."""
    from xverify.core.codec import read_json
    from xverify.core.errors import DamagedFileError

    bench = read_json(path)
    if not isinstance(bench, dict) or bench.get("schema") != SCHEMA:
        raise DamagedFileError(f"{path} is no {SCHEMA}")
    return bench


def measured_lines(case: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The lines of a case in the JSON that have a time."""
    return (line for line in case["lines"] if "seconds" in line)
