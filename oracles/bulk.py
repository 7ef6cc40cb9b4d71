"""Requests for many triples at once: operands and results lie in a file that both processes map.

`bulk_oracle` wraps an oracle. The result answers calls that have attributes only. The call's path is a `Request` in JSON: the
offsets of the operands in the file, the number of columns of each call, and the offset of the results. A user's Python
function runs once a call, without the checks of `xverify.oracles.python_kernel`; all others answer as in a sweep.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import warnings
from dataclasses import replace
from typing import Any, Dict, List, NamedTuple, Tuple

import numpy as np

from xverify.core.call import Call, Outcome, Tensor, code_dtype
from xverify.oracles.arrays import from_array, hand_out
from xverify.oracles.protocol import Answer, Loaded, Oracle, Path
from xverify.oracles.sources import imported, sources

SOURCES = "sources"
"""The path that gives the files of a user's kernel, from `xverify.oracles.sources`: JSON, as uint8."""

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Constants of glibc's malloc.h."""

KEPT_BYTES = 1 << 28
"""Bytes of freed memory that glibc keeps for the next call."""

PYTHON_KERNEL = "xverify.oracles.python_kernel"

Array = Any


class Request(NamedTuple):
    """Columns of triples. All codes of x in a column share one scale and one zero point."""

    columns: int
    """The number of columns."""

    codes: int
    """The number of codes of x in a column."""

    each: int
    """The number of columns in one call."""

    granularity: str
    """The granularity of the calls: "per_tensor" (one column each), "per_axis" or "blocked"."""

    rank: int
    """The rank of a parameter per tensor."""

    x_rows: int
    """1 where all columns have the same codes of x, else ``columns``."""

    dtypes: Tuple[str, str, str, str]
    """The dtypes of x, scale, zero point ("" where there is none) and result."""

    places: Tuple[int, int, int, int]
    """The offset in the file, in bytes, of x, scale, zero point and result."""

    def text(self) -> str:
        return json.dumps(self._asdict(), separators=(",", ":"))


def bulk_oracle(oracle: Oracle, path: str) -> Oracle:
    """Make an oracle that answers requests in the file ``path`` through another oracle."""
    arguments = (path, oracle.module, oracle.load, *oracle.arguments)
    return replace(
        oracle, module=__name__, load="load", arguments=arguments, paths=(Path("", 1.0),), surrounded=(), varies=()
    )


def call_of(template: Call, request: Request, x: Array, scale: Array, zero_point: Any) -> Call:
    """Make the call on some columns.

    Several codes of a column lie along the last axis of x: one block, or one index of axis 0. Single codes lie along axis 1.

    Args:
        x: Shape (columns or 1, codes).
        scale: Shape (columns,).
        zero_point: Shape (columns,), or None.
    """
    count, codes = scale.size, x.shape[1]
    shape: Tuple[int, ...] = (count, codes) if codes > 1 else (1, count)
    parameter: Tuple[int, ...]
    if request.granularity == "per_tensor":
        shape, parameter = (codes,), (1,) * request.rank
    elif request.granularity == "blocked":
        parameter = (count, 1) if codes > 1 else (1, count)
    else:
        parameter = (count,)
    whole = np.broadcast_to(x, (count, codes))
    # One row for all columns is not copied here, because `hand_out` makes a fresh array anyway.
    tensors = {"x": Tensor(request.dtypes[0], whole if whole.shape == shape else whole.reshape(shape))}
    tensors["scale"] = Tensor(request.dtypes[1], scale.reshape(parameter))
    if zero_point is not None:
        tensors["zero_point"] = Tensor(request.dtypes[2], zero_point.reshape(parameter))
    return replace(template, tensors=tensors)


