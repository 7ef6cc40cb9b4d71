"""What to ask: Hypothesis strategies of calls, and the deterministic coverage walk.

`calls(contract)` are valid, `invalid_calls(contract)` break exactly one clause, `unspecified_calls(contract)` enter
what a clause leaves open; `walk(contract)` is the stratified list; `smaller_calls(call)` is what shrinking searches.
"""

from xverify.strategies.calls import calls, invalid_calls, unspecified_calls
from xverify.strategies.invalid_calls import breakable, openable, opened, spoiled
from xverify.strategies.smaller import smaller_calls
from xverify.strategies.structures import build
from xverify.strategies.walk import simplest, walk

__all__ = [
    "breakable",
    "build",
    "calls",
    "invalid_calls",
    "openable",
    "opened",
    "simplest",
    "smaller_calls",
    "spoiled",
    "unspecified_calls",
    "walk",
]
