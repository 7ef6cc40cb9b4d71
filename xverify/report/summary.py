"""What every format says of a report, worked out once: order, words, counts and the matrix."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xverify.core.surroundings import in_words
from xverify.core.verdict import Verdict

Json = Mapping[str, Any]

STATUSES = (
    Verdict.CRASH.value,
    Verdict.HANG.value,
    Verdict.VIOLATION.value,
    Verdict.WRONGLY_ACCEPTED.value,
    Verdict.WRONGLY_REJECTED.value,
    Verdict.MIXED.value,
    "ambiguous",
    "not-judged-differs",
    "agrees",
    "not-judged-agrees",
    "unsupported",
    "unspecified",
)
"""Statuses of cells, worst first; the last say little and count only where nothing else was seen."""

_STATUS_WORDS = {
    "not-judged-differs": "differs, not judged",
    "not-judged-agrees": "agrees, not judged",
    "unspecified": "left open",
}
"""Statuses that are not their own words."""

NO_REGION = "no simple region"

_STATUS_TONES = {
    "agrees": "good",
    "not-judged-agrees": "quiet",
    "unspecified": "quiet",
    "unsupported": "quiet",
    "ambiguous": "open",
    "not-judged-differs": "open",
}
"""Tones of the statuses that are not verdicts."""


def words(name: str) -> str:
    """A status or verdict in words."""
    return _STATUS_WORDS.get(name, name.replace("-", " "))


def tone(name: str) -> str:
    """The tone in which a status or verdict is shown: good, quiet, open, warn or bad."""
    return _STATUS_TONES[name] if name in _STATUS_TONES else Verdict(name).tone


def counted(verdicts: Mapping[str, int]) -> list[str]:
    """The number of findings of each verdict, worst first: ["2 violations", "1 wrongly accepted"]."""
    return [verdict.counted(verdicts[verdict]) for verdict in Verdict if verdict in verdicts]


def plural(number: int, noun: str, nouns: str = "") -> str:
    """A number with its noun: "1 case", "2 cases"."""
    return f"{grouped(number)} {noun if number == 1 else nouns or noun + 's'}"


def grouped(number: int) -> str:
    """A whole number with its thousands set apart: 1 204 311."""
    return f"{number:,}".replace(",", " ")


def short(number: int) -> str:
    """A count in at most four characters and a letter: 312k, 1.2M."""
    for letter, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            scaled = number / size
            return f"{scaled:.0f}{letter}" if scaled >= 10 else f"{scaled:.1f}{letter}"
    return str(number)


def label(subject: Json) -> str:
    """ "name" or "name[options]", as cells have it."""
    return f"{subject['name']}[{subject['options']}]" if subject["options"] else str(subject["name"])


def base(subject: str) -> str:
    """A label without its options."""
    return subject.partition("[")[0]


def findings(report: Json) -> list[Json]:
    """All findings, worst verdict first, those that the ledger knows last."""
    return sorted(
        report["findings"],
        key=lambda f: (f["known"], Verdict(f["verdict"]).severity, f["contract"], label(f["subject"]), f["id"]),
    )


def on_texts(finding: Json) -> bool:
    """Whether a finding is on documents and not on an implementation."""
    return bool(finding["subject"]["role"] == "edition")


def around(finding: Json) -> str:
    """What stands around the operator in a finding's witness, for people; "" where nothing does."""
    witness = finding["witness"]
    words = witness["call"].get("around", []) if witness is not None else []
    return in_words(tuple(map(str, words)))


def in_memory(finding: Json) -> str:
    """Which operands of a finding's witness do not lie in C order, and whether it hangs on that; "" where all do."""
    witness = finding["witness"]
    tensors = witness["call"]["tensors"] if witness is not None else {}
    odd = ", ".join(f"{role} {tensor['layout']}" for role, tensor in tensors.items() if tensor["layout"] != "C")
    alone = finding["shrunk"] == "minimal"
    return f"{odd}{'; where every operand lies in C order it does not show' if alone else ''}" if odd else ""


