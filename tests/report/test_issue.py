"""Issue bodies: their content for outsiders, escaping, and the short scripts."""

from __future__ import annotations

import ast
import copy
import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from sample_report import (
    DIVIDE,
    HOSTILE,
    ONEDNN,
    ONNX,
    call,
    finding,
    gave,
    hostile_report,
    range_call,
    refused,
    sample_report,
    tensor,
    wrong,
)
from scripts_run import run_file

from xverify import cli
from xverify.core.call import LAYOUTS, LEAST_RANK, Tensor
from xverify.engine.again import Again
from xverify.report import issue_body, summary
from xverify.report.issue import MOST_LINES, MOST_SCRIPT_LINES, fence
from xverify.report.issue_words import path_in_words
from xverify.report.short_script import MOST_SPELLED, operand, short_program, short_script
from xverify.verify.causes import causes_of


def found(verdict: str, report: dict[str, Any] | None = None) -> str:
    """Return the id of the sample's first finding of a verdict."""
    return str(next(f["id"] for f in (report or sample_report())["findings"] if f["verdict"] == verdict))


def body(verdict: str) -> str:
    return issue_body(sample_report(), found(verdict))


def test_a_violation_says_all_that_a_maintainer_asks() -> None:
    text = body("violation")
    assert text.splitlines()[0] == (
        "# ONNX DequantizeLinear, version 21: ONNX Runtime subtracts in int32 with wrap-around, rounds the product to float32 "
        "when x is int32 where \\|x - zero point\\| \\>= 2^31"
    )
    for part in (
        "import onnxruntime as ort",
        "int32 -2147483648 with scale 1, zero point 1 becomes 2.1475e+09 instead of -2.1475e+09 (of the wrong sign). "
        "ONNX Runtime 1.27.0 returns results that",
        "- at \\[0\\] it gives 2147483648.0 (0x4f000000); allowed is -2147483648.0 (0xcf000000) by a, b",
        "> The dequantization formula is \\`y = (x - x\\_zero\\_point) \\* x\\_scale\\`.",
        "DequantizeLinear-21 in onnx.defs of onnx 1.23.2",
        "(a) rounds the exact value of (x - zero point) \\* scale once; (b) rounds difference and product to float32, then casts",
        "bit-identical to those of an implementation that subtracts in int32 with wrap-around, rounds the product to float32. "
        "This covers 88 204 of 88 204 wrong values.",
        "On all other values they equal those of an implementation that rounds the exact value of",
        "88 204 values in 412 calls; up to 2 130 706 432 representable numbers from the nearest allowed result",
        "All values with `|x - zero point| >= 2^31` are affected, and no others, in a sample of these calls.",
        "Types of the input: int32, scale float32, zero point int32, output float32, per tensor",
        "xverify's NumPy kernel: float32 \\[-2147483648.0",
        "ONNX Runtime 1.27.0",
        "Python 3.11",
        "numpy 2.",
        "Linux x86\\_64, AMD EPYC 9V74, with avx2 avx512f",
    ):
        assert part in text, part
    for jargon in ("reading", "witness", "verdict", "contradicts 'formula'", "clause '", "@installed"):
        assert jargon not in text, jargon


@pytest.mark.parametrize(
    ("verdict", "parts"),
    [
        ("mixed", ("no single rule of rounding", "One rule for all values", "they are unexplained", "2 to 3: 8 203 values",
                   "NaN instead of a number", "No simple condition on the inputs")),
        ("ambiguity", ("no sentence covers a 1-D scale of one element", "and implementations differ",
                       "This need not be a fault of the ONNX reference evaluator", "The text says nothing: no sentence covers")),
        ("wrongly-accepted", ("computes calls that the text forbids (zero point type)", "instead of an error",
                              "a result of type `float32`", "must have the same type")),
        ("wrongly-rejected", ("refuses allowed calls: ", "raises Fail", "ORT_DISABLE_ALL",
                              "[ONNXRuntimeError] : 1 : FAIL", "with graph optimizations off")),
        ("crash", ("ends the process on allowed calls", "An error that the caller can handle is expected",
                   "# The process ends here instead of raising an exception.", "The process ends with `SIGABRT`")),
        ("hang", ("does not return from a call", "# This does not return.", "no answer in 10 s")),
        ("nondeterministic", ("answers the same call with different bits", "too large to be shown here",
                              "`scripts/x.py` and `scripts/nondeterministic-")),
        ("memory", ("writes to the memory of its inputs", "unchanged:")),
    ],
)  # fmt: skip
def test_each_verdict_has_a_frame_of_its_own(verdict: str, parts: tuple[str, ...]) -> None:
    text = body(verdict)
    for part in parts:
        assert part in text, part
    assert text.startswith("# ")
    assert "\n- Versions: " in text


OWN_KERNELS = 'os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"'


