"""(x - zero_point) * scale, and / scale, on a CUDA device: `xverify.kernels.checks`, and its bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from xverify.kernels import checks
from xverify.kernels.cuda.arrays import (
    SUB_BYTE,
    Given,
    current,
    given,
    named,
    on_device,
    output,
    packed,
    require_device,
)
from xverify.kernels.cuda.launch import Launch
from xverify.kernels.editions import edition
from xverify.kernels.plans import Operand, Plan, remembered


def dequantize_linear(
    x: Any,
    scale: Any,
    zero_point: Any = None,
    *,
    axis: int | None = None,
    block_size: int | None = None,
    out_dtype: DTypeLike | None = None,
    out: Any = None,
    contract: str = "ai.onnx/DequantizeLinear",
    stream: Any = None,
    x_dtype: DTypeLike | None = None,
    scale_dtype: DTypeLike | None = None,
    zero_point_dtype: DTypeLike | None = None,
) -> Any:
    """y = (x - zero_point) * scale, exact and rounded once, for arrays on a CUDA device.

    Formula, granularities, editions and refusals are those of `xverify.dequantize_linear`. Arrays that are not in C order are
    copied first.

    Args:
        x, scale, zero_point: CuPy arrays, or arrays with ``__dlpack__`` or ``__cuda_array_interface__``, on one CUDA device.
        axis, block_size, out_dtype, contract: as for `xverify.dequantize_linear`.
        out: an array on that device in C order, of x's shape and the output dtype (bfloat16: uint16).
        stream: the stream of the kernel: a CuPy stream or another with ``__cuda_stream__``, or the address of a cudaStream_t;
            None for CuPy's current stream. The kernel runs after pending work on the arrays. The call does not wait for it.
        x_dtype, scale_dtype: the dtype of the codes if the array cannot have it: bfloat16 in a uint16 array, int4,
            float8_e4m3fn and others in a uint8 array, one element a byte.
        zero_point_dtype: the same; None for x_dtype if its array has x's dtype.

    Returns:
        A CuPy array, or the CuPy array of ``out``'s memory. A bfloat16 output is an array of uint16.

    Raises:
        TypeError, ValueError: as `xverify.dequantize_linear`, and for arrays that are not as above.
        ImportError: without CuPy.
        RuntimeError: without a card.
    """
    require_device()
    dtypes = (x_dtype, scale_dtype, zero_point_dtype)
    with current(x, stream):
        operands = _operands(("x", "scale", "zero_point"), (x, scale, zero_point), dtypes)
        return _linear(operands, axis, block_size, out_dtype, out, contract)


def dequantize_packed(
    x: Any,
    scale: Any,
    zero_point: Any = None,
    *,
    dtype: DTypeLike,
    shape: Sequence[int],
    axis: int | None = None,
    block_size: int | None = None,
    out_dtype: DTypeLike | None = None,
    out: Any = None,
    contract: str = "ai.onnx/DequantizeLinear",
    stream: Any = None,
    scale_dtype: DTypeLike | None = None,
) -> Any:
    """`dequantize_linear` of packed codes of fewer than 8 bits.

    The codes are in C order, the first of a byte in its lowest bits. Four codes of 6 bits fill 3 bytes.

    Args:
        x: a uint8 array of ceil(elements * bits / 8) bytes. Unused bits of the last byte are ignored.
        scale: as for `dequantize_linear`.
        zero_point: packed as x is, as many codes as scale has elements; None is 0.
        dtype: int4, uint4, float4_e2m1fn, int2, uint2, float6_e2m3fn or float6_e3m2fn.
        shape: the shape of the tensor.
        axis, block_size, out_dtype, out, contract, stream, scale_dtype: as for `dequantize_linear`.

    Returns:
        An array of ``shape``.

    Raises:
        TypeError, ValueError: as `dequantize_linear`, and for x, dtype and shape.
    """
    require_device()
    meant, extents = named(dtype, "dtype"), tuple(int(extent) for extent in shape)
    if meant not in SUB_BYTE:
        raise TypeError(f"dtype is {meant}; expected a dtype of 6, 4 or 2 bits, since only such codes are packed")
    if any(extent < 0 for extent in extents):
        raise ValueError(f"shape is {extents}; expected no negative extent")
    with current(x, stream):
        factor = given(scale, "scale", scale_dtype)
        offset = None if zero_point is None else packed(zero_point, "zero_point", meant, factor.shape)
        operands = (packed(x, "x", meant, extents), factor, offset)
        return _linear(operands, axis, block_size, out_dtype, out, contract, True)


def dynamic_dequantize(
    src: Any,
    scales: Any,
    zps: Any = None,
    *,
    qtype: str = "per_tensor",
    axis: int = 1,
    out: Any = None,
    contract: str = "onednn/DynamicDequantize-1@multiply",
    stream: Any = None,
    src_dtype: DTypeLike | None = None,
    scales_dtype: DTypeLike | None = None,
    zps_dtype: DTypeLike | None = None,
) -> Any:
    """dst = (src - zps) * scales, or / scales, exact and rounded once, for arrays on a CUDA device.

    Values of int64 zps are not checked, because that would wait for them: one beyond 2^40 in magnitude is not refused.

    Args:
        src, scales, zps, qtype, axis, contract: as for `xverify.dynamic_dequantize`.
        out, stream, src_dtype, scales_dtype, zps_dtype: as for `xverify.kernels.cuda.dequantize_linear`.

    Returns:
        As `xverify.kernels.cuda.dequantize_linear`.

    Raises:
        TypeError, ValueError, ImportError, RuntimeError: as `xverify.kernels.cuda.dequantize_linear`.
    """
    require_device()
    with current(src, stream):
        operands = _operands(("src", "scales", "zps"), (src, scales, zps), (src_dtype, scales_dtype, zps_dtype))
        return _applied(_dynamic_plan(contract, *_described(*operands), qtype, axis), out, *operands)


def _operands(
    names: tuple[str, str, str],
    arrays: tuple[Any, Any, Any],
    dtypes: tuple[DTypeLike | None, DTypeLike | None, DTypeLike | None],
) -> tuple[Given, Given, Given | None]:
    """x, scale and zero point as operands on the device."""
    x, scale = given(arrays[0], names[0], dtypes[0]), given(arrays[1], names[1], dtypes[1])
    if arrays[2] is None:
        return x, scale, None
    zero_point, dtype = on_device(arrays[2], names[2]), dtypes[2]
    if dtype is None and zero_point.dtype == x.codes.dtype:
        dtype = x.dtype
    return x, scale, given(zero_point, names[2], dtype)


def _described(x: Given, scale: Given, zero_point: Given | None) -> tuple[Any, ...]:
    """The dtypes and shapes, in the order of the plans' parameters."""
    last = (None, None) if zero_point is None else (zero_point.dtype, zero_point.shape)
    return (x.dtype, x.shape, scale.dtype, scale.shape, *last)


