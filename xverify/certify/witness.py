"""A counterexample: the smallest triple with a wrong result, and the smallest call that shows it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from xverify.certify.bulk import Bulk
from xverify.certify.domains import Columns
from xverify.certify.judging import Judge, Wrong
from xverify.certify.listing import grouped
from xverify.certify.ranges import Range
from xverify.core.call import Outcome
from xverify.core.dtypes import decimal, hexadecimal
from xverify.core.line import call_to_line
from xverify.report.decision import SHORT_LINE

MOST_ASKED = 40
"""Number of calls for shrinking. Each call that hangs costs its whole time limit."""

MOST_HANGING = 6
"""Number of calls for shrinking a call that hangs."""
MOST_VALUES = 4096
"""Largest call that is written as a line, in values."""

KINDS = {
    "rejected": "rejected",
    "unsupported": "rejected",
    "unreadable": "unreadable",
    "crash": "crash",
    "hang": "hang",
}
"""Kind of counterexample for each kind of outcome."""
VERDICTS = {"rejected": "wrongly-rejected", "unreadable": "unreadable-result"}
"""Kinds of counterexamples for which `xverify replay` has another word."""


def counterexample(
    bulk: Bulk,
    judge: Judge,
    names: Sequence[str],
    part: int,
    units: Range,
    columns: Columns,
    outcome: Outcome,
    y: NDArray[Any],
) -> dict[str, Any]:
    """Return the certificate's entry for columns that no reading explains. Nothing may be in progress.

    Args:
        bulk: The worker, which is used for shrinking.
        judge: The comparison.
        names: Readings that explain everything proven so far.
        part: The slice.
        units: Range of units of the columns.
        columns: The operands.
        outcome: Outcome of the request.
        y: Codes of the results, shape (columns, codes).
    """
    order = (*names, *(name for name in judge.readings if name not in names))
    wrong = judge.smallest(order, columns, y.copy()) if is_tensor(outcome) else None
    total = 0 if wrong is None else wrong.wrong
    shown, again = _shrunk(bulk, judge, names, columns, outcome, wrong)
    if again is not None:
        wrong = again
    return {
        "kind": _kind(outcome, wrong),
        "slice": part,
        "range": list(units),
        "wrong": total,
        **_values(judge, wrong),
        "message": outcome.message if not is_tensor(outcome) else "",
        "call": _line(bulk, shown),
        "values_of_call": shown.size,
    }


def is_tensor(outcome: Outcome) -> bool:
    """Return True if an outcome is a tensor, without notes about memory."""
    return outcome.kind == "tensor" and not outcome.notes


def _kind(outcome: Outcome, wrong: Wrong | None) -> str:
    if wrong is None:
        return KINDS.get(outcome.kind, "memory")
    return "mixed" if wrong.got in wrong.due.values() else "violation"


def _values(judge: Judge, wrong: Wrong | None) -> dict[str, Any]:
    if wrong is None:
        return {"triple": None, "got": None, "expected": []}
    domain = judge.domain

    def both(dtype: str, code: int) -> dict[str, str]:
        return {"decimal": decimal(dtype, code), "hex": hexadecimal(dtype, code)}

    due: dict[int, list[str]] = {}
    for name, code in wrong.due.items():
        due.setdefault(code, []).append(name)
    triple = {
        "x": both(domain.x_dtype, wrong.x),
        "zero_point": None if wrong.zero_point is None else both(domain.x_dtype, wrong.zero_point),
        "scale": both(domain.scale_dtype, wrong.scale),
    }
    expected = [{**both(judge.out, code), "readings": readings} for code, readings in due.items()]
    return {"triple": triple, "got": both(judge.out, wrong.got), "expected": expected}


def _line(bulk: Bulk, columns: Columns) -> str:
    most = bulk.through.each
    if columns.size > MOST_VALUES or columns.scale.size > most:
        return ""
    return call_to_line(bulk.through.call(columns))


def replay_line(entry: dict[str, Any], target: str, contract: str) -> str:
    """Return the command that repeats the smallest call; empty if that call is too long for a line."""
    if not entry["call"] or len(entry["call"]) > SHORT_LINE or entry["kind"] == "mixed":
        return ""
    verdict = VERDICTS.get(entry["kind"], entry["kind"])
    words = ["xverify", "replay", entry["call"], "--kernel", target, "--was", verdict]
    # Every refusal counts in a proof, whereas replay without --strict excuses NotImplementedError.
    words += ["--strict"] if verdict == "wrongly-rejected" else []
    return shlex.join(words + (["--contract", contract] if contract else []))


def _shrunk(
    bulk: Bulk, judge: Judge, names: Sequence[str], columns: Columns, outcome: Outcome, wrong: Wrong | None
) -> tuple[Columns, Wrong | None]:
    """Return the smallest columns that show the same fault, with the wrong triple among them."""
    calls = 0
    most = MOST_HANGING if outcome.kind == "hang" else MOST_ASKED
    smallest: Wrong | None = None

    def shows(some: Columns) -> bool:
        nonlocal calls, smallest
        calls += 1
        now, y = bulk.ask(some)
        if wrong is None:
            return now.kind == outcome.kind
        if not is_tensor(now) or judge.explaining(names, some, y, whole=False):
            return False
        order = (*names, *(name for name in judge.readings if name not in names))
        smallest = judge.smallest(order, some, y.copy())
        return True

    if wrong is not None:
        triple = columns.some(slice(wrong.column, wrong.column + 1), slice(wrong.code, wrong.code + 1))
        if shows(triple):
            return triple, smallest
        # The fault may need the whole call, so start again from the call that contains it.
        first = wrong.column // bulk.through.each * bulk.through.each
        call = columns.some(slice(first, first + bulk.through.each), slice(None))
        if not shows(call):
            return columns, None
        columns = call
    smaller = True
    while smaller:
        smaller = False
        for half in _halves(columns, smallest):
            if calls >= most:
                return columns, smallest
            if shows(half):
                columns, smaller = half, True
                break
    return columns, smallest


def _halves(columns: Columns, wrong: Wrong | None) -> Iterator[Columns]:
    """Yield halves of the columns, then of the codes. The half with the wrong result comes first."""
    count, codes = columns.shape
    everything = slice(None)
    for length, index, along in ((count, wrong.column if wrong else 0, 0), (codes, wrong.code if wrong else 0, 1)):
        if length < 2:
            continue
        parts = [slice(0, length // 2), slice(length // 2, length)]
        for part in parts if index < length // 2 else parts[::-1]:
            yield columns.some(part, everything) if along == 0 else columns.some(everything, part)


def in_words(entry: Mapping[str, Any], where: bool = True) -> str:
    """Describe a counterexample in one line.

    Args:
        entry: The certificate's entry.
        where: Add the units that contain it.
    """
    units = f" in units {entry['range'][0]} to {entry['range'][1] - 1}" if where else ""
    if entry["triple"] is None:
        first = entry["message"].partition("\n")[0]
        call = f", in a call of {grouped(entry['values_of_call'])} values" if entry["values_of_call"] else ""
        return f"{entry['kind']}: {first or 'no values'}{call}{units}"
    triple = entry["triple"]
    words = [
        f"{role.replace('_', ' ')} {triple[role]['decimal']} ({triple[role]['hex']})"
        for role in ("x", "zero_point", "scale")
        if triple[role] is not None
    ]
    due = " or ".join(
        f"{result['decimal']} ({result['hex']}, {', '.join(result['readings'])})" for result in entry["expected"]
    )
    got = f"{entry['got']['decimal']} ({entry['got']['hex']})"
    return f"{entry['kind']}: {', '.join(words)} gives {got}; expected {due}; {grouped(entry['wrong'])} wrong values{units}"
