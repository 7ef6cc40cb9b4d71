"""The bench: in each case it times all peers in turn, round after round, in a rotated order."""

from __future__ import annotations

import contextlib
import importlib.metadata
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from xverify.bench.cases import Case
from xverify.bench.data import Value, written
from xverify.bench.judge import mistake
from xverify.bench.memory import available
from xverify.bench.problem import Peer, peers
from xverify.bench.processes import Limits, LostError, PeerProcess, RefusedError
from xverify.bench.result import Line, Measured, Timed, bench_to_json

LEAST_ROUNDS, MOST_ROUNDS = 3, 25

ROUND_SECONDS = 0.02
"""Seconds that a peer gets in one round. A call that takes longer is made once."""

WEIGHS_AS_MUCH = 1 << 24
"""The number of elements that takes about as long as the fixed part of a case."""

PAUSE_SECONDS = 0.004
"""The pause between two peers, after which threads that spin for more work have gone to sleep."""

MOST_DEATHS = 3
"""The number of lost processes after which a peer is not started again."""


class Progress(Protocol):
    """Receives the progress of the bench."""

    def begin(self, cases: int) -> None: ...

    def case(self, case: Case) -> None: ...

    def done(self, measured: Measured) -> None: ...


@dataclass(frozen=True)
class Options:
    """The settings of one bench."""

    cases: tuple[Case, ...]
    threads: int
    budget: float
    """Seconds for the whole bench. A case that has begun still gets `LEAST_ROUNDS`."""

    seed: int = 0
    """The seed of the operands."""
    command: str = ""
    """The command line, for the record."""
    peers: tuple[Peer, ...] = field(default_factory=peers)
    limits: Limits = field(default_factory=Limits)
    rounds: int = MOST_ROUNDS
    """The largest number of rounds of a case."""


def bench(options: Options, progress: Progress | None = None) -> dict[str, Any]:
    """Run the bench and return its JSON.

    Ctrl-C ends it early: the result holds what was measured so far, and its ``run.complete`` is false.
    """
    from xverify.bench.machine import machine, versions

    begun, started = time.monotonic(), time.time()
    measured: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="xverify-bench-") as folder, contextlib.ExitStack() as stack:
        fleet = _Fleet(options, Path(folder))
        stack.callback(fleet.end)
        complete = True
        try:
            fleet.start()
            if progress:
                progress.begin(len(options.cases))
            for number, case in enumerate(options.cases):
                now = time.monotonic() - begun
                if progress:
                    progress.case(case)
                share = max(0.0, options.budget - now) * weight(case) / sum(map(weight, options.cases[number:]))
                if now >= options.budget:
                    left_out = f"the budget of {options.budget:g} s was spent"
                    measured.append(Measured(case, [], left_out))
                else:
                    measured.append(Measured(case, [Line(peer) for peer in options.peers]))
                    fleet.measure(measured[-1], share)
                if progress:
                    progress.done(measured[-1])
        except KeyboardInterrupt:
            complete = False
        run = {
            "command": options.command,
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
            "seconds": round(time.monotonic() - begun, 1),
            "budget": options.budget,
            "threads": options.threads,
            "seed": options.seed,
            "complete": complete,
            "cases": len(options.cases),
            "versions": versions(),
            "machine": machine(),
        }
        return bench_to_json(run, fleet.peers(), measured)


def weight(case: Case) -> float:
    """The expected time of a case, relative to a small one.

    In a large case even `LEAST_ROUNDS` take long. Before them every peer reads its operands and compares its result.
    """
    return 1 + case.elements / WEIGHS_AS_MUCH


