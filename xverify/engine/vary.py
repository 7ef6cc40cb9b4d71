"""Implementations that are run in several ways at once: with other instruction sets, threads, or denormal modes.

Each setting is a variant with a worker of its own that is asked what the usual one is asked. A variant is not judged by any
edition: it is only compared with the usual one, so that nothing is reported twice.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from oracles.protocol import Oracle, Setting
from xverify.core.call import Outcome
from xverify.engine.select import UsageError, nearest
from xverify.verify.findings import Subject
from xverify.verify.variants import differences, setting_of, with_setting, without_setting
from xverify.verify.verdicts import Judged

if TYPE_CHECKING:
    from xverify.engine.run import Sweep  # which calls `compare`

DIMENSIONS = ("isa", "threads", "denormals")
"""What can be varied: the instruction set, the threads for one call, what becomes of subnormal numbers."""


def dimensions(listed: str) -> tuple[str, ...]:
    """The dimensions that a text such as "isa,threads" lists. Raises UsageError for an unknown one."""
    names = tuple(dict.fromkeys(name.strip() for name in listed.split(",") if name.strip()))
    for name in names:
        if name not in DIMENSIONS:
            raise UsageError(f"{name!r} cannot be varied{nearest(name, DIMENSIONS)}; there are {', '.join(DIMENSIONS)}")
    return names


def variants(oracles: Sequence[Oracle], wanted: Sequence[str]) -> tuple[tuple[Oracle, ...], tuple[str, ...]]:
    """A variant of each implementation for each setting of those dimensions, and a sentence for each dimension that none of
    them has."""
    made = [variant(oracle, one) for oracle in oracles for one in oracle.varies if one.dimension in wanted]
    met = {oracle.setting.dimension for oracle in made if oracle.setting is not None}
    names = ", ".join(oracle.name for oracle in oracles)
    return tuple(made), tuple(
        f"{name} is not varied: none of {names} has a setting for it" for name in wanted if name not in met
    )


def variant(oracle: Oracle, setting: Setting) -> Oracle:
    """The implementation with that setting: on its plain path, judged by nothing."""
    return replace(
        oracle,
        name=with_setting(oracle.name, setting.name),
        arguments=(*oracle.arguments, *setting.arguments),
        environment=(*oracle.environment, *setting.environment),
        paths=oracle.paths[:1],
        ships=(),
        varies=(),
        variant_of=oracle.name,
        setting=setting,
    )


def named(name: str, find: Callable[[str], Oracle]) -> Oracle:
    """The implementation of that name, which may be a variant's. find: the one of a name without a setting. LookupError where it
    has no such setting here."""
    oracle, setting = find(without_setting(name)), setting_of(name)
    if not setting:
        return oracle
    for one in oracle.varies:
        if one.name == setting:
            return variant(oracle, one)
    raise LookupError(f"{oracle.name} is not run with {setting} here; it has {listed(oracle)}")


def listed(oracle: Oracle) -> str:
    """The settings that an implementation has, for people."""
    return ", ".join(one.name for one in oracle.varies) or "no settings"


def compare(sweep: Sweep, judged: Judged, outcomes: MutableMapping[Subject, Outcome]) -> None:
    """Take the variants' outcomes of one call out of all, and add to the run's findings where one differs from the usual."""
    for subject in [one for one in outcomes if sweep.fleet.oracles[one.name].variant_of]:
        outcome, way = outcomes.pop(subject), (sweep.fleet.oracles[subject.name].variant_of, subject.options)
        for usual in [one for one in outcomes if (one.name, one.options) == way]:
            for found in differences(judged, subject.name, outcomes[usual], outcome):
                sweep.add(found, subject, judged, outcome, usual)
