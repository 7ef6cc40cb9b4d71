"""Stand-alone scripts that show one finding: NumPy and the framework, nothing of ours.

A script is a literal of plain data, then the source of functions of `script_parts` and `script_bodies`. The data goes in
through ``repr`` only, so no text from a report can become code; the code is that of two modules which are linted,
typed and tested like any other.
"""

from __future__ import annotations

import importlib
import inspect
import pprint
import re
import textwrap
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from xverify.report import (
    script_bodies,
    script_graph,
    script_onednn,
    script_parts,
    script_targets,
    script_tensorflow,
    summary,
)
from xverify.report.summary import Json

_HEAD = '''#!/usr/bin/env python3
"""Shows one discrepancy that xverify found. It needs NumPy and the implementation in question, and nothing else.
%s
Exit status: 1 while the discrepancy is there, 0 when it is gone, 3 when this cannot be told here (the
implementation is not installed, or this version cannot make the call).
"""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from importlib import metadata
from typing import Any

import numpy as np
'''

_PLAIN_HEAD = '''#!/usr/bin/env python3
"""Shows two texts that cannot both hold, or one that contradicts itself, as xverify found it. It needs nothing.

Exit status: 1, since a text does not change.
"""

from __future__ import annotations

import sys
from typing import Any
'''

_TAIL = """

if __name__ == "__main__":
    sys.exit(main(FINDING))
"""


def scripts_of(report: Json) -> dict[str, str]:
    """The script of every finding that has a witness, by the finding's id."""
    clauses = summary.clauses(report)
    found = report["findings"]
    return {f["id"]: script_for(f, clauses.get(f["clause"])) for f in found if f["witness"] is not None}


def script_for(finding: Json, clause: Json | None = None) -> str:
    """The text of the script; ``clause`` is the report's entry of the finding's clause, to be quoted."""
    made = _data(finding, clause)
    data = "FINDING: dict[str, Any] = " + pprint.pformat(made, width=110, sort_dicts=False)
    if summary.on_texts(finding):
        return "\n\n".join([_PLAIN_HEAD + "\n" + data, _source(script_parts.on_texts, "main")]) + _TAIL
    name = script_bodies.implementation(finding["subject"])
    body = _body(name) if not (made["call"] or {}).get("around") else _body_of_graph(name, made["call"])
    head = _HEAD % (script_targets.HEAD if ":" in name and _of_oracle(name) is None else "")
    brought = getattr(importlib.import_module(body.__module__), "HELPERS", {}).get(body.__name__, ())
    helpers = [_text(helper) for helper in brought]
    constants = [_constant(name, value) for name, value in script_parts.CONSTANTS.items()]
    parts = [_text(part) for part in script_parts.PARTS]
    pieces = [head + "\n" + data, *constants, *helpers, _source(body, "run"), *parts]
    return "\n\n".join(piece.strip("\n") + "\n" for piece in pieces).rstrip("\n") + "\n" + _TAIL


def _body(name: str) -> Callable[..., Any]:
    """How an implementation is called: by `script_bodies`, by `script_targets` where a target names it, or by
    ``reproduce`` in the module of its oracle. The module of the function says in HELPERS which other functions it needs."""
    if name in script_bodies.BODIES:
        return script_bodies.BODIES[name]
    if (found := _of_oracle(name)) is not None:
        return found
    return script_targets.body_of(name) if ":" in name else script_bodies.unknown


def _body_of_graph(name: str, call: Json) -> Callable[..., Any]:
    """How an implementation is given a call in a graph, where it is known how."""
    bodies = {**script_graph.BODIES, **script_tensorflow.BODIES, **script_onednn.BODIES}
    return bodies.get(name, script_bodies.unknown) if call["graph"] is not None else script_bodies.unknown


