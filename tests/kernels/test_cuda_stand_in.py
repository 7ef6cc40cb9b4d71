"""The fake CuPy behaves as the real one, in what xverify relies on."""

from __future__ import annotations

import runpy
from typing import Any

import pytest
from cupy_facts import FACTS, Fact
from folders import ROOT


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.statement)
def test_facts(any_cupy: Any, fact: Fact) -> None:
    assert fact.observed(any_cupy) == fact.expected, fact.source


def test_the_reproducer_for_cupys_issue(any_cupy: Any, capsys: pytest.CaptureFixture[str]) -> None:
    script, text = ROOT / "reports" / "cupy_negative_zero.py", ROOT / "reports" / "cupy_negative_zero.md"
    assert f"```python\n{script.read_text()}```" in text.read_text()
    runpy.run_path(str(script))
    assert capsys.readouterr().out == "False\n[False False]\n[False False]\n[ True  True]\n[ True]\n"
