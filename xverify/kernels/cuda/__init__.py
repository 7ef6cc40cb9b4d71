"""The kernels on NVIDIA cards, for arrays in their memory, with the same checks and bits.

CuPy has NVRTC compile the CUDA C++ of `dequantize.cu` at the first call. numba-cuda has neither vectors of 16 bytes
nor streaming
stores. Nothing of CUDA is imported before a function is called.
"""

from xverify.kernels.cuda.arrays import require_device
from xverify.kernels.cuda.linear import dequantize_linear, dequantize_packed, dynamic_dequantize
from xverify.kernels.cuda.ranges import dequantize_range

__all__ = ["dequantize_linear", "dequantize_packed", "dequantize_range", "dynamic_dequantize", "require_device"]
