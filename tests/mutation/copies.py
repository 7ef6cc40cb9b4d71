"""Copies of the tree in which one file at a time is a mutant; the working tree is never changed."""

from __future__ import annotations

import compileall
import contextlib
import json
import os
import py_compile
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mutation.mutants import Mutant
from mutation.questions import COMPILING_SECONDS, Question

PARTS = ("xverify", "oracles", "strategies", "tests")

GRACE = 20.0
"""Seconds that a gate may take beyond its budget before it is ended from outside."""

TEST_SECONDS = 90
"""In which one test must end, also where it compiles everything anew beside another that does."""

COMPILED = Path("xverify", "kernels", "compiled", "__pycache__")
"""Where Numba keeps what it has compiled."""


@dataclass(frozen=True)
class Answer:
    """What came of a question. outcome: "nothing", "findings", or how it broke: "unable", "broken", "endless". by: what was
    found, or why there is no answer. seconds: until the first fault, or all."""

    outcome: str
    seconds: float
    by: str


class Copy:
    """One copy of the tree. Used by one thread at a time."""

    def __init__(self, root: Path, directory: Path) -> None:
        self._root = root
        self.tree = directory / "tree"
        self._scratch = directory / "scratch"
        self._scratch.mkdir(parents=True)
        for part in PARTS:
            shutil.copytree(root / part, self.tree / part, ignore=shutil.ignore_patterns("*.pyc"))
        shutil.copy(root / "pyproject.toml", self.tree)
        # Known by what the source holds, so that a mutant is never taken for the file as it was a moment before.
        checked = py_compile.PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(str(self.tree), quiet=2, invalidation_mode=checked)

    def put(self, mutant: Mutant) -> None:
        """Write the mutant's file."""
        (self.tree / mutant.file).write_text(mutant.source, encoding="utf-8")

    def restore(self, mutant: Mutant) -> None:
        """Write the file as it was."""
        shutil.copy(self._root / mutant.file, self.tree / mutant.file)

    def take_compiled(self, other: Copy) -> None:
        """Take the loops that another copy has compiled. Of a mutant of their sources, Numba compiles them anew."""
        shutil.copytree(
            other.tree / COMPILED, self.tree / COMPILED, ignore=shutil.ignore_patterns("*.pyc"), dirs_exist_ok=True
        )

    def ask(self, question: Question, seed: int) -> Answer:
        """The answer of this copy, in a process of its own."""
        began = time.monotonic()
        if question.kernel:
            asked = json.dumps({**question.asked(seed), "began": began})
            command = [sys.executable, str(self.tree / "tests" / "mutation" / "ask.py"), asked]
            status, output = self._run(command, self.tree, question.budget + GRACE)
        else:
            ends = "-o", f"faulthandler_timeout={TEST_SECONDS}", "-o", "faulthandler_exit_on_timeout=true"
            options = ["-n0", "-x", "-q", "-p", "no:cacheprovider", "--tb=line", *ends, *question.tests]
            status, output = self._run([sys.executable, "-m", "pytest", *options], self.tree, question.budget)
        seconds, lines = round(time.monotonic() - began, 2), output.strip().splitlines() or [""]
        if status is None:
            return Answer("endless", seconds, "it did not end")
        # Said behind the dots of those before it.
        if not question.kernel and any("Timeout (" in line and line.endswith("!") for line in lines):
            return Answer("endless", seconds, "a test did not end")
        if not question.kernel:
            # Not the last line: of a process that died it names a folder of the machine.
            ended = f"they ended by signal {-status}" if status < 0 else f"they ended with status {status}"
            failed = next((line for line in lines if line.startswith(("FAILED", "ERROR"))), ended)
            return Answer("findings" if status else "nothing", seconds, failed.partition(" - ")[0] if status else "")
        try:
            return Answer(**json.loads(lines[-1]))
        except (ValueError, TypeError):
            return Answer("broken", seconds, lines[-1][:120])

    def _run(self, command: list[str], where: Path, limit: float) -> tuple[int | None, str]:
        """Exit status (None when it did not end in time) and output."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "XVERIFY"))}
        environment |= {
            "PYTHONPATH": str(self.tree),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(self._scratch),
        }
        process = subprocess.Popen(
            command, cwd=where, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=limit)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            # Its workers too, also where it was ended by a mistake of its own.
            with_its_workers(process)


def compile_once(copies: Sequence[Copy], question: Question) -> None:
    """Have the first copy compile what the tests of a question call, for all: else a mutant that these tests do not see is
    taken for stopped, because they do not end in time."""
    copies[0].ask(replace(question, budget=COMPILING_SECONDS), 1)
    for copy in copies[1:]:
        copy.take_compiled(copies[0])


def with_its_workers(process: subprocess.Popen[str]) -> None:
    """End a process and those that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
