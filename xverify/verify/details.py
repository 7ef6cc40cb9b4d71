"""Details: the machine tokens that tell findings on one clause apart.

A finding's id is a hash of its key, and a key holds a detail. So a detail is no sentence: it consists of words in kebab case
and of names (dtypes, clauses, recipes, settings, exceptions), joined by colons. Sentences stand in `Discrepancy.summary` and
`Discrepancy.words`, where they can be improved without changing an id. Earlier versions had prose for details; `modernized`
translates it.

| verdict | details |
|---|---|
| crash, hang | ``allowed:values``, ``forbidden:CLAUSE:empty``, ``unspecified:CLAUSE:values``, ``out-of-memory`` |
| memory | the worker's note: ``input-written`` |
| nondeterministic | a note, a setting such as ``threads=8``, ``threads=8:refuses``, ``threads=8:answers``, or nothing |
| violation | RECIPE, ``partly:RECIPE``, ``types:X:OUTPUT``, ``graph:OPERATORS``, ``result-type:GOT:DUE``, ``result-shape`` |
| mixed | RECIPE, ``types:X:OUTPUT``, ``equivalence:TWIN`` |
| unreadable-result | the type of the result or the dtype of the array: ``NoneType``, ``object``, ``NoneType:forbidden`` |
| wrongly-accepted | CLAUSE; if the call wrote nothing, ``CLAUSE:never-written`` |
| wrongly-rejected | ``integer:zero-point:TypeError``; in a graph with its message, ``float8:no-zero-point:Fail:no-kernel-for`` |
| ambiguity | READING, ``refuses:REFERENCE``, ``computes:REFERENCE``, ``other-values:REFERENCE`` |
| conflict | the other edition's clause, or the name of a `TextCheck` |
| changed | ``OLDER..NEWER:KIND:`` and what changed, see `xverify.verify.changes.Step` |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from xverify.core.verdict import Verdict


def detail_of(*parts: str) -> str:
    """The detail of these parts; empty parts are left out."""
    return ":".join(filter(None, parts))


def types_detail(x_dtype: str, out_dtype: str) -> str:
    """The detail of values that no known recipe gives."""
    return detail_of("types", x_dtype, out_dtype)


def graph_detail(operators: Sequence[str]) -> str:
    """The detail of values that a call has only among these operators, which change values."""
    return detail_of("graph", "+".join(operators))


def names_operators(detail: str) -> bool:
    """True for what `graph_detail` gives, and for the name of a rewrite."""
    return detail.startswith("graph:")


def names_types(detail: str) -> bool:
    """True for what `types_detail` gives."""
    return detail.startswith("types:")


def refuses_in_one_setting(detail: str) -> bool:
    """True for the detail of calls that an implementation refuses in one of two settings only."""
    return detail.endswith((":answers", ":refuses"))


NEVER_WRITTEN = "never-written"
"""The note of a worker on elements that keep two patterns."""


def wrote_nothing(detail: str) -> bool:
    """True for the detail of accepted calls that wrote no element of their output."""
    return detail.endswith(f":{NEVER_WRITTEN}")


def partly(recipe: str) -> str:
    """The detail of a recipe that gives only the wrong values."""
    return detail_of("partly", recipe)


def is_partly(detail: str) -> bool:
    """True for a detail that `partly` made."""
    return detail.startswith("partly:")


# -- the prose of earlier versions ------------------------------------------------------------------------

Replacement = str | Callable[[re.Match[str]], str]

_NOTES: Mapping[str, str] = {
    "writes to its inputs": "input-written",
    "gives a result that shares memory with an input": "output-aliases-input",
    "gives results that share memory with each other": "outputs-share-memory",
    "changes a result that it gave earlier": "earlier-result-changed",
    "gives a buffer of its own as the result: writing to it changes later results": "internal-buffer",
    "writes before the beginning of the output": "written-before-output",
    "writes past the end of the output": "written-after-output",
    "writes to memory beside its inputs": "written-beside-input",
    "leaves elements of the output unwritten": "never-written",
    "answers the same call twice with different bits": "second-call-differs",
    "answers the same call otherwise when several threads call it at once": "threads-differ",
}
"""The words with which earlier versions named a note in a change between versions."""


def _granularity(words: str) -> str:
    return words.replace(" ", "_")


_CALL: tuple[tuple[str, Replacement], ...] = (
    (r"(allowed), (?:an )?(empty|values|\*)(?: tensor)?", r"\1:\2"),
    (r"(forbidden|unspecified) by (\S+), (?:an )?(empty|values|\*)(?: tensor)?", r"\1:\2:\3"),
    (r"out of memory", "out-of-memory"),
)
_VALUES: tuple[tuple[str, Replacement], ...] = (
    (r"(\S+) to (\S+)", r"types:\1:\2"),
    (r"in part (\S+)", r"partly:\1"),
    (r"(\S+) for (\S+)", r"result-type:\1:\2"),
    (r"another shape", "result-shape"),
    (r"equivalence: under (\S+)", r"equivalence:under:\1"),
    (r"equivalence: (\S+)", r"equivalence:\1"),
)
_REFUSAL: tuple[tuple[str, Replacement], ...] = (
    (r"(\S+) x, a zero point, (\S*)", r"\1:zero-point:\2"),
    (r"(\S+) x, no zero point, (\S*)", r"\1:no-zero-point:\2"),
)
_SETTING: tuple[tuple[str, Replacement], ...] = (
    (r"(\S+): (refuses|answers)", r"\1:\2"),
    (r"(\S+): shape or type", r"\1:result"),
)
_AMBIGUITY: tuple[tuple[str, Replacement], ...] = (
    (r"refuses what (.+) computes", r"refuses:\1"),
    (r"computes what (.+) refuses", r"computes:\1"),
    (r"gives other values than (.+)", r"other-values:\1"),
)
_TEXT: tuple[tuple[str, Replacement], ...] = (
    (r"the schema of \S+ in onnxruntime \S+ is not that of onnx \S+", "schema-differs:onnxruntime"),
    (r"the page's example '(.+)' is forbidden by the page's own clauses: .+", r"example-forbidden:\1"),
    (r"the page's example '(.+)' prints values that its formula does not give", r"example-values:\1"),
    (r"the formula for one scale rounds its result, .+", "rounding-per-tensor"),
    (r"the text's expression .+ by C's precedence, where its prose says .+", "lowest-value"),
    (r"the text declares (\w+) twice: .+", r"declared-twice:\1"),
)
_CHANGE: tuple[tuple[str, Replacement], ...] = (
    *((re.escape(words), note) for words, note in _NOTES.items()),
    (r"ends the process", "crash"),
    (r"does not answer", "hang"),
    (r"not judged", "not-judged"),
    (r"both (wrong|legal)", r"both-\1"),
    (r"subnormal results", "subnormals"),
    (r"the result's type", "result-type"),
    (r"the result's \S+", "result-shape"),
    (r"forbidden by (\S+), of types that one lacks", r"forbidden:\1:types-missing"),
    (r"forbidden by (\S+)", r"forbidden:\1"),
    (r"left open by (\S+), computed or refused", r"unspecified:\1:refused-or-computed"),
    (r"left open by (\S+)", r"unspecified:\1"),
    (r"x of (\S+), (.+)", lambda match: f"x:{match[1]}:{_granularity(match[2])}"),
    (r"x of (\S+)", r"x:\1"),
    (r"a scale of (\S+) with a result of (\S+)", r"scale:\1:\2"),
    (r"a zero point of (\S+)", r"zero-point:\1"),
    (r"refuses (.+) calls \((.+)\)", lambda match: f"refuses:{_granularity(match[1])}:{match[2]}"),
    (r"(.+) calls", lambda match: f"granularity:{_granularity(match[1])}"),
    *_VALUES[:2],
)
_PROSE: Mapping[str, tuple[tuple[str, Replacement], ...]] = {
    Verdict.CRASH: _CALL,
    Verdict.HANG: _CALL,
    Verdict.VIOLATION: _VALUES,
    Verdict.MIXED: _VALUES,
    Verdict.WRONGLY_REJECTED: _REFUSAL,
    Verdict.NONDETERMINISTIC: _SETTING,
    Verdict.AMBIGUITY: _AMBIGUITY,
    Verdict.CONFLICT: _TEXT,
}
"""For each verdict, patterns of the details that earlier versions wrote, and the tokens that replace them."""

_VERSIONS = re.compile(r"(.+?) to (.+?), (fixed|broken|supported|dropped|other|\*): (.+)", re.DOTALL)


def modernized(verdict: str, detail: str) -> str:
    """Translate the prose of earlier versions to a token. Tokens and any other text stay.

    A glob is translated where it stands for a whole name, as in ``* to float32`` or ``refuses what * computes``.
    """
    if verdict != Verdict.CHANGED:
        return _replaced(detail, _PROSE.get(verdict, ()))
    change = _VERSIONS.fullmatch(detail)
    if change is None:
        return detail
    older, newer, kind, what = change.groups()
    return change_detail(older, newer, kind, _replaced(what, _CHANGE))


def modernized_step(step: str) -> str:
    """The token of a step (`xverify.verify.changes.Step.sign`) that an earlier version wrote as prose."""
    match = re.fullmatch(r"(\w+): (.+?)(, an empty tensor)?", step)
    return step if match is None else detail_of(match[1], _replaced(match[2], _CHANGE), "empty" if match[3] else "")


def change_detail(older: str, newer: str, kind: str, what: str) -> str:
    """The detail of a change between two versions. kind: of `xverify.verify.changes.KINDS`; what: a token."""
    return detail_of(f"{older}..{newer}", kind, what)


def _replaced(detail: str, patterns: tuple[tuple[str, Replacement], ...]) -> str:
    for pattern, replacement in patterns:
        match = re.fullmatch(pattern, detail, re.DOTALL)
        if match is not None:
            return replacement(match) if callable(replacement) else match.expand(replacement).removesuffix(":")
    return detail
