"""The memory that compiled kernels allocate besides the output."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from kernel_arrays import dtype_of

import xverify

pytest.importorskip("numba")

from xverify.kernels.compiled import threads, tiles

Peak = Callable[[Callable[[], object]], int]


@pytest.fixture
def peak(monkeypatch: pytest.MonkeyPatch) -> Peak:
    """Return the most bytes that a compiled call allocates, on one thread."""
    for module in (threads, tiles):
        monkeypatch.setattr(module, "threads", lambda: 1)

    def of(call: Callable[[], object]) -> int:
        call()
        tracemalloc.start()
        try:
            call()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    return of


def codes(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


@pytest.mark.parametrize(
    ("scale_name", "is_cut", "has_zero_point"),
    [
        ("float16", True, True),
        ("float16", False, False),
        ("float32", True, False),
        ("float32", False, True),
        ("float32", False, False),
    ],
)
def test_no_more_memory_than_the_output_and_a_few_blocks(
    scale_name: str, is_cut: bool, has_zero_point: bool, peak: Peak
) -> None:
    """Parameters of a type that loops do not take, or with gaps, are copied in parts."""
    x = codes((64, 1 << 16))
    scale = np.full(x.shape, 0.5, dtype_of(scale_name))[:, ::2]
    zero_point = codes(x.shape)[:, ::2] if has_zero_point else None
    scale = scale if is_cut else scale.copy()
    out = np.empty(x.shape, np.float32)
    keywords = {"axis": 1, "block_size": 2, "out_dtype": "float32", "out": out, "backend": "numba"}
    assert peak(lambda: xverify.dequantize_linear(x, scale, zero_point, **keywords)) < 3 * tiles.PIECE


def test_zero_points_of_another_type_are_converted_by_parts(peak: Peak) -> None:
    src = codes((2, 1 << 20))
    scales, zps, out = np.ones(1 << 20, np.float32), np.ones(1 << 20, np.int32), np.empty(src.shape, np.float32)
    keywords = {"qtype": "per_channel", "out": out, "backend": "numba"}
    assert peak(lambda: xverify.dynamic_dequantize(src, scales, zps, **keywords)) < 6 * tiles.PIECE


def test_parameters_in_another_order_are_copied_by_parts(peak: Peak) -> None:
    x = codes((64, 1 << 15))
    scale, out = np.asfortranarray(np.full((64, 1 << 14), 0.5, np.float32)), np.empty(x.shape, np.float32)
    zero_point = codes(scale.shape)[::-1]
    keywords = {"axis": 1, "block_size": 2, "out": out, "backend": "numba"}
    assert peak(lambda: xverify.dequantize_linear(x, scale, zero_point, **keywords)) < 4 * tiles.PIECE


def test_between_two_long_lines_not_all_parameters_are_converted(peak: Peak) -> None:
    x = codes((2, (1 << 20) - 3, 2))
    scale, out = np.full(x.shape[1], 0.5, np.float16), np.empty(x.shape, np.float32)
    keywords = {"axis": 1, "out_dtype": "float32", "out": out, "backend": "numba"}
    assert peak(lambda: xverify.dequantize_linear(x, scale, **keywords)) < 3 * tiles.PIECE


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_zero_points_are_not_compared_whole(backend: str, peak: Peak) -> None:
    src, zps, scales = codes((1 << 22,)), np.arange(1 << 22, dtype=np.int32), np.ones(1 << 22, np.float32)
    keywords = {"qtype": "per_channel", "axis": 0, "out": np.empty_like(scales), "backend": backend}
    assert peak(lambda: xverify.dynamic_dequantize(src, scales, zps, **keywords)) < 10 * tiles.PIECE


@pytest.mark.parametrize("backend", ["numpy", "numba"])
@pytest.mark.parametrize("mode", ["MIN_COMBINED", "MIN_FIRST", "SCALED"])
@pytest.mark.parametrize("inner", [1, 2])
def test_ranges_are_converted_by_parts(mode: str, inner: int, backend: str, peak: Peak) -> None:
    x = codes((2, (1 << 20) // inner, inner))
    low, high, out = np.full(x.shape[1], -1, np.float32), np.ones(x.shape[1], np.float32), np.empty(x.shape, np.float32)
    keywords = {"mode": mode, "axis": 1, "contract": "tensorflow/Dequantize@installed", "out": out, "backend": backend}
    assert peak(lambda: xverify.dequantize_range(x, low, high, **keywords)) < 14 * tiles.PIECE


@pytest.mark.parametrize("is_cut", [False, True])
def test_packed_codes_are_not_unpacked_first(is_cut: bool, peak: Peak) -> None:
    """They are unpacked in parts where other operands have gaps."""
    shape = 64, 1 << 16
    x, zero_point = codes((shape[0] * shape[1] // 2,)), codes((shape[0] * shape[1] // 4,))
    scale = np.full((shape[0], shape[1] // 2), 0.5, np.float32)
    if is_cut:
        scale = np.repeat(scale, 2, axis=1)[:, ::2]
    keywords = {"axis": 1, "block_size": 2, "out": np.empty(shape, np.float32), "backend": "numba"}
    taken = peak(lambda: xverify.dequantize_packed(x, scale, zero_point, dtype="uint4", shape=shape, **keywords))
    assert taken < (4 * tiles.PIECE if is_cut else 1 << 14)
