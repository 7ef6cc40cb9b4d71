"""The order in which witnesses are shrunk."""

from __future__ import annotations

import random
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


def _finding(words: str, verdict: Verdict) -> Finding:
    standing = Standing("known", "entry") if "known" in words else NEW
    key = Key("flawed", "edition", verdict, "formula", words)
    return Finding(key, SUBJECT, "", None, None, standing=standing)
