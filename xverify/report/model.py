"""The check of a model in a report, for every format: nodes, differences and the decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xverify.core.verdict import Verdict
from xverify.report import causes as of_causes
from xverify.report.causes import Cause
from xverify.report.summary import Json, grouped, plural
from xverify.verify.cause_titles import some

WORDS = {"alone": "alone", "neighbours": "with neighbours", "whole": "in the whole model"}
"""The checks in words."""

STATES = ("wrong", "differs", "refused", "not checked", "compared", "ok")
"""The states of a node in a check, the worst first."""

TONES = {
    "wrong": "bad",
    "differs": "open",
    "refused": "quiet",
    "not checked": "quiet",
    "compared": "quiet",
    "ok": "good",
}

KINDS = ("crash", "hang", "violation", "rejected", "differs")
"""The kinds of differences, the worst first."""

_DECISIONS = {"pass": "PASS", "findings": "FAIL", "unable": "UNABLE"}

MOST_ULP = 1 << 12
"""The largest distance in ULP that is shown beside an absolute difference. Larger ones often mean only a value near zero."""

MOST_OPERATORS = 8
"""Number of operators of a part that a line names."""


@dataclass(frozen=True)
class Group:
    """One difference at a node, at all levels of an implementation that show it."""

    entries: tuple[Json, ...]
    """The differences of the levels, the least optimised level first."""
    levels: str
    """The levels in words: "at every level"; "" for a check without levels."""
    others: tuple[str, ...] = ()
    """Further nodes whose results go into the same sum."""

    @property
    def first(self) -> Json:
        """The difference of the least optimised level."""
        return self.entries[0]

    @property
    def worst(self) -> Json:
        """The difference with the most wrong elements, or the largest difference from another run."""
        if self.is_beyond:
            return self.first
        if self.first["kind"] == "differs":
            return max(self.entries, key=_size)
        return max(self.entries, key=lambda entry: int(entry["wrong"]))

    @property
    def tone(self) -> str:
        return "bad" if self.first["is_fault"] else "open"

    @property
    def is_beyond(self) -> bool:
        """True if no order of sums in the type of the operands explains the results."""
        return bool(self.first.get("bounds"))

    @property
    def kind(self) -> str:
        """The kind in a few words."""
        return f"beyond {self.first['sums']} sums" if self.is_beyond else str(self.first["kind"])

    @property
    def node(self) -> str:
        """The node in words; the model's output, or the model, if the difference belongs to no node."""
        if self.first["node"]:
            return f"node{'s' * bool(self.others)} {some([self.first['node'], *self.others], 4)}"
        return f"output {self.first['value']}" if self.first["value"] else "the model"

    @property
    def where(self) -> str:
        """The check and the levels."""
        return " ".join(filter(None, (WORDS[self.first["check"]], self.levels)))

    @property
    def amount(self) -> str:
        """The number of wrong elements, or the message of an ending."""
        entry = self.worst
        if entry["kind"] in ("crash", "hang", "rejected"):
            what = {"crash": "ends the process", "hang": "does not answer", "rejected": "refuses"}[entry["kind"]]
            message = " ".join(entry["message"].split()).partition(' File "')[0][:200]  # without the stack
            return f"{what}{': ' if message else ''}{message}"
        if not entry["value"] or not entry["got"]["hex"]:
            return str(entry["message"]) or "the results differ"
        single = entry["wrong"] == 1
        if self.is_beyond:
            verb = "is" if single else "are"
            of = f"{grouped(entry['wrong'])} of {plural(entry['elements'], 'value')}"
            return f"{of} {verb} beyond any order of {entry['sums']} sums{_excess(entry)}"
        word = f"{'is' if single else 'are'} illegal"
        if entry["kind"] != "violation":
            later = f" at the level {entry['level']!r}" if entry["level"] != self.first["level"] else ""
            word = f"{'differs' if single else 'differ'} from {entry['against']}{later}"
        where = f", {entry['message']}" if entry["check"] == "whole" and entry["message"] else ""
        return f"{grouped(entry['wrong'])} of {plural(entry['elements'], 'value')} {word}{_distance(entry)}{where}"

    @property
    def bits(self) -> str:
        """The first wrong element: its bits, and the legal ones."""
        entry = self.first
        if not entry["got"]["hex"]:
            return ""
        if self.is_beyond:
            ends = " to ".join(dict.fromkeys(f"{end:.9g}" for end in entry["bounds"]))
            words = f"every order of {entry['sums']} sums gives {ends}"
            return f"{entry['value']}{entry['index']} is {in_bits(entry['got'])}; {words}"
        legal = " or ".join(map(in_bits, entry["legal"]))
        name = "legal" if entry["kind"] == "violation" else entry["against"]
        return f"{entry['value']}{entry['index']} is {in_bits(entry['got'])}; {name}: {legal}"

    @property
    def operators(self) -> str:
        return some(self.first["operators"], MOST_OPERATORS)

    @property
    def cause(self) -> str:
        """The cause, as far as the levels tell it; "" if they do not."""
        if self.first["check"] == "alone" or not self.levels.startswith("from "):
            return ""
        around = f" of {self.operators}" if len(self.first["operators"]) > 1 else ""
        if self.is_beyond:
            return f"the optimiser's rewrite{around}: lower levels do not show it"
        if self.first["kind"] != "violation":
            return "it runs at lower levels"
        return f"the optimiser's rewrite{around} changes the values: the node is right at lower levels"


