"""Casts toward zero and with saturation, and sums rounded to odd, against fractions."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import exact
import exact_stages
import numpy as np
import pytest
from drawn_floats import OUTPUTS, as_value
from hypothesis import given, settings
from hypothesis import strategies as st

from xverify.core import rounding
from xverify.core.bits import canonical

FEW = settings(max_examples=50, deadline=None)

numbers = st.one_of(
    st.floats(),
    st.floats(width=32),
    st.integers(-(2**40), 2**40).map(float),
    st.builds(math.ldexp, st.integers(-(2**26), 2**26).map(float), st.integers(-170, 110)),
    st.sampled_from([65504.0, 65519.99, 65520.0, -65536.0, 2.0**-24, 2.0**-25, -(2.0**-149), 2.0**-150, 2.0**128]),
)


@pytest.mark.parametrize("dtype", OUTPUTS)
@FEW
@given(given_numbers=st.lists(numbers, min_size=1, max_size=20))
def test_casts(dtype: str, given_numbers: list[float]) -> None:
    array = np.array(given_numbers)
    before = array.copy()
    toward_zero = rounding.cast_toward_zero(array, dtype).tolist()
    saturated = rounding.cast_saturated(array, dtype).tolist()
    for number, truncated, kept in zip(given_numbers, toward_zero, saturated, strict=True):
        value = as_value(number)
        assert truncated == exact_stages.toward_zero(dtype, value), f"{number!r} truncated to {truncated:#x}"
        assert kept == exact_stages.saturated(dtype, value), f"{number!r} saturated to {kept:#x}"
    assert np.array_equal(before, array, equal_nan=True)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_casts_between_every_pair_of_neighbours(dtype: str) -> None:
    """Numbers of the type stay. Others are truncated, or rounded to nearest with ties to even."""
    form = exact.FORMATS[dtype]
    infinity = ((1 << form.exponent_bits) - 1) << form.mantissa_bits
    codes = np.arange(infinity, dtype=np.uint16)
    values = np.array([float(exact.decode(dtype, int(code))) for code in codes])
    following = np.append(values[1:], 2.0 ** (form.bias + 1))
    for sign in (1.0, -1.0):
        want = codes if sign > 0 else codes | np.uint16(1 << 15)
        assert np.array_equal(rounding.cast_toward_zero(np.copysign(values, sign), dtype), want)
        for between in (np.nextafter(values, np.inf), np.nextafter(following, 0.0), (values + following) / 2):
            assert np.array_equal(rounding.cast_toward_zero(np.copysign(between, sign), dtype), want)
        middle = np.copysign((values + following) / 2, sign)
        nearest = {
            "the number": (np.copysign(values, sign), want),
            "the middle": (middle, want + (want & 1)),
            "short of the middle": (np.nextafter(middle, 0.0), want),
            "past the middle": (np.nextafter(middle, sign * np.inf), want + 1),
            "short of the next": (np.nextafter(np.copysign(following, sign), 0.0), want + 1),
        }
        for where, (number, rounded) in nearest.items():
            assert np.array_equal(rounding.cast(number, dtype), rounded), where
        largest = want[-1]
        beyond = sign * np.array([following[-1], 1e300, math.inf])
        assert rounding.cast_saturated(beyond, dtype).tolist() == [largest] * 3
        assert rounding.cast_toward_zero(beyond[:2], dtype).tolist() == [largest] * 2
        assert rounding.cast_toward_zero(beyond[2:], dtype).tolist() == [int(largest) + 1]


@pytest.mark.parametrize(
    ("dtype", "number", "truncated", "saturated"),
    [
        ("float32", 1 - 2.0**-30, 0x3F7FFFFF, 0x3F800000),
        ("float32", 2.0**128, 0x7F7FFFFF, 0x7F7FFFFF),
        ("float32", math.inf, 0x7F800000, 0x7F7FFFFF),
        ("float32", -math.inf, 0xFF800000, 0xFF7FFFFF),
        ("float32", -(2.0**-150), 0x80000000, 0x80000000),
        ("float32", -0.0, 0x80000000, 0x80000000),
        ("float16", 65519.0, 0x7BFF, 0x7BFF),
        ("float16", -1e9, 0xFBFF, 0xFBFF),
        ("float16", 2.0**-24 * 1.999, 0x0001, 0x0002),
        ("bfloat16", 1 + 2.0**-8 + 2.0**-40, 0x3F80, 0x3F81),
        ("bfloat16", 2.0**-133 * 0.999, 0x0000, 0x0001),
        ("bfloat16", -1e300, 0xFF7F, 0xFF7F),
    ],
)
def test_casts_by_hand(dtype: str, number: float, truncated: int, saturated: int) -> None:
    assert int(rounding.cast_toward_zero(np.array([number]), dtype)[0]) == truncated
    assert int(rounding.cast_saturated(np.array([number]), dtype)[0]) == saturated


@pytest.mark.parametrize("dtype", OUTPUTS)
def test_casts_give_no_warning(dtype: str) -> None:
    """No cast warns, since a caller may have made NumPy raise. That holds for signalling NaN too."""
    signalling = np.array([0x7FF0000000000001], np.uint64).view(np.float64)
    numbers = np.array([1e300, -1e-300, 65519.0, math.inf, math.nan])
    with np.errstate(all="raise"):
        for cast in (rounding.cast, rounding.cast_toward_zero, rounding.cast_saturated):
            assert cast(signalling, dtype).tolist() == [exact.NAN[dtype]]
            assert len(cast(numbers, dtype)) == len(numbers)
        largest = np.array([3.4e38])
        assert np.isfinite(rounding.product_to_odd(np.array([2.0**35 - 1]), 0, largest)).all()
        assert np.isnan(rounding.product_to_odd(np.array([math.inf]), 0, np.array([0.0]))).all()
        assert np.isinf(rounding.quotient_to_odd(np.array([1.0]), 0, np.array([0.0]))).all()
        assert np.isnan(rounding.quotient_to_odd(np.array([0.0]), 0, np.array([0.0]))).all()


def test_a_cast_to_an_integer_type_is_refused() -> None:
    with pytest.raises(ValueError, match="no cast to int8"):
        rounding.cast(np.zeros(1), "int8")


@pytest.mark.parametrize("dtype", OUTPUTS)
def test_nan_stays_nan(dtype: str) -> None:
    for cast in (rounding.cast_toward_zero, rounding.cast_saturated):
        codes = cast(np.array([1.0, math.nan, -math.nan]), dtype)
        assert canonical(codes, dtype).tolist()[1:] == [(1 << (8 * codes.itemsize)) - 1] * 2
        assert codes.tolist()[1:] == [exact.NAN[dtype]] * 2


# -- sums -----------------------------------------------------------------------------------------------

terms = st.builds(math.ldexp, st.integers(-(2**53) + 1, 2**53 - 1).map(float), st.integers(-80, 80))


def check_sum(a: float, b: float, c: float) -> None:
    """Check that a result is exact, or strictly between its neighbours with an odd last bit."""
    got = float(rounding.sum_to_odd(np.array([a]), np.array([b]), np.array([c]))[0])
    want = Fraction(a) + Fraction(b) + Fraction(c)
    last_bit = struct.unpack("<Q", struct.pack("<d", got))[0] & 1
    below, above = (Fraction(math.nextafter(got, end)) for end in (-math.inf, math.inf))
    right = Fraction(got) == want or (below < want < above and last_bit == 1)
    assert right, f"{a.hex()} + {b.hex()} + {c.hex()} became {got.hex()}"
    for dtype in OUTPUTS:
        code = int(rounding.cast(np.array([got]), dtype)[0])
        if want:
            assert code == exact.round_to(dtype, want), f"{a.hex()} + {b.hex()} + {c.hex()} in {dtype}"


@settings(max_examples=150, deadline=None)
@given(
    st.integers(-(2**31), 2**32 - 1),
    st.integers(-(2**24) + 1, 2**24 - 1),
    st.integers(-(2**31), 2**32 - 1),
    st.integers(-2, 2),
    st.sampled_from(["float64", *OUTPUTS]),
)
def test_sums_of_a_fused_product(x: int, mantissa: int, zero_point: int, beside: int, kind: str) -> None:
    """A 32-bit integer times a scale, in two halves, minus a rounded product that may cancel it."""
    for other in (zero_point, x + beside):
        lower = ((x + (1 << 15)) % (1 << 16)) - (1 << 15)
        rounded = exact.rounded(kind, Fraction(other * mantissa))
        if not isinstance(rounded, Fraction):
            continue
        check_sum(float((x - lower) * mantissa), float(lower * mantissa), -float(rounded))


@settings(max_examples=120, deadline=None)
@given(terms, terms, terms)
def test_sums_of_any_terms(a: float, b: float, c: float) -> None:
    """Terms of 53 bits, far from each other and next to each other."""
    check_sum(a, b, c)
    check_sum(a, b, -a)
    check_sum(a, b, -math.nextafter(a, math.inf))


@pytest.mark.parametrize(
    ("a", "b", "c", "want"),
    [(1.0, 2.0, 3.0, 6.0), (math.inf, 1.0, 1.0, None), (math.inf, -math.inf, 1.0, None), (math.nan, 1.0, 1.0, None)],
)
def test_sums_that_are_exact_or_not_finite(a: float, b: float, c: float, want: float | None) -> None:
    with np.errstate(all="ignore"):
        got = float(rounding.sum_to_odd(np.array([a]), np.array([b]), np.array([c]))[0])
    assert got == want if want is not None else not math.isfinite(got)
