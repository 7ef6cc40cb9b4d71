"""A Python function under test, called by the gate's signatures and checked for side effects.

A call is made twice, each time on fresh arrays, and the first result is overwritten in between. Results are checked again
after later calls. The outcome's notes have short fixed names:

- ``input-written``, ``output-aliases-input``: in either call;
- ``outputs-share-memory``, ``earlier-result-changed``: an earlier result, which its receiver may still use, is affected;
- ``internal-buffer``: data that the receiver writes into a result comes back in a later result;
- ``second-call-differs``; on the path ``threads``, ``threads-differ``.
"""

from __future__ import annotations

import inspect
import os
import re
import time
import warnings
from collections import deque
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional, Tuple, Union

import numpy as np

from xverify.core.call import Call, Outcome, Tensor
from xverify.oracles.arrays import Array, from_array, hand_out, memory, numpy_dtype, shares_memory, to_array
from xverify.oracles.protocol import Answer, Loaded
from xverify.oracles.python_target import find_function
from xverify.oracles.results import as_array
from xverify.oracles.several_threads import THREADS, Function, threads_differ
from xverify.oracles.short_form import ShortCall, ShortForm, kernel_call
from xverify.oracles.timing import Problem, Solve, Way

OPERANDS = ("x", "scale", "zero_point", "input", "min_range", "max_range")
"""Operands in the order of the signatures. A call has those of its family."""

RESULTS_KEPT = 4
SMALL = 1 << 20
"""The bytes below which a result is kept, and its call is repeated together with others."""

CALLS_KEPT = 3
ROUNDS = 8
THREADS_SECONDS = 0.4
"""Seconds for the rounds of all threads, estimated from one call."""

ONCE_SECONDS = 1.0
"""A call that takes longer than this is made only once."""

MOST_WORK: Any = 100_000
"""Steps that NumPy may take to find out if two arrays share an element. Its stubs have no such number."""


def load(target: str, *expected: str) -> Loaded:
    """The kernel that ``target`` names.

    Args:
        expected: The arguments of the calls to come, by edition, see `xverify.oracles.signature.Expected`.

    Raises:
        LoadError: There is no such function, its import fails, or it cannot take the calls.
    """
    warnings.simplefilter("ignore")
    function = find_function(target)
    if expected:
        # Imported late, because scripts contain the sources that this module imports at the top.
        from xverify.oracles.signature import expected_in, require_signature

        source, _, name = target.rpartition(":")
        for text in expected:
            require_signature(function, "%s:%s" % (os.path.basename(source), name), expected_in(text))
    return Loaded(answerer(function), fatal=(MemoryError,))


def load_where_it_fits(target: str, *expected: str) -> Loaded:
    """The kernel that ``target`` names, for a sweep.

    It does not support the editions whose calls its signature does not take.

    Args:
        expected: The arguments of the calls to come, by edition, see `xverify.oracles.signature.Expected`.

    Raises:
        LoadError: There is no such function, its import fails, or it can take the calls of no edition.
    """
    from xverify.oracles.signature import expected_in, misfits

    warnings.simplefilter("ignore")
    function = find_function(target)
    source, _, name = target.rpartition(":")
    shown = "%s:%s" % (os.path.basename(source), name)
    reasons = misfits(function, shown, [expected_in(text) for text in expected])

    made = answerer(function)

    def answer(call: Call, path: str) -> Union[Tensor, Outcome]:
        if call.contract in reasons:
            raise NotImplementedError(reasons[call.contract])
        return made(call, path)

    return Loaded(answer, fatal=(MemoryError,))


def answerer(function: Function) -> Answer:
    """Answer calls with a function on the paths "" and "threads".

    Its exceptions are refusals. A result that is no array raises `xverify.oracles.arrays.UnreadableResultError`.
    """

    def invoke(call: Call, arrays: Dict[str, Array]) -> Any:
        operands, keywords = arguments(call, arrays)
        return function(*operands, **keywords)

    return watched(invoke)


def watched(invoke: Function) -> Answer:
    """Answer calls on the paths "" and "threads", with checks for side effects.

    Args:
        invoke: Makes one call, from the call and its arrays by name.
    """
    return _Kernel(invoke).answer


def arguments(call: Call, arrays: Dict[str, Array]) -> Tuple[List[Array], Dict[str, Any]]:
    """A call's positional arguments (its tensors) and keywords (its attributes, by the signatures' names).

    An absent axis becomes None in editions where that means per tensor, as the signature's default is 1. So does TensorFlow's -1.
    """
    keywords: Dict[str, Any] = dict(call.attributes)
    for name in ("output_dtype", "dtype"):
        if name in keywords:
            keywords["out_dtype"] = numpy_dtype(keywords.pop(name))
    family = call.contract.partition("/")[0]
    if family in ("com.microsoft", "litert", "torchao") or call.contract.startswith("pytorch/Tensor.dequantize@"):
        keywords.setdefault("axis", None)
    elif family == "tensorflow" and keywords.get("axis") == -1:
        keywords["axis"] = None
    return [arrays[role] for role in OPERANDS if role in arrays], keywords


