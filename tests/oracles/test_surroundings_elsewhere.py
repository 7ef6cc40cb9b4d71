"""Graphs of TensorFlow, OpenVINO and oneDNN: of one call, and of a call with operations around it.

A call with operations around it has the lone call's outcome. One worker imports TensorFlow for all tests of its graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from asked_calls import asker, linear, ranged, some_codes, tensor, values
from folders import SUPPORT

from xverify import contracts
from xverify.core.call import LAYOUTS, Call, Outcome
from xverify.core.line import call_to_line
from xverify.core.moves import AFTER, BEFORE
from xverify.core.surroundings import changes_values, surround
from xverify.oracles import all_oracles, onednn_library
from xverify.oracles.arrays import to_array
from xverify.oracles.onednn_graph_api import Library
from xverify.oracles.onednn_library import APART, FUSED
from xverify.oracles.openvino_cpu import GRAPH, GRAPH_FLOAT32
from xverify.oracles.protocol import Oracle
from xverify.oracles.protocol import Path as Way
from xverify.oracles.tensorflow_graph import COMPILED, CONSTANT, OPTIMIZED, QUANTIZED, STATIC, UNKNOWN, UNOPTIMIZED
from xverify.oracles.tensorflow_nodes import tensorflow_first_quantized
from xverify.strategies.surrounded import MOST_VALUES, ONEDNN_CHANGES, TENSORFLOW_CHANGES, surrounded_calls
from xverify.verify.verdicts import compared, judge

TENSORFLOW = "tensorflow/Dequantize@installed"
RANGES = (TENSORFLOW, "tensorflow/Dequantize@seed")
HERE = str(SUPPORT)

Ask = Callable[..., Outcome]


# -- TensorFlow -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    oracle = Oracle(
        "graphs", "tensorflow-cpu", RANGES, (), "graph_oracles", "load_tensorflow", (Way("", 1.0),), search_path=(HERE,),
        needs_xverify=True,
    )  # fmt: skip
    yield from asker(oracle, tmp_path_factory.mktemp("graphs"))


FUNCTIONS = ["function", *(f"function {path}" for path in (UNKNOWN, STATIC, CONSTANT))]


@pytest.mark.parametrize("path", [*FUNCTIONS, "xla"])
def test_graphs_give_exact_values(graphs: Ask, path: str) -> None:
    for shape in ((), (5,), (2, 3)):
        x = some_codes("uint8", shape)
        np.testing.assert_array_equal(values(graphs(ranged(x, 0.0, 255.0), path)), to_array(x))
        assert graphs(ranged(x, 0.0, 255.0), path).kind == "tensor", "again, from the cache"
    outcome = graphs(ranged(some_codes("uint8", (5,)), 0.0, 255.0, dtype="bfloat16", mode="MIN_COMBINED"), path)
    assert outcome.tensor is not None
    assert outcome.tensor.dtype == "bfloat16"


@pytest.mark.parametrize("path", FUNCTIONS)
@pytest.mark.parametrize(("dtype", "largest"), [("int8", 127), ("int16", 32767)])
def test_graphs_scale_integers_that_are_exact(graphs: Ask, path: str, dtype: str, largest: int) -> None:
    x = tensor(dtype, [-largest, -1, 0, 3, largest])
    call = ranged(x, -float(largest), float(largest), mode="SCALED", narrow_range=True)
    np.testing.assert_array_equal(values(graphs(call, path)), to_array(x))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_graphs_read_every_layout(graphs: Ask, layout: str) -> None:
    x = some_codes("uint8", (3, 4), layout)
    for path in ("function", "xla"):
        np.testing.assert_array_equal(values(graphs(ranged(x, 0.0, 255.0), path)), to_array(x))


def test_graphs_scale_each_slice_when_they_know_the_rank(graphs: Ask) -> None:
    bounds = {"min_range": tensor("float32", [-127, -254]), "max_range": tensor("float32", [127, 254])}
    x = tensor("int8", [[1, -2, 3], [1, -2, 3]])
    call = Call(TENSORFLOW, {"input": x, **bounds}, {"mode": "SCALED", "axis": 0, "narrow_range": True})
    for path in ("function", f"function {STATIC}", f"function {CONSTANT}"):
        np.testing.assert_array_equal(values(graphs(call, path)), [[1, -2, 3], [2, -4, 6]])
    assert graphs(call, f"function {UNKNOWN}").refused


def test_what_a_graph_refuses_is_a_refusal_each_time_and_of_that_call_only(graphs: Ask) -> None:
    x = some_codes("uint8", (2,))
    refused = [
        ranged(some_codes("float32", (2,)), 0, 1),
        ranged(x, 0, 1, mode="NONE"),
        ranged(x, 0, 1, round_mode="HALF_TO_EVEN"),
    ]
    for path in (*FUNCTIONS, "xla"):
        assert [graphs(call, path).kind for call in refused * 2] == ["rejected"] * 6
        assert graphs(ranged(x, 0.0, 255.0), path).kind == "tensor"
    only_xla = [ranged(x, 0.0, 1.0, mode="SCALED"), ranged(some_codes("int16", (2,)), -1.0, 1.0, mode="MIN_COMBINED")]
    for call in only_xla:
        assert [graphs(call, "xla").kind for _ in range(2)] == ["rejected"] * 2
        assert graphs(call, "function").kind == "tensor"


@pytest.mark.parametrize("name", RANGES)
def test_calls_of_ranges_in_surroundings_are_allowed_and_various(name: str) -> None:
    contract = contracts.get(name)
    made = list(islice(surrounded_calls(contract, 1), 300))
    assert all(contract.judge(call).verdict == "allowed" and call.around for call in made)
    assert max(call.values for call in made) <= MOST_VALUES
    words = {word.rpartition(":")[0] or word for call in made for word in call.around}
    assert {f"y>{name}" for name in AFTER} | {f"input<{name}" for name in BEFORE} <= words
    single = {word for call in made for word in call.around}
    assert single >= {"constant:input", "constant:min_range", "constant:max_range", "shapes:symbolic"}
    assert any(word.startswith("min_range<") for word in single)
    assert {cell.x_dtype for cell in map(contract.cell, made)} == set(contract.domain.x_dtypes)
    assert {call.attributes["mode"] for call in made} == set(contract.domain.modes)
    assert len({call.data.shape for call in made}) > 10


GRAPH_PATHS = [
    *(f"function {level}{moves}" for level in (UNOPTIMIZED, OPTIMIZED) for moves in ("", QUANTIZED)),
    *(f"xla {COMPILED}{moves}" for moves in ("", QUANTIZED)),
]


def test_paths_are_the_oracles_own() -> None:
    known = all_oracles()
    own = [f"{name} {path.options}" for name in ("function", "xla") for path in known[f"tensorflow-{name}"].surrounded]
    assert sorted(own) == sorted(GRAPH_PATHS)
    assert [known[f"tensorflow-{name}"].surrounded[-1].options for name in ("function", "xla")] == [OPTIMIZED, COMPILED]


@pytest.mark.parametrize(
    ("dtype", "path"),
    [*(("uint8", path) for path in GRAPH_PATHS), ("int16", GRAPH_PATHS[0]), ("int16", GRAPH_PATHS[3])],
)
def test_every_word_moves_values_that_come_back(graphs: Ask, dtype: str, path: str) -> None:
    """XLA dequantizes integers of 8 bits only."""
    x = some_codes(dtype, (2, 1, 3))
    lone = graphs(ranged(x, -3.0, 5.0, mode="MIN_COMBINED"), path.partition(" ")[0])
    assert lone.kind == "tensor"
    words = zip(BEFORE, reversed(("transpose", *AFTER)), strict=True)
    for number, (before, after) in enumerate(words, -4):
        around = (f"input<{before}:{number}", f"y>{after}:{-number}", "min_range<reshape:1", "max_range<squeeze:0")
        call = replace(ranged(x, -3.0, 5.0, mode="MIN_COMBINED"), around=(*around, *["shapes:symbolic"][: number % 2]))
        outcome = graphs(call, path)
        assert outcome.kind == "tensor", outcome.message
        assert outcome.same(lone), call_to_line(call)


def test_a_graph_of_tensorflow_that_is_not_optimised_gives_what_the_lone_call_gives(graphs: Ask) -> None:
    compared = 0
    moved = (call for call in surrounded_calls(contracts.get(TENSORFLOW), 3) if not changes_values(call))
    for call in islice(moved, 30):
        if not call.values:  # what TensorFlow does of these may end the process, surrounded or not
            continue
        outcome = graphs(call, f"function {UNOPTIMIZED}{QUANTIZED if compared % 2 else ''}")
        lone = graphs(replace(call, around=()), "function ")
        if lone.kind == "tensor":
            assert outcome.same(lone), (call_to_line(call), outcome.message)
            compared += 1
        else:
            assert outcome.kind == "unsupported"
    assert compared > 18


@pytest.mark.parametrize("path", GRAPH_PATHS[::2])
def test_tensorflow_has_words_that_change_values(graphs: Ask, path: str) -> None:
    call = ranged(some_codes("uint8", (2, 3)), 0.0, 255.0)
    contract = contracts.get(TENSORFLOW)
    for number, name in enumerate(TENSORFLOW_CHANGES):
        for around in ((f"y>{name}:{number}",), (f"y>{name}:{number + 3}", "y>transpose:0", f"fork:{number}")):
            judged = judge(contract, replace(call, around=around))
            comparison = compared(judged, graphs(judged.call, path))
            assert comparison is not None, around
            assert not comparison.wrong_values, around


def test_ranges_of_slices_are_moved(graphs: Ask) -> None:
    bounds = {"min_range": tensor("float32", [-127, -254]), "max_range": tensor("float32", [127, 254])}
    x = tensor("int8", [[1, -2, 3], [1, -2, 3]])
    attributes = {"mode": "SCALED", "axis": 0, "narrow_range": True}
    words = ("min_range<slice:0", "max_range<gather:0", "input<transpose:0", "y>slice:0")
    for around in (words, (*words, "constant:min_range", "constant:max_range"), (*words, "constant:input")):
        outcome = graphs(Call(TENSORFLOW, {"input": x, **bounds}, attributes, "", around), f"function {OPTIMIZED}")
        np.testing.assert_array_equal(values(outcome), [[1, -2, 3], [2, -4, 6]])


def test_the_optimiser_is_off_and_on(graphs: Ask) -> None:
    around = ("input<transpose:0", "y>transpose:0", "constant:input", "constant:min_range", "constant:max_range")
    call = replace(ranged(some_codes("uint8", (2, 3)), 0.0, 255.0), around=around)
    left = {level: to_array(graphs(call, f"count function {level}").tensor)[0] for level in (UNOPTIMIZED, OPTIMIZED)}
    assert left == {UNOPTIMIZED: 3, OPTIMIZED: 0}
    assert to_array(graphs(call, f"count function {UNOPTIMIZED}").tensor)[0] == 3, "again, after the other"


def test_what_no_graph_of_tensorflow_takes_is_unsupported(graphs: Ask) -> None:
    call = replace(ranged(some_codes("uint8", (2, 3)), 0.0, 255.0, mode="NO_MODE"), around=("y>transpose:0",))
    for path in (f"function {OPTIMIZED}", f"xla {COMPILED}"):
        outcome = graphs(call, path)
        assert (outcome.kind, bool(outcome.error), bool(outcome.message)) == ("unsupported", True, True)


@pytest.mark.parametrize(
    ("words", "dtype", "early", "operator"),
    [
        (("input<reshape:0", "input<transpose:0"), "int8", "", "DequantizeLinear"),
        (("input<reshape:0", "input<transpose:0"), "int8", "kernels", "DequantizeLinear"),
        (("input<reshape:0", "input<transpose:0"), "int8", "XLA", "Reshape"),
        (("input<transpose:0", "input<reshape:1"), "int8", "kernels", "Reshape"),
        (("input<slice:0",), "int8", "kernels", "Slice"),
        (("input<slice:0",), "int16", "kernels", "DequantizeLinear"),
        (("input<slice:-1",), "int8", "XLA", "DequantizeLinear"),
        (("min_range<reshape:1",), "int8", "kernels", "DequantizeLinear"),
    ],
)
def test_integers_become_quantized_as_soon_as_that_type_can_be_moved(words, dtype, early, operator) -> None:
    call = replace(ranged(some_codes(dtype, (2, 3)), 0.0, 255.0), around=words)
    rows = [(node.operator, node.inputs, node.output, node.attributes) for node in surround(call).nodes]
    assert rows[tensorflow_first_quantized(rows, dtype, early)][0] == operator


@pytest.mark.parametrize("way", ["script", "short"])
@pytest.mark.parametrize("path", GRAPH_PATHS[1::2])
def test_scripts_make_the_graph_of_tensorflow(graphs: Ask, way: str, path: str) -> None:
    call = ranged(some_codes("int8", (2, 1, 3)), -1.1, 1.7, mode="MIN_COMBINED")
    for around in (
        ("input<concat:2", "input<slice:0", "y>flatten:1", "y>concat:0", "constant:min_range"),
        ("input<slice:-1", "input<gather:1", "y>cut:0", "y>slice:-2", "shapes:symbolic", "constant:input"),
        ("input<unsqueeze:0", "min_range<reshape:1", "input<transpose:2", "y>squeeze:0", "y>identity:0"),
    ):
        asked = replace(call, around=around, attributes={**call.attributes, "dtype": "bfloat16"})
        by_oracle, by_script = graphs(asked, path), graphs(asked, f"{way} {path}")
        assert by_script.kind == "tensor", by_script.message
        assert by_oracle.same(by_script)


# -- OpenVINO ---------------------------------------------------------------------------------------------

ONNX = "ai.onnx/DequantizeLinear-21"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    oracle = Oracle(
        "models", "openvino", (ONNX,), (), "graph_oracles", "load_openvino", (Way("", 1.0),), search_path=(HERE,),
        needs_xverify=True,
    )  # fmt: skip
    yield from asker(oracle, tmp_path_factory.mktemp("models"))


def test_paths_are_those_of_openvino() -> None:
    assert [path.options for path in all_oracles()["openvino"].surrounded] == [GRAPH_FLOAT32, GRAPH]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint4"])
def test_openvino_moves_values_that_come_back(models: Ask, dtype: str) -> None:
    """Products are exact, so OpenVINO's rewriting of the arithmetic does not matter."""
    x, scale = some_codes(dtype, (2, 1, 3)), tensor("float32", 0.5)
    lone = models(linear(ONNX, x, scale), "precision=float32")
    assert lone.kind == "tensor"
    answered = 0
    for number, (before, after) in enumerate(zip(BEFORE, reversed(("transpose", *AFTER)), strict=True), -4):
        around = (f"x<{before}:{number}", f"y>{after}:{-number}", "scale<reshape:1", *["constant:scale"][: number % 2])
        outcome = models(replace(linear(ONNX, x, scale), around=around), GRAPH_FLOAT32)
        assert outcome.kind == "unsupported" or outcome.same(lone), around
        answered += outcome.kind == "tensor"
    assert answered > 8 if dtype != "uint4" else answered > 2


