"""Official cases: the calls whose results a document states, and the sentences that they contradict."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from folders import ROOT
from written_calls import MS, ONNX

from xverify import contracts
from xverify.contracts import documents, onnx, pytorch
from xverify.contracts.model import Judgement
from xverify.contracts.official_cases import contradictions, onnx_node_tests
from xverify.core.bits import canonical
from xverify.core.dtypes import values
from xverify.core.errors import DocumentError
from xverify.verify.legal import legal_set

COUNTS = {10: (1, 0), 13: (2, 0), 19: (6, 1), 21: (11, 3), 23: (12, 4), 24: (12, 4), 25: (14, 6), 28: (14, 6)}
"""By version: its official cases, and those among them that contradict the text."""

IDS = (*(f"{ONNX}{version}" for version in COUNTS), MS + "seed", pytorch.edition(pytorch.TENSOR))


@pytest.mark.parametrize("identity", IDS)
def test_each_official_case_is_legal(identity: str) -> None:
    """The text allows each case or leaves it open, and every admitted reading gives the stated bits."""
    contract = contracts.get(identity)
    for case in contract.official_cases():
        assert contract.judge(case.call).verdict in ("allowed", "unspecified"), case.name
        legal, due = legal_set(contract, case.call), case.due
        assert (legal.dtype, legal.shape) == (due.dtype, due.shape), case.name
        assert all(np.array_equal(codes, canonical(due.codes, due.dtype)) for codes in legal.distinct), case.name
        assert contract.due(case.call) is due
        assert contract.due(replace(case.call, origin="")) is due
        assert contract.due(replace(case.call, around=("identity",))) is None


@pytest.mark.parametrize(("version", "counts"), COUNTS.items())
def test_node_tests_of_an_edition(version: int, counts: tuple[int, int]) -> None:
    """An edition has the tests whose types, attributes and granularity it has.

    A contradicted sentence is one finding.
    """
    contract = contracts.get(f"{ONNX}{version}")
    cases = contract.official_cases()
    verdicts = Counter(contract.judge(case.call).verdict for case in cases)
    assert (len(cases), verdicts["unspecified"]) == counts
    checks = [check for check in contract.text_checks() if check.name == "official-cases"]
    assert [check.clause for check in checks] == [f"{contract.id}/zero-point-shape"] * bool(counts[1])
    assert (f"{contract.id}/shape-1-zero-point" in contract.clauses) == bool(checks)
    for check in checks:
        assert f"forbids {counts[1]} of the node tests of onnx" in check.summary
        assert check.call is not None
        assert contract.judge(check.call).verdict == "unspecified"
        assert check.call.origin.removeprefix("official: ") in check.summary


def test_the_tests_are_those_of_the_installed_onnx() -> None:
    """The codes are read by hand from two tests, one of which has packed codes of 4 bits."""
    tests = {test.name: test for test in onnx_node_tests()}
    assert len(tests) == 14
    plain, packed = tests["test_dequantizelinear"], tests["test_dequantizelinear_int4"]
    assert plain.tensors["x"].codes.tolist() == [0, 3, 128, 255]
    assert values("float32", plain.due.codes).tolist() == [-256, -250, 0, 254]
    assert (packed.tensors["x"].dtype, packed.tensors["x"].codes.tolist()) == ("int4", [0, 1, 7, 12, 8])
    assert (packed.tensors["zero_point"].shape, packed.attributes) == ((1,), {"axis": 0})


def test_the_published_page_of_opset_13_has_the_same_cases() -> None:
    seeds = ROOT.parent / "shared" / "seeds"
    if not seeds.is_dir():
        pytest.skip(f"the seed documents are not in {seeds}")
    (page,) = seeds.glob("000_*")
    section = page.read_text(encoding="utf-8").split("\nDequantizeLinear - 10\n")[0]
    named = re.findall(r'name="(test_dequantizelinear\w*)"', section)
    assert [case.name for case in contracts.get(ONNX + "13").official_cases()] == named


def test_examples_of_pytorch_are_quoted_from_what_is_installed() -> None:
    if documents.version_of("torch") is None:
        pytest.skip("pip install torch")
    text = documents.torch_text(pytorch.TENSOR)
    assert [example.name for example in pytorch.EXAMPLES if not documents.quotes(text, example.sentence)] == []


def test_any_contradicted_sentence_is_one_finding() -> None:
    """A case that a clause forbids outright is reported by that clause."""
    cases = contracts.get(ONNX + "25").official_cases()[:3]
    (check,) = contradictions(cases, lambda call: Judgement("forbidden", ("e/x-type",)), {})
    assert (check.clause, check.call) == ("e/x-type", cases[0].call)
    assert "forbids 3 of the node tests" in check.summary


def test_an_onnx_without_such_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(output: str, code: int) -> None:
        done = subprocess.CompletedProcess([], code, output, "ModuleNotFoundError: no such module")
        monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)

    answers("", 1)
    with pytest.raises(DocumentError, match="does not give its node tests: ModuleNotFoundError"):
        onnx_node_tests("another python")
    odd = ["complex64", [], ["0"]]
    answers(json.dumps([{"name": "t", "opset": 28, "attributes": {}, "tensors": {"x": odd}, "due": odd}]), 0)
    assert onnx_node_tests("another python") == (), "no edition has its type"


def test_a_test_of_an_older_opset_belongs_to_older_editions(monkeypatch: pytest.MonkeyPatch) -> None:
    tests = tuple(replace(test, opset=20) for test in onnx_node_tests())
    monkeypatch.setattr(onnx, "onnx_node_tests", lambda: tests)
    assert [len(onnx.contract(version).official_cases()) for version in (19, 21)] == [6, 0]
