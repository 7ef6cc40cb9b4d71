"""The structure of the code: floors, cycles, and what a worker process may import."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import grimp
from folders import ROOT
from importlinter.cli import lint_imports

CARRIERS = (
    "core/call.py",
    "core/moves.py",
    "core/neighbours.py",
    "core/surroundings.py",
    "workers/child.py",
    "workers/fork_server.py",
)
"""Modules that travel to workers, beside the oracles."""


def test_each_floor_imports_only_from_those_below_it(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    status = lint_imports(no_cache=True)
    assert status == 0, capsys.readouterr().out


def cycles(graph: grimp.ImportGraph) -> list[list[str]]:
    """Groups of modules that import each other, directly or by way of others."""
    reachable = {module: graph.find_upstream_modules(module) for module in graph.modules}
    groups = {
        tuple(sorted({module} | {other for other in upstream if module in reachable[other]}))
        for module, upstream in reachable.items()
    }
    return [list(group) for group in sorted(groups) if len(group) > 1]


def test_no_modules_import_each_other():
    graph = grimp.build_graph("xverify", exclude_type_checking_imports=True, cache_dir=None)
    assert cycles(graph) == []


def test_a_cycle_is_found():
    graph = grimp.ImportGraph()
    for importer, imported in (("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")):
        graph.add_import(importer=importer, imported=imported)
    assert cycles(graph) == [["a", "b", "c"]]


def _imports(path: Path) -> set[str]:
    """Names of the modules that the top level of a file imports."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


def test_a_worker_imports_the_standard_library_numpy_and_what_carries_calls():
    ours = tuple("xverify." + name.removesuffix(".py").replace("/", ".") for name in CARRIERS)
    files = [*sorted((ROOT / "oracles").glob("*.py")), *(ROOT / "xverify" / name for name in CARRIERS)]
    assert len(files) > 8
    for path in files:
        for name in _imports(path):
            outside = name.split(".")[0] in {"numpy", *sys.stdlib_module_names}
            assert outside or name in ours or name.startswith("xverify.oracles"), f"{path.name} imports {name}"


def test_nothing_is_pickled():
    for path in [*ROOT.glob("xverify/**/*.py"), *ROOT.glob("oracles/*.py"), *ROOT.glob("strategies/*.py")]:
        names = {name.split(".")[0] for name in _imports(path)}
        assert not names & {"pickle", "shelve", "marshal", "dill", "cloudpickle"}, path