def test_what_no_graph_of_openvino_takes_is_unsupported(models: Ask) -> None:
    call = linear(ONNX, tensor("int8", [1, 2]), tensor("float32", 0.5), axis=7)
    outcome = models(
        replace(call, tensors={**call.tensors, "scale": tensor("float32", [1, 2])}, around=("x<identity:0",))
    )
    assert (outcome.kind, bool(outcome.error), bool(outcome.message)) == ("unsupported", True, True)


def test_scripts_make_the_graph_of_openvino(models: Ask) -> None:
    for dtype, around in (
        ("int8", ("x<concat:2", "x<slice:0", "y>flatten:1", "y>concat:0", "constant:scale")),
        ("uint8", ("x<slice:-1", "x<gather:1", "y>cut:0", "y>slice:-2", "shapes:symbolic")),
        ("uint4", ("x<reshape:0", "y>identity:0")),
        ("uint8", ("y>requantize:0", "constant:x")),
    ):
        call = replace(linear(ONNX, some_codes(dtype, (2, 1, 3)), tensor("float32", 0.3)), around=around)
        by_oracle, by_script = models(call, GRAPH_FLOAT32), models(call, f"script {GRAPH_FLOAT32}")
        assert by_script.kind == "tensor", by_script.message
        assert by_oracle.same(by_script)


