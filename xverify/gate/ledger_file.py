"""The ledger's file: TOML that people read and edit by hand.

It is changed as text, so that their comments, order and spacing stay; a damaged one is refused with the line.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from xverify.core.errors import DamagedFileError, WrongFieldError
from xverify.gate.ledger import Entry, Ledger
from xverify.gate.ledger_entry import check_names, entry_from_table, entry_to_toml
from xverify.verify.details import modernized

MOST_BYTES = 4 << 20
"""Ledgers larger than this are neither written nor read."""

HEADER = """\
# Findings that are known and accepted for a while. `xverify gate` passes over a finding that an entry here covers and
# fails on any other: on a new one, on one whose entry has expired, and on one whose values another recipe gives now.
# `xverify ledger accept FINDING --reason "..."` adds an entry, `xverify ledger prune` removes those that no longer
# occur. Editing by hand is welcome: a field of a scope that is left out holds for any call, and words may be globs.
format = 2
"""

FORMAT = 2
"""The newest format of the file. Format 1, of files without the field, has prose for details: `read` translates them."""

_ENTRY_HEADER = re.compile(r"""[ \t]*\[\[[ \t]*["']?known["']?[ \t]*\]\]""")
_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_MOST_LINES = 200
"""Of an entry, among which a mistake is looked for, which takes their square; beyond, the line of its header is told."""

_MOST_LOOKALIKES = 50
"""Lines in a string that look like headers; more are taken for a string that does not end."""


def read(path: Path) -> Ledger:
    """The ledger in a file; an empty one when there is no file.

    Raises DamagedFileError, with the path, the line and what is expected there, when it is not a ledger.
    """
    return _ledger(path, _text(path)[0])


def accept(path: Path, entry: Entry) -> None:
    """Add an entry at the end of the file, which is made when there is none.

    Raises DamagedFileError when the file is not a ledger, ValueError when the entry's name is taken or a field of it is not
    what a ledger may hold.
    """
    text, newline = _text(path)
    ledger = _ledger(path, text)
    if any(known.name == entry.name for known in ledger.entries):
        raise ValueError(
            f"{path} has an entry {entry.name!r} already: change its reason or its expiry there, prune it first, or "
            "give the new entry another name"
        )
    written = entry_to_toml(entry)
    try:
        same = entry_from_table(tomllib.loads(written)["known"][0])
    except WrongFieldError as error:
        raise ValueError(f"the entry {entry.name!r} cannot be written: {error}") from None
    if same != entry:
        raise ValueError(f"the entry {entry.name!r} cannot be written: read again, it would be another one")
    before = (text or HEADER).removesuffix("\n")
    _replace(path, f"{before}\n\n{written}", newline, Ledger((*ledger.entries, entry)))


def prune(path: Path, names: Collection[str]) -> None:
    """Remove the entries of these names, each with the comment lines right above its header.

    Raises DamagedFileError when the file is not a ledger, ValueError when it has no entry of some name.
    """
    text, newline = _text(path)
    ledger = _ledger(path, text)
    if missing := sorted(set(names) - {entry.name for entry in ledger.entries}):
        raise ValueError(f"{path} has no entry {', '.join(map(repr, missing))}; `xverify ledger list` shows all names")
    lines = text.split("\n")
    spans = _spans(lines, _entry_starts(lines))
    for entry, (start, end) in reversed(list(zip(ledger.entries, spans, strict=True))):
        if entry.name in names:
            del lines[start:end]
    left = Ledger(tuple(entry for entry in ledger.entries if entry.name not in names))
    _replace(path, "\n".join(lines).rstrip("\n") + "\n", newline, left)


# -- reading ----------------------------------------------------------------------------------------------


def _text(path: Path) -> tuple[str, str]:
    """The file's text with lines that end in a line feed, "" when there is none; and how its lines end in the file."""
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise DamagedFileError(f"{path} has {size} bytes; a ledger of more than {MOST_BYTES} is refused")
        raw = path.read_bytes()
    except FileNotFoundError:
        return "", "\n"
    except OSError as error:
        raise DamagedFileError(f"{path} cannot be read: {error.strerror}") from None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DamagedFileError(f"{path}, line {line}: a byte 0x{raw[error.start]:02x} that is not UTF-8") from None
    return text.replace("\r\n", "\n"), "\r\n" if "\r\n" in text else "\n"


def _ledger(path: Path, text: str) -> Ledger:
    lines = text.split("\n")
    starts = _entry_starts(lines)
    try:
        whole = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        place = _PLACE.search(str(error))
        line = int(place[1]) if place and place[1] else _line(lines, ([0, *starts])[-1], None)
        reason = "brackets are nested too deep" if isinstance(error, RecursionError) else _PLACE.sub("", str(error))
        raise DamagedFileError(f"{path}, line {line}: not TOML: {reason}") from None
    try:
        check_names(whole, ("format", "known"), ())
        version = _format(whole)
        tables = whole.get("known", [])
        if not isinstance(tables, list) or len(tables) != len(starts):
            raise WrongFieldError(("known",), "write each entry as a table under a header [[known]]")
    except WrongFieldError as error:
        line = next((found for start in (0, *starts) if (found := _line(lines, start, error.keys))), 1)
        raise DamagedFileError(f"{path}, line {line}: {error}") from None
    entries: dict[str, Entry] = {}
    for table, start in zip(tables, starts, strict=True):
        try:
            entry = entry_from_table(table)
            if entry.name in entries:
                raise WrongFieldError(("name",), f"an entry above has the name {entry.name!r} too; give this another")
        except WrongFieldError as error:
            line = _line(lines, start, ("known", *error.keys)) or start + 1
            raise DamagedFileError(f"{path}, line {line}: {error}") from None
        entries[entry.name] = entry if version > 1 else replace(entry, detail=modernized(entry.verdict, entry.detail))
    return Ledger(tuple(entries.values()))


def _format(whole: dict[str, Any]) -> int:
    version = whole.get("format", 1)
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= FORMAT:
        expected = f"expected a format from 1 to {FORMAT}, got {version!r}"
        raise WrongFieldError(("format",), f"{expected}; a newer xverify may have written the file")
    return version


# -- lines ------------------------------------------------------------------------------------------------


def _entry_starts(lines: list[str]) -> list[int]:
    """Where the entries' headers are, from 0.

    A line in a string of several lines may look like a header: what comes before a header is whole TOML by itself.
    """
    starts: list[int] = []
    begin = lookalikes = 0
    for number, line in enumerate(lines):
        if not _ENTRY_HEADER.match(line):
            continue
        if _table(lines[begin:number]) is not None:
            starts.append(number)
            begin, lookalikes = number, 0
        elif (lookalikes := lookalikes + 1) == _MOST_LOOKALIKES:
            break
    return starts


def _table(lines: list[str]) -> dict[str, Any] | None:
    """The TOML of some lines; None where it is not whole."""
    try:
        return tomllib.loads("\n".join(lines))
    except (ValueError, RecursionError):
        return None


def _line(lines: list[str], start: int, keys: tuple[str, ...] | None) -> int:
    """The line, from 1, on which the field begins that ``keys`` lead to, in what begins on line ``start`` (from 0); 0 where
    it is not there. keys: None for the field that does not end."""
    done = start
    for number in range(start + 1, min(len(lines), start + _MOST_LINES) + 1):
        if _table(lines[done:number]) is None:
            continue
        if keys is not None and _leads(_table(lines[start:number]), keys):
            return done + 1
        done = number
    return done + 1 if keys is None else 0


def _leads(found: object, keys: tuple[str, ...]) -> bool:
    for key in keys:
        table = found[0] if isinstance(found, list) and found else found
        if not isinstance(table, dict) or key not in table:
            return False
        found = table[key]
    return True


def _spans(lines: list[str], starts: list[int]) -> list[tuple[int, int]]:
    """The lines of each entry: from the comment right above its header to the comment right below its last line, and the
    blank lines after it if there are such before it too."""
    heads = [_head(lines, start) for start in starts]
    spans = []
    for head, beyond in zip(heads, [*heads[1:], len(lines)], strict=True):
        end = beyond
        while _is_blank(lines[end - 1]) or _is_comment(lines[end - 1]):
            end -= 1
        while end < beyond and _is_comment(lines[end]):
            end += 1
        while end < beyond and _is_blank(lines[end]) and (not head or _is_blank(lines[head - 1])):
            end += 1
        spans.append((head, end))
    return spans


def _head(lines: list[str], start: int) -> int:
    """Where the comment right above a header begins; the comment at the top of the file is no entry's."""
    head = start
    while head and _is_comment(lines[head - 1]):
        head -= 1
    return head or start


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _is_blank(line: str) -> bool:
    return not line.strip()


# -- writing ----------------------------------------------------------------------------------------------


def _replace(path: Path, text: str, newline: str, expected: Ledger) -> None:
    """Write the file so that it is either the old one or the whole new one, which must hold the expected entries."""
    raw = text.replace("\n", newline).encode("utf-8")
    if len(raw) > MOST_BYTES:
        raise ValueError(f"{path} would have {len(raw)} bytes; a ledger of more than {MOST_BYTES} is refused")
    if _ledger(path, text) != expected:
        raise ValueError(f"{path} is written in a way that cannot be changed here; change it by hand")
    target = path.resolve()  # a link stays one
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".partial")
    with partial.open("wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, target)
