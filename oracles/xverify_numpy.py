"""The in-house kernels: `xverify.dequantize_linear` and its sisters, with NumPy and with Numba.

With the option ``packed`` (``xverify-numba:packed``) ONNX's calls on types of fewer than 8 bits use `xverify.dequantize_packed`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable

import numpy as np

from xverify.core.call import Call, Outcome
from xverify.oracles.arrays import Array, answered, hand_out
from xverify.oracles.packed_codes import PACKED, in_packed_form, is_packable, option_arguments, with_option
from xverify.oracles.protocol import Loaded, Oracle
from xverify.oracles.python_kernel import arguments, watched
from xverify.oracles.short_form import ShortCall, ShortForm, kernel_call, spelled
from xverify.oracles.timing import Problem, Solve, Timing, Way, aligned

__all__ = ["ORACLES", "load", "load_bench", "load_watched", "option_arguments", "with_option"]

TIMINGS = {
    "numpy": Timing("#E69F00", "s", "numpy"),
    "numba": Timing("#D55E00", "o", "numba", (("NUMBA_NUM_THREADS", "{threads}"),)),
}
"""Timings by backend. The version that is printed is that of the backend's package."""

ORACLES = tuple(
    Oracle(
        name="xverify-" + backend,
        title="xverify's %s kernel" % {"numpy": "NumPy", "numba": "Numba"}[backend],
        claim="Every edition: its argument ``contract`` names one.",
        timing=TIMINGS[backend],
        distribution="xverify",
        contracts=("*",),
        judged_by=("*",),
        module=__name__,
        role="kernel",
        arguments=(backend,),
        needs_xverify=True,
        needs=() if backend == "numpy" else (backend,),
    )
    for backend in ("numpy", "numba")
)


def load(backend: str = "numpy", option: str = "") -> Loaded:
    """Load the in-house kernel. It runs once a call."""
    invoke = _invoke(backend, option)

    def answer(call: Call, path: str) -> Outcome:
        arrays = hand_out(call)
        return answered(invoke(call, arrays), call, arrays)

    return Loaded(answer)


def load_watched(backend: str = "numpy", option: str = "") -> Loaded:
    """Load the kernel for the gate, with the checks that a user's kernel gets."""
    return Loaded(watched(_invoke(backend, option)), fatal=(MemoryError,))


def _invoke(backend: str, option: str) -> Callable[[Call, dict[str, Any]], Any]:
    """Import the public functions. Most families of contracts have the same."""
    import xverify

    # A first call imports what the backend needs once, before children are forked.
    xverify.dequantize_linear(np.zeros(1, np.uint8), np.float32(1), backend=backend)
    linear: Callable[..., Any] = xverify.dequantize_linear
    functions: dict[str, Callable[..., Any]] = {
        "onednn": xverify.dynamic_dequantize,
        "tensorflow": xverify.dequantize_range,
    }

    def invoke(call: Call, arrays: dict[str, Any]) -> Any:
        operands, keywords = arguments(call, arrays)
        if "axis" in call.attributes:
            # Pass -1 on unchanged: an edition may lack the attribute.
            keywords["axis"] = call.attributes["axis"]
        family = call.contract.partition("/")[0]
        function = functions.get(family, linear)
        if option == PACKED and family == "ai.onnx" and _can_be_packed(*operands):
            function = xverify.dequantize_packed
            operands[:], described = _packed(*operands)
            keywords.update(described)
        return function(*operands, contract=call.contract, backend=backend, **keywords)

    return invoke


def _can_be_packed(x: Any, scale: Any, zero_point: Any = None) -> bool:
    """True if packed codes make the same call. A uint8 zero point would look like packed codes of x."""
    return is_packable(x) and (zero_point is None or zero_point.dtype != np.uint8)


def _packed(x: Any, scale: Any, zero_point: Any = None) -> tuple[list[Any], dict[str, Any]]:
    """The operands with packed codes, and the keywords that describe them.

    A zero point of a wrong type or shape stays unpacked, because bytes have neither.
    """
    if zero_point is not None and (zero_point.dtype, zero_point.shape) == (x.dtype, scale.shape):
        zero_point = in_packed_form(zero_point)
    return [in_packed_form(x), scale, zero_point], {"dtype": x.dtype.name, "shape": x.shape}


def short_form(call: ShortCall) -> ShortForm:
    """A call of the public function of the family."""
    functions = {"onednn": "dynamic_dequantize", "tensorflow": "dequantize_range"}
    function = functions.get(call.contract.partition("/")[0], "dequantize_linear")
    words = {"contract": spelled(call.contract)}
    if call.name != "xverify-numpy":
        words["backend"] = spelled(call.name.rpartition("-")[2])
    return kernel_call(call, "import xverify", "xverify." + function, words)


# -- the bench -------------------------------------------------------------------------------------------


def load_bench(threads: int, backend: str) -> Solve:
    """The public functions, with an existing output."""
    import xverify

    def solve(problem: Problem) -> list[Way]:
        case = problem.case
        keywords: dict[str, Any] = {} if case.axis is None else {"axis": case.axis}
        if case.block_size:
            keywords["block_size"] = case.block_size
        keywords.update(out=problem.out, backend=backend)
        if not case.packed:
            call = partial(xverify.dequantize_linear, problem.x, problem.scale, problem.zero_point, **keywords)
            return [Way("dequantize_linear, out given", call)]
        zero_point = None if problem.zero_point is None else _aligned_packed(problem.zero_point)
        keywords.update(dtype=case.x_dtype, shape=case.shape)
        call = partial(xverify.dequantize_packed, _aligned_packed(problem.x), problem.scale, zero_point, **keywords)
        return [Way("dequantize_packed, out given", call)]

    return solve


def _aligned_packed(array: Array) -> Array:
    """The packed codes of an array, at the beginning of a cache line."""
    codes = in_packed_form(array)
    packed = aligned(codes.shape, "uint8")
    packed[...] = codes
    return packed
