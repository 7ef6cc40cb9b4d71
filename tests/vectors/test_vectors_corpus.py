from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from folders import ROOT
from onnx.backend.base import Backend, BackendRep
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner
from onnx.reference import ReferenceEvaluator
from vector_corpora import few_types, small_corpus

from xverify import cli
from xverify.core.bits import is_nan
from xverify.core.call import Call, Tensor
from xverify.vectors import corpus, jsonl
from xverify.vectors.choose import Vector


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "new" / "corpus"
    corpus.write(small_corpus(), path, corpus.FORMS)
    return path


def test_a_line_has_the_documented_keys_and_spacing() -> None:
    x, scale = Tensor("int4", np.array([[15, 1]], np.uint8)), Tensor("float32", np.array(0x3F800000, np.uint32))
    call = Call("ai.onnx/DequantizeLinear-25", {"x": x, "scale": scale}, {"axis": 1, "output_dtype": "bfloat16"})
    results = (np.array([[0xBF80, 0x3F80]], np.uint16),) * 2
    made = Vector(call, "0" * 16, "cell", results, (("exact",), ("output",)), "bfloat16", (), frozenset())
    assert jsonl.line(few_types(), made) == (
        '{"id":"0000000000000000","attributes":{"axis":1,"output_dtype":"bfloat16"},"inputs":['
        '{"name":"x","dtype":"int4","shape":[1,2],"codes":"f1"},{"name":"scale","dtype":"float32","shape":[],"codes":"3f800000"}],'
        '"output":{"dtype":"bfloat16","shape":[1,2]},"legal":["bf803f80","bf803f80"],"cell":"cell",'
        '"readings":[["exact"],["output"]]}\n'
    )


def test_a_refused_call_quotes_the_sentence(folder: Path) -> None:
    refused = [call for call in map(json.loads, (folder / jsonl.FILE).read_text().splitlines()) if "refused" in call]
    assert refused
    for call in refused:
        assert call.keys() == {"id", "attributes", "inputs", "refused"}
        for entry in call["refused"]:
            assert entry["sentence"] == few_types().clauses[entry["clause"]].text != ""


def test_the_manifest_lists_every_file_and_its_digest(folder: Path) -> None:
    manifest = json.loads((folder / corpus.MANIFEST).read_text())
    paths = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} - {corpus.MANIFEST}
    assert {entry["path"] for entry in manifest["files"]} == paths
    lines = [f"{hashlib.sha256((folder / path).read_bytes()).hexdigest()}  {path}\n" for path in sorted(paths)]
    assert manifest["digest"] == hashlib.sha256("".join(lines).encode()).hexdigest()
    calls = [json.loads(line) for line in (folder / jsonl.FILE).read_text().splitlines()]
    counts, several = manifest["counts"], sum(len(call.get("legal", ())) > 1 for call in calls)
    assert counts["calls"] == len(calls)
    assert counts["calls with several legal results"] == counts["no node test"]["several legal results"] == several > 0
    assert counts["left out of the walk"]["left open by the text"] > 0


def test_the_same_versions_write_the_same_bytes(tmp_path: Path) -> None:
    for hash_seed in "12":
        command = [sys.executable, "-m", "xverify", "vectors", "--contract", "ai.onnx/DequantizeLinear-10"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        subprocess.run([*command, "-o", str(tmp_path / hash_seed)], env=environment, check=True, capture_output=True)
    first, second = (
        {
            path.relative_to(tmp_path / seed): path.read_bytes()
            for path in (tmp_path / seed).rglob("*")
            if path.is_file()
        }
        for seed in "12"
    )
    assert first == second
    assert Path(corpus.MANIFEST) in first
    text = first[Path(corpus.MANIFEST)].decode()
    assert str(tmp_path) not in text
    assert not re.search(r"\d{4}-\d{2}-\d{2}", text)


class Reference(Backend):  # type: ignore[misc]
    """ONNX's reference evaluator as a backend, with an optional change of its results."""

    changed = staticmethod(lambda y: y)

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **options: Any) -> Any:
        onnx.checker.check_model(model, full_check=True)
        evaluator = ReferenceEvaluator(model)

        class Prepared(BackendRep):  # type: ignore[misc]
            def run(self, inputs: Any, **options: Any) -> Any:
                with np.errstate(all="ignore"):
                    return [
                        cls.changed(y)
                        for y in evaluator.run(None, dict(zip(evaluator.input_names, inputs, strict=True)))
                    ]

        return Prepared()

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"


class OneUlpUp(Reference):
    """A backend whose results are wrong in the last place."""

    changed = staticmethod(lambda y: (np.asarray(y).view(f"u{y.itemsize}") ^ 1).view(y.dtype))


def run_by_onnx(folder: Path, backend: type[Backend]) -> unittest.TestResult:
    """Run the tests of a folder with onnx's own runner."""
    with patch(
        "onnx.backend.test.runner.load_model_tests", return_value=[]
    ):  # not onnx's own tests, which take seconds
        runner = Runner(backend, __name__)
    for case in load_model_tests(str(folder), kind="onnx"):
        runner._add_model_test(case, "Node")
    result = unittest.TestResult()
    runner.test_suite.run(result)
    return result


def test_onnx_runs_the_node_tests(folder: Path) -> None:
    cases = len(small_corpus().node_tests)
    result = run_by_onnx(folder, Reference)
    assert result.testsRun - len(result.skipped) == cases > 20
    assert not result.failures
    assert not result.errors
    with_nan = [v for v in small_corpus().node_tests if is_nan(v.legal[0], v.output_dtype).any()]
    assert with_nan, "a NaN must be among the expected values, to see that onnx takes every NaN for equal"
    assert len(run_by_onnx(folder, OneUlpUp).failures) > cases / 3  # bfloat16 has a tolerance in onnx's runner


def test_wrong_usage_exits_with_2(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    def error(*options: str) -> str:
        result = CliRunner().invoke(cli.main, ["vectors", *options])
        assert result.exit_code == 2
        return result.output

    assert "is not empty" in error("--contract", "ai.onnx/DequantizeLinear-10", "-o", str(tmp_path))
    new = str(tmp_path / "new")
    assert "no ONNX node tests" in error("--contract", "com.microsoft/DequantizeLinear-1", "--form", "onnx", "-o", new)
    assert "'xml' does not exist" in error("--form", "xml", "-o", new)
    assert "no contract matches" in error("--contract", "nobody/nothing", "-o", new)
    assert not Path(new).exists()
