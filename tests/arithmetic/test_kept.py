"""Results of searches that are kept between runs."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from linear_operands import triples

from xverify.arithmetic import kept as keeping
from xverify.arithmetic import lattice
from xverify.arithmetic.kept import LARGEST, MOST_FILES, kept, searches_in
from xverify.arithmetic.readings import EXACT, FLOAT32, Stepwise
from xverify.arithmetic.simplify import Types
from xverify.strategies import probes as probing

TYPES = Types("int8", "int8", "float32", "float32")


def counted(key: object, made: list[int], text: int = 7) -> int:
    """A kept number, which counts its computations."""

    def compute() -> int:
        made.append(text)
        return text

    return kept(key, compute, str, int)


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("searches-*.sqlite"))


def test_a_result_is_computed_once_for_all_runs(tmp_path: Path) -> None:
    made: list[int] = []
    for _ in range(3):
        with searches_in(tmp_path):
            assert counted(("search", 1), made) == 7
    assert made == [7]


def test_each_key_has_a_result_of_its_own(tmp_path: Path) -> None:
    made: list[int] = []
    with searches_in(tmp_path):
        assert [counted(("search", each), made, each) for each in (1, 2, 1)] == [1, 2, 1]
    assert made == [1, 2]


def test_nothing_is_kept_outside_of_a_run(tmp_path: Path) -> None:
    made: list[int] = []
    with searches_in(tmp_path):
        pass
    with searches_in(None):
        counted("key", made)
    counted("key", made)
    assert made == [7, 7]


@pytest.mark.parametrize(
    ("column", "content"),
    [("text", "8"), ("text", b"7"), ("text", None), ("text", "7" * (LARGEST + 1)), ("digest", b""), ("digest", None)],
)
def test_a_damaged_entry_is_computed_again(tmp_path: Path, column: str, content: object) -> None:
    made: list[int] = []
    with searches_in(tmp_path):
        counted("key", made)
    with sqlite3.connect(files(tmp_path)[0]) as connection:
        assert connection.execute(f"UPDATE kept SET {column} = ?", (content,)).rowcount == 1
    with searches_in(tmp_path):
        assert counted("key", made) == 7
        assert counted("key", made) == 7
    assert made == [7, 7]


def test_a_text_that_is_too_long_is_not_kept(tmp_path: Path) -> None:
    made: list[int] = []

    def compute() -> int:
        made.append(7)
        return 7

    with searches_in(tmp_path):
        for _ in range(2):
            assert kept("key", compute, lambda number: "7" * (LARGEST + 1), len) == 7
    assert made == [7, 7]


def test_a_result_that_cannot_be_read_is_replaced(tmp_path: Path) -> None:
    with searches_in(tmp_path):
        assert kept("key", lambda: 7, lambda number: "seven", int) == 7
    made: list[int] = []
    for _ in range(2):
        with searches_in(tmp_path):
            assert counted("key", made) == 7
    assert made == [7]


def test_a_damaged_file_begins_anew(tmp_path: Path) -> None:
    made: list[int] = []
    with searches_in(tmp_path):
        counted("key", made)
    files(tmp_path)[0].write_bytes(b"no database" * 1000)
    for _ in range(2):
        with searches_in(tmp_path):
            assert counted("key", made) == 7
    assert made == [7, 7]


def test_a_file_that_another_process_has_locked_keeps_nothing(tmp_path: Path) -> None:
    made: list[int] = []
    with searches_in(tmp_path):
        counted("key", made)
    other = sqlite3.connect(files(tmp_path)[0])
    other.execute("BEGIN EXCLUSIVE")
    with searches_in(tmp_path):
        assert counted("key", made) == 7
    other.close()
    assert made == [7, 7]


def test_without_sources_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "_SOURCES", ())
    made: list[int] = []
    for _ in range(2):
        with searches_in(tmp_path):
            counted("key", made)
    assert made == [7, 7]
    assert not files(tmp_path)


def test_a_folder_that_cannot_be_made_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    made: list[int] = []
    with searches_in(tmp_path / "file" / "folder"):
        assert counted("key", made) == 7


def test_files_of_other_sources_are_removed_oldest_first(tmp_path: Path) -> None:
    for age in range(MOST_FILES + 3):
        old = tmp_path / f"searches-{age}.sqlite"
        old.write_bytes(b"")
        os.utime(old, (1e9 - age, 1e9 - age))
    with searches_in(tmp_path):
        pass
    left = {path.name for path in files(tmp_path)}
    assert len(left) == MOST_FILES
    assert {f"searches-{age}.sqlite" for age in range(MOST_FILES - 1)} < left
    (own,) = left - {f"searches-{age}.sqlite" for age in range(MOST_FILES)}
    os.utime(tmp_path / own, (1e9, 1e9))
    with searches_in(tmp_path):
        assert (tmp_path / own).stat().st_mtime > 1e9, "a file that is only read is used, too"


def test_a_file_that_is_too_large_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    with searches_in(tmp_path):
        counted("key", made)
    monkeypatch.setattr(keeping, "LARGEST_FILE", 1)
    with searches_in(tmp_path):
        counted("key", made)
    assert made == [7, 7]


def test_other_sources_have_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    with searches_in(tmp_path):
        counted("key", made)
    monkeypatch.setattr(keeping, "_SOURCES", ("core",))
    with searches_in(tmp_path):
        counted("key", made)
    assert made == [7, 7]
    assert len(files(tmp_path)) == 2


def nothing(*arguments: object) -> Any:
    raise AssertionError("it was computed again")


def test_a_search_gives_the_same_from_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    operands = triples(TYPES, 6, 3)
    codes = EXACT.evaluate(operands)

    def searched(folder: Path | None) -> tuple[Stepwise, ...]:
        lattice._searched.cache_clear()
        with searches_in(folder):
            return lattice.searched(operands, codes, (EXACT, FLOAT32))

    every = [searched(None), searched(tmp_path)]
    monkeypatch.setattr(lattice, "_giving", nothing)
    every.append(searched(tmp_path))
    assert len(every[0]) > 1
    assert every[0] == every[1] == every[2]
    lattice._searched.cache_clear()


@pytest.mark.parametrize("types", [TYPES, Types("uint8", "", "float16", "float16")])
def test_probes_are_the_same_from_the_file(tmp_path: Path, types: Types, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(folder: Path | None) -> probing.Probes:
        probing.probes.cache_clear()
        with searches_in(folder):
            return probing.probes(types, (EXACT, FLOAT32))

    first, *others = [made(None), made(tmp_path)]
    monkeypatch.setattr(probing, "_chosen", nothing)
    for other in (*others, made(tmp_path)):
        assert (first.x.dtype, first.x.tobytes()) == (other.x.dtype, other.x.tobytes())
        assert (first.scale.dtype, first.scale.tobytes()) == (other.scale.dtype, other.scale.tobytes())
        assert (first.zero_point is None) == (other.zero_point is None) == (not types.zero_point)
        assert first.zero_point is None or np.array_equal(first.zero_point, other.zero_point)
        assert first.left == other.left
    probing.probes.cache_clear()


@pytest.mark.parametrize("text", ["[[1, 2]]", json.dumps([["exact"] * 8]), "[", "7"])
def test_a_text_that_describes_no_readings_is_refused(text: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        lattice.from_text(text)


@pytest.mark.parametrize("zero_points", [None, [[1]] * 2, [1] * 3])
def test_a_text_that_describes_no_probes_is_refused(zero_points: Any) -> None:
    text = json.dumps([[[0] * probing.WIDTH] * 2, zero_points, [1, 2], "[]"])
    with pytest.raises((ValueError, TypeError)):
        probing._from_text(TYPES, text)


def test_a_sweep_keeps_its_searches(tmp_path: Path) -> None:
    words = ["--contract", "onednn/DynamicDequantize-1@multiply", "--oracle", "onednn-formula-multiply"]
    command = [sys.executable, "-m", "xverify", "sweep", *words, "--cases", "2", "--runs", str(tmp_path / "runs")]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "XVERIFY_CACHE": str(tmp_path)})
    with sqlite3.connect(files(tmp_path)[0]) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone()[0] > 0