def contracts(report: Json) -> list[str]:
    """The ids of all editions in the report, in its order; those that only cells or findings name come last."""
    named = [edition["id"] for edition in report["editions"]]
    named += [entry["contract"] for entry in (*report["coverage"]["cells"], *report["findings"])]
    return list(dict.fromkeys(named))


def shares(report: Json) -> list[tuple[str, str]]:
    """For each implementation that answered, what of the run was its: calls, share of all calls, seconds, deaths; then on what
    the run's own process spent its time."""
    workers = report["run"]["workers"]
    total = sum(worker["calls"] for worker in workers)
    rows = [(worker["name"], _share(worker, total)) for worker in workers if worker["calls"]]
    own = own_time(report)
    return [*rows, ("the run's own process", own)] if own else rows


def own_time(report: Json) -> str:
    """On what the run's own process spent its time, the most first; "" where that is not known."""
    spent = report["run"].get("own_seconds", {}).items()
    return ", ".join(
        f"{purpose} {seconds} s" for purpose, seconds in sorted(spent, key=lambda item: -item[1]) if seconds
    )


def _share(worker: Json, total: int) -> str:
    parts = [f"{plural(worker['calls'], 'call')} ({100 * worker['calls'] / total:.0f} %) in {worker['seconds']} s"]
    if worker.get("restarts"):
        parts.append(plural(worker["restarts"], "new process", "new processes"))
    if worker.get("spared"):
        parts.append(f"{plural(worker['spared'], 'call')} spared")
    return ", ".join(parts)


def subjects(report: Json) -> list[str]:
    """The labels of all implementations, in the order of the run's workers."""
    order = [worker["name"] for worker in report["run"]["workers"]]
    named = {cell["subject"] for cell in report["coverage"]["cells"]}
    named |= {label(f["subject"]) for f in report["findings"] if not on_texts(f)}
    named |= set(order) - {base(name) for name in named}
    return sorted(named, key=lambda name: (order.index(base(name)) if base(name) in order else len(order), name))


@dataclass(frozen=True)
class Entry:
    """One implementation under one edition: the worst status of its cells, counts, and its findings."""

    contract: str
    subject: str
    status: str
    cells: int
    cases: int
    values: int
    statuses: Mapping[str, int]
    verdicts: Mapping[str, int]
    findings: tuple[str, ...]

    @property
    def headlines(self) -> tuple[str, ...]:
        """Its findings by verdict, or its status in a word or two."""
        if self.verdicts:
            return tuple(counted(self.verdicts))
        return (words(self.status),)

    @property
    def tone(self) -> str:
        worst = next((verdict for verdict in Verdict if verdict in self.verdicts), self.status)
        return tone(worst)


def matrix(report: Json, merged: bool = False) -> dict[tuple[str, str], Entry]:
    """Every (contract, subject) that has cells or findings; ``merged`` takes the paths of an implementation
    together."""
    cells: dict[tuple[str, str], list[Json]] = defaultdict(list)
    found: dict[tuple[str, str], list[Json]] = defaultdict(list)

    def named(subject: str) -> str:
        return base(subject) if merged else subject

    for cell in report["coverage"]["cells"]:
        cells[cell["contract"], named(cell["subject"])].append(cell)
    for finding in findings(report):
        if not on_texts(finding):
            found[finding["contract"], named(label(finding["subject"]))].append(finding)
    return {key: _entry(key, cells[key], found[key]) for key in dict.fromkeys((*cells, *found))}


def _entry(key: tuple[str, str], cells: Sequence[Json], found: Sequence[Json]) -> Entry:
    statuses = Counter(cell["status"] for cell in cells)
    return Entry(
        contract=key[0],
        subject=key[1],
        status=worst(statuses),
        cells=len(cells),
        cases=sum(cell["cases"] for cell in cells),
        values=sum(cell["values"] for cell in cells),
        statuses=statuses,
        verdicts=Counter(finding["verdict"] for finding in found),
        findings=tuple(finding["id"] for finding in found),
    )


