"""The file of a ledger: TOML that people read and edit by hand.

Each entry is a table ``[[known]]``. The file is changed as text, so that comments, order and spacing stay. A damaged file is
refused, with the line and what is expected there.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

from xverify.core.errors import DamagedFileError, WrongFieldError
from xverify.core.line import call_from_line
from xverify.gate.ledger import VERDICTS, Entry, Ledger, Recipes
from xverify.gate.regions import region_from_name
from xverify.gate.scope import FIELDS, Condition, matches
from xverify.verify.details import modernized

MOST_BYTES = 4 << 20
"""The largest file, in bytes, that is read or written."""

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
_POSITION = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_MOST_LINES = 200
"""The longest entry, in lines, in which a mistake is located: that takes quadratic time.

For a longer entry the line of its header is reported.
"""

_MOST_LOOKALIKES = 50
"""Lines inside a string that may look like headers. More of them count as a string that does not end."""


def read(path: Path) -> Ledger:
    """Read a ledger; a file that does not exist is an empty one.

    Raises:
        DamagedFileError: The file is not a ledger. The message holds the path, the line and what is expected there.
    """
    return _ledger(path, _read_text(path)[0])


def accept(path: Path, entry: Entry) -> None:
    """Add an entry at the end of the file, which is created if it does not exist.

    Raises:
        DamagedFileError: The file is not a ledger.
        ValueError: Another entry has the name, or a field holds what a ledger may not hold.
    """
    text, newline = _read_text(path)
    ledger = _ledger(path, text)
    if any(other.name == entry.name for other in ledger.entries):
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
        raise ValueError(f"the entry {entry.name!r} cannot be written: reading it back gives another entry")
    before = (text or HEADER).removesuffix("\n")
    _replace(path, f"{before}\n\n{written}", newline, Ledger((*ledger.entries, entry)))


def prune(path: Path, names: Collection[str]) -> None:
    """Remove the entries with these names, each with the comment lines right above its header.

    Raises:
        DamagedFileError: The file is not a ledger.
        ValueError: No entry has one of the names.
    """
    text, newline = _read_text(path)
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


def _read_text(path: Path) -> tuple[str, str]:
    """The text with line feeds, "" if there is no file; and the line ending that the file uses."""
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
        position = _POSITION.search(str(error))
        line = int(position[1]) if position and position[1] else _line(lines, ([0, *starts])[-1], None)
        reason = "brackets are nested too deep" if isinstance(error, RecursionError) else _POSITION.sub("", str(error))
        raise DamagedFileError(f"{path}, line {line}: not TOML: {reason}") from None
    try:
        check_names(whole, ("format", "known"), ())
        version = _format(whole)
        tables = whole.get("known", [])
        if not isinstance(tables, list) or len(tables) != len(starts):
            raise WrongFieldError(("known",), "write each entry as a table under a header [[known]]")
    except WrongFieldError as error:
        line = next((number for start in (0, *starts) if (number := _line(lines, start, error.keys))), 1)
        raise DamagedFileError(f"{path}, line {line}: {error}") from None
    entries: dict[str, Entry] = {}
    for table, start in zip(tables, starts, strict=True):
        try:
            entry = entry_from_table(table)
            if entry.name in entries:
                raise WrongFieldError(
                    ("name",), f"an entry above has the name {entry.name!r} too; give this one another"
                )
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
    """The lines of the entries' headers, counted from 0.

    A line inside a string of several lines may look like a header. Before a real one, the text is complete TOML.
    """
    starts: list[int] = []
    begin = lookalikes = 0
    for number, line in enumerate(lines):
        if not _ENTRY_HEADER.match(line):
            continue
        if _parsed(lines[begin:number]) is not None:
            starts.append(number)
            begin, lookalikes = number, 0
        elif (lookalikes := lookalikes + 1) == _MOST_LOOKALIKES:
            break
    return starts


def _parsed(lines: list[str]) -> dict[str, Any] | None:
    """The lines parsed as TOML; None if they are no complete TOML."""
    try:
        return tomllib.loads("\n".join(lines))
    except (ValueError, RecursionError):
        return None


def _line(lines: list[str], start: int, keys: tuple[str, ...] | None) -> int:
    """The line, counted from 1, on which a field begins; 0 if it is not there.

    Args:
        lines: The whole file.
        start: The line, counted from 0, on which the search begins.
        keys: The keys that lead to the field; None for the field that does not end.
    """
    done = start
    for number in range(start + 1, min(len(lines), start + _MOST_LINES) + 1):
        if _parsed(lines[done:number]) is None:
            continue
        if keys is not None and _leads(_parsed(lines[start:number]), keys):
            return done + 1
        done = number
    return done + 1 if keys is None else 0


def _leads(value: object, keys: tuple[str, ...]) -> bool:
    """True if the keys lead to a field. Of several tables, the first counts."""
    for key in keys:
        table = value[0] if isinstance(value, list) and value else value
        if not isinstance(table, dict) or key not in table:
            return False
        value = table[key]
    return True


def _spans(lines: list[str], starts: list[int]) -> list[tuple[int, int]]:
    """The first line of each entry and the line after its last.

    An entry begins with the comment right above its header and ends with the comment right below its last line. Blank lines
    below belong to it if there are blank lines above it too.
    """
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
    """The first line of the comment right above a header, but not of the one at the top of the file."""
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
    """Replace the file at once, after checking that the text holds the expected entries."""
    raw = text.replace("\n", newline).encode("utf-8")
    if len(raw) > MOST_BYTES:
        raise ValueError(f"{path} would have {len(raw)} bytes; a ledger of more than {MOST_BYTES} is refused")
    if _ledger(path, text) != expected:
        raise ValueError(f"{path} is written in a way that xverify cannot change; change it by hand")
    target = path.resolve()  # a symbolic link stays a link
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".partial")
    with partial.open("wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, target)


# -- an entry as TOML -------------------------------------------------------------------------------------

Table = Mapping[str, Any]

_TEXTS = ("name", "finding", "subject", "contract", "verdict", "clause", "detail", "summary", "reason", "owner")
_NEEDED = ("name", "subject", "contract", "verdict", "reason", "accepted")
_FILLED = ("name", "subject", "contract", "verdict", "reason")
_LEFT_OUT = ("finding", "summary", "owner", "witness")
"""Fields that are not written when they are empty. An absent clause or detail means any."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_FIELDS = (*_TEXTS, "accepted", "expires", "witness", "attribution", "scope")


