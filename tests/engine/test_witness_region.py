"""Regions after shrinking: the witness or a larger call of its numbers shows where one ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sampled_calls import KNOWN_REGIONS, ONNX, Predicate, per_axis, per_tensor, sample_of, tail_of_row

from xverify import contracts
from xverify.core.call import Call, Outcome, Tensor
from xverify.core.dtypes import tensor
from xverify.core.verdict import Verdict
from xverify.engine.witness_region import REPEATED, larger, settle_region
from xverify.verify.findings import Finding, Key, Subject
from xverify.verify.legal import legal_set
from xverify.verify.region import NOWHERE_SIMPLE, region


def answering(predicate: Predicate):
    """Return an implementation that is wrong where the predicate holds, and counts its calls."""

    def ask(call: Call) -> Outcome:
        asked.append(call)
        codes = legal_set(contracts.get(ONNX), call).codes(0)
        wrong = sample_of(call, predicate).wrong
        return Outcome("tensor", Tensor("float32", np.where(wrong, codes ^ 1, codes).astype(codes.dtype)))

    asked: list[Call] = []
    return ask, asked


def found_on(calls: list[Call], predicate: Predicate, witness: Call, truth: Predicate) -> tuple[str, str, int]:
    """Return the region before and after it is settled, and the number of calls that were made."""
    ask, asked = answering(truth)
    outcome = ask(witness)
    asked.clear()
    key = Key("a", ONNX, Verdict.VIOLATION, f"{ONNX}/formula", "a")
    samples = [sample_of(call, predicate) for call in calls]
    finding = Finding(key, Subject("a", "1", "oracle"), "a", witness, outcome, samples=samples, region=region(samples))
    before = finding.region.words
    settle_region(finding, contracts.get(ONNX), ask)
    return before, finding.region.words, len(asked)


def one(shape: tuple[int, ...]) -> Call:
    return Call(ONNX, {"x": tensor("int8", np.ones(shape)), "scale": tensor("float32", 0.5)})


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_region_of_positions_is_kept_if_a_larger_call_shows_its_end(shape: tuple[int, ...]) -> None:
    words, calls, predicate = next(
        known for known in KNOWN_REGIONS if known[0] == "the last n % 16 values of a row of n"
    )
    tail = lambda call, y: tail_of_row(16)(call, y.reshape(y.shape or (1,))).reshape(y.shape)  # noqa: E731
    assert found_on(calls, predicate, one(shape), tail) == (words, words, 1)
    assert found_on(calls, predicate, one((17,)), tail) == (words, words, 0)


def test_a_region_that_a_larger_call_refutes_is_not_stated() -> None:
    """Every value is wrong. The calls of the sweep only did not show it behind a position."""
    words, calls, predicate = next(
        known for known in KNOWN_REGIONS if known[0] == "the last n % 16 values of a row of n"
    )
    assert found_on(calls, predicate, one((1,)), lambda call, y: True) == (words, NOWHERE_SIMPLE, 1)


def test_a_large_witness_makes_no_larger_call() -> None:
    words, calls, predicate = next(
        known for known in KNOWN_REGIONS if known[0] == "the last n % 16 values of a row of n"
    )
    assert found_on(calls, predicate, one((1000, 3)), predicate) == (words, NOWHERE_SIMPLE, 0)


def test_a_region_that_the_witness_contradicts_is_searched_again() -> None:
    calls = per_tensor(6) + per_tensor(6, scale_recipe="negative")
    words = "the scale is negative"
    scale = lambda call, y: call.tensors["scale"].codes >> 31 == 1  # noqa: E731
    assert found_on(calls, scale, one((4,)), lambda call, y: True) == (words, NOWHERE_SIMPLE, 0)
    minus = replace(one((4,)), tensors={**one((4,)).tensors, "scale": tensor("float32", -0.5)})
    assert found_on(calls, scale, minus, lambda call, y: True) == (words, words, 0)


def test_a_larger_call_repeats_rows_and_channels() -> None:
    call = per_axis(1)[0]
    repeated = larger(call)
    rows, columns = call.data.shape
    assert repeated.data.shape == (rows * REPEATED, columns * REPEATED)
    assert repeated.tensors["scale"].shape == (rows * REPEATED,)
    assert (repeated.data.codes[:rows, :columns] == call.data.codes).all()
    assert contracts.get(ONNX).judge(repeated).verdict == "allowed"
    assert larger(one(())).data.shape == (REPEATED,)
