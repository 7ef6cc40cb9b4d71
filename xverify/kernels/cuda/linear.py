"""(x - zero_point) * scale, and / scale, on a CUDA device: `xverify.kernels.checks`, and its bits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from xverify.kernels import checks
from xverify.kernels.cuda.arrays import (
    SUB_BYTE,
    current,
    meaning,
    named,
    on_device,
    ready,
    require_packed,
    with_device,
)
from xverify.kernels.cuda.launch import Launch
from xverify.kernels.cuda.repeated import accept, repeated
from xverify.kernels.editions import edition
from xverify.kernels.plans import Operand, Plan, remembered

NAMES = ("x", "scale", "zero_point")
ONEDNN_NAMES = ("src", "scales", "zps")


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
    with_device()
    attributes = ("linear", contract, axis, block_size, out_dtype, x_dtype, scale_dtype, zero_point_dtype)
    if stream is None and repeated(x, scale, zero_point, out, attributes):
        return out
    dtypes = named(x_dtype, "x_dtype"), named(scale_dtype, "scale_dtype"), named(zero_point_dtype, "zero_point_dtype")
    with current(x, stream):
        operands = _on_device(NAMES, x, scale, zero_point)
        plan = linear_plan(contract, *_described(*operands), *dtypes, None, axis, block_size, out_dtype)
        return _applied(plan, out, operands[0].shape, NAMES, operands, attributes)


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
    with_device()
    extents = tuple(map(int, shape))
    attributes = ("packed", contract, axis, block_size, out_dtype, dtype, extents, scale_dtype)
    if stream is None and repeated(x, scale, zero_point, out, attributes):
        return out
    meant = named(dtype, "dtype")
    if meant is None or meant not in SUB_BYTE:
        raise TypeError(f"dtype is {meant}; expected a dtype of 6, 4 or 2 bits, since only such codes are packed")
    if any(extent < 0 for extent in extents):
        raise ValueError(f"shape is {extents}; expected no negative extent")
    dtypes = meant, named(scale_dtype, "scale_dtype"), meant
    with current(x, stream):
        operands = _on_device(NAMES, x, scale, zero_point)
        plan = linear_plan(contract, *_described(*operands), *dtypes, extents, axis, block_size, out_dtype)
        return _applied(plan, out, extents, NAMES, operands, attributes)


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
    with_device()
    attributes = ("dynamic", contract, qtype, axis, src_dtype, scales_dtype, zps_dtype)
    if stream is None and repeated(src, scales, zps, out, attributes):
        return out
    dtypes = named(src_dtype, "src_dtype"), named(scales_dtype, "scales_dtype"), named(zps_dtype, "zps_dtype")
    with current(src, stream):
        operands = _on_device(ONEDNN_NAMES, src, scales, zps)
        plan = dynamic_plan(contract, *_described(*operands), *dtypes, qtype, axis)
        return _applied(plan, out, operands[0].shape, ONEDNN_NAMES, operands, attributes)


def _on_device(names: tuple[str, str, str], x: Any, scale: Any, zero_point: Any) -> tuple[Any, Any, Any]:
    """The CuPy arrays of x, scale and zero point; None for no zero point."""
    offset = None if zero_point is None else on_device(zero_point, names[2])
    return on_device(x, names[0]), on_device(scale, names[1]), offset


def _described(x: Any, scale: Any, zero_point: Any) -> tuple[Any, ...]:
    """The dtypes and shapes of the arrays, in the order of the plans' parameters."""
    if zero_point is None:
        return x.dtype, x.shape, scale.dtype, scale.shape, None, None
    return x.dtype, x.shape, scale.dtype, scale.shape, zero_point.dtype, zero_point.shape


def _applied(
    plan: Plan,
    out: Any,
    shape: tuple[int, ...],
    names: tuple[str, str, str],
    operands: Sequence[Any],
    attributes: tuple[Any, ...],
) -> Any:
    """The output, after the formula was put on the stream."""
    target, in_order = ready(out, shape, plan.dtype, names, operands)
    plan.apply(target, *in_order)
    if in_order is operands:
        accept(plan.apply, operands, target, attributes)
    return target


