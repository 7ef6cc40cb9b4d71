"""Description of the address at which a native kernel faulted: the tensor, and the side of it.

A handler of SIGSEGV and SIGBUS writes one line to the process's log. Then the previous handler runs.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import signal
import sys
import threading
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

MARK = "memory fault: "
"""The beginning of the line in the log."""

NULL_BYTES = 1 << 16
"""Addresses below this come from a null pointer."""

_ADDRESS_OFFSET = 16
"""The offset of si_addr in siginfo_t, on Linux with 64 bits."""

_ERROR_OFFSET, _WRITE_BIT = 40 + 8 * 19, 2
"""The offset of the page fault's error code in ucontext_t, and its bit for a write. On x86-64 only."""

_SA_SIGINFO, _SA_ONSTACK = 4, 0x08000000


class Lent(NamedTuple):
    """A tensor in guarded memory."""

    name: str
    kind: str
    """Its type and shape."""
    start: int
    """The address of its first byte."""
    size: int
    """Its bytes."""
    guarded: Tuple[int, int]
    """The first address of the guarded memory around it, and the first address after that memory."""


class _Action(ctypes.Structure):
    """struct sigaction of Linux's C libraries."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ubyte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


_Handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class Watch:
    """The tensors of the calls in progress, and the handler that finds the tensor of a fault."""

    def __init__(self) -> None:
        self._lent: Dict[int, List[Lent]] = {}
        self._before: Dict[int, _Action] = {}
        self._handler = _Handler(self._handle)

    def lend(self, tensors: List[Lent]) -> None:
        """Remember the tensors of the call that this thread is about to make."""
        self._lent[threading.get_ident()] = tensors

    def forget(self) -> None:
        """Forget the tensors of this thread's call, which has ended."""
        self._lent.pop(threading.get_ident(), None)

    def install(self) -> None:
        """Install the handler, on Linux with 64 bits. Elsewhere the log has no such line."""
        if sys.platform != "linux" or sys.maxsize < 1 << 32 or self._before:
            return
        action = _Action(flags=_SA_SIGINFO | _SA_ONSTACK)
        action.handler = ctypes.cast(self._handler, ctypes.c_void_p)
        for number in (signal.SIGSEGV, signal.SIGBUS):
            before = _Action()
            if ctypes.CDLL(None).sigaction(int(number), ctypes.byref(action), ctypes.byref(before)) == 0:
                self._before[int(number)] = before

    def _handle(self, number: int, info: Any, context: Any) -> None:
        # The instruction faults again after this. Then the previous handler ends the process.
        ctypes.CDLL(None).sigaction(number, ctypes.byref(self._before[number]), None)
        address = ctypes.c_uint64.from_address(info + _ADDRESS_OFFSET).value
        writes = None
        if platform.machine() == "x86_64":
            writes = bool(ctypes.c_uint64.from_address(context + _ERROR_OFFSET).value & _WRITE_BIT)
        of_thread = self._lent.get(threading.get_ident())
        lent = of_thread if of_thread is not None else [tensor for tensors in self._lent.values() for tensor in tensors]
        sentence = in_words(address, lent, writes)
        if sentence:
            os.write(2, ("%s%s\n" % (MARK, sentence)).encode())


@functools.lru_cache(maxsize=None)
def watch() -> Watch:
    """The process's watch. Its handler stays installed, since the system holds its address."""
    made = Watch()
    made.install()
    return made


def in_words(address: int, lent: List[Lent], writes: Optional[bool]) -> str:
    """The fault as a predicate: "reads past the end of scale (float32[3], 12 bytes): ...".

    Args:
        address: the address of the fault.
        lent: the tensors of the call.
        writes: True for a write, False for a read, None if that is unknown.

    Returns:
        "" for an address that belongs to no tensor.
    """
    verb = {True: "writes", False: "reads", None: "accesses memory"}[writes]
    if lent and address < NULL_BYTES:
        absent = "" if any(tensor.name == "zero_point" for tensor in lent) else "; the call has no zero point"
        return "%s through a null pointer (address %#x)%s" % (verb, address, absent)
    for tensor in lent:
        if tensor.guarded[0] <= address < tensor.guarded[1]:
            end = tensor.start + tensor.size
            what = "%s (%s, %s)" % (tensor.name, tensor.kind, _bytes(tensor.size))
            if address >= end:
                return "%s past the end of %s: the address is %s past its last byte" % (
                    verb,
                    what,
                    _bytes(address - end + 1),
                )
            if address < tensor.start:
                distance = _bytes(tensor.start - address)
                return "%s before the beginning of %s: the address is %s before it" % (verb, what, distance)
            return "%s in %s, which is read-only" % (verb, what)
    return ""


def _bytes(number: int) -> str:
    return "%d byte%s" % (number, "" if number == 1 else "s")
