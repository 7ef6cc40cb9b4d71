"""Attribution of a graph's wrong values to a rewrite, or to the operator itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from xverify import contracts
from xverify.core.call import Call, Tensor
from xverify.core.dtypes import integer_range, tensor, values
from xverify.core.rounding import cast_by_last_bit
from xverify.core.surroundings import surround
from xverify.verify.cause_keys import mistakes_of_rewrite
from xverify.verify.graph_values import Memo, graph_legal
from xverify.verify.legal import legal_set
from xverify.verify.rewrites import differs_where_wrong, explain, explanations, follows, gives, without_changes
from xverify.verify.rewritten_graphs import candidates, combined, evaluated

EDITION = contracts.get("ai.onnx/DequantizeLinear-21")

CODES = (0, 1, 3, 97, 98, 99, 100, 101, 103, 128, 150, 198, 200, 253, 254, 255)


def call(*around: str, scale: float = 0.5, codes: tuple[int, ...] = CODES) -> Call:
    x = np.array(codes, np.uint8).reshape(1, 1, 2, -1)
    tensors = {
        "x": Tensor("uint8", x),
        "scale": Tensor("float32", np.asarray(np.float32(scale)).view(np.uint32).reshape(())),
        "zero_point": Tensor("uint8", np.asarray(100, np.uint8)),
    }
    return Call(EDITION.id, tensors, {}, around=around)


def result(made: Call) -> Tensor:
    """A legal result of a call in its graph."""
    legal = graph_legal(EDITION, surround(made)) if made.around else legal_set(EDITION, made)
    return Tensor(legal.dtype, legal.distinct[0])


@pytest.mark.parametrize(
    ("whole", "rewritten", "words"),
    [
        (("y>relu:0",), (), "leaves out Relu"),
        (("y>pair:3", "y>relu:0"), ("y>relu:0",), "leaves out QuantizeLinear and DequantizeLinear"),
        (("y>pair:3", "y>pair:1"), ("y>pair:1",), "leaves out QuantizeLinear and DequantizeLinear"),
        (("y>quantize:3",), ("y>quantize:0",), "leaves out DequantizeLinear and QuantizeLinear"),
        (("y>relu:0", "y>quantize:3"), ("y>relu:0", "y>quantize:0"),
         "takes the scale of an earlier operator for QuantizeLinear"),
    ],
)  # fmt: skip
def test_a_rewrite_is_named(whole: tuple[str, ...], rewritten: tuple[str, ...], words: str) -> None:
    made, got = call(*whole), result(call(*rewritten))
    rewrite = explain(EDITION, made, got)
    assert rewrite is not None
    assert rewrite.words == words
    assert gives(EDITION, made, got, rewrite.name) == rewrite
    assert gives(EDITION, made, result(made), rewrite.name) is None


def test_a_maximum_of_codes_is_wrong_with_a_negative_scale() -> None:
    made = call("y>maxpool:1", scale=-0.5, codes=(0, 3, 100, 101, 128, 200, 254, 255))
    codes = made.tensors["x"].codes.reshape(2, 2, 2).max((0, 2))
    got = np.asarray((codes.astype(np.float32) - 100) * np.float32(-0.5)).reshape(1, 1, 1, 2)
    rewrite = explain(EDITION, made, Tensor("float32", got.view(np.uint32)))
    assert rewrite is not None
    assert rewrite.words == "takes the maximum of codes instead of values"


def test_only_the_named_rewrites_are_tried() -> None:
    made, got = call("y>pair:3", "y>relu:0"), result(call("y>relu:0"))
    every = explanations(EDITION, made, got)
    assert every
    names = {each.rewrite.name for each in every}
    assert explanations(EDITION, made, got, names) == every
    assert explain(EDITION, made, got, among=names) == every[0].rewrite
    assert explanations(EDITION, made, got, {"graph:zeros:Relu"}) == []


def test_values_that_no_rewrite_gives_stay_unexplained() -> None:
    made = call("y>relu:0")
    assert explain(EDITION, made, Tensor("float32", result(made).codes + np.uint32(1))) is None


def test_a_graph_follows_from_the_wrong_result_of_its_operator() -> None:
    made = call("y>transpose:0", "y>relu:0")
    assert without_changes(made).around == ("y>transpose:0",)
    wrong = result(replace(made, around=()))
    wrong = Tensor(wrong.dtype, wrong.codes + np.uint32(1))
    numbers = np.maximum(wrong.codes.view(np.float32), 0)
    got = Tensor("float32", np.ascontiguousarray(np.transpose(numbers)).view(np.uint32))
    shape = surround(made).shape
    assert follows(EDITION, made, Tensor("float32", got.codes.reshape(shape)), wrong)
    assert not follows(EDITION, made, result(made), wrong)


def test_a_quantization_that_truncates_is_named() -> None:
    made = call("y>quantize:3")
    quotients = (made.tensors["x"].codes.astype(np.float64) - 100) * 0.5 / 1.5
    got = Tensor("uint8", np.clip(np.trunc(quotients) + 100, 0, 255).astype(np.uint8))
    rewrite = explain(EDITION, made, got)
    assert rewrite is not None
    assert rewrite.words == "truncates in QuantizeLinear"


def test_an_added_pair_is_named() -> None:
    made = call("y>neg:0")
    numbers = np.clip((made.tensors["x"].codes.astype(np.float32) - 100) * np.float32(0.5) / np.float32(0.5), 0, 255)
    got = Tensor("float32", np.asarray(-(numbers * np.float32(0.5))).astype(np.float32).view(np.uint32))
    rewrite = explain(EDITION, made, got)
    assert rewrite is not None
    assert rewrite.words == "quantizes the result again to uint8 without a zero point"


def explained(made: Call, dtype: str, numbers: np.ndarray, likely: tuple[str, ...] = ()) -> str:
    """The words of the rewrite that explains numbers as a graph's result."""
    shape = surround(made).shape
    rewrite = explain(EDITION, made, tensor(dtype, np.asarray(numbers).reshape(shape)), likely)
    return "" if rewrite is None else rewrite.words


