"""The causes of a report in few lines of Markdown, grouped by implementation, worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from xverify.core.severity import Severity
from xverify.report import summary
from xverify.report.causes import Cause, causes, seen, types
from xverify.report.formats.markdown import code, row, text
from xverify.report.summary import Json
from xverify.verify.cause_keys import operator_of
from xverify.verify.cause_titles import some

MOST_LINES = 600
"""The largest number of lines. The least severe causes get one line each if all entries do not fit."""

MOST_QUOTED = 160
"""The largest number of characters of a quoted sentence."""

MOST_TITLE = 400
"""The largest number of characters of a cause in words."""

TEXTS = "The texts"
"""The heading of causes that are not an implementation's."""

_LABELS: Mapping[Severity, str] = {
    Severity.ENDS_PROCESS: "ends the process",
    Severity.WRONG: "wrong values",
    Severity.LAST_PLACES: "wrong by less than a factor of two",
    Severity.REFUSES: "refuses",
    Severity.OPEN: "left open",
    Severity.NO_VALIDATION: "no validation",
}


def render(report: Json) -> str:
    """Return a table of the implementations, then the causes of each."""
    listed = causes(report)
    clauses = summary.clauses(report)
    head = [*_head(report, listed), *_table(report, listed)]
    groups = _groups(report, listed)
    full = {cause.id: _full(cause, clauses) for cause in listed}
    brief = {cause.id: [_brief(cause)] for cause in listed}
    left = MOST_LINES - len(head) - sum(len(_section(report, family, [])) for family in groups)
    left -= sum(map(len, brief.values()))
    chosen: dict[str, list[str]] = {}
    for cause in listed:  # the worst first
        left -= len(full[cause.id]) - len(brief[cause.id])
        chosen[cause.id] = full[cause.id] if left >= 0 else brief[cause.id]
    lines = list(head)
    for family, members in groups.items():
        lines += _section(report, family, [line for cause in members for line in chosen[cause.id]])
    if len(lines) > MOST_LINES:
        lines[MOST_LINES - 2 :] = ["", "More causes are in the report itself: `xverify report --format html`."]
    return "\n".join(lines) + "\n"


def _head(report: Json, listed: Sequence[Cause]) -> list[str]:
    run, coverage = report["run"], report["coverage"]
    extent = f"{summary.plural(coverage['cases'], 'call')} and {summary.plural(coverage['values'], 'value')}"
    whole = "" if run["complete"] else " The run was interrupted: it covers only the calls made before that."
    how = f"seed {run['seed']}, {run['seconds']} s, {text(run['started'][:10])}"
    lines = [
        f"# {summary.plural(len(listed), 'cause')} of differences between implementations and their documents",
        "",
        f"{summary.plural(len(report['findings']), 'finding')} in {extent}; {how}: {code(run['command'])}.{whole}",
        "A cause is what one fix would remove. The worst come first. `xverify replay` with a cause's id asks again, after the",
        "command above has made a run.",
        "",
    ]
    lines += [f"Machine: {text(machine)}.", ""] if (machine := summary.machine(run)) else []
    left_out = [f"- {text(sentence)}" for sentence in run.get("left_out", ())]
    return [*lines, *left_out, *[""] * bool(left_out)]


def _family(report: Json, cause: Cause) -> str:
    """The implementation whose kernels show a cause; `TEXTS` for a cause in a text."""
    if not cause.implementations or cause.kind == "text" or (cause.kind == "open" and cause.is_sentence):
        return TEXTS
    return _families(report).get(cause.implementations[0], cause.implementations[0])


def _families(report: Json) -> dict[str, str]:
    """The family of each implementation."""
    return {worker["name"]: str(worker.get("family", worker["name"])) for worker in report["run"]["workers"]}


def _groups(report: Json, listed: Sequence[Cause]) -> dict[str, list[Cause]]:
    """The causes of each family, in the order of its worst cause. Texts come last."""
    groups: dict[str, list[Cause]] = {}
    for cause in listed:
        groups.setdefault(_family(report, cause), []).append(cause)
    texts = groups.pop(TEXTS, None)
    return {**groups, **({TEXTS: texts} if texts else {})}


