"""Results of searches that are kept between runs.

A search for the readings that give certain codes takes tenths of a second, and the first minute of a sweep makes hundreds of
them. Their results depend on the operands and on xverify's own arithmetic alone. So a file keeps them, one file for each state
of the sources. Nothing depends on the file: an entry that is missing or damaged is computed again.
"""

from __future__ import annotations

import hashlib
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TypeVar

import numpy as np

LARGEST = 1 << 18
"""Largest length of a text that is kept."""

LARGEST_FILE = 1 << 26
"""Bytes of a file from which it begins anew."""

MOST_FILES = 4
"""The number of files that stay in the folder, those that were used last."""

_SOURCES = ("core", "arithmetic", "strategies")
"""The packages on which the results depend."""

T = TypeVar("T")


class _Kept:
    """Texts by key in a file of SQLite. Several processes may use it at once."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, timeout=0.2, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=OFF")
        self._connection.execute("CREATE TABLE IF NOT EXISTS kept (key BLOB PRIMARY KEY, text TEXT NOT NULL)")

    def get(self, key: bytes) -> str | None:
        row = self._connection.execute("SELECT text FROM kept WHERE key = ?", (key,)).fetchone()
        return row[0] if row and isinstance(row[0], str) and len(row[0]) <= LARGEST else None

    def put(self, key: bytes, text: str) -> None:
        if len(text) <= LARGEST:
            self._connection.execute("INSERT OR REPLACE INTO kept VALUES (?, ?)", (key, text))

    def close(self) -> None:
        self._connection.close()


_FILE: ContextVar[_Kept | None] = ContextVar("searches", default=None)


@contextmanager
def searches_in(folder: Path | None) -> Iterator[None]:
    """Keep the results of searches in a folder while the block runs.

    A folder that cannot be written, or a damaged file, keeps nothing.

    Args:
        folder: The folder; None to keep nothing.
    """
    file = None if folder is None else _opened(folder)
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
        read: Its inverse. It raises ValueError, TypeError, KeyError or IndexError for a damaged text.
    """
    file = _FILE.get()
    if file is None:
        return compute()
    digest = hashlib.sha256(repr(key).encode()).digest()
    with suppress(sqlite3.Error, ValueError, TypeError, KeyError, IndexError):
        text = file.get(digest)
        if text is not None:
            return read(text)
    result = compute()
    with suppress(sqlite3.Error):
        file.put(digest, write(result))
    return result


def _opened(folder: Path) -> _Kept | None:
    path = folder / f"searches-{_state()}.sqlite"
    with suppress(sqlite3.Error, OSError):
        folder.mkdir(parents=True, exist_ok=True)
        others = [each for each in folder.glob("searches-*.sqlite") if each != path]
        others.sort(key=lambda each: each.stat().st_mtime, reverse=True)
        is_full = path.exists() and path.stat().st_size > LARGEST_FILE
        for old in (*others[MOST_FILES - 1 :], *([path] if is_full else [])):
            for part in (old, *(old.with_name(old.name + end) for end in ("-wal", "-shm"))):
                part.unlink(missing_ok=True)
        return _Kept(path)
    return None


def _state() -> str:
    """A digest of the sources, and of the versions of Python and NumPy."""
    digest = hashlib.sha256(f"{sys.version_info[:2]} {np.__version__}".encode())
    root = Path(__file__).parent.parent
    for package in _SOURCES:
        for path in sorted((root / package).rglob("*.py")):
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]
