"""The CUDA kernels give NumPy's bits, with the fake CuPy and on a card with the real one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_arrays import guarded, launches_of, on_device, on_host, random, scales
from cuda_on_cpu import FakeCuPy
from kernel_arrays import INTEGERS, SCALES, SMALL_FLOATS, WIDTHS, Array, all_codes, coded, codes_of, dtype_of
from linear_operands import triples

import xverify
from xverify.arithmetic.simplify import Types
from xverify.core.dtypes import QUANTIZED
from xverify.kernels import formula
from xverify.kernels.blocks import Spread
from xverify.kernels.cuda import dequantize_linear, dequantize_packed, dynamic_dequantize
from xverify.kernels.cuda.launch import Launch
from xverify.kernels.plans import Operand
from xverify.oracles.arrays import pack

OUTPUTS = ("float32", "float16", "bfloat16")
DIVIDE, MULTIPLY = "onednn/DynamicDequantize-1@divide", "onednn/DynamicDequantize-1@3.7"


def computed(x: Array, scale: Array, zero_point: Array | None, start: int = 0, **keywords: Any) -> Array:
    """Compute into memory ``start`` elements after a boundary. Check that the bytes around it stay."""
    operands = (on_device(x, start), on_device(scale), None if zero_point is None else on_device(zero_point))

    def compute(out: Any) -> None:
        dequantize_linear(*operands, x_dtype=x.dtype, scale_dtype=scale.dtype, out=out, **keywords)

    return guarded(x.shape, np.dtype(keywords.get("out_dtype") or scale.dtype), start, compute)


def check(x: Array, scale: Array, zero_point: Array | None, start: int = 0, **keywords: Any) -> None:
    """Assert that the kernel gives the bits of NumPy's."""
    want = xverify.dequantize_linear(x, scale, zero_point, backend="numpy", **keywords)
    assert codes_of(computed(x, scale, zero_point, start, **keywords)) == codes_of(want)


@pytest.mark.parametrize("name", [*INTEGERS, *SMALL_FLOATS])
def test_every_code_of_the_small_types_with_sharp_scales(any_cupy: Any, name: str) -> None:
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
    assert not any(launch.misaligned for launch in launches_of(any_cupy))


@pytest.mark.parametrize("capability", [750, 860])
def test_cards_without_the_newest_conversions(cupy: FakeCuPy, capability: int) -> None:
    """From 8.0 on there is one to bfloat16, from 8.9 on one of float8_e4m3fn."""
    cupy.capability = capability
    for name, scale_name, out in (
        ("float8_e4m3fn", "float32", "float32"), ("float8_e4m3fn", "float16", "float16"),
        ("uint8", "bfloat16", "bfloat16"), ("int16", "float32", "bfloat16"),
    ):  # fmt: skip
        x, factors = all_codes(name), coded(scale_name, SCALES[scale_name])
        check(np.tile(x, (factors.size, 1)), factors, None, axis=0, out_dtype=dtype_of(out))


@pytest.mark.parametrize("name", QUANTIZED)
def test_triples_that_tell_recipes_apart(any_cupy: Any, name: str) -> None:
    for seed, scale in enumerate(SCALES):
        for out in OUTPUTS:
            for zero_point in (name, ""):
                operands = triples(Types(name, zero_point, scale, out), 400, seed)
                x, factor, *offset = (coded(operands.dtypes[role], codes) for role, codes in operands.codes.items())
                check(x, factor, offset[0] if offset else None, axis=0, out_dtype=dtype_of(out))


KINDS = (
    ("uint8", "float32", "float32"), ("int4", "float16", "float16"), ("int16", "bfloat16", "bfloat16"),
    ("int32", "float32", "float16"), ("float8_e5m2", "float32", "float32"), ("int8", "float8_e8m0fnu", "float32"),
)  # fmt: skip