@pytest.mark.parametrize(
    ("name", "who", "setting"),
    [
        ("tensorflow[kernels=own]", "TensorFlow", "TF\\_ENABLE\\_ONEDNN\\_OPTS=0"),
        ("onnxruntime[threads=8]", "ONNX Runtime", "threads=8"),
    ],
)
def test_a_variant_is_described_by_its_setting(name: str, who: str, setting: str) -> None:
    """A variant is described by its setting, and a short script sets its environment variables."""
    report = copy.deepcopy(sample_report())
    one = next(f for f in report["findings"] if f["verdict"] == "violation")
    ours = name.partition("[")[2].removesuffix("]")
    one.update(
        verdict="nondeterministic", summary=f"{name.partition('[')[0]} answers with {ours} what it refuses without it"
    )
    one["subject"]["name"] = name
    if name.startswith("tensorflow"):
        one["witness"]["call"] = range_call()
    one["detail"] = "second-call-differs"
    assert f"{who} with {setting} answers the same call with different bits" in issue_body(report, one["id"])
    one["detail"] = f"{ours}:answers"
    one["others"] = [{"name": name, "outcome": "rejected: Error"}, *one["others"]]
    text = issue_body(report, one["id"])
    assert text.splitlines()[0].endswith(f": {who} answers with {setting} what it refuses without it")
    for part in (
        f"\n{who} answers with {setting} what it refuses without it. The result depends on the machine",
        "No short script makes this call. Attached is `scripts/x.py`"
        if setting == ours
        else OWN_KERNELS + "  # compare",
        f"- {who} with {setting} refuses this call (Error).\n",
        f"- Versions: {who} {one['subject']['version']} with {setting}",
    ):
        assert part in text, part
    violation = str(short_script({**one, "verdict": "violation"}))
    assert "import onnxruntime" in violation if setting == ours else f"{OWN_KERNELS}\nimport" in violation
    for wrong_here in ("several times", ours if setting != ours else "kernels"):
        assert wrong_here not in re.sub(r"```.*?```", "", text, flags=re.S)


def test_a_conflict_goes_to_those_who_maintain_the_documents() -> None:
    report = sample_report()
    text = issue_body(report, next(f["id"] for f in report["findings"] if f["subject"]["name"] == DIVIDE))
    for part in (
        "# Two documents give different results for the same call: seed 001, oneDNN graph dialect, and seed 002",
        "No implementation is at fault",
        "| x | int8 | \\[1\\] | 3 | 0x03 |",
        "> dst = (src - zps) \\* scales",
        "> output\\_\\{i\\} = (input\\_\\{i\\} - zp) / scale",
        "seed 002, oneDNN developer guide gives 6.0 (0x40c00000); seed 001, oneDNN graph dialect allows 1.5 (0x3fc00000)",
        "multiplies follows seed 001, oneDNN graph dialect on 1 204 of 1 204 values.",
        "divides follows seed 002, oneDNN developer guide on 1 204 of 1 204 values.",
    ):
        assert part in text, part
    assert "```python" not in text
    itself = next(f["id"] for f in report["findings"] if f["verdict"] == "conflict" and f["witness"] is None)
    assert "the text declares max\\_scale\\_factor twice" in issue_body(report, itself)


def test_every_finding_of_the_sample_and_of_a_hostile_one_has_a_body() -> None:
    for report in (sample_report(), hostile_report()):
        for one in report["findings"]:
            text = issue_body(report, one["id"])
            assert len(text) < 65_536
            assert len(text.splitlines()) <= MOST_LINES
            outside = re.sub(r"^(`{3,})\w*\n.*?^\1$", "", text, flags=re.S | re.M)
            outside = "".join(part for i, part in enumerate(re.split(r"(?<!\\)`", outside)) if i % 2 == 0)
            outside = outside.replace("<details><summary>Evidence</summary>", "").replace("</details>", "")
            outside = outside.replace("<!-- -->", "")
            assert not re.search(r"(?<!\\)[<>\[\]](?!\s)", outside.replace("\n> ", "\n").replace("\n>", "\n")), one[
                "id"
            ]
            assert "![" not in outside


@pytest.mark.parametrize(
    ("again", "words"),
    [
        (Again("1.32.0", True, "STILL", "2026-11-27"), "1.32.0, the newest release: it still does this."),
        (Again("1.32.0", False, "FIXED", "2026-11-27"), "1.32.0: it does not do this any more."),
        (
            Again("2", True, "UNSEEN", "2026-11-27", "not seen in 20 tries"),
            "release: it does not show (not seen in 20 tries).",
        ),
    ],
)
def test_an_issue_says_which_release_was_asked_again(again: Again, words: str) -> None:
    report = sample_report()
    text = issue_body(report, found("violation"), again)
    assert f"- Asked again on 2026-11-27 with ONNX Runtime {again.version}" in text
    assert words in text
    assert "Asked again" not in issue_body(report, found("violation"))


def test_a_cause_counts_all_its_findings() -> None:
    report = copy.deepcopy(sample_report())
    first = next(f for f in report["findings"] if f["verdict"] == "violation")
    report["findings"].append({**first, "id": "violation-2", "values": 96, "cases": 8})
    report["causes"] = causes_of(report)
    identity = next(c["id"] for c in report["causes"] if "violation-2" in c["findings"])
    assert "Seen in 88 300 values in 420 calls" in issue_body(report, identity)
    assert "Seen in 96 values in 8 calls" in issue_body(report, "violation-2")


