"""Both oracles of `oracles.tensorflow_graph` in one worker, for tests: TensorFlow takes seconds to import."""

from __future__ import annotations

from oracles.protocol import Answer, Loaded
from oracles.tensorflow_graph import load_function, load_xla
from xverify.core.call import Call


def load() -> Loaded:
    """A path is the oracle's name and, after a blank, its own path."""
    loaded = {"function": load_function(), "xla": load_xla()}
    answers: dict[str, Answer] = {name: one.answer for name, one in loaded.items()}

    def answer(call: Call, path: str) -> object:
        name, _, own = path.partition(" ")
        return answers[name](call, own)

    return Loaded(answer, loaded["xla"].not_implemented)  # type: ignore[arg-type]
