"""The departures of each finding's recipe, chosen so that findings of one mistake share them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import fields, replace

from xverify.arithmetic.readings import EXACT, Stepwise
from xverify.contracts.model import Contract
from xverify.core.call import Call
from xverify.core.errors import UnknownRecipeError
from xverify.engine.state import RunState
from xverify.verify.attribute import named
from xverify.verify.cause_keys import mistake_of_stage
from xverify.verify.departures import Departure, departures
from xverify.verify.findings import Finding

MOST_EQUAL = 24
"""Number of equal recipes of a finding whose departures are compared."""

_STAGES = frozenset(field.name for field in fields(Stepwise))


def settle_departures(state: RunState) -> None:
    """Choose the departures of every finding with a recipe.

    Values often leave several recipes possible. The recipe with the fewest departures is taken; of equally near ones, the one
    whose departures are from the first admitted reading; of these, the one whose mistakes explain the most findings of the same
    kernels.
    """
    options: dict[str, dict[Finding, list[tuple[Departure, ...]]]] = defaultdict(dict)
    for finding in state.findings.sorted():
        if (
            finding.attribution is not None
            and finding.call is not None
            and finding.key.verdict in ("violation", "mixed")
        ):
            family = (
                state.pool.oracles[finding.key.subject].kernels if finding.key.subject in state.pool.oracles else ""
            )
            options[family][finding] = _options(finding, state.contract_of(finding), finding.call)
    for by_finding in options.values():
        counts = Counter(mistake for listed in by_finding.values() for mistake in set().union(*map(_mistakes, listed)))
        for finding, listed in by_finding.items():
            if listed:
                finding.ways = listed
                finding.departures = min(
                    listed, key=lambda way: (len(way), -sum(counts[_mistake(each)] for each in way))
                )


def _mistake(departure: Departure) -> str:
    return mistake_of_stage(departure.stage, departure.actual)


def _options(finding: Finding, contract: Contract, call: Call) -> list[tuple[Departure, ...]]:
    """The departures of the finding's recipe, and of those that give the same values.

    An admitted recipe has none. The words of a departure are read as one from the plain formula. So a departure from another
    admitted reading is left out if there is one from the first that is no longer.
    """
    assert finding.attribution is not None
    admitted, operands = contract.readings(call), contract.operands(call)
    names = [finding.attribution.reading, *sorted(finding.equal - {finding.attribution.reading})[:MOST_EQUAL]]
    plain: list[tuple[Departure, ...]] = []
    others: list[tuple[Departure, ...]] = []
    for name in names:
        try:
            recipe = named(contract, name)
        except UnknownRecipeError:
            continue
        way = departures(recipe, admitted, operands)
        if way:
            is_plain = _mistakes(way) == _mistakes(departures(recipe, admitted[:1], operands))
            ways = plain if is_plain else others
            ways.append(tuple(replace(each, clause=_clause(contract, call, each)) for each in way))
    fewest = min(map(len, plain), default=None)
    return list(dict.fromkeys([*plain, *(way for way in others if fewest is None or len(way) < fewest)]))


def _mistakes(way: Sequence[Departure]) -> set[str]:
    return {_mistake(each) for each in way}


def _clause(contract: Contract, call: Call, departure: Departure) -> str:
    """The clause that one stage of the linear formula contradicts; "" for another departure."""
    if not isinstance(contract.readings(call)[0], Stepwise) or departure.stage not in _STAGES:
        return ""
    alone = replace(EXACT, **{departure.stage: departure.actual})  # type: ignore[arg-type]
    return contract.value_clause(call, alone.name)
