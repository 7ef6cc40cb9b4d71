"""Implementations that are right or wrong according to a call's surroundings and the path."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from xverify.core.call import Call, Outcome, Tensor
from xverify.core.surroundings import changes_values
from xverify.oracles.onednn_formulas import load_multiply
from xverify.oracles.protocol import Loaded

LEVELS = ("graph none", "graph some", "graph all")


def _flawed(broken) -> Loaded:
    """Return an implementation that gives 0 if ``broken(around, level)`` is true, and is right otherwise.

    It has no operators that change values.

    ``around`` has the words of the surroundings without their numbers.
    """
    sound = load_multiply()

    def answer(call: Call, path: str) -> Outcome:
        if changes_values(call):
            return Outcome("unsupported", error="NotImplementedError")
        outcome = sound.answer(replace(call, around=()), path)
        assert isinstance(outcome, Outcome)
        level = LEVELS.index(path) if path in LEVELS else 0
        if outcome.tensor is None or not broken([word.partition(":")[0] for word in call.around], level):
            return outcome
        return replace(outcome, tensor=Tensor(outcome.tensor.dtype, np.zeros_like(outcome.tensor.codes)))

    def rewritten(call: Call, path: str, folder: str) -> str:
        return "" if path == LEVELS[0] else f"merges {len(call.around)} words with {path}"

    return Loaded(answer, sound.not_implemented, rewritten=rewritten)


def load_transposing() -> Loaded:
    """Give 0 if a Transpose follows and the scale is a constant, from the second optimisation level on."""
    return _flawed(lambda around, level: level > 0 and "y>transpose" in around and "constant" in around)


def load_optimising() -> Loaded:
    """Give 0 from the second optimisation level on, in any surroundings."""
    return _flawed(lambda around, level: level > 0)


def load_sound() -> Loaded:
    return _flawed(lambda around, level: False)
