"""The region of a finding: a known predicate of the mismatches is named, and noise gets no name."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_calls import (
    KNOWN_REGIONS,
    ONNX,
    TWO_OUTPUTS,
    Predicate,
    difference,
    last_of_row,
    numbers,
    per_axis,
    per_tensor,
    sample_of,
)

from xverify import contracts
from xverify.core.call import Call
from xverify.core.dtypes import tensor
from xverify.strategies import walk
from xverify.strategies.structures import Linear, Range, build
from xverify.verify.region import NOWHERE_SIMPLE, Region, Sample, Term, contradicts, holds, is_vacuous, region
from xverify.verify.simplest import plain, simplest

TENSORFLOW = "tensorflow/Dequantize@installed"


def is_exact(found: Region, samples: Sequence[Sample]) -> bool:
    """True if a region holds all mismatches and no agreement."""
    return all(np.array_equal(holds(found, sample), sample.wrong) for sample in samples)


@pytest.mark.parametrize(
    ("words", "calls", "predicate"),
    KNOWN_REGIONS,
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_a_known_predicate_is_named(words, calls, predicate):
    samples = [sample_of(call, predicate) for call in calls]
    found = region(samples)
    assert found.words == words
    assert is_exact(found, samples)
    assert found.inside == found.wrong == sum(int(sample.wrong.sum()) for sample in samples)
    backwards = region(samples[::-1])
    assert (backwards.words, backwards.name) == (found.words, found.name)


def test_the_limit_of_int32_differs_from_a_difference_of_2_31():
    x = np.array([-(2**31), -(2**31) + 1, *range(-20, 20), 2**31 - 1] * 8, np.int64)
    zero_point = [0, 1, -1, 5, -(2**31), 2**31 - 1]
    calls = [
        Call(ONNX, {"x": tensor("int32", x), "scale": tensor("float32", 0.5), "zero_point": tensor("int32", z)})
        for z in zero_point
    ]
    wraps = [sample_of(c, lambda c, y: (difference(c) < -(2**31)) | (difference(c) > 2**31 - 1)) for c in calls]
    assert region(wraps).words == "x - zero point is outside int32"
    large = [sample_of(c, lambda c, y: np.abs(difference(c)) >= 2**31) for c in calls]
    assert region(large).words == "|x - zero point| >= 2^31"
    larger = [sample_of(c, lambda c, y: np.abs(difference(c)) > 2**31) for c in calls]
    assert region(larger).words == "|x - zero point| > 2^31"


def ranges(mode: str, recipes: Sequence[str]) -> list[Call]:
    """Return TensorFlow's calls, three of each recipe."""
    contract = contracts.get(TENSORFLOW)
    return [
        build(contract, Range("uint8", mode, (61,), None, "", "C", recipe, seed))
        for seed in range(3)
        for recipe in recipes
    ]


def test_ranges_have_features_of_their_own():
    recipes = ("drawn", "from-zero", "to-zero", "far-from-zero")
    calls = ranges("MIN_COMBINED", recipes) + ranges("SCALED", recipes)
    zero = [sample_of(call, lambda call, y: numbers(call.tensors["min_range"]) == 0) for call in calls]
    assert region(zero).words == "min_range is zero"
    mode = [sample_of(call, lambda call, y: call.attributes["mode"] == "SCALED") for call in calls]
    assert region(mode).words == "mode SCALED"
    code = [sample_of(call, lambda call, y: numbers(call.tensors["input"]) >= 128) for call in calls]
    assert region(code).words in ("|x| >= 128", "x >= 128")
    assert is_exact(region(code), code)


@pytest.mark.parametrize("identity", contracts.ids())
def test_every_edition_has_regions(identity):
    calls = islice((call for call in walk(contracts.get(identity)) if call.values <= 300), 10)
    samples = [sample_of(call, lambda call, y: np.arange(y.size).reshape(y.shape) % 2 == 1) for call in calls]
    found = region(samples)
    assert found.words == "odd positions"
    assert is_exact(found, samples)


