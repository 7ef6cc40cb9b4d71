"""The instructions of compiled loops, one function at a time. No loop is compiled here.

Each runs on vectors and on single elements, with and without the processor's conversions.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

from compiled_alone import Array, applied, written
from kernel_arrays import INTEGERS, SCALES, SMALL_FLOATS, WIDTHS, all_codes, coded, dtype_of
from llvmlite import ir
from numba import types

from xverify.core.rounding import cast
from xverify.kernels import formula
from xverify.kernels.blocks import Spread
from xverify.kernels.casting import BFLOAT16, FLOAT16, FLOAT32, multiply
from xverify.kernels.compiled import decode, rounding
from xverify.kernels.compiled.decode import ELEMENTS
from xverify.kernels.compiled.linear import Linear
from xverify.kernels.compiled.memory import Flat
from xverify.kernels.compiled.rounding import Kinds, is_away, output_elements, significant_bits
from xverify.kernels.compiled.vectors import CHUNK, F32, F64, has, has_half_instruction, spread
from xverify.kernels.plans import Operand

pytestmark = pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
"""A cast of a signalling NaN gives this warning."""

LANES = (CHUNK, 1)
TWO_REGISTERS = 2 * CHUNK
OUTPUTS = {FLOAT16: types.uint16, BFLOAT16: types.int16}
REALS = {F32: "f4", F64: "f8"}


@pytest.fixture(params=["as it is", "with fewer instructions"], autouse=True)
def _processor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run as this processor, and as one without 16-bit float conversions or special roundings."""
    if request.param == "with fewer instructions":
        for module in (decode, rounding):
            monkeypatch.setattr(module, "has_half_instruction", lambda: False)
        monkeypatch.setattr(rounding, "has", lambda feature: False)
        monkeypatch.setattr(rounding, "is_register", lambda value, feature: False)
        monkeypatch.setattr(decode, "coding", decode.coding.__wrapped__)


AS_IT_IS = pytest.mark.parametrize("_processor", ["as it is"], indirect=True)
"""The mark of a test whose subject does not depend on the processor's instructions."""


def fields_of(name: str) -> Any:
    """Return a coding's fields as an LLVM constant."""
    fields = decode.coding(dtype_of(name)).fields
    words = np.array(fields, np.int64).astype(np.int32).tolist()
    return ir.Constant(ir.ArrayType(ir.IntType(32), len(fields)), words)


def same_numbers(got: Array, want: Array) -> None:
    """Compare bits. All NaNs are equal."""
    assert got.dtype == want.dtype
    numbers = ~np.isnan(want.astype(np.float64))
    assert np.isnan(got.astype(np.float64))[~numbers].all()
    code = f"u{got.itemsize}"
    np.testing.assert_array_equal(got.view(code)[numbers], want.view(code)[numbers])


