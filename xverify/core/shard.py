"""A shard: one of several equal parts of a run's work."""

from __future__ import annotations

import re
from dataclasses import dataclass

from xverify.core.errors import UsageError

MOST_SHARDS = 4096
"""The largest number of shards of a run."""


@dataclass(frozen=True, order=True)
class Shard:
    """Shard ``index`` of ``count``; the first is 1."""

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def shard_named(text: str) -> Shard:
    """The shard that a text like ``3/16`` names.

    Raises:
        UsageError: The text is no shard.
    """
    numbers = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text.strip())
    if numbers is None:
        raise UsageError(f"--shard {text}: write INDEX/COUNT, for example 3/16")
    index, count = int(numbers[1]), int(numbers[2])
    if not 1 <= count <= MOST_SHARDS:
        raise UsageError(f"--shard {text}: the number of shards is 1 to {MOST_SHARDS}")
    if not 1 <= index <= count:
        raise UsageError(f"--shard {text}: there are shards 1/{count} to {count}/{count}")
    return Shard(index, count)
