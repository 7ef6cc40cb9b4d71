"""An implementation of oneDNN's formula whose answers depend on its settings."""

from __future__ import annotations

import itertools
import os
from typing import Any

import numpy as np

from xverify.core.call import Call, Outcome
from xverify.oracles.arrays import answered
from xverify.oracles.onednn_formulas import load_multiply
from xverify.oracles.protocol import Loaded

TINY = np.finfo(np.float32).tiny


def load(*settings: str) -> Loaded:
    """Load the implementation.

    The instruction set "old" has other last bits where x is 7. 3 threads refuse empty tensors, and 8 change
    nothing. "denormals=zero" gives zero for subnormal numbers, "denormals=wrong" for infinity too. "unsteady" has other last
    bits where x is 9, every second time. "mistaken" gives three times the value where x is 1, but not with 8 threads.
    """
    sound = load_multiply()
    turns = itertools.count()
    old = os.environ.get("XVERIFY_TEST_ISA") == "OLD"

    def answer(call: Call, path: str) -> Outcome:
        outcome: Any = sound.answer(call, path)
        result = outcome.tensor.codes.view(np.float32).copy()
        if "unsteady" in settings:
            result.view(np.uint32)[call.data.codes == 9] ^= next(turns) % 2
        if "mistaken" in settings and "threads=8" not in settings:
            result[call.data.codes == 1] *= 3
        if old:
            result.view(np.uint32)[call.data.codes == 7] ^= 1
        if "threads=3" in settings and not call.values:
            raise ValueError("nothing to divide among threads")
        if any(setting.startswith("denormals=") for setting in settings):
            result[(np.abs(result) < TINY) & (result != 0)] = 0
        if "denormals=wrong" in settings:
            result[np.isinf(result)] = 0
        return answered(result, call, {})

    return Loaded(answer)
