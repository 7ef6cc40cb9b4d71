"""Gaps have the smallest pattern; cells that differ without a finding are listed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from xverify.report.gaps import DIFFERS, gaps, unreported

EDITION = "ai.onnx/DequantizeLinear-21"


def cell(x_dtype: str, scale: str = "float32", zero_point: str = "", granularity: str = "per_tensor") -> dict[str, str]:
    return {
        "contract": EDITION, "x_dtype": x_dtype, "scale_dtype": scale, "zero_point_dtype": zero_point,
        "out_dtype": scale, "granularity": granularity, "variant": "",
    }  # fmt: skip


def row(subject: str, status: str, refused: str = "", answers: bool = False, **of: str) -> dict[str, Any]:
    refusal = {"refusal": {"error": "E", "message": refused, "all": not answers}} if refused else {}
    return {**cell(**of), "subject": subject, "status": status, "cases": 1, "values": 1, "reading": [], **refusal}


def report(*rows: dict[str, Any], findings: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    names = dict.fromkeys(entry["subject"].partition("[threads=4")[0] for entry in rows)
    return {"run": {"workers": [{"name": n} for n in names]}, "coverage": {"cells": [*rows]}, "findings": [*findings]}


def words(*rows: dict[str, Any], findings: tuple[dict[str, Any], ...] = ()) -> list[tuple[str, int, bool]]:
    return [(gap.words, gap.cells, gap.whole) for gap in gaps(report(*rows, findings=findings))]


def test_a_gap_has_the_fewest_conditions_and_covers_the_most_cells() -> None:
    refused = [row("a", "unsupported", "no int2", x_dtype=x, scale=s) for x in ("int2", "uint2") for s in ("f4", "f2")]
    answered = [row("a", "agrees", x_dtype="int8", scale=s) for s in ("f4", "f2")]
    (gap,) = gaps(report(*refused, *answered))
    assert (gap.implementation, gap.edition, gap.words, gap.cells) == ("a", EDITION, "x int2 or uint2", 4)
    assert (gap.error, gap.message, gap.whole) == ("E", "no int2", True)
    assert words(*refused) == [("everything", 4, True)]


def patterns(refuses: Callable[[str, str], bool], name: str, values: tuple[str, str]) -> list[tuple[str, int, bool]]:
    """The gaps of an implementation that refuses some cells with int4 or int8."""
    return words(
        *(
            row("a", "unsupported", "no", x_dtype=x, **{name: value})
            if refuses(x, value)
            else row("a", "agrees", x_dtype=x, **{name: value})
            for x in ("int4", "int8")
            for value in values
        )
    )


def test_a_zero_points_presence_and_two_conditions_are_patterns() -> None:
    both, one = ("with a zero point", 2, True), ("zero point int8", 2, True)
    assert patterns(lambda x, zero: zero != "", "zero_point", ("", "int8")) == [both]
    assert patterns(lambda x, zero: zero == "int8", "zero_point", ("int4", "int8")) == [one]
    refuses = patterns(
        lambda x, granularity: (x, granularity) == ("int4", "blocked"), "granularity", ("blocked", "per_axis")
    )
    assert refuses == [("x int4, blocked", 1, True)]


def test_a_cell_that_one_path_answers_is_refused_in_part() -> None:
    rows = row("a", "unsupported", "no", x_dtype="int4"), row("a[threads=4]", "agrees", x_dtype="int4")
    assert words(*rows, row("a", "agrees", x_dtype="int8")) == [("x int4", 1, False)]
    some = row("a", "not-judged-agrees", "no", answers=True, x_dtype="int4")
    assert words(some) == [("everything", 1, False)]


def test_a_path_that_only_refused_graphs_says_nothing() -> None:
    rows = row("a", "unsupported", "no", x_dtype="int4"), row("a[threads=4]", "unsupported", x_dtype="int4")
    assert words(*rows, row("a", "agrees", x_dtype="int8")) == [("x int4", 1, True)]
    assert words(rows[1]) == []


def test_refusals_that_are_a_finding_are_no_gap_nor_are_calls_that_the_text_leaves_open() -> None:
    refused = row("a", "wrongly-rejected", "no", answers=True, x_dtype="int4")
    finding = {"verdict": "wrongly-rejected", "subject": {"name": "a"}, "cells": [cell("int4")]}
    assert words(refused, findings=(finding,)) == []
    assert words(row("a", "unspecified", x_dtype="int4")) == []


@pytest.mark.parametrize("status", sorted(DIFFERS))
def test_a_cell_that_differs_without_a_finding_is_listed(status: str) -> None:
    differing, agreeing = row("a[threads=4]", status, x_dtype="int8"), row("a", "agrees", x_dtype="int8")
    assert unreported(report(differing, agreeing)) == [differing]
    finding = {"verdict": "not-followed", "subject": {"name": "a"}, "cells": [cell("int8")]}
    assert unreported(report(differing, findings=(finding,))) == []
    assert unreported(report(differing, findings=({**finding, "cells": [cell("uint8")]},))) == [differing]
    assert unreported(report(differing, findings=({**finding, "subject": {"name": "b"}},))) == [differing]
