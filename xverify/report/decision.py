"""Words for a gate's decision, the same in every format."""

from __future__ import annotations

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from xverify.report import causes, summary
from xverify.report.causes import Cause
from xverify.report.summary import Json

OUTCOMES = {"pass": "PASS", "findings": "FAIL", "unable": "UNABLE"}
"""Words for the outcomes in a report."""

MOST_SHOWN = 4
"""Number of operand values shown."""

MOST_PLACES = 3
"""Number of wrong result elements shown."""

MOST_MESSAGE = 200
"""Number of characters shown of the first line of an error message."""

_COMMAND = re.compile(r"#(?=#)|(?<!\S):(?=:)")
_FIELDS = ("x_dtype", "granularity", "scale_dtype", "out_dtype", "zero_point_dtype", "variant")
_WORDS = {
    "x_dtype": "x of {}",
    "scale_dtype": "scale of {}",
    "out_dtype": "output of {}",
    "zero_point_dtype": "zero point of {}",
}
KEY = ("contract", *_FIELDS)
"""The fields that identify a cell."""


def plain(text: str) -> str:
    """Return foreign text on one line, without anything that a terminal or a CI service runs."""
    shown = "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in _joined(text)
    )
    return _COMMAND.sub(r"\g<0> ", shown)


def _joined(text: str) -> str:
    return " ".join(str(text).split())


def state(finding: Json) -> str:
    """Return the ledger state of a finding: "new", "known", "expired" or "changed"."""
    return str(finding["ledger"]["state"]) if "ledger" in finding else "known" if finding["known"] else "new"


def failing(report: Json) -> list[Json]:
    """List the findings on which the gate fails, worst first."""
    ids = set(report["gate"]["failing"])
    return [finding for finding in summary.findings(report) if finding["id"] in ids]


def failing_causes(report: Json) -> list[Cause]:
    """List the causes of the findings on which the gate fails, worst first."""
    return causes.causes(report, failing(report))


def known(report: Json) -> list[Json]:
    """List the findings that the ledger accepts."""
    return [finding for finding in summary.findings(report) if state(finding) == "known"]


def harmless(report: Json) -> list[Json]:
    """List the findings on which no gate fails and that are not in the ledger, such as ambiguities."""
    apart = set(report["gate"]["failing"]) | {finding["id"] for finding in known(report)}
    return [finding for finding in summary.findings(report) if finding["id"] not in apart]


def standing(finding: Json) -> str:
    """Describe the ledger state of a finding; empty for a new one."""
    entry = finding["ledger"]["entry"] if "ledger" in finding else ""
    return {
        "known": f"known as {entry}",
        "expired": f"{entry} has expired",
        "changed": f"{entry} covers these calls, but another recipe now gives their values",
    }.get(state(finding), "")


def outcome(report: Json) -> str:
    """Return PASS, FAIL or UNABLE."""
    return OUTCOMES[report["gate"]["outcome"]]


def verdict(report: Json) -> str:
    """Return the decision as one sentence that begins with the kernel's name, to follow `outcome`."""
    target, sentence = report["gate"]["target"], predicate(report)
    # A reason may begin with the kernel's name, as in "kernel.py:f could not be run".
    return f"{target}{' ' if _begins_with_name(report) else ': '}{sentence}"


def predicate(report: Json) -> str:
    """Return the decision without the kernel's name at its beginning."""
    gate = report["gate"]
    sentence = {"pass": "", "unable": gate["reason"], "findings": _counted(report)}[gate["outcome"]]
    sentence = sentence.removeprefix(f"{gate['kernel']} ") if _begins_with_name(report) else sentence
    covered = extent(report) if gate["calls"] or not sentence else ""
    return "; ".join(filter(None, (sentence, covered)))


def _begins_with_name(report: Json) -> bool:
    gate = report["gate"]
    return gate["outcome"] == "unable" and bool(gate["reason"].startswith(f"{gate['kernel']} "))


