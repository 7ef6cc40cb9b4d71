"""Solved numbers, calls on which readings differ, and readings that are proven equal."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from xverify import contracts
from xverify.arithmetic import range_lattice, readings
from xverify.contracts.model import Cell
from xverify.core.bits import canonical
from xverify.core.dtypes import encode, values
from xverify.engine.asking import start
from xverify.engine.disambiguate import classes, remaining, tell_apart
from xverify.engine.options import Options
from xverify.engine.state import new_run
from xverify.engine.sweep import PHASES, run_phase
from xverify.oracles import all_oracles
from xverify.strategies import ties
from xverify.strategies.disambiguate import cell_call, distinguishing_calls, fewest, simplified_for_cell

ONNX = "ai.onnx/DequantizeLinear-21"


def cell(x: str, zero_point: str, scale: str, out: str, granularity: str = "per_tensor", contract: str = ONNX) -> Cell:
    return Cell(contract, x, scale, zero_point, out, granularity, "")


def parts(contract, calls, one, two) -> bool:
    """True if two readings give different bits on some of the calls."""
    for call in calls:
        operands = contract.operands(call)
        first, second = (canonical(np.asarray(r.evaluate(operands)), operands.output_dtype) for r in (one, two))
        if not np.array_equal(first, second):
            return True
    return False


# -- solving ------------------------------------------------------------------------------------------------


def test_the_first_multiple_in_an_interval_is_found():
    rng = np.random.default_rng(1)
    for _ in range(2000):
        modulus = int(rng.integers(2, 60))
        step = int(rng.integers(0, 80))
        low, high = sorted(rng.integers(0, modulus, 2).tolist())
        wanted = next((j for j in range(modulus) if low <= step * j % modulus <= high), None)
        assert ties.first_between(step, modulus, low, high) == wanted


def distance_from_midpoint(product: int, kept: int) -> Fraction:
    """Distance of a whole number from the nearest midpoint of ``kept`` bits.

    In units of the place after its last kept bit.
    """
    dropped = product.bit_length() - kept
    return Fraction(abs(product % 2**dropped - 2 ** (dropped - 1)), 2**dropped)


@pytest.mark.parametrize(("kept", "rounded"), [(24, 53), (11, 24), (8, 24)])
def test_factors_make_products_that_round_to_a_midpoint_first(kept, rounded):
    rng = np.random.default_rng(2)
    found = 0
    for _ in range(400):
        difference = int(rng.integers(2**31, 2**32))
        for mantissa in ties.factors(difference, 2**23, 2**24, kept, rounded, rng):
            found += 1
            product = difference * mantissa
            bits = product.bit_length()
            once = round(Fraction(product, 2 ** (bits - rounded))) * 2 ** (bits - rounded)
            assert 2**23 <= mantissa < 2**24
            assert distance_from_midpoint(product, kept) > 0
            assert distance_from_midpoint(once, kept) == 0
    assert found > 0


def test_factors_miss_nothing_in_a_small_domain():
    kept, rounded = 4, 7
    rng = np.random.default_rng(3)
    for known in range(33, 64, 2):
        every = {
            (known * n).bit_length()
            for n in range(16, 32)
            if (known * n).bit_length() > rounded
            and 0
            < abs(known * n % 2 ** ((known * n).bit_length() - kept) - 2 ** ((known * n).bit_length() - kept - 1))
            <= 2 ** ((known * n).bit_length() - rounded - 1)
        }
        found = {(known * n).bit_length() for n in ties.factors(known, 16, 32, kept, rounded, rng)}
        assert found == every


def test_low_ends_bring_the_value_next_to_a_midpoint():
    rng = np.random.default_rng(4)
    high, steps = (1 + rng.random(50)).astype(np.float32), rng.integers(1, 255, 50)
    for low, top, step in zip(ties.low_ends(high, steps, 255, 24, rng), high, steps, strict=True):
        value = Fraction(float(low)) + int(step) * (Fraction(float(top)) - Fraction(float(low))) / 255
        unit = Fraction(2) ** (int(np.floor(np.log2(float(value)))) - 23)
        assert abs(value / unit % 1 - Fraction(1, 2)) < Fraction(1, 2**20)


# -- telling apart ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("types", "one", "two"),
    [
        (("float8_e5m2", "float8_e5m2", "float32", "float32"), "exact", "difference-float32"),
        (("float8_e4m3fn", "float8_e4m3fn", "float16", "float16"), "exact", "rounded-float32"),
        (("int32", "", "float32", "float32"), "exact", "rounded-float64"),
        (("int32", "", "bfloat16", "bfloat16"), "rounded-float32", "difference-float32"),
        (("int16", "int16", "float32", "float32"), "exact", "flush-results"),
        (("uint8", "uint8", "float32", "float32"), "exact", "wrap-x"),
    ],
)
@pytest.mark.parametrize("granularity", ["per_tensor", "per_axis", "blocked"])
def test_readings_that_differ_are_told_apart(types, one, two, granularity):
    contract = contracts.get(ONNX)
    pair = readings.by_name(one), readings.by_name(two)
    target = cell(*types, granularity)
    call = cell_call(contract, target)
    assert len({simplified_for_cell(contract, call, reading) for reading in pair}) == 2
    told = distinguishing_calls(contract, call, pair, 1)
    assert told.tried > 1000
    assert 0 < len(told.calls) <= 3
    assert all(contract.judge(made).verdict == "allowed" and contract.cell(made) == target for made in told.calls)
    assert parts(contract, told.calls, *pair)
    again = distinguishing_calls(contract, call, pair, 1)
    assert [made.data.codes.tobytes() for made in again.calls] == [made.data.codes.tobytes() for made in told.calls]


def test_many_readings_are_parted_by_few_calls():
    contract = contracts.get(ONNX)
    call = cell_call(contract, cell("uint16", "uint16", "float32", "float32"))
    names = (
        "exact",
        "wrap-x",
        "saturate-x",
        "ignored",
        "operands-bfloat16",
        "flush-results",
        "truncated",
        "zero-unsigned",
    )
    some = [readings.by_name(name) for name in names]
    told = distinguishing_calls(contract, call, some, 0)
    assert len(told.calls) < len(some)
    assert all(parts(contract, told.calls, *pair) for pair in itertools.combinations(some, 2))


def test_readings_that_no_value_tells_apart_give_no_call():
    contract = contracts.get(ONNX)
    call = cell_call(
        contract, cell("uint2" if "uint2" in contract.domain.x_dtypes else "uint4", "", "float16", "float16")
    )
    one, two = readings.by_name("exact"), readings.by_name("rounded-float32")
    dtype = call.data.dtype
    # Every value of the domain, against fractions: the product is exact in float32.
    scales = np.arange(1 << 15, dtype=np.uint16)
    finite = scales[np.isfinite(values("float16", scales))]
    for code in range(1 << (2 if dtype == "uint2" else 4)):
        number = int(values(dtype, np.array(code)))
        exact = values("float16", finite).astype(np.float64) * number
        assert np.array_equal(exact.astype(np.float32).astype(np.float64), exact)
    told = distinguishing_calls(contract, call, (one, two), 0)
    assert told.calls == ()
    assert told.tried > 1000


def test_ranges_that_tell_apart_recipes_of_tensorflow():
    contract = contracts.get("tensorflow/Dequantize@seed")
    call = cell_call(contract, Cell(contract.id, "uint8", "float32", "", "float32", "per_tensor", "MIN_COMBINED"))
    pair = range_lattice.by_name("min-combined-exact"), range_lattice.by_name("min-combined-float64-product-first")
    told = distinguishing_calls(contract, call, pair, 0)
    assert told.calls
    assert all(contract.judge(made).verdict == "allowed" for made in told.calls)
    assert parts(contract, told.calls, *pair)


def test_fewest_takes_the_probes_that_part_most():
    results = np.array([[[0], [0], [0]], [[0], [1], [1]], [[0], [1], [2]]])
    assert fewest(results) == [2]
    assert fewest(np.zeros((3, 4, 2))) == []


@pytest.mark.parametrize("seed", range(20))
def test_fewest_takes_one_that_parts_most_until_none_parts_more(seed):
    rng = np.random.default_rng(seed)
    results = (rng.random((8, 20, 3)) < 0.03).astype(np.uint16)

    def parts_of(places):
        return len({results[reading, places].tobytes() for reading in range(len(results))})

    chosen = fewest(results, 20)
    for taken in range(len(chosen)):
        most = max(parts_of([*chosen[:taken], place]) for place in range(results.shape[1]))
        assert parts_of(chosen[: taken + 1]) == most > parts_of(chosen[:taken])
    assert parts_of(chosen) == parts_of(list(range(results.shape[1])))
    assert fewest(results, 2) == chosen[:2]


# -- proofs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e4m3fnuz"])
def test_what_is_proven_by_enumeration_holds_for_every_value(dtype):
    contract = contracts.get(ONNX)
    call = cell_call(contract, cell(dtype, dtype, "bfloat16", "bfloat16"))
    one, two = readings.by_name("exact"), readings.by_name("rounded-float32")
    assert simplified_for_cell(contract, call, one) == simplified_for_cell(contract, call, two)
    # Every difference there is with every mantissa: rounded to float32 first it is never a midpoint of 8 bits.
    numbers = values(dtype, np.arange(256, dtype=np.uint8))
    numbers = numbers[np.isfinite(numbers)]
    differences = np.unique(np.abs(numbers[:, None] - numbers[None, :]))
    for mantissa in range(128, 256):
        exact = differences[differences > 0] * mantissa
        first = exact.astype(np.float32).astype(np.float64)
        assert np.array_equal(encode("bfloat16", first), encode("bfloat16", exact))


def test_what_is_not_proven_equal_stays_apart():
    contract = contracts.get(ONNX)
    call = cell_call(contract, cell("float8_e5m2", "float8_e5m2", "float32", "float32"))
    assert simplified_for_cell(contract, call, readings.by_name("exact")) != simplified_for_cell(
        contract, call, readings.by_name("float32")
    )
    call = cell_call(contract, cell("int32", "", "float32", "float32"))
    one, two = readings.by_name("exact"), readings.by_name("rounded-float64")
    assert simplified_for_cell(contract, call, one) != simplified_for_cell(contract, call, two)


def test_where_the_zero_point_must_be_0_it_cannot_be_told_what_is_done_with_it():
    contract = contracts.get(ONNX)
    call = cell_call(contract, cell("int32", "int32", "float32", "float32"))
    assert not call.tensors["zero_point"].codes.any()
    names = ("exact", "ignored", "wrap-int32", "saturate-int32")
    assert len({simplified_for_cell(contract, call, readings.by_name(name)) for name in names}) == 1
    told = distinguishing_calls(contract, call, (readings.by_name("exact"), readings.by_name("float32")), 0)
    assert all(contract.judge(made).verdict == "allowed" for made in told.calls)
    assert all("zero_point" in made.tensors for made in told.calls)


def test_a_quotient_is_its_product_with_the_reciprocal_only_for_few_bits():
    contract = contracts.get("onednn/DynamicDequantize-1@divide")
    pair = readings.by_name("exact-quotient"), readings.by_name("reciprocal+rounded-float64")
    for zero_point, equal in (("", True), ("int8", True), ("int32", False)):
        call = cell_call(contract, cell("int8", zero_point, "float32", "float32", contract=contract.id))
        assert (len({simplified_for_cell(contract, call, reading) for reading in pair}) == 1) is equal
        told = distinguishing_calls(contract, call, pair, 0)
        assert parts(contract, told.calls, *pair) is not equal


# -- in a run -----------------------------------------------------------------------------------------------


def test_a_run_asks_what_tells_apart_until_nothing_more_does(tmp_path):
    name = "onednn/DynamicDequantize-1@multiply"
    known = all_oracles()
    chosen = (known["xverify-numpy"], known["onednn-formula-multiply"])
    options = Options((contracts.get(name),), chosen, tmp_path, "test", "test", 5, 60.0, 150)
    state = new_run(options, lambda event: None)
    try:
        start(state)
        for phase in PHASES[:-1]:
            run_phase(state, phase)
        asked = sum(tally.cases for tally in state.tally.cells.values())
        tell_apart(state, lambda: True)
        assert sum(tally.cases for tally in state.tally.cells.values()) == asked
        tell_apart(state, lambda: False)
        several = 0
        for (subject, target), tally in state.tally.cells.items():
            left = remaining(state, target, tally)
            if tally.open or not tally.evidence.values or not state.tally.judged_by[subject, name]:
                continue
            groups = classes(state.contract(name), target, left)
            if len(groups) > 1:
                several += 1
                assert tally.evidence.tried > 0
        assert several <= 4
    finally:
        state.pool.stop()
