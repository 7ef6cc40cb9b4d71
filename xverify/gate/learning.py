"""The calls that a kernel takes, learnt from those that it refuses as not implemented.

The walk meets every structure with every type, but a kernel may take few of them. Then the gate makes ordinary calls, and varies
one property at a time of those that are answered. It runs the walk again within what the kernel takes. What it learns only
decides which further calls are made. Every answer is judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from xverify.contracts.model import Contract, Domain
from xverify.core.call import Call
from xverify.engine.asking import Limit, ask
from xverify.engine.gate_plan import Scope
from xverify.engine.plan import derived_seed, numbered
from xverify.engine.state import RunState
from xverify.strategies.learnt import TYPES, learnt_limits, ordinary_structures, refusals_in_words, variations
from xverify.strategies.limits import PROPERTIES, CallLimits, granularity_of
from xverify.strategies.structures import Structure, build
from xverify.workers.case import Case

FIRST_BATCHES = 24
"""Batches of the walk after which the gate checks if the kernel answers at all."""

FEW_ANSWERED = 0.05
"""The share of answered calls below which the gate learns before it goes on with the walk."""

PROBES = 1 << 19
"""The first number of the calls from which the gate learns."""

_FIELDS = dict(zip(TYPES, ("x_dtypes", "scale_dtypes", "output_dtypes", "granularities"), strict=True))
"""The field of a domain that lists the values of a property."""

AT_ONCE = 64
"""The number of ordinary calls that are sent before the gate checks for an answer."""

VARIED = 2
"""The number of answered calls of each granularity that are varied."""


def answers_little(run: RunState) -> bool:
    """True if the kernel refuses nearly all calls as not implemented."""
    answered = sum(reach.answered for reach in run.reach.values())
    refused = sum(reach.refused for reach in run.reach.values())
    return refused > AT_ONCE and answered < FEW_ANSWERED * (answered + refused)


def is_outside(run: RunState, call: Call) -> bool:
    """True if the run learnt that the kernel does not take the types or the granularity of a call."""
    domain = run.scopes[call.contract].domain
    scale = call.tensors.get("scale")
    inside = (
        call.data.dtype in domain.x_dtypes
        and (scale is None or scale.dtype in domain.scale_dtypes)
        and str(call.attributes.get("output_dtype", scale.dtype if scale else "float32")) in domain.output_dtypes
        and (scale is None or granularity_of(call) in domain.granularities)
    )
    return not inside


def learn(run: RunState, texts: Mapping[str, Contract], scopes: dict[str, Scope], seed: int, limit: Limit) -> None:
    """Learn which calls the kernel takes, and narrow the scopes to them, in place."""
    for name, text in texts.items():
        reach, scope = run.reach[name], scopes[name]
        if not reach.refused or (text.domain.family == "range" and not reach.answered):
            continue
        if not reach.probes:
            _probe(run, text, scope, seed, limit)
        scopes[name] = narrowed_by(scope, learnt_limits(reach.records))


def narrowed_by(scope: Scope, learnt: CallLimits) -> Scope:
    """A scope within learnt limits.

    Types and granularities narrow its domain, other properties its limits.
    """
    domain = scope.domain
    changes: dict[str, Any] = {}
    for name, values in learnt.admitted:
        if name in _FIELDS:
            listed = getattr(domain, _FIELDS[name])
            changes[_FIELDS[name]] = tuple(value for value in listed if value in values) or listed
    others = tuple((name, values) for name, values in learnt.admitted if name not in _FIELDS)
    limits = CallLimits(others, learnt.without).and_(scope.stated)
    return replace(scope, domain=replace(domain, **changes), limits=limits)


def _probe(run: RunState, text: Contract, scope: Scope, seed: int, limit: Limit) -> None:
    """Send ordinary calls until some are answered, then variations of answered calls."""
    reach = run.reach[text.id]
    narrow = replace(text, domain=scope.domain)
    rng = np.random.default_rng(derived_seed(seed, text.id, "ordinary calls"))
    if not any(reach.samples.values()):
        made = [s for kind in scope.domain.granularities for s in ordinary_structures(scope.domain, kind)]
        shuffled = _calls(narrow, scope, [made[index] for index in rng.permutation(len(made))])
        while not any(reach.samples.values()) and (chunk := list(islice(shuffled, AT_ONCE))):
            if limit():
                return
            _ask(run, text, chunk, limit)
    # Another granularity may be taken with the types of the answered calls.
    answered = [call for calls in reach.samples.values() for call in calls]
    for kind in scope.domain.granularities:
        if answered and not reach.samples[kind] and not limit():
            typed = replace(narrow, domain=_types_of(answered, scope.domain))
            _ask(run, text, list(_calls(typed, scope, ordinary_structures(typed.domain, kind))), limit)
    for calls in list(reach.samples.values()):
        for call in sorted(calls, key=lambda call: -call.values)[:VARIED]:
            if not limit():
                varied = variations(call, narrow, scope.stated, reach.records)
                _ask(run, text, list(varied), limit)


def _calls(contract: Contract, scope: Scope, structures: Iterable[Structure]) -> Iterator[Call]:
    """Calls of the structures that are allowed and within the stated limits."""
    repair = replace(scope, limits=scope.stated).repair(contract)
    for number, structure in enumerate(structures):
        call = repair(build(contract, structure, f"ordinary {number}"))
        if call is not None:
            yield call


def _types_of(calls: Iterable[Call], domain: Domain) -> Domain:
    x = {call.data.dtype for call in calls}
    scales = {call.tensors["scale"].dtype for call in calls if "scale" in call.tensors}
    outputs = {str(call.attributes.get("output_dtype", "")) for call in calls} - {""} | scales
    return replace(
        domain,
        x_dtypes=tuple(dtype for dtype in domain.x_dtypes if dtype in x),
        scale_dtypes=tuple(dtype for dtype in domain.scale_dtypes if dtype in scales),
        output_dtypes=tuple(dtype for dtype in domain.output_dtypes if dtype in outputs),
    )


def _ask(run: RunState, text: Contract, calls: list[Call], limit: Limit) -> None:
    reach = run.reach[text.id]
    first, reach.probes = PROBES + reach.probes, reach.probes + len(calls)
    if calls:
        ask(run, {text.id: numbered(iter([[Case(call, 0, "walk") for call in calls]]), first)}, limit)


# -- words --------------------------------------------------------------------------------------------------


def scope_in_words(domain: Domain, scope: Scope) -> str:
    """The calls that a scope leaves in an edition's domain; "" if it leaves all.

    Args:
        domain: The edition's domain, as the user narrowed it.
        scope: The scope of the calls that were made.
    """
    parts = [
        PROPERTIES[name].words(frozenset(getattr(scope.domain, field)))
        for name, field in sorted(_FIELDS.items(), key=lambda item: item[0] != "granularity")
        if set(getattr(scope.domain, field)) != set(getattr(domain, field))
    ]
    return ", ".join([*parts, *([str(scope.limits)] if scope.limits else [])])


def in_report(run: RunState, texts: Mapping[str, Contract], domains: Mapping[str, Domain]) -> dict[str, Any]:
    """The limits of a run, for the report of a gate.

    Returns:
        "scope": the calls that the kernel takes, in words, "" for all; "refused": the calls that it refuses as not
        implemented, in words, most frequent first; "partial": True if the user's options or these leave out calls.
    """
    scopes = {name: scope_in_words(domains[name], run.scopes[name]) for name in texts if name in run.scopes}
    several = len(texts) > 1
    words = [f"{name}: {scope}" if several else scope for name, scope in scopes.items() if scope]
    refused = [row for name in texts if name in run.reach for row in refusals_in_words(run.reach[name].records)]
    narrowed = any(domains[name] != text.domain for name, text in texts.items())
    values_only = any(scope.values_only for scope in run.scopes.values())
    return {
        "scope": "; ".join(words),
        "refused": list(dict.fromkeys(refused)),
        "partial": bool(words or refused or narrowed or values_only),
    }
