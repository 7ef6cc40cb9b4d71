"""Public names for an edition of y = (x - zero point) * scale: axes, blocks, operands.

A user's edition file imports them from here. They stay here when the code behind them moves.
"""

from xverify.arithmetic.linear_operands import (
    along_axis,
    ceil_div,
    has_nonzero,
    linear_operands,
    normal_axis,
    repeated,
    spread,
)

__all__ = ["along_axis", "ceil_div", "has_nonzero", "linear_operands", "normal_axis", "repeated", "spread"]
