"""Between a peer's module and what times it: a problem, and the ways that an implementation has of solving it.

A peer is a module with a function ``load(threads: int) -> Solve``. Its ``Solve`` raises NotImplementedError, with a sentence,
for a problem whose operation it does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.bench.cases import Case

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Problem:
    """A case with its arrays, of NumPy's and ml_dtypes' types, on lines of the cache. out: what to write, of the case's shape."""

    case: Case
    x: Array
    scale: Array
    zero_point: Array | None
    out: Array

    def along(self, parameter: Array) -> Array:
        """A parameter in a shape that broadcasts to x, blocks repeated."""
        case = self.case
        if case.axis is None or parameter.ndim == 0:
            return parameter
        if not case.block_size:
            return parameter.reshape([-1 if i == case.axis else 1 for i in range(self.x.ndim)])
        index = np.arange(case.shape[case.axis]) // case.block_size
        repeated: Array = np.take(parameter, index, axis=case.axis)
        return repeated


@dataclass(frozen=True, eq=False)
class Way:
    """One way of solving a problem. run: once, from operands that are there already. read: the output, from what run returned
    (None: it was written to the problem's own). owns_output: each run makes its output anew. memory: what must live as long,
    since a library points to it without holding it."""

    name: str
    run: Callable[[], Any]
    read: Callable[[Any], Array] | None = None
    owns_output: bool = False
    memory: object = None


Solve = Callable[[Problem], Sequence[Way]]


@dataclass(frozen=True)
class Peer:
    """What is timed. role: "kernel" (in-house), "peer", or "limit", which moves a case's bytes and computes nothing.

    module: has `load`. distribution: whose version is told; a peer whose distribution is not installed is said to be so.
    environment: variables of its process, in which {threads} stands for their number.
    """

    name: str
    module: str
    role: str = "peer"
    distribution: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    search_path: tuple[str, ...] = ()


_OPENMP = (("OMP_NUM_THREADS", "{threads}"),)
_NUMBA = (("NUMBA_NUM_THREADS", "{threads}"),)

PEERS = (
    Peer("xverify-numba", "xverify.bench.peers.in_house", "kernel", "numba", (*_NUMBA, ("XVERIFY_BENCH", "numba"))),
    Peer("xverify-numpy", "xverify.bench.peers.in_house", "kernel", "numpy", (("XVERIFY_BENCH", "numpy"),)),
    Peer("onnxruntime", "xverify.bench.peers.onnx_runtime", distribution="onnxruntime"),
    Peer("onednn", "xverify.bench.peers.onednn", distribution="onednn-cpu-gomp", environment=_OPENMP),
    Peer("tensorflow", "xverify.bench.peers.tensor_flow", distribution="tensorflow-cpu"),
    Peer("torch", "xverify.bench.peers.pytorch", distribution="torch", environment=_OPENMP),
    Peer("numpy", "xverify.bench.peers.naive", distribution="numpy"),
    Peer("limit", "xverify.bench.peers.limit", "limit", environment=_NUMBA),
)
