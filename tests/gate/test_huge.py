"""Calls of more than 2^31 elements. Their rows are short here, so that the tests need no memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from xverify import contracts
from xverify.core.call import Call, Outcome, Tensor, decode_call, encode_call, from_runs, runs_of
from xverify.core.line import HUGE_VALUES, MOST_VALUES, call_from_line, call_to_line
from xverify.gate import huge
from xverify.gate.huge import examine, first_wrong, missing_memory
from xverify.oracles.plugin import USERS
from xverify.strategies import build
from xverify.strategies.large import huge_call, huge_structure
from xverify.verify.findings import Subject
from xverify.verify.legal import Legal, legal_set

CONTRACT = contracts.get("ai.onnx/DequantizeLinear-25")
KERNEL = Subject("kernel", "1", "kernel", "")


def small_and_huge() -> tuple[Call, Call]:
    structure = huge_structure(CONTRACT)
    assert structure is not None
    small = build(CONTRACT, structure)
    return small, huge_call(small)


class Worker:
    """Answers with given codes of the result, repeated as x is."""

    def __init__(self, change: Any) -> None:
        self.change = change

    def __call__(self, *args: Any, **options: Any) -> Worker:
        return self

    def start(self) -> None: ...
    def stop(self) -> None: ...

    def ask(self, blob: bytes) -> Outcome:
        call = decode_call(blob)
        legal = legal_of(replace(call, tensors={**call.tensors, "x": replace(call.data, codes=call.data.codes[:, :1])}))
        return self.change(Tensor(legal.dtype, np.broadcast_to(legal.distinct[0], call.data.shape)))


def legal_of(call: Call) -> Legal:
    return legal_set(CONTRACT, call)


def test_a_huge_call_needs_no_memory_and_its_line_is_short() -> None:
    _, call = small_and_huge()
    assert call.values > 1 << 31
    assert CONTRACT.judge(call).verdict == "allowed"
    blob, line = encode_call(call), call_to_line(call, HUGE_VALUES)
    assert max(len(blob), len(line)) < 300
    assert decode_call(blob).digest() == call_from_line(line, HUGE_VALUES).digest() == call.digest()
    with pytest.raises(ValueError, match=f"of {MOST_VALUES} in a line; --huge admits more"):
        call_from_line(line)
    with pytest.raises(ValueError, match="no line holds"):
        call_to_line(call)
    with pytest.raises(ValueError, match="more than"):
        call_from_line("ai.onnx/DequantizeLinear-25 x=int8[9999999999]:01*9999999999", HUGE_VALUES)


def test_one_code_in_a_line_is_one_run() -> None:
    call = call_from_line(
        "ai.onnx/DequantizeLinear-25 x=int8[2147483649]:01*2147483649 scale=float16[]:3c00", HUGE_VALUES
    )
    assert call.data.codes.strides == (0,)
    assert [array.tolist() for array in runs_of(call.data.codes)] == [[1], [2147483649]]


@pytest.mark.parametrize("shape", [(7,), (2, 3), (3, 2), (1, 4)])
def test_runs_give_the_codes_back(shape: tuple[int, ...]) -> None:
    for number in range(20):
        codes = np.random.default_rng(number).integers(0, 2, shape).astype(np.uint8)
        values, counts = runs_of(codes)
        assert (values[1:] != values[:-1]).all()
        assert np.array_equal(from_runs(values, counts, shape), codes)


def test_the_first_wrong_value_and_their_number_are_found_from_runs() -> None:
    small, call = small_and_huge()
    legal = legal_of(small)
    x = np.repeat(small.data.codes, 50, axis=1)
    y = np.repeat(legal.distinct[0], 50, axis=1)
    assert first_wrong(x, y, legal) is None
    assert first_wrong(call.data.codes, np.broadcast_to(legal.distinct[0], call.data.shape), legal) is None
    y[1, 30:40] = 0
    wrong = first_wrong(x, y, legal)
    assert wrong is not None
    assert (wrong.index, wrong.code, wrong.legal, wrong.count) == (80, 0, legal.distinct[0][1, 0], 10)


def test_the_outcome_of_a_huge_call_is_a_finding_or_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    _, call = small_and_huge()
    monkeypatch.setattr(huge, "_available", lambda: 1 << 50)

    def result(change: Any) -> huge.Examined:
        return examine(CONTRACT, USERS, KERNEL, call, Worker(change), tmp_path)

    right = result(lambda y: Outcome("tensor", y))
    assert (right.discrepancy, right.impossible) == (None, "")
    wrong = result(lambda y: Outcome("tensor", replace(y, codes=np.broadcast_to(y.codes[:1], y.shape)))).discrepancy
    assert wrong is not None
    assert f"first at flat index {call.data.shape[1]}: " in wrong.summary
    assert wrong.values == call.data.shape[1]
    refused = result(lambda y: Outcome("rejected", error="ValueError")).discrepancy
    assert refused is not None
    assert refused.key.verdict == "wrongly-rejected"
    assert "out of memory" in result(lambda y: Outcome("crash", message="out of memory: 1")).impossible
    assert "does not implement" in result(lambda y: Outcome("unsupported", error="NotImplementedError")).impossible


def test_missing_memory_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    _, call = small_and_huge()
    monkeypatch.setattr(huge, "_available", lambda: 4 << 30)
    assert missing_memory(USERS, call, "float16") == (
        "--huge needs 11 GiB of memory for 2147487750 elements and their float16 result, and 4 GiB are available"
    )
    monkeypatch.setattr(huge, "_available", lambda: 12 << 30)
    assert missing_memory(USERS, call, "float16") == ""


def test_an_edition_without_codes_of_8_bits_has_no_huge_call() -> None:
    wide = replace(CONTRACT, domain=replace(CONTRACT.domain, x_dtypes=("int32",)))
    assert huge_structure(wide) is None