@pytest.mark.parametrize("share", [0.5, 0.02])
def test_noise_has_no_simple_region(share):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        samples = [sample_of(call, lambda call, y, rng=rng: rng.random(y.shape) < share) for call in per_tensor(6)]
        found = region(samples)
        assert (found.words, found.name, found.inside, found.terms) == (NOWHERE_SIMPLE, "", 0, ())
        assert found.wrong == sum(int(sample.wrong.sum()) for sample in samples)
        assert not holds(found, samples[0]).any()


def test_whole_calls_that_mismatch_without_a_pattern_have_no_simple_region():
    calls = per_tensor(7) + per_tensor(7, scale_dtype="float16") + per_axis(6)
    named = 0
    for seed in range(10):
        bad = set(np.random.default_rng(seed).choice(len(calls), 6, replace=False))
        samples = [sample_of(call, lambda call, y, i=i, bad=bad: i in bad) for i, call in enumerate(calls)]
        named += region(samples).words != NOWHERE_SIMPLE
    assert named <= 2


def test_few_values_prove_nothing():
    call = per_tensor(1)[0]
    short = Call(ONNX, {**call.tensors, "x": tensor("int8", np.arange(9))})
    assert region([sample_of(short, last_of_row(1))]).words == NOWHERE_SIMPLE
    two = [sample_of(call, lambda call, y, wrong=wrong: wrong) for wrong, call in enumerate(per_tensor(2))]
    assert region(two).words == NOWHERE_SIMPLE


def test_regions_of_all_values_and_of_none():
    calls = per_tensor(3)
    everywhere = [sample_of(call, lambda call, y: True) for call in calls]
    found = region(everywhere)
    assert (found.words, found.name) == ("everywhere", "everywhere")
    assert found.inside == found.wrong == sum(call.values for call in calls)
    assert is_exact(found, everywhere)
    nothing = Region(NOWHERE_SIMPLE, "", 0, 0)
    assert region([sample_of(call, lambda call, y: False) for call in calls]) == nothing
    assert region([]) == nothing
    empty = Call(ONNX, {"x": tensor("int8", np.zeros((0, 3))), "scale": tensor("float32", 1.0)})
    assert region([sample_of(empty, lambda call, y: True)]) == nothing
    assert region([*everywhere, sample_of(empty, lambda call, y: True)]) == found


def test_values_of_large_calls_outside_the_sample_count_too():
    contract = contracts.get(ONNX)
    calls = [
        build(contract, Linear("uint8", "float32", "per_tensor", (2, 33000), "uint8", seed=seed)) for seed in range(3)
    ]

    def from_39_999(call: Call, y: np.ndarray) -> Any:
        return np.arange(y.size).reshape(y.shape) >= 39_999

    samples = [sample_of(call, from_39_999) for call in calls]
    found = region(samples)
    assert found.words == "flat index >= 39999"
    assert is_exact(found, samples)

    def but_one(call: Call, y: np.ndarray) -> Any:
        wrong = from_39_999(call, y)
        wrong[0, 12_345] = True
        return wrong

    assert region([sample_of(call, but_one) for call in calls]).words == NOWHERE_SIMPLE


