"""Kernels and Hypothesis settings for the gate inside a test suite, and a small domain."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis.database import InMemoryExampleDatabase

import xverify

EDITION = "ai.onnx/DequantizeLinear-13"
NARROW = {"x_dtypes": ["uint8"], "granularity": ["per_tensor"]}
"""A domain whose walk takes seconds."""

TO_128 = f"{EDITION} x=uint8[]:80 scale=float32[]:3f800000"
"""The call that a kernel with a mistake at 128 gets wrong."""


def sound(x, scale, zero_point=None, *, edition=EDITION, **attributes):
    """Call the in-house kernel."""
    return xverify.dequantize_linear(x, scale, zero_point, contract=edition, backend="numpy", **attributes)


def wrong_at(code: int, counted: list | None = None, edition: str = EDITION):
    """Return a kernel that gives 77 for one code of uint8 and is right otherwise."""

    def kernel(x, scale, zero_point=None, **attributes):
        if counted is not None:
            counted.append(x.shape)
        result = np.array(sound(x, scale, zero_point, edition=edition, **attributes))
        if x.dtype == np.uint8:
            result[x == code] = 77
        return result

    return kernel


def profile(**changes) -> settings:
    """Return settings with few examples, always the same, and no memory."""
    return settings(**{"max_examples": 25, "database": None, "derandomize": True, **changes})


def remembering(**changes) -> settings:
    """Return the same settings with an empty database."""
    return profile(derandomize=False, **{"database": InMemoryExampleDatabase(), **changes})


def kept(profile: settings) -> set[str]:
    """Return the lines in the settings' database."""
    return {line.decode() for lines in profile.database.data.values() for line in lines}
