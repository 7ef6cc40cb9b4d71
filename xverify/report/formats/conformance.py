"""The support of each edition by each implementation: fully, partly (how much), or not at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xverify.report import summary
from xverify.report.formats.findings import editions_in_words, shortened
from xverify.report.formats.markdown import code, row, text
from xverify.report.gaps import Gap, gaps
from xverify.report.summary import Json
from xverify.verify.cause_keys import is_in_house
from xverify.verify.messages import normalised

MOST_MESSAGE = 120
"""The largest number of characters of an implementation's message."""

RIGHT = frozenset({"agrees", "not-judged-agrees", "ambiguous", "mixed", "wrongly-accepted"})
"""Statuses of cells whose every allowed call was answered, each value as the edition admits."""

REFUSED = frozenset({"unsupported", "wrongly-rejected"})
"""Statuses of cells of which some allowed calls were refused. No other call differs."""

_CELL = ("x_dtype", "scale_dtype", "zero_point_dtype", "out_dtype", "granularity", "variant")

_LEGEND = (
    "A combination is one choice of the types of x, scale, zero point and output, of the granularity and of the mode.",
    "**Fully** means that every allowed call was answered, in every combination that the edition has, and each value is one",
    "that its text admits. A percentage says how many combinations are so; then come those that are refused, in part or",
    "entirely, and those in which an answer differs or the process ends. Calls that a text forbids or leaves open do not count.",
)


@dataclass(frozen=True)
class Support:
    """The combinations of one edition by what one implementation makes of them."""

    right: tuple[Json, ...]
    refused: tuple[Json, ...]
    """Some calls are refused, and nothing else is wrong."""
    differing: tuple[Json, ...]
    """Some values differ, or the process ends."""

    @property
    def total(self) -> int:
        return len(self.right) + len(self.refused) + len(self.differing)

    @property
    def is_full(self) -> bool:
        return len(self.right) == self.total

    @property
    def is_none(self) -> bool:
        return not self.right and not self.differing and all(cell["status"] == "unsupported" for cell in self.refused)

    @property
    def words(self) -> str:
        """ "fully", "no", or the shares: "83 % (refuses 10 %, differs in 7 %)"."""
        if self.is_full:
            return "fully"
        if self.is_none:
            return "no"
        shares = [("refuses", len(self.refused)), ("differs in", len(self.differing))]
        parts = [f"{does} {_percent(count, self.total)}" for does, count in shares if count]
        return f"{_percent(len(self.right), self.total)} ({', '.join(parts)})"


def render(report: Json) -> str:
    """Return a table for each operator, editions down and implementations across, and the gaps."""
    run = report["run"]
    lines = ["# Support of each edition by each implementation", "", *_LEGEND, ""]
    lines += [f"Run: seed {run['seed']}, {text(run['started'][:10])}: {code(run['command'])}", ""]
    table = supports(report)
    names = list(dict.fromkeys(summary.base(subject) for subject in summary.subjects(report)))
    releases = {worker["name"]: str(worker.get("release") or worker["version"]) for worker in run["workers"]}
    for operator, contracts in summary.operators(report).items():
        present = [name for name in names if any((contract, name) in table for contract in contracts)]
        if not present:
            continue
        lines += [f"## {text(operator)}", "", row(["edition", *(_headed(name, releases) for name in present)])]
        lines.append("|" + " --- |" * (len(present) + 1))
        for contract in contracts:
            entries = [table.get((contract, name)) for name in present]
            words = ["" if entry is None else text(entry.words) for entry in entries]
            lines.append(row([code(contract), *words], escape=False))
        lines.append("")
    lines += _gaps(report)
    return "\n".join(lines).rstrip("\n") + "\n"


def supports(report: Json) -> dict[tuple[str, str], Support]:
    """Return the support of each edition by each implementation that was asked, over all its paths."""
    rows: dict[tuple[str, str], dict[tuple[str, ...], list[Json]]] = defaultdict(lambda: defaultdict(list))
    left_open: set[tuple[str, ...]] = set()
    in_house = {worker["name"] for worker in report["run"]["workers"] if is_in_house(worker)}
    for cell in report["coverage"]["cells"]:
        combination = tuple(cell[name] for name in _CELL)
        if cell["status"] != "unspecified":
            rows[cell["contract"], summary.base(cell["subject"])][combination].append(cell)
        elif cell["subject"] in in_house:  # other implementations may end on calls that are left open
            left_open.add((cell["contract"], *combination))
    allowed = {
        key: {combination: cells for combination, cells in listed.items() if (key[0], *combination) not in left_open}
        for key, listed in rows.items()
    }
    return {key: _support(listed.values()) for key, listed in allowed.items() if listed}


def _support(combinations: Iterable[Sequence[Json]]) -> Support:
    worst = [min(paths, key=_rank) for paths in combinations]
    right = tuple(cell for cell in worst if cell["status"] in RIGHT)
    refused = tuple(cell for cell in worst if cell["status"] in REFUSED)
    differing = tuple(cell for cell in worst if cell["status"] not in RIGHT | REFUSED)
    return Support(right, refused, differing)


def _rank(cell: Json) -> int:
    """The place of a path's cell: the worst first.

    A path that answers nothing counts only if no path answers.
    """
    return len(summary.STATUSES) if cell["status"] == "unsupported" else summary.STATUSES.index(cell["status"])


def _headed(name: str, releases: dict[str, str]) -> str:
    """An implementation with its release, unless the name has it."""
    release = releases.get(name, "")
    return name if not release or name.endswith(f"=={release}") else f"{name} ({release})"


def _percent(count: int, total: int) -> str:
    """A share in whole percent. Only none is 0 %, and only all is 100 %."""
    share = 100 * count / total
    return f"{min(99, max(1, round(share))) if 0 < count < total else round(share)} %"


def _gaps(report: Json) -> list[str]:
    """List what is refused: the pattern of types, the editions and the message.

    Refusals that are findings are not repeated.
    """
    alike: dict[tuple[str, ...], list[Gap]] = defaultdict(list)
    for gap in gaps(report):
        does = "answers no call" if gap.whole else "refuses some calls"
        of = f" of {gap.words}" if gap.pattern else ""
        alike[gap.implementation, does + of, gap.error, normalised(gap.message)].append(gap)
    lines = []
    for (name, does, error, _), listed in alike.items():
        where = editions_in_words([gap.edition for gap in listed])
        message = shortened(f"{error}: {listed[0].message}", MOST_MESSAGE)
        lines.append(f"- {text(name)} {text(does)} in {where} ({text(message)})")
    return ["## What is refused", "", *lines, ""] if lines else []
