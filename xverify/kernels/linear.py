"""(x - zero_point) * scale, and / scale: ONNX, com.microsoft, PyTorch, LiteRT and oneDNN.

Each contract's first reading: the exact value of the formula, rounded once, to nearest even, to the output type;
subnormals are kept, infinities, NaN and the signs of zeros are IEEE 754's. The documents are those of the edition.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from xverify.kernels.casting import Array
from xverify.kernels.checks import dynamic_plan, linear_plan
from xverify.kernels.editions import edition, output
from xverify.kernels.formula import lie_within
from xverify.kernels.plans import Plan

_DOUBLE_LIMIT = 1 << 40
"""The largest magnitude of a zero point whose differences have 41 bits, for which `casting.multiply` is exact."""


def dequantize_linear(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    axis: int | None = None,
    block_size: int | None = None,
    out_dtype: DTypeLike | None = None,
    out: Array | None = None,
    contract: str = "ai.onnx/DequantizeLinear",
    backend: str | None = None,
) -> Array:
    """y = (x - zero_point) * scale, exact and rounded once.

    The granularity follows the clauses "granularity" and "block-shape":

    - scale 0-d: per tensor; ``axis`` and ``block_size`` are not used;
    - scale 1-D of x's extent along ``axis``: per axis (com.microsoft, PyTorch and LiteRT: if ``axis`` is given);
    - scale of x's rank with ``block_size`` > 0: blocked; its extent is ceil(extent / block_size) along ``axis``, and
      x's elsewhere. The last block may be partial.

    Where the text is silent, a 1-D scale of one element serves the whole tensor.

    Args:
        x: any shape, a dtype of the edition (4- and 2-bit types as ml_dtypes arrays).
        scale: float32, float16, bfloat16 or float8_e8m0fnu, as the edition has it.
        zero_point: scale's shape and x's dtype; None is 0. ONNX 19 and later: also shape (1,) beside a 0-d scale.
        axis: None for the edition's default: 1 (com.microsoft, PyTorch and LiteRT: none, per tensor).
        block_size: None for the edition's default, 0. For PyTorch's dequantize_per_channel_group it is the argument group_size.
        out_dtype: the output's dtype (ONNX 23 and later); None for scale's dtype.
        out: the array to write and return, of x's shape and the output dtype, any strides. It must not overlap an input.
        contract: the id of an edition.
        backend: "numpy", "numba", or None for the fastest that is installed.

    Returns:
        An array of x's shape, in scale's dtype or in ``out_dtype``.

    Raises:
        TypeError: for a dtype or an attribute that the edition lacks. The message names the clause.
        ValueError: for a shape or a value that the edition lacks, or an unknown contract.

    Source:
        The summary of ONNX DequantizeLinear 10 to 25 (clause "formula" of ``ai.onnx/DequantizeLinear-<n>``), and of
        com.microsoft DequantizeLinear 1; of PyTorch's editions, and of LiteRT's specification.
    """
    if type(x) is not np.ndarray:
        x = np.asarray(x)
    if type(scale) is not np.ndarray:
        scale = np.asarray(scale)
    if zero_point is not None and type(zero_point) is not np.ndarray:
        zero_point = np.asarray(zero_point)
    plan = linear_plan(
        contract,
        x.dtype,
        x.shape,
        scale.dtype,
        scale.shape,
        None if zero_point is None else zero_point.dtype,
        None if zero_point is None else zero_point.shape,
        axis,
        block_size,
        out_dtype,
        backend,
    )
    return evaluated(plan, out, x.shape, x, scale, zero_point)


def evaluated(
    plan: Plan, out: Array | None, shape: tuple[int, ...], x: Array, scale: Array, zero_point: Array | None
) -> Array:
    """The result of a plan, in ``out`` or in a new array of that shape. Raises as `editions.output`."""
    if plan.small is not None:
        if out is None:
            out = np.empty(shape, plan.dtype)
        if (
            type(out) is np.ndarray
            and (out.dtype is plan.dtype or out.dtype == plan.dtype)
            and out.shape == shape
            and plan.small(out, x, scale, zero_point)
        ):
            return out
    out = output(out, shape, plan.dtype, x, scale, zero_point)
    plan.apply(out, x, scale, zero_point)
    return out


def dynamic_dequantize(
    src: ArrayLike,
    scales: ArrayLike,
    zps: ArrayLike | None = None,
    *,
    qtype: str = "per_tensor",
    axis: int = 1,
    out: Array | None = None,
    contract: str = "onednn/DynamicDequantize-1@multiply",
    backend: str | None = None,
) -> Array:
    """dst = (src - zps) * scales, or / scales, exact and rounded once to the type of the scales.

    The difference is exact also where it leaves the range of int32, about which the texts are silent.

    Args:
        src: any shape, int8 or uint8 (``@3.7``: also int4, uint4; Dequantize-1@3.5: float8_e4m3fn, float8_e5m2).
        scales: float32 (``@3.7``: also float16, bfloat16), 1-D: one element (``qtype`` "per_tensor"), or src's extent along
            ``axis`` ("per_channel").
        zps: scales' shape, at most 2^40 in magnitude; None is 0 (Dequantize-1@3.0: refused). int8, uint8 or int32 for any src;
            for int4 and uint4: int4, uint4 or int32; Dequantize-1: int32 or int64, and none for float8.
        qtype: "per_tensor" or "per_channel".
        axis: in [-rank, rank - 1].
        out: the array to write and return, of scales' dtype and src's shape, any strides. It must not overlap an input.
        contract: the id of an edition. ``@multiply`` is the specification (2020-2022), ``@divide`` the developer guide, ``@3.0``
            and ``@3.7`` the guide of the releases from there on. ``onednn/Dequantize-1`` (``@3.0``, ``@3.5``) multiplies; its
            attributes scales and zps are the arrays of that name here.
        backend: "numpy", "numba", or None for the fastest that is installed.

    Returns:
        An array of src's shape in scales' dtype.

    Raises:
        TypeError: for a dtype. The message names the clause.
        ValueError: for a shape, an axis or a qtype.

    Source:
        oneDNN DynamicDequantize-1 and Dequantize-1, clause "formula".
    """
    src, scales = np.asarray(src), np.asarray(scales)
    zps = None if zps is None else np.asarray(zps)
    plan = dynamic_plan(
        contract,
        src.dtype,
        src.shape,
        scales.dtype,
        scales.shape,
        None if zps is None else zps.dtype,
        None if zps is None else zps.shape,
        qtype,
        axis,
        backend,
    )
    if zps is not None and zps.dtype.itemsize == 8:
        _require_exact(contract, zps)
    out = output(out, src.shape, plan.dtype, src, scales, zps)
    plan.apply(out, src, scales, zps)
    return out


def _require_exact(contract: str, zps: Array) -> None:
    """Raise ValueError for a zero point whose differences may not be exact."""
    if not lie_within(zps, _DOUBLE_LIMIT):
        beyond = zps[(zps > _DOUBLE_LIMIT) | (zps < -_DOUBLE_LIMIT)]
        rules = edition(contract, "onednn")
        rules.refuse(ValueError, "formula", "a zero point", beyond[0], f"at most {_DOUBLE_LIMIT} (2^40) in magnitude")