def dequantized(scale: float) -> np.ndarray:
    return np.asarray((np.float32(CODES) - np.float32(100)) * np.float32(scale))


@pytest.mark.parametrize(
    ("around", "factor", "scale", "dtype"),
    [(("y>scale:5", "y>quantize:0"), -2, -0.3, "uint8"), (("y>pair:0",), 1, 0.3, "float32")],
)
def test_fake_quantize_is_named(around: tuple[str, ...], factor: int, scale: float, dtype: str) -> None:
    """A negative scale makes it saturate at the wrong ends. With a pair it differs in the last places."""
    y = dequantized(scale) * np.float32(factor)
    low, high = (np.float32(scale) * np.float32(end - 100) for end in (0, 255))
    first, last = (np.float32(0), np.float32(255)) if dtype == "uint8" else (low, high)
    steps = np.rint((y - low) / (high - low) * np.float32(255)) / np.float32(255)
    got = np.where(y <= min(low, high), first, np.where(y > max(low, high), last, steps * (last - first) + first))
    words = "computes QuantizeLinear from the ends of its range, as FakeQuantize does"
    assert explained(call(*around, scale=scale), dtype, got) == words


def test_a_fused_multiply_add_is_seen_through_other_operators() -> None:
    made, scale = call("y>scale:1", scale=0.3), np.float32(0.3)
    fused = np.float32(np.float64(CODES) * np.float64(scale) - np.float64(np.float32(100) * scale))
    words = "computes x * scale - zero point * scale by a fused multiply-add"
    assert explained(made, "float32", fused * np.float32(0.5)) == words


