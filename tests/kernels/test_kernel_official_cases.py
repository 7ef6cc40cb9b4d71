"""The in-house kernels on the cases whose results documents state, bit for bit."""

from __future__ import annotations

from collections import Counter

import pytest
from kernel_arrays import NEWEST

from xverify import contracts
from xverify.contracts import onnx, pytorch
from xverify.oracles import xverify_cuda, xverify_numpy
from xverify.oracles.protocol import Loaded

IDS = (
    *onnx.editions(),
    "com.microsoft/DequantizeLinear-1@seed",
    pytorch.edition(pytorch.TENSOR),
)


def check(kernel: Loaded) -> None:
    """Assert that a kernel gives the stated bits of every case of every edition."""
    equal: Counter[str] = Counter()
    for identity in IDS:
        for case in contracts.get(identity).official_cases():
            outcome = kernel.answer(case.call, "")
            assert outcome.tensor is not None, f"{identity} {case.name}: {outcome.message}"
            assert outcome.tensor.same_bits(case.due), f"{identity} {case.name}"
            equal[identity] += 1
    assert equal[NEWEST] == 14
    assert set(equal) == set(IDS)


@pytest.mark.parametrize("option", ["", "packed"])
@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_official_cases_are_equal_in_bits(backend: str, option: str) -> None:
    if backend == "numba":
        pytest.importorskip("numba")
    check(xverify_numpy.load(backend, option))


@pytest.mark.parametrize("option", ["", "packed"])
def test_official_cases_of_the_cuda_kernels(any_cupy: object, option: str) -> None:
    check(xverify_cuda.load(option))
