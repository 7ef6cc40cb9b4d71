"""What a cell's values say of the recipe: nothing for what no recipe gives, two pieces where there are two, one recipe for
many cells; names, counts and speed."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from lattice_oracles import SUBJECT, Answer, Asked, Mask, changed, follows, in_part, lap_of

import xverify
from strategies import build
from strategies.structures import Linear, Range
from xverify import contracts
from xverify.contracts import affine, indexing, lattice
from xverify.contracts.model import Contract, Operands
from xverify.contracts.readings import EXACT, EXACT_QUOTIENT, FLOAT32, OUTPUT, Stepwise, by_name
from xverify.core.call import Call, Outcome, Tensor
from xverify.core.dtypes import integers, numpy_dtype, tensor
from xverify.verify import attribute, editions
from xverify.verify.attribute import Misread, Seen, gives, named
from xverify.verify.common import common
from xverify.verify.compare import compare
from xverify.verify.evidence import KEPT_RIGHT, KEPT_WRONG
from xverify.verify.findings import Subject
from xverify.verify.legal import legal_set
from xverify.verify.region import region
from xverify.verify.tally import Tally
from xverify.verify.verdicts import judge

ONNX = contracts.get("ai.onnx/DequantizeLinear-21")
NEWEST = contracts.get("ai.onnx/DequantizeLinear-25")
IGNORES, WRAPS = Stepwise("ignored"), Stepwise("wrap-x")


def calls(x_dtype: str, granularity: str, count: int, rng: random.Random, scale: str = "float32") -> Iterator[Call]:
    """Calls of one cell in several shapes, with zero points that are seldom 0."""
    for number in range(count):
        shape = ((257,), (90,), (40,)) if granularity == "per_tensor" else ((4, 80), (3, 110), (17, 33))
        block = (32, 16, 20)[number % 3] if granularity == "blocked" else 0
        structure = Linear(
            x_dtype, scale, granularity, shape[number % 3], x_dtype, "", None, block, seed=rng.getrandbits(32)
        )
        yield build(ONNX, structure)


def asked_in(answer: Answer, x_dtype: str = "int8", granularity: str = "per_axis", scale: str = "float32") -> Asked:
    """After the lap's calls of the cell and some others."""
    asked = Asked(ONNX, answer)
    shape = (2,) if granularity == "per_tensor" else (4, 80)
    block = 32 if granularity == "blocked" else 0
    asked.ask(*lap_of(ONNX, Linear(x_dtype, scale, granularity, shape, x_dtype, block_size=block)))
    asked.ask(*calls(x_dtype, granularity, 12, random.Random(5), scale))
    return asked


# -- what no recipe gives ---------------------------------------------------------------------------------


def drawn(call: Call) -> np.random.Generator:
    return np.random.default_rng(int(call.digest()[:8], 16))


def one_more(call: Call, codes: Any) -> Any:
    """One ULP more, or less at negative values, at random places."""
    finite = (codes & 0x7F800000) != 0x7F800000
    return codes + (finite & (drawn(call).random(codes.shape) < 0.1))


def swapped(call: Call, codes: Any) -> Any:
    flat = codes.reshape(-1)
    flat[[0, -1]] = flat[[-1, 0]]
    return codes


def constant(call: Call, codes: Any) -> Any:
    """A wrong number for one code of x."""
    return np.where(call.data.codes == 37, np.float32(1.5).view(np.uint32), codes)


def noise(call: Call, codes: Any) -> Any:
    return drawn(call).integers(0, 1 << 31, codes.shape)


def left_over(call: Call, codes: Any) -> Any:
    """The last values of a row are those of the row before."""
    return np.where(np.arange(codes.shape[-1]) >= codes.shape[-1] - 3, np.roll(codes, 1, 0), codes)


OUTSIDE = {"one ULP": one_more, "swapped": swapped, "constant": constant, "noise": noise, "left over": left_over}


@pytest.mark.parametrize("change", OUTSIDE.values(), ids=OUTSIDE.keys())
@pytest.mark.parametrize("granularity", ["per_axis", "blocked"])
def test_what_no_recipe_gives_is_unexplained(change, granularity: str) -> None:
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


