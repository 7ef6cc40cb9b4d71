"""Elements of float16 by the processor's own arithmetic in float16, as LLVM instructions: no number becomes a float32 on the way.

The differences of integers of 8 bits are exact there, so that a product with a scale of float16 is the exact one rounded once.
Its subnormals are numbers whatever a processor has been told of those of float32: ``tests/kernels/test_compiled_halves.py`` tells one.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from xverify.kernels.compiled import decoding
from xverify.kernels.compiled.flat import Packed
from xverify.kernels.compiled.memory import load, load_packed, store
from xverify.kernels.compiled.results import Kinds
from xverify.kernels.compiled.scalars import data_of
from xverify.kernels.compiled.unpacking import places
from xverify.kernels.compiled.vectors import CHUNK, F16, I8, I16, has, of_x86, spread

AT_ONCE = 2 * CHUNK
"""Elements of a register."""

HALVES, _WORDS = ir.VectorType(F16, AT_ONCE), ir.VectorType(I16, AT_ONCE)
"""A register of floats, and of their codes."""


def serve(kinds: Kinds) -> bool:
    """Whether elements are made so."""
    offsets = kinds.offsets
    return bool(
        has("avx512fp16")
        and kinds.out.dtype == types.uint16
        and kinds.scales.dtype == types.uint16
        and kinds.divides == types.none
        and kinds.x.dtype == types.uint8
        and not decoding.is_float(kinds.coding)
        and (not isinstance(offsets, types.Array) or offsets.dtype == types.uint8)
    )


def parameters_at(
    context: Any, builder: Any, kinds: Kinds, coding: Any, scales: Any, offsets: Any, first: Any
) -> tuple[Any, Any]:
    """Scales and offsets of AT_ONCE elements from that parameter on."""
    scale = builder.bitcast(load(context, builder, kinds.scales, scales, first, count=AT_ONCE), HALVES)
    if isinstance(kinds.offsets, types.Array):
        return scale, numbers_at(context, builder, kinds.offsets, offsets, first, coding)
    return scale, spread(builder, decoding.origin(builder, coding, F16), scale)


def shared(builder: Any, number: Any) -> Any:
    """A scale or an offset that serves all of AT_ONCE elements, which is given in a wider type."""
    return spread(builder, builder.fptrunc(number, F16), ir.Constant(HALVES, None))


def numbers_at(context: Any, builder: Any, codes: Any, given: Any, first: Any, coding: Any) -> Any:
    """What `decoding.number` gives for AT_ONCE codes. codes: Numba's type of what holds them."""
    if not isinstance(codes, Packed):
        return decoding.number(builder, load(context, builder, codes, given, first, count=AT_ONCE), coding, F16)
    packed = load_packed(context, builder, codes, given, first, AT_ONCE)
    # Of a place the lowest five bits count, and of these, as of any code, those of its type.
    every = ir.Constant(ir.VectorType(I8, AT_ONCE), list(range(AT_ONCE)))
    entries = builder.bitcast(decoding.number(builder, every, coding, F16), _WORDS)
    found = of_x86(builder, "avx512.permvar.hi.512", _WORDS, entries, places(builder, packed, codes.in_byte))
    return builder.bitcast(found, HALVES)


def put(
    context: Any, builder: Any, kinds: Kinds, codes: Any, out: Any, first: Any, coding: Any, parameters: tuple[Any, Any],
    streamed: Any,
) -> None:  # fmt: skip
    """Put the elements of AT_ONCE codes from that one on to the same places of an output. parameters: scales and offsets.
    streamed: as for `chunks.put_chunk`."""
    scale, offset = parameters
    number = numbers_at(context, builder, kinds.x, codes, first, coding)
    elements = builder.bitcast(builder.fmul(builder.fsub(number, offset), scale), _WORDS)
    store(context, builder, elements, data_of(context, builder, kinds.out, out, first), streamed)
