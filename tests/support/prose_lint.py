"""Find docstrings, help texts and messages that are hard to read.

Usage: ``python tests/support/prose_lint.py [ROOT]``. It prints a line for each text to rewrite, and exits 1 if there is one.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("xverify", "strategies", "oracles", "tests", "benchmarks")
FIRST_LINE = 100
"""Characters that the first line of a docstring may have."""

MESSAGE_CALLS = ("echo", "say", "print", "secho", "skip", "fail")
"""Functions whose first argument is a message."""

_OPENING = re.compile(r"(xverify: )?(Of|What|Asked)\b|(xverify: )?Whether\b.*\bor\b", re.IGNORECASE)
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def texts(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Yield line number, kind and text of everything in a module that people read."""
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED):
            yield from _documentation(node)
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from ((node.lineno, "message", text) for text in map(_leading, node.exc.args) if text)
        elif isinstance(node, ast.Call):
            yield from _of_call(node)


def _documentation(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef,
) -> Iterator[tuple[int, str, str]]:
    """Yield the docstring, and the strings that document fields and constants."""
    for index, statement in enumerate(node.body):
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            value = statement.value.value
            if isinstance(value, str):
                yield statement.lineno, "docstring" if index == 0 else "field text", value.strip()


def _of_call(node: ast.Call) -> Iterator[tuple[int, str, str]]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in MESSAGE_CALLS and node.args and (text := _leading(node.args[0])):
        yield node.lineno, "message", text
    for keyword in node.keywords:
        if keyword.arg in ("help", "short_help", "epilog") and (text := _leading(keyword.value)):
            yield keyword.value.lineno, "help text", text


def _leading(node: ast.expr) -> str:
    """Return the literal text that a string or an f-string begins with, or nothing."""
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return ""


def complaint(kind: str, text: str) -> str:
    """Say what to change in a text. Return nothing if it is fine."""
    first = text.partition("\n")[0]
    opening = _OPENING.match(first)
    if opening:
        word = opening.group().split()[-1] if "Whether" not in opening.group() else "Whether ... or"
        return f'a {kind} begins with "{word}": begin with a noun or a verb'
    if kind == "docstring" and len(first) > FIRST_LINE:
        return f"a docstring's first line has {len(first)} characters: at most {FIRST_LINE}, details below"
    return ""


def main(root: Path) -> int:
    """Print every complaint about the Python files of a tree. Return the exit code."""
    count = 0
    for file in sorted(file for folder in FOLDERS for file in (root / folder).rglob("*.py")):
        name = file.relative_to(root)
        for line, kind, text in texts(ast.parse(file.read_text(encoding="utf-8"))):
            if kind == "message" and name.parts[0] == "tests":
                continue
            if advice := complaint(kind, text):
                count += 1
                print(f"{name}:{line}: {advice}: {text.partition(chr(10))[0][:80]}")
    if count:
        print(f"{count} texts to rewrite; begin with a noun or a verb, and keep first lines short", file=sys.stderr)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path()))
