"""Legal results among neighbours that change values, against exact values and other evaluators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from xverify import contracts
from xverify.contracts import quantize
from xverify.core.bits import canonical, is_nan
from xverify.core.call import BITS, Call, Outcome, Tensor, code_dtype
from xverify.core.dtypes import tensor, values
from xverify.core.line import call_from_line, call_to_line
from xverify.core.moves import Node
from xverify.core.neighbours import CHANGES, OPERATORS, QUANTIZE, coded
from xverify.core.surroundings import changes_values, surround
from xverify.oracles import onnx_reference, onnxruntime_cpu
from xverify.strategies.surrounded import changing_words
from xverify.verify.compare import compare
from xverify.verify.graph_values import Values, _max_pool, compacted, fixed, operated
from xverify.verify.legal import Legal
from xverify.verify.verdicts import IN_GRAPH, compared, judge

ONNX = "ai.onnx/DequantizeLinear-25"
EDITION = contracts.get(ONNX)


def call_of(x: list, *around: str, scale: float = 0.5, zero_point: int | None = None, dtype: str = "int8") -> Call:
    tensors = {"x": tensor(dtype, x), "scale": tensor("float32", scale)}
    if zero_point is not None:
        tensors["zero_point"] = tensor(dtype, zero_point)
    return Call(ONNX, tensors, {}, "", around)


def legal_of(call: Call) -> Legal:
    legal = judge(EDITION, call).legal
    assert legal is not None
    return legal


def sets(call: Call) -> list[set[float]]:
    """Return the legal values of each element. Zeros of both signs are one value."""
    legal = legal_of(call)
    every = np.stack([values(legal.dtype, codes).reshape(-1) for codes in legal.distinct])
    return [set(column) for column in every.T.tolist()]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["y>relu:0"], [0.0, 0.0, 1.0, 1.5]),
        (["y>neg:0"], [1.0, 0.0, -1.0, -1.5]),
        (["y>abs:0"], [1.0, 0.0, 1.0, 1.5]),
        (["y>max:1"], [0.0, 0.0, 1.0, 1.5]),
        (["y>min:1"], [-1.0, 0.0, 0.0, 0.0]),
        (["y>clip:0"], [-1.0, 0.0, 1.0, 1.0]),
        (["y>clip:1"], [0.0, 0.0, 1.0, 1.5]),
        (["y>scale:5"], [2.0, 0.0, -2.0, -3.0]),
        (["y>wider:0"], [-1.0, 0.0, 1.0, 1.5]),
        (["y>where:0"], [-1.0, -1.0, -1.0, 1.5]),
        (["y>maxpool:1"], [0.0, 1.5]),
        (["y>argmax:0"], [3]),
        (["y>resize:0"], [-1.0, -1.0, 0.0, 0.0, 1.0, 1.0, 1.5, 1.5]),
        (["y>split:0"], [-1.0, 0.0]),
        (["y>leakyrelu:1"], [-0.25, 0.0, 1.0, 1.5]),
        (["y>leakyrelu:3"], [0.5, 0.0, 1.0, 1.5]),
        (["y>reshape:1", "y>beside:1"], [-1.0, 0.0, 1.0, 1.5]),
        (["y>reshape:1", "y>beside:0"], [-1.0, -1.0, 0.0, 0.0, 1.0, 1.0, 1.5, 1.5]),
        (["y>reshape:1", "y>matmul:0"], [-2.0, 0.0, 2.0, 3.0]),
        (["y>reshape:1", "y>qmatmul:1"], [-2.0, 0.0, 2.0, 3.0]),
        (["y>reshape:1", "y>recast:1"], [-1.0, 0.0, 1.0, 2.0]),
        (["y>quantize:0"], [-2.0, 0.0, 2.0, 3.0]),
        (["y>quantize:2"], [-4.0, 0.0, 4.0, 6.0]),
        (["y>quantize:4"], [2.0, 0.0, -2.0, -3.0]),
        (["y>quantize:20010"], [-2.0, 0.0, 2.0, 3.0]),
        (["y>quantize:10010"], [0.0, 0.0, 2.0, 3.0]),
        (["y>pair:10010"], [0.0, 0.0, 1.0, 1.5]),
        (["y>pair:1000"], [-2.0, 0.0, 2.0, 3.0]),
        (["y>pair:1"], [-1.0, 0.0, 1.0, 2.0]),
        (["y>slice:0", "y>relu:0", "y>slice:0"], [0.0, 0.0, 1.0, 1.5]),
        (["fork:3"], [0.0, 0.0, 1.0, 1.5]),
        (["shared:1"], [1.5, 1.0, 0.0, -1.0]),
    ],
)
def test_each_word_gives_these_values(words, expected):
    assert sets(call_of([-2, 0, 2, 3], *words)) == [{value} for value in expected]


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("dtype", ["int4", "int8", "int16"])
def test_a_product_is_the_same_in_any_order_and_needs_more_than_int8(number, dtype):
    """The scale comes before or after the sums. An int8 operand loses the 1 beside 256."""
    rng = np.random.default_rng(5)
    bits = BITS[dtype]
    codes = rng.integers(-(1 << (bits - 1)), 1 << (bits - 1), (32, 32)) * (rng.random((32, 32)) < 0.5)
    call = call_of(codes, f"y>matmul:{number}", scale=0.3, dtype=dtype)
    (matrix,) = (
        each.codes.view(np.float32)
        for each in surround(call).inputs.values()
        if each.shape == (32, 32) and each.dtype == "float32"
    )
    legal, scale = legal_of(call), np.float32(0.3)
    assert not legal.open.any()

    def result(operand, is_late, order):
        weight = np.float32(codes) if is_late else np.float32(codes) * scale
        left, right = (operand, weight) if number == 0 else (weight, operand)
        total = np.zeros((32, 32), np.float32)
        for k in order:
            total += np.outer(left[:, k], right[k])
        quotient = (total * scale if is_late else total) / scale
        ends = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        return tensor(dtype, np.clip(np.rint(quotient), *ends).astype(np.int64))

    for is_late in (False, True):
        for _ in range(3):
            assert compare(legal, result(matrix, is_late, rng.permutation(32))).clean
    axis = 1 if number == 0 else 0
    step = np.abs(matrix).max(axis, keepdims=True) / np.float32(127)
    assert compare(legal, result(np.rint(matrix / step) * step, False, range(32))).wrong.any()


def test_a_zero_point_is_left_out_or_shared_by_a_second_operator():
    assert sets(call_of([1, 5], "shared:1", zero_point=1)) == [{2.0}, {0.0}]
    assert sets(call_of([1, 5], "shared:3", zero_point=1)) == [{2.5}, {0.5}]


@pytest.mark.parametrize("word", [*(f"y>{name}" for name in CHANGES), "fork", "shared"])
def test_a_word_has_a_meaning_for_every_shape(word):
    for shape, number in product([(), (1,), (0,), (5,), (2, 3), (3, 0), (2, 1, 3), (2, 3, 4, 5)], (*range(12), 98765)):
        codes = np.arange(int(np.prod(shape)), dtype=np.uint8).reshape(shape)
        call = Call(ONNX, {"x": Tensor("uint8", codes), "scale": tensor("float32", 2.0)}, {}, "", (f"{word}:{number}",))
        assert call_from_line(call_to_line(call)).around == call.around
        graph = surround(call)
        if graph.changes_values:
            legal = legal_of(call)
            assert legal.open is not None
            assert legal.shape == graph.shape == legal.open.shape
            # See the test on a text that leaves it open.
            is_flat = len(shape) == 1 and OPERATORS.get(word[2:], ("",))[0] == QUANTIZE
            assert not legal.open.any() or is_flat


def test_a_graph_that_changes_values_has_a_cell_of_its_own():
    call = call_of([1], "y>relu:0")
    cell = judge(EDITION, call).cell
    assert cell is not None
    assert cell.variant == IN_GRAPH
    assert not changes_values(call_of([1], "y>reshape:0", "fork:0", "shared:0"))
    assert judge(EDITION, call_of([1], "y>reshape:0")).cell == judge(EDITION, call_of([1])).cell


# -- sets -------------------------------------------------------------------------------------------------


def test_few_arrays_hold_the_same_sets():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 4, (6, 50)).astype(np.uint8)
    few = compacted(codes)
    assert len(few) == max(len(set(column)) for column in codes.T.tolist())
    assert [set(column) for column in few.T.tolist()] == [set(column) for column in codes.T.tolist()]


def test_the_largest_value_of_a_window_is_any_that_some_choice_makes_the_largest():
    rng = np.random.default_rng(2)
    numbers = rng.integers(1, 9, (3, 1, 1, 12)).astype(np.float32)
    node = surround(call_of([0] * 12, "y>maxpool:0")).nodes[-1]
    pooled = _max_pool(node, Values("float32", numbers.view(np.uint32), np.zeros((1, 1, 12), np.bool_)))
    for place in range(11):
        window = numbers[:, 0, 0, place : place + 2].T
        assert set(pooled.numbers[:, 0, 0, place]) == {max(choice) for choice in product(*window.tolist())}


def test_what_no_text_states_is_open():
    nan = call_of([1, 2], "y>relu:0", scale=float("nan"))
    assert legal_of(nan).open.all()
    assert legal_of(replace(nan, around=("y>neg:0",))).open.any() == np.False_
    tiny = call_of([1, 2], "y>scale:0", scale=2.0**-127)
    assert legal_of(tiny).open.tolist() == [True, False]
    assert legal_of(call_of([1, 2], "y>clip:2", scale=float("inf"))).open.all()


@pytest.mark.parametrize("end", ["min", "max"])
def test_an_infinite_bound_alone_leaves_the_result_open(end):
    """The absent bound is the largest finite number, and beyond it the text prefers the maximum."""
    bound = fixed(tensor("float32", np.inf if end == "min" else -np.inf))
    inputs = ("y", "c") if end == "min" else ("y", "", "c")
    x = fixed(tensor("float32", [1.0, -1.0]))
    assert operated(Node("Clip", inputs, "z"), [x, bound]).open.all()
    harmless = fixed(Tensor("float32", bound.codes[0] ^ np.uint32(1 << 31)))
    made = operated(Node("Clip", inputs, "z"), [x, harmless])
    assert (made.open.any(), made.numbers[0].tolist()) == (False, [1.0, -1.0])


@pytest.mark.parametrize(
    "word", [f"y>{name}:{number}" for name in ("max", "min", "clip", "where") for number in range(8)]
)
def test_every_bound_is_finite_where_the_result_overflows(word):
    """Most of these results are beyond the largest float16."""
    x = tensor("int32", [-(2**31), -(2**30), -3, 5, 2**29, 2**30, 2**31 - 1])
    for name in (ONNX, "ai.onnx/DequantizeLinear-10"):
        graph = surround(Call(name, {"x": x, "scale": tensor("float16", 0.5)}, {}, "", (word,)))
        bounds = [values(each.dtype, each.codes) for each in graph.constants.values()]
        bounds += (
            [np.asarray(v) for v in graph.nodes[-1].attributes.values()] if graph.nodes[-1].operator == "Clip" else []
        )
        assert bounds
        assert all(np.isfinite(bound).all() for bound in bounds)


def test_a_quantization_that_its_own_text_leaves_open_is_open():
    """From version 21 on, QuantizeLinear says of inputs of rank 1 that they are quantized per tensor."""
    scales = tensor("float32", [0.5, 0.25])
    flat, wide = (
        Call(ONNX, {"x": tensor("int8", x), "scale": scales}, {"axis": -1}, "", ("y>quantize:2002",))
        for x in ([1, 2], [[1, 2]])
    )
    assert legal_of(flat).open.all()
    assert not legal_of(wide).open.any()


def test_both_signs_of_zero_and_both_sides_of_a_tie_are_legal():
    legal = legal_of(call_of([-1, 1], "y>relu:0"))
    assert {int(codes[0]) for codes in legal.distinct} == {0, 1 << 31}
    assert sets(call_of([1, 3], "y>quantize:1")) == [{0.0}, {2.0}]


def test_codes_are_compared_bit_for_bit_and_any_nan_equals_any_nan():
    legal = legal_of(call_of([1, 2], "y>quantize:0"))
    comparison = compare(legal, Tensor("int8", np.array([1, 0xFE], np.uint8)))
    assert (comparison.wrong.tolist(), comparison.max_ulp, comparison.explains) == ([False, True], 4, (False,))
    nan = legal_of(call_of([1], "y>quantize:30000", scale=float("nan")))
    assert nan.dtype == "float8_e4m3fn"
    assert compare(nan, Tensor("float8_e4m3fn", np.array([0xFF], np.uint8))).clean
    for dtype in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"):
        codes = np.arange(256, dtype=np.uint8)
        np.testing.assert_array_equal(is_nan(codes, dtype), np.isnan(values(dtype, codes)))
        np.testing.assert_array_equal(canonical(codes, dtype), quantize.canonical(dtype, codes))


# -- implementations --------------------------------------------------------------------------------------


def graphs(name: str, count: int) -> Iterator[Call]:
    """Yield calls among neighbours.

    Their results are far from infinity, which both implementations quantize to wrong codes.
    """
    rng = np.random.default_rng(7)
    dtypes = ("int8", "uint8") if name.endswith("-13") else ("int8", "uint8", "int4", "uint16")
    for number in range(count):
        shape = [(2, 3, 4), (4, 5), (7,), (1, 2, 3, 4)][number % 4]
        dtype = dtypes[number // 4 % len(dtypes)]
        codes = rng.integers(0, 1 << min(8, BITS[dtype]), shape).astype(code_dtype(dtype))
        axis = int(rng.integers(len(shape)))
        few = () if number % 3 else (shape[axis],)
        scale = rng.choice([-1, 1, 1], few) * np.exp2(rng.uniform(-6, 3, few))
        tensors = {"x": Tensor(dtype, codes), "scale": coded("float32", scale)}
        if number % 2:
            tensors["zero_point"] = Tensor(dtype, rng.integers(0, 1 << min(8, BITS[dtype]), few).astype(codes.dtype))
        call = Call(name, tensors, {"axis": axis} if few else {})
        other = f"y>{('matmul', 'qmatmul', 'recast')[number // 8 % 3]}:{number // 24}"  # These are not drawn.
        yield replace(call, around=changing_words(call, rng) if number % 8 else (other,))


@pytest.mark.parametrize("name", ["ai.onnx/DequantizeLinear-13", "com.microsoft/DequantizeLinear-1@installed"])
def test_without_optimisation_onnx_runtime_gives_legal_results(name):
    """Graphs with a Where are left out: it turns -0 into 0."""
    answer = onnxruntime_cpu.load().answer
    calls = (call for call in graphs(name, 120) if not any("where" in word for word in call.around))
    agreeing, words = agreement(calls, lambda call: answer(call, onnxruntime_cpu.UNOPTIMIZED))
    assert agreeing > 60
    assert words >= set(CHANGES) - {"where"}


def test_the_reference_evaluator_gives_legal_results():
    answer = onnx_reference.load().answer
    with np.errstate(all="ignore"):
        agreeing, words = agreement(graphs("ai.onnx/DequantizeLinear-21", 120), lambda call: answer(call, "graph"))
    assert agreeing > 80
    assert words >= set(CHANGES)


def agreement(calls: Iterable[Call], answer: Callable[[Call], Outcome]) -> tuple[int, set[str]]:
    """Return the number of graphs with legal results, and the words in them."""
    agreeing, words = 0, set()
    for call in calls:
        outcome = answer(call)
        if outcome.kind == "tensor":
            comparison = compared(judge(contracts.get(call.contract), call), outcome)
            assert comparison is not None, call_to_line(call)
            assert not comparison.wrong_values, call_to_line(call)
            agreeing += 1
            words |= {word[2:].partition(":")[0] for word in call.around if word.startswith("y>")}
    return agreeing, words