def test_openvino_knows_the_extents_of_blocks(models: Ask) -> None:
    x, scale = some_codes("int8", (2, 4)), tensor("float32", [[0.5, 2.0], [1.0, 4.0]])
    call = linear(ONNX, x, scale, axis=1, block_size=2)
    lone = models(call, "precision=float32")
    for way in ("", "script "):
        outcome = models(replace(call, around=("x<transpose:0", "shapes:symbolic")), f"{way}{GRAPH_FLOAT32}")
        assert outcome.same(lone), outcome.message


# -- oneDNN -----------------------------------------------------------------------------------------------

DYNAMIC, STATIC = "onednn/DynamicDequantize-1@multiply", "onednn/Dequantize-1@3.5"


@pytest.fixture(scope="module")
def onednn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    oracle = replace(
        all_oracles()["onednn"], module="graph_oracles", load="load_onednn", search_path=(HERE,), needs_xverify=True
    )
    yield from asker(oracle, tmp_path_factory.mktemp("onednn"))


@pytest.mark.parametrize("path", [APART, FUSED])
@pytest.mark.parametrize("contract", [DYNAMIC, STATIC])
@pytest.mark.parametrize("qtype", ["per_tensor", "per_channel"])
def test_onednn_moves_values_that_come_back(onednn: Ask, contract: str, qtype: str, path: str) -> None:
    scales = [0.3] if qtype == "per_tensor" else [0.3, 0.7, 1e-3]
    x, zero_point = some_codes("int8", (2, 3, 4)), tensor("int32", [0] * len(scales))
    call = linear(
        contract, x, tensor("float32", scales), zero_point if contract == STATIC else None, qtype=qtype, axis=1
    )
    lone = onednn(call)
    assert lone.kind == "tensor"
    words = [
        "y>transpose:1",
        "y>transpose:3",
        "y>reshape:1",
        "y>squeeze:0",
        "y>unsqueeze:-1",
        "y>flatten:2",
        "y>identity:0",
    ]
    moves = ["scale<reshape:1", "scale<identity:0"] if contract == DYNAMIC else []
    for number, word in enumerate(words):
        around = (word, words[number - 2], *moves[number % 2 :][:1], *["constant:scale", "constant:x"][number % 3 :])
        outcome = onednn(replace(call, around=around), path)
        assert (outcome.kind, outcome.notes) == ("tensor", ()), outcome.message
        assert outcome.same(lone), around


