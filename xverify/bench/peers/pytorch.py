"""PyTorch on the CPU: the operators that `torch.export` writes, and ``dequantize()`` of tensors of quantized types."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np

from xverify.bench.problem import Array, Problem, Solve, Way
from xverify.core.call import BITS, code_dtype
from xverify.core.dtypes import numpy_dtype


def load(threads: int) -> Solve:
    """Import PyTorch, with so many threads."""
    import torch
    import torch.ao.quantization.fx._decomposed

    torch.set_num_threads(threads)
    operators = torch.ops.quantized_decomposed

    def tensor(array: Array) -> Any:
        dtype = array.dtype.name
        if BITS[dtype] < 8 or not hasattr(torch, dtype):
            raise NotImplementedError(f"PyTorch has no arithmetic on {dtype}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.from_numpy(array.view(code_dtype(dtype))).view(getattr(torch, dtype))

    def solve(problem: Problem) -> list[Way]:
        case = problem.case
        x, scale = tensor(problem.x), tensor(problem.scale)
        limits = torch.finfo(x.dtype) if x.dtype.is_floating_point else torch.iinfo(x.dtype)
        bounds = (int(limits.min), int(limits.max), x.dtype)
        zero_points = None if problem.zero_point is None else tensor(problem.zero_point).to(torch.int64)
        out = tensor(problem.out)
        if case.granularity == "blocked":
            zeros = torch.zeros(scale.shape, dtype=torch.int32) if zero_points is None else zero_points.to(torch.int32)
            call = operators.dequantize_per_channel_group
            run = partial(call, x, scale, zeros, *bounds, case.block_size, out.dtype)
            return [Way("dequantize_per_channel_group", run, _array, owns_output=True)]
        if case.block_size:
            raise NotImplementedError("PyTorch has blocks along the last axis only")
        if case.axis is None:
            one, zero = scale.item(), 0 if zero_points is None else int(zero_points)
            run = partial(operators.dequantize_per_tensor, x, one, zero, *bounds, out_dtype=out.dtype)
        else:
            call = operators.dequantize_per_channel
            run = partial(call, x, scale, zero_points, case.axis, *bounds, out_dtype=out.dtype)
        ways = [Way("quantized_decomposed", run, _array, owns_output=True)]
        if x.dtype in (torch.int8, torch.uint8, torch.int32) and out.dtype == torch.float32:
            if case.axis is None:
                quantized = torch._make_per_tensor_quantized_tensor(x, one, zero)
            else:
                zeros = torch.zeros(scale.shape, dtype=torch.int64) if zero_points is None else zero_points
                quantized = torch._make_per_channel_quantized_tensor(x, scale.double(), zeros, case.axis)
            ways.append(Way("quantized tensor", quantized.dequantize, _array, owns_output=True))
            into = partial(torch.ops.aten.dequantize.self_out, quantized, out=out)
            ways.append(Way("quantized tensor, out given", into, memory=out))
        return ways

    return solve


def _array(result: Any) -> Array:
    import torch

    dtype = str(result.dtype).rpartition(".")[2]
    codes = result.contiguous().view(getattr(torch, code_dtype(dtype).name)).numpy()
    return np.asarray(codes.view(numpy_dtype(dtype)))
