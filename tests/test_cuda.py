"""The CUDA kernels, their source compiled as C++ and launched by a CuPy of ours: the bits of NumPy's, and what is launched."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cuda_on_cpu import DeviceArray, FakeCuPy, Stream, built
from kernel_arrays import INTEGERS, NEWEST, SCALES, SMALL_FLOATS, WIDTHS, Array, all_codes, coded, codes_of, dtype_of
from linear_operands import triples

import xverify
from oracles import all_oracles, answers
from oracles.arrays import from_array, pack, to_array
from oracles.xverify_cuda import load
from xverify.contracts.simplify import Types
from xverify.core.call import Call
from xverify.core.dtypes import QUANTIZED
from xverify.kernels import formula
from xverify.kernels.blocks import Spread
from xverify.kernels.cuda import dequantize_linear, dequantize_packed, dynamic_dequantize
from xverify.kernels.cuda.geometry import divisor
from xverify.kernels.cuda.launch import BLOCKS_PER_MULTIPROCESSOR, OPTIONS, SOURCE, Launch, compiled
from xverify.kernels.plans import Operand

OUTPUTS = ("float32", "float16", "bfloat16")
DIVIDE, MULTIPLY = "onednn/DynamicDequantize-1@divide", "onednn/DynamicDequantize-1@3.7"


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return built(tmp_path_factory.mktemp("cuda"))


@pytest.fixture
def cupy(library: Any, monkeypatch: pytest.MonkeyPatch) -> FakeCuPy:
    """The CuPy that the package imports, with blocks of 3 threads, so that small tensors take several strides."""
    fake = FakeCuPy(library, threads=3)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    compiled.cache_clear()
    return fake


def on_device(array: Array, start: int = 0) -> Any:
    """A copy of the array's codes, that many elements after a multiple of 64 bytes, in an array of a dtype that CuPy has."""
    code = array.dtype if array.dtype.isbuiltin == 1 else f"u{array.itemsize}"
    room = np.zeros(array.nbytes + 128, np.uint8)
    first = -room.ctypes.data % 64 + start * array.itemsize
    placed = room[first : first + array.nbytes].view(code).reshape(array.shape)
    placed[...] = array.view(code)
    return placed.view(DeviceArray)


def computed(x: Array, scale: Array, zero_point: Array | None, start: int = 0, **keywords: Any) -> Array:
    """What the kernel writes to memory that begins ``start`` elements after a boundary, between bytes that must stay."""
    out = np.dtype(keywords.get("out_dtype") or scale.dtype)
    code = np.dtype(np.uint16) if out == ml_dtypes.bfloat16 else out
    room = np.full(x.size + 64, 0x5A, code)
    first = -room.ctypes.data % 64 // out.itemsize + start
    result = dequantize_linear(
        on_device(x, start), on_device(scale), None if zero_point is None else on_device(zero_point),
        x_dtype=x.dtype, scale_dtype=scale.dtype, out=room[first : first + x.size].reshape(x.shape).view(DeviceArray), **keywords,
    )  # fmt: skip
    assert (room[:first] == 0x5A).all()
    assert (room[first + x.size :] == 0x5A).all()
    return np.array(result).view(out)


def check(x: Array, scale: Array, zero_point: Array | None, start: int = 0, **keywords: Any) -> None:
    """That the kernel gives NumPy's bits."""
    want = xverify.dequantize_linear(x, scale, zero_point, backend="numpy", **keywords)
    assert codes_of(computed(x, scale, zero_point, start, **keywords)) == codes_of(want)


