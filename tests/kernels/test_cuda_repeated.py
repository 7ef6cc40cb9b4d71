"""Repeated calls of the CUDA kernels: what they do, what they still check, and CUDA graphs of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuda_arrays import on_device, on_host, random, scales
from cuda_on_cpu import LIES_ON, FakeCuPy, Stream
from kernel_arrays import SEED, codes_of

import xverify
from xverify.kernels.cuda import dequantize_linear, dequantize_packed, dequantize_range, dynamic_dequantize, ranges
from xverify.kernels.cuda.arrays import require_device
from xverify.kernels.plans import Operand

CALLS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "linear": lambda x, scale, zero, out: dequantize_linear(x, scale, zero, out=out),
    "codes": lambda x, scale, zero, out: dequantize_linear(x, scale, zero, x_dtype="float8_e5m2", out=out),
    "packed": lambda x, scale, zero, out: dequantize_packed(x[:9], scale, zero.reshape(1), dtype="uint4", shape=[3, 6], out=out),
    "dynamic": lambda x, scale, zero, out: dynamic_dequantize(x, scale.reshape(1), zero.reshape(1), out=out),
    "range": lambda x, scale, zero, out: dequantize_range(x, scale, scale, mode="SCALED", contract=SEED, out=out),
}  # fmt: skip


def operands(seed: int, shape: tuple[int, ...] = (3, 6)) -> tuple[Any, Any, Any, Any]:
    x, scale, zero = random("uint8", (18,), seed), scales("float32", (), seed), random("uint8", (), seed)
    return on_device(x).reshape(shape), on_device(scale), on_device(zero), on_device(np.zeros((3, 6), np.float32))


@pytest.mark.parametrize("name", CALLS)
def test_a_repeated_call_only_launches(cupy: FakeCuPy, name: str) -> None:
    """A graph can capture it: it does not allocate, wait or read the device's properties."""
    call, shape = CALLS[name], (18,) if name == "packed" else (3, 6)
    first, second = operands(1, shape), operands(2, shape)
    call(*first)
    expected = on_host(call(*second))
    second[3][:] = 0
    cupy.cuda = SimpleNamespace(runtime=SimpleNamespace(getDevice=cupy.cuda.runtime.getDevice))
    for forbidden in ("empty", "arange", "asarray", "ascontiguousarray", "from_dlpack", "RawModule"):
        setattr(cupy, forbidden, None)
    launches = len(cupy.launches)
    with Stream(8, captures=True) as captured:
        assert call(*second) is second[3]
    assert codes_of(on_host(second[3])) == codes_of(expected)
    assert len(cupy.launches) == launches + 1
    assert cupy.launches[-1].stream is captured


def test_a_repeated_call_is_still_checked(cupy: FakeCuPy, monkeypatch: pytest.MonkeyPatch) -> None:
    x, scale, _, out = operands(1)
    memory = on_device(np.zeros(256, np.uint8))
    dequantize_linear(x, scale, axis=1, out=out)
    cases: list[tuple[Any, Any, Any, Any, str]] = [
        (memory[:18].reshape(3, 6), scale, memory[12:84].view(np.float32).reshape(3, 6), 1, "out overlaps an input"),
        (x, memory[80:84].view(np.float32).reshape(()), memory[12:84].view(np.float32).reshape(3, 6), 1, "out overlaps"),
        (x, memory[1:5].view(np.float32).reshape(()), out, 1, "scale lies at"),
        (x, scale, memory[2:74].view(np.float32).reshape(3, 6), 1, "out lies at"),
        (x, scale, out.view(np.int32), 1, "out is int32"),
        (x, scale, out.reshape(6, 3), 1, "the shape of out"),
        (x, scale, on_device(np.zeros((6, 3), np.float32)).T, 1, "out has the strides"),
        (x.view("i1").astype("f4"), scale, out, 1, "x is float32"),
        (x, scale, out, True, "axis is True"),
        (x, scale, out, [1], "axis"),
    ]  # fmt: skip
    launches = len(cupy.launches)
    for codes, factor, target, axis, sentence in cases:
        with pytest.raises((TypeError, ValueError), match=sentence.replace("[", r"\[")):
            dequantize_linear(codes, factor, axis=axis, out=target)
    monkeypatch.setitem(LIES_ON, scale.data.ptr, 5)
    with pytest.raises(ValueError, match=r"the operands lie on the devices \[0, 5\]"):
        dequantize_linear(x, scale, axis=1, out=out)
    for array in (x, out):
        monkeypatch.setitem(LIES_ON, array.data.ptr, 5)
    dequantize_linear(x, scale, axis=1, out=out)
    assert [launch.device for launch in cupy.launches[launches:]] == [5]


