"""QuantizeLinear as a neighbour: its legal codes against exact fractions, its clauses, and the nodes that it forbids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawn_quantize import compare_drawn, compare_ties
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case.node import quantizelinear

from xverify.contracts.documents import schemas
from xverify.contracts.quantize import canonical, clauses, edition, judge, quantize
from xverify.core.call import BITS, Tensor, code_dtype
from xverify.core.dtypes import tensor

EIGHT_BITS = ("int8", "uint8", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
MICROSOFT = "com.microsoft"
X, SCALE = tensor("float32", np.ones((2, 4))), tensor("float32", 1.0)


def test_the_legal_codes_of_drawn_elements() -> None:
    counts = compare_drawn(4000, seed=1)
    assert counts["ambiguous"] > 100
    assert counts["open"] > 20


@pytest.mark.slow
def test_the_legal_codes_of_many_drawn_elements() -> None:
    assert compare_drawn(30_000, seed=2)["elements"] == 30_000


@pytest.mark.parametrize("dtype", EIGHT_BITS)
def test_every_tie_and_its_neighbours(dtype: str) -> None:
    compare_ties(dtype, [3.0], [5] if dtype.endswith("int8") else None)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", EIGHT_BITS)
def test_every_tie_with_many_scales_and_zero_points(dtype: str) -> None:
    # The codes are odd and even numbers, the ends of the range, and NaN and an infinity of the float types.
    compare_ties(dtype, [1.0, -0.75], [0, 1, 0x7C, 0x7F, 0x80, 0xFF])
    compare_ties(dtype, [2.0**-9, 201.0], None)


def test_the_zero_point_comes_after_the_rounding() -> None:
    x = tensor("float32", [0.5, 1.5, 2.5, -0.5, 1e9, -np.inf, np.nan])
    y = quantize(21, "", x, SCALE, tensor("int8", 3), {})
    assert [codes.view(np.int8).tolist()[:6] for codes in y.alternatives] == [[3, 5, 5, 3, 127, -128]]
    assert y.open.tolist() == [False] * 6 + [True]


@pytest.mark.parametrize(
    ("opset", "dtype", "saturate", "legal"),
    [
        (23, "float8_e4m3fnuz", 1, {0x7F, 0x80}),
        (24, "float8_e4m3fnuz", 1, {0x7F}),
        (23, "float8_e5m2", 1, {0x7B}),
        (23, "float8_e5m2", 0, {0x7C}),
        (23, "float8_e4m3fn", 0, {0x7F}),
        (23, "float4_e2m1fn", 0, {0x7}),
    ],
)
def test_infinity_in_a_float_type(opset: int, dtype: str, saturate: int, legal: set[int]) -> None:
    y = quantize(opset, "", tensor("float32", np.inf), SCALE, None, {"output_dtype": dtype, "saturate": saturate})
    assert {int(codes) for codes in y.alternatives} == legal
    assert not y.open


def test_onnx_s_node_tests_are_legal(monkeypatch: pytest.MonkeyPatch) -> None:
    cases: list[tuple[Any, list[Any], Any, str]] = []
    monkeypatch.setattr(
        quantizelinear, "expect", lambda node, inputs, outputs, name, **_: cases.append((node, inputs, outputs, name))
    )
    for name in dir(quantizelinear.QuantizeLinear):
        if name.startswith("export"):
            getattr(quantizelinear.QuantizeLinear, name)()

    def plain(value: Any) -> Tensor | None:
        array = np.asarray(numpy_helper.to_array(value) if isinstance(value, TensorProto) else value)
        dtype = array.dtype.name
        if dtype not in BITS:
            return None
        codes = array.view(f"u{array.dtype.itemsize}") & ((1 << BITS[dtype]) - 1)
        return Tensor(dtype, codes.astype(code_dtype(dtype)))

    compared = 0
    for node, inputs, outputs, name in cases:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if "output_dtype" in attributes:
            attributes["output_dtype"] = np.dtype(helper.tensor_dtype_to_np_dtype(attributes["output_dtype"])).name
        x, scale, *offsets = (plain(value) for value in inputs)
        due = plain(outputs[0])
        if x is None or scale is None or due is None:
            continue
        zero_point = offsets[0] if offsets else None
        judgement = judge(28, "", x, scale, zero_point, attributes)
        assert judgement.verdict == "allowed" or judgement.clauses[0].endswith("shape-1-zero-point"), name
        y = quantize(28, "", x, scale, zero_point, attributes)
        legal = np.logical_or.reduce([codes == canonical(y.dtype, due.codes) for codes in y.alternatives])
        assert (y.dtype, bool(legal.all())) == (due.dtype, True), name
        compared += 1
    assert compared >= 13


def test_each_edition_has_the_clauses_of_its_rules() -> None:
    names = [(version, "") for d, op, version in schemas("onnx") if (d, op) == ("", "QuantizeLinear")]
    for version, domain in (*names, (1, MICROSOFT)):
        identity, named = edition(version, domain), clauses(version, domain)
        quoted = {name.removeprefix(f"{identity}/") for name, clause in named.items() if clause.text}
        assert quoted >= {"formula", "rounding", "saturation", "zero-point-default", "output-type", "attributes"}
        assert ("division-precision" in quoted) == (version >= 23)
        assert ("float8-overflow" in quoted) == (version >= 19)
        assert all(clause.text or clause.note for clause in named.values())
    assert edition(99) == edition(max(version for version, _ in names))
    assert named[f"{identity}/rounding"].text == "For (x / y_scale), it's rounding to nearest ties to even."


@pytest.mark.parametrize(
    ("opset", "domain", "x", "scale", "zero_point", "attributes", "verdict"),
    [
        (10, "", X, SCALE, tensor("int8", 1), {}, "allowed"),
        (10, "", X, SCALE, None, {"axis": 0}, "forbidden attributes"),
        (10, "", X, tensor("float32", [1.0, 2.0]), None, {}, "forbidden scalar"),
        (10, "", X, tensor("float32", [1.0]), None, {}, "unspecified shape-1-scale"),
        (10, "", X, tensor("float16", 1.0), None, {}, "forbidden scale-type"),
        (13, "", X, tensor("float32", [1.0, 2.0]), None, {"axis": -2}, "allowed"),
        (13, "", X, tensor("float32", [1.0, 2.0]), None, {"axis": 2}, "forbidden axis-range"),
        (13, "", X, tensor("float32", [1.0, 2.0]), None, {}, "unspecified axis-length"),
        (19, "", X, tensor("float16", 1.0), None, {}, "forbidden scale-type"),
        (19, "", X, SCALE, tensor("int16", 1), {}, "forbidden output-type"),
        (21, "", X, SCALE, tensor("int8", 1), {"output_dtype": "uint8"}, "forbidden output-dtype"),
        (21, "", X, SCALE, tensor("int8", [1]), {}, "unspecified shape-1-zero-point"),
        (21, "", X, tensor("float32", [1.0, 2.0]), tensor("int8", 1), {"axis": 0}, "forbidden zero-point-shape"),
        (21, "", X, tensor("float32", [1.0, 2.0]), None, {}, "forbidden granularity"),
        (21, "", X, tensor("float32", np.ones((2, 2))), None, {"block_size": 2}, "allowed"),
        (21, "", X, tensor("float32", np.ones((2, 2))), None, {"block_size": 3}, "allowed"),
        (21, "", X, tensor("float32", np.ones((2, 2))), None, {"block_size": 4}, "forbidden block-shape"),
        (21, "", X, tensor("float32", np.ones((2, 4))), None, {}, "forbidden block-size"),
        (21, "", tensor("float32", [1.0, 2.0]), tensor("float32", [1.0, 2.0]), None, {"axis": 0}, "unspecified rank-1"),
        (21, "", X, SCALE, None, {"precision": "float16"}, "forbidden attributes"),
        (23, "", X, tensor("float16", 1.0), None, {"precision": "float32"}, "allowed"),
        (23, "", X, SCALE, None, {"precision": "int32"}, "unspecified precision-type"),
        (23, "", X, SCALE, None, {"saturate": 2}, "unspecified saturate-value"),
        (23, "", X, SCALE, None, {"output_dtype": "int2"}, "forbidden output-type"),
        (1, MICROSOFT, X, tensor("float32", [1.0, 2.0]), None, {"axis": 0}, "allowed"),
        (1, MICROSOFT, X, tensor("float32", [1.0, 2.0]), None, {}, "forbidden granularity"),
        (1, MICROSOFT, X, tensor("float32", [1.0, 2.0]), None, {"axis": -2}, "unspecified axis"),
        (1, MICROSOFT, X, SCALE, tensor("float8_e5m2", 0), {}, "forbidden output-type"),
    ],
)  # fmt: skip
def test_a_node_is_judged_by_its_edition(
    opset: int,
    domain: str,
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor | None,
    attributes: dict[str, Any],
    verdict: str,
) -> None:
    judgement = judge(opset, domain, x, scale, zero_point, attributes)
    assert " ".join((judgement.verdict, *(name.rpartition("/")[2] for name in judgement.clauses))) == verdict
    assert set(judgement.clauses) <= set(clauses(opset, domain))
