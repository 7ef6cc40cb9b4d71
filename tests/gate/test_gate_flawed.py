"""The gate stops every flawed kernel. `make detection` measures more seeds."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import partial
from itertools import tee
from pathlib import Path
from threading import Event

import pytest
from detection import KERNELS, detect, target_of
from flawed_kernels.table import FLAWED, Flawed
from native_compiler import compiler

from xverify.contracts.model import Contract
from xverify.core import fenv
from xverify.engine.gate_plan import Scope, walk_batches
from xverify.oracles.protocol import Oracle
from xverify.oracles.python_target import find_function
from xverify.strategies.large import STEPS
from xverify.verify.evidence import Explained
from xverify.workers.case import Case
from xverify.workers.in_process import InProcessWorker
from xverify.workers.pool import AnyWorker
from xverify.workers.worker import Worker


@pytest.fixture(autouse=True)
def one_walk_for_all(monkeypatch: pytest.MonkeyPatch, walks: dict):
    """Make each walk once for all gates: it depends on the edition, the domain and the seed only."""

    def walk(contract: Contract, scope: Scope, seed: int, turn: int = 0, *_: object) -> Iterator[list[Case]]:
        key = contract.id, repr(scope), seed, turn
        if key not in walks:
            walks[key] = tee(walk_batches(contract, scope, seed, turn), 1)[0]
        return copy(walks[key])

    monkeypatch.setattr("xverify.gate.gate.walk_batches", walk)


@pytest.fixture(scope="module")
def walks() -> dict:
    """Walks by edition, domain and seed. A copy of one begins at its beginning."""
    return {}


def compilable(target: str) -> None:
    if ".c:" in target and compiler() is None:
        pytest.skip("there is no C compiler: pip install ziglang")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all gates, so that each source is compiled once."""
    return tmp_path_factory.mktemp("gates")


def here(target: str, oracle: Oracle, directory: Path, *, bell: Event, **_: object) -> AnyWorker:
    """Return a worker in this process, as `xverify.testing.verify_kernel` has for a function.

    Starting a process would take longer than most of these gates.
    """
    return InProcessWorker(find_function(target), fenv.current(), bell=bell)


PAST_FLOAT32 = "index_in_float32"
"""The kernel that is wrong only in the largest calls. Its gate has their real sizes."""

REPRESENTATIVES = (
    "int8_difference_wraps", "last_axis_refused", "always_float32", "fnuz_nan_as_negative_zero", "uint4_read_as_signed",
    "blocks_interleaved", "multiplied_by_inverse", "scales_of_first_call", "output_buffer_kept", "axis_zero_taken_as_absent",
    "anything_that_broadcasts_taken", "narrow_range_not_looked_at", "tail_written_past_end", "odd_rest_never_ends",
    "subnormals_flushed", "address_aligned_down", "absent_zero_point_read", "upper_nibble_first",
    "later_blocks_alternate", "pitch_of_scale_ignored", "rows_above_65535_left_out", PAST_FLOAT32,
)  # fmt: skip
"""Kernels that cover each file, verdict and contract. `make nightly` takes all others."""


def marked(flawed: Flawed):
    marks = () if flawed.name in REPRESENTATIVES else (pytest.mark.slow,)
    return pytest.param(flawed, marks=marks, id=flawed.name)


def test_representatives_show_every_verdict_file_and_contract():
    some = [flawed for flawed in FLAWED if flawed.name in REPRESENTATIVES]
    assert len(some) == len(REPRESENTATIVES)
    assert {verdict for flawed in some for verdict in flawed.expected} == {v for f in FLAWED for v in f.expected}
    for of in ("contract", "file"):
        assert {getattr(flawed, of) for flawed in some} == {getattr(flawed, of) for flawed in FLAWED}


@pytest.mark.parametrize("flawed", [marked(flawed) for flawed in FLAWED])
def test_a_flawed_kernel_is_stopped(flawed: Flawed, folder: Path, monkeypatch: pytest.MonkeyPatch):
    compilable(flawed.target)
    monkeypatch.syspath_prepend(KERNELS)  # this also removes what a kernel's file adds to the path
    dies = flawed.native or flawed.expected & {"crash", "hang"}
    worker = Worker if dies else partial(here, target_of(flawed.target, folder))
    budget = 120.0
    if flawed.name == PAST_FLOAT32:
        monkeypatch.setattr("xverify.gate.largest.STEPS", STEPS)
        # A gate leaves the largest call out on a machine that would need most of the limit for it. This one is never so slow.
        monkeypatch.setattr("detection.CALL_SECONDS", 240.0)
        budget = 1200.0
        # To name the mistake of 16 million values would take most of the time, and tells nothing about the verdict.
        monkeypatch.setattr("xverify.verify.tally.explained", lambda *_: Explained(None))
    found = detect(flawed, 0, folder, budget, worker)
    assert found.verdicts & flawed.expected, f"{found.verdicts or 'nothing'} for {sorted(flawed.expected)}"
    assert found.seconds is not None


def test_every_kernel_is_where_the_table_says():
    assert all((KERNELS / flawed.target.rpartition(":")[0]).is_file() for flawed in FLAWED)
    assert len({flawed.source for flawed in FLAWED}) >= 40
    assert sum(flawed.native for flawed in FLAWED) >= 12
