"""Folding: the same ids in every run, and the same findings for every order of discrepancies."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from judged_calls import ONE, ONNX_21, OTHER, asked

from xverify.contracts.model import Cell
from xverify.core.call import Call
from xverify.core.verdict import Verdict
from xverify.verify.attribute import Attribution
from xverify.verify.findings import Discrepancy, Findings, Key, Subject


def test_ids_are_the_same_in_every_run() -> None:
    key = Key(
        "onnxruntime", "ai.onnx/DequantizeLinear-21", Verdict.VIOLATION, "ai.onnx/DequantizeLinear-21/formula", "x"
    )
    assert key.id() == "violation-9962458faf"
    parts = ("subject", "contract", "clause", "detail")
    assert len({replace(key, **{part: "other"}).id() for part in parts} | {key.id()}) == 5


def entries() -> list[tuple[Discrepancy, Subject, Call, Cell, int]]:
    """Discrepancies of one key: sizes, paths, cells and contributions of every kind."""
    key = Key("one", ONNX_21.id, Verdict.VIOLATION, ONNX_21.id + "/formula", "wrap")
    made = []
    paths = (ONE, OTHER, Subject("one", "1", "oracle", "O1"))
    for number, (size, subject) in enumerate((size, subject) for size in (9, 4, 64) for subject in paths):
        judged = asked(ONNX_21, ("int8", "uint8")[number % 2], size, number // 3)
        share = Discrepancy(key, f"summary of {size}", Attribution("wrap", "wraps", size - 1, size), size, number % 5)
        made.append((share, subject, judged.call, judged.cell, judged.number))
    return made


def test_folding_does_not_depend_on_order() -> None:
    seen = set()
    for seed in range(40):
        findings, shuffled = Findings(), entries()
        random.Random(seed).shuffle(shuffled)
        new = [findings.add(d, subject, call, None, cell, number) for d, subject, call, cell, number in shuffled]
        assert new == [True] + [False] * 8
        (f,) = findings.sorted()
        counts = (f.cases, f.values, f.max_ulp, f.attribution)
        seen.add((f.call.digest(), f.subject, f.summary, *counts, *sorted(f.cells), *sorted(f.paths)))
    assert len(seen) == 1
    (result,) = seen
    assert result[1:6] == (ONE, "summary of 4", 9, 3 * (9 + 4 + 64), 4)
    assert result[6] == Attribution("wrap", "wraps", 3 * (8 + 3 + 63), 3 * (9 + 4 + 64))
    assert result[-3:] == ("", "O1", "O3")


def test_the_plain_path_is_the_witness_though_larger() -> None:
    for order in (1, -1):
        findings = Findings()
        for share, subject, call, cell, number in [e for e in entries() if (e[1] is ONE) == (e[2].values == 64)][
            ::order
        ]:
            findings.add(share, subject, call, None, cell, number)
        (finding,) = findings.sorted()
        assert (finding.subject, finding.call.values) == (ONE, 64)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("other", [0, 5])
def test_an_undefined_distance_stays_undefined(first: bool, other: int) -> None:
    findings = Findings()
    share, subject, call, cell, number = entries()[0]
    for distance in (-1, other)[:: 1 if first else -1]:
        findings.add(replace(share, max_ulp=distance), subject, call, None, cell, number)
    assert findings.sorted()[0].max_ulp == -1
