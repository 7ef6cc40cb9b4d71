"""The evidence for a pass: what is missing in which cells, and kernels that give too little."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from detection import KERNELS
from flawed_kernels.table import ALMOST_NOTHING, SOUND, AlmostNothing, Sound

from xverify import contracts, dequantize_linear
from xverify.contracts.model import Cell, Contract
from xverify.core import fenv
from xverify.engine.gate_plan import Scope, walk_batches
from xverify.gate.evidence import MANY, Lack, cells_of, lacks, sentence
from xverify.gate.gate import gate, narrowed, nothing_more
from xverify.gate.options import GateOptions
from xverify.oracles.plugin import USERS
from xverify.oracles.python_target import find_function
from xverify.report import decision
from xverify.strategies.ordinary import SHAPES, ordinary_calls
from xverify.verify.ordinary import OrdinaryCalls, oddity_of
from xverify.verify.tally import CellTally
from xverify.workers.case import Case
from xverify.workers.in_process import InProcessWorker

NEWEST = "ai.onnx/DequantizeLinear-25"
CELL = Cell(NEWEST, "int8", "float32", "", "float32", "per_tensor", "")
OTHER = replace(CELL, x_dtype="uint8")


def tally(answered: str = "", refused: str = "", largest: int = 100, **counts: Any) -> CellTally:
    """A tally whose ordinary calls have these ranks: one digit for each call."""
    sent = OrdinaryCalls(largest_sent=100, largest=largest, sent={*map(int, answered + refused)})
    for number, rank in enumerate(answered):
        sent.answered[int(rank)].add(number)
        sent.taken.add(int(rank))
    for number, rank in enumerate(refused):
        sent.unsupported[int(rank)].add(-1 - number)
    return CellTally(answered=len(answered), unsupported=len(refused), ordinary=sent, **counts)


def missing(*tallies: CellTally) -> list[str]:
    """The missing evidence of a first cell and a second one, in the order of their tallies."""
    cells = dict(zip((CELL, OTHER), ([counts] for counts in tallies), strict=False))
    by_cell = {cell: lack.missing for lack in lacks(cells, tuple(cells)) for cell in lack.cells}
    return [by_cell.get(cell, "") for cell in cells]


def test_the_missing_evidence_of_a_cell_is_named():
    assert missing(tally("12")) == [""]
    assert missing(tally("", "12")) == [""], "it is not implemented"
    assert missing(tally("12", largest=64)) == ["no answered call has more than 64 elements"]
    assert missing(tally("11"), tally("23")) == ["only calls of rank 1 were answered, not of rank 2 or 3", ""]
    assert missing(tally("11")) == [""], "no other rank was possible"
    assert missing(tally("11", "222"), tally("23")) == ["only calls of rank 1 were answered, not of rank 3", ""]
    assert missing(tally("11", "23"), tally("23")) == ["", ""], "this cell is not implemented for other ranks"
    few = {CELL: [tally("11", "1112")], OTHER: [tally("2" * MANY + "3")]}
    assert [lack.missing for lack in lacks(few, [CELL])] == ["only calls of rank 1 were answered, not of rank 2 or 3"]
    assert not lacks(few, [CELL], {NEWEST: {1}}), "the gate learnt that the kernel takes rank 1 only"
    assert missing(CellTally(answered=3)) == ["no call with ordinary values was answered"]
    empty = CellTally(answered=3)
    empty.ordinary.others["empty"] = 3
    assert missing(empty) == ["only calls with an empty x were answered"]
    assert missing(CellTally(cases=3)) == ["no call was answered"]
    assert lacks({}, [CELL]) == [Lack((CELL,), "the edition allows none of the calls that were made")]


def test_the_reason_names_the_largest_group_and_the_number_of_others():
    groups = [{"cells": 3, "where": "per axis", "missing": "m"}, {"cells": 1, "where": "w", "missing": "n"}]
    reason = sentence({"cells": 9, "lacking": groups})
    assert reason.startswith("4 of 9 cells lack evidence: per axis: m; and 1 other group; ")
    assert sentence({"cells": 9, "lacking": []}) == ""


@pytest.mark.parametrize("contract", [*map(contracts.get, contracts.ids())], ids=lambda contract: contract.id)
def test_every_cell_has_ordinary_calls_in_two_ranks(contract: Contract):
    cells = cells_of(contract, contract.domain)
    assert cells_of(contract, contract.domain, set(cells)) == cells
    for cell in cells[:: max(1, len(cells) // 20)]:
        calls = [next(ordinary_calls(contract, cell, rank), None) for rank in SHAPES]
        made = [call for call in calls if call is not None]
        assert len({len(call.data.shape) for call in made}) >= min(2, len(contract.domain.ranks) or 2), cell
        assert all(call.values > 64 and not oddity_of(call) for call in made)


# -- gates -------------------------------------------------------------------------------------------------------------


def right(x, scale, zero_point=None, **attributes):
    return dequantize_linear(x, scale, zero_point, contract=NEWEST, backend="numpy", **attributes)


def refuses_all(*operands, **attributes):
    raise ValueError("cannot find the library")


def refuses_a_cell(x, scale, zero_point=None, **attributes):
    if zero_point is not None:
        raise ValueError("no zero point, please")
    return right(x, scale, **attributes)


def only(condition: Callable[[Any, Any], bool]) -> Callable[..., Any]:
    """A kernel that does not implement other calls."""

    def kernel(x, scale, zero_point=None, **attributes):
        y = right(x, scale, zero_point, **attributes)
        if not condition(x, scale):
            raise NotImplementedError
        return y

    return kernel


def gated(kernel: Callable[..., Any], folder: Path, *within: tuple[str, ...], contract: str = NEWEST) -> dict[str, Any]:
    """The report of the walk of one kernel in this process."""
    text = contracts.get(contract)
    domain = narrowed(text.domain, *within)
    return gate(
        GateOptions(
            kernel=replace(USERS, name="kernel", module="", version="in this process"), contracts=(text,),
            directory=folder, run_id="run", command="", shrink=False, draw=nothing_more, within={text.id: domain},
            worker=lambda oracle, directory, *, bell, **_: InProcessWorker(kernel, fenv.current(), bell=bell),
        ),
        lambda event: None,
    )  # fmt: skip


DOMAIN = (("int8",), ("float32",), ("per_tensor",))


@pytest.fixture(scope="module")
def small_calls() -> dict[tuple[str, str, int], list[list[Case]]]:
    """The cheap calls of the walks, by edition, domain and turn."""
    return {}


@pytest.fixture(autouse=True)
def walk_of_small_calls(monkeypatch: pytest.MonkeyPatch, small_calls: dict[tuple[str, str, int], list[list[Case]]]):
    """Make each walk once for all gates, with its cheap calls only."""

    def walk(contract: Contract, scope: Scope, seed: int, turn: int = 0, *_: object) -> Iterator[list[Case]]:
        key = contract.id, repr(scope), turn
        if key not in small_calls:
            batches = walk_batches(contract, scope, seed, turn)
            small_calls[key] = [[case for case in batch if _is_cheap(case)] for batch in batches]
        return iter([batch for batch in small_calls[key] if batch])

    monkeypatch.setattr("xverify.gate.gate.walk_batches", walk)
    monkeypatch.setattr("xverify.gate.gate.equivalences.check", lambda run, limit: None)
    monkeypatch.setattr("xverify.gate.gate.learn", lambda *arguments: False)


def _is_cheap(case: Case) -> bool:
    return case.call.values < 600 and case.phase != "invalid"


def test_a_right_kernel_has_evidence_in_every_cell(tmp_path: Path):
    report = gated(right, tmp_path, *DOMAIN)
    assert report["gate"]["outcome"] == "pass"
    evidence = report["gate"]["evidence"]
    assert evidence["answered_calls"] == evidence["allowed_calls"] > 50
    assert evidence["cells"] == 6
    assert decision.covered(report).startswith("answered ")


def test_a_kernel_of_one_rank_passes_and_one_of_short_vectors_does_not(tmp_path: Path):
    assert gated(only(lambda x, scale: x.ndim == 1), tmp_path / "rank", *DOMAIN)["gate"]["outcome"] == "pass"
    short = gated(only(lambda x, scale: x.ndim == 1 and x.size <= 64), tmp_path / "short", *DOMAIN)
    assert short["gate"]["outcome"] == "unable"
    groups = short["gate"]["evidence"]["lacking"]
    assert "no answered call has more than 64 elements" in [group["missing"] for group in groups]
    assert decision.lacking(short)[0].startswith(f"no evidence in {groups[0]['cells']} cells ({groups[0]['where']}): ")


@pytest.mark.parametrize(
    "kernel", [kernel for kernel in SOUND if kernel.target.startswith("sound.py:")], ids=lambda kernel: kernel.target
)
def test_a_sound_kernel_passes(kernel: Sound, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """One kernel for each family of editions."""
    monkeypatch.syspath_prepend(KERNELS)
    text = contracts.get(kernel.contract)
    within = ("int8",), tuple(text.domain.scale_dtypes[:1]), text.domain.granularities
    made = gated(find_function(str(KERNELS / kernel.target)), tmp_path, *within, contract=kernel.contract)["gate"]
    assert made["outcome"] == "pass", made["reason"]
    assert made["calls"] > 100


@pytest.mark.parametrize("kernel", ALMOST_NOTHING, ids=lambda kernel: kernel.name)
def test_a_kernel_that_answers_almost_nothing_does_not_pass(kernel: AlmostNothing, tmp_path: Path):
    made = gated(find_function(str(KERNELS / kernel.target)), tmp_path, *DOMAIN)["gate"]
    assert {"pass": 0, "findings": 1, "unable": 3}[made["outcome"]] == kernel.exit_code, made["reason"]


def test_a_refusal_fails_a_kernel_that_answers_others_and_is_no_verdict_on_one_that_answers_none(tmp_path: Path):
    none = gated(refuses_all, tmp_path / "none", *DOMAIN)
    assert none["gate"]["outcome"] == "unable"
    assert "refused every allowed call" in none["gate"]["reason"]
    assert not none["findings"]
    some = gated(refuses_a_cell, tmp_path / "some", *DOMAIN)
    assert some["gate"]["outcome"] == "findings"
    (finding,) = some["findings"]
    assert finding["summary"].endswith("(ValueError), and it answers no call of the same cells")
