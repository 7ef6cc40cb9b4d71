"""The body of an issue about one cause, for the maintainers of the implementation or document.

The readers do not know xverify, so none of its terms appear. The body has at most 60 lines: how wrong the results are in plain
numbers, the versions, a short script or program, the sentence of the text, the allowed results, and the evidence, folded.
"""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xverify.contracts import quantize
from xverify.core.errors import DocumentError
from xverify.core.machine import MISSING
from xverify.oracles import all_oracles
from xverify.oracles.releases import release_of
from xverify.report import summary
from xverify.report.causes import STANDINGS, Cause, alike, causes, findings_of, standing, types_in_words
from xverify.report.formats.findings import shortened
from xverify.report.formats.markdown import code, row, text
from xverify.report.script import environment, oracle_of
from xverify.report.short_script import Short, short_program
from xverify.report.summary import Json
from xverify.verify.cause_keys import QUANTIZES_WRONGLY
from xverify.verify.cause_titles import exact_number, some
from xverify.verify.causes import is_near_in_range
from xverify.verify.variants import setting_of, without_setting

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
        *(f"# {text(title(case))}", "", text(_capital(lead(case))), ""),
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


_SMALL = ("the", "a", "no", "each", "others", "other", "there", "in", "it")
"""Words that begin a sentence with a capital. Names such as oneDNN and types such as uint8 do not."""


def _capital(sentence: str) -> str:
    """Capitalise a sentence, but not a name such as oneDNN."""
    return sentence[:1].upper() + sentence[1:] if sentence.split(" ")[0] in _SMALL else sentence


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
    lines = []
    for clause in (clause for clause in candidates if clause is not None):
        document = text(clause["document"])
        if clause["text"]:
            quoted = " ".join(clause["text"].split())
            quoted = quoted if len(quoted) <= MOST_QUOTED else quoted[:MOST_QUOTED].rstrip() + " ..."
            note = f" {text(_capital(clause['note']))}." if clause["note"] else ""
            lines += [f"> {text(quoted)}", ">", f"> ({document}){note}", ""]
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
        where.append(f"The call below needs {text(finding['needs'])}: an equal call without it gets an allowed result.")
    if finding["shrunk"] == "not reached":
        where.append("The call below was not reduced to the smallest one that shows it.")
    return [*lines, *([f"- {' '.join(where)}"] if where else [])]


def _beside(case: Case) -> str:
    """Count the calls of other findings, of which the text does not say the same, in a sentence."""
    calls: Counter[str] = Counter()
    for each in case.findings:
        calls[standing(each)] += each["cases"]
    others = [
        f"{summary.plural(calls[verb], 'call')} that the text {verb}"
        for verb in STANDINGS.values()
        if calls[verb] and verb != standing(case.finding)
    ]
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
    return f"Asked again on {again.day} with {_plain(case.finding['subject'])} {again.version}{newest}: {does}{tries}."


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
    return [f"- {_capital(text(f'the optimiser {rewrite}'))} {text(path_in_words(path))}."] if rewrite else []


def _distance(entry: Json) -> str:
    ulp_range = summary.distance(entry)
    return "NaN instead of a number, or a number instead of NaN" if ulp_range == "NaN" else ulp_range


def _others(case: Case) -> list[str]:
    """Describe the results of other implementations, and the document that each follows."""
    lines = []
    for other in case.finding["others"]:
        name = _released(case.document(other["name"]))
        lines.append(f"- {text(_capital(name) + _did(other['outcome']))}")
    for entry in case.finding.get("followed") or ():
        name, _, options = entry["subject"].partition("[")
        display_name = _released(name) + (f" [{options}" if options else "")
        follows = summary.follows(entry, case.document(entry["contract"]))
        lines.append(f"- {text(_capital(display_name))} {text(follows)}.")
    return lines


def _did(outcome: str) -> str:
    """Return the words after the name of another implementation, without the error of a missing feature."""
    kind, _, error = outcome.partition(": ")
    if kind == "unsupported":
        return " does not support this call."
    return f" refuses this call ({error})." if kind == "rejected" and error else f": {outcome}"


# -- words that differ by verdict ---------------------------------------------------------------------------

