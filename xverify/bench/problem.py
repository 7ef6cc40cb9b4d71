"""The table of what is timed: oracles with a `Timing`, plain NumPy, and the limit."""

from __future__ import annotations

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
    """kernel (in-house), peer, or limit. The limit moves a case's bytes and computes nothing."""

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
