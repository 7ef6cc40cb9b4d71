"""The checks of ONNX, com.microsoft and oneDNN calls.

They read dtypes, shapes and attributes. The result is a plan, or a refusal.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike

from xverify.kernels.backends import planned
from xverify.kernels.blocks import Spread
from xverify.kernels.editions import Edition, dtype_name, edition
from xverify.kernels.plans import Operand, Plan, remembered


@remembered
def linear_plan(
    contract: str,
    x_dtype: np.dtype[Any],
    x_shape: tuple[int, ...],
    scale_dtype: np.dtype[Any],
    scale_shape: tuple[int, ...],
    zero_point_dtype: np.dtype[Any] | None,
    zero_point_shape: tuple[int, ...] | None,
    axis: int | None,
    block_size: int | None,
    out_dtype: DTypeLike | None,
    backend: str | None,
    x_in_byte: int = 1,
    zero_points_in_byte: int = 1,
) -> Plan:
    """Check a call of `dequantize_linear`, or of `dequantize_packed`, and plan it.

    Args:
        x_in_byte: codes in a byte of x.
        zero_points_in_byte: codes in a byte of zero points.

    Raises:
        TypeError: for a dtype or an attribute that the edition lacks.
        ValueError: for a shape or a value that the edition lacks.
    """
    rules = edition(contract, "linear")
    x, scale = Operand(x_dtype, x_shape, x_in_byte), Operand(scale_dtype, scale_shape)
    zero_point = (
        None if zero_point_dtype is None else Operand(zero_point_dtype, zero_point_shape or (), zero_points_in_byte)
    )
    rules.require_dtype(rules.first("data-type", "x-type"), "x", x.dtype, rules.domain.x_dtypes)
    rules.require_dtype(rules.first("scale-dtype", "scale-type"), "scale", scale.dtype, rules.domain.scale_dtypes)
    rules.require_attribute("axis", axis)
    rules.require_attribute("block_size", block_size)
    result_dtype = _output_dtype(rules, scale, out_dtype)
    if zero_point is not None:
        clause = rules.first("zero-point-range", "zero-point-dtype", "zero-point-type")
        rules.require_dtype(clause, "zero_point", zero_point.dtype, rules.domain.zero_points_for(dtype_name(x.dtype)))
        if (scale.shape, zero_point.shape) == ((), (1,)) and "shape-1-zero-point" in rules.clauses:
            zero_point = zero_point._replace(shape=())  # ONNX's node tests pass such zero points
        elif zero_point.shape != scale.shape:
            rules.refuse(
                ValueError, "zero-point-shape", "the shape of zero_point", zero_point.shape, f"scale's, {scale.shape}"
            )
    elif rules.domain.zero_point_required:
        rules.refuse(TypeError, "zero-point-required", "zero_point", "absent", "a tensor")
    spread = _spread(rules, x.shape, scale.shape, axis, block_size)
    return planned(backend, result_dtype, x, scale, zero_point, spread)


@remembered
def dynamic_plan(
    contract: str,
    src_dtype: np.dtype[Any],
    src_shape: tuple[int, ...],
    scales_dtype: np.dtype[Any],
    scales_shape: tuple[int, ...],
    zps_dtype: np.dtype[Any] | None,
    zps_shape: tuple[int, ...] | None,
    qtype: str,
    axis: int,
    backend: str | None,
) -> Plan:
    """Check a call of `dynamic_dequantize`, and plan it.

    Raises:
        TypeError: for a dtype that the edition lacks.
        ValueError: for a shape or a value that the edition lacks.
    """
    rules = edition(contract, "onednn")
    src, scales = Operand(src_dtype, src_shape), Operand(scales_dtype, scales_shape)
    zps = None if zps_dtype is None else Operand(zps_dtype, zps_shape or ())
    rules.require_dtype("src-type", "src", src.dtype, rules.domain.x_dtypes)
    rules.require_dtype("scales-type", "scales", scales.dtype, rules.domain.scale_dtypes)
    if zps is not None:
        admitted = rules.domain.zero_points_for(dtype_name(src.dtype))
        if not admitted:
            rules.refuse(TypeError, "zps-float8", "zps", "given", f"None, since src is {src.dtype}")
        if rules.id.startswith("onednn/Dequantize-1"):  # its zps are a list of s64
            admitted = (*admitted, "int64")
        rules.require_dtype("zps-type", "zps", zps.dtype, admitted)
    elif rules.domain.zero_point_required:
        rules.refuse(TypeError, "zero-point-required", "zps", "absent", "a tensor")
    if qtype not in ("per_tensor", "per_channel"):
        rules.refuse(ValueError, "qtype", "qtype", repr(qtype), "'per_tensor' or 'per_channel'")
    axis = rules.integer("axis-range", "axis", axis)
    spread, extent = Spread(), 1
    if qtype == "per_channel":
        spread = Spread(rules.front_axis("axis-range", axis, len(src.shape)))
        extent = src.shape[axis]
    for name, parameter in (("scales", scales), ("zps", zps)):
        if parameter is not None and parameter.shape != (extent,):
            rules.refuse(
                ValueError, f"{name}-shape", f"the shape of {name}", parameter.shape, f"({extent},) for {qtype}"
            )
    by_division = rules.id.endswith("@divide")
    return planned(backend, scales.dtype.newbyteorder("="), src, scales, zps, spread, by_division)


def named_dtype(rules: Edition, out_dtype: DTypeLike) -> np.dtype[Any]:
    """The output dtype of that name.

    Raises:
        TypeError: if there is no such dtype, or the edition lacks it.
    """
    admitted = rules.domain.output_dtypes
    try:
        dtype = np.dtype(getattr(ml_dtypes, out_dtype, out_dtype) if isinstance(out_dtype, str) else out_dtype)
    except TypeError:
        rules.refuse(
            TypeError, rules.first("output-dtype", "output-type"), "out_dtype", repr(out_dtype), " or ".join(admitted)
        )
    rules.require_dtype(rules.first("output-dtype", "output-type"), "the output", dtype, admitted)
    return dtype


def _output_dtype(rules: Edition, scale: Operand, out_dtype: DTypeLike | None) -> np.dtype[Any]:
    """``out_dtype``, or the scale's dtype, if the edition has it as an output."""
    rules.require_attribute("output_dtype", out_dtype)
    return named_dtype(rules, scale.dtype.newbyteorder("=") if out_dtype is None else out_dtype)