class _Answer(NamedTuple):
    """The answer to one call."""

    tensor: Tensor
    """A copy of the result's bits."""
    array: Optional[Array]
    """The result itself, if its receiver could write to it or keep it.

    None for a scalar, and for the memory of an input.
    """
    notes: List[str]
    seconds: float


class _Kernel:
    """A kernel, its last results with their contents, and small calls with their results."""

    def __init__(self, invoke: Function) -> None:
        self._invoke = invoke
        self._results: Deque[Tuple[Array, bytes]] = deque(maxlen=RESULTS_KEPT)
        self._calls: Deque[Tuple[Call, Tensor]] = deque(maxlen=CALLS_KEPT)
        self._seeds = count()

    def answer(self, call: Call, path: str) -> Outcome:
        first = _ask(self._invoke, call)
        notes = [*first.notes, *self._look_again(first.array)]
        if first.seconds <= ONCE_SECONDS:
            notes += self._from_threads(call, first) if path == "threads" else self._twice(call, first)
        if not notes and max(first.tensor.codes.nbytes, call.data.codes.nbytes) < SMALL:
            self._calls.append((call, first.tensor))
        return Outcome("tensor", first.tensor, notes=tuple(dict.fromkeys(notes)))

    # -- twice --------------------------------------------------------------------------------------------

    def _twice(self, call: Call, first: _Answer) -> List[str]:
        """Make the call again after its first result was overwritten. Return notes."""
        over = _write_over(first, 0xA5)
        self._keep(first.array)
        second = _attempt(self._invoke, call)
        if not _same(second, first.tensor):
            notes = [self._cause(call, second) if over else "second-call-differs"]
            _restore(first, over)
            self._results.clear()  # the overwritten array may have been one of them
            return notes
        assert isinstance(second, _Answer)
        notes = [*second.notes, *self._look_again(second.array)]
        self._keep(second.array)
        return notes

    def _cause(self, call: Call, second: Union[_Answer, Exception]) -> str:
        """The note on a second result that differs from the first.

        Overwriting is the cause if a third call, without it, repeats the second result, and a fourth call, after it, changes
        again.
        """
        third = _attempt(self._invoke, call)
        if isinstance(second, Exception) or isinstance(third, Exception) or not _same(third, second.tensor):
            return "second-call-differs"
        over = _write_over(third, 0x5A)
        fourth = _attempt(self._invoke, call)
        _restore(third, over)
        return "second-call-differs" if _same(fourth, third.tensor) else "internal-buffer"

    # -- earlier results ----------------------------------------------------------------------------------

    def _keep(self, array: Optional[Array]) -> None:
        if array is not None and array.nbytes < SMALL:
            self._results.append((array, array.tobytes()))

    def _look_again(self, new: Optional[Array]) -> List[str]:
        """The notes on changes of earlier results; each change is noted once."""
        notes, left = [], []
        for array, content in self._results:
            if new is not None and _overlap(array, new):
                notes.append("outputs-share-memory")  # from now on only the new one is kept
                continue
            now = array.tobytes()
            if now != content:
                notes.append("earlier-result-changed")
            left.append((array, now))
        if notes:
            self._results = deque(left, maxlen=RESULTS_KEPT)
        return notes

    # -- several threads ----------------------------------------------------------------------------------

    def _from_threads(self, call: Call, first: _Answer) -> List[str]:
        """Make the call, and earlier ones, on several threads at once. Note what one thread does not show."""
        if not _same(_attempt(self._invoke, call), first.tensor):
            return ["second-call-differs"]
        rounds = max(2, min(ROUNDS, int(THREADS_SECONDS / THREADS / max(first.seconds, 1e-9))))
        cases = [partial(_differs, repeated, right) for repeated, right in ((call, first.tensor), *self._calls)]
        return ["threads-differ"] if threads_differ(self._invoke, cases, rounds, next(self._seeds)) else []