class _Fleet:
    """The peers' processes."""

    def __init__(self, options: Options, directory: Path) -> None:
        self._options, self._directory = options, directory
        self._processes: dict[str, PeerProcess] = {}
        self._deaths: dict[str, int] = {}
        self._absent: dict[str, str] = {}
        self._ended: dict[str, str] = {}

    def start(self) -> None:
        """Start every peer that is installed. Remember why the others cannot be used."""
        self._start(self._options.peers)

    def _start(self, peers: Sequence[Peer]) -> None:
        started: list[PeerProcess] = []
        for peer in peers:
            if peer.distribution and _version(peer) is None:
                self._absent[peer.name] = f"not installed: pip install {peer.distribution}"
                continue
            process = PeerProcess(peer, self._options.threads, self._directory, self._options.limits)
            self._processes[peer.name] = process
            try:
                process.start()
                started.append(process)
            except LostError as error:
                self._lose(peer.name, str(error))
        for process in started:
            try:
                process.answer(self._options.limits.start)
            except RefusedError as error:
                self._absent[process.peer.name] = f"it cannot be loaded: {error}"
                self._drop(process.peer.name)
            except LostError as error:
                self._lose(process.peer.name, str(error))

    def peers(self) -> list[dict[str, Any]]:
        """Every peer: name, role, version, environment, and why it was not used, or not to the end."""
        return [
            {
                "name": peer.name,
                "role": peer.role,
                "version": _version(peer),
                "distribution": peer.distribution,
                "environment": {k: v.format(threads=self._options.threads) for k, v in peer.environment},
                "reason": self._absent.get(peer.name, self._ended.get(peer.name, "")),
                "is_of_user": peer.is_of_user,
                "lost": self._deaths.get(peer.name, 0),
            }
            for peer in self._options.peers
        ]

    def measure(self, measured: Measured, seconds: float) -> None:
        """Fill a case's lines, in about this number of seconds."""
        end = time.monotonic() + seconds
        case = measured.case
        self._revive()
        running = {line.peer.name: line for line in measured.lines if line.peer.name in self._processes}
        for line in measured.lines:
            if line.peer.name not in running:
                line.reason = self._absent.get(line.peer.name) or self._ended.get(line.peer.name, "")
                line.lost = line.peer.name not in self._absent
        needed = (case.bytes_of_codes + case.bytes_read + 2 * case.bytes_written) * (len(running) + 1)
        free = available()
        if free is not None and needed > free:
            measured.lines.clear()
            measured.reason = f"it needs about {needed >> 20} MiB of memory, and {free >> 20} MiB are free"
            return
        with written(case, self._options.seed) as folder:
            self._prepare(running, case, folder)
        number = 0
        while running and number < self._options.rounds and (number < LEAST_ROUNDS or time.monotonic() < end):
            names = list(running)
            for name in names[number % len(names) :] + names[: number % len(names)]:
                time.sleep(PAUSE_SECONDS)
                took = self._request(running, name, ROUND_SECONDS + self._options.limits.time, "time", ROUND_SECONDS)
                for way in running[name].ways if took is not None else ():
                    way.seconds[number] = took[way.way]
            number += 1

    def _prepare(self, running: dict[str, Line], case: Case, folder: Path) -> None:
        """Have the peers prepare the case one after the other, and measure the memory and time of each."""
        for name in list(running):
            limit = self._options.limits.prepare
            ways = self._request(running, name, limit, "prepare", asdict(case), str(folder))
            if ways is not None:
                running[name].ways = [_timed(case, way, running[name].peer.is_of_user) for way in ways]

    def _request(self, running: dict[str, Line], name: str, seconds: float, request: str, *arguments: Any) -> Any:
        """Send a request to a peer and return its answer, or None if it failed and leaves this case."""
        try:
            process = self._processes[name]
            process.ask(request, *arguments)
            return process.answer(seconds)
        except RefusedError as error:
            running.pop(name).reason = str(error)
        except LostError as error:
            line = running.pop(name)
            line.reason, line.lost = str(error), True
            self._lose(name, str(error))
        return None

    def _lose(self, name: str, reason: str) -> None:
        self._deaths[name] = self._deaths.get(name, 0) + 1
        self._ended[name] = reason
        self._drop(name)

    def _drop(self, name: str) -> None:
        self._processes.pop(name).end()

    def _revive(self) -> None:
        """Restart the peers that an earlier case lost, unless that happened too often."""
        lost = [
            peer
            for peer in self._options.peers
            if peer.name not in self._processes and 0 < self._deaths.get(peer.name, 0) < MOST_DEATHS
        ]
        self._start(lost)
        for peer in lost:
            if peer.name in self._processes:
                del self._ended[peer.name]

    def end(self) -> None:
        for process in self._processes.values():
            process.end()
        self._processes.clear()


def _timed(case: Case, way: dict[str, Any], is_of_user: bool) -> Timed:
    """A way that a peer has prepared, judged by the text if it is a kernel of the user."""
    wrong = mistake(case, [Value(**value) for value in way["others"]]) if is_of_user else None
    return Timed(way["name"], way["peak_bytes"], way["other_bits"], allocates=way["allocates"], mistake=wrong)


def _version(peer: Peer) -> str | None:
    """The version of a peer, or of its distribution; None if that is not installed."""
    if not peer.distribution:
        return peer.version
    try:
        return importlib.metadata.version(peer.distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
