"""The journal of a run: every answer of every worker, in a file that outlives the run's process.

A run depends on its options, its seed and the answers. So a run that was killed is planned again, and takes the answers from
here as long as there are any.

The file is a sequence of records. It is only appended to. Each record is its length, the CRC-32 of its content, and the
content. The first record names the format and the run. Each other record holds the answers of one message of a worker, or the
death of one call. Opening a journal cuts it after the last complete record.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import struct
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from xverify.core.errors import DamagedFileError, NoSpaceError

FORMAT = 1
"""Version of the file's format."""

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers of a full disk."""

NO_SPACE = os.strerror(errno.ENOSPC)

LEAST_FREE = 1 << 20
"""Free bytes below which a death may be due to the disk."""

SYNC_SECONDS = 1.0
"""Seconds between two moments at which the disk has everything, also if the power fails."""

SYNC_SHARE = 0.02
"""The largest share of a run's time that waits for the disk."""

SAMPLE = 16 << 10
"""Bytes of an outcome that are compressed to see if compression pays."""

CACHED_CALL = 64 << 10
"""The largest encoded call, in bytes, that the cache of digests keeps."""

_RECORD = struct.Struct("<II")
"""Length and CRC-32 of the content."""

_HEAD = struct.Struct("<BddHI")
"""Flags, elapsed seconds of the run, seconds of the message, length of the worker's name, number of answers."""

_COMPRESSED, _DEATH, _FORKED = 1, 2, 4

_KEY_BYTES = 16


@dataclass(frozen=True)
class Request:
    """A request and its answer, as the journal keeps them."""

    call: bytes
    """The encoded call."""

    options: str
    """The options of its path."""

    outcome: bytes
    """The encoded outcome."""


@dataclass(frozen=True)
class Recorded:
    """A recorded answer."""

    outcome: bytes
    """The encoded outcome."""

    seconds: float
    """Seconds of the message, for its first answer; 0 for the others."""

    slowest: float
    """Seconds of the message."""

    death: bool
    """True if the call ended the process or had no answer in time."""

    forked: bool
    """True if a forked process answered."""


