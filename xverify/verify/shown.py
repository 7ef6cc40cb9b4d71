"""The values of a call that show each departure of a recipe: without the departure, they would differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic.readings import Stepwise
from xverify.contracts.model import Contract
from xverify.core.call import Call, Outcome
from xverify.core.errors import UnknownRecipeError
from xverify.verify.attribute import Misread, Recipe, codes_of, named
from xverify.verify.cause_keys import departure_token
from xverify.verify.departures import Departure, departures
from xverify.verify.verdicts import Judged, compared

_STAGES = frozenset(field.name for field in fields(Stepwise)) - {"precision"}
"""The stages that are looked at. Another precision changes last places, and is rarely a cause beside another departure."""


def shown(judged: Judged, outcome: Outcome, name: str) -> Mapping[str, NDArray[np.bool_]]:
    """The mask of wrong values that show each departure of a recipe, by the departure's token.

    Departures with the same token are one mistake.

    Args:
        judged: an allowed call.
        outcome: its outcome, which the recipe gives at wrong values.
        name: the recipe's name.

    Returns:
        An empty mapping if the recipe has fewer than two mistakes, or describes no call alone.
    """
    comparison, contract, call = compared(judged, outcome), judged.contract, judged.call
    if comparison is None or (judged.legal is not None and judged.legal.in_graph):
        return {}
    try:
        recipe = named(contract, name)
    except UnknownRecipeError:  # a rewrite of a graph
        return {}
    without: dict[str, Recipe] = {}
    for each in departures(recipe, contract.readings(call), contract.operands(call)):
        token = departure_token({"stage": each.stage, "is": each.actual})
        other = _without(without.get(token, recipe), each)
        if other is not None:
            without[token] = other
    if len(without) < 2:
        return {}
    return {token: comparison.wrong & _differs(contract, call, recipe, other) for token, other in without.items()}


def _without(recipe: Recipe, departure: Departure) -> Recipe | None:
    """The recipe without a departure; None if its stage is not looked at."""
    if isinstance(recipe, Misread):
        if departure.stage == "index":
            return recipe.reading
        reading = _without(recipe.reading, departure)
        return replace(recipe, reading=reading) if isinstance(reading, Stepwise) else None
    if not isinstance(recipe, Stepwise) or departure.stage not in _STAGES:
        return None
    return replace(recipe, **{departure.stage: departure.due})  # type: ignore[arg-type]


def _differs(contract: Contract, call: Call, recipe: Recipe, other: Recipe) -> NDArray[np.bool_]:
    """The mask of values on which two recipes differ."""
    return np.asarray(codes_of(contract, call, recipe) != codes_of(contract, call, other))