def test_fake_quantize_of_an_empty_range_gives_the_lowest_code() -> None:
    """With a negative scale, the range of its kernel for constant parameters is empty."""
    made = call("y>relu:0", "y>quantize:0", scale=-0.3)
    words = "computes QuantizeLinear from the ends of its range, as FakeQuantize does"
    assert explained(made, "uint8", np.zeros(len(CODES))) == words


def test_fake_quantize_with_constant_parameters_multiplies_and_shifts() -> None:
    """At ties of the quotient, it gives other codes than a division."""
    codes = np.arange(1, 256, 2, dtype=np.uint8)
    made, scale = call("y>scale:1", "y>quantize:0", scale=0.3, codes=tuple(codes)), np.float32(0.3)
    low = np.float32(-100) * scale
    factor = np.float32(255) / np.float32(np.float32(155) * scale - low)
    y = (np.float32(codes) - np.float32(100)) * scale * np.float32(0.5)
    words = "computes QuantizeLinear from the ends of its range, as FakeQuantize does"
    assert explained(made, "uint8", np.rint(y * factor + -low * factor)) == words


def test_the_merged_pair_of_two_has_the_range_of_both() -> None:
    """The first pair has the zero point 0 and the second 100, both with the scale 0.5."""
    made = call("y>pair:20", "y>pair:0")
    scale = np.float32(np.float32(155 * 0.5) / np.float32(255))
    codes = np.clip(np.rint(dequantized(0.5) / scale), 0, 255)
    words = "merges two pairs of QuantizeLinear and DequantizeLinear into one with another scale"
    assert explained(made, "float32", np.float32(codes) * scale) == words


def test_a_maximum_of_codes_before_a_later_quantization() -> None:
    made = call("y>maxpool:1", "y>quantize:4")
    codes = np.clip(np.rint(dequantized(0.5) / np.float32(-0.5)) + 100, 0, 255).reshape(2, -1, 2)
    assert explained(made, "uint8", codes.max((0, 2))) == "takes the maximum of codes instead of values"


def test_one_wrong_value_explains_nothing_unless_another_graph_does() -> None:
    made = call("y>relu:0", codes=(99, 101, 120, 130, 140, 150, 160, 200))
    got = (np.float32(made.tensors["x"].codes) - 100) * np.float32(0.5)
    assert explained(made, "float32", got) == ""
    assert explained(made, "float32", got, ("graph:without:Relu",)) == "leaves out Relu"


@pytest.mark.parametrize("words", ["rounds half up", "truncates"])
def test_quantization_that_rounds_in_another_way_is_named(words: str) -> None:
    made = call("y>scale:1", "y>quantize:0")
    quotient = (np.float64(CODES) - 100) / 2
    codes = np.floor(quotient + 0.5) if words == "rounds half up" else np.trunc(quotient)
    assert explained(made, "uint8", np.clip(codes + 100, 0, 255)) == f"{words} in QuantizeLinear"


@pytest.mark.parametrize("last", ["y>quantize:0", "y>pair:0"])
def test_a_zero_point_that_is_added_before_the_rounding_is_named(last: str) -> None:
    """Quotients a little below a half are a half after the sum in float32."""
    scale = np.float32(0.3)
    made = call("y>scale:1", last, scale=0.3, codes=tuple(range(256)))
    quotient = (np.float32(range(256)) - np.float32(100)) * scale * np.float32(0.5) / scale
    codes = np.clip(np.floor(np.float32(quotient + np.float32(100)) + np.float32(0.5)), 0, 255)
    is_pair = last == "y>pair:0"
    got = (np.float32(codes) - np.float32(100)) * scale if is_pair else codes
    words = explained(made, "float32" if is_pair else "uint8", got)
    assert words == "rounds half up after it adds the zero point in QuantizeLinear"


def zeros(*around: str, scale: float, sign: int) -> tuple[Call, Tensor]:
    """A call with zeros only, and its result with another sign."""
    made = call(*around, scale=scale, codes=(100, 100, 100, 100))
    due = result(made)
    assert set(np.unique(due.codes)) == {(1 - sign) << 31}
    return made, Tensor(due.dtype, np.full_like(due.codes, sign << 31))


