"""The table of what is timed: oracles with a `Timing`, plain NumPy, and the limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from xverify.oracles import all_oracles
from xverify.oracles.protocol import Oracle
from xverify.oracles.timing import Problem, Solve, Way

__all__ = ["Array", "Peer", "Problem", "Solve", "Way", "peers"]

Array = NDArray[Any]

OTHERS = ("#8C564B", "*")
"""Colour and marker of a peer that defines none."""


@dataclass(frozen=True)
class Peer:
    """An implementation, or the limit, with everything that its process needs: one line of the bench."""

    name: str
    module: str
    """The module that defines `load`."""

    role: str = "peer"
    """kernel (in-house or the user's), peer, or limit. The limit moves a case's bytes and computes nothing."""

    distribution: str = ""
    """The distribution whose version is printed. The peer is skipped if it is named but not installed."""

    environment: tuple[tuple[str, str], ...] = ()
    """Environment variables of its process; {threads} stands for the number of threads."""

    search_path: tuple[str, ...] = ()
    """Folders for its process to import from."""
    load: str = "load"
    """The function ``load(threads, *arguments) -> Solve``."""

    arguments: tuple[str, ...] = ()
    """Further arguments of `load`."""
    style: tuple[str, str] = OTHERS
    """Colour and marker in plots."""
    version: str = ""
    """The version of a peer that is no distribution."""
    is_of_user: bool = False
    """True for a kernel of the user. Its values are compared with the legal set."""


NAIVE = Peer("numpy", "xverify.bench.peers.naive", distribution="numpy", style=("#7F7F7F", "X"))
LIMIT = Peer(
    "limit",
    "xverify.bench.peers.limit",
    "limit",
    environment=(("NUMBA_NUM_THREADS", "{threads}"),),
    style=("#000000", ""),
)


def peers() -> tuple[Peer, ...]:
    """Everything that can be timed: in-house kernels, oracles, plain NumPy, and the limit."""
    timed = [_peer(oracle) for oracle in all_oracles().values() if oracle.timing is not None]
    return (*sorted(timed, key=lambda peer: peer.role != "kernel"), NAIVE, LIMIT)


THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS")
"""Environment variables by which common runtimes read the number of threads."""

USER_STYLES = (("#9C27B0", "D"), ("#7A8B00", "s"), ("#C2185B", "v"), ("#00838F", "P"))
"""Colours and markers of the user's kernels, in their order."""


def user_peers(kernels: Sequence[Oracle]) -> tuple[Peer, ...]:
    """The user's kernels as lines of the bench, beside the in-house ones."""
    return tuple(
        Peer(
            kernel.name,
            kernel.module,
            "kernel",
            environment=tuple((name, "{threads}") for name in THREADS),
            search_path=kernel.search_path,
            load="load_bench",
            arguments=kernel.arguments,
            style=USER_STYLES[number % len(USER_STYLES)],
            version=kernel.version,
            is_of_user=True,
        )
        for number, kernel in enumerate(kernels)
    )


def _peer(oracle: Oracle) -> Peer:
    timing = oracle.timing
    assert timing is not None
    return Peer(
        oracle.name,
        oracle.module,
        "kernel" if oracle.role == "kernel" else "peer",
        timing.distribution or oracle.distribution,
        timing.environment,
        oracle.search_path,
        "load_bench",
        oracle.arguments,
        (timing.colour, timing.marker),
    )
