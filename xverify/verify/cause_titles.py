"""Titles and effects of causes, in words that say only the difference."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from operator import lt
from typing import Any

import numpy as np

from xverify.core.call import BITS
from xverify.core.dtypes import common_first
from xverify.core.surroundings import in_words
from xverify.core.verdict import Verdict
from xverify.verify.cause_keys import (
    FLUSHES,
    LEFT_OPEN,
    OPEN,
    QUANTIZES_WRONGLY,
    READINGS,
    TEXT,
    UNEXPLAINED,
    VALUES,
    WORDS_OF_ONE,
    CauseKey,
    Json,
    clause_in,
    departure_token,
    detail_in,
    mistakes_of_rewrite,
    operator_of,
    region_in,
)
from xverify.verify.details import wrote_nothing
from xverify.verify.messages import normalised, telling_line, useful_words
from xverify.verify.rewritten_graphs import words_of_part

MOST_NAMES = 3
"""Number of types or clauses that a title names."""

MOST_MESSAGE = 100
"""Number of characters of a message in a title."""

_GROUPS_OF_TYPES = (
    ("float8", lambda dtype: dtype.startswith("float8_e") and dtype != "float8_e8m0fnu"),
    ("of fewer than 8 bits", lambda dtype: BITS[dtype] < 8),
    ("a float type", lambda dtype: dtype.startswith(("float", "bfloat"))),
    ("an integer", lambda dtype: "int" in dtype),
)
"""Names of groups of types of x, the smallest first."""


def title(key: CauseKey, group: Sequence[Json], answered: frozenset[str] = frozenset()) -> str:
    """The cause as a predicate of its implementations; a sentence for a cause in a text.

    Args:
        key: the identity of the cause.
        group: its findings, the one whose witness is shown first.
        answered: the types of x that the implementation answers. A cause of all of them names no type.
    """
    first = group[0]
    if key.kind == VALUES:
        graph = _graph(first) if all(map(_graph, group)) else ""
        return _of_values(key, group) + with_need(group) + _types(group, answered) + _where(group) + graph
    if key.kind == TEXT:
        return _of_text(key, group)
    if key.kind == OPEN:
        return _of_open(key, first)
    if key.kind in ("crash", "hang"):
        return _of_death(key, group)
    if key.kind == "refusal":
        whole, graph = _from_message(first) or key.mistake, _graph(first)
        whole = whole.removesuffix(".") if graph and not whole.endswith("...") else whole
        return f"refuses allowed calls{with_need(group)}: {whole}{graph}"
    if key.kind == "validation":
        return f"does not validate: {_of_validation(group)}"
    return _predicate(first) + _graph(first)


def _of_validation(group: Sequence[Json]) -> str:
    """The forbidden calls that are computed, and those of other clauses that write nothing."""
    computed = _clauses(each for each in group if not wrote_nothing(detail_in(each)))
    accepted = [name for name in _clauses(group) if name not in computed]

    def forbidden(clauses: Sequence[str]) -> str:
        noun = "clause forbids" if len(clauses) == 1 else "clauses forbid"
        return f"calls that {len(clauses)} {noun} ({some(clauses, MOST_NAMES)})"

    parts = [f"it computes {forbidden(computed)}"] if computed else []
    parts += [f"it accepts {forbidden(accepted)}, and writes nothing"] if accepted else []
    return "; ".join(parts)


def _clauses(findings: Iterable[Json]) -> list[str]:
    """The names of the clauses of findings, each once."""
    return list(dict.fromkeys(clause_in(finding) for finding in findings))


def _of_values(key: CauseKey, group: Sequence[Json]) -> str:
    first = group[0]
    if key.mistake == UNEXPLAINED:
        legal = all(finding["verdict"] == Verdict.MIXED for finding in group)
        return (
            "mixes readings of the text in a way that no known recipe explains"
            if legal
            else "gives values that no known recipe explains"
        )
    by = first["attribution"]
    if first["verdict"] == Verdict.MIXED and by is not None and by.get("elsewhere"):
        return f"mixes readings of the text: it {by['elsewhere']['words']}, but {by['words']}"
    return (
        _departure_words(key.mistake, group) or _alone(key.mistake, group) or _recipe_words(first) or _predicate(first)
    )


def _alone(mistake: str, group: Sequence[Json]) -> str:
    """The words of one rewrite, since a finding may name two; "" if they are not known."""
    if mistake.startswith(QUANTIZES_WRONGLY):
        return f"{mistake.removeprefix(QUANTIZES_WRONGLY).replace('-', ' ')} in QuantizeLinear"
    attributed = (finding for finding in group if finding["attribution"])
    alone = (each for each in attributed if mistakes_of_rewrite(each["attribution"]["reading"]) == [mistake])
    return _recipe_words(next(alone, {"attribution": None})) or words_of_part(mistake)


def _departure_words(mistake: str, group: Sequence[Json]) -> str:
    """The words of the departure that a mistake stands for; empty if no finding has it."""
    if mistake in WORDS_OF_ONE:
        return WORDS_OF_ONE[mistake]
    for finding in group:
        by = finding["attribution"] or {}
        for departure in by.get("departures", ()):
            if departure_token(departure) == mistake and departure.get("words"):
                return str(departure["words"])
    return ""


def other_departures(mistake: str, finding: Json) -> list[str]:
    """The words of a finding's departures besides the one that a mistake stands for, if it has that one."""
    listed = (finding["attribution"] or {}).get("departures", ())
    tokens = [departure_token(departure) for departure in listed]
    return [departure["words"] for departure, token in zip(listed, tokens, strict=True) if token != mistake in tokens]