def padded(array: Array) -> Array:
    """Repeat the array to fill whole vectors."""
    return np.resize(array, -(-array.size // CHUNK) * CHUNK)


@AS_IT_IS
def test_which_codes_are_narrow() -> None:
    """Types of four bits or fewer are narrow."""
    for name in (*INTEGERS, *SMALL_FLOATS, "int16", "uint16"):

        def write(builder: Any, code: Any, name: str = name) -> Any:
            return builder.zext(decode.is_narrow(builder, fields_of(name)), ir.IntType(8))

        is_narrow = WIDTHS.get(name, 8 * dtype_of(name).itemsize) <= 4
        assert applied(write, "u1", np.zeros(1, np.uint8), lanes=1) == is_narrow, name


@AS_IT_IS
@pytest.mark.parametrize("name", [*INTEGERS, "int16", "uint16", "int32"])
def test_integer_codes_become_numbers(name: str) -> None:
    check_codes(name)


@pytest.mark.parametrize("name", SMALL_FLOATS)
def test_float_codes_become_numbers(name: str) -> None:
    check_codes(name)


def check_codes(name: str) -> None:
    """Decode codes with vectors, and one by one."""
    width = dtype_of(name).itemsize
    x = (
        padded(all_codes(name))
        if width == 1
        else np.random.default_rng(1).integers(0, 256, (1 << 12) * width, np.uint8)
    )
    x = x.view(dtype_of(name))
    fields, kind = fields_of(name), "i4" if width == 4 else f"u{width}"
    for real, lanes in ((F32, CHUNK), (F32, 1), (F64, CHUNK)):

        def value(builder: Any, code: Any, real: Any = real) -> Any:
            return decode.code_value(builder, code, fields, real)

        def origin(builder: Any, code: Any, real: Any = real) -> Any:
            return decode.code_origin(builder, fields, real)

        got = applied(value, REALS[real], x.view(kind), lanes=lanes)
        first = applied(origin, REALS[real], x.view(kind)[:1], lanes=1)
        want = x.astype(np.float32).astype(got.dtype) if width < 4 else x.astype(got.dtype)
        same_numbers(got - first, want)
        assert first == (
            0 if not name.startswith("int") or width == 4 else -int(np.iinfo(name).min) if width == 2 else -want.min()
        )


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT16, BFLOAT16])
def test_scales_become_numbers(dtype: np.dtype[Any], real: Any, lanes: int) -> None:
    scales = np.arange(1 << 16, dtype=np.uint16)
    scales = scales.view(dtype) if dtype.itemsize == 2 else scales.repeat(2).view(np.float32)
    kind = decode.ELEMENTS[dtype]
    given = scales.view(f"u{dtype.itemsize}") if dtype.itemsize == 2 else scales
    got = applied(lambda b, code: decode.scale_value(b, code, kind, real), REALS[real], given, lanes=lanes)
    same_numbers(got, scales.astype(got.dtype))


def beside_midpoints(dtype: np.dtype[Any], real: str) -> Array:
    """Return each number of a 16-bit type, the midpoint to the next number, and their neighbours."""
    numbers = np.arange(1 << 16, dtype=np.uint16).view(dtype).astype(np.float64)
    with np.errstate(all="ignore"):
        middles = (numbers + np.roll(numbers, -1)) / 2
        exact = np.concatenate(
            [numbers, middles, np.where(np.isfinite(numbers), numbers * (1 + 2.0**-9), numbers)]
        ).astype(real)
        near = [np.nextafter(exact, exact.dtype.type(end)) for end in (-np.inf, np.inf)]
    return np.concatenate([exact, *near])


@pytest.mark.parametrize("lanes", [*LANES, TWO_REGISTERS])
@pytest.mark.parametrize("dtype", OUTPUTS)
def test_single_numbers_become_elements(dtype: np.dtype[Any], lanes: int) -> None:
    values = beside_midpoints(dtype, "f4")
    element = partial(rounding.element, dtype=OUTPUTS[dtype])
    got = applied(element, "u2", values, lanes=lanes).view(dtype)
    with np.errstate(all="ignore"):
        same_numbers(got, values.astype(dtype))


@pytest.mark.parametrize("lanes", [TWO_REGISTERS, CHUNK, 8, 1])
@pytest.mark.parametrize("dtype", OUTPUTS)
def test_double_numbers_become_elements(dtype: np.dtype[Any], lanes: int) -> None:
    """They pass through float32, which must not round a value beside a midpoint to the midpoint."""
    values = beside_midpoints(dtype, "f8")
    got = applied(partial(rounding.element, dtype=OUTPUTS[dtype]), "u2", values, lanes=lanes).view(dtype)
    with np.errstate(all="ignore"):
        single = values.astype(np.float32)
        beyond, inexact = np.abs(single) > np.abs(values), single != values
        odd = ((single.view(np.uint32) - beyond) | (inexact & ~np.isnan(values))).view(np.float32)
        same_numbers(got, odd.astype(dtype))
    single = applied(partial(rounding.element, dtype=types.float32), "f4", values, lanes=lanes)
    with np.errstate(all="ignore"):
        same_numbers(single, values.astype(np.float32))