def of_one_cause(*changes: dict[str, Any], verdict: str = "violation") -> str:
    """Return the body of a cause with the sample's first finding of a verdict and changed copies of it."""
    report = copy.deepcopy(sample_report())
    first = next(f for f in report["findings"] if f["verdict"] == verdict)
    if verdict == "crash":
        first["witness"]["got"]["message"] = "killed by SIGABRT\nno primitive"
    report["findings"] = [first, *({**first, "id": f"{first['id']}-{i}", **each} for i, each in enumerate(changes))]
    report["causes"] = causes_of(report)
    assert len(report["causes"]) == 1
    return issue_body(report, report["causes"][0]["id"])


def test_a_region_is_stated_only_if_all_findings_have_it() -> None:
    stated = "All values with `|x - zero point| >= 2^31` are affected"
    assert stated in of_one_cause({})
    for other in ("y is zero", "everywhere", "no simple region"):
        text = of_one_cause({"region": {"name": other, "words": other}})
        for claim in (stated, "Every value of these types", "No simple condition", "2^31"):
            assert claim not in text
    assert stated not in of_one_cause({"region": None})
    nowhere = {"name": "", "words": "no simple region"}
    first = copy.deepcopy(sample_report())
    for one in first["findings"]:
        one["region"] = nowhere
    assert "No simple condition" in issue_body(first, found("violation"))


def test_the_values_of_other_findings_are_counted_beside_those_of_the_recipe() -> None:
    assert "This covers 88 204 of 88 204 wrong values.\n" in of_one_cause()
    other = {"values": 96, "attribution": {**sample_report()["findings"][0]["attribution"], "explained_values": 90}}
    assert (
        "88 204 wrong values. The same mistake, in this or other arithmetic, gives 90 of the other 96.\n"
        in of_one_cause(other)
    )


def test_a_forbidden_call_that_wrote_nothing_has_no_result() -> None:
    detail = "zero-point-type:never-written"
    report = copy.deepcopy(sample_report())
    one = next(f for f in report["findings"] if f["verdict"] == "wrongly-accepted")
    one["detail"] = detail
    report["causes"] = causes_of(report)
    text = issue_body(report, one["id"])
    for part in (
        "accepts calls that the text forbids, and writes nothing (zero point type)\n",
        "accepts a call that the text forbids, and writes nothing, and returns no error. ",
        "\nIt returns, and the memory of the output keeps its bytes.\n",
    ):
        assert part in text, part
    for claim in ("computes", "It gives a result"):
        assert claim not in text.partition("<details>")[0]


def test_mixed_values_are_not_counted_as_wrong() -> None:
    by = {**sample_report()["findings"][0]["attribution"], "explained_values": 36_612, "values": 36_612}
    text = of_one_cause({"verdict": "mixed", "values": 36_612, "cases": 94, "max_ulp": 0, "attribution": by})
    assert "Seen in 88 204 values in 412 calls; up to" in text
    apart = "Also seen in 36 612 values in 94 calls, each allowed, but not all by the same rule of rounding."
    assert apart in text
    assert "This covers 88 204 of 88 204 wrong values.\n" in text


def test_a_distance_near_zero_is_given_in_last_places_of_the_range() -> None:
    report = copy.deepcopy(sample_report())
    one = next(f for f in report["findings"] if f["verdict"] == "violation")
    one["range_places"] = 3
    assert "; up to 3 last places of the range's larger end from the nearest allowed result." in issue_body(
        report, one["id"]
    )
    one["range_places"] = 1 << 20
    assert "representable numbers from the nearest" in issue_body(report, one["id"])


def test_calls_that_the_text_forbids_or_leaves_open_are_counted_apart() -> None:
    types = {"x_dtype": "int16", "scale_dtype": "float16"}
    first = next(f for f in sample_report()["findings"] if f["verdict"] == "crash")
    cell = {
        "contract": first["contract"],
        "zero_point_dtype": "",
        "out_dtype": "float32",
        "granularity": "per_tensor",
        "variant": "",
    }
    allowed = {
        "detail": "allowed:values",
        "cells": [{**cell, "x_dtype": "uint8", "scale_dtype": "float32"}],
        "cases": 2,
    }
    text = of_one_cause(
        {"detail": "forbidden:axis-range:values", "cases": 3, "cells": [{**cell, **types}]},
        {"detail": "unspecified:axis:values", "cases": 1, "cells": [{**cell, **types}]},
        allowed, verdict="crash",
    )  # fmt: skip
    assert "Also seen in 3 calls that the text forbids and 1 call that the text leaves open." in text
    assert "int16" not in text
    assert "uint8" in text


def test_a_type_of_x_is_given_with_all_types_of_the_other_operands() -> None:
    cell = sample_report()["findings"][0]["cells"][0]
    text = of_one_cause(
        {
            "cells": [
                {**cell, "scale_dtype": "float16", "granularity": "per_axis"},
                {**cell, "zero_point_dtype": ""},
                cell,
            ]
        }
    )
    assert (
        "Types of the input: int32, scale float32 or float16, zero point int32, output float32, per tensor, per axis or blocked."
        in text
    )