def _distance(entry: Json) -> str:
    """The largest distance, as the end of a sentence."""
    ulp = f"{grouped(entry['ulp'])} ULP"
    if entry["kind"] == "violation":
        return f", by up to {ulp}" if entry["ulp"] > 0 else ""
    if not entry["distance"] or entry["magnitude"] is None:
        return ""
    beside = f"; {ulp}" if 0 < entry["ulp"] <= MOST_ULP and "float" in entry["dtype"] else ""
    return f", by up to {entry['distance']:.3g} (the largest value is {entry['magnitude']:.3g}{beside})"


def _excess(entry: Json) -> str:
    """The largest distance from the bounds, as the end of a sentence."""
    if entry["distance"] is None:
        return ""
    unit = "" if "int" not in entry["dtype"] else " code" if entry["distance"] == 1 else " codes"
    return f", by up to {entry['distance']:.3g}{unit}"


def in_bits(value: Json) -> str:
    """A value in decimal with its bits."""
    return f"{value['decimal']} ({value['hex']})" if value["decimal"] else str(value["hex"])


def groups(report: Json) -> list[Group]:
    """The differences of a model, by node and implementation, worst first."""
    section = report["model"]
    levels = {entry["name"]: list(entry["levels"]) for entry in section["implementations"]}
    # With two implementations to compare, a difference between them is a fault, and one between levels of one of them is not.
    by_id: dict[tuple[str, bool], list[Json]] = {}
    for entry in section["differences"]:
        by_id.setdefault((entry["id"], entry["is_fault"]), []).append(entry)
    listed = []
    for entries in by_id.values():
        every = levels.get(entries[0]["oracle"], [])
        ordered = sorted(entries, key=lambda e: every.index(e["level"]) if e["level"] in every else -1)
        shown = [entry["level"] for entry in ordered]
        # Only the first of several equal runs that differ from another one is in the report.
        is_first = entries[0]["kind"] == "differs" and not entries[0].get("bounds") and len(every) > 1 and shown[0]
        first = "" if entries[0]["is_fault"] else "first "
        listed.append(Group(tuple(ordered), f"{first}at the level {shown[0]!r}" if is_first else _levels(shown, every)))
    return sorted(
        _merged(listed),
        key=lambda g: (
            not g.first["is_fault"],
            KINDS.index(g.first["kind"]),
            not g.is_beyond,
            bool(g.first["node"]),  # outputs of the model, which its users see, come first
            -_size(g.worst),
            -g.worst["wrong"],
        ),
    )


def _merged(listed: Sequence[Group]) -> list[Group]:
    """The groups, with a single one for each sum beyond its bounds: every node before it shows it."""
    by_sum: dict[tuple[str, ...], list[Group]] = {}
    for group in listed:
        own = group.first["id"] if not group.is_beyond else ""
        by_sum.setdefault((own, group.first["is_fault"], group.first["oracle"], group.first["value"]), []).append(group)
    ordered = [sorted(same, key=lambda group: -_size(group.first)) for same in by_sum.values()]
    return [replace(same[0], others=tuple(group.first["node"] for group in same[1:])) for same in ordered]


def _size(entry: Json) -> float:
    """The size of a difference, for the order of differences of one kind."""
    if entry["kind"] == "violation":
        return float(entry["ulp"])
    if entry.get("bounds"):
        largest = max(map(abs, entry["bounds"]))
        return float("inf") if entry["distance"] is None else float(entry["distance"]) / max(largest, 1e-300)
    return float(entry["distance"] or 0) / max(float(entry["magnitude"] or 0), 1e-300)


def _levels(shown: Sequence[str], every: Sequence[str]) -> str:
    """The levels that show a difference, in words."""
    shown = [level for level in dict.fromkeys(shown) if level]
    if not shown:
        return ""
    if len(shown) == len(every):
        return "at every level" if len(every) > 1 else ""
    if len(shown) > 1 and list(every[-len(shown) :]) == shown:
        return f"from the level {shown[0]!r} on"
    if every and shown == [every[-1]]:
        return f"from the level {shown[0]!r} on"
    return f"at the level{'s' * (len(shown) > 1)} {', '.join(shown)}"


