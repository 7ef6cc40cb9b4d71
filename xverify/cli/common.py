"""What all commands share: exit codes, and errors as one sentence."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

PASS, FINDINGS, USAGE, UNABLE = 0, 1, 2, 3

WIDTH_OF_LOGS = 160


def clear(command: Callable[..., int | None]) -> Callable[..., None]:
    """Turn the errors that a user can do something about into one sentence and the right exit code."""

    @wraps(command)
    def run(*args: Any, **options: Any) -> None:
        try:
            _run(command, args, options)
        except KeyboardInterrupt:  # also while what it needs is imported
            fail("interrupted", UNABLE)

    return run


def _run(command: Callable[..., int | None], args: tuple[Any, ...], options: dict[str, Any]) -> None:
    from xverify.contracts import DocumentError
    from xverify.core.errors import (
        DamagedFileError,
        EnvironmentFailedError,
        UnableError,
        UnknownEditionError,
        UnknownRecipeError,
        UsageError,
        WorkerFailedError,
    )

    try:
        sys.exit(command(*args, **options) or PASS)
    except (UsageError, DamagedFileError, UnknownRecipeError) as error:
        fail(str(error), USAGE)
    except (DocumentError, EnvironmentFailedError, UnableError, UnknownEditionError, WorkerFailedError) as error:
        fail(str(error), UNABLE)
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        fail(f"{error.strerror or error}:{where}", UNABLE)


def console_of_output(markup: bool = True) -> Console:
    """Where results are printed: as wide as the terminal is; what is no terminal, a log or a file, has room for tables. markup:
    whether what is in square brackets is how to print; not where messages come from elsewhere."""
    from rich.console import Console

    class Output(Console):
        def on_broken_pipe(self) -> None:
            """Who reads has left, as `| head` does: the work goes on, since the exit code is still its own."""
            self.quiet = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    console = Output(markup=markup)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDTH_OF_LOGS
    return console


def fail(sentence: str, code: int) -> None:
    click.echo(f"xverify: {sentence}", err=True)
    sys.exit(code)


def say(sentence: str) -> None:
    """Tell at once what takes long."""
    click.echo(f"xverify: {sentence}", err=True)