def _counted(report: Json) -> str:
    """Count the findings: "3 new findings (2 violations, 1 crash), 1 expired, 2 known"."""
    findings = failing(report)
    states = Counter(map(state, findings))
    verdicts = Counter(finding["verdict"] for finding in findings if state(finding) == "new")
    kinds = ", ".join(summary.counted(verdicts))
    shared = len(failing_causes(report))
    of_causes = f" of {summary.plural(shared, 'cause')}" if shared < len(findings) else ""
    parts = [f"{summary.plural(states['new'], 'new finding')}{of_causes} ({kinds})"] if states["new"] else []
    parts += [f"{states[name]} {name}" for name in ("expired", "changed") if states[name]]
    return ", ".join([*parts, *([f"{len(known(report))} known"] if known(report) else [])])


def extent(report: Json) -> str:
    """Describe the coverage: editions, calls, values, cells and seconds."""
    gate = report["gate"]
    editions = [edition["id"] for edition in report["editions"]]
    what = ", ".join(editions) if len(editions) < 3 else summary.plural(len(editions), "edition")
    first = gate["first_verdict_seconds"]
    cells = _cells(report)
    values = sum(cell["values"] for cell in report["coverage"]["cells"] if _is_kernels(report, cell))
    numbers = ", ".join(
        (
            f"like {gate['like']} on {what}" if gate["like"] else what,
            summary.plural(gate["calls"], "call"),
            f"{summary.short(values)} values in {summary.plural(len(cells), 'cell')}",
            f"{report['run']['seconds']:g} s",
        )
    )
    return numbers + ("" if first is None else f"; first verdict after {first:.1f} s")


def besides(report: Json) -> str:
    """Explain why a gate that fails could not do the rest of its work; empty if it did."""
    gate = report["gate"]
    return str(gate["reason"]) if gate["outcome"] == "findings" else ""


def covered(report: Json) -> str:
    """Describe the answered calls, and those that were refused as not implemented."""
    evidence = report["gate"].get("evidence")
    refused = "; ".join(report["gate"].get("refused") or unsupported(report))
    parts = [f"refused as not implemented: {refused}"] if refused else []
    if evidence:
        calls = summary.plural(evidence["allowed_calls"], "allowed call")
        parts.insert(0, f"answered {summary.grouped(evidence['answered_calls'])} of {calls}")
    return "; ".join(parts)


def lacking(report: Json) -> list[str]:
    """Describe the cells without evidence, one sentence for each kind of evidence that is missing."""
    groups = report["gate"].get("evidence", {}).get("lacking", [])
    return [f"no evidence in {_cells_in_words(group)}: {group['missing']}" for group in groups]


def _cells_in_words(group: Json) -> str:
    """Count the cells of a group, and describe them."""
    count = summary.plural(group["cells"], "cell")
    return str(group["where"]) if group["where"].startswith(count) else f"{count} ({group['where']})"


MOST_NOT_TESTED = 3
"""Number of untested structures and numbers that are shown."""


def not_tested(report: Json) -> str:
    """List what no call contained, the most important items first; empty if everything was tested."""
    names = report["coverage"]["trust"]["not_met"]
    more = len(names) - MOST_NOT_TESTED
    return ", ".join(names[:MOST_NOT_TESTED]) + (f" and {summary.grouped(more)} more" if more > 0 else "")


def untested_step(report: Json) -> str:
    """Return the next step for what no call contained."""
    names = report["coverage"]["trust"]["not_met"]
    if all("(--" in name for name in names):
        return "each needs the option that it names"
    if report["gate"]["stopped_early"]:
        return "the gate stopped at the first fault"
    if report["gate"]["outcome"] == "findings":
        return "a gate without faults tests more"
    if not report["gate"]["walked"]:
        return "raise --budget to test more"
    if "hypothesis" in report["run"]["phases"]:
        return "the edition allows none, or a larger --budget contains some"
    if not report["gate"].get("evidence", {}).get("answered_calls", 1):
        return "a kernel that answers no allowed call gets no more"
    return "run the gate without --walk-only to test more"


# -- what is not supported ---------------------------------------------------------------------------------------------


def _cells(report: Json) -> dict[tuple[str, ...], set[str]]:
    """Return the statuses of the kernel's cells, with all its paths together."""
    statuses: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for cell in report["coverage"]["cells"]:
        if _is_kernels(report, cell):
            statuses[tuple(cell[field] for field in KEY)].add(cell["status"])
    return statuses


