"""The order in which witnesses are shrunk, and the time of each."""

from __future__ import annotations

import random
from collections.abc import Callable
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from lattice_oracles import SUBJECT

from xverify.core.verdict import Verdict
from xverify.engine import shrink
from xverify.verify.findings import NEW, Finding, Key, Standing

IN_TURN = (
    ("shown new", Verdict.CRASH),
    ("shown new", Verdict.HANG),
    ("shown new", Verdict.VIOLATION),
    ("shown new", Verdict.WRONGLY_REJECTED),
    ("shown new", Verdict.MEMORY),
    ("other new", Verdict.VIOLATION),
    ("other new", Verdict.CRASH),
    ("other new", Verdict.MEMORY),
    ("shown known", Verdict.CRASH),
    ("shown known", Verdict.VIOLATION),
    ("other known", Verdict.VIOLATION),
    ("other known", Verdict.CRASH),
)
"""Findings in the order of shrinking: whether reports show the witness, whether a ledger accepts it, and the verdict."""


@pytest.mark.parametrize("seed", range(5))
def test_new_causes_come_first_and_of_their_shown_findings_deaths(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [_finding(words, verdict) for words, verdict in IN_TURN]
    shown = {finding.id for finding in expected if finding.key.detail.startswith("shown")}
    monkeypatch.setattr(shrink, "shown_first", lambda state: shown)
    shuffled = random.Random(seed).sample(expected, len(expected))
    state: Any = SimpleNamespace(findings=SimpleNamespace(sorted=lambda: shuffled))
    assert shrink.in_turn(state) == expected


def test_one_finding_takes_a_quarter_of_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes all it gets. So every one gets some, the first ones most."""
    now, ends = [0.0], []

    def slow(state: Any, finding: Finding, out_of_time: Callable[[], bool], confirming: Any) -> None:
        while not out_of_time():
            now[0] += 0.01
        ends.append(now[0])

    findings = [_finding("shown new", Verdict.VIOLATION) for _ in range(3)]
    monkeypatch.setattr(shrink, "in_turn", lambda state: findings)
    monkeypatch.setattr(shrink, "_shrink", slow)
    monkeypatch.setattr(shrink, "ask_others", lambda state, finding: [])
    monkeypatch.setattr(shrink.time, "monotonic", lambda: now[0])
    options = SimpleNamespace(budget=80.0 + shrink.REPORT_SECONDS, cases=None)
    state: Any = SimpleNamespace(
        options=options, complete=True, interrupted=Event(), elapsed=lambda: now[0], emit=lambda event: None
    )
    shrink.shrink_findings(state)
    assert [round(end) for end in ends] == [20, 35, 46]


def _finding(words: str, verdict: Verdict) -> Finding:
    standing = Standing("known", "entry") if "known" in words else NEW
    key = Key("flawed", "edition", verdict, "formula", words)
    return Finding(key, SUBJECT, "", None, None, standing=standing)
