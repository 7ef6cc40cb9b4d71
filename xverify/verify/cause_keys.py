"""The identity of a cause: the keys under which a finding of a report is grouped.

Two findings share a cause if one fix would remove both. Each kind of finding has a rule:

- wrong or mixed values: the stages in which the recipe departs from the nearest admitted reading, each a cause of its own;
- crashes and hangs: the message of the abort without numbers, or the signal and the place;
- refusals: the message without numbers, names and paths, for grouping only;
- forbidden calls that are computed: one cause for each implementation;
- texts: one cause for each sentence, in all editions and sibling operators that repeat it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xverify.core.verdict import Verdict
from xverify.verify.attribute import mistake_of
from xverify.verify.details import NEVER_WRITTEN, is_partly, names_operators, names_types
from xverify.verify.messages import abort_of, refusal_of
from xverify.verify.region import EVERYWHERE, NOWHERE_SIMPLE

Json = Mapping[str, Any]

VALUES, TEXT, OPEN = "values", "text", "open"
"""Kinds of causes that are not the kind of one verdict."""

KINDS: Mapping[str, str] = {
    Verdict.CRASH: "crash",
    Verdict.HANG: "hang",
    Verdict.MEMORY: "memory",
    Verdict.VIOLATION: VALUES,
    Verdict.MIXED: VALUES,
    Verdict.UNREADABLE: "unreadable",
    Verdict.NONDETERMINISTIC: "nondeterministic",
    Verdict.WRONGLY_ACCEPTED: "validation",
    Verdict.WRONGLY_REJECTED: "refusal",
    Verdict.CONFLICT: TEXT,
    Verdict.AMBIGUITY: OPEN,
    Verdict.CHANGED: "change",
    Verdict.NOT_FOLLOWED: "not-followed",
}
"""The kind of a cause for each verdict. One mistake leaves the legal set in some cells, and mixes readings in others."""

UNEXPLAINED = "unexplained"
"""The mistake of values that no known recipe gives."""

FLUSHES = "flush-subnormals"
"""The mistake of implementations that flush subnormal numbers, whatever else they compute."""


EXPANDED = "operation:folded"
"""The mistake of an expansion of the formula, however its products are rounded."""

CASTS_WRONGLY = "cast:last-bit"
"""The mistake of a cast that rounds wrongly, in whichever stage it is seen."""

ONE_MISTAKE: Mapping[str, str] = {
    "operation:fused": EXPANDED,
    "operation:fused-float16": EXPANDED,
    "operation:fused-last-bit": EXPANDED,
    "operation:folded-always": EXPANDED,
    "subtraction:cast-last-bit": CASTS_WRONGLY,
    "scale_cast:last-bit": CASTS_WRONGLY,
    "final:last-bit": CASTS_WRONGLY,
}
"""Departures that one fix removes, and the mistake that they stand for.

A function that casts to a type is one function, and an expanded formula one formula. What is rounded there depends on the types.
"""

WORDS_OF_ONE: Mapping[str, str] = {
    EXPANDED: "computes x * scale - zero point * scale",
    CASTS_WRONGLY: "never rounds up in casts to bfloat16 where the last kept bit is 0",
}
"""Words that hold of every departure of such a mistake."""

ZERO_SCALE = "result:zero-scale"
"""The mistake of a scale of zero that stands for its product, which is wrong for one sign of x - zero point only."""

UNROUNDED = "graph:unrounded"
"""The mistake of a result that is not rounded to its type before the graph goes on."""

LEFT_OPEN, READINGS = "left-open:", "readings:"
"""The beginnings of the mistake of a clause: it leaves calls open, or has several readings. The clause's name follows."""


@dataclass(frozen=True)
class CauseKey:
    """The identity of a cause."""

    family: str
    """The implementation, with all front ends of its kernels; for a cause in a text, the operator or the publisher."""
    kind: str
    """One of the values of `KINDS`."""
    mistake: str
    """A token for what is wrong."""
    region: str = ""
    """The region in words, if the mistake does not imply it."""
    standing: str = ""
    """The ledger's state and entry: findings that a ledger accepts are not grouped with others."""


def operator_of(contract: str) -> str:
    """The operator of an edition: "ai.onnx/DequantizeLinear" for "ai.onnx/DequantizeLinear-21"."""
    domain, slash, name = contract.rpartition("/")
    return domain + slash + re.sub(r"-\d+$", "", name.partition("@")[0])


def detail_in(finding: Json) -> str:
    """The detail of a finding; the id in reports that have no details."""
    return str(finding.get("detail", finding["id"]))


def region_in(finding: Json) -> str:
    """The region of a finding as a predicate; empty if there is none or no simple one."""
    entry = finding.get("region")
    return "" if entry is None or entry["words"] in (EVERYWHERE, NOWHERE_SIMPLE) else str(entry["words"])


