"""PyTorch on the CPU: two implementations, for those of ONNX's calls that have a counterpart.

The path "" is ``torch.ops.quantized_decomposed``, which `torch.export` puts into graphs:

- per tensor (the scale is a scalar): dequantize_per_tensor, with a Python float and an int;
- per axis: dequantize_per_channel;
- blocks along the last of two axes: dequantize_per_channel_group.

Scales have the call's type. Zero points are int64, as PyTorch's quantizers make them, and int32 for groups, as its document
says. An absent zero point is 0 per tensor, else None. The output type is the scale's, or ``output_dtype``.

The path "quantized tensor" is ``dequantize()`` of a tensor of quantized type over the same integers. Its scales are doubles,
its zero points int64, its result float32.

A call without counterpart raises NotImplementedError: types that PyTorch lacks, other blocks, edition 10's calls with a scale
that is no scalar. No text that comes with PyTorch is an edition of ONNX's operator, so none judges it. The report shows what
it computes in each cell.
"""

from __future__ import annotations

import os
import warnings
from functools import partial
from typing import Any, Dict, List, Optional, Union

import numpy as np

from xverify.core.call import BITS, Call, Outcome, Tensor, code_dtype
from xverify.oracles.arrays import Array, answered, hand_out, numpy_dtype
from xverify.oracles.protocol import Loaded, Oracle, Path, Setting
from xverify.oracles.timing import Problem, Solve, Timing, Way

QUANTIZED_TENSOR = "quantized tensor"

RELEASES = (
    ("2.15.*", "PyTorch 2.15, 2026-10"),
    ("2.14.*", "PyTorch 2.14, 2026-09"),
    ("2.13.*", "PyTorch 2.13, 2026-07"),
    ("2.12.*", "PyTorch 2.12, 2026-05"),
    ("2.11.*", "PyTorch 2.11, 2026-03"),
    ("2.10.*", "PyTorch 2.10, 2026-01"),
    ("2.9.*", "PyTorch 2.9, 2025-10"),
    ("2.8.*", "PyTorch 2.8, 2025-08"),
    ("2.7.*", "PyTorch 2.7, 2025-04"),
    ("2.6.*", "PyTorch 2.6, 2025-01"),
    ("2.5.*", "PyTorch 2.5, 2024-10"),
    ("2.4.*", "PyTorch 2.4, 2024-07"),
    ("2.3.*", "PyTorch 2.3, 2024-04"),
    ("2.2.*", "PyTorch 2.2, 2024-01"),
    ("2.1.*", "PyTorch 2.1, 2023-10"),
    ("2.0.*", "PyTorch 2.0, 2023-03"),
)
"""Minor releases and their months, by the upload of the first wheel to PyPI."""

ORACLES = (
    Oracle(
        name="torch",
        title="PyTorch",
        claim="The docstrings of PyTorch's operators, which are no edition of ONNX's operator: no edition judges it.",
        timing=Timing("#CC79A7", "P", environment=(("OMP_NUM_THREADS", "{threads}"),)),
        distribution="torch",
        contracts=("ai.onnx/*",),
        judged_by=(),
        module=__name__,
        paths=(Path("", 1.0), Path(QUANTIZED_TENSOR, 1.0)),
        varies=(
            *(Setting("isa", isa, environment=(("ATEN_CPU_CAPABILITY", isa),)) for isa in ("default", "avx2")),
            Setting("threads", "4", environment=(("OMP_NUM_THREADS", "4"),)),
            Setting("denormals", "zero", ("denormals=zero",)),
        ),
        releases=RELEASES,
    ),
)

_BELOW_A_BYTE = frozenset(["int2", "uint2", "int4", "uint4", "float4_e2m1fn"])
"""Types of less than a byte. PyTorch has some of them by name, but no arithmetic on them."""


