"""Judgements of the editions: each decision, and ONNX's judge against a second statement."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from walked_calls import every_nth
from written_calls import DNN, MS, ONNX, TF, TYPES, F, call_of, changed_calls, random_call

from xverify import contracts
from xverify.contracts.model import Cell
from xverify.core.call import Call

ONNX_TABLE = [
    # Opset 10 knows scalars only.
    ("10", "x=int8[2,3] scale=float32[]", "allowed"),
    ("10", "x=int8[2,3] scale=float32[] zp=int8[]=5", "allowed"),
    ("10", "x=int8[2,3] scale=float32[1]", "unspecified shape-1-scale"),
    ("10", "x=int8[2,3] scale=float32[1] zp=int8[1]", "unspecified shape-1-scale"),
    ("10", "x=int8[2,3] scale=float32[3]", "forbidden granularity"),
    ("10", "x=int8[2,3] scale=float32[] zp=int8[1]", "forbidden zero-point-shape"),
    ("10", "x=int8[2,3] scale=float32[] axis=1", "forbidden attributes"),
    ("10", "x=int16[2,3] scale=float32[]", "forbidden x-type"),
    ("10", "x=int8[2,3] scale=float16[]", "forbidden scale-type"),
    # Per axis: the axis is 1 unless given, may be negative, and is ignored for per-tensor quantization.
    ("13", "x=int8[2,3] scale=float32[] axis=9", "allowed"),
    ("13", "x=int8[2,3] scale=float32[] axis=-9", "allowed"),
    ("13", "x=int8[] scale=float32[] axis=1", "allowed"),
    ("13", "x=int8[2,3] scale=float32[3]", "allowed"),
    ("13", "x=int8[2,3] scale=float32[3] axis=-1", "allowed"),
    ("13", "x=int8[2,3] scale=float32[2] axis=0", "allowed"),
    ("13", "x=int8[2,3] scale=float32[2] axis=-2", "allowed"),
    ("13", "x=int8[2,3] scale=float32[2]", "unspecified axis-length"),
    ("13", "x=int8[2,3] scale=float32[3] axis=2", "forbidden axis-range"),
    ("13", "x=int8[2,3] scale=float32[3] axis=-3", "forbidden axis-range"),
    ("13", "x=int8[2,3] scale=float32[2,3]", "forbidden granularity"),
    ("13", "x=int8[2,0] scale=float32[0]", "allowed"),
    ("13", "x=int8[2,1] scale=float32[1]", "allowed"),
    ("13", "x=int8[2,3] scale=float32[1]", "unspecified axis-length"),
    ("19", "x=int8[2,3] scale=float32[1]", "unspecified axis-length"),
    ("13", "x=int8[3] scale=float32[3] axis=0", "allowed"),
    ("13", "x=int8[3] scale=float32[3]", "forbidden axis-range"),
    ("13", "x=int8[] scale=float32[1]", "forbidden axis-range"),
    ("13", "x=int8[2,3] scale=float32[3] block_size=-1", "forbidden attributes"),
    ("13", "x=int8[2,3] scale=float32[] block_size=2", "forbidden attributes"),
    ("19", "x=int8[2,3] scale=float32[3] block_size=-1", "forbidden attributes"),
    # Opset 19 says of rank 1 that per-tensor quantization is applied.
    ("19", "x=int8[3] scale=float32[3]", "unspecified rank-1"),
    ("19", "x=int8[3] scale=float32[3] axis=0", "unspecified rank-1"),
    ("19", "x=int8[3] scale=float32[1]", "unspecified rank-1"),
    ("19", "x=int8[3] scale=float32[]", "allowed"),
    ("19", "x=int8[2,3] scale=float16[3]", "allowed"),
    # Rank 1 from 21 on: per axis without block_size, blocked with it.
    ("21", "x=int8[3] scale=float32[3] axis=0", "allowed"),
    ("21", "x=int8[3] scale=float32[3] axis=0 block_size=0", "allowed"),
    ("21", "x=int8[3] scale=float32[3] axis=0 block_size=1", "unspecified block-size-unused"),
    ("21", "x=int8[3] scale=float32[2] axis=0 block_size=2", "allowed"),
    ("21", "x=int8[3] scale=float32[3] axis=0 block_size=2", "unspecified block-size-unused"),
    ("21", "x=int8[5] scale=float32[4] axis=0 block_size=2", "forbidden block-shape"),
    ("21", "x=int8[3] scale=float32[1] axis=0 block_size=5", "allowed"),
    ("21", "x=int8[3] scale=float32[1] axis=0", "forbidden granularity"),
    ("21", "x=int8[2,3] scale=float32[1]", "forbidden granularity"),
    ("21", "x=int8[2,3] scale=float32[2]", "forbidden granularity"),
    ("21", "x=int8[3] scale=float32[2] block_size=2", "forbidden axis-range"),
    # Blocked: ceil(D / block_size) on the axis, x's extents elsewhere, no upper bound of the block size.
    ("21", "x=int8[2,5] scale=float32[2,3] block_size=2", "allowed"),
    ("21", "x=int8[2,5] scale=float32[2,3] zp=int8[2,3] block_size=2 axis=-1", "allowed"),
    ("21", "x=int8[2,5] scale=float32[2,2] block_size=2", "forbidden block-shape"),
    ("21", "x=int8[2,5] scale=float32[2,4] block_size=2", "forbidden block-shape"),
    ("21", "x=int8[2,5] scale=float32[1,3] block_size=2", "forbidden block-shape"),
    ("21", "x=int8[2,5] scale=float32[2,3] block_size=2 axis=0", "forbidden block-shape"),
    ("21", "x=int8[2,5] scale=float32[1,5] block_size=2 axis=-2", "allowed"),
    ("21", "x=int8[2,5] scale=float32[2,1] block_size=5", "allowed"),
    ("21", "x=int8[2,5] scale=float32[2,1] block_size=1000000", "allowed"),
    ("21", "x=int8[2,5] scale=float32[2,5] block_size=1", "allowed"),
    ("21", "x=int8[2,5] scale=float32[2,5]", "forbidden block-size"),
    ("21", "x=int8[2,5] scale=float32[2,3] block_size=0", "forbidden block-size"),
    ("21", "x=int8[2,5] scale=float32[2,3] block_size=-2", "forbidden block-size"),
    ("21", "x=int8[2,5] scale=float32[2,3] block_size=2 axis=2", "forbidden axis-range"),
    ("21", "x=int8[2,0] scale=float32[2,0] block_size=2", "unspecified blocked-empty-axis"),
    ("21", "x=int8[0,5] scale=float32[0,3] block_size=2", "allowed"),
    ("21", "x=int8[2,5] scale=float32[2,1,3] block_size=2", "forbidden granularity"),
    ("21", "x=int8[2,5] scale=float32[] block_size=2", "unspecified block-size-unused"),
    ("21", "x=int8[2,5] scale=float32[] block_size=0", "allowed"),
    ("21", "x=int8[2,5] scale=float32[] block_size=-2", "forbidden block-size"),
    ("21", "x=int8[2,5] scale=float32[5] block_size=2", "unspecified block-size-unused"),
    ("21", "x=int4[2,5] scale=bfloat16[5] zp=int4[5]=-8", "allowed"),
    ("21", "x=int8[2,5] scale=float32[] output_dtype=float16", "forbidden attributes"),
    # Zero points.
    ("13", "x=int32[2,3] scale=float32[] zp=int32[]=0", "allowed"),
    ("10", "x=int32[2,3] scale=float32[] zp=int32[]=7", "unspecified int32-zero-point"),
    ("13", "x=int32[2,3] scale=float32[3] zp=int32[3]=-1", "unspecified int32-zero-point"),
    ("25", "x=int32[2,3] scale=float32[2,2] zp=int32[2,2]=1 block_size=2", "unspecified int32-zero-point"),
    ("25", "x=int32[2,3] scale=float64[] zp=int32[]=1", "forbidden scale-type"),
    ("19", "x=float8_e4m3fn[3] scale=float32[] zp=float8_e4m3fn[]=1", "allowed"),
    ("21", "x=float8_e5m2[3] scale=float16[] zp=float8_e5m2[]=-2", "allowed"),
    ("23", "x=float4_e2m1fn[3] scale=float32[] zp=float4_e2m1fn[]=6", "allowed"),
    ("13", "x=int8[2,3] scale=float32[] zp=uint8[]", "forbidden zero-point-type"),
    ("13", "x=int8[2,3] scale=float32[3] zp=int8[]", "forbidden zero-point-shape"),
    ("13", "x=int8[2,3] scale=float32[] zp=int8[1]", "forbidden zero-point-shape"),
    # From 19 on, node tests contradict that sentence: a zero point of shape (1,) beside a scalar scale, and no other.
    ("19", "x=int8[2,3] scale=float32[] zp=int8[1]", "unspecified shape-1-zero-point"),
    ("25", "x=int8[2,3] scale=float32[] zp=int8[1]=3 axis=0", "unspecified shape-1-zero-point"),
    ("25", "x=int8[2,3] scale=float32[] zp=uint8[1]", "forbidden zero-point-type"),
    ("25", "x=int8[2,3] scale=float32[] zp=int8[2]", "forbidden zero-point-shape"),
    ("25", "x=int8[2,3] scale=float32[] zp=int8[1,1]", "forbidden zero-point-shape"),
    ("25", "x=int8[2,3] scale=float32[3] zp=int8[1]", "forbidden zero-point-shape"),
    # Types by version.
    ("13", "x=int8[3] scale=float16[]", "forbidden scale-type"),
    ("19", "x=int4[3] scale=float32[]", "forbidden x-type"),
    ("21", "x=float4_e2m1fn[3] scale=float32[]", "forbidden x-type"),
    ("24", "x=int2[3] scale=float32[]", "forbidden x-type"),
    ("25", "x=int2[3] scale=float32[]", "allowed"),
    ("23", "x=int8[3] scale=float32[] output_dtype=bfloat16", "allowed"),
    ("23", "x=int8[3] scale=float32[] output_dtype=float64", "forbidden output-type"),
    ("23", "x=int8[3] scale=float8_e8m0fnu[] output_dtype=float32", "forbidden scale-type"),
    ("24", "x=int8[3] scale=float8_e8m0fnu[] output_dtype=float32", "allowed"),
    ("24", "x=int8[3] scale=float8_e8m0fnu[]", "forbidden output-type"),
    ("25", "x=int8[3] scale=float8_e8m0fnu[] output_dtype=float8_e8m0fnu", "forbidden output-type"),
    ("25", "x=float6_e2m3fn[3] scale=float32[]", "forbidden x-type"),
    ("28", "x=float6_e2m3fn[3] scale=float32[] zp=float6_e2m3fn[]=1", "allowed"),
    ("28", "x=float6_e3m2fn[3] scale=float8_e8m0fnu[] output_dtype=float16", "allowed"),
    # Every scale is allowed, whatever its value.
    *(
        ("13", f"x=int8[3] scale=float32[]={number}", "allowed")
        for number in ("nan", "inf", "-inf", "-1", "0", "1e-44")
    ),
]
MS_TABLE = [
    ("both", "x=uint8[2,3] scale=float32[] zp=uint8[]", "allowed"),
    ("both", "x=int8[2,3] scale=float16[] zp=int8[]=3", "allowed"),
    ("both", "x=uint8[2,3] scale=float32[3] zp=uint8[3] axis=1", "allowed"),
    ("both", "x=uint8[2,3] scale=float32[3] zp=uint8[3]", "forbidden granularity"),
    ("both", "x=uint8[2,3] scale=float32[] zp=uint8[] axis=1", "forbidden granularity"),
    ("both", "x=uint8[2,3] scale=float32[2,3] zp=uint8[2,3] axis=1", "forbidden granularity"),
    ("both", "x=uint8[2,3] scale=float32[1] zp=uint8[1]", "unspecified shape-1-scale"),
    ("both", "x=uint8[2,3] scale=float32[1] zp=uint8[1] axis=1", "unspecified axis-length"),
    ("both", "x=uint8[2,3] scale=float32[4] zp=uint8[4] axis=1", "unspecified axis-length"),
    ("both", "x=uint8[2,3] scale=float32[3] zp=uint8[3] axis=-1", "unspecified axis"),
    ("both", "x=uint8[2,3] scale=float32[3] zp=uint8[3] axis=2", "unspecified axis"),
    ("both", "x=uint8[2,3] scale=float32[] zp=int8[]", "forbidden zero-point-type"),
    ("both", "x=uint8[2,3] scale=bfloat16[] zp=uint8[]", "forbidden scale-type"),
    ("both", "x=float8_e4m3fn[3] scale=float32[] zp=float8_e4m3fn[]", "forbidden x-type"),
    ("both", "x=uint8[2,3] scale=float32[] zp=uint8[] block_size=2", "forbidden attributes"),
    ("seed", "x=uint8[2,3] scale=float32[]", "forbidden zero-point-required"),
    ("installed", "x=uint8[2,3] scale=float32[]", "allowed"),
    ("seed", "x=uint8[2,3] scale=float32[3] zp=uint8[2] axis=1", "unspecified axis-length"),
    ("installed", "x=uint8[2,3] scale=float32[3] zp=uint8[2] axis=1", "forbidden zero-point-shape"),
    ("both", "x=uint8[2,3] scale=float32[3] zp=uint8[] axis=1", "forbidden zero-point-shape"),
    ("both", "x=int8[2,3] scale=float32[2] zp=int8[2] axis=0", "allowed"),
    ("seed", "x=int16[2,3] scale=float32[] zp=int16[]", "forbidden x-type"),
    ("installed", "x=int16[2,3] scale=float32[] zp=int16[]=9", "allowed"),
    ("installed", "x=int32[2,3] scale=float32[] zp=int32[]=9", "allowed"),
]
DNN_TABLE = [
    ("both", "x=int8[2,3] scale=float32[1]", "allowed"),
    *(("both", f"x=uint8[2,3] scale=float32[1] zp={dtype}[1]=3", "allowed") for dtype in ("int8", "uint8", "int32")),
    ("both", "x=uint8[2,3] scale=float32[3] zp=int32[3] qtype=per_channel", "allowed"),
    ("both", "x=uint8[2,3] scale=float32[3] qtype=per_channel axis=-1", "allowed"),
    ("both", "x=uint8[2,3] scale=float32[2] qtype=per_channel axis=-2", "allowed"),
    ("both", "x=uint8[2,3] scale=float32[2] qtype=per_channel", "forbidden scales-shape"),
    ("both", "x=uint8[2,3] scale=float32[1] qtype=per_channel", "forbidden scales-shape"),
    ("both", "x=uint8[2,3] scale=float32[3] zp=uint8[1] qtype=per_channel", "forbidden zps-shape"),
    ("both", "x=uint8[2,3] scale=float32[3] qtype=per_channel axis=2", "forbidden axis-range"),
    ("both", "x=uint8[2,3] scale=float32[3] qtype=per_channel axis=-3", "forbidden axis-range"),
    ("both", "x=uint8[3] scale=float32[3] qtype=per_channel", "forbidden axis-range"),
    ("both", "x=uint8[3] scale=float32[3] qtype=per_channel axis=0", "allowed"),
    ("both", "x=uint8[3] scale=float32[1]", "allowed"),
    ("multiply", "x=uint8[2,3] scale=float32[1] axis=0", "allowed"),
    ("divide", "x=uint8[2,3] scale=float32[1] axis=0", "unspecified axis-per-tensor"),
    ("divide", "x=uint8[2,3] scale=float32[3] axis=1 qtype=per_channel", "allowed"),
    ("both", "x=uint8[2,3] scale=float32[1] axis=2", "unspecified axis-per-tensor"),
    ("both", "x=uint8[2,3] scale=float32[]", "forbidden scales-shape"),
    ("both", "x=uint8[2,3] scale=float32[1] zp=uint8[]", "forbidden zps-shape"),
    ("both", "x=uint8[2,3] scale=float32[1] zp=uint8[2]", "forbidden zps-shape"),
    ("both", "x=int32[2,3] scale=float32[1]", "forbidden src-type"),
    ("both", "x=uint8[2,3] scale=float16[1]", "forbidden scales-type"),
    ("both", "x=uint8[2,3] scale=float32[1] zp=int16[1]", "forbidden zps-type"),
    ("both", "x=uint8[2,3] scale=float32[1] qtype=per_group", "forbidden qtype"),
    ("both", "x=uint8[2]=1 scale=float32[1] zp=int32[1]=-2147483646", "allowed"),
    ("both", "x=uint8[2]=2 scale=float32[1] zp=int32[1]=-2147483646", "unspecified int32-overflow"),
    ("both", "x=int8[2]=-2 scale=float32[1] zp=int32[1]=2147483646", "allowed"),
    ("both", "x=int8[2]=-3 scale=float32[1] zp=int32[1]=2147483646", "unspecified int32-overflow"),
    ("both", "x=int8[0] scale=float32[1] zp=int32[1]=-2147483648", "allowed"),
]
RANGE = "min=float32[]=-1 max=float32[]=1"
TF_TABLE = [
    *(("both", f"input={dtype}[3] {RANGE}", "allowed") for dtype in ("int8", "uint8", "int16", "uint16", "int32")),
    *(("both", f"input=int8[3] {RANGE} mode={mode}", "allowed") for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED")),
    ("both", f"input=int8[3] {RANGE} mode=MIN_MAX", "forbidden mode"),
    ("both", f"input=uint32[3] {RANGE}", "forbidden input-type"),
    ("both", "input=int8[3] min=float64[]=-1 max=float64[]=1", "forbidden range-type"),
    ("both", "input=int8[3] min=float32[1]=-1 max=float32[1]=1", "forbidden range-shape"),
    ("both", "input=int8[3] min=float32[]=1 max=float32[]=1", "unspecified range-order"),
    ("both", "input=int8[3] min=float32[]=1 max=float32[]=-1", "unspecified range-order"),
    ("both", "input=int8[3] min=float32[]=-0.0 max=float32[]=0.0", "unspecified range-order"),
    ("both", "input=int8[3] min=float32[]=nan max=float32[]=1", "unspecified range-order"),
    ("both", "input=int8[3] min=float32[]=-1 max=float32[]=inf", "unspecified range-order"),
    ("both", "input=int8[3] min=float32[]=1e-45 max=float32[]=3e-45", "allowed"),
    ("installed", f"input=int8[3] {RANGE} narrow_range=True mode=SCALED", "allowed"),
    ("seed", f"input=int8[3] {RANGE} narrow_range=True", "forbidden attributes"),
    ("installed", f"input=int8[3] {RANGE} dtype=bfloat16", "allowed"),
    ("installed", f"input=int8[3] {RANGE} dtype=bfloat16 mode=SCALED", "forbidden bfloat16-mode"),
    ("installed", f"input=int8[3] {RANGE} dtype=bfloat16 mode=MIN_FIRST", "forbidden bfloat16-mode"),
    ("installed", f"input=int8[3] {RANGE} dtype=float16", "forbidden output-type"),
    ("installed", f"input=int8[3] {RANGE} axis=-1", "allowed"),
    ("installed", "input=int8[2,3] min=float32[3]=-1 max=float32[3]=1 axis=1", "unspecified axis"),
    ("seed", f"input=int8[3] {RANGE} axis=-1", "forbidden attributes"),
]


def rows() -> Iterator[tuple[str, str, str]]:
    yield from ((ONNX + version, text, expected) for version, text, expected in ONNX_TABLE)
    for prefix, table, editions in (
        (MS, MS_TABLE, ("seed", "installed")),
        (DNN, DNN_TABLE, ("multiply", "divide")),
        (TF, TF_TABLE, ("seed", "installed")),
    ):
        for edition, text, expected in table:
            yield from ((prefix + e, text, expected) for e in editions if edition in ("both", e))


@pytest.mark.parametrize(("identity", "text", "expected"), list(rows()))
def test_decisions(identity: str, text: str, expected: str) -> None:
    judgement = contracts.get(identity).judge(call_of(identity, text))
    verdict, _, clause = expected.partition(" ")
    named = [name.removeprefix(identity + "/") for name in judgement.clauses]
    assert (judgement.verdict, named) == (verdict, [clause] if clause else []), f"{identity}: {text}"


@pytest.mark.parametrize(
    ("version", "text", "granularity"),
    [
        (10, "x=int8[2,3] scale=float32[]", "per_tensor"),
        (10, "x=int8[2,3] scale=float32[1]", "per_tensor"),
        (13, "x=int8[2,3] scale=float32[]", "per_tensor"),
        (13, "x=int8[2,3] scale=float32[3]", "per_axis"),
        (21, "x=int8[2,3] scale=float32[3] block_size=0", "per_axis"),
        (21, "x=int8[2,3] scale=float32[2,2] block_size=2", "blocked"),
        (21, "x=int8[3] scale=float32[2] axis=0 block_size=2", "blocked"),
        (21, "x=int8[3] scale=float32[3] axis=0 block_size=1", "blocked"),
        (21, "x=int8[3] scale=float32[3] axis=0", "per_axis"),
        (21, "x=int8[2,3] scale=float32[3] block_size=2", "per_axis"),
    ],
)
def test_granularities(version: int, text: str, granularity: str) -> None:
    identity = f"{ONNX}{version}"
    assert contracts.get(identity).cell(call_of(identity, text)).granularity == granularity


@pytest.mark.parametrize(
    ("identity", "granularities"),
    [
        (ONNX + "10", ("per_tensor",)),
        *((ONNX + version, ("per_tensor", "per_axis")) for version in ("13", "19")),
        *((ONNX + version, ("per_tensor", "per_axis", "blocked")) for version in ("21", "23", "24", "25", "28")),
        *((MS + edition, ("per_tensor", "per_axis")) for edition in ("seed", "installed")),
        *((DNN + edition, ("per_tensor", "per_axis")) for edition in ("multiply", "divide")),
        (TF + "seed", ("per_tensor",)),
        (TF + "installed", ("per_tensor", "per_axis")),
    ],
)
def test_granularities_of_an_edition(identity: str, granularities: tuple[str, ...]) -> None:
    assert contracts.get(identity).domain.granularities == granularities


@pytest.mark.parametrize(
    ("text", "has_one"),
    [
        ("x=int32[2,3] scale=float32[] zp=int32[]=0", False),
        ("x=int32[2,3] scale=float32[] zp=int32[]=1", True),
        ("x=int8[2,3] scale=float32[] zp=int8[]=0", True),
        ("x=int8[2,3] scale=float32[]", False),
    ],
)
def test_operands_omit_a_zero_point_that_must_be_zero(text: str, has_one: bool) -> None:
    operands = contracts.get(ONNX + "25").operands(call_of(ONNX + "25", text))
    assert ("zero_point" in operands.codes, "zero_point" in operands.dtypes) == (has_one, has_one)
    assert {"x", "scale"} <= set(operands.codes)


def test_a_cell_names_each_type() -> None:
    call = call_of(ONNX + "25", "x=int4[2,3] scale=float16[3] zp=int4[3] output_dtype=bfloat16")
    assert contracts.get(ONNX + "25").cell(call) == Cell(
        ONNX + "25", "int4", "float16", "int4", "bfloat16", "per_axis", ""
    )
    call = call_of(ONNX + "19", "x=float8_e5m2[2,3] scale=bfloat16[]")
    assert contracts.get(ONNX + "19").cell(call) == Cell(
        ONNX + "19", "float8_e5m2", "bfloat16", "", "bfloat16", "per_tensor", ""
    )


@pytest.mark.parametrize("version", TYPES)
def test_the_clause_that_a_reading_contradicts(version: int) -> None:
    """From version 23 on, a sentence gives the type of the product, which another type contradicts."""
    contract = contracts.get(f"{ONNX}{version}")
    call = call_of(contract.id, "x=int8[2,3] scale=float32[]")
    other = "multiplication-precision" if version >= 23 else "formula"
    expected = {None: "formula", "wrap-x": "formula", "exact-quotient": "formula", "rounded-output": "formula"}
    expected |= {"float32": other, "rounded-float16": other}
    expected |= dict.fromkeys(
        ("ignored+rounded-float32", "fused+rounded-float32", "rounded-float32+clamped"), "formula"
    )
    for reading, clause in expected.items():
        assert contract.value_clause(call, reading) == f"{contract.id}/{clause}", reading


@pytest.mark.parametrize(
    ("identity", "text", "sentence"),
    [
        (
            MS + "seed",
            "x=int8[2,3] scale=float32[3]",
            "a parameter has 3 elements, but the call names no axis for them",
        ),
        (ONNX + "13", "x=int8[2,3] scale=float32[3] axis=2", r"axis 2 is outside \[-2, 1\]"),
        (ONNX + "13", "x=int8[2,3] scale=float32[2] axis=-3", r"axis -3 is outside \[-2, 1\]"),
    ],
)
def test_several_elements_need_an_axis_of_the_tensor(identity: str, text: str, sentence: str) -> None:
    """Such calls are forbidden, but a user may still want them explained."""
    with pytest.raises(ValueError, match=sentence):
        contracts.get(identity).operands(call_of(identity, text))


# -- ONNX's judge stated a second time -------------------------------------------------------------------


def restated(version: int, call: Call) -> tuple[set[str], set[str]]:
    """Every clause that forbids the call, and every clause that leaves it open."""
    x, scale, zero_point = (call.tensors.get(role) for role in ("x", "scale", "zero_point"))
    assert x is not None
    assert scale is not None
    names = [name for name, since in (("axis", 13), ("block_size", 21), ("output_dtype", 23)) if version >= since]
    attributes = {name: value for name, value in call.attributes.items() if name in names}
    block, ways = (
        attributes.get("block_size", 0),
        dict(enumerate(x.shape)) | {i - len(x.shape): e for i, e in enumerate(x.shape)},
    )
    extent = ways.get(attributes.get("axis", 1))
    either = (
        scale.codes.ndim == 1 and scale.shape == x.shape and extent is not None
    )  # per axis, and as long as one block
    ranks_agree = version >= 21 and scale.codes.ndim == len(x.shape) >= 1 and (block != 0 or scale.codes.ndim != 1)
    ranks_agree = ranks_agree and not either
    vector = scale.codes.ndim == 1 and not ranks_agree and version >= 13
    rank_1 = version == 19 and vector and len(x.shape) == 1
    blocked = ranks_agree and block > 0 and extent is not None
    index = list(range(len(x.shape)))[attributes.get("axis", 1)] if blocked else 0
    # A block exists for each index i // block_size that occurs, and for no other.
    fits = blocked and all(
        len({i // block for i in range(e)}) == s if n == index else e == s
        for n, (e, s) in enumerate(zip(x.shape, scale.shape, strict=True))
    )
    out = call.attributes.get("output_dtype", scale.dtype)
    shapes_differ = zero_point is not None and zero_point.shape != scale.shape
    as_in_node_tests = version >= 19 and zero_point is not None and (scale.shape, zero_point.shape) == ((), (1,))
    forbids = {
        "x-type": x.dtype not in TYPES[version][0],
        "scale-type": scale.dtype not in TYPES[version][1],
        "output-type": scale.dtype in TYPES[version][1] and out not in (F if version >= 19 else F[:1]),
        "attributes": set(call.attributes) != set(attributes),
        "zero-point-type": zero_point is not None and zero_point.dtype != x.dtype,
        "zero-point-shape": shapes_differ and not as_in_node_tests,
        "block-size": block < 0 or (ranks_agree and block == 0),
        "axis-range": extent is None and not rank_1 and ((ranks_agree and block > 0) or vector),
        "block-shape": blocked and not fits,
        "granularity": (
            scale.codes.ndim > 0 and not vector and not ranks_agree and not (version == 10 and scale.shape == (1,))
        )
        or (version >= 21 and vector and extent is not None and scale.size != extent),
    }
    opens = {
        "shape-1-zero-point": as_in_node_tests,
        "shape-1-scale": version == 10 and scale.shape == (1,),
        "axis-length": version in (13, 19) and vector and not rank_1 and extent is not None and scale.size != extent,
        "rank-1": rank_1,
        "block-size-unused": block > 0 and not ranks_agree,
        "blocked-empty-axis": blocked and extent == 0,
        "int32-zero-point": zero_point is not None
        and zero_point.dtype == x.dtype == "int32"
        and bool(zero_point.codes.any()),
    }
    return {name for name, yes in forbids.items() if yes}, {name for name, yes in opens.items() if yes}


@pytest.mark.parametrize("version", TYPES)
def test_the_judge_agrees_with_its_restatement(version: int) -> None:
    """The judge may stop at the first clause on shapes, but it names no clause that is missing here."""
    contract, rng = contracts.get(f"{ONNX}{version}"), np.random.default_rng(version)
    asked = [random_call(version, rng) for _ in range(500)] + every_nth(contract.id, 29) + changed_calls(contract)
    met = {"allowed": 0, "forbidden": 0, "unspecified": 0}
    for call in asked:
        forbids, opens = restated(version, call)
        want = "forbidden" if forbids else "unspecified" if opens else "allowed"
        judgement = contract.judge(call)
        names = {name.removeprefix(contract.id + "/") for name in judgement.clauses}
        tensors = {role: (t.dtype, t.shape) for role, t in call.tensors.items()}
        where = f"{contract.id} {tensors} {dict(call.attributes)}: got {judgement}, expected {want} {forbids or opens}"
        assert judgement.verdict == want, where
        assert names <= (forbids or opens), where
        assert bool(names) == (want != "allowed"), where
        met[want] += 1
    assert min(met.values()) > 40, met
