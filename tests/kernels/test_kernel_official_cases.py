"""The in-house kernels on the cases whose results documents state, bit for bit."""

from __future__ import annotations

import pytest
from kernel_arrays import NEWEST

from xverify import contracts
from xverify.contracts import onnx
from xverify.oracles import xverify_numpy

IDS = (*(f"ai.onnx/DequantizeLinear-{version}" for version in onnx.VERSIONS), "com.microsoft/DequantizeLinear-1@seed")


@pytest.mark.parametrize("option", ["", "packed"])
@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_official_cases_are_equal_in_bits(backend: str, option: str) -> None:
    if backend == "numba":
        pytest.importorskip("numba")
    answer = xverify_numpy.load(backend, option).answer
    equal = dict.fromkeys(IDS, 0)
    for identity in IDS:
        for case in contracts.get(identity).official_cases():
            outcome = answer(case.call, "")
            assert outcome.tensor is not None, f"{identity} {case.name}: {outcome.message}"
            assert outcome.tensor.same_bits(case.due), f"{identity} {case.name}"
            equal[identity] += 1
    assert equal[NEWEST] == 14
    assert all(equal.values())