def blamed(made: Call, got: Tensor, *likely: str) -> str:
    rewrite = explain(EDITION, made, got, likely)
    return "" if rewrite is None else rewrite.words


def test_the_wrong_sign_of_a_zero_is_named() -> None:
    assert blamed(*zeros("y>scale:5", scale=0.5, sign=0)) == "gives 0 instead of -0 in Mul"
    assert blamed(*zeros("y>scale:0", scale=0.5, sign=1)) == "gives -0 instead of 0 in Mul"
    made, got = zeros("y>wider:0", scale=0.5, sign=1)
    signs = np.asarray(got.codes & np.arange(4, dtype=np.uint32).reshape(got.shape) % 2 << 31)
    assert blamed(made, Tensor(got.dtype, signs)) == "gives -0 instead of 0 in Cast"
    tensors = {"x": tensor("int8", [[0, 0]]), "scale": tensor("float32", [0.5, -0.5])}
    both = Call(EDITION.id, tensors, {"axis": 1}, around=("y>wider:0",))
    assert blamed(both, Tensor("float32", result(both).codes ^ np.uint32(1 << 31))) == (
        "gives zeros of the wrong sign in Cast"
    )


def test_only_a_graph_of_one_operator_blames_it_alone_for_a_zero() -> None:
    made, got = zeros("y>abs:0", "y>scale:0", scale=-0.5, sign=1)
    assert blamed(made, got) == "gives -0 instead of 0 in Abs and Mul"
    assert blamed(made, got, "graph:zero-gained:Mul") == "gives -0 instead of 0 in Mul"
    every = {each.rewrite.name: each.is_strong for each in explanations(EDITION, made, got)}
    assert not every["graph:zero-gained:Mul"]
    assert every["graph:zero-gained:Abs+Mul"]


def test_a_pair_is_added_around_a_subnormal_scale_too() -> None:
    """The scale is -3 times the smallest number, so that a negative x becomes -0."""
    x = tensor("int8", (-1, -2, -3, -100, 5, 6, 7, 8))
    scale = Tensor("float32", np.asarray((1 << 31) + 3, np.uint32))
    made = Call(EDITION.id, {"x": x, "scale": scale}, {}, around=("y>slice:0",))
    codes = np.clip(values("int8", x.codes), 0, None).astype(np.uint32) * 3 + (1 << 31)
    rewrite = explain(EDITION, made, Tensor("float32", codes.astype(np.uint32)))
    assert rewrite is not None
    assert rewrite.words == "quantizes the result again to uint8 without a zero point"


def test_a_pair_is_added_around_an_infinite_scale_too() -> None:
    """The quotient of two infinities becomes 0, and the product with the scale NaN."""
    x, scale = tensor("int8", (1, -39)), tensor("float32", np.inf)
    made = Call(EDITION.id, {"x": x, "scale": scale}, {}, around=("y>unsqueeze:0",))
    got = tensor("float32", (np.nan, np.nan))
    assert explain(EDITION, made, got) is None
    rewrite = explain(EDITION, made, got, ("graph:quantizes-again:uint8",))
    assert rewrite is not None
    assert explain(EDITION, made, tensor("float32", (2.0, np.nan)), ("graph:quantizes-again:uint8",)) is None


def of_types(dtype: str, numbers: object, scale_dtype: str, scale: float, *around: str, **more: Tensor) -> Call:
    tensors = {"x": tensor(dtype, numbers), "scale": tensor(scale_dtype, scale), **more}
    return Call(EDITION.id, tensors, {}, around=around)


