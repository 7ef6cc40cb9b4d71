"""Evidence of a cell: no recipe, one recipe, or two with a region between them."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tallied_calls
from cell_calls import IGNORES, NEWEST, ONNX, WRAPS, asked_in, calls
from lattice_oracles import SUBJECT, Asked, Mask, changed, follows, in_part, lap_of

import xverify
from xverify import contracts
from xverify.arithmetic import indexing, range_lattice
from xverify.arithmetic.readings import EXACT, EXACT_QUOTIENT, Stepwise
from xverify.contracts.model import Contract
from xverify.core.call import Call, Outcome, Tensor
from xverify.core.dtypes import integers, numpy_dtype, tensor
from xverify.strategies import build
from xverify.strategies.structures import Linear, Range
from xverify.verify import attribute
from xverify.verify.attribute import CheckedResult, Misread, gives, named
from xverify.verify.compare import compare
from xverify.verify.evidence import KEPT_RIGHT, KEPT_WRONG, _largest, explained, second_reading
from xverify.verify.findings import Subject
from xverify.verify.legal import legal_set
from xverify.verify.region import region
from xverify.verify.tally import Tally
from xverify.verify.verdicts import judge

# -- what no recipe gives ---------------------------------------------------------------------------------


def drawn(call: Call) -> np.random.Generator:
    return np.random.default_rng(int(call.digest()[:8], 16))


def one_more(call: Call, codes: Any) -> Any:
    """Add one ULP, or subtract it at negative values, at random places."""
    finite = (codes & 0x7F800000) != 0x7F800000
    return codes + (finite & (drawn(call).random(codes.shape) < 0.1))


def swapped(call: Call, codes: Any) -> Any:
    flat = codes.reshape(-1)
    flat[[0, -1]] = flat[[-1, 0]]
    return codes


def constant(call: Call, codes: Any) -> Any:
    """Give a wrong number for one code of x."""
    return np.where(call.data.codes == 37, np.float32(1.5).view(np.uint32), codes)


def noise(call: Call, codes: Any) -> Any:
    return drawn(call).integers(0, 1 << 31, codes.shape)


def left_over(call: Call, codes: Any) -> Any:
    """Give the last values of the row before as those of a row."""
    return np.where(np.arange(codes.shape[-1]) >= codes.shape[-1] - 3, np.roll(codes, 1, 0), codes)


OUTSIDE = {"one ULP": one_more, "swapped": swapped, "constant": constant, "noise": noise, "left over": left_over}


@pytest.mark.parametrize("change", OUTSIDE.values(), ids=OUTSIDE.keys())
@pytest.mark.parametrize("granularity", ["per_axis", "blocked"])
def test_a_fault_that_no_recipe_gives_is_unexplained(change, granularity: str) -> None:
    asked = asked_in(changed(follows(ONNX, EXACT), change), granularity=granularity)
    said, row = asked.violation(), asked.row
    assert said is not None
    assert said.attribution is None
    assert said.readings == ()
    assert row.wrong > 0
    assert row.evidence.whole, "every composition was searched"
    assert row.evidence.histogram.total() == row.wrong
    if change is one_more:
        assert set(row.evidence.histogram) == {1}


def test_the_histogram_counts_distances_in_powers_of_two() -> None:
    steps = np.array([0, 1, 2, 3, 4, 7, 8, 1000])

    def far(call: Call, codes: Any) -> Any:
        return codes + np.resize(steps, codes.shape).astype(codes.dtype)

    asked = Asked(ONNX, changed(follows(ONNX, EXACT), far))
    tensors = {"x": tensor("int8", np.tile(np.arange(1, 9), 5)), "scale": tensor("float32", 1.1)}
    asked.ask(Call(ONNX.id, tensors))
    asked.violation()
    assert asked.row.evidence.histogram == Counter({1: 5, 2: 10, 4: 10, 8: 5, 512: 5})


def test_a_nan_has_no_distance() -> None:
    asked = Asked(ONNX, changed(follows(ONNX, EXACT), lambda call, codes: np.full(codes.shape, 0x7FC00000)))
    asked.ask(Call(ONNX.id, {"x": tensor("int8", [1, 2, 3]), "scale": tensor("float32", 1.0)}))
    asked.violation()
    assert asked.row.evidence.histogram == Counter({-1: 3})


# -- two pieces -------------------------------------------------------------------------------------------


def difference(call: Call) -> Any:
    operands = ONNX.operands(call)
    x, zero_point = (integers(operands.dtypes[r], operands.codes[r]).astype(np.int64) for r in ("x", "zero_point"))
    return x - zero_point


def row_tail(call: Call) -> Any:
    length = call.data.shape[-1]
    return np.arange(length) >= length - length % 16


def last_block(call: Call) -> Any:
    length, block = call.data.shape[-1], int(call.attributes["block_size"])
    return np.arange(length) >= (length - 1) // block * block


def first_block(call: Call) -> Any:
    return np.arange(call.data.shape[-1]) < int(call.attributes["block_size"])


PIECES: list[tuple[str, Stepwise, Stepwise, Mask, str]] = [
    ("per_axis", IGNORES, EXACT, lambda call: np.abs(difference(call)) >= 64, "|x - zero point| >= 64"),
    ("per_tensor", WRAPS, EXACT, lambda call: difference(call) > 0, "x - zero point >= 128"),
    ("per_axis", IGNORES, EXACT, row_tail, "the last n % 16 values of a row of n"),
    ("blocked", IGNORES, EXACT, last_block, "the last block"),
    ("blocked", Stepwise("wrap-x", final="truncated"), EXACT, last_block, "the last block"),
    ("per_axis", EXACT_QUOTIENT, EXACT, row_tail, "the last n % 16 values of a row of n"),
]


@pytest.mark.parametrize(("granularity", "inside", "outside", "where", "words"), PIECES)
def test_two_pieces_and_the_region_between_them(
    granularity: str, inside: Stepwise, outside: Stepwise, where: Mask, words: str
) -> None:
    answer = in_part(follows(ONNX, outside), follows(ONNX, inside), where)
    asked = asked_in(answer, granularity=granularity)
    said = asked.violation()
    assert said is not None
    assert said.attribution is not None, said.summary
    recipe = named(ONNX, said.attribution.reading)
    assert said.attribution.elsewhere is not None
    assert said.attribution.elsewhere == (outside.name, outside.words)
    assert "in part" in said.summary
    assert said.readings == (recipe.name, outside.name)
    found = region(asked.row.evidence.samples(recipe))
    assert words in found.words
    for call in calls("int8", granularity, 20, random.Random(77)):
        given, legal = answer(call).tensor, follows(ONNX, outside)(call).tensor
        assert gives(ONNX, call, given, recipe, where=given.codes != legal.codes), "also on calls that were not asked"


def test_an_indexing_mistake_in_a_piece_is_named() -> None:
    first = next(calls("int8", "blocked", 1, random.Random(1)))
    mistake = next(m for m, _ in indexing.mistakes(first, ONNX.operands(first)) if m.name == "block-index-plus-one")
    answer = in_part(follows(ONNX, EXACT), follows(ONNX, Misread(mistake, EXACT)), first_block)
    said = asked_in(answer, granularity="blocked").violation()
    assert said is not None
    assert said.attribution is not None
    assert said.attribution.elsewhere == (EXACT.name, EXACT.words)
    assert said.attribution.reading == f"{mistake.name}@exact"


def test_a_few_wrong_values_are_not_named() -> None:
    """Several recipes give a value or two by chance."""
    answer = in_part(follows(ONNX, EXACT), follows(ONNX, IGNORES), lambda call: np.arange(call.data.shape[-1]) == 3)
    asked = Asked(ONNX, answer)
    asked.ask(*calls("int8", "per_tensor", 5, random.Random(3)))
    said = asked.violation()
    assert said is not None
    assert asked.row.wrong < attribute.FEW
    assert said.attribution is None


@pytest.mark.parametrize("is_noise", [False, True])
def test_calls_of_two_kernels_have_a_recipe_each(is_noise: bool) -> None:
    """The kernels round differently. Random last bits have no recipe in any of the calls."""
    kernels = (Stepwise(final="truncated"), Stepwise(difference="bfloat16"))
    rng, made = np.random.default_rng(1), []
    for number in range(6):
        judged = tallied_calls.asked(rng.integers(1 << 24, 1 << 30, 24) * 2 + 1, number)
        result = tallied_calls.by(judged, EXACT.name if is_noise else kernels[number % 2].name).tensor
        codes = result.codes + rng.integers(0, 3, 24).astype(np.uint32) * np.uint32(is_noise)
        made.append((judged, Outcome("tensor", Tensor(result.dtype, codes))))
    _, row = tallied_calls.tallied(*made)
    explanation = explained(row.evidence)
    names = {each.recipe.name for each in (explanation, *explanation.others) if each.recipe is not None}
    assert names == (set() if is_noise else {kernel.name for kernel in kernels})


@pytest.mark.parametrize("is_mixed_at_random", [False, True])
def test_the_second_reading_of_a_mixture_needs_a_region(is_mixed_at_random: bool) -> None:
    rng, made = np.random.default_rng(1), []
    for number in range(12):
        judged = tallied_calls.asked(rng.integers(1 << 24, 1 << 30, 24) * 2 + 1, number)
        exact, single = (tallied_calls.by(judged, name).tensor.codes for name in ("exact", "float32"))
        is_second = rng.random(24) < 0.5 if is_mixed_at_random else np.arange(24) >= 16
        made.append((judged, Outcome("tensor", Tensor("float32", np.where(is_second, single, exact)))))
    _, row = tallied_calls.tallied(*made)
    reading = second_reading(row.evidence)
    assert (reading and reading.name) == (None if is_mixed_at_random else "float32")


def test_zeros_of_one_sign_show_nothing_about_the_scale() -> None:
    """A compiler folds x * -0 to -0 for negative x too. Only the results with the other sign are wrong."""
    rng, made = np.random.default_rng(1), []
    for number in range(8):
        x = rng.integers(-(1 << 30), 1 << 30, 24)
        judged = tallied_calls.asked(x, number, -0.0 if number % 2 else float(rng.integers(2, 9)) * 1e29)
        codes = tallied_calls.by(judged, "clamped").tensor.codes
        codes = np.full_like(codes, 0x80000000) if number % 2 else codes
        made.append((judged, Outcome("tensor", Tensor("float32", codes))))
    _, row = tallied_calls.tallied(*made)
    explanation = explained(row.evidence)
    names = [each.recipe and each.recipe.name for each in (explanation, *explanation.others)]
    assert names == ["saturated", "zero-scale"]


def test_zeros_of_one_sign_show_nothing_about_the_difference() -> None:
    """The product of a negative difference and -0 is -0, as if the difference wrapped around."""
    edition, rng, made = contracts.get("ai.onnx/DequantizeLinear-19"), np.random.default_rng(1), []
    for number in range(8):
        is_folded = number == 3
        scale, zero_point = (-0.0, 9) if is_folded else (float(rng.integers(2, 9)) * 1000, 0)
        x = tensor("uint8", rng.integers(0, 9 if is_folded else 256, 24))
        tensors = {"x": x, "scale": tensor("float16", scale), "zero_point": tensor("uint8", zero_point)}
        judged = judge(edition, Call(edition.id, tensors), number)
        made.append((judged, tallied_calls.by(judged, "wrap-x" if is_folded else "clamped")))
    _, row = tallied_calls.tallied(*made)
    explanation = explained(row.evidence)
    names = [each.recipe and each.recipe.name for each in (explanation, *explanation.others)]
    assert names == ["saturated", "zero-scale"]


def test_zeros_without_their_sign_are_not_zeros_whatever_the_operands() -> None:
    """No stage loses the sign of -0 and keeps that of a subnormal product that is flushed."""
    rng, made = np.random.default_rng(1), []
    for number in range(4):
        judged = tallied_calls.asked(rng.integers(-2, 3, 40), number, -(2.0**-140) * (number + 1))
        codes = tallied_calls.by(judged, "flush-results").tensor.codes
        codes = np.where(judged.call.data.codes == 0, 0, codes).astype(np.uint32)
        made.append((judged, Outcome("tensor", Tensor("float32", codes))))
    _, row = tallied_calls.tallied(*made)
    row.evidence.settle(True)
    assert row.evidence.others == ()
    explanation = explained(row.evidence)
    assert explanation.recipe == Stepwise(zero="unsigned")
    assert explanation.elsewhere == EXACT


def test_values_set_aside_for_another_recipe_do_not_count_as_right() -> None:
    """A recipe that gives them too must not be preferred for the rest, where a simpler one gives as much."""
    rng = np.random.default_rng(3)
    zero_points = np.where(np.arange(40) < 20, 5, 0)
    tensors = {"x": tensor("int8", rng.integers(-128, 128, (30, 40))), "zero_point": tensor("int8", zero_points)}
    call = Call(ONNX.id, {**tensors, "scale": tensor("float32", rng.random(40) + 0.5)}, {"axis": 1})
    judged = judge(ONNX, call)
    truncated, earlier = Stepwise(final="truncated"), Stepwise("ignored", final="truncated")
    got = follows(ONNX, earlier)(call).tensor
    _, row = tallied_calls.tallied((judged, Outcome("tensor", got)))
    (_, seen), *_ = row.evidence.wrong
    is_earlier = seen.wrong & (np.arange(40) < 20)
    left = replace(seen, wrong=seen.wrong & ~is_earlier, aside=is_earlier)
    largest = _largest(replace(row.evidence, wrong=[(judged, left)], probes=[]), EXACT)
    assert largest is not None
    assert largest[0].recipe == truncated


def test_a_recipe_is_not_named_for_infinities_alone() -> None:
    """Many mistakes make every result infinite."""

    def infinite(call: Call, codes: Any) -> Any:
        return np.where(codes & 0x7FFF, codes & 0x8000 | 0x7C00, codes)

    contract = contracts.get("onednn/DynamicDequantize-1@3.7")
    asked = Asked(contract, changed(follows(contract, EXACT), infinite))
    for seed in (1, 2):
        x = np.random.default_rng(seed).permutation(np.arange(-128, 128))
        tensors = {"x": tensor("int8", x), "scale": tensor("float16", [0.02353])}
        asked.ask(Call(contract.id, tensors, {"qtype": "per_tensor"}))
    said = asked.violation()
    assert said is not None
    assert said.attribution is None, said.summary


# -- call after call --------------------------------------------------------------------------------------


def test_a_mistake_that_only_turns_infinity_into_nan_is_not_named() -> None:
    """A result that is quantized again gives 0 / 0 for a scale of 0, and right codes for every other one."""

    def without_infinity(call: Call, codes: Any) -> Any:
        return np.where(np.isinf(codes.view(np.float32)), np.uint32(0x7FC00000), codes)

    rng = np.random.default_rng(5)
    asked = Asked(ONNX, changed(follows(ONNX, Stepwise(operation="divide")), without_infinity))
    for scale in (*(rng.random(9) + 0.5), 0.0, -0.0, 0.7):
        codes = rng.integers(0, 256, 90 if scale else 300)
        asked.ask(Call(ONNX.id, {"x": tensor("uint8", codes), "scale": tensor("float32", scale)}))
    asked.tally.settle()
    said = [each.attribution for _, _, _, each, _, _ in asked.tally.violations()]
    assert [each.reading for each in said if each] == ["exact-quotient"]
    assert None in said, "NaN instead of infinity is a finding of its own"


def test_a_stage_that_no_wrong_value_shows_is_not_named() -> None:
    """Each result of the recipe that is not legal comes out, and no -0 is lost."""
    contract = contracts.get("ai.onnx/DequantizeLinear-24")

    def where_wrong(call: Call, codes: Any) -> Any:
        legal = legal_set(contract, call)
        return np.where(compare(legal, Tensor("bfloat16", codes)).wrong, codes, legal.codes(0))

    rng = np.random.default_rng(5)
    asked = Asked(contract, changed(follows(contract, Stepwise(scale_cast="last-bit")), where_wrong))
    for _ in range(8):
        scales = (rng.random(24) + 0.5) * rng.choice([-1, 1], 24)
        tensors = {"x": tensor("int8", rng.integers(-40, 40, (9, 24))), "scale": tensor("float32", scales)}
        asked.ask(Call(contract.id, tensors, {"output_dtype": "bfloat16"}))
    asked.tally.settle()
    (said,) = [each.attribution for _, _, _, each, _, _ in asked.tally.violations()]
    assert said is not None
    assert said.reading == "scale-last-bit"
    assert said.elsewhere is not None


def test_every_recipe_is_searched_after_a_right_call_refutes_the_last() -> None:
    """The last reading near an admitted one may be refuted by a call without a wrong value."""

    def call(size: int) -> Call:
        tensors = {"x": tensor("int8", np.arange(size)), "scale": tensor("float32", 0.5)}
        return Call(ONNX.id, tensors | {"zero_point": tensor("int8", 1)})

    asked = Asked(ONNX, lambda one: follows(ONNX, IGNORES if one.values == 40 else EXACT)(one))
    asked.ask(call(40))
    assert asked.row.evidence.others
    assert not asked.row.evidence.whole
    asked.ask(call(50))
    assert asked.row.evidence.whole
    assert asked.row.evidence.others == ()


def test_evidence_does_not_depend_on_the_size_of_calls() -> None:
    """The same values come in one call of many or in many calls of few."""
    rng = np.random.default_rng(3)
    x, truth = rng.integers(-128, 128, 600), Stepwise("wrap-x", scale_cast="bfloat16")
    left = []
    for size in (600, 50, 20):
        asked = Asked(ONNX, follows(ONNX, truth))
        for start in range(0, 600, size):
            tensors = {"x": tensor("int8", x[start : start + size]), "scale": tensor("float32", 0.3)}
            asked.ask(Call(ONNX.id, tensors | {"zero_point": tensor("int8", -7)}))
        said = asked.violation()
        assert said is not None
        assert said.attribution is not None
        assert asked.row.evidence.values == 600
        assert truth in (asked.row.evidence.others or ())
        left.append(said.attribution.reading)
    assert left == [truth.name] * 3


def test_a_recipe_found_when_the_cell_is_settled_replaces_an_earlier_answer() -> None:
    asked = Asked(ONNX, follows(ONNX, IGNORES))
    asked.ask(lap_of(ONNX, Linear("int8", "float32", "per_tensor", (2,), "int8"))[0])
    assert asked.row.evidence.others is None
    list(asked.tally.violations())
    said = asked.violation()
    assert said is not None
    assert said.attribution is not None
    assert (said.attribution.reading, said.attribution.elsewhere) == (IGNORES.name, None)


def test_the_number_of_kept_calls_is_limited() -> None:
    asked = Asked(ONNX, changed(follows(ONNX, EXACT), one_more))
    asked.ask(*calls("int8", "per_axis", 30, random.Random(2)))
    evidence = asked.row.evidence
    assert len(evidence.wrong) == KEPT_WRONG
    assert len(evidence.right) <= KEPT_RIGHT
    assert evidence.values == sum(judge.call.values for judge, _ in evidence.wrong[:1]) + asked.row.values - 320


def test_evidence_of_a_path_with_few_calls_starts_with_a_wrong_value() -> None:
    judged = judge(ONNX, next(calls("int8", "per_axis", 1, random.Random(2))))
    for reading, values in ((EXACT, 0), (IGNORES, judged.call.values)):
        tally = Tally()
        tally.observe(judged, replace(SUBJECT, often=False), follows(ONNX, reading)(judged.call), True)
        (row,) = tally.cells.values()
        assert row.evidence.values == values


# -- no false alarms --------------------------------------------------------------------------------------


def by_kernel(call: Call) -> Outcome:
    """Answer as the in-house kernel."""
    arrays = {role: one.codes.view(numpy_dtype(one.dtype)) for role, one in call.tensors.items()}
    given = xverify.dequantize_linear(
        arrays["x"],
        arrays["scale"],
        arrays.get("zero_point"),
        axis=int(call.attributes.get("axis", 1)),
        block_size=int(call.attributes.get("block_size", 0)),
        backend="numpy",  # this backend compiles nothing
    )
    dtype = call.tensors["scale"].dtype
    return Outcome("tensor", Tensor(dtype, np.ascontiguousarray(given).view(call.tensors["scale"].codes.dtype)))


def test_half_a_million_values_of_one_reading_give_no_finding() -> None:
    tally, values = Tally(), 0
    rng = random.Random(4)
    subjects = (Subject("evaluated", "1", "oracle"), Subject("kernel", "1", "kernel"))
    types = [(x, s) for x in ("int8", "uint8", "int16", "uint4", "int4") for s in ("float32", "float16", "bfloat16")]
    for x_dtype, scale in types:
        for granularity in ("per_axis", "blocked"):
            block = rng.choice((7, 32, 100)) if granularity == "blocked" else 0
            for shape in ((4, 80), (80, 250)):
                structure = Linear(x_dtype, scale, granularity, shape, x_dtype, "", 1, block, seed=rng.getrandbits(32))
                judged = judge(ONNX, build(ONNX, structure))
                for subject, answer in zip(subjects, (follows(ONNX, EXACT), by_kernel), strict=True):
                    found = tally.observe(judged, subject, answer(judged.call), True)
                    assert found == []
                values += judged.call.values
    assert values > 500_000
    tally.settle()
    assert [*tally.violations(), *tally.mixtures(), *tally.refusals(), *tally.ambiguities()] == []
    assert {tally.status(subject, cell) for subject, cell in tally.cells} == {"agrees"}
    assert all("exact" in (row.alive or ()) for row in tally.cells.values())


# -- speed ------------------------------------------------------------------------------------------------


def seen_of(contract: Contract, truth: Any, structure: Linear | Range) -> CheckedResult:
    call = build(contract, structure)
    got = follows(contract, truth)(call).tensor
    return CheckedResult(call, got, compare(legal_set(contract, call), got).wrong)


@pytest.mark.parametrize(
    ("contract", "structure", "truth"),
    [
        (ONNX, Linear("int16", "float32", "per_axis", (10, 1000), "int16"), Stepwise("wrap-x", scale_cast="bfloat16")),
        (
            NEWEST,
            Linear("int16", "float32", "per_axis", (10, 1000), "int16", "float16"),
            Stepwise("saturate-x", "bfloat16", "float16", "folded", "bfloat16", "truncated", "flush-all", "unsigned"),
        ),
        (
            contracts.get("tensorflow/Dequantize@installed"),
            Range("int32", "MIN_FIRST", (10000,)),
            range_lattice.RANGE_READINGS[-1],
        ),
    ],
    ids=["near", "far", "range"],
)
def test_ten_thousand_values_are_attributed_within_a_second(contract, structure, truth) -> None:
    seen = seen_of(contract, truth, structure)
    assert seen.got.size == 10_000
    assert seen.wrong.any()
    best = np.inf
    for turn in range(2):
        # The zero is at another index each time, because searches are cached.
        again = seen_of(contract, truth, replace(structure, seed=turn + 1))
        begun = time.perf_counter()
        found = attribute.search(contract, [again], whole=True)
        best = min(best, time.perf_counter() - begun)
        operands = contract.operands(again.call)
        assert any(gives(contract, again.call, again.got, reading) for reading in found)
        assert truth.simplified(operands) in {reading.simplified(operands) for reading in found}
    assert best < 3.0, "a second on a machine that does nothing else"
