"""Public names for an edition with a range: the readings of TensorFlow's modes.

A user's edition file imports them from here. They stay here when the code behind them moves.
"""

from xverify.arithmetic.range_readings import (
    MIN_COMBINED,
    MIN_FIRST,
    SCALED_FLOAT,
    SCALED_SYMMETRIC,
    MinCombined,
    MinFirst,
    ScaledByFloat,
    ScaledSymmetric,
)

__all__ = [
    "MIN_COMBINED",
    "MIN_FIRST",
    "SCALED_FLOAT",
    "SCALED_SYMMETRIC",
    "MinCombined",
    "MinFirst",
    "ScaledByFloat",
    "ScaledSymmetric",
]