def _spread(
    rules: Edition, x: tuple[int, ...], scale: tuple[int, ...], axis: int | None, block_size: int | None
) -> Spread:
    """The granularity, by the shapes alone; ValueError if the edition lacks it."""
    granularities, rank = rules.domain.granularities, len(x)
    run = 0 if block_size is None else rules.integer("block-size", "block_size", block_size)
    if run < 0:
        rules.refuse(ValueError, "block-size", "block_size", run, "a positive integer, or 0 for none")
    if axis is not None:
        axis = rules.integer("axis-range" if rules.domain.default_axis is not None else "axis", "axis", axis)
    if granularities == ("blocked",):
        return _group_spread(rules, x, scale, run)
    if rules.domain.default_axis is None:
        return _optional_axis_spread(rules, x, scale, axis, run)
    if scale == ():
        return Spread()
    if "per_axis" not in granularities:
        if scale != (1,):
            rules.refuse(ValueError, "granularity", "the shape of scale", scale, "a scalar, ()")
        return Spread()
    axis = rules.domain.default_axis if axis is None else axis
    if "blocked" in granularities and len(scale) == rank and (rank > 1 or run):
        if run == 0:
            rules.refuse(ValueError, "block-size", "block_size", 0, f"a positive integer for a scale of shape {scale}")
        return _blocked_spread(rules, x, scale, rules.front_axis("axis-range", axis, rank), run)
    if len(scale) != 1:
        rules.refuse(ValueError, "granularity", "the shape of scale", scale, f"() or a 1-D shape for x of shape {x}")
    # Opset 19 says of a rank of 1 that the axis is "unnecessary".
    axis = 0 if rank == 1 and "rank-1" in rules.clauses else rules.front_axis("axis-range", axis, rank)
    return _one_dimensional(rules, x, scale, axis)


def _blocked_spread(rules: Edition, x: tuple[int, ...], scale: tuple[int, ...], axis: int, run: int) -> Spread:
    expected = (*x[:axis], -(-x[axis] // run), *x[axis + 1 :])
    if scale != expected:
        clause = "block-shape" if "block-shape" in rules.clauses else "granularity"
        rules.refuse(ValueError, clause, "the shape of scale", scale, expected)
    return Spread(axis, min(run, max(x[axis], 1)))  # a longer block is one of the whole axis


def _one_dimensional(rules: Edition, x: tuple[int, ...], scale: tuple[int, ...], axis: int) -> Spread:
    if scale[0] == x[axis]:
        return Spread(axis)
    is_silent = "axis-length" in rules.clauses
    if scale != (1,) or not is_silent:
        clause = "axis-length" if is_silent else "granularity"
        rules.refuse(ValueError, clause, "the shape of scale", scale, f"({x[axis]},), x's extent on axis {axis}")
    return Spread()


def _group_spread(rules: Edition, x: tuple[int, ...], scale: tuple[int, ...], run: int) -> Spread:
    """The granularity of PyTorch's groups: runs of adjacent elements in each row of a matrix."""
    if len(x) != 2:
        rules.refuse(ValueError, "rank", "the shape of x", x, "the shape of a matrix")
    if run == 0:
        rules.refuse(ValueError, "block-size", "block_size", run, "a positive integer")
    expected = (x[0], -(-x[1] // run))
    if scale != expected:
        rules.refuse(ValueError, "block-shape", "the shape of scale", scale, expected)
    return Spread(1, min(run, max(x[1], 1)))


def _optional_axis_spread(
    rules: Edition, x: tuple[int, ...], scale: tuple[int, ...], axis: int | None, run: int
) -> Spread:
    """The granularity where the axis is optional: blocks or 1-D parameters with it, scalars without."""
    if axis is None:
        if "per_tensor" not in rules.domain.granularities:
            rules.refuse(TypeError, "axis-required", "axis", axis, "an integer")
        if scale != () and (scale != (1,) or "shape-1-scale" not in rules.clauses):
            rules.refuse(ValueError, "granularity", "the shape of scale", scale, "(), since no axis is given")
        return Spread()
    if run and "blocked" in rules.domain.granularities:
        return _blocked_spread(rules, x, scale, rules.front_axis("axis", axis, len(x)), run)
    if len(scale) != 1:
        rules.refuse(ValueError, "granularity", "the shape of scale", scale, "a 1-D shape, since an axis is given")
    return _one_dimensional(rules, x, scale, rules.front_axis("axis", axis, len(x)))
