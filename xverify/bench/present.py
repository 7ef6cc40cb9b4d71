"""Texts of a bench's table and page, made from its JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xverify.bench.cases import size_in_words, types_in_words

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Group:
    """The cases of one pair of types and one granularity, sorted by size."""

    x: str
    """The type of x as people read it, such as "packed int4"."""
    out_dtype: str
    granularity: str
    cases: tuple[Json, ...]
    absent: frozenset[str]
    """Names of the peers that cannot run on this machine."""

    @property
    def title(self) -> str:
        return f"{self.x} to {self.out_dtype}, {in_words(self.granularity)}"

    @property
    def measured(self) -> tuple[Json, ...]:
        return tuple(case for case in self.cases if case["lines"])

    @property
    def peers(self) -> tuple[str, ...]:
        """The peers that were measured at one size or more, in the bench's order."""
        names = dict.fromkeys(line["peer"] for case in self.cases for line in case["lines"])
        return tuple(name for name in names if any(_timed(line_of(case, name)) for case in self.cases))


_WORDS = {
    "per-tensor": "one scale",
    "per-axis": "a scale for each row",
    "per-axis-last": "a scale for each column",
    "blocked": "blocks of 32 in a row",
    "blocked-first": "blocks of 32 in a column",
}


def in_words(granularity: str) -> str:
    """A granularity with its explanation: "per-axis (a scale for each row)"."""
    return f"{granularity} ({_WORDS[granularity]})" if granularity in _WORDS else granularity


def groups(bench: Json) -> tuple[Group, ...]:
    """The groups of all cases except those of one element."""
    absent = frozenset(peer["name"] for peer in bench["peers"] if peer["reason"] and not peer["lost"])
    by_kind: dict[tuple[str, str, str], list[Json]] = {}
    for case in bench["cases"]:
        if case["elements"] > 1:
            by_kind.setdefault((x_in_words(case), case["out_dtype"], case["granularity"]), []).append(case)
    return tuple(
        Group(*key, tuple(sorted(cases, key=lambda case: int(case["elements"]))), absent)
        for key, cases in by_kind.items()
    )


def x_in_words(case: Json) -> str:
    """The type of x as people read it, such as "packed int4"."""
    return types_in_words(case["x_dtype"], case.get("packed", False))


def single_calls(bench: Json) -> tuple[Json, ...]:
    """The cases of one element, which show the cost of a call."""
    return tuple(case for case in bench["cases"] if case["elements"] == 1 and case["lines"])


def line_of(case: Json, peer: str) -> Json | None:
    """A peer's line in a case, or None."""
    return next((line for line in case["lines"] if line["peer"] == peer), None)


def giga(line: Json | None) -> float | None:
    """10^9 elements per second; None where nothing was measured."""
    return line["elements_per_second"] / 1e9 if line is not None and _timed(line) else None


def speed(line: Json) -> str:
    """The speed of `giga` as text with three digits."""
    value = giga(line)
    return "" if value is None else f"{value:.0f}" if value >= 99.5 else f"{value:#.3g}"


def mark(line: Json) -> str:
    """The mark on a speed: " wrong" for a kernel with an illegal value, "*" for other bits."""
    return " wrong" if line.get("mistake") else "*" if line.get("other_bits") else ""


def allocates(group: Group, peer: str) -> bool:
    """True if each call of the peer allocates its output."""
    lines = [line_of(case, peer) for case in group.measured]
    return any(line is not None and line.get("allocates_output") for line in lines)