def _linear(
    operands: tuple[Given, Given, Given | None],
    axis: int | None,
    block_size: int | None,
    out_dtype: DTypeLike | None,
    out: Any,
    contract: str,
    are_packed: bool = False,
) -> Any:
    form = "packed" if are_packed else "one a byte"
    plan = _linear_plan(contract, *_described(*operands), axis, block_size, out_dtype, form)
    return _applied(plan, out, *operands)


def _applied(plan: Plan, out: Any, x: Given, scale: Given, zero_point: Given | None) -> Any:
    """The output, after the formula was put on the stream."""
    target = output(out, x.shape, plan.dtype, x, scale, zero_point)
    plan.apply(target, x.codes, scale.codes, None if zero_point is None else zero_point.codes)
    return target


@remembered
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
    form: str,
) -> Plan:
    """Check a call as `xverify.dequantize_linear`, and plan the launch."""
    x, scale = Operand(x_dtype, x_shape), Operand(scale_dtype, scale_shape)
    described = (x_dtype, x_shape, scale_dtype, scale_shape, zero_point_dtype, zero_point_shape)
    checked = checks.linear_plan(contract, *described, axis, block_size, out_dtype, "numpy")
    return Plan(
        checked.dtype, Launch.of(checked.dtype, x, scale, zero_point_dtype, checked.spread, packed=form == "packed")
    )


@remembered
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
) -> Plan:
    """Check a call as `xverify.dynamic_dequantize`, and plan the launch."""
    src, scales = Operand(src_dtype, src_shape), Operand(scales_dtype, scales_shape)
    described = (src_dtype, src_shape, scales_dtype, scales_shape, zps_dtype, zps_shape)
    checked = checks.dynamic_plan(contract, *described, qtype, axis, "numpy")
    formula = "QUOTIENT" if edition(contract, "onednn").id.endswith("@divide") else "PRODUCT"
    return Plan(checked.dtype, Launch.of(checked.dtype, src, scales, zps_dtype, checked.spread, formula))
