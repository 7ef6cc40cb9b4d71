"""Implementations leave the home of the user as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path

import pytest

from xverify import contracts
from xverify.oracles import all_oracles, installed_version
from xverify.oracles.plugin import USERS
from xverify.oracles.protocol import Oracle
from xverify.report import load
from xverify.workers.home import environment, has_own_home

FAKE = Oracle("fake", "numpy", ("*",), ("*",), "fake_oracles")


def one_of_each_package() -> list[Oracle]:
    """The first implementation of each installed package."""
    chosen: dict[str, Oracle] = {}
    for oracle in all_oracles().values():
        if has_own_home(oracle) and installed_version(oracle):
            chosen.setdefault(oracle.distribution, oracle)
    return list(chosen.values())


def options(oracle: Oracle) -> list[str]:
    """The options of a sweep that run the implementation under one edition that judges it."""
    edition = next(identity for identity in contracts.ids() if fnmatchcase(identity, oracle.judged_by[0]))
    return ["--oracle", oracle.name, "--contract", edition]


def test_sweeps_started_at_once_leave_the_home_as_it_was_and_share_no_directory(tmp_path: Path) -> None:
    home, temporary, runs = (tmp_path / name for name in ("home", "tmp", "runs"))
    home.mkdir()
    temporary.mkdir()
    (home / ".bashrc").write_text("# mine")
    outside = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    outside |= {"HOME": str(home), "TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"}
    every = one_of_each_package()
    started = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "xverify",
                "sweep",
                "--cases",
                "6",
                "--runs",
                str(runs),
                *chain(*map(options, half)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=outside,
        )
        for half in (every[::2], every[1::2])
    ]
    for process in started:
        output = process.communicate(timeout=120)[0]
        assert process.returncode == 0, output
    directories = sorted(runs.iterdir())
    workers = [worker for run in directories for worker in load(run / "report.json")["run"]["workers"]]
    assert {worker["status"] for worker in workers} == {"answered"}
    assert {worker["name"] for worker in workers} >= {oracle.name for oracle in every}
    assert len(directories) == len(started)
    left = [path for path in home.rglob("*") if not path.is_relative_to(home / ".cache" / "xverify")]
    assert [path.relative_to(home) for path in left if path.name != ".cache"] == [Path(".bashrc")]
    assert not list(temporary.iterdir())


def test_only_kernels_keep_the_home_of_the_user() -> None:
    assert has_own_home(FAKE)
    for role in ("kernel", "oracle"):  # `gate --like` gives a kernel of the user the second role
        assert not has_own_home(replace(USERS, name="mine", role=role))
    assert not has_own_home(all_oracles()["xverify-numpy"])


@pytest.mark.parametrize(
    ("outside", "packages"),
    [({"HOME": "/home/me"}, "/home/me/.local"), ({"HOME": "/home/me", "PYTHONUSERBASE": "/opt/mine"}, "/opt/mine")],
)
def test_an_own_home_keeps_the_packages_of_the_user(outside: dict[str, str], packages: str) -> None:
    variables = environment(Path("/run/home"), outside)
    assert variables["HOME"] == "/run/home"
    assert variables["XDG_CACHE_HOME"] == "/run/home/.cache"
    assert variables["PYTHONUSERBASE"] == packages
    assert set(environment(None, outside)) == {"ORT_DISABLE_TELEMETRY"}
