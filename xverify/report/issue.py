"""The body of an issue about one cause, for the maintainers of the implementation or document.

The readers do not know xverify, so none of its terms appear. The body has at most 60 lines: how wrong the results are in plain
numbers, the versions, a short script or program, the sentence of the text, the allowed results, and the evidence, folded.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from xverify.contracts import quantize
from xverify.core.errors import DocumentError
from xverify.core.machine import MISSING
from xverify.environments.cache import OLD_NUMPY
from xverify.oracles.releases import release_of
from xverify.report import summary
from xverify.report.causes import beside, causes, findings_of, types_in_words
from xverify.report.formats.markdown import code, row, text
from xverify.report.issue_words import Case, capital, lead, path_in_words, plain_name, released_name, title
from xverify.report.script import oracle_of
from xverify.report.short_script import Short, short_program
from xverify.report.summary import Json
from xverify.verify.cause_titles import exact_number
from xverify.verify.causes import is_near_in_range

if TYPE_CHECKING:
    from xverify.engine.again import Again

MOST_LINES = 60
"""Number of lines of a body."""

MOST_SCRIPT_LINES = 30
"""Number of lines of a script in an issue. A longer one is attached."""

MOST_SCRIPT = 20_000
"""Longest script in an issue, in characters."""

MOST_ELEMENTS = 3
"""Number of wrong elements that are listed."""

MOST_QUOTED = 700
"""Longest quotation, in characters."""

MOST_MESSAGE_LINES = 4
"""Number of lines of an error's message."""

MOST_OPERANDS = 6
"""Number of rows in a table of operands."""

_LETTERS = "abcdefghijklmnopqrstuvwxyz"

_OF_THE_MACHINERY = re.compile(
    r"^(Fatal Python error|Current thread|Thread 0x|Stack \(|Extension modules|\s*File )|^\s*$|<no Python frame>"
)
"""Lines of a crash's message that are about the process that made the call."""


def render(report: Json, identity: str, again: Again | None = None) -> str:
    """Return the body of an issue in Markdown, with the title in its first line.

    Args:
        report: The report that holds the finding.
        identity: Id of a cause or a finding.
        again: What the implementation did when it was asked again.

    Raises:
        UsageError: The report has no cause or finding with that id. The message names the nearest ids.
    """
    findings = findings_of(report, identity)
    of_it = causes(report, findings)
    cause = next((cause for cause in of_it if cause.id == identity), of_it[0] if of_it else None)
    case = Case(report, findings[0], summary.clauses(report).get(findings[0]["clause"]), tuple(findings), cause)
    lines = [
        *(f"# {text(title(case))}", "", text(capital(lead(case))), ""),
        *_extent(case),
        *_versions(case, again),
        *_script(case),
        *_outcome(case),
        *_quotes(case),
        *_allowed(case),
    ]
    details = _fitting(_details(case), MOST_LINES - len(lines) - 4)
    lines += ["<details><summary>Evidence</summary>", "", *details, "", "</details>"]
    return "\n".join(lines) + "\n"


def _fitting(details: list[str], room: int) -> list[str]:
    """Return the facts that fit into a number of lines, and count the others. The first always stays."""
    if len(details) <= room:
        return details
    kept = max(1, room - 1)
    return [*details[:kept], *([f"- and {len(details) - kept} more facts in the report"] if room > 1 else [])]


def fence(content: str, language: str = "") -> list[str]:
    """Return text as a code block whose fence is longer than any run of backticks in the text."""
    longest = max((len(run) for run in re.findall("`+", content)), default=0)
    marks = "`" * max(3, longest + 1)
    return [marks + language, content.rstrip("\n"), marks, ""]


def _fenced(content: str, language: str = "") -> list[str]:
    """Return a code block line by line, so that its lines can be counted."""
    return "\n".join(fence(content, language)).split("\n")