def load(path: str, module: str, function: str, *arguments: str) -> Loaded:
    """Load the oracle with ``module.function(*arguments)``; exceptions pass through.

    Args:
        path: The file of operands and results.
    """
    before = imported()
    inner = _loaded(module, function, arguments)
    _keep_freed_memory()
    memory = np.memmap(path, np.uint8, "r+")

    def answer(call: Call, options: str) -> Outcome:
        if options == SOURCES:
            is_users = module == PYTHON_KERNEL
            report = sources(arguments[0].rpartition(":")[0], before) if is_users else {"files": {}, "versions": {}}
            listed = json.dumps(report).encode()
            return Outcome("tensor", Tensor("uint8", np.frombuffer(listed, np.uint8)))
        return _answer(inner.answer, memory, call, Request(**json.loads(options)))

    return replace(inner, answer=answer)


def _keep_freed_memory() -> None:
    """Make glibc keep freed memory for the next call.

    Otherwise every large array consists of new pages, whose first use takes longer than the arithmetic.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    for parameter in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
        mallopt(parameter, KEPT_BYTES)


def _loaded(module: str, function: str, arguments: Tuple[str, ...]) -> Loaded:
    if module == PYTHON_KERNEL:
        from xverify.oracles.python_target import find_function

        warnings.simplefilter("ignore")
        return Loaded(_called_once(find_function(*arguments)), fatal=(MemoryError,))
    loaded: Loaded = getattr(importlib.import_module(module), function)(*arguments)
    return loaded


def _called_once(function: Any) -> Answer:
    """Answer with a user's function, without the checks of `python_kernel`."""
    from xverify.oracles.python_kernel import arguments
    from xverify.oracles.results import as_array

    def answer(call: Call, path: str) -> Tensor:
        operands, keywords = arguments(call, hand_out(call))
        with np.errstate(all="ignore"):
            return from_array(as_array(function(*operands, **keywords)))

    return answer


def _answer(ask: Answer, memory: Array, call: Call, request: Request) -> Outcome:
    x, scale, zero_point, y = _views(memory, request)
    for first in range(0, request.columns, request.each):
        some = slice(first, min(first + request.each, request.columns))
        of_x = x if request.x_rows == 1 else x[some]
        answer = ask(call_of(call, request, of_x, scale[some], None if zero_point is None else zero_point[some]), "")
        outcome = answer if isinstance(answer, Outcome) else Outcome("tensor", answer)
        result = outcome.tensor
        if result is None or outcome.notes:
            return outcome
        expected = (request.codes,) if request.granularity == "per_tensor" else _shape(some, request.codes)
        if result.dtype != request.dtypes[3] or result.shape != expected:
            what = "%s%s, expected %s%s" % (result.dtype, list(result.shape), request.dtypes[3], list(expected))
            return Outcome("rejected", error="WrongResult", message="the result is " + what)
        y[some] = result.codes.reshape(-1, request.codes)
    return Outcome("tensor", Tensor("uint8", np.zeros(0, np.uint8)))


def _shape(some: slice, codes: int) -> Tuple[int, ...]:
    count = some.stop - some.start
    return (count, codes) if codes > 1 else (1, count)


def _views(memory: Array, request: Request) -> List[Any]:
    """The arrays x, scale, zero point (or None) and y in the file."""
    shapes = ((request.x_rows, request.codes), (request.columns,), (request.columns,), (request.columns, request.codes))
    arrays: List[Any] = []
    for dtype, offset, shape in zip(request.dtypes, request.places, shapes):  # noqa: B905
        if not dtype:
            arrays.append(None)
            continue
        code = code_dtype(dtype)
        count = int(np.prod(shape, dtype=np.int64))
        arrays.append(np.frombuffer(memory, code, count, offset).reshape(shape))
    return arrays


def views(memory: Array, request: Request) -> Dict[str, Any]:
    """The arrays x, scale, zero_point and y in the file, for the process that makes requests."""
    x, scale, zero_point, y = _views(memory, request)
    return {"x": x, "scale": scale, "zero_point": zero_point, "y": y}
