"""The case of an issue in words: names of implementations and paths, the title, and the lead."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from xverify.oracles import all_oracles
from xverify.report import summary
from xverify.report.causes import Cause
from xverify.report.formats.findings import shortened
from xverify.report.script import environment
from xverify.report.summary import Json
from xverify.verify.cause_keys import QUANTIZES_WRONGLY, alike, clause_in, detail_in
from xverify.verify.cause_titles import exact_number, some
from xverify.verify.details import wrote_nothing
from xverify.verify.variants import setting_of, without_setting

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


_SMALL = ("the", "a", "no", "each", "others", "other", "there", "in", "it")
"""Words that begin a sentence with a capital. Names such as oneDNN and types such as uint8 do not."""


def capital(sentence: str) -> str:
    """Capitalise a sentence, but not a name such as oneDNN."""
    return sentence[:1].upper() + sentence[1:] if sentence.split(" ")[0] in _SMALL else sentence


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
    return plain_name(subject) + _with(subject)


def setting(subject: Json) -> str:
    """Name the setting of an implementation: its environment variables, or xverify's name for it."""
    name = setting_of(subject["name"])
    variables = environment({"role": "peer", **subject}) if name else {}
    return " ".join(f"{variable}={value}" for variable, value in variables.items()) or name


def _with(subject: Json) -> str:
    setting_words = setting(subject)
    return f" with {setting_words}" if setting_words else ""


def plain_name(subject: Json) -> str:
    """Name an implementation without its version and setting."""
    name = str(without_setting(subject["name"])).partition("==")[0]
    implementation, _, option = name.partition(":")
    if option and implementation in titles():
        return f"{titles()[implementation]} with {re.sub('^[A-Z]+=', '', option)}"
    return titles().get(name, name)


def released_name(name: str) -> str:
    """Name an implementation with the version that its name has: "TVM 0.27.0" for "tvm==0.27.0"."""
    version = without_setting(name).partition("==")[2]
    return f"{plain_name({'name': name})}{version and ' ' + version}{_with({'name': name})}"


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
        """The findings of whose calls and values the text says the same as of the shown one."""
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
        return f"{plain_name(subject)} {subject['version']}{_with(subject)}"

    @property
    def otherwise(self) -> str:
        """Describe the difference between the default and another setting; empty for findings of another kind."""
        subject, sentence = self.finding["subject"], str(self.finding["summary"])
        name, setting_name = without_setting(subject["name"]), setting_of(subject["name"])
        if not setting_name or not str(self.finding.get("detail", "")).startswith(setting_name):
            return ""
        return sentence.replace(name, plain_name(subject), 1).replace(
            f"with {setting_name}", f"with {setting(subject)}", 1
        )

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
    def writes_nothing(self) -> bool:
        """True for a forbidden call that is accepted and writes no element of its output."""
        return self.finding["verdict"] == "wrongly-accepted" and wrote_nothing(detail_in(self.finding))

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
        return re.sub(name, lambda match: released_name(match[0]), words)


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
        such = [each for each in case.findings if wrote_nothing(detail_in(each)) == case.writes_nothing]
        clauses = dict.fromkeys(clause_in(each).replace("-", " ") for each in such)
        return f"{case.operator}: {who} {_accepts(case, 'calls')} ({some(list(clauses), 3)})"
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
            return f"{case.operator}: {who} {_accepts(case, 'a call')} ({case.topic})"
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


def _accepts(case: Case, calls: str) -> str:
    """The predicate of a forbidden call that is not refused."""
    if case.writes_nothing:
        return f"accepts {calls} that the text forbids, and writes nothing"
    return f"computes {calls} that the text forbids"


def lead(case: Case) -> str:
    """Return the first paragraph: a wrong value, the problem, and the change that would settle it."""
    if case.cause is None or not case.cause.effect or case.finding["verdict"] != "violation":
        return _problem(case)
    error = _relative_error(case.finding)
    problem = _problem(case)
    wrong, *more = case.cause.effect.split("; ")
    sentences = [f"{wrong} ({error})" if error else wrong, *more, problem.removesuffix(".")]
    return " ".join(f"{capital(sentence)}." for sentence in sentences)


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
            returns = "returns no error" if case.writes_nothing else "returns a result instead of an error"
            return (
                f"{who} {_accepts(case, 'a call')}, and {returns}. Either a check is missing, or the sentence below is "
                "stricter than intended."
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
