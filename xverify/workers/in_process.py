"""A Python function that answers in this process, instead of a worker process.

It can end or block this process. It cannot falsify the results that this process computes: its calls run in a floating-point
environment of their own (see `xverify.core.fenv`).
"""

from __future__ import annotations

import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from xverify.core import fenv
from xverify.core.call import Outcome
from xverify.core.errors import WorkerFailedError
from xverify.oracles.protocol import Loaded
from xverify.oracles.python_kernel import answerer
from xverify.workers.child import run_call

TURN_SECONDS = 0.05
"""Seconds after which control returns to the caller, even before a batch is complete, so that it can check its budget."""


@dataclass(eq=False)
class _Batch:
    requests: Sequence[tuple[bytes, str]]
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return len(self.outcomes) == len(self.requests)


class InProcessWorker:
    """A function with the interface of `xverify.workers.worker.Worker`.

    An exception is a refusal; KeyboardInterrupt and SystemExit pass. Calls are answered inside `done` and `collect`.

    Args:
        theirs: The floating-point environment of the function's first call. Changes that a call makes remain for the next one,
            as in a process of its own.
        bell: Set whenever a batch is to be answered or collected.
        strict: "Not implemented" is a refusal like any other.
        failed: Why the function cannot answer, if it cannot.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        theirs: fenv.Environment,
        *,
        bell: threading.Event | None = None,
        strict: bool = False,
        failed: str | None = None,
    ) -> None:
        # No exception is fatal: the process goes on.
        self._loaded = Loaded(answerer(function), (() if strict else (NotImplementedError,)))
        self._theirs = theirs
        self._bell = bell or threading.Event()
        self._batches: deque[_Batch] = deque()
        self.failed: str | None = failed
        self.likeness: Callable[[bytes], Hashable] | None = None
        self.calls = 0
        self.seconds = 0.0
        self.restarts = 0

    def start(self) -> None:
        """Do nothing: this process is running already."""

    @property
    def ready(self) -> bool:
        return True

    @property
    def pending(self) -> int:
        """Batches submitted and not collected."""
        return len(self._batches)

    def submit(self, requests: Sequence[tuple[bytes, str]]) -> None:
        """Queue a batch of (encoded call, path); batches are answered in order."""
        self._batches.append(_Batch(tuple(requests)))
        self._bell.set()

    def done(self) -> bool:
        """Answer calls for at most one turn. Return True if the oldest batch is answered."""
        if self.failed is not None or not self._batches:
            return self.failed is not None
        until = time.monotonic() + TURN_SECONDS
        oldest = self._batches[0]
        while not oldest.complete and time.monotonic() < until:
            blob, path = oldest.requests[len(oldest.outcomes)]
            oldest.outcomes.append(self._answer(blob, path))
        self._bell.set()
        return oldest.complete

    def collect(self) -> list[Outcome]:
        """The outcomes of the oldest batch, one per request.

        Raises:
            WorkerFailedError: The function cannot answer.
        """
        if self.failed is not None:
            self._batches.clear()
            raise WorkerFailedError(self.failed)
        if not self._batches:
            raise ValueError("nothing is pending")
        while not self._batches[0].complete:
            self.done()
        return self._batches.popleft().outcomes

    def ask(self, blob: bytes, options: str = "") -> Outcome:
        """The outcome of one call, when no batch is pending.

        Raises:
            WorkerFailedError: The function cannot answer.
        """
        if self.failed is not None:
            raise WorkerFailedError(self.failed)
        if self._batches:
            raise ValueError(f"{self.pending} batches are pending")
        self.submit([(blob, options)])
        return self.collect()[0]

    def abandon(self) -> None:
        """Give every unanswered call the outcome "unasked"."""
        for batch in self._batches:
            batch.outcomes += [Outcome("unasked")] * (len(batch.requests) - len(batch.outcomes))

    def stop(self) -> None:
        """Drop all batches."""
        self.failed = self.failed or "it was stopped"
        self._batches.clear()

    def _answer(self, blob: bytes, path: str) -> Outcome:
        ours, start = fenv.current(), time.perf_counter()
        fenv.enter(self._theirs)
        try:
            with warnings.catch_warnings():
                # As in a worker process: a warning is no refusal, even if the test suite makes it an error.
                warnings.simplefilter("ignore")
                return run_call(self._loaded, blob, path)
        finally:
            self._theirs = fenv.current()
            fenv.enter(ours)
            self.seconds += time.perf_counter() - start
            self.calls += 1
