"""Phase: make calls and judge the outcomes until the budget or the number of cases is used up."""

from __future__ import annotations

from functools import partial

from xverify.engine.asking import ask
from xverify.engine.plan import batches
from xverify.engine.state import FINAL_SHARE, RunState


def explore(state: RunState) -> None:
    """Send the planned calls of every contract."""
    options = state.options
    streams = {
        c.id: batches(c, options.seed, state.pool.surrounds(c), options.part(c).slice) for c in options.contracts
    }
    quotas = {c.id: options.part(c).cases for c in options.contracts}
    cases = options.cases if None in quotas.values() else {name: number or 0 for name, number in quotas.items()}
    ask(state, streams, partial(state.out_of, 1 - state.end_share - FINAL_SHARE), cases, state.patience)