def _ask(invoke: Function, call: Call) -> _Answer:
    handed = hand_out(call)
    before = memory(handed)
    start = time.perf_counter()
    with np.errstate(all="ignore"):
        result = invoke(call, handed)
    seconds = time.perf_counter() - start
    notes = ["input-written"] if memory(handed) != before else []
    result = as_array(result)
    shared = from_array(result)
    tensor = Tensor(shared.dtype, np.array(shared.codes, order="C"))
    if shares_memory(result, handed.values()):
        return _Answer(tensor, None, [*notes, "output-aliases-input"], seconds)
    return _Answer(tensor, result if isinstance(result, np.ndarray) else None, notes, seconds)


def _attempt(invoke: Function, call: Call) -> Union[_Answer, Exception]:
    """The answer to a call, or the exception. MemoryError passes through and ends the process."""
    try:
        return _ask(invoke, call)
    except MemoryError:
        raise
    except Exception as error:
        return error


def _differs(call: Call, right: Tensor, invoke: Function) -> bool:
    return not _same(_attempt(invoke, call), right)


def _same(answer: Union[_Answer, Exception], expected: Tensor) -> bool:
    """True if the bits are equal; any NaN equals any NaN."""
    if isinstance(answer, Exception):
        return False
    got = answer.tensor
    if got.same_bits(expected):
        return True
    if got.dtype != expected.dtype or got.shape != expected.shape or "float" not in got.dtype:
        return False
    differ = got.codes != expected.codes
    return bool((np.isnan(to_array(got)) & np.isnan(to_array(expected)))[differ].all())


def _write_over(answer: _Answer, byte: int) -> bool:
    """Fill the result with a byte. Return False if it is not writable."""
    array = answer.array
    if array is None or not array.flags.writeable:
        return False
    array.view(answer.tensor.codes.dtype).fill(int.from_bytes(bytes([byte]) * array.itemsize, "little"))
    return True


def _restore(answer: _Answer, over: bool) -> None:
    """Restore a buffer that the function may still use, so that one fault does not appear in later calls."""
    if over and answer.array is not None:
        answer.array.view(answer.tensor.codes.dtype)[...] = answer.tensor.codes


def _overlap(array: Array, other: Array) -> bool:
    try:
        return np.may_share_memory(array, other) and np.shares_memory(array, other, max_work=MOST_WORK)
    except RuntimeError:  # NumPy gave up: MOST_WORK was not enough
        return True


# -- the bench -------------------------------------------------------------------------------------------


def load_bench(threads: int, target: str) -> Solve:
    """The function on arrays that exist already, with ``out=`` if it has that parameter."""
    warnings.simplefilter("ignore")
    function = find_function(target)
    takes_out = _takes_out(function)

    def solve(problem: Problem) -> List[Way]:
        case = problem.case
        if case.packed:
            raise NotImplementedError("a Python kernel gets one code a byte: time it with %s" % case.x_dtype)
        operands = [array for array in (problem.x, problem.scale, problem.zero_point) if array is not None]
        keywords: Dict[str, Any] = {} if case.axis is None else {"axis": case.axis}
        if case.block_size:
            keywords["block_size"] = case.block_size
        if takes_out:
            return [Way("out given", partial(function, *operands, out=problem.out, **keywords))]
        run = partial(function, *operands, **keywords)
        if hasattr(run(), "block_until_ready"):  # JAX returns before it has computed
            return [Way("it allocates its output", lambda: run().block_until_ready(), _shaped(case), owns_output=True)]
        return [Way("it allocates its output", run, _shaped(case), owns_output=True)]

    return solve


def _takes_out(function: Function) -> bool:
    try:
        return "out" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _shaped(case: Any) -> Callable[[Any], Array]:
    """Read a result, which must have the shape of x."""

    def read(result: Any) -> Array:
        array = as_array(result)
        if array.shape != case.shape:
            raise ValueError("its result has the shape %s; expected %s" % (array.shape, case.shape))
        return array

    return read


# -- short scripts ---------------------------------------------------------------------------------------

_DOTTED = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"
_TARGET = re.compile(r"([A-Za-z_]\w*\.py|%s):%s" % (_DOTTED, _DOTTED), re.ASCII)
"""Targets that Python can import and name in this spelling."""


def short_form(call: ShortCall) -> Optional[ShortForm]:
    """A call of the function in a file of the current directory or in a module.

    None for a library, and for a name that is no Python name.
    """
    from xverify.oracles.plugin import is_library  # imported late: it would delay a worker

    if not _TARGET.fullmatch(call.full_name):
        return None
    source, _, function = call.full_name.rpartition(":")
    if not source.endswith(".py"):
        return None if is_library(source) else kernel_call(call, "import %s as kernel" % source, "kernel." + function)
    form = kernel_call(call, "import %s as kernel" % source[:-3], "kernel." + function, modules=("sys",))
    return replace(form, imports=['sys.path.insert(0, ".")  # where the kernel is', *form.imports])
