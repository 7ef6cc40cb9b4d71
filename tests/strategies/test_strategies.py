"""The coverage walk and the strategies: coverage, valid calls, and calls with one broken clause."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import islice, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from walked_calls import EDITIONS, EVERY, every_nth, forgotten, walked  # noqa: F401

from xverify import contracts, strategies
from xverify.contracts.model import Contract
from xverify.core.call import BITS, LAYOUTS, Call
from xverify.core.dtypes import INTEGERS, MANTISSA_BITS, integers, values
from xverify.engine.plan import batches
from xverify.strategies import breakable, build, calls, invalid_calls, openable, simplest, unspecified_calls
from xverify.strategies.layouts import layout_calls
from xverify.strategies.structures import Range
from xverify.strategies.walk import (
    axes,
    cell_structures,
    exponent_structures,
    scale_outputs,
    special_structures,
    zero_point_choices,
)
from xverify.verify.legal import legal_set

# -- the walk ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("identity", EDITIONS)
def test_every_call_of_the_walk_is_allowed(identity: str) -> None:
    contract = contracts.get(identity)
    judged = [(call.origin, contract.judge(call)) for call in walked(identity)]
    # Some values of scales and groups of one element are in the walk of every edition. A sweep repairs such calls.
    left_open = {(f"{identity}/{name}",) for name in ("scale-value", "block-size-1")}
    judged = [entry for entry in judged if entry[1].clauses not in left_open]
    assert [entry for entry in judged if entry[1].verdict != "allowed"] == []
    assert len(judged) > 70


def test_the_walk_of_a_sweep_has_the_official_cases_early() -> None:
    """They are in its second batch. Each origin names its case."""
    contract = contracts.get("ai.onnx/DequantizeLinear-25")
    cases = contract.official_cases()
    early = [
        case for batch in islice(batches(contract, 1), 2) for case in batch if case.call.origin.startswith("official")
    ]
    assert [case.call for case in early] == list(strategies.official_calls(contract)) == [case.call for case in cases]
    assert {case.phase for case in early} == {"walk"}
    assert [case.call.origin for case in early] == [f"official: {case.name}" for case in cases]


def cells_by_hand(contract: Contract) -> set[tuple[str, ...]]:
    """Every cell of a domain: types of x, scale, zero point and output, granularity, variant."""
    d = contract.domain
    if d.family == "range":
        narrow = ("", " narrow") if "narrow_range" in d.attributes else ("",)
        rows = product(d.x_dtypes, d.output_dtypes, d.modes, narrow)
        return {
            (x, "float32", "", out, "per_tensor", mode + n)
            for x, out, mode, n in rows
            if out != "bfloat16" or mode == "MIN_COMBINED"
        }
    cells = set()
    for x, scale, granularity in product(d.x_dtypes, d.scale_dtypes, d.granularities):
        zero_points = {"int8", "uint8", "int32"} if contract.id.startswith("onednn") else {x}
        if contract.id == "onednn/DynamicDequantize-1@3.7" and x in ("int4", "uint4"):
            zero_points = {"int4", "uint4", "int32"}
        if contract.id.startswith(("pytorch", "torchao")) and x.startswith("float8"):
            zero_points = {"int8"}
        if contract.id.startswith("onednn/Dequantize-1"):
            zero_points = set() if x.startswith("float8") else {"int32"}
        outputs = set(d.output_dtypes) if "output_dtype" in d.attributes else {scale}
        required = (
            "com.microsoft/DequantizeLinear-1@seed", "onednn/Dequantize-1@3.0", "pytorch/dequantize_per_tensor@2.13",
            "pytorch/Tensor.dequantize@2.13",
        )  # fmt: skip
        absent = set() if contract.id in required else {""}
        cells |= {(x, scale, z, out, granularity, "") for z, out in product(zero_points | absent, outputs)}
    return cells


@pytest.mark.parametrize("identity", EDITIONS)
def test_the_first_lap_meets_every_cell(identity: str) -> None:
    contract = contracts.get(identity)
    lap = [call for call in walked(identity) if call.origin.startswith("walk cell")]
    met = [contract.cell(call) for call in lap]
    key = [(c.x_dtype, c.scale_dtype, c.zero_point_dtype, c.out_dtype, c.granularity, c.variant) for c in met]
    want = cells_by_hand(contract)
    assert set(key) == want, f"missing {want - set(key)}, beside {set(key) - want}"
    # A cell may be met twice only where an attribute may be given or left to its default.
    assert len(key) <= 4 * len(want)
    assert len(lap) == len(list(cell_structures(contract)))


@pytest.mark.parametrize("identity", EDITIONS)
def test_every_code_with_every_granularity(identity: str) -> None:
    contract = contracts.get(identity)
    met: dict[tuple[str, str], set[int]] = defaultdict(set)
    for call in walked(identity):
        met[call.data.dtype, contract.cell(call).granularity] |= set(
            np.unique(call.data.codes[call.data.codes < 256]).tolist()
        )
    linear = contract.domain.family == "linear"
    granularities = contract.domain.granularities if linear else ("per_tensor",)
    for dtype, granularity in product(contract.domain.x_dtypes, granularities):
        if BITS[dtype] <= 8:
            missing = set(range(1 << BITS[dtype])) - met[dtype, granularity]
            assert not missing, f"{dtype} {granularity}: {sorted(missing)[:5]}"


@pytest.mark.parametrize("identity", EDITIONS)
def test_shapes_of_the_walk(identity: str) -> None:
    """Ranks 0 to 6, empty tensors, extents of 1, tails near vector widths, and layouts."""
    contract = contracts.get(identity)
    shapes, layouts = set(), defaultdict(set)
    linear = contract.domain.family == "linear"
    for call in walked(identity):
        shapes.add(call.data.shape)
    for call in (*walked(identity), *layout_calls(contract)):
        layouts[call.data.dtype].add(call.data.layout)
    extents = {extent for shape in shapes for extent in shape}
    ranks = contract.domain.ranks or range(0 if "per_tensor" in contract.domain.granularities or not linear else 1, 7)
    assert {len(shape) for shape in shapes} == set(ranks)
    assert any(0 in shape for shape in shapes if len(shape) > 1)
    assert {shape for shape in ((), (0,), (1,), (1, 1)) if len(shape) in ranks} <= shapes
    tails = {width + step for width in (16, 32, 64, 256) for step in (-1, 0, 1)}
    assert tails <= extents, f"missing {tails - extents}"
    for dtype in contract.domain.x_dtypes:
        assert layouts[dtype] == set(LAYOUTS), f"{dtype}: {layouts[dtype]}"


@pytest.mark.parametrize("identity", [i for i in EDITIONS if "blocked" in contracts.get(i).domain.granularities])
def test_blocks_of_the_walk(identity: str) -> None:
    """Blocks with and without a remainder, of one value, of the whole axis and longer, on all axes."""
    domain, kinds, places = contracts.get(identity).domain, set(), set()
    for call in walked(identity):
        block, shape = int(call.attributes.get("block_size", 0)), call.data.shape
        if block:
            axis = int(call.attributes.get("axis", 1))
            extent = shape[axis]
            kinds.add(
                "past"
                if block > extent
                else "all"
                if block == extent
                else "remainder"
                if extent % block
                else "dividing"
            )
            kinds |= {"one"} if block == 1 else set()
            places.add((len(shape), axis if "axis" in call.attributes else None))
    assert kinds == {"all", "dividing", "one"} | (set() if domain.whole_blocks else {"past", "remainder"})
    has_axis, front_only = "axis" in domain.attributes, domain.default_axis is None
    from_back = set() if front_only else {(2, -1), (2, None), (4, -4)}
    assert ({(2, 0), (6, 5)} | from_back if has_axis else {(2, None)}) <= places


@pytest.mark.parametrize("identity", EDITIONS)
def test_values_of_the_walk(identity: str) -> None:
    """Zero, subnormal, infinite, NaN and negative scales, extreme zero points, and all kinds of ranges."""
    contract = contracts.get(identity)
    seen: dict[str, set[int]] = defaultdict(set)
    for call in walked(identity):
        for role, t in call.tensors.items():
            if role not in ("x", "input") and t.dtype in ("float32", "int8", "int32"):
                seen[role + t.dtype] |= set(np.unique(t.codes).tolist())
    if contract.domain.family == "range":
        assert {0, 0x80000000} & seen["min_rangefloat32"]
        assert min(seen["max_rangefloat32"]) < 0x00800000, "a subnormal or zero end"
        assert max(seen["max_rangefloat32"]) >= 0x79000000, "a huge end"
        return
    scales = seen["scalefloat32"]
    kinds = {
        "zero": 0 in scales,
        "minus zero": 0x80000000 in scales,
        "subnormal": any(0 < code < 0x00800000 for code in scales),
        "smallest normal": 0x00800000 in scales,
        "infinity": 0x7F800000 in scales,
        "NaN": any(0x7F800000 < code <= 0x7FFFFFFF for code in scales),
        "negative": any(0x80800000 <= code < 0xFF800000 for code in scales),
        "power of two": any(code % 0x800000 == 0 and 0x30000000 < code < 0x50000000 for code in scales),
        "beside a power of two": any(code & 0x7FFFFF in (1, 0x7FFFFF) for code in scales),
        "largest": 0x7F7FFFFF in scales,
    }
    assert [name for name, met in kinds.items() if not met] == []
    if identity.startswith(
        "onednn/Dequantize-1"
    ):  # its zero points are wider than x, and differences stay inside int32
        numbers = np.array(list(seen["zero_pointint32"]), np.uint32).view(np.int32).astype(np.int64)
        assert numbers.min() < -(2**30) < 2**30 < numbers.max()
        assert np.sum(np.abs(numbers) <= 300) > 100
        return
    assert {0x80, 0x7F, 0x00} <= seen["zero_pointint8"]


@pytest.mark.parametrize("identity", EDITIONS)
def test_the_walk_is_deterministic(identity: str) -> None:
    walks = walked(identity)[::7], every_nth(identity, 7)
    once, again = ([call.digest() for call in calls if call.values < 5000] for calls in walks)
    assert once == again
    assert len(set(once)) > len(once) * 0.9


@pytest.mark.parametrize("identity", EDITIONS)
def test_the_simplest_call_of_each_cell_is_in_it(identity: str) -> None:
    contract = contracts.get(identity)
    for cell in {contract.cell(call) for call in walked(identity)[::5]}:
        call = simplest(contract, cell)
        assert contract.judge(call).verdict == "allowed", cell
        assert contract.cell(call) == cell
        assert call.values == 2


def test_parts_of_the_walk() -> None:
    newest = contracts.get("ai.onnx/DequantizeLinear-25").domain
    assert ("float8_e8m0fnu", "") not in scale_outputs(newest)
    assert ("float8_e8m0fnu", "float16") in scale_outputs(newest)
    assert zero_point_choices(contracts.get("com.microsoft/DequantizeLinear-1@seed").domain, "int8") == ("int8",)
    assert set(axes(newest, "per_axis", (2, 0, 4))) == {None, 0, 1, 2, -1, -2, -3}
    assert None not in axes(newest, "per_axis", (5,)), "the default axis of 1 is out of range"
    assert set(axes(newest, "blocked", (2, 0, 4))) == {0, 2, -1, -3}, "blocks of an empty axis are left open"


@pytest.mark.parametrize("identity", ["ai.onnx/DequantizeLinear-21", "onednn/DynamicDequantize-1@3.7"])
def test_every_exponent_of_a_scale_meets_every_code(identity: str) -> None:
    """That holds for scales per row and per column. 8-bit floats have no zero point there."""
    contract = contracts.get(identity)
    met: dict[tuple[str, str, bool], set[int]] = defaultdict(set)
    for structure in exponent_structures(contract):
        call = build(contract, structure)
        assert contract.judge(call).verdict == "allowed"
        x, scale = call.tensors["x"], call.tensors["scale"]
        axis, block = int(call.attributes.get("axis", 1)), int(call.attributes.get("block_size", 0))
        of_each = scale.codes.repeat(block, axis=1) if block else np.expand_dims(scale.codes, 1 - axis)
        bits = BITS[scale.dtype] - 1
        exponents = (of_each.astype(np.int64) & (1 << bits) - 1) >> MANTISSA_BITS[scale.dtype]
        if x.dtype in INTEGERS or "zero_point" not in call.tensors:
            is_row = bool(block) or axis == 0
            met[x.dtype, scale.dtype, is_row] |= set((exponents * 256 + x.codes).reshape(-1).tolist())
    for x_dtype, scale_dtype, is_row in product(
        contract.domain.x_dtypes, ("float32", "float16", "bfloat16"), (True, False)
    ):
        if BITS[x_dtype] <= 8 and scale_dtype in contract.domain.scale_dtypes:
            exponents = range(31 if scale_dtype == "float16" else 255)
            wanted = {exponent * 256 + code for exponent in exponents for code in range(1 << BITS[x_dtype])}
            assert met[x_dtype, scale_dtype, is_row] == wanted, (x_dtype, scale_dtype, is_row)


def test_blocks_of_empty_tensors_are_walked() -> None:
    empty = [
        call for call in walked("ai.onnx/DequantizeLinear-25") if "block_size" in call.attributes and not call.values
    ]
    assert {call.data.shape for call in empty} == {(3, 0), (0, 5), (5, 0, 2)}


def test_wide_values_lie_beside_ties_that_float64_cannot_tell() -> None:
    contract = contracts.get("ai.onnx/DequantizeLinear-10")
    beside = 0
    for structure in special_structures(contract):
        if structure.scale_recipe == "near-tie":
            call = build(contract, structure)
            x = integers("int32", call.tensors["x"].codes).astype(np.float64)
            through_double = (x * values("float32", call.tensors["scale"].codes)).astype(np.float32)
            beside += bool((through_double.view(np.uint32) != legal_set(contract, call).distinct[0]).any())
    assert beside >= 4


def test_scaled_ranges_have_values_beside_ties_that_float64_cannot_tell() -> None:
    contract = contracts.get("tensorflow/Dequantize@seed")
    beside = 0
    for seed in range(20):
        call = build(contract, Range("int32", "SCALED", (64,), range_recipe="symmetric", seed=seed))
        x = integers("int32", call.data.codes).astype(np.float64)
        estimate = x * values("float32", call.tensors["max_range"].codes) / (2**31 - 1)
        near = np.abs(estimate) * 2.0**-52
        beside += bool(((estimate - near).astype(np.float32) != (estimate + near).astype(np.float32)).any())
    assert beside >= 5


# -- drawn calls ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("identity", EDITIONS)
def test_drawn_calls_are_valid(identity: str) -> None:
    contract = contracts.get(identity)

    @EVERY
    @given(calls(contract))
    def check(call: Call) -> None:
        assert contract.judge(call).verdict == "allowed", f"{call.data.shape} {dict(call.attributes)}"
        assert call.values <= 4096

    check()


WAYS = [(identity, name) for identity in EDITIONS for name in breakable(contracts.get(identity))]
OPENINGS = [(identity, name) for identity in EDITIONS for name in openable(contracts.get(identity))]


def exactly_that(contract: Contract, name: str, make: Callable[..., st.SearchStrategy[Call]], verdict: str) -> None:
    met = []

    @settings(EVERY, max_examples=6)
    @given(make(contract, name))
    def check(call: Call) -> None:
        judgement = contract.judge(call)
        assert (judgement.verdict, judgement.clauses) == (verdict, (f"{contract.id}/{name}",))
        met.append(call)

    check()
    assert met


@pytest.mark.parametrize(("identity", "name"), WAYS)
def test_invalid_calls_break_one_clause(identity: str, name: str) -> None:
    exactly_that(contracts.get(identity), name, invalid_calls, "forbidden")


@pytest.mark.parametrize(("identity", "name"), OPENINGS)
def test_unspecified_calls_enter_one_clause(identity: str, name: str) -> None:
    exactly_that(contracts.get(identity), name, unspecified_calls, "unspecified")


@pytest.mark.parametrize("identity", EDITIONS)
def test_every_way_is_taken(identity: str) -> None:
    """Without a name, every clause comes up. Every clause that a judge can name has a change."""
    contract = contracts.get(identity)
    rng, every = np.random.default_rng(0), walked(identity)
    for names, change in ((breakable(contract), strategies.spoiled), (openable(contract), strategies.opened)):
        for name in names:
            some = rng.permutation(len(every))[:400]
            assert any(change(contract, every[i], name, rng) for i in some), f"{name} was never made"
    sentences = {"formula", "subnormal", "output-shape", "float-zero-point", "rounding", "multiplication-precision"}
    sentences |= {"narrow-range", "scaled-bounds", "formula-min-combined", "formula-min-first", "formula-scaled"}
    sentences |= {
        "formula-per-channel",
        "zps-absent",
        "affine",
        "dequantize",
        "zero",
        "deviations",
        "intermediate",
        "any-scale",
        "zero-point-domain",
    }
    listed = {name.removeprefix(identity + "/") for name in contract.clauses}
    left = listed - set(breakable(contract)) - set(openable(contract)) - sentences
    # Clauses that no call of the edition can break: its output type follows from the scale's, or it has every attribute.
    assert left <= {"output-type", "attributes"}, f"{identity}: no way for {left}"


def test_a_strategy_is_shown_with_the_id_of_its_contract() -> None:
    """Hypothesis writes it for each rejected example, and warns if it has more than 30 000 characters."""
    assert repr(invalid_calls(contracts.get("ai.onnx/DequantizeLinear-28"))) == (
        "invalid_calls(contract=Contract('ai.onnx/DequantizeLinear-28'))"
    )
