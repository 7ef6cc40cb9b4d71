"""Large calls, and blocks of the sizes that quantized models have."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import islice, product
from math import prod

import numpy as np
import pytest

from xverify import contracts
from xverify.contracts.model import Contract
from xverify.strategies import build
from xverify.strategies.large import MANY, large_structures
from xverify.strategies.structures import Linear, Range
from xverify.strategies.values import data
from xverify.strategies.walk import USUAL_BLOCKS, WEIGHT_TYPES, block_structures, weight_structures

EDITIONS = tuple(contracts.ids())
PAST = 65_535


def of_one_type(identity: str, x_dtype: str) -> Contract:
    contract = contracts.get(identity)
    return replace(contract, domain=replace(contract.domain, x_dtypes=(x_dtype,)))


@pytest.mark.parametrize("identity", EDITIONS)
def test_a_domain_of_one_type_has_every_long_extent(identity: str) -> None:
    contract = of_one_type(identity, contracts.get(identity).domain.x_dtypes[-1])
    met = defaultdict(set)
    for structure in large_structures(contract):
        kind = structure.mode if isinstance(structure, Range) else structure.granularity
        for position, extent in enumerate(reversed(structure.shape)):
            if extent > PAST:
                met[kind].add((position, structure.layout == "C"))
    assert met.keys() == set(contract.domain.modes or contract.domain.granularities)
    for kind, positions in met.items():
        # Edition 19 leaves scales per axis open in rank 1.
        some = (0, 1) if contract.domain.ranks == (2,) else (0, 1, 2)
        assert positions >= set(product(some, (True, False))), kind


def test_channels_blocks_and_rows_of_a_blocked_scale_are_many() -> None:
    contract = of_one_type("ai.onnx/DequantizeLinear-25", "int8")
    channels, blocks, rows, many = set(), set(), set(), set()
    for structure in large_structures(contract):
        assert isinstance(structure, Linear)
        call = build(contract, structure)
        assert contract.judge(call).verdict == "allowed"
        scale, rank = call.tensors["scale"].shape, len(structure.shape)
        many |= {structure.granularity} if max(structure.shape) == MANY else set()
        if structure.granularity == "per_axis" and scale[0] > PAST:
            channels.add(rank - 1 - (1 if structure.axis is None else structure.axis) % rank)
        if structure.granularity == "blocked":
            axis = (1 if structure.axis is None else structure.axis) % rank
            for position, extent in enumerate(scale):
                if extent > PAST:
                    (blocks if position == axis else rows).add(rank - 1 - position)
    assert (channels, blocks, rows) == ({0, 1, 2}, {0, 1, 2}, {0, 1, 2})
    assert many == {"per_tensor", "per_axis", "blocked"}


def test_every_type_has_large_calls_and_no_share_of_a_split_is_whole() -> None:
    contract = contracts.get("ai.onnx/DequantizeLinear-25")
    made = list(large_structures(contract))
    assert {s.x_dtype for s in made if isinstance(s, Linear)} == set(contract.domain.x_dtypes)
    assert all(prod(structure.shape) // n % 16 for structure in made for n in (1, 2, 4, 8))


@pytest.mark.parametrize("dtype", ["int2", "int4", "uint8"])
def test_codes_of_a_large_tensor_do_not_repeat_where_an_index_wraps(dtype: str) -> None:
    codes = data(dtype, (150_000,), np.random.default_rng(0))
    for distance in (1 << 8, 1 << 15, 1 << 16, (1 << 16) - 1):
        assert (codes[distance:] != codes[:-distance]).any()


def test_every_type_has_usual_blocks() -> None:
    contract = contracts.get("ai.onnx/DequantizeLinear-25")
    met = defaultdict(set)
    for structure in block_structures(contract):
        assert isinstance(structure, Linear)
        assert structure.axis in (-1, len(structure.shape) - 1)
        whole, remainder = divmod(structure.shape[-1], structure.block_size)
        assert 2 <= whole <= 5
        met[structure.x_dtype].add((structure.block_size, remainder > 0))
        assert contract.judge(build(contract, structure)).verdict == "allowed"
    assert met.keys() == set(contract.domain.x_dtypes)
    assert all(sizes == set(product(USUAL_BLOCKS, (True, False))) for sizes in met.values())


def test_ordinary_weights_come_in_whole_blocks_on_every_axis() -> None:
    contract = contracts.get("ai.onnx/DequantizeLinear-21")
    first = list(islice(weight_structures(contract), 16))
    met = set()
    for structure in first:
        assert isinstance(structure, Linear)
        assert contract.judge(build(contract, structure)).verdict == "allowed"
        if structure.granularity == "blocked":
            assert not any(extent % structure.block_size for extent in structure.shape)
            met.add((structure.axis, bool(structure.zero_point_dtype), structure.x_dtype))
    axes, with_zero_point, types = map(set, zip(*met, strict=True))
    assert (axes >= {0, 1, -2, -1}, with_zero_point, types) == (True, {True, False}, set(WEIGHT_TYPES))
    assert sum(structure.granularity == "per_axis" for structure in first) == 8
