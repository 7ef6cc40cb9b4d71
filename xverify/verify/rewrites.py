"""Rewrites that explain the wrong values of a graph.

If a call among neighbours that change values gives a wrong result, a rewrite that does not keep the values may give exactly this
result. `xverify.verify.rewritten_graphs` makes the graphs with mistakes. Here they are compared with the result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.contracts.model import Contract
from xverify.core.bits import canonical
from xverify.core.call import Call, Outcome, Tensor
from xverify.core.dtypes import values
from xverify.core.neighbours import CHANGES
from xverify.core.surroundings import Graph, surround
from xverify.verify.attribute import Attribution
from xverify.verify.compare import Comparison
from xverify.verify.findings import Discrepancy
from xverify.verify.graph_values import Memo, Values, evaluate
from xverify.verify.rewritten_graphs import Candidate, Rewrite, candidates, combined, evaluated
from xverify.verify.verdicts import Judged, violates
from xverify.verify.wrong_quantize import BEYOND, PLAIN

FEW_CODES = 4
"""Number of different wrong values that a loose mistake, or another rounding, must explain. Many of them give one code."""

FEW_WRONG = 2
"""The same for any other mistake that may change more than one value, with the legal values in their place."""


@dataclass(frozen=True)
class Wrong:
    """The number of different finite wrong values of a result."""

    codes: int
    """The number of codes."""
    pairs: int
    """The number of codes with the legal codes in their place."""


@dataclass(frozen=True)
class Explanation:
    """A rewrite whose legal results include a graph's result."""

    rewrite: Rewrite
    is_strong: bool
    """True if enough different values tell the rewrite from the text. Otherwise another graph must show it too."""


def without_changes(call: Call) -> Call:
    """The call without the words that change values.

    The others only move data, so its outcome is that of the lone call.
    """
    kept = [word for word in call.around if not _changes(word)]
    return replace(call, around=tuple(kept))


def _changes(word: str) -> bool:
    target, _, rest = word.partition(">")
    return word.startswith(("fork:", "shared:", "x<quantize")) or (target == "y" and rest.partition(":")[0] in CHANGES)


def follows(contract: Contract, call: Call, got: Tensor, lone: Tensor) -> bool:
    """True if a graph's result follows from the implementation's own result of the lone call."""
    graph = surround(call)
    return matches(_from_own(contract, graph, lone, np.zeros(lone.shape, np.bool_)), got, graph)


def differs_where_wrong(contract: Contract, call: Call, got: Tensor, lone: Tensor, wrong: NDArray[np.bool_]) -> bool:
    """True if a graph's result is wrong only where the lone call's result is wrong.

    Then nothing tells that the other operators of the graph are to blame.

    Args:
        contract: The edition.
        call: The call in its graph.
        got: The graph's result.
        lone: The result of the lone call.
        wrong: The mask of its wrong values.
    """
    graph = surround(call)
    made = _from_own(contract, graph, lone, wrong)
    return made is not None and _agrees(made, got, graph)


