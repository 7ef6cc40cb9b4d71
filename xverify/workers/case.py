"""A call of a run before it is judged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xverify.core.call import Call
from xverify.verify.legal import Legal


@dataclass(frozen=True, eq=False)
class Case:
    """A call with its number and the phase that made it."""

    call: Call

    number: int
    """Position in the sequence of its contract."""

    phase: str
    """The part of the plan that made the call, for example "walk" or "hypothesis"."""

    legal: Legal | None = None
    """The legal set, if making the call computed it already."""

    places: NDArray[np.int64] | None = None
    """Indices of the values that probe readings, see `xverify.strategies.lap.Probe`; None outside the lap over the cells."""

    more: bool = False
    """True if later calls may probe the same cell, see `xverify.strategies.lap.Probe`."""