class Journal:
    """The answers of a run: those of earlier processes to take, those of this one to keep.

    Args:
        path: The file. It is made if it does not exist.
        run: A digest of what the run is.

    Raises:
        DamagedFileError: The file is the journal of another run, or of another version of xverify.
        NoSpaceError: The disk is full.
    """

    def __init__(self, path: Path, run: str) -> None:
        self.path = path
        self._started = json.dumps({"format": FORMAT, "run": run}).encode()
        self._places: dict[str, dict[bytes, list[tuple[int, int]]]] = {}  # by worker and key: offset, position
        self._opened: dict[str, tuple[int, list[bytes]]] = {}  # by worker: the record that was read last
        self._left = 0
        self._elapsed, self._since, self._flows = 0.0, time.monotonic(), True
        self._failure: NoSpaceError | None = None
        self._synced, self._pause = time.monotonic(), SYNC_SECONDS
        try:
            self._file = path.open("a+b", buffering=0)
            self._end = self._read()
            if os.fstat(self._file.fileno()).st_size != self._end:
                self._file.truncate(self._end)
            if not self._end:
                self._append(self._started)
        except OSError as error:
            raise self._full(error) from error

    @property
    def left(self) -> int:
        """The number of recorded answers that nobody has asked for yet."""
        return self._left

    def of(self, worker: str, role: str = "") -> WorkerJournal:
        """The journal of one worker.

        Args:
            role: Distinguishes workers of the same implementation.
        """
        return WorkerJournal(self, f"{worker}\0{role}")

    def elapsed(self) -> float:
        """Seconds of the run, over all processes that worked on it.

        They follow the recorded answers while these are taken, and the monotonic clock afterwards.
        """
        return self._elapsed + (time.monotonic() - self._since if self._flows or not self._left else 0.0)

    def check(self) -> None:
        """Raise the error of a write that failed, which a library between may have swallowed.

        Raises:
            NoSpaceError: The disk was full.
        """
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    # -- taking -----------------------------------------------------------------------------------------

    def take(self, worker: str, key: bytes) -> Recorded | None:
        """The oldest recorded answer to a request; None if there is none. It is given once."""
        places = self._places.get(worker, {})
        if key not in places:
            self._set_clock(self.elapsed(), flows=True)
            return None
        offset, position = places[key].pop(0)
        if not places[key]:
            del places[key]
        self._left -= 1
        flags, elapsed, seconds, outcomes = self._outcomes(worker, offset)
        self._set_clock(max(self.elapsed(), elapsed), flows=False)
        first = seconds if position == 0 else 0.0
        return Recorded(outcomes[position], first, seconds, bool(flags & _DEATH), bool(flags & _FORKED))

    def _set_clock(self, elapsed: float, flows: bool) -> None:
        self._elapsed, self._since, self._flows = elapsed, time.monotonic(), flows

    def _outcomes(self, worker: str, offset: int) -> tuple[int, float, float, list[bytes]]:
        length, _ = _RECORD.unpack(os.pread(self._file.fileno(), _RECORD.size, offset))
        content = os.pread(self._file.fileno(), length, offset + _RECORD.size)
        flags, elapsed, seconds, name, count = _HEAD.unpack_from(content)
        if self._opened.get(worker, (-1,))[0] != offset:
            at = _HEAD.size + name + count * _KEY_BYTES
            lengths = struct.unpack_from(f"<{count}I", content, at)
            body = content[at + 4 * count :]
            body = zlib.decompress(body) if flags & _COMPRESSED else body
            ends = [sum(lengths[: i + 1]) for i in range(count)]
            outcomes = [body[end - size : end] for end, size in zip(ends, lengths, strict=True)]
            self._opened[worker] = offset, outcomes
        return flags, elapsed, seconds, self._opened[worker][1]

    def _read(self) -> int:
        """Index the records, and return the offset after the last complete one."""
        end = 0
        with self.path.open("rb") as file:
            for offset, content in _complete_records(file):
                if not offset:
                    self._check_first(content)
                else:
                    self._index(offset, content)
                end = offset + _RECORD.size + len(content)
        return end

    def _check_first(self, content: bytes) -> None:
        if content != self._started:
            raise DamagedFileError(
                f"{self.path} is the journal of another run, or of another version of xverify: remove it to make its calls again"
            )

    def _index(self, offset: int, content: bytes) -> None:
        _, _, _, name, count = _HEAD.unpack_from(content)
        places = self._places.setdefault(content[_HEAD.size : _HEAD.size + name].decode(), {})
        for position in range(count):
            at = _HEAD.size + name + position * _KEY_BYTES
            places.setdefault(content[at : at + _KEY_BYTES], []).append((offset, position))
        self._left += count

    # -- keeping ----------------------------------------------------------------------------------------

    def keep(
        self, worker: str, answers: Sequence[tuple[bytes, bytes]], seconds: float, *, forked: bool, death: bool = False
    ) -> None:
        """Append answers, so that they outlive this process.

        Args:
            answers: The key of each request, with the encoded outcome.
            seconds: Seconds for all of them.

        Raises:
            NoSpaceError: The disk is full.
        """
        self.check()
        outcomes = [outcome for _, outcome in answers]
        body = b"".join(outcomes)
        compressed = _compressed(body)
        flags = _COMPRESSED * (compressed is not None) | _DEATH * death | _FORKED * forked
        name = worker.encode()
        self._append(
            b"".join(
                (
                    _HEAD.pack(flags, self.elapsed(), seconds, len(name), len(answers)),
                    name,
                    *(key for key, _ in answers),
                    struct.pack(f"<{len(outcomes)}I", *map(len, outcomes)),
                    body if compressed is None else compressed,
                )
            )
        )

    def _append(self, content: bytes) -> None:
        left = memoryview(_RECORD.pack(len(content), zlib.crc32(content)) + content)
        size = len(left)
        try:
            while left:
                left = left[self._write(left) :]
            self._end += size
            self._sync()
        except OSError as error:
            raise self._full(error) from error

    def _write(self, data: memoryview) -> int:
        return self._file.write(data) or 0

    def _sync(self) -> None:
        """Wait for the disk, seldom enough to cost at most `SYNC_SHARE`."""
        now = time.monotonic()
        if now - self._synced < self._pause:
            return
        os.fdatasync(self._file.fileno())
        self._synced = time.monotonic()
        self._pause = max(SYNC_SECONDS, (self._synced - now) / SYNC_SHARE)

    def _full(self, error: OSError) -> OSError | NoSpaceError:
        """The error of a full disk, which is kept; any other error as it is."""
        if error.errno not in FULL:
            return error
        self._failure = NoSpaceError(f"no space left on the disk of {self.path.parent}")
        return self._failure

    def refuse_if_full(self, message: str) -> None:
        """Check that a death is not due to the disk, since it would then be no fault of the implementation.

        Args:
            message: How the process ended.

        Raises:
            NoSpaceError: The disk is full.
        """
        disk = os.statvfs(self.path.parent)
        if disk.f_bavail * disk.f_frsize < LEAST_FREE or NO_SPACE in message:
            self._failure = NoSpaceError(f"no space left on the disk of {self.path.parent}")
            raise self._failure


