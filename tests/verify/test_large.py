"""Readings evaluated once for each code or a block at a time: the same values as one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from xverify import contracts
from xverify.arithmetic.linear_operands import on_grid
from xverify.arithmetic.reading import Codes, Operands
from xverify.arithmetic.readings import EXACT as READING
from xverify.contracts.model import Contract
from xverify.core.bits import canonical
from xverify.core.call import Call, Tensor
from xverify.core.dtypes import tensor
from xverify.core.rounding import is_subnormal
from xverify.strategies import build
from xverify.strategies.structures import Linear, Range, Structure
from xverify.verify.large import BLOCK, WORTH, by_code, in_blocks
from xverify.verify.legal import legal_set
from xverify.verify.verdicts import judge

ONNX = contracts.get("ai.onnx/DequantizeLinear-25")
TENSORFLOW = contracts.get("tensorflow/Dequantize@seed")

LARGE: list[tuple[Contract, Structure]] = [
    (ONNX, Linear("uint8", "float32", "per_tensor", (2050,), "uint8")),
    (ONNX, Linear("int8", "float16", "per_tensor", (3, 5, 140), "int8", "float32")),
    (ONNX, Linear("float8_e5m2", "float32", "per_tensor", (41, 50), "float8_e5m2", "float16")),
    (ONNX, Linear("int4", "bfloat16", "per_axis", (3, 5, 140), "int4", axis=1)),
    (ONNX, Linear("uint2", "float32", "per_axis", (2000, 7), "")),
    (ONNX, Linear("uint4", "float32", "per_axis", (7, 130), "uint4", axis=-2, scale_recipe="special")),
    (ONNX, Linear("int8", "float32", "per_axis", (4200, 2), "int8", axis=-1, layout="F")),
    (ONNX, Linear("uint8", "float32", "blocked", (3, 8200), "uint8", axis=1, block_size=4100)),
    (ONNX, Linear("int4", "float32", "blocked", (600, 2), "int4", axis=0, block_size=300, layout="reversed")),
    (ONNX, Linear("uint2", "float16", "blocked", (3, 80, 2), "", axis=1, block_size=40, scale_recipe="special")),
    (TENSORFLOW, Range("int8", "MIN_COMBINED", (2100,))),
    (TENSORFLOW, Range("uint8", "SCALED", (21, 100))),
]


@pytest.mark.parametrize(("contract", "structure"), LARGE, ids=lambda given: getattr(given, "granularity", ""))
def test_a_table_gives_the_legal_set_of_every_value(contract: Contract, structure: Structure) -> None:
    call = build(contract, structure)
    operands, found = contract.operands(call), legal_set(contract, call)
    table = by_code(on_grid(operands))
    assert table is not None
    assert np.prod(table.operands.shape) * WORTH <= call.values
    given = judge(contract, call).give(contract.readings(call))
    for number, reading in enumerate(contract.readings(call)):
        np.testing.assert_array_equal(
            given[number], canonical(np.asarray(reading.evaluate(operands)), operands.output_dtype), strict=True
        )
        expected = canonical(reading.evaluate(operands), operands.output_dtype)
        spread = table.spread(reading.evaluate(table.operands)).reshape(operands.shape)
        np.testing.assert_array_equal(spread, reading.evaluate(operands))
        np.testing.assert_array_equal(found.codes(number), expected)
    every = [is_subnormal(codes, found.dtype) for codes in found.distinct]
    np.testing.assert_array_equal(found.subnormal, np.logical_or.reduce(every))
    assert found.shape == found.codes(0).shape == found.subnormal.shape == call.data.shape
    assert len({codes.tobytes() for codes in found.distinct}) == len(found.distinct)


def test_subnormal_results_are_marked_where_they_are() -> None:
    x = np.resize(np.arange(256), (2, WORTH * 256))
    call = Call(ONNX.id, {"x": tensor("uint8", x), "scale": tensor("float32", [2.0**-149, 1.0])}, {"axis": 0})
    assert by_code(ONNX.operands(call)) is not None
    np.testing.assert_array_equal(legal_set(ONNX, call).subnormal, (x > 0) & [[True], [False]])


@pytest.mark.parametrize(
    ("contract", "structure"),
    [
        (ONNX, Linear("uint8", "float32", "per_tensor", (WORTH * 256 - 1,))),
        (ONNX, Linear("int4", "float32", "per_axis", (2, WORTH * 16 - 1), "int4", axis=0)),
        (ONNX, Linear("int16", "float32", "per_tensor", (1 << 20,))),
        (ONNX, Linear("uint8", "float32", "blocked", (1, 4096), "uint8", block_size=2048)),
        (ONNX, Linear("uint8", "float32", "per_tensor", (0,))),
        (ONNX, Linear("uint8", "float32", "per_axis", (2, 0), "uint8", axis=1)),
    ],
    ids=lambda given: f"{given.x_dtype} {given.granularity}" if isinstance(given, Linear) else "",
)
def test_calls_that_gain_nothing_from_a_table_have_none(contract: Contract, structure: Structure) -> None:
    assert by_code(contract.operands(build(contract, structure))) is None


def test_codes_of_the_table_that_x_lacks_do_not_separate_readings() -> None:
    scale = Tensor("float32", np.array(0x3E00BF6C, np.uint32))  # 0.1257302, which float16 does not have
    x = np.arange(256, dtype=np.uint8).repeat(WORTH)
    call = Call(ONNX.id, {"x": Tensor("uint8", x), "scale": scale}, {"output_dtype": "float16"})
    whole = legal_set(ONNX, call)
    differ = np.logical_or.reduce([codes != whole.codes(0) for codes in whole.distinct])
    same = x[~differ]
    assert differ.any(), "the readings differ on none of these codes"
    assert same.size, "or on all of them"
    fewer = replace(call, tensors={**call.tensors, "x": Tensor("uint8", np.resize(same, x.size))})
    found = legal_set(ONNX, fewer)
    assert by_code(ONNX.operands(fewer)) is not None
    assert len(whole.distinct) > len(found.distinct) == 1
    assert set(found.index) == {0}
    np.testing.assert_array_equal(found.codes(0), ONNX.readings(fewer)[0].evaluate(ONNX.operands(fewer)))


BLOCKWISE: list[tuple[Contract, Structure]] = [
    (ONNX, Linear("uint8", "float32", "blocked", (3, 2 * BLOCK + 5), "uint8", axis=-1, block_size=32)),
    (ONNX, Linear("int8", "float32", "blocked", (3, BLOCK), "int8", axis=-1, block_size=64)),
    (ONNX, Linear("int16", "float16", "blocked", (BLOCK // 4, 3, 3), "", axis=0, block_size=BLOCK // 16, layout="F")),
    (ONNX, Linear("int16", "float16", "per_axis", (5, 2 * BLOCK // 3), "int16", axis=0, layout="F")),
    (ONNX, Linear("int32", "float32", "per_tensor", (3, 1, BLOCK))),
    (ONNX, Linear("int16", "float32", "per_axis", (2, BLOCK + 1), "", axis=0)),
    (ONNX, Linear("uint4", "bfloat16", "per_axis", (2, BLOCK + 1), "uint4", axis=-1, layout="reversed")),
    (TENSORFLOW, Range("int32", "MIN_COMBINED", (3 * BLOCK + 1,))),
]


@pytest.mark.parametrize(("contract", "structure"), BLOCKWISE, ids=lambda given: getattr(given, "granularity", ""))
def test_a_block_at_a_time_is_all_at_once(contract: Contract, structure: Structure) -> None:
    call = build(contract, structure)
    operands = contract.operands(call)
    assert call.values > 2 * BLOCK
    for reading in contract.readings(call):
        found = in_blocks(reading, on_grid(operands))[0].reshape(operands.shape)
        np.testing.assert_array_equal(found, reading.evaluate(operands))


def test_subnormal_numbers_are_found_in_each_block() -> None:
    """Only the second and the last block have subnormals. The expectation compares in float32."""
    shape = (2 * BLOCK + 5,)
    scale = np.ones(shape, np.float32)
    scale[[BLOCK + 7, -1]] = 2.0**-149
    x = np.resize(np.array([0, 1, 255], np.uint8), shape)
    x[[BLOCK + 7, -1]] = 3
    call = Call(ONNX.id, {"x": Tensor("uint8", x), "scale": Tensor("float32", scale.view(np.uint32))}, {"axis": 0})
    codes, subnormal = in_blocks(READING, ONNX.operands(call))
    numbers = np.abs(codes.view(np.float32))
    np.testing.assert_array_equal(subnormal, (numbers > 0) & (numbers < np.finfo(np.float32).tiny))
    assert np.flatnonzero(subnormal).tolist() == [BLOCK + 7, 2 * BLOCK + 4]


def test_a_scale_and_zero_point_per_tensor_are_not_repeated_in_blocks() -> None:
    seen = []

    class Watched:
        def evaluate(self, operands: Operands) -> Codes:
            seen.append({role: codes.shape for role, codes in operands.codes.items()})
            return np.asarray(READING.evaluate(operands))

    operands = ONNX.operands(build(ONNX, Linear("int16", "float32", "per_tensor", (2 * BLOCK + 1,), "int16")))
    np.testing.assert_array_equal(in_blocks(Watched(), operands)[0], READING.evaluate(operands))  # type: ignore[arg-type]
    assert [shapes["x"] for shapes in seen] == [(BLOCK,), (BLOCK,), (1,)]
    assert all(np.prod(shapes["scale"], dtype=int) == 1 for shapes in seen)


def test_codes_lie_in_memory_in_any_order() -> None:
    small = ONNX.operands(build(ONNX, Linear("uint2", "float32", "per_axis", (2000, 7), "")))
    large = ONNX.operands(build(ONNX, Linear("int16", "float32", "per_axis", (3, BLOCK), "", axis=0)))
    for operands in (small, large):
        columns = {**operands.codes, "x": np.asfortranarray(operands.codes["x"])}
        other, expected = replace(operands, codes=columns), READING.evaluate(operands)
        np.testing.assert_array_equal(in_blocks(READING, other)[0], expected)
        table = by_code(other)
        assert (table is None) == (operands is large)
        if table is not None:
            np.testing.assert_array_equal(table.spread(READING.evaluate(table.operands)), expected)


def test_a_code_that_serves_several_values_has_no_table() -> None:
    operands = ONNX.operands(build(ONNX, Linear("uint2", "float32", "per_axis", (2000, 7), "")))
    row = replace(operands, codes={**operands.codes, "x": operands.codes["x"][:, :1]})
    assert by_code(operands) is not None
    assert by_code(row) is None


def test_codes_with_unused_bits_set_have_no_table() -> None:
    call = build(ONNX, Linear("uint4", "float32", "per_tensor", (4096,)))
    operands = ONNX.operands(call)
    assert by_code(operands) is not None
    odd = operands.codes["x"].copy()
    odd[-1] |= 0x10
    assert by_code(replace(operands, codes={**operands.codes, "x": odd})) is None