def test_a_name_with_a_version_is_that_of_the_product() -> None:
    others = [
        {"name": "tvm==0.27.0", "outcome": "float32 [1.0 (0x3f800000)]"},
        {"name": "iree==3.13.0", "outcome": "unsupported: StopIteration"},
        {"name": "tensorflow-xla", "outcome": "rejected: InvalidArgumentError"},
        {"name": "openvino[threads=8]==2026.4.1", "outcome": "crash: SIGABRT"},
    ]
    report = copy.deepcopy(sample_report())
    one = next(f for f in report["findings"] if f["verdict"] == "violation")
    one.update(others=others, subject={**one["subject"], "name": "openvino==2026.4.1", "version": "2026.4.1"})
    report["causes"] = causes_of(report)
    text = issue_body(report, one["id"])
    for part in (
        "21: OpenVINO subtracts", " OpenVINO 2026.4.1 returns results", "- Versions: OpenVINO 2026.4.1 (2026), ",
        "- TVM 0.27.0: float32",
        "- IREE 3.13.0 does not support this call.\n", "- TensorFlow (XLA) refuses this call (InvalidArgumentError).\n",
        "- OpenVINO 2026.4.1 with threads=8: crash: SIGABRT\n",
    ):  # fmt: skip
        assert part in text, part
    prose = re.sub(r"```.*?```|`[^`\n]+`", "", text, flags=re.S)
    for wrong_here in ("==", "Openvino", "StopIteration"):
        assert wrong_here not in prose


@pytest.mark.parametrize(
    ("got", "due", "words"),
    [
        ("-0.4549", "-0.45882", " (off by 0.85 %)."), ("-0.2", "-0.03", " (off by a factor of 6.67)."),
        ("0.03", "0.2", " (off by a factor of 6.67)."), ("2.0", "-0.5", " (of the wrong sign)."), ("0.0", "-2.5", "."),
        ("nan", "1.0", "."), ("1.0", "0.0", "."),
    ],
)  # fmt: skip
def test_the_first_paragraph_gives_the_error_beside_the_numbers(got: str, due: str, words: str) -> None:
    report = copy.deepcopy(sample_report())
    one = next(f for f in report["findings"] if f["verdict"] == "violation")
    one["witness"]["legal"] = [wrong([0], (got, "0x01"), (due, "0x02", ["exact"]))]
    one["max_ulp"] = 1
    report["causes"] = causes_of(report)
    next(c for c in report["causes"] if one["id"] in c["findings"])["effect"] += (
        "; other values are wrong; in this call it also adds"
    )
    paragraph = issue_body(report, one["id"]).splitlines()[2]
    number = {"nan": "nan"}.get(got, f"{float(got):.5g}")
    assert (
        f"becomes {number} instead of {float(due):.5g}{words} Other values are wrong. In this call it also adds. ONNX"
        in paragraph
    )


def test_a_long_title_ends_early_and_names_a_graph_only_if_there_is_one() -> None:
    report = copy.deepcopy(sample_report())
    identity, entry = found("crash"), next(c for c in report["causes"] if c["kind"] == "crash")
    entry["title"] = f"ends the process on allowed calls ({'a long message ' * 20}; SIGABRT)"
    head = issue_body(report, identity).splitlines()[0].removeprefix("# ")
    assert len(head) <= 250
    assert "in a graph" not in head
    entry["title"] += ", in a graph (Gather after the result)"
    head = issue_body(report, identity).splitlines()[0].removeprefix("# ")
    assert (len(head) <= 250, head.endswith(" ..., in a graph")) == (True, True)


@pytest.mark.parametrize(
    ("reading", "who", "quoted"),
    [
        ("graph:quantize-rounds-down", "ONNX QuantizeLinear, opset 21: ", "> The quantization formula is"),
        *(
            (f"graph:{token}:Clip", "ONNX Clip, opset 21: ", "\nThe text of Clip decides this")
            for token in ("zero-sign", "zero-lost", "zero-gained", "finite", "bound-of-zero")
        ),
        ("graph:unrounded", "ONNX DequantizeLinear, version 21: ", "> The dequantization formula is"),
    ],
)
def test_the_text_of_the_operator_at_fault_is_quoted(reading: str, who: str, quoted: str) -> None:
    report = copy.deepcopy(sample_report())
    one = next(f for f in report["findings"] if f["verdict"] == "violation")
    one["attribution"] = {"reading": reading, "words": "rounds", "explained_values": 1, "values": 1}
    one["witness"]["in_graph"] = True
    text = issue_body({**report, "causes": causes_of(report)}, one["id"])
    assert text.startswith(f"# {who}")
    assert quoted in text
    assert ("> The dequantization formula" in text) is (reading == "graph:unrounded")
    assert "optimiser" not in text


