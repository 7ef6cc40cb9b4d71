"""A worker for bulk requests, which exchanges operands and results through shared memory."""

from __future__ import annotations

import json
import os
import tempfile
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xverify.certify.domains import Columns, Domain
from xverify.certify.expected import bits_of
from xverify.contracts.model import Contract
from xverify.core.call import Attribute, Call, Outcome, encode_call
from xverify.oracles.bulk import SOURCES, Request, bulk_oracle, call_of, views
from xverify.oracles.protocol import Oracle
from xverify.workers.process import Limits
from xverify.workers.worker import Worker

Granularity = Literal["per_tensor", "per_axis", "blocked"]

SLOTS = 2
"""Number of requests in progress in one worker: while one is compared, the next is computed."""

CALL_VALUES = 1 << 18
"""Largest number of values in one call, so that they stay in the cache. A request is several calls."""

REQUEST_VALUES = 1 << 21
"""Largest number of values in one request."""
FIRST_SECONDS = 60.0
"""Initial value of `Bulk.patience`, before any measurement."""

POLL_SECONDS = 0.5
"""Seconds between two checks for an answer."""

REQUEST_CALLS = 1 << 8
"""Largest number of calls in one request."""


@dataclass(frozen=True)
class Through:
    """The form in which triples become calls of a contract."""

    contract: Contract
    """The edition."""
    domain: Domain
    """The domain that the triples are from."""
    granularity: Granularity
    """Granularity of the calls."""
    out: str
    """Type of the result."""

    @property
    def each(self) -> int:
        """Number of columns in one call."""
        return 1 if self.granularity == "per_tensor" else max(1, CALL_VALUES // self.domain.codes)

    @property
    def columns_of_request(self) -> int:
        return max(1, min(REQUEST_VALUES // self.domain.codes, REQUEST_CALLS * self.each))

    @property
    def units_of_request(self) -> int:
        return max(1, self.columns_of_request // self.domain.columns_of_unit)

    def template(self, codes: int) -> Call:
        """Return a call without tensors: the attributes of calls whose columns have this number of codes."""
        axis = 0 if codes > 1 else 1
        attributes: dict[str, Attribute] = {}
        if self.contract.id.startswith("onednn/"):
            attributes["qtype"] = "per_tensor"
            if self.granularity == "per_axis":
                attributes.update(qtype="per_channel", axis=axis)
        elif self.granularity == "per_axis":
            attributes["axis"] = axis
        elif self.granularity == "blocked":
            attributes.update(axis=1, block_size=codes)
        if self.out != self.domain.scale_dtype:
            attributes["output_dtype"] = self.out
        return Call(self.contract.asked_as, {}, attributes)

    def request(self, columns: Columns, place: int = 0) -> Request:
        """Return the request for some columns.

        Args:
            columns: The columns.
            place: Offset of their arrays in the shared memory, in bytes.
        """
        count, codes = columns.shape
        domain, rows = self.domain, len(columns.x)
        sizes = [rows * codes * _bytes(domain.x_dtype), count * _bytes(domain.scale_dtype), 0]
        if columns.zero_point is not None:
            sizes[2] = count * _bytes(domain.x_dtype)
        places = [place]
        for taken in sizes:
            places.append(_aligned(places[-1] + taken))
        zero_point = "" if columns.zero_point is None else domain.x_dtype
        dtypes = (domain.x_dtype, domain.scale_dtype, zero_point, self.out)
        rank = 1 if self.contract.id.startswith("onednn/") else 0
        at = (places[0], places[1], places[2], places[3])
        return Request(count, codes, self.each, self.granularity, rank, rows, dtypes, at)

    def room(self) -> int:
        """Return the size of the arrays of the largest request, in bytes."""
        columns, codes = self.units_of_request * self.domain.columns_of_unit, self.domain.codes
        return _aligned(columns * codes * (_bytes(self.domain.x_dtype) + 4) + columns * 8 + 4096)

    def call(self, columns: Columns) -> Call:
        """Return the call of columns that fit into one call."""
        request = self.request(columns)
        return call_of(self.template(request.codes), request, columns.x, columns.scale, columns.zero_point)

    def words(self) -> str:
        """Describe the shapes of the calls."""
        codes = self.domain.codes
        if self.granularity == "per_tensor":
            return f"x[{codes}], one scale and zero point in a call"
        x, axis = (f"x[columns, {codes}]", 0) if codes > 1 else ("x[1, columns]", 1)
        if self.granularity == "per_axis":
            return f"{x}, parameters[columns], axis {axis}, at most {self.each} columns in a call"
        parameters = "parameters[columns, 1]" if codes > 1 else "parameters[1, columns]"
        return f"{x}, {parameters}, axis 1, block_size {codes}, at most {self.each} columns in a call"


def _shared(size: int, directory: Path) -> tuple[int, str]:
    """Create a file of this size, and return its descriptor and path.

    The file is in memory where the system has such files (memfd), and ends with this process. The system would keep writing
    the changes of a file on a disk.
    """
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("xverify")
        path = f"/proc/{os.getpid()}/fd/{file}"
    else:
        file, path = tempfile.mkstemp(dir=directory)
    os.truncate(file, size)
    return file, path


def _bytes(dtype: str) -> int:
    return max(8, bits_of(dtype)) // 8


def _aligned(place: int) -> int:
    return -(-place // 64) * 64


class Sources(NamedTuple):
    """The files and packages that a kernel consists of."""

    files: Mapping[str, Path]
    """Its files, by name."""
    versions: Mapping[str, str]
    """Versions of the packages that it imported."""


class Bulk:
    """One worker, used by one thread at a time. It answers requests in order, at most `SLOTS` in progress.

    Args:
        oracle: The implementation.
        through: The form of the calls.
        directory: Folder for the worker's files.
        limits: Limits of each request.

    Attributes:
        patience: Additional seconds for the first request of a process, because kernels compile then.
    """

    def __init__(self, oracle: Oracle, through: Through, directory: Path, limits: Limits) -> None:
        self.oracle, self.through = oracle, through
        self.patience = FIRST_SECONDS
        self._limits = limits
        self._fresh_since = (0, 0)  # number of restarts, and calls answered before the last one
        self._file, path = _shared(SLOTS * through.room(), directory)
        self._memory = np.memmap(path, np.uint8, "r+")
        patient = replace(limits, call=limits.call + self.patience)
        self.worker = Worker(bulk_oracle(oracle, path), directory, limits=patient)
        self._under_way: deque[Request] = deque()
        self._turn = 0

    def start(self) -> None:
        self.worker.start()

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    @property
    def full(self) -> bool:
        return len(self._under_way) >= SLOTS

    def submit(self, columns: Columns) -> None:
        """Send columns, at most as many as a request holds."""
        request = self.through.request(columns, self._turn * self.through.room())
        self._turn = (self._turn + 1) % SLOTS
        at: Mapping[str, Any] = views(self._memory, request)
        at["x"][...], at["scale"][...] = columns.x, columns.scale
        if columns.zero_point is not None:
            at["zero_point"][...] = columns.zero_point
        self._under_way.append(request)
        self.worker.submit([(encode_call(self.through.template(request.codes)), request.text())])

    def collect(self) -> tuple[Outcome, NDArray[Any]]:
        """Wait for the oldest request.

        Returns:
            The outcome, and the result codes of shape (columns, codes) if it is a tensor. They are views: read them before
            `SLOTS` more requests are submitted.

        Raises:
            WorkerFailedError: There is no worker.
        """
        outcome = None
        while outcome is None:
            if self.worker.restarts != self._fresh_since[0]:
                self._fresh_since = (self.worker.restarts, self.worker.calls)
            fresh = self.worker.calls == self._fresh_since[1]
            self.worker.limits = replace(self._limits, call=self._limits.call + self.patience * fresh)
            with suppress(TimeoutError):
                outcome = self.worker.collect(POLL_SECONDS)[0]
        return outcome, views(self._memory, self._under_way.popleft())["y"]

    def ask(self, columns: Columns) -> tuple[Outcome, NDArray[Any]]:
        """Submit columns and collect their results, when nothing is in progress."""
        self.submit(columns)
        return self.collect()

    def sources(self) -> Sources:
        """Return the files and packages that a Python kernel has loaded so far, when nothing is in progress."""
        outcome = self.worker.ask(encode_call(Call(self.through.contract.asked_as, {})), SOURCES)
        if outcome.tensor is None:
            return Sources({}, {})
        reply = json.loads(outcome.tensor.codes.tobytes())
        return Sources({name: Path(path) for name, path in reply["files"].items()}, reply["versions"])

    def stop(self) -> None:
        self.worker.stop()
        os.close(self._file)
