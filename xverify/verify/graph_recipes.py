"""Recipes of the call's own operator that explain a graph's wrong values.

The other operators of the graph may do what their texts say, while the call's own operator departs from its edition. The
departure then has nothing to do with the graph: a lone call would show it if its path or its operands were those of the graph.
The search gives the operator each reading near an admitted one, and each recipe that lone calls of the implementation show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from xverify.contracts.model import Contract
from xverify.core.call import Call, Outcome, Tensor
from xverify.core.errors import UnknownRecipeError
from xverify.core.neighbours import DEQUANTIZE
from xverify.core.surroundings import Graph, surround
from xverify.verify.attribute import Attribution, Recipe, codes_of, named, neighbours
from xverify.verify.compare import Comparison
from xverify.verify.findings import Discrepancy, Key
from xverify.verify.graph_values import Memo, Values, evaluate
from xverify.verify.rewrites import FEW_CODES, FEW_WRONG, different, matches
from xverify.verify.verdicts import Judged, clause_text, value_clause, violates


@dataclass(frozen=True)
class EqualRecipes:
    """The recipes that explain a graph's wrong values. They give equal values there."""

    recipe: Recipe
    """The likeliest of them."""
    equal: tuple[str, ...]
    """The names of the others."""


def explain_by_recipe(
    contract: Contract, call: Call, got: Tensor, likely: Sequence[str] = (), others: bool = True
) -> EqualRecipes | None:
    """The recipes of the call's own operator from which a graph's result follows; None if there is none.

    Args:
        contract: The edition.
        call: The call in its graph.
        got: The graph's result.
        likely: Names of recipes that lone calls of the implementation show. They need less evidence, and come first.
        others: False to try no other recipes. They are hundreds.
    """
    graph = surround(call)
    assert graph.lone is not None
    wrong = different(contract, graph, got)
    every = [
        *(recipes_named(contract, likely) if wrong.pairs >= FEW_WRONG else ()),
        *(neighbours(contract, graph.lone) if others and wrong.codes >= FEW_CODES else ()),
    ]
    memo = Memo()
    explaining = [recipe for recipe in dict.fromkeys(every) if _follows(contract, graph, got, recipe, memo)]
    if not explaining:
        return None
    return EqualRecipes(explaining[0], tuple(recipe.name for recipe in explaining[1:]))


def violates_by_recipe(
    judged: Judged, subject: str, got: Tensor, comparison: Comparison, name: str, equal: tuple[str, ...] = ()
) -> Discrepancy | None:
    """The discrepancy of a graph's wrong values that follow from a recipe of its operator.

    Its key is that of lone calls with this recipe. None if no value is wrong, or if the recipe does not lead to the values.
    """
    from_types = violates(judged, subject, Outcome("tensor", got), comparison, None)
    recipe = next(iter(recipes_named(judged.contract, (name,))), None)
    if (
        from_types is None
        or recipe is None
        or not _follows(judged.contract, surround(judged.call), got, recipe, Memo())
    ):
        return None
    count = comparison.wrong_values
    clause = value_clause(judged, recipe)
    key = Key(subject, judged.contract.id, from_types.key.verdict, clause, recipe.name)
    summary = f"{subject} {recipe.words}, which contradicts {clause_text(judged, clause)!r}"
    by = Attribution(recipe.name, recipe.words, count, count)
    return Discrepancy(key, summary, by, count, comparison.max_ulp, (recipe.name,), equal)


def recipes_named(contract: Contract, names: Sequence[str]) -> Iterator[Recipe]:
    """The recipes with these names.

    Names of rewrites, and of recipes of another family of editions, are left out.
    """
    for name in names:
        try:
            yield named(contract, name)
        except UnknownRecipeError:
            continue


def _follows(contract: Contract, graph: Graph, got: Tensor, recipe: Recipe, memo: Memo) -> bool:
    """True if a graph's result follows from a recipe of its DequantizeLinear, or of each of them."""

    def dequantized(contract: Contract, call: Call) -> Values:
        codes = codes_of(contract, call, recipe)
        operands = contract.operands(call)
        return Values(operands.output_dtype, codes.reshape(1, *operands.shape), np.zeros(operands.shape, np.bool_))

    assert graph.lone is not None
    try:
        own = dequantized(contract, graph.lone)
        results = [evaluate(contract, graph, own, memo=memo)]
        if sum(node.operator == DEQUANTIZE for node in graph.nodes) > 1:
            results.append(evaluate(contract, graph, dequantizing=dequantized, memo=memo))
    except (ValueError, IndexError, KeyError, AssertionError):
        return False  # the recipe is impossible with these shapes and types
    return any(matches(made.get(graph.output), got, graph) for made in results)
