"""Exceptions in xverify or in a user's edition: exit code 3, a sentence, and a file to report."""

from __future__ import annotations

import inspect
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from folders import ROOT

from xverify import cli
from xverify.cli import bug_report
from xverify.cli.common import clear
from xverify.gate import decide, gate

NARROW = ("--x-dtypes", "uint8", "--scale-dtypes", "bfloat16", "--walk-only", "--budget", "10s")


@click.command()
@click.option("--runs")
@click.option("--seed", default=7)
@clear
def failing(runs: str | None, seed: int) -> int:
    raise KeyError("no such state")


def test_a_bug_report_is_written_to_the_first_writable_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["xverify", "failing"])
    (tmp_path / "runs").mkdir()
    (tmp_path / "file").touch()
    monkeypatch.setattr(bug_report.tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    for runs, folder in (("runs", "runs"), ("file", "."), ("nowhere", ".")):
        result = CliRunner().invoke(failing, ["--runs", runs])
        assert result.exit_code == 3
        assert "Traceback" not in result.output
        (file,) = (tmp_path / folder).glob("xverify-bug-*.txt")
        assert result.output == (
            "xverify: xverify itself failed (KeyError: 'no such state'), so nothing is decided; "
            f"attach this file to a bug report: {file}\n"
        )
        text = file.read_text()
        for part in (
            "command: xverify failing\n",
            "seed: 7\n",
            "python: 3.",
            "xverify: ",
            "numpy: ",
            "Traceback (most recent",
        ):
            assert part in text
        assert text.endswith("KeyError: 'no such state'\n")
        file.unlink()
    monkeypatch.setattr(bug_report, "_written", lambda *arguments: None)
    result = CliRunner().invoke(failing)
    assert result.exit_code == 3
    assert "Report this text as a bug:" in result.output
    assert "Traceback" in result.output


def test_every_command_writes_a_bug_report() -> None:
    for name, command in cli.main.commands.items():
        commands = command.commands.values() if isinstance(command, click.Group) else [command]
        for each in commands:
            source = inspect.getsource(inspect.unwrap(each.callback))
            assert "@clear" in source, name


def test_errors_of_the_command_line_are_no_bug_reports() -> None:
    @click.command()
    @clear
    def wrong() -> int:
        raise click.UsageError("no such thing")

    result = CliRunner().invoke(wrong)
    assert (result.exit_code, "Error: no such thing" in result.output) == (2, True)


def test_an_exception_inside_the_gate_exits_with_3_and_leaves_a_bug_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(gate, "decided", broken)
    assert decide.decided is not broken
    words = ["gate", *NARROW, "--granularity", "per_tensor", "--runs", str(tmp_path)]
    result = CliRunner().invoke(cli.main, words)
    assert (result.exit_code, "ZeroDivisionError: division by zero" in result.output) == (3, True)
    assert list(tmp_path.glob("xverify-bug-*.txt"))


@pytest.mark.parametrize("function", ["judge", "readings"])
def test_an_exception_in_a_users_edition_names_its_file_and_line(function: str, tmp_path: Path) -> None:
    text = (ROOT / "examples" / "vendor_edition.py").read_text()
    head = f"def {function}(call: Call)"
    before, _, after = text.partition(head)
    assert after
    signature, _, body = after.partition("\n")
    broken = f'{before}{head}{signature}\n    if call.tensors["x"].layout == "F":\n        return 1 // 0\n{body}'
    file = tmp_path / "edition.py"
    file.write_text(broken)
    words = ["gate", "--contract", str(file), *NARROW, "--runs", str(tmp_path)]
    result = CliRunner().invoke(cli.main, words)
    assert result.exit_code == 3, result.output
    line = broken[: broken.index("return 1 // 0")].count("\n") + 1
    assert f"edition.py: line {line}: {function}() raised ZeroDivisionError" in result.output
    assert not list(tmp_path.glob("xverify-bug-*.txt"))