def _script(case: Case) -> list[str]:
    """A short script or program; else the operands, and the name of the file to attach."""
    finding = case.finding
    if finding["witness"] is None:
        return []
    if summary.on_texts(finding):
        return _operands(finding)
    large = any("hex" not in tensor for tensor in finding["witness"]["call"]["tensors"].values())
    short: Short | None = None if large else short_program(finding)
    if short is not None and len(short.text.splitlines()) <= MOST_SCRIPT_LINES and len(short.text) <= MOST_SCRIPT:
        return [*_fenced(short.text, short.language), *_install(short, case.report["run"]["versions"])]
    beside = f" and {code('scripts/' + finding['id'] + '.call')}" if large else ""
    reason = "No short script makes this call."
    if large or short is not None:
        reason = f"The {'smallest known call' if large else 'script'} is too large to be shown here."
    return [
        f"{reason} Attached {'are' if large else 'is'} {code(finding['reproduce'])}{beside}; "
        "the script needs NumPy and the framework.",
        "",
        *_operands(finding),
    ]


def _install(short: Short, versions: Json) -> list[str]:
    """Say how to install what a script needs, and how to build and run a program."""
    if OLD_NUMPY in short.packages:
        versions = {**versions, "ml_dtypes": MISSING}  # the version of this run may need a newer NumPy
    packages = [
        shlex.quote(f"{name}=={versions[name]}" if versions.get(name, MISSING) != MISSING else name)
        for name in short.packages
    ]
    said = [f"{code('pip install ' + ' '.join(packages))} in a virtual environment"] if packages else []
    said += [f"{code(short.command)} builds and runs the program"] if short.command else []
    return [f"To run it: {'; then '.join(said)}.", ""] if said else []


def _operands(finding: Json) -> list[str]:
    call = finding["witness"]["call"]
    rows = [row(["operand", "type", "shape", "values", "bits"]), row(["---"] * 5, escape=False)]
    for role, tensor in call["tensors"].items():
        shown = (_few(tensor["data"]), _few(tensor["hex"])) if "hex" in tensor else ("in the attached file", "")
        rows.append(row([role, tensor["dtype"], str(tensor["shape"]), *shown]))
    rows += [row([name, "attribute", "", str(value), ""]) for name, value in call["attributes"].items()]
    descriptions = (("in memory", summary.in_memory(finding)), ("in a graph", summary.around(finding)))
    rows += [row([name, "", "", description, ""]) for name, description in descriptions if description]
    return [*rows[: MOST_OPERANDS + 2], ""]


def _few(values: list[str], most: int = 8) -> str:
    return ", ".join(values[:most]) + (", ..." if len(values) > most else "")


def _outcome(case: Case) -> list[str]:
    """Describe an outcome that is not a matter of single values, such as an error or a crash."""
    finding = case.finding
    got = finding["witness"]["got"] if finding["witness"] else None
    if got is None or finding["witness"]["legal"]:
        return []
    if got["tensor"] is None:
        endings = {
            "crash": "The process ends",
            "hang": "No answer",
            "unreadable-result": "It returns an object of type",
        }
        ending = endings.get(finding["verdict"], "It raises")
        error = f" {'with ' * (finding['verdict'] == 'crash')}{code(got['error'])}" if got["error"] else ""
        message = [_middle_cut(line) for line in got["message"].splitlines() if not _OF_THE_MACHINERY.search(line)]
        lines = [f"{ending}{error}{':' if message else '.'}", ""]
        return lines + (_fenced("\n".join(message[:MOST_MESSAGE_LINES]), "text") if message else [])
    if case.writes_nothing:
        return ["It returns, and the memory of the output keeps its bytes.", ""]
    tensor = got["tensor"]
    kind = f"{code(tensor['dtype'])} of shape {code(str(tensor['shape']))}"
    if "hex" not in tensor:
        return [f"It gives a result of type {kind}.", ""]
    values = _few([f"{d} ({h})" for d, h in zip(tensor["data"], tensor["hex"], strict=False)])
    return [f"It gives a result of type {kind}: {text(values) or 'no values'}", ""]


def _middle_cut(line: str, head: int = 120, tail: int = 180) -> str:
    """Shorten a line of a message, whose end says most."""
    return line if len(line) <= head + tail else f"{line[:head]} ... {line[-tail:]}"