@pytest.mark.parametrize("path", [APART, FUSED])
@pytest.mark.parametrize("contract", [DYNAMIC, STATIC])
def test_onednn_quantizes_again(onednn: Ask, contract: str, path: str) -> None:
    """oneDNN fuses a Dequantize and a Quantize with a Reorder between them.

    Release 3.2 then dies for zero points other than 0.
    """
    for dtype in ("int8", "uint8"):
        for number, *around in (
            (7, "y>requantize:0"),
            (0, "y>identity:0", "y>requantize:0"),
            (7, "y>requantize:0", "y>transpose:0"),
        ):
            call = linear(contract, some_codes(dtype, (3, 5)), tensor("float32", [0.3]), tensor("int32", [number]))
            lone = onednn(call)
            assert lone.kind == "tensor"
            outcome = onednn(replace(call, around=tuple(around)), path)
            assert outcome.same(lone), (around, outcome.message)


@pytest.mark.parametrize("path", [APART, FUSED])
@pytest.mark.parametrize("contract", [DYNAMIC, STATIC])
def test_onednn_has_words_that_change_values(onednn: Ask, contract: str, path: str) -> None:
    zero_point = tensor("int32", [0]) if contract == STATIC else None
    call = linear(contract, some_codes("int8", (3, 5)), tensor("float32", [0.3]), zero_point)
    for number, name in enumerate(ONEDNN_CHANGES[:-1]):
        for around in ((f"y>{name}:0",), (f"y>{name}:{number}", "y>transpose:0", "y>relu:0", "constant:x")):
            if any(
                node.operator == "Clip" and not all(node.inputs)
                for node in surround(replace(call, around=around)).nodes
            ):
                continue
            judged = judge(contracts.get(contract), replace(call, around=around))
            outcome = onednn(judged.call, path)
            comparison = compared(judged, outcome)
            assert comparison is not None, (around, outcome.message)
            assert not comparison.wrong_values, around


