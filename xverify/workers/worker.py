"""Oracles in processes of their own, which are replaced when they die or hang.

A worker may abort, hang, flood its output or print garbage: the run goes on. The worker's journal names the call under way, which
gets the outcome "crash" or "hang". The other calls go to a new process.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xverify.core.call import NO_MEMORY, Outcome, decode_call, decode_outcome, encode_call, encode_outcome
from xverify.core.errors import NotStartedError, WorkerFailedError
from xverify.oracles.protocol import Oracle
from xverify.workers.child import unwrap, wrap
from xverify.workers.journal import Request, WorkerJournal, refusing_full_disk
from xverify.workers.process import END, Limits, Process

STARTS = 3
"""The number of deaths without an answer in between after which a worker is given up."""

IN_FLIGHT = 4
"""The largest number of messages under way. A pipe that is never full never blocks the parent."""

POLL_SECONDS = 0.2
"""Seconds between two checks of the journal of a silent worker."""


@dataclass(eq=False)
class _Request:
    number: int
    blob: bytes
    options: str
    outcome: Outcome | None = None


class Worker:
    """One oracle in a process of its own. Used by one thread at a time.

    Args:
        bell: Set whenever a message arrives, so that one thread can wait for several workers (`wait_any`).
        likeness: Returns the properties that an encoded call shares with similar ones. When a call has ended the process, later
            calls with equal properties get the outcome "spared", since each would cost a process. None spares nothing.
        forks: The process that answers may be forked from one that has loaded the framework, so that it can be replaced at once
            (see `xverify.workers.fork_server`). Kernels never fork, since their modules may do anything.
        journal: Has the answers to earlier requests, and keeps the new ones. None keeps nothing.
    """

    def __init__(
        self,
        oracle: Oracle,
        directory: Path,
        *,
        python: str = "",
        limits: Limits | None = None,
        bell: threading.Event | None = None,
        likeness: Callable[[bytes], Hashable] | None = None,
        forks: bool = True,
        journal: WorkerJournal | None = None,
    ) -> None:
        self.oracle = oracle
        self.limits = limits or Limits()
        self.bell = bell or threading.Event()
        self._process = Process(oracle, python, self.limits, directory, self.bell, forks)
        self.likeness = likeness
        self._answers = journal
        self._forked_before = False  # a forked process answered in an earlier part of the run
        self._fatal: dict[tuple[str, Hashable], int] = {}
        self.failed: str | None = None
        self.versions: dict[str, Any] = {}
        self.seconds = 0.0
        self.calls = 0
        self.restarts = 0
        self.slowest = 0.0  # most seconds for the answers in one message
        self._singly_until = -1  # requests up to this number are sent one at a time
        self._ready = False
        self._fruitless = 0
        self._moved = 0.0
        self._serial = 0
        self._batches: deque[list[_Request]] = deque()
        self._unsent: deque[list[_Request]] = deque()
        self._in_flight: deque[int] = deque()  # number of the last request in each message under way
        self._unanswered: dict[int, _Request] = {}  # in order
        self._looked = 0.0

    # -- interface of the pool ------------------------------------------------------------------------

    def start(self) -> None:
        """Start the process and return at once: the framework is imported while others work."""
        self._in_flight.clear()
        self._moved = self._looked = time.monotonic()
        try:
            self._process.start()
        except NotStartedError as error:
            self._give_up(str(error))

    @property
    def ready(self) -> bool:
        """True if the framework is imported."""
        self._advance()
        return self._ready

    @property
    def pending(self) -> int:
        """Batches submitted and not collected."""
        return len(self._batches)

    def submit(self, requests: Sequence[tuple[bytes, str]]) -> None:
        """Queue a batch of (encoded call, path options); batches are answered in order."""
        batch = [_Request(self._serial + i, blob, options) for i, (blob, options) in enumerate(requests)]
        self._serial += len(batch)
        self._unanswered.update((request.number, request) for request in batch)
        self._batches.append(batch)
        for request in batch:  # one by one, since a recorded death spares those after it
            self._spare([request])
            self._recall(request)
        if left := [request for request in batch if request.outcome is None]:
            self._unsent.append(left)
        self._advance()

    def done(self) -> bool:
        """True if `collect` would return (or raise) at once."""
        self._advance()
        return self.failed is not None or (bool(self._batches) and _complete(self._batches[0]))

    def collect(self, timeout: float | None = None) -> list[Outcome]:
        """Wait for the outcomes of the oldest batch, one per request.

        Args:
            timeout: The most seconds to wait.

        Raises:
            TimeoutError: The batch is not answered in time; it remains pending.
            WorkerFailedError: The worker was given up, and the batch was not answered before. It is dropped.
        """
        if not self._batches:
            if self.failed is not None:
                raise WorkerFailedError(self.failed)
            raise ValueError("nothing is pending")
        limit = None if timeout is None else time.monotonic() + timeout
        while not self.done():
            left = POLL_SECONDS if limit is None else min(POLL_SECONDS, limit - time.monotonic())
            if timeout is not None and left <= 0:
                raise TimeoutError(f"no answer of {self.oracle.name} in {timeout:g} s")
            self._advance(left)
        batch = self._batches.popleft()
        if not _complete(batch):
            raise WorkerFailedError(self.failed)
        return [request.outcome for request in batch if request.outcome is not None]

    def ask(self, blob: bytes, options: str = "") -> Outcome:
        """The outcome of one call, when no batch is pending.

        Raises:
            WorkerFailedError: The worker was given up.
        """
        if self.failed is not None:
            raise WorkerFailedError(self.failed)
        if self._batches:
            raise ValueError(f"{self.pending} batches are pending")
        self.submit([(blob, options)])
        return self.collect()[0]

    def abandon(self) -> None:
        """Give every unanswered call the outcome "unasked", and replace the process if a call was under way."""
        self._advance()
        if not self._unanswered or self.failed is not None:
            return
        with self._using_files():
            kept = self._end()
            for request in self._unanswered.values():
                request.outcome = Outcome("unasked")
            self._unanswered.clear()
            self._succeed(kept)

    @property
    def forks(self) -> bool:
        """True if the process that answers was forked."""
        return self._process.forked or self._forked_before

    def renew(self) -> None:
        """Replace the process unless it is new, when no batch is pending."""
        if self.failed is not None or self._process.fresh:
            return
        with self._using_files():
            if self._process.renew():
                self._begin_anew()
            else:
                self._kill()
                self.start()

    def stop(self) -> None:
        """End the process within a second, and remove its files."""
        self._kill()
        self.failed = self.failed or f"{self.oracle.name} was stopped"
        self._process.remove()

    # -- the process ----------------------------------------------------------------------------------

    def _advance(self, wait: float = 0.0) -> None:
        """Take the messages that have arrived, check the process, send further calls.

        Args:
            wait: Seconds to wait for a first message.
        """
        if self.failed is not None or not self._process.is_started:
            return
        with self._using_files():
            message = self._process.message(wait)
            while message is not None and self.failed is None:
                self._take(message)
                message = self._process.message()
            self._look_after()
            self._send()

    @contextmanager
    def _using_files(self) -> Iterator[None]:
        """Give the worker up if its files cannot be used: the disk is full, or they were removed."""
        try:
            yield
        except OSError as error:
            self._give_up(f"its files cannot be used: {error.strerror or error}")

    def _take(self, message: Any, except_for: int | None = None) -> None:
        self._moved = time.monotonic()
        if message[0] == "ready":
            self.versions, self._ready = dict(message[1]), True
            self._process.note_ready()
        elif message[0] == "child":
            self._process.note_child(message[1])
        elif message[0] == "died":
            self._died(message[1], kept=True)
        elif message[0] == "failed":
            self._give_up(message[1])
        elif message[0] == "answers":
            _, numbers, parcel, seconds = message
            # Too late is a hang, even if the signal woke it up.
            answers = {n: blob for n, blob in zip(numbers, unwrap(parcel), strict=True) if n != except_for}
            outcomes = {number: decode_outcome(blob) for number, blob in answers.items()}
            self._keep(answers, seconds)
            for number, outcome in outcomes.items():
                self._unanswered.pop(number).outcome = outcome
            self.seconds += seconds
            self.slowest = max(self.slowest, seconds)
            self.calls += len(numbers)
            self._fruitless = 0
            if self._in_flight and self._in_flight[0] == numbers[-1]:
                self._in_flight.popleft()
        elif message is END and self.failed is None:
            self._died(self._process.status(), kept=False)

    def _look_after(self) -> None:
        """Replace the process if it is silent for too long or holds too much memory."""
        now = time.monotonic()
        if self.failed is not None or now - self._looked < min(POLL_SECONDS, self.limits.call / 4):
            return
        held = self._process.held() if self._ready else 0
        if held > self.limits.resident:
            self._replace("crash", f"{NO_MEMORY}: it held {held >> 20} MiB", self._process.entry().call)
            return
        absent, self._looked = now - self._looked > max(1.0, self.limits.call / 2), now
        if absent:  # this process was busy: an answer may wait for the thread that receives
            return
        if not self._ready:
            if now - self._moved > self.limits.start:
                self._give_up(f"it was not ready after {self.limits.start:g} s")
        elif self._in_flight:
            entry = self._process.entry()
            since = max(entry.since, self._moved) if entry.call is None else entry.since
            if now - since > self.limits.call:
                if entry.call is None:
                    self._replace("crash", self._process.ending(None), None)
                else:
                    self._replace("hang", f"no answer within {self.limits.call:g} s", entry.call)

    def _send(self) -> None:
        while self.failed is None and self._ready and self._unsent and len(self._in_flight) < IN_FLIGHT:
            singly = self._unsent[0][0].number <= self._singly_until
            if singly and self._in_flight:
                return
            requests = self._unsent.popleft()
            if singly and requests[1:]:
                self._unsent.appendleft(requests[1:])
                requests = requests[:1]
            numbers = tuple(request.number for request in requests)
            with refusing_full_disk():
                parcel = wrap([r.blob for r in requests], self._process.parcel(numbers[0]))
            self._in_flight.append(numbers[-1])
            self._process.fresh = False
            self._moved = time.monotonic()
            if not self._process.send((numbers, parcel, tuple(request.options for request in requests))):
                return  # the process has died; its successor gets these calls

    def _died(self, status: int | None, kept: bool) -> None:
        # The call under way, or any unanswered call before it, broke the pipe.
        suspect = None if status is None else self._process.entry().call
        self._replace("crash", self._process.ending(status), suspect, kept)

    def _replace(self, kind: str, ending: str, suspect: int | None, kept: bool | None = None) -> None:
        """Give the call under way its outcome, and replace the process for the others.

        Args:
            kind: The outcome, "crash" or "hang".
            ending: How the process ended, in words.
            suspect: The number of the call under way, if that is known.
            kept: True if the process has ended and its fork server remains; None if it is to be ended here.
        """
        if kept is None:
            if kind == "hang":
                self._process.write_stack()
            kept = self._end(suspect)
        elif not kept:
            self._kill()
        message = self._process.crash_message(ending)
        if self._answers is not None:
            self._answers.refuse_if_full(message)
        self._take_answers(suspect if kind == "hang" else None)
        if suspect is None and self._in_flight:
            # It died between calls, or its pipe broke: sending calls one by one will show after which.
            self._singly_until = self._in_flight[-1]
            sent = [number for number in self._unanswered if number <= self._singly_until]
            suspect = sent[0] if len(sent) == 1 else None
        self._fruitless += 1
        if suspect in self._unanswered:
            died, outcome = self._unanswered[suspect], Outcome(kind, message=message)
            if self._answers is not None:
                self._answers.keep_death(died.blob, died.options, encode_outcome(outcome), self._process.forked)
            self._end_with(died, outcome)
            self._spare(list(self._unanswered.values()))
            self._fruitless = 0
        elif self._process.forked and self._fruitless > 1:
            self._process.may_fork = kept = False  # a failure without a call may be due to the fork
        if self._fruitless >= STARTS:
            self._give_up(message)
            return
        self._succeed(kept)

    def _succeed(self, kept: bool) -> None:
        """Start a process for the unanswered calls.

        It is a child of the fork server if ``kept``, otherwise a new process.
        """
        again = ([r for r in batch if r.number in self._unanswered] for batch in self._batches)
        self._unsent = deque(requests for requests in again if requests)
        self.restarts += 1
        if not kept:
            self._kill()
            self.start()
            return
        self._process.next_child()
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._in_flight.clear()
        self._moved = time.monotonic()

    def _take_answers(self, except_for: int | None = None) -> None:
        """Take the answers that the ended process sent before."""
        while (message := self._process.message()) is not None:
            if message[0] == "answers":
                self._take(message, except_for)

    def _end_with(self, request: _Request, outcome: Outcome) -> None:
        """Give a call that ended the process its outcome, so that later calls like it are spared."""
        self._unanswered.pop(request.number).outcome = outcome
        if self.likeness is not None:
            alike = request.options, self.likeness(request.blob)
            self._fatal[alike] = min(request.number, self._fatal.get(alike, request.number))

    # -- the journal of answers ---------------------------------------------------------------------------

    def _keep(self, answers: Mapping[int, bytes], seconds: float) -> None:
        """Keep answers in the journal before they are used."""
        if self._answers is not None and answers:
            requests = [(self._unanswered[number], blob) for number, blob in answers.items()]
            kept = [Request(request.blob, request.options, blob) for request, blob in requests]
            self._answers.keep(kept, seconds, self._process.forked)

    def _recall(self, request: _Request) -> None:
        """Give a request the outcome that the journal has for it, as if the process had answered."""
        if self._answers is None or request.outcome is not None:
            return
        recorded = self._answers.take(request.blob, request.options)
        if recorded is None:
            return
        outcome = decode_outcome(recorded.outcome)
        self._forked_before |= recorded.forked
        if recorded.death:
            self.restarts += 1
            self._end_with(request, outcome)
            return
        self._unanswered.pop(request.number).outcome = outcome
        self.seconds += recorded.seconds
        self.slowest = max(self.slowest, recorded.slowest)
        self.calls += 1

    def _spare(self, waiting: Sequence[_Request]) -> None:
        """Give the calls that would also end the next process the outcome "spared".

        Calls before the one that ended the process are not spared: if their answers were lost, they are sent again. So
        the spared calls do not depend on when answers were sent.
        """
        if self.likeness is None or not self._fatal:
            return
        for request in waiting:
            if request.number > self._first_fatal(request):
                self._unanswered.pop(request.number).outcome = Outcome("spared")

    def _first_fatal(self, request: _Request) -> float:
        """The number of the first similar call that ended a process; infinity if there is none.

        Calls are compared with their surroundings and without them.
        """
        assert self.likeness is not None
        first = self._fatal.get((request.options, self.likeness(request.blob)), math.inf)
        call = decode_call(request.blob)
        if not call.around:
            return first
        alone = ("", self.likeness(encode_call(replace(call, around=()))))
        return min(first, self._fatal.get(alone, math.inf))

    def _end(self, except_for: int | None = None) -> bool:
        """End the process that answers. True if its fork server remains."""
        kept = self._process.end(lambda message: self._take(message, except_for))
        self._ready = self._ready and kept
        return kept

    def _kill(self) -> None:
        self._process.kill()
        self._ready = False

    def _give_up(self, reason: str) -> None:
        if self._answers is not None:
            self._answers.refuse_if_full(reason)
        self._kill()
        by = "" if self._process.python == sys.executable else f" by {self._process.python}"
        self.failed = f"{self.oracle.name} could not be run{by}: {reason}"
        self.bell.set()


def _complete(batch: list[_Request]) -> bool:
    return all(request.outcome is not None for request in batch)


def wait_any(workers: Sequence[Worker], timeout: float) -> list[Worker]:
    """Wait for workers whose oldest batch can be collected.

    Args:
        workers: Workers that share a bell.
        timeout: The most seconds to wait.
    """
    limit = time.monotonic() + timeout
    while True:
        for worker in workers:
            worker.bell.clear()
        done = [worker for worker in workers if worker.pending and worker.done()]
        left = limit - time.monotonic()
        if done or left <= 0:
            return done
        workers[0].bell.wait(min(left, POLL_SECONDS))