def worst(statuses: Iterable[str]) -> str:
    """The worst of some statuses; "unsupported" when there is none."""
    return min(statuses, key=STATUSES.index, default="unsupported")


def operators(report: Json) -> dict[str, list[str]]:
    """The editions of each operator: {"ai.onnx/DequantizeLinear": ["ai.onnx/DequantizeLinear-21", ...]}."""
    groups: dict[str, list[str]] = defaultdict(list)
    for contract in contracts(report):
        domain, _, name = contract.rpartition("/")
        operator = name.partition("@")[0].partition("-")[0]
        groups[f"{domain}/{operator}" if domain else operator].append(contract)
    return dict(groups)


def clauses(report: Json) -> dict[str, Json]:
    """Every clause of every edition by its id."""
    return {clause["id"]: clause for edition in report["editions"] for clause in edition["clauses"]}


def headline(report: Json) -> str:
    """The report in one sentence."""
    coverage = report["coverage"]
    verdicts = Counter(finding["verdict"] for finding in report["findings"])
    what = ", ".join(counted(verdicts)) or "no finding"
    asked = f"{plural(coverage['cases'], 'call')} and {plural(coverage['values'], 'value')}"
    answering = {base(cell["subject"]) for cell in coverage["cells"]}
    who = f"{plural(len(answering), 'implementation')}, {plural(len(contracts(report)), 'edition')}"
    return f"{what} in {asked} ({who})"


def region(finding: Json) -> str:
    """Where a finding holds, as a predicate; empty when that is not known, or no simple predicate says it."""
    found = finding.get("region")
    return "" if found is None or found["words"] == NO_REGION else str(found["words"])


def distance(entry: Json) -> str:
    """One range of a histogram of distances in units in the last place: "1", "2 to 3", "NaN"."""
    if entry["from"] < 0:
        return "NaN"
    low, high = grouped(entry["from"]), grouped(entry["to"])
    return low if low == high else f"{low} to {high}"


def follows(entry: Json, name: str = "") -> str:
    """Which edition an implementation follows, as a sentence's predicate; ``name`` is the edition's for strangers."""
    return f"follows {name or entry['contract']} on {grouped(entry['values'])} of {plural(entry['of'], 'value')}"


@dataclass(frozen=True)
class Answers:
    """How the implementations stand to one clause.

    follow: labels, or None where the report does not say. depart: (label, finding's id). untold: (label, why).
    besides: other findings on the clause, on texts and on calls that it leaves open.
    """

    follow: tuple[str, ...] | None
    depart: tuple[tuple[str, str], ...]
    untold: tuple[tuple[str, str], ...]
    besides: tuple[Json, ...]


def answers(report: Json) -> dict[str, Answers]:
    """How the implementations stand to every clause, by its id. Where the report does not say who departs from a
    clause, those do who are at fault in a finding on it."""
    on: dict[str, list[Json]] = defaultdict(list)
    for finding in findings(report):
        on[finding["clause"]].append(finding)
    return {identity: _answers(clause, on[identity]) for identity, clause in clauses(report).items()}


def _answers(clause: Json, found: Sequence[Json]) -> Answers:
    if "depart" in clause:
        depart = [(entry["subject"], entry["finding"]) for entry in clause["depart"]]
    else:
        depart = [(label(f["subject"]), f["id"]) for f in found if Verdict(f["verdict"]).is_fault and not on_texts(f)]
    named = {identity for _, identity in depart}
    return Answers(
        follow=tuple(clause["follow"]) if "follow" in clause else None,
        depart=tuple(depart),
        untold=tuple((entry["subject"], entry["why"]) for entry in clause.get("untold", ())),
        besides=tuple(finding for finding in found if finding["id"] not in named),
    )


def machine(run: Json) -> str:
    """Where it ran, as far as the report says: system, architecture, processor and its vector instructions."""
    facts = run["machine"]
    system = " ".join(str(facts[name]) for name in ("system", "architecture") if facts.get(name))
    instructions = f"with {facts['instructions']}" if facts.get("instructions") else ""
    return ", ".join(part for part in (system, str(facts.get("processor") or ""), instructions) if part)