def test_a_repeated_call_with_a_zero_point_is_still_checked(cupy: FakeCuPy) -> None:
    memory = on_device(np.zeros(256, np.uint8))
    x, scale, zero = memory[:36].view(np.int16).reshape(3, 6), on_device(np.float32(2)), on_device(np.int16(1))
    out = on_device(np.zeros((3, 6), np.float32))
    dequantize_linear(x, scale, zero, out=out)
    dequantize_linear(x, scale, out=out)
    inside = memory[100:172].view(np.float32).reshape(3, 6)
    for codes, factor, offset, target, sentence in (
        (memory[1:37].view(np.int16).reshape(3, 6), scale, zero, out, "x lies at"),
        (x, memory[1:5].view(np.float32).reshape(()), zero, out, "scale lies at"),
        (x, scale, memory[1:3].view(np.int16).reshape(()), out, "zero_point lies at"),
        (x, memory[100:104].view(np.float32).reshape(()), zero, inside, "out overlaps an input"),
        (x, scale, memory[170:172].view(np.int16).reshape(()), inside, "out overlaps an input"),
        (x, scale, scale, out, "the dtype of zero_point is float32"),
    ):
        with pytest.raises((TypeError, ValueError), match=sentence):
            dequantize_linear(codes, factor, offset, out=target)
    memory[:72].view(np.int16)[:] = on_device(np.arange(36, dtype=np.int16))
    gaps = memory[:72].view(np.int16)[::2].reshape(3, 6)
    assert not gaps.flags.c_contiguous
    dequantize_linear(gaps, scale, zero, out=out)
    assert on_host(out).ravel().tolist() == [2.0 * (2 * i - 1) for i in range(18)]


def test_addresses_of_every_remainder_have_launches_of_their_own(cupy: FakeCuPy) -> None:
    x, scale = random("uint8", (64,), 1), np.float32(0.25)
    expected = codes_of(xverify.dequantize_linear(x, scale, backend="numpy"))
    for _ in range(2):
        for x_start in (0, 1, 4, 15):
            for out_start in range(4):
                out = on_device(np.zeros(64, np.float32), out_start)
                dequantize_linear(on_device(x, x_start), on_device(np.asarray(scale)), out=out)
                assert codes_of(on_host(out)) == expected
    assert not any(launch.misaligned for launch in cupy.launches)
    assert len(cupy.compiled) == 1


def test_a_graph_uses_no_table(cupy: FakeCuPy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph would write to the table's memory after CuPy has given it to another array."""
    monkeypatch.setattr(ranges, "LOOK_UP_FROM", 10)
    x, low, _, out = operands(1)
    dequantize_range(x, low, low, out=out, contract=SEED)
    compiled = len(cupy.compiled)
    with Stream(8, captures=True):
        dequantize_range(x, low, low, out=out, contract=SEED)
    assert [launch.macros["FORMULA"] for launch in cupy.launches] == ["MIN_COMBINED", "TABLE", "MIN_COMBINED"]
    assert len(cupy.compiled) == compiled, "no kernel is compiled or loaded during the capture"


def test_a_kernel_with_wide_indices_is_loaded_before_the_capture(cupy: FakeCuPy) -> None:
    """Its macros differ from those of the kernel that computes the table."""
    x, low, _, out = operands(1)
    launches = ranges.LookedUp.of(
        out.dtype, Operand(x.dtype, x.shape), Operand(low.dtype, ()), low.dtype, "MIN_COMBINED"
    )
    macros = tuple(macro.replace("BITS=32", "BITS=64") for macro in launches.direct.macros)
    launches = replace(launches, direct=replace(launches.direct, macros=macros, index_bits=64))
    launches(out, x, low, low)
    compiled = len(cupy.compiled)
    with Stream(8, captures=True):
        launches(out, x, low, low)
    assert len(cupy.compiled) == compiled == 3


def test_capture_and_replay_on_a_card() -> None:
    """A graph computes anew from what its arrays hold when it is launched."""
    try:
        cupy = require_device()
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"no graph can be captured without a card: {error}")
    before, after = random("uint8", (300, 40), 1), random("uint8", (300, 40), 2)
    scale, zero_point = scales("float32", (40,), 1), random("uint8", (40,), 3)
    x, factor, offset, out = (
        *map(cupy.asarray, (before, scale, zero_point)), cupy.zeros(before.shape, np.float32)
    )  # fmt: skip
    stream = cupy.cuda.Stream(non_blocking=True)
    for inside in (True, False):
        keywords: dict[str, Any] = {"axis": 1, "out": out}
        dequantize_linear(x, factor, offset, **keywords)
        cupy.cuda.Device().synchronize()
        with stream:
            stream.begin_capture()
            if inside:
                dequantize_linear(x, factor, offset, **keywords)
        if not inside:
            dequantize_linear(x, factor, offset, stream=stream, **keywords)
        graph = stream.end_capture()
        for codes in (after, before):
            x.set(codes)
            out[...] = 7
            cupy.cuda.Device().synchronize()
            graph.launch(stream)
            stream.synchronize()
            want = xverify.dequantize_linear(codes, scale, zero_point, axis=1, backend="numpy")
            assert codes_of(cupy.asnumpy(out)) == codes_of(want)
