"""The commands in README.md and docs/: each one runs, or at least its options exist.

A page marks a block of commands by HTML comments in the lines before it:

    <!-- not run: REASON -->    parse the commands only
    <!-- run with: OPTIONS -->  add options that make each xverify command of the block quick
    <!-- exits with: CODE -->   the exit code of each command, if not 0

The word FINDING stands for the id of the finding that README's gate reports.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from folders import ROOT

from xverify import cli

PAGES = ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]

FENCE = re.compile(r"((?:^<!--[^\n]*-->\n)*)^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"<!-- (not run|run with|exits with): (.*) -->")


@dataclass(frozen=True)
class Command:
    """One command of a page."""

    words: tuple[str, ...]
    options: tuple[str, ...] = ()
    """Options that make it quick."""
    code: int = 0
    """The exit code that the page states."""
    is_run: bool = True
    output: str = ""
    """The text that the page shows below the command."""

    def line(self) -> str:
        return shlex.join(self.words)


def blocks(text: str, *languages: str) -> Iterator[tuple[dict[str, str], str]]:
    """Yield marks and content of the fenced blocks in these languages."""
    for comments, language, body in FENCE.findall(text):
        if language in languages:
            yield dict(MARK.findall(comments)), body


def commands(page: str) -> list[Command]:
    """Return the commands of a page."""
    found = []
    text = (ROOT / page).read_text(encoding="utf-8")
    for marks, body in blocks(text, "sh", "console"):
        lines = body.replace("\\\n", " ").splitlines()
        if lines[0].startswith("$ "):
            pairs = [(line.split("\n")[0], line) for line in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]]
        else:
            pairs = [(line, "") for line in lines if line]
        for line, output in pairs:
            found.append(
                Command(
                    words=tuple(shlex.split(line, comments=True)),
                    options=tuple(shlex.split(marks.get("run with", ""))),
                    code=int(marks.get("exits with", "0")),
                    is_run="not run" not in marks,
                    output=output,
                )
            )
    return found


@dataclass
class Workplace:
    """A directory in which commands run, with the files that they name."""

    directory: Path
    finding: str = ""

    @cache  # noqa: B019
    def run(self, words: tuple[str, ...]) -> click.testing.Result:
        """Run an xverify command. The same words run only once."""
        return CliRunner(env={"COLUMNS": "200"}).invoke(cli.main, list(words))

    __hash__ = object.__hash__


def kernel_of_readme() -> str:
    """Return the kernel that README shows."""
    return next(body for _, body in blocks((ROOT / "README.md").read_text(encoding="utf-8"), "python"))


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    """A workplace in which README's gate has run."""
    place = Workplace(tmp_path_factory.mktemp("reader"))
    (place.directory / "my_kernel.py").write_text(kernel_of_readme())
    for name in ("examples", "oracles", "benchmarks"):
        (place.directory / name).symlink_to(ROOT / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place.directory)
        (gate,) = [command for command in commands("README.md") if command.output]
        result = place.run(gate.words[1:])
        assert result.exit_code == gate.code, result.output
        (report,) = place.directory.glob("reports/runs/*/report.json")
        place.finding = json.loads(report.read_text())["findings"][0]["id"]
        os.utime(report, (4e9, 4e9))  # it stays the newest run
        yield place


def parse(words: tuple[str, ...]) -> None:
    """Parse an xverify command; click raises an error for an option that does not exist."""
    command: click.Command = cli.main
    rest = list(words)
    while isinstance(command, click.Group):
        name = rest.pop(0)
        assert name in command.commands, f"there is no command {name}"
        command = command.commands[name]
    command.make_context(words[0], rest)


def extras() -> set[str]:
    return set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])


def check_other(command: Command, directory: Path) -> None:
    """A command that is not xverify's: run the compiler, and look up what others name."""
    program, *rest = command.words
    if program == "make":
        targets = re.findall(r"^([\w-]+):(?!=)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert rest[0] in targets, rest
    elif program == "pip":
        assert rest[0] == "install"
        named = re.findall(r"\[([a-z,]+)\]", rest[-1])
        assert not named or set(named[0].split(",")) <= extras(), rest
    elif program == "cc" and command.is_run:
        if shutil.which("cc") is None:
            pytest.skip("the page compiles with cc, and this machine has no cc")
        result = subprocess.run(command.words, cwd=directory, capture_output=True, text=True)
        assert result.returncode == command.code, result.stderr
    elif program == "python" and rest[0].startswith("benchmarks/"):
        assert (ROOT / rest[0]).is_file()
    else:
        assert not command.is_run, f"no test runs {command.line()}"


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_work(page: str, workplace: Workplace) -> None:
    for command in commands(page):
        if command.words[0] != "xverify":
            check_other(command, workplace.directory)
            continue
        words = tuple(workplace.finding if word == "FINDING" else word for word in command.words[1:])
        if not command.is_run:
            parse(words)
            continue
        if "--cases" in command.options:
            at = words.index("--budget") if "--budget" in words else len(words)
            words = words[:at] + words[at + 2 :]
        result = workplace.run(words + command.options)
        assert result.exit_code == command.code, f"{command.line()}\n{result.output}"


def test_the_gate_that_readme_shows_gives_this_output(workplace: Workplace) -> None:
    (gate,) = [command for command in commands("README.md") if command.output]
    printed = workplace.run(gate.words[1:]).output.splitlines()
    shown = [line for line in gate.output.splitlines() if re.match(r"  (call|result|xverify replay) ", line)]
    assert len(shown) == 3
    assert [line for line in shown if line not in printed] == []


def test_python_blocks_are_python() -> None:
    for page in PAGES:
        for _, body in blocks((ROOT / page).read_text(encoding="utf-8"), "python"):
            compile(body, page, "exec")


def test_the_library_examples_run() -> None:
    # Numba would take half a minute to compile without its cache.
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    bodies = [body for _, body in blocks((ROOT / "docs" / "kernels.md").read_text(encoding="utf-8"), "python")]
    result = subprocess.run(
        [sys.executable, "-c", "\n".join(bodies)], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_every_command_is_in_the_reference() -> None:
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `xverify (\w+)", text, re.MULTILINE)) == set(cli.main.commands)


def test_readme_and_architecture_are_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150
    assert len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split()) <= 900


LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")


def test_links_between_files_lead_somewhere() -> None:
    for page in [*PAGES, "ARCHITECTURE.md", "CHANGELOG.md", "examples/README.md"]:
        for target in LINK.findall((ROOT / page).read_text(encoding="utf-8")):
            if "://" not in target:
                assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}"
