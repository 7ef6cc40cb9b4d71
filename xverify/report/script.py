"""Stand-alone scripts that show one finding.

A script needs NumPy and the implementation, and no installed xverify. It is a literal of plain data, the functions of
`script_main`, and the source of the oracle that showed the finding: the definitions of `xverify.oracles` and `xverify.core`
that its ``load`` reaches (`sources`). An implementation therefore has scripts without writing any code for them. Data goes in
through ``repr`` only, so no text of a report can become code.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pprint
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from xverify.oracles import all_oracles
from xverify.oracles.plugin import NATIVE_MODULE, USERS, is_library
from xverify.oracles.protocol import Oracle
from xverify.report import script_main, summary
from xverify.report.summary import Json
from xverify.verify.variants import setting_of

_HEAD = '''#!/usr/bin/env python3
"""Shows one discrepancy that xverify found. It needs %s and the implementation in question, and nothing else.
%s
Exit status: 1 while the discrepancy is there, 0 when it does not show, 3 when this cannot be told here (the
implementation is not installed, or this version cannot make the call).
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import subprocess
import sys
import time
from dataclasses import replace
from importlib import metadata
from typing import Any

import numpy as np
'''

_TARGET_HEAD = """
The file of a kernel or provider is this script's argument, or else is looked for in the current directory and beside this
script; a module is looked for in the directory that is the argument, the current one, and where Python looks.
"""

_TEXTS_HEAD = '''#!/usr/bin/env python3
"""Shows two texts that cannot both hold, or one that contradicts itself, as xverify found it. It needs nothing.

Exit status: 1, since a text does not change.
"""

from __future__ import annotations

import sys
from typing import Any
'''

_EMBEDDED = '''
class Embedded:
    """Imports the modules of SOURCES."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        inner = any(module.startswith(name + ".") for module in SOURCES)
        if name not in SOURCES and not inner:
            return None
        # Python run with -c sets no __file__.
        origin = globals().get("__file__", "<script>")
        spec = importlib.util.spec_from_loader(name, Embedded, origin=origin, is_package=inner)
        spec.has_location = True
        return spec

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        text = SOURCES.get(module.__name__, "")
        exec(compile(text, "<" + module.__name__ + ">", "exec"), module.__dict__)


sys.meta_path.insert(0, Embedded)
'''

_TAIL = """
if __name__ == "__main__":
    sys.exit(main(FINDING))
"""

_CORE = ("BITS", "Call", "Outcome", "Tensor", "code_dtype", "decode_call")
"""The names that `script_main` imports from `xverify.core.call`."""

_FUNCTIONS = (
    script_main.introduce, script_main.version, script_main.read_call, script_main.read_codes, script_main.user_file,
    script_main.load, script_main.run, script_main.attempt, script_main.repeated, script_main.canonical, script_main.words,
    script_main.listed, script_main.compare, script_main.in_child, script_main.in_children,
    script_main.conclude, script_main.main,
)  # fmt: skip

_CONSTANTS = ("FRACTION_BITS", "LIMIT_SECONDS", "REPEAT_SECONDS", "MOST_TRIES", "TRY_SECONDS", "RETURNED")


def scripts_of(report: Json) -> dict[str, str]:
    """The script of every finding that has a witness, by the finding's id."""
    clauses = summary.clauses(report)
    findings = report["findings"]
    return {f["id"]: script_for(f, clauses.get(f["clause"])) for f in findings if f["witness"] is not None}


