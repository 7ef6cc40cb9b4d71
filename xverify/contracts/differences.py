"""The differences between the texts of two editions, sentence by sentence."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from xverify.contracts.model import Contract, Wording


@dataclass(frozen=True)
class Change:
    """One part of the text that differs."""

    title: str
    """The part, such as "summary" or "types of x"."""
    lines: tuple[tuple[str, str], ...]
    """Sentences or lists of names, each after "-" for the first edition, or "+" for the second."""


def changes(first: Contract, second: Contract) -> tuple[Change, ...]:
    """The parts in which two editions differ: lists of types and attributes, then sentences.

    Editions that have their whole text are compared by it. Others are compared by their clauses.
    """
    if first.wording is not None and second.wording is not None:
        old, new = first.wording(), second.wording()
    else:
        old, new = _of_clauses(first), _of_clauses(second)
    by_names: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for title in dict.fromkeys((*old.lists, *new.lists)):
        by_names.setdefault(_names(old.lists.get(title, ()), new.lists.get(title, ())), []).append(title)
    changed = [Change(", ".join(titles), names) for names, titles in by_names.items()]
    changed += [
        Change(title, _sentences(old.sentences.get(title, ()), new.sentences.get(title, ())))
        for title in dict.fromkeys((*old.sentences, *new.sentences))
    ]
    silent = _silent(first), _silent(second)
    changed.append(Change("subjects on which the text is silent", _sentences(*silent)))
    return tuple(change for change in changed if change.lines)


def in_lines(first: Contract, second: Contract, width: int = 80) -> list[str]:
    """The differences between two editions as lines of plain text."""
    listed = changes(first, second)
    if not listed:
        return textwrap.wrap(f"{first.id} and {second.id} have the same text.", width)
    lines = [f"- {first.id}", f"+ {second.id}"]
    for change in listed:
        lines += ["", change.title]
        for sign, text in change.lines:
            lines += textwrap.wrap(
                text, width, initial_indent=f"  {sign} ", subsequent_indent="    ", break_on_hyphens=False
            )
    return lines


def _of_clauses(contract: Contract) -> Wording:
    domain = contract.domain
    lists = {
        "types of x": domain.x_dtypes,
        "types of scale": domain.scale_dtypes,
        "types of output": domain.output_dtypes,
        "granularities": domain.granularities,
        "attributes": domain.attributes,
        "modes": domain.modes,
    }
    clauses = contract.clauses.values()
    return Wording(lists, {_name(clause.id): (clause.text,) for clause in clauses if clause.text})


def _silent(contract: Contract) -> tuple[str, ...]:
    return tuple(f"{_name(clause.id)}: {clause.note}" for clause in contract.clauses.values() if not clause.text)


def _name(clause: str) -> str:
    return clause.rpartition("/")[2]


def _names(old: Sequence[str], new: Sequence[str]) -> tuple[tuple[str, str], ...]:
    gone = ", ".join(name for name in old if name not in new)
    added = ", ".join(name for name in new if name not in old)
    return tuple((sign, listed) for sign, listed in (("-", gone), ("+", added)) if listed)


def _sentences(old: Sequence[str], new: Sequence[str]) -> tuple[tuple[str, str], ...]:
    lines: list[tuple[str, str]] = []
    for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            lines += [*(("-", text) for text in old[a:b]), *(("+", text) for text in new[c:d])]
    return tuple(lines)
