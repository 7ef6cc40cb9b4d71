"""Implementations of whole graphs whose optimiser makes one mistake, or whose operator does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from xverify import contracts
from xverify.core.call import Call, Outcome, Tensor
from xverify.core.surroundings import surround
from xverify.oracles.protocol import Loaded
from xverify.verify.graph_values import evaluate, from_legal
from xverify.verify.legal import legal_set
from xverify.verify.verdicts import judge


def _result(call: Call, off_by_one: bool = False) -> Outcome:
    """The graph's result from the first legal values of the call, or from their neighbours."""
    contract, graph = contracts.get(call.contract), surround(call)
    if judge(contract, replace(call, around=())).judgement.verdict != "allowed":
        return Outcome("rejected", error="ValueError", message="the call is not allowed")
    assert graph.lone is not None
    own = from_legal(legal_set(contract, graph.lone))
    own = replace(own, codes=own.codes[:1] ^ own.codes.dtype.type(off_by_one))
    made = evaluate(contract, graph, own)[graph.output]
    return Outcome("tensor", graph.back(Tensor(made.dtype, np.ascontiguousarray(made.codes[0]).reshape(graph.shape))))


def load_dropping() -> Loaded:
    """Leave out every QuantizeLinear that a DequantizeLinear follows, with it, at the highest level."""

    def answer(call: Call, path: str) -> Outcome:
        kept = [word for word in call.around if not word.startswith("y>pair") or path != "graph all"]
        return _result(replace(call, around=tuple(kept)))

    return Loaded(answer, ())


def load_off_by_one() -> Loaded:
    """Compute every graph rightly from wrong values of the operator."""
    return Loaded(lambda call, path: _result(call, off_by_one=True), ())
