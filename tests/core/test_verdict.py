"""Verdicts: their orders, words and consequences are complete and agree with each other."""

from __future__ import annotations

import json

import pytest

from xverify.core.verdict import Verdict


def test_every_verdict_is_a_plain_string_outside() -> None:
    assert Verdict("wrongly-accepted") is Verdict.WRONGLY_ACCEPTED
    assert json.dumps({"verdict": Verdict.CRASH}) == '{"verdict": "crash"}'
    assert f"{Verdict.CRASH}-12" == "crash-12"
    assert {"crash": 1}[Verdict.CRASH] == 1


def test_both_orders_are_complete() -> None:
    assert [verdict.severity for verdict in Verdict] == list(range(len(Verdict)))
    assert sorted(verdict.urgency for verdict in Verdict) == list(range(len(Verdict)))
    assert min(Verdict, key=lambda verdict: verdict.severity) is Verdict.CRASH
    assert min(Verdict, key=lambda verdict: verdict.urgency) is Verdict.VIOLATION


@pytest.mark.parametrize(
    ("verdict", "one", "two"),
    [
        (Verdict.VIOLATION, "1 violation", "2 violations"),
        (Verdict.AMBIGUITY, "1 ambiguity", "2 ambiguities"),
        (Verdict.MEMORY, "1 memory fault", "2 memory faults"),
        (Verdict.MIXED, "1 mixed", "2 mixed"),
        (Verdict.WRONGLY_REJECTED, "1 wrongly rejected", "2 wrongly rejected"),
    ],
)
def test_findings_are_counted_in_words(verdict: Verdict, one: str, two: str) -> None:
    assert (verdict.counted(1), verdict.counted(2)) == (one, two)


def test_a_gate_fails_on_faults_alone() -> None:
    texts = {Verdict.CONFLICT, Verdict.AMBIGUITY, Verdict.CHANGED, Verdict.NOT_FOLLOWED}
    assert {verdict for verdict in Verdict if not verdict.fails_gate()} == texts
    assert {verdict for verdict in Verdict if not verdict.fails_gate(allow_mixed=True)} == {*texts, Verdict.MIXED}
    assert {verdict.tone for verdict in Verdict} == {"bad", "warn", "open", "quiet"}
