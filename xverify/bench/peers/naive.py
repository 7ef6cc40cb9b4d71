"""The formula in plain NumPy, written without regard to speed."""

from __future__ import annotations

import numpy as np

from xverify.bench.problem import Array, Problem, Solve, Way


def load(threads: int) -> Solve:
    """Return the solver. NumPy runs this on one thread."""

    def solve(problem: Problem) -> list[Way]:
        if problem.case.packed:
            raise NotImplementedError("NumPy has no packed codes")
        x, (scale, zero_point) = _broadcasting(problem)
        dtype = problem.out.dtype

        def run() -> Array:
            difference = x.astype(np.float32)
            if zero_point is not None:
                difference = difference - zero_point.astype(np.float32)
            return np.asarray((difference * scale.astype(np.float32)).astype(dtype, copy=False))

        return [Way("(x.astype(float32) - zero_point) * scale", run, np.asarray, owns_output=True)]

    return solve


def _broadcasting(problem: Problem) -> tuple[Array, tuple[Array, Array | None]]:
    """Give x and the parameters shapes that broadcast.

    Where whole blocks fill the axis, each block becomes an axis of its own.
    """
    case = problem.case
    parameters = [problem.scale, *([] if problem.zero_point is None else [problem.zero_point])]
    x = problem.x
    if case.axis is not None and case.block_size and case.shape[case.axis] % case.block_size == 0:
        shape = list(case.shape)
        shape[case.axis : case.axis + 1] = [-1, case.block_size]
        x = x.reshape(shape)
        parameters = [np.expand_dims(parameter, case.axis + 1) for parameter in parameters]
    else:
        parameters = [problem.along(parameter) for parameter in parameters]
    return x, (parameters[0], parameters[1] if len(parameters) > 1 else None)
