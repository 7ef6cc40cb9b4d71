"""A ledger's entry as a ``[[known]]`` table of TOML, and back with every field checked."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Mapping
from datetime import date, datetime
from typing import Any

from xverify.core.errors import WrongFieldError
from xverify.core.line import call_from_line
from xverify.gate.ledger import VERDICTS, Entry, Recipes
from xverify.gate.regions import region_from_name
from xverify.gate.scope import FIELDS, Condition, matches

Table = Mapping[str, Any]

_TEXTS = ("name", "finding", "subject", "contract", "verdict", "clause", "detail", "summary", "reason", "owner")
_NEEDED = ("name", "subject", "contract", "verdict", "reason", "accepted")
_FILLED = ("name", "subject", "contract", "verdict", "reason")
_LEFT_OUT = ("finding", "summary", "owner", "witness")
"""Fields that are not written when they are empty; an absent clause or detail means any."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_KNOWN = (*_TEXTS, "accepted", "expires", "witness", "attribution", "scope")


# -- writing ----------------------------------------------------------------------------------------------


def entry_to_toml(entry: Entry) -> str:
    """The entry as the text of a table, header included."""
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
    """A basic string of TOML: its escapes are JSON's, which lets one control character stand that TOML does not."""
    valid = text.encode("utf-8", "replace").decode()
    return json.dumps(valid, ensure_ascii=False).replace("\x7f", "\\u007f")


# -- reading ----------------------------------------------------------------------------------------------


def entry_from_table(table: Table) -> Entry:
    """The entry in a table. Raises WrongFieldError for a field that is unknown, missing or not what it should be."""
    check_names(table, _KNOWN, ())
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


def check_names(table: Table, known: Collection[str], keys: tuple[str, ...]) -> None:
    """Raise WrongFieldError for a field that is none of the known; ``keys`` lead to the table."""
    for name in table:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(known)}"
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
        raise WrongFieldError(("witness",), f"the witness is no call: {error}") from None
    return text


def _recipes(table: Table) -> Recipes | None:
    if "attribution" not in table:
        return None
    found = _table(table, "attribution")
    check_names(found, ("reading", "elsewhere"), ("attribution",))
    if "reading" not in found:
        raise WrongFieldError(("attribution",), "the attribution has no reading; leave it out if none is known")
    names = {name: _text(found, "attribution", name) for name in found}
    for name, text in names.items():
        if not text:
            raise WrongFieldError(("attribution", name), f"{name} is empty; leave it out if none is known")
    return Recipes(**names)


def _scope(table: Table) -> tuple[tuple[Condition, ...], str]:
    found = _table(table, "scope")
    check_names(found, (*FIELDS, "region"), ("scope",))
    region = _text(found, "scope", "region") if "region" in found else ""
    try:
        region_from_name(region)
    except ValueError as error:
        raise WrongFieldError(("scope", "region"), str(error)) from None
    return tuple(_condition(name, value) for name, value in found.items() if name != "region"), region


def _condition(name: str, value: object) -> Condition:
    keys = ("scope", name)
    field = FIELDS[name]
    if not field.is_number:
        words = _items(keys, value, str, 'a list of words, such as ["int8", "uint*"]')
        for word in words:
            if field.known and not any(matches(known, str(word)) for known in field.known):
                expected = ", ".join(known or '""' for known in field.known)
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
