"""Calls that Hypothesis draws for a kernel in a test suite, and its database of failing calls.

The draws follow the Hypothesis settings of the suite. Failing calls are kept as lines (`xverify.core.line`). So a kept
call stays the same when strategies change, and it is as small as the gate made it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from hypothesis import Phase, find, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException
from hypothesis.strategies import DrawFn, SearchStrategy

from xverify.contracts.model import Contract, Domain
from xverify.core.call import Call
from xverify.core.line import call_from_line
from xverify.core.verdict import Verdict
from xverify.engine.asking import Limit, ask
from xverify.engine.gate_plan import DRAWN, Scope
from xverify.engine.plan import numbered
from xverify.engine.state import RunState
from xverify.strategies.calls import calls, invalid_calls, unspecified_calls
from xverify.strategies.invalid_calls import breakable, openable
from xverify.verify import verdicts
from xverify.verify.findings import Finding, Key
from xverify.verify.shrink import faults
from xverify.workers.case import Case

SHRUNK_BY = 0.6
"""Share of the budget after which Hypothesis stops shrinking. The gate then shrinks in its own way."""

PATIENCE = 2.0
"""Seconds that a call may take after the time for calls is over."""

VALID, INVALID, UNSPECIFIED = 12, 2, 1
"""Relative numbers of valid, invalid and unspecified calls, as in a sweep."""
CYCLE = 32
"""Period of extra calls: the last of a period takes every path, and the next one is repeated after its batch."""

AT_THE_END = 1 << 20
"""First number of the calls that the ledger may excuse."""


@dataclass(eq=False)
class Examples:
    """The examples of one test."""

    profile: settings
    """Hypothesis settings of the test suite."""
    kernel: str
    """Name of the kernel."""
    identity: Sequence[str]
    """Options that change calls or judgement, so that tests with other options do not share examples."""
    within: Mapping[str, Domain]
    """Narrower domains, by contract, as in the gate."""
    allow_mixed: bool = False
    falsified: list[Call] = field(default_factory=list)
    """Calls that showed a fault when they were drawn."""

    # -- the database -------------------------------------------------------------------------------------

    def remember(self, contract: str, line: str) -> None:
        """Save a failing call in the database."""
        if self.profile.database is not None and line:
            self.profile.database.save(self._key(contract), line.encode())

    def _forget(self, contract: str, kept: bytes) -> None:
        if self.profile.database is not None:
            self.profile.database.delete(self._key(contract), kept)

    def _remembered(self, contract: str) -> Iterator[tuple[bytes, Call]]:
        """Yield the saved calls, shortest first, and delete damaged ones."""
        database = self.profile.database
        if database is None or Phase.reuse not in self.profile.phases:
            return
        for kept in sorted(database.fetch(self._key(contract)), key=lambda kept: (len(kept), kept)):
            try:
                yield kept, replace(call_from_line(kept.decode("ascii")).under(contract), origin="saved example")
            except ValueError:
                self._forget(contract, kept)

    def _key(self, contract: str) -> bytes:
        return "\n".join(("xverify", self.kernel, contract, *self.identity)).encode()

    # -- asking -------------------------------------------------------------------------------------------

    def first(self, run: RunState) -> bool:
        """Send the calls that failed before, and forget those that no longer fail.

        Returns:
            True if some call still fails. The gate then needs no other calls.
        """
        fails = False
        for contract in run.options.contracts:
            for index, (kept, call) in enumerate(self._remembered(contract.id)):
                if not run.admits(contract, call):
                    continue
                before = len(run.findings)
                ask_fully(run, contract, call, index)
                if len(run.findings) > before or _Falsifies(run, contract, self.kernel, self.allow_mixed)(call):
                    fails = True
                else:
                    self._forget(contract.id, kept)
        return fails

    def draw(self, run: RunState, limit: Limit) -> None:
        """Let Hypothesis look for a failing call under each edition, until something shows a fault."""
        texts = {text.id: text for text in run.options.texts or run.options.contracts}
        for contract in run.options.contracts:
            if run.fault_seen or limit() or Phase.generate not in self.profile.phases:
                return
            falsifies = _Falsifies(run, contract, self.kernel, self.allow_mixed, limit)
            narrow = replace(texts[contract.id], domain=run.scopes[contract.id].domain)
            with suppress(HypothesisException):  # no call fails, or none can be drawn
                self.falsified.append(
                    find(_drawn(narrow, run.scopes[contract.id]), falsifies, settings=self._settings())
                )
                ask_fully(run, contract, self.falsified[-1], len(self.falsified))
            cases = iter([[Case(call, 0, "hypothesis") for call in falsifies.undecided]])
            ask(run, {contract.id: numbered(cases, DRAWN + AT_THE_END)}, limit, patience=PATIENCE)

    def _settings(self) -> settings:
        """Return the suite's settings without those that do not apply here.

        The gate has its own time limits, so there is no deadline. The database holds lines, not Hypothesis' own examples.
        Explanations would name lines of xverify.
        """
        phases = (Phase.generate, Phase.target, Phase.shrink)
        return settings(
            self.profile,
            deadline=None,
            database=None,
            phases=tuple(phase for phase in phases if phase in self.profile.phases),
        )


def ask_fully(run: RunState, contract: Contract, call: Call, place: int = 0) -> None:
    """Send a call in every way that the gate has: on each path, and again after its batch.

    Args:
        place: A number that differs for each call.
    """
    cases = numbered(iter([[Case(call, 0, "hypothesis")] * 2]), DRAWN + CYCLE * (place + 1) - 1)
    ask(run, {contract.id: cases}, lambda: bool(run.pool.failures))


@dataclass(eq=False)
class _Falsifies:
    """A predicate for Hypothesis: True if one call alone shows that the kernel is at fault.

    The answer for a call never changes, even after the time is over, because Hypothesis repeats the smallest call.
    """

    run: RunState
    contract: Contract
    kernel: str
    allow_mixed: bool
    limit: Limit | None = None
    undecided: list[Call] = field(default_factory=list)
    """Calls that the ledger may excuse. Only many calls together can tell."""
    known: dict[str, bool] = field(default_factory=dict)

    def __call__(self, call: Call) -> bool:
        digest = call.digest()
        if digest not in self.known:
            if self._too_late():
                return False
            self.known[digest] = self._shows(call)
        return self.known[digest]

    def _too_late(self) -> bool:
        if self.limit is None:
            return False
        return self.limit() or (any(self.known.values()) and self.run.out_of(SHRUNK_BY))

    def _shows(self, call: Call) -> bool:
        run, contract = self.run, self.contract
        oracle, subject = run.pool.oracles[self.kernel], run.pool.subjects[self.kernel][0]
        judged = verdicts.judge(contract, call)
        beyond = contract.like and oracle.distribution == "xverify" and judged.judgement.verdict == "forbidden"
        if beyond or run.pool.untold(oracle, contract, call):
            return False
        if self.limit is not None and run.options.rules.might_be_known(judged):
            self.undecided.append(call)
            return False
        outcome, ask_again = run.pool.ask(subject, call), partial(run.pool.ask, subject)
        nothing_yet = Finding(Key(subject.name, contract.id, Verdict.VIOLATION, "", ""), subject, "", call, None)
        if faults(nothing_yet, judged, outcome, ask_again):
            return True
        if judged.legal is None or self.allow_mixed:
            return False
        every = tuple(reading.name for reading in judged.legal.readings)
        return verdicts.mixed(judged, subject.name, outcome, None, every) is not None


def _drawn(contract: Contract, scope: Scope) -> SearchStrategy[Call]:
    """Calls of a scope: allowed calls, and others too unless the scope has only allowed ones."""
    repair = scope.repair(contract)
    kinds: list[Callable[..., SearchStrategy[Call]]] = [calls] * VALID
    if not scope.values_only:
        kinds += [invalid_calls] * (INVALID if breakable(contract) else 0)
        kinds += [unspecified_calls] * (UNSPECIFIED if openable(contract) else 0)

    @st.composite
    def drawn(draw: DrawFn) -> Call:
        call: Call = draw(draw(st.sampled_from(kinds))(contract, repair=repair))
        return call

    return drawn().filter(partial(scope.admits, contract))