def _recipe_words(finding: Json) -> str:
    by = finding["attribution"]
    return "" if by is None else str(by.get("words", by["reading"]))


def _predicate(finding: Json) -> str:
    """The finding's own words, or its summary without the implementation and the clause."""
    if finding.get("words"):
        return str(finding["words"])
    summary = str(finding["summary"]).removeprefix(finding["subject"]["name"]).strip()
    return summary.partition(", which contradicts")[0].partition("; in a graph")[0]


def _of_text(key: CauseKey, group: Sequence[Json]) -> str:
    first = group[0]
    if key.mistake.startswith("nobody:"):
        name = first["clause"].rpartition("/")[2]
        mistake = key.mistake.removeprefix("nobody:").rpartition(":")[0]
        words = _departure_words(mistake, [first]) or _recipe_words(first)
        return f"no implementation follows the sentence {name!r} of {key.family}: each {words}"
    operators = sorted({operator_of(finding["contract"]) for finding in group})
    if len(operators) > 1 and first.get("words"):
        return f"{some(operators, MOST_NAMES)} contradict themselves: {first['words']}"
    return str(first["summary"])


def _of_open(key: CauseKey, first: Json) -> str:
    if key.mistake == FLUSHES:
        return "flushes subnormal numbers to zero, which no sentence of the text mentions"
    clause = first["clause"].rpartition("/")[2]
    if key.mistake.startswith(LEFT_OPEN):
        return f"the clause {clause!r} of {key.family} leaves calls open, and implementations differ there"
    if key.mistake.startswith(READINGS):
        return f"the clause {clause!r} of {key.family} admits more than one result, and implementations differ there"
    return str(first["summary"])


def kills_allowed_calls(finding: Json) -> bool:
    """True if a death was seen on an allowed call, or on the allowed call nearest to it."""
    is_allowed = not detail_in(finding).startswith(("forbidden", "unspecified"))
    return is_allowed or finding.get("survives_without_breach") is False


def is_unconfirmed(group: Sequence[Json]) -> bool:
    """True for deaths of which no new process showed one again."""
    return all(finding.get("unconfirmed", False) for finding in group)


