"""A ledger entry, its observation, and a finding that it covers."""

from __future__ import annotations

from datetime import date
from typing import Any

from sample_report import ONNX, findings

from xverify import contracts
from xverify.core.call import Call
from xverify.core.dtypes import tensor
from xverify.core.line import call_to_line
from xverify.gate.ledger import (
    Condition,
    Entry,
    ObservedFinding,
    Recipes,
    facts,
)

TODAY = date(2026, 11, 21)


CALL = Call(
    ONNX,
    {
        "x": tensor("int32", [[-(2**31), 5, 7]], "F"),
        "scale": tensor("float32", 1.0),
        "zero_point": tensor("int32", 1),
    },
    {"axis": -1},
)


CELL = contracts.get(ONNX).cell(CALL)


FACTS = facts(CALL, CELL)


WRAPS = Recipes("wraps-int32")


ENTRY = Entry(
    name="wrap",
    subject="kernels.py:dequantize",
    contract=ONNX,
    verdict="violation",
    clause=f"{ONNX}/formula",
    detail="wraps-int32",
    reason="fixed in the next release",
    owner="kernels",
    accepted=TODAY,
    expires=date(2027, 2, 21),
    witness=call_to_line(CALL),
    recipes=WRAPS,
    scope=(Condition("x_dtype", ("int32",)), Condition("rank", least=2)),
)


SEEN = ObservedFinding("kernels.py:dequantize", ONNX, "violation", f"{ONNX}/formula", "wraps-int32", WRAPS)


def violation() -> dict[str, Any]:
    """Return a violation of int32 x with a single recipe, in three granularities."""
    found = next(finding for finding in findings() if finding["verdict"] == "violation")
    del found["attribution"]["elsewhere"]
    return {**found, "detail": "wraps-int32", "region": {"name": "|y| < 0.5", "words": "|y| < 0.5"}}