def load(*settings: str) -> Loaded:
    """Import PyTorch, with one thread unless OMP_NUM_THREADS says otherwise: calls are small.

    Args:
        settings: "denormals=zero" makes PyTorch treat subnormal operands and results as zero.
    """
    import torch
    import torch.ao.quantization.fx._decomposed

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    torch.set_flush_denormal("denormals=zero" in settings)
    operators = torch.ops.quantized_decomposed
    quantized = {"int8": torch.qint8, "uint8": torch.quint8, "int32": torch.qint32}

    def type_of(dtype: str) -> Any:
        kind = None if dtype in _BELOW_A_BYTE else getattr(torch, dtype, None)
        if kind is None:
            raise NotImplementedError("PyTorch has no arithmetic on %s" % (dtype,))
        return kind

    def viewed(array: Array, dtype: str) -> Any:
        """A tensor over the array's memory, or over a copy for negative strides, which PyTorch lacks."""
        codes = array.view(code_dtype(dtype))
        if any(stride < 0 for stride in codes.strides):
            codes = codes.copy()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # read-only memory
            return torch.from_numpy(codes).view(type_of(dtype))

    def granularity(call: Call) -> str:
        x, scale = call.tensors["x"], call.tensors["scale"]
        block = int(call.attributes.get("block_size", 0))
        if block == 0 and scale.shape == ():
            return "tensor"
        if block == 0 and len(scale.shape) == 1 and not call.contract.endswith("-10"):
            return "channel"
        last = int(call.attributes.get("axis", 1)) in (1, -1)
        if block and last and len(x.shape) == 2 and scale.shape == (x.shape[0], -(-x.shape[1] // block)):
            return "group"
        raise NotImplementedError("PyTorch has no call for a scale of shape %s here" % (scale.shape,))

    def axis_of(call: Call) -> int:
        axis, rank = int(call.attributes.get("axis", 1)), len(call.tensors["x"].shape)
        return axis + rank if -rank <= axis < 0 else axis

    def to(operator: Any, output: Any) -> Dict[str, Any]:
        """The keyword for the output type. The operators of older releases lack it, and return float32."""
        if output is torch.float32:
            return {}
        if "out_dtype" not in str(operator.default._schema):
            raise NotImplementedError("this release's operator gives float32 only, not %s" % (output,))
        return {"out_dtype": output}

    def whole(zero_point: Optional[Any]) -> int:
        value = 0 if zero_point is None else zero_point.reshape(()).float().item()
        if value != value or int(value) != value:
            raise NotImplementedError("PyTorch takes a whole number as zero point, not %s" % (value,))
        return int(value)

    def decomposed(call: Call, x: Any, scale: Any, zero_point: Optional[Any]) -> Any:
        limits = torch.iinfo(x.dtype) if not x.dtype.is_floating_point else torch.finfo(x.dtype)
        bounds = (int(limits.min), int(limits.max), x.dtype)
        output = type_of(str(call.attributes.get("output_dtype", call.tensors["scale"].dtype)))
        kind = granularity(call)
        if kind == "tensor":
            operator = operators.dequantize_per_tensor
            return operator(x, scale.item(), whole(zero_point), *bounds, **to(operator, output))
        if kind == "channel":
            zeros = None if zero_point is None else zero_point.to(torch.int64)
            operator = operators.dequantize_per_channel
            return operator(x, scale, zeros, axis_of(call), *bounds, **to(operator, output))
        zeros = None if zero_point is None else zero_point.to(torch.int32)
        block = int(call.attributes["block_size"])
        return operators.dequantize_per_channel_group(x, scale, zeros, *bounds, block, output)

    def of_quantized_type(call: Call, x: Any, scale: Any, zero_point: Optional[Any]) -> Any:
        dtype, kind = call.tensors["x"].dtype, granularity(call)
        output = call.attributes.get("output_dtype", call.tensors["scale"].dtype)
        if dtype not in quantized or kind == "group" or output != "float32":
            raise NotImplementedError("PyTorch has no quantized tensor of %s for %s, by %s" % (dtype, output, kind))
        if kind == "tensor":
            return torch._make_per_tensor_quantized_tensor(x, scale.item(), whole(zero_point)).dequantize()
        zeros = torch.zeros(scale.shape, dtype=torch.int64) if zero_point is None else zero_point.to(torch.int64)
        return torch._make_per_channel_quantized_tensor(x, scale.double(), zeros, axis_of(call)).dequantize()

    def answer(call: Call, path: str) -> Union[Tensor, Outcome]:
        arrays = hand_out(call)
        x, scale = (viewed(arrays[role], call.tensors[role].dtype) for role in ("x", "scale"))
        zero_point = viewed(arrays["zero_point"], call.tensors["zero_point"].dtype) if "zero_point" in arrays else None
        y = (of_quantized_type if path == QUANTIZED_TENSOR else decomposed)(call, x, scale, zero_point)
        dtype = str(y.dtype).rpartition(".")[2]
        codes = y.contiguous().view(getattr(torch, code_dtype(dtype).name)).numpy()
        return answered(codes.view(numpy_dtype(dtype)), call, arrays)

    return Loaded(answer)


# -- the bench -------------------------------------------------------------------------------------------


def load_bench(threads: int) -> Solve:
    """Import PyTorch, with this number of threads."""
    import torch
    import torch.ao.quantization.fx._decomposed

    torch.set_num_threads(threads)
    operators = torch.ops.quantized_decomposed

    def tensor(array: Array) -> Any:
        dtype = array.dtype.name
        if BITS[dtype] < 8 or not hasattr(torch, dtype):
            raise NotImplementedError("PyTorch has no arithmetic on %s" % dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.from_numpy(array.view(code_dtype(dtype))).view(getattr(torch, dtype))

    def solve(problem: Problem) -> List[Way]:
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
            return [Way("dequantize_per_channel_group", run, _bench_array, owns_output=True)]
        if case.block_size:
            raise NotImplementedError("PyTorch has blocks along the last axis only")
        if case.axis is None:
            factor, zero = scale.item(), 0 if zero_points is None else int(zero_points)
            run = partial(operators.dequantize_per_tensor, x, factor, zero, *bounds, out_dtype=out.dtype)
        else:
            call = operators.dequantize_per_channel
            run = partial(call, x, scale, zero_points, case.axis, *bounds, out_dtype=out.dtype)
        ways = [Way("quantized_decomposed", run, _bench_array, owns_output=True)]
        if x.dtype in (torch.int8, torch.uint8, torch.int32) and out.dtype == torch.float32:
            if case.axis is None:
                quantized = torch._make_per_tensor_quantized_tensor(x, factor, zero)
            else:
                zeros = torch.zeros(scale.shape, dtype=torch.int64) if zero_points is None else zero_points
                quantized = torch._make_per_channel_quantized_tensor(x, scale.double(), zeros, case.axis)
            ways.append(Way("quantized tensor", quantized.dequantize, _bench_array, owns_output=True))
            into = partial(torch.ops.aten.dequantize.self_out, quantized, out=out)
            ways.append(Way("quantized tensor, out given", into, memory=out))
        return ways

    return solve


def _bench_array(result: Any) -> Array:
    import torch

    dtype = str(result.dtype).rpartition(".")[2]
    codes = result.contiguous().view(getattr(torch, code_dtype(dtype).name)).numpy()
    return np.asarray(codes.view(numpy_dtype(dtype)))
