"""Questions to a history, and to two reports without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xverify.core.errors import UsageError
from xverify.core.near import nearest
from xverify.history.presence import CauseHistory, compare
from xverify.history.show import MOST_RUNS, labels
from xverify.history.store import History
from xverify.report.presence import Difference, Strip
from xverify.report.summary import Json


def difference_of(report: Json, other: Json) -> Difference:
    """Compare a report with an older one, by the rules of a history.

    Raises:
        UsageError: They are of the same run, or one contains the other.
    """
    with History(None) as both:
        both.record(other)
        if both.record(report).before:
            names = f"{report['run']['id']} and {other['run']['id']}"
            raise UsageError(f"{names} are the same run, or one contains the other; name another run with --since")
        before, run = sorted(both.runs(), key=lambda each: each.number)
        return compare(both.causes(), run.number, [before.number], labels([before, run]))


class NoRunBeforeError(UsageError):
    """A history holds no run before the one that is to be compared."""


def newest_difference(history: History, run: str | None = None, since: str | None = None) -> Difference:
    """Compare a run with the runs before it.

    Args:
        history: The history.
        run: Id of the run; the newest by default.
        since: Id of the last run to compare with; the one before by default. Runs between the two are left out.

    Raises:
        UsageError: There is no such run.
        NoRunBeforeError: There is no run before it.
    """
    runs = history.runs()
    numbers = [each.number for each in runs]
    if not runs:
        raise UsageError(f"{history.path} has no runs; add one with: xverify history record RUN")
    last = numbers.index(history.number_of(run)) if run is not None else len(runs) - 1
    first = numbers.index(history.number_of(since)) if since is not None else last - 1
    if first < 0:
        raise NoRunBeforeError(f"{history.path} has no run before {runs[last].id} to compare with")
    if first >= last:
        raise UsageError(f"--since {since}: it did not start before {runs[last].id}; name an older run")
    return compare(history.causes(), numbers[last], numbers[: first + 1], labels(runs))


def cause_named(history: History, identity: str) -> CauseHistory:
    """The cause with an id.

    Raises:
        UsageError: The history has none.
    """
    causes = {cause.id: cause for cause in history.causes()}
    if identity not in causes:
        raise UsageError(f"{history.path} has no cause {identity!r}{nearest(identity, causes)}")
    return causes[identity]


def strips_of(history: History) -> Mapping[str, Sequence[Strip]]:
    """The strips of each cause, by its id. Strips over runs are of the newest runs."""
    shown = labels(history.runs()[-MOST_RUNS:])
    return {cause.id: cause.strips(shown) for cause in history.causes()}
