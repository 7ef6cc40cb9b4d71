"""Calls of one cell of ONNX's DequantizeLinear-21 in several shapes, and a tally of an answer to them."""

from __future__ import annotations

import random
from collections.abc import Iterator

from lattice_oracles import Answer, Asked, lap_of

from xverify import contracts
from xverify.arithmetic.readings import Stepwise
from xverify.core.call import Call
from xverify.strategies import build
from xverify.strategies.structures import Linear

ONNX = contracts.get("ai.onnx/DequantizeLinear-21")
NEWEST = contracts.get("ai.onnx/DequantizeLinear-25")
IGNORES, WRAPS = Stepwise("ignored"), Stepwise("wrap-x")


def calls(x_dtype: str, granularity: str, count: int, rng: random.Random, scale: str = "float32") -> Iterator[Call]:
    """Yield calls of one cell in several shapes. Few zero points are 0."""
    for number in range(count):
        shape = ((257,), (90,), (40,)) if granularity == "per_tensor" else ((4, 80), (3, 110), (17, 33))
        block = (32, 16, 20)[number % 3] if granularity == "blocked" else 0
        structure = Linear(
            x_dtype, scale, granularity, shape[number % 3], x_dtype, "", None, block, seed=rng.getrandbits(32)
        )
        yield build(ONNX, structure)


def asked_in(answer: Answer, x_dtype: str = "int8", granularity: str = "per_axis", scale: str = "float32") -> Asked:
    """Ask the cell's probe calls and some others. Return the implementation with its tally."""
    asked = Asked(ONNX, answer)
    shape = (2,) if granularity == "per_tensor" else (4, 80)
    block = 32 if granularity == "blocked" else 0
    asked.ask(*lap_of(ONNX, Linear(x_dtype, scale, granularity, shape, x_dtype, block_size=block)))
    asked.ask(*calls(x_dtype, granularity, 12, random.Random(5), scale))
    return asked
