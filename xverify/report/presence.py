"""The presence of causes over versions and runs, as the formats show it.

`xverify.history` works it out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class State(StrEnum):
    """The presence of a cause in a version or in a run."""

    mark: str
    """The sign in a strip of text."""

    tone: str
    """The tone of `xverify.core.verdict.Verdict.tone`."""

    def __new__(cls, value: str, mark: str = "", tone: str = "") -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.mark, member.tone = mark, tone
        return member

    PRESENT = "present", "#", "bad"
    ABSENT = "absent", ".", "good"
    UNKNOWN = "unknown", "?", "quiet"


LEGEND = ", ".join(f"{state.mark} {state.value}" for state in State)
"""The signs of a strip of text."""


@dataclass(frozen=True)
class Square:
    """A cause in one version, or in one run."""

    label: str
    """The version, or the id of the run."""
    state: State
    calls: int
    """Number of calls that show the cause."""
    tested: int
    """Number of calls in the cells of the cause."""

    @property
    def words(self) -> str:
        """The square in words: "1.26.0: present, 9 of 412 calls in its cells"."""
        if not self.tested:
            return f"{self.label}: {self.state}"
        return f"{self.label}: {self.state}, {self.calls} of {self.tested} calls in its cells"


@dataclass(frozen=True)
class Strip:
    """A cause over the versions of an implementation, the oldest first, or over runs."""

    name: str
    """The implementation, or "runs"."""
    squares: tuple[Square, ...]

    @property
    def marks(self) -> str:
        """The strip in text, one sign for each square."""
        return "".join(square.state.mark for square in self.squares)

    @property
    def since(self) -> str:
        """The time of the last change in words; empty if the cause is present in no square."""
        states = [square for square in self.squares if square.state is not State.UNKNOWN]
        if all(square.state is State.ABSENT for square in states):
            return ""  # also without states
        last = len(states) - 1
        while last and states[last - 1].state is states[-1].state:
            last -= 1
        if states[-1].state is State.ABSENT:
            return f"gone since {states[last].label}"
        return f"since {states[last].label}" if last else f"since {states[0].label} or before"


@dataclass(frozen=True)
class Change:
    """A cause that differs between a run and the runs before it."""

    cause: str
    """Id of the cause."""
    sentence: str
    severity: str
    """Severity where the cause was seen last."""
    before: str
    """Severity before, if it changed; else empty."""
    line: str
    """A call that shows the cause, as a line; empty if no line can hold it."""
    processor: str
    """Processor of the run that showed the cause."""


@dataclass(frozen=True)
class Difference:
    """A run compared with the runs before it."""

    run: str
    """Id of the run."""
    since: str
    """Id of the last run before it."""
    new: tuple[Change, ...]
    """Causes that the runs before would have shown."""
    unseen: tuple[Change, ...]
    """Causes that no run before showed, and that too few of their calls could have shown."""
    gone: tuple[Change, ...]
    """Causes that the run would have shown."""
    uncovered: tuple[Change, ...]
    """Causes of implementations that the run has, for which it made too few calls."""
    changed: tuple[Change, ...]
    """Causes of another severity."""
    same: int
    """Number of causes that did not change."""
    left_out: int
    """Number of causes of the runs before whose implementations or documents the run does not have."""

    def parts(self) -> Iterator[tuple[str, tuple[Change, ...]]]:
        """Yield the parts that are not empty, with their headings."""
        headings = {
            f"new since {self.since}": self.new,
            f"first seen; unknown in {self.since}, which made too few such calls": self.unseen,
            "changed in severity": self.changed,
            "gone": self.gone,
            f"unknown in {self.run}, which made too few such calls": self.uncovered,
        }
        yield from ((heading, changes) for heading, changes in headings.items() if changes)

    @property
    def has_new(self) -> bool:
        """True if the run shows a cause that no run before it showed, or that was absent in between."""
        return bool(self.new or self.unseen)
