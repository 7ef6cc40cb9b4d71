"""Public names for an edition of y = (x - zero point) * scale: the readings that it may admit.

A user's edition file imports them from here. They stay here when the code behind them moves.
"""

from xverify.arithmetic.readings import (
    EXACT,
    EXACT_QUOTIENT,
    FLOAT32,
    FLOAT32_QUOTIENT,
    OUTPUT,
    Stepwise,
    by_name,
    evaluate_all,
)

__all__ = [
    "EXACT",
    "EXACT_QUOTIENT",
    "FLOAT32",
    "FLOAT32_QUOTIENT",
    "OUTPUT",
    "Stepwise",
    "by_name",
    "evaluate_all",
]
