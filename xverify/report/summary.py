"""Order, words, counts and the matrix of a report, for every format."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from xverify.core.surroundings import in_words
from xverify.core.verdict import Verdict
from xverify.engine.folding import NO_REGION as NO_REGION
from xverify.engine.folding import STATUSES as STATUSES
from xverify.engine.folding import Json as Json
from xverify.engine.folding import base as base

_STATUS_WORDS = {
    "not-judged-differs": "differs, not judged",
    "not-judged-agrees": "agrees, not judged",
    "unspecified": "left open",
}
"""Statuses that are not their own words."""

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
    """Return a status or verdict in words."""
    return _STATUS_WORDS.get(name, name.replace("-", " "))


def tone(name: str) -> str:
    """Return the tone of a status or verdict: good, quiet, open, warn or bad."""
    return _STATUS_TONES[name] if name in _STATUS_TONES else Verdict(name).tone


def counted(verdicts: Mapping[str, int]) -> list[str]:
    """Count the findings of each verdict, worst first: ["2 violations", "1 wrongly accepted"]."""
    return [verdict.counted(verdicts[verdict]) for verdict in Verdict if verdict in verdicts]


def plural(number: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun: "1 case", "2 cases"."""
    return f"{grouped(number)} {noun if number == 1 else nouns or noun + 's'}"


def grouped(number: int) -> str:
    """Return a whole number with a space between thousands: 1 204 311."""
    return f"{number:,}".replace(",", " ")


def short(number: int) -> str:
    """Return a count in at most four characters and a letter: 312k, 1.2M."""
    for letter, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            scaled = number / size
            return f"{scaled:.0f}{letter}" if scaled >= 10 else f"{scaled:.1f}{letter}"
    return str(number)


def label(subject: Json) -> str:
    """Return "name" or "name[options]", as cells spell a subject."""
    return f"{subject['name']}[{subject['options']}]" if subject["options"] else str(subject["name"])


def findings(report: Json) -> list[Json]:
    """Return all findings, worst verdict first, with those in the ledger last."""
    return sorted(
        report["findings"],
        key=lambda f: (f["known"], Verdict(f["verdict"]).severity, f["contract"], label(f["subject"]), f["id"]),
    )


def on_texts(finding: Json) -> bool:
    """Return True if a finding is about documents, not about an implementation."""
    return bool(finding["subject"]["role"] == "edition")


def around(finding: Json) -> str:
    """Describe the graph around the operator in the finding's call; empty if there is none."""
    witness = finding["witness"]
    words = witness["call"].get("around", []) if witness is not None else []
    return in_words(tuple(map(str, words)))


def in_memory(finding: Json) -> str:
    """List the operands of the finding's call that are not in C order; empty if all are.

    If shrinking proved that the fault needs this layout, the text says so.
    """
    witness = finding["witness"]
    tensors = witness["call"]["tensors"] if witness is not None else {}
    odd = ", ".join(f"{role} {tensor['layout']}" for role, tensor in tensors.items() if tensor["layout"] != "C")
    alone = finding["shrunk"] == "minimal"
    return f"{odd}{'; with every operand in C order the fault disappears' if alone else ''}" if odd else ""


def contracts(report: Json) -> list[str]:
    """Return the ids of all editions, in the order of the report. Those without an entry come last."""
    named = [edition["id"] for edition in report["editions"]]
    named += [entry["contract"] for entry in (*report["coverage"]["cells"], *report["findings"])]
    return list(dict.fromkeys(named))


def shares(report: Json) -> list[tuple[str, str]]:
    """Return the share of each implementation in the run, and the time of the run's own process.

    Returns:
        Pairs of a name and a text with calls, share, seconds and new processes.
    """
    workers = report["run"]["workers"]
    total = sum(worker["calls"] for worker in workers)
    rows = [(worker["name"], _share(worker, total)) for worker in workers if worker["calls"]]
    own = own_time(report)
    return [*rows, ("the run's own process", own)] if own else rows


def own_time(report: Json) -> str:
    """List the tasks of the run's own process with their seconds, longest first; empty if unknown."""
    spent = report["run"].get("own_seconds", {}).items()
    return ", ".join(
        f"{purpose} {seconds} s" for purpose, seconds in sorted(spent, key=lambda item: -item[1]) if seconds
    )


def _share(worker: Json, total: int) -> str:
    parts = [f"{plural(worker['calls'], 'call')} ({100 * worker['calls'] / total:.0f} %) in {worker['seconds']} s"]
    if worker.get("restarts"):
        parts.append(plural(worker["restarts"], "new process", "new processes"))
    if worker.get("spared"):
        parts.append(f"{plural(worker['spared'], 'call')} skipped")
    return ", ".join(parts)


def subjects(report: Json) -> list[str]:
    """Return the labels of all implementations, in the order of the run's workers."""
    order = [worker["name"] for worker in report["run"]["workers"]]
    named = {cell["subject"] for cell in report["coverage"]["cells"]}
    named |= {label(f["subject"]) for f in report["findings"] if not on_texts(f)}
    named |= set(order) - {base(name) for name in named}
    return sorted(named, key=lambda name: (order.index(base(name)) if base(name) in order else len(order), name))


