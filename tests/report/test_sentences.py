"""The table of sentences: standing, editions and changed wording."""

from __future__ import annotations

from typing import Any

from xverify.report.sentences import CONTRADICTED, FOLLOWED, NOBODY, UNTESTED, changed, ranges, tables


def report(*editions: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a report with editions 1, 2, ... of the operator d/Op, from clauses by name."""
    listed = []
    for number, clauses in enumerate(editions, 1):
        entries = [
            {"id": f"d/Op-{number}/{name}", "text": name, "note": "", "tested": 1, "follow": [], "depart": [], **clause}
            for name, clause in clauses.items()
        ]
        listed.append({"id": f"d/Op-{number}", "clauses": entries})
    return {
        "editions": listed, "findings": [], "coverage": {"cells": []},
        "run": {"workers": [{"name": "xverify-numpy", "in_house": True}]},
    }  # fmt: skip


def departs(*names: str) -> list[dict[str, str]]:
    return [{"subject": name, "finding": f"violation-{name}"} for name in names]


def test_sentences_that_nobody_follows_come_first() -> None:
    (table,) = tables(
        report(
            {"c": {"tested": 0}, "b": {"follow": ["one"]}, "a": {"follow": ["one"], "depart": departs("two")},
             "z": {"follow": ["xverify-numpy"], "depart": departs("one[threads=4]")}},
        )
    )  # fmt: skip
    assert [(s.name, s.standing) for s in table.sentences] == [
        ("z", NOBODY), ("a", CONTRADICTED), ("b", FOLLOWED), ("c", UNTESTED),
    ]  # fmt: skip
    assert table.subjects == ("one", "two")


def test_the_newest_answered_edition_decides_and_marks_name_the_editions() -> None:
    follows, contradicts = {"follow": ["one"]}, {"depart": departs("one")}
    (table,) = tables(report({"a": follows}, {"a": contradicts}, {"a": contradicts}, {"a": {"tested": 0}}))
    (sentence,) = table.sentences
    assert sentence.standing == NOBODY
    assert [(m.answer, m.editions, m.finding) for m in sentence.marks[0]] == [
        ("contradicts", "2, 3", "violation-one"), ("follows", "1", ""),
    ]  # fmt: skip
    (table,) = tables(report({"a": contradicts}, {"a": follows}))
    assert table.sentences[0].standing == CONTRADICTED


def test_changed_words_are_marked_and_quotation_marks_do_not_count() -> None:
    (table,) = tables(
        report(*({"a": {"text": text}} for text in ("the 'x' is old", "the `x` is old", "the `x` is new")))
    )
    (sentence,) = table.sentences
    assert [wording.editions for wording in sentence.wordings] == ["1, 2", "3"]
    assert sentence.wordings[1].parts == (("same", "the `x` is"), ("del", "old"), ("ins", "new"))
    assert changed(None, ["all", "of", "it"]) == (("same", "all of it"),)


def test_three_editions_in_a_row_are_a_range() -> None:
    assert ranges(["25", "10", "21", "19", "13"], ["10", "13", "19", "21", "23", "25"]) == "10 to 21, 25"
