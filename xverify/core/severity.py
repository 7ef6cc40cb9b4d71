"""Severities: the effect of a cause on the users of an implementation, the worst first."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Severity(StrEnum):
    """The effect of a cause. The members are in order, the worst first.

    Reports spell a severity as the member's value.
    """

    rank: int
    """The place in the order: 0 is the worst."""

    words: str
    """The effect for people."""

    tone: str
    """The tone of `xverify.core.verdict.Verdict.tone`."""

    def __new__(cls, value: str, words: str = "", tone: str = "") -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.rank = len(cls.__members__)
        member.words, member.tone = words, tone
        return member

    ENDS_PROCESS = "ends-process", "ends the process or writes memory on an allowed call", "bad"
    WRONG = "wrong", "wrong by a factor of two or more", "bad"
    LAST_PLACES = "last-places", "wrong by less than a factor of two", "warn"
    REFUSES = "refuses", "refuses allowed calls", "warn"
    OPEN = "open", "affects only what the text leaves open", "open"
    NO_VALIDATION = "no-validation", "computes what the text forbids", "quiet"
