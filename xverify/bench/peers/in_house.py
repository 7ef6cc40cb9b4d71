"""The in-house kernels, by the public functions and their output given."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from xverify.bench.data import aligned
from xverify.bench.problem import Array, Problem, Solve, Way
from xverify.oracles.packed_codes import in_packed_form


def load(threads: int) -> Solve:
    """The kernel of the backend that the process was started for."""
    import xverify

    backend = os.environ["XVERIFY_BENCH"]

    def solve(problem: Problem) -> list[Way]:
        case = problem.case
        keywords: dict[str, Any] = {} if case.axis is None else {"axis": case.axis}
        if case.block_size:
            keywords["block_size"] = case.block_size
        keywords.update(out=problem.out, backend=backend)
        if not case.packed:
            call = partial(xverify.dequantize_linear, problem.x, problem.scale, problem.zero_point, **keywords)
            return [Way("dequantize_linear, out given", call)]
        zero_point = None if problem.zero_point is None else _packed(problem.zero_point)
        keywords.update(dtype=case.x_dtype, shape=case.shape)
        call = partial(xverify.dequantize_packed, _packed(problem.x), problem.scale, zero_point, **keywords)
        return [Way("dequantize_packed, out given", call)]

    return solve


def _packed(array: Array) -> Array:
    """The codes of an array as they are stored, on a line of the cache."""
    codes = in_packed_form(array)
    found = aligned(codes.shape, "uint8")
    found[...] = codes
    return found
