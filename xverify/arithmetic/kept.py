"""Results of searches and probes that are kept between runs.

A search for the readings that give certain codes takes tenths of a second, and the first minute of a sweep makes hundreds of
them. Their results depend on the operands and on xverify's own arithmetic alone. So a file keeps them, one file for each state
of the sources. Nothing depends on the file: an entry that is missing or damaged is computed again.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TypeVar

import ml_dtypes
import numpy as np

LARGEST = 1 << 18
"""Largest length in characters of a text that is kept."""

LARGEST_FILE = 1 << 26
"""Size in bytes. A run deletes a larger file when it starts."""

MOST_FILES = 4
"""The number of files that stay in the folder, those that were used last."""

_SOURCES = ("core", "arithmetic", "strategies")
"""The packages on which the results depend."""

T = TypeVar("T")


class _Kept:
    """Texts by key in a file of SQLite, each with its digest. Several processes may use it at once."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, timeout=0.2, isolation_level=None)
        try:
            self._connection.execute("PRAGMA synchronous=OFF")
            self._connection.execute("CREATE TABLE IF NOT EXISTS kept (key BLOB PRIMARY KEY, digest BLOB, text TEXT)")
        except sqlite3.Error:
            self._connection.close()
            raise

    def get(self, key: bytes) -> str | None:
        row = self._connection.execute("SELECT digest, text FROM kept WHERE key = ?", (key,)).fetchone()
        if row is None or not isinstance(row[1], str) or len(row[1]) > LARGEST or _digest(row[1]) != row[0]:
            return None
        return row[1]

    def put(self, key: bytes, text: str) -> None:
        if len(text) <= LARGEST:
            self._connection.execute("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", (key, _digest(text), text))

    def close(self) -> None:
        self._connection.close()


_FILE: ContextVar[_Kept | None] = ContextVar("searches", default=None)
"""The file of `searches_in`. Functions with a cache in memory, which call `kept`, cannot get it as an argument."""


@contextmanager
def searches_in(folder: Path | None) -> Iterator[None]:
    """Keep the results of searches in a folder while the block runs.

    A folder that cannot be written keeps nothing. A damaged file is deleted.

    Args:
        folder: The folder; None to keep nothing.
    """
    file = None
    if folder is not None:
        with suppress(sqlite3.Error, OSError):
            file = _opened(folder)
    token = _FILE.set(file)
    try:
        yield
    finally:
        _FILE.reset(token)
        if file is not None:
            file.close()


def kept(key: object, compute: Callable[[], T], write: Callable[[T], str], read: Callable[[str], T]) -> T:
    """The result for a key: read from the file of `searches_in`, or computed and kept there.

    Args:
        key: The name of the function and its arguments, whose ``repr`` tells them apart.
        compute: The function that computes the result.
        write: A function from the result to a text.
        read: Its inverse. It raises ValueError, TypeError, KeyError or IndexError for a text that is none.
    """
    file = _FILE.get()
    if file is None:
        return compute()
    digest = _digest(repr(key))
    with suppress(sqlite3.Error, ValueError, TypeError, KeyError, IndexError):
        text = file.get(digest)
        if text is not None:
            return read(text)
    result = compute()
    with suppress(sqlite3.Error):
        file.put(digest, write(result))
    return result


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _opened(folder: Path) -> _Kept | None:
    state = _state()
    if not state:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"searches-{state}.sqlite"
    others = [(_used(each), each) for each in folder.glob("searches-*.sqlite") if each != path]
    for _, old in sorted(others, reverse=True)[MOST_FILES - 1 :]:
        old.unlink(missing_ok=True)
    if path.exists() and path.stat().st_size > LARGEST_FILE:
        path.unlink()
    try:
        file = _Kept(path)
    except sqlite3.OperationalError:
        raise  # another process has the file, or the disk is full
    except sqlite3.DatabaseError:
        path.unlink()
        file = _Kept(path)
    os.utime(path)
    return file


def _used(path: Path) -> float:
    """The time when a file was used last, in seconds since 1970; 0 if it is gone."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _state() -> str:
    """A digest of the sources and versions on which results depend; empty without sources."""
    digest = hashlib.sha256(f"{sys.version_info[:2]} {np.__version__} {ml_dtypes.__version__}".encode())
    root = Path(__file__).parent.parent
    paths = [path for package in _SOURCES for path in sorted((root / package).rglob("*.py"))]
    for path in paths:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16] if paths else ""