def test_a_quotient_beyond_int32_becomes_the_lowest_code() -> None:
    """In float32, 2147483647 is 2 ** 31. On x86, the cast to int32 then gives the lowest int32."""
    made = of_types("int32", (2147483647, 2147483000, -2147483648, 5, 300), "float32", 0.5, "y>quantize:0")
    assert (
        explained(made, "uint8", (0, 255, 0, 5, 255))
        == "casts the quotient to int32 before it saturates in QuantizeLinear"
    )
    assert explained(made, "uint8", (255, 255, 0, 5, 255)) == ""


def test_a_zero_point_that_is_added_in_float16_is_named() -> None:
    """A float16 holds every integer up to 2048, and then every second one."""
    codes = (4097, 2051, 2055, 2059, 2063, 7)
    zero_point = tensor("int16", 1)
    made = of_types("int16", codes, "float16", 0.5, "y>quantize:0", zero_point=zero_point)
    rounded = [int(np.float16(np.float16(code - 1) + np.float16(1))) for code in codes]
    assert rounded != list(codes)
    assert explained(made, "int16", rounded) == "adds the zero point in the type of its operand in QuantizeLinear"


def test_zeros_before_an_operator_that_changes_values_are_named() -> None:
    made = of_types("uint8", (2, 9, 11, 40, 3, 5, 7, 8), "float32", 0.5, "y>split:0", "y>quantize:0")
    made = replace(made, tensors={**made.tensors, "zero_point": tensor("uint8", 1)})
    assert explained(made, "uint8", (1, 1, 1, 1)) == "gives 0 to QuantizeLinear whatever the operands"
    assert explained(made, "uint8", (1, 1, 1, 40)) == ""


@pytest.mark.parametrize("pairs", [False, True])
def test_a_plugin_that_computes_in_float32_throughout_is_named(pairs: bool) -> None:
    """FakeQuantize gets the product before it is rounded. At the end, half of the last kept bit decides."""
    numbers, scale = np.arange(-32768, 32768, 257), np.float32(-0.30078125)
    made = of_types("int16", numbers, "bfloat16", float(scale), "y>pair:0" if pairs else "y>quantize:0")
    quantizing = next(node for node in surround(made).nodes if node.operator == "QuantizeLinear")
    tensors = {**surround(made).constants, **made.tensors}
    step, zero = (np.float32(values(t.dtype, t.codes)) for t in (tensors[name] for name in quantizing.inputs[1:]))
    lowest, highest = integer_range(tensors[quantizing.inputs[2]].dtype)
    low, high = (step * (np.float32(end) - zero) for end in (lowest, highest))
    out_low, out_high = (low, high) if pairs else (np.float32(lowest), np.float32(highest))
    y, steps = np.float32(numbers) * scale, np.float32(highest - lowest)
    inside = np.rint((y - low) / (high - low) * steps) / steps * (out_high - out_low) + out_low
    got = np.where(y <= min(low, high), out_low, np.where(y > max(low, high), out_high, inside))
    words = (
        "does not round the result to its type before it goes on and computes QuantizeLinear from the ends of its range"
    )
    dtype = tensors[quantizing.inputs[2]].dtype
    shown = Tensor("bfloat16", cast_by_last_bit(np.float64(got))) if pairs else tensor(dtype, got)
    rewrite = explain(EDITION, made, shown)
    assert rewrite is not None
    assert rewrite.words.startswith(words)
    assert mistakes_of_rewrite(rewrite.name) == [
        "graph:unrounded", "graph:fake-quantize", *(["cast:last-bit"] if pairs else []),
    ]  # fmt: skip


def test_a_float8_quotient_that_was_a_float16_is_named() -> None:
    zero_point, scale = tensor("float8_e4m3fn", -14.0), np.float32(0.42293364)
    x = tensor("float8_e4m3fn", np.arange(-60, 61))
    made = of_types("float8_e4m3fn", np.arange(-60, 61), "float32", float(scale), "y>quantize:0", zero_point=zero_point)
    y = np.float32(values("float8_e4m3fn", x.codes) + 14) * scale
    halves = np.float64(np.float16(y / scale))
    rewrite = explain(EDITION, made, tensor("float8_e4m3fn", halves))
    assert rewrite is not None
    assert mistakes_of_rewrite(rewrite.name) == [
        "graph:no-zero-point:QuantizeLinear", "graph:quantize-rounds-the-quotient-to-float16-before-the-cast",
    ]  # fmt: skip