def failing_causes(report: Json) -> list[Cause]:
    """The causes of wrong values of nodes alone, worst first."""
    return of_causes.causes(report, [f for f in report["findings"] if Verdict(f["verdict"]).is_fault])


def open_causes(report: Json) -> list[Cause]:
    """The causes that are no fault, such as values for which the edition admits several results."""
    return of_causes.causes(report, [f for f in report["findings"] if not Verdict(f["verdict"]).is_fault])


def nodes_showing(report: Json, cause: Cause) -> list[str]:
    """The names of the nodes that show a cause alone."""
    ids = {finding["id"] for finding in cause.findings}
    return [
        node["name"]
        for node in report["model"]["nodes"]
        if any(ids.intersection(check["findings"]) for check in node["checks"])
    ]


@dataclass(frozen=True)
class Field:
    """The state of a node in one check, in one implementation."""

    state: str
    words: str
    title: str = ""
    """The reason, or the levels."""

    @property
    def tone(self) -> str:
        return TONES[self.state]


@dataclass(frozen=True)
class Row:
    """A node in the table of nodes."""

    node: Json
    edition: str
    types: str
    fields: tuple[Field | None, ...]
    """One for each column of `columns`."""

    @property
    def rank(self) -> int:
        """The place of the worst state."""
        return min((STATES.index(field.state) for field in self.fields if field is not None), default=len(STATES))


def columns(report: Json) -> list[tuple[str, str]]:
    """The columns of the table of nodes: implementation and check."""
    section = report["model"]
    met = {(check["oracle"], check["check"]) for node in section["nodes"] for check in node["checks"]}
    names = [entry["name"] for entry in section["implementations"]]
    return [(name, check) for name in names for check in section["checks"] if (name, check) in met]


def rows(report: Json) -> list[Row]:
    """The nodes, worst first and else in the order of the model."""
    heads = columns(report)
    return sorted((_row(node, heads) for node in report["model"]["nodes"]), key=lambda row: row.rank)


def _row(node: Json, heads: Sequence[tuple[str, str]]) -> Row:
    by_column: dict[tuple[str, str], list[Json]] = {}
    for check in node["checks"]:
        by_column.setdefault((check["oracle"], check["check"]), []).append(check)
    types = [
        f"{operand['dtype'] or '?'}{_shape(operand['shape'])}{'' if operand['constant'] else ' at run time'}"
        for operand in node["operands"]
    ]
    fields = tuple(_field(by_column[head]) if head in by_column else None for head in heads)
    # Every node is a DequantizeLinear: domain and version tell the editions apart.
    edition = node["contract"].replace("/DequantizeLinear-", " ")
    return Row(node, edition, " · ".join(types), fields)


def _shape(shape: Sequence[int | None] | None) -> str:
    return "" if shape is None else f"[{', '.join('?' if extent is None else str(extent) for extent in shape)}]"


def _field(checks: Sequence[Json]) -> Field:
    state = min((check["state"] for check in checks), key=STATES.index)
    own = [check for check in checks if check["state"] == state]
    levels = [check["level"].rpartition("=")[2] for check in own if check["level"]]
    reason = next((check["reason"] for check in own if check["reason"]), "")
    some_levels = f" ({', '.join(levels)})" if levels and len(own) < len(checks) else ""
    return Field(state, state + some_levels, " ".join(reason.split())[:300])


def word(report: Json) -> str:
    """PASS, FAIL or UNABLE."""
    return _DECISIONS[report["model"]["outcome"]]


def sentence(report: Json) -> str:
    """The decision without its word and without the model."""
    if beyond := [group for group in groups(report) if group.is_beyond]:
        names = sorted({group.first["oracle"] for group in beyond})
        count = f"{plural(len(beyond), 'sum')} of {some(names, 4)} {'is' if len(beyond) == 1 else 'are'}"
        dtypes = sorted({group.first["sums"] for group in beyond})
        return f"{_decided(report)}; {count} beyond any order of {some(dtypes, 4)} sums"
    return _decided(report)


def _decided(report: Json) -> str:
    section = report["model"]
    names = [f"{entry['name']} {entry['version']}" for entry in section["implementations"]]
    total = len(section["nodes"])
    if section["outcome"] == "unable":
        return str(section["reason"])
    if section["outcome"] == "findings":
        bad = failing_nodes(report)
        verb, differ = ("is", "differs") if len(bad) == 1 else ("are", "differ")
        what = f"{differ} between" if section["versus"] else f"{verb} computed wrongly in"
        faults = [entry for entry in section["differences"] if entry["is_fault"]]
        is_wrong = any(check["state"] == "wrong" for node in section["nodes"] for check in node["checks"])
        did_not_run = not is_wrong and all(entry["kind"] in ("crash", "hang", "rejected") for entry in faults)
        if did_not_run and any(not entry["node"] for entry in faults):
            return f"the model does not run to its end in {some(sorted({entry['oracle'] for entry in faults}), 4)}"
        blamed = section["versus"] or sorted(_blamed(report)) or names
        count = f"{grouped(len(bad))} of {plural(total, 'node')}" if bad else "outputs of the model"
        return f"{count} {what} {some(blamed, 4)}"
    return _passed(report)


