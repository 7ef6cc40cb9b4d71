"""The events of several shards: their lines in a file, and one stream for one display."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from xverify.engine import events
from xverify.engine.events import Consumer, Event

KINDS: dict[str, Callable[..., Event]] = {
    kind.__name__: kind
    for kind in (
        events.SweepStarted,
        events.WorkerReady,
        events.WorkerFailed,
        events.Progressed,
        events.FindingFound,
        events.FaultSeen,
        events.ShrinkStarted,
        events.FindingShrunk,
        events.SweepFinished,
    )
}


def line_of(event: Event) -> str:
    """An event as one line of JSON."""
    return json.dumps({"event": type(event).__name__, **asdict(event)}, default=str)


def event_of(line: str) -> Event | None:
    """The event of a line; None if the line is damaged or its event unknown."""
    try:
        data = json.loads(line)
        kind = KINDS[data.pop("event")]
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
        return kind(**values)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


class EventFile:
    """A consumer that appends each event to a file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def __call__(self, event: Event) -> None:
        self._file.write(line_of(event) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class Together:
    """One stream of events from those of several shards. Threads may call it.

    Counts are added up. An implementation, a failure and a finding are announced once. Shrinking is announced when every
    shard has begun it.

    Args:
        started: The first event of the whole run.
        keys: The keys of the shards.
        emit: The consumer of the stream.
    """

    def __init__(self, started: events.SweepStarted, keys: Iterable[str], emit: Consumer) -> None:
        self._emit = emit
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._sessions: dict[str, list[events.Progressed]] = defaultdict(list)
        self._seen: set[tuple[Any, ...]] = set()
        self._exploring = set(keys)
        self._to_shrink = 0
        self._shrunk: list[Event] = []
        self._shrinking = False
        emit(started)

    def line(self, key: str, line: str) -> None:
        """Take a line of a shard's events."""
        event = event_of(line)
        if event is not None:
            with self._lock:
                self._take(key, event)

    def restart(self, key: str) -> None:
        """Forget the counts of a shard that begins again."""
        with self._lock:
            self._sessions.pop(key, None)

    def ended(self, key: str) -> None:
        """Note that a shard has ended: nothing waits for it."""
        with self._lock:
            self._shrink_from(key)

    def _take(self, key: str, event: Event) -> None:
        match event:
            case events.SweepStarted():
                # A shard may have several sessions, one after another.
                self._sessions[key].append(events.Progressed("", 0, 0, 0, 0.0))
                self._exploring.add(key)
                self._shrinking = False
            case events.WorkerReady() | events.WorkerFailed() | events.FindingFound():
                self._once(event)
            case events.Progressed():
                self._sessions[key][-1:] = [event]
                if not self._shrinking:
                    self._emit(self._sum(event.phase))
            case events.ShrinkStarted(count):
                self._to_shrink += count
                self._shrink_from(key)
            case events.FindingShrunk():
                if self._shrinking:
                    self._emit(event)
                else:
                    self._shrunk.append(event)

    def _once(self, event: Event) -> None:
        identity = event.id if isinstance(event, events.FindingFound) else tuple(asdict(event).values())
        if (type(event), identity) not in self._seen:
            self._seen.add((type(event), identity))
            self._emit(event)

    def _sum(self, phase: str) -> events.Progressed:
        every = [event for sessions in self._sessions.values() for event in sessions]
        return events.Progressed(
            phase,
            sum(event.cases for event in every),
            sum(event.values for event in every),
            sum(event.findings for event in every),
            time.monotonic() - self._started,
        )

    def _shrink_from(self, key: str) -> None:
        self._exploring.discard(key)
        if not self._exploring and not self._shrinking and self._to_shrink:
            self._shrinking = True
            self._emit(events.ShrinkStarted(self._to_shrink))
            for event in self._shrunk:
                self._emit(event)
            self._shrunk.clear()