def _of_death(key: CauseKey, group: Sequence[Json]) -> str:
    signal, _, what = key.mistake.partition(": ")
    does = "ends the process" if key.kind == "crash" else "does not answer"
    how = f" ({_short(what)}; {signal})" if what and signal != "SIGXFSZ" else f" ({_ending(key, group[0])})"
    allowed = any(kills_allowed_calls(finding) for finding in group)
    blamed = [finding for finding in group if finding.get("survives_without_breach")]
    if allowed:
        empty = all(detail_in(finding).endswith("empty") for finding in group)
        where = " on allowed calls" + (" of empty tensors" if empty else "") + with_need(group)
    elif len(blamed) == len(group):
        where = f" on calls that break {some(_clauses(group), MOST_NAMES)}"
    else:
        where = " on calls that the text forbids or leaves open"
    if is_unconfirmed(group):
        seen = sum(finding["cases"] for finding in group)
        does += " once" if seen == 1 else f" {seen} times"
        how += f", but not when {'the call is' if seen == 1 else 'the calls are'} repeated alone"
    return does + where + how + _graph(group[0])


def _ending(key: CauseKey, finding: Json) -> str:
    """The end of a process with its numbers, which a key leaves out."""
    witness = finding["witness"]
    got = witness["got"] if witness is not None else None
    line = telling_line(str(got["message"] or "")) if got is not None else ""
    plain = normalised(line)
    if line.startswith("killed by SIGXFSZ"):
        return line
    return line + key.mistake[len(plain) :] if plain and key.mistake.startswith(plain) else key.mistake


def _from_message(finding: Json) -> str:
    witness = finding["witness"]
    got = witness["got"] if witness is not None else None
    return _short(useful_words(telling_line(str(got["message"] or "")))) if got is not None else ""


def _short(line: str) -> str:
    """The first sentence of a message, or its beginning."""
    first = line if len(line) <= MOST_MESSAGE else line.partition(". ")[0]
    return first if len(first) <= MOST_MESSAGE else first[:MOST_MESSAGE].rstrip() + " ..."


def _types(group: Sequence[Json], answered: frozenset[str]) -> str:
    """The types of x, if the implementation answers other ones too."""
    shown = {cell["x_dtype"] for finding in group for cell in finding["cells"]}
    if not shown or not answered - shown:
        return ""
    for words, belongs in _GROUPS_OF_TYPES:
        members = set(filter(belongs, answered))
        if len(members) > 1 and shown == members:
            return f" when x is {words}"
    if len(shown) <= MOST_NAMES:
        return f" when x is {some(sorted(shown, key=common_first), MOST_NAMES, 'or')}"
    return ""


def _where(group: Sequence[Json]) -> str:
    """The region, if every finding has the same one."""
    regions = {region_in(finding) for finding in group}
    return f" where {regions.pop()}" if len(regions) == 1 and "" not in regions else ""


def with_need(group: Sequence[Json]) -> str:
    """The need of all findings on allowed calls, such as " with a negative axis"; "" if they share none."""
    needs = {
        str(each.get("needs", "")) for each in group if not detail_in(each).startswith(("forbidden:", "unspecified:"))
    }
    return f" with {needs.pop()}" if len(needs) == 1 and "" not in needs else ""


def _graph(first: Json) -> str:
    """The graph and the level of optimisation that the witness needs, and the rewrite."""
    around = first["witness"]["call"].get("around", []) if first["witness"] is not None else []
    words = graph_in_words(around, first["subject"]["options"], first.get("lowest", ""), first.get("rewrite", ""))
    return f", in a graph ({words})" if words else ""


def graph_in_words(around: Sequence[str], path: str, lowest: str, rewrite: str) -> str:
    """The surroundings of a call, the level of optimisation and the rewrite; "" for a lone call.

    Args:
        around: The words of the surroundings.
        path: The path through the implementation that shows the call.
        lowest: The least optimised path that shows it; "" if less optimised ones were not asked.
        rewrite: The rewrite on that path as a predicate of the optimiser, or "".
    """
    if not around:
        return ""
    level = (lowest or str(path)).removeprefix("graph").strip()
    lower = "from " if level.startswith("optimization") else "also with "
    begins = "seen with " if not lowest else "" if lowest == path else lower
    parts = (
        in_words(tuple(map(str, around))),
        begins + level if level else "",
        f"where the optimiser {rewrite}" if rewrite else "",
    )
    return ", ".join(filter(None, parts))


