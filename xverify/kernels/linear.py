"""(x - zero_point) * scale, and / scale: ONNX, com.microsoft and oneDNN.

Each contract's first reading: the exact value of the formula, rounded once, to nearest even, to the output type;
subnormals are kept, infinities, NaN and the signs of zeros are IEEE 754's. The documents are those of the edition.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from xverify.kernels import casting
from xverify.kernels.backends import chosen
from xverify.kernels.blocks import Fill, Spread, for_each_block
from xverify.kernels.casting import FLOAT32, FLOAT64, Array, is_byte_coded, numbers
from xverify.kernels.editions import Edition, dtype_name, edition, output
from xverify.kernels.plans import Operand, Plan, are_fixed, remembered

_WIDE_FLOATS = (np.dtype(ml_dtypes.float8_e5m2), np.dtype(ml_dtypes.float8_e5m2fnuz))
"""The 8-bit types whose differences have up to 33 significant bits."""

_SINGLE_LIMIT = (1 << 24) - (1 << 16)
"""Differences of an 8- or 16-bit integer and a zero point of at most this magnitude are exact in float32."""

_DOUBLE_LIMIT = 1 << 40
"""Differences with a zero point of at most this magnitude have the 41 bits that `casting.multiply` is exact for."""

LOOK_UP_FROM = 256
"""From this size on, an output for each code is computed once and then looked up."""


def dequantize_linear(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    axis: int | None = None,
    block_size: int | None = None,
    out_dtype: DTypeLike | None = None,
    out: Array | None = None,
    contract: str = "ai.onnx/DequantizeLinear-25",
    backend: str | None = None,
) -> Array:
    """y = (x - zero_point) * scale, exact and rounded once.

    Source: the summary of ONNX DequantizeLinear 10 to 25 (clause "formula" of ``ai.onnx/DequantizeLinear-<n>``), and of
    com.microsoft DequantizeLinear 1. Granularity, by the sentences of clauses "granularity" and "block-shape":

    - scale 0-d: per tensor; ``axis`` and ``block_size`` are then not used;
    - scale 1-D of x's extent along ``axis``: per axis (com.microsoft: when ``axis`` is given);
    - scale of x's rank with ``block_size`` > 0: blocked; its extent is ceil(extent / block_size) along ``axis``, and
      x's elsewhere. The last block may be partial.

    Where the text is silent the natural meaning is taken: a 1-D scale of one element serves the whole tensor.

    x: any shape, a dtype of the edition (4- and 2-bit types as ml_dtypes arrays). scale: float32, float16,
    bfloat16 or float8_e8m0fnu, as the edition has it. zero_point: scale's shape and x's dtype; None is 0.
    axis, block_size, out_dtype: None is "not given", that is the edition's default: axis 1 (com.microsoft: none, per
    tensor), block_size 0, scale's dtype.
    out: the array to write and return, of x's shape and the output dtype, any strides; it must not overlap an input.

    Returns an array of x's shape in scale's dtype, or in ``out_dtype`` (ONNX 23 and later).
    Raises TypeError (dtypes, attributes that the edition lacks) or ValueError (shapes, values), naming the clause; for
    an unknown contract ValueError.
    """
    if type(x) is not np.ndarray:
        x = np.asarray(x)
    if type(scale) is not np.ndarray:
        scale = np.asarray(scale)
    if zero_point is not None and type(zero_point) is not np.ndarray:
        zero_point = np.asarray(zero_point)
    plan = (_remembered_linear_plan if are_fixed(axis, block_size, out_dtype) else _linear_plan)(
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
    if plan.small is not None:
        if out is None:
            out = np.empty(x.shape, plan.dtype)
        if (
            type(out) is np.ndarray
            and (out.dtype is plan.dtype or out.dtype == plan.dtype)
            and out.shape == x.shape
            and plan.small(out, x, scale, zero_point)
        ):
            return out
    out = output(out, x.shape, plan.dtype, x, scale, zero_point)
    plan.apply(out, x, scale, zero_point)
    return out


def _linear_plan(
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
) -> Plan:
    """The checks of `dequantize_linear`."""
    rules = edition(contract, "linear")
    x, scale = Operand(x_dtype, x_shape), Operand(scale_dtype, scale_shape)
    zero_point = None if zero_point_dtype is None else Operand(zero_point_dtype, zero_point_shape or ())
    rules.require_dtype("x-type", "x", x.dtype, rules.domain.x_dtypes)
    rules.require_dtype("scale-type", "scale", scale.dtype, rules.domain.scale_dtypes)
    rules.require_attribute("axis", axis)
    rules.require_attribute("block_size", block_size)
    result_dtype = _output_dtype(rules, scale, out_dtype)
    if zero_point is not None:
        rules.require_dtype("zero-point-type", "zero_point", zero_point.dtype, (dtype_name(x.dtype),))
        if zero_point.shape != scale.shape:
            rules.refuse(
                ValueError, "zero-point-shape", "the shape of zero_point", zero_point.shape, f"scale's, {scale.shape}"
            )
    elif rules.domain.zero_point_required:
        rules.refuse(TypeError, "zero-point-required", "zero_point", "absent", "a tensor")
    spread = _spread(rules, x.shape, scale.shape, axis, block_size)
    return planned(backend, result_dtype, x, scale, zero_point, spread)


_remembered_linear_plan = remembered(_linear_plan)


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

    Source: oneDNN DynamicDequantize-1, clause "formula": ``@multiply`` is the specification (2020-2022), ``@divide``
    the developer guide, ``@3.0`` and ``@3.7`` that of the releases from there on; and ``onednn/Dequantize-1`` (``@3.0`` and
    ``@3.5``), which multiplies, and whose attributes scales and zps are the arrays of that name here. The difference is exact
    also where it leaves the range of int32, of which the texts say nothing.

    src: any shape, int8 or uint8 (``@3.7``: also int4, uint4; Dequantize-1@3.5: float8_e4m3fn, float8_e5m2). scales: float32
    (``@3.7``: also float16, bfloat16), 1-D: one element (``qtype`` "per_tensor"), or src's extent along ``axis``
    ("per_channel"; axis in [-rank, rank - 1]). zps: int8, uint8 or int32 whatever src is (for int4 and uint4: int4, uint4 or
    int32; Dequantize-1: int32 or int64, and none for float8), of scales' shape, at most 2^40 in magnitude; None is 0
    (Dequantize-1@3.0: refused).
    out: the array to write and return, of scales' dtype and src's shape, any strides; it must not overlap an input.

    Returns an array of src's shape in scales' dtype.
    Raises TypeError (dtypes) or ValueError (shapes, axis, qtype), naming the clause.
    """
    src, scales = np.asarray(src), np.asarray(scales)
    zps = None if zps is None else np.asarray(zps)
    plan = (_remembered_dynamic_plan if are_fixed(axis) else _dynamic_plan)(
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
    """ValueError for a zero point of which no difference is known to be exact."""
    beyond = zps[(zps > _DOUBLE_LIMIT) | (zps < -_DOUBLE_LIMIT)]
    if beyond.size:
        rules = edition(contract, "onednn")
        rules.refuse(ValueError, "formula", "a zero point", beyond[0], f"at most {_DOUBLE_LIMIT} (2^40) in magnitude")


def _dynamic_plan(
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
    """The checks of `dynamic_dequantize`."""
    rules = edition(contract, "onednn")
    src, scales = Operand(src_dtype, src_shape), Operand(scales_dtype, scales_shape)
    zps = None if zps_dtype is None else Operand(zps_dtype, zps_shape or ())
    rules.require_dtype("src-type", "src", src.dtype, rules.domain.x_dtypes)
    rules.require_dtype("scales-type", "scales", scales.dtype, rules.domain.scale_dtypes)
    if zps is not None:
        admitted = rules.domain.zero_points_for(dtype_name(src.dtype))
        if not admitted:
            rules.refuse(TypeError, "zps-float8", "zps", "given", f"None, since src is {src.dtype}")
        if rules.id.startswith("onednn/Dequantize-1"):  # whose zps are a list of s64
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


_remembered_dynamic_plan = remembered(_dynamic_plan)


def named_dtype(rules: Edition, out_dtype: DTypeLike) -> np.dtype[Any]:
    """The output dtype of that name; TypeError when there is none such, or the edition lacks it."""
    admitted = rules.domain.output_dtypes
    try:
        dtype = np.dtype(getattr(ml_dtypes, out_dtype, out_dtype) if isinstance(out_dtype, str) else out_dtype)
    except TypeError:
        rules.refuse(TypeError, "output-type", "out_dtype", repr(out_dtype), " or ".join(admitted))
    rules.require_dtype("output-type", "the output", dtype, admitted)
    return dtype


def _output_dtype(rules: Edition, scale: Operand, out_dtype: DTypeLike | None) -> np.dtype[Any]:
    """The scale's dtype or ``out_dtype``, if the edition has it as an output."""
    rules.require_attribute("output_dtype", out_dtype)
    return named_dtype(rules, scale.dtype.newbyteorder("=") if out_dtype is None else out_dtype)


def _spread(
    rules: Edition, x: tuple[int, ...], scale: tuple[int, ...], axis: int | None, block_size: int | None
) -> Spread:
    """How the scale spreads over x, by the shapes alone; ValueError where the edition has no such granularity."""
    granularities, rank = rules.domain.granularities, len(x)
    run = 0 if block_size is None else rules.integer("block-size", "block_size", block_size)
    if run < 0:
        rules.refuse(ValueError, "block-size", "block_size", run, "a positive integer, or 0 for none")
    if axis is not None:
        axis = rules.integer("axis-range" if rules.domain.default_axis is not None else "axis", "axis", axis)
    if rules.domain.default_axis is None:
        return _optional_axis_spread(rules, x, scale, axis)
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
        axis = rules.front_axis("axis-range", axis, rank)
        expected = (*x[:axis], -(-x[axis] // run), *x[axis + 1 :])
        if scale != expected:
            rules.refuse(ValueError, "block-shape", "the shape of scale", scale, expected)
        return Spread(axis, run)
    if len(scale) != 1:
        rules.refuse(ValueError, "granularity", "the shape of scale", scale, f"() or a 1-D shape for x of shape {x}")
    # Opset 19 says of a rank of 1 that the axis is "unnecessary".
    axis = 0 if rank == 1 and "rank-1" in rules.clauses else rules.front_axis("axis-range", axis, rank)
    return _one_dimensional(rules, x, scale, axis)


def _one_dimensional(rules: Edition, x: tuple[int, ...], scale: tuple[int, ...], axis: int) -> Spread:
    if scale[0] == x[axis]:
        return Spread(axis)
    if scale != (1,):
        rules.refuse(ValueError, "granularity", "the shape of scale", scale, f"({x[axis]},), x's extent on axis {axis}")
    return Spread()


def _optional_axis_spread(rules: Edition, x: tuple[int, ...], scale: tuple[int, ...], axis: int | None) -> Spread:
    """com.microsoft: an axis that is given asks for 1-D parameters, one that is not for scalars."""
    if axis is None:
        if scale not in ((), (1,)):
            rules.refuse(ValueError, "granularity", "the shape of scale", scale, "(), since no axis is given")
        return Spread()
    if len(scale) != 1:
        rules.refuse(ValueError, "granularity", "the shape of scale", scale, "a 1-D shape, since an axis is given")
    return _one_dimensional(rules, x, scale, rules.front_axis("axis", axis, len(x)))


def planned(
    backend: str | None,
    dtype: np.dtype[Any],
    x: Operand,
    scale: Operand,
    zero_point: Operand | None,
    spread: Spread,
    by_division: bool = False,
) -> Plan:
    """The plan of operands that have been checked: the formula on the backend."""
    # NumPy's own object for that dtype, which most arrays have, is known by its identity.
    dtype = np.dtype(dtype.type)
    if chosen(backend) == "numpy":
        return Plan(dtype, partial(apply, spread=spread, by_division=by_division), spread=spread)
    from xverify.kernels.compiled.linear import Linear

    formula = Linear.of(dtype, x, scale, zero_point, spread, by_division)
    return Plan(dtype, formula, formula.for_small(x.shape, scale.shape), spread)


def apply(
    out: Array, x: Array, scale: Array, zero_point: Array | None, spread: Spread, by_division: bool = False
) -> None:
    """Write the formula's value for every element of x; the operands have been checked."""
    fill, real = _arithmetic(out.dtype, x, scale, zero_point, by_division)
    with np.errstate(all="ignore"):
        factor = spread.shaped(numbers(scale, real), x.ndim)
        offset = spread.shaped(None if zero_point is None else numbers(zero_point, real), x.ndim)
        looked_up = is_byte_coded(x.dtype) or out.dtype != FLOAT32
        if x.dtype.itemsize == 1 and looked_up and spread.axis is None and x.size > LOOK_UP_FROM:
            table = np.empty(256, out.dtype)
            fill(table, np.arange(256, dtype=np.uint8).view(x.dtype), factor, offset)
            look_up(table, out, x)
        else:
            for_each_block(fill, out, x, spread, factor, offset)


def look_up(table: Array, out: Array, x: Array) -> None:
    """out = the table's entry for each byte of x, whatever the strides of both."""

    def fill(part: Array, codes: Array) -> None:
        if part.flags.c_contiguous:
            np.take(table, codes.view(np.uint8), out=part, mode="clip")
        else:
            part[...] = table[codes.view(np.uint8)]

    for_each_block(fill, out, x, Spread())


def _arithmetic(
    out: np.dtype[Any], x: Array, scale: Array, zero_point: Array | None, by_division: bool
) -> tuple[Fill, np.dtype[Any]]:
    """The cheapest arithmetic that is exact before its last rounding, and the type that it computes in."""
    narrow = x.dtype.itemsize < 4 and (zero_point is None or x.dtype not in _WIDE_FLOATS)
    if narrow and zero_point is not None and zero_point.dtype.itemsize >= 4:
        narrow = bool((zero_point <= _SINGLE_LIMIT).all() and (zero_point >= -_SINGLE_LIMIT).all())
    if narrow and out == FLOAT32:
        # A difference of 24 bits or fewer and a scale, both exact in float32: its one operation is the one rounding.
        return partial(_fill_single, by_division), FLOAT32
    if by_division:
        # A midpoint of float32 has 25 bits and a scale 24, so their product and the difference are integers of 49 bits or fewer
        # in one unit: a quotient that is no midpoint is off it by 2^-49 of itself, and float64, which rounds by 2^-53, never
        # makes it one.
        return partial(_fill_double, np.divide), FLOAT64
    if narrow or scale.dtype != FLOAT32:
        return partial(_fill_double, np.multiply), FLOAT64
    return partial(_fill_double, casting.multiply), FLOAT64


def _fill_single(by_division: bool, out: Array, x: Array, scale: Array, zero_point: Array | None) -> None:
    if is_byte_coded(x.dtype):
        x = numbers(x, FLOAT32)
    combine = np.divide if by_division else np.multiply
    # Converted first: a ufunc that converts its operands goes through NumPy's buffers, which costs more.
    np.copyto(out, x)
    if zero_point is not None:
        np.subtract(out, zero_point, out=out)
    combine(out, scale, out=out)


def _fill_double(combine: casting.Combine, out: Array, x: Array, scale: Array, zero_point: Array | None) -> None:
    difference = numbers(x, FLOAT64)
    if zero_point is not None:
        difference = np.subtract(difference, zero_point, out=difference)
    out[...] = casting.cast(combine(difference, scale), out.dtype)