def family_in(finding: Json) -> str:
    """The family of a finding's implementation."""
    subject = finding["subject"]
    return str(subject.get("family", subject["name"]))


def is_in_house(worker: Json) -> bool:
    """True for xverify's own kernels, which say nothing about how others read a text."""
    return bool(worker.get("in_house", worker["name"].startswith("xverify-")))


STANDINGS = {"": "allows", "forbidden": "forbids", "unspecified": "leaves open"}
"""The verbs of the text for a call, by the beginning of the detail of a finding on it."""


def standing(finding: Json) -> str:
    """Return the verb of the text for the calls of a finding: "allows", "forbids" or "leaves open"."""
    return STANDINGS.get(detail_in(finding).partition(":")[0], STANDINGS[""])


INSIDE: Mapping[str, str] = {
    Verdict.MIXED: ", each allowed, but not all by the same rule of rounding",
    Verdict.AMBIGUITY: " that the text leaves open",
}
"""Verdicts on values none of which is outside the legal set, and words that follow a number of such values."""


def alike(findings: Sequence[Json]) -> tuple[Json, ...]:
    """Return the findings of whose calls and values the text says the same as of the first."""

    def said(finding: Json) -> tuple[str, str]:
        return standing(finding), finding["verdict"] if finding["verdict"] in INSIDE else ""

    return tuple(finding for finding in findings if said(finding) == said(findings[0]))


def clause_in(finding: Json) -> str:
    """The name of a finding's clause, which all editions that repeat the sentence share."""
    return str(finding["clause"]).rpartition("/")[2]


def keys_of(finding: Json) -> Iterator[CauseKey]:
    """Yield the causes of a finding. There is at least one."""
    kind, family, detail = KINDS.get(finding["verdict"], finding["verdict"]), family_in(finding), detail_in(finding)
    ledger = finding.get("ledger", {"state": "", "entry": ""})
    standing = f"{ledger['state']}:{ledger['entry']}".strip(":")

    def key(mistake: str, region: str = "", kind: str = kind, family: str = family) -> CauseKey:
        return CauseKey(family, kind, mistake, region, standing)

    if kind == VALUES:
        for mistake in _mistakes(finding, detail):
            if mistake == FLUSHES:
                yield key(FLUSHES, kind=OPEN)
            elif mistake == UNEXPLAINED and NEVER_WRITTEN in _notes(finding):
                yield key(NEVER_WRITTEN, kind=KINDS[Verdict.MEMORY])  # the values are what was there before
            else:
                # A recipe of all values implies the region. A recipe of the wrong values only does not, unless it says where.
                implied = mistake != UNEXPLAINED and (not is_partly(detail) or mistake == ZERO_SCALE)
                region = "" if implied else _region_key(finding)
                is_no_rewrite = mistake == UNROUNDED and _is_unoptimised(finding)
                yield key(mistake, UNOPTIMISED if is_no_rewrite else region)
    elif kind in ("crash", "hang"):
        yield key(abort_of(_message(finding)) or detail)
    elif kind == "refusal":
        yield key(refusal_of(_message(finding)) or detail.rpartition(":")[2])
    elif kind == "validation":
        yield key("")
    elif kind == "not-followed":
        yield key(finding["contract"])
    elif kind == TEXT:
        operator = operator_of(finding["contract"])
        if finding["subject"]["name"] == finding["contract"]:
            # A document contradicts itself. Its publisher may repeat the sentence for sibling operators.
            yield key(f"{detail.partition(':')[0]}:{clause_in(finding)}", family=operator.partition("/")[0])
        else:  # it contradicts another one, whose clause the detail names
            yield key(f"{detail}:{clause_in(finding)}", family=operator)
    elif kind == OPEN:
        yield key(*_open(finding, detail))
    else:
        yield key(detail)


UNOPTIMISED = "without an optimiser"
"""The region of a graph's mistake that no optimiser makes: it shows with the optimiser off."""


def _is_unoptimised(finding: Json) -> bool:
    """True if a finding in a graph shows with the optimiser off."""
    return str(finding.get("lowest", "")).endswith("optimization=off")


_ON_TYPES = ("output ", "x of ", "scale of type ", "zero point of type ")
"""The beginnings of terms of a region that are about types."""


def _region_key(finding: Json) -> str:
    """The terms of a finding's region without numbers, and without types, which tell no causes apart."""
    words = region_in(finding)
    terms = finding["region"].get("name", words).split(" & ") if words else ()
    return " & ".join(re.sub(r"\d[\d.e+-]*", "N", term) for term in terms if not term.startswith(_ON_TYPES))


_AS_RECIPES: Mapping[str, str] = {
    "graph:quantizes-again:uint8": "index:requantized-to-uint8",
    "graph:quantizes-again:own": "index:requantized",
    "graph:expanded": EXPANDED,
}
"""Rewrites of `xverify.verify.rewrites` that some findings explain by a recipe of arithmetic, and its departure."""


