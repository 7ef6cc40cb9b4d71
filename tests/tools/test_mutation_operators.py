"""The mutants of single lines."""

from __future__ import annotations

import ast

import pytest
from mutation.mutants import mutants_of


def mutants(tmp_path, text):
    (tmp_path / "module.py").write_text(text)
    return mutants_of(tmp_path, "module.py")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("return a < b", {"return a <= b", "return a >= b", "return None"}),
        ("return a in b", {"return a not in b", "return None"}),
        ("return a + 2", {"return a - 2", "return a + 3", "return a + 1", "return None"}),
        ("return -a", {"return a", "return None"}),
        ("return a and b", {"return a or b", "return a", "return b", "return None"}),
        ("return True", {"return False", "return None"}),
        (
            "return a[1:b]",
            {"return a[:b]", "return a[1:]", "return a[1:b - 1]", "return a[2:b]", "return a[0:b]", "return None"},
        ),
        ("return f(a, b)", {"return f(b, a)", "return None"}),
        ("return f(a, key=b)", {"return f(a)", "return None"}),
        ("return a.all()", {"return a.any()", "return None"}),
        ("return a if b else c", {"return a if not b else c", "return None"}),
        ("return [i for i in a if b]", {"return [i for i in a if not b]", "return None"}),
        ("a.b = c", {"pass"}),
        ("a = c", {"pass"}),
        ("a += c", {"pass"}),
        ("a(c)", {"pass"}),
        ("raise ValueError(a, 1)", {"pass"}),
        ("for i in a: f(i)", {"for i in ():", "pass"}),
        ("while a: break", {"while not a:", "continue"}),
    ],
)
def test_operators(tmp_path, line, expected):
    found = mutants(tmp_path, f"def f(a, b, c):\n    {line}\n")
    assert {mutant.after for mutant in found} == expected
    for mutant in found:
        assert mutant.function == "f"
        assert ast.parse(mutant.source)


@pytest.mark.parametrize(
    "line",
    [
        "value: int | None = given",
        "refuse(ValueError, 'clause', 'where', 1, 2)",
        "assert given > 1",
        "summary = given + 1",
        "Discrepancy(given, 1, key=given)",
        "from a import b",
        "'a text'",
        "value = f'{given + 1}'",
        "value = zip(given, strict=True)",
        "BLOCK = 1 << 16",
        "value = given > BLOCK",
        "fetch_ahead(given, 1)",
    ],
)
def test_code_that_decides_nothing_is_not_changed(tmp_path, line):
    assert {mutant.after for mutant in mutants(tmp_path, f"def f(given):\n    {line}\n")} <= {"pass"}


def test_a_mutant_is_known_by_what_it_changes_and_not_by_where_it_is(tmp_path):
    text = "def f(a):\n    if a > 1:\n        return a > 1\n    return a > 1\n"
    names = [mutant.name for mutant in mutants(tmp_path, text)]
    assert len(set(names)) == len(names)
    assert [mutant.name for mutant in mutants(tmp_path, "import os\n\n# more\n" + text)] == names


def test_mutants_that_read_the_same_are_made_once(tmp_path):
    sources = [mutant.source for mutant in mutants(tmp_path, "def f(a):\n    return not a == 1\n")]
    assert len(sources) == len(set(sources)) > 2
