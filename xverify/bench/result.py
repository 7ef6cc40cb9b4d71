"""Measurements of a bench, and their JSON form, schema ``xverify.bench/1``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from xverify.bench.cases import Case
from xverify.bench.problem import Peer

SCHEMA = "xverify.bench/1"


@dataclass
class Timed:
    """One way of one peer in one case."""

    way: str
    peak_bytes: int | None
    """Bytes of memory that a call takes; None where the platform does not report it."""
    other_bits: int | None
    """The number of values whose bits differ from the in-house kernel's; None for the limit."""
    seconds: dict[int, float] = field(default_factory=dict)
    """Seconds of a call, by round."""
    allocates: bool = False
    """True if each call allocates its output."""
    mistake: str | None = None
    """A sentence on a value that is not legal, of a kernel of the user; "" if all are; None if nobody judged."""

    @property
    def median(self) -> float:
        return median(self.seconds.values()) if self.seconds else math.inf


@dataclass
class Line:
    """One peer in one case."""

    peer: Peer
    ways: list[Timed] = field(default_factory=list)
    reason: str = ""
    """Why it was not measured, or only in part; "" if it was measured."""
    lost: bool = False
    """True if its process died or hung. Otherwise a line with a reason lacks the operation, or refused it."""

    @property
    def best(self) -> Timed | None:
        """The fastest way; None where nothing was measured."""
        measured = [way for way in self.ways if way.seconds]
        return min(measured, key=lambda way: way.median) if measured else None


@dataclass
class Measured:
    """A case and its lines."""

    case: Case
    lines: list[Line]
    reason: str = ""
    """Why nothing was measured; "" if something was."""

    def line(self, name: str) -> Line | None:
        return next((line for line in self.lines if line.peer.name == name), None)

    def fastest(self, role: str) -> Line | None:
        """The line of this role with the lowest median.

        Lines with the right bits come first: another computation does not show how fast this one can be.
        """
        measured = [
            (bool(line.best.other_bits), line.best.median, i)
            for i, line in enumerate(self.lines)
            if line.peer.role == role and line.best
        ]
        return self.lines[min(measured)[2]] if measured else None


def speed_ratio(line: Line, other: Line | None) -> float | None:
    """The speed of a line relative to another: the median of the ratios of each round.

    What slows a round down slows both. None where the two have no round in common.
    """
    mine, theirs = line.best, other.best if other else None
    if mine is None or theirs is None:
        return None
    ratios = [theirs.seconds[i] / mine.seconds[i] for i in mine.seconds.keys() & theirs.seconds.keys()]
    return median(ratios) if ratios else None


def ratio_of_medians(line: Line, other: Line | None) -> float | None:
    """The speed of a line relative to another, by the medians of both.

    It is far from `speed_ratio` if the machine was fast in some rounds and slow in others, and one median comes from a fast
    round and the other from a slow one.
    """
    mine, theirs = line.best, other.best if other else None
    return theirs.median / mine.median if mine and theirs else None


def bench_to_json(run: Mapping[str, Any], peers: list[dict[str, Any]], measured: list[Measured]) -> dict[str, Any]:
    """The whole bench as types of JSON."""
    return {"schema": SCHEMA, "run": dict(run), "peers": peers, "cases": [_case(case) for case in measured]}


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
        "allocates_output": best.allocates,
        "mistake": best.mistake,
        "other_ways": {way.way: way.median for way in line.ways if way is not best and way.seconds},
    }


def save(bench: Mapping[str, Any], path: Path) -> None:
    """Write a bench as JSON, which has no NaN and no infinity."""
    path.write_text(json.dumps(bench, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def load(path: Path) -> dict[str, Any]:
    """Read a bench.

    Raises:
        DamagedFileError: The file is no bench. It is a ValueError.
    """
    from xverify.core.codec import read_json
    from xverify.core.errors import DamagedFileError

    bench = read_json(path)
    if not isinstance(bench, dict) or bench.get("schema") != SCHEMA:
        raise DamagedFileError(f"{path} is no {SCHEMA}")
    return bench
