"""Twins ask for the same values, and an implementation that answers them differently is found, once, and nobody else."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from oracles import all_oracles
from oracles.protocol import Oracle
from oracles.protocol import Path as OraclePath
from strategies.calls import calls, invalid_calls
from strategies.equivalents import joined, twin, twins
from xverify import contracts
from xverify.core.call import Call, Outcome, Tensor
from xverify.core.dtypes import tensor
from xverify.engine import equivalences, fleet
from xverify.engine.conclude import conclude
from xverify.engine.options import Options
from xverify.engine.run import Sweep
from xverify.verify import equivalence
from xverify.verify.findings import Finding, Key, Subject
from xverify.verify.verdicts import judge

TESTS = str(Path(__file__).parent)
MULTIPLY, DIVIDE = "onednn/DynamicDequantize-1@multiply", "onednn/DynamicDequantize-1@divide"
ONNX = "ai.onnx/DequantizeLinear-"
SUBJECT = Subject("it", "1", "oracle")


def linear(contract: str, x, scale, zero_point=None, dtype="int8", scale_dtype="float32", **attributes) -> Call:
    tensors = {"x": tensor(dtype, x), "scale": tensor(scale_dtype, scale)}
    if zero_point is not None:
        tensors["zero_point"] = zero_point
    return Call(contract, tensors, attributes)


def of_value(call: Call, role: str) -> np.ndarray:
    """The parameter's code for every value of x, by what the documents say of shapes, axis and block size."""
    codes, x = call.tensors[role].codes, call.data.codes
    if codes.size == 1 and codes.ndim <= 1:
        return np.full(x.shape, codes.reshape(-1)[0])
    where = list(np.indices(x.shape))
    axis = int(call.attributes.get("axis", 1)) % x.ndim
    if call.attributes.get("block_size", 0):
        where[axis] = where[axis] // int(call.attributes["block_size"])
        return codes[tuple(where)]
    return codes[where[axis]]


def fingerprint(call: Call) -> Outcome:
    """An answer that depends on nothing but each value's own operands and the types: what every reading has in common."""
    if "x" in call.tensors:
        operands = [call.data.codes, of_value(call, "scale")]
        operands += [of_value(call, "zero_point")] if "zero_point" in call.tensors else []
        out = call.attributes.get("output_dtype", call.tensors["scale"].dtype)
        kind = [str(out)]
    else:
        operands = [call.data.codes, *(np.asarray(call.tensors[end].codes) for end in ("min_range", "max_range"))]
        kind = [str(call.attributes.get(k, d)) for k, d in (("mode", "MIN_COMBINED"), ("narrow_range", False))]
        kind.append(str(call.attributes.get("dtype", "float32")))
    kind += [t.dtype for t in call.tensors.values()]
    total = np.full(call.data.shape, sum(map(ord, " ".join(kind))), np.uint64)
    for operand in operands:
        total = (total * np.uint64(1_000_003) + operand.astype(np.uint64)) % np.uint64(2**30)
    return Outcome("tensor", Tensor("float32", total.astype(np.uint32)))


def first_reading(call: Call) -> Outcome:
    contract = contracts.get(call.contract)
    operands = contract.operands(call)
    return Outcome("tensor", Tensor(operands.output_dtype, contract.readings(call)[0].evaluate(operands)))


