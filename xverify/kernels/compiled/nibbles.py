"""Entries of 16 bits of codes of four bits or fewer, looked up by AVX2's instruction, which finds bytes by the lowest bits
of an index."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from xverify.kernels.compiled.vectors import CHUNK, I8, I16, I64, has, of_x86, shuffled

AT_ONCE = 2 * CHUNK
"""Codes that are looked up together: the bytes of a register."""

_BYTES = ir.VectorType(I8, AT_ONCE)


def is_there() -> bool:
    """Whether the processor that Numba compiles for has the instruction."""
    return has("avx2")


def looked_up(builder: Any, entries: Any, code: Any) -> list[Any]:
    """The entries of AT_ONCE codes, in two vectors. entries: those of the CHUNK codes of four bits, in the order of these."""
    # Bytes are joined within the halves of a register, the first eight of each and the last eight; so codes are moved first,
    # eight together, to where their entries then come out in order.
    eights = builder.bitcast(code, ir.VectorType(I64, 4))
    code = builder.bitcast(shuffled(builder, eights, eights, [0, 2, 1, 3]), _BYTES)
    both = builder.bitcast(entries, _BYTES)
    parts = [shuffled(builder, both, both, [*range(byte, AT_ONCE, 2)] * 2) for byte in (0, 1)]
    found = [of_x86(builder, "avx2.pshuf.b", _BYTES, part, code) for part in parts]
    joined = []
    for start in (0, 8):
        places = [half + start + i for half in (0, CHUNK) for i in range(8)]
        words = shuffled(builder, found[0], found[1], [place + of for place in places for of in (0, AT_ONCE)])
        joined.append(builder.bitcast(words, ir.VectorType(I16, CHUNK)))
    return joined
