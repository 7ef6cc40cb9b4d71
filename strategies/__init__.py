"""What to ask: Hypothesis strategies of calls, and the deterministic coverage walk.

`calls(contract)` are valid, `invalid_calls(contract)` break exactly one clause, `unspecified_calls(contract)` enter
what a clause leaves open; `walk(contract)` is the stratified list; `smaller_calls(call)` is what shrinking searches.
"""

from strategies.calls import calls, invalid_calls, unspecified_calls
from strategies.smaller import smaller_calls
from strategies.spoil import breakable, openable, opened, spoiled
from strategies.structures import build
from strategies.walk import simplest, walk

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
