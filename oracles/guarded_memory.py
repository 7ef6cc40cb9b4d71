"""Memory that is guarded outside one buffer: by a pattern that must stay, or by pages without access.

An arena is a run of pages between two pages without access. It holds one buffer at a time. All its other bytes have one
pattern, and so has the buffer until it is written. Arenas are reused, because mapping and protecting pages costs more than
a small call.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
from typing import Callable, Dict, List, NamedTuple, Tuple

PAGE = mmap.PAGESIZE

KEPT_BYTES = 16 << 20
"""Arenas with more room than this are given back to the system after use."""

_NO_ACCESS = 0  # PROT_NONE, which the mmap module does not name


class Placement(NamedTuple):
    """The position of a buffer in its arena, and what surrounds it."""

    pattern: int
    """The byte that fills the rest of the arena."""
    canaries: bool
    """True for a writable page before and after the buffer's pages, whose pattern is checked afterwards.

    Without them an access beyond that side ends the process.
    """
    at_end: bool
    """True if the buffer ends where its pages end, False if it begins where they begin."""


@functools.lru_cache(maxsize=None)
def _mprotect() -> Callable[[int, int, int], int]:
    function = ctypes.CDLL(None, use_errno=True).mprotect
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function


def _protect(address: int, length: int, protection: int) -> None:
    if _mprotect()(address, length, protection):
        error = ctypes.get_errno()
        raise OSError(error, "mprotect: %s" % os.strerror(error))


class Arena:
    """Pages for one buffer at a time.

    Attributes:
        room: The bytes of the buffer's pages, a multiple of the page size.
        address: The address of the buffer's first byte.
    """

    def __init__(self, room: int, pattern: int, canaries: bool) -> None:
        self.kind = (room, pattern, canaries)
        margin = PAGE if canaries else 0
        self.room = room
        self._pattern = bytes([pattern])
        self._low, self._high = PAGE, PAGE + margin + room + margin
        self._first, self._last = self._low + margin, self._high - margin
        self._memory = mmap.mmap(-1, self._high + PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._fill(self._low, self._high)
        for fence in (0, self._high):
            _protect(self._base + fence, PAGE, _NO_ACCESS)
        self._start = self._end = self._first
        self._read_only = False

    def lend(self, size: int, at_end: bool, shift: int = 0) -> None:
        """Make room for ``size`` bytes: at the end, or ``shift`` bytes after the beginning."""
        self._start = self._last - size if at_end else self._first + shift
        self._end = self._start + size

    @property
    def address(self) -> int:
        return self._base + self._start

    @property
    def guarded(self) -> Tuple[int, int]:
        """The first address of the arena with its pages without access, and the first one behind them."""
        return self._base, self._base + self._high + PAGE

    def write(self, content: bytes, read_only: bool = False) -> None:
        """Set the buffer's bytes. ``read_only`` then forbids writes to all pages of the arena."""
        self._memory[self._start : self._end] = content
        if read_only:
            _protect(self._base + self._low, self._high - self._low, mmap.PROT_READ)
        self._read_only = read_only

    def read(self) -> bytes:
        """The buffer's bytes."""
        return self._memory[self._start : self._end]

    def touched(self) -> Tuple[bool, bool]:
        """True for a written byte before the buffer, and True for a written byte after it."""
        return not self._untouched(self._low, self._start), not self._untouched(self._end, self._high)

    def clear(self, around: bool) -> None:
        """Fill the buffer with the pattern again, and with ``around`` all other bytes too."""
        if self._read_only:
            _protect(self._base + self._low, self._high - self._low, mmap.PROT_READ | mmap.PROT_WRITE)
            self._read_only = False
        self._fill(*((self._low, self._high) if around else (self._start, self._end)))

    def _fill(self, start: int, end: int) -> None:
        self._memory[start:end] = self._pattern * (end - start)

    def _untouched(self, start: int, end: int) -> bool:
        return self._memory[start:end] == self._pattern * (end - start)


class Pool:
    """Unused arenas. Threads may share a pool."""

    def __init__(self) -> None:
        self._free: Dict[Tuple[int, int, bool], List[Arena]] = {}

    def take(self, size: int, placement: Placement, shift: int = 0) -> Arena:
        """An arena that holds ``size`` bytes in this placement.

        Raises:
            OSError: The system has no memory for it.
        """
        room = max(PAGE, 1 << (size + shift - 1).bit_length())
        kind = (room, placement.pattern, placement.canaries)
        try:
            arena = self._free[kind].pop()
        except (KeyError, IndexError):
            arena = Arena(*kind)
        arena.lend(size, placement.at_end, shift)
        return arena

    def give_back(self, arena: Arena, touched: bool = False) -> None:
        """Keep the arena for later. ``touched``: bytes outside its buffer were written."""
        if arena.room <= KEPT_BYTES:
            arena.clear(around=touched)
            self._free.setdefault(arena.kind, []).append(arena)