@pytest.mark.parametrize("name", [*INTEGERS, *SMALL_FLOATS])
def test_every_code_of_the_small_types_with_sharp_scales(cupy: FakeCuPy, name: str) -> None:
    x = all_codes(name)
    top = x.size - 1
    for scale_name, codes in SCALES.items():
        scales = coded(scale_name, codes)
        for out in OUTPUTS:
            # Every scale with every code, and with zero points from both ends of the type, in one call.
            zero_points = coded(name, np.resize([0, top, top // 2, top // 2 + 1, 1], scales.size))
            grid = np.tile(x, (scales.size, 1))
            check(grid, scales, zero_points, axis=0, out_dtype=dtype_of(out))
            check(grid, scales, None, axis=0, out_dtype=dtype_of(out))
    assert not any(launch.misaligned for launch in cupy.launches)


@pytest.mark.parametrize("name", QUANTIZED)
def test_triples_that_tell_recipes_apart(cupy: FakeCuPy, name: str) -> None:
    for seed, scale in enumerate(SCALES):
        for out in OUTPUTS:
            for zero_point in (name, ""):
                operands = triples(Types(name, zero_point, scale, out), 400, seed)
                x, factor, *offset = (coded(operands.dtypes[role], codes) for role, codes in operands.codes.items())
                check(x, factor, offset[0] if offset else None, axis=0, out_dtype=dtype_of(out))


def random(name: str, shape: tuple[int, ...], seed: int) -> Array:
    """Any codes of a type; those of 4 and 2 bits as ml_dtypes has them."""
    rng = np.random.default_rng(seed)
    width = dtype_of(name).itemsize
    return coded(name, rng.integers(0, 1 << WIDTHS.get(name, 8 * width), shape))


def scales(name: str, shape: tuple[int, ...], seed: int) -> Array:
    """Ordinary scales, all different for the most part, so that one of a wrong place shows."""
    rng = np.random.default_rng(seed)
    if name == "float8_e8m0fnu":
        return coded(name, rng.integers(100, 150, shape))
    return (rng.standard_normal(shape) * 0.37).astype(dtype_of(name))


KINDS = (
    ("uint8", "float32", "float32"), ("int4", "float16", "float16"), ("int16", "bfloat16", "bfloat16"),
    ("int32", "float32", "float16"), ("float8_e5m2", "float32", "float32"), ("int8", "float8_e8m0fnu", "float32"),
)  # fmt: skip


@pytest.mark.parametrize(("x_name", "scale_name", "out"), KINDS)
def test_granularities_shapes_and_starts(cupy: FakeCuPy, x_name: str, scale_name: str, out: str) -> None:
    cases: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, int]]] = [
        *(((size,), (), {}) for size in (*range(18), 67, 300)),
        *(((size,), (size,), {"axis": 0}) for size in (1, 3, 17, 130)),
        *(((5, 7, inner), (7,), {"axis": -2}) for inner in (1, 2, 3, 4, 8, 9, 16)),
        ((6, 13), (13,), {"axis": 1}), ((13, 24), (13,), {"axis": 0}), ((2, 3, 64), (64,), {"axis": 2}),
        *(((3, extent), (3, -(-extent // run)), {"axis": 1, "block_size": run})
          for extent in (1, 16, 29) for run in (1, 3, 4, 16, 100)),
        *(((2, 11, inner), (2, -(-11 // run), inner), {"axis": 1, "block_size": run})
          for inner in (1, 3, 8, 20) for run in (1, 2, 4, 11)),
        ((19,), (5,), {"axis": 0, "block_size": 4}), ((7, 5), (2, 5), {"axis": 0, "block_size": 4}),
        ((0, 3), (3,), {"axis": 1}), ((), (), {}),
    ]  # fmt: skip
    for number, (shape, parameters, attributes) in enumerate(cases):
        zero_point = random(x_name, parameters, number) if number % 3 else None
        x, scale = random(x_name, shape, number), scales(scale_name, parameters, number)
        start = (0, 1, 3, 8, 5)[number % 5]
        check(x, scale, zero_point, start, out_dtype=dtype_of(out), **attributes)
    assert not any(launch.misaligned for launch in cupy.launches)
    assert {launch.macros["SPREAD"] for launch in cupy.launches} == {"0", "1"}
    assert {launch.numbers[2] for launch in cupy.launches} == {0, 1}, "vectors of x are read, and elements one by one"


@pytest.mark.parametrize("name", WIDTHS)
def test_packed_codes(cupy: FakeCuPy, name: str) -> None:
    bits = WIDTHS[name]
    for number, (shape, parameters, attributes) in enumerate([
        ((37,), (), {}), ((4, 9), (9,), {"axis": 1}), ((3, 40), (3, 5), {"axis": 1, "block_size": 8}),
        ((2, 3, 5), (2, 2, 5), {"axis": 1, "block_size": 2}), ((64,), (64,), {"axis": 0}),
    ]):  # fmt: skip
        x, scale, zero_point = (
            random(name, shape, number), scales("float32", parameters, number), random(name, parameters, number + 50)
        )  # fmt: skip
        for out in OUTPUTS:
            for start in (0, 1):
                packed = [on_device(pack(a.view(np.uint8) & (1 << bits) - 1, bits), start) for a in (x, zero_point)]
                got = dequantize_packed(
                    packed[0], on_device(scale), packed[1], dtype=name, shape=shape, out_dtype=out, **attributes
                )
                want = xverify.dequantize_linear(
                    x, scale, zero_point, out_dtype=dtype_of(out), backend="numpy", **attributes
                )
                assert codes_of(np.array(got).view(dtype_of(out))) == codes_of(want)
    assert {launch.macros["X_BITS"] for launch in cupy.launches} == {str(bits)}
    assert not any(launch.misaligned for launch in cupy.launches)


@pytest.mark.parametrize("contract", [DIVIDE, MULTIPLY])
@pytest.mark.parametrize("zps_dtype", ["int8", "uint8", "int32", None])
def test_onednn(cupy: FakeCuPy, contract: str, zps_dtype: str | None) -> None:
    sharp = coded("float32", np.resize(SCALES["float32"], 12))
    for number, (factors, outer) in enumerate([(sharp, 23), (scales("float32", (40,), 1), 9), (sharp[:1], 50)]):
        src = random(("int8", "uint8")[number % 2], (outer, factors.size), number)
        zps = None if zps_dtype is None else random(zps_dtype, factors.shape, number)
        if zps_dtype == "int32" and zps is not None:
            zps[::3] = np.resize([2**31 - 1, -(2**31), 2**24 + 1, 5], zps[::3].size)
        attributes: dict[str, Any] = {
            "contract": contract,
            "qtype": "per_channel" if factors.size > 1 else "per_tensor",
        }
        want = xverify.dynamic_dequantize(src, factors, zps, backend="numpy", **attributes)
        got = dynamic_dequantize(*(None if a is None else on_device(a) for a in (src, factors, zps)), **attributes)
        assert codes_of(np.array(got)) == codes_of(want)


def test_onednn_halves_and_zero_points_of_64_bits(cupy: FakeCuPy) -> None:
    for name in ("float16", "bfloat16"):
        src, factors = random("int4", (9, 30), 1), coded(name, np.resize([*SCALES[name], 0x1234, 0x3F01], 30))
        zps = random("int32", (30,), 2)
        attributes: dict[str, Any] = {"contract": MULTIPLY, "qtype": "per_channel"}
        want = xverify.dynamic_dequantize(src, factors, zps, backend="numpy", **attributes)
        got = dynamic_dequantize(
            *map(on_device, (src, factors, zps)), src_dtype="int4", scales_dtype=name, **attributes
        )
        assert codes_of(np.array(got).view(dtype_of(name))) == codes_of(want)
    src, factors = random("int8", (4, 12), 3), scales("float32", (12,), 3)
    zps = np.array([0, 1, -1, 2**39 - 1, -(2**39), 2**31, 77, -(2**31), 2**24 + 1, 5, -6, 2**33 + 1], np.int64)
    attributes = {"contract": "onednn/Dequantize-1@3.5", "qtype": "per_channel"}
    want = xverify.dynamic_dequantize(src, factors, zps, backend="numpy", **attributes)
    assert codes_of(np.array(dynamic_dequantize(*map(on_device, (src, factors, zps)), **attributes))) == codes_of(want)


def test_quotients_are_rounded_once_to_halves_too(cupy: FakeCuPy) -> None:
    """No edition that divides has such outputs; the kernel is right for them all the same."""
    x = np.arange(-(2**15), 2**15, dtype=np.int16)
    for name in ("float16", "bfloat16"):
        for scale in np.array([3.0, 1.7e-3, -0.11], np.float32):
            want, factor = np.empty(x.shape, dtype_of(name)), np.asarray(scale)
            formula.apply(want, x, factor, None, Spread(), by_division=True)
            launch = Launch.of(want.dtype, Operand(x.dtype, x.shape), Operand(factor.dtype, ()), None, Spread(), True)
            got = on_device(np.zeros(x.shape, np.uint16))
            with cupy.cuda.Device(0):
                launch(got, on_device(x), on_device(factor), None)
            assert codes_of(np.array(got).view(want.dtype)) == codes_of(want)


def test_indices_of_64_bits_give_the_same(cupy: FakeCuPy) -> None:
    x, scale, zero_point = random("uint8", (5, 7, 9), 1), scales("float32", (5, 3, 9), 1), random("uint8", (5, 3, 9), 2)
    want = xverify.dequantize_linear(x, scale, zero_point, axis=1, block_size=3, backend="numpy")
    operands = [Operand(a.dtype, a.shape) for a in (x, scale, zero_point)]
    launch = Launch.of(want.dtype, *operands, Spread(1, 3))
    wide = tuple(macro.replace("INDEX_BITS=32", "INDEX_BITS=64") for macro in launch.macros)
    out = on_device(np.zeros(x.shape, np.float32))
    with cupy.cuda.Device(0):
        Launch(wide, launch.size, 8, 4, launch.geometry, 64)(out, *map(on_device, (x, scale, zero_point)))
    assert codes_of(np.array(out)) == codes_of(want)
    assert cupy.launches[-1].macros["INDEX_BITS"] == "64"


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


def launch_of(
    shape: tuple[int, ...], scale: tuple[int, ...], spread: Spread, x: str = "uint8", out: str = "float32"
) -> Launch:
    return Launch.of(dtype_of(out), Operand(dtype_of(x), shape), Operand(np.dtype(np.float32), scale), None, spread)


def test_grid_and_head() -> None:
    launch = launch_of((10_000,), (), Spread())
    assert (launch.lanes, launch.head(0x1000), launch.head(0x1004), launch.head(0x100C)) == (4, 0, 3, 1)
    assert launch.grid(0x1000, 100) == 3  # 2 500 vectors, 4 for each of 256 threads
    assert launch_of((1 << 30,), (), Spread()).grid(0, 132) == 132 * BLOCKS_PER_MULTIPROCESSOR
    assert launch_of((3,), (), Spread()).grid(0, 132) == 1
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


def test_indices_have_64_bits_only_where_they_need_them() -> None:
    assert launch_of(((1 << 31) - 1,), (), Spread()).index_bits == 32
    launch = launch_of((2, 1 << 30), (2,), Spread(0))
    assert launch.index_bits == 64
    assert "-DINDEX_BITS=64" in launch.macros
    assert "-DSPREAD=1" in launch.macros
    assert "-DSPREAD=0" in launch_of((4, 4), (1, 1), Spread(0, 8)).macros, "one parameter in all serves all"


def test_large_outputs_are_streamed_and_others_not(cupy: FakeCuPy) -> None:
    for size, streamed in ((100, 0), (20_000, 5_000)):
        dequantize_linear(on_device(np.zeros(size, np.uint8)), on_device(np.ones((), np.float32)))
        assert cupy.launches[-1].streamed == streamed
    assert cupy.launches[-1].grid == 5
    assert len(cupy.compiled) == 1, "one kernel, compiled once"


class Exported:
    """An array of another framework by DLPack, that says where it lies."""

    dtype = "another framework's"

    def __init__(self, array: Any, device: int = 2) -> None:
        self.array, self._device = array, device

    def __dlpack__(self, **_: object) -> Any:
        return self.array

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self._device, 0)


class Interfaced:
    """The same by the other protocol."""

    def __init__(self, array: Any, readonly: bool = False) -> None:
        shape, kind = array.shape, array.view(np.ndarray).dtype.str
        self.__cuda_array_interface__ = {
            "data": (array.data.ptr, readonly),
            "shape": shape,
            "typestr": kind,
            "version": 3,
        }
        self._kept = array


@pytest.mark.parametrize("other", [Exported, Interfaced])
def test_arrays_of_other_frameworks(cupy: FakeCuPy, other: type) -> None:
    x, scale, zero_point = random("uint8", (6, 5), 1), scales("float32", (5,), 1), random("uint8", (5,), 2)
    out = on_device(np.zeros((6, 5), np.float32))
    result = dequantize_linear(*(other(on_device(a)) for a in (x, scale, zero_point)), out=other(out))
    assert result.data.ptr == out.data.ptr
    assert codes_of(np.array(out)) == codes_of(xverify.dequantize_linear(x, scale, zero_point, backend="numpy"))


def test_what_does_not_lie_in_order_is_copied(cupy: FakeCuPy) -> None:
    x, scale = random("uint8", (6, 10), 1), scales("float32", (10,), 1)
    want = codes_of(xverify.dequantize_linear(x[::2, ::-1].T, scale[::-1].copy(), axis=0, backend="numpy"))
    got = dequantize_linear(on_device(x)[::2, ::-1].T, on_device(scale)[::-1], axis=0)
    assert codes_of(np.array(got)) == want


def test_on_the_stream_of_the_caller(cupy: FakeCuPy) -> None:
    x, scale = on_device(np.zeros(3, np.uint8)), on_device(np.ones((), np.float32))
    mine = Stream(7)
    for stream, expected in ((None, None), (mine, 7), (99, 99), (SimpleNamespace(__cuda_stream__=lambda: (0, 5)), 5)):
        dequantize_linear(x, scale, stream=stream)
        entered = cupy.launches[-1].stream
        assert (None if entered is None else entered.ptr) == expected
    with pytest.raises(TypeError, match="stream is str; expected the address of a cudaStream_t"):
        dequantize_linear(x, scale, stream="main")


def test_refusals_are_those_of_the_other_kernels(cupy: FakeCuPy) -> None:
    x, scale = np.zeros((2, 3), np.uint8), np.ones(4, np.float32)
    for operands, keywords in (
        ((x, scale), {}), ((x, scale[:3]), {"axis": 2}), ((x, scale[0], x[0]), {}), ((x, scale[0], np.int8(1)), {}),
        ((x.astype(np.uint32), scale[0]), {}), ((x, scale.astype(np.float64)[0]), {}), ((x, scale[0]), {"out_dtype": "int8"}),
        ((x, scale[:2].reshape(2, 1)), {"block_size": 2}), ((x, scale[0]), {"contract": "ai.onnx/DequantizeLinear-9"}),
    ):  # fmt: skip
        arrays = [np.asarray(a) for a in operands]
        with pytest.raises((TypeError, ValueError)) as expected:
            xverify.dequantize_linear(*arrays, backend="numpy", **keywords)  # type: ignore[arg-type]
        with pytest.raises(expected.type) as got:
            dequantize_linear(*map(on_device, arrays), **keywords)  # type: ignore[arg-type]
        assert str(got.value) == str(expected.value)
    assert cupy.launches == []


def test_refusals_of_its_own(cupy: FakeCuPy) -> None:
    x, scale = on_device(np.zeros((2, 4), np.uint8)), on_device(np.ones((), np.float32))
    out = on_device(np.zeros((2, 4), np.float32))
    with pytest.raises(TypeError, match="x is ndarray, not on a CUDA device"):
        dequantize_linear(np.zeros(3, np.uint8), scale)
    with pytest.raises(TypeError, match="x is Exported, not on a CUDA device"):
        dequantize_linear(Exported(x, device=1), scale)
    with pytest.raises(TypeError, match="x is an array of uint8; expected codes of int16 as uint16"):
        dequantize_linear(x, scale, x_dtype="int16")
    with pytest.raises(TypeError, match="scale_dtype is 'float9'"):
        dequantize_linear(x, scale, scale_dtype="float9")
    with pytest.raises(ValueError, match=r"the shape of x is \(8,\); expected \(5,\), for 9 packed codes of int4"):
        dequantize_packed(x.reshape(8), scale, dtype="int4", shape=(9,))
    with pytest.raises(TypeError, match="the dtype of x is int8; expected packed codes in uint8"):
        dequantize_packed(x.view(np.int8), scale, dtype="int4", shape=(16,))
    with pytest.raises(ValueError, match="expected no negative extent"):
        dequantize_packed(x, scale, dtype="int4", shape=(-1,))
    with pytest.raises(TypeError, match="dtype is int8; expected a dtype of 4 or 2 bits"):
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
    assert cupy.launches == []


def test_without_cupy_or_a_card_it_says_what_to_do(cupy: FakeCuPy, monkeypatch: pytest.MonkeyPatch) -> None:
    cupy.devices = 0
    with pytest.raises(RuntimeError, match=r"no CUDA device here .*pip install 'xverify\[cuda\]'"):
        dequantize_linear(None, None)
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ImportError, match=r"pip install 'xverify\[cuda\]'"):
        dynamic_dequantize(None, None)


@pytest.mark.parametrize("side", [1, -1])
def test_products_beside_midpoints_that_float64_takes_for_them(cupy: FakeCuPy, side: int) -> None:
    """x times scale is an odd number of 25 bits times 2^30, plus or minus 1: rounded to 53 bits a midpoint of float32."""
    rng = np.random.default_rng(side + 1)
    found = []
    while len(found) < 64:
        factor = int(rng.integers(1 << 22, 1 << 23)) * 2 + 1
        x = pow(factor, -1, 1 << 30) * side % (1 << 30) + int(rng.integers(0, 2)) * (1 << 30)
        middle = (x * factor - side) >> 30
        if middle % 2 and middle.bit_length() == 25:
            found.append((x, factor))
    codes, factors = np.array(found).T
    for sign in (1, -1):
        check((sign * codes).astype(np.int32), factors.astype(np.float32), None, axis=0)


def test_the_oracle_answers_by_these_kernels(cupy: FakeCuPy) -> None:
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
    assert len(cupy.launches) == 3
    oracle = all_oracles()["xverify-cuda"]
    assert (oracle.role, answers(oracle, NEWEST), answers(oracle, "tensorflow/Dequantize@seed")) == (
        "kernel",
        True,
        False,
    )


@pytest.mark.skipif(
    shutil.which("nvcc") is None, reason="there is no nvcc; NVRTC compiles the source where there is a card"
)
def test_what_nvcc_makes_of_it(tmp_path: Path) -> None:
    """Loads and stores are vectors past the caches, and no product is fused with the difference."""
    launch = launch_of((7, 9), (9,), Spread(1))
    result = subprocess.run(
        ["nvcc", "-ptx", "-arch=sm_80", *OPTIONS, *launch.macros, SOURCE, "-o", tmp_path / "kernel.ptx"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert (result.returncode, result.stderr) == (0, "")
    found = set(
        re.findall(r"\b(?:ld\.global|st\.global|fma|mul|sub)\.[a-z0-9.]*", (tmp_path / "kernel.ptx").read_text())
    )
    assert {"st.global.cs.v4.u32", "ld.global.cs.u32", "mul.rn.f32"} <= found
    assert not any(operation.startswith("fma") or ".ftz" in operation for operation in found)


def benchmark() -> Any:
    path = Path(__file__).parents[1] / "benchmarks" / "cuda.py"
    spec = importlib.util.spec_from_file_location("benchmarks_cuda", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_benchmark(cupy: FakeCuPy, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, file = benchmark().main, tmp_path / "cuda.json"
    options = ["--types", "uint8,int4:bfloat16,int32:float16", "--sizes", "1000", "--rounds", "3", "--calls", "2"]
    assert run([*options, "--json", str(file)]) == 0
    figures = json.loads(file.read_text())["figures"]
    assert [one["right"] for one in figures] == [True] * 15
    assert len(capsys.readouterr().out.splitlines()) == 2 + 15
    first = figures[0]
    assert (first["x"], first["granularity"], first["elements"]) == ("uint8", "per-tensor", 1000)
    assert first["per_cent"] == pytest.approx(100 * first["kernel_bytes_per_second"] / first["copy_bytes_per_second"])
    cupy.devices = 0
    assert run(options) == 3
    assert "no GPU here, so nothing was measured" in capsys.readouterr().err


def test_the_benchmark_says_when_bits_are_wrong(
    cupy: FakeCuPy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = benchmark()
    monkeypatch.setattr(module, "expected", lambda case, operands: np.full(case.shape, 7, case.out_dtype))
    assert module.main(["--types", "uint8", "--granularities", "per-tensor", "--sizes", "100", "--rounds", "1"]) == 1
    assert "OTHER BITS THAN NUMPY'S" in capsys.readouterr().out
