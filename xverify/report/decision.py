"""What every format says of a gate's decision, worked out once: which findings count, in which words, and what was seen."""

from __future__ import annotations

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from xverify.report import summary
from xverify.report.summary import Json

OUTCOMES = {"pass": "PASS", "findings": "FAIL", "unable": "UNABLE"}
"""How an outcome is called, by its name in the report."""

MOST_SHOWN = 4
"""Values of an operand that are shown."""

MOST_PLACES = 3
"""Places of a result that are compared with what is legal there."""

MOST_MESSAGE = 200
"""Characters of a refusal's message, of its first line."""

_COMMAND = re.compile(r"#(?=#)|(?<!\S):(?=:)")
_FIELDS = ("x_dtype", "granularity", "scale_dtype", "out_dtype", "zero_point_dtype", "variant")
_WORDS = {
    "x_dtype": "x of {}",
    "scale_dtype": "scale of {}",
    "out_dtype": "output of {}",
    "zero_point_dtype": "zero point of {}",
}
_KEY = ("contract", *_FIELDS)


def plain(text: str) -> str:
    """Text of others on one line, without anything that a terminal or a CI service takes as a command."""
    shown = "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in _joined(text)
    )
    return _COMMAND.sub(r"\g<0> ", shown)


def _joined(text: str) -> str:
    return " ".join(str(text).split())


def state(finding: Json) -> str:
    """How a finding stands to the ledger: "new", "known", "expired" or "changed"."""
    return str(finding["ledger"]["state"]) if "ledger" in finding else "known" if finding["known"] else "new"


def failing(report: Json) -> list[Json]:
    """The findings that the gate fails on, worst first."""
    ids = set(report["gate"]["failing"])
    return [finding for finding in summary.findings(report) if finding["id"] in ids]


def known(report: Json) -> list[Json]:
    """The findings that the ledger excuses."""
    return [finding for finding in summary.findings(report) if state(finding) == "known"]


def harmless(report: Json) -> list[Json]:
    """The findings on which no gate fails, though the ledger does not know them: ambiguities, and what was allowed."""
    apart = set(report["gate"]["failing"]) | {finding["id"] for finding in known(report)}
    return [finding for finding in summary.findings(report) if finding["id"] not in apart]


def standing(finding: Json) -> str:
    """How a finding stands to the ledger, in words; "" for a new one."""
    entry = finding["ledger"]["entry"] if "ledger" in finding else ""
    return {
        "known": f"known as {entry}",
        "expired": f"{entry} is expired",
        "changed": f"{entry} is about these calls, but what gives the values has changed",
    }.get(state(finding), "")


def outcome(report: Json) -> str:
    """PASS, FAIL or UNABLE."""
    return OUTCOMES[report["gate"]["outcome"]]


def verdict(report: Json) -> str:
    """The decision in one sentence that begins with the kernel's name, without its first word: `outcome`."""
    target, said = report["gate"]["target"], predicate(report)
    # A reason may go on from the kernel's name, as in "kernel.py:f could not be run".
    return f"{target}{' ' if _begins_with_name(report) else ': '}{said}"


def predicate(report: Json) -> str:
    """The same without the kernel's name at its beginning."""
    gate = report["gate"]
    said = {"pass": "", "unable": gate["reason"], "findings": _counted(report)}[gate["outcome"]]
    said = said.removeprefix(f"{gate['kernel']} ") if _begins_with_name(report) else said
    far = extent(report) if gate["calls"] or not said else ""
    return "; ".join(filter(None, (said, far)))


def _begins_with_name(report: Json) -> bool:
    gate = report["gate"]
    return gate["outcome"] == "unable" and bool(gate["reason"].startswith(f"{gate['kernel']} "))


def _counted(report: Json) -> str:
    """Such as "3 new findings (2 violations, 1 crash), 1 expired, 2 known"."""
    found = failing(report)
    states = Counter(map(state, found))
    verdicts = Counter(finding["verdict"] for finding in found if state(finding) == "new")
    kinds = ", ".join(summary.counted(verdicts[name], name) for name in summary.VERDICTS if name in verdicts)
    parts = [f"{summary.plural(states['new'], 'new finding')} ({kinds})"] if states["new"] else []
    parts += [f"{states[name]} {name}" for name in ("expired", "changed") if states[name]]
    return ", ".join([*parts, *([f"{len(known(report))} known"] if known(report) else [])])


