"""The plug-in of pytest: its options, and the fixture that verifies a kernel."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib import import_module

import pytest
from folders import ROOT, SUPPORT
from suite_kernels import EDITION, NARROW


@pytest.fixture
def suite(tmp_path):
    """Return a function that runs pytest on a test of the fixture, in a directory and process of its own.

    pytest loads the plug-in by its entry point.
    """
    information = tmp_path / "installed" / "probe-1.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: probe\nVersion: 1\n", encoding="utf-8")
    points = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]["pytest11"]
    listed = "".join(f"{name} = {module}\n" for name, module in points.items())
    (information / "entry_points.txt").write_text(f"[pytest11]\n{listed}", encoding="utf-8")
    (tmp_path / "test_it.py").write_text(
        "from hypothesis import settings\n\nsettings.register_profile('few', max_examples=5)\n"
        "settings.load_profile('few')\n\n\ndef test_it(xverify_kernel):\n"
        "    assert xverify_kernel.budget == '40s'\n    if xverify_kernel.target.endswith('wrong'):\n"
        f"        xverify_kernel.verify({EDITION!r}, **{NARROW!r})\n",
        encoding="utf-8",
    )
    (tmp_path / "kernels.py").write_text(
        f"import sys\nsys.path.insert(0, {str(SUPPORT)!r})\n"
        "from suite_kernels import sound, wrong_at\nwrong = wrong_at(128)\n",
        encoding="utf-8",
    )

    def run(*options: str, ini: str = "") -> tuple[dict[str, int], str]:
        (tmp_path / "pytest.ini").write_text(f"[pytest]\n{ini}\n", encoding="utf-8")
        paths = (str(tmp_path / "installed"), os.environ.get("PYTHONPATH", ""))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        command = [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", *options]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200)
        words = ("passed", "failed", "skipped")
        return {word: f"1 {word}" in done.stdout.splitlines()[-1] for word in words}, done.stdout + done.stderr

    return run


def test_without_a_kernel_the_test_is_skipped_with_a_sentence(suite):
    came, text = suite()
    assert came == {"passed": False, "failed": False, "skipped": True}, text
    assert "no kernel is named: add --xverify-kernel TARGET" in text


def test_the_option_names_the_kernel(suite):
    came, text = suite("--xverify-kernel", "kernels.py:wrong", "--xverify-budget", "40s")
    assert came["failed"], text
    assert "KernelError: kernels.py:wrong: 1 new finding" in text
    assert "xverify replay" in text
    assert "xverify/gate" not in text  # no frame of xverify is shown


def test_so_does_the_ini_file(suite):
    came, text = suite(ini="xverify_kernel = kernels.py:sound\nxverify_budget = 40s")
    assert came["passed"], text


def test_the_entry_point_is_the_plugin_and_costs_nothing():
    points = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]["pytest11"]
    assert callable(import_module(points["xverify"]).pytest_addoption)
    script = (
        "import sys, pytest; before = set(sys.modules); import xverify.pytest_plugin\n"
        "new = set(sys.modules) - before\nassert new <= {'xverify', 'xverify.pytest_plugin'}, new\n"
    )
    assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == 0
