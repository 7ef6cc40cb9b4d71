"""Smaller calls of the same kind, for shrinking with `hypothesis.find`.

For one call the strategy always draws the same integers. Each means "smallest" at 0 and "unchanged" at its upper bound.
(Measured: booleans that keep or drop a part did not shrink at all.) Each axis keeps a window around ``focus``, the index of
a wrong value, so most draws still show it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from xverify.arithmetic.linear_operands import ceil_div, normal_axis
from xverify.core.call import Call, Tensor
from xverify.core.dtypes import FLOATS, INTEGERS, encode
from xverify.strategies.limits import block_size_of


@st.composite
def smaller_calls(draw: DrawFn, call: Call, focus: tuple[int, ...]) -> Call:
    """Calls with windows of the axes of a call, and with simpler values.

    Args:
        draw: Hypothesis's function.
        call: The call to make smaller.
        focus: An index into the quantized tensor. Every window contains it.
    """
    windows = []
    # In rank 1, a block of one element is a scale for each element, which the texts leave open.
    least = 2 if len(call.data.shape) == 1 and _is_blocked(call) else 1
    for extent, index in zip(call.data.shape, focus, strict=True):
        last = extent - 1
        # An axis of at most one element has nothing to choose, and each draw costs the shrinker passes.
        length, start = (draw(st.integers(0, last)) + 1, draw(st.integers(0, last))) if last > 0 else (extent, 0)
        windows.append(_window(extent, max(length, least), start, index))
    others = draw(st.integers(0, 2))
    zero_point = draw(st.integers(0, 2))
    laid_out = [name for name, tensor in call.tensors.items() if tensor.layout != "C"]
    kept_layouts = draw(st.integers(0, (1 << len(laid_out)) - 1)) if laid_out else 0
    plain = frozenset(name for i, name in enumerate(laid_out) if not kept_layouts >> i & 1)
    ranks = draw(st.integers(0, 1))
    cut = _cut(call, windows)
    kept = tuple(f - w.start for f, w in zip(focus, cut.windows, strict=False))
    simple = _simplified(cut.call, kept, others, zero_point, plain)
    return squeezed(simple) if ranks == 0 else simple


def _window(extent: int, length: int, start: int, focus: int) -> slice:
    """A window of ``length`` elements that contains ``focus`` and begins near ``focus - start``."""
    first = max(0, min(max(focus - start, focus - length + 1), extent - length))
    return slice(first, first + length)


def less_around(call: Call) -> Iterator[Call]:
    """The call with simpler surroundings, the simplest first.

    First come no surroundings, then those without one part, then those with one part in its simplest form.
    """
    if call.around:
        yield replace(call, around=())
    for index in range(len(call.around)):
        yield replace(call, around=(*call.around[:index], *call.around[index + 1 :]))
    for index, word in enumerate(call.around):
        for simple in _simpler(word):
            yield replace(call, around=(*call.around[:index], simple, *call.around[index + 1 :]))


def _simpler(word: str) -> Iterator[str]:
    """A word in its simplest form, then with a zero in place of one digit of its number.

    The last digit of the words fork and shared chooses the output, so an odd number stays odd.
    """
    start, colon, number = word.rpartition(":")
    if not colon or not number.removeprefix("-").isdigit():  # A word without a number, such as constant:x.
        return
    simplest = str(int(number) % 2) if start in ("fork", "shared") else "0"
    if number != simplest:
        yield f"{start}:{simplest}"
    digits = number.removeprefix("-")
    if len(digits) > 1 and start in ("y>pair", "y>quantize"):
        zeroed = (digits[:i] + "0" + digits[i + 1 :] for i in range(len(digits)) if digits[i] != "0")
        yield from (f"{start}:{int(digits)}" for digits in zeroed)


@dataclass(frozen=True)
class _Cut:
    call: Call
    windows: list[slice]


def _cut(call: Call, windows: list[slice]) -> _Cut:
    """The windows of the quantized tensor and their parameters.

    A window of a blocked axis starts with a block.
    """
    role = "x" if "x" in call.tensors else "input"
    data = call.tensors[role]
    tensors: dict[str, Tensor] = dict(call.tensors)
    rank = len(data.shape)
    axis = normal_axis(int(call.attributes.get("axis", 1)), rank) if rank else None
    block_size = block_size_of(call)
    first_of_blocks = False
    for name, parameter in call.tensors.items():
        if name == role:
            continue
        codes = parameter.codes
        if codes.ndim == rank and rank and axis is not None and block_size > 0:
            expected = tuple(ceil_div(e, block_size) if i == axis else e for i, e in enumerate(data.shape))
            if codes.shape == expected:
                first_of_blocks = True
                start = windows[axis].start - windows[axis].start % block_size
                windows = [slice(start, w.stop) if i == axis else w for i, w in enumerate(windows)]
                blocks = slice(start // block_size, ceil_div(max(windows[axis].stop, start + 1), block_size))
                codes = codes[tuple(blocks if i == axis else w for i, w in enumerate(windows))]
        elif codes.ndim == 1 and axis is not None and codes.shape[0] == data.shape[axis] and not first_of_blocks:
            codes = codes[windows[axis]]
        tensors[name] = Tensor(parameter.dtype, np.ascontiguousarray(codes).reshape(codes.shape), parameter.layout)
    kept = data.codes[tuple(windows)]
    tensors[role] = Tensor(data.dtype, np.ascontiguousarray(kept).reshape(kept.shape), data.layout)
    return _Cut(replace(call, tensors=tensors), windows)


def _simplified(call: Call, focus: tuple[int, ...], others: int, zero_point: int, plain: frozenset[str]) -> Call:
    """The call with simple values.

    Values besides the focused one become 0 or equal to it. The zero point becomes 0 or 1.

    plain: The tensors that get C order.
    """
    role = "x" if "x" in call.tensors else "input"
    tensors: dict[str, Tensor] = dict(call.tensors)
    data = tensors[role]
    if others < 2 and data.size:
        codes = np.zeros_like(data.codes) if others == 0 else np.full_like(data.codes, data.codes[focus])
        codes[focus] = data.codes[focus]
        data = Tensor(data.dtype, codes, data.layout)
    tensors[role] = data
    old = tensors.get("zero_point")
    # A zero point of 0 stays, as the text may leave a call with another value open.
    if old is not None and zero_point < 2 and old.dtype in (*INTEGERS, *FLOATS) and old.codes.any():
        tensors["zero_point"] = Tensor(old.dtype, encode(old.dtype, np.full(old.shape, zero_point)), old.layout)
    tensors = {name: Tensor(t.dtype, t.codes) if name in plain else t for name, t in tensors.items()}
    return replace(call, tensors=tensors)


def _is_blocked(call: Call) -> bool:
    return block_size_of(call) > 0


def squeezed(call: Call) -> Call:
    """The call without axes of extent 1. The axis of the parameters stays."""
    role = "x" if "x" in call.tensors else "input"
    shape = call.data.shape
    rank = len(shape)
    along = any(t.codes.ndim for name, t in call.tensors.items() if name != role) and not (
        call.contract.startswith("onednn/") and call.attributes.get("qtype", "per_tensor") == "per_tensor"
    )
    axis = normal_axis(int(call.attributes.get("axis", 1)), rank) if along and rank else None
    gone = tuple(i for i in range(rank) if shape[i] == 1 and i != axis)
    blocked = _is_blocked(call)
    if axis is not None and len(gone) == rank - 1 and (blocked or call.contract == "ai.onnx/DequantizeLinear-19"):
        gone = gone[1:]  # Version 19 and blocks have a rule of their own for rank 1.
    if not gone:
        return call
    tensors = {}
    for name, t in call.tensors.items():
        same_rank = blocked and t.codes.ndim == rank and all(t.shape[i] == 1 for i in gone)
        tensors[name] = Tensor(t.dtype, np.squeeze(t.codes, gone), t.layout) if name == role or same_rank else t
    attributes = dict(call.attributes)
    if axis is not None and ("axis" in attributes or sum(i < axis for i in gone)):
        attributes["axis"] = axis - sum(i < axis for i in gone)
    return replace(call, tensors=tensors, attributes=attributes)
