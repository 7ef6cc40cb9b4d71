"""The types that loops are compiled for, and the float type of a call. Nothing is compiled here."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from kernel_arrays import dtype_of

pytest.importorskip("numba")

from numba import types

from xverify.kernels.blocks import Spread
from xverify.kernels.compiled import linear, ranges
from xverify.kernels.compiled.layout import Rows, Runs
from xverify.kernels.compiled.linear import Linear
from xverify.kernels.compiled.memory import Flat
from xverify.kernels.compiled.ranges import Ranged
from xverify.kernels.compiled.tiles import THREADS_FROM
from xverify.kernels.plans import Operand

U8, U16, I16, I32, I64 = types.uint8, types.uint16, types.int16, types.int32, types.int64
F32, F64, NONE = types.float32, types.float64, types.none
ALL, AXIS, INNER = Spread(), Spread(0), Spread(1)
SHAPE = (4, 64)


@pytest.fixture
def compiled_for(monkeypatch: pytest.MonkeyPatch) -> Callable[[ModuleType], list[tuple[Any, ...]]]:
    """Record the types for which a module would compile loops, without compiling them."""

    def watch(module: ModuleType) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []

        def entry(function: object, signature: tuple[Any, ...]) -> Callable[..., bool]:
            found.append(signature)
            return lambda *arguments: True

        monkeypatch.setattr(module, "entry", entry)
        return found

    return watch


def parameter_of(spread: Spread, shape: tuple[int, ...] = SHAPE) -> tuple[int, ...]:
    return () if spread.axis is None else (shape[spread.axis],)


def formula(
    x: str, scale: str, zero: str, out: str, spread: Spread, divides: bool = False, shape: tuple[int, ...] = SHAPE
) -> Linear:
    parameter = parameter_of(spread, shape)
    zero_point = Operand(dtype_of(zero), parameter) if zero else None
    described = Operand(dtype_of(x), shape), Operand(dtype_of(scale), parameter), zero_point
    return Linear.of(dtype_of(out), *described, spread, divides)


@pytest.mark.parametrize(
    ("x", "scale", "zero", "out", "spread", "divides", "real", "expected"),
    [
        ("uint8", "float32", "", "float32", ALL, False, F32, (U8, F32, 0, None, NONE, NONE, NONE)),
        ("int8", "float16", "int8", "float16", AXIS, False, F32, (U8, U16, 1, U8, NONE, types.UniTuple(I64, 4), NONE)),
        ("int16", "bfloat16", "", "bfloat16", INNER, False, F32, (U16, I16, 1, None, NONE, NONE, types.UniTuple(I64, 5))),
        ("int32", "float32", "int32", "float16", AXIS, False, F64, (I32, F32, 1, I32, NONE, types.UniTuple(I64, 4), NONE)),
        ("uint8", "float32", "int32", "float32", ALL, True, F32, (U8, F32, 0, F32, types.boolean, NONE, NONE)),
        ("float8_e5m2", "float16", "", "float16", ALL, False, F32, (U8, U16, 0, None, NONE, NONE, NONE)),
    ],
)  # fmt: skip
def test_linear_loops(
    compiled_for: Any, x: str, scale: str, zero: str, out: str, spread: Spread, divides: bool, real: Any, expected: Any
) -> None:
    found, made = compiled_for(linear), formula(x, scale, zero, out, spread, divides)
    _ = made.double if made.is_wide else made.single
    codes, scales, rank, offset, division, runs, rows = expected
    outputs = {"float32": F32, "float16": U16, "bfloat16": I16}
    assert found == [
        (Flat(codes), Flat(outputs[out], written=True), made.coding.fields_type, real, Flat(scales, rank),
         real if offset is None else Flat(offset, rank), division, runs, rows, I64, I64, I64,
         types.boolean)
    ]  # fmt: skip


WIDE = [
    # x, scale, zero point, out, by division; computed in float64; decided by the zero points' values.
    ("uint8", "float32", "", "float32", False, False, False),
    ("uint8", "float32", "uint8", "float16", False, False, False),
    ("uint8", "float32", "int32", "float32", False, False, True),
    ("int16", "float32", "int16", "float32", False, False, False),
    ("int32", "float32", "", "float32", False, True, False),
    ("int32", "float32", "int32", "float32", False, True, False),
    ("uint8", "float32", "uint8", "float32", True, False, False),
    ("uint8", "float32", "uint8", "float16", True, True, False),
    ("float8_e4m3fn", "float32", "", "float32", False, False, False),
    ("float8_e4m3fn", "float32", "", "float16", False, True, False),
    ("float8_e4m3fn", "float16", "", "float16", False, False, False),
    ("float8_e5m2", "float32", "float8_e5m2", "float32", False, True, False),
]


@pytest.mark.parametrize(("x", "scale", "zero", "out", "divides", "is_wide", "decides"), WIDE)
def test_float_type_of_a_call(
    compiled_for: Any, x: str, scale: str, zero: str, out: str, divides: bool, is_wide: bool, decides: bool
) -> None:
    found, made = compiled_for(linear), formula(x, scale, zero, out, AXIS, divides)
    assert (made.is_wide, made.zero_points_decide) == (is_wide, decides)
    made.for_small(SHAPE)
    assert {signature[3] for signature in found} <= {F64 if is_wide else F32}
    parameters = [np.ones(parameter_of(AXIS), dtype_of(name)) if name else None for name in (scale, zero)]
    made(np.empty(SHAPE, dtype_of(out)), np.ones(SHAPE, dtype_of(x)), *parameters)
    assert {signature[3] for signature in found} == {F64 if is_wide else F32}


def test_zero_points_of_many_bits_need_float64(compiled_for: Any) -> None:
    made = formula("uint8", "float32", "int32", "float32", AXIS)
    for value, real in ((5, F32), (2**31 - 1, F64), (-(2**31), F64)):
        found = compiled_for(linear)
        made.__dict__.pop("single", None)
        made.__dict__.pop("double", None)
        zero_point = np.array([0, 0, value, 0], np.int32)
        made(np.empty(SHAPE, np.float32), np.ones(SHAPE, np.uint8), np.ones(4, np.float32), zero_point)
        assert {signature[3] for signature in found} == {real}, value


@pytest.mark.parametrize(
    ("shape", "spread", "expected"),
    [
        ((1, 5), INNER, Rows(5)), ((5, 1), AXIS, Rows(5)), ((1, 1), INNER, None), ((4, 64), ALL, None),
        ((0, 5), INNER, None), ((5, 0), AXIS, None), ((0, 5), AXIS, None), ((0,), ALL, None),
    ],
)  # fmt: skip
def test_where_the_parameters_of_an_axis_are_told_apart(
    compiled_for: Any, shape: tuple[int, ...], spread: Spread, expected: Any
) -> None:
    """An extent of 1 does not merge parameters. An empty tensor needs none."""
    found, made = compiled_for(linear), formula("uint8", "float32", "uint8", "float32", spread, shape=shape)
    assert made.layout == expected
    if 0 in shape:
        assert made.for_small(shape) is None
    elif expected:
        assert made.for_small(shape) is not None
        assert [signature[-5] for signature in found] == [types.UniTuple(I64, 5)]


@pytest.mark.parametrize(("out", "itemsize"), [("float32", 4), ("float16", 2)])
def test_what_threads_may_share_is_not_small(compiled_for: Any, out: str, itemsize: int) -> None:
    compiled_for(linear)
    for size in (1, THREADS_FROM // itemsize - 1, THREADS_FROM // itemsize):
        made = formula("uint8", out, "uint8", out, ALL, shape=(size,))
        assert (made.for_small((size,)) is not None) == (size * itemsize < THREADS_FROM)


@pytest.mark.parametrize(("spread", "kind"), [(ALL, None), (AXIS, Runs), (INNER, Rows)])
def test_loops_of_ranges(compiled_for: Any, spread: Spread, kind: Any) -> None:
    found = compiled_for(ranges)
    low = Operand(np.dtype(np.float32), parameter_of(spread))
    made = Ranged.of(np.dtype(np.float32), Operand(np.dtype(np.uint8), SHAPE), low, spread, "MIN_COMBINED")
    assert isinstance(made.layout, kind) if kind else made.layout is None
    _ = made.compiled
    places = (NONE, I64) if kind is Rows else (types.UniTuple(I64, 2), NONE)
    assert found == [
        (Flat(U8), Flat(F32, written=True), Flat(U8, written=True), made.coding.fields_type, I64,
         types.UniTuple(F64, 2), Flat(F64), Flat(F64),
         *places, I64)
    ]  # fmt: skip