def extent(report: Json) -> str:
    """To what the kernel was held, with how many calls, and how long that took."""
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
    """Why the gate could not do all of its work, where it fails for another reason."""
    gate = report["gate"]
    return str(gate["reason"]) if gate["outcome"] == "findings" else ""


# -- what is not supported ---------------------------------------------------------------------------------------------


def _cells(report: Json) -> dict[tuple[str, ...], set[str]]:
    """The statuses of the kernel's cells; its paths taken together."""
    found: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for cell in report["coverage"]["cells"]:
        if _is_kernels(report, cell):
            found[tuple(cell[field] for field in _KEY)].add(cell["status"])
    return found


def _is_kernels(report: Json, cell: Json) -> bool:
    name = report["gate"]["kernel"]
    return bool(cell["subject"] == name or cell["subject"].startswith(f"{name}["))


def unsupported(report: Json) -> list[str]:
    """What the kernel says that it does not implement, in words: what is never answered, then how many cells besides."""
    # Cells that a text leaves open say nothing: there any refusal is as good as any other.
    judged = {key: statuses - {"unspecified"} for key, statuses in _cells(report).items()}
    cells = {key: statuses for key, statuses in judged.items() if statuses}
    left = {key for key, statuses in cells.items() if statuses == {"unsupported"}}
    if not left:
        return []
    if len(left) == len(cells):
        return ["everything that was asked"]
    whole = _never(cells, left)
    named: dict[str, list[str]] = defaultdict(list)
    while whole:
        # What explains most goes first: a type met in unsupported blocks alone is not why they are unsupported.
        (field, value), most = max(whole.items(), key=lambda item: (len(item[1] & left), -_FIELDS.index(item[0][0])))
        if not most & left:
            break
        named[field].append(value)
        left -= most
    said = [_in_words(field, named[field]) for field in _FIELDS if field in named]
    if left:
        said.append(
            f"{summary.plural(len(left), 'cell')} {'besides' if said else 'in all'}, such as {_cell(min(left))}"
        )
    return said


def _never(
    cells: Mapping[tuple[str, ...], set[str]], left: set[tuple[str, ...]]
) -> dict[tuple[str, str], set[tuple[str, ...]]]:
    """The cells of each field's value of which none is supported."""
    by_value: dict[tuple[str, str], set[tuple[str, ...]]] = defaultdict(set)
    for key in cells:
        for field, value in zip(_FIELDS, key[1:], strict=True):
            by_value[field, value].add(key)
    return {named: keys for named, keys in by_value.items() if keys <= left}


def _in_words(field: str, values: Sequence[str]) -> str:
    shown = ", ".join(
        sorted(value.replace("_", " ") if field == "granularity" else value or "none" for value in values)
    )
    return _WORDS.get(field, "{}").format(shown)


def _cell(key: Sequence[str]) -> str:
    cell = dict(zip(_KEY, key, strict=True))
    granularity = cell["granularity"].replace("_", " ")
    types = f"{cell['x_dtype']} * {cell['scale_dtype']} -> {cell['out_dtype']}"
    return ", ".join(filter(None, (types, granularity, cell["variant"])))


# -- what was seen -----------------------------------------------------------------------------------------------------


def clause(report: Json, finding: Json) -> str:
    """The clause that a finding contradicts, quoted, and its id."""
    found = summary.clauses(report).get(finding["clause"])
    quoted = f'"{_joined(found["text"])}"' if found and found["text"] else _joined(found["note"]) if found else ""
    return f"{quoted} ({finding['clause']})" if quoted else str(finding["clause"])


def operands(finding: Json) -> str:
    """The witness' operands and attributes, shortly; "" where there is no witness."""
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
    return f"{kind} {', '.join(pairs[:MOST_SHOWN])}" + (", ..." if len(pairs) > MOST_SHOWN else "")


