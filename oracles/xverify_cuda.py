"""The in-house CUDA kernels (`xverify.kernels.cuda`) on the first device, with arrays copied there.

With the option ``packed`` (``xverify-cuda:packed``) ONNX's calls on types of fewer than 8 bits use ``dequantize_packed``.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple

import numpy as np

from xverify.core.call import Call, Outcome, code_dtype
from xverify.oracles.arrays import NUMPY_OWN, Array, answered, hand_out
from xverify.oracles.packed_codes import PACKED, in_packed_form, is_packable, option_arguments, with_option
from xverify.oracles.protocol import Loaded, Oracle
from xverify.oracles.python_kernel import arguments, watched

__all__ = ["ORACLES", "load", "load_watched", "option_arguments", "with_option"]

ORACLES = (
    Oracle(
        name="xverify-cuda",
        title="xverify's CUDA kernel",
        claim="The editions that its argument ``contract`` can name.",
        distribution="xverify",
        contracts=("ai.onnx/*", "com.microsoft/*", "onednn/*", "tensorflow/*"),
        judged_by=("*",),
        module=__name__,
        role="kernel",
        needs_xverify=True,
    ),
)


def load(option: str = "") -> Loaded:
    """Load the kernel. It runs once a call.

    Raises:
        ImportError: CuPy is not installed; the message says what to do.
        RuntimeError: There is no device; the message says what to do.
    """
    invoke = _invoke(option)

    def answer(call: Call, path: str) -> Outcome:
        arrays = hand_out(call)
        return answered(invoke(call, arrays), call, arrays)

    return Loaded(answer)


def load_watched(option: str = "") -> Loaded:
    """Load the kernel for the gate, with the checks that a user's kernel gets."""
    return Loaded(watched(_invoke(option)), fatal=(MemoryError,))


def _invoke(option: str) -> Callable[[Call, Any], Any]:
    from xverify.kernels import cuda

    cupy = cuda.require_device()

    def on_device(array: Array) -> Any:
        """A copy on the device; its codes, if CuPy lacks the dtype.

        The bits travel as unsigned codes, because CuPy makes +0.0 of a scalar -0.0.
        """
        name = array.dtype.name
        codes = cupy.asarray(array.view(code_dtype(name)))
        return codes.view(name) if name in NUMPY_OWN else codes

    # Each with the operands whose dtypes CuPy may lack. Operands of a range formula never have such dtypes.
    linear: Tuple[Callable[..., Any], Tuple[str, ...]] = (cuda.dequantize_linear, ("x", "scale", "zero_point"))
    functions: Dict[str, Tuple[Callable[..., Any], Tuple[str, ...]]] = {
        "onednn": (cuda.dynamic_dequantize, ("src", "scales", "zps")),
        "tensorflow": (cuda.dequantize_range, ()),
    }

    def invoke(call: Call, arrays: Any) -> Any:
        operands, keywords = arguments(call, arrays)
        if "axis" in call.attributes:
            # Pass -1 on unchanged: an edition may lack the attribute.
            keywords["axis"] = call.attributes["axis"]
        family = call.contract.partition("/")[0]
        out_dtype = _output_dtype(keywords.get("out_dtype"), operands[1].dtype)
        if option == PACKED and family == "ai.onnx" and _can_be_packed(*operands):
            x, scale = operands[:2]
            function = cuda.dequantize_packed
            keywords.update({"dtype": x.dtype, "shape": x.shape, "scale_dtype": scale.dtype})
            operands = [in_packed_form(x), scale, *map(in_packed_form, operands[2:])]
        else:
            function, names = functions.get(family, linear)
            if not names and any(operand.dtype.isbuiltin != 1 for operand in operands):
                raise TypeError("no array of CuPy has the dtypes %s" % [operand.dtype.name for operand in operands])
            keywords.update({names[i] + "_dtype": operand.dtype for i, operand in enumerate(operands[: len(names)])})
        result = cupy.asnumpy(function(*map(on_device, operands), contract=call.contract, **keywords))
        return result.view(out_dtype)

    return invoke


def _output_dtype(named: Optional[Any], scale: Any) -> Any:
    """The dtype whose codes a result holds."""
    return np.dtype(scale.newbyteorder("=") if named is None else named)


def _can_be_packed(x: Array, scale: Array, zero_point: Optional[Array] = None) -> bool:
    """True if packed codes make the same call.

    Bytes have neither the type nor the shape of a zero point, which may be wrong.
    """
    return is_packable(x) and (zero_point is None or (zero_point.dtype, zero_point.shape) == (x.dtype, scale.shape))
