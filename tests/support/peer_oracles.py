"""Oracles of `test_peers`."""

from __future__ import annotations

from xverify.core.call import Call, Outcome, Tensor
from xverify.oracles.onednn_formulas import load_multiply
from xverify.oracles.protocol import Answer, Loaded
from xverify.oracles.tensorflow_graph import load_function, load_xla


def load() -> Loaded:
    """Both oracles of `xverify.oracles.tensorflow_graph` in one worker, since TensorFlow takes seconds to import.

    A path is "function" or "xla" and, after a blank, its own path.
    """
    loaded = {"function": load_function(), "xla": load_xla()}
    answers: dict[str, Answer] = {name: one.answer for name, one in loaded.items()}

    def answer(call: Call, path: str) -> object:
        name, _, own = path.partition(" ")
        return answers[name](call, own)

    return Loaded(answer, loaded["xla"].not_implemented)  # type: ignore[arg-type]


def load_unsigned() -> Loaded:
    """oneDNN's formula of unsigned integers; signed ones are refused, by an exception that is no NotImplementedError."""
    sound = load_multiply()

    def answer(call: Call, path: str) -> Tensor | Outcome:
        if call.data.dtype == "int8":
            raise ValueError("signed integers are refused")
        return sound.answer(call, path)

    return Loaded(answer)
