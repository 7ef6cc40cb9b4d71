"""Results of searches that are kept between runs."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from linear_operands import triples

from xverify.arithmetic import kept as keeping
from xverify.arithmetic import lattice
from xverify.arithmetic.kept import LARGEST, MOST_FILES, kept, searches_in
from xverify.arithmetic.readings import EXACT, FLOAT32
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


@pytest.mark.parametrize("text", ["not a number", "", 5.5, None, "7" * (LARGEST + 1)])
def test_a_damaged_entry_is_computed_again(tmp_path: Path, text: object) -> None:
    made: list[int] = []
    with searches_in(tmp_path):
        counted("key", made)
    with sqlite3.connect(files(tmp_path)[0]) as connection:
        connection.execute("DROP TABLE kept")
        connection.execute("CREATE TABLE kept (key BLOB PRIMARY KEY, text)")
        connection.execute("INSERT INTO kept SELECT ?, ?", (b"other", "1"))
        connection.execute("UPDATE kept SET text = ?", (text,))
    with searches_in(tmp_path):
        assert counted("key", made) == 7
        assert counted("key", made) == 7
    assert made == [7, 7]


def test_a_result_that_cannot_be_read_is_replaced(tmp_path: Path) -> None:
    with searches_in(tmp_path):
        assert kept("key", lambda: 7, lambda number: "seven", int) == 7
    made: list[int] = []
    for _ in range(2):
        with searches_in(tmp_path):
            assert counted("key", made) == 7
    assert made == [7]


def test_a_damaged_file_keeps_nothing(tmp_path: Path) -> None:
    made: list[int] = []
    with searches_in(tmp_path):
        counted("key", made)
    files(tmp_path)[0].write_bytes(b"no database" * 1000)
    with searches_in(tmp_path):
        assert counted("key", made) == 7
    assert made == [7, 7]


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
        old.with_name(old.name + "-wal").write_bytes(b"")
    with searches_in(tmp_path):
        pass
    left = {path.name for path in files(tmp_path)}
    assert len(left) == MOST_FILES
    assert {f"searches-{age}.sqlite" for age in range(MOST_FILES - 1)} < left
    assert not (tmp_path / f"searches-{MOST_FILES}.sqlite-wal").exists()


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


def test_a_search_gives_the_same_from_the_file(tmp_path: Path) -> None:
    operands = triples(TYPES, 6, 3)
    codes = EXACT.evaluate(operands)
    every = []
    for folder in (None, tmp_path, tmp_path):
        lattice._searched.cache_clear()
        with searches_in(folder):
            every.append(lattice.searched(operands, codes, (EXACT, FLOAT32)))
    assert len(every[0]) > 1
    assert every[0] == every[1] == every[2]


def test_probes_are_the_same_from_the_file(tmp_path: Path) -> None:
    for types in (TYPES, Types("uint8", "", "float16", "float16")):
        every = []
        for folder in (None, tmp_path, tmp_path):
            probing.probes.cache_clear()
            with searches_in(folder):
                every.append(probing.probes(types, (EXACT, FLOAT32)))
        probing.probes.cache_clear()
        first, *others = every
        for other in others:
            assert np.array_equal(first.x, other.x)
            assert first.x.dtype == other.x.dtype
            assert np.array_equal(first.scale, other.scale)
            assert (first.zero_point is None) == (other.zero_point is None)
            assert first.zero_point is None or np.array_equal(first.zero_point, other.zero_point)
            assert first.left == other.left


@pytest.mark.parametrize("text", ["[[1, 2]]", json.dumps([["exact"] * 8]), "[", "7"])
def test_a_text_that_describes_no_readings_is_refused(text: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        lattice.from_text(text)
