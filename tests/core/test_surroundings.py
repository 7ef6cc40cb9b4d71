"""Calls inside small graphs: their surroundings, and outcomes equal to those of the lone call."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from xverify import contracts
from xverify.contracts.quantize import quantize
from xverify.core.call import Call, Tensor, decode_call, encode_call
from xverify.core.codec import call_from_json, call_to_json
from xverify.core.dtypes import tensor
from xverify.core.errors import DamagedFileError
from xverify.core.line import call_from_line, call_to_line
from xverify.core.moves import AFTER, BEFORE, run
from xverify.core.neighbours import quantized_dtypes
from xverify.core.surroundings import changes_values, comes_quantized, in_words, requantizes, surround
from xverify.engine.plan import batches
from xverify.oracles import onnx_reference, onnxruntime_cpu
from xverify.oracles.onnx_model import graph_of
from xverify.strategies.surrounded import MOST_VALUES, surrounded_calls, takes

ONNX = "ai.onnx/DequantizeLinear-25"
LONE = Call(ONNX, {"x": tensor("int8", [[1, 2], [3, 4]]), "scale": tensor("float32", 2.0)}, {"axis": 1}, "by hand")
WORDS = ("x<transpose:1", "x<reshape:0", "y>squeeze:-1", "constant:scale")
AROUND = Call(ONNX, LONE.tensors, LONE.attributes, "by hand", WORDS)


# -- as part of a call ------------------------------------------------------------------------------------


def test_surroundings_are_part_of_a_call():
    assert len({LONE.digest(), AROUND.digest(), Call(ONNX, LONE.tensors, LONE.attributes, "", WORDS[:1]).digest()}) == 3
    assert AROUND.under("ai.onnx/DequantizeLinear-21").around == WORDS


def test_every_form_of_a_call_carries_it(tmp_path):
    assert decode_call(encode_call(AROUND)).around == WORDS
    assert call_from_json(json.loads(json.dumps(call_to_json(AROUND))), tmp_path).around == WORDS
    assert call_to_line(AROUND) == f"{call_to_line(LONE)} {' '.join(WORDS)}"
    assert call_from_line(call_to_line(AROUND)).digest() == AROUND.digest()


def test_a_lone_call_is_written_without_surroundings(tmp_path):
    assert b"around" not in encode_call(LONE)
    assert "around" not in call_to_json(LONE)
    assert call_from_json(call_to_json(LONE), tmp_path).around == decode_call(encode_call(LONE)).around == ()


@pytest.mark.parametrize("damaged", ["x<transpose:1", [1], {"x": 1}, None])
def test_a_damaged_list_is_refused(damaged, tmp_path):
    with pytest.raises(DamagedFileError, match="a list of strings"):
        call_from_json({**call_to_json(LONE), "around": damaged}, tmp_path)
    blob = encode_call(LONE)
    head = json.loads(blob[8 : 8 + int.from_bytes(blob[4:8], "little")])
    text = json.dumps({**head, "around": damaged}).encode()
    changed = blob[:4] + len(text).to_bytes(4, "little") + text + blob[8 + int.from_bytes(blob[4:8], "little") :]
    with pytest.raises(ValueError, match="a list of strings"):
        decode_call(changed)


@pytest.mark.parametrize("word", ["x<transpose 1", "x", "x<", "x=<1", ""])
def test_a_word_that_no_line_can_hold_is_not_written(word):
    with pytest.raises(ValueError, match="is no word that a line can hold"):
        call_to_line(Call(ONNX, LONE.tensors, {}, "", (word,)))


# -- as a graph -------------------------------------------------------------------------------------------

SHAPES = ((), (1,), (5,), (0,), (2, 3), (1, 4), (3, 0), (2, 1, 3), (2, 3, 4, 5))


def numbered(shape: tuple[int, ...], around: tuple[str, ...]) -> Call:
    codes = np.arange(int(np.prod(shape)), dtype=np.uint8).reshape(shape)
    return Call(ONNX, {"x": Tensor("uint8", codes), "scale": tensor("float32", 2.0)}, {}, "", around)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("word", [*(f"x<{name}" for name in BEFORE), *(f"y>{name}" for name in AFTER), "y>requantize"])
def test_the_graph_undoes_its_moves(word, shape):
    """Run the graph on its inputs, with the identity as operator."""
    for number in (*range(8), -1, -2, -5):
        other = ("x<transpose:1", "y>reshape:2", "y>transpose:2", "x<concat:0")[number % 4]
        call = numbered(shape, tuple(sorted((f"{word}:{number}", other))))
        graph = surround(call)
        fed = {name: given.codes for name, given in {**graph.inputs, **graph.constants}.items()}
        assert all(node.output not in fed for node in graph.nodes)
        result = run(graph.nodes, fed)[graph.output]
        assert result.shape == graph.shape
        assert graph.back(Tensor("uint8", np.array(result, order="C"))).same_bits(call.data)


def test_each_word_gives_its_operator():
    met = {
        word: {
            node.operator
            for number in range(-6, 6)
            for node in surround(numbered((1, 4, 3, 2), (f"{word}:{number}",))).nodes
        }
        - {"DequantizeLinear"}
        for word in (*(f"x<{name}" for name in BEFORE if name != "flatten"), *(f"y>{name}" for name in AFTER))
    }
    special = {"cut": {"Slice"}, "pick": {"Gather"}}
    for word, operators in met.items():
        name = word[2:]
        expected = {"Concat", "Slice"} if word == "y>concat" else special.get(name, {name.capitalize()})
        assert operators - {"Identity"} == expected - {"Identity"}, word
        assert operators, word
    flattened = surround(numbered((4, 3), ("x<flatten:0",)))
    assert [node.operator for node in flattened.nodes] == ["Flatten", "DequantizeLinear"]


def test_operands_and_constants_are_distinguished():
    call = replace(LONE, around=("scale<reshape:0", "constant:scale", "x<concat:0"))
    graph = surround(call)
    assert set(graph.constants) == {"scale_1"}
    assert graph.constants["scale_1"].shape == (1,)
    assert set(graph.inputs) == {"x_1_a", "x_1_b"}
    assert [given.codes.tolist() for given in graph.inputs.values()] == [[[1, 2]], [[3, 4]]]


def test_a_result_of_another_shape_is_returned_unchanged():
    graph = surround(numbered((2, 3), ("y>transpose:0",)))
    assert graph.shape == (3, 2)
    wrong = Tensor("float32", np.zeros((2, 3), np.uint32))
    assert graph.back(wrong) is wrong


def test_elements_that_pick_leaves_out_have_other_values():
    graph = surround(numbered((4,), ("x<pick:0",)))
    fed = graph.inputs["x_1"].codes
    assert fed[1::2].tolist() == [0, 1, 2, 3]
    assert not set(fed[::2]) & {0, 1, 2, 3}


def test_the_result_is_cut_along_an_axis_that_is_not_quantized():
    scale = tensor("float32", [1.0, 2.0, 3.0])
    call = Call(ONNX, {"x": tensor("int8", [[1, 2, 3], [4, 5, 6]]), "scale": scale}, {"axis": -1}, "", ("y>cut:0",))
    assert surround(call).inputs["x"].shape == (4, 3)
    along = replace(call, around=("y>cut:1",))
    assert [node.operator for node in surround(along).nodes] == ["DequantizeLinear", "Identity"]


@pytest.mark.parametrize(
    "word", ["x<sideways:0", "z>transpose:0", "y>pick:0", "x>reshape:0", "constant", "x<", "shapes:x"]
)
def test_a_word_that_means_nothing_is_refused(word):
    with pytest.raises(ValueError, match="does not say what stands around a call"):
        surround(replace(LONE, around=(word,)))


def test_axes_of_old_opsets_are_not_spelled_from_the_back():
    old = graph_of(Call("ai.onnx/DequantizeLinear-10", LONE.tensors, {}, "", ("y>concat:-1",)))
    new = graph_of(Call("ai.onnx/DequantizeLinear-13", LONE.tensors, {}, "", ("y>concat:-1",)))
    assert [graph.nodes[-1].attributes["axis"] >= 0 for graph in (old, new)] == [True, False]


def test_surroundings_are_described_in_words():
    words = ("x<transpose:1", "y>cut:0", "y>requantize:0", "constant:scale", "shapes:symbolic")
    assert in_words(words) == (
        "Transpose before x, Slice after the result, QuantizeLinear and DequantizeLinear after the result, "
        "the scale a constant, inputs with named extents"
    )


# -- quantized again --------------------------------------------------------------------------------------


def quantized(dtype: str, x: list[int], scale_dtype: str, scale: float, zero_point: int | None = None, **attributes):
    tensors = {"x": tensor(dtype, x), "scale": tensor(scale_dtype, scale)}
    if zero_point is not None:
        tensors["zero_point"] = tensor(dtype, zero_point)
    return Call(ONNX, tensors, attributes)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (quantized("int8", [-128, 127], "float32", 0.1), True),
        (quantized("int8", [-128, 127], "float32", 0.1, -128), True),
        (quantized("int16", [-32768, 32767], "float32", 0.1, 3), True),
        (quantized("int8", [-60, 60], "float16", 0.1), True),
        (quantized("int8", [-128, 127], "float16", 0.1, 127), True),
        (quantized("int16", [-3000, 3000], "float16", 0.1), False),
        (quantized("int8", [-128, 127], "bfloat16", 0.1), False),
        (quantized("int8", [-15, 15], "bfloat16", 0.1), True),
        (quantized("int8", [-128, 127], "float32", 1e-39), False),
        (quantized("int8", [-128, 127], "float32", 3e37), False),
        (quantized("int8", [-128, 127], "float32", -0.1), False),
        (quantized("int8", [-128, 127], "float32", float("nan")), False),
        (quantized("int8", [-128, 127], "float32", 0.1, output_dtype="bfloat16"), False),
        (quantized("int32", [1], "float32", 0.1), False),
        (quantized("float8_e5m2", [1], "float32", 0.1), False),
        (quantized("int8", [], "float32", 0.1), False),
    ],
)
def test_a_result_is_quantized_again_only_if_that_gives_x(call, expected):
    assert requantizes(call) is expected


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("x_dtype", ["int8", "uint8"])
def test_quantizing_again_gives_x_when_all_is_rounded_to_the_type(dtype, x_dtype):
    rng = np.random.default_rng(5)
    codes = np.arange(256, dtype=np.uint8)
    x = codes.view(x_dtype).astype(np.int64)
    tried = 0
    for scale in np.abs(rng.normal(0, 1, 300)).astype(dtype):
        for zero_point in (0, x[rng.integers(256)]):
            call = Call(
                ONNX,
                {
                    "x": Tensor(x_dtype, codes),
                    "scale": tensor(dtype, float(scale)),
                    "zero_point": tensor(x_dtype, zero_point),
                },
            )
            if requantizes(call):
                y = ((x - zero_point).astype(dtype) * scale).astype(dtype)
                assert (np.rint((y / scale).astype(dtype)).astype(np.int64) + zero_point == x).all()
                tried += 1
    assert tried > 200


def test_x_comes_from_a_quantize_linear_that_surely_gives_it():
    """The legal codes of that QuantizeLinear are those of x alone."""
    tried = 0
    for call in islice(surrounded_calls(contracts.get("ai.onnx/DequantizeLinear-21"), 5), 300):
        if not comes_quantized(call):
            continue
        graph = surround(replace(call, around=("x<quantize:0",)))
        node, fed = graph.nodes[0], graph.inputs["x_1"]
        operands = [call.tensors[name] for name in node.inputs[1:]]
        zero_point = operands[1] if len(operands) > 1 else None
        made = quantize(21, "ai.onnx", fed, operands[0], zero_point, node.attributes)
        assert len(made.alternatives) == 1
        assert Tensor(made.dtype, made.alternatives[0]).same_bits(call.data)
        assert not made.open.any()
        tried += 1
    assert tried > 20


# -- asked of implementations -----------------------------------------------------------------------------

ASKED = (
    "ai.onnx/DequantizeLinear-10",
    "ai.onnx/DequantizeLinear-21",
    "ai.onnx/DequantizeLinear-25",
    "com.microsoft/DequantizeLinear-1@installed",
)


def moved_calls(name: str, seed: int) -> Iterator[Call]:
    """Yield calls whose surroundings only move data."""
    return (call for call in surrounded_calls(contracts.get(name), seed) if not changes_values(call))


@pytest.mark.parametrize("name", ASKED)
def test_a_graph_without_optimization_equals_the_lone_call(name):
    answer = onnxruntime_cpu.load().answer
    compared = 0
    for call in islice(moved_calls(name, 3), 90):
        outcome = answer(call, onnxruntime_cpu.UNOPTIMIZED)
        try:
            lone = answer(replace(call, around=()), "optimization=off")
        except Exception:
            assert outcome.kind == "unsupported"
            continue
        if outcome.kind != "unsupported":
            assert outcome.same(lone), call_to_line(call)
            compared += 1
    assert compared > 10


def test_the_reference_result_equals_that_of_the_lone_call():
    answer = onnx_reference.load().answer
    compared = 0
    with np.errstate(all="ignore"):
        for call in islice(moved_calls("ai.onnx/DequantizeLinear-21", 4), 90):
            outcome = answer(call, "graph")
            if outcome.kind == "tensor":
                assert outcome.same(answer(replace(call, around=()), "")), call_to_line(call)
                compared += 1
    assert compared > 60


def test_a_call_that_no_optimization_level_takes_is_unsupported():
    around = ("x<identity:0",)
    call = Call("ai.onnx/DequantizeLinear-10", {**LONE.tensors, "x": tensor("int16", 1)}, {}, "", around)
    outcome = onnxruntime_cpu.load().answer(call, "graph optimization=all")
    assert (outcome.kind, bool(outcome.error), bool(outcome.message)) == ("unsupported", True, True)


# -- made -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ASKED)
def test_calls_in_surroundings_are_allowed_and_various(name):
    contract = contracts.get(name)
    made = list(islice(surrounded_calls(contract, 1), 500))
    assert all(contract.judge(call).verdict == "allowed" and call.around for call in made)
    assert max(call.values for call in made if not {"y>matmul:0", "y>matmul:1"} & {*call.around}) <= MOST_VALUES
    words = {word.rpartition(":")[0] or word for call in made for word in call.around}
    assert {f"y>{name}" for name in AFTER} | {f"x<{name}" for name in BEFORE} <= words
    assert ("y>requantize" in words) == (not quantized_dtypes(made[0]))
    assert {word for call in made for word in call.around} >= {"constant:x", "constant:scale", "shapes:symbolic"}
    assert any("zero_point" not in call.tensors for call in made)
    assert {cell.x_dtype for cell in map(contract.cell, made)} == set(contract.domain.x_dtypes)
    assert {cell.granularity for cell in map(contract.cell, made)} == set(contract.domain.granularities)


def test_the_same_seed_makes_the_same_calls():
    contract = contracts.get(ONNX)
    first, again, other = ([c.digest() for c in islice(surrounded_calls(contract, s), 20)] for s in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize(
    ("name", "opset", "dtype", "expected"),
    [
        ("transpose", 10, "int8", True),
        ("transpose", 19, "float8_e5m2", False),
        ("transpose", 21, "int4", True),
        ("cut", 21, "int4", False),
        ("reshape", 19, "float8_e5m2", True),
        ("concat", 13, "bfloat16", True),
    ],
)
def test_an_operator_is_given_types_that_its_schema_has(name, opset, dtype, expected):
    assert takes(name, opset, dtype) is expected


def test_a_sweep_mixes_them_in_and_others_do_not():
    contract = contracts.get(ASKED[0])
    stream = batches(contract, 1, surrounded=True)
    cases = [case for _ in range(4) for case in next(stream)]
    around = [case for case in cases if case.call.around]
    assert {case.phase for case in around} == {"surrounded"}
    assert 0.25 < len(around) / len(cases) < 0.4
    assert [case.number for case in cases] == list(range(len(cases)))
    stream = batches(contract, 1)
    assert not any(case.call.around for _ in range(4) for case in next(stream))
