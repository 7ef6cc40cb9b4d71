"""torchao on the CPU: ``torchao.quantization.quant_primitives.dequantize_affine``.

The function takes the size of a group along each axis of x. A call without an axis is one group. With an axis, each
index of it is a group. With block_size too, a group has so many values along the axis, and one along the others.

int4, uint4, int2 and uint2 arrive as int8 or uint8, with their range as quant_min and quant_max, as torchao's own tensors store
them. A call with axes that the function cannot express raises NotImplementedError.
"""

from __future__ import annotations

import os
import warnings
from functools import partial
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from xverify.core.call import BITS, Call, Outcome, code_dtype
from xverify.oracles.arrays import Array, answered, hand_out, numpy_dtype
from xverify.oracles.protocol import Loaded, Oracle, Setting
from xverify.oracles.short_form import ShortCall, ShortForm
from xverify.oracles.timing import Problem, Solve, Timing, Way

RELEASES = (
    ("0.18.*", "torchao 0.18, 2026-08"),
    ("0.17.*", "torchao 0.17, 2026-03"),
    ("0.16.*", "torchao 0.16, 2026-02"),
    ("0.15.*", "torchao 0.15, 2025-12"),
    ("0.14.*", "torchao 0.14, 2025-10"),
    ("0.13.*", "torchao 0.13, 2025-09"),
)
"""Minor releases and their months, by the upload of the first wheel to PyPI."""

ORACLES = (
    Oracle(
        name="torchao",
        claim="The docstrings of its own functions, in the installed package: torchao/quantization/quant_primitives.py.",
        distribution="torchao",
        contracts=("torchao/*",),
        judged_by=("torchao/*",),
        module=__name__,
        needs=("torch",),
        untold=("axis-required", "block-size"),
        varies=(
            *(Setting("isa", isa, environment=(("ATEN_CPU_CAPABILITY", isa),)) for isa in ("default", "avx2")),
            Setting("threads", "4", environment=(("OMP_NUM_THREADS", "4"),)),
        ),
        timing=Timing("#117733", "*", environment=(("OMP_NUM_THREADS", "{threads}"),)),
        releases=RELEASES,
    ),
)

IMPORT = "from torchao.quantization.quant_primitives import dequantize_affine"


def group_sizes(shape: Sequence[int], axis: Optional[int], block_size: int) -> Tuple[int, ...]:
    """The function's argument block_size.

    Raises:
        NotImplementedError: It cannot express the axis or the size.
    """
    if axis is None:
        if block_size:
            raise NotImplementedError("groups have no axis")
        return tuple(shape)
    if not -len(shape) <= axis < len(shape) or block_size < 0:
        raise NotImplementedError("the function takes a size for each axis of the tensor")
    front = axis % len(shape)
    if block_size:
        return tuple(block_size if i == front else 1 for i in range(len(shape)))
    return tuple(1 if i == front else extent for i, extent in enumerate(shape))


def carrier(dtype: str) -> Tuple[str, Tuple[int, ...]]:
    """The dtype of the tensor for codes of a dtype, with quant_min and quant_max below 8 bits."""
    bits = BITS[dtype]
    if bits >= 8:
        return dtype, ()
    if "float" in dtype:
        raise NotImplementedError("torchao has no type %s" % (dtype,))
    signed = dtype.startswith("int")
    limits = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return "int8" if signed else "uint8", limits


def load() -> Loaded:
    """Import torchao, with one thread unless OMP_NUM_THREADS says otherwise: calls are small."""
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    tensor, dequantize = _imported()

    def answer(call: Call, path: str) -> Outcome:
        for name in call.attributes:
            if name not in ("axis", "block_size", "output_dtype"):
                raise NotImplementedError("the function has no argument for %s" % (name,))
        arrays = hand_out(call)
        x, scale = tensor(arrays["x"]), tensor(arrays["scale"])
        zero_point = tensor(arrays["zero_point"]) if "zero_point" in arrays else None
        axis = call.attributes.get("axis")
        sizes = group_sizes(x.shape, None if axis is None else int(axis), int(call.attributes.get("block_size", 0)))
        limits = carrier(call.tensors["x"].dtype)[1]
        out = getattr(torch, str(call.attributes.get("output_dtype", "float32")), None)
        y = dequantize(x, sizes, scale, zero_point, x.dtype, *limits, output_dtype=out)
        return answered(_array(y), call, arrays)

    return Loaded(answer)


