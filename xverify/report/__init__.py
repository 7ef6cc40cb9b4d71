"""Everything that is made from a report, the parsed report.json, and from nothing else.

A format is one module of this package and one line of `FORMATS`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from xverify.core.codec import MOST_BYTES, DamagedFileError, read_json
from xverify.report.check import SCHEMA, check

__all__ = ["FORMATS", "SCHEMA", "check", "load", "render"]

FORMATS = ("html", "markdown", "json", "junit")
"""What `render` makes."""


def load(path: Path, limit: int = MOST_BYTES) -> dict[str, Any]:
    """The report in a file. Raises DamagedFileError, a ValueError, when it cannot be read, is too large or is not
    one."""
    report = read_json(path, limit)
    try:
        check(report)
    except ValueError as error:
        raise DamagedFileError(f"{path}: {error}") from None
    loaded: dict[str, Any] = report
    return loaded


def render(report: Mapping[str, Any], format: str, scripts: Mapping[str, str] | None = None) -> str:  # noqa: A002
    """The report in one of `FORMATS`.

    ``scripts`` holds the text of the reproduction script of findings, by id, for the formats that show it; without
    it the scripts are made anew from the report.
    """
    if format not in FORMATS:
        raise ValueError(f"no format {format!r}; there are {', '.join(FORMATS)}")
    if format == "json":
        text = json.dumps(report, indent=1, ensure_ascii=False) + "\n"
    else:
        make: Callable[[Mapping[str, Any], Mapping[str, str] | None], str]
        make = import_module(f"xverify.report.{format}").render
        text = make(report, scripts)
    # Half a surrogate pair, which JSON can spell and UTF-8 cannot hold, becomes a question mark.
    return text.encode("utf-8", "replace").decode("utf-8")
