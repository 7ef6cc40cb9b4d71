"""The arguments and results of the linear loops that calls of the public functions do not show."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from kernel_arrays import all_codes, codes_of, dtype_of, expected, same_bits
from watched_loops import calls_given, fit

pytest.importorskip("numba")

from numba import types

from xverify import dequantize_linear
from xverify.kernels.backends import planned
from xverify.kernels.blocks import BLOCK, Spread
from xverify.kernels.casting import FLOAT32
from xverify.kernels.compiled import linear
from xverify.kernels.compiled.build import entry
from xverify.kernels.compiled.decode import coding
from xverify.kernels.compiled.layout import Layout, Rows, Runs
from xverify.kernels.compiled.memory import Flat
from xverify.kernels.formula import apply
from xverify.kernels.plans import Operand

FAR = 1 << 33
"""More elements than 32 bits count."""


SMALL = {
    "one value": ((), (), Spread()),
    "a row": ((7,), (), Spread()),
    "one parameter of rank 1": ((2, 3), (1,), Spread()),
    "an axis": ((3, 5), (5,), Spread(1)),
    "an axis before others": ((2, 5, 3), (5,), Spread(1)),
    "short runs, laid out anew": ((16, 256, 2), (256,), Spread(1)),
    "short rows, laid out anew": ((4096, 300), (300,), Spread(1)),
    "shorter runs, laid out anew as often as repeated": ((128, 32, 4), (32,), Spread(1)),
    "blocks": ((3, 5, 4), (3, 3, 4), Spread(1, 2)),
    "blocks of the last axis": ((3, 8), (3, 2), Spread(1, 4)),
}


OPERANDS = (
    ("i1", "f4", "f4", ""), ("i1", "f4", "f4", "the same"), ("i1", "f4", ">f4", "the same"), ("i1", "f4", "f4", "i4"),
    ("i1", "f2", "f2", ""), ("i1", "f2", "f4", "the same"), ("i2", "f4", "f2", ">i2"), (">i2", "f4", "f4", "the same"),
    ("i2", "f4", "f4", "i4"), (">i2", "f4", "f2", ""),
)  # fmt: skip
"""Types of x, output, scale and zero point: each pair that changes a path, not all combinations."""


@pytest.mark.parametrize("name", SMALL)
def test_both_ways_give_the_bits_of_numpy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path for small calls either computes an operand without conversion or declines the call."""
    calls = calls_given(linear, monkeypatch)
    shape, parameter, spread = SMALL[name]
    rng, taken = np.random.default_rng(7), Counter[str]()
    for x_name, out, scale_name, zero_name in OPERANDS:
        x, scale, zero_point = (
            None if not kind else rng.integers(0, 9, extents).astype(np.dtype(x_name if kind == "the same" else kind))
            for kind, extents in ((x_name, shape), (scale_name, parameter), (zero_name, parameter))
        )
        operands = [None if array is None else Operand(array.dtype, array.shape) for array in (x, scale, zero_point)]
        formula = linear.Linear.of(np.dtype(out), *operands, spread, by_division=False)
        want, long, short = (np.zeros(shape, np.dtype(out)) for _ in range(3))
        with np.errstate(all="ignore"):
            apply(want, x, scale, zero_point, spread, by_division=False)
        formula(long, x, scale, zero_point)
        assert long.tobytes() == want.tobytes(), (x_name, scale_name, zero_name, out)
        small = formula.for_small(shape)
        if small is not None and small(short, x, scale, zero_point):
            taken[zero_name] += 1
            assert short.tobytes() == want.tobytes(), (x_name, scale_name, zero_name, out)
    assert bool(taken) == ("anew" not in name), "what is laid out anew is never taken as it is"
    assert set(taken) <= {"", "the same"}
    assert fit(calls)


@pytest.mark.parametrize("spread", [Spread(), Spread(0)])
def test_floats_with_zero_points_of_another_type(spread: Spread) -> None:
    """No specification has such a call yet."""
    x = all_codes("float8_e4m3fn")
    extents = () if spread.axis is None else x.shape
    scale, zero_point = np.full(extents, 0.3, np.float32), np.full(extents, -3, np.int8)
    described = [Operand(array.dtype, array.shape) for array in (x, scale, zero_point)]
    want, got = np.empty(x.shape, np.float32), np.empty(x.shape, np.float32)
    apply(want, x, scale, zero_point, spread, by_division=False)
    linear.Linear.of(got.dtype, *described, spread, by_division=False)(got, x, scale, zero_point)
    same_bits(want, got)


@pytest.mark.parametrize("backend", ["numpy", "numba"])
@pytest.mark.parametrize("out_dtype", ["float16", "bfloat16"])
def test_quotients_beside_midpoints_are_rounded_once(out_dtype: str, backend: str) -> None:
    """In float32 most quotients would be the midpoint. No specification has such an output yet."""
    rng = np.random.default_rng(3)
    x = rng.integers(1, 128, 400).astype(np.int8)
    midpoints = {"float16": 2.0**-11, "bfloat16": 2.0**-8}[out_dtype] * (2 * rng.integers(0, 64, x.size) + 1) + 1
    scale = (x / midpoints).astype(np.float32)
    operands = (x, scale, np.zeros(x.size, np.int8))
    out = np.empty(x.size, dtype_of(out_dtype))
    described = [Operand(array.dtype, array.shape) for array in operands]
    planned(backend, out.dtype, *described, Spread(0), by_division=True).apply(out, *operands)
    assert codes_of(out) == expected(*operands, out_dtype, by_division=True)


