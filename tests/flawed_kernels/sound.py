"""Right kernels with the plug-in signatures, and the parts from which flawed kernels are made.

A flawed kernel is like the right one of its contract, refusals included, except for its flaw. All use NumPy, since compiling
takes longer than all calls of most of them.
"""

from __future__ import annotations

import numpy as np

import xverify


def onnx(x, scale, zero_point=None, **attributes):
    """Compute ai.onnx DequantizeLinear 25."""
    return xverify.dequantize_linear(
        x, scale, zero_point, contract="ai.onnx/DequantizeLinear-25", backend="numpy", **attributes
    )


def microsoft(x, scale, zero_point=None, **attributes):
    """Compute com.microsoft DequantizeLinear 1, as the installed onnxruntime does."""
    contract = "com.microsoft/DequantizeLinear-1@installed"
    return xverify.dequantize_linear(x, scale, zero_point, contract=contract, backend="numpy", **attributes)


def onednn_multiply(src, scales, zps=None, **attributes):
    """Compute oneDNN DynamicDequantize by the document that says multiply."""
    return xverify.dynamic_dequantize(
        src, scales, zps, contract="onednn/DynamicDequantize-1@multiply", backend="numpy", **attributes
    )


def onednn_divide(src, scales, zps=None, **attributes):
    """Compute oneDNN DynamicDequantize by the document that says divide."""
    return xverify.dynamic_dequantize(
        src, scales, zps, contract="onednn/DynamicDequantize-1@divide", backend="numpy", **attributes
    )


def tensorflow(input, min_range, max_range, **attributes):  # noqa: A002  (the document's name for it)
    """Compute TensorFlow Dequantize, as the installed TensorFlow does."""
    contract = "tensorflow/Dequantize@installed"
    return xverify.dequantize_range(input, min_range, max_range, contract=contract, backend="numpy", **attributes)


def numbers(array):
    """Return the values of an array of any quantized or scale type. float64 holds each of them exactly."""
    return np.asarray(array).astype(np.float64)


def spread(parameter, shape, axis=1, block_size=0):
    """Repeat a scale or zero point of an allowed call to x's shape."""
    parameter = np.asarray(parameter)
    if parameter.size == 1 and parameter.ndim <= 1:
        return np.broadcast_to(parameter.reshape(()), shape)
    axis %= len(shape)
    if parameter.ndim == len(shape) and block_size:
        return np.take(parameter, np.arange(shape[axis]) // block_size, axis=axis)
    return np.broadcast_to(parameter.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)


def affine(x, zero_point, scale, dtype):
    """Compute (x - zero_point) * scale in float64, cast to the dtype. A zero point may be None."""
    with np.errstate(all="ignore"):
        difference = x if zero_point is None else x - zero_point
        return np.asarray(difference * scale).astype(dtype)


def onnx_with(x, scale, zero_point=None, *, as_x=None, as_scale=None, as_zero_point=None, **attributes):
    """Return the result of `onnx`, but read some operands' elements as other numbers.

    Args:
        as_x, as_scale, as_zero_point: None, or a function from the operand's array, repeated to x's shape, to float64.
    """
    result = onnx(x, scale, zero_point, **attributes)
    place = {name: attributes[name] for name in ("axis", "block_size") if name in attributes}
    given = {"x": (np.asarray(x), as_x), "scale": (spread(scale, np.shape(x), **place), as_scale)}
    if zero_point is not None:
        given["zero_point"] = (spread(zero_point, np.shape(x), **place), as_zero_point)
    changed, read = np.zeros(np.shape(x), bool), {"zero_point": None}
    for name, (operand, reader) in given.items():
        known = numbers(operand)
        read[name] = known if reader is None else reader(operand)
        same_bits = known.view(np.uint64) == read[name].view(np.uint64)
        changed |= ~(same_bits | (np.isnan(known) & np.isnan(read[name])))
    return np.where(changed, affine(read["x"], read["zero_point"], read["scale"], result.dtype), result)
