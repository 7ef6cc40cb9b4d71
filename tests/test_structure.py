"""The order of the floors, and what a worker may see of us."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from folders import ROOT
from importlinter.cli import lint_imports


def test_each_floor_imports_only_from_those_below_it(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    status = lint_imports(no_cache=True)
    assert status == 0, capsys.readouterr().out


def _imports(path: Path) -> set[str]:
    """Names of the modules that the top level of a file imports."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def test_what_a_worker_imports_is_the_standard_library_numpy_and_what_carries_calls():
    ours = [f"xverify.core.{name}" for name in ("call", "moves", "surroundings")]
    allowed = {"numpy", "oracles", *ours} | set(sys.stdlib_module_names)
    files = [*sorted((ROOT / "oracles").glob("*.py")), *(ROOT / (name.replace(".", "/") + ".py") for name in ours)]
    assert len(files) > 8
    for path in files:
        for name in _imports(path):
            assert name in allowed or name.split(".")[0] in allowed - {"xverify"}, f"{path.name} imports {name}"


def test_nothing_is_pickled():
    for path in [*ROOT.glob("xverify/**/*.py"), *ROOT.glob("oracles/*.py"), *ROOT.glob("strategies/*.py")]:
        names = {name.split(".")[0] for name in _imports(path)}
        assert not names & {"pickle", "shelve", "marshal", "dill", "cloudpickle"}, path