def some(names: Sequence[str], most: int, conjunction: str = "and") -> str:
    """Join names; of more than ``most``, count the rest."""
    rest = len(names) - most
    if rest > 0:
        return f"{', '.join(names[:most])} {conjunction} {rest} more"
    return f" {conjunction} ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else ""


# -- the effect in numbers ---------------------------------------------------------------------------------


BY_A_FACTOR = 0.5
"""The relative error from which a value counts as wrong by more than a factor: half of the due one, or less."""


def effect(finding: Json, by_a_factor: bool = False, mistake: str = "") -> str:
    """A wrong value of the witness in plain numbers: "int8 -5 with scale 0.5 becomes 0 instead of -2.5".

    Args:
        finding: the finding whose witness is shown.
        by_a_factor: True if some value of the cause is wrong by more than a factor. The witness is the plainest, not the worst.
        mistake: The departure of the cause. A value that shows it is chosen, if there is one.

    Returns:
        "" if the witness has no wrong values, or is in a file of its own.
    """
    witness = finding["witness"]
    if witness is None or not witness["legal"]:
        return ""
    if witness.get("in_graph"):
        return _effect_in_graph(witness)
    tensors = witness["call"]["tensors"]
    x = tensors.get("x") or tensors.get("input")
    if x is None or "data" not in x:
        return ""
    inside = [entry for entry in witness["legal"] if _is_inside(finding, x["data"][flat(entry["index"], x["shape"])])]
    own = [entry for entry in witness["legal"] if mistake in entry.get("departures", ())]
    entry = max(own or inside or witness["legal"], key=_error)
    due = min(entry["legal"], key=lambda legal: _apart(entry["got_decimal"], legal["decimal"]))
    if entry["got"] == due["hex"]:
        return ""  # a legal value is wrong only beside others
    out = str(finding["out_dtype"])
    got, legal = _pair(exact_number(entry["got_decimal"], out), exact_number(due["decimal"], out))
    operands = [f"{x['dtype']} {_plain(x['data'][flat(entry['index'], x['shape'])])}"]
    for role, name in (("scale", "scale"), ("zero_point", "zero point")):
        value = _parameter(tensors.get(role), entry["index"], x["shape"], witness["call"].get("attributes", {}))
        operands += [f"{name} {_plain(value)}"] if value is not None else []
    if "min_range" in tensors and all(len(tensors[role].get("data", ())) == 1 for role in ("min_range", "max_range")):
        operands.append(f"range {_plain(tensors['min_range']['data'][0])} to {_plain(tensors['max_range']['data'][0])}")
    mode = witness["call"].get("attributes", {}).get("mode")
    operands += [f"mode {mode}"] if mode else []
    head, *rest = operands
    in_type = "" if out in ("float32", "") else f" in {out}"
    wrong = f"{head}{' with ' if rest else ''}{', '.join(rest)} becomes {got} instead of {legal}{in_type}"
    return (
        wrong
        if not by_a_factor or _error(entry) >= BY_A_FACTOR
        else f"{wrong}; other values are wrong by a factor of two or more"
    )


def is_by_a_factor(witness: Json) -> bool:
    """True if some value of a witness is wrong by more than a factor."""
    return any(_error(entry) >= BY_A_FACTOR for entry in witness["legal"])


def _effect_in_graph(witness: Json) -> str:
    """The worst value of a graph's result. It may depend on several operands, so none is named."""
    entry = max(witness["legal"], key=_error)
    due = min(entry["legal"], key=lambda legal: _apart(entry["got_decimal"], legal["decimal"]))
    out = str(witness["got"]["tensor"]["dtype"])
    got, legal = _pair(exact_number(entry["got_decimal"], out), exact_number(due["decimal"], out))
    return f"the graph gives {got} instead of {legal}{'' if out == 'float32' else f' in {out}'}"


