"""The committed explanations: mutants that nothing can stop, since they change nothing that is specified."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutation.mutants import Mutant

FIELDS = ("file", "function", "operator", "before", "after")
FILE = Path(__file__).with_name("equivalent.toml")


@dataclass(frozen=True)
class Explanation:
    """Why the mutant of that content is equivalent. number: which of several that are equal in all else."""

    file: str
    function: str
    operator: str
    before: str
    after: str
    reason: str
    number: int = 0

    @property
    def identity(self) -> tuple[str, str, str, str, str, int]:
        return (self.file, self.function, self.operator, self.before, self.after, self.number)


def read(path: Path = FILE) -> list[Explanation]:
    """The explanations of a file; an entry whose ``after`` is a list is one for each. Raises TypeError where an entry lacks
    a field or has another."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("equivalent", [])
    return [Explanation(**one) for entry in entries for one in _apart(entry)]


def _apart(entry: dict[str, Any]) -> list[dict[str, Any]]:
    after = entry.get("after")
    return [entry | {"after": one} for one in after] if isinstance(after, list) else [entry]


def entry(mutant: Mutant, reason: str = "") -> str:
    """The mutant as an entry of the file."""
    fields = {**dict(zip(FIELDS, mutant.identity[:5], strict=True)), "reason": reason}
    lines = [f"{name} = {_quoted(value)}" for name, value in fields.items()]
    return "\n".join(["[[equivalent]]", *lines, *([f"number = {mutant.number}"] if mutant.number else []), ""])


def _quoted(text: str) -> str:
    if "'" not in text:
        return f"'{text}'"
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def matched(
    explanations: Iterable[Explanation], mutants: Iterable[Mutant]
) -> tuple[dict[Mutant, Explanation], list[Explanation]]:
    """The explanation of each mutant that has one, and the explanations of mutants that are no more."""
    by_identity = {mutant.identity: mutant for mutant in mutants}
    found, stale = {}, []
    for explanation in explanations:
        if explanation.identity in by_identity:
            found[by_identity[explanation.identity]] = explanation
        else:
            stale.append(explanation)
    return found, stale
