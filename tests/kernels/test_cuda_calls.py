"""Calls of the CUDA kernels: launches, accepted arrays, refusals and streams.

On a card some of them run with the real CuPy too.
"""

from __future__ import annotations

import sys
from functools import partial
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuda_arrays import launch_of, launches_of, on_device, on_host, random, refused_alike, scales
from cuda_on_cpu import LIES_ON, FakeCuPy, Stream
from kernel_arrays import INSTALLED, NEWEST, SCALES, SEED, coded, codes_of, dtype_of

import xverify
from xverify.core.call import Call
from xverify.engine.select import kernel_named
from xverify.kernels.blocks import Spread
from xverify.kernels.cuda import dequantize_linear, dequantize_packed, dequantize_range, dynamic_dequantize
from xverify.kernels.cuda.geometry import Geometry, Kind, divisor, geometry, in_vectors
from xverify.kernels.cuda.launch import THREADS, Launch
from xverify.kernels.plans import Operand
from xverify.oracles import all_oracles, answers
from xverify.oracles.arrays import from_array, to_array
from xverify.oracles.xverify_cuda import load


@pytest.mark.parametrize("bits", [32, 64])
def test_division_by_multiplying(bits: int) -> None:
    rng = np.random.default_rng(bits)
    ends = [1, 2, 3, 5, 7, 641, 2**16 - 1, 2**16 + 1, 2 ** (bits - 1) - 1, 2 ** (bits - 2), 2 ** (bits - 2) + 1]
    for number in (*ends, *map(int, rng.integers(1, 2 ** (bits - 1), 200, np.uint64))):
        value, multiplier, shift = divisor(number, bits)
        assert (value, multiplier < 1 << bits, shift < bits) == (number, True, True)
        last = 2 ** (bits - 1) - 1
        near = [k * number + d for k in (0, 1, 2, last // number) for d in (-1, 0, 1)]
        for n in (*near, last, *map(int, rng.integers(0, last, 20, np.uint64))):
            if 0 <= n <= last:
                total = (n * multiplier >> bits) + n
                assert total < 1 << bits
                assert total >> shift == n // number


@pytest.mark.parametrize(
    ("x", "parameter", "spread", "expected"),
    [
        ((4, 5), (), Spread(), None),
        ((4, 5), (1, 1), Spread(1, 9), None),
        ((4, 5), (5,), Spread(1), Geometry(5, 1, 1, 0, 0, 1)),
        ((5,), (5,), Spread(0), Geometry(5, 1, 1, 0, 0, 1)),
        ((4, 5, 3), (5,), Spread(1), Geometry(3, 5, 1, 0, 1, 0)),
        ((4, 5, 3), (4, 5, 3), Spread(1), Geometry(60, 1, 1, 0, 0, 1)),
        ((4, 5, 3), (4, 3, 3), Spread(1, 2), Geometry(3, 5, 2, 9, 3, 1)),
        ((4, 5, 2), (4, 1, 2), Spread(1, 7), Geometry(2, 5, 5, 2, 2, 1)),
        ((4, 5), (4, 3), Spread(1, 2), Geometry(1, 5, 2, 3, 1, 0)),
        ((7,), (4,), Spread(0, 2), Geometry(1, 7, 2, 4, 1, 0)),
    ],
)
def test_which_parameter_serves_which_element(
    x: tuple[int, ...], parameter: tuple[int, ...], spread: Spread, expected: Geometry | None
) -> None:
    """There are as few divisions as possible. The last is by 1 if each element has its own parameter."""
    found = geometry(x, parameter, spread)
    assert found == expected
    if found is not None:
        axis, numbers = spread.axis or 0, np.arange(prod(parameter)).reshape(parameter)
        if len(parameter) < len(x):
            numbers = np.expand_dims(numbers, tuple(range(1, len(x) - axis)))
        else:
            numbers = numbers.repeat(spread.run, axis).take(range(x[axis]), axis)
        want = np.broadcast_to(numbers, x).ravel().tolist()
        rows, places = zip(*(divmod(i, found.inner) for i in range(prod(x))), strict=True)
        got = [
            row // found.extent * found.outer_stride + row % found.extent // found.run * found.run_stride
            + place * found.inner_stride
            for row, place in zip(rows, places, strict=True)
        ]  # fmt: skip
        assert got == want


@pytest.mark.parametrize(
    ("x", "parameter", "spread", "expected"),
    [
        ((4, 8), (8,), Spread(1), (Kind.COLUMNS, Geometry(8, 1, 1, 0, 0, 1))),
        ((8,), (8,), Spread(0), (Kind.COLUMNS, Geometry(8, 1, 1, 0, 0, 1))),
        ((4, 9), (9,), Spread(1), Kind.ANY),
        ((4, 5, 8), (5,), Spread(1), (Kind.AXIS, Geometry(1, 5, 8, 0, 1, 0))),
        ((5, 8), (5,), Spread(0), (Kind.RUNS, Geometry(1, 5, 8, 0, 1, 0))),
        ((4, 5, 6), (5,), Spread(1), Kind.ANY),
        ((4, 16), (4, 4), Spread(1, 4), (Kind.RUNS, Geometry(1, 64, 4, 0, 1, 0))),
        ((18,), (5,), Spread(0, 4), (Kind.RUNS, Geometry(1, 18, 4, 0, 1, 0))),
        ((4, 18), (4, 5), Spread(1, 4), Kind.ANY),
        ((4, 12), (4, 4), Spread(1, 3), Kind.ANY),
        ((3, 4, 8), (3, 2, 8), Spread(1, 2), (Kind.BLOCKS, Geometry(8, 1, 2, 0, 0, 1))),
        ((5, 8), (3, 8), Spread(0, 2), (Kind.BLOCKS, Geometry(8, 1, 2, 0, 0, 1))),
        ((3, 5, 8), (3, 3, 8), Spread(1, 2), Kind.ANY),
        ((4, 5, 8), (4, 5, 8), Spread(1), (Kind.COLUMNS, Geometry(160, 1, 1, 0, 0, 1))),
    ],
)
def test_geometries_whose_vectors_lie_in_one_run_and_row(
    x: tuple[int, ...], parameter: tuple[int, ...], spread: Spread, expected: Any
) -> None:
    """Vectors of 4 elements. The formulas give the parameter that the general one gives."""
    general = geometry(x, parameter, spread)
    assert general is not None
    kind, found = in_vectors(general, prod(x), 4)
    assert (kind, found) == ((kind, general) if expected is Kind.ANY else expected)
    assert (kind is Kind.ANY) == (expected is Kind.ANY)
    index = np.arange(prod(x))
    row, inner = np.divmod(index, general.inner)
    outer, along = np.divmod(row, general.extent)
    want = outer * general.outer_stride + along // general.run * general.run_stride + inner * general.inner_stride
    got = {
        Kind.ANY: want,
        Kind.RUNS: index // found.run,
        Kind.AXIS: index // found.run % found.extent,
        Kind.COLUMNS: index % found.inner,
        Kind.BLOCKS: index // found.inner // found.run * found.inner + index % found.inner,
    }
    assert got[kind].tolist() == want.tolist()


def test_parameters_that_no_vector_holds_are_read_one_by_one() -> None:
    general = geometry((4, 8), (8,), Spread(1))
    assert general is not None
    assert in_vectors(general, 32, 4, adjacent=False) == (Kind.ANY, general)


def test_grid_and_head() -> None:
    assert THREADS % 32 == 0, "a warp's"
    launch = launch_of((10_000,), (), Spread())
    assert (launch.lanes, launch.head(0x1000), launch.head(0x1004), launch.head(0x100C)) == (4, 0, 3, 1)
    assert launch.grid(0x1000) == 5  # 2 500 vectors, 2 for each of 256 threads
    assert launch_of((2051,), (), Spread()).grid(0x1004) == 1  # 512 vectors after 3 elements
    assert launch_of((1 << 30,), (), Spread()).grid(0) == 1 << 19
    assert launch_of((1 << 60,), (), Spread()).grid(0) == (1 << 31) - 1, "the largest grid"
    assert launch_of((3,), (), Spread()).grid(0) == 1
    assert launch_of((3,), (), Spread()).head(0x1004) == 3
    assert launch_of((2,), (), Spread()).head(0x1004) == 2
    assert launch_of((100,), (), Spread(), out="float16").head(0x1002) == 7
    size, head, whole, streamed = launch.numbers(0x2003, 0x1004, 1 << 20)[:4]
    assert (size, head, whole, streamed) == (10_000, 3, 0, 0)
    assert launch.numbers(0x2001, 0x1004, 49_999)[2:4] == (1, 1)
    assert launch.numbers(0x2001, 0x1004, 50_000)[2:4] == (1, 0)
    # 32 bytes of int32 for 8 halves are read in two parts of 16.
    assert launch_of((99,), (), Spread(), "int32", "float16").numbers(0x2010, 0x1000, 0)[2] == 1
    assert launch_of((99,), (), Spread(), "int32", "float16").numbers(0x2008, 0x1000, 0)[2] == 0


@pytest.mark.parametrize(
    ("x", "formula", "packed", "vectors"),
    [
        ("uint8", "PRODUCT", False, 2), ("int4", "PRODUCT", False, 2), ("int4", "PRODUCT", True, 4),
        ("float8_e5m2", "PRODUCT", False, 4), ("int32", "PRODUCT", False, 1), ("uint8", "QUOTIENT", False, 1),
        ("int16", "MIN_FIRST", False, 1), ("uint8", "TABLE", False, 2),
    ],
)  # fmt: skip
def test_vectors_in_flight(x: str, formula: str, packed: bool, vectors: int) -> None:
    scale = Operand(np.dtype(np.float32), ())
    launch = Launch.of(scale.dtype, Operand(dtype_of(x), (9,)), scale, None, Spread(), formula, packed)
    assert launch.vectors == vectors
    assert f"-DVECTORS={vectors}" in launch.macros


def test_indices_have_64_bits_only_where_they_need_them() -> None:
    assert launch_of(((1 << 31) - 1,), (), Spread()).index_bits == 32
    launch = launch_of((2, 1 << 30), (2,), Spread(0))
    assert launch.index_bits == 64
    assert "-DINDEX_BITS=64" in launch.macros
    assert "-DSPREAD=2" in launch.macros
    assert "-DSPREAD=0" in launch_of((4, 4), (1, 1), Spread(0, 8)).macros, "one parameter in all serves all"


def test_large_outputs_are_streamed_and_others_not(cupy: FakeCuPy) -> None:
    for size, streamed, grid in ((100, 0, 1), (20_000, 5_000, 10), (100_000, 25_000, 49)):
        dequantize_linear(on_device(np.zeros(size, np.uint8)), on_device(np.ones((), np.float32)))
        assert (cupy.launches[-1].streamed, cupy.launches[-1].grid) == (streamed, grid)
    assert len(cupy.compiled) == 1, "one kernel, compiled once"


def test_empty_tensors_launch_nothing(any_cupy: Any) -> None:
    nothing, scale = on_device(np.zeros((0, 3), np.uint8)), on_device(np.ones((), np.float32))
    assert dequantize_linear(nothing, scale).shape == (0, 3)
    assert dequantize_packed(nothing.reshape(0), scale, dtype="int4", shape=(2, 0)).shape == (2, 0)
    assert launches_of(any_cupy) == []


class Exported:
    """A foreign DLPack array that reports its device."""

    dtype = "another framework's"

    def __init__(self, array: Any, kind: int = 2) -> None:
        self.array, self._kind = array, kind

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._kind, LIES_ON.get(self.array.data.ptr, 0)


class Interfaced:
    """A foreign array with the CUDA array interface."""

    def __init__(self, array: Any, readonly: bool = False) -> None:
        shape, kind = array.shape, array.dtype.str
        self.__cuda_array_interface__ = {
            "data": (array.data.ptr, readonly),
            "shape": shape,
            "typestr": kind,
            "version": 3,
        }
        self._kept = array


@pytest.mark.parametrize("other", [Exported, Interfaced])
def test_arrays_of_other_frameworks(any_cupy: Any, other: type) -> None:
    x, scale, zero_point = random("uint8", (6, 5), 1), scales("float32", (5,), 1), random("uint8", (5,), 2)
    out = on_device(np.zeros((6, 5), np.float32))
    result = dequantize_linear(*(other(on_device(a)) for a in (x, scale, zero_point)), out=other(out))
    assert result.data.ptr == out.data.ptr
    assert codes_of(on_host(out)) == codes_of(xverify.dequantize_linear(x, scale, zero_point, backend="numpy"))


@pytest.mark.parametrize("kind", range(1, 18))
def test_dlpack_arrays_must_lie_on_a_cuda_device(cupy: FakeCuPy, kind: int) -> None:
    x, scale = on_device(np.zeros(3, np.uint8)), on_device(np.ones((), np.float32))
    if kind in (2, 13):  # kDLCUDA, kDLCUDAManaged
        dequantize_linear(Exported(x, kind), scale)
    else:
        with pytest.raises(TypeError, match="x is Exported, not on a CUDA device"):
            dequantize_linear(Exported(x, kind), scale)


@pytest.mark.parametrize("other", [lambda array: array, Exported, Interfaced])
def test_kernels_run_on_the_device_of_x(cupy: FakeCuPy, monkeypatch: pytest.MonkeyPatch, other: Any) -> None:
    x, scale, out = (on_device(np.zeros(shape, kind)) for shape, kind in ((3, "u1"), ((), "f4"), (3, "f4")))
    monkeypatch.setitem(LIES_ON, x.data.ptr, 5)
    with pytest.raises(ValueError, match=r"the operands lie on the devices \[0, 5\]; expected one device"):
        dequantize_linear(other(x), scale)
    monkeypatch.setitem(LIES_ON, scale.data.ptr, 5)
    with pytest.raises(ValueError, match="out lies on device 0; expected that of x, 5"):
        dequantize_linear(other(x), scale, out=out)
    monkeypatch.setitem(LIES_ON, out.data.ptr, 5)
    dequantize_linear(other(x), scale, out=out)
    assert [launch.device for launch in cupy.launches] == [5]


def test_unaligned_arrays_are_refused(cupy: FakeCuPy) -> None:
    memory, scale = on_device(np.zeros(36, np.uint8)), on_device(np.ones((), np.float32))
    with pytest.raises(ValueError, match=r"x lies at 0x[0-9a-f]*1; expected a multiple of its 2 bytes"):
        dequantize_linear(memory[1:7].view(np.int16), scale)
    rows = memory[:36].reshape(4, 9)[:, :8].view(np.int16)
    assert dequantize_linear(rows[:1], scale).shape == (1, 4), "the way to a second row counts only where there is one"
    for gaps in (memory[1:33].view(np.int16)[::2], rows, rows[:2]):
        with pytest.raises(ValueError, match=r"; expected (a multiple|multiples) of its 2 bytes"):
            dequantize_linear(gaps, scale)
    with pytest.raises(ValueError, match=r"out lies at 0x[0-9a-f]*2; expected a multiple of its 4 bytes"):
        dequantize_linear(on_device(np.zeros(3, np.uint8)), scale, out=memory[2:14].view(np.float32))


def test_an_output_beside_its_input_is_taken_and_one_on_it_is_not(any_cupy: Any) -> None:
    memory, scale = on_device(np.ones(192, np.uint8)), on_device(np.ones((), np.float32))
    x = memory[64:80]
    for start, is_taken in ((80, True), (76, False), (64, False), (4, False), (0, True)):
        out = memory[start : start + 64].view(np.float32)
        if is_taken:
            assert (on_host(dequantize_linear(x, scale, out=out)) == 1).all()
            memory[:] = 1
        else:
            with pytest.raises(ValueError, match="out overlaps an input"):
                dequantize_linear(x, scale, out=out)


def test_arrays_not_in_c_order_are_copied(any_cupy: Any) -> None:
    x, scale = random("uint8", (6, 10), 1), scales("float32", (10,), 1)
    want = codes_of(xverify.dequantize_linear(x[::2, ::-1].T, scale[::-1].copy(), axis=0, backend="numpy"))
    got = dequantize_linear(on_device(x)[::2, ::-1].T, on_device(scale)[::-1], axis=0)
    assert codes_of(on_host(got)) == want


def test_kernels_run_on_the_callers_stream(cupy: FakeCuPy) -> None:
    x, scale = on_device(np.zeros(3, np.uint8)), on_device(np.ones((), np.float32))
    mine = Stream(7)
    for stream, expected in ((None, None), (mine, 7), (99, 99), (SimpleNamespace(__cuda_stream__=lambda: (0, 5)), 5)):
        dequantize_linear(x, scale, stream=stream)
        entered = cupy.launches[-1].stream
        assert (None if entered is None else entered.ptr) == expected
    with pytest.raises(TypeError, match="stream is str; expected the address of a cudaStream_t"):
        dequantize_linear(x, scale, stream="main")


def test_the_stream_waits_for_what_is_to_be_written_first(cupy: FakeCuPy) -> None:
    """CuPy arrays name no stream, so the kernel waits for the current one.

    A captured graph cannot wait for an outside stream.
    """
    x, scale = on_device(np.zeros(3, np.uint8)), on_device(np.ones((), np.float32))
    mine, captured = Stream(7), Stream(8, captures=True)
    dequantize_linear(x, scale, stream=mine)
    assert mine.waited_for == [0]
    with cupy.cuda.Device(0), Stream(5):
        dequantize_linear(x, scale, stream=mine)
    assert mine.waited_for == [0, 5]
    dequantize_linear(x, scale, stream=captured)
    assert captured.waited_for == []


def test_refusals_are_those_of_the_other_kernels(any_cupy: Any) -> None:
    x, scale = np.zeros((2, 3), np.uint8), np.ones(4, np.float32)
    for operands, keywords in (
        ((x, scale), {}), ((x, scale[:3]), {"axis": 2}), ((x, scale[0], x[0]), {}), ((x, scale[0], np.int8(1)), {}),
        ((x.astype(np.uint32), scale[0]), {}), ((x, scale.astype(np.float64)[0]), {}), ((x, scale[0]), {"out_dtype": "int8"}),
        ((x, scale[:2].reshape(2, 1)), {"block_size": 2}), ((x, scale[0]), {"contract": "ai.onnx/DequantizeLinear-9"}),
    ):  # fmt: skip
        refused_alike(xverify.dequantize_linear, dequantize_linear, operands, keywords)
    assert launches_of(any_cupy) == []


def test_refusals_of_its_own(any_cupy: Any) -> None:
    x, scale = on_device(np.zeros((2, 4), np.uint8)), on_device(np.ones((), np.float32))
    out = on_device(np.zeros((2, 4), np.float32))
    with pytest.raises(TypeError, match="x is ndarray, not on a CUDA device"):
        dequantize_linear(np.zeros(3, np.uint8), scale)
    with pytest.raises(TypeError, match="x is Exported, not on a CUDA device"):
        dequantize_linear(Exported(x, kind=1), scale)
    with pytest.raises(TypeError, match="zero_point is ndarray, not on a CUDA device"):
        dequantize_linear(x, scale, np.zeros((), np.uint8))
    with pytest.raises(TypeError, match="zero_point is an array of uint8; expected codes of int16 as uint16"):
        dequantize_linear(x, scale, x[0, 0:1], zero_point_dtype="int16")
    with pytest.raises(TypeError, match="the dtype of zero_point is uint4; expected int4"):
        dequantize_linear(x, scale, x[0, 0:1], x_dtype="int4", zero_point_dtype="uint4")
    with pytest.raises(TypeError, match="x is an array of uint8; expected codes of int16 as uint16"):
        dequantize_linear(x, scale, x_dtype="int16")
    with pytest.raises(TypeError, match="x is an array of float32; expected codes of int32 as uint32"):
        dequantize_linear(out, scale, x_dtype="int32")
    with pytest.raises(TypeError, match="scale_dtype is 'float9'"):
        dequantize_linear(x, scale, scale_dtype="float9")
    with pytest.raises(ValueError, match=r"the shape of x is \(8,\); expected \(5,\), for 9 packed codes of int4"):
        dequantize_packed(x.reshape(8), scale, dtype="int4", shape=(9,))
    with pytest.raises(TypeError, match="the dtype of x is int8; expected packed codes in uint8"):
        dequantize_packed(x.view(np.int8), scale, dtype="int4", shape=(16,))
    with pytest.raises(ValueError, match="expected no negative extent"):
        dequantize_packed(x, scale, dtype="int4", shape=(5, -1))
    with pytest.raises(TypeError, match="dtype is int8; expected a dtype of 6, 4 or 2 bits"):
        dequantize_packed(x, scale, dtype="int8", shape=(8,))
    for wrong, error, sentence in (
        (out.astype(np.float16), TypeError, "out is float16; expected an array of float32"),
        (out.reshape(8), ValueError, "the shape of out is"),
        (on_device(np.zeros((4, 2), np.float32)).T, ValueError, "out has the strides"),
        (Interfaced(out, readonly=True), ValueError, "out is read-only"),
    ):
        with pytest.raises(error, match=sentence):
            dequantize_linear(x, scale, out=wrong)
    shared = on_device(np.zeros(8, np.float32))
    with pytest.raises(ValueError, match="out overlaps an input"):
        dequantize_linear(shared.view(np.uint8)[3:11], scale, out=shared)
    assert launches_of(any_cupy) == []


def test_without_cupy_or_a_card_it_says_what_to_do(cupy: FakeCuPy, monkeypatch: pytest.MonkeyPatch) -> None:
    cupy.devices = 0
    with pytest.raises(RuntimeError, match=r"no CUDA device here .*pip install 'xverify\[cuda\]'"):
        dequantize_linear(None, None)
    for call in (
        dynamic_dequantize,
        partial(dequantize_packed, dtype="int4", shape=()),
        partial(dequantize_range, None),
    ):
        with pytest.raises(RuntimeError, match="no CUDA device here"):
            call(None, None)
    with monkeypatch.context() as patch:
        patch.setattr(cupy.cuda.runtime, "getDeviceCount", lambda: 1 / 0)
        with pytest.raises(RuntimeError, match=r"no CUDA device here \(division by zero\)"):
            dequantize_linear(None, None)
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ImportError, match=r"pip install 'xverify\[cuda\]'"):
        dynamic_dequantize(None, None)


def test_the_oracle_answers_by_these_kernels(any_cupy: Any) -> None:
    answer = load().answer
    for name, scale_name, out in (
        ("uint8", "float32", "float32"),
        ("int4", "bfloat16", "bfloat16"),
        ("int8", "float16", "float32"),
    ):
        x, scale, zero_point = random(name, (4, 6), 1), scales(scale_name, (6,), 2), random(name, (6,), 3)
        tensors = {"x": x, "scale": scale, "zero_point": zero_point}
        attributes = {"axis": -1, "output_dtype": out}
        call = Call(NEWEST, {role: from_array(array) for role, array in tensors.items()}, attributes)
        outcome = answer(call, "")
        assert outcome.tensor is not None
        assert outcome.notes == ()
        want = xverify.dequantize_linear(x, scale, zero_point, axis=-1, out_dtype=dtype_of(out), backend="numpy")
        assert (outcome.tensor.dtype, codes_of(to_array(outcome.tensor))) == (out, codes_of(want))
    assert len(launches_of(any_cupy)) in (0, 3)
    oracle = all_oracles()["xverify-cuda"]
    assert (oracle.role, answers(oracle, NEWEST), answers(oracle, SEED)) == ("kernel", True, True)


def test_the_oracle_with_codes_as_they_are_stored(any_cupy: Any) -> None:
    kernel = kernel_named("xverify-cuda:packed")
    assert kernel.name == "xverify-cuda:packed"
    answer = load(*kernel.arguments).answer
    x, scale, zero_point = random("int4", (3, 5), 1), scales("float16", (3,), 2), random("int4", (3,), 3)

    def outcome(*operands: np.ndarray) -> Any:
        tensors = {role: from_array(array) for role, array in zip(("x", "scale", "zero_point"), operands, strict=False)}
        return answer(Call(NEWEST, tensors, {"axis": 0}), "").tensor

    for operands, bits in (((x, scale, zero_point), "4"), ((x, scale), "4"), ((x.view("int8"), scale), "8")):
        want = xverify.dequantize_linear(*operands, axis=0, backend="numpy")
        assert codes_of(to_array(outcome(*operands))) == codes_of(want)
        assert [launch.macros["X_BITS"] for launch in launches_of(any_cupy)[-1:]] in ([], [bits])
    launched = len(launches_of(any_cupy))
    for wrong in (
        zero_point[None],
        zero_point.view("uint4"),
        np.zeros(2, np.uint8),
    ):  # the last has as many elements as there are packed bytes
        with pytest.raises((TypeError, ValueError), match="zero-point"):
            outcome(x, scale, wrong)
    assert len(launches_of(any_cupy)) == launched


def test_the_oracle_answers_for_ranges(any_cupy: Any) -> None:
    answer, x, ends = load().answer, random("int8", (3, 2), 1), (np.array([-2, -1], np.float32), np.ones(2, np.float32))
    tensors = {
        role: from_array(array) for role, array in zip(("input", "min_range", "max_range"), (x, *ends), strict=True)
    }
    outcome = answer(Call(INSTALLED, tensors, {"mode": "MIN_COMBINED", "axis": 1, "dtype": "bfloat16"}), "")
    assert outcome.tensor is not None
    want = xverify.dequantize_range(x, *ends, axis=1, out_dtype="bfloat16", backend="numpy")
    assert (outcome.tensor.dtype, codes_of(to_array(outcome.tensor))) == ("bfloat16", codes_of(want))


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float8_e8m0fnu"])
def test_the_oracle_keeps_every_bit_of_a_scalar(any_cupy: Any, name: str) -> None:
    """CuPy loses the sign of a scalar -0.0, see `cupy_facts`."""
    answer, x = load().answer, np.uint8([0, 1, 255])
    for scale in coded(name, SCALES[name]):
        operands = x, np.asarray(scale)
        tensors = {role: from_array(array) for role, array in zip(("x", "scale"), operands, strict=True)}
        outcome = answer(Call(NEWEST, tensors, {"output_dtype": "float32"}), "")
        assert outcome.tensor is not None
        want = xverify.dequantize_linear(*operands, out_dtype="float32", backend="numpy")
        assert codes_of(to_array(outcome.tensor)) == codes_of(want)
