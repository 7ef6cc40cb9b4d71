"""Dequantization by NumPy or Numba: each contract's first reading, bit for bit, and its refusals."""

from xverify.kernels.linear import dequantize_linear, dynamic_dequantize
from xverify.kernels.packed import dequantize_packed
from xverify.kernels.ranges import dequantize_range

__all__ = ["dequantize_linear", "dequantize_packed", "dequantize_range", "dynamic_dequantize"]
