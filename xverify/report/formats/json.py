"""The report as JSON, as `xverify.report.load` reads it."""

from __future__ import annotations

import json

from xverify.report.summary import Json


def render(report: Json) -> str:
    """Return the report as indented JSON."""
    return json.dumps(report, indent=1, ensure_ascii=False) + "\n"
