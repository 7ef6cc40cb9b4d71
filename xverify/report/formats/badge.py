"""The conformance of a kernel or an implementation as the JSON of a badge.

Source:
    shields.io, "Endpoint Badge".
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping

from xverify.report import causes, summary
from xverify.report.decision import plain
from xverify.report.formats.conformance import supports
from xverify.report.summary import Json
from xverify.verify.cause_keys import is_in_house, operator_of

LABEL = "dequantization"

MOST_EDITIONS = 3
"""The largest number of editions that a badge names."""

MOST_CHARACTERS = 80
"""The longest message."""

_OPERATORS: Mapping[str, str] = {
    "ai.onnx/DequantizeLinear": "ONNX",
    "onednn/Dequantize": "oneDNN Dequantize",
    "onednn/DynamicDequantize": "oneDNN DynamicDequantize",
    "tensorflow/Dequantize": "TensorFlow",
    "litert/Dequantize": "LiteRT",
}
"""Names for people. Other operators keep their ids."""

_DECISIONS = {"pass": ("pass", "brightgreen"), "findings": ("fail", "red"), "unable": ("no decision", "lightgrey")}

_COLOURS = ((100.0, "brightgreen"), (95.0, "green"), (80.0, "yellow"), (0.0, "orange"))
"""The colour of a share in percent: the first whose bound it reaches."""


def render(report: Json) -> str:
    """Return a gate's decision and editions, or the conformant share of an implementation."""
    message, colour = _of_gate(report) if "gate" in report else _of_sweep(report)
    message = plain(message)
    if len(message) > MOST_CHARACTERS:
        message = message[: MOST_CHARACTERS - 3] + "..."
    return json.dumps({"schemaVersion": 1, "label": LABEL, "message": message, "color": colour}) + "\n"


def _of_gate(report: Json) -> tuple[str, str]:
    gate = report["gate"]
    word, colour = _DECISIONS[gate["outcome"]]
    like = f"like {gate['like']}, " if gate["like"] else ""
    part = " in part" if gate.get("partial") else ""
    return f"{like}{_editions([edition['id'] for edition in report['editions']])}{part}: {word}", colour


def _editions(identities: list[str]) -> str:
    """Name editions, each operator once: "ONNX 25, 28"."""
    if len(identities) > MOST_EDITIONS:
        return summary.plural(len(identities), "edition")
    versions: dict[str, list[str]] = defaultdict(list)
    for identity in identities:
        operator = operator_of(identity)
        versions[operator].append(identity.removeprefix(operator).lstrip("-"))
    return ", ".join(f"{_OPERATORS.get(name, name)} {', '.join(listed)}".strip() for name, listed in versions.items())


def _of_sweep(report: Json) -> tuple[str, str]:
    """Return the right share of an implementation's combinations; for several, the number of causes."""
    workers = [w for w in report["run"]["workers"] if w["calls"] and not is_in_house(w)]
    releases = {w.get("family", w["name"]): str(w.get("release") or w["version"]) for w in workers}
    listed = [cause for cause in causes.causes(report) if cause.verdict.is_fault]
    if len(releases) != 1:
        words = f"{summary.plural(len(releases), 'implementation')}, {summary.plural(len(listed), 'cause')}"
        return words, "orange" if listed else "brightgreen"
    ((family, release),) = releases.items()
    members = {w["name"] for w in workers}
    cells = [support for (_, name), support in supports(report).items() if name in members]
    total, right = sum(support.total for support in cells), sum(len(support.right) for support in cells)
    share = 100 * right / total if total else 0.0
    colour = next(name for bound, name in _COLOURS if share >= bound)
    exact = f"{share:.0f}" if right in (0, total) else f"{min(max(share, 0.1), 99.9):.1f}"
    return f"{family} {release}: {exact} % conformant, {summary.plural(len(listed), 'cause')}", colour