@pytest.mark.parametrize(
    ("contract", "word"),
    [(DYNAMIC, "y>gather:0"), (DYNAMIC, "x<transpose:0"), (STATIC, "scale<reshape:1"), (STATIC, "y>slice:0")],
)
def test_what_onednn_has_no_operation_for_is_unsupported(onednn: Ask, contract: str, word: str) -> None:
    zero_point = tensor("int32", [0]) if contract == STATIC else None
    call = linear(contract, some_codes("int8", (3, 5)), tensor("float32", [0.3]), zero_point)
    assert onednn(call).kind == "tensor"
    call = replace(call, around=(word,))
    outcome = onednn(call, FUSED)
    assert (outcome.kind, bool(outcome.error), bool(outcome.message)) == ("unsupported", True, True)


@pytest.mark.parametrize("path", [APART, FUSED])
def test_scripts_make_the_graph_of_onednn(onednn: Ask, path: str) -> None:
    x, zero_point = some_codes("int8", (2, 3, 4)), tensor("int32", [0, 0, 0])
    for contract, around in (
        (STATIC, ("y>transpose:1", "y>reshape:1", "constant:x")),
        (STATIC, ("y>identity:0", "y>requantize:0")),
        (DYNAMIC, ("scale<reshape:1", "y>identity:0", "constant:scale")),
        (DYNAMIC, ("y>requantize:0", "y>flatten:2")),
    ):
        call = linear(contract, x, tensor("float32", [0.3, 0.7, 1e-3]), zero_point if contract == STATIC else None,
                      qtype="per_channel", axis=1)  # fmt: skip
        call = replace(call, around=around)
        by_oracle, by_script = onednn(call, path), onednn(call, f"script {path}")
        assert by_script.kind == "tensor", by_script.message
        assert by_oracle.same(by_script)


