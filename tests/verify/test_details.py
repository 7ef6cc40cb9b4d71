"""Details: every text of earlier versions maps to its present token."""

from __future__ import annotations

import pytest
from old_details import OLD

from xverify.verify.details import modernized, modernized_step
from xverify.verify.verdicts import NOTES


@pytest.mark.parametrize(("verdict", "old", "new"), OLD)
def test_prose_becomes_a_token_and_a_token_stays(verdict: str, old: str, new: str) -> None:
    assert modernized(verdict, old) == new
    assert modernized(verdict, new) == new
    assert " " not in new


@pytest.mark.parametrize(
    ("verdict", "old", "new"),
    [
        ("violation", "*", "*"),
        ("violation", "* to float32", "types:*:float32"),
        ("violation", "wrap-int32*", "wrap-int32*"),
        ("crash", "allowed, *", "allowed:*"),
        ("crash", "forbidden by *, values", "forbidden:*:values"),
        ("mixed", "equivalence: *", "equivalence:*"),
        ("ambiguity", "refuses what * computes", "refuses:*"),
        ("wrongly-rejected", "integer x, a zero point, *", "integer:zero-point:*"),
        ("changed", "* to *, broken: *", "*..*:broken:*"),
    ],
)
def test_globs_for_whole_names_are_translated(verdict: str, old: str, new: str) -> None:
    assert modernized(verdict, old) == new


def test_unknown_details_stay_unchanged() -> None:
    for verdict in ("violation", "memory", "changed", "unsupported", "no verdict"):
        assert modernized(verdict, "a hand-written remark, kept") == "a hand-written remark, kept"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("broken: values", "broken:values"),
        ("other: both wrong", "other:both-wrong"),
        ("fixed: ends the process, an empty tensor", "fixed:crash:empty"),
        ("answers: forbidden by scales-type", "answers:forbidden:scales-type"),
        ("refuses: allowed, an empty tensor", "refuses:allowed:empty"),
        ("broken:crash:empty", "broken:crash:empty"),
    ],
)
def test_steps_of_changes(old: str, new: str) -> None:
    assert modernized_step(old) == new


def test_every_note_has_its_old_words() -> None:
    changes = {old.partition(": ")[2]: new.rpartition(":")[2] for verdict, old, new in OLD if verdict == "changed"}
    assert set(NOTES) <= set(changes.values())
