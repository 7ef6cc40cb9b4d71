"""Issue bodies: their content for outsiders, escaping, and the command."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sample_report import (
    DIVIDE,
    hostile_report,
    range_call,
    sample_report,
    wrong,
)

from xverify import cli
from xverify.engine.again import Again
from xverify.report import issue_body, summary
from xverify.report.issue import MOST_LINES, fence
from xverify.report.issue_words import path_in_words
from xverify.report.short_script import short_script
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
    assert "\n>\n> in the range \\[-r, r-1\\]\n>\n> (" in text, "both sentences are of one document"
    assert "The call below needs a negative axis: an equal call without it gets an allowed result." in text
    one["region"] = {"name": "", "words": "no simple region"}
    assert "No simple condition" not in issue_body(report, one["id"])
    death = next(f for f in report["findings"] if f["verdict"] == "crash")
    death["needs"] = "a negative axis"
    assert "an equal call without it does not end the process." in issue_body(report, death["id"])


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