def test_the_bits_of_a_nan_do_not_carry() -> None:
    values = np.array([0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001, 0xFF800001] * 8, np.uint32).view(np.float32)
    for lanes in (*LANES, TWO_REGISTERS):
        codes = applied(partial(rounding.element, dtype=types.int16), "u2", values, lanes=lanes)
        assert codes.tolist() == [0x7FFF, 0xFFFF, 0x7FC0, 0xFFC0] * 8


def test_one_subnormal_among_others() -> None:
    """The conversion instruction takes a subnormal for zero, at any position in one or two registers."""
    values = np.tile(np.linspace(-3, 3, TWO_REGISTERS).astype(np.float32), (TWO_REGISTERS, 1))
    np.fill_diagonal(values, 2.0**-130)
    values = values.reshape(-1)
    for lanes in (CHUNK, TWO_REGISTERS):
        got = applied(partial(rounding.element, dtype=types.int16), "u2", values, lanes=lanes).view(BFLOAT16)
        same_numbers(got, values.astype(BFLOAT16))


@pytest.mark.parametrize("lanes", [*LANES, TWO_REGISTERS])
def test_numbers_that_are_known_to_be_no_subnormals(lanes: int) -> None:
    """The loop trusts `is_normal` where the processor converts. The results are right if it is true."""
    values = beside_midpoints(BFLOAT16, "f4")
    values = values[np.abs(values) >= 2.0**-126][: 1 << 16]
    one = ir.Constant(ir.IntType(1), 1)
    write = partial(rounding.element, dtype=types.int16, is_normal=one if lanes > 1 else None)
    same_numbers(applied(write, "u2", values, lanes=lanes).view(BFLOAT16), values.astype(BFLOAT16))


@pytest.mark.parametrize("lanes", LANES)
def test_no_float16_where_the_processor_has_none(lanes: int, request: pytest.FixtureRequest) -> None:
    """LLVM would call a conversion function that no library has."""
    of_half = [
        written(partial(rounding.element, dtype=types.uint16), lanes, "f4", "u2"),
        written(lambda b, code: decode.scale_value(b, code, types.uint16, F32), lanes, "u2", "f4"),
        written(lambda b, code: decode.code_value(b, code, fields_of("float8_e5m2"), F32), lanes, "u1", "f4"),
    ]
    has_none = "fewer" in request.node.name or not has_half_instruction()
    assert [bool(re.search(r"\bhalf\b", str(function.module))) for function in of_half] == [not has_none] * 3


