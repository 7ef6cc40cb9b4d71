"""Formats that are made from a report (the parsed report.json) and from nothing else.

A format is one module of `xverify.report.formats`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xverify.core.codec import MOST_BYTES, read_json
from xverify.core.errors import DamagedFileError
from xverify.report.schema import SCHEMA, check, check_causes, upgraded

if TYPE_CHECKING:
    from xverify.engine.again import Again
    from xverify.report.presence import Difference, Strip

__all__ = ["SCHEMA", "check", "format_names", "issue_body", "load", "render", "write_files"]


def load(path: Path, limit: int = MOST_BYTES) -> dict[str, Any]:
    """Read a report from a file.

    Args:
        path: A report.json.
        limit: Largest size that is read, in bytes.

    Raises:
        DamagedFileError: The file cannot be read, is too large, or is not a report. It is a ValueError.
    """
    data = read_json(path, limit)
    try:
        report = upgraded(data)
        check(report)
        check_causes(report)
    except ValueError as error:
        raise DamagedFileError(f"{path}: {error}") from None
    loaded: dict[str, Any] = report
    return loaded


def format_names() -> tuple[str, ...]:
    """Return the names of the formats in alphabetical order: the modules of `xverify.report.formats`."""
    from xverify.report import formats

    return tuple(sorted(module.name for module in pkgutil.iter_modules(formats.__path__)))


WITH_OTHER_RUNS = ("html", "markdown")
"""Formats that show other runs too."""


def render(
    report: Mapping[str, Any],
    format: str,  # noqa: A002
    since: Difference | None = None,
    strips: Mapping[str, Sequence[Strip]] | None = None,
) -> str:
    """Return the report in one of the `format_names`.

    Args:
        report: The report.
        format: Name of the format.
        since: Comparison with an older run, for formats in `WITH_OTHER_RUNS`.
        strips: Presence of each cause over versions, by its id, for the same formats.

    Raises:
        ValueError: There is no such format.
    """
    if format not in format_names():
        raise ValueError(f"no format {format!r}; there are {', '.join(format_names())}")
    make: Callable[..., str] = import_module(f"xverify.report.formats.{format}").render
    return _encodable(make(report, since, strips) if format in WITH_OTHER_RUNS else make(report))


def issue_body(report: Mapping[str, Any], identity: str, again: Again | None = None) -> str:
    """Return an issue body about one cause or finding, in Markdown.

    It is written for the maintainers of the implementation or document.

    Args:
        report: The report that holds it.
        identity: Id of the cause or finding.
        again: What the implementation did when it was asked again.

    Raises:
        UsageError: The report has no cause or finding with that id. It is a ValueError.
    """
    from xverify.report.issue import render as make

    return _encodable(make(report, identity, again))


def write_files(report: Mapping[str, Any], directory: Path) -> None:
    """Write ``report.html`` and ``scripts/<finding id>.py`` into a run's directory."""
    from xverify.report.script import scripts_of

    folder = directory / "scripts"
    folder.mkdir(parents=True, exist_ok=True)
    for identity, text in scripts_of(report).items():
        (folder / f"{identity}.py").write_text(text, encoding="utf-8")
    (directory / "report.html").write_text(render(report, "html"), encoding="utf-8")


def _encodable(text: str) -> str:
    """Replace lone surrogates by question marks: JSON can spell them, but UTF-8 cannot hold them."""
    return text.encode("utf-8", "replace").decode("utf-8")