def test_the_source_is_named_whatever_the_length(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = len(body("violation").splitlines())
    for less, more_facts in ((0, ""), (1, "- and 2 more facts"), (3, "")):
        monkeypatch.setattr("xverify.report.issue.MOST_LINES", whole - less)
        text = body("violation")
        assert "- Found with xverify" in text
        assert len(text.splitlines()) <= whole - less
        assert more_facts in text


def test_paths_are_described_for_outsiders() -> None:
    assert path_in_words("graph precision=float32") == (
        "in a graph of more than one operator with float32 as INFERENCE_PRECISION_HINT"
    )
    assert path_in_words("graph optimization=off moves=quantized").endswith(
        "optimizations off with quantized values moved around"
    )
    assert (path_in_words("io binding"), path_in_words("threads=4")) == ("with IO binding", "with threads=4")


def test_a_call_that_needs_a_negative_axis_is_shown_with_the_sentence_on_the_axis() -> None:
    report = copy.deepcopy(sample_report())
    one = next(f for f in report["findings"] if f["verdict"] == "violation")
    clause = {
        **summary.clauses(report)[one["clause"]],
        "id": f"{one['contract']}/axis-range",
        "text": "in the range [-r, r-1]",
    }
    next(e for e in report["editions"] if e["id"] == one["contract"])["clauses"].append(clause)
    assert "[-r" not in issue_body(report, one["id"])
    one["needs"] = "a negative axis"
    text = issue_body(report, one["id"])
    assert "> in the range \\[-r, r-1\\]" in text
    assert "The call below needs a negative axis: an equal call without it gets an allowed result." in text
    one["region"] = {"name": "", "words": "no simple region"}
    assert "No simple condition" not in issue_body(report, one["id"])


def test_text_does_not_end_its_code_block() -> None:
    hostile = "text\n```\n`````\n<script>"
    opening, *inside, closing, blank = "\n".join(fence(hostile, "text")).split("\n")
    assert (opening, closing, blank) == ("``````text", "``````", "")
    assert "\n".join(inside) == hostile
    report = sample_report()
    identity = found("wrongly-rejected", report)
    one = next(f for f in report["findings"] if f["id"] == identity)
    one["witness"]["got"]["message"] = "before\n```\n# a heading"
    assert "````text\nbefore\n```\n# a heading\n````\n" in issue_body(report, identity)


# The command


def run_command(tmp_path: Path, *words: str) -> tuple[int, str]:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(sample_report()))
    result = CliRunner().invoke(cli.main, ["report", str(path), *words])
    return result.exit_code, result.output


def test_the_command_writes_the_body(tmp_path: Path) -> None:
    for words in (["--issue"], ["--format", "markdown", "--finding"]):
        code, output = run_command(tmp_path, *words, found("violation"))
        assert (code, output) == (0, body("violation"))


def test_a_wrong_id_names_the_nearest(tmp_path: Path) -> None:
    right = found("violation")
    out = tmp_path / "out.md"
    out.write_text("what was there")
    code, output = run_command(tmp_path, "--format", "markdown", "--finding", right[:-1] + "x", "-o", str(out))
    assert (code, right in output, out.read_text()) == (2, True, "what was there")
    code, output = run_command(tmp_path, "--format", "markdown", "--finding", "%%%%")
    assert (code, f"it has {len(sample_report()['findings'])} findings" in output) == (2, True)


def test_other_formats_have_no_issue(tmp_path: Path) -> None:
    code, output = run_command(tmp_path, "--format", "html", "--issue", found("violation"))
    assert (code, "leave --format out" in output) == (2, True)
    code, output = run_command(tmp_path, "--again")
    assert (code, "--again needs --issue ID" in output) == (2, True)


# The scripts


def evaluated(lines: list[str]) -> Any:
    """Return the tensor that lines of a script make."""
    import base64
    import zlib

    import ml_dtypes

    names: dict[str, Any] = {"np": np, "ml_dtypes": ml_dtypes, "base64": base64, "zlib": zlib}
    exec("\n".join(lines), names)
    return names["x"]


LITERALS = [
    Tensor("int32", np.array([0x80000000, 1, 0xFFFFFFFF], np.uint32)),
    Tensor("float32", np.array([0x7FC00000, 0x7F800000, 0xFF800000, 0x80000000, 1, 0x44FFFFFF], np.uint32)),
    Tensor("float32", np.array([0x7FC00001, 0xFFC00000], np.uint32)),
    Tensor("float16", np.array([[0x0001, 0xFC00], [0x3C01, 0x8000]], np.uint16)),
    Tensor("bfloat16", np.array([0x3F81, 0x7FC1], np.uint16)),
    Tensor("float8_e4m3fn", np.arange(256, dtype=np.uint8).reshape(16, 16)),
    Tensor("int4", np.array([0xF, 0x7, 0x8], np.uint8)),
    Tensor("float32", np.array(0x3DCCCCCD, np.uint32)),
    Tensor("int8", np.zeros((2, 0, 3), np.uint8)),
    Tensor("int8", np.full((3, 2), 0x80, np.uint8)),
    Tensor("float16", np.array([[1, 2, 3]] * 2, np.uint16)),
    Tensor("uint8", np.array([0] * 20 + [154] + [0] * 243, np.uint8).reshape(2, 132)),
    Tensor("float16", np.array([[0x3C01] * 40 + [0x8000]] * 2, np.uint16)),
    Tensor("uint8", np.random.default_rng(6).integers(0, 256, 26, np.uint8)),
    Tensor("float8_e5m2", np.random.default_rng(7).integers(0, 256, (4, 64), np.uint8)),
    Tensor("int16", np.random.default_rng(3).integers(0, 1 << 16, (7, 101), np.uint16)),
    Tensor("bfloat16", np.random.default_rng(4).integers(0, 1 << 16, 501, np.uint16)),
]