def _quotes(case: Case) -> list[str]:
    """Quote the sentence in question; for a conflict, the sentences of both documents."""
    clauses = summary.clauses(case.report)
    candidates = [case.clause]
    if case.finding["verdict"] == "conflict" and not case.contradicts_itself:
        candidates.append(clauses.get(str(case.finding.get("detail", ""))))
    if case.blamed:
        candidates = [_sentence_of(case.blamed, case.finding["contract"])]
        if candidates == [None]:
            return [f"The text of {text(case.blamed)} decides this, and not that of the operator before it.", ""]
    if case.finding.get("needs") == "a negative axis":  # the sentence that allows it
        candidates.append(clauses.get(f"{case.finding['contract']}/axis-range"))
    lines: list[str] = []
    for clause in (clause for clause in candidates if clause is not None):
        document = text(clause["document"])
        if clause["text"]:
            quoted = " ".join(clause["text"].split())
            quoted = quoted if len(quoted) <= MOST_QUOTED else quoted[:MOST_QUOTED].rstrip() + " ..."
            note = f" {text(capital(clause['note']))}." if clause["note"] else ""
            source = f"> ({document}){note}"
            if lines[-2:-1] == [source]:  # sentences of one document share a quotation
                lines[-2:-2] = [f"> {text(quoted)}", ">"]
            else:
                lines += [f"> {text(quoted)}", ">", source, ""]
        else:
            lines += [f"The text says nothing: {text(clause['note'])} ({document}).", ""]
    return lines


def _sentence_of(operator: str, contract: str) -> Json | None:
    """The formula of another operator of a graph; None if no text is at hand."""
    opset = re.fullmatch(r"ai\.onnx/\w+-(\d+)", contract)
    if operator != "QuantizeLinear" or opset is None:
        return None
    try:
        listed = quantize.clauses(int(opset[1]))
    except DocumentError:
        return None
    clause = next(clause for identity, clause in listed.items() if identity.endswith("/formula"))
    return {"text": clause.text, "document": clause.document, "note": clause.note}


def _allowed(case: Case) -> list[str]:
    """List wrong or ambiguous elements, with the allowed results and the ways of computing that give each."""
    finding = case.finding
    entries = finding["witness"]["legal"] if finding["witness"] else []
    if not entries:
        return []
    gives, allowed = "it gives", "the formula gives" if case.silent else "allowed is"
    if summary.on_texts(finding):
        ours, theirs = case.documents
        gives, allowed = f"{theirs} gives", f"{ours} allows"
    readings = {r["name"]: r["words"] for edition in case.report["editions"] for r in edition["readings"]}
    own = case.edition(finding["contract"])
    readings |= {r["name"]: r["words"] for r in own["readings"]} if own else {}
    shown = entries[:MOST_ELEMENTS]
    names = list(dict.fromkeys(name for entry in shown for result in entry["legal"] for name in result["readings"]))
    letters = {name: _LETTERS[i] if i < len(_LETTERS) else str(i + 1) for i, name in enumerate(names)}
    in_graph = bool(finding["witness"].get("in_graph"))
    out = "" if in_graph else str(finding["out_dtype"])
    lines = []
    for entry in shown:
        due = [
            f"{exact_number(result['decimal'], out)} ({result['hex']})"
            + ("" if in_graph else f" by {', '.join(letters[name] for name in result['readings'])}")
            for result in entry["legal"]
        ]
        index = f"at {text(str(entry['index']))} " if entry["index"] else ""
        got = exact_number(entry["got_decimal"], out)
        lines.append(
            f"- {index}{text(gives)} {text(got)} ({entry['got'] if _is_hex(entry['got']) else ''}); "
            f"{text(allowed)} {text(' or '.join(due))}"
        )
    if in_graph:
        rule = "Each node was computed by its own text. A result is allowed if allowed results of the nodes lead to it."
        return [*lines, "", f"{rule} Any NaN equals any NaN.", ""]
    ways = "; ".join(f"({letters[name]}) {text(readings.get(name, name))}" for name in names)
    return [
        *lines,
        "",
        "The text does not say how each step is rounded, so each result is accepted that some faithful way of computing the "
        f"formula gives bit for bit: {ways}. Any NaN equals any NaN.",
        "",
    ]


def _is_hex(bits: str) -> bool:
    return re.fullmatch("0x[0-9a-f]+", bits) is not None


# -- how much, and where -------------------------------------------------------------------------------------