def test_operations_are_apart_or_fused(onednn: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fusing makes one partition of Dequantize, Reorder and Quantize. A Dequantize follows."""
    compiled: list[int] = []
    compile_one = Library.compile_partition
    monkeypatch.setattr(
        Library, "compile_partition", lambda self, *given: compiled.append(1) or compile_one(self, *given)
    )
    answer = onednn_library.load().answer
    call = linear(STATIC, some_codes("int8", (3, 5)), tensor("float32", [0.3]), tensor("int32", [0]))
    for path, partitions in ((APART, 4), (FUSED, 2)):
        compiled.clear()
        outcome = answer(replace(call, around=("y>identity:0", "y>requantize:0")), path)
        assert (outcome.kind, len(compiled)) == ("tensor", partitions)


def test_what_only_the_fused_graph_refuses_is_rejected(onednn: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = Library.partitions

    def three_at_least(self: Library, graph: object) -> object:
        made = partitions(self, graph)  # type: ignore[arg-type]
        if len(made) < 3:
            raise ValueError("fused")
        return made

    monkeypatch.setattr(Library, "partitions", three_at_least)
    answer = onednn_library.load().answer
    call = linear(STATIC, some_codes("int8", (3, 5)), tensor("float32", [0.3]), tensor("int32", [0]))
    kinds = [answer(replace(call, around=("y>identity:0", "y>requantize:0")), path).kind for path in (APART, FUSED)]
    assert kinds == ["tensor", "rejected"]
    short = replace(call, around=("y>identity:0",))
    assert answer(short, FUSED).kind == "unsupported"


@pytest.mark.parametrize("name", [DYNAMIC, STATIC, "onednn/DynamicDequantize-1@3.7"])
def test_calls_of_onednn_in_surroundings_have_what_it_has(name: str) -> None:
    contract = contracts.get(name)
    made = list(islice(surrounded_calls(contract, 1), 200))
    assert all(contract.judge(call).verdict == "allowed" and call.around for call in made)
    words = {word.rpartition(":")[0] for call in made for word in call.around}
    after = {
        f"y>{word}" for word in ("transpose", "reshape", "squeeze", "unsqueeze", "flatten", "identity", "requantize")
    }
    changes = {f"y>{word}" for word in ONEDNN_CHANGES if name.endswith("3.7") or word != "wider"}
    assert {word for word in words if word.startswith("y>")} == after | changes
    assert {word.partition("<")[0] for word in words if "<" in word} == (set() if name == STATIC else {"scale"})