@pytest.mark.parametrize("given", LITERALS, ids=lambda t: f"{t.dtype}-{t.shape}")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_literal_gives_back_the_bits_the_shape_and_the_layout(given: Tensor, layout: str) -> None:
    laid = Tensor(given.dtype, given.codes, layout)
    lines = operand("x", laid)
    array = evaluated(lines)
    assert (array.dtype.name, array.shape) == (given.dtype, given.shape)
    codes = np.ascontiguousarray(array).view(given.codes.dtype).reshape(given.shape)
    assert (codes & ((1 << 4) - 1) == given.codes).all() if given.dtype == "int4" else (codes == given.codes).all()
    assert max(map(len, lines)) <= 300
    if given.size > 1 and (layout in LEAST_RANK or layout == "broadcast") and len(given.shape) > 0:
        assert array.strides == laid.laid_out().strides
    if layout == "read-only" and given.shape:
        assert not array.flags.writeable
    if layout == "misaligned" and given.size:
        assert array.ctypes.data % 8 == 1


@pytest.mark.parametrize(
    ("dtype", "codes", "line"),
    [
        ("uint8", [0] * 20 + [154] + [0] * 243, "x = np.array([0] * 20 + [154] + [0] * 243, np.uint8)"),
        ("uint8", range(90, 120), f'x = np.array(list(bytes.fromhex("{bytes(range(90, 120)).hex()}")), np.uint8)'),
        ("uint8", [1, 1, 2], "x = np.array([1, 1, 2], np.uint8)"),
    ],
)
def test_values_that_need_a_line(dtype: str, codes: list[int], line: str) -> None:
    assert operand("x", Tensor(dtype, np.array(codes, np.uint8))) == [line]


def test_a_large_tensor_is_short() -> None:
    codes = np.random.default_rng(5).integers(0, 1 << 16, 4096, np.uint16)
    lines = operand("x", Tensor("float16", codes))
    assert codes.size > MOST_SPELLED
    assert len("\n".join(lines)) < 12_500


