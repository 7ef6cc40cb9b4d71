"""Findings on calls among neighbours that change values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from cell_calls import ONNX
from folders import SUPPORT
from lattice_oracles import SUBJECT, Asked, changed, follows
from rewriting_oracles import load_off_by_one

from xverify import contracts
from xverify.arithmetic.readings import EXACT, by_name
from xverify.contracts.model import Cell
from xverify.core.call import Call, Outcome, Tensor
from xverify.core.dtypes import tensor
from xverify.core.surroundings import changes_values
from xverify.engine import judging
from xverify.engine.conclude_graphs import (
    GraphFault,
    blame_graphs,
    by_rewrite,
    likeliest,
    record_graphs,
    shown_rewrites,
)
from xverify.engine.options import Options
from xverify.engine.sweep import sweep
from xverify.oracles.protocol import Oracle, Path
from xverify.report.causes import causes
from xverify.report.schema import check
from xverify.verify import verdicts
from xverify.verify.findings import NEW, Finding, Findings, Subject
from xverify.verify.rewrites import Explanation
from xverify.verify.rewritten_graphs import Rewrite

EDITION = "ai.onnx/DequantizeLinear-21"
LEVELS = (Path("graph none", 0.5), Path("graph all", 1.0))


def values_causes(tmp_path, load: str, cases: int = 600) -> list:
    oracle = Oracle("flawed", "numpy", (EDITION,), (EDITION,), "rewriting_oracles", load, search_path=(str(SUPPORT),),
                    needs_xverify=True, surrounded=LEVELS)  # fmt: skip
    options = Options((contracts.get(EDITION),), (oracle,), tmp_path, "test", "xverify sweep", 3, 60.0, cases)
    report = sweep(options, lambda event: None)
    check(report)
    return [cause for cause in causes(report) if cause.kind == "values"]


def test_a_rewrite_is_named_with_the_smallest_graph_and_its_level(tmp_path, monkeypatch):
    compared: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        judging, "_compare_editions", lambda state, judged, outcomes: compared.append(judged.call.around)
    )
    named = [c for c in values_causes(tmp_path, "load_dropping") if c.title.startswith("leaves out QuantizeLinear and")]
    (cause,) = named
    finding = cause.first
    assert finding["subject"]["options"] == "graph all"
    (word,) = finding["witness"]["call"]["around"]
    assert word.startswith("y>pair:")
    assert finding["witness"]["in_graph"]
    assert " instead of " in cause.effect
    assert set(compared) == {()}  # texts are compared on lone calls


@pytest.mark.parametrize("cases", [100, pytest.param(600, marks=pytest.mark.slow)])
def test_a_fault_of_the_operator_is_no_rewrite(tmp_path, cases):
    found = values_causes(tmp_path, "load_off_by_one", cases)
    assert any("graph all" in cause.first["subject"]["paths"] for cause in found)
    assert not any("in_graph" in cause.first["witness"] for cause in found)


@pytest.mark.parametrize(
    ("around", "positive", "words"),
    [
        (("y>slice:0",), True, "quantizes the result again to uint8 without a zero point"),
        (("y>slice:0",), False, "gives 0 whatever the operands"),
        ((), True, "quantizes the result again to uint8 without a zero point"),
    ],
)
def test_zeros_in_graphs_alone_are_those_of_a_rewrite(around: tuple[str, ...], positive: bool, words: str) -> None:
    """The fake gives 0 for negative numbers, or for all."""

    def zeros(call: Call, codes: np.ndarray) -> np.ndarray:
        return np.where(codes >> 31 | np.uint32(not positive), 0, codes)

    asked = Asked(ONNX, changed(follows(ONNX, EXACT), zeros))
    for size in (40, 50, 60):
        x = np.random.default_rng(size).integers(-100, 100, size)
        call = Call(ONNX.id, {"x": tensor("int8", x), "scale": tensor("float32", 0.5)}, {"axis": 0})
        asked.ask(replace(call, around=around))
    asked.tally.settle()
    ((_, _, cell, discrepancy, judged, outcome),) = asked.tally.violations()
    by = by_rewrite(SUBJECT, discrepancy, judged, outcome, cell.evidence.wrong).attribution
    assert by is not None
    assert by.words.partition(", and")[0] == words


def test_of_several_rewrites_the_one_that_most_graphs_show_is_taken() -> None:
    def each(name: str, is_strong: bool) -> Explanation:
        return Explanation(Rewrite(name, name), is_strong)

    thin = (each("lucky", True), each("truncates", False))
    shown = Counter({"lucky": 1, "truncates": 3})
    assert likeliest(thin, shown) == Rewrite("truncates", "truncates")
    assert likeliest(thin[:1], shown) == Rewrite("lucky", "lucky")
    assert likeliest((each("never shown clearly", False),), shown) is None


def test_a_rewrite_that_graphs_show_before_another_mistake_explains_others() -> None:
    """A comparison has two results, which show no mistake clearly. Other graphs of the implementation do."""
    asked = Asked(ONNX, follows(ONNX, EXACT))
    asked.ask(Call(ONNX.id, {"x": tensor("int8", [1]), "scale": tensor("float32", 0.5)}, {"axis": 0}))
    judged = asked.last
    assert judged is not None
    assert judged.cell is not None

    def fault(*found: tuple[str, bool], edition: str = ONNX.id) -> GraphFault:
        every = tuple(Explanation(Rewrite(name, name), is_strong) for name, is_strong in found)
        cell = replace(judged.cell, contract=edition)
        return GraphFault(SUBJECT, cell, judged, Outcome("hang"), None, explanations=every)

    few = fault(("graph:unrounded", False), ("graph:truncates", False))
    whose = SUBJECT.name, ONNX.id
    assert shown_rewrites([few])[whose] == {}
    assert (
        shown_rewrites([few, fault(("graph:unrounded", True), edition="ai.onnx/DequantizeLinear-25")])[whose] == {}
    ), "another edition"
    both = fault(("graph:unrounded:fake-quantize", True), ("graph:truncates-too", True))
    shown = shown_rewrites([few, both])[whose]
    assert "graph:truncates" not in shown
    assert likeliest(few.explanations, shown) == Rewrite("graph:unrounded", "graph:unrounded")


def test_a_recipe_of_some_values_gives_way_to_a_rewrite_of_all() -> None:
    """Negative values become 0 if the result is quantized to uint8, or rounds to 0 in float16."""
    asked = Asked(ONNX, changed(follows(ONNX, EXACT), lambda call, codes: np.where(codes >> 31, 0, codes)))
    for size in (40, 50, 60):
        x = np.random.default_rng(size).integers(-100, 100, size)
        call = Call(ONNX.id, {"x": tensor("int8", x), "scale": tensor("float32", 2.0**-80)}, {"axis": 0})
        asked.ask(replace(call, around=("y>slice:0",)))
    asked.tally.settle()
    ((_, _, cell, discrepancy, judged, outcome),) = asked.tally.violations()
    wrong = cell.evidence.wrong
    assert discrepancy.attribution is not None
    partly = replace(discrepancy.attribution, reading="rounded-float16", elsewhere=("exact", "subtracts exactly"))
    by = by_rewrite(SUBJECT, replace(discrepancy, attribution=partly), judged, outcome, wrong).attribution
    assert by is not None
    assert by.words == "quantizes the result again to uint8 without a zero point"
    late = by_rewrite(SUBJECT, replace(discrepancy, attribution=partly), judged, outcome, wrong, (), is_late=True)
    assert late.attribution == partly
    shown = ("graph:quantizes-again:uint8",)
    late = by_rewrite(SUBJECT, replace(discrepancy, attribution=partly), judged, outcome, wrong, shown, is_late=True)
    assert late.attribution == by


def recorded(
    call: Call, got: Tensor, again: Tensor, suspect: Cell | None = None, *before: Finding, is_late: bool = False
) -> list[Finding]:
    """The findings of a graph that no rewrite explains, after findings of lone calls."""
    state = SimpleNamespace(
        findings=Findings(), pool=SimpleNamespace(failures=(), ask=lambda subject, call: Outcome("tensor", again)),
        options=SimpleNamespace(rules=SimpleNamespace(standing=lambda *seen: NEW, might_be_known=lambda judged: False)),
        emit=lambda event: None, first_fault=None, elapsed=lambda: 0.0, is_past_budget=lambda: is_late,
    )  # fmt: skip
    for finding in before:
        state.findings._by_key[finding.key, ""] = finding
    judged = verdicts.judge(contracts.get(call.contract), call)
    assert judged.cell is not None
    record_graphs(state, [GraphFault(SUBJECT, judged.cell, judged, Outcome("tensor", got), None, suspect)])
    return state.findings.sorted()


NEGATED = Call(
    EDITION, {"x": tensor("int8", np.arange(-128, 128)), "scale": tensor("bfloat16", 0.1)}, {}, around=("y>neg:0",)
)


def test_an_operator_that_departs_in_graphs_has_a_recipe_and_joins_lone_calls() -> None:
    codes = by_name("last-bit").evaluate(contracts.get(EDITION).operands(NEGATED))
    got = Tensor("bfloat16", np.asarray(codes ^ np.uint16(0x8000)))
    (finding,) = recorded(NEGATED, got, got)
    assert finding.key.detail == "last-bit"
    assert finding.call == NEGATED
    alone = replace(NEGATED, around=())
    before = Finding(finding.key, SUBJECT, "", alone, None, attribution=finding.attribution)
    (late,) = recorded(NEGATED, got, got, is_late=True)
    assert late.key.detail == "graph:Neg", "no search for a recipe begins late"
    (finding,) = recorded(NEGATED, got, got, None, before, is_late=True)
    assert finding.call == alone
    assert [cell.variant for cell in finding.cells] == ["in a graph"]


def test_a_graph_that_nothing_explains_joins_its_lone_call_or_is_made_again() -> None:
    got, again = (
        Tensor("bfloat16", np.random.default_rng(seed).integers(0, 1 << 14, 256).astype(np.uint16)) for seed in (1, 2)
    )
    assert [finding.key.verdict for finding in recorded(NEGATED, got, again)] == ["nondeterministic"]
    (finding,) = recorded(NEGATED, got, got)
    assert (finding.key.verdict, finding.key.detail) == ("violation", "graph:Neg")
    alone = replace(NEGATED, around=())
    lone = verdicts.judge(contracts.get(EDITION), alone).cell
    assert lone is not None
    before = Finding(replace(finding.key, detail=""), SUBJECT, "", alone, None, cells={lone})
    (finding,) = recorded(NEGATED, got, again, lone, before)
    assert len(finding.cells) == 2


@pytest.mark.parametrize("around", [("y>pair:3", "y>neg:0"), ("y>neg:0", "y>transpose:0")])
def test_a_lone_call_takes_the_blame_in_spite_of_other_mistakes(around: tuple[str, ...]) -> None:
    """The operator is off by one. The optimiser leaves out pairs, and refuses graphs that only move data."""

    def answer(subject: object, call: Call) -> Outcome:
        if call.around and not changes_values(call):
            return Outcome("rejected", error="ValueError", message="no such graph")
        kept = tuple(word for word in call.around if not word.startswith("y>pair"))
        outcome = load_off_by_one().answer(replace(call, around=kept), "")
        assert isinstance(outcome, Outcome)
        return outcome

    call = replace(NEGATED, around=around)
    judged = verdicts.judge(contracts.get(EDITION), call)
    observed: list[tuple[str, ...]] = []
    tally = SimpleNamespace(
        in_graphs=lambda: [(SUBJECT, judged.cell, SimpleNamespace(graphs=[(judged, answer(SUBJECT, call))]))],
        observe=lambda judged, subject, outcome, is_judged: observed.append(judged.call.around),
    )
    state = SimpleNamespace(
        tally=tally,
        pool=SimpleNamespace(failures=(), ask=answer),
        ended=lambda: False,
        is_time_to_shrink=lambda: "y>pair:3" not in around,
        is_past_budget=lambda: False,
    )
    (fault,) = blame_graphs(state)
    lone = verdicts.judge(contracts.get(EDITION), replace(call, around=()))
    assert fault.lone == lone.cell
    assert observed == [()]


@pytest.mark.parametrize("first", ["y>relu:0", "y>neg:0"])
def test_only_rewrites_that_graphs_showed_are_tried_past_the_budget(first: str) -> None:
    """The optimiser leaves out the first operator. The second graph is the same in both runs."""
    late = False

    def right(around: tuple[str, ...]) -> Outcome:
        judged = verdicts.judge(contracts.get(EDITION), replace(NEGATED, around=around))
        assert judged.legal is not None
        return Outcome("tensor", Tensor(judged.legal.dtype, judged.legal.distinct[0]))

    def in_graphs() -> Iterator[tuple[Subject, Cell, SimpleNamespace]]:
        nonlocal late
        for around in ((first,), ("y>relu:0",)):
            judged = verdicts.judge(contracts.get(EDITION), replace(NEGATED, around=around))
            assert judged.cell is not None
            yield SUBJECT, judged.cell, SimpleNamespace(graphs=[(judged, right(()))])
            late = True

    state = SimpleNamespace(
        tally=SimpleNamespace(in_graphs=in_graphs),
        pool=SimpleNamespace(failures=(), ask=lambda subject, call: right(())),
        ended=lambda: False,
        is_time_to_shrink=lambda: False,
        is_past_budget=lambda: late,
    )
    faults = blame_graphs(state)
    assert faults[0].rewrite is not None
    assert (faults[1].rewrite == faults[0].rewrite) is (first == "y>relu:0")
    assert bool(faults[1].explanations) is (first == "y>relu:0")
