"""The coverage of a run, counted on calls with known structures."""

from __future__ import annotations

import numpy as np

from xverify import contracts
from xverify.core.call import Call, Outcome
from xverify.core.dtypes import tensor
from xverify.engine.coverage import Coverage, by_importance
from xverify.verify.verdicts import judge

ONNX = contracts.get("ai.onnx/DequantizeLinear-21")


def met(call: Call, *outcomes: Outcome) -> dict[str, int]:
    coverage = Coverage()
    coverage.count(judge(ONNX, call), outcomes)
    found = coverage.report([ONNX.domain])["met"]
    assert isinstance(found, dict)
    return found


def call(x, scale, dtype="int16", scale_dtype="float16", layout="C", **attributes) -> Call:
    return Call(ONNX.id, {"x": tensor(dtype, x, layout), "scale": tensor(scale_dtype, scale)}, attributes)


def test_halfway_results_are_counted_and_others_are_not():
    # 2049 and 2051 lie halfway between float16's neighbours 2048, 2050 and 2052; 2050 is one of them.
    assert met(call([2049, 2050, 2051, 3], 1.0))["results halfway between two codes"] == 2
    assert "results halfway between two codes" not in met(call([2050, 1, 2], 1.0))
    # 4097 / 4096 is a quarter of the way: rounded, but no tie.
    assert "results halfway between two codes" not in met(call([4097], 1.0))


def test_numbers_of_a_result():
    found = met(call([1, 2, 32767], [np.inf, -1.0, np.nan], axis=0))
    assert (found["infinite scales"], found["negative scales"], found["NaN scales"]) == (1, 1, 1)
    assert met(call([32767, 1], 60000.0))["infinite results of finite operands"] == 1
    assert met(call([1, 2], 2.0**-20))["subnormal results"] == 2


def test_structures():
    found = met(call(np.zeros((2, 17), int), np.ones((2, 2)), layout="F", axis=-1, block_size=16))
    names = ("rank 2", "layout F", "negative axes", "blocks with a remainder", "tails around 16")
    assert [found.get(name) for name in names] == [1] * 5
    assert "rank 1" not in found


def test_large_structures_are_counted_by_position():
    assert met(call(np.zeros((65_536, 1, 2), int), 1.0))["third-last extents past 65 535"] == 1
    counts = met(call(np.zeros((65_536, 1), int), np.ones(65_536), axis=0))
    assert (counts["second-last extents past 65 535"], counts["more than 65 535 channels"]) == (1, 1)
    counts = met(call(np.zeros((1, 131_072), int), np.ones((1, 65_536)), axis=1, block_size=2))
    assert (counts["last extents past 65 535"], counts["more than 65 535 blocks along an axis"]) == (1, 1)
    counts = met(call(np.zeros((262_145, 17), int), np.ones((262_145, 2)), axis=-1, block_size=16))
    names = ("more than 65 535 rows of a blocked scale", "more than 262 144 rows", "blocks of 16 on the last axis")
    assert [counts[name] for name in names] == [1] * 3
    assert "more than 2^24 elements" not in counts


def test_codes_are_counted_and_those_not_met_are_named():
    coverage = Coverage()
    coverage.count(judge(ONNX, call(list(range(-8, 4)), 1.0, dtype="int4")), ())
    report = coverage.report([ONNX.domain])
    assert report["met"]["codes of int4"] == 12
    assert "4 of the 16 codes of int4" in report["not_met"]


def test_ordinary_use_is_more_important_than_special_values():
    names = [
        "NaN scales",
        "rank 6",
        "3 of the 16 codes of int4",
        "layout F",
        "more than 2^31 elements (--huge)",
        "rank 2",
    ]
    assert by_importance(names) == [names[i] for i in (5, 3, 2, 1, 0, 4)]


def test_refusals_of_forbidden_calls():
    forbidden = call([1], 1.0, scale_dtype="float64")
    assert met(forbidden, Outcome("rejected"), Outcome("tensor", tensor("float32", [1.0]))) == {
        "rejections of forbidden calls": 1
    }


def test_what_no_edition_can_have_is_not_missed():
    texts = [contracts.get(name).domain for name in ("tensorflow/Dequantize@seed", "onednn/Dequantize-1@3.0")]
    missed = [
        set(Coverage().report(domains)["not_met"]) for domains in (texts[:1], texts[1:], texts, [*texts, ONNX.domain])
    ]
    assert [{"NaN scales", "blocks with a remainder", "rank 2"} & names for names in missed] == [
        {"rank 2"}, {"NaN scales", "rank 2"}, {"NaN scales", "rank 2"}, {"NaN scales", "blocks with a remainder", "rank 2"},
    ]  # fmt: skip
