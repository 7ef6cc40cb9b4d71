"""Findings on calls among neighbours that change values."""

from __future__ import annotations

import pytest
from folders import SUPPORT

from xverify import contracts
from xverify.engine.options import Options
from xverify.engine.sweep import sweep
from xverify.oracles.protocol import Oracle, Path
from xverify.report.causes import causes
from xverify.report.schema import check

EDITION = "ai.onnx/DequantizeLinear-21"
LEVELS = (Path("graph none", 0.5), Path("graph all", 1.0))


def values_causes(tmp_path, load: str) -> list:
    oracle = Oracle("flawed", "numpy", (EDITION,), (EDITION,), "rewriting_oracles", load, search_path=(str(SUPPORT),),
                    needs_xverify=True, surrounded=LEVELS)  # fmt: skip
    options = Options((contracts.get(EDITION),), (oracle,), tmp_path, "test", "xverify sweep", 3, 60.0, 600)
    report = sweep(options, lambda event: None)
    check(report)
    return [cause for cause in causes(report) if cause.kind == "values"]


def test_a_rewrite_is_named_with_the_smallest_graph_and_its_level(tmp_path):
    named = [c for c in values_causes(tmp_path, "load_dropping") if c.title.startswith("leaves out QuantizeLinear and")]
    (cause,) = named
    finding = cause.first
    assert finding["subject"]["options"] == "graph all"
    (word,) = finding["witness"]["call"]["around"]
    assert word.startswith("y>pair:")
    assert finding["witness"]["in_graph"]
    assert " instead of " in cause.effect


@pytest.mark.slow
def test_a_fault_of_the_operator_is_no_rewrite(tmp_path):
    found = values_causes(tmp_path, "load_off_by_one")
    assert found
    assert not any("in_graph" in cause.first["witness"] for cause in found)
