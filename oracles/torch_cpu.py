"""PyTorch on the CPU: the operators of ``torch.ops.quantized_decomposed``, and ``Tensor.dequantize``.

The editions ``pytorch/*`` have one operator each:

- dequantize_per_tensor: scale and zero point are a Python float and an int;
- dequantize_per_channel: the zero points are int64, as PyTorch's quantizers make them;
- dequantize_per_channel_group: scales and zero points are 1-D, and the zero points int32, as its text says;
- Tensor.dequantize: a tensor of quantized type over the same integers. Its scales are doubles, and its zero points int64.

A call that the operator cannot express raises NotImplementedError: types that PyTorch lacks, a scale of several numbers for
dequantize_per_tensor, an argument that the operator lacks.
"""

from __future__ import annotations

import os
import warnings
from functools import partial
from typing import Any, Dict, List, Optional, Tuple, Union

import numpy as np

from xverify.core.call import BITS, Call, Outcome, Tensor, code_dtype
from xverify.oracles.arrays import Array, answered, hand_out, numpy_dtype
from xverify.oracles.protocol import Loaded, Oracle, Setting
from xverify.oracles.short_form import ShortCall, ShortForm
from xverify.oracles.timing import Problem, Solve, Timing, Way

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
        claim="The docstrings and schemas of its own operators, in the installed package: "
        "torch/ao/quantization/fx/_decomposed.py, torch/_torch_docs.py and torch/_tensor_docs.py.",
        timing=Timing("#CC79A7", "P", environment=(("OMP_NUM_THREADS", "{threads}"),)),
        distribution="torch",
        contracts=("pytorch/*",),
        judged_by=("pytorch/*",),
        module=__name__,
        numpy_2_from="2.3",  # before, tensors and NumPy's arrays cannot be converted
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

    def checked(call: Call, *arguments: str) -> None:
        """Raise NotImplementedError for an attribute that the operator has no argument for."""
        for name in call.attributes:
            if name not in arguments:
                raise NotImplementedError("the operator has no argument for %s" % (name,))

    def to(operator: Any, output: Any) -> Dict[str, Any]:
        """The keyword for the output type. The operators of older releases lack it, and return float32."""
        if output is torch.float32:
            return {}
        if "out_dtype" not in str(operator.default._schema):
            raise NotImplementedError("this release's operator gives float32 only, not %s" % (output,))
        return {"out_dtype": output}

    def number(tensor: Optional[Any]) -> Any:
        """The only number of a tensor."""
        if tensor is None or tensor.shape != ():
            raise NotImplementedError("the operator takes one number")
        return tensor.item()

    def whole(tensor: Optional[Any]) -> int:
        value = number(tensor)
        if value != value or int(value) != value:
            raise NotImplementedError("PyTorch takes a whole number as zero point, not %s" % (value,))
        return int(value)

    def bounds(x: Any) -> Tuple[int, int, Any]:
        limits = torch.finfo(x.dtype) if x.dtype.is_floating_point else torch.iinfo(x.dtype)
        return int(limits.min), int(limits.max), x.dtype

    def output_of(call: Call) -> Any:
        return type_of(str(call.attributes.get("output_dtype", "float32")))

    def axis_of(call: Call) -> int:
        if "axis" not in call.attributes:
            raise NotImplementedError("the operator takes an axis")
        return int(call.attributes["axis"])

    def per_tensor(call: Call, x: Any, scale: Any, zero_point: Optional[Any]) -> Any:
        checked(call, "output_dtype")
        operator = operators.dequantize_per_tensor
        return operator(x, number(scale), whole(zero_point), *bounds(x), **to(operator, output_of(call)))

    def per_channel(call: Call, x: Any, scale: Any, zero_point: Optional[Any]) -> Any:
        checked(call, "axis", "output_dtype")
        operator, zeros = operators.dequantize_per_channel, None if zero_point is None else zero_point.to(torch.int64)
        return operator(x, scale, zeros, axis_of(call), *bounds(x), **to(operator, output_of(call)))

    def per_channel_group(call: Call, x: Any, scale: Any, zero_point: Optional[Any]) -> Any:
        checked(call, "block_size", "output_dtype")
        if "block_size" not in call.attributes:
            raise NotImplementedError("the operator takes a group size")
        size = int(call.attributes["block_size"])
        expected = (x.shape[0], -(-x.shape[-1] // size)) if size > 0 and x.dim() == 2 else ()
        for parameter in (scale,) if zero_point is None else (scale, zero_point):
            if expected and tuple(parameter.shape) != expected and parameter.numel() == expected[0] * expected[1]:
                raise NotImplementedError("the operator takes a list, without a shape %s" % (tuple(parameter.shape),))
        zeros = None if zero_point is None else zero_point.to(torch.int32).reshape(-1)
        return operators.dequantize_per_channel_group(x, scale.reshape(-1), zeros, *bounds(x), size, output_of(call))

    def of_quantized_type(call: Call, x: Any, scale: Any, zero_point: Optional[Any]) -> Any:
        checked(call, "axis")
        if call.tensors["x"].dtype not in quantized or zero_point is None:
            raise NotImplementedError("PyTorch has no quantized tensor of %s" % (x.dtype,))
        if "axis" not in call.attributes:
            return torch._make_per_tensor_quantized_tensor(x, number(scale), whole(zero_point)).dequantize()
        zeros = zero_point.to(torch.int64)
        return torch._make_per_channel_quantized_tensor(x, scale.double(), zeros, axis_of(call)).dequantize()

    functions = {
        "dequantize_per_tensor": per_tensor,
        "dequantize_per_channel": per_channel,
        "dequantize_per_channel_group": per_channel_group,
        "Tensor.dequantize": of_quantized_type,
    }

    def answer(call: Call, path: str) -> Union[Tensor, Outcome]:
        arrays = hand_out(call)
        x, scale = (viewed(arrays[role], call.tensors[role].dtype) for role in ("x", "scale"))
        zero_point = viewed(arrays["zero_point"], call.tensors["zero_point"].dtype) if "zero_point" in arrays else None
        operator = call.contract.partition("/")[2].partition("@")[0]
        y = functions[operator](call, x, scale, zero_point)
        dtype = str(y.dtype).rpartition(".")[2]
        codes = y.contiguous().view(getattr(torch, code_dtype(dtype).name)).numpy()
        return answered(codes.view(numpy_dtype(dtype)), call, arrays)

    return Loaded(answer)


SHORT_IMPORTS = ["import torch", "import torch.ao.quantization.fx._decomposed  # defines quantized_decomposed"]


def short_form(call: ShortCall) -> Optional[ShortForm]:
    """A call of the operator. None where the operator cannot express it."""
    operator, x = call.contract.partition("/")[2].partition("@")[0], call.tensors["x"].dtype
    in_operator, zero = operator != "Tensor.dequantize", "zero_point" in call.tensors
    if x in _BELOW_A_BYTE or (operator != "dequantize_per_tensor" and call.tensors["scale"].dtype != "float32"):
        return None
    modules: Tuple[str, ...] = ()
    lines = ["info = torch.%sinfo(torch.%s)" % ("f" if "float" in x else "i", x)] if in_operator else []
    limits = "int(info.min), int(info.max), torch.%s" % x
    data = "torch.from_numpy(x.view(np.uint8)).view(torch.%s)" % x if "float8" in x else "torch.from_numpy(x)"
    out = str(call.attributes.get("output_dtype", "float32"))
    if operator == "dequantize_per_tensor" and zero:
        words = "" if out == "float32" else ", out_dtype=torch.%s" % out
        arguments = "%s, float(scale), int(zero_point), %s%s" % (data, limits, words)
    elif operator == "dequantize_per_channel" and "axis" in call.attributes:
        zeros = "torch.from_numpy(zero_point).long()" if zero else "None"
        words = "" if out == "float32" else ", out_dtype=torch.%s" % out
        arguments = "%s, torch.from_numpy(scale), %s, %d, %s%s" % (
            data,
            zeros,
            int(call.attributes["axis"]),
            limits,
            words,
        )
    elif operator == "dequantize_per_channel_group" and "block_size" in call.attributes:
        zeros = "torch.from_numpy(zero_point.ravel()).int()" if zero else "None"
        end = "%s, %d, torch.%s" % (limits, int(call.attributes["block_size"]), out)
        arguments = "%s, torch.from_numpy(scale.ravel()), %s, %s" % (data, zeros, end)
    elif operator == "Tensor.dequantize" and zero:
        made, end = "tensor", "float(scale), int(zero_point)"
        if "axis" in call.attributes:
            made, axis = "channel", int(call.attributes["axis"])
            end = "torch.from_numpy(scale).double(), torch.from_numpy(zero_point).long(), %d" % axis
        lines.append("quantized = torch._make_per_%s_quantized_tensor(%s, %s)" % (made, data, end))
        return ShortForm(["import torch"], [*lines, "y = quantized.dequantize().numpy()"])
    else:
        return None
    result = "torch.ops.quantized_decomposed.%s(%s)" % (operator, arguments)
    if call.out_dtype == "bfloat16":
        modules, result = ("ml_dtypes",), result + ".view(torch.int16)"
    last = "y = %s.numpy()%s" % (result, ".view(ml_dtypes.bfloat16)" if modules else "")
    return ShortForm(SHORT_IMPORTS, [*lines, last], modules)


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