def _extent(case: Case) -> list[str]:
    """Count the affected values and calls, with types, conditions and paths."""
    finding = case.finding
    cases = sum(each["cases"] for each in case.counted)
    if not cases or (summary.on_texts(finding) and case.contradicts_itself):
        return []
    values = sum(each["values"] for each in case.counted)
    numbers = f"{summary.plural(values, 'value')} in " if values else ""
    largest = max(each["max_ulp"] for each in case.counted)
    if finding["verdict"] not in ("violation", "mixed"):
        distance = ""
    elif any(each["max_ulp"] < 0 for each in case.counted):
        distance = "; some are NaN instead of a number, or a number instead of NaN"
    elif all(map(is_near_in_range, case.counted)):
        places = max(each["range_places"] for each in case.counted)
        distance = (
            f"; up to {summary.plural(places, 'last place')} of the range's larger end from the nearest allowed result"
        )
    elif largest > 0:
        distance = f"; up to {summary.plural(largest, 'representable number')} from the nearest allowed result"
    else:
        distance = ""
    lines = [f"- Seen in {numbers}{summary.plural(cases, 'call')}{distance}.{_beside(case)}"]
    ranged = finding["witness"] is not None and "min_range" in finding["witness"]["call"]["tensors"]
    affected = types_in_words(case.counted).replace("scale ", "range ", ranged)
    where = [*([f"Types of the input: {text(affected)}."] if affected else []), *_where(case)]
    paths = sorted(
        {path for each in case.counted for path in each["subject"].get("paths") or [each["subject"]["options"]]}
    )
    if not summary.on_texts(finding) and any(paths):
        where.append("Seen " + " and ".join(text(path_in_words(path)) for path in paths) + ".")
    processors = sorted({name for each in case.counted for name in each.get("processors", ())})
    if processors:
        where.append(f"Seen on {' and '.join(map(text, processors))}.")
    if finding.get("needs"):
        otherwise = "does not end the process" if finding["verdict"] == "crash" else "gets an allowed result"
        where.append(f"The call below needs {text(finding['needs'])}: an equal call without it {otherwise}.")
    if finding["shrunk"] == "not reached":
        where.append("The call below was not reduced to the smallest one that shows it.")
    return [*lines, *([f"- {' '.join(where)}"] if where else [])]


def _beside(case: Case) -> str:
    """Count the findings of which the text says something else, in a sentence."""
    others = beside(case.findings)
    return f" Also seen in {' and '.join(others)}." if others else ""


def _where(case: Case) -> list[str]:
    """Say which values are affected, if it is the same for all findings."""
    regions = {str((each.get("region") or {}).get("words", "")) for each in case.counted}
    if regions == {summary.NO_REGION}:
        needed = case.finding.get("needs")  # which tells the calls, if not the values
        return [] if needed else ["No simple condition on the inputs tells the affected values from the others."]
    if regions == {"everywhere"}:
        return ["Every value of these types that was compared is affected."]
    if not case.region:
        return []
    return [f"All values with {code(case.region)} are affected, and no others, in a sample of these calls."]


def _versions(case: Case, again: Again | None) -> list[str]:
    finding, run = case.finding, case.report["run"]
    machine = summary.machine(run)
    on = f" on {text(machine)}" if machine else ""
    if summary.on_texts(finding):
        documents = ", ".join(text(document) for document in dict.fromkeys(case.documents))
        return [f"- Versions: {documents}.", ""]
    oracle = oracle_of(finding["subject"])
    needed = ["python", "numpy", "ml_dtypes", *(oracle.needs if oracle is not None else ())]
    packages = [(name, run["versions"].get(name, MISSING)) for name in needed]
    listed = [f"{name.replace('python', 'Python')} {v}" for name, v in packages if v != MISSING]
    release = release_of(oracle, finding["subject"]["version"]) if oracle is not None else ""
    # A calendar version names its release, of which only the date is new.
    shown = release.rpartition(", ")[2] if finding["subject"]["version"] in release else release
    version = f"{case.versioned} ({shown})" if shown else case.versioned
    lines = [f"- Versions: {text(', '.join([version, *listed]))}{on}."]
    return [*lines, *([f"- {text(_asked_again(case, again))}"] if again is not None else []), ""]