def _table(report: Json, listed: Sequence[Cause]) -> list[str]:
    """Count the causes of each family by severity. A family that answered no call has no row."""
    groups = _groups(report, listed)
    answering = [worker["name"] for worker in report["run"]["workers"] if worker["calls"]]
    families = dict.fromkeys([*groups, *map(_families(report).__getitem__, answering)])
    lines = [
        row(["implementation", "release", *_LABELS.values()]),
        "| --- | --- |" + " ---: |" * len(_LABELS),
    ]
    for family in sorted(families, key=lambda name: name == TEXTS):
        counts = Counter(cause.severity for cause in groups.get(family, ()))
        numbers = [str(counts[severity] or "") for severity in _LABELS]
        lines.append(row([family, "" if family == TEXTS else _release(report, family), *numbers]))
    return [*lines, ""]


def _workers(report: Json, family: str) -> list[Json]:
    return [worker for worker in report["run"]["workers"] if worker.get("family", worker["name"]) == family]


def _release(report: Json, family: str) -> str:
    """The releases of a family, as upstream names them."""
    releases = dict.fromkeys(str(worker.get("release") or worker["version"]) for worker in _workers(report, family))
    return ", ".join(filter(None, releases))


def _section(report: Json, family: str, lines: Sequence[str]) -> list[str]:
    """Return a heading, the documents that a family claims to implement, and the lines on its causes."""
    heading = " ".join(filter(None, (family, "" if family == TEXTS else _release(report, family))))
    claims = dict.fromkeys(text(worker["claim"]) for worker in _workers(report, family) if worker.get("claim"))
    claimed = [f"Judged by: {' '.join(claims)}", ""] if claims else []
    return [f"## {text(heading)}", "", *claimed, *lines, *[""] * (not lines or bool(lines[-1]))]


def _brief(cause: Cause) -> str:
    """Return a cause in one line."""
    words = f"{cause.title}: {cause.effect}" if cause.effect else cause.title
    return f"- **{_LABELS[cause.severity]}:** {text(shortened(words, MOST_TITLE))} ({code(cause.id)})"


def _full(cause: Cause, clauses: Mapping[str, Json]) -> list[str]:
    """Return a cause with its extent, its sentence and the command that asks again."""
    words = f"{cause.title}: {cause.effect}" if cause.effect else cause.title
    first = f"- **{_LABELS[cause.severity]}:** {text(shortened(words, MOST_TITLE))}"
    names = "" if cause.is_sentence or len(cause.implementations) < 2 else some(cause.implementations, 4)
    extent = [editions_in_words(cause.documents), *map(text, filter(None, (names, types(cause), seen(cause))))]
    lines = [first, f"  {'; '.join(extent)}"]
    clause = clauses.get(cause.first["clause"])
    if clause is not None and cause.kind not in ("crash", "hang", "memory"):
        quoted = clause["text"] or f"The text is silent: {clause['note']}"
        lines.append(f"  > {text(shortened(quoted, MOST_QUOTED))} ({code(clause['id'])})")
    return [*lines, "", f"  `xverify replay {cause.id}`", ""]


def editions_in_words(documents: Sequence[str]) -> str:
    """List editions, each operator once: "`ai.onnx/DequantizeLinear-19`, `-21`, `-23`"."""
    operators: dict[str, list[str]] = {}
    for document in documents:
        operators.setdefault(operator_of(document), []).append(document)
    return ", ".join(
        ", ".join(map(code, [listed[0], *(document[len(operator) :] or document for document in listed[1:])]))
        for operator, listed in operators.items()
    )


def shortened(words: str, most: int) -> str:
    """Return words on one line, cut at a space if they are longer than ``most`` characters."""
    words = " ".join(words.split())
    return words if len(words) <= most else f"{words[:most].rpartition(' ')[0]} ..."
