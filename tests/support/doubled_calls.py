"""Calls of an implementation that doubles x, and that misbehaves if the call says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from xverify.core.call import Call, Outcome, Tensor, encode_call
from xverify.oracles.protocol import Oracle

HERE = str(Path(__file__).parent)


FAKE = Oracle("fake", "numpy", ("*",), ("*",), "fake_oracles", search_path=(HERE,))


def request(value: int, do: str = "", size: int = 3) -> tuple[bytes, str]:
    x = Tensor("uint8", np.full(size, value, np.uint8))
    return encode_call(Call("fake/Double-1", {"x": x}, {"do": do} if do else {})), ""


def is_double(outcome: Outcome, value: int, size: int = 3) -> bool:
    return outcome.tensor is not None and bool(np.array_equal(outcome.tensor.codes, np.full(size, 2 * value, np.uint8)))
