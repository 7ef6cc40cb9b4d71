"""Shares of a sweep's budget: what may begin when."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from xverify.engine.options import Options
from xverify.engine.rules import Rules
from xverify.engine.state import new_run


@pytest.mark.parametrize(
    ("budget", "seconds", "changes", "due"),
    [
        (60.0, 45.0, {}, False),
        (60.0, 46.0, {}, True),
        (600.0, 581.0, {}, False),
        (600.0, 583.0, {}, True),
        (60.0, 46.0, {"cases": 100}, False),
        (60.0, 46.0, {"rules": Rules(saves_time_to_shrink=False)}, False),
    ],
)
def test_a_share_of_the_time_for_the_end_belongs_to_shrinking(
    tmp_path: Path, budget: float, seconds: float, changes: dict[str, Any], due: bool
) -> None:
    options = Options((), (), tmp_path, "test", "xverify sweep", budget=budget)
    state = new_run(replace(options, **changes), lambda event: None)
    state.pool.journal = SimpleNamespace(elapsed=lambda: seconds)  # type: ignore[assignment]
    assert state.is_time_to_shrink() is due


@pytest.mark.parametrize(
    ("seconds", "changes", "past"),
    [
        (59.0, {}, False),
        (61.0, {}, True),
        (61.0, {"cases": 100}, False),
        (61.0, {"rules": Rules(saves_time_to_shrink=False)}, False),
    ],
)
def test_a_sweep_is_past_its_budget_only_if_it_has_one(
    tmp_path: Path, seconds: float, changes: dict[str, Any], past: bool
) -> None:
    options = Options((), (), tmp_path, "test", "xverify sweep", budget=60.0)
    state = new_run(replace(options, **changes), lambda event: None)
    state.pool.journal = SimpleNamespace(elapsed=lambda: seconds)  # type: ignore[assignment]
    assert state.is_past_budget() is past
