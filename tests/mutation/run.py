"""Asking every mutant every question, several mutants at once, until something stops it; results are kept as they come."""

from __future__ import annotations

import hashlib
import json
import queue
import threading
from collections.abc import Callable, Container, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from mutation.copies import PARTS, Copy
from mutation.mutants import Mutant
from mutation.questions import ASKED_TESTS, DRAWING, Question

T, R = TypeVar("T"), TypeVar("R")


@dataclass(frozen=True)
class Result:
    """What came of one mutant with one seed. stopped: by the question of these words, which gave this outcome; "" when nothing
    stopped it. seconds: until then, all questions before counted."""

    mutant: str
    seed: int
    stopped: str
    outcome: str
    by: str
    seconds: float


def is_asked(seed: int, is_explained: bool, first: Result | None) -> bool:
    """Whether a mutant is to be asked with a seed, when this came of the first one.

    With the others where that depends on the seed: not where a test has stopped it that draws nothing, which does so with each.
    What is explained is not expected to be found: for that one seed.
    """
    if seed == 1 or is_explained or first is None:
        return seed == 1
    by_a_test = any(file in first.by for file in ASKED_TESTS.difference(DRAWING))
    return not by_a_test


class WrongTreeError(RuntimeError):
    """The tree as it is gives another answer than is expected, or a copy does not run its own files."""


def try_mutant(copy: Copy, mutant: Mutant, seed: int, questions: Iterable[Question]) -> Result:
    """Ask until an answer is not that of the sound tree."""
    spent = 0.0
    copy.put(mutant)
    try:
        for question in questions:
            answer = copy.ask(question, seed)
            spent += answer.seconds
            if answer.outcome != question.expected:
                return Result(mutant.name, seed, question.words, answer.outcome, answer.by, round(spent, 2))
    finally:
        copy.restore(mutant)
    return Result(mutant.name, seed, "", "nothing", "", round(spent, 2))


def distinct(questions: Iterable[Question]) -> list[Question]:
    """Each once; of those that run tests, only what another does not run too, in whatever order."""
    every = sorted(dict.fromkeys(questions), key=lambda question: -len(question.tests))
    kept: list[Question] = []
    for question in every:
        ways = (question.kernel, question.budget, question.is_optimised)
        others = [set(other.tests) for other in kept if ways == (other.kernel, other.budget, other.is_optimised)]
        if not question.tests or not any(set(question.tests) <= other for other in others):
            kept.append(question)
    return kept


def check_sound(
    copies: Sequence[Copy], questions: Iterable[Question], seed: int, unchanged: Sequence[Mutant] = ()
) -> None:
    """The tree as it is, with its files written as mutants are, must give every answer that is expected: else what stops a
    mutant may be how it is written. Raises WrongTreeError."""

    def check(copy: Copy, question: Question) -> str:
        answer = copy.ask(question, seed)
        if answer.outcome == question.expected:
            return ""
        return f"{question.words}: {answer.outcome} ({answer.by}), expected {question.expected} of the tree as it is"

    try:
        for copy in copies:
            for file in unchanged:
                copy.put(file)
        wrong = [sentence for sentence in _each(copies, distinct(questions), check) if sentence]
    finally:
        for copy in copies:
            for file in unchanged:
                copy.restore(file)
    if wrong:
        raise WrongTreeError("\n".join(wrong))


def check_copy(copy: Copy, mutant: Mutant, question: Question) -> None:
    """A file that cannot be imported must be noticed: else the copy runs other files than its own. Raises WrongTreeError."""
    broken = Mutant(mutant.file, "", "", "", "", source="raise RuntimeError('this copy runs its own files')\n")
    copy.put(broken)
    try:
        answer = copy.ask(question, 1)
    finally:
        copy.restore(broken)
    if answer.outcome == question.expected:
        raise WrongTreeError(f"{question.words}: {answer.outcome} though {mutant.file} cannot be imported in the copy")


def run(
    copies: Sequence[Copy],
    wanted: Sequence[Mutant],
    seed: int,
    questions: Callable[[Mutant], Iterable[Question]],
    done: Callable[[Result, Mutant], None],
) -> None:
    """Try mutants with a seed, as many at once as there are copies; ``done`` is called under a lock."""
    lock = threading.Lock()

    def one(copy: Copy, mutant: Mutant) -> None:
        result = try_mutant(copy, mutant, seed, questions(mutant))
        with lock:
            done(result, mutant)

    _each(copies, wanted, one)


def _each(copies: Sequence[Copy], items: Sequence[T], function: Callable[[Copy, T], R]) -> list[R]:
    free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for copy in copies:
        free.put(copy)

    def one(item: T) -> R:
        copy = free.get()
        try:
            return function(copy, item)
        finally:
            free.put(copy)

    with ThreadPoolExecutor(len(copies)) as pool:
        return list(pool.map(one, items))


class Kept:
    """Results of earlier runs, a line each, with a digest of the tree that gave them."""

    def __init__(self, path: Path, tree: str) -> None:
        self._path, self._tree = path, tree
        path.parent.mkdir(parents=True, exist_ok=True)

    def read(self, other_trees: bool, explained: Container[str] = ()) -> dict[tuple[str, int], Result]:
        """By mutant and seed, the newest of this tree; if so asked, of other trees those that stopped the mutant, and any of
        mutants that are explained, which are not expected to be stopped."""
        found: dict[tuple[str, int], Result] = {}
        for line in self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else ():
            entry = json.loads(line)
            tree, result = entry.pop("tree"), Result(**entry)
            if tree == self._tree or (other_trees and (result.stopped or result.mutant in explained)):
                found[result.mutant, result.seed] = result
        return found

    def add(self, result: Result) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"tree": self._tree, **asdict(result)}) + "\n")


ASIDE = ("xverify/bench/", "xverify/certify/", "tests/test_")
"""No question depends on these, but for the tests that are asked."""


def digest(root: Path) -> str:
    """Of every Python file that a result may depend on."""
    found = hashlib.sha256()
    for path in sorted(path for part in PARTS for path in (root / part).rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if name in ASKED_TESTS or not name.startswith(ASIDE):
            found.update(name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]
