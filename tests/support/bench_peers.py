"""Peers for tests of the bench. They are right, except as an environment variable says."""

from __future__ import annotations

import os
import time
from functools import partial

import numpy as np

from xverify.bench.problem import Peer, Problem, Solve, Way

SLEEP = 0.004


def peer(behaviour: str, role: str = "peer") -> Peer:
    """Return a peer of this name and behaviour."""
    environment = (("BEHAVIOUR", behaviour),)
    return Peer(behaviour, __name__, role, environment=environment, search_path=(os.path.dirname(__file__),))


def load(threads: int) -> Solve:
    behaviour = os.environ["BEHAVIOUR"]
    if behaviour == "cannot be loaded":
        raise ImportError("libpeer.so is missing")
    return partial(_solve, behaviour)


def _solve(behaviour: str, problem: Problem) -> list[Way]:
    if behaviour == "lacks it":
        raise NotImplementedError("it has no <such> operation")
    one = problem.case.elements == 1

    def run() -> None:
        compute(problem)
        if behaviour == "slow":
            time.sleep(SLEEP)
        if behaviour == "other bits":
            problem.out.reshape(-1)[:3] = 12345
        if behaviour == "dies" and not one:
            os.abort()
        if behaviour == "hangs" and not one:
            time.sleep(60)

    ways = [Way("as it is", run)]
    if behaviour == "two ways":
        ways.append(Way("with haste", lambda: problem.out.fill(0)))
        ways.append(Way("refuses", lambda: 1 / 0))
    if behaviour == "takes memory":
        ways = [Way("with a copy", lambda: [compute(problem), np.ones(1 << 22)])]
    return ways


def compute(problem: Problem) -> None:
    """Compute the formula, which float64 holds exactly for integers of 8 bits and scales of 24."""
    difference = problem.x.astype(np.float64)
    if problem.zero_point is not None:
        difference -= problem.along(problem.zero_point).astype(np.float64)
    problem.out[...] = difference * problem.along(problem.scale).astype(np.float64)
