"""The fake CuPy behaves as the real one, in what xverify relies on."""

from __future__ import annotations

from typing import Any

import pytest
from cupy_facts import FACTS, Fact


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.statement)
def test_facts(any_cupy: Any, fact: Fact) -> None:
    assert fact.observed(any_cupy) == fact.expected, fact.source
