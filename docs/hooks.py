"""MkDocs hook: links to files outside docs/, which the site does not contain, become text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./([^)#]+)[^)]*\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Replace each link to a file outside docs/ by its text. A missing file is an error."""

    def text(match: re.Match[str]) -> str:
        if not (ROOT / match[2]).exists():
            raise PluginError(f"{page.file.src_path}: the link to ../{match[2]} is broken: there is no such file")
        return match[1]

    return OUTSIDE.sub(text, markdown)
