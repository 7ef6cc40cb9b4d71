"""The sentences of an issue that differ by verdict: its title, what it is about, and what would settle it.

They are for maintainers who never heard of xverify, so none of its own words is in them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from xverify.oracles import all_oracles
from xverify.report import summary
from xverify.report.script import environment
from xverify.report.summary import Json
from xverify.verify.variants import setting_of, without_setting

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
"""How an implementation was asked."""

NOTES = {
    "input-written": "writes to the memory of its inputs",
    "output-aliases-input": "returns an output that shares memory with an input",
}
"""What was noted of memory, as predicates."""

_EDITION = re.compile(r", (seed|installed) edition$")
"""What titles say of an edition that means nothing outside: its document is cited instead."""


def titles() -> dict[str, str]:
    """What people call the implementations, by name."""
    return {name: oracle.title for name, oracle in all_oracles().items() if oracle.title}


def outside(subject: Json) -> str:
    """What an implementation is called outside, and how it is run if not as usually. subject: of a finding, its name at least."""
    return _plain(subject) + _with(subject)


def setting(subject: Json) -> str:
    """How an implementation is run that is not run as usually: the variables that say so, or else our name for it."""
    name = setting_of(subject["name"])
    variables = environment({"role": "peer", **subject}) if name else {}
    return " ".join(f"{variable}={value}" for variable, value in variables.items()) or name


def _with(subject: Json) -> str:
    said = setting(subject)
    return f" with {said}" if said else ""


def _plain(subject: Json) -> str:
    name = without_setting(subject["name"])
    return titles().get(name, name)


@dataclass(frozen=True)
class Case:
    """A finding with the report and the clause that it is about."""

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
        """Of an implementation that is run in two ways: what it does in one of them and not in the other. Nothing where it does
        not do the same again in one."""
        subject, said = self.finding["subject"], str(self.finding["summary"])
        name, known = without_setting(subject["name"]), setting_of(subject["name"])
        if not known or not str(self.finding.get("detail", "")).startswith(known):
            return ""
        return said.replace(name, _plain(subject), 1).replace(f"with {known}", f"with {setting(subject)}", 1)

    @property
    def operator(self) -> str:
        """The operator, as people call it."""
        edition = self.edition(self.finding["contract"])
        return _EDITION.sub("", edition["title"]) if edition else str(self.finding["contract"])

    def edition(self, identity: str) -> Json | None:
        return next((edition for edition in self.report["editions"] if edition["id"] == identity), None)

    def document(self, identity: str) -> str:
        """Where an edition's text stands; of what is no edition of the report, the name."""
        edition = self.edition(identity)
        return str(edition["document"]) if edition else identity

    @property
    def documents(self) -> tuple[str, str]:
        """Of a conflict: the document that it is under, and the other one."""
        return self.document(self.finding["contract"]), self.document(self.finding["subject"]["name"])

    @property
    def types(self) -> str:
        """The witness's types: "int32 input, float32 output"."""
        kinds = ((self.finding["x_dtype"], "input"), (self.finding["out_dtype"], "output"))
        return ", ".join(f"{dtype} {what}" for dtype, what in kinds if dtype)

    @property
    def standing(self) -> str:
        """What the text does with the call: "allows", "forbids" or "leaves open". A forbidden call lies in no cell."""
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
        """What no sentence covers, where the document says nothing; else nothing."""
        return str(self.clause["note"]) if self.clause is not None and not self.clause["text"] else ""

    @property
    def contradicts_itself(self) -> bool:
        return bool(self.finding["subject"]["name"] == self.finding["contract"])

    @property
    def detail(self) -> str:
        """What the finding is, in a few words, with implementations by the names that others know."""
        words = (
            str(self.finding.get("words", self.finding.get("detail", "")))
            or str(self.finding["summary"]).partition(": ")[2]
        )
        for name, outside in sorted(titles().items(), key=lambda pair: -len(pair[0])):
            words = words.replace(name, outside)
        return words


def title(case: Case) -> str:
    """One sentence that says what is the matter, for the issue's title."""
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
    return str(finding["summary"])


def lead(case: Case) -> str:
    """What the issue is about, for someone who reads nothing else, and what would settle it."""
    finding, who = case.finding, case.versioned
    got = finding["witness"]["got"] if finding["witness"] else None
    match finding["verdict"]:
        case "violation":
            return (
                f"{who} returns results that its documentation does not allow: no way of rounding the documented formula "
                "that the text leaves open gives them. One of the results listed below as allowed is expected."
            )
        case "mixed":
            why = (
                "They are those of a way that it does not allow (see below), which agrees now with one allowed result, now "
                "with another."
                if finding["attribution"]
                else "Values of the same types are computed by different rules."
            )
            return (
                f"Each of these results of {who} is allowed, since the text does not say how the formula is rounded. But "
                f"no single way of rounding that the text allows gives them all. {why} Callers cannot rely on either rule. "
                "One rule for all values, stated in the documentation, would settle it."
            )
        case "ambiguity":
            return (
                f"{_open(case)} This need not be a fault of {case.who}: a sentence in the text that says which result is "
                "meant would settle it."
            )
        case "conflict" if case.contradicts_itself:
            return f"The document contradicts itself: {case.detail}. Nobody can implement it as it stands."
        case "conflict":
            return (
                "Both documents describe the same operator and allow the call below, but no result satisfies both. No "
                "implementation is at fault: one of the documents has to change, or say that it describes something else."
            )
        case "wrongly-accepted":
            return (
                f"{who} computes a call that the text forbids, and returns a result where an error is due. Either a check "
                "is missing, or the sentence below is stricter than it is meant to be."
            )
        case "wrongly-rejected":
            error = f" (it raises {got['error']})" if got and got["error"] else ""
            return (
                f"{who} refuses a call that the text allows{error}, although it computes other calls of the same types. "
                "Either this case is not implemented, or the text promises more than is meant."
            )
        case "crash":
            return (
                f"{who} ends the whole process on a call that the text {case.standing}. Whatever the call, an error that "
                "the caller can handle is expected."
            )
        case "hang":
            return f"{who} does not return from a call that the text {case.standing}. A result or an error is expected."
        case "nondeterministic" if case.otherwise:
            return (
                f"{case.otherwise}. What callers get depends on the machine, or on how it is set up: one answer for both, or a "
                "sentence in the documentation that says what differs, would settle it."
            )
        case "nondeterministic":
            return f"{who} was given the same call several times, and the results differ in their bits."
        case "memory":
            return f"{who} {_noted(case)}: values may change behind the caller's back."
    return str(finding["summary"])


def _open(case: Case) -> str:
    """What the text leaves open, and what the implementation does."""
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
