"""Attribution of kernels that follow a composed range recipe."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from strategies import build
from strategies.structures import Range
from xverify import contracts
from xverify.contracts.affine import RANGE_READINGS, Affine
from xverify.core.call import Call, Outcome, Tensor
from xverify.verify import verdicts
from xverify.verify.attribute import explaining
from xverify.verify.findings import Subject
from xverify.verify.tally import Tally

TF = contracts.get("tensorflow/Dequantize@installed")
AFFINE = [reading for reading in RANGE_READINGS if isinstance(reading, Affine)]


def call_of(dtype: str, mode: str, recipe: str, seed: int, shape: tuple[int, ...] = (9,)) -> Call:
    return build(TF, Range(dtype, mode, shape, range_recipe=recipe, seed=seed))


@pytest.mark.parametrize("place", range(0, len(AFFINE), 97))
def test_a_kernel_that_follows_a_composed_recipe_is_attributed_to_one_that_gives_the_same_bits(place: int) -> None:
    """The class that is named may be another recipe of equal bits on all that was seen, and must then be equal there."""
    reading = AFFINE[place]
    tally, subject = Tally(), Subject("kernel", "1", "kernel")
    calls = [call_of("int16", "MIN_FIRST", recipe, n, (40,)) for n, recipe in enumerate(("drawn", "symmetric", "tiny"))]
    for number, call in enumerate(calls):
        codes = np.ascontiguousarray(reading.evaluate(TF.operands(call)))
        tally.observe(verdicts.judge(TF, call, number), subject, Outcome("tensor", Tensor("float32", codes)), True)
    found = list(islice((row[3] for row in tally.violations()), 1))
    assert found, "these recipes differ from the text on such ranges"
    attribution = found[0].attribution
    assert attribution is not None
    for call in calls:
        got = Tensor("float32", np.ascontiguousarray(reading.evaluate(TF.operands(call))))
        assert attribution.reading in explaining(TF, call, got)
