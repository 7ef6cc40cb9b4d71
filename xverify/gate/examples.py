"""What Hypothesis draws for a kernel in a test suite, with the settings of that suite, and what its database remembers.

The calls that showed a fault are kept as lines (`xverify.core.line`), so that one is the same call for every version
of the strategies that may have drawn it, and is kept as it was shrunk, whatever phase found it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from hypothesis import Phase, find, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException

from strategies.calls import calls, invalid_calls, unspecified_calls
from strategies.spoil import breakable, openable
from xverify.contracts.model import Contract, Domain
from xverify.core.call import Call
from xverify.core.line import call_from_line
from xverify.engine.gate_plan import DRAWN
from xverify.engine.plan import Case, numbered
from xverify.engine.run import Limit, Sweep
from xverify.verify import verdicts
from xverify.verify.findings import Finding, Key
from xverify.verify.shrink import faults

SHRUNK_BY = 0.6
"""Share of the budget after which a failing example is shrunk no more by Hypothesis: the rest is for the gate's own."""

PATIENCE = 2.0
"""Seconds that a call may take past the end of the asking."""

VALID, INVALID, UNSPECIFIED = 12, 2, 1
"""How many of each are drawn, as in a sweep."""

CYCLE = 32
"""A call with the last number of a cycle is asked on every path, one with the first is asked again after its batch."""


@dataclass(eq=False)
class Examples:
    """What one test knows of calls that fail. profile: the test suite's settings. kernel: the kernel's name. identity: what else
    decides what is asked and what is right, so that two tests do not take each other's calls for their own.

    falsified: calls that showed a fault when they were drawn.
    """

    profile: settings
    kernel: str
    identity: Sequence[str]
    within: dict[str, Domain]
    allow_mixed: bool = False
    falsified: list[Call] = field(default_factory=list)

    # -- the database -------------------------------------------------------------------------------------

    def _key(self, contract: Contract) -> bytes:
        return "\n".join(("xverify", self.kernel, contract.id, *self.identity)).encode()

    def remember(self, contract: Contract, lines: Iterable[str]) -> None:
        """Keep calls that fail in Hypothesis' database."""
        if self.profile.database is not None:
            for line in filter(None, lines):
                self.profile.database.save(self._key(contract), line.encode())

    def _remembered(self, contract: Contract) -> list[tuple[bytes, Call]]:
        """What is kept, the shortest first; what is damaged is dropped."""
        database, known = self.profile.database, []
        if database is None or Phase.reuse not in self.profile.phases:
            return []
        for kept in sorted(database.fetch(self._key(contract)), key=lambda kept: (len(kept), kept)):
            try:
                known.append((kept, call_from_line(kept.decode("ascii")).under(contract.id)))
            except ValueError:
                database.delete(self._key(contract), kept)
        return known

    # -- asking -------------------------------------------------------------------------------------------

    def first(self, run: Sweep) -> bool:
        """Ask what failed before. Whether some of it still does: then the rest can wait. What no longer fails is forgotten."""
        fails = False
        for contract in run.options.contracts:
            shows = partial(self._shows, run, contract, {})
            for place, (kept, call) in enumerate(self._remembered(contract)):
                seen = len(run.findings)
                ask_fully(run, contract, call, place)
                if len(run.findings) > seen or run.fault_seen or shows(call):
                    fails = True
                elif self.profile.database is not None:
                    self.profile.database.delete(self._key(contract), kept)
        return fails

    def draw(self, run: Sweep, limit: Limit) -> None:
        """Have Hypothesis look for a call that fails, under each edition, where nothing before has shown a fault."""
        if Phase.generate not in self.profile.phases:
            return
        for contract in run.options.contracts:
            if run.fault_seen or limit():
                return
            open_calls: list[Call] = []
            known: dict[str, bool] = {}
            shows = partial(self._shows, run, contract, known, open_calls)

            def in_time(call: Call, known: dict[str, bool] = known, shows: Callable[[Call], bool] = shows) -> bool:
                # What was said of a call stays: Hypothesis asks for the smallest one again, also when the time is over.
                late = limit() or (any(known.values()) and run.out_of(SHRUNK_BY))
                return known.get(call.digest(), False) if late else shows(call)

            with suppress(HypothesisException):  # nothing fails, or nothing can be drawn
                self.falsified.append(find(self._drawn(contract), in_time, settings=self._settings()))
                ask_fully(run, contract, self.falsified[-1], len(self.falsified))
            cases = iter([[Case(call, 0, "hypothesis") for call in open_calls]])
            run.ask({contract.id: numbered(cases, DRAWN)}, limit, patience=PATIENCE)

    def _settings(self) -> settings:
        """The test suite's, but for what has no meaning here: a deadline for one call, which the gate has itself; its database,
        which holds lines; and explanations, which would name lines of our own."""
        phases = (Phase.generate, Phase.target, Phase.shrink)
        return settings(
            self.profile,
            deadline=None,
            database=None,
            phases=tuple(phase for phase in phases if phase in self.profile.phases),
        )

    def _drawn(self, contract: Contract) -> st.SearchStrategy[Call]:
        narrow = replace(contract, domain=self.within.get(contract.id, contract.domain))
        kinds = [calls(narrow)] * VALID
        kinds += [invalid_calls(narrow)] * (INVALID if breakable(narrow) else 0)
        kinds += [unspecified_calls(narrow)] * (UNSPECIFIED if openable(narrow) else 0)
        return st.sampled_from(kinds).flatmap(lambda kind: kind)

    def _shows(
        self, run: Sweep, contract: Contract, known: dict[str, bool], open_calls: list[Call] | None, call: Call
    ) -> bool:
        """Whether one call alone shows that the kernel is at fault; found once for each call, since a kernel may waver.

        Where the ledger knows faults of such calls, what gives the values must be known first, which only many calls tell: those
        are kept in ``open_calls``, for the end.
        """
        digest = call.digest()
        if digest not in known:
            judged = verdicts.judge(contract, call)
            oracle, subject = run.fleet.oracles[self.kernel], run.fleet.subjects[self.kernel][0]
            if open_calls is not None and run.options.rules.might_be_known(judged):
                open_calls.append(call)
                known[digest] = False
            elif run.fleet.untold(oracle, contract, call):
                known[digest] = False
            else:
                outcome = run.fleet.ask(subject, call)
                nothing_yet = Finding(Key(subject.name, contract.id, "violation", "", ""), subject, "", call, None)
                found = faults(nothing_yet, judged, outcome, partial(run.fleet.ask, subject))
                known[digest] = bool(found) or (not self.allow_mixed and _is_mixed(judged, subject.name, outcome))
        return known[digest]