def test_fake_quantize_without_a_zero_point_saturates_at_the_wrong_end() -> None:
    made = of_types("uint8", (0, 1, 254, 255), "float32", -4.0, "y>quantize:0")
    bare = Call(
        EDITION.id, {role: t for role, t in made.tensors.items() if role != "zero_point"}, {}, around=made.around
    )
    words = "computes QuantizeLinear from the ends of its range, as FakeQuantize does"
    assert explained(bare, "uint8", (0, 1, 254, 0), ("graph:fake-quantize",)) == words


def test_a_graph_that_is_wrong_where_its_operator_is_blames_nobody_else() -> None:
    made = call("y>relu:0")
    lone = result(replace(made, around=()))
    wrong = np.arange(lone.size).reshape(lone.shape) % 3 == 0
    odd, due = Tensor(lone.dtype, lone.codes + wrong.astype(np.uint32)), result(made)
    noise = np.where(wrong, np.uint32(0x7F000000), due.codes)
    assert differs_where_wrong(EDITION, made, Tensor(due.dtype, noise), odd, wrong)
    assert not follows(EDITION, made, Tensor(due.dtype, noise), odd)
    assert not differs_where_wrong(EDITION, made, Tensor(due.dtype, noise + np.uint32(1)), odd, wrong)


def test_a_pair_before_another_operator_is_computed_as_fake_quantize() -> None:
    """The call's own operator is the second of the pair, so that x is no tensor of the rewritten graph."""
    made = of_types("uint8", np.arange(256), "float32", 0.78, "x<quantize:0", "y>neg:0")
    made = replace(made, tensors={**made.tensors, "zero_point": tensor("uint8", 34)})
    operand = surround(made).inputs["x_1"]
    low, high = (np.float32(0.78) * np.float32(end - 34) for end in (0, 255))
    y, steps = np.float32(values(operand.dtype, operand.codes)), np.float32(255)
    result = np.rint((y - low) / (high - low) * steps) / steps * (high - low) + low
    result = np.where(y <= low, low, np.where(y > high, high, result))
    words = "computes QuantizeLinear from the ends of its range, as FakeQuantize does"
    assert explained(made, "float32", -result) == words
    assert explained(made, "float32", -np.nextafter(result, np.float32(np.inf))) == ""
    both = [each.rewrite.name for each in candidates(surround(made)) if "expanded:fake-quantize" in each.rewrite.name]
    assert both == [], "the expanded operator would be left out of the graph again"


def test_an_unrounded_result_of_a_scale_that_the_text_casts_is_named() -> None:
    """The edition admits that the scale is cast to output_dtype, and no product that is not."""
    edition, scale, numbers = contracts.get("ai.onnx/DequantizeLinear-24"), np.float16(0.02046), np.arange(8, 256)
    made = of_types("uint8", numbers, "float16", float(scale), "y>quantize:2040")
    made = replace(made, contract=edition.id, attributes={"output_dtype": "bfloat16"})
    constants, quantizing = surround(made).constants, surround(made).nodes[-1]
    step, zero = (np.float32(values(t.dtype, t.codes)) for t in map(constants.__getitem__, quantizing.inputs[1:]))
    cast = np.float32(values("bfloat16", tensor("bfloat16", scale).codes))
    codes = np.clip(np.rint(np.float32(numbers) * cast / step) + zero, 0, 255)
    rewrite = explain(edition, made, tensor("uint8", codes))
    assert rewrite is not None
    assert rewrite.words == "does not round the result to its type before it goes on"
    assert explain(edition, made, tensor("uint8", codes + (numbers == 20))) is None