@pytest.mark.parametrize("backend", ["numpy", "numba"])
@pytest.mark.parametrize("out_dtype", ["float32", "float16", "bfloat16"])
def test_quotients_by_one_scale_may_be_subnormals_where_products_are_not(out_dtype: str, backend: str) -> None:
    x, zero_point = all_codes("int8"), np.array(0, np.int8)
    for scale in (1.5, 1e30, 2.0**127, 3.0e38):
        operands = (x, np.array(scale, np.float32), zero_point)
        out = np.empty(x.size, dtype_of(out_dtype))
        described = [Operand(array.dtype, array.shape) for array in operands]
        planned(backend, out.dtype, *described, Spread(), by_division=True).apply(out, *operands)
        assert codes_of(out) == expected(*operands, out_dtype, by_division=True)


@pytest.mark.parametrize(("in_byte", "bits"), [(1, 8), (2, 4), (4, 2)])
def test_there_is_an_output_for_each_byte_and_no_more(in_byte: int, bits: int) -> None:
    """One more output would be written behind the table."""
    codes = linear._EVERY_CODE[in_byte]
    assert codes.dtype == np.uint8
    each = codes[:, None] >> np.arange(0, 8, bits) & ((1 << bits) - 1)
    assert each.reshape(-1).tolist() == [code % (1 << bits) for code in range(256)]


@pytest.mark.parametrize("out_dtype", ["float32", "float16"])
def test_a_table_has_room_for_what_is_written_to_it(out_dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = calls_given(linear, monkeypatch)
    x, scale = all_codes("float8_e5m2"), np.array(0.3, np.float32)
    x = np.tile(x, linear._LOOK_UP_FROM // x.size)
    operands = (x, scale, all_codes("float8_e5m2")[9:10].reshape(()))
    out = np.empty(x.size, dtype_of(out_dtype))
    described = [Operand(array.dtype, array.shape) for array in operands]
    linear.Linear.of(out.dtype, *described, Spread(), by_division=False)(out, *operands)
    sizes = [(codes.size, elements.size) for (_, codes), (_, elements), *_ in calls]
    assert sizes == [(256, 256), (x.size, x.size)]
    assert fit(calls)


def test_each_element_of_long_rows_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last part of a row converts only its own parameters."""
    calls = calls_given(linear, monkeypatch)
    x = np.random.default_rng(5).integers(0, 256, (5, BLOCK + 4321), np.uint8)
    scale = np.linspace(0.1, 9, x.shape[1]).astype(np.float16)
    want, got = np.empty(x.shape, np.float32), np.empty(x.shape, np.float32)
    described = (Operand(x.dtype, x.shape), Operand(scale.dtype, scale.shape), None)
    linear.Linear.of(got.dtype, *described, Spread(1), by_division=False)(got, x, scale, None)
    apply(want, x, scale, None, Spread(1), by_division=False)
    assert got.tobytes() == want.tobytes()
    sizes = [(codes.size, elements.size) for (_, codes), (_, elements), *_ in calls]
    assert all(codes == elements for codes, elements in sizes)
    assert sum(codes for codes, _ in sizes) == x.size


@pytest.mark.parametrize(
    ("places", "arguments"),
    [
        (Runs(4 * FAR, 16, 0), ((FAR // 16, 4 * FAR, 16, 0), None)),
        (Runs(FAR + 32, 32, FAR // 32 + 1), ((FAR // 32, FAR + 32, 32, FAR // 32 + 1), None)),
        (Rows(4 * FAR), (None, (FAR, 4 * FAR, 1, 1, 0))),
        (Rows(16, FAR, 1, 7), (None, (FAR, 16, FAR, 1, 7))),
        (Rows(16, FAR, FAR, 7), (None, (0, 16, FAR, FAR, 7))),
    ],
)
def test_parts_of_tensors_of_more_than_2_to_the_31_elements(
    places: Layout, arguments: tuple[tuple[int, ...] | None, tuple[int, ...] | None]
) -> None:
    """A piece that begins at ``FAR`` has the same parameters as a loop in Python computes."""
    code = coding(np.dtype(np.uint8))
    scale = np.arange(1, 65, dtype=np.float32)
    x = np.arange(3, 51, dtype=np.uint8)
    out = np.zeros(x.size, np.float32)
    kinds = linear.signature(
        types.uint8, FLOAT32, code.fields_type, types.float32, Flat(types.float32), types.float32, places
    )
    runs, rows = arguments
    entry(linear.loop_of(places), kinds)(
        x, out, tuple(code.fields), 0.0, scale, 0.0, None, runs, rows, FAR, False, 0, False
    )
    want = []
    for place, value in enumerate(x.tolist(), FAR):
        if runs:
            origin, line, run, stride = runs
            parameter = place // line * stride + place % line // run - origin
        else:
            assert rows
            origin, row, rows_of_line, run, stride = rows
            number = place // row
            parameter = (number // rows_of_line * stride + number % rows_of_line // run) * row + place % row - origin
        want.append(value * float(scale[parameter]))
    assert out.tolist() == want


@pytest.mark.parametrize("strided", range(4))
def test_a_small_call_reads_and_writes_its_arrays_as_they_lie(strided: int) -> None:
    """One of x, scale, zero point and output has gaps, after a call of the same shapes without gaps."""
    x, scale, zero_point = np.arange(10, dtype=np.int8), np.arange(1, 6, dtype=np.float32), np.arange(5, dtype=np.int8)
    arrays = [x.reshape(2, 5), scale, zero_point, np.zeros((2, 5), np.float32)]
    want = (arrays[0] - arrays[2].astype(np.float32)) * arrays[1]
    for gaps in (False, True):
        if gaps:
            room = np.full((*arrays[strided].shape, 2), 77, arrays[strided].dtype)
            room[..., 0] = arrays[strided]
            arrays[strided] = room[..., 0]
        dequantize_linear(*arrays[:3], axis=1, out=arrays[3], backend="numba")
        assert (arrays[3] == want).all()
