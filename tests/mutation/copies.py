"""Copies of the tree in which one file at a time is a mutant; the working tree is never changed."""

from __future__ import annotations

import compileall
import contextlib
import json
import os
import py_compile
import select
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
"""Seconds in which one test must end, even if it compiles everything while another test compiles too."""

SHORT_TEST_SECONDS = 20
"""The same limit if the code is compiled without optimisation, or was compiled before."""

IMPORTED = "pytest", "_hypothesis_pytestplugin", "hypothesis", "numpy", "ml_dtypes", "numba"
"""Modules that tests import and that no mutant changes."""

COMPILED = Path("xverify", "kernels", "compiled", "__pycache__")
"""The folder of Numba's cache."""


@dataclass(frozen=True)
class Answer:
    """The answer to a question."""

    outcome: str
    """The result: "nothing", "findings", or a failure: "unable", "broken" or "endless"."""
    seconds: float
    """Time until the first fault, or the whole time."""
    by: str
    """The first finding, or the reason for no answer."""


class Copy:
    """A copy of the tree for one thread at a time. `close` ends its processes."""

    def __init__(self, root: Path, directory: Path) -> None:
        self._root = root
        self.tree = directory / "tree"
        self._scratch = directory / "scratch"
        self._scratch.mkdir(parents=True)
        self._forks: dict[bool, Forks] = {}
        for part in PARTS:
            shutil.copytree(root / part, self.tree / part, ignore=shutil.ignore_patterns("*.pyc"))
        shutil.copy(root / "pyproject.toml", self.tree)
        # Caches are checked by content: two versions of a file may have the same time and size.
        checked = py_compile.PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(str(self.tree), quiet=2, invalidation_mode=checked)

    def put(self, mutant: Mutant) -> None:
        """Write the mutant's file into the copy."""
        (self.tree / mutant.file).write_text(mutant.source, encoding="utf-8")

    def restore(self, mutant: Mutant) -> None:
        """Restore the original file."""
        shutil.copy(self._root / mutant.file, self.tree / mutant.file)

    def take_compiled(self, other: Copy) -> None:
        """Take the loops that another copy has compiled. Numba compiles mutants of their sources again."""
        shutil.copytree(
            other.tree / COMPILED, self.tree / COMPILED, ignore=shutil.ignore_patterns("*.pyc"), dirs_exist_ok=True
        )

    def ask(self, question: Question, seed: int) -> Answer:
        """Ask this copy a question, in a process of its own."""
        return self._ask_gate(question, seed) if question.kernel else self._ask_tests(question, seed)

    def _ask_gate(self, question: Question, seed: int) -> Answer:
        began = time.monotonic()
        asked = json.dumps({**question.asked(seed), "began": began})
        command = [sys.executable, str(self.tree / "tests" / "mutation" / "ask.py"), asked]
        status, output = self._run(command, question.budget + GRACE)
        seconds, last = round(time.monotonic() - began, 2), (output.strip().splitlines() or [""])[-1]
        if status is None:
            return Answer("endless", seconds, "it did not end")
        try:
            return Answer(**json.loads(last))
        except (ValueError, TypeError):
            return Answer("broken", seconds, last[:120])

    def _ask_tests(self, question: Question, seed: int) -> Answer:
        forks, compiles = self._forks_for(question.is_optimised), question.budget >= COMPILING_SECONDS
        limit = TEST_SECONDS if compiles and question.is_optimised else SHORT_TEST_SECONDS
        # Hypothesis must not try the examples with which another mutant failed.
        shutil.rmtree(self.tree / ".hypothesis", ignore_errors=True)
        ends = "-o", f"faulthandler_timeout={limit}", "-o", "faulthandler_exit_on_timeout=true"
        options = ["-n0", "-x", "-q", "-p", "no:cacheprovider", "--tb=line", f"--hypothesis-seed={seed}", *ends]
        began = time.monotonic()
        status, output = forks.run([*options, *question.tests], question.budget)
        seconds, lines = round(time.monotonic() - began, 2), output.splitlines()
        if status is None:
            return Answer("endless", seconds, "it did not end")
        # The message follows the dots of earlier tests on their line.
        if any("Timeout (" in line and line.endswith("!") for line in lines):
            return Answer("endless", seconds, "a test did not end")
        if not status:
            return Answer("nothing", seconds, "")
        # The last line of a process that died is no answer: it names a folder of the machine.
        ended = f"they ended by signal {-status}" if status < 0 else f"they ended with status {status}"
        failed = next((line for line in lines if line.startswith(("FAILED", "ERROR"))), ended)
        return Answer("findings", seconds, failed.partition(" - ")[0])

    def close(self) -> None:
        """End the processes that wait for tests."""
        for forks in self._forks.values():
            forks.close()
        self._forks.clear()

    def _environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "XVERIFY"))}
        return {
            **kept, "PYTHONPATH": str(self.tree), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(self._scratch),
        }  # fmt: skip

    def _forks_for(self, is_optimised: bool) -> Forks:
        if is_optimised not in self._forks:
            # Code that was compiled without optimisation has a cache of its own.
            hasty = {} if is_optimised else {"NUMBA_OPT": "0", "NUMBA_CACHE_DIR": str(self._scratch / "hasty")}
            self._forks[is_optimised] = Forks(self.tree, self._environment() | hasty, self._scratch)
        return self._forks[is_optimised]

    def _run(self, command: list[str], limit: float) -> tuple[int | None, str]:
        """Run a command. Return its exit status, None after the time limit, and its output."""
        process = subprocess.Popen(
            command, cwd=self.tree, env=self._environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=limit)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            # End its workers too, also if the process failed by itself.
            end_group(process.pid)
            process.wait()


class Forks:
    """A process in one copy that runs tests in its forks (forks.py), for one thread at a time."""

    def __init__(self, where: Path, environment: dict[str, str], scratch: Path) -> None:
        self._output = scratch / "output"
        command = [sys.executable, str(Path(__file__).with_name("forks.py")), *IMPORTED]
        self._process = subprocess.Popen(
            command, cwd=where, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self._number()  # the process is ready

    def run(self, options: list[str], limit: float) -> tuple[int | None, str]:
        """Run pytest in a fork. Return its exit status, None after the time limit, and its output.

        Raises:
            RuntimeError: The process that forks has ended.
        """
        stream = self._process.stdin
        assert stream is not None
        stream.write(json.dumps({"options": options, "output": str(self._output)}).encode() + b"\n")
        process = self._number()
        status = None
        try:
            status = self._number(limit)
        except TimeoutError:
            pass
        finally:
            # End its children too, also if it has ended.
            end_group(process)
            if status is None:
                self._number()
        return status, "" if status is None else self._output.read_text(encoding="utf-8", errors="replace")

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def _number(self, limit: float | None = None) -> int:
        """Read the next number that the process prints.

        Raises:
            TimeoutError: It printed none within the limit.
            RuntimeError: It has ended.
        """
        stream = self._process.stdout
        assert stream is not None
        if not select.select([stream], [], [], limit)[0]:
            raise TimeoutError
        line = stream.readline()
        if not line:
            raise RuntimeError("the process that tests are forked from has ended")
        return int(line)


def compile_once(copies: Sequence[Copy], question: Question) -> None:
    """Let the first copy compile what the tests of a question call, for all copies.

    Otherwise tests would end by the time limit, and mutants that they do not see would count as stopped.
    """
    copies[0].ask(replace(question, budget=COMPILING_SECONDS), 1)
    for copy in copies[1:]:
        copy.take_compiled(copies[0])


def end_group(leader: int) -> None:
    """End a process and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