def made(name: str, options: str = "", x: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Return a finding on 3 * 0.5 in float32."""
    given = call(
        ONNX, {"x": x or tensor("int8", [1], ["3"], ["0x03"]), "scale": tensor("float32", [], ["0.5"], ["0x3f000000"])}
    )
    witness = {
        "call": given,
        "got": gave("float32", [1], ["1.5"], ["0x3fc00000"]),
        "legal": [wrong([0], ("1.5", "0x3fc00000"), ("2.0", "0x40000000", ["exact"]))],
    }
    subject = {"name": name, "version": "1", "role": "oracle", "options": options}
    return finding("violation", name, ONNX, "formula", "a summary", witness, subject=subject, **changes)


def outcome(script: str | None, directory: Path) -> str:
    """Return the output of a script that runs in another directory, without xverify on the path."""
    assert script is not None
    path = directory / "script.py"
    path.write_text(script)
    status, stdout, stderr = run_file(path)
    assert status == 0, stderr
    return stdout


@pytest.mark.parametrize("name", ["onnxruntime", "onnx-reference"])
@pytest.mark.parametrize(
    ("dtype", "code"), [("int8", "0x03"), ("uint4", "0x3"), ("int2", "0x1"), ("float8_e4m3fn", "0x44")]
)
def test_short_scripts_run_and_print_the_bits(name: str, dtype: str, code: str, tmp_path: Path) -> None:
    one = made(name, x=tensor(dtype, [1], ["3"], [code]))
    one["contract"] = one["witness"]["call"]["contract"] = "ai.onnx/DequantizeLinear-25"
    script = short_script(one)
    assert script is not None
    assert len(script.splitlines()) < 30
    assert "xverify" not in script
    expected = "0.5 0x3f000000" if dtype == "int2" else "1.5 0x3fc00000"
    assert outcome(script, tmp_path).splitlines() == ["float32 (1,)", expected]


@pytest.mark.parametrize(
    ("options", "sign"), [("optimization=off", "ORT_DISABLE_ALL"), ("initializers", 'from_array(scale, "scale")')]
)
def test_short_scripts_take_the_path_through_onnxruntime(options: str, sign: str, tmp_path: Path) -> None:
    script = short_script(made("onnxruntime", options))
    assert sign in str(script)
    assert "1.5 0x3fc00000" in outcome(script, tmp_path)


def test_a_short_script_reads_bfloat16_from_memory() -> None:
    """ONNX Runtime's CPU provider has no such output yet, and NumPy could not take it."""
    one = made("onnxruntime")
    one["witness"]["got"] = gave("bfloat16", [1], ["1.5"], ["0x3fc0"])
    script = str(short_script(one))
    ast.parse(script)
    for line in ("import ctypes", "import ml_dtypes", "reshape(result.shape()).view(ml_dtypes.bfloat16)", "np.uint16"):
        assert line in script


def test_short_scripts_of_memory_and_of_different_answers(tmp_path: Path) -> None:
    assert outcome(short_script({**made("onnxruntime"), "verdict": "nondeterministic"}), tmp_path).startswith(
        "1 different"
    )
    lines = outcome(short_script({**made("onnxruntime"), "verdict": "memory"}), tmp_path).splitlines()
    assert lines == [f"{name} unchanged: True shared with the output: False" for name in ("x", "scale")]


def test_a_short_script_of_tensorflow(tmp_path: Path) -> None:
    witness = {
        "call": range_call(),
        "got": gave("float32", [2], ["0.0", "6.0"], ["0x00000000", "0x40c00000"]),
        "legal": [wrong([1], ("6.0", "0x40c00000"), ("5.0", "0x40a00000", ["exact"]))],
    }
    one = finding("violation", "tensorflow", "tensorflow/Dequantize@installed", "formula", "a summary", witness)
    script = short_script(one)
    assert "tf.quint8" in str(script)
    assert "6.0 0x40c00000" in outcome(script, tmp_path)


def of_onednn(allowed: str = "2.0") -> dict[str, Any]:
    """Return a finding on -128 * 0.5 of oneDNN's DynamicDequantize."""
    one = made("onednn", x=tensor("int8", [2], ["1", "-128"], ["0x01", "0x80"]))
    one["contract"] = one["witness"]["call"]["contract"] = "onednn/DynamicDequantize-1@3.0"
    one["witness"]["call"]["tensors"]["scale"]["shape"] = [1]
    one["witness"]["legal"] = [wrong([1], ("-64.0", "0xc2800000"), (allowed, "0x40000000", ["exact"]))]
    return one


def test_a_short_program_of_onednn_is_in_c() -> None:
    short = short_program(of_onednn())
    assert short is not None
    assert short.language == "c"
    assert len(short.text.splitlines()) <= MOST_SCRIPT_LINES
    assert "int8_t x[] = {1, -128};" in short.text
    assert "float scale[] = {0.5f};" in short.text
    hostile = short_program(of_onednn('2.0 \\\n"; system("true"); // ' + "\\"))
    assert hostile is not None
    assert [line.partition("  // allowed")[0] for line in hostile.text.splitlines()] == [
        line.partition("  // allowed")[0] for line in short.text.splitlines()
    ]
    assert not any(line.endswith("\\") for line in hostile.text.splitlines())


def in_float16() -> dict[str, Any]:
    """Return the finding with scale and result in float16."""
    one = of_onednn()
    one["witness"]["call"]["tensors"]["scale"] = tensor("float16", [1], ["0.5"], ["0x3800"])
    one["witness"]["got"] = gave("float16", [2], ["0.5", "-64.0"], ["0x3800", "0xd400"])
    return one


def test_a_program_has_the_codes_of_types_that_c_lacks() -> None:
    text = str(short_script(in_float16()))
    for part in (
        "uint16_t scale[] = {0x3800}; /* 0.5 */",
        "uint16_t y[2];",
        "{y, dnnl_f16, 1, {2}}",
        '"0x%04x\\n", y[1]);',
    ):
        assert part in text
    one = of_onednn()
    one["witness"]["call"]["tensors"]["x"] = tensor("int4", [3], ["1", "-8", "7"], ["0x1", "0x8", "0x7"])
    one["witness"]["legal"] = []
    text = str(short_script(one))
    assert "uint8_t x[] = {0x81, 0x07}; /* 1, -8, 7 */" in text
    assert "{x, dnnl_s4, 1, {3}}" in text


@pytest.mark.parametrize(
    ("version", "name", "wheels"),
    [
        ("2026.1.0", "onednn==2026.1.0", "pip install onednn==2026.1.0 onednn-devel==2026.1.0"),
        ("2023.2.0", "onednn", "pip install onednn-cpu-gomp==2023.2.0 onednn-devel-cpu-gomp==2023.2.0"),
        ("3.5", "onednn:/path/libdnnl.so.3", ""),
        ("2026.1; rm x", "onednn", ""),
    ],
)
def test_the_commands_of_a_program(version: str, name: str, wheels: str) -> None:
    one = of_onednn()
    one["subject"] = {**one["subject"], "name": name, "version": version}
    text = issue_body({**sample_report(), "findings": [one], "causes": []}, one["id"])
    assert ("pip install" in text) == bool(wheels)
    assert wheels in text
    assert ("libintelocl" in text) == version.startswith("2026.1.")
    assert "cc dequantize.c -ldnnl && " in text
    assert "rm x" not in text.split("```c")[1]


def test_an_install_line_names_what_a_script_imports() -> None:
    report = {**sample_report(), "causes": []}
    report["run"] = {**report["run"], "versions": {"numpy": "2.4.6", "onnx": "1.23.2"}}
    for name, version, words in (
        ("onnxruntime", "1.27.0", "To run it: `pip install onnxruntime==1.27.0 onnx==1.23.2 numpy==2.4.6` in"),
        ("onnx-reference", "1.23.2", "`pip install onnx==1.23.2 numpy==2.4.6` in a virtual environment."),
        ("onnxruntime", "1.18.0", "`pip install onnxruntime==1.18.0 onnx==1.23.2 'numpy<2'` in"),
        ("onnxruntime", "1.27`; rm x", ""),
        ("xverify-numpy", "0.1.0", ""),
    ):
        one = {**made(name), "id": "violation-0123456789"}
        one["subject"] = {**one["subject"], "version": version}
        text = issue_body({**report, "findings": [one]}, one["id"])
        assert ("pip install" in text) == bool(words)
        assert words in text


def test_an_install_line_for_an_old_numpy_lets_pip_choose_ml_dtypes() -> None:
    report = {**sample_report(), "causes": []}
    report["run"] = {**report["run"], "versions": {"onnx": "1.23.2", "ml_dtypes": "0.6.0"}}
    one = made("onnxruntime", "all initializers", x=tensor("float8_e4m3fn", [1], ["3"], ["0x44"]))
    for version, words in (("1.18.0", "'numpy<2' ml_dtypes`"), ("1.27.0", " ml_dtypes==0.6.0`")):
        one["subject"] = {**one["subject"], "version": version}
        assert words in issue_body({**report, "findings": [one]}, one["id"])


@pytest.mark.parametrize(("one", "printed"), [(of_onednn(), "-64 0xc2800000\n"), (in_float16(), "")])
def test_the_program_of_onednn_runs(one: dict[str, Any], printed: str, tmp_path: Path) -> None:
    """TensorFlow's wheel has oneDNN's headers.

    The installed library is too old for float16, so that program is only compiled.
    """
    from xverify.oracles.onednn_library import installed

    compiler, tensorflow = shutil.which("cc"), importlib.util.find_spec("tensorflow")
    if compiler is None or tensorflow is None or tensorflow.origin is None:
        pytest.skip("no C compiler, or no headers")
    headers = Path(tensorflow.origin).parent / "include" / "external" / "onednn" / "include"
    source, program = tmp_path / "a.c", tmp_path / "a.out"
    source.write_text(str(short_script(one)))
    library = Path(installed())
    command = [
        compiler,
        "-Wall",
        "-Werror",
        source,
        f"-I{headers}",
        library,
        f"-Wl,-rpath,{library.parent}",
        "-o",
        program,
    ]
    subprocess.run(list(map(str, command)), check=True, timeout=60)
    if printed:
        done = subprocess.run([str(program)], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (0, printed)


def test_findings_that_a_short_script_cannot_show_have_none() -> None:
    assert short_script(made("an-unknown-one")) is None
    report = sample_report()
    by_verdict = {one["verdict"]: one for one in report["findings"]}
    assert short_script(by_verdict["conflict"]) is None
    assert short_script(by_verdict["nondeterministic"]) is None, "its values are in a file"
    damaged = made("onnxruntime", x=tensor("int8", [2], ["3"], ["0x03"]))
    assert short_script(damaged) is None
    assert "No short script makes this call. Attached is `scripts/" in issue_body(
        {**report, "findings": [made("an-unknown-one")]}, made("an-unknown-one")["id"]
    )


QUOTES = '"""\n\'\'\'\\"; import os; os._exit(7) #' + HOSTILE + "\ud83d\u202e\x00\n{x}"


@pytest.mark.parametrize(
    "name", ["onnxruntime", "onnx-reference", "tensorflow", "onednn-formula-divide", "xverify-numpy"]
)
def test_text_becomes_no_code(name: str) -> None:
    """Hostile text changes neither the statements of a script nor their number."""

    def shape(script: str | None) -> list[str]:
        tree = ast.parse(str(script))
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant):
                node.value = 0
        return [ast.dump(node) for node in tree.body]

    clean = made(name)
    if name == "tensorflow":
        clean["witness"]["call"] = range_call()
    clean["witness"]["call"]["attributes"] = {"mode": "text", "axis": 1}
    soiled = copy.deepcopy(clean)
    soiled["summary"] = soiled["id"] = soiled["clause"] = QUOTES
    soiled["witness"]["call"]["attributes"]["mode"] = QUOTES
    for one in soiled["witness"]["legal"][0]["legal"]:
        one.update(decimal=QUOTES, hex=QUOTES)
    assert shape(short_script(soiled)) == shape(short_script(clean))
    soiled["witness"]["call"]["attributes"] = {QUOTES: 1}
    assert short_script(soiled) is None


def test_a_refusal_raises_where_the_script_says_so(tmp_path: Path) -> None:
    one = made("onnx-reference")
    one["verdict"] = "wrongly-rejected"
    one["witness"].update(got=refused("rejected", "Fail", "no"), legal=[])
    script = str(short_script(one))
    assert "# One of the lines below raises." in script
    assert "print" not in script
    assert ONEDNN not in script