def _meanings(
    names: tuple[str, str, str],
    arrays: tuple[np.dtype[Any], np.dtype[Any], np.dtype[Any] | None],
    dtypes: tuple[np.dtype[Any] | None, np.dtype[Any] | None, np.dtype[Any] | None],
) -> tuple[np.dtype[Any], np.dtype[Any], np.dtype[Any] | None]:
    """The dtypes of the codes, from the dtypes of the arrays and those that the caller named."""
    x, scale = meaning(arrays[0], dtypes[0], names[0]), meaning(arrays[1], dtypes[1], names[1])
    if arrays[2] is None:
        return x, scale, None
    is_like_x = dtypes[2] is None and arrays[2] == arrays[0]
    return x, scale, meaning(arrays[2], x if is_like_x else dtypes[2], names[2])


@partial(remembered, attributes=11)
def linear_plan(
    contract: str,
    x: np.dtype[Any],
    x_shape: tuple[int, ...],
    scale: np.dtype[Any],
    scale_shape: tuple[int, ...],
    zero_point: np.dtype[Any] | None,
    zero_point_shape: tuple[int, ...] | None,
    x_dtype: np.dtype[Any] | None,
    scale_dtype: np.dtype[Any] | None,
    zero_point_dtype: np.dtype[Any] | None,
    packed_shape: tuple[int, ...] | None,
    axis: int | None,
    block_size: int | None,
    out_dtype: DTypeLike | None,
) -> Plan:
    """Check a call as `xverify.dequantize_linear`, and plan the launch.

    Args:
        x, x_shape, scale, scale_shape, zero_point, zero_point_shape: the dtypes and the shapes of the arrays.
        x_dtype, scale_dtype, zero_point_dtype: the dtypes that the caller named; of packed codes their dtype.
        packed_shape: the shape of the tensor if x and zero points are packed.
    """
    if packed_shape is None:
        x_dtype, scale_dtype, zero_point_dtype = _meanings(
            NAMES, (x, scale, zero_point), (x_dtype, scale_dtype, zero_point_dtype)
        )
    else:
        assert x_dtype is not None
        scale_dtype = meaning(scale, scale_dtype, "scale")
        require_packed(x, x_shape, "x", x_dtype, packed_shape)
        x_shape, zero_point_dtype = packed_shape, None
        if zero_point is not None:
            require_packed(zero_point, zero_point_shape or (), "zero_point", x_dtype, scale_shape)
            zero_point_dtype, zero_point_shape = x_dtype, scale_shape
    described = (x_dtype, x_shape, scale_dtype, scale_shape, zero_point_dtype, zero_point_shape)
    checked = checks.linear_plan(contract, *described, axis, block_size, out_dtype, "numpy")
    operands = Operand(x_dtype, x_shape), Operand(scale_dtype, scale_shape), zero_point_dtype
    return Plan(checked.dtype, Launch.of(checked.dtype, *operands, checked.spread, packed=packed_shape is not None))


@partial(remembered, attributes=10)
def dynamic_plan(
    contract: str,
    src: np.dtype[Any],
    src_shape: tuple[int, ...],
    scales: np.dtype[Any],
    scales_shape: tuple[int, ...],
    zps: np.dtype[Any] | None,
    zps_shape: tuple[int, ...] | None,
    src_dtype: np.dtype[Any] | None,
    scales_dtype: np.dtype[Any] | None,
    zps_dtype: np.dtype[Any] | None,
    qtype: str,
    axis: int,
) -> Plan:
    """Check a call as `xverify.dynamic_dequantize`, and plan the launch.

    The parameters are as for `linear_plan`.
    """
    dtypes = _meanings(ONEDNN_NAMES, (src, scales, zps), (src_dtype, scales_dtype, zps_dtype))
    described = (dtypes[0], src_shape, dtypes[1], scales_shape, dtypes[2], zps_shape)
    checked = checks.dynamic_plan(contract, *described, qtype, axis, "numpy")
    formula = "QUOTIENT" if edition(contract, "onednn").id.endswith("@divide") else "PRODUCT"
    operands = Operand(dtypes[0], src_shape), Operand(dtypes[1], scales_shape), dtypes[2]
    return Plan(checked.dtype, Launch.of(checked.dtype, *operands, checked.spread, formula))