@AS_IT_IS
@pytest.mark.parametrize("feature", ["avx512fp16", "avx512f"])
def test_no_float16_from_float64_where_the_processor_has_none(feature: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM would call a function for this conversion too."""
    monkeypatch.setattr(rounding, "has", lambda asked: asked != feature)
    made = written(partial(rounding.element, dtype=types.uint16), CHUNK, "f8", "u2")
    assert not re.search(r"fptrunc <\d+ x double> .* to <\d+ x half>", str(made.module))
    assert re.search(r"fptrunc|cvtpd2ps", str(made.module))


def products(real: str) -> tuple[Array, Array]:
    """Return differences of codes, and scales."""
    rng, count = np.random.default_rng(3), 1 << 12
    bound = 1 << 17 if real == "f4" else 1 << 33
    differences = np.concatenate([rng.integers(-bound, bound + 1, count - 6), [0, 1, -1, bound, -bound, 3]]).astype(
        real
    )
    scales = coded("float32", rng.integers(0, 1 << 32, count)).astype(real)
    scales[:16] = np.resize([0, -0.0, np.inf, -np.inf, np.nan, 1, 1e-45, 3.4e38], 16).astype(np.float32)
    return differences, scales


@pytest.mark.parametrize("lanes", LANES)
def test_products_to_odd(lanes: int) -> None:
    differences, scales = products("f4")
    got = applied(rounding._product_to_odd, "f4", differences, scales, lanes=lanes)
    with np.errstate(all="ignore"):
        exact = differences.astype(np.float64) * scales
        nearest = exact.astype(np.float32)
        beyond, inexact = np.abs(nearest) > np.abs(exact), (nearest != exact) & ~np.isnan(exact)
        want = ((nearest.view(np.uint32) - beyond) | inexact).view(np.float32)
    same_numbers(got, want)


@pytest.mark.parametrize("lanes", [TWO_REGISTERS, CHUNK, 8, 1])
def test_products_to_odd_in_float64(lanes: int) -> None:
    differences, scales = products("f8")
    with np.errstate(all="ignore"):
        want = multiply(differences, scales)
    same_numbers(applied(rounding._product_to_odd, "f8", differences, scales, lanes=lanes), want)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize(
    ("real", "dtype", "divides", "bits"),
    [("f4", FLOAT32, False, 41), ("f4", FLOAT32, True, 41), ("f4", FLOAT16, False, 41), ("f8", FLOAT16, True, 41),
     ("f8", BFLOAT16, False, 57), ("f8", FLOAT32, False, 53)],
)  # fmt: skip
def test_products_and_quotients_are_rounded_once(
    real: str, dtype: np.dtype[Any], divides: bool, bits: int, lanes: int
) -> None:
    """They are rounded once: float64 holds products of such short differences exactly."""
    differences, scales = products("f4")
    differences, scales = differences.astype(real), scales.astype(real)
    out = decode.ELEMENTS[dtype]

    def write(builder: Any, difference: Any, scale: Any) -> Any:
        return rounding.element(builder, rounding.to_odd(builder, difference, scale, divides, bits, out), out)

    got = applied(write, "f4" if dtype == FLOAT32 else "u2", differences, scales, lanes=lanes).view(dtype)
    with np.errstate(all="ignore"):
        wide = differences.astype(np.float64), scales.astype(np.float64)
        exact = wide[0] / wide[1] if divides else wide[0] * wide[1]
        single = exact.astype(np.float32)
        beyond, inexact = np.abs(single) > np.abs(exact), (single != exact) & ~np.isnan(exact)
        odd = ((single.view(np.uint32) - beyond) | inexact).view(np.float32)
        same_numbers(got, single if dtype == FLOAT32 else odd.astype(dtype))


@AS_IT_IS
@pytest.mark.parametrize("real", ["f4", "f8", "u2"])
def test_from_which_scale_on_products_are_normal(real: str) -> None:
    """The smallest nonzero difference is 2^-17, that of float8_e5m2fnuz."""
    edge, kind = 2.0**-109, BFLOAT16 if real == "u2" else np.dtype(real)
    scales = np.array([edge, -edge, 1, np.inf, np.nan, 0, -0.0, edge / 2, -edge / 2, 1e-45], kind)
    below = (np.array([edge, -edge], kind).view(f"u{kind.itemsize}") - 1).view(kind)
    scales = np.concatenate([scales, below]).view(real)

    def write(builder: Any, scale: Any) -> Any:
        return builder.zext(rounding.gives_normals(builder, scale), ir.IntType(8))

    assert applied(write, "u1", scales, lanes=1).tolist() == [1] * 5 + [0] * 7


@pytest.mark.parametrize(
    ("real", "out_name", "least", "above"),
    [("f4", "bfloat16", -126, 94), ("f8", "bfloat16", -126, 128), ("f8", "float16", -14, 16)],
)
def test_products_that_are_split(real: str, out_name: str, least: int, above: int) -> None:
    """Scales have the output's type, are positive and give no subnormal result.

    Short differences are all tried. Of long ones, the test tries extremes, and products at or next to a midpoint of two results.
    """
    out, rng, single = OUTPUTS[dtype_of(out_name)], np.random.default_rng(15), real == "f4"
    scales = coded(out_name, np.arange(1 << 16)).astype(real)

    def may_be(builder: Any, scale: Any) -> Any:
        return builder.zext(rounding.may_split(builder, scale, out), ir.IntType(8))

    split = applied(may_be, "u1", scales, lanes=1).astype(bool)
    assert (split == ((scales >= 2.0**least) & (scales < 2.0**above) & np.isfinite(scales))).all()
    scales = scales[split]
    if single:
        scales = np.concatenate([scales[::29], scales[:128], scales[-128:]])
        difference, scale = (part.ravel() for part in np.meshgrid(np.arange(-511, 512).astype(real), scales))
    else:
        scale = rng.choice(scales, 1 << 18)
        middle = np.ldexp(2.0 * rng.integers(1 << 10, 1 << 12, scale.size) + 1, rng.integers(0, 19, scale.size))
        near = np.rint(middle / np.frexp(scale)[0])
        anything = rng.integers(0, 1 << 32, scale.size) >> rng.integers(0, 32, scale.size)
        ends = rng.choice([0, 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1], scale.size)
        difference = np.choose(np.arange(scale.size) % 3, [near, anything, ends]) * rng.choice([-1.0, 1.0], scale.size)
        difference += 0.0  # no difference is -0
    difference, scale = padded(difference), padded(scale)

    def write(builder: Any, difference: Any, scale: Any) -> Any:
        return rounding.split_product(builder, difference, scale, out)

    with np.errstate(over="ignore"):
        product = difference.astype(np.float64) * scale.astype(np.float64)
    assert (applied(write, "u2", difference, scale) == cast(product, out_name)).all()


@AS_IT_IS
@pytest.mark.parametrize("features", [(), ("fma",), ("fma", "avx512bf16", "avx512dq"), ("fma", "avx512fp16")])
def test_where_products_are_split(features: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Scales must have the output's type, and products must be short enough."""
    monkeypatch.setattr(rounding, "has", features.__contains__)
    in_single = {types.int16: 17} if "fma" in features and "avx512bf16" not in features else {}
    in_double = {types.int16: 44} | ({} if "avx512fp16" in features else {types.uint16: 44}) if features else {}
    for out in (types.float32, types.uint16, types.int16):
        for scale in (types.float32, types.uint16, types.int16):
            for bits in (17, 18, 44, 45):
                for real, most in ((F32, in_single), (F64, in_double)):
                    assert rounding.is_split(real, out, scale, bits) is (scale == out and bits <= most.get(out, 0))


@pytest.mark.parametrize(("real", "out_name", "bits"), [("f4", "float16", 11), ("f8", "float32", 24)])
def test_products_that_are_rounded_to_nearest_first(real: str, out_name: str, bits: int) -> None:
    """The second rounding is right unless a product became a midpoint; the loop detects that."""
    if not has("avx2"):
        pytest.skip("this processor has no AVX2, by which products in the middle are looked for")
    out, rng, size = ELEMENTS[dtype_of(out_name)], np.random.default_rng(16), 1 << 16
    most, long = (17, 11) if real == "f4" else (33, 24)
    factor = (rng.integers(1 << (long - 1), 1 << long, size) | 1).astype(np.float64)
    # Some factors give exact products.
    factor[::5] = 2.0 ** (long - 1) + 2.0 ** (long - rng.integers(1, 8, factor[::5].size))
    anything = rng.integers(0, 1 << most, size) >> rng.integers(0, most, size)
    # Some products are half a unit of the result, or a little more or less.
    half, chosen = 1 << (most + long - bits - 1), rng.integers(0, CHUNK, size) == 0
    chosen[::5] = False
    rests = rng.integers(-7, 8, size).tolist()
    anything[chosen] = [
        (half + rests[place]) * pow(int(factor[place]), -1, 2 * half) % (2 * half) for place in np.flatnonzero(chosen)
    ]
    difference = anything * rng.choice([-1.0, 1.0], size) + 0.0  # no difference is -0
    difference, scale = difference.astype(real), (factor * 2.0 ** -(long + 3)).astype(real)

    def products(builder: Any, difference: Any, scale: Any) -> Any:
        return rounding.nearest_products(builder, [difference], scale, out)[0][0]

    def are_right(builder: Any, difference: Any, scale: Any) -> Any:
        _, holds = rounding.nearest_products(builder, [difference, difference], scale, out)
        return spread(builder, builder.zext(holds, ir.IntType(8)), difference)

    single = applied(products, real, difference, scale)
    assert (single == difference * scale).all()
    with np.errstate(all="ignore"):
        right = codes_as(out_name, single) == codes_as(out_name, multiply(difference.astype("f8"), scale.astype("f8")))
    below = (24 if real == "f4" else 53) - bits
    between = single.view(f"u{single.itemsize}") & ((1 << below) - 1) == 1 << (below - 1)
    holds = applied(are_right, "u1", difference, scale).astype(bool).reshape(-1, CHUNK)
    assert (holds == ~between.reshape(-1, CHUNK).any(axis=1, keepdims=True)).all()
    assert right.reshape(-1, CHUNK)[holds].all()
    assert 300 < (~right).sum() < holds.sum() < 0.7 * holds.size


def codes_as(out_name: str, numbers: Array) -> Array:
    """Return the codes of numbers that are rounded once."""
    return cast(numbers.astype(np.float64), out_name)


@AS_IT_IS
def test_where_products_are_rounded_to_nearest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product must have more bits than its type, and no instruction may round it toward zero."""
    outputs = (types.float32, types.uint16, types.int16)
    for features in ((), ("fma",), ("avx2",), ("avx2", "fma"), ("avx2", "fma", "avx512f")):
        monkeypatch.setattr(rounding, "has", features.__contains__)
        found = {
            (real, out, bits)
            for real in (F32, F64) for out in outputs for bits in (24, 25, 53, 54)
            if rounding.is_seldom_between(real, out, bits)
        }  # fmt: skip
        there = {(F32, types.uint16, bits) for bits in (25, 53, 54)} | {(F64, types.float32, 54)}
        assert found == (there if features == ("avx2", "fma") else set())


CODED = (
    ("uint8", True), ("int8", False), ("int4", True), ("int16", True), ("int32", False), ("float8_e4m3fn", False),
    ("float8_e5m2", True),
)  # fmt: skip
"""Types of x, and whether there is a zero point."""

ROUNDED = (
    ("float32", "float32", False), ("float32", "float16", False), ("float16", "bfloat16", False), ("float32", "float32", True),
    ("bfloat16", "float16", False), ("bfloat16", "bfloat16", False), ("bfloat16", "float32", False), ("float32", "float16", True),
)  # fmt: skip
"""Types of scale and output, and whether the scale divides. No specification divides by scales of 16 bits."""

VALUES = [
    (*coded_as, *rounded_to) for i, coded_as in enumerate(CODED) for j, rounded_to in enumerate(ROUNDED)
    if (i + j) % 3 == 0
]  # fmt: skip
"""A third of the combinations: each row of either table occurs several times."""


@pytest.mark.parametrize("is_shared", [False, True], ids=["a scale each", "one scale"])
@pytest.mark.parametrize(("x_name", "has_zero_point", "scale_name", "out_name", "divides"), VALUES)
def test_vectors_of_results(
    x_name: str, has_zero_point: bool, scale_name: str, out_name: str, divides: bool, is_shared: bool
) -> None:
    """Compute (number - offset) * scale, or / scale, in the float type that loops use."""
    rng, size, out = np.random.default_rng(7), 1 << 10, dtype_of(out_name)
    x, zero_point = drawn(x_name, size, rng), drawn(x_name, size, rng) if has_zero_point else None
    scale = drawn(scale_name, size, rng)
    scale[: size // 2] = np.resize(coded(scale_name, SCALES[scale_name]), size // 2)
    if is_shared:
        scale[:] = np.float32(1.7e-3)
        zero_point = None if zero_point is None else np.full_like(x, x[1])
    want = np.zeros(size, out)
    formula.apply(want, x, scale, zero_point, Spread(0), by_division=divides)

    described = [Operand(x.dtype, x.shape)] * 3
    described[1] = Operand(scale.dtype, scale.shape)
    made = Linear.of(out, described[0], described[1], described[2] if has_zero_point else None, Spread(0), divides)
    name, real, numba_real = ("f8", F64, types.float64) if made.is_wide else ("f4", F32, types.float32)
    fields, codes = made.coding.fields, made.coding.codes
    kinds = Kinds(
        Flat(codes), Flat(ELEMENTS[out]), made.coding.fields_type, types.boolean if divides else types.none,
        Flat(ELEMENTS[made.scale]), Flat(codes) if has_zero_point else numba_real,
    )  # fmt: skip
    origin = fields.flip if isinstance(fields, decode.IntegerCoding) else 0
    offset = np.full(size, origin, name)
    if zero_point is not None:
        offset = zero_point.astype(name) + offset if origin else zero_point.astype(name)
    shared = [ir.Constant(real, float(array[0])) for array in (scale.astype(name), offset)]
    coding = fields_of(x_name)

    def write(builder: Any, code: Any, *given: Any) -> Any:
        return output_elements(builder, decode.code_value(builder, code, coding, real), *(given or shared), kinds)

    given = () if is_shared else (scale.astype(name), offset)
    code = x.view("i4" if codes == types.int32 else f"u{x.itemsize}")
    same_numbers(applied(write, "f4" if out == FLOAT32 else "u2", code, *given).view(out), want)


def drawn(name: str, size: int, rng: np.random.Generator) -> Array:
    """Draw any codes of a type."""
    width = dtype_of(name).itemsize
    return coded(name, rng.integers(0, 1 << WIDTHS.get(name, 8 * width), size))


INTEGER, SMALL, LONG = types.UniTuple(types.int32, 2), types.UniTuple(types.int32, 7), types.UniTuple(types.int32, 6)
CODES, REALS_GIVEN, NONE = Flat(types.uint8), Flat(types.float64), types.float32


@AS_IT_IS
@pytest.mark.parametrize(
    ("code", "coding", "scale", "offset", "bits", "away"),
    [
        (types.uint8, INTEGER, types.float32, NONE, 24 + 8, True),
        (types.uint8, INTEGER, types.uint16, CODES, 11 + 8, True),
        (types.uint16, INTEGER, types.int16, CODES, 8 + 16, True),
        (types.int32, INTEGER, types.float32, NONE, 24 + 33, False),
        (types.int32, INTEGER, types.float32, Flat(types.int32), 24 + 33, True),
        (types.int32, INTEGER, types.float32, REALS_GIVEN, 64, True),
        (types.uint8, INTEGER, types.float32, REALS_GIVEN, 64, True),
        (types.uint8, SMALL, types.float32, NONE, 24 + 4, False),
        (types.uint8, LONG, types.int16, NONE, 8 + 4, False),
        (types.uint8, LONG, types.float32, CODES, 24 + 33, True),
        (types.uint8, SMALL, types.uint16, REALS_GIVEN, 64, True),
    ],
)
def test_significant_bits_and_offsets_by_type(
    code: Any, coding: Any, scale: Any, offset: Any, bits: int, away: bool
) -> None:
    """The significant bits of a difference and a scale, and whether an offset is subtracted."""
    assert significant_bits(code, coding, scale, offset) == bits
    assert is_away(code, coding, offset) is away
