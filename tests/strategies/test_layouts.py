"""Memory layouts, from which every implementation reads the same values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xverify.core.call import LAYOUTS, Call, Tensor, code_dtype, constant_axes, decode_call, encode_call, lay_out
from xverify.core.codec import call_from_json, call_to_json
from xverify.oracles import all_oracles
from xverify.oracles.arrays import answered, hand_out, numpy_dtype, to_array
from xverify.workers.worker import Worker

SHAPES = ((), (0, 3), (1,), (5,), (2, 3), (2, 3, 4))
ROWS = np.array([[1, 2, 3], [1, 2, 3]], np.uint32)


def tensor(dtype: str, values: Any, layout: str = "C") -> Tensor:
    return Tensor(dtype, np.asarray(values).astype(numpy_dtype(dtype)).view(code_dtype(dtype)), layout)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_every_layout_has_the_same_values_in_memory_of_its_own(layout: str, dtype: str) -> None:
    for shape in SHAPES:
        given = np.arange(np.prod(shape), dtype=dtype).reshape(shape)
        laid = lay_out(given, layout)
        assert (laid.dtype, laid.shape) == (given.dtype, given.shape)
        assert (laid == given).all()
        assert laid.flags.writeable == (layout != "read-only")
        assert not np.shares_memory(laid, given)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_misaligned_begins_one_byte_past_an_aligned_address(dtype: str) -> None:
    for shape in ((), (5,), (2, 3)):
        laid = lay_out(np.ones(shape, dtype), "misaligned")
        assert laid.ctypes.data % 8 == 1
        assert laid.flags.aligned == (dtype == "uint8")
        assert laid.flags.c_contiguous


@pytest.mark.parametrize(
    ("given", "strides", "held"),
    [
        (ROWS, (0, 4), 3),
        (ROWS.T, (4, 0), 3),
        (np.full((2, 3), 7, np.uint32), (0, 0), 1),
        (np.full((4, 1), 7, np.uint32), (0, 4), 1),
        (np.broadcast_to(ROWS[:1, None, :], (2, 5, 3)), (0, 0, 4), 3),
        (np.arange(6, dtype=np.uint32).reshape(2, 3), (12, 4), 6),
        (np.array([[1, 2, 3], [1, 2, 4]], np.uint32), (12, 4), 6),
    ],
)
def test_broadcast_has_stride_0_where_the_values_are_constant(given: Any, strides: Any, held: int) -> None:
    laid = lay_out(given, "broadcast")
    assert laid.strides == strides
    assert (laid if laid.base is None else laid.base).size == held
    assert (laid == given).all()
    assert constant_axes(given) == tuple(stride == 0 for stride in strides)


def test_no_axis_of_an_empty_array_is_constant() -> None:
    assert constant_axes(np.zeros((2, 0), np.uint8)) == (False, False)
    assert constant_axes(np.zeros((), np.uint8)) == ()


@pytest.mark.parametrize("layout", ["misaligned", "broadcast"])
def test_a_call_keeps_the_layout_of_each_tensor_on_its_way(layout: str, tmp_path: Path) -> None:
    given = call_of("ai.onnx/DequantizeLinear-21", "int16", "float32", "int16")
    for role, one in given.tensors.items():
        sent = replace(given, tensors={**given.tensors, role: replace(one, layout=layout)})
        back = (decode_call(encode_call(sent)), call_from_json(call_to_json(sent), tmp_path))
        for received in back:
            assert {name: t.layout for name, t in received.tensors.items()} == {
                name: layout if name == role else "C" for name in given.tensors
            }
        assert sent.digest() != given.digest()


@pytest.mark.parametrize("layout", ["misaligned", "broadcast"])
def test_a_byte_written_into_the_memory_of_an_input_is_noted(layout: str) -> None:
    given = call_of("ai.onnx/DequantizeLinear-21", "int16", "float32", "int16")
    sent = replace(given, tensors={**given.tensors, "x": replace(given.tensors["x"], layout=layout)})
    y = np.zeros((2, 3), np.float32)
    handed = hand_out(sent)
    assert answered(y, sent, handed).notes == ()
    handed["x"].base.view(np.uint8).reshape(-1)[0] ^= 1
    assert answered(y, sent, handed).notes == ("input-written",)
    assert answered(handed["x"][:1], sent, hand_out(sent)).notes == ()


def call_of(contract: str, x: str, scale: str, zero_point: str | None, **attributes: Any) -> Call:
    """Return a call per axis whose operands are constant along an axis: equal rows, scales, zero points."""
    tensors = {"x": tensor(x, [[1, 2, 3], [1, 2, 3]]), "scale": tensor(scale, [0.5] * 3)}
    if zero_point is not None:
        tensors["zero_point"] = tensor(zero_point, [2] * 3)
    return Call(contract, tensors, {"axis": 1, **attributes})


def range_of(dtype: str) -> Call:
    tensors = {
        "input": tensor(dtype, [[1, 2, 3], [1, 2, 3]]),
        "min_range": tensor("float32", [-1.0] * 3),
        "max_range": tensor("float32", [1.0] * 3),
    }
    return Call("tensorflow/Dequantize@installed", tensors, {"mode": "SCALED", "axis": 1})


ONNX, MICROSOFT, ONEDNN = (
    "ai.onnx/DequantizeLinear-21",
    "com.microsoft/DequantizeLinear-1@installed",
    "onednn/DynamicDequantize-1@multiply",
)

CALLS = {
    "onnxruntime": [
        call_of(ONNX, "int16", "float32", "int16"),
        call_of(ONNX, "uint8", "float16", "uint8"),
        call_of(ONNX, "int4", "float32", "int4"),
        call_of(ONNX, "float8_e5m2", "float32", None),
        call_of(ONNX, "int32", "float32", None),
        call_of(MICROSOFT, "uint16", "float32", "uint16"),
    ],
    "onnx-reference": [
        call_of(ONNX, "int16", "float32", "int16"),
        call_of(ONNX, "uint8", "bfloat16", "uint8"),
        call_of(ONNX, "int4", "float32", "int4"),
    ],
    "xverify-numpy": [
        call_of(ONNX, "int16", "bfloat16", "int16"),
        call_of(ONEDNN, "int8", "float32", "int32", qtype="per_channel"),
        range_of("int16"),
    ],
    "onednn-formula-multiply": [call_of(ONEDNN, "int8", "float32", "int32", qtype="per_channel")],
    "tensorflow": [range_of("int8"), range_of("uint8")],
}  # fmt: skip


@pytest.fixture(params=sorted(CALLS))
def worker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Worker]:
    started = Worker(all_oracles()[request.param], tmp_path)
    started.start()
    yield started
    started.stop()


def test_every_oracle_reads_the_same_values_from_every_layout(worker: Worker) -> None:
    """Operands change layout in turn and all at once. Linear results are -0.5, 0 and 0.5, or half of x."""
    paths = [path.options for path in worker.oracle.paths]
    for call in CALLS[worker.oracle.name]:
        plain = worker.ask(encode_call(call))
        assert (plain.kind, plain.notes) == ("tensor", ())
        assert plain.tensor is not None
        if "x" in call.tensors:
            expected = [[-0.5, 0.0, 0.5] if "zero_point" in call.tensors else [0.5, 1.0, 1.5]] * 2
            assert to_array(plain.tensor).astype(float).tolist() == expected
        for layout in LAYOUTS:
            for roles in (*((role,) for role in call.tensors), tuple(call.tensors)):
                laid = {role: replace(call.tensors[role], layout=layout) for role in roles}
                for path in paths:
                    outcome = worker.ask(encode_call(replace(call, tensors={**call.tensors, **laid})), path)
                    assert (outcome.kind, outcome.notes) == ("tensor", ()), (layout, roles, path, outcome.message)
                    assert outcome.same(plain), (call.data.dtype, layout, roles, path)