def test_a_value_that_is_no_number_is_at_no_distance() -> None:
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
    """Some recipe gives a value or two by luck."""
    answer = in_part(follows(ONNX, EXACT), follows(ONNX, IGNORES), lambda call: np.arange(call.data.shape[-1]) == 3)
    asked = Asked(ONNX, answer)
    asked.ask(*calls("int8", "per_tensor", 5, random.Random(3)))
    said = asked.violation()
    assert said is not None
    assert asked.row.wrong < attribute.FEW
    assert said.attribution is None


# -- call after call --------------------------------------------------------------------------------------


def test_a_recipe_that_a_right_call_refutes_makes_room_for_the_search_of_all() -> None:
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


def test_what_is_known_does_not_depend_on_how_the_calls_are_cut() -> None:
    """One call of many values, or many calls of few."""
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


def test_so_many_calls_are_kept() -> None:
    asked = Asked(ONNX, changed(follows(ONNX, EXACT), one_more))
    asked.ask(*calls("int8", "per_axis", 30, random.Random(2)))
    evidence = asked.row.evidence
    assert len(evidence.wrong) == KEPT_WRONG
    assert len(evidence.right) <= KEPT_RIGHT
    assert evidence.values == sum(judge.call.values for judge, _ in evidence.wrong[:1]) + asked.row.values - 320


def test_an_implementation_that_is_seldom_asked_is_followed_once_it_is_wrong() -> None:
    judged = judge(ONNX, next(calls("int8", "per_axis", 1, random.Random(2))))
    for reading, values in ((EXACT, 0), (IGNORES, judged.call.values)):
        tally = Tally()
        tally.observe(judged, replace(SUBJECT, often=False), follows(ONNX, reading)(judged.call), True)
        (row,) = tally.cells.values()
        assert row.evidence.values == values


# -- no false alarms --------------------------------------------------------------------------------------


def by_kernel(call: Call) -> Outcome:
    """The in-house kernel."""
    arrays = {role: one.codes.view(numpy_dtype(one.dtype)) for role, one in call.tensors.items()}
    given = xverify.dequantize_linear(
        arrays["x"],
        arrays["scale"],
        arrays.get("zero_point"),
        axis=int(call.attributes.get("axis", 1)),
        block_size=int(call.attributes.get("block_size", 0)),
        backend="numpy",  # which compiles nothing
    )
    dtype = call.tensors["scale"].dtype
    return Outcome("tensor", Tensor(dtype, np.ascontiguousarray(given).view(call.tensors["scale"].codes.dtype)))


def test_a_million_values_of_one_reading_give_no_finding() -> None:
    tally, values = Tally(), 0
    rng = random.Random(4)
    subjects = (Subject("evaluated", "1", "oracle"), Subject("kernel", "1", "kernel"))
    types = [(x, s) for x in ("int8", "uint8", "int16", "uint4", "int4") for s in ("float32", "float16", "bfloat16")]
    for x_dtype, scale in types:
        for granularity in ("per_axis", "blocked"):
            block = rng.choice((7, 32, 100)) if granularity == "blocked" else 0
            for shape in ((4, 80), (130, 273)):
                structure = Linear(x_dtype, scale, granularity, shape, x_dtype, "", 1, block, seed=rng.getrandbits(32))
                judged = judge(ONNX, build(ONNX, structure))
                for subject, answer in zip(subjects, (follows(ONNX, EXACT), by_kernel), strict=True):
                    found = tally.observe(judged, subject, answer(judged.call), True)
                    assert found == []
                values += judged.call.values
    assert values > 1_000_000
    tally.settle()
    assert [*tally.violations(), *tally.mixtures(), *tally.refusals(), *tally.ambiguities()] == []
    assert {tally.status(subject, cell) for subject, cell in tally.cells} == {"agrees"}
    assert all("exact" in (row.alive or ()) for row in tally.cells.values())


# -- names ------------------------------------------------------------------------------------------------