def _passed(report: Json) -> str:
    """The numbers of judged and of only compared results.

    Implementations with equal numbers share a clause.
    """
    section = report["model"]
    heads = columns(report)
    table = [dict(zip(heads, row.fields, strict=True)) for row in rows(report)]

    def count(name: str, check: str, states: tuple[str, ...]) -> int:
        return sum((field := fields.get((name, check))) is not None and field.state in states for fields in table)

    judged: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for entry in section["implementations"]:
        counts = tuple((check, count(entry["name"], check, ("ok",))) for check in section["checks"])
        judged.setdefault(tuple(each for each in counts if each[1]), []).append(f"{entry['name']} {entry['version']}")
    idle = judged.pop((), [])
    words: list[str] = []
    for counts, names in judged.items():
        (first, number), *others = counts
        ways = [f"{plural(number, 'node')} {WORDS[first]}", *(f"{grouped(n)} {WORDS[check]}" for check, n in others)]
        head = "of" if words else "every judged result of"
        words.append(f"{head} {some(names, 4)}{'' if words else ' is legal'}: {', '.join(ways)}")
    compared = max((count(*head, ("compared", "differs")) for head in heads), default=0)
    if compared and not section["versus"]:
        words.append(f"{plural(compared, 'node')} with neighbours only compared, since no text fixes the results")
    if section["versus"]:
        words.append(f"{' and '.join(section['versus'])} do not differ")
    if idle:
        words.append(f"no result of {some(idle, 4)} was judged")
    return "; ".join(words)


def failing_nodes(report: Json) -> list[str]:
    """The names of the nodes with a fault, in the order of the model."""
    differing = {entry["node"] for entry in report["model"]["differences"] if entry["is_fault"]}
    return [
        node["name"]
        for node in report["model"]["nodes"]
        if node["name"] in differing or any(check["state"] == "wrong" for check in node["checks"])
    ]


def _blamed(report: Json) -> set[str]:
    """The implementations at fault."""
    section = report["model"]
    names = {check["oracle"] for node in section["nodes"] for check in node["checks"] if check["state"] == "wrong"}
    return names | {entry["oracle"] for entry in section["differences"] if entry["is_fault"]}


def notes(report: Json) -> list[str]:
    """Sentences on nodes that were not checked, were checked in part, or are refused."""
    nodes = report["model"]["nodes"]
    by_note: dict[str, list[str]] = {}
    for node in nodes:
        if node["note"]:
            by_note.setdefault(node["note"], []).append(node["name"])
    sentences = [f"{some(names, 3)}: {note}" for note, names in by_note.items()]
    refused: dict[tuple[str, str], list[str]] = {}
    for node in nodes:
        for check in node["checks"]:
            if check["check"] == "alone" and check["state"] == "refused":
                reason = " ".join(check["reason"].split())[:160]
                refused.setdefault((check["oracle"], reason), []).append(node["name"])
    for (oracle, reason), names in refused.items():
        sentences.append(f"{oracle} refuses {plural(len(names), 'node')} alone ({some(names, 2)}): {reason}")
    everywhere = {entry["name"] for entry in report["model"]["implementations"] if entry["levels"]}
    missing: dict[tuple[str, str, str], dict[str, set[str]]] = {}
    for node in nodes:
        for check in node["checks"]:
            state = "compared" if check["state"] == "differs" else check["state"]
            if check["check"] != "alone" and state in ("not checked", "compared") and check["reason"]:
                reason = " ".join(check["reason"].split())[:160]
                by_name = missing.setdefault((check["check"], state, reason), {})
                by_name.setdefault(node["name"], set()).add(check["oracle"])
    for (check, state, reason), by_name in missing.items():
        oracles = set().union(*by_name.values())
        where = "" if oracles == everywhere else f" in {some(sorted(oracles), 3)}"
        words = state.replace("compared", "only compared")
        who = f"node {min(by_name)}" if len(by_name) == 1 else plural(len(by_name), "node")
        sentences.append(f"{who} {words} {WORDS[check]}{where}: {reason}")
    part = [node for node in nodes if node["values"] < node["of"] and node["values"]]
    if part:
        values, every = sum(node["values"] for node in part), sum(node["of"] for node in part)
        sentences.append(
            f"{plural(len(part), 'node')} alone with {grouped(values)} of {plural(every, 'value')}: parts at equal distances"
        )
    return sentences