@dataclass(frozen=True)
class Entry:
    """One implementation under one edition."""

    contract: str
    subject: str
    status: str
    """The worst status of its cells."""
    cells: int
    cases: int
    values: int
    statuses: Mapping[str, int]
    """Number of cells of each status."""
    verdicts: Mapping[str, int]
    """Number of findings of each verdict."""
    findings: tuple[str, ...]
    """Ids of its findings, worst first."""

    @property
    def headlines(self) -> tuple[str, ...]:
        """The findings counted by verdict, or the status in words."""
        if self.verdicts:
            return tuple(counted(self.verdicts))
        return (words(self.status),)

    @property
    def tone(self) -> str:
        worst = next((verdict for verdict in Verdict if verdict in self.verdicts), self.status)
        return tone(worst)


def matrix(report: Json, merged: bool = False) -> dict[tuple[str, str], Entry]:
    """Return an entry for every pair of contract and subject that has cells or findings.

    Args:
        report: The report.
        merged: Combine the paths of each implementation.
    """
    cells: dict[tuple[str, str], list[Json]] = defaultdict(list)
    findings_by_key: dict[tuple[str, str], list[Json]] = defaultdict(list)

    def named(subject: str) -> str:
        return base(subject) if merged else subject

    for cell in report["coverage"]["cells"]:
        cells[cell["contract"], named(cell["subject"])].append(cell)
    for finding in findings(report):
        if not on_texts(finding):
            findings_by_key[finding["contract"], named(label(finding["subject"]))].append(finding)
    return {key: _entry(key, cells[key], findings_by_key[key]) for key in dict.fromkeys((*cells, *findings_by_key))}


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
    """Return the worst status; "unsupported" if there is none."""
    return min(statuses, key=STATUSES.index, default="unsupported")


def operators(report: Json) -> dict[str, list[str]]:
    """Return the editions of each operator.

    Example:
        {"ai.onnx/DequantizeLinear": ["ai.onnx/DequantizeLinear-21", ...]}
    """
    groups: dict[str, list[str]] = defaultdict(list)
    for contract in contracts(report):
        domain, _, name = contract.rpartition("/")
        operator = name.partition("@")[0].partition("-")[0]
        groups[f"{domain}/{operator}" if domain else operator].append(contract)
    return dict(groups)


def clauses(report: Json) -> dict[str, Json]:
    """Return every clause of every edition, by id."""
    return {clause["id"]: clause for edition in report["editions"] for clause in edition["clauses"]}


def headline(report: Json) -> str:
    """Return the report in one sentence."""
    coverage = report["coverage"]
    verdicts = Counter(finding["verdict"] for finding in report["findings"])
    what = ", ".join(counted(verdicts)) or "no finding"
    asked = f"{plural(coverage['cases'], 'call')} and {plural(coverage['values'], 'value')}"
    answering = {base(cell["subject"]) for cell in coverage["cells"]}
    who = f"{plural(len(answering), 'implementation')}, {plural(len(contracts(report)), 'edition')}"
    return f"{what} in {asked} ({who})"


def region(finding: Json) -> str:
    """Return the region of a finding as a predicate; empty if there is none or no simple one."""
    region_entry = finding.get("region")
    return "" if region_entry is None or region_entry["words"] == NO_REGION else str(region_entry["words"])


def distance(entry: Json) -> str:
    """Return one range of a histogram of ULP distances: "1", "2 to 3", "NaN"."""
    if entry["from"] < 0:
        return "NaN"
    low, high = grouped(entry["from"]), grouped(entry["to"])
    return low if low == high else f"{low} to {high}"


def follows(entry: Json, name: str = "") -> str:
    """Return a predicate that says which edition an implementation follows.

    Args:
        entry: An entry of a finding's "followed".
        name: Name of the edition for outsiders. The default is its id.
    """
    return f"follows {name or entry['contract']} on {grouped(entry['values'])} of {plural(entry['of'], 'value')}"


@dataclass(frozen=True)
class Answers:
    """The implementations that follow or contradict one clause."""

    follow: tuple[str, ...] | None
    """Labels of those that follow it; None if the report does not say."""
    depart: tuple[tuple[str, str], ...]
    """Label and finding id of those that contradict it."""
    untold: tuple[tuple[str, str], ...]
    """Label and reason of those for which the run cannot tell."""
    besides: tuple[Json, ...]
    """Other findings on the clause: about texts, or about calls that it leaves open."""


def answers(report: Json) -> dict[str, Answers]:
    """Return who follows and who contradicts every clause, by the clause's id.

    An older report does not say who contradicts a clause. Then the implementations at fault in a finding on it count.
    """
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


_NOT_INSTALLED = re.compile(r"(\S+) is left out: (\S+) is not installed; pip install \S+")


def left_out(sentences: Iterable[str]) -> list[str]:
    """Sentences on what a run left out. Those on packages that are not installed become one."""
    every = list(sentences)
    missing = [match for sentence in every if (match := _NOT_INSTALLED.fullmatch(sentence))]
    others = [sentence for sentence in every if not _NOT_INSTALLED.fullmatch(sentence)]
    if not missing:
        return others
    names = ", ".join(match[1] for match in missing)
    packages = " ".join(dict.fromkeys(match[2] for match in missing))
    return [f"left out, not installed: {names} (pip install {packages})", *others]


def machine(run: Json) -> str:
    """Describe the machine of a run: system, architecture, processor and vector instructions."""
    facts = run["machine"]
    system = " ".join(str(facts[name]) for name in ("system", "architecture") if facts.get(name))
    instructions = f"with {facts['instructions']}" if facts.get("instructions") else ""
    return ", ".join(part for part in (system, str(facts.get("processor") or ""), instructions) if part)
