"""The command ``xverify resume``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from xverify.cli.common import PASS, clear, say
from xverify.cli.sweep import sweep
from xverify.core.errors import UsageError


@click.command()
@click.argument("run", required=False, metavar="[RUN]")
@click.option("--runs", type=click.Path(path_type=Path), help="Folder of the runs.  [default: reports/runs]")
@clear
def resume(run: str | None, runs: Path | None) -> int:
    """Continue a sweep that was killed, interrupted, or stopped by a full disk.

    RUN is the id of a run or its folder. The default is the newest unfinished run. Answered calls are not made again,
    and the report is the same as that of a run in one go. With a budget, the rest of it is used.

    Exit codes: those of the sweep; 2 if there is nothing to resume or a version has changed, 3 if another process does
    the run.
    """
    from xverify.engine.resume import to_resume
    from xverify.engine.select import RUNS

    held = to_resume(run, runs or RUNS)
    if isinstance(held, Path):
        say(f"run {held.name} is finished: its report is {held / 'report.html'}")
        return PASS
    description = held.description
    with held.lock:  # which others get again, also if the run cannot go on
        try:
            os.chdir(description.folder)
        except OSError as error:
            raise UsageError(
                f"run {description.id} began in {description.folder}, which cannot be entered: {error.strerror}"
            ) from None
        say(f"going on with run {description.id}: {description.command}")
        with sweep.make_context("sweep", list(description.arguments), click.get_current_context(), obj=held) as context:
            sweep.invoke(context)
    return PASS
