from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from vector_corpora import few_types, small_corpus

from xverify import contracts
from xverify.core.call import Call, Tensor
from xverify.vectors import jsonl, node_tests
from xverify.vectors.choose import FIRST, SECOND, SIZES, Vector, choose, vectors_of
from xverify.vectors.corpus import Corpus, corpus


def vector(number: int, *features: object, tier: int = FIRST) -> Vector:
    call = Call("e", {"x": Tensor("uint8", np.array([number], np.uint8))})
    return Vector(call, str(number), "", (), (), "", (), frozenset((tier, (feature,)) for feature in features))


def test_the_call_with_most_features_for_its_bytes_comes_first() -> None:
    cheap, wide, dear = vector(1, "a"), vector(2, "a", "b"), vector(3, "c")
    costs = {"1": 10, "2": 15, "3": 100}
    assert choose([cheap, wide, dear], lambda v: costs[v.id], 20, 0) == [wide]
    assert choose([cheap, wide, dear], lambda v: costs[v.id], 120, 0) == [wide, dear]


def test_the_rest_of_the_budget_goes_to_calls_in_the_order_of_the_walk() -> None:
    plain = [vector(number, "a") for number in range(5)]
    assert choose(plain, lambda v: 10, 30, 10) == plain[:3]
    assert choose(plain, lambda v: 10, 30, 9) == plain[:1]


def test_a_feature_of_the_second_tier_is_not_worth_a_long_line() -> None:
    assert choose([vector(1, "a", tier=SECOND)], lambda v: 20_000, 50_000, 0) == []


def test_a_small_corpus_meets_every_structure_type_special_value_and_clause() -> None:
    made = small_corpus()
    source = vectors_of(few_types(), SIZES["small"])
    due = {item for v in source.vectors for item in v.features if item[0] == FIRST}
    assert {"clause", "types", "special", "rank", "block"} <= {str(feature[0]) for _, feature in due}
    assert due <= {item for v in made.vectors for item in v.features}


def test_calls_have_their_results_or_the_clauses_that_forbid_them() -> None:
    for v in small_corpus().vectors:
        verdict = few_types().judge(v.call).verdict
        assert verdict == ("forbidden" if v.clauses else "allowed")
        assert bool(v.legal) == (verdict == "allowed")
        assert len(v.legal) == len(v.readings)


def limits_are_kept(made: Corpus, size: str) -> None:
    lines = sum(len(jsonl.line(made.contract, v)) for v in made.vectors)
    tests = sum(map(node_tests.disk_bytes, made.node_tests))
    assert 0.8 * SIZES[size].lines < lines <= SIZES[size].lines
    assert 0.8 * SIZES[size].node_tests < tests <= SIZES[size].node_tests
    assert SIZES[size].total <= {"small": 2_000_000, "full": 50_000_000}[size]


def test_a_small_corpus_keeps_its_limits() -> None:
    limits_are_kept(small_corpus(), "small")


@pytest.mark.slow
@pytest.mark.parametrize("size", ["small", "full"])
def test_the_corpus_of_the_newest_edition_keeps_its_limits(size: str) -> None:
    limits_are_kept(corpus(contracts.get(contracts.newest()), size), size)


def test_a_subnormal_result_is_kept() -> None:
    tiny = np.array(0x00800000, np.uint32)  # the smallest normal scale; x of 1 by a scale below it is subnormal
    call = Call("ai.onnx/DequantizeLinear-25", {"x": Tensor("uint8", np.array([1], np.uint8))})
    call = replace(call, tensors={**call.tensors, "scale": Tensor("float32", tiny >> 1)})
    from xverify.vectors.choose import _allowed

    made = _allowed(replace(few_types(), denormals="keep"), call, call.digest())
    assert [codes.tolist() for codes in made.legal] == [[0x00400000]]