PATHS = {
    "": "with default settings",
    "graph": "in a graph of more than one operator",
    "initializers": "with scale and zero point as initializers",
    "all initializers": "with every operand as an initializer",
    "constants": "with scale and zero point as constants",
    "io binding": "with IO binding",
    "reference": "with reference kernels",
    "delegate=off": "without a delegate",
    "moves=quantized": "with quantized values moved around",
    "optimization=off": "with graph optimizations off",
    "optimization=on": "with graph optimizations on",
    "optimization=basic": "with basic graph optimizations",
    "optimization=extended": "with extended graph optimizations",
    "optimization=layout": "with graph optimizations up to layout",
    "optimization=all": "with all graph optimizations",
    "policy=debug": "with the partition policy debug",
    "policy=fusion": "with the partition policy fusion",
    "precision=float32": "with float32 as INFERENCE_PRECISION_HINT",
    "ranges=constant": "with the range as constants",
    "shapes=static": "with static shapes",
    "shapes=unknown": "with unknown shapes",
}
"""Descriptions of the paths through an implementation, and of the parts of their names."""


def path_in_words(path: str) -> str:
    """Describe a path by the parts of its name."""
    parts = [path] if path in PATHS else path.split(" ")
    return " ".join(PATHS.get(part, f"with {part}") for part in parts)


NOTES = {
    "input-written": "writes to the memory of its inputs",
    "output-aliases-input": "returns an output that shares memory with an input",
}
"""Descriptions of memory faults, as predicates."""

_EDITION = re.compile(r", (seed|installed) edition$")
"""Suffix of a title that means nothing to outsiders, who see the document instead."""


def titles() -> dict[str, str]:
    """Return the names of implementations for outsiders, by name."""
    return {name: oracle.title for name, oracle in all_oracles().items() if oracle.title}


def outside(subject: Json) -> str:
    """Name an implementation for outsiders, with its setting if that is not the default.

    Args:
        subject: The subject of a finding, with at least a name.
    """
    return _plain(subject) + _with(subject)


def setting(subject: Json) -> str:
    """Name the setting of an implementation: its environment variables, or xverify's name for it."""
    name = setting_of(subject["name"])
    variables = environment({"role": "peer", **subject}) if name else {}
    return " ".join(f"{variable}={value}" for variable, value in variables.items()) or name


def _with(subject: Json) -> str:
    setting_words = setting(subject)
    return f" with {setting_words}" if setting_words else ""


def _plain(subject: Json) -> str:
    """Name an implementation without its version and setting."""
    name = str(without_setting(subject["name"])).partition("==")[0]
    implementation, _, option = name.partition(":")
    if option and implementation in titles():
        return f"{titles()[implementation]} with {re.sub('^[A-Z]+=', '', option)}"
    return titles().get(name, name)


def _released(name: str) -> str:
    """Name an implementation with the version that its name has: "TVM 0.27.0" for "tvm==0.27.0"."""
    version = without_setting(name).partition("==")[2]
    return f"{_plain({'name': name})}{version and ' ' + version}{_with({'name': name})}"