def _asked_again(case: Case, again: Again) -> str:
    """Say what a release did when it was asked again, and which release that was."""
    newest = ", the newest release" if again.is_newest else ""
    does = {
        "STILL": "it still does this",
        "CHANGED": "it does something else now, which is not right either",
        "UNSEEN": "it does not show",
    }.get(again.state, "it does not do this any more")
    tries = f" ({again.tries})" if again.tries else ""
    return (
        f"Asked again on {again.day} with {plain_name(case.finding['subject'])} {again.version}{newest}: {does}{tries}."
    )


def _details(case: Case) -> list[str]:
    """List the evidence, most important first: one fact in each line."""
    finding = case.finding
    lines = [*_instead(case), *_rewrite(finding), *_others(case)]
    if not summary.on_texts(finding):
        lines.append(f"- Document: {text(case.document(finding['contract']))}")
    made = f"xverify {case.report['run']['versions'].get('xverify', '')}".strip()
    source = f"Found with {text(made)} ({code(case.cause.id if case.cause else finding['id'])})"
    return [f"- {source}, which compares implementations with their specifications.", *lines]


def _instead(case: Case) -> list[str]:
    """Describe the arithmetic that explains the results, or their distance from allowed ones."""
    finding, by = case.finding, case.finding["attribution"]
    if finding["verdict"] not in ("violation", "mixed", "ambiguity"):
        return []
    if by is not None:
        kind = "wrong " if finding["verdict"] == "violation" else "such " if finding["verdict"] == "ambiguity" else ""
        lines = [
            f"- Its results are bit-identical to those of an implementation that {text(by.get('words', by['reading']))}. "
            f"This covers {summary.grouped(by['explained_values'])} of {summary.plural(by['values'], kind + 'value')}."
            + _by_relatives(case)
        ]
        elsewhere = by.get("elsewhere")
        if elsewhere:
            lines.append(
                f"- On all other values they equal those of an implementation that {text(elsewhere['words'])}."
            )
        return lines
    if finding["verdict"] == "ambiguity":
        return []
    lines = ["- No known way of computing gives these results: they are unexplained."]
    if histogram := finding.get("ulp_histogram") or ():
        counts = "; ".join(f"{_distance(entry)}: {summary.plural(entry['count'], 'value')}" for entry in histogram)
        lines.append(f"- Distance from the nearest allowed result, in representable numbers between the two: {counts}.")
    return lines


def _by_relatives(case: Case) -> str:
    """Count the values of the other findings, and those that the same mistake gives, in a sentence."""
    values = sum(each["values"] for each in case.counted[1:])
    given = sum(each["attribution"]["explained_values"] for each in case.counted[1:] if each["attribution"])
    if not values:
        return ""
    of = f"{summary.grouped(given)} of the other {summary.grouped(values)}"
    return f" The same mistake, in this or other arithmetic, gives {of}."


def _rewrite(finding: Json) -> list[str]:
    """Describe what the optimiser does to the graph, at the lowest level that shows the finding."""
    rewrite, path = finding.get("rewrite"), finding.get("lowest") or finding["subject"]["options"]
    return [f"- {capital(text(f'the optimiser {rewrite}'))} {text(path_in_words(path))}."] if rewrite else []


def _distance(entry: Json) -> str:
    ulp_range = summary.distance(entry)
    return "NaN instead of a number, or a number instead of NaN" if ulp_range == "NaN" else ulp_range


def _others(case: Case) -> list[str]:
    """Describe the results of other implementations, and the document that each follows."""
    lines = []
    for other in case.finding["others"]:
        name = released_name(case.document(other["name"]))
        lines.append(f"- {text(capital(name) + _did(other['outcome']))}")
    for entry in case.finding.get("followed") or ():
        name, _, options = entry["subject"].partition("[")
        display_name = released_name(name) + (f" [{options}" if options else "")
        follows = summary.follows(entry, case.document(entry["contract"]))
        lines.append(f"- {text(capital(display_name))} {text(follows)}.")
    return lines


def _did(outcome: str) -> str:
    """Return the words after the name of another implementation, without the error of a missing feature."""
    kind, _, error = outcome.partition(": ")
    if kind == "unsupported":
        return " does not support this call."
    return f" refuses this call ({error})." if kind == "rejected" and error else f": {outcome}"
