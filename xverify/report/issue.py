"""The body of an issue about one finding, for the maintainers of the implementation or document.

The readers do not know xverify, so none of its terms appear. The body shows a stand-alone script, the sentence of the
text, the allowed results and why they are allowed, the actual results, and how much is affected.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from xverify.core.machine import MISSING
from xverify.oracles import all_oracles
from xverify.report import summary
from xverify.report.causes import findings_of
from xverify.report.formats.markdown import code, row, text
from xverify.report.script import environment, oracle_of, script_for
from xverify.report.short_script import short_script
from xverify.report.summary import Json
from xverify.verify.variants import setting_of, without_setting

MOST_SCRIPT = 54_000
"""Longest script in an issue, in characters. GitHub allows 65 536 for the whole body."""

MOST_ROWS = 12
"""Number of table rows. The rest is counted."""

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def render(report: Json, identity: str) -> str:
    """Return the body of an issue in Markdown, with the title in its first line.

    Args:
        report: The report that holds the finding.
        identity: Id of a cause or a finding.

    Raises:
        UsageError: The report has no cause or finding with that id. The message names the nearest ids.
    """
    finding = findings_of(report, identity)[0]
    case = Case(report, finding, summary.clauses(report).get(finding["clause"]))
    parts = [
        [f"# {text(title(case))}", "", text(_capital(lead(case))), ""],
        _script(case) if not summary.on_texts(finding) else _inputs(case),
        _outcome(case),
        _quotes(case),
        _allowed(case),
        _instead(case),
        _extent(case),
        _others(case),
        _versions(case),
    ]
    return "\n".join(line for part in parts for line in part).rstrip("\n") + "\n"


def _capital(sentence: str) -> str:
    """Capitalise a sentence, but not a name such as oneDNN."""
    return sentence[:1].upper() + sentence[1:] if sentence.split(" ")[0] in ("the", "a", "no", "each") else sentence


def fence(content: str, language: str = "") -> list[str]:
    """Return text as a code block whose fence is longer than any run of backticks in the text."""
    longest = max((len(run) for run in re.findall("`+", content)), default=0)
    marks = "`" * max(3, longest + 1)
    return [marks + language, content.rstrip("\n"), marks, ""]


def _script(case: Case) -> list[str]:
    finding = case.finding
    if finding["witness"] is None:
        return []
    large = any("hex" not in tensor for tensor in finding["witness"]["call"]["tensors"].values())
    short = None if large else short_script(finding)
    full = script_for(finding, case.clause) if short is None and not large else ""
    if large or max(len(short or ""), len(full)) > MOST_SCRIPT:
        beside = f" and {code('scripts/' + finding['id'] + '.call')}" if large else ""
        too_large = "The smallest known call is" if large else "The script is"
        return [
            "## Script",
            "",
            f"{too_large} too large to be shown here. Attached {'are' if large else 'is'} "
            f"{code(finding['reproduce'])}{beside}; the script needs NumPy and the framework.",
            "",
            *_table_of_call(finding),
        ]
    if short is not None:
        return ["## Script", "", *fence(short, "python")]
    return [
        "## Script",
        "",
        "<details><summary>A stand-alone script</summary>",
        "",
        *fence(full, "python"),
        "</details>",
        "",
    ]


def _inputs(case: Case) -> list[str]:
    if case.finding["witness"] is None:
        return []
    return ["## The call", "", *_table_of_call(case.finding)]


def _table_of_call(finding: Json) -> list[str]:
    call = finding["witness"]["call"]
    lines = [row(["operand", "type", "shape", "values", "bits"]), row(["---"] * 5, escape=False)]
    for role, tensor in call["tensors"].items():
        shown = (_few(tensor["data"]), _few(tensor["hex"])) if "hex" in tensor else ("in the attached file", "")
        lines.append(row([role, tensor["dtype"], str(tensor["shape"]), *shown]))
    lines += [row([name, "attribute", "", str(value), ""]) for name, value in call["attributes"].items()]
    descriptions = (("in memory", summary.in_memory(finding)), ("in a graph", summary.around(finding)))
    lines += [row([name, "", "", description, ""]) for name, description in descriptions if description]
    return [*lines, ""]


def _few(values: list[str], most: int = 8) -> str:
    return ", ".join(values[:most]) + (", ..." if len(values) > most else "")


def _outcome(case: Case) -> list[str]:
    """Describe an outcome that is not a matter of single values, such as an error or a crash."""
    finding = case.finding
    got = finding["witness"]["got"] if finding["witness"] else None
    if got is None or finding["witness"]["legal"]:
        return []
    lines = ["## What it gives", ""]
    if got["tensor"] is None:
        endings = {
            "crash": "The process ends",
            "hang": "No answer",
            "unreadable-result": "It returns an object of type",
        }
        ending = endings.get(finding["verdict"], "It raises")
        error = f" {'with ' * (finding['verdict'] == 'crash')}{code(got['error'])}" if got["error"] else ""
        lines += [f"{ending}{error}{':' if got['message'] else '.'}", ""]
        return lines + (fence(got["message"][:4000], "text") if got["message"] else [])
    tensor = got["tensor"]
    kind = f"{code(tensor['dtype'])} of shape {code(str(tensor['shape']))}"
    if "hex" not in tensor:
        return [*lines, f"A result of type {kind}.", ""]
    values = _few([f"{d} ({h})" for d, h in zip(tensor["data"], tensor["hex"], strict=False)])
    return [*lines, f"A result of type {kind}: {text(values) or 'no values'}", ""]


def _quotes(case: Case) -> list[str]:
    """Quote the sentence in question; for a conflict, the sentences of both documents."""
    clauses = summary.clauses(case.report)
    candidates = [case.clause]
    if case.finding["verdict"] == "conflict" and not case.contradicts_itself:
        candidates.append(clauses.get(str(case.finding.get("detail", ""))))
    quoted = [clause for clause in candidates if clause is not None]
    lines = ["## What the text says", ""] if quoted else []
    for clause in quoted:
        if clause["text"]:
            lines += [f"> {text(clause['text'])}", ">", f"> ({text(clause['document'])})", ""]
            lines += [text(_capital(clause["note"])) + ".", ""] if clause["note"] else []
        else:
            lines += [f"Nothing: {text(clause['note'])} ({text(clause['document'])}).", ""]
    return lines


def _allowed(case: Case) -> list[str]:
    """Return a table of the wrong or ambiguous elements, with the allowed results.

    Each allowed result names the ways of computing that give it.
    """
    finding = case.finding
    entries = finding["witness"]["legal"] if finding["witness"] else []
    if not entries:
        return []
    readings = {r["name"]: r["words"] for edition in case.report["editions"] for r in edition["readings"]}
    readings |= {r["name"]: r["words"] for edition in case.report["editions"] if edition["id"] == finding["contract"]
                 for r in edition["readings"]}  # fmt: skip
    names = list(dict.fromkeys(name for entry in entries for result in entry["legal"] for name in result["readings"]))
    letters = {name: _LETTERS[i] if i < len(_LETTERS) else str(i + 1) for i, name in enumerate(names)}
    heading, columns = "What it gives, and what is allowed", ["it gives", "allowed"]
    if case.silent:
        heading, columns = "What it gives, and what the formula gives", ["it gives", "the formula gives"]
    if summary.on_texts(finding):
        ours, theirs = case.documents
        heading, columns = "What each document gives", [f"given by: {theirs}", f"allowed by: {ours}"]
    lines = [f"## {heading}", "", row(["at", *columns]), row(["---"] * 3, escape=False)]
    for entry in entries[:MOST_ROWS]:
        due = [
            f"{result['decimal']} ({result['hex']}) by {', '.join(letters[name] for name in result['readings'])}"
            for result in entry["legal"]
        ]
        lines.append(row([str(entry["index"]), f"{entry['got_decimal']} ({entry['got']})", " or ".join(due)]))
    lines += _more(len(entries) - MOST_ROWS, "value")
    lines += [
        "",
        "The text does not say how each step is rounded, so a result is accepted if some faithful way of "
        "computing the formula gives it. Each letter stands for a computation that",
        "",
    ]
    lines += [f"- ({letters[name]}) {text(readings.get(name, name))}" for name in names]
    return [*lines, "", "Results are compared bit for bit, but any NaN equals any NaN.", ""]


def _more(count: int, noun: str) -> list[str]:
    return ["", f"and {summary.plural(count, f'more {noun}')}."] if count > 0 else []


def _instead(case: Case) -> list[str]:
    """Describe the arithmetic that explains the results, or their distance from allowed ones."""
    finding, by = case.finding, case.finding["attribution"]
    if finding["verdict"] not in ("violation", "mixed", "ambiguity"):
        return []
    if by is not None:
        kind = "wrong " if finding["verdict"] == "violation" else "such " if finding["verdict"] == "ambiguity" else ""
        lines = [
            "## What it computes" + (" instead" if finding["verdict"] == "violation" else ""),
            "",
            f"Its results are bit-identical to those of an implementation that {text(by.get('words', by['reading']))}. "
            f"This covers {summary.grouped(by['explained_values'])} of {summary.plural(by['values'], kind + 'value')}.",
        ]
        elsewhere = by.get("elsewhere")
        if elsewhere:
            lines.append(f"On all other values they equal those of an implementation that {text(elsewhere['words'])}.")
        return [*lines, ""]
    if finding["verdict"] == "ambiguity":
        return []
    lines = ["## What it computes", "", "No known way of computing gives these results: they are unexplained."]
    histogram = finding.get("ulp_histogram") or ()
    if histogram:
        lines += [
            "Their distance from the nearest allowed result, counted in representable numbers between the two:",
            "",
            row(["distance", "values"]),
            row(["---", "---:"], escape=False),
            *(row([_distance(entry), summary.grouped(entry["count"])]) for entry in histogram),
        ]
    return [*lines, ""]


def _distance(entry: Json) -> str:
    ulp_range = summary.distance(entry)
    return "NaN instead of a number, or a number instead of NaN" if ulp_range == "NaN" else ulp_range


def _extent(case: Case) -> list[str]:
    """Count the affected values and calls, with conditions, types and paths."""
    finding = case.finding
    if not finding["cases"] or (summary.on_texts(finding) and case.contradicts_itself):
        return []
    lines = ["## How much is affected", ""]
    values = f"{summary.plural(finding['values'], 'value')} in " if finding["values"] else ""
    lines.append(f"- {values}{summary.plural(finding['cases'], 'call')}")
    lines += [f"- {sentence}" for sentence in _where(finding)]
    if finding["max_ulp"] > 0:
        steps = summary.plural(finding["max_ulp"], "representable number")
        lines.append(f"- The largest distance from an allowed result is {steps}.")
    paths = finding["subject"].get("paths") or [finding["subject"]["options"]]
    if not summary.on_texts(finding) and any(paths):
        lines.append("- Seen " + " and ".join(text(PATHS.get(path, f"with {path}")) for path in paths) + ".")
    if finding["shrunk"] == "not reached":
        lines.append("- The call above was not reduced to the smallest one that shows it.")
    return [*lines, "", *_cells(finding["cells"])]


def _where(finding: Json) -> list[str]:
    region, words = finding.get("region"), summary.region(finding)
    if region is None:
        return []
    if not words:
        return ["No simple condition on the inputs tells the affected values from the others."]
    if words == "everywhere":
        return ["Every value of these types that was compared is affected."]
    return [f"All values with {code(words)} are affected, and no others."]


def _cells(cells: list[Json]) -> list[str]:
    if not cells:
        return []
    varied = any(cell["variant"] for cell in cells)
    head = ["input", "scale", "zero point", "output", "granularity", "mode or case"][: 6 if varied else 5]
    lines = [row(head), row(["---"] * len(head), escape=False)]
    names = ("x_dtype", "scale_dtype", "zero_point_dtype", "out_dtype")
    for cell in cells[:MOST_ROWS]:
        types = [cell[name] or "none" for name in names]
        variant = [cell["variant"].replace("open: ", "")] if varied else []
        lines.append(row([*types, cell["granularity"].replace("_", " "), *variant]))
    return [*lines, *_more(len(cells) - MOST_ROWS, "combination"), ""]


def _others(case: Case) -> list[str]:
    """Describe the results of other implementations, and the document that each follows."""
    finding = case.finding
    lines = []
    if finding["others"]:
        lines = [
            "## What other implementations give" if not summary.on_texts(finding) else "## What implementations do",
            "",
        ]
        for other in finding["others"]:
            name = outside({"name": case.document(other["name"])})
            lines.append(f"- {text(_capital(name))}: {text(other['outcome'])}")
        lines.append("")
    followed = finding.get("followed") or ()
    for entry in followed:
        name, _, options = entry["subject"].partition("[")
        display_name = titles().get(name, name) + (f" [{options}" if options else "")
        follows = summary.follows(entry, case.document(entry["contract"]))
        lines.append(f"- {text(_capital(display_name))} {text(follows)}.")
    return [*lines, ""] if followed else lines


def _versions(case: Case) -> list[str]:
    finding, run = case.finding, case.report["run"]
    lines = ["## Versions", ""]
    if summary.on_texts(finding):
        lines += [f"- {text(document)}" for document in dict.fromkeys(case.documents)]
    else:
        lines += [f"- {text(_capital(case.versioned))}", f"- {text(case.document(finding['contract']))}"]
    oracle = None if summary.on_texts(finding) else oracle_of(finding["subject"])
    needed = ["python", "numpy", "ml_dtypes", *(oracle.needs if oracle is not None else ())]
    packages = [(name, run["versions"].get(name, MISSING)) for name in needed]
    package_list = ", ".join(f"{name.replace('python', 'Python')} {v}" for name, v in packages if v != MISSING)
    machine = summary.machine(run)
    lines += [f"- {text(package_list)}"] if package_list else []
    lines += [f"- {text(machine)}"] if machine else []
    made = f"xverify {run['versions'].get('xverify', '')}".strip()
    return [
        *lines,
        "",
        f"Found with {text(made)} ({code(finding['id'])}), which compares implementations with their specifications.",
    ]


# -- words that differ by verdict ---------------------------------------------------------------------------

PATHS = {
    "": "with default settings",
    "optimization=off": "with graph optimizations off",
    "initializers": "with scale and zero point as initializers",
    "graph": "in a graph of more than one operator",
    "graph optimization=off": "in a graph of more than one operator with graph optimizations off",
    "graph optimization=basic": "in a graph of more than one operator with basic graph optimizations",
    "graph optimization=extended": "in a graph of more than one operator with extended graph optimizations",
    "graph optimization=all": "in a graph of more than one operator with all graph optimizations",
}
"""Descriptions of the paths through an implementation."""

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
    name = without_setting(subject["name"])
    return titles().get(name, name)


@dataclass(frozen=True)
class Case:
    """A finding with its report and its clause."""

    report: Json
    finding: Json
    clause: Json | None

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
    def operator(self) -> str:
        """The operator's common name."""
        edition = self.edition(self.finding["contract"])
        return _EDITION.sub("", edition["title"]) if edition else str(self.finding["contract"])

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
        for name, outside in sorted(titles().items(), key=lambda pair: -len(pair[0])):
            words = words.replace(name, outside)
        return words


def title(case: Case) -> str:
    """Return the title of the issue, one sentence."""
    finding, who, types = case.finding, case.who, f" ({case.types})" if case.types else ""
    where = summary.region(finding)
    region = f" where {where}" if where and where != "everywhere" else ""
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
    """Return the first paragraph: the problem, and the change that would settle it."""
    finding, who = case.finding, case.versioned
    got = finding["witness"]["got"] if finding["witness"] else None
    match finding["verdict"]:
        case "violation":
            return (
                f"{who} returns results that its documentation does not allow. The documentation does not say how the formula "
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
            return f"The document contradicts itself: {case.detail}. It cannot be implemented as it stands."
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
