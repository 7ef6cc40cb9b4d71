"""Calls of any dtype and shape, and what an implementation's outcome holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xverify.core.call import BITS, Attribute, Call, Outcome, Tensor, code_dtype, encode_call
from xverify.oracles import installed_version
from xverify.oracles.arrays import from_array, numpy_dtype, to_array
from xverify.oracles.protocol import Oracle
from xverify.workers.worker import Worker


def tensor(dtype: str, values: Any, layout: str = "C") -> Tensor:
    array = np.asarray(values).astype(numpy_dtype(dtype))
    return Tensor(dtype, from_array(array).codes, layout)


def some_codes(dtype: str, shape: tuple[int, ...], layout: str = "C") -> Tensor:
    """Return codes that differ from their neighbours and use every bit."""
    count = int(np.prod(shape))
    codes = (np.arange(count, dtype=np.uint64) * 0x9E3779B97F4A7C15) >> np.uint64(64 - BITS[dtype])
    return Tensor(dtype, codes.astype(code_dtype(dtype)).reshape(shape), layout)


def linear(contract: str, x: Tensor, scale: Tensor, zero_point: Tensor | None = None, **attributes: Any) -> Call:
    tensors = {"x": x, "scale": scale} | ({} if zero_point is None else {"zero_point": zero_point})
    return Call(contract, tensors, attributes)


def ranged(x: Tensor, low: float, high: float, **attributes: Attribute) -> Call:
    tensors = {"input": x, "min_range": tensor("float32", low), "max_range": tensor("float32", high)}
    return Call("tensorflow/Dequantize@installed", tensors, attributes)


def values(outcome: Outcome) -> np.ndarray[Any, Any]:
    assert outcome.tensor is not None, outcome
    assert outcome.notes == ()
    return to_array(outcome.tensor).astype(np.float64)


def halves(x: Tensor) -> np.ndarray[Any, Any]:
    """Return the exact x * 0.5."""
    return to_array(x).astype(np.float64) * 0.5


Ask = Callable[..., Outcome]


def asker(oracle: Oracle, directory: Path) -> Iterator[Ask]:
    if installed_version(oracle) is None:
        pytest.skip(f"{oracle.distribution} is not installed; pip install {oracle.distribution}")
    worker = Worker(oracle, directory)
    worker.start()
    yield lambda call, path="": worker.ask(encode_call(call), path)
    worker.stop()
