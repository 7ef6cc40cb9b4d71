"""The name nearest to a misspelled one, for messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, names: Iterable[str]) -> str:
    """The nearest of the names, as a question in brackets; "" if none is similar."""
    near = difflib.get_close_matches(name, list(names), 1, 0.5)
    return f" (did you mean {near[0]}?)" if near else ""