def test_one_agreement_refutes_a_region():
    calls = [*TWO_OUTPUTS, *per_tensor(30, scale_dtype="float16", scale_recipe="table")]
    small = [
        sample_of(call, lambda call, y: (call.tensors["scale"].dtype == "float16") & (np.abs(y) < 2.0**-4))
        for call in calls
    ]
    assert region(small).words == "float16 output, |y| < 2^-4"
    assert sum(sample.wrong.size - sample.wrong.sum() for sample in small) > 4096
    for place in range(8):
        sample = small[place]
        spared = np.flatnonzero(sample.wrong)[len(np.flatnonzero(sample.wrong)) // 2]
        sample.wrong.reshape(-1)[spared] = False
        found = region(small)
        assert found.words == NOWHERE_SIMPLE or is_exact(found, small)
        assert found.words != "float16 output, |y| < 2^-4"
        sample.wrong.reshape(-1)[spared] = True


def test_the_second_bound_is_placed_among_the_values_of_which_the_first_term_holds():
    calls = []
    for seed in range(20):
        dtype = ("float16", "bfloat16")[seed % 2]
        x = np.random.default_rng(seed).permutation(128)
        x = x[(x < 50) | (x >= 100)] if dtype == "float16" else x
        calls.append(Call(ONNX, {"x": tensor("uint8", x), "scale": tensor(dtype, 1.0 + seed / 16)}))
    samples = [
        sample_of(call, lambda call, y: (call.tensors["scale"].dtype == "float16") & (numbers(call.tensors["x"]) >= 60))
        for call in calls
    ]
    assert region(samples).words == "float16 output, |x - zero point| >= 64"


def test_one_mismatching_call_gives_no_region_by_shape():
    named = 0
    for odd in range(15):
        calls = per_tensor(15, zero_point_recipe="zero")
        x = np.tile(np.arange(-30, 30), (2, 3, 1))
        calls[odd] = Call(ONNX, {**calls[odd].tensors, "x": tensor("int8", x)})
        samples = [sample_of(call, lambda call, y, here=calls[odd]: (call is here) & (y != 0)) for call in calls]
        named += region(samples).words != NOWHERE_SIMPLE
    assert named <= 3


def test_a_term_holds_nowhere_where_its_feature_means_nothing():
    assert Term("granularity", "not", 1.0).of(np.array([0.0, 1.0, -1.0])).tolist() == [True, False, False]
    assert Term("|y|", "<", 1.0).of(np.array([0.5, 1.0, np.nan])).tolist() == [True, False, False]


WALK = [call for call in islice(walk(contracts.get(ONNX)), 1500) if call.values <= 1000]

PREDICATES: dict[str, Predicate] = {
    "y": lambda call, y: np.abs(y) < 0.5,
    "sign": lambda call, y: np.signbit(y) & (y != 0),
    "infinite": lambda call, y: np.isinf(y),
    "bfloat16": lambda call, y: (call.tensors["scale"].dtype == "bfloat16") & (np.abs(y) >= 1),
    "row": lambda call, y: np.arange(y.shape[-1]) >= 5 if y.shape else False,
    "noise": lambda call, y: np.random.default_rng(y.size).random(y.shape) < 0.3,
}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(st.sampled_from(range(len(WALK))), min_size=1, max_size=12, unique=True), st.sampled_from([*PREDICATES])
)
def test_a_region_that_is_named_holds_all_mismatches_and_no_agreement(places, name):
    samples = [sample_of(WALK[place], PREDICATES[name]) for place in places]
    found = region(samples)
    if found.words == NOWHERE_SIMPLE:
        assert found.inside == 0
    else:
        assert is_exact(found, samples)
        assert found.inside == found.wrong


def test_large_samples_take_little_time():
    shape = (8, 512)
    contract = contracts.get(ONNX)
    rng = np.random.default_rng(0)
    samples = [
        sample_of(
            build(
                contract, Linear("int8", "float16", ("per_axis", "blocked")[k % 2], shape, "int8", "", 1, k % 2 * 16)
            ),
            lambda call, y: rng.random(y.shape) < 0.1,
        )
        for k in range(20)
    ]
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        region(samples)
        taken.append(time.perf_counter() - start)
    assert min(taken) < 0.5