@dataclass(frozen=True)
class Case:
    """A finding with its report, its clause, and the cause that it shows."""

    report: Json
    finding: Json
    clause: Json | None
    findings: tuple[Json, ...]
    """All findings that the issue counts; the first is the one that is shown."""
    cause: Cause | None

    @property
    def counted(self) -> tuple[Json, ...]:
        """The findings on calls of which the text says the same as of the shown one."""
        return alike(self.findings)

    @property
    def region(self) -> str:
        """The predicate on the affected values, if all counted findings have the same; otherwise empty."""
        regions = {summary.region(each) for each in self.counted}
        return regions.pop() if len(regions) == 1 and not regions & {"", "everywhere"} else ""

    @property
    def who(self) -> str:
        return outside(self.finding["subject"])

    @property
    def versioned(self) -> str:
        subject = self.finding["subject"]
        return f"{_plain(subject)} {subject['version']}{_with(subject)}"

    @property
    def otherwise(self) -> str:
        """Describe the difference between the default and another setting; empty for findings of another kind."""
        subject, sentence = self.finding["subject"], str(self.finding["summary"])
        name, setting_name = without_setting(subject["name"]), setting_of(subject["name"])
        if not setting_name or not str(self.finding.get("detail", "")).startswith(setting_name):
            return ""
        return sentence.replace(name, _plain(subject), 1).replace(f"with {setting_name}", f"with {setting(subject)}", 1)

    @property
    def blamed(self) -> str:
        """Another operator of the graph that gives the wrong values; empty if it is not known to."""
        by = self.finding["attribution"]
        reading = "" if by is None else str(by["reading"])
        named = re.fullmatch(r"graph:(?:zero-lost|zero-gained|zero-sign|finite|bound-of-zero):(\w+)", reading)
        return "QuantizeLinear" if reading.startswith(QUANTIZES_WRONGLY) else named[1] if named else ""

    @property
    def operator(self) -> str:
        """The operator's common name."""
        edition = self.edition(self.finding["contract"])
        name = _EDITION.sub("", edition["title"]) if edition else str(self.finding["contract"])
        return re.sub(r"^ONNX \w+, version (\d+)$", rf"ONNX {self.blamed}, opset \1", name) if self.blamed else name

    def edition(self, identity: str) -> Json | None:
        return next((edition for edition in self.report["editions"] if edition["id"] == identity), None)

    def document(self, identity: str) -> str:
        """Return the location of an edition's text, or the identity if the report has no such edition."""
        edition = self.edition(identity)
        return str(edition["document"]) if edition else identity

    @property
    def documents(self) -> tuple[str, str]:
        """The two documents of a conflict: the finding's own and the other one."""
        return self.document(self.finding["contract"]), self.document(self.finding["subject"]["name"])

    @property
    def types(self) -> str:
        """The types of the call: "int32 input, float32 output"."""
        kinds = ((self.finding["x_dtype"], "input"), (self.finding["out_dtype"], "output"))
        return ", ".join(f"{dtype} {what}" for dtype, what in kinds if dtype)

    @property
    def standing(self) -> str:
        """The verb for the call: the text "allows" it, "forbids" it or "leaves open" what it gives."""
        cells = self.finding["cells"]
        if not cells:
            return "forbids"
        return "leaves open" if all("open: " in cell["variant"] for cell in cells) else "allows"

    @property
    def topic(self) -> str:
        """The clause's name as words: "zero point type"."""
        return str(self.finding["clause"]).rpartition("/")[2].replace("-", " ")

    @property
    def silent(self) -> str:
        """The gap in the document if it says nothing; otherwise empty."""
        return str(self.clause["note"]) if self.clause is not None and not self.clause["text"] else ""

    @property
    def contradicts_itself(self) -> bool:
        return bool(self.finding["subject"]["name"] == self.finding["contract"])

    @property
    def detail(self) -> str:
        """The finding in a few words, with names of implementations for outsiders."""
        words = (
            str(self.finding.get("words", self.finding.get("detail", "")))
            or str(self.finding["summary"]).partition(": ")[2]
        )
        known = "|".join(sorted(map(re.escape, titles()), key=len, reverse=True))
        name = rf"(?<![\w./-])(?:{known})(?:==[\w.+-]*\w)?(?![\w/-])"
        return re.sub(name, lambda match: _released(match[0]), words)


_CAUSES_IN_TITLES = {"violation": "values", "crash": "crash", "wrongly-rejected": "refusal"}
"""Verdicts whose cause has a title that says more than the verdict does, and the kind of that cause."""


MOST_TITLE = 250
"""Number of characters of a title. GitHub takes 256."""


def title(case: Case) -> str:
    """Return the title of the issue, one sentence. A long one ends early and describes no graph."""
    whole = _whole_title(case)
    if len(whole) <= MOST_TITLE:
        return whole
    head, in_graph, _ = whole.partition(", in a graph (")
    return f"{shortened(head, MOST_TITLE - 20)}{in_graph.removesuffix(' (')}"