def test_two_added_pairs_that_truncate_are_named() -> None:
    """One stands before the other operator, one after it. Some quotients are just below whole numbers."""
    numbers, scale = np.arange(-20, 80), np.float16(0.1)
    made = of_types("int8", numbers, "float16", float(scale), "y>maxpool:3")
    once, twice = [np.float16(np.float32(numbers) * np.float32(scale))], []
    for results in (once, twice):
        codes = np.trunc(np.maximum(np.float32(once[-1]), 0) / np.float32(scale))
        results.append(np.float16(codes * np.float32(scale)))
    words = "quantizes the result again to uint8 without a zero point and truncates in QuantizeLinear"
    assert explained(made, "float16", twice[0]) == words
    assert (once[1] != twice[0]).any()


@pytest.mark.parametrize("edition", ["ai.onnx/DequantizeLinear-21", "ai.onnx/DequantizeLinear-10"])
@pytest.mark.parametrize(("around", "end"), [("y>clip:2", "min"), ("y>clip:3", "max")])
def test_an_absent_bound_that_is_taken_as_zero_is_named(edition: str, around: str, end: str) -> None:
    """The bound that is there is the median. Bounds are inputs from version 11 on."""
    numbers = np.arange(3, 40) if end == "min" else -np.arange(3, 40)
    made = replace(of_types("int8", numbers, "float32", 0.5, around), contract=edition)
    bound = np.float32(np.median(numbers)) * np.float32(0.5)
    got = np.zeros(37) if end == "min" else np.full(37, bound)
    rewrite = explain(contracts.get(edition), made, tensor("float32", got))
    assert rewrite is not None
    assert rewrite.words == "takes 0 for the absent bound of Clip"


@pytest.mark.parametrize("number", [0, 1])
def test_an_operand_of_a_product_that_becomes_int8_is_named(number: int) -> None:
    """The 1 beside 256 is 0 then, and shows where the weight times 256 is 0."""
    x = np.random.default_rng(3).integers(-8, 8, (32, 32))
    made = of_types("int4", x, "float32", 0.5, f"y>matmul:{number}")
    inputs = surround(made).inputs.values()
    (matrix,) = (
        values(each.dtype, each.codes) for each in inputs if each.shape == (32, 32) and each.dtype == "float32"
    )
    step = np.abs(matrix).max(1 - number, keepdims=True) / 127
    operand = np.rint(matrix / step) * step
    assert (operand == 0).sum() == (matrix == 0).sum() + 16
    codes = np.clip(np.rint(operand @ x if number == 0 else x @ operand), -8, 7)
    words = "quantizes the other operand of MatMul to int8"
    assert explained(made, "int4", codes) == words
    x = np.where(x == 0, 1, x)
    x[1 if number == 0 else 3, 3 if number == 0 else 1] = 0  # one element of a wide product shows it
    made = of_types("int4", x, "float32", 0.5, f"y>matmul:{number}")
    codes = np.clip(np.rint(operand @ x if number == 0 else x @ operand), -8, 7)
    assert explained(made, "int4", codes) == words


@pytest.mark.parametrize(
    "around", [("y>pair:3", "y>relu:0"), ("x<quantize:0", "y>neg:0"), ("shared:1", "y>clip:1", "y>quantize:3")]
)
def test_graphs_that_share_results_have_the_same_values_as_alone(around: tuple[str, ...]) -> None:
    singles = list(candidates(surround(call(*around))))
    shared, made = Memo(), 0
    for candidate in (*singles, *combined(singles)):
        together, alone = (evaluated(EDITION, candidate, "float32", memo) for memo in (shared, Memo()))
        assert (together is None) == (alone is None), candidate.rewrite.name
        if together is not None and alone is not None:
            made += 1
            assert together.dtype == alone.dtype
            np.testing.assert_array_equal(together.codes, alone.codes)
            np.testing.assert_array_equal(together.open, alone.open)
    assert made > 10
