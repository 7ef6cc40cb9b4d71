"""Versions of one implementation of oneDNN's formula, with the differences that real versions have."""

from __future__ import annotations

import os

from flawed_oracles import load_ignoring

from xverify.core.call import Call, Outcome
from xverify.oracles.onednn_formulas import load_multiply
from xverify.oracles.protocol import Answer, Loaded


def _refusing(sound: Loaded, refuses, error: type[Exception] = ValueError) -> Loaded:
    def answer(call: Call, path: str) -> Outcome:
        if refuses(call):
            raise error("refused on purpose")
        return sound.answer(call, path)

    return Loaded(answer, sound.not_implemented)


def load_sound() -> Loaded:
    return load_multiply()


def load_wrong() -> Loaded:
    """Ignore the zero point."""
    return load_ignoring()


def load_without_uint8() -> Loaded:
    return _refusing(load_multiply(), lambda call: call.data.dtype == "uint8", NotImplementedError)


def load_picky() -> Loaded:
    """Refuse allowed calls with rows of more than one value."""
    return _refusing(load_multiply(), lambda call: bool(call.data.shape) and call.data.shape[-1] > 2)


def load_lax() -> Loaded:
    """Compute a forbidden call, with a scale of another type."""
    sound = load_multiply()

    def answer(call: Call, path: str) -> Outcome:
        try:
            return sound.answer(call, path)
        except Exception:
            return Outcome("tensor", call.tensors["scale"])

    return Loaded(answer)


def load_dying() -> Loaded:
    """End the process on tensors without values."""

    def answer(call: Call, path: str) -> Outcome:
        if call.values == 0:
            os.abort()
        return sound(call, path)

    sound: Answer = load_multiply().answer
    return Loaded(answer, load_multiply().not_implemented)


def load_refusing() -> Loaded:
    """Refuse every call."""
    return _refusing(load_multiply(), lambda call: True)