def _whole_title(case: Case) -> str:
    finding, who, types = case.finding, case.who, f" ({case.types})" if case.types else ""
    cause = case.cause
    if cause is not None and cause.kind == "validation":
        clauses = dict.fromkeys(each["clause"].rpartition("/")[2].replace("-", " ") for each in case.findings)
        return f"{case.operator}: {who} computes calls that the text forbids ({some(list(clauses), 3)})"
    if cause is not None and cause.kind == "text" and cause.implementations:
        sentence = cause.title.partition(": ")[2]
        return f"{case.operator}: no implementation follows the sentence on the {case.topic}: {sentence}"
    if cause is not None and (
        cause.kind == _CAUSES_IN_TITLES.get(finding["verdict"]) or cause.title.startswith("flushes")
    ):
        return f"{case.operator}: {who} {cause.title.replace('known recipe', 'known way of computing')}"
    region = f" where {case.region}" if case.region else ""
    match finding["verdict"]:
        case "violation":
            return f"{case.operator}: {who} gives results that the documented formula does not allow{types}{region}"
        case "mixed":
            return f"{case.operator}: no single rule of rounding explains the results of {who}{types}{region}"
        case "ambiguity" if case.silent:
            return f"{case.operator}: {case.silent.partition(':')[0]}, and implementations differ"
        case "ambiguity" if finding["witness"] is not None and finding["witness"]["legal"]:
            return f"{case.operator}: the text allows more than one result, and implementations differ{types}{region}"
        case "ambiguity":
            return f"{case.operator}: the text leaves a call open ({case.topic}), and implementations differ"
        case "conflict" if case.contradicts_itself:
            return f"{case.documents[0]}: the text contradicts itself ({case.topic})"
        case "conflict":
            return "Two documents give different results for the same call: {}, and {}".format(*case.documents)
        case "wrongly-accepted":
            return f"{case.operator}: {who} computes a call that the text forbids ({case.topic})"
        case "wrongly-rejected":
            granularity = finding["granularity"].replace("_", " ")
            return f"{case.operator}: {who} refuses a call that the text allows ({finding['x_dtype']}, {granularity})"
        case "unreadable-result":
            return f"{case.operator}: {who} returns no array from a call that the text {case.standing}"
        case "crash":
            return f"{case.operator}: {who} ends the process on a call that the text {case.standing}"
        case "hang":
            return f"{case.operator}: {who} does not return from a call that the text {case.standing}"
        case "nondeterministic" if case.otherwise:
            return f"{case.operator}: {case.otherwise}"
        case "nondeterministic":
            return f"{case.operator}: {who} answers the same call with different bits"
        case "memory":
            return f"{case.operator}: {who} {_noted(case)}"
        case "not-followed":
            return f"{case.operator}: {who} does not follow {case.documents[0]}"
    return str(finding["summary"])


def lead(case: Case) -> str:
    """Return the first paragraph: a wrong value, the problem, and the change that would settle it."""
    if case.cause is None or not case.cause.effect or case.finding["verdict"] != "violation":
        return _problem(case)
    error = _relative_error(case.finding)
    problem = _problem(case)
    wrong, *more = case.cause.effect.split("; ")
    sentences = [f"{wrong} ({error})" if error else wrong, *more, problem.removesuffix(".")]
    return " ".join(f"{_capital(sentence)}." for sentence in sentences)


def _relative_error(finding: Json) -> str:
    """Return the error of the worst element: "off by 0.9 %", "off by a factor of 12", "of the wrong sign".

    It is empty if the error has no ratio.
    """
    worst, words = 0.0, ""
    for entry in finding["witness"]["legal"]:
        try:
            got, *due = (
                float(exact_number(decimal, finding["out_dtype"]))
                for decimal in (entry["got_decimal"], *(result["decimal"] for result in entry["legal"]))
            )
        except ValueError:
            return ""
        if not all(map(math.isfinite, (got, *due))) or not all(due):
            return ""
        nearest = min(due, key=lambda value: abs(got - value))
        error = abs(got - nearest) / abs(nearest)
        if error > worst:
            worst, words = error, _ratio_in_words(got / nearest)
    return words


def _ratio_in_words(ratio: float) -> str:
    """The ratio of a wrong value to the due one; empty for 0, which says enough."""
    if ratio <= 0:
        return "of the wrong sign" if ratio else ""
    factor = max(ratio, 1 / ratio)
    return f"off by a factor of {factor:.3g}" if factor >= 2 else f"off by {100 * abs(ratio - 1):.2g} %"


