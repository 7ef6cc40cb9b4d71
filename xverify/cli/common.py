"""Exit codes, error messages and the output console of all commands."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

PASS, FINDINGS, USAGE, UNABLE = 0, 1, 2, 3
"""Exit codes: no fault, findings, wrong usage, and could not do its work."""

WIDTH_OF_LOGS = 160
"""Characters in a line where the output is not a terminal."""


class GroupedCommand(click.Command):
    """A command whose help lists its options in groups.

    Args:
        groups: The names of parameters, by heading. Options that no group names come last.
    """

    def __init__(self, *arguments: Any, groups: Mapping[str, Sequence[str]], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._groups = groups

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = {parameter.name: parameter.get_help_record(ctx) for parameter in self.get_params(ctx)}
        groups = {heading: [rows.pop(name) for name in names] for heading, names in self._groups.items()}
        for heading, listed in {**groups, "Other options": list(rows.values())}.items():
            if shown := [row for row in listed if row is not None]:
                with formatter.section(heading):
                    formatter.write_dl(shown)


def clear(command: Callable[..., int | None]) -> Callable[..., None]:
    """Decorate a command: print an error as one sentence, and exit with its code.

    An exception in xverify itself exits with `UNABLE` and leaves a file for a bug report.

    Args:
        command: A function that returns an exit code, or None for `PASS`.
    """

    @wraps(command)
    def run(*args: Any, **options: Any) -> None:
        try:
            _run(command, args, options)
        except KeyboardInterrupt:  # also during the imports inside a command
            fail("interrupted", UNABLE)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            # Never the exit code 1, which says that the kernel is wrong.
            from xverify.cli import bug_report

            fail(bug_report.sentence(error, options), UNABLE)

    return run


def _run(command: Callable[..., int | None], args: tuple[Any, ...], options: dict[str, Any]) -> None:
    from xverify.contracts import DocumentError, blamed_file
    from xverify.core.errors import (
        DamagedFileError,
        EnvironmentFailedError,
        UnableError,
        UnknownEditionError,
        UnknownRecipeError,
        UsageError,
        WorkerFailedError,
    )
    from xverify.oracles import OracleFileError

    try:
        sys.exit(command(*args, **options) or PASS)
    except (UsageError, DamagedFileError, OracleFileError, UnknownRecipeError) as error:
        if command.__name__ != "model" and (file := _model_among(args, options)):
            fail(f"{file} is an ONNX model: check its nodes with: {shlex.join(['xverify', 'model', file])}", USAGE)
        fail(str(error), USAGE)
    except (DocumentError, EnvironmentFailedError, UnableError, UnknownEditionError, WorkerFailedError) as error:
        fail(str(error), UNABLE)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        fail(f"{error.strerror or error}{where}", UNABLE)
    except Exception as error:
        if sentence := blamed_file(error):
            fail(sentence, UNABLE)
        raise


def _model_among(args: tuple[Any, ...], options: dict[str, Any]) -> str:
    """The first argument or option that names an ONNX model, "" if there is none."""
    values = [*args, *options.values()]
    words = [word for value in values for word in (value if isinstance(value, tuple) else (value,))]
    return next(
        (str(word) for word in words if isinstance(word, (str, os.PathLike)) and str(word).endswith(".onnx")), ""
    )


def console_of_output(markup: bool = True) -> Console:
    """Return the console for results: as wide as the terminal, or `WIDTH_OF_LOGS` in a log or a file.

    Args:
        markup: Interpret square brackets as rich's markup. Switch it off for text that is not ours.
    """
    from rich.console import Console

    class Output(Console):
        def on_broken_pipe(self) -> None:
            """Continue without output after the reader has closed the pipe, as `| head` does."""
            self.quiet = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    console = Output(markup=markup)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDTH_OF_LOGS
    return console


def fail(sentence: str, code: int) -> None:
    """Print an error, and exit with a code."""
    click.echo(f"xverify: {sentence}", err=True)
    sys.exit(code)


def say(sentence: str) -> None:
    """Print a status message on standard error."""
    click.echo(f"xverify: {sentence}", err=True)