_TERM_OF_X = re.compile(r"x (=|not|>=|<=|<) (\S+)")
"""A condition on x in the name of a region."""


def _is_inside(finding: Json, decimal: str) -> bool:
    """True unless a value of x is outside the finding's region.

    A witness may also hold values that are wrong for another reason, such as a flushed subnormal number.
    """
    number = _number(decimal)
    conditions = {
        "=": number.__eq__, "not": number.__ne__, ">=": number.__ge__, "<=": number.__le__, "<": number.__lt__,
    }  # fmt: skip
    terms = map(_TERM_OF_X.fullmatch, (finding.get("region") or {}).get("name", "").split(" & "))
    return all(conditions[term[1]](_number(term[2])) for term in terms if term is not None)


def flat(index: Sequence[int], shape: Sequence[int]) -> int:
    """The position of a multi-index in row-major order."""
    position = 0
    for coordinate, extent in zip(index, shape, strict=True):
        position = position * extent + coordinate
    return position


def operand_position(tensor: Json, index: Sequence[int], x_shape: Sequence[int], attributes: Json) -> int | None:
    """The position of an operand's element for one value of the result; None if the report does not tell.

    Args:
        tensor: The operand as a report holds it.
        index: The index of the value.
        x_shape: The shape of the input.
        attributes: The attributes of the call.
    """
    if tensor["shape"] == x_shape:
        return flat(index, x_shape)
    if math.prod(tensor["shape"]) == 1:
        return 0
    axis = int(attributes.get("axis", 1))
    axis += len(x_shape) if axis < 0 else 0
    size = int(attributes.get("block_size", 0))
    if size > 0 and len(tensor["shape"]) == len(x_shape) and 0 <= axis < len(x_shape):
        within = [place // size if dimension == axis else place for dimension, place in enumerate(index)]
        return flat(within, tensor["shape"]) if all(map(lt, within, tensor["shape"])) else None
    if len(tensor["shape"]) != 1 or not 0 <= axis < len(x_shape) or tensor["shape"][0] != x_shape[axis]:
        return None
    return index[axis]


def _parameter(tensor: Any, index: Sequence[int], x_shape: Sequence[int], attributes: Json) -> str | None:
    """The scale or zero point of the value at an index; None if it is absent or the report does not tell."""
    if tensor is None or "data" not in tensor:
        return None
    position = operand_position(tensor, index, x_shape, attributes)
    return None if position is None else exact_number(tensor["data"][position], tensor["dtype"])


def exact_number(decimal: str, dtype: str) -> str:
    """The exact number, of which a report holds only the four digits that identify a float16."""
    return repr(float(np.float16(decimal))) if dtype == "float16" else str(decimal)


def _number(decimal: str) -> float:
    try:
        return float(decimal)
    except ValueError:
        return float("nan")


def _apart(a: str, b: str) -> float:
    difference = abs(_number(a) - _number(b))
    return difference if difference == difference else float("inf")


def _error(entry: Json) -> float:
    """The relative error of a wrong value; infinite if one of the two is no number."""
    got = _number(entry["got_decimal"])
    errors = []
    for legal in entry["legal"]:
        due = _number(legal["decimal"])
        apart = _apart(entry["got_decimal"], legal["decimal"])
        errors.append(apart / abs(due) if due and due == due and abs(due) != float("inf") else apart)
    return min(errors) if got == got else float("inf")


def _plain(decimal: str) -> str:
    """A number in at most nine digits, if they are enough to read it."""
    number = _number(decimal)
    short = f"{number:.9g}"
    return decimal if len(decimal) <= len(short) or number != number else short


def _pair(got: str, due: str) -> tuple[str, str]:
    """Two numbers in few digits, but enough to tell them apart.

    Numbers that five digits do not tell apart get nine: the last digit of fewer would exaggerate their distance.
    """
    for digits in (5, 9):
        a, b = f"{_number(got):.{digits}g}", f"{_number(due):.{digits}g}"
        if a != b:
            return a, b
    return got, due
