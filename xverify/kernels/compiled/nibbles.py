"""Entries of 16 bits of codes of four bits or fewer, looked up by AVX2's instruction, which finds bytes by the lowest bits
of an index."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from xverify.kernels.compiled.vectors import CHUNK, I8, I16, I64, has, of_x86, shuffled

AT_ONCE = 2 * CHUNK
"""Codes that are looked up together: the bytes of a register."""

BYTES = ir.VectorType(I8, AT_ONCE)
"""A register."""


def is_there() -> bool:
    """Whether the processor that Numba compiles for has the instruction."""
    return has("avx2")


def looked_up(builder: Any, entries: Any, code: Any) -> list[Any]:
    """The entries of AT_ONCE codes, in two vectors. entries: those of the CHUNK codes of four bits, in the order of these."""
    code = moved(builder, code)
    return joined(builder, *(of_x86(builder, "avx2.pshuf.b", BYTES, part, code) for part in split(builder, entries)))


def split(builder: Any, entries: Any) -> list[Any]:
    """The lower and the upper bytes of CHUNK entries, as the instruction takes them: twice."""
    both = builder.bitcast(entries, BYTES)
    return [shuffled(builder, both, both, [*range(byte, AT_ONCE, 2)] * 2) for byte in (0, 1)]


def moved(builder: Any, code: Any) -> Any:
    """Codes, eight together, where their entries come out in order of what `joined` does to them: it joins bytes within the
    halves of a register, the first eight of each and the last eight."""
    eights = builder.bitcast(code, ir.VectorType(I64, 4))
    return builder.bitcast(shuffled(builder, eights, eights, [0, 2, 1, 3]), BYTES)


def joined(builder: Any, lower: Any, upper: Any) -> list[Any]:
    """Two vectors of entries, of the lower and the upper bytes of those of codes that `moved` gave."""
    words = []
    for start in (0, 8):
        places = [half + start + i for half in (0, CHUNK) for i in range(8)]
        word = shuffled(builder, lower, upper, [place + of for place in places for of in (0, AT_ONCE)])
        words.append(builder.bitcast(word, ir.VectorType(I16, CHUNK)))
    return words
