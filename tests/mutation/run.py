"""Try mutants, several at the same time, until a question stops each. Results are kept as they come."""

from __future__ import annotations

import hashlib
import json
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from mutation.copies import PARTS, Copy
from mutation.mutants import Mutant
from mutation.questions import Question

T, R = TypeVar("T"), TypeVar("R")


@dataclass(frozen=True)
class Result:
    """The result of one mutant with one seed."""

    mutant: str
    seed: int
    stopped: str
    """The question that stopped it; "" if none did."""
    outcome: str
    by: str
    seconds: float
    """Time until it was stopped, all questions counted."""


class WrongTreeError(RuntimeError):
    """The unchanged tree fails a question, or a copy does not run its own files."""


def try_mutant(copy: Copy, mutant: Mutant, seed: int, questions: Iterable[Question]) -> Result:
    """Ask questions until an answer differs from that of the sound tree."""
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
    """Drop repeated questions, and runs of tests that another question includes."""
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
    """Check that the unchanged tree, written as mutants are, gives every expected answer.

    Otherwise the way in which mutants are written might stop them.

    Raises:
        WrongTreeError: An answer differs.
    """

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
    """Check that the copy runs its own files: it must notice a file that cannot be imported.

    Raises:
        WrongTreeError: The copy does not notice it.
    """
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

    def __init__(self, path: Path, tree: str, seed: int) -> None:
        self._path, self._tree, self._seed = path, tree, seed
        path.parent.mkdir(parents=True, exist_ok=True)

    def read(self) -> dict[str, Result]:
        """Return the newest results of this tree and seed, by mutant."""
        results: dict[str, Result] = {}
        for line in self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else ():
            entry = json.loads(line)
            tree, result = entry.pop("tree"), Result(**entry)
            if (tree, result.seed) == (self._tree, self._seed):
                results[result.mutant] = result
        return results

    def add(self, result: Result) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"tree": self._tree, **asdict(result)}) + "\n")


def digest(root: Path) -> str:
    """Return a digest of every Python file that a result may depend on."""
    every = hashlib.sha256()
    for path in sorted(path for part in PARTS for path in (root / part).rglob("*.py")):
        every.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return every.hexdigest()[:16]