def entry_to_toml(entry: Entry) -> str:
    """The text of an entry's table, header included."""
    fields: dict[str, str | date | None] = {name: getattr(entry, name) for name in _TEXTS}
    fields |= {"accepted": entry.accepted, "expires": entry.expires, "witness": entry.witness}
    lines = ["[[known]]"]
    for name, value in fields.items():
        if value is not None and (value or name not in _LEFT_OUT):
            lines.append(f"{name} = {_quoted(value) if isinstance(value, str) else value.isoformat()}")
    if entry.recipes is not None:
        lines += ["[known.attribution]", f"reading = {_quoted(entry.recipes.reading)}"]
        if entry.recipes.elsewhere:
            lines.append(f"elsewhere = {_quoted(entry.recipes.elsewhere)}")
    if entry.scope or entry.region:
        lines += ["[known.scope]", *map(_condition_to_toml, entry.scope)]
        if entry.region:
            lines.append(f"region = {_quoted(entry.region)}")
    return "\n".join(lines) + "\n"


def _condition_to_toml(condition: Condition) -> str:
    if condition.among:
        items = ", ".join(_quoted(item) if isinstance(item, str) else str(item) for item in condition.among)
        return f"{condition.field} = [{items}]"
    ends = {"min": condition.least, "max": condition.most}
    return f"{condition.field} = {{{', '.join(f'{key} = {end}' for key, end in ends.items() if end is not None)}}}"


def _quoted(text: str) -> str:
    """The text as a basic string of TOML. Its escapes are JSON's, except for one control character."""
    valid = text.encode("utf-8", "replace").decode()
    return json.dumps(valid, ensure_ascii=False).replace("\x7f", "\\u007f")


# -- an entry from TOML -----------------------------------------------------------------------------------


def entry_from_table(table: Table) -> Entry:
    """The entry in a table.

    Raises:
        WrongFieldError: A field is unknown, missing or wrong.
    """
    check_names(table, _FIELDS, ())
    for name in _NEEDED:
        if name not in table:
            raise WrongFieldError((), f"the entry has no {name}; write {name} = {_EXAMPLES.get(name, '...')}")
    texts = {name: _text(table, name) for name in _TEXTS if name in table}
    for name in _FILLED:
        if not texts[name].strip():
            raise WrongFieldError((name,), f"{name} is empty")
    if not _NAME.fullmatch(texts["name"]):
        raise WrongFieldError(("name",), f"expected letters, digits, '.', '_' and '-', got {_shown(texts['name'])}")
    if texts["verdict"] not in VERDICTS:
        raise WrongFieldError(("verdict",), f"expected one of {', '.join(VERDICTS)}, got {texts['verdict']!r}")
    accepted = _date(table, "accepted")
    expires = _date(table, "expires") if "expires" in table else None
    if expires is not None and expires <= accepted:
        raise WrongFieldError(("expires",), f"it expires on {expires}, but was accepted on {accepted}")
    scope, region = _scope(table)
    return Entry(
        **texts,
        accepted=accepted,
        expires=expires,
        witness=_witness(table),
        recipes=_recipes(table),
        scope=scope,
        region=region,
    )