QUANTIZES_WRONGLY = "graph:quantize-"
"""The beginning of the mistake of a QuantizeLinear that rounds in a wrong way. The way follows, with "-" for each space."""


def mistakes_of_rewrite(name: str) -> list[str]:
    """The mistakes of a rewrite.

    Mistakes that other graphs show alone are causes of their own. An added pair that rounds in a wrong way shows two of them.
    With the own parameters of the call and a right rounding, the pair would keep every value: the rounding alone is the mistake.
    """
    head, is_last, _ = name.rpartition(":last-bit")
    if is_last:
        return [*mistakes_of_rewrite(head), CASTS_WRONGLY]
    for first in ("graph:expanded", UNROUNDED):
        if name.startswith(first + ":"):
            return [_AS_RECIPES.get(first, first), *mistakes_of_rewrite("graph:" + name.removeprefix(first + ":"))]
    first, mark, rounding = name.partition(":quantize-")
    if mark and (first in _AS_RECIPES or first.startswith("graph:no-zero-point:")):
        own = [] if first.endswith(":own") else [_AS_RECIPES.get(first, first)]
        return [*own, QUANTIZES_WRONGLY + rounding]
    return [_AS_RECIPES.get(name, mistake_of(name))]


def _mistakes(finding: Json, detail: str) -> list[str]:
    """The mistakes that give a finding's values."""
    by = finding["attribution"]
    if by is None:
        if names_operators(detail):
            return [detail]
        plain = names_types(detail) or not detail
        return [UNEXPLAINED if plain else detail.partition(":")[0]]
    departures = by.get("departures")
    if not departures:
        return mistakes_of_rewrite(str(by["reading"]))
    if any(_changes_range(departure) for departure in departures):
        # The other stages of a range formula change the last places only, so they are no cause of their own.
        departures = [each for each in departures if each["stage"] == "subnormals" or _changes_range(each)]
    for changes in (_reads_another_operand, _changes_value):
        if any(map(changes, departures)):
            # The other stages change the last places, or show alone where every operand is right.
            departures = [each for each in departures if each["stage"] == "subnormals" or changes(each)]
            break
    if any(departure["stage"] == "operation" for departure in departures):
        # Another operation has other steps, and each of them is rounded.
        departures = [each for each in departures if each["stage"] != "precision"]
    return list(dict.fromkeys(departure_token(departure) for departure in departures))


_OTHER_ZERO_POINTS = ("ignored", "zero-point-rounded", "zero-point-truncated")
"""Options of the subtraction that take another zero point."""

_OF_RANGES = ("origin", "snap", "form", "narrow", "clamp", "source", "divisor")
"""Stages of `xverify.arithmetic.range_affine` and ``range_scaled`` that change more than the last places."""


def _reads_another_operand(departure: Json) -> bool:
    """True if the recipe takes other elements than the text says, or leaves an operand out."""
    stage, option = str(departure["stage"]), str(departure["is"])
    return stage == "index" or (stage == "subtraction" and option in _OTHER_ZERO_POINTS)


def _changes_value(departure: Json) -> bool:
    """True if the right operands give another value, and not only other last places."""
    stage, option = str(departure["stage"]), str(departure["is"])
    return (stage == "operation" and option == "divide") or (
        stage == "subtraction" and option.startswith(("wrap-", "saturate-"))
    )


def _changes_range(departure: Json) -> bool:
    return departure["stage"] in _OF_RANGES and departure["is"] != "lowest-folded"


def departure_token(departure: Json) -> str:
    """The token of a departure from the nearest admitted reading."""
    return mistake_of_stage(str(departure["stage"]), str(departure["is"]))


def mistake_of_stage(stage: str, option: str) -> str:
    """The mistake of an option of a stage."""
    if stage == "subnormals" and option != "flush-to-plus":  # a scale that loses its sign changes more
        return FLUSHES
    return ONE_MISTAKE.get(f"{stage}:{option}", f"{stage}:{option}")


def _open(finding: Json, detail: str) -> tuple[str, str, str, str]:
    """Mistake, region, kind and family of a difference where the text leaves the result open."""
    operator = operator_of(finding["contract"])
    if finding["attribution"] is None:
        return f"{LEFT_OPEN}{clause_in(finding)}", "", OPEN, operator
    if detail == FLUSHES:
        return FLUSHES, "", OPEN, family_in(finding)
    return f"{READINGS}{clause_in(finding)}", "", OPEN, operator


def _notes(finding: Json) -> Sequence[str]:
    witness = finding["witness"]
    got = witness["got"] if witness is not None else None
    return () if got is None else tuple(got.get("notes", ()))


def _message(finding: Json) -> str:
    witness = finding["witness"]
    got = witness["got"] if witness is not None else None
    return str(got["message"] or "") if got is not None else ""
