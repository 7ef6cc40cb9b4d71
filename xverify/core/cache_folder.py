"""The folder for what xverify keeps between runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """$XVERIFY_CACHE, $XDG_CACHE_HOME/xverify or ~/.cache/xverify, the first that is set."""
    cache = os.environ.get("XVERIFY_CACHE")
    if not cache:
        cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "xverify")
    return Path(cache).absolute()
