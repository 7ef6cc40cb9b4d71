"""Each mistake of a fake kernel is named exactly, alone, in a graph only, or beside another mistake."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cell_calls import IGNORES, ONNX, WRAPS
from lattice_oracles import SUBJECT, Answer, Asked, changed, follows

from xverify import contracts
from xverify.arithmetic import indexing, range_lattice
from xverify.arithmetic.reading import Reading
from xverify.arithmetic.readings import EXACT, EXACT_QUOTIENT, Stepwise
from xverify.contracts.model import Contract
from xverify.core.call import Attribute, Call, Tensor
from xverify.core.dtypes import tensor
from xverify.strategies import build
from xverify.strategies.structures import Linear
from xverify.verify.attribute import Misread, codes_of, named
from xverify.verify.departures import departures, in_words
from xverify.verify.findings import Discrepancy
from xverify.verify.graph_recipes import explain_by_recipe
from xverify.verify.tally import Tally
from xverify.verify.verdicts import judge

ROUNDS_OPERANDS = Stepwise("operands-float32", "float32", precision="float32")
GUIDE = contracts.get("onednn/Dequantize-1@3.0")
TENSORFLOW = contracts.get("tensorflow/Dequantize@installed")


def calls(shapes: Iterable[tuple[int, ...]], zero_point: str = "", **fields: Any) -> list[Call]:
    rng = random.Random(3)
    given = {"granularity": "per_axis", **fields}
    return [
        build(ONNX, Linear("int8", "float32", given["granularity"], shape, zero_point, seed=rng.getrandbits(32)))
        for shape in shapes
    ]


def recipe(mistake: str, reading: Reading = EXACT) -> Misread:
    return Misread(indexing.misindexing(mistake), reading)


def found(contract: Contract, answer: Answer, asked: Iterable[Call], is_late: bool = False) -> list[Discrepancy]:
    one = Asked(contract, answer)
    one.ask(*asked)
    one.tally.settle()
    return [each for _, _, _, each, _, _ in one.tally.violations(lambda: is_late)]


def words(contract: Contract, call: Call, each: Discrepancy) -> str:
    assert each.attribution is not None, each.summary
    by = named(contract, each.attribution.reading)
    return in_words(departures(by, contract.readings(call), contract.operands(call)))


def either(where: Callable[[Call], bool], inside: Answer, outside: Answer) -> Answer:
    return lambda call: inside(call) if where(call) else outside(call)


SHAPES = ((4, 80), (3, 110), (17, 33))


def test_a_result_is_quantized_again_in_some_graphs() -> None:
    plain = calls(SHAPES)
    graphs = [replace(call, around=("y>slice:0", "constant:scale")) for call in calls(SHAPES)]
    again = follows(ONNX, recipe("requantized-to-uint8"))
    (each,) = found(ONNX, either(lambda call: bool(call.around), again, follows(ONNX, EXACT)), [*plain, *graphs])
    assert words(ONNX, plain[0], each) == "quantizes the result again to uint8 without a zero point"


def test_the_first_zero_point_with_rounded_operands() -> None:
    rng = np.random.default_rng(2)
    asked = []
    for size in (31, 64, 9):
        zero_points = rng.integers(-(2**30), 2**30, size)
        tensors = {"x": tensor("int8", rng.integers(-128, 128, size)), "zero_point": tensor("int32", zero_points)}
        tensors["scale"] = tensor("float32", rng.random(size) + 0.5)
        asked.append(Call(GUIDE.id, tensors, {"qtype": "per_channel", "axis": 0}))
    answer = follows(GUIDE, recipe("as-per-tensor-zero-point", ROUNDS_OPERANDS))
    (each,) = found(GUIDE, answer, asked)
    assert words(GUIDE, asked[0], each) == (
        "takes the first zero point for the whole tensor and casts x and the zero point to float32 first"
    )
    (late,) = found(GUIDE, answer, asked, is_late=True)
    assert late.attribution is None, "a search that takes seconds began though only the time for shrinking was left"


def test_an_absent_zero_point_is_multiplied_by_the_scale() -> None:
    asked = calls(((257,), (90,), (40,)), granularity="per_tensor")
    special = [
        replace(call, tensors={**call.tensors, "scale": tensor("float32", s)}) for call in asked for s in (-0.5, np.inf)
    ]
    (each,) = found(ONNX, follows(ONNX, Stepwise(operation="folded-always")), [*asked, *special])
    assert words(ONNX, asked[0], each) == "computes x * scale - 0 * scale without a zero point"


def test_strided_parameters_are_read_as_contiguous() -> None:
    asked = [
        replace(call, tensors={**call.tensors, "scale": replace(call.tensors["scale"], layout="strided")})
        for call in calls(SHAPES, "int8")
    ]
    (each,) = found(ONNX, follows(ONNX, recipe("parameter-strides-ignored")), asked)
    assert words(ONNX, asked[0], each) == "reads the parameters as if their memory were contiguous"


def scaled_calls() -> list[Call]:
    ranges = ((0.5, 2.0), (0.25, 1.0), (-2.0, 2.0), (0.0, 2.0**-120))
    codes = tensor("uint8", np.arange(256))
    attributes: dict[str, Attribute] = {"mode": "SCALED", "narrow_range": True}
    return [
        Call(
            TENSORFLOW.id,
            {"input": codes, "min_range": tensor("float32", low), "max_range": tensor("float32", high)},
            attributes,
        )
        for low, high in ranges
    ]


def test_the_larger_quotient_does_not_hide_behind_flushed_results() -> None:
    asked = scaled_calls()
    fake = follows(TENSORFLOW, range_lattice.by_name("scaled-from-larger-float32-flushed"))
    (each,) = found(TENSORFLOW, fake, asked)
    assert words(TENSORFLOW, asked[0], each) == "takes the factor from the larger of min / lowest and max / highest"


def test_two_mistakes_in_different_calls_are_two_findings() -> None:
    asked = calls([shape for shape in SHAPES for _ in range(3)], "int8")
    fake = either(lambda call: call.data.shape == (4, 80), follows(ONNX, WRAPS), follows(ONNX, IGNORES))
    named_words = {words(ONNX, asked[0], each) for each in found(ONNX, fake, asked)}
    assert named_words == {"takes the zero point as 0", "subtracts in the type of x with wrap-around"}


def test_what_no_recipe_gives_is_a_finding_beside_a_named_mistake() -> None:
    asked = calls([shape for shape in SHAPES for _ in range(3)], "int8")
    noise = changed(
        follows(ONNX, EXACT), lambda call, codes: np.random.default_rng(1).integers(0, 1 << 31, codes.shape)
    )
    every = found(ONNX, either(lambda call: call.data.shape == (4, 80), noise, follows(ONNX, IGNORES)), asked)
    assert [each.attribution and words(ONNX, asked[0], each) for each in every] == ["takes the zero point as 0", None]
    assert [each.values > 100 for each in every] == [True, True]


HALVES = contracts.get("ai.onnx/DequantizeLinear-25")
WIDE, NO_GAPS = "16-bit-scale-as-float32", "parameter-strides-ignored"


def of_halves(scale: Sequence[float], layout: str = "C", seed: int = 5, dtype: str = "float16") -> Call:
    rng, numbers = np.random.default_rng(seed), np.asarray(scale)
    x = rng.integers(-128, 128, (40, *numbers.shape))
    tensors = {"x": tensor("int8", x), "scale": replace(tensor(dtype, numbers), layout=layout)}
    return Call(HALVES.id, tensors, {"axis": 1} if numbers.ndim else {})


def test_each_call_of_a_cell_may_show_another_mistake() -> None:
    """A mistake gives infinities, NaN and zeros of the others, too, and those are not a part of its own."""
    rng = np.random.default_rng(7)
    special = rng.choice([np.inf, -np.inf, np.nan, 65504.0, -65504.0, 0.0, -0.0, 0.5, 1.5, -6e-5], 60)
    asked = [of_halves([-0.0]), of_halves(special, "strided"), of_halves((-1.5, 0.25, -0.0, 3.0))]
    unsigned = Stepwise(zero="unsigned")
    recipes = (recipe(WIDE), recipe(NO_GAPS, unsigned), unsigned)
    answers = {call.digest(): follows(HALVES, by)(call) for call, by in zip(asked, recipes, strict=True)}
    every = found(HALVES, lambda call: answers[call.digest()], asked)
    titles = [words(HALVES, asked[0], each) for each in every]
    assert titles == [
        "reads a scale of 16 bits as float32, past the end of its memory",
        "reads the parameters as if their memory were contiguous and gives 0 instead of -0",
        "gives 0 instead of -0",
    ]


@pytest.mark.parametrize(("first", "otherwise"), [(1, "gives 0 whatever the operands"), (-40, "")])
@pytest.mark.parametrize(("is_shown", "is_late"), [(True, False), (False, False), (True, True)])
def test_zeros_of_a_flushed_product_need_another_cell_that_shows_the_mistake(
    is_shown: bool, is_late: bool, first: int, otherwise: str
) -> None:
    """Two bytes of zeros behind a bfloat16 make a subnormal float32. To find the flush takes seconds."""
    edition = contracts.get("onednn/DynamicDequantize-1@3.7")
    flushing = follows(edition, recipe(WIDE, Stepwise(subnormals="flush-results")))

    def asked(x_dtype: str, first: int, scale: float, layout: str) -> Call:
        numbers = np.arange(first, first + 79)
        tensors = {"x": tensor(x_dtype, numbers[numbers != 0]), "scale": tensor("bfloat16", [scale])}
        return Call(edition.id, {**tensors, "scale": replace(tensors["scale"], layout=layout)}, {})

    dtype, other = ("uint8", "int8") if first > 0 else ("int8", "uint8")
    tally, small = Tally(), asked(dtype, first, 127.5, "strided")
    for call in (small, *(asked(other, 1, scale, "C") for scale in (2.0, 3.0, 5.0) if is_shown)):
        tally.observe(judge(edition, call), SUBJECT, flushing(call), True)
    assert set(flushing(small).tensor.codes.tolist()) <= {0, 1 << 15}
    tally.settle()
    listed = {cell.x_dtype: each for _, cell, _, each, _, _ in tally.violations(lambda: is_late)}
    title = words(edition, small, listed[dtype]) if listed[dtype].attribution else ""
    wide = "reads a scale of 16 bits as float32, past the end of its memory"
    assert title.startswith(wide) if is_shown and not is_late else title == otherwise


def with_zeros(number: int) -> Call:
    """A call of a cell: with odd numbers, a mistake of the channel changes zeros of one channel only."""
    rng = np.random.default_rng(number)
    x, scale = rng.integers(-100, 100, (30, 40)), rng.random(40) - 0.5
    if number % 2:
        x, scale = rng.integers(-3, 4, (30, 40)), np.repeat([-1.0, 2.0], 20)
        x[:, 19] = 0
    return Call(HALVES.id, {"x": tensor("int8", x), "scale": tensor("float32", scale)}, {"axis": 1})


def test_zeros_that_keep_their_sign_in_the_same_calls_refute_a_lost_sign() -> None:
    asked = [with_zeros(number) for number in range(8)]
    odd = {call.digest() for call in asked[1::2]}
    next_channel = follows(HALVES, recipe("channel-index-plus-one"))
    answer = either(lambda call: call.digest() in odd, next_channel, follows(HALVES, EXACT))
    (each,) = found(HALVES, answer, asked)
    assert each.attribution is not None
    assert each.attribution.reading == "channel-index-plus-one@exact"


@pytest.mark.parametrize("lost", [0.5, 1.0])
def test_some_lost_signs_are_no_rule_that_every_zero_loses_its_sign(lost: float) -> None:
    random_places = np.random.default_rng(5)

    def unsigned(call: Call, codes: Any) -> Any:
        return np.where((codes == 1 << 31) & (random_places.random(codes.shape) < lost), 0, codes)

    answer = either(
        lambda call: call.data.codes[0, 19] == 0, changed(follows(HALVES, EXACT), unsigned), follows(HALVES, EXACT)
    )
    (each,) = found(HALVES, answer, [with_zeros(number) for number in range(8)])
    assert each.attribution is not None
    assert each.attribution.reading == ("zero-unsigned" if lost == 1 else "zeros-of-the-wrong-sign")


def test_zeros_of_an_edition_that_divides_have_the_wrong_sign() -> None:
    """A quotient by infinity is zero, and a product with it is not."""
    edition = contracts.get("onednn/DynamicDequantize-1@divide")
    rng, asked = np.random.default_rng(4), []
    for _ in range(4):
        scale = np.where(np.arange(40) % 2, np.inf, rng.random(40) + 0.5)
        tensors = {"x": tensor("int8", rng.integers(-99, 0, (30, 40))), "scale": tensor("float32", scale)}
        asked.append(Call(edition.id, tensors, {"qtype": "per_channel", "axis": 1}))

    def some_positive(call: Call, codes: Any) -> Any:
        return np.where((codes == 1 << 31) & (rng.random(codes.shape) < 0.5), 0, codes)

    (each,) = found(edition, changed(follows(edition, EXACT_QUOTIENT), some_positive), asked)
    assert words(edition, asked[0], each) == "gives zeros of the wrong sign"


@pytest.mark.parametrize("is_shown", [True, False])
def test_lost_signs_of_a_small_cell_follow_the_mistake_of_the_other_cells(is_shown: bool) -> None:
    mistaken, rng, tally = follows(HALVES, recipe("as-per-tensor")), np.random.default_rng(0), Tally()

    def asked(dtype: str, x: Any, scale: Any) -> Call:
        return Call(HALVES.id, {"x": tensor(dtype, x), "scale": tensor("float32", scale)}, {"axis": x.ndim - 1})

    small = asked("int8", np.array([7, 0]), [2.0, -3.0])
    others = [asked("uint8", rng.integers(0, 255, (9, size)), rng.random(size) - 0.5) for size in (7, 11, 13)]
    for call in (small, *(others if is_shown else ())):
        tally.observe(judge(HALVES, call), SUBJECT, mistaken(call), True)
    readings = {cell.x_dtype: each.attribution for _, cell, _, each, _, _ in tally.violations()}
    assert readings["int8"] is not None
    assert readings["int8"].reading == ("as-per-tensor@exact" if is_shown else "zero-unsigned")


def test_a_clamp_is_named_beside_a_zero_scale() -> None:
    """A compiler may replace the product with a scale of 0 by this scale."""
    clamped = follows(HALVES, Stepwise(final="clamped"))
    folded = changed(
        clamped, lambda call, codes: np.broadcast_to(call.tensors["scale"].codes.reshape(1, -1), codes.shape)
    )
    asked = [of_halves([number], seed=seed) for seed, number in enumerate((900.0, 0.0, 2000.0, np.nan, -0.0, 3000.0))]
    every = found(HALVES, either(lambda call: call.tensors["scale"].codes[0] & 0x7FFF == 0, folded, clamped), asked)
    assert [words(HALVES, asked[0], each) for each in every] == [
        "takes the largest finite number for what overflows and for NaN",
        "gives a scale of zero itself, not its product with x",
    ]


@pytest.mark.parametrize("x", [np.arange(-128, 128), np.array([-1, 3])], ids=["all codes", "one wrong value"])
def test_a_scale_of_minus_zero_that_replaces_its_product_is_named(x: Any) -> None:
    """The other calls of the cell are right."""
    right = follows(HALVES, EXACT)
    folded = changed(right, lambda call, codes: np.full(codes.shape, 1 << 31, codes.dtype))

    def asked(numbers: Any, scale: float) -> Call:
        return Call(HALVES.id, {"x": tensor("int8", numbers), "scale": tensor("float32", scale)}, {})

    calls = [asked(x, -0.0), asked(np.arange(-128, 128), 0.5)]
    (each,) = found(HALVES, either(lambda call: call is calls[0], folded, right), calls)
    assert words(HALVES, calls[0], each) == "gives a scale of zero itself, not its product with x"


def test_a_range_formula_has_no_scale_that_could_be_zero() -> None:
    """A damaged report may say so."""
    edition = contracts.get("tensorflow/Dequantize@seed")
    ends = {"min_range": tensor("float32", -1.0), "max_range": tensor("float32", 1.0)}
    call = Call(edition.id, {"input": tensor("int8", [-3, 0, 4]), **ends}, {"mode": "SCALED"})
    right = codes_of(edition, call, edition.readings(call)[0])
    assert (codes_of(edition, call, named(edition, "zero-scale")) == right).all()


def test_zeros_whatever_the_operands_need_no_reading() -> None:
    """Where another build stands for the text, some calls have none."""
    edition, call = replace(HALVES, readings=lambda call: ()), of_halves([0.5])
    codes = codes_of(edition, call, named(edition, "zeros"))
    assert (codes.shape, codes.dtype, codes.any()) == (call.data.shape, np.uint16, False)


def test_operands_that_are_cast_by_their_last_bit_are_named_alone_and_in_a_graph() -> None:
    """A call in a graph shows it, too, if the graph is computed in bfloat16."""
    rng = np.random.default_rng(3)
    cast, asked = Stepwise("cast-last-bit"), []
    for size in (60, 90, 40):
        tensors = {"x": tensor("int16", rng.integers(-(2**15), 2**15, size)), "zero_point": tensor("int16", 23660)}
        tensors["scale"] = tensor("float32", rng.random() + 0.5)
        asked.append(Call(HALVES.id, tensors, {"output_dtype": "bfloat16"}))
    (each,) = found(HALVES, follows(HALVES, cast), asked)
    casts = "casts x and the zero point to bfloat16, never rounding up where the last kept bit is 0"
    assert words(HALVES, asked[0], each) == casts
    graph = replace(asked[0], attributes={}, around=("y>neg:0",))
    operands = HALVES.operands(graph)
    codes = Stepwise("cast-last-bit", precision="bfloat16").evaluate(operands) ^ np.uint32(1 << 31)
    by = explain_by_recipe(HALVES, graph, Tensor("float32", codes))
    assert by is not None
    listed = in_words(departures(by.recipe, HALVES.readings(graph), operands))
    assert listed == f"{casts} and rounds the product to bfloat16 first"