@pytest.mark.parametrize(("x_name", "scale_name", "out"), KINDS)
def test_granularities_shapes_and_starts(any_cupy: Any, x_name: str, scale_name: str, out: str) -> None:
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
        for start in {0, (0, 1, 3, 8, 5)[number % 5]}:
            check(x, scale, zero_point, start, out_dtype=dtype_of(out), **attributes)
    assert not any(launch.misaligned for launch in launches_of(any_cupy))
    if isinstance(any_cupy, FakeCuPy):
        assert {launch.macros["SPREAD"] for launch in any_cupy.launches} == set("012345")
        assert {launch.numbers[2] for launch in any_cupy.launches} == {0, 1}, "vectors of x, and elements one by one"


@pytest.mark.parametrize("name", WIDTHS)
def test_packed_codes(any_cupy: Any, name: str) -> None:
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
                assert codes_of(on_host(got).view(dtype_of(out))) == codes_of(want)
    x, scale = random(name, (300,), 1), np.float32(0.3)
    want = codes_of(xverify.dequantize_linear(x, scale, backend="numpy"))
    codes = on_device(pack(x.view(np.uint8) & (1 << bits) - 1, bits))
    for start in (1, 2, 3):
        out = on_device(np.zeros(300, np.float32), start)
        dequantize_packed(codes, on_device(np.asarray(scale)), dtype=name, shape=(300,), out=out)
        assert codes_of(on_host(out)) == want
    assert {launch.macros["X_BITS"] for launch in launches_of(any_cupy)} <= {str(bits)}
    assert not any(launch.misaligned for launch in launches_of(any_cupy))


@pytest.mark.parametrize("contract", [DIVIDE, MULTIPLY])
@pytest.mark.parametrize("zps_dtype", ["int8", "uint8", "int32", None])
def test_onednn(any_cupy: Any, contract: str, zps_dtype: str | None) -> None:
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
        assert codes_of(on_host(got)) == codes_of(want)


def test_onednn_halves_and_zero_points_of_64_bits(any_cupy: Any) -> None:
    for name in ("float16", "bfloat16"):
        src, factors = random("int4", (9, 30), 1), coded(name, np.resize([*SCALES[name], 0x1234, 0x3F01], 30))
        zps = random("int32", (30,), 2)
        attributes: dict[str, Any] = {"contract": MULTIPLY, "qtype": "per_channel"}
        want = xverify.dynamic_dequantize(src, factors, zps, backend="numpy", **attributes)
        got = dynamic_dequantize(
            *map(on_device, (src, factors, zps)), src_dtype="int4", scales_dtype=name, **attributes
        )
        assert codes_of(on_host(got).view(dtype_of(name))) == codes_of(want)
    src, factors = random("int8", (4, 12), 3), scales("float32", (12,), 3)
    zps = np.array([0, 1, -1, 2**39 - 1, -(2**39), 2**31, 77, -(2**31), 2**24 + 1, 5, -6, 2**33 + 1], np.int64)
    attributes = {"contract": "onednn/Dequantize-1@3.5", "qtype": "per_channel"}
    want = xverify.dynamic_dequantize(src, factors, zps, backend="numpy", **attributes)
    assert codes_of(on_host(dynamic_dequantize(*map(on_device, (src, factors, zps)), **attributes))) == codes_of(want)


def test_quotients_are_rounded_once_to_halves_too(any_cupy: Any) -> None:
    """No edition that divides has such outputs. The kernel must be right for them too."""
    x = np.arange(-(2**15), 2**15, dtype=np.int16)
    for name in ("float16", "bfloat16"):
        for scale in np.array([3.0, 1.7e-3, -0.11], np.float32):
            want, factor = np.empty(x.shape, dtype_of(name)), np.asarray(scale)
            formula.apply(want, x, factor, None, Spread(), by_division=True)
            launch = Launch.of(
                want.dtype, Operand(x.dtype, x.shape), Operand(factor.dtype, ()), None, Spread(), "QUOTIENT"
            )
            got = on_device(np.zeros(x.shape, np.uint16))
            with any_cupy.cuda.Device(0):
                launch(got, on_device(x), on_device(factor), None)
            assert codes_of(on_host(got).view(want.dtype)) == codes_of(want)


