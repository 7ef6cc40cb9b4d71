"""TensorFlow's `tf.quantization.dequantize`, eagerly, with the range that stands for the scale and the zero point.

In mode MIN_COMBINED the code that is lowest means min_range and the highest max_range, in MIN_FIRST too, rounded elsewhere; in
SCALED there is no zero point, so that one is asked only where there is none. TensorFlow gives its output memory of its own.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import numpy as np

from xverify.bench.problem import Array, Problem, Solve, Way
from xverify.core.dtypes import integer_range
from xverify.oracles.tensorflow_eager import import_tensorflow

QUANTIZED = ("int8", "uint8", "int16", "uint16", "int32")


def load(threads: int) -> Solve:
    """Import TensorFlow, with so many threads for one operation."""
    os.environ["TF_NUM_INTRAOP_THREADS"] = str(threads)
    tf = import_tensorflow()

    def solve(problem: Problem) -> list[Way]:
        case = problem.case
        if case.x_dtype not in QUANTIZED:
            raise NotImplementedError(f"TensorFlow has no quantized type for {case.x_dtype}")
        if case.out_dtype != "float32":
            raise NotImplementedError(
                f"TensorFlow's min_range and max_range are float32, its output is not {case.out_dtype}"
            )
        if case.block_size:
            raise NotImplementedError("TensorFlow has no blocks")
        if case.x_dtype == "int32":
            raise NotImplementedError("TensorFlow's ranges of qint32 have no float32 ends that stand for the scale")
        x = tf.bitcast(tf.constant(problem.x), getattr(tf, "q" + case.x_dtype))
        low, high = (tf.constant(end) for end in _range(problem))
        axis = {} if case.axis is None else {"axis": case.axis}
        modes = ("MIN_FIRST", "MIN_COMBINED") if case.axis is None else ("MIN_COMBINED",)
        return [
            Way(mode, partial(tf.quantization.dequantize, x, low, high, mode=mode, **axis), _array, owns_output=True)
            for mode in modes
        ]

    return solve


def _range(problem: Problem) -> tuple[Array, Array]:
    """What the lowest and the highest code mean."""
    lowest, highest = integer_range(problem.case.x_dtype)
    zero_point = 0 if problem.zero_point is None else problem.zero_point.astype(np.float64)
    scale = problem.scale.astype(np.float64)
    low, high = ((end - zero_point) * scale for end in (lowest, highest))
    return np.asarray(low, np.float32), np.asarray(high, np.float32)


def _array(result: Any) -> Array:
    array: Array = result.numpy()
    return array
