"""An implementation that multiplies codes, by the fake framework of `package_index`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from xverify.core.call import Call, Outcome
from xverify.oracles.arrays import answered, hand_out
from xverify.oracles.protocol import Loaded, Oracle

FAKE = Oracle(
    "fake", "xverify-fake-framework", ("*",), (), "framework_oracle", search_path=(str(Path(__file__).parent),)
)


def with_option(oracle: Oracle, option: str) -> Oracle:
    if option != "fast":
        raise ValueError(f"fake knows the option fast, not {option!r}")
    return replace(oracle, name=f"{oracle.name}:{option}")


def load() -> Loaded:
    import xverify_fake_framework as framework  # type: ignore[import-not-found,unused-ignore]

    def answer(call: Call, path: str) -> Outcome:
        arrays: dict[str, Any] = hand_out(call)
        return answered(arrays["x"] * framework.FACTOR, call, arrays)

    return Loaded(answer)