@pytest.mark.parametrize("identity", contracts.ids())
def test_twins_are_allowed_and_every_reading_gives_them_the_same_values(identity):
    contract = contracts.get(identity)
    met = set()

    @settings(max_examples=30, database=None, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(calls(contract))
    def check(call):
        for other in twins(contract, call):
            met.add(other.kind)
            assert all(contracts.get(c.contract).judge(c).verdict == "allowed" for c in other.calls)
            for answer in (fingerprint, first_reading):
                assert equivalence.same(answer(call), joined(other, [answer(c) for c in other.calls])), other.name

    check()
    editions = {"edition"} if identity != DIVIDE else set()
    granularity = {"granularity"} if "-10" not in identity and "tensorflow" not in identity else set()
    assert met == {"axes", *editions, *granularity}


@pytest.mark.parametrize("identity", [ONNX + "25", MULTIPLY, "tensorflow/Dequantize@installed"])
def test_calls_that_are_not_allowed_have_no_twins(identity):
    contract = contracts.get(identity)

    @settings(max_examples=30, database=None, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(invalid_calls(contract))
    def check(call):
        assert twins(contract, call) == ()
        assert twin(contract, call, "merged-axes") is None

    check()


def test_a_per_tensor_call_has_every_kind_of_twin():
    call = linear(ONNX + "21", np.arange(12).reshape(3, 4), 0.5)
    found = {t.name: t for t in twins(contracts.get(ONNX + "21"), call)}
    assert set(found) == {
        "per-axis", "one-block", "blocks-of-one", "merged-axes", "split-first-axis", "split-last-axis",
        *(f"under {ONNX}{version}" for version in (10, 13, 19, 23, 24, 25)),
        "under com.microsoft/DequantizeLinear-1@installed", "under onednn/Dequantize-1@3.5", f"under {MULTIPLY}",
        "under onednn/DynamicDequantize-1@3.0", "under onednn/DynamicDequantize-1@3.7",
    }  # fmt: skip
    shapes = {name: t.calls[0].tensors["scale"].shape for name, t in found.items()}
    assert (shapes["per-axis"], shapes["one-block"], shapes["blocks-of-one"]) == ((4,), (3, 1), (3, 4))
    assert (shapes[f"under {MULTIPLY}"], shapes[f"under {ONNX}10"]) == ((1,), ())
    assert [c.data.shape for c in found["split-first-axis"].calls] == [(1, 4), (2, 4)]
    assert found["merged-axes"].calls[0].data.shape == (12,)


def test_attributes_are_translated_between_editions():
    call = linear(ONNX + "13", np.ones((2, 3)), [0.5, 1, 2], tensor("int8", [1, 2, 3]))
    found = {t.name: t.calls[0].attributes for t in twins(contracts.get(ONNX + "13"), call)}
    assert found["under com.microsoft/DequantizeLinear-1@seed"] == {"axis": 1}
    assert found[f"under {MULTIPLY}"] == {"axis": 1, "qtype": "per_channel"}
    assert f"under {DIVIDE}" not in found
    assert f"under {ONNX}10" not in found


def test_editions_are_compared_only_where_they_share_a_reading():
    tensors = {"input": tensor("int8", [1, 2]), "min_range": tensor("float32", -1), "max_range": tensor("float32", 3)}
    installed = contracts.get("tensorflow/Dequantize@installed")
    seed = "under tensorflow/Dequantize@seed"
    names = {
        mode: [t.name for t in twins(installed, Call(installed.id, tensors, {"mode": mode, "narrow_range": narrow}))]
        for mode, narrow in (("MIN_COMBINED", False), ("SCALED", False), ("MIN_FIRST", True))
    }
    assert seed in names["MIN_COMBINED"]
    assert seed not in names["SCALED"]
    assert seed not in names["MIN_FIRST"]


def test_a_blocked_axis_is_cut_between_two_blocks():
    contract, scale = contracts.get(ONNX + "21"), np.arange(1, 5) / 4
    cut = twin(contract, linear(contract.id, np.arange(10), scale, axis=0, block_size=3), "split-first-axis")
    assert [c.data.shape for c in cut.calls] == [(6,), (4,)]
    for piece, part in zip(cut.calls, (scale[:2], scale[2:]), strict=True):
        assert piece.tensors["scale"].same_bits(tensor("float32", part))
    one_block = linear(contract.id, np.arange(3), [1], axis=0, block_size=3)
    assert twin(contract, one_block, "split-first-axis") is None


def test_scales_are_cut_with_the_axis_that_they_run_along_and_only_with_that():
    contract = contracts.get(ONNX + "13")
    call = linear(contract.id, np.ones((4, 3)), [1, 2, 3], tensor("int8", [4, 5, 6]), axis=-1)
    found = {t.name: [c.tensors for c in t.calls] for t in twins(contract, call)}
    parts = [(t["scale"], t["zero_point"]) for t in found["split-last-axis"]]
    for (scale, zero_point), due in zip(parts, (slice(1), slice(1, 3)), strict=True):
        assert scale.same_bits(tensor("float32", [1, 2, 3][due]))
        assert zero_point.same_bits(tensor("int8", [4, 5, 6][due]))
    assert [t["scale"].shape for t in found["split-first-axis"]] == [(3,), (3,)]
    assert [t["x"].shape for t in found["split-first-axis"]] == [(3, 3), (1, 3)]


def test_pieces_are_joined_in_order_and_a_piece_without_values_speaks_for_all():
    call = linear(ONNX + "21", np.arange(6).reshape(2, 3), 1.0)
    cut = twin(contracts.get(ONNX + "21"), call, "split-last-axis")
    left, right = (tensor("float32", part) for part in ([[0], [3]], [[1, 2], [4, 5]]))
    whole = joined(cut, [Outcome("tensor", left), Outcome("tensor", right, notes=("input-written",))])
    assert whole.tensor.same_bits(tensor("float32", np.arange(6).reshape(2, 3)))
    assert whole.notes == ("input-written",)
    refused = Outcome("rejected", error="ValueError")
    assert joined(cut, [Outcome("tensor", left), refused]) is refused
    odd = Outcome("tensor", left)
    assert joined(cut, [Outcome("tensor", left), odd]) is odd
    with pytest.raises(ValueError, match="shorter"):
        joined(cut, [Outcome("tensor", left)])


# -- the comparison -----------------------------------------------------------------------------------------

WIDE = linear(MULTIPLY, [1, 2], [3.3], tensor("int32", [-(2**24) - 2]))
"""2^24 + 3 and 2^24 + 4 times a scale: the first is rounded before the product by one of the text's two readings."""


def both(call: Call) -> tuple[Tensor, Tensor]:
    contract = contracts.get(call.contract)
    operands = contract.operands(call)
    return tuple(Tensor("float32", r.evaluate(operands)) for r in contract.readings(call)[:2])


def difference(call: Call, outcome: Outcome, other: Outcome, name="per-axis"):
    contract = contracts.get(call.contract)
    return equivalence.differs(judge(contract, call), "it", twin(contract, call, name), outcome, other)


def test_two_legal_answers_that_differ_are_mixed():
    exact, rounded = both(WIDE)
    assert not exact.same_bits(rounded)
    found = difference(WIDE, Outcome("tensor", exact), Outcome("tensor", rounded))
    assert (found.key.subject, found.key.contract, found.key.verdict) == ("it", MULTIPLY, "mixed")
    assert (found.key.clause, found.key.detail) == (f"{MULTIPLY}/formula", "equivalence: per-axis")
    assert found.values == int((exact.codes != rounded.codes).sum()) > 0
    assert "per axis, with equal scales" in found.summary


def test_what_is_said_elsewhere_is_not_said_again():
    exact, rounded = both(WIDE)
    wrong = Tensor("float32", exact.codes + np.uint32(100))
    good = Outcome("tensor", exact)
    for other in (
        good,
        Outcome("tensor", wrong),
        Outcome("rejected", error="ValueError"),
        Outcome("crash"),
        Outcome("tensor", tensor("float32", [[1, 2]])),
        Outcome("tensor", tensor("float16", [1, 2])),
    ):
        assert difference(WIDE, good, other) is None
        assert difference(WIDE, other, good) is None
    assert difference(WIDE, Outcome("tensor", wrong), Outcome("tensor", rounded)) is None


def test_flushed_subnormals_and_kinds_of_nan_are_no_difference():
    small = linear(ONNX + "21", [1, 100], 2.0**-149)
    kept = Outcome("tensor", tensor("float32", [2.0**-149, 100 * 2.0**-149]))
    assert difference(small, kept, Outcome("tensor", tensor("float32", [0.0, 0.0]))) is None
    nan = linear(ONNX + "21", [1, 2], np.nan)
    a, b = (Outcome("tensor", Tensor("float32", np.array([code] * 2, np.uint32))) for code in (0x7FC00000, 0xFF800001))
    assert difference(nan, a, b) is None


def test_between_editions_both_legal_sets_count():
    """float16 from int32 without a scale of its own type: version 21 rounds to float32 at most, 25 may round to float16."""
    call = linear(ONNX + "21", [2049 * 3, 2**16 + 1], 2.0**-14, dtype="int32", scale_dtype="float16")
    old, new = contracts.get(ONNX + "21"), contracts.get(ONNX + "25")
    moved = twin(old, call, f"under {ONNX}25")
    olds, news = (
        {r.evaluate(c.operands(k)).tobytes() for r in c.readings(k)} for c, k in ((old, call), (new, moved.calls[0]))
    )
    assert olds < news
    first = first_reading(call)
    for bits in news:
        other = Outcome("tensor", Tensor("float16", np.frombuffer(bits, np.uint16)))
        found = equivalence.differs(judge(old, call), "it", moved, first, other)
        assert (found is None) == equivalence.same(first, other)


# -- in a run -----------------------------------------------------------------------------------------------


def fake(load: str, *editions: str) -> Oracle:
    known = editions or (MULTIPLY,)
    return Oracle("fake", "numpy", known, known, "inconsistent_oracles", load, search_path=(TESTS,), needs_xverify=True)


@contextmanager
def running(tmp_path: Path, oracle: Oracle, *editions: str, seed: int = 3):
    """A run that has asked nothing yet."""
    loaded = tuple(contracts.get(identity) for identity in editions or oracle.contracts)
    run = Sweep(Options(loaded, (oracle,), tmp_path, "test", "xverify sweep", seed), lambda event: None)
    run.start()
    try:
        yield run
    finally:
        run.stop()


def found_in(run: Sweep) -> set[tuple[str, str, str]]:
    return {(f.key.contract, f.key.verdict, f.key.detail) for f in run.findings.sorted()}


def never() -> bool:
    return False


def test_an_implementation_that_rounds_otherwise_per_tensor_is_mixed_and_that_is_said_once(tmp_path):
    with running(tmp_path, fake("load_by_granularity"), seed=2) as run:
        assert equivalences.check(run, never) > 60
        assert found_in(run) == {(MULTIPLY, "mixed", "equivalence: per-axis")}
        (finding,) = run.findings.sorted()
        assert finding.cases > 1
        assert finding.values >= finding.cases

        def ask(call: Call) -> Outcome:
            return run.fleet.ask(finding.subject, call)

        contract = contracts.get(MULTIPLY)
        again = equivalence.reproduced(finding, judge(contract, WIDE), ask(WIDE), ask)
        assert again.key == finding.key
        assert equivalence.place(finding, judge(contract, WIDE), ask(WIDE), ask) == (0,)
        plain = linear(MULTIPLY, [1, 2], [0.5])
        assert equivalence.reproduced(finding, judge(contract, plain), ask(plain), ask) is None
        scalar = linear(MULTIPLY, 1, [0.5])
        assert equivalence.reproduced(finding, judge(contract, scalar), ask(scalar), ask) is None


def test_of_several_granularities_that_differ_alike_the_first_is_said(tmp_path):
    with running(tmp_path, fake("load_onnx_by_granularity", ONNX + "21"), seed=7) as run:
        equivalences.check(run, never)
        found = found_in(run)
    assert (ONNX + "21", "mixed", "equivalence: per-axis") in found
    assert len(found) == 1


def test_each_path_takes_its_share_and_is_a_path_of_the_same_finding(tmp_path):
    oracle = fake("load_by_granularity")
    counts = []
    for share in (0.0, 1.0):
        with running(tmp_path, replace(oracle, paths=(OraclePath("", 1.0), OraclePath("other", share)))) as run:
            counts.append(equivalences.check(run, never))
            (finding,) = run.findings.sorted()
    assert finding.paths == {"", "other"}
    assert 0 < 2 * counts[0] == counts[1]


def test_nothing_is_asked_again_for_a_finding_of_another_kind():
    other = Finding(Key("it", MULTIPLY, "mixed", f"{MULTIPLY}/formula", "int8 to float32"), SUBJECT, "", WIDE, None)

    def ask(call: Call) -> Outcome:
        raise AssertionError("asked")

    answer = Outcome("tensor", both(WIDE)[0])
    assert equivalence.reproduced(other, judge(contracts.get(MULTIPLY), WIDE), answer, ask) is None


def test_a_tail_that_follows_another_reading_shows_when_axes_are_cut_or_merged(tmp_path):
    with running(tmp_path, fake("load_tail")) as run:
        equivalences.check(run, never)
        details = {detail for _, verdict, detail in found_in(run) if verdict == "mixed"}
    assert details & {f"equivalence: {name}" for name in ("merged-axes", "split-first-axis", "split-last-axis")}


@pytest.mark.parametrize("load", ["load_exact", "load_refusing_per_channel"])
def test_a_consistent_implementation_and_one_that_refuses_have_no_finding(tmp_path, load):
    with running(tmp_path, fake(load)) as run:
        assert equivalences.check(run, never) > 20
        assert found_in(run) == set()


def test_each_of_two_documents_that_contradict_each_other_may_be_followed(tmp_path):
    with running(tmp_path, fake("load_both_documents", MULTIPLY, DIVIDE)) as run:
        assert equivalences.check(run, never) > 60
        assert found_in(run) == set()


def test_a_value_outside_the_legal_set_is_a_violation_and_nothing_else(tmp_path):
    with running(tmp_path, fake("load_wrong_per_channel")) as run:
        equivalences.check(run, never)
        assert found_in(run) == set()
        conclude(run)
        assert {verdict for _, verdict, _ in found_in(run)} == {"violation"}


def test_a_process_that_dies_costs_its_calls_and_nothing_else(tmp_path):
    with running(tmp_path, fake("load_dying_per_channel")) as run:
        equivalences.check(run, never)
        assert {verdict for _, verdict, _ in found_in(run)} == {"crash"}
        assert run.fleet.workers["fake"].failed is None


def test_a_change_between_versions_is_said_where_it_happens(tmp_path):
    editions = [f"{ONNX}{version}" for version in (10, 13, 19, 21)]
    with running(tmp_path, fake("load_by_version", *editions)) as run:
        equivalences.check(run, never)
        assert found_in(run) == {(ONNX + "10", "mixed", f"equivalence: under {ONNX}13")}
        contract = contracts.get(ONNX + "10")
        call = linear(contract.id, [1, 2], 0.5, dtype="int32")
        chosen = equivalences.twins_for(run, contract, run.fleet.subjects["fake"][0], twins(contract, call))
        assert [t.name for t in chosen if t.kind == "edition"] == [f"under {ONNX}13"]


def test_an_edition_that_does_not_judge_is_not_compared(tmp_path):
    editions = [f"{ONNX}{version}" for version in (10, 13, 19)]
    oracle = replace(fake("load_by_version", *editions), ships=(ONNX + "10", ONNX + "19"))
    with running(tmp_path, oracle, *editions) as run:
        equivalences.check(run, never)
        assert found_in(run) == {(ONNX + "10", "mixed", f"equivalence: under {ONNX}19")}


def test_time_that_has_run_out_and_an_interruption_end_it(tmp_path):
    with running(tmp_path, fake("load_by_granularity")) as run:
        assert equivalences.check(run, lambda: True) == 0
        run.interrupted.set()
        assert equivalences.check(run, never) == 0
        assert found_in(run) == set()


def test_an_interrupted_run_does_not_wait_for_a_worker_that_hangs(tmp_path, monkeypatch):
    monkeypatch.setattr(fleet, "DRAIN_SECONDS", 0.1)
    with running(tmp_path, fake("load_hanging")) as run:
        threading.Timer(1.0, run.interrupted.set).start()
        begun = time.monotonic()
        assert equivalences.check(run, never) == 0
        assert time.monotonic() - begun < 5
        assert "fake" in run.fleet.failures


def test_a_worker_that_cannot_start_is_passed_over(tmp_path):
    broken = replace(fake("load_broken"), module="fake_oracles")
    with running(tmp_path, broken) as run:
        assert equivalences.check(run, never) == 0
        assert "no such framework" in run.fleet.failures["fake"]


@pytest.mark.parametrize("identity", contracts.ids())
def test_base_calls_depend_on_the_seed_and_meet_every_type_and_granularity(identity):
    contract = contracts.get(identity)
    made = equivalences.base_calls(contract, 1)
    assert [c.digest() for c in made] == [c.digest() for c in equivalences.base_calls(contract, 1)]
    assert [c.digest() for c in made] != [c.digest() for c in equivalences.base_calls(contract, 2)]
    assert all(contract.judge(c).verdict == "allowed" and 2 <= c.values <= 1000 for c in made)
    domain = contract.domain
    kinds = {(c.data.dtype, contract.cell(c).granularity, c.attributes.get("mode", "")) for c in made}
    granularities = domain.granularities if domain.family == "linear" else ("per_tensor",)
    assert kinds == set(product(domain.x_dtypes, granularities, domain.modes or ("",)))


def test_the_kernel_of_the_house_answers_the_same_question_the_same_way(tmp_path):
    editions = (ONNX + "21", ONNX + "25", MULTIPLY, DIVIDE, *contracts.matching("tensorflow/*"))
    with running(tmp_path, all_oracles()["xverify-numpy"], *editions) as run:
        assert equivalences.check(run, never) > 500
        assert found_in(run) == set()
