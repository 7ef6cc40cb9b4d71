"""Implementations for `test_peers`."""

from __future__ import annotations

from xverify.core.call import Call, Outcome, Tensor
from xverify.oracles.onednn_formulas import load_multiply
from xverify.oracles.protocol import Answer, Loaded
from xverify.oracles.tensorflow_graph import load_function, load_xla


def load() -> Loaded:
    """Load both oracles of `xverify.oracles.tensorflow_graph` in one worker, since the import is slow.

    A path is "function" or "xla", a blank, and the oracle's own path.
    """
    loaded = {"function": load_function(), "xla": load_xla()}
    answers: dict[str, Answer] = {name: one.answer for name, one in loaded.items()}

    def answer(call: Call, path: str) -> object:
        name, _, own = path.partition(" ")
        return answers[name](call, own)

    return Loaded(answer, loaded["xla"].not_implemented)  # type: ignore[arg-type]


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
