"""oneDNN's DynamicDequantize as its two documents write it; no package contains those documents.

The code is what a kernel author would write who read the document and nothing else. It refuses calls beyond the document's
limits.
"""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from xverify.core.call import Call, Outcome
from xverify.oracles.arrays import answered, hand_out
from xverify.oracles.protocol import Loaded, Oracle
from xverify.oracles.short_form import ShortCall, ShortForm, keywords, spelled

Binary = Callable[[Any, Any], Any]


def _oracle(name: str) -> Oracle:
    edition = "onednn/DynamicDequantize-1@" + name
    return Oracle(
        name="onednn-formula-" + name,
        title="a NumPy transcript of the oneDNN document that %s"
        % {"multiply": "multiplies", "divide": "divides"}[name],
        claim="The one document that it transcribes, by its own docstring.",
        distribution="xverify",
        contracts=(edition,),
        judged_by=(edition,),
        module=__name__,
        load="load_" + name,
    )


ORACLES = (_oracle("multiply"), _oracle("divide"))


def dequantize(
    combine: Binary, src: Any, scales: Any, zps: Any = None, qtype: Any = "per_tensor", axis: Any = 1
) -> Any:
    """Compute dst = combine(src - zps, scales), in float32 after an int32 difference.

    Raises:
        TypeError: A type that the document does not list.
        ValueError: An attribute or a shape beyond the document.
    """
    if src.dtype not in (np.int8, np.uint8):
        raise TypeError("src is %s, not s8 or u8" % src.dtype)
    if scales.dtype != np.float32:
        raise TypeError("scales is %s, not f32" % scales.dtype)
    if zps is not None and zps.dtype not in (np.int8, np.uint8, np.int32):
        raise TypeError("zps is %s, not s8, u8 or s32" % zps.dtype)
    shape: tuple[int, ...] = (1,)
    extent = 1
    if qtype == "per_channel":
        if not -src.ndim <= axis < src.ndim:
            raise ValueError("axis %d is not in [-r, r-1] for r = %d" % (axis, src.ndim))
        extent = src.shape[axis]
        shape = tuple(extent if i == axis % src.ndim else 1 for i in range(src.ndim))
    elif qtype != "per_tensor":
        raise ValueError("qtype is %r" % (qtype,))
    for name, parameter in (("scales", scales), ("zps", zps)):
        if parameter is not None and parameter.shape != (extent,):
            raise ValueError("%s has shape %s, not (%d,)" % (name, parameter.shape, extent))
    difference = src.astype(np.int32)
    if zps is not None:
        difference = difference - zps.astype(np.int32).reshape(shape)
    with np.errstate(all="ignore"):
        dst = combine(difference.astype(np.float32), scales.reshape(shape))
    return dst.reshape(src.shape)


def _load(combine: Binary) -> Loaded:
    def answer(call: Call, path: str) -> Outcome:
        arrays = hand_out(call)
        zps = arrays.get("zero_point")
        result = dequantize(combine, arrays["x"], arrays["scale"], zps, **call.attributes)
        return answered(result, call, arrays)

    return Loaded(answer)


def load_multiply() -> Loaded:
    """Seed 001: dst = (src - zps) * scales."""
    return _load(np.multiply)


def load_divide() -> Loaded:
    """Seed 002: output = (input - zp) / scale."""
    return _load(np.divide)


def short_form(call: ShortCall) -> ShortForm:
    """A call of `dequantize`."""
    combine = "divide" if call.name.endswith("divide") else "multiply"
    words = keywords({name: spelled(value) for name, value in call.attributes.items()})
    line = "y = dequantize(np.%s, %s%s)" % (combine, ", ".join(call.tensors), words)
    return ShortForm(["from xverify.oracles.onednn_formulas import dequantize"], [line])
