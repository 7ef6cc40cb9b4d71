"""A native kernel under test: a C function that takes DLPack tensors.

`oracles/native/xverify_kernel.h` declares the function. Each call is run up to three times, with every tensor in memory of its
own (`xverify.oracles.guarded_memory`):

1. between writable canary pages. A byte written to an input or outside the output is a note, and ends the test;
2. at the end of its pages, next to pages without access, so that reading past the end ends the process. Inputs whose layout
   is "read-only" are in read-only pages;
3. at the beginning of its pages, so that reading before it ends the process.

Runs 2 and 3 fill the output and everything around the tensors with other patterns than run 1. Results that depend on such
bytes therefore differ. Bytes of the output that have the pattern in both runs were never written.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Callable, Deque, List, NamedTuple, Tuple

import numpy as np

from xverify.core.call import BITS, Call, Outcome, Tensor, code_dtype
from xverify.oracles.arrays import Array
from xverify.oracles.dlpack import Buffer, DLTensor, buffer_of, compact, output_buffer, tensor_of
from xverify.oracles.guarded_memory import Arena, Placement, Pool
from xverify.oracles.memory_faults import Lent, watch
from xverify.oracles.packed_codes import in_packed_form, is_packable
from xverify.oracles.protocol import Loaded
from xverify.oracles.timing import Problem, Solve, Way, aligned


class Run(NamedTuple):
    """The placement of the inputs and of the output in one run.

    Their patterns differ. Otherwise a result computed from the pattern could look like an output that was never written.
    """

    inputs: Placement
    output: Placement


DONE, UNSUPPORTED = 0, 2
"""Codes that a kernel returns: 0 and 2. All others are refusals."""

NO_AXIS = -(2**63)
"""The axis of a call that has no such attribute."""

INPUTS = ("x", "scale", "zero_point")
"""The inputs, in the function's order."""

CARRIED = ("axis", "block_size", "output_dtype")
"""Attributes for which the function has an argument, or a field of y."""

CANARIES = Run(Placement(0xA5, True, False), Placement(0xB7, True, False))
FENCED = (
    Run(Placement(0x5A, False, at_end=True), Placement(0x6D, False, at_end=True)),
    Run(Placement(0x5A, False, at_end=False), Placement(0x6D, False, at_end=False)),
)
"""The runs without canaries.

The patterns of all runs are no NaNs in any type, and far from each other, so results computed from them differ.
"""

SLOW_SECONDS = 0.5
"""A call is not run again after this many seconds."""

THREADS, ROUNDS = 4, 10
"""The number of threads on the path "threads", and the rounds of each.

Measured on two cores under load: in one round of three, calls overlap.
"""

STRETCHED_VALUES = 1 << 16
"""The size to which calls for several threads are repeated along their first dimension.

A short call ends before other threads begin.
"""

REMEMBERED_VALUES = 1 << 12
"""Larger calls are not repeated together with later ones."""

