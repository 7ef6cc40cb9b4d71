"""A worker that is asked in bulk: columns of triples go in, and results come out, through memory that both processes map."""

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
"""Requests under way in one worker: while one is compared, the next is answered."""

CALL_VALUES = 1 << 18
"""Values of one call at most, which stay in the cache; a request is several calls."""

REQUEST_VALUES = 1 << 21
FIRST_SECONDS = 60.0
"""See `Bulk`, before anything was measured."""

POLL_SECONDS = 0.5

REQUEST_CALLS = 1 << 8
"""Of one request, at most."""


@dataclass(frozen=True)
class Through:
    """How triples become calls of a contract. out: the type of the result. each: columns of one call."""

    contract: Contract
    domain: Domain
    granularity: Granularity
    out: str

    @property
    def each(self) -> int:
        return 1 if self.granularity == "per_tensor" else max(1, CALL_VALUES // self.domain.codes)

    @property
    def columns_of_request(self) -> int:
        return max(1, min(REQUEST_VALUES // self.domain.codes, REQUEST_CALLS * self.each))

    @property
    def units_of_request(self) -> int:
        return max(1, self.columns_of_request // self.domain.columns_of_unit)

    def template(self, codes: int) -> Call:
        """A call without tensors: the attributes of calls whose columns have so many codes."""
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
        """What a worker is asked for columns whose arrays lie from byte ``place`` on."""
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
        """Bytes that the arrays of the largest request need."""
        columns, codes = self.units_of_request * self.domain.columns_of_unit, self.domain.codes
        return _aligned(columns * codes * (_bytes(self.domain.x_dtype) + 4) + columns * 8 + 4096)

    def call(self, columns: Columns) -> Call:
        """The one call of columns that are few enough for one."""
        request = self.request(columns)
        return call_of(self.template(request.codes), request, columns.x, columns.scale, columns.zero_point)

    def words(self) -> str:
        """The shapes of the calls."""
        codes = self.domain.codes
        if self.granularity == "per_tensor":
            return f"x[{codes}], one scale and zero point in a call"
        x, axis = (f"x[columns, {codes}]", 0) if codes > 1 else ("x[1, columns]", 1)
        if self.granularity == "per_axis":
            return f"{x}, parameters[columns], axis {axis}, at most {self.each} columns in a call"
        parameters = "parameters[columns, 1]" if codes > 1 else "parameters[1, columns]"
        return f"{x}, {parameters}, axis 1, block_size {codes}, at most {self.each} columns in a call"


def _shared(size: int, directory: Path) -> tuple[int, str]:
    """The descriptor and path of a new file of so many bytes. In memory where the system has such files, which end with this
    process: what is written to one on a disk is written there again and again."""
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
    """Of what a kernel is made: its files by their names, and the versions of what it imported."""

    files: Mapping[str, Path]
    versions: Mapping[str, str]


class Bulk:
    """One worker. Requests are answered in order; at most `SLOTS` are under way. Used by one thread at a time.

    patience: seconds that the first request of a process may take beyond those of the others, since kernels compile then.
    """

    def __init__(self, oracle: Oracle, through: Through, directory: Path, limits: Limits) -> None:
        self.oracle, self.through = oracle, through
        self.patience = FIRST_SECONDS
        self._limits = limits
        self._fresh_since = (0, 0)  # restarts of the worker, and what it had answered then
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
        """Have columns asked; no more of them than a request has."""
        request = self.through.request(columns, self._turn * self.through.room())
        self._turn = (self._turn + 1) % SLOTS
        at: Mapping[str, Any] = views(self._memory, request)
        at["x"][...], at["scale"][...] = columns.x, columns.scale
        if columns.zero_point is not None:
            at["zero_point"][...] = columns.zero_point
        self._under_way.append(request)
        self.worker.submit([(encode_call(self.through.template(request.codes)), request.text())])

    def collect(self) -> tuple[Outcome, NDArray[Any]]:
        """The outcome of the oldest request, and its results if that is a tensor: codes of shape (columns, codes), to be read
        before as many more are submitted. Raises WorkerFailedError when there is no worker."""
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
        """The same for columns that are asked at once, when nothing is under way."""
        self.submit(columns)
        return self.collect()

    def sources(self) -> Sources:
        """Of what a user's Python kernel is made by now, asked when nothing is under way."""
        outcome = self.worker.ask(encode_call(Call(self.through.contract.asked_as, {})), SOURCES)
        if outcome.tensor is None:
            return Sources({}, {})
        said = json.loads(outcome.tensor.codes.tobytes())
        return Sources({name: Path(path) for name, path in said["files"].items()}, said["versions"])

    def stop(self) -> None:
        self.worker.stop()
        os.close(self._file)
