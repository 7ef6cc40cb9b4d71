"""Verdicts: the kinds of findings, and everything that holds for all findings of one kind."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Verdict(StrEnum):
    """The kind of a finding. The members are in the order of severity, the worst first.

    Reports, ledgers and the command line spell a verdict as the member's value.
    """

    severity: int
    """The place in the order of severity: 0 is the worst."""

    urgency: int
    """The place in the order in which witnesses are shrunk: 0 comes first, since the time may end."""

    tone: str
    """The CSS class, and the key of the terminal's styles: "bad", "warn", "open" or "quiet"."""

    is_fault: bool
    """True if an implementation is at fault.

    The others are about a text, about how two versions differ, or about a document that does not judge the implementation.
    """

    noun: str
    """One finding of the kind: "violation"."""

    nouns: str
    """Several findings of the kind: "violations"."""

    # The defaults are for type checkers, which take Verdict("crash") for a call of this function.
    def __new__(
        cls, value: str, urgency: int = 0, tone: str = "", is_fault: bool = False, noun: str = "", nouns: str = ""
    ) -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.severity = len(cls.__members__)
        member.urgency, member.tone, member.is_fault = urgency, tone, is_fault
        member.noun, member.nouns = noun or member.words, nouns or noun or member.words
        return member

    CRASH = "crash", 7, "bad", True, "crash", "crashes"
    HANG = "hang", 8, "bad", True, "hang", "hangs"
    MEMORY = "memory", 10, "bad", True, "memory fault", "memory faults"
    VIOLATION = "violation", 0, "bad", True, "violation", "violations"
    UNREADABLE = "unreadable-result", 2, "bad", True, "unreadable result", "unreadable results"
    NONDETERMINISTIC = "nondeterministic", 11, "bad", True
    WRONGLY_ACCEPTED = "wrongly-accepted", 5, "bad", True
    WRONGLY_REJECTED = "wrongly-rejected", 1, "bad", True
    MIXED = "mixed", 3, "warn", True
    CONFLICT = "conflict", 4, "open", False, "conflict", "conflicts"
    AMBIGUITY = "ambiguity", 9, "open", False, "ambiguity", "ambiguities"
    CHANGED = "changed", 6, "quiet", False, "change", "changes"
    NOT_FOLLOWED = "not-followed", 12, "quiet", False, "document not followed", "documents not followed"

    @property
    def words(self) -> str:
        """The verdict for people: "wrongly accepted"."""
        return self.value.replace("-", " ")

    def counted(self, number: int) -> str:
        """A number of findings of the kind: "2 violations", "1 wrongly accepted"."""
        return f"{number} {self.noun if number == 1 else self.nouns}"

    def fails_gate(self, allow_mixed: bool = False) -> bool:
        """True if a gate fails on a finding of the kind that its ledger does not accept."""
        return self.is_fault and not (allow_mixed and self is Verdict.MIXED)
