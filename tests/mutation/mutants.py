"""Generate the mutants of a file, always in the same order.

A mutant's name depends on its change, not on line numbers. A comment marks equivalent changes, on a line of the statement or of
a compound statement's header:

    low = scale * 0  # mutant: equal, because no scale is infinite here
    if a < b:  # mutant: constant, comparison equal, because a is never b

The second form marks only the changes of the named operators.
"""

from __future__ import annotations

import ast
import hashlib
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from mutation.operators import called, changes, is_assertion, names_bound, only_costs_time

BLOCKS = ("body", "orelse", "handlers", "finalbody", "decorator_list")
"""The parts of a compound statement that are not on its first line."""


WORDS = {
    "summary",
    "detail",
    "how",
    "what",
    "size",
    "name",
    "kind",
    "first_line",
    "contradicts",
    "clause",
    "words",
    "by",
}
DESCRIPTIONS = ("Discrepancy", "Key", "Attribution")
"""Variables that hold texts for people, and the types of objects that are made of such texts."""

MARK = re.compile(r"# mutant:\s*(?P<operators>[\w, ]*?)\s*\bequal, because (?P<why>.+)")


@dataclass(frozen=True)
class Mutant:
    """One changed statement."""

    file: str
    """Path relative to the repository."""
    function: str
    """The function or method; "" for the module itself."""
    operator: str
    before: str
    """The statement's first line before the change, as `ast.unparse` writes it."""
    after: str
    """The statement's first line after the change."""
    number: int = 0
    """Index among mutants that are equal in all fields above."""
    line: int = field(default=0, compare=False)
    source: str = field(default="", compare=False, repr=False)
    """The whole changed file."""
    mark: str = field(default="", compare=False)
    """The reason why the change is equivalent, if a comment gives one."""

    @property
    def identity(self) -> tuple[str, str, str, str, str, int]:
        return (self.file, self.function, self.operator, self.before, self.after, self.number)

    @property
    def name(self) -> str:
        """A short name that does not change with the code around the statement."""
        return hashlib.sha256("\n".join(map(str, self.identity)).encode()).hexdigest()[:10]


@dataclass(frozen=True)
class _Place:
    """The position of a node in a syntax tree, with its function and statement.

    It is ``getattr(parent, field)``, or item ``index`` of that list.
    """

    node: ast.AST
    parent: ast.AST
    field: str
    index: int | None
    function: str
    statement: ast.stmt
    bound: Counter[str]

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def unchanged(root: Path, file: str) -> Mutant:
    """Return a file below ``root`` written as its mutants are, but unchanged.

    A question that stops it does not see a mutation.
    """
    parts = [ast.unparse(module) for module in _alone(root, file)]
    return Mutant(file, "", "", "", "", source="\n".join([*parts, ""]))


def _alone(root: Path, file: str) -> list[ast.Module]:
    """Return each statement of a file as a module."""
    return [ast.Module([statement], []) for statement in ast.parse((root / file).read_text(encoding="utf-8")).body]


def mutants_of(root: Path, file: str) -> list[Mutant]:
    """Return all mutants of a Python file below ``root``, in the order of the text."""
    alone, marks = _alone(root, file), marks_of((root / file).read_text(encoding="utf-8"))
    parts = [ast.unparse(module) for module in alone]  # a change needs only its own part written again
    seen = set(enumerate(parts))
    equal: Counter[Mutant] = Counter()
    found = []
    for at, module in enumerate(alone):
        for place in _places(module, "", None, Counter()):
            for operator, node in changes(place.node, place.parent, place.bound):
                before = _header(place.statement)
                place.put(ast.copy_location(node, place.node))
                after = _header(node if place.node is place.statement else place.statement)
                part = ast.unparse(module)
                place.put(place.node)
                if (at, part) in seen:
                    continue
                seen.add((at, part))
                source = "\n".join([*parts[:at], part, *parts[at + 1 :], ""])
                mutant = Mutant(file, place.function, operator, before, after)
                mark = _mark(marks, place.statement, operator)
                line = place.statement.lineno
                found.append(replace(mutant, number=equal[mutant], line=line, source=source, mark=mark))
                equal[mutant] += 1
    return found


def marks_of(text: str) -> dict[int, tuple[frozenset[str], str]]:
    """Return the marks of a source by line: their operators (none for all) and their reason."""
    marks = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        match = MARK.search(token.string) if token.type == tokenize.COMMENT else None
        if match:
            operators = frozenset(re.findall(r"\w+", match["operators"]))
            marks[token.start[0]] = operators, match["why"].strip()
    return marks


def _mark(marks: dict[int, tuple[frozenset[str], str]], statement: ast.stmt, operator: str) -> str:
    """Return the reason that a comment gives for this change of a statement, or ""."""
    body = getattr(statement, "body", None)
    last = max(statement.lineno, body[0].lineno - 1) if body else statement.end_lineno or statement.lineno
    for line in range(statement.lineno, last + 1):
        operators, why = marks.get(line, (frozenset(), ""))
        if why and (not operators or operator in operators):
            return why
    return ""


def _header(statement: ast.AST) -> str:
    """Return a statement's text, of a compound statement the first line."""
    blocks = {name: [] for name in BLOCKS if hasattr(statement, name)}
    if blocks:
        statement = type(statement)(**({name: getattr(statement, name) for name in statement._fields} | blocks))
    return ast.unparse(ast.fix_missing_locations(statement)).strip().splitlines()[0]


def _places(node: ast.AST, function: str, statement: ast.stmt | None, bound: Counter[str]) -> Iterator[_Place]:
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or _is_left_alone(node, name, child):
                continue
            inside = child if isinstance(child, ast.stmt) else statement
            if inside is not None:
                yield _Place(child, node, name, index, function, inside, bound)
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                deeper = f"{function}.{child.name}" if function else child.name
                yield from _places(child, deeper, inside, Counter(names_bound(child)))
            else:
                yield from _places(child, function, inside, bound)


def _is_left_alone(parent: ast.AST, name: str, child: ast.AST) -> bool:
    if isinstance(child, ast.Import | ast.ImportFrom | ast.JoinedStr | ast.Assert) or only_costs_time(child):
        return True
    if isinstance(child, ast.Assign) and {ast.unparse(target) for target in child.targets} <= WORDS:
        return True
    if isinstance(parent, ast.Call) and called(parent) in DESCRIPTIONS:
        return True
    if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
        return True
    if isinstance(child, ast.Assign) and isinstance(parent, ast.Module) and isinstance(child.value, ast.Subscript):
        return True  # a type's name, such as NDArray[Any]
    if isinstance(parent, ast.Call) and name == "args" and called(parent) in ("refuse", "isinstance"):
        return True
    if isinstance(parent, ast.Raise) and isinstance(child, ast.Call):
        return True
    return isinstance(parent, ast.Call) and isinstance(child, ast.keyword) and is_assertion(parent, child)
