"""Implementations that are run in several ways at once: with other instruction sets, threads, denormal modes, or kernels.

Each setting is a variant with a worker of its own that is asked what the usual one is asked. A variant is not judged by any
edition: it is only compared with the usual one, so that nothing is reported twice.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xverify.contracts.model import Cell
from xverify.core.call import Outcome
from xverify.core.errors import UnableError, UsageError
from xverify.engine.select import nearest
from xverify.oracles.protocol import Oracle, Setting
from xverify.verify import verdicts
from xverify.verify.findings import Discrepancy, Key, Subject, witness_order
from xverify.verify.variants import differences, setting_of, with_setting, without_setting
from xverify.verify.verdicts import Judged

if TYPE_CHECKING:
    from xverify.engine.run import Sweep  # which calls `compare`

ANSWERS = 6
"""How often the usual way is asked a call again before a difference is put down to a setting."""

DIMENSIONS = ("isa", "threads", "denormals", "kernels")
"""What can be varied: the instruction set, the threads for one call, what becomes of subnormal numbers, whose kernels are taken
where there are several."""


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
    """The implementation with that setting: on the paths that every call takes, or else its plain one; judged by nothing."""
    return replace(
        oracle,
        name=with_setting(oracle.name, setting.name),
        arguments=(*oracle.arguments, *setting.arguments),
        environment=(*oracle.environment, *setting.environment),
        paths=tuple(path for path in oracle.paths if path.share == 1.0) or oracle.paths[:1],
        ships=(),
        varies=(),
        variant_of=oracle.name,
        setting=setting,
    )


def named(name: str, find: Callable[[str], Oracle]) -> Oracle:
    """The implementation of that name, which may be a variant's. find: the one of a name without a setting. UnableError where it
    has no such setting here."""
    oracle, setting = find(without_setting(name)), setting_of(name)
    if not setting:
        return oracle
    for one in oracle.varies:
        if one.name == setting:
            return variant(oracle, one)
    raise UnableError(f"{oracle.name} is not run with {setting} here; it has {listed(oracle)}")


def listed(oracle: Oracle) -> str:
    """The settings that an implementation has, for people."""
    return ", ".join(one.name for one in oracle.varies) or "no settings"


@dataclass(eq=False)
class Difference:
    """Calls of one cell on which a variant differs from the usual way: counts, and the smallest with its outcome."""

    found: Discrepancy
    subject: Subject
    usual: Subject
    judged: Judged
    outcome: Outcome
    cases: int = 0
    values: int = 0


Differences = dict[tuple[Key, Cell | None], Difference]


def compare(sweep: Sweep, judged: Judged, outcomes: MutableMapping[Subject, Outcome]) -> None:
    """Take the variants' outcomes of one call out of all, and note where one differs from the usual; see `conclude_variants`."""
    for subject in [one for one in outcomes if sweep.fleet.oracles[one.name].variant_of]:
        outcome, usual = outcomes.pop(subject), _usual(sweep, subject)
        for found in differences(judged, subject.name, outcomes[usual], outcome) if usual in outcomes else ():
            if found.key.verdict == "nondeterministic":
                note(sweep, found, subject, judged, outcome)
            else:
                sweep.add(found, subject, judged, outcome, usual)


def note(sweep: Sweep, found: Discrepancy, subject: Subject, judged: Judged, outcome: Outcome) -> None:
    """Note that an implementation answered one call in two ways; of a variant it is said at the end."""
    if not sweep.fleet.oracles[subject.name].variant_of:
        sweep.add(found, subject, judged, outcome)
        return
    made = Difference(found, subject, _usual(sweep, subject), judged, outcome)
    met = sweep.varied.setdefault((found.key, judged.cell), made)
    if witness_order(judged.call, judged.number) < witness_order(met.judged.call, met.judged.number):
        met.found, met.judged, met.outcome = found, judged, outcome
    met.cases += 1
    met.values += found.values


def _usual(sweep: Sweep, subject: Subject) -> Subject:
    """What a variant is compared with: the same path of what it is a variant of."""
    oracle = sweep.fleet.oracles[sweep.fleet.oracles[subject.name].variant_of]
    return replace(subject, name=oracle.name)


def conclude_variants(sweep: Sweep) -> None:
    """Add to the run's findings the differences that are the settings': not where the usual way itself answers the call now so
    and now otherwise, which is then said of it instead. To be called when no batch is under way."""
    for _, met in sorted(sweep.varied.items(), key=lambda item: (item[0][0].id(), str(item[0][1]))):
        answers = [sweep.fleet.ask(met.usual, met.judged.call) for _ in range(ANSWERS)]
        apart = [verdicts.nondeterministic(met.judged, met.usual.name, answers[0], other) for other in answers[1:]]
        unsteady = next((one for one in apart if one is not None), None)
        if unsteady is not None:
            sweep.add(unsteady, met.usual, met.judged, answers[0])
            continue
        whole = replace(met.found, values=met.values)
        sweep.add(whole, met.subject, met.judged, met.outcome, met.usual, met.cases)
