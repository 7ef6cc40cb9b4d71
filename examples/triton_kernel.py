"""A Triton kernel for ai.onnx/DequantizeLinear-25 with uint8 or int8 codes and float32 scales, per tensor or per row.

It runs on a GPU that PyTorch finds, and otherwise in Triton's interpreter. TRITON_INTERPRET=1 selects the interpreter. Gate it
where PyTorch and Triton are installed:

    xverify gate --kernel examples/triton_kernel.py:dequantize --x-dtypes int8,uint8 --scale-dtypes float32
"""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
import torch

DEVICE = "cuda" if torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1" else "cpu"
if DEVICE == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"  # Triton reads it when a kernel is defined

import triton  # noqa: E402
from triton import language as tl  # noqa: E402

Array = np.ndarray[Any, Any]

INTERPRETER = threading.Lock()
"""The interpreter keeps the running program in global variables, so one thread at a time may use it."""

BLOCK = 1 << 14 if DEVICE == "cpu" else 1 << 10
"""Elements that one program computes. The interpreter prefers few programs."""


@triton.jit
def _dequantize(x, zero_point, scale, y, size, inner, channels, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    """One block of y = (x - zero_point) * scale. The parameter of an element is that of its channel."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = at < size
    channel = (at // inner) % channels
    # Widened before the subtraction: the difference of two 8-bit codes needs 9 bits.
    codes = tl.load(x + at, mask=valid).to(tl.int32)
    offset = tl.load(zero_point + channel, mask=valid).to(tl.int32)
    factor = tl.load(scale + channel, mask=valid)
    tl.store(y + at, (codes - offset).to(tl.float32) * factor, mask=valid)


def dequantize(
    x: Array,
    scale: Array,
    zero_point: Array | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    out_dtype: Any = None,
) -> torch.Tensor:
    """Dequantize per tensor or per axis.

    Args:
        x: Quantized codes of any rank.
        scale: A scalar, or a vector along the axis.
        zero_point: An array like scale with the type of x, or None for 0.
        axis: Axis of the vector; negative values count from the end.
        block_size: Elements in a block; only 0 is supported.
        out_dtype: Type of the output; None means the type of scale.

    Raises:
        ValueError: The specification forbids the call.
        NotImplementedError: The specification allows the call, but this kernel does not support it.
    """
    if block_size < 0:
        raise ValueError("block_size must not be negative")
    if zero_point is not None and (zero_point.dtype != x.dtype or zero_point.shape != scale.shape):
        raise ValueError("zero_point must have the type of x and the shape of scale")
    if x.dtype not in (np.int8, np.uint8) or {scale.dtype, np.dtype(out_dtype or scale.dtype)} != {np.dtype("float32")}:
        raise NotImplementedError(f"{x.dtype}, {scale.dtype}, {out_dtype}")
    if scale.ndim > 1 or (scale.ndim and block_size):
        raise NotImplementedError("blocks")
    inner = max(1, x.size)
    if scale.ndim:
        if not -x.ndim <= axis < x.ndim or scale.size != x.shape[axis]:
            raise ValueError("scale must have one element for each index along axis")
        inner = int(np.prod(x.shape[axis % x.ndim + 1 :], dtype=np.int64))
    offsets = np.zeros(scale.shape, x.dtype) if zero_point is None else zero_point
    y = torch.empty(x.shape, dtype=torch.float32, device=DEVICE)
    if x.size:
        operands = [torch.from_numpy(np.array(each, order="C")).to(DEVICE) for each in (x, offsets, scale)]
        with INTERPRETER:
            _dequantize[(triton.cdiv(x.size, BLOCK),)](*operands, y, x.size, inner, scale.size, BLOCK=BLOCK)
    return y.cpu()