def _problem(case: Case) -> str:
    finding, who = case.finding, case.versioned
    got = finding["witness"]["got"] if finding["witness"] else None
    match finding["verdict"]:
        case "violation" if finding["witness"] and finding["witness"].get("in_graph"):
            return (
                f"{who} returns results of a small graph that the texts of its operators do not allow. However an "
                "implementation computes a graph, every result has to stay allowed. One of the allowed results below is expected."
            )
        case "violation":
            return (
                f"{who} returns results that its specification does not allow. The specification does not say how the formula "
                "is rounded, but no way of rounding gives these results. One of the allowed results below is expected."
            )
        case "mixed":
            why = (
                "A way of rounding that the text does not allow gives them (see below). It agrees sometimes with one allowed "
                "result and sometimes with another."
                if finding["attribution"]
                else "Values of the same types are computed by different rules."
            )
            return (
                f"Each of these results of {who} is allowed, because the text does not say how the formula is rounded. But "
                f"no single way of rounding that the text allows gives them all. {why} Callers cannot rely on either rule. "
                "One rule for all values, stated in the documentation, would settle it."
            )
        case "ambiguity":
            return (
                f"{_open(case)} This need not be a fault of {case.who}: a sentence that says which result is "
                "meant would settle it."
            )
        case "conflict" if case.contradicts_itself:
            return f"The document contradicts itself: {case.detail}. Every implementation has to break one of its sentences."
        case "conflict":
            return (
                "Both documents describe the same operator and allow the call below, but no result satisfies both. No "
                "implementation is at fault. One of the documents has to change, or to say that it describes another operator."
            )
        case "wrongly-accepted":
            return (
                f"{who} computes a call that the text forbids, and returns a result instead of an error. Either a check "
                "is missing, or the sentence below is stricter than intended."
            )
        case "wrongly-rejected":
            error = f" (it raises {got['error']})" if got and got["error"] else ""
            return (
                f"{who} refuses a call that the text allows{error}, although it computes other calls of the same types. "
                "Either this case is not implemented, or the text promises more than intended."
            )
        case "unreadable-result":
            return (
                f"{who} returns an object that is no array of a known type, from a call that the text {case.standing}. "
                "An array of the output type is expected, or an exception where the call is refused."
            )
        case "crash":
            return (
                f"{who} ends the whole process on a call that the text {case.standing}. An error that "
                "the caller can handle is expected for every call."
            )
        case "hang":
            return f"{who} does not return from a call that the text {case.standing}. A result or an error is expected."
        case "nondeterministic" if case.otherwise:
            return (
                f"{case.otherwise}. The result depends on the machine or its settings. One result for both, or a "
                "sentence in the documentation about the difference, would settle it."
            )
        case "nondeterministic":
            return f"{who} received the same call several times, and the results differ in their bits."
        case "not-followed":
            return (
                f"{who} does not do what this document says. The document names no release, so this need not be a fault: "
                "it should say which releases it describes."
            )
        case "memory":
            return f"{who} {_noted(case)}, so values may change without the caller's knowledge."
    return str(finding["summary"])


def _open(case: Case) -> str:
    """Describe the gap in the text, and the behaviour of the implementation."""
    finding, by = case.finding, case.finding["attribution"]
    detail = case.detail
    if by is not None:
        does = f" {case.versioned} {by.get('words', by['reading'])}; others do not."
    else:
        does = f" {case.versioned} {detail}." if detail.startswith(("gives ", "refuses ", "computes ")) else ""
    if case.silent:
        return f"The text does not settle this call: {case.silent}. Implementations do different things.{does}"
    if finding["witness"] is not None and finding["witness"]["legal"]:
        return f"The text allows more than one result here, and implementations give different ones.{does}"
    return f"The text leaves this open, and implementations do different things.{does}"


def _noted(case: Case) -> str:
    witness = case.finding["witness"]
    notes = witness["got"]["notes"] if witness and witness["got"] else []
    return " and ".join(NOTES.get(note, note) for note in notes) or "touches memory that is not its own"
