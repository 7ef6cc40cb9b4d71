"""Kernels of ai.onnx DequantizeLinear 25 that answer almost nothing: stubs and skeletons.

All of their answers are right, so the gate finds no fault. It must not pass them either: `table.ALMOST_NOTHING` has the exit
codes. A call outside a kernel's narrow condition is "not implemented". Kernels made by `_validating` check their arguments
first, and so refuse what the text forbids. Kernels made by `_stub` do not.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

import xverify

_Kernel = Callable[..., Any]
_Condition = Callable[..., bool]


def _right(x, scale, zero_point=None, **attributes):
    return xverify.dequantize_linear(
        x, scale, zero_point, contract="ai.onnx/DequantizeLinear-25", backend="numpy", **attributes
    )


def _validating(condition: _Condition) -> _Kernel:
    """Make a kernel that refuses forbidden calls and answers those that meet the condition."""

    def kernel(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):
        result = _right(x, scale, zero_point, axis=axis, block_size=block_size, out_dtype=out_dtype)
        if not condition(x, scale, zero_point, axis, block_size):
            raise NotImplementedError
        return result

    kernel.__name__, kernel.__doc__ = condition.__name__, condition.__doc__
    return kernel


def _stub(condition: _Condition) -> _Kernel:
    """Make a kernel that checks nothing before its condition."""

    def kernel(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):
        if not condition(x, scale, zero_point, axis, block_size):
            raise NotImplementedError
        return _right(x, scale, zero_point, axis=axis, block_size=block_size, out_dtype=out_dtype)

    kernel.__name__, kernel.__doc__ = condition.__name__, condition.__doc__
    return kernel


def _numbers(array):
    return np.asarray(array).astype(np.float64)


@_stub
def nothing(x, scale, zero_point, axis, block_size):
    """A stub: every call is "not implemented"."""
    return False


@_validating
def only_refusals(x, scale, zero_point, axis, block_size):
    """The arguments are checked; the computation is not written yet."""
    return False


@_stub
def only_open_calls(x, scale, zero_point, axis, block_size):
    """Only blocks along an empty axis, which the text leaves open."""
    return block_size > 0 and x.ndim > 0 and scale.ndim == x.ndim and -x.ndim <= axis < x.ndim and not x.shape[axis]


@_validating
def only_int32_with_zero_point(x, scale, zero_point, axis, block_size):
    """Only int32 with a nonzero zero point, which the text leaves open."""
    return x.dtype == np.int32 and zero_point is not None and bool(zero_point.any())


@_validating
def only_empty_tensors(x, scale, zero_point, axis, block_size):
    """The early return for empty tensors, and nothing after it."""
    return x.size == 0


@_validating
def only_scalars(x, scale, zero_point, axis, block_size):
    """Only an x of rank 0."""
    return x.ndim == 0


@_validating
def only_one_element(x, scale, zero_point, axis, block_size):
    """Only vectors of one element."""
    return x.shape == (1,)


@_validating
def only_two_elements(x, scale, zero_point, axis, block_size):
    """Only an x of at most two elements."""
    return x.size <= 2


@_validating
def only_short_vectors(x, scale, zero_point, axis, block_size):
    """The scalar tail of a vectorised kernel: vectors shorter than 16."""
    return x.ndim == 1 and x.size < 16


@_validating
def only_extents_of_one(x, scale, zero_point, axis, block_size):
    """Any rank, but each extent is 1."""
    return all(extent == 1 for extent in x.shape)


@_validating
def only_nan_scales(x, scale, zero_point, axis, block_size):
    """The propagation of NaN: all scales are NaN."""
    return scale.size > 0 and bool(np.isnan(_numbers(scale)).all())


@_validating
def only_infinite_scales(x, scale, zero_point, axis, block_size):
    """All scales are infinite."""
    return scale.size > 0 and bool(np.isinf(_numbers(scale)).all())


@_validating
def only_zero_scales(x, scale, zero_point, axis, block_size):
    """All scales are 0."""
    return scale.size > 0 and not _numbers(scale).any()


@_validating
def only_one_code(x, scale, zero_point, axis, block_size):
    """All elements of x are equal: one value is computed, and the output filled with it."""
    numbers = _numbers(x).reshape(-1)
    return numbers.size > 0 and bool(np.all(numbers == numbers[0]))


@_validating
def only_x_of_zeros(x, scale, zero_point, axis, block_size):
    """All elements of x are 0, as in a test that was never filled with numbers."""
    return x.size > 0 and not _numbers(x).any()


@_validating
def only_x_equal_to_zero_point(x, scale, zero_point, axis, block_size):
    """Every difference is 0."""
    if zero_point is None or not x.size:
        return False
    ones = np.ones(scale.shape, np.float32)
    return not _numbers(_right(x, ones, zero_point, axis=axis, block_size=block_size)).any()


@_stub
def one_call_of_a_hundred(x, scale, zero_point, axis, block_size):
    """A hash table of answers that was filled from a log: one call of a hundred is in it."""
    return zlib.crc32(x.tobytes() + scale.tobytes() + repr((x.shape, axis, block_size)).encode()) % 100 == 0


_CALLS = itertools.count()


@_stub
def only_the_first_call(x, scale, zero_point, axis, block_size):
    """One call for each process, like a kernel that can use its device once."""
    return next(_CALLS) == 0


@_validating
def only_one_structure(x, scale, zero_point, axis, block_size):
    """The shape of the example in a README: int8 of shape (3, 4) with one float32 scale and no zero point."""
    return x.dtype == np.int8 and x.shape == (3, 4) and scale.dtype == np.float32 and zero_point is None


def rejects_all_but_one_cell(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):
    """int8 with one float32 scale to float32 is answered; all else is an error and not "not implemented"."""
    if x.dtype != np.int8 or scale.dtype != np.float32 or scale.ndim or out_dtype not in (None, np.dtype(np.float32)):
        raise ValueError("int8 with one float32 scale, to float32")
    return _right(x, scale, zero_point, axis=axis, block_size=block_size, out_dtype=out_dtype)


def rejects_everything(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):
    """Every call is an error: the library that computes is missing, and the exception says so."""
    raise ValueError("cannot find the library")