def results(finding: Json) -> list[str]:
    """What came of the witness and what was legal: a line for each of the first wrong places, or one for the whole."""
    witness = finding["witness"]
    if witness is None or (witness["got"] is None and not witness["legal"]):
        return []
    lines = [_place(entry) for entry in witness["legal"][:MOST_PLACES]] or [_came(witness["got"])]
    more = len(witness["legal"]) - MOST_PLACES
    return [*lines, f"and at {summary.plural(more, 'other place')}"] if more > 0 else lines


def _place(entry: Json) -> str:
    legal = " or ".join(f"{one['decimal']} ({one['hex']})" for one in entry["legal"])
    return f"at {entry['index']} gives {entry['got_decimal']} ({entry['got']}); legal: {legal}"


def _came(got: Json) -> str:
    notes = f"; seen besides: {', '.join(got['notes'])}" if got["notes"] else ""
    if got["tensor"] is not None:
        return f"gives {_tensor(got['tensor'])}{notes}"
    first, *more = [line.strip() for line in got["message"].splitlines() if line.strip()] or [""]
    message = first[:MOST_MESSAGE] + (" ..." if more or len(first) > MOST_MESSAGE else "")
    return ": ".join(filter(None, (got["kind"], got["error"], message))) + notes


def seen(finding: Json) -> str:
    """How far a finding goes."""
    values = f", {summary.plural(finding['values'], 'value')}" if finding["values"] else ""
    cells = f", {summary.plural(len(finding['cells']), 'cell')}" if finding["cells"] else ""
    ulp = f", up to {summary.grouped(finding['max_ulp'])} ULP" if finding["max_ulp"] > 0 else ""
    small = {"not reached": "; not shrunk to the smallest call"}.get(finding["shrunk"], "")
    return f"{summary.plural(finding['cases'], 'call')}{values}{cells}{ulp}{small}"


# -- replaying ---------------------------------------------------------------------------------------------------------

MOST_ARGUMENT = 100_000
"""Characters of a call that a command line holds: Linux takes no argument of 128 KiB or more."""

SHORT_LINE = 2_000
"""Characters of a call where a longer one would bury what is around it."""


def replay_line(report: Json, finding: Json, run: str = "", most: int = MOST_ARGUMENT) -> str:
    """``xverify replay 'CALL' --kernel TARGET --was VERDICT``; by the finding's id where the call is no line, or one of more than
    ``most`` characters.

    The line with the call needs no report. The line with the id finds it by ``run``: a run's id, directory or file; by default
    the id. report: of a gate. Every word is quoted for a POSIX shell.
    """
    gate = report["gate"]
    line = finding.get("line", "")
    words = ["xverify", "replay"]
    if line and len(line) <= most:
        threads = ["--threads"] if finding["subject"]["options"] == "threads" else []
        words += [line, *_to_what(gate), *threads, "--was", _was(finding)]
    else:
        words += [finding["id"], "--run", run or report["run"]["id"], "--kernel", gate["target"], *_files(gate)]
    return shlex.join(words)


def _to_what(gate: Json) -> list[str]:
    """What the kernel was held to; a finding's id needs none of it, since the report says it."""
    words = ["--kernel", gate["target"], *_files(gate)]
    if gate["like"]:
        words += ["--like", gate["like"]]
    if gate["denormals"] == "flush":
        words += ["--denormals", "flush"]
    return words


def _files(gate: Json) -> list[str]:
    """Editions of the user's own, and how strictly refusals were judged: neither is known to a replay otherwise."""
    files = [word for file in gate.get("contract_files", ()) for word in ("--contract", file)]
    return [*files, "--strict"] if gate.get("strict") else files


def _was(finding: Json) -> str:
    """The verdict and, where shrinking needed them, the readings; their names hold "+" and "@", but no comma."""
    readings: list[Any] = list(finding.get("readings", ()))
    return ":".join([finding["verdict"], *([",".join(map(str, readings))] if readings else [])])