def test_a_grid_that_is_too_small_strides(cupy: FakeCuPy) -> None:
    cupy.blocks = 2
    for shape, parameters, attributes in (
        ((301,), (), {}),
        ((20, 16), (16,), {"axis": 1}),
        ((9, 35), (9, 7), {"axis": 1, "block_size": 5}),
    ):
        check(
            random("uint8", shape, 1), scales("float32", parameters, 1), random("uint8", parameters, 2), 1, **attributes
        )


def test_indices_of_64_bits_give_the_same(any_cupy: Any) -> None:
    x, scale, zero_point = random("uint8", (5, 7, 9), 1), scales("float32", (5, 3, 9), 1), random("uint8", (5, 3, 9), 2)
    want = xverify.dequantize_linear(x, scale, zero_point, axis=1, block_size=3, backend="numpy")
    operands = [Operand(a.dtype, a.shape) for a in (x, scale)]
    launch = Launch.of(want.dtype, *operands, zero_point.dtype, Spread(1, 3))
    wide = tuple(macro.replace("INDEX_BITS=32", "INDEX_BITS=64") for macro in launch.macros)
    out = on_device(np.zeros(x.shape, np.float32))
    with any_cupy.cuda.Device(0):
        Launch(wide, launch.size, 8, 4, launch.geometry, 64, launch.vectors)(
            out, *map(on_device, (x, scale, zero_point))
        )
    assert codes_of(on_host(out)) == codes_of(want)
    assert [launch.macros["INDEX_BITS"] for launch in launches_of(any_cupy)] in ([], ["64"])


@pytest.mark.parametrize(
    ("name", "is_offset"),
    [("int16", True), ("int16", False), ("uint16", False), ("float8_e4m3fn", True), ("float8_e4m3fnuz", True)],
)
def test_products_that_float32_rounds_to_midpoints_of_float16(cupy: FakeCuPy, name: str, is_offset: bool) -> None:
    """These products have more than 24 bits, so float32 must not round them first."""
    x, zero_point = random(name, (1 << 20,), 1), random(name, (1 << 20,), 2)
    scale = coded("float16", np.random.default_rng(3).integers(0x3C00, 0x4000, 1 << 20))
    products = (x.astype(np.float64) - (zero_point.astype(np.float64) if is_offset else 0)) * scale
    with np.errstate(over="ignore"):
        twice = products.astype(np.float32).astype(np.float16)
        (places,) = np.nonzero(np.isfinite(twice) & (twice != products.astype(np.float16)))
    assert places.size > 5
    check(x[places], scale[places], zero_point[places] if is_offset else None, axis=0)


def test_parameters_that_are_not_aligned(any_cupy: Any) -> None:
    """Rows of 16 columns, whose parameters are read as vectors where they are aligned."""
    x, scale, zero_point = random("int8", (5, 16), 1), scales("float32", (16,), 1), random("int8", (16,), 2)
    want = codes_of(xverify.dequantize_linear(x, scale, zero_point, axis=1, backend="numpy"))
    for starts in ((0, 0), (1, 0), (0, 1)):
        arrays = (on_device(array, start) for array, start in zip((scale, zero_point), starts, strict=True))
        assert codes_of(on_host(dequantize_linear(on_device(x), *arrays, axis=1))) == want
    assert {launch.macros["SPREAD"] for launch in launches_of(any_cupy)} <= {"4"}
    assert not any(launch.misaligned for launch in launches_of(any_cupy))


@pytest.mark.parametrize("side", [1, -1])
def test_products_beside_midpoints_that_float64_takes_for_them(any_cupy: Any, side: int) -> None:
    """x * scale is an odd 25-bit number * 2^30, +1 or -1. float64 rounds it to a midpoint of float32."""
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
