"""The sentences of the texts, with their followers in each edition and the changes of their wording."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from xverify.report import summary
from xverify.report.overview import short_name
from xverify.report.summary import Answers, Json
from xverify.verify.cause_keys import is_in_house

NOBODY, CONTRADICTED, FOLLOWED, UNTESTED = "nobody follows", "contradicted", "followed", "not tested"
"""Standings of a sentence, in the order of the table."""

STANDINGS = (NOBODY, CONTRADICTED, FOLLOWED, UNTESTED)


@dataclass(frozen=True)
class Wording:
    """The text of a sentence in consecutive editions."""

    editions: str
    """Short names of the editions: "10 to 19"."""
    parts: tuple[tuple[str, str], ...]
    """Words with "same", "ins" or "del", compared with the wording before. The first wording is "same" only."""


@dataclass(frozen=True)
class Mark:
    """Editions in which an implementation answers a sentence alike."""

    answer: str
    """"follows", "contradicts" or "unknown"."""
    editions: str
    finding: str
    """Id of the first finding that contradicts the sentence; empty without one."""
    why: str
    """Reason why it is unknown."""


@dataclass(frozen=True)
class Sentence:
    """One clause of an operator, in all its editions."""

    name: str
    clause: str
    """Id of the clause in its newest edition."""
    standing: str
    """One of `STANDINGS`."""
    text: str
    """The newest wording, or the note if the text is silent."""
    is_silent: bool
    wordings: tuple[Wording, ...]
    """All wordings, oldest first; empty if the wording never changed."""
    marks: tuple[tuple[Mark, ...], ...]
    """Answers of each implementation of the table."""
    contradicting: int
    """Number of implementations that contradict it somewhere."""


@dataclass(frozen=True)
class Table:
    """The sentences of one operator."""

    operator: str
    editions: tuple[str, ...]
    """Short names of its editions, oldest first."""
    subjects: tuple[str, ...]
    sentences: tuple[Sentence, ...]
    """Those that nobody follows first, then the contradicted ones, then the others."""

    def of(self, standing: str) -> list[Sentence]:
        return [sentence for sentence in self.sentences if sentence.standing == standing]


def tables(report: Json) -> list[Table]:
    """Return the table of each operator."""
    in_house = {worker["name"] for worker in report["run"]["workers"] if is_in_house(worker)}
    answers = summary.answers(report)
    editions = {edition["id"]: edition for edition in report["editions"]}
    result = []
    for operator, contracts in summary.operators(report).items():
        present = [contract for contract in contracts if contract in editions]
        if present:
            result.append(_table(operator, [editions[contract] for contract in present], answers, in_house))
    return result


def _table(operator: str, editions: Sequence[Json], answers: Mapping[str, Answers], in_house: set[str]) -> Table:
    name = operator.rpartition("/")[2]
    short = {edition["id"]: short_name(edition["id"], name) for edition in editions}
    order = list(short.values())
    by_name: dict[str, list[tuple[str, Json]]] = defaultdict(list)
    for edition in editions:
        for clause in edition["clauses"]:
            by_name[clause["id"].rpartition("/")[2]].append((short[edition["id"]], clause))
    departing = {
        summary.base(who) for edition in editions for c in edition["clauses"] for who, _ in answers[c["id"]].depart
    }
    named = [who for edition in editions for c in edition["clauses"] for who in _named(answers[c["id"]])]
    subjects = tuple(who for who in dict.fromkeys(named) if who not in in_house or who in departing)
    sentences = [_sentence(clause_name, rows, answers, subjects, order) for clause_name, rows in by_name.items()]
    sentences.sort(key=lambda sentence: (STANDINGS.index(sentence.standing), -sentence.contradicting))
    return Table(operator, tuple(order), subjects, tuple(sentences))


def _named(answers: Answers) -> list[str]:
    every = (*(answers.follow or ()), *(who for who, _ in answers.depart), *(who for who, _ in answers.untold))
    return [summary.base(who) for who in every]


def _sentence(
    name: str,
    rows: Sequence[tuple[str, Json]],
    answers: Mapping[str, Answers],
    subjects: Sequence[str],
    order: list[str],
) -> Sentence:
    newest = rows[-1][1]
    marks = tuple(_marks(rows, answers, subject, order) for subject in subjects)
    contradicting = sum(any(mark.answer == "contradicts" for mark in listed) for listed in marks)
    if not any(clause["tested"] for _, clause in rows):
        standing = UNTESTED
    elif not contradicting:
        standing = FOLLOWED
    else:
        standing = NOBODY if _nobody_follows(rows, answers, subjects) else CONTRADICTED
    text = str(newest["text"] or newest["note"])
    return Sentence(
        name, newest["id"], standing, text, not newest["text"], _wordings(rows, order), marks, contradicting
    )


def _nobody_follows(rows: Sequence[tuple[str, Json]], answers: Mapping[str, Answers], subjects: Sequence[str]) -> bool:
    """True if nobody follows the sentence in the newest edition that anybody answers."""
    for _, clause in reversed(rows):
        answer = answers[clause["id"]]
        if any(summary.base(who) in subjects for who in answer.follow or ()):
            return False
        if any(summary.base(who) in subjects for who, _ in answer.depart):
            return True
    return False


def _marks(
    rows: Sequence[tuple[str, Json]], answers: Mapping[str, Answers], who: str, order: list[str]
) -> tuple[Mark, ...]:
    groups: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for edition, clause in rows:
        answer = answers[clause["id"]]
        departs = [finding for subject, finding in answer.depart if summary.base(subject) == who]
        untold = [why for subject, why in answer.untold if summary.base(subject) == who]
        if departs:
            groups["contradicts", ""].append((edition, departs[0]))
        elif who in map(summary.base, answer.follow or ()):
            groups["follows", ""].append((edition, ""))
        elif untold:
            groups["unknown", untold[0]].append((edition, ""))
    kinds = ("contradicts", "follows", "unknown")
    return tuple(
        Mark(answer, ranges([edition for edition, _ in listed], order), listed[0][1], why)
        for (answer, why), listed in sorted(groups.items(), key=lambda item: kinds.index(item[0][0]))
    )


def ranges(editions: Sequence[str], order: Sequence[str]) -> str:
    """Join short names of editions, with runs of three or more as "10 to 21"."""
    positions = sorted(order.index(edition) for edition in dict.fromkeys(editions))
    parts = []
    for _, run in groupby(enumerate(positions), key=lambda pair: pair[1] - pair[0]):
        names = [order[position] for _, position in run]
        parts += [f"{names[0]} to {names[-1]}"] if len(names) > 2 else names
    return ", ".join(parts)


def _wordings(rows: Sequence[tuple[str, Json]], order: Sequence[str]) -> tuple[Wording, ...]:
    groups = [
        [(edition, str(clause["text"]).split()) for edition, clause in listed]
        for _, listed in groupby(rows, key=lambda row: list(map(_plain, str(row[1]["text"]).split())))
    ]
    if len(groups) < 2:
        return ()
    result: list[Wording] = []
    before = None
    for listed in groups:
        words = listed[-1][1]
        result.append(Wording(ranges([edition for edition, _ in listed], order), changed(before, words)))
        before = words
    return tuple(result)


def _plain(word: str) -> str:
    """A word without quotation marks, whose style changes between editions."""
    return word.replace("`", "").replace("'", "").replace('"', "")


def changed(before: Sequence[str] | None, words: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Compare two wordings word by word. Quotation marks do not count.

    Returns:
        Pairs of "same", "ins" or "del" and words.
    """
    if before is None:
        return (("same", " ".join(words)),)
    parts = []
    matcher = difflib.SequenceMatcher(None, list(map(_plain, before)), list(map(_plain, words)), autojunk=False)
    for kind, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if kind == "equal":
            parts.append(("same", " ".join(words[new_start:new_end])))
            continue
        if old_end > old_start:
            parts.append(("del", " ".join(before[old_start:old_end])))
        if new_end > new_start:
            parts.append(("ins", " ".join(words[new_start:new_end])))
    return tuple(parts)
