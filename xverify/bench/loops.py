"""Loops that read one array of bytes and write another as fast as possible, compiled by Numba.

They are written in LLVM's intermediate language, vector by vector, so that nothing depends on a compiler's choices. One step
loads vectors of 64 bytes and stores them. Where more is written than read, it stores each vector several times. Where less is
written, it stores the exclusive or of several. They share no code with the kernels: a limit with the kernels' own loop would
have the same faults.
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
"""Bytes of a vector. Where the machine's vectors are shorter, LLVM uses several."""

Loop = Callable[[Array, Array, Array], np.uint64]
"""A compiled loop. It returns the sum of the third array.

Arguments: the bytes to read, the bytes to write, and a short array of uint64 that it also reads.
"""


def loops(read: int, written: int, threads: int) -> dict[str, Loop]:
    """Compile loops by name for arrays of these numbers of bytes, aligned to `VECTOR` bytes.

    The loops move whole steps only: the last bytes, at most some hundred, are not moved.
    """
    common = gcd(read, written)
    loads, stores = read // common, written // common
    if max(loads, stores) > 8:  # for example an odd number of packed codes
        loads, stores = max(1, round(read / written)), max(1, round(written / read))
    by_name: dict[str, Loop] = {}
    for several in (False, True) if threads > 1 else (False,):
        for streamed in (False, True):
            store = "non-temporal stores" if streamed else "plain stores"
            name = f"vectors, {store}, {threads if several else 1} thread{'s' if several else ''}"
            compiled = _compiled(loads, stores, streamed, several)
            by_name[name] = _on_threads(compiled, threads) if several else compiled
    return by_name


def _on_threads(compiled: Loop, threads: int) -> Loop:
    if get_num_threads() != threads:
        set_num_threads(threads)
    return compiled


@cache
def _compiled(loads: int, stores: int, streamed: bool, several: bool) -> Loop:
    """The loop with this number of loads and stores in a step."""
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
    """step(source, target): load the vectors at one address and store them at the other."""
    from llvmlite import ir

    vector = ir.VectorType(ir.IntType(64), VECTOR // 8)

    @intrinsic  # type: ignore[untyped-decorator,unused-ignore]
    def step(typing: Any, source: Any, target: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            def pointer(address: Any, number: int) -> Any:
                moved = builder.add(address, ir.Constant(address.type, number * VECTOR))
                return builder.inttoptr(moved, vector.as_pointer())

            vectors = [builder.load(pointer(arguments[0], i), align=VECTOR) for i in range(loads)]
            if stores < loads:
                for i in range(stores, loads):
                    vectors[i % stores] = builder.xor(vectors[i % stores], vectors[i])
            for i in range(stores):
                stored = builder.store(
                    vectors[i * min(loads, stores) // stores], pointer(arguments[1], i), align=VECTOR
                )
                if streamed:
                    hint = builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
                    stored.set_metadata("nontemporal", hint)
            return context.get_dummy_value()

        return types.void(source, target), generate

    return step


def _drain() -> Any:
    """drain(): wait until stores that bypass the caches have arrived."""

    @intrinsic  # type: ignore[untyped-decorator,unused-ignore]
    def drain(typing: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            builder.fence("seq_cst")
            return context.get_dummy_value()

        return types.void(), generate

    return drain