def _of_oracle(name: str) -> Callable[..., Any] | None:
    """What the module of an oracle brings; "onednn:/path/libdnnl.so.3" is the oracle onednn with an option."""
    from xverify.oracles import all_oracles

    oracle = all_oracles().get(re.split(":|==|@", name, maxsplit=1)[0])
    found = getattr(importlib.import_module(oracle.module), "reproduce", None) if oracle is not None else None
    return found if callable(found) else None


def _source(function: Callable[..., Any], name: str) -> str:
    """The function's source, under another name."""
    return _text(function).replace(f"def {function.__name__}(", f"def {name}(", 1)


@cache
def _text(function: Callable[..., Any]) -> str:
    """The function's source, which Python finds by reading the whole module."""
    return inspect.getsource(function)


def _constant(name: str, value: Any) -> str:
    spelled = f"{name} = {value!r}"
    return textwrap.fill(spelled, 110, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def _data(finding: Json, clause: Json | None) -> dict[str, Any]:
    """What the script needs of the finding, as plain data."""
    witness, by = finding["witness"], finding["attribution"]
    made: dict[str, Any] = {
        "id": _plain(finding["id"]),
        "verdict": _plain(finding["verdict"]),
        "summary": _plain(finding["summary"]),
        "contract": _plain(finding["contract"]),
        "clause": _plain(finding["clause"]),
        "text": _plain(clause["text"] or clause["note"]) if clause else "",
        "document": _plain(clause["document"]) if clause else "",
        "subject": _plain(finding["subject"]),
        "environment": environment(finding["subject"]),
        "attribution": _plain(by.get("words", by["reading"])) if by else "",
        "others": [f"{_plain(other['name'])}: {_plain(other['outcome'])}" for other in finding["others"]],
        "call": None,
        "got": None,
        "legal": [],
    }
    if witness is None:
        return made
    call, got = witness["call"], witness["got"]
    made["call"] = {
        "contract": _plain(call["contract"]),
        "attributes": _plain(call["attributes"]),
        "tensors": {_plain(role): _tensor(tensor) for role, tensor in call["tensors"].items()},
    }
    if call.get("around"):
        made["call"]["around"] = summary.around(finding)
        made["call"]["graph"] = _plain(_graph(call))
    if got is not None:
        made["got"] = {name: _plain(got[name]) for name in ("kind", "error", "message", "notes")}
        made["got"]["tensor"] = None if got["tensor"] is None else _tensor(got["tensor"])
    made["legal"] = _plain(witness["legal"])
    return made


def _graph(call: Json) -> Json | None:
    """The graph around a witness as plain data; with oneDNN's operations where the edition is of oneDNN."""
    graph = script_graph.graph_data(call)
    if graph is None or not call["contract"].startswith("onednn/"):
        return graph
    found = script_graph.graph_of_witness(call)
    try:
        return {**graph, "operations": script_onednn.operations(*found)} if found is not None else None
    except (NotImplementedError, TypeError, ValueError):
        return None


def environment(subject: Json) -> dict[str, str]:
    """The variables that the setting in the name of a variant stands for."""
    from xverify.oracles import all_oracles

    oracle = all_oracles().get(script_bodies.implementation(subject))
    settings = [one for one in oracle.varies if f"[{one.name}]" in subject["name"]] if oracle is not None else []
    return {name: value for one in settings for name, value in one.environment}


def _tensor(tensor: Mapping[str, Any]) -> dict[str, Any]:
    """A tensor with its values in one string each, which the pretty-printer folds at blanks."""
    made = _plain({name: tensor[name] for name in ("dtype", "shape", "layout")})
    if "hex" in tensor:
        made["decimal"] = _plain(" ".join(tensor["data"]))
        made["bits"] = _plain(" ".join(tensor["hex"]))
    else:
        made["file"] = _plain(tensor["file"])
    return dict(made)


def _plain(value: Any) -> Any:
    """A copy of only what a literal can spell: dicts, lists, strings, whole numbers, booleans and None."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int)) else str(value)