@pytest.mark.parametrize(
    ("low", "high", "near", "number"),
    [
        (-3.0, 5.0, 5.0, 0.0),
        (2.0**31 - 200, 3e9, 3e9, 2.0**31),
        (100.0, 3e9, 3e9, 2.0**31),
        (5.0, 40.0, 40.0, 32.0),
        (5.0, 40.0, 5.0, 8.0),
        (1023 * 2.0**-24, 2.0**-14, 1023 * 2.0**-24, 2.0**-14),
        (60000.0, 65530.0, 65530.0, 65504.0),
        (60000.0, float("inf"), float("inf"), 65536.0),
        (0.26, 0.49, 0.49, 0.4),
        (0.26, 0.49, 0.26, 0.3),
        (0.1234, 0.1238, 0.1238, 0.1238),
        (-0.49, -0.26, -0.26, -0.3),
        (99.0, 117.0, 117.0, 100.0),
        (99.0, 100.0, 100.0, 100.0),
    ],
)
def test_the_simplest_number_between_two(low, high, near, number):
    assert simplest(low, high, near) == number


def test_the_lower_end_is_excluded_between_whole_numbers():
    assert simplest(8.0, 9.0, 9.0) == 8.0
    assert simplest(8.0, 9.0, 9.0, whole=True) == 9.0
    assert simplest(0.0, 3.0, 0.0, whole=True) == 2.0


@given(st.floats(allow_nan=False, width=32), st.floats(allow_nan=False, width=32), st.booleans())
@settings(max_examples=300, deadline=None)
def test_the_simplest_number_lies_between(a, b, near_low):
    low, high = min(a, b), max(a, b)
    if low == high:
        return
    assert low <= simplest(low, high, low if near_low else high) <= high


@pytest.mark.parametrize(
    ("number", "words"),
    [(2.0**31, "2^31"), (-(2.0**31), "-2^31"), (2.0**-14, "2^-14"), (0.5, "0.5"), (128.0, "128"), (65504.0, "65504"),
     (0.1, "0.1"), (-3.0, "-3"), (float("inf"), "infinity"), (0.0, "0")],
)  # fmt: skip
def test_numbers_in_words(number, words):
    assert plain(number) == words


def test_one_right_value_of_one_call_gives_no_second_term():
    """The positions of a call always tell one of its values from the others."""
    calls = [
        Call(
            ONNX, {"x": tensor("uint8", np.random.default_rng(n).integers(0, 256, 61 + n)), "scale": tensor(dtype, 4e3)}
        )
        for n in range(8)
        for dtype in ("float16", "float32")
    ]
    samples = [sample_of(call, lambda call, y: np.isinf(y)) for call in calls]
    assert region(samples).words == "y is an overflow"
    for sample in samples[::2]:
        spared = np.flatnonzero(sample.wrong)[-1]
        sample.wrong[spared] = False
        assert region(samples).words == NOWHERE_SIMPLE
        sample.wrong[spared] = True


@pytest.mark.parametrize(
    ("words", "shape", "contradicted", "vacuous"),
    [
        ("the last 3 values of a row", (4,), False, False),
        ("the last 3 values of a row", (3,), False, True),
        ("the last n % 16 values of a row of n", (17,), False, False),
        ("the last n % 16 values of a row of n", (16,), True, False),
        ("the last n % 16 values of a row of n", (1,), False, True),
        ("the scale is negative", (4,), True, False),
    ],
)
def test_a_call_shows_a_region_if_it_has_mismatches_inside_and_positions_outside(words, shape, contradicted, vacuous):
    calls, predicate = next((calls, predicate) for known, calls, predicate in KNOWN_REGIONS if known == words)
    found = region([sample_of(call, predicate) for call in calls])
    assert found.words == words
    call = Call(ONNX, {"x": tensor("int8", np.ones(shape)), "scale": tensor("float32", 0.5)})
    shown = sample_of(call, lambda call, y: np.arange(y.size) == y.size - 1)
    assert (contradicts(found, shown), is_vacuous(found, shown)) == (contradicted, vacuous)
    every = sample_of(call, lambda call, y: True)
    assert contradicts(found, every) is not vacuous
    assert contradicts(found, every, is_partial=True) is contradicted
    assert not contradicts(Region(NOWHERE_SIMPLE, "", 0, 1), shown)