def script_for(finding: Json, clause: Json | None = None) -> str:
    """The text of the script.

    Args:
        finding: A finding of a report.
        clause: The report's entry of the finding's clause, to be quoted.
    """
    data = _data(finding, clause)
    literal = "FINDING: dict[str, Any] = " + pprint.pformat(data, width=110, sort_dicts=False)
    if summary.on_texts(finding):
        function = _text(script_main.on_texts).replace("def on_texts(", "def main(", 1)
        return "\n\n".join([_TEXTS_HEAD + "\n" + literal, function]) + "\n" + _TAIL
    oracle, target = oracle_of(finding["subject"]), data["oracle"]["target"] if data["oracle"] else ""
    constants = "\n".join(f"{name} = {getattr(script_main, name)!r}" for name in _CONSTANTS)
    needs = ", ".join(["NumPy", *(oracle.needs if oracle else ())])
    parts = [_HEAD % (needs, _TARGET_HEAD if target else "") + "\n" + literal, constants, *map(_text, _FUNCTIONS)]
    package = "xverify"
    # The in-house kernels are imported, because there the installed xverify is the implementation.
    if oracle is None or oracle.distribution != "xverify":
        package = "standalone"
        loaded = data["oracle"] or {"module": "xverify.core.call", "load": "Call", "path": ""}
        in_graph = bool((data["call"] or {}).get("around")) or loaded["path"].startswith("graph")
        parts.append(embedded(loaded["module"].replace("standalone.", "xverify."), loaded["load"], in_graph))
    parts.append(f"from {package}.core.call import {', '.join(_CORE)}  # noqa: E402")
    return "\n\n\n".join(part.strip("\n") for part in parts) + "\n\n" + _TAIL


def embedded(module: str, function: str, in_graph: bool = True) -> str:
    """The statements that make a function of xverify importable from the package "standalone".

    Args:
        module: A module of `xverify.oracles`.
        function: The name of a function in it.
        in_graph: False leaves out what only calls inside a graph need.
    """
    modules = sources(module, function, in_graph)
    entries = "".join(f"    {_standalone(name)!r}: {_quoted(_standalone(t))},\n" for name, t in modules.items())
    comment = "# The source of xverify that calls the implementation: what is needed of it."
    return f"{comment}\nSOURCES = {{\n{entries}}}\n\n\n{_EMBEDDED.strip()}"


# -- the implementation ----------------------------------------------------------------------------------


def implementation(subject: Mapping[str, Any]) -> str:
    """The name of the oracle behind a finding's subject, without option, setting and version.

    It is onnxruntime for onnxruntime:CPUExecutionProvider[threads=8]. A kernel of a user and an unknown implementation keep the
    whole name.
    """
    name = str(subject["name"])
    first = re.split(r"[:@[]|==", name, maxsplit=1)[0]
    oracle = all_oracles().get(first)
    return first if oracle is not None and (subject["role"] != "kernel" or oracle.role == "kernel") else name


def oracle_of(subject: Mapping[str, Any]) -> Oracle | None:
    """The oracle of a finding's subject. None for an unknown name.

    All kernels of users share one oracle.
    """
    name = implementation(subject)
    return all_oracles().get(name, USERS if ":" in name else None)


def environment(subject: Mapping[str, Any]) -> dict[str, str]:
    """The environment variables of an implementation, and those of the setting in a variant's name."""
    oracle = oracle_of(subject)
    if oracle is None:
        return {}
    wanted = [setting for setting in oracle.varies if setting.name == setting_of(subject["name"])]
    return dict([*oracle.environment, *(pair for setting in wanted for pair in setting.environment)])


def _oracle_data(finding: Json) -> Json | None:
    """The data by which a script loads the implementation. None for an unknown one."""
    subject = finding["subject"]
    oracle, name = oracle_of(subject), str(subject["name"])
    if oracle is None:
        return None
    location = name.rpartition(":")[0] if oracle is USERS else ""
    target = (
        "" if not location else "library" if is_library(location) else "file" if location.endswith(".py") else "module"
    )
    notes = (finding["witness"]["got"] or {}).get("notes", ()) if finding["witness"] else ()
    arguments = [*oracle.arguments]
    option = re.split(r"\[\w+=|==|@", name, maxsplit=1)[0].partition(":")[2]
    if target:
        arguments = [name]
    elif option:
        # with_option would look for the option's files here; a script runs elsewhere.
        arguments += option_arguments(oracle, name)
        target = "option" if "=" in option else ""
    arguments += [a for setting in oracle.varies if setting.name == setting_of(name) for a in setting.arguments]
    packages = (oracle.distribution, *oracle.distributions) if oracle.distribution else ()
    module = NATIVE_MODULE if target == "library" else oracle.module
    return {
        "module": module if oracle.distribution == "xverify" else _standalone(module),
        "load": oracle.load,
        "arguments": _plain(arguments),
        "target": target,
        "file": _plain(option.partition("=")[2]) if target == "option" else "",
        "packages": list(packages),
        "path": "threads" if target and "threads-differ" in notes else _plain(subject["options"]),
    }


