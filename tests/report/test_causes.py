"""Findings are grouped by cause, and each cause shows its commonest types first."""

from __future__ import annotations

from typing import Any

import pytest

from xverify.report.causes import Cause, causes, seen, sentence, types
from xverify.verify.region import NOWHERE_SIMPLE

ONNX = "ai.onnx/DequantizeLinear-25"


def finding(verdict: str, detail: str, x_dtype: str = "int8", recipe: str = "", **more: Any) -> dict[str, Any]:
    """Return the fields of a finding that a cause depends on."""
    cell = {"x_dtype": x_dtype, "granularity": more.pop("granularity", "per_tensor")}
    region = more.pop("region", "")
    made = {
        "id": f"{verdict}-{detail}-{x_dtype}-{more.get('contract', ONNX)}",
        "verdict": verdict, "contract": ONNX, "clause": f"{ONNX}/formula", "detail": detail, "subject": {"name": "kernel.py:f"},
        "x_dtype": x_dtype, "scale_dtype": "float32", "cells": [cell], "cases": 2, "values": 10, "max_ulp": 1,
        "summary": f"kernel.py:f does {detail}", "shrunk": "minimal",
        "attribution": {"reading": recipe} if recipe else None,
        "region": {"words": region} if region else None,
    }  # fmt: skip
    return {**made, **more}


def shapes(findings: list[dict[str, Any]]) -> list[list[str]]:
    """Return the types of x of each cause's findings."""
    return [[entry["x_dtype"] for entry in cause.findings] for cause in causes(findings)]


def of_types(verdict: str, detail: str, *x_dtypes: str, recipe: str = "") -> list[dict[str, Any]]:
    return [finding(verdict, detail.format(x), x, recipe) for x in x_dtypes]


def of_details(verdict: str, *details: str) -> list[dict[str, Any]]:
    return [finding(verdict, detail) for detail in details]


WRAPS = [finding("violation", "wrap-x", dtype, "wrap-x", region=NOWHERE_SIMPLE) for dtype in ("int2", "uint8", "int4")]
MISREAD = [finding("violation", f"a@{reading}", x, f"a@{reading}") for x, reading in (("int4", "exact"), ("int8", "b"))]
OTHER_EDITION = finding("violation", "wrap-x", "int8", "wrap-x", contract="mine/DQ-1")
IN_PART = [finding("violation", "partly:zeros", recipe="zeros", region=region) for region in ("a", "b")]


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        (WRAPS, [["uint8", "int4", "int2"]]),
        ([*WRAPS, *of_types("mixed", "wrap-x", "int8", recipe="wrap-x")], [["uint8", "int4", "int2", "int8"]]),
        ([*WRAPS, OTHER_EDITION], [["uint8", "int8", "int4", "int2"]]),
        (MISREAD, [["int8", "int4"]]),
        (IN_PART, [["int8"], ["int8"]]),
        (of_types("violation", "types:{}:float32", "int2", "int8"), [["int8", "int2"]]),
        (of_details("violation", "result-type:float16:float32", "result-type:float16:bfloat16"), [["int8", "int8"]]),
        (of_details("violation", "result-type:float16:float32", "result-shape"), [["int8"], ["int8"]]),
        (of_details("wrongly-accepted", "x-type", "block-size"), [["int8", "int8"]]),
        (of_details("wrongly-rejected", "integer:zero-point:KeyError", "float8:KeyError"), [["int8", "int8"]]),
        (of_details("wrongly-rejected", "integer:zero-point:KeyError", "float8:ValueError"), [["int8"], ["int8"]]),
        ([*of_types("crash", "allowed:values", "int2"), *WRAPS], [["int2"], ["uint8", "int4", "int2"]]),
    ],
)
def test_findings_of_one_mistake_are_one_cause(findings: list[dict[str, Any]], expected: list[list[str]]) -> None:
    assert shapes(findings) == expected
    assert shapes(findings[::-1]) == expected


def test_values_that_nothing_explains_join_the_cause_with_their_region() -> None:
    where = "x is not contiguous"
    ignored = finding("violation", "strides-ignored@exact", "uint8", "strides-ignored@exact", region=where)
    unexplained = [finding("violation", f"types:{x}:float16", x, region=where) for x in ("int2", "int4")]
    elsewhere = finding("violation", "types:int8:float16", region=NOWHERE_SIMPLE)
    assert shapes([*unexplained, elsewhere, ignored]) == [["uint8", "int4", "int2"], ["int8"]]


def test_findings_with_different_ledger_states_are_not_grouped() -> None:
    new, expired = ({"ledger": {"state": state, "entry": ""}} for state in ("new", "expired"))
    assert shapes([{**WRAPS[0], **new}, {**WRAPS[1], **expired}]) == [["uint8"], ["int2"]]


def test_a_cause_is_described_by_types_counts_and_a_sentence() -> None:
    many = ("uint8", "int8", "int4", "int32", "int2")
    granularity = dict(zip(many, ("blocked", "per_axis", "per_tensor", "blocked", "blocked"), strict=True))
    (cause,) = causes([finding("violation", "wrap-x", x, "wrap-x", granularity=granularity[x]) for x in many])
    assert types(cause) == "uint8, int8, int4 and 2 more types; per tensor, per axis and blocked"
    assert sentence(cause) == "kernel.py:f does wrap-x"
    assert seen(cause) == "10 calls, 50 values, 5 cells, up to 1 ULP"
    assert types(Cause((WRAPS[0],))) == ""
    (accepted,) = causes([finding("wrongly-accepted", clause) for clause in ("axis", "x-type", "y-type", "rank")])
    assert sentence(accepted) == "kernel.py:f computes calls that 4 clauses forbid: axis, rank, x-type and 1 more"
    (refused,) = causes([finding("wrongly-rejected", f"{kind}:zero-point:KeyError") for kind in ("float8", "integer")])
    assert sentence(refused) == "kernel.py:f refuses allowed calls (KeyError)"
