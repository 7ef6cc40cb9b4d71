"""Implementations for `test_peers`."""

from __future__ import annotations

from xverify.core.call import Call, Outcome, Tensor
from xverify.oracles.onednn_formulas import load_multiply
from xverify.oracles.protocol import Loaded


def load_unsigned() -> Loaded:
    """Load oneDNN's formula for unsigned integers only.

    Signed ones raise an exception that is no NotImplementedError.
    """
    sound = load_multiply()

    def answer(call: Call, path: str) -> Tensor | Outcome:
        if call.data.dtype == "int8":
            raise ValueError("signed integers are refused")
        return sound.answer(call, path)

    return Loaded(answer)
