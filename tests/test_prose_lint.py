"""The lint of docstrings, help texts and messages."""

from __future__ import annotations

import ast

import pytest
from prose_lint import complaint, main, texts


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        ('"""Of a call: its values."""', ["docstring"]),
        ('"""What a call is."""', ["docstring"]),
        ('"""Whether it is legal or not."""', ["docstring"]),
        ('"""Asked by threads."""', ["docstring"]),
        (f'"""{"A long line " * 9}"""', ["docstring"]),
        ('"""The values of a call."""\n"""What follows."""', ["field text"]),
        ('x = 1\n"""Of the run."""', ["field text"]),
        ('option("--x", help="Of the calls.")', ["help text"]),
        ('raise ValueError(f"what is {x}?")', ["message"]),
        ('echo("xverify: asked again")', ["message"]),
        ('"""Whether the call is legal."""\nraise ValueError(f"{what} is wrong")\noption(help="Offset in bytes.")', []),
    ],
)
def test_texts_that_are_hard_to_read_are_found(source: str, kinds: list[str]) -> None:
    assert [kind for _, kind, text in texts(ast.parse(source)) if complaint(kind, text)] == kinds


def test_each_complaint_names_file_and_line(tmp_path, capsys) -> None:
    (tmp_path / "xverify").mkdir()
    (tmp_path / "xverify" / "mine.py").write_text('"""Good."""\n\n\ndef f() -> None:\n    """What f does."""\n')
    assert main(tmp_path) == 1
    assert capsys.readouterr().out.startswith('xverify/mine.py:5: a docstring begins with "What"')
    (tmp_path / "xverify" / "mine.py").write_text('"""Good."""\n')
    assert main(tmp_path) == 0
