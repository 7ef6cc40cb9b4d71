"""The limit: the bytes of a case, moved by the loop that is fastest at its size, with no arithmetic.

The candidates are the C library (it copies x to the beginning of the output and sets the rest), NumPy's copy and fill, and,
where Numba is installed, loops over explicit vectors (`xverify.bench.loops`): on one thread and on all, with plain stores
and with stores that bypass the caches. Each candidate reads every byte of x and of the parameters once, and writes every
byte of the output once.
"""

from __future__ import annotations

import ctypes
from functools import partial
from importlib.util import find_spec

import numpy as np

from xverify.bench.problem import Array, Problem, Solve, Way

FILL = 0xA5
"""The byte to fill with.

It is not zero, because processors can clear a line of the cache with fewer bytes moved.
"""


def load(threads: int) -> Solve:
    """Compile the loops, or load them from Numba's cache of this process."""
    library = ctypes.CDLL(None)
    move, fill = library.memcpy, library.memset
    move.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    fill.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
    vectors = find_spec("numba") is not None

    def solve(problem: Problem) -> list[Way]:
        x, out = (array.reshape(-1).view(np.uint8) for array in (problem.x, problem.out))
        x = x[: problem.case.bytes_read]
        copied = min(x.size, out.size)
        source, target, rest = x.ctypes.data, out.ctypes.data, out.size - copied

        others = _parameters(problem)

        def with_c() -> None:
            np.add.reduce(others)
            move(target, source, copied)
            if rest:
                fill(target + copied, FILL, rest)

        beginning, end, head = out[:copied], out[copied:], x[:copied]

        def with_numpy() -> None:
            np.add.reduce(others)
            beginning[...] = head
            if rest:
                end.fill(FILL)

        # Where more is read than written, neither of these reads all of x.
        ways = [] if x.size > out.size else [Way("C library", with_c), Way("NumPy", with_numpy)]
        if vectors:
            from xverify.bench import loops

            for name, loop in loops.loops(x.size, out.size, threads).items():
                ways.append(Way(name, partial(loop, x, out, others)))
        return ways

    return solve


def _parameters(problem: Problem) -> Array:
    """The bytes of scale and zero point as one array of uint64, without the last bytes that fill none."""
    parts = [part.reshape(-1).view(np.uint8) for part in (problem.scale, problem.zero_point) if part is not None]
    together = np.concatenate(parts)[: problem.case.bytes_of_parameters]
    return together[: together.size // 8 * 8].view(np.uint64)