def fastest(bench: Json) -> str:
    """A sentence on the fastest implementation: where, and by how much.

    It is "" if fewer than two were measured. It leaves out cases of one element, the limit, and implementations with other bits.
    A kernel of the user counts if its other bits are legal.
    """
    won: dict[str, list[tuple[float, str, Json]]] = {}
    for case in bench["cases"]:
        lines = sorted((line for line in case["lines"] if _counts(line)), key=_seconds)
        if case["elements"] > 1 and len(lines) > 1:
            by = _seconds(lines[1]) / _seconds(lines[0])
            won.setdefault(lines[0]["peer"], []).append((by, lines[1]["peer"], case))
    if not won:
        return ""
    count = sum(map(len, won.values()))
    name = max(won, key=lambda peer: len(won[peer]))
    by, second, case = max(won[name], key=lambda entry: entry[0])
    where = (
        f"{x_in_words(case)} to {case['out_dtype']}, {case['granularity']}, {size_in_words(case['elements'])} elements"
    )
    if count == 1:
        return f"{name} is the fastest: {by:.2f} times as fast as {second} ({where})."
    least = min(entry[0] for entry in won[name])
    factor = f"{by:.2f}" if f"{least:.2f}" == f"{by:.2f}" else f"{least:.2f} to {by:.2f}"
    cases = f"all {count} cases" if len(won) == 1 else f"{len(won[name])} of {count} cases"
    most = f", most for {where}" if len(won[name]) > 1 else f" ({where})"
    others = "; ".join(f"{peer} is in {len(each)}" for peer, each in won.items() if peer != name)
    return (
        f"{name} is the fastest in {cases}, {factor} times as fast as the next{most}{'; ' if others else ''}{others}."
    )


def _counts(line: Json) -> bool:
    is_right = not line.get("other_bits") or line.get("mistake") == ""
    return line["role"] != "limit" and _timed(line) and is_right


def _seconds(line: Json) -> float:
    return float(line["seconds"]["median"])


def microseconds(line: Json) -> str:
    value = line["seconds"]["median"] * 1e6
    return f"{value:.0f}" if value >= 99.5 else f"{value:.2f}"


def ratio(line: Json) -> str:
    """The speed relative to the fastest peer, such as "1.41×"; "~" marks an unsteady ratio."""
    value = line["ratio_to_fastest_peer"]
    return "" if value is None else f"{value:.2f}×{'~' if is_unsteady(value, line['medians_to_fastest_peer']) else ''}"


def part(line: Json) -> str:
    """The speed relative to the limit, such as "92 %"; "~" marks an unsteady ratio."""
    value = line["part_of_limit"]
    return "" if value is None else f"{100 * value:.0f} %{'~' if is_unsteady(value, line['medians_to_limit']) else ''}"


_UNSTEADY = 0.1
"""The relative difference between the two kinds of ratio above which both are shown."""


def is_unsteady(by_rounds: float | None, by_medians: float | None) -> bool:
    """True if the ratio by rounds and the ratio of the medians differ by more than `_UNSTEADY`."""
    return by_rounds is not None and by_medians is not None and abs(by_medians - by_rounds) > _UNSTEADY * by_rounds


_NOTICED, _LITTLE = 1 << 18, "< 0.25 MiB"


def mebibytes(count: int | None) -> str:
    """Memory as text. Less than a quarter of a MiB is within the error of Linux's count."""
    if count is None:
        return "not known"
    return _LITTLE if count < _NOTICED else f"{count / (1 << 20):.1f} MiB"


def sizes(elements: int) -> str:
    return size_in_words(elements)