def test_a_name_finds_its_recipe() -> None:
    tensorflow = contracts.get("tensorflow/Dequantize@installed")
    first = build(ONNX, Linear("int8", "float32", "blocked", (3, 110), "int8", axis=1, block_size=32))
    drawn_readings = lattice.near(lattice.types_of(ONNX.operands(first)), (EXACT, *OUTPUT))
    for reading in (FLOAT32, EXACT_QUOTIENT, *drawn_readings[::7]):
        assert named(ONNX, reading.name) == reading == by_name(reading.name)
    for mistake, _ in indexing.mistakes(first, ONNX.operands(first)):
        recipe = Misread(mistake, FLOAT32)
        again = named(ONNX, recipe.name)
        assert again == recipe
        assert again.words == recipe.words
    for reading in affine.RANGE_READINGS[::97]:
        assert named(tensorflow, reading.name) is reading
    for contract, name in ((ONNX, "wrap-nothing"), (ONNX, "no-mistake@exact"), (tensorflow, "exact"), (ONNX, "")):
        with pytest.raises(KeyError):
            named(contract, name)


def test_what_a_recipe_gives() -> None:
    call = build(ONNX, Linear("int8", "float32", "per_axis", (4, 80), "int8", axis=0))
    mistake = indexing.misindexing("channels-reversed")
    for recipe in (EXACT, WRAPS, Misread(mistake, EXACT)):
        given = follows(ONNX, recipe)(call).tensor
        assert [gives(ONNX, call, given, other) for other in (EXACT, WRAPS, Misread(mistake, EXACT))].count(True) == 1
        assert gives(ONNX, call, given, recipe)
        odd = Tensor(given.dtype, given.codes ^ np.eye(4, 80, dtype=np.uint32))
        assert not gives(ONNX, call, odd, recipe)
        assert gives(ONNX, call, odd, recipe, where=np.eye(4, 80) == 0)
        assert not gives(ONNX, call, odd, recipe, where=np.eye(4, 80) == 1)
        assert not gives(ONNX, call, tensor("float32", np.zeros((4, 81))), recipe)
        assert not gives(ONNX, call, tensor("float64", np.zeros((4, 80))), recipe)
    alone = build(ONNX, Linear("int8", "float32", "per_tensor", (80,), "int8"))
    right = follows(ONNX, EXACT)(alone).tensor
    assert gives(ONNX, alone, right, Misread(mistake, EXACT)), "where a mistake cannot be made it is not made"


def test_a_reading_and_any_nan() -> None:
    call = Call(ONNX.id, {"x": tensor("int8", [1]), "scale": tensor("float32", np.nan)})
    for code in (0x7FC00000, 0xFFC00001, 0x7F800001):
        assert gives(ONNX, call, Tensor("float32", np.array([code], np.uint32)), EXACT)
    assert not gives(ONNX, call, Tensor("float32", np.array([0x7F800000], np.uint32)), EXACT)


# -- one recipe for many cells ----------------------------------------------------------------------------


def operands_of(x_dtype: str, out: str = "float32") -> Operands:
    zero_point = "int32" if x_dtype == "int32" else x_dtype
    call = build(NEWEST, Linear(x_dtype, "float32", "per_axis", (4, 80), zero_point, out))
    return NEWEST.operands(call)


def test_one_recipe_for_many_cells() -> None:
    """What wraps in int32 is plain subtraction of 8 bits; what rounds to float32 is seen of int32 only."""
    small, wide, other = operands_of("int8"), operands_of("int32"), operands_of("int16")
    single = Stepwise(precision="float32")
    for order in (1, -1):
        groups = [
            ("one", small, (IGNORES,)),
            ("one", wide, (Stepwise("ignored", precision="float64"), Stepwise("ignored", precision="float32"))),
            ("one", other, ()),
            ("two", small, (WRAPS, single.simplified(small))),
        ][::order]
        chosen = common(groups)[::order]
        assert chosen[2] is None
        assert chosen[0] == chosen[1], "one recipe explains both"
        assert chosen[3] in (WRAPS, EXACT, single.simplified(small))
        for (_, operands, readings), reading in zip(groups[::order], chosen, strict=True):
            assert reading is None or reading.simplified(operands) in {r.simplified(operands) for r in readings}