def _is_kernels(report: Json, cell: Json) -> bool:
    name = report["gate"]["kernel"]
    return bool(cell["subject"] == name or cell["subject"].startswith(f"{name}["))


def unsupported(report: Json) -> list[str]:
    """Describe the types and structures that the kernel does not implement.

    Types and granularities that it never answers come first, then the number of other cells.
    """
    # Cells that the text leaves open say nothing, because every refusal is legal there.
    judged = {key: statuses - {"unspecified"} for key, statuses in _cells(report).items()}
    cells = {key: statuses for key, statuses in judged.items() if statuses}
    left = {key for key, statuses in cells.items() if statuses == {"unsupported"}}
    if not left:
        return []
    return ["every call that was made"] if len(left) == len(cells) else cells_in_words(left, set(cells))


def cells_in_words(some: set[tuple[str, ...]], cells: set[tuple[str, ...]]) -> list[str]:
    """Describe some cells by types and granularities that are wholly among them, then count the others.

    Args:
        some: The cells to describe, by the fields `KEY`.
        cells: All cells.
    """
    if len(some) == len(cells):
        return ["every cell"] if len(cells) > 1 else [_cell(min(cells))]
    left, whole = set(some), _wholly(cells, some)
    values: dict[str, list[str]] = defaultdict(list)
    while whole:
        # Take the largest explanation first. Otherwise a type that occurs only in unsupported blocks would explain them.
        (field, value), most = max(whole.items(), key=lambda item: (len(item[1] & left), -_FIELDS.index(item[0][0])))
        if not most & left:
            break
        values[field].append(value)
        left -= most
    parts = [_in_words(field, values[field]) for field in _FIELDS if field in values]
    if left:
        parts.append(f"{summary.plural(len(left), 'cell')}{' besides' if parts else ''}, such as {_cell(min(left))}")
    return parts


def _wholly(cells: set[tuple[str, ...]], some: set[tuple[str, ...]]) -> dict[tuple[str, str], set[tuple[str, ...]]]:
    """Return the cells of each field value, if all of its cells are among ``some``."""
    by_value: dict[tuple[str, str], set[tuple[str, ...]]] = defaultdict(set)
    for key in cells:
        for field, value in zip(_FIELDS, key[1:], strict=True):
            by_value[field, value].add(key)
    return {field_value: keys for field_value, keys in by_value.items() if keys <= some}


def _in_words(field: str, values: Sequence[str]) -> str:
    shown = ", ".join(
        sorted(value.replace("_", " ") if field == "granularity" else value or "none" for value in values)
    )
    return _WORDS.get(field, "{}").format(shown)


def _cell(key: Sequence[str]) -> str:
    cell = dict(zip(KEY, key, strict=True))
    granularity = cell["granularity"].replace("_", " ")
    types = f"{cell['x_dtype']} * {cell['scale_dtype']} -> {cell['out_dtype']}"
    return ", ".join(filter(None, (types, granularity, cell["variant"])))


# -- what was seen -----------------------------------------------------------------------------------------------------


def clause(report: Json, finding: Json) -> str:
    """Quote the clause that a finding contradicts, with its id."""
    entry = summary.clauses(report).get(finding["clause"])
    quoted = f'"{_joined(entry["text"])}"' if entry and entry["text"] else _joined(entry["note"]) if entry else ""
    return f"{quoted} ({finding['clause']})" if quoted else str(finding["clause"])


def operands(finding: Json) -> str:
    """Describe the operands and attributes of the finding's call; empty without a call."""
    if finding["witness"] is None:
        return ""
    call = finding["witness"]["call"]
    attributes = [f"{name}={value}" for name, value in call["attributes"].items()]
    return "; ".join([*(f"{role} {_tensor(tensor)}" for role, tensor in call["tensors"].items()), *attributes])


def _tensor(tensor: Json) -> str:
    layout = "" if tensor["layout"] == "C" else f" {tensor['layout']}"
    kind = f"{tensor['dtype']}{tensor['shape']}".replace(" ", "") + layout
    if "hex" not in tensor:
        return f"{kind} {tensor['generator']}".rstrip()
    pairs = [f"{data} ({code})" for data, code in zip(tensor["data"], tensor["hex"], strict=False)]
    return f"{kind} {', '.join(pairs[:MOST_SHOWN])}".rstrip() + (", ..." if len(pairs) > MOST_SHOWN else "")


