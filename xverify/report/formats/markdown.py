"""The report as Markdown, for an issue, a pull request or the summary of a CI job."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from xverify.report import model as of_model
from xverify.report import summary
from xverify.report.causes import causes, sentence
from xverify.report.changes import histories
from xverify.report.characterisation import Characterised, characterise
from xverify.report.presence import Difference, Strip
from xverify.report.summary import Json

_AT_LINE_START = re.compile(r"^(\d*)([-+=.)])(?=\s|$|[-=])")
_MENTION = re.compile(r"([@#])(?=\w)")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!&])")


def render(report: Json, since: Difference | None = None, strips: Mapping[str, Sequence[Strip]] | None = None) -> str:
    """Return the whole report: what changed, the causes, a table for each operator, then the findings.

    Args:
        report: The report.
        since: Comparison with an older run.
        strips: Presence of each cause over versions, by its id.
    """
    run, coverage = report["run"], report["coverage"]
    title = of_model.word(report) if "model" in report else summary.plural(len(report["causes"]), "cause")
    lines = [f"# xverify: {title}", ""]
    lines += [text(summary.headline(report)) + ".", ""] if "model" not in report else []
    lines += _of_model(report) if "model" in report else []
    how = f"seed {run['seed']}, {run['seconds']} s, {text(run['started'])}"
    lines += [f"Run {code(run['id'])}, {how}: {code(run['command'])}", ""]
    lines += [f"Machine: {text(machine)}.", ""] if (machine := summary.machine(run)) else []
    if not run["complete"]:
        lines += ["**The run was interrupted. It covers only the calls made before that.**", ""]
    if left_out := run.get("left_out"):
        lines += [*(f"- {text(sentence)}" for sentence in left_out), ""]
    lines += _since(since) + _causes(report, strips or {})
    for operator, contracts in summary.operators(report).items():
        lines += _table(report, operator, contracts)
    lines += _histories(report)
    lines += ["## Findings", ""]
    clauses = summary.clauses(report)
    for finding in summary.findings(report):
        lines += _finding(finding, clauses.get(finding["clause"]))
    if not report["findings"]:
        lines += ["None.", ""]
    lines += _recipes(report) + _clauses(report)
    lines += ["## Calls", "", *(f"- {text(name)}: {text(share)}" for name, share in summary.shares(report)), ""]
    lines += ["## Not tested", ""]
    lines += [f"- {text(name)}" for name in coverage["trust"]["not_met"]] or [
        "Everything on the coverage list was tested."
    ]
    return "\n".join(lines) + "\n"


def _of_model(report: Json) -> list[str]:
    """The decision on a model, its differences, and the state of each node."""
    section, columns = report["model"], of_model.columns(report)
    lines = [f"**{of_model.word(report)}** {code(section['file'])}: {text(of_model.sentence(report))}.", ""]
    for group in of_model.groups(report):
        entry = group.first
        sentence = f"{group.node}, {entry['oracle']}, {group.where}: {group.amount}"
        lines.append(f"- **{text(group.kind)}**: {text(sentence)}{'' if entry['is_fault'] else ' (no fault)'}")
        rows = (("bits", group.bits), ("cause", group.cause), ("part", group.operators), ("script", entry["script"]))
        lines += [f"  - {name}: {text(words)}" for name, words in rows if words]
    lines += ["", *(f"- {text(note)}" for note in of_model.notes(report)), ""]
    heads = [f"{name} {of_model.WORDS[check]}" for name, check in columns]
    lines += [row(["node", "x, scale, zero point", *heads]), "|" + " --- |" * (len(heads) + 2)]
    for each in of_model.rows(report):
        lines.append(row([each.node["name"], each.types, *(field.words if field else "" for field in each.fields)]))
    return [*lines, ""]


def _since(since: Difference | None) -> list[str]:
    """List the causes that differ from an older run."""
    if since is None:
        return []
    lines = [f"## Since run {text(since.since)}", ""]
    for heading, changes in since.parts():
        lines += [f"{text(heading[0].upper() + heading[1:])}:", ""]
        for change in changes:
            before = f" ({text(change.before)} before, now {text(change.severity)})" if change.before else ""
            lines.append(f"- {text(change.sentence)}{before} ({code(change.cause)})")
        lines.append("")
    return [*lines, f"{summary.plural(since.same, 'cause')} as before.", ""]


def _causes(report: Json, strips: Mapping[str, Sequence[Strip]]) -> list[str]:
    """List the causes, worst first, each with its versions in words."""
    lines = []
    for cause in causes(report):
        count = summary.plural(len(cause.findings), "finding")
        over = "".join(f"; {text(strip.name)} {strip.since}" for strip in strips.get(cause.plain_id, ()) if strip.since)
        lines.append(f"- **{text(cause.severity.words)}**: {text(sentence(cause))} ({code(cause.id)}, {count}{over})")
    return ["## Causes", "", *lines, ""] if lines else []


def _table(report: Json, operator: str, contracts: list[str]) -> list[str]:
    matrix = summary.matrix(report)
    subjects = [s for s in summary.subjects(report) if any((contract, s) in matrix for contract in contracts)]
    if not subjects:
        return []
    lines = [row([operator, *subjects]), "|" + " --- |" * (len(subjects) + 1)]
    for contract in contracts:
        entries = [matrix.get((contract, subject)) for subject in subjects]
        cells = ["" if e is None else f"{', '.join(e.headlines)} ({summary.short(e.values)} values)" for e in entries]
        lines.append(row([code(contract).replace("|", "\\|"), *map(text, cells)], escape=False))
    return [*lines, ""]


def _histories(report: Json) -> list[str]:
    """Return a table of changes for each implementation, with its versions across."""
    lines = []
    for history in histories(report):
        lines += [f"## What changed between versions of {text(history.name)}", ""]
        lines += [row(["", *history.versions]), "|" + " --- |" * (len(history.versions) + 1)]
        lines += [
            row([change.heading, *(", ".join(field.words for field in fields) for fields in change.fields)])
            for change in history.rows
        ]
        lines.append("")
    return lines


def row(cells: list[str], escape: bool = True) -> str:
    """Return one row of a table.

    Args:
        cells: Text of each cell.
        escape: False if the cells are Markdown already.
    """
    return "| " + " | ".join(text(cell) if escape else cell for cell in cells) + " |"


def _finding(finding: Json, clause: Json | None) -> list[str]:
    subject = finding["subject"]
    lines = [f"### {summary.words(finding['verdict'])}: {text(finding['summary'])}", ""]
    who = (
        f"{text(summary.label(subject))} {text(subject['version'])}, {code(finding['contract'])}, {code(finding['id'])}"
    )
    extent = f"{summary.plural(finding['cases'], 'case')}, {summary.plural(finding['values'], 'value')}"
    lines += [f"{who}; {extent}{'; in the ledger' if finding['known'] else ''}.", ""]
    if clause is not None:
        quoted = text(clause["text"] or "The text is silent: " + clause["note"])
        lines += [f"> {quoted}", ">", f"> {code(clause['id'])} in {text(clause['document'])}", ""]
    by = finding["attribution"]
    if by is not None:
        noun = "wrong value" if finding["verdict"] == "violation" else "value"
        explained = f"{summary.grouped(by['explained_values'])} of {summary.plural(by['values'], noun)}"
        lines += [f"What it does instead: {text(by.get('words', by['reading']))} ({explained}).", ""]
        if by.get("elsewhere"):
            lines += [f"Everywhere else: {text(by['elsewhere']['words'])}, which the text allows.", ""]
    if finding.get("region"):
        lines += [f"Where: {code(finding['region']['words'])}.", ""]
    if finding.get("ulp_histogram"):
        counts = (f"{summary.distance(e)}: {summary.plural(e['count'], 'value')}" for e in finding["ulp_histogram"])
        lines += [f"Distance from the nearest legal value, in ULP: {', '.join(counts)}.", ""]
    for entry in finding.get("followed", ()):
        lines.append(f"- {text(entry['subject'])} {text(summary.follows(entry))}")
    if finding.get("followed"):
        lines.append("")
    return lines + _witness(finding)


def _recipes(report: Json) -> list[str]:
    """List the recipes of every implementation under each edition, with the number of cells and values."""
    lines = []
    for contract, implementations in characterise(report).items():
        items = [
            f"- {text(implementation.subject)}: {text(recipe)}"
            for implementation in implementations
            for recipe in _in_words(implementation)
        ]
        lines += [f"### {code(contract)}", "", *items, ""] if items else []
    return ["## What each implementation computes", "", *lines] if lines else []


def _in_words(implementation: Characterised) -> list[str]:
    """Describe the recipes of one implementation, whatever the status of its cells."""
    counts: dict[tuple[str, bool], list[int]] = defaultdict(lambda: [0, 0])
    for recipe in implementation.recipes:
        if recipe.words:
            counts[recipe.words, recipe.legal][0] += recipe.cells
            counts[recipe.words, recipe.legal][1] += recipe.values
    return [
        f"{words} ({summary.plural(values, 'value')} in {summary.plural(cells, 'cell')}"
        + ("" if legal else "; the text does not admit it")
        + ")"
        for (words, legal), (cells, values) in counts.items()
    ]


def _clauses(report: Json) -> list[str]:
    """List the clauses of each edition, with the number of tests and who follows them."""
    answers, lines = summary.answers(report), []
    for edition in report["editions"]:
        lines += [f"### {code(edition['id'])}", ""]
        for clause in edition["clauses"]:
            answer = answers[clause["id"]]
            tested = f"tested by {summary.plural(clause['tested'], 'call')}" if clause["tested"] else "**untested**"
            answers_listed = [
                f"{'followed' if clause['text'] else 'answered'} by {', '.join(map(text, answer.follow))}"
                if answer.follow
                else "",
                f"{'not' if clause['text'] else 'otherwise'} by "
                f"{', '.join(f'{text(name)} ({code(finding)})' for name, finding in answer.depart)}"
                if answer.depart
                else "",
                f"unknown: {', '.join(f'{text(name)} ({text(why)})' for name, why in answer.untold)}"
                if answer.untold
                else "",
            ]
            lines.append(
                f"- {code(clause['id'].rpartition('/')[2])}: {'; '.join([tested, *filter(None, answers_listed)])}"
            )
        lines.append("")
    return ["## Clauses", "", *lines] if lines else []


def _witness(finding: Json) -> list[str]:
    witness = finding["witness"]
    if witness is None:
        return []
    lines = ["| operand | type | shape | values | bits |", "| --- | --- | --- | --- | --- |"]
    for role, tensor in witness["call"]["tensors"].items():
        shown = (
            (_first(tensor["data"]), _first(tensor["hex"]))
            if "hex" in tensor
            else (tensor["generator"], tensor["file"])
        )
        lines.append(row([role, tensor["dtype"], str(tensor["shape"]), *shown]))
    lines += [row([name, "attribute", "", str(value), ""]) for name, value in witness["call"]["attributes"].items()]
    descriptions = (
        ("in memory", summary.in_memory(finding)),
        ("in a graph", summary.around(finding)),
        ("lowest level", finding.get("lowest", "")),
        ("the optimiser", finding.get("rewrite", "")),
    )
    lines += [row([name, "", "", description, ""]) for name, description in descriptions if description]
    lines.append("")
    for entry in witness["legal"][:8]:
        due = " or ".join(f"{result['decimal']} ({result['hex']})" for result in entry["legal"])
        gives = f"{text(entry['got_decimal'])} ({code(entry['got'])})"
        lines.append(f"- at {text(str(entry['index']))} it gives {gives}; legal: {text(due)}")
    got = witness["got"]
    if got is not None and not witness["legal"]:
        lines.append(f"- {text(_outcome(got))}")
    lines += [f"- {text(other['name'])} gives {text(other['outcome'])}" for other in finding["others"]]
    if finding["reproduce"]:
        lines += ["", f"Reproduce: {code('python ' + finding['reproduce'])}"]
    return [*lines, ""]


def _outcome(got: Json) -> str:
    if got["tensor"] is None:
        return ": ".join(part for part in (got["kind"], got["error"], got["message"][:300]) if part)
    tensor = got["tensor"]
    values = f"{_first(tensor['data'])} ({_first(tensor['hex'])})" if "hex" in tensor else "a large tensor"
    return f"gives {tensor['dtype']} {values}" + "".join(f", {note}" for note in got["notes"])


def _first(values: list[str]) -> str:
    return ", ".join(values[:8]) + (", ..." if len(values) > 8 else "")


def text(value: str) -> str:
    """Escape text for Markdown: one line, no markup, no mention, no link to an issue."""
    escaped = _SPECIAL.sub(r"\\\1", " ".join(str(value).split()))
    escaped = _AT_LINE_START.sub(r"\1\\\2", escaped)
    return _MENTION.sub(r"\1<!-- -->", escaped)


def code(value: str) -> str:
    """Return text as a code span; backticks in it become apostrophes."""
    return "`" + " ".join(str(value).split()).replace("`", "'") + "`"