INFINITY = {"float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F800000, "float64": 0x7FF0000000000000}
"""The code of infinity. Larger codes, apart from the sign, are NaNs."""

Function = Callable[[Any, Any, Any, int, int, Any], int]


class RefusedError(ValueError):
    """The kernel returned a code that is neither 0 nor 2."""


class Question(NamedTuple):
    """A call in the form of the C interface."""

    inputs: Tuple[Buffer, ...]
    """x, scale and, if there is one, the zero point."""

    y: Buffer
    axis: int
    block_size: int
    """0 for a call without blocks."""


class Answer(NamedTuple):
    """The result of one run."""

    code: int
    """The code that the function returned."""

    result: bytes
    """The bytes of y."""

    notes: Tuple[str, ...]

    @property
    def kind(self) -> str:
        """The kind of the outcome."""
        return {DONE: "tensor", UNSUPPORTED: "unsupported"}.get(self.code, "rejected")


def load(library: str, symbol: str) -> Loaded:
    """Load the function ``symbol`` of the shared library at path ``library``.

    Raises:
        ImportError: There is no such library or function.
    """
    return Loaded(_Kernel(_function(library, symbol)).answer)


def load_bench(threads: int, library: str, symbol: str) -> Solve:
    """The function on given buffers. Codes of fewer than 8 bits are packed."""
    function = _function(library, symbol)

    def solve(problem: Problem) -> List[Way]:
        case = problem.case
        if case.packed != (BITS[case.x_dtype] < 8):
            raise NotImplementedError("the C interface packs these codes: time it with packed-%s" % case.x_dtype)
        arrays = [(problem.x, case.x_dtype), (problem.scale, case.out_dtype)]
        arrays += [] if problem.zero_point is None else [(problem.zero_point, case.x_dtype)]
        lent = [_in_place(array, dtype) for array, dtype in (*arrays, (problem.out, case.out_dtype))]
        x, scale, *zero_point, y = (ctypes.pointer(tensor) for tensor, _ in lent)
        axis = NO_AXIS if case.axis is None else case.axis
        run = partial(function, x, scale, zero_point[0] if zero_point else None, axis, case.block_size, y)
        code = run()
        if code != DONE:
            raise (NotImplementedError if code == UNSUPPORTED else RefusedError)(
                "it returned %s" % {UNSUPPORTED: "XVERIFY_UNSUPPORTED"}.get(code, code)
            )
        return [Way("C interface, out given", run, memory=lent)]

    return solve


def _in_place(array: Array, dtype: str) -> Tuple[DLTensor, Array]:
    """The description of an array's elements for C, and the memory that it points to."""
    held = array
    if is_packable(array):
        codes = in_packed_form(array)
        held = aligned(codes.shape, "uint8")
        held[...] = codes
    return Buffer(dtype, array.shape, compact(array.shape), held.nbytes).described(held.ctypes.data), held


def _function(library: str, symbol: str) -> Function:
    path = os.path.abspath(library)  # the loader searches the system's folders for a bare name
    try:
        function = getattr(ctypes.CDLL(path), symbol)
    except OSError as error:
        raise ImportError("%s can't be loaded: %s" % (library, str(error).replace(path, library))) from None
    except AttributeError:
        raise ImportError(
            '%s has no symbol %r: `nm -D --defined-only` lists what it has, and C++ needs extern "C" before the '
            "function" % (library, symbol)
        ) from None
    tensor = ctypes.POINTER(DLTensor)
    function.argtypes = (tensor, tensor, tensor, ctypes.c_int64, ctypes.c_int64, tensor)
    function.restype = ctypes.c_int
    return function  # type: ignore[no-any-return]


class _Kernel:
    """A function with the data that is kept between calls: arenas, the last small calls, threads."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._pool = Pool()
        self._earlier: Deque[Call] = deque(maxlen=3)
        self._threads = ThreadPoolExecutor(THREADS)
        self._watch = watch()

    def answer(self, call: Call, options: str) -> Outcome:
        """Make a call.

        Raises:
            NotImplementedError: The kernel does not support it, and did nothing else.
            RefusedError: The kernel refused it, and did nothing else.
        """
        start = time.monotonic()
        question = as_question(call)
        first = self._run(question, CANARIES)
        notes = first.notes
        for run in FENCED:
            if notes or time.monotonic() - start > SLOW_SECONDS:
                break
            again = self._run(question, run)
            notes = again.notes or differences(first, again, question.y.dtype)
        if first.code == DONE and not notes:
            if options == "threads":
                notes = self._from_threads(call)
            if call.values <= REMEMBERED_VALUES:
                self._earlier.append(call)
        return _outcome(first, notes, question.y)

    def _run(self, question: Question, run: Run, ready: Callable[[], Any] = lambda: None) -> Answer:
        """Call the function once with its buffers in the places of a run; ``ready`` is called just before."""
        lent = [(buffer, self._lend(buffer, run.inputs)) for buffer in question.inputs]
        lent.append((question.y, self._lend(question.y, run.output)))
        x, scale, *zero_point, y = (buffer.described(arena.address) for buffer, arena in lent)
        names = [*INPUTS[: len(question.inputs)], "y"]
        self._watch.lend([_lent(names[i], buffer, arena) for i, (buffer, arena) in enumerate(lent)])
        ready()
        code = self._function(x, scale, zero_point[0] if zero_point else None, question.axis, question.block_size, y)
        self._watch.forget()
        result = lent[-1][1].read()
        notes = [note for buffer, arena in lent for note in _seen(buffer, arena, output=buffer is question.y)]
        for _, arena in lent:
            self._pool.give_back(arena, touched=bool(notes))
        return Answer(code, result, tuple(dict.fromkeys(notes)))

    def _lend(self, buffer: Buffer, placement: Placement) -> Arena:
        arena = self._pool.take(buffer.size, placement, buffer.shift)
        if buffer.image:
            arena.write(buffer.image, buffer.read_only and not placement.canaries)
        return arena

    def _from_threads(self, call: Call) -> Tuple[str, ...]:
        """Notes from making this call and others on several threads at once, each with its own memory."""
        calls = {made_call.digest(): made_call for made_call in (call, mirrored(call), *self._earlier)}
        alone = [self._alone(made_call) for made_call in calls.values()]
        answered = [(question, answer) for question, answer in alone if answer.code == DONE]
        together = threading.Barrier(THREADS)

        def one_thread(number: int) -> List[str]:
            notes: List[str] = []
            try:
                for turn in range(ROUNDS):
                    question, expected = answered[(number + turn) % len(answered)]
                    answer = self._run(question, CANARIES, together.wait)
                    notes += answer.notes
                    if not answer.notes and differences(expected, answer, question.y.dtype):
                        notes.append("threads-differ")
                    if notes:
                        together.abort()
            except threading.BrokenBarrierError:
                pass  # another thread has a note, or has failed
            except BaseException:
                together.abort()
                raise
            return notes

        notes = [note for _, answer in answered for note in answer.notes]
        if not notes:
            notes = [note for of_thread in self._threads.map(one_thread, range(THREADS)) for note in of_thread]
        return tuple(dict.fromkeys(notes))

    def _alone(self, call: Call) -> Tuple[Question, Answer]:
        """The stretched call, or the call itself if the kernel refuses that, with its answer on one thread."""
        question = as_question(stretched(call))
        answer = self._run(question, CANARIES)
        if answer.code != DONE:
            question = as_question(call)
            answer = self._run(question, CANARIES)
        return question, answer


def as_question(call: Call) -> Question:
    """The call as the function's arguments.

    The output's type is the attribute output_dtype, or the scale's type.

    Raises:
        RefusedError: The function has no argument for an attribute, or output_dtype is no dtype.
    """
    for name in call.attributes:
        if name not in CARRIED:
            raise RefusedError("a native kernel has no argument for the attribute %r" % (name,))
    output = str(call.attributes.get("output_dtype", call.tensors["scale"].dtype))
    if output not in BITS:
        raise RefusedError("output_dtype is %r, which is no dtype" % (output,))
    inputs = tuple(buffer_of(call.tensors[name]) for name in INPUTS if name in call.tensors)
    axis, block_size = call.attributes.get("axis", NO_AXIS), call.attributes.get("block_size", 0)
    return Question(inputs, output_buffer(output, call.data.shape), int(axis), int(block_size))


def _lent(name: str, buffer: Buffer, arena: Arena) -> Lent:
    kind = "%s[%s]" % (buffer.dtype, ",".join(map(str, buffer.shape)))
    return Lent(name, kind, arena.address, buffer.size, arena.guarded)


def _seen(buffer: Buffer, arena: Arena, output: bool) -> List[str]:
    """Notes on what the function did to a buffer and around it."""
    before, after = arena.touched()
    notes = []
    if before:
        notes.append("written-before-output" if output else "written-beside-input")
    if after:
        notes.append("written-after-output" if output else "written-beside-input")
    if not output and arena.read() != buffer.image:
        notes.append("input-written")
    return notes


def differences(first: Answer, again: Answer, dtype: str) -> Tuple[str, ...]:
    """Notes on how two answers to one question differ; any NaN equals any NaN."""
    if first.kind != again.kind:
        return ("second-call-differs",)
    if first.code != DONE or first.result == again.result:
        return ()
    codes, codes_again = (np.frombuffer(answer.result, code_dtype(dtype)) for answer in (first, again))
    different = codes != codes_again
    if dtype in INFINITY:
        bits = codes.dtype.type((1 << (BITS[dtype] - 1)) - 1)
        different &= ((codes & bits) <= INFINITY[dtype]) | ((codes_again & bits) <= INFINITY[dtype])
    poison, poison_again = (
        np.frombuffer(bytes([run.output.pattern]) * 8, codes.dtype)[0] for run in (CANARIES, FENCED[0])
    )
    unwritten = different & (codes == poison) & (codes_again == poison_again)
    notes = []
    if unwritten.any():
        notes.append("never-written")
    if (different & ~unwritten).any():
        notes.append("second-call-differs")
    return tuple(notes)


def _outcome(answer: Answer, notes: Tuple[str, ...], y: Buffer) -> Outcome:
    if answer.code == DONE:
        return Outcome("tensor", tensor_of(y, answer.result), notes=notes)
    error = NotImplementedError if answer.code == UNSUPPORTED else RefusedError
    message = "the kernel returned %d" % answer.code
    if not notes:
        raise error(message)
    return Outcome(answer.kind, error=error.__name__, message=message, notes=notes)


def mirrored(call: Call) -> Call:
    """A call with other values and the same shapes: the elements of every tensor in reverse order."""

    def turned(tensor: Tensor) -> Tensor:
        return replace(tensor, codes=np.ascontiguousarray(tensor.codes.reshape(-1)[::-1]).reshape(tensor.shape))

    return replace(call, tensors={name: turned(tensor) for name, tensor in call.tensors.items()})


def stretched(call: Call) -> Call:
    """The call with x repeated along its first dimension, and so the parameters that vary along it.

    The result is the call itself if that is long enough, or if its last block is short.
    """
    x, scale = call.data, call.tensors["scale"]
    times = STRETCHED_VALUES // max(1, x.size)
    axis, block_size = int(call.attributes.get("axis", 1)), int(call.attributes.get("block_size", 0))
    if times < 2 or x.size == 0 or not x.shape:
        return call
    along = axis in (0, -len(x.shape))
    blocked = block_size > 0 and len(scale.shape) == len(x.shape)
    if blocked and along and x.shape[0] % block_size:
        return call
    with_x = scale.shape != () and (along or blocked)

    def repeated(tensor: Tensor) -> Tensor:
        return replace(tensor, codes=np.tile(tensor.codes, (times,) + (1,) * (len(tensor.shape) - 1)))

    return replace(call, tensors={n: repeated(t) if n == "x" or with_x else t for n, t in call.tensors.items()})
