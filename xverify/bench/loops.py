"""Loops that read one array of bytes and write another as fast as the machine can, for Numba to compile.

They are written in the intermediate language of LLVM, vector by vector, so that nothing is left to a compiler's luck: one step
loads vectors of 64 bytes and stores them, each several times where more is written than read, or their exclusive or where less
is. Independent of the kernels: a limit that shared their loop would share its faults.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import gcd
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange, set_num_threads, types
from numba.extending import intrinsic

from xverify.bench.problem import Array

VECTOR = 64
"""Bytes of a vector; where the machine's are shorter, LLVM takes several."""

Loop = Callable[[Array, Array, Array], np.uint64]
"""Of the bytes to read, those to write, and others to read, which may be few, as uint64: what those are together."""


def loops(read: int, written: int, threads: int) -> dict[str, Loop]:
    """Loops by name for arrays of so many bytes, which must lie on `VECTOR` bytes. What is left over after whole steps, some
    hundred bytes at most, is not moved."""
    common = gcd(read, written)
    loads, stores = read // common, written // common
    if max(loads, stores) > 8:  # such as a size with no whole number of elements in a vector
        loads, stores = max(1, round(read / written)), max(1, round(written / read))
    found: dict[str, Loop] = {}
    for several in (False, True) if threads > 1 else (False,):
        for streamed in (False, True):
            store = "non-temporal stores" if streamed else "plain stores"
            name = f"vectors, {store}, {threads if several else 1} thread{'s' if several else ''}"
            compiled = _compiled(loads, stores, streamed, several)
            found[name] = _on_threads(compiled, threads) if several else compiled
    return found


def _on_threads(compiled: Loop, threads: int) -> Loop:
    if get_num_threads() != threads:
        set_num_threads(threads)
    return compiled


@cache
def _compiled(loads: int, stores: int, streamed: bool, several: bool) -> Loop:
    """The loop of so many loads and stores a step."""
    step = _step(loads, stores, streamed)
    drain = _drain()
    read, written = loads * VECTOR, stores * VECTOR

    def alone(x: Array, out: Array, others: Array) -> np.uint64:
        source, target = x.ctypes.data, out.ctypes.data
        total = np.uint64(0)
        for i in range(others.size):
            total += others[i]
        for i in range(min(x.size // read, out.size // written)):
            step(source + i * read, target + i * written)
        drain()
        return total

    def together(x: Array, out: Array, others: Array) -> np.uint64:
        source, target = x.ctypes.data, out.ctypes.data
        steps = min(x.size // read, out.size // written)
        parts = get_num_threads()
        total = np.uint64(0)
        for part in prange(parts):
            own = np.uint64(0)
            for i in range(others.size * part // parts, others.size * (part + 1) // parts):
                own += others[i]
            total += own
            for i in range(steps * part // parts, steps * (part + 1) // parts):
                step(source + i * read, target + i * written)
            drain()
        return total

    compiled: Loop = njit(parallel=several)(together if several else alone)
    return compiled


def _step(loads: int, stores: int, streamed: bool) -> Any:
    """step(source, target): addresses, of which the vectors there are loaded and stored."""
    from llvmlite import ir

    vector = ir.VectorType(ir.IntType(64), VECTOR // 8)

    @intrinsic  # type: ignore[untyped-decorator,unused-ignore]
    def step(typing: Any, source: Any, target: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            def place(address: Any, number: int) -> Any:
                moved = builder.add(address, ir.Constant(address.type, number * VECTOR))
                return builder.inttoptr(moved, vector.as_pointer())

            vectors = [builder.load(place(arguments[0], i), align=VECTOR) for i in range(loads)]
            if stores < loads:
                for i in range(stores, loads):
                    vectors[i % stores] = builder.xor(vectors[i % stores], vectors[i])
            for i in range(stores):
                stored = builder.store(vectors[i * min(loads, stores) // stores], place(arguments[1], i), align=VECTOR)
                if streamed:
                    hint = builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
                    stored.set_metadata("nontemporal", hint)
            return context.get_dummy_value()

        return types.void(source, target), generate

    return step


def _drain() -> Any:
    """drain(): waits until stores that bypass the caches have arrived."""

    @intrinsic  # type: ignore[untyped-decorator,unused-ignore]
    def drain(typing: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            builder.fence("seq_cst")
            return context.get_dummy_value()

        return types.void(), generate

    return drain