_EXAMPLES = {
    "verdict": '"violation"',
    "accepted": "2026-11-21",
    "subject": '"kernels.py:dequantize"',
    "reason": '"why"',
}


def check_names(table: Table, fields: Collection[str], keys: tuple[str, ...]) -> None:
    """Raise WrongFieldError if the table, to which ``keys`` lead, has another field than these."""
    for name in table:
        if name not in fields:
            near = difflib.get_close_matches(name, fields, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(fields)}"
            raise WrongFieldError((*keys, name), f"unknown field {name!r}; {hint}")


def _text(table: Table, *keys: str) -> str:
    value = table[keys[-1]]
    if not isinstance(value, str):
        raise WrongFieldError(keys, f"expected a string for {keys[-1]!r}, got {_shown(value)}")
    return value


def _date(table: Table, name: str) -> date:
    value = table[name]
    if not isinstance(value, date) or isinstance(value, datetime):
        raise WrongFieldError((name,), f"expected a day without quotes, such as 2026-11-21, got {_shown(value)}")
    return value


def _table(table: Table, name: str) -> Table:
    value = table.get(name, {})
    if not isinstance(value, dict):
        raise WrongFieldError((name,), f"expected a table [known.{name}], got {_shown(value)}")
    return value


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, (str, int, float, list, dict)) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _witness(table: Table) -> str:
    if "witness" not in table:
        return ""
    text = _text(table, "witness")
    try:
        call_from_line(text)
    except ValueError as error:
        raise WrongFieldError(("witness",), f"the witness is not a call: {error}") from None
    return text


def _recipes(table: Table) -> Recipes | None:
    if "attribution" not in table:
        return None
    attribution = _table(table, "attribution")
    check_names(attribution, ("reading", "elsewhere"), ("attribution",))
    if "reading" not in attribution:
        raise WrongFieldError(("attribution",), "the attribution has no reading; leave it out if none is known")
    names = {name: _text(attribution, "attribution", name) for name in attribution}
    for name, text in names.items():
        if not text:
            raise WrongFieldError(("attribution", name), f"{name} is empty; leave it out if none is known")
    return Recipes(**names)


def _scope(table: Table) -> tuple[tuple[Condition, ...], str]:
    scope = _table(table, "scope")
    check_names(scope, (*FIELDS, "region"), ("scope",))
    region = _text(scope, "scope", "region") if "region" in scope else ""
    try:
        region_from_name(region)
    except ValueError as error:
        raise WrongFieldError(("scope", "region"), str(error)) from None
    return tuple(_condition(name, value) for name, value in scope.items() if name != "region"), region


def _condition(name: str, value: object) -> Condition:
    keys = ("scope", name)
    field = FIELDS[name]
    if not field.is_number:
        words = _items(keys, value, str, 'a list of words, such as ["int8", "uint*"]')
        for word in words:
            if field.words and not any(matches(allowed, str(word)) for allowed in field.words):
                expected = ", ".join(allowed or '""' for allowed in field.words)
                raise WrongFieldError(keys, f"{word!r} is no {name}; expected one of {expected}, or a glob of them")
        return Condition(name, words)
    if isinstance(value, dict):
        check_names(value, ("min", "max"), keys)
        if not value or not all(_is_whole(end) for end in value.values()):
            raise WrongFieldError(keys, f"expected whole numbers, such as {{min = 2, max = 7}}, got {_shown(value)}")
        least, most = value.get("min"), value.get("max")
        if least is not None and most is not None and least > most:
            raise WrongFieldError(keys, f"no number is at least {least} and at most {most}")
        return Condition(name, (), least, most)
    return Condition(name, _items(keys, value, int, "a list of whole numbers, or {min = 2, max = 7}"))


def _items(keys: tuple[str, ...], value: object, kind: type[str] | type[int], expected: str) -> tuple[str | int, ...]:
    if not isinstance(value, list) or not all(isinstance(item, kind) and not isinstance(item, bool) for item in value):
        raise WrongFieldError(keys, f"expected {expected}, got {_shown(value)}")
    if not value:
        raise WrongFieldError(keys, f"an empty list holds of no call; leave {keys[-1]!r} out to mean any")
    return tuple(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