def results(finding: Json) -> list[str]:
    """Describe the results: a line for each wrong element, or one line for an outcome without values."""
    witness = finding["witness"]
    if witness is None or (witness["got"] is None and not witness["legal"]):
        return []
    lines = [_place(entry) for entry in witness["legal"][:MOST_PLACES]] or [_came(witness["got"])]
    more = len(witness["legal"]) - MOST_PLACES
    return [*lines, f"and at {summary.plural(more, 'other element')}"] if more > 0 else lines


def _place(entry: Json) -> str:
    legal = " or ".join(f"{result['decimal']} ({result['hex']})" for result in entry["legal"])
    return f"at {entry['index']} gives {entry['got_decimal']} ({entry['got']}); legal: {legal}"


def _came(got: Json) -> str:
    notes = f"; also seen: {', '.join(got['notes'])}" if got["notes"] else ""
    if got["tensor"] is not None:
        return f"gives {_tensor(got['tensor'])}{notes}"
    first, *more = [line.strip() for line in got["message"].splitlines() if line.strip()] or [""]
    message = first[:MOST_MESSAGE] + (" ..." if more or len(first) > MOST_MESSAGE else "")
    return ": ".join(filter(None, (got["kind"], got["error"], message))) + notes


def seen(finding: Json) -> str:
    """Count the calls, values and cells that show a finding."""
    return causes.counts([finding])


# -- replaying ---------------------------------------------------------------------------------------------------------

MOST_ARGUMENT = 100_000
"""Longest call in a command line, in characters. Linux limits an argument to 128 KiB."""

SHORT_LINE = 2_000
"""Longest call, in characters, where a longer one would bury the text around it."""


def replay_line(report: Json, finding: Json, run: str = "", most: int = MOST_ARGUMENT) -> str:
    """Return the command that repeats a finding of a gate, quoted for a POSIX shell.

    It has the form ``xverify replay 'CALL' --kernel TARGET --was VERDICT`` and needs no report. A call that cannot be
    written as a line, or only as a long one, is replaced by the finding's id; the command then reads the report.

    Args:
        report: The report of a gate.
        finding: A finding of it.
        run: Id, directory or file of the run, for the form with the id. The default is the run's id.
        most: Longest call, in characters.
    """
    gate = report["gate"]
    line = finding.get("line", "")
    words = ["xverify", "replay"]
    if line and len(line) <= most:
        threads = ["--threads"] if finding["subject"]["options"] == "threads" else []
        huge = ["--huge"] if finding.get("detail") == "huge" else []
        words += [line, *_to_what(gate), *threads, *huge, "--was", _was(finding)]
    else:
        words += [finding["id"], "--run", run or report["run"]["id"], "--kernel", gate["target"], *_files(gate)]
        # The report names the file of the user, but the file runs only if the command names it.
        words += ["--like", _reference(gate)] if ":" in _reference(gate) else []
    return shlex.join(words)


def _to_what(gate: Json) -> list[str]:
    """Return the options that say how the gate judged. A command with the id finds them in the report."""
    words = ["--kernel", gate["target"], *_files(gate)]
    if gate["like"]:
        words += ["--like", _reference(gate)]
    if gate["denormals"] != "keep":
        words += ["--denormals", gate["denormals"]]
    return words


def _reference(gate: Json) -> str:
    """Return the implementation to match as the user named it; "" if there is none."""
    return str(gate.get("like_target") or gate["like"] or "")


def _files(gate: Json) -> list[str]:
    """Return the options that a report does not hold: the user's own editions, and --strict."""
    files = [word for file in gate.get("contract_files", ()) for word in ("--contract", file)]
    return [*files, "--strict"] if gate.get("strict") else files


def _was(finding: Json) -> str:
    """Return the verdict and, where shrinking needed them, the readings. Their names contain no comma."""
    readings: list[Any] = list(finding.get("readings", ()))
    return ":".join([finding["verdict"], *([",".join(map(str, readings))] if readings else [])])
