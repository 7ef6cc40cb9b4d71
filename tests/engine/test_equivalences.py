"""An implementation that answers twins differently gives one finding. No other one does."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from answers_to_twins import DIVIDE, MULTIPLY, ONNX, first_reading, linear
from folders import SUPPORT

from xverify import contracts
from xverify.core.call import Call, Outcome, Tensor
from xverify.core.dtypes import tensor
from xverify.core.verdict import Verdict
from xverify.engine import equivalences
from xverify.engine.asking import start
from xverify.engine.conclude import conclude
from xverify.engine.options import Options
from xverify.engine.state import RunState, new_run
from xverify.oracles import all_oracles
from xverify.oracles.protocol import Oracle
from xverify.oracles.protocol import Path as OraclePath
from xverify.strategies.equivalents import twin, twins
from xverify.verify import equivalence
from xverify.verify.findings import Finding, Key, Subject
from xverify.verify.verdicts import judge
from xverify.workers import pool

HERE = str(SUPPORT)
SUBJECT = Subject("it", "1", "oracle")


# -- the comparison -----------------------------------------------------------------------------------------

WIDE = linear(MULTIPLY, [1, 2], [3.3], tensor("int32", [-(2**24) - 2]))
"""2^24 + 3 and 2^24 + 4 times a scale: one admitted reading rounds the first before the product."""


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
    assert (found.key.clause, found.key.detail) == (f"{MULTIPLY}/formula", "equivalence:per-axis")
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
    """Version 21 rounds int32 to float32 at most. Version 25 may round it to float16."""
    call = linear(ONNX + "21", [2049 * 3, 2**16 + 1], 2.0**-14, dtype="int32", scale_dtype="float16")
    old, new = contracts.get(ONNX + "21"), contracts.get(ONNX + "25")
    moved = twin(old, call, f"under:{ONNX}25")
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
    return Oracle("fake", "numpy", known, known, "inconsistent_oracles", load, search_path=(HERE,), needs_xverify=True)


@contextmanager
def running(tmp_path: Path, oracle: Oracle, *editions: str, seed: int = 3):
    """Return a run that has asked nothing yet."""
    loaded = tuple(contracts.get(identity) for identity in editions or oracle.contracts)
    run = new_run(Options(loaded, (oracle,), tmp_path, "test", "xverify sweep", seed), lambda event: None)
    start(run)
    try:
        yield run
    finally:
        run.pool.stop()


def found_in(run: RunState) -> set[tuple[str, str, str]]:
    return {(f.key.contract, f.key.verdict, f.key.detail) for f in run.findings.sorted()}


def never() -> bool:
    return False


def test_an_implementation_that_rounds_otherwise_per_tensor_is_mixed_and_that_is_said_once(tmp_path):
    with running(tmp_path, fake("load_by_granularity"), seed=2) as run:
        assert equivalences.check(run, never) > 60
        assert found_in(run) == {(MULTIPLY, "mixed", "equivalence:per-axis")}
        (finding,) = run.findings.sorted()
        assert finding.cases > 1
        assert finding.values >= finding.cases

        def ask(call: Call) -> Outcome:
            return run.pool.ask(finding.subject, call)

        contract = contracts.get(MULTIPLY)
        again = equivalence.reproduced(finding, judge(contract, WIDE), ask(WIDE), ask)
        assert again.key == finding.key
        assert equivalence.first_difference(finding, judge(contract, WIDE), ask(WIDE), ask) == (0,)
        plain = linear(MULTIPLY, [1, 2], [0.5])
        assert equivalence.reproduced(finding, judge(contract, plain), ask(plain), ask) is None
        scalar = linear(MULTIPLY, 1, [0.5])
        assert equivalence.reproduced(finding, judge(contract, scalar), ask(scalar), ask) is None


def test_of_several_granularities_that_differ_alike_the_first_is_said(tmp_path):
    with running(tmp_path, fake("load_onnx_by_granularity", ONNX + "21"), seed=7) as run:
        equivalences.check(run, never)
        found = found_in(run)
    assert (ONNX + "21", "mixed", "equivalence:per-axis") in found
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
    other = Finding(
        Key("it", MULTIPLY, Verdict.MIXED, f"{MULTIPLY}/formula", "types:int8:float32"), SUBJECT, "", WIDE, None
    )

    def ask(call: Call) -> Outcome:
        raise AssertionError("asked")

    answer = Outcome("tensor", both(WIDE)[0])
    assert equivalence.reproduced(other, judge(contracts.get(MULTIPLY), WIDE), answer, ask) is None


def test_a_tail_that_follows_another_reading_shows_when_axes_are_cut_or_merged(tmp_path):
    with running(tmp_path, fake("load_tail")) as run:
        equivalences.check(run, never)
        details = {detail for _, verdict, detail in found_in(run) if verdict == "mixed"}
    assert details & {f"equivalence:{name}" for name in ("merged-axes", "split-first-axis", "split-last-axis")}


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
        assert run.pool.workers["fake"].failed is None


def test_a_change_between_versions_is_said_where_it_happens(tmp_path):
    editions = [f"{ONNX}{version}" for version in (10, 13, 19, 21)]
    with running(tmp_path, fake("load_by_version", *editions)) as run:
        equivalences.check(run, never)
        assert found_in(run) == {(ONNX + "10", "mixed", f"equivalence:under:{ONNX}13")}
        contract = contracts.get(ONNX + "10")
        call = linear(contract.id, [1, 2], 0.5, dtype="int32")
        later = equivalences.later_twins(run, contract, run.pool.subjects["fake"][0], twins(contract, call))
        assert [t.name for t in later] == [f"under:{ONNX}{version}" for version in (13, 19, 21)]


def test_an_edition_that_does_not_judge_is_not_compared(tmp_path):
    editions = [f"{ONNX}{version}" for version in (10, 13, 19)]
    oracle = replace(fake("load_by_version", *editions), judged_by=(ONNX + "10", ONNX + "19"))
    with running(tmp_path, oracle, *editions) as run:
        equivalences.check(run, never)
        assert found_in(run) == {(ONNX + "10", "mixed", f"equivalence:under:{ONNX}19")}


def test_time_that_has_run_out_and_an_interruption_end_it(tmp_path):
    with running(tmp_path, fake("load_by_granularity")) as run:
        assert equivalences.check(run, lambda: True) == 0
        run.interrupted.set()
        assert equivalences.check(run, never) == 0
        assert found_in(run) == set()


def test_an_interrupted_run_does_not_wait_for_a_worker_that_hangs(tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "DRAIN_SECONDS", 0.1)
    with running(tmp_path, fake("load_hanging")) as run:
        threading.Timer(1.0, run.interrupted.set).start()
        begun = time.monotonic()
        assert equivalences.check(run, never) == 0
        assert time.monotonic() - begun < 5
        assert "fake" in run.pool.failures


def test_a_worker_that_cannot_start_is_passed_over(tmp_path):
    broken = replace(fake("load_broken"), module="fake_oracles")
    with running(tmp_path, broken) as run:
        assert equivalences.check(run, never) == 0
        assert "no such framework" in run.pool.failures["fake"]


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
