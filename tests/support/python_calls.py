"""Calls of Python functions under test, a function that is right, and the notes on a call."""

from __future__ import annotations

from typing import Any

import numpy as np

from xverify.core.call import Call, Outcome, Tensor, code_dtype
from xverify.oracles.arrays import numpy_dtype
from xverify.oracles.python_kernel import answerer

ONNX = "ai.onnx/DequantizeLinear-25"


def tensor(dtype: str, values: Any, layout: str = "C") -> Tensor:
    return Tensor(dtype, np.asarray(values).astype(numpy_dtype(dtype)).view(code_dtype(dtype)), layout)


def a_call(
    x: Any = (1, 2, 3, 4, 5), scale: float = 0.5, zero_point: int | None = 1, layout: str = "C", **more: Any
) -> Call:
    tensors = {"x": tensor("int8", x, layout), "scale": tensor("float32", scale)}
    if zero_point is not None:
        tensors["zero_point"] = tensor("int8", zero_point)
    return Call(ONNX, tensors, more)


def plain(x: Any, scale: Any, zero_point: Any = 0, *, axis: int = 1, block_size: int = 0, out_dtype: Any = None) -> Any:
    """Right function for the calls of these tests: int8 x and one float32 scale."""
    return (x.astype(np.int32) - np.int32(zero_point)).astype(np.float32) * scale


def notes_of(function: Any, *calls: Call, path: str = "") -> list[tuple[str, ...]]:
    answer = answerer(function)
    outcomes = [answer(call, path) for call in calls or (a_call(),)]
    assert all(isinstance(outcome, Outcome) and outcome.kind == "tensor" for outcome in outcomes), outcomes
    return [outcome.notes for outcome in outcomes if isinstance(outcome, Outcome)]


def given_to(call: Call) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the types of the positional arguments, and the keywords, that a function gets."""
    seen: list[Any] = []

    def function(*operands: Any, **keywords: Any) -> Any:
        seen.append((tuple(o.dtype.name for o in operands), keywords))
        return np.zeros(1, np.float32)

    answerer(function)(call, "")
    assert seen[0] == seen[1], seen
    return seen[0]  # type: ignore[no-any-return]