class WorkerJournal:
    """The journal of one worker."""

    def __init__(self, journal: Journal, worker: str) -> None:
        self._journal, self._worker = journal, worker

    def take(self, call: bytes, options: str) -> Recorded | None:
        """The oldest recorded answer to a request; None if there is none. It is given once.

        Args:
            call: The encoded call.
            options: The options of its path.
        """
        return self._journal.take(self._worker, _key(call, options)) if self._journal.left else None

    def keep(self, requests: Sequence[Request], seconds: float, forked: bool) -> None:
        """Append the answers of one message.

        Raises:
            NoSpaceError: The disk is full.
        """
        for request in requests:
            if len(request.outcome) < SAMPLE and NO_SPACE.encode() in request.outcome:
                self._journal.refuse_if_full("")
        answers = [(_key(request.call, request.options), request.outcome) for request in requests]
        self._journal.keep(self._worker, answers, seconds, forked=forked)

    def refuse_if_full(self, message: str) -> None:
        """Check that the end of a process is not due to the disk, see `Journal.refuse_if_full`.

        Raises:
            NoSpaceError: The disk is full.
        """
        self._journal.refuse_if_full(message)

    def keep_death(self, call: bytes, options: str, outcome: bytes, forked: bool) -> None:
        """Append the death of one call.

        Raises:
            NoSpaceError: The disk is full.
        """
        self._journal.keep(self._worker, [(_key(call, options), outcome)], 0.0, forked=forked, death=True)


@contextmanager
def refusing_full_disk() -> Iterator[None]:
    """Turn the error of a full disk into one that ends the run, since no implementation is to blame.

    Raises:
        NoSpaceError: The disk is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise NoSpaceError(f"no space left for {error.filename or 'the files of a worker'}") from error
        raise


def _complete_records(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The records of a file with their offsets, up to the first one that is incomplete or damaged."""
    offset = 0
    while len(head := file.read(_RECORD.size)) == _RECORD.size:
        length, checksum = _RECORD.unpack(head)
        content = file.read(length)
        if len(content) < length or zlib.crc32(content) != checksum:
            return
        yield offset, content
        offset += _RECORD.size + length


def _compressed(body: bytes) -> bytes | None:
    """The body compressed; None if that does not pay."""
    sample = zlib.compress(body[:SAMPLE], 1)
    if len(sample) > 0.8 * min(len(body), SAMPLE):
        return None
    return sample if len(body) <= SAMPLE else zlib.compress(body, 1)


def _key(call: bytes, options: str) -> bytes:
    digest = _digest(call) if len(call) <= CACHED_CALL else _digest.__wrapped__(call)
    return hashlib.blake2b(digest + options.encode(), digest_size=_KEY_BYTES).digest()


@lru_cache(maxsize=256)
def _digest(call: bytes) -> bytes:
    """The digest of an encoded call. The same call goes to many workers."""
    return hashlib.blake2b(call, digest_size=_KEY_BYTES).digest()