def _imported() -> Tuple[Any, Any]:
    """A function that makes a tensor over an array, and dequantize_affine."""
    import torch
    from torchao.quantization.quant_primitives import dequantize_affine

    def tensor(array: Array) -> Any:
        """A tensor over the array's memory, or over a copy for fewer than 8 bits or negative strides."""
        dtype, limits = carrier(array.dtype.name)
        kind = getattr(torch, dtype, None)
        if kind is None:
            raise NotImplementedError("PyTorch has no type %s" % (dtype,))
        codes = array.astype(dtype) if limits else array.view(code_dtype(dtype))
        if any(stride < 0 for stride in codes.strides):
            codes = codes.copy()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # read-only memory
            return torch.from_numpy(codes).view(kind)

    return tensor, dequantize_affine


def _array(tensor: Any) -> Array:
    import torch

    dtype = str(tensor.dtype).rpartition(".")[2]
    codes = tensor.contiguous().view(getattr(torch, code_dtype(dtype).name)).numpy()
    return np.asarray(codes.view(numpy_dtype(dtype)))


# -- short scripts and the bench -------------------------------------------------------------------------


def short_form(call: ShortCall) -> Optional[ShortForm]:
    """A call of the function. None where the function cannot express it."""
    x, axis = call.tensors["x"], call.attributes.get("axis")
    block_size = int(call.attributes.get("block_size", 0))
    try:
        sizes = group_sizes(x.shape, None if axis is None else int(axis), block_size)
        kinds = {role: carrier(tensor.dtype) for role, tensor in call.tensors.items()}
    except NotImplementedError:
        return None
    modules: Tuple[str, ...] = ()
    values: Dict[str, str] = {"zero_point": "None"}
    for role in call.tensors:
        dtype, limits = kinds[role]
        narrow = '.astype("%s")' % dtype if limits else ""
        foreign = "bfloat" in dtype or "float8" in dtype
        bits = ".view(np.%s)).view(torch.%s" % (code_dtype(dtype).name, dtype) if foreign else narrow
        values[role] = "torch.from_numpy(%s%s)" % (role, bits)
    dtype, limits = kinds["x"]
    words = "".join(", %d" % limit for limit in limits)
    out = str(call.attributes.get("output_dtype", "float32"))
    arguments = (values["x"], sizes, values["scale"], values["zero_point"], dtype, words, out)
    result = "dequantize_affine(%s, %s, %s, %s, torch.%s%s, output_dtype=torch.%s)" % arguments
    if call.out_dtype == "bfloat16":
        modules, result = ("ml_dtypes",), result + ".view(torch.int16)"
    last = "y = %s.numpy()%s" % (result, ".view(ml_dtypes.bfloat16)" if modules else "")
    return ShortForm(["import torch", IMPORT], [last], modules)


def load_bench(threads: int) -> Solve:
    """Import torchao, with this number of threads."""
    import torch

    torch.set_num_threads(threads)
    tensor, dequantize = _imported()

    def solve(problem: Problem) -> List[Way]:
        x, scale, case = tensor(problem.x), tensor(problem.scale), problem.case
        zero_point = None if problem.zero_point is None else tensor(problem.zero_point)
        sizes = group_sizes(x.shape, case.axis, case.block_size)
        limits = carrier(problem.x.dtype.name)[1]
        out = getattr(torch, problem.out.dtype.name)
        run = partial(dequantize, x, sizes, scale, zero_point, x.dtype, *limits, output_dtype=out)
        return [Way("dequantize_affine", run, _array, owns_output=True)]

    return solve
