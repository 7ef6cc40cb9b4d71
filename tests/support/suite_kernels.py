"""Kernels and Hypothesis settings for the gate inside a test suite, and a domain that it walks in seconds."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis.database import InMemoryExampleDatabase

import xverify

EDITION = "ai.onnx/DequantizeLinear-13"
NARROW = {"x_dtypes": ["uint8"], "granularity": ["per_tensor"]}
"""A domain whose walk takes seconds."""

TO_128 = f"{EDITION} x=uint8[]:80 scale=float32[]:3f800000"
"""What a kernel that is wrong at 128 gets wrong."""


def sound(x, scale, zero_point=None, **attributes):
    """The in-house kernel."""
    return xverify.dequantize_linear(x, scale, zero_point, contract=EDITION, backend="numpy", **attributes)


def wrong_at(code: int, counted: list | None = None):
    """A sound kernel but for one code of uint8, which gives 77."""

    def kernel(x, scale, zero_point=None, **attributes):
        if counted is not None:
            counted.append(x.shape)
        result = np.array(sound(x, scale, zero_point, **attributes))
        if x.dtype == np.uint8:
            result[x == code] = 77
        return result

    return kernel


def profile(**changes) -> settings:
    """Few examples, always the same, and none remembered."""
    return settings(**{"max_examples": 25, "database": None, "derandomize": True, **changes})


def remembering(**changes) -> settings:
    """The same with a database, which is empty."""
    return profile(derandomize=False, **{"database": InMemoryExampleDatabase(), **changes})


def kept(profile: settings) -> set[str]:
    """The lines that are in the settings' database."""
    return {line.decode() for lines in profile.database.data.values() for line in lines}