def test_the_recipe_of_most_cells_is_taken_first() -> None:
    types = [operands_of(x) for x in ("int8", "uint8", "int16", "int4")]
    sets = [(WRAPS, IGNORES), (IGNORES,), (IGNORES, WRAPS), (WRAPS,)]
    chosen = common([("one", operands, readings) for operands, readings in zip(types, sets, strict=True)])
    assert chosen[1] == IGNORES
    assert chosen[3] == WRAPS
    assert chosen[0] == chosen[2]
    apart = common(
        [(number, operands, readings) for number, (operands, readings) in enumerate(zip(types, sets, strict=True))]
    )
    assert [reading in readings for reading, readings in zip(apart, sets, strict=True)] == [True] * 4


def test_the_output_type_is_named_as_such() -> None:
    cells = [operands_of("int16", out) for out in ("float16", "bfloat16")]
    readings = [Stepwise("ignored", difference="output").simplified(operands) for operands in cells]
    assert readings[0] != readings[1]
    chosen = common([("one", operands, (reading,)) for operands, reading in zip(cells, readings, strict=True)])
    assert chosen == [Stepwise("ignored", difference="output")] * 2


def test_cells_of_one_implementation_are_one_finding() -> None:
    tally = Tally()
    for x_dtype in ("int8", "int32"):
        for call in calls(x_dtype, "per_axis", 3, random.Random(3)):
            # Of int32 the text wants a zero point of 0, so only the rounding shows.
            judged = judge(ONNX, call)
            truth = Stepwise(scale_cast="float16", precision="float32")
            tally.observe(judged, SUBJECT, follows(ONNX, truth)(call), True)
    tally.settle()
    found = [said.key for _, _, _, said, _, _ in tally.violations()]
    assert len(found) == 2
    assert len(set(found)) == 1
    assert found[0].detail == Stepwise(scale_cast="float16").name, "a result in float32 is rounded to it once"


# -- which edition is followed ----------------------------------------------------------------------------


def test_which_of_two_documents_is_followed() -> None:
    """Of 5 values 0 and the quotient by 1 are in both."""
    multiply, divide = (contracts.get(f"onednn/DynamicDequantize-1@{name}") for name in ("multiply", "divide"))
    tensors = {"x": tensor("int8", [0, 1, 2, 3, 4]), "scale": tensor("float32", [0.5])}
    judged = judge(multiply, Call(multiply.id, tensors))
    product, quotient = (tensor("float32", np.array([0, 1, 2, 3, 4]) * factor) for factor in (0.5, 2.0))
    other = tensor("float32", [0.0, 0.5, 4.0, 7.0, 7.0])

    def counted(answer: Tensor) -> dict[tuple[str, str], int]:
        return editions.followed(judged, divide, "one", Outcome("tensor", answer))

    assert counted(product) == {("one", ""): 4, ("one", multiply.id): 4, ("one", divide.id): 0}
    assert counted(quotient) == {("one", ""): 4, ("one", multiply.id): 0, ("one", divide.id): 4}
    assert counted(other) == {("one", ""): 4, ("one", multiply.id): 1, ("one", divide.id): 1}
    assert counted(tensor("float16", [0.0] * 5)) == {}
    assert editions.followed(judged, divide, "one", Outcome("rejected")) == {}


# -- speed ------------------------------------------------------------------------------------------------


def seen_of(contract: Contract, truth: Any, structure: Linear | Range) -> Seen:
    call = build(contract, structure)
    got = follows(contract, truth)(call).tensor
    return Seen(call, got, compare(legal_set(contract, call), got).wrong)


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
            affine.RANGE_READINGS[-1],
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
        # Another zero place each time: what was searched once is remembered.
        again = seen_of(contract, truth, replace(structure, seed=turn + 1))
        begun = time.perf_counter()
        found = attribute.search(contract, [again], whole=True)
        best = min(best, time.perf_counter() - begun)
        operands = contract.operands(again.call)
        assert any(gives(contract, again.call, again.got, reading) for reading in found)
        assert truth.simplified(operands) in {reading.simplified(operands) for reading in found}
    assert best < 3.0, "a second on a machine that does nothing else"