def option_arguments(oracle: Oracle, name: str) -> list[str]:
    """The arguments for ``load`` that stand for the option in an implementation's name."""
    option = re.split(r"\[\w+=|==|@", name, maxsplit=1)[0].partition(":")[2]
    if not option:
        return []
    return [*getattr(importlib.import_module(oracle.module), "option_arguments", lambda option: ())(option)]


# -- the data --------------------------------------------------------------------------------------------


def _data(finding: Json, clause: Json | None) -> dict[str, Any]:
    """The finding as plain data."""
    witness, by = finding["witness"], finding["attribution"]
    data: dict[str, Any] = {
        "id": _plain(finding["id"]),
        "verdict": _plain(finding["verdict"]),
        "summary": _plain(finding["summary"]),
        "contract": _plain(finding["contract"]),
        "clause": _plain(finding["clause"]),
        "text": _plain(clause["text"] or clause["note"]) if clause else "",
        "document": _plain(clause["document"]) if clause else "",
        "subject": _plain(finding["subject"]),
        "oracle": None if summary.on_texts(finding) else _oracle_data(finding),
        "environment": environment(finding["subject"]),
        "attribution": _plain(by.get("words", by["reading"])) if by else "",
        "others": [f"{_plain(other['name'])}: {_plain(other['outcome'])}" for other in finding["others"]],
        "call": None,
        "got": None,
        "legal": [],
    }
    if witness is None:
        return data
    call, got = witness["call"], witness["got"]
    data["call"] = {
        "contract": _plain(call["contract"]),
        "attributes": _plain(call["attributes"]),
        "tensors": {_plain(role): _tensor(tensor) for role, tensor in call["tensors"].items()},
        "around": _plain(call.get("around", [])),
        "graph": summary.around(finding),
    }
    if got is not None:
        data["got"] = {name: _plain(got[name]) for name in ("kind", "error", "message", "notes")}
        data["got"]["tensor"] = None if got["tensor"] is None else _tensor(got["tensor"])
    data["legal"] = _plain(witness["legal"])
    return data


def _tensor(tensor: Mapping[str, Any]) -> dict[str, Any]:
    """A tensor with its values in one string each, which the pretty-printer folds at blanks."""
    data = _plain({name: tensor[name] for name in ("dtype", "shape", "layout")})
    if "hex" in tensor:
        data["decimal"] = _plain(" ".join(tensor["data"]))
        data["bits"] = _plain(" ".join(tensor["hex"]))
    else:
        data["file"] = _plain(tensor["file"])
    return dict(data)


def _plain(value: Any) -> Any:
    """A copy with only what a literal can spell: dicts, lists, strings, integers, booleans and None."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int)) else str(value)


# -- the sources -----------------------------------------------------------------------------------------

_OURS = ("xverify.core", "xverify.oracles")
"""The packages whose sources a script may contain."""


@dataclass(frozen=True)
class _Statement:
    """One statement at the top level of a module."""

    text: str
    uses: frozenset[str]
    """Names that it reads."""

    imports: tuple[tuple[str, str], ...]
    """Modules of xverify, and their names, that are imported inside it."""


@dataclass
class _Module:
    """The parts of a module."""

    statements: list[_Statement] = field(default_factory=list)
    defined: dict[str, int] = field(default_factory=dict)
    """The index of the statement that defines a name."""

    ours: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Names imported from modules of xverify: the module and the name there."""

    others: dict[str, str] = field(default_factory=dict)
    """Names imported from elsewhere: the text of the import."""


_GRAPHS = ("xverify.core.surroundings", "xverify.core.moves", "xverify.core.neighbours")
"""Modules that only calls inside a graph need."""