def notes(group: Group) -> list[str]:
    """Sentences below a group's table.

    They name the loop that was the limit, peers with other bits, peers that failed, and sizes that were left out.
    """
    limits: dict[str, list[str]] = {}
    others: dict[str, float] = {}
    gone: dict[str, list[str]] = {}
    wrong: dict[str, str] = {}
    legal: dict[str, None] = {}
    for case in group.cases:
        size = size_in_words(case["elements"])
        if case["reason"]:
            gone.setdefault(f"not measured, since {case['reason']}", []).append(size)
        for line in case["lines"]:
            if line["reason"] and line["peer"] not in group.absent:
                gone.setdefault(_absence(line), []).append(size)
            if line.get("mistake"):
                share = 100 * line["other_bits"] / case["elements"]
                wrong.setdefault(line["peer"], f"on up to {share:.3g} % of the values: {line['mistake']}")
            elif line.get("other_bits"):
                share = 100 * line["other_bits"] / case["elements"]
                others[line["peer"]] = max(share, others.get(line["peer"], 0.0))
                if line.get("mistake") == "":
                    legal[line["peer"]] = None
            if line["role"] == "limit" and _timed(line):
                limits.setdefault(line["way"], []).append(size)
    winners = "; ".join(f"{way} ({', '.join(where)})" for way, where in limits.items())
    return [
        *([f"The limit: {winners}."] if winners else []),
        *_memory(group),
        *_unsteady(group),
        *(f"{name} is wrong {sentence}." for name, sentence in wrong.items()),
        *(
            f"{name} computes other bits than the in-house kernel (*), on up to {share:.3g} % of the values"
            f"{', and each that was checked is legal' if name in legal else ''}."
            for name, share in others.items()
        ),
        *(
            why + "." if len(where) == len(group.measured) else f"{', '.join(where)}: {why}."
            for why, where in gone.items()
        ),
    ]


def _memory(group: Group) -> list[str]:
    """One sentence on the memory that each peer takes beside operands and output, at the largest size."""
    if not group.measured:
        return []
    case = group.measured[-1]
    taken = {line["peer"]: line["peak_bytes"] for line in case["lines"] if _timed(line) and line["role"] != "limit"}
    if not taken or None in taken.values():
        return []
    much = [f"{name} {mebibytes(count)}" for name, count in taken.items() if count >= _NOTICED]
    rest = [] if len(much) == len(taken) else [f"each {'of the others ' if much else ''}{_LITTLE}"]
    listed = ", ".join([*much, *rest])
    return [f"Memory beside operands and output, at {size_in_words(case['elements'])}: {listed}."]


def _unsteady(group: Group) -> list[str]:
    """The kernels' ratios by medians, where they differ from the ratios by rounds."""
    unsteady = []
    for case in group.measured:
        for line in case["lines"]:
            if line["role"] == "kernel" and _timed(line):
                of_peer, of_limit = line["medians_to_fastest_peer"], line["medians_to_limit"]
                ratios = [f"{of_peer:.2f}×"] if is_unsteady(line["ratio_to_fastest_peer"], of_peer) else []
                ratios += [f"{100 * of_limit:.0f} %"] if is_unsteady(line["part_of_limit"], of_limit) else []
                unsteady += (
                    [f"{line['peer']} at {size_in_words(case['elements'])} {' '.join(ratios)}"] if ratios else []
                )
    if not unsteady:
        return []
    return [f"The machine was of different speed in different rounds (~); by the medians alone: {'; '.join(unsteady)}."]


def _absence(line: Json) -> str:
    if line["status"] == "missing":
        return f"{line['peer']} is not shown: {line['reason']}"
    return f"{line['peer']} was lost: {line['reason']}"


def _timed(line: Json | None) -> bool:
    return line is not None and "seconds" in line


def head(bench: Json) -> list[tuple[str, str]]:
    """Names and values of the table at the top: machine, run, versions."""
    run, machine = bench["run"], bench["run"]["machine"]
    cache, memory = machine["last_level_cache"], machine["memory"]
    return [
        ("Processor", f"{machine['processor']}, {machine['cores']} cores, {machine['architecture']}"),
        ("Last-level cache", f"{cache >> 20} MiB" if cache else "not known"),
        ("Memory", f"{memory / (1 << 30):.0f} GiB" if memory else "not known"),
        ("Threads", str(run["threads"])),
        ("Started", run["started"]),
        ("Took", f"{run['seconds']:.0f} s of {run['budget']:g} s"),
        ("Versions", ", ".join(f"{name} {version}" for name, version in run["versions"].items())),
    ]


def peer_in_words(peer: Json) -> str:
    """The version of a peer, or why it was not measured."""
    if peer["reason"]:
        return str(peer["reason"])
    return f"{peer['distribution']} {peer['version']}".strip()