def _from_own(contract: Contract, graph: Graph, lone: Tensor, is_open: NDArray[np.bool_]) -> Values | None:
    """The graph's result from the lone call's actual result, with a mask of values to leave open."""
    assert graph.lone is not None
    ends = [(missing // 2, missing - missing // 2) for missing in np.subtract(graph.lone.data.shape, lone.shape)]
    codes = np.asarray(lone.codes).reshape(lone.shape)
    if any(map(any, ends)):
        codes, is_open = np.pad(codes, ends, mode="edge"), np.pad(is_open, ends, mode="edge")
    own = Values(lone.dtype, canonical(codes, lone.dtype)[np.newaxis], is_open.reshape(codes.shape))
    return evaluate(contract, graph, own).get(graph.output)


def explanations(
    contract: Contract, call: Call, got: Tensor, among: Collection[str] | None = None
) -> list[Explanation]:
    """The rewrites whose legal results include a graph's result, the simplest first.

    Rewrites with two mistakes are listed only if no simple one has enough evidence.

    Args:
        contract: The edition.
        call: The call.
        got: The graph's result.
        among: The names of the rewrites to try; None for every one.
    """
    graph, memo = surround(call), Memo()
    wrong = different(contract, graph, got)
    singles = list(candidates(graph))

    def explaining(mistakes: Iterable[Candidate]) -> list[Explanation]:
        tried = (each for each in mistakes if among is None or each.rewrite.name in among)
        return _explaining(contract, tried, got, wrong, memo)

    every = explaining(singles)
    if not any(each.is_strong for each in every):
        every += explaining(combined(singles))
    first = {each.rewrite.name: each for each in reversed(every)}
    return [first[name] for name in dict.fromkeys(each.rewrite.name for each in every)]


def _explaining(
    contract: Contract, mistakes: Iterable[Candidate], got: Tensor, wrong: Wrong, memo: Memo
) -> list[Explanation]:
    wider: dict[int, tuple[Graph, bool]] = {}  # the graph stays alive, so that its id stays its own

    def admits(graph: Graph, candidate: Candidate) -> bool:
        if id(graph) not in wider:
            wider[id(graph)] = graph, _explains(contract, replace(candidate, graph=graph), got, memo)
        return wider[id(graph)][1]

    return [
        Explanation(candidate.rewrite, _is_shown(candidate, wrong))
        for candidate in mistakes
        if (candidate.within is None or admits(candidate.within, candidate))
        and (candidate.within is candidate.graph or _explains(contract, candidate, got, memo))
    ]


def _is_shown(candidate: Candidate, wrong: Wrong) -> bool:
    """True if enough different wrong values show a mistake to believe it."""
    if candidate.is_doubtful:
        return False
    if candidate.is_loose or candidate.rounding not in ("", PLAIN, *BEYOND):
        return wrong.codes >= FEW_CODES
    if candidate.is_constant:
        return wrong.pairs >= FEW_CODES
    return wrong.pairs >= (1 if candidate.is_special or candidate.rounding in BEYOND else FEW_WRONG)


def explain(
    contract: Contract,
    call: Call,
    got: Tensor,
    likely: Collection[str] = (),
    among: Collection[str] | None = None,
) -> Rewrite | None:
    """The simplest rewrite that explains a graph's result; None if none is known.

    Args:
        contract: The edition.
        call: The call.
        got: The graph's result.
        likely: Names of rewrites that other graphs of the implementation show. They need less evidence, and come first.
        among: As for `explanations`.
    """
    every = explanations(contract, call, got, among)
    usable = [each for each in every if each.is_strong or each.rewrite.name in likely]
    usable.sort(key=lambda each: each.rewrite.name not in likely)
    return usable[0].rewrite if usable else None


def different(contract: Contract, graph: Graph, got: Tensor) -> Wrong:
    """The different wrong values of a graph's result."""
    made = evaluate(contract, graph).get(graph.output)
    if made is None or made.dtype != got.dtype or made.open.shape != graph.shape:
        return Wrong(0, 0)
    legal, is_open, codes = _aligned(made, got, graph)
    if codes.shape != is_open.shape:
        return Wrong(0, 0)
    wrong = ~((legal == codes).any(0) | is_open) & np.isfinite(values(got.dtype, codes))
    pairs = np.unique(np.vstack([codes, legal])[:, wrong], axis=1)
    return Wrong(len(np.unique(pairs[0])), pairs.shape[1])


def gives(contract: Contract, call: Call, got: Tensor, name: str) -> Rewrite | None:
    """The rewrite with this name if its legal results include a graph's result."""
    singles, memo = list(candidates(surround(call))), Memo()
    for candidate in chain(singles, combined(singles)):
        if candidate.rewrite.name == name and _explains(contract, candidate, got, memo):
            return candidate.rewrite
    return None


def violates_in_graph(
    judged: Judged, subject: str, got: Tensor, comparison: Comparison, name: str | None
) -> Discrepancy | None:
    """The discrepancy of a graph's wrong values.

    Args:
        judged: the call.
        subject: the implementation's name.
        got: its result.
        comparison: the comparison of its values.
        name: the name of the rewrite that explains them; None if none does.

    Returns:
        None if no value is wrong, or the rewrite does not give the values.
    """
    from_types = violates(judged, subject, Outcome("tensor", got), comparison, None)
    if name is None or from_types is None:
        return from_types
    rewrite = gives(judged.contract, judged.call, got, name)
    if rewrite is None:
        return None
    count = comparison.wrong_values
    key = replace(from_types.key, detail=rewrite.name)
    summary = f"{subject} rewrites a graph and {rewrite.words}"
    by = Attribution(rewrite.name, rewrite.words, count, count)
    return Discrepancy(key, summary, by, count, comparison.max_ulp, (rewrite.name,))


# -- comparison -------------------------------------------------------------------------------------------


def _explains(contract: Contract, candidate: Candidate, got: Tensor, memo: Memo) -> bool:
    return matches(evaluated(contract, candidate, got.dtype, memo), got, candidate.graph)


def matches(made: Values | None, got: Tensor, graph: Graph) -> bool:
    """True if each value is legal or open, and at least one is not open.

    The result of a graph that only moves data was moved back to that of the lone call.
    """
    return made is not None and not made.open.all() and _agrees(made, got, graph)


def _agrees(made: Values, got: Tensor, graph: Graph) -> bool:
    """True if each value is legal or open."""
    if made.dtype != got.dtype or made.open.shape != graph.shape:
        return False
    legal, is_open, codes = _aligned(made, got, graph)
    if not codes.shape == is_open.shape == legal.shape[1:]:
        return False
    return bool(((legal == codes).any(0) | is_open).all())


def _aligned(made: Values, got: Tensor, graph: Graph) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[Any]]:
    """The legal codes, the mask of open values and the codes of a result, element by element."""
    legal, is_open = made.codes.reshape(len(made.codes), -1), made.open.reshape(-1)
    if not graph.changes_values:
        legal, is_open = legal[:, graph.places], is_open[graph.places]
    return canonical(legal, made.dtype), is_open, canonical(got.codes, got.dtype).reshape(-1)