@cache
def sources(module: str, function: str, in_graph: bool = True) -> Mapping[str, str]:
    """The source text, by module, of all definitions of xverify that a function reaches.

    Args:
        module: A module of `xverify.oracles`.
        function: The name of a function in it.
        in_graph: False leaves out what only calls inside a graph need.
    """
    kept: dict[str, set[int]] = {}
    imported: dict[str, set[str]] = {}
    waiting = [(module, function), *(("xverify.core.call", name) for name in _CORE)]
    seen = set(waiting)
    while waiting:
        name, word = waiting.pop()
        parsed = _parsed(name)
        following: list[tuple[str, str]] = []
        kept.setdefault(name, set())
        if word in parsed.defined:
            index = parsed.defined[word]
            kept[name].add(index)
            statement = parsed.statements[index]
            following = [*((name, used) for used in statement.uses), *statement.imports]
        elif word in parsed.ours and (in_graph or parsed.ours[word][0] not in _GRAPHS):
            imported.setdefault(name, set()).add(word)
            following = [parsed.ours[word]]
        fresh = [item for item in following if item not in seen]
        seen.update(fresh)
        waiting += fresh
    return {name: _joined(_parsed(name), kept[name], imported.get(name, set())) for name in sorted(kept)}


def _joined(module: _Module, kept: set[int], imported: set[str]) -> str:
    """The source of a module with only some of its statements, and with their imports."""
    used = frozenset().union(*(module.statements[index].uses for index in kept))
    lines = sorted({text for name, text in module.others.items() if name in used})
    by_module: dict[str, list[str]] = {}
    for name in sorted(imported):
        where, word = module.ours[name]
        by_module.setdefault(where, []).append(word + (f" as {name}" if name != word else ""))
    lines += [f"from {where} import {', '.join(words)}" for where, words in by_module.items()]
    parts = [module.statements[index].text for index in sorted(kept)]
    return "\n\n".join(["from __future__ import annotations", "\n".join(lines), *parts]) + "\n"


@cache
def _parsed(name: str) -> _Module:
    """Parse a module of xverify into its parts."""
    text = inspect.getsource(importlib.import_module(name))
    lines, module, end = text.splitlines(), _Module(), 0
    for node in ast.parse(text).body:
        start, end = end, node.end_lineno or 0
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            _note_import(node, module)
        elif isinstance(node, ast.Expr):  # a docstring of the module, or of the name above it
            if module.statements:
                last = module.statements[-1]
                module.statements[-1] = _Statement(
                    last.text + "\n" + "\n".join(lines[start:end]), last.uses, last.imports
                )
        elif defined := list(_defined(node)):
            uses = frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name))
            module.defined.update(dict.fromkeys(defined, len(module.statements)))
            inner = tuple(_imports_inside(node))
            module.statements.append(_Statement("\n".join(lines[start:end]).strip("\n"), uses, inner))
    return module


def _defined(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name))


def _note_import(node: ast.Import | ast.ImportFrom, module: _Module) -> None:
    ours = isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_OURS)
    for alias in node.names:
        name = alias.asname or alias.name.partition(".")[0]
        if ours:
            module.ours[name] = (str(getattr(node, "module", "")), alias.name)
        else:
            module.others[name] = ast.unparse(type(node)(**{**vars(node), "names": [alias]}))


def _imports_inside(node: ast.stmt) -> Iterator[tuple[str, str]]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.ImportFrom) and (inner.module or "").startswith(_OURS):
            yield from ((str(inner.module), alias.name) for alias in inner.names)


def _standalone(text: str) -> str:
    """The source text under another package's name, because a kernel under test may import xverify itself."""
    return re.sub(r"\bxverify\.(core|oracles)\b", r"standalone.\1", text)


def _quoted(text: str) -> str:
    """Source text as a literal that people can read."""
    return repr(text) if "'''" in text else f"r'''{text}'''"


@cache
def _text(function: Callable[..., Any]) -> str:
    """The function's source, which Python finds by reading the whole module."""
    return inspect.getsource(function)
