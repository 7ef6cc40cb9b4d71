"""One finding again: is it FIXED, is it there STILL, or has it CHANGED?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from xverify import contracts
from xverify.core.call import Call, Outcome, encode_call
from xverify.core.codec import call_from_json
from xverify.core.errors import DamagedFileError, UnableError
from xverify.core.verdict import Verdict
from xverify.engine import select, vary
from xverify.engine.store import describe
from xverify.environments import naming
from xverify.environments.installers import Say, unsaid
from xverify.oracles import all_oracles
from xverify.oracles.protocol import Oracle
from xverify.verify import verdicts
from xverify.verify.attribute import Attribution
from xverify.verify.details import modernized, modernized_step
from xverify.verify.findings import Change, Finding, Key, Subject
from xverify.verify.shrink import faults, reproduces
from xverify.verify.verdicts import judge
from xverify.workers.worker import Worker

AskAny = Callable[[Subject, Call], Outcome]


@dataclass(frozen=True)
class Replayed:
    """state: FIXED, STILL or CHANGED; got: what the implementation gives now, in a few words."""

    id: str
    state: str
    summary: str
    got: str


@contextmanager
def asking(
    directory: Path, kernel: Oracle | None = None, others: Sequence[Oracle] = (), say: Say = unsaid
) -> Iterator[AskAny]:
    """A function that asks an implementation, each in a worker that is started when it is first needed. kernel: one of the
    user's, beside those that are here; of the same name as one of those it is asked instead. others: those of another Python or
    with an option; another version is made if need be, which is said."""
    known = all_oracles() | {oracle.name: oracle for oracle in others}
    if kernel is not None:
        known[kernel.name] = kernel
    workers: dict[str, Worker] = {}

    def ask(subject: Subject, call: Call) -> Outcome:
        if subject.name not in workers:
            oracle = vary.named(subject.name, lambda name: known.get(name) or _of_version(name, say))
            workers[subject.name] = Worker(oracle, directory)
            workers[subject.name].start()
        return workers[subject.name].ask(encode_call(call), subject.options)

    try:
        yield ask
    finally:
        for worker in workers.values():
            worker.stop()


def _of_version(name: str, say: Say) -> Oracle:
    """The implementation that is not here as it is installed. What a report names by a path is not run for that alone."""
    parts = naming.parse_or_none(name)
    if parts is None or parts.name not in all_oracles():
        raise UnableError(f"no implementation is called {name!r} here; see: xverify oracles")
    if not parts.version or parts.option:
        raise UnableError(f"{name} is run only when it is named: add --oracle {name}")
    return select.oracle_named(name, say)


def finding_from_report(entry: Mapping[str, Any], directory: Path) -> Finding:
    """A finding as it stands in a report whose files are in ``directory``. Raises DamagedFileError."""
    if entry.get("witness") is None:
        raise DamagedFileError(
            f"{entry.get('id')} has no witness: it is a finding on a text alone, with nothing to run"
        )
    call = call_from_json(entry["witness"]["call"], directory / "scripts")
    who = entry["subject"]
    subject = Subject(who["name"], who["version"], who["role"], who["options"])
    key = Key(
        subject.name,
        entry["contract"],
        Verdict(entry["verdict"]),
        entry["clause"],
        modernized(entry["verdict"], entry["detail"]),
    )
    finding = Finding(key, subject, entry["summary"], call, None)
    finding.readings = tuple(entry.get("readings", ()))
    by = entry.get("attribution")
    if by is not None:
        other = by.get("elsewhere")
        elsewhere = None if other is None else (str(other["reading"]), str(other["words"]))
        finding.attribution = Attribution(
            by["reading"], by.get("words", ""), by["explained_values"], by["values"], elsewhere
        )
    if entry.get("change"):
        finding.change = Change(**{**entry["change"], "step": modernized_step(entry["change"]["step"])})
    reference = entry.get("reference")
    if reference:
        known = all_oracles().get(reference)
        finding.reference = Subject(reference, "", known.role if known else "oracle")
    return finding


def replay(finding: Finding, ask: AskAny, own: Sequence[contracts.Contract] = ()) -> Replayed:
    """Run a finding's witness again and judge it. own: editions of the user's, beside the built-in ones. Raises UnableError,
    DocumentError or WorkerFailedError when that cannot be done."""
    identity = finding.key.contract
    contract = next((one for one in own if one.id == identity), None) or contracts.get(identity)
    call, key = finding.call, finding.key
    assert call is not None

    def asking_as(subject: Subject, call: Call) -> Outcome:
        return ask(subject, call.under(contract.asked_as))

    ask_it = partial(asking_as, finding.subject)
    ask_reference = partial(asking_as, finding.reference) if finding.reference else None
    if key.verdict == "conflict" and contract.judge(call).verdict == "forbidden":
        still = any(check.name == key.detail for check in contract.text_checks())
        return Replayed(finding.id, "STILL" if still else "FIXED", finding.summary, "the document's own example")
    found = reproduces(finding, contract, call, ask_it, ask_reference)
    if found is not None:
        discrepancy, outcome = found
        return Replayed(finding.id, "STILL", discrepancy.summary, "" if outcome is None else describe(outcome))
    if key.verdict == "conflict":
        return Replayed(finding.id, "FIXED", "the two editions have a result in common", "")
    outcome = ask_it(call)
    state = "FIXED" if _is_right(finding, contract, call, outcome) else "CHANGED"
    return Replayed(finding.id, state, finding.summary, describe(outcome))


def replay_call(
    call: Call,
    contract: contracts.Contract,
    kernel: Oracle,
    path: str,
    ask: AskAny,
    verdict: str = "",
    readings: tuple[str, ...] = (),
) -> Replayed:
    """A call again of which only a line of text is left. verdict, readings: what was found of it, "" when that is not known:
    then anything that is wrong is there STILL. Raises UnknownRecipeError for an unknown reading."""
    subject = Subject(kernel.name, kernel.version, kernel.role, path)

    def ask_it(call: Call) -> Outcome:
        return ask(subject, call.under(contract.asked_as))

    was = Finding(
        Key(subject.name, contract.id, Verdict(verdict or Verdict.VIOLATION), "", ""), subject, "", call, None
    )
    was.readings = readings
    outcome = ask_it(call)
    found = faults(was, judge(contract, call), outcome, ask_it)
    got = describe(outcome)
    if not found:
        return Replayed(kernel.name, "FIXED", "nothing is wrong with this call", got)
    same = next((one for one in found if not verdict or one.key.verdict == verdict), None)
    if same is not None:
        return Replayed(kernel.name, "STILL", same.summary, got)
    return Replayed(kernel.name, "CHANGED", found[0].summary, got)


def _is_right(finding: Finding, contract: contracts.Contract, call: Call, outcome: Outcome) -> bool:
    """Whether nothing is to be said against an outcome that no longer shows the finding."""
    if outcome.kind in ("crash", "hang") or outcome.notes:
        return False
    judged = judge(contract, call)
    if judged.judgement.verdict == "forbidden":
        return outcome.refused
    if judged.judgement.verdict == "unspecified":
        return True
    comparison = verdicts.compared(judged, outcome)
    if comparison is None or not comparison.clean:
        return False
    return comparison.explains[0] if finding.key.verdict == "ambiguity" else any(comparison.explains)
