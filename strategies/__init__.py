"""The calls that implementations get: Hypothesis strategies, and the deterministic coverage walk.

`calls(contract)` are valid. `invalid_calls(contract)` break exactly one clause, and `unspecified_calls(contract)` are calls
that exactly one clause leaves open. `walk(contract)` is the stratified list. Shrinking searches `smaller_calls(call)`.
"""

from xverify.strategies.calls import calls, invalid_calls, unspecified_calls
from xverify.strategies.invalid_calls import breakable, openable, opened, spoiled
from xverify.strategies.smaller import smaller_calls
from xverify.strategies.structures import build
from xverify.strategies.walk import official_calls, simplest, walk

__all__ = [
    "breakable",
    "build",
    "calls",
    "invalid_calls",
    "official_calls",
    "openable",
    "opened",
    "simplest",
    "smaller_calls",
    "spoiled",
    "unspecified_calls",
    "walk",
]
