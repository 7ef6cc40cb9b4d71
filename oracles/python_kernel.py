"""A Python function under test: called by the gate's signatures, with checks of what it does besides.

A call is made twice, each time on fresh arrays, and the first result is overwritten in between. Results are checked again
after later calls. The outcome's notes have short fixed names:

- ``input-written``, ``output-aliases-input``: in either call;
- ``outputs-share-memory``, ``earlier-result-changed``: an earlier result, which its receiver may still use, is affected;
- ``internal-buffer``: data that the receiver writes into a result comes back in a later result;
- ``second-call-differs``; on the path ``threads``, ``threads-differ``.
"""

from __future__ import annotations

import re
import time
import warnings
from collections import deque
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, Deque, Dict, List, NamedTuple, Optional, Tuple, Union

import numpy as np

from xverify.core.call import Call, Outcome, Tensor
from xverify.oracles.arrays import Array, from_array, hand_out, memory, numpy_dtype, shares_memory, to_array
from xverify.oracles.protocol import Answer, Loaded
from xverify.oracles.python_target import find_function
from xverify.oracles.several_threads import THREADS, Function, threads_differ
from xverify.oracles.short_form import ShortCall, ShortForm, kernel_call

OPERANDS = ("x", "scale", "zero_point", "input", "min_range", "max_range")
"""In the order of the signatures; a call has those of its family."""

RESULTS_KEPT = 4
SMALL = 1 << 20
"""Bytes of a result that is kept, or whose call is made again beside others."""

CALLS_KEPT = 3
ROUNDS = 8
THREADS_SECONDS = 0.4
"""Time for the rounds of all threads, estimated from one call."""

ONCE_SECONDS = 1.0
"""A call that takes longer is made once only."""

MOST_WORK: Any = 100_000
"""Steps that NumPy may take to solve whether two arrays share an element; its stubs know of no such number."""


def load(target: str) -> Loaded:
    """The kernel that ``target`` names; see `find_function`, also for what is raised."""
    warnings.simplefilter("ignore")
    return Loaded(answerer(find_function(target)), fatal=(MemoryError,))


def answerer(function: Function) -> Answer:
    """Answer calls with a function on the paths "" and "threads"; its exceptions are refusals.

    TypeError as well where its result is no array of a known dtype.
    """

    def invoke(call: Call, arrays: Dict[str, Array]) -> Any:
        operands, keywords = arguments(call, arrays)
        return function(*operands, **keywords)

    return watched(invoke)


def watched(invoke: Function) -> Answer:
    """Answer calls on the paths "" and "threads", with checks of what the kernel does besides.

    Args:
        invoke: Makes one call, from the call and its arrays by name.
    """
    return _Kernel(invoke).answer


def arguments(call: Call, arrays: Dict[str, Array]) -> Tuple[List[Array], Dict[str, Any]]:
    """A call's positional arguments (its tensors) and keywords (its attributes, by the signatures' names).

    com.microsoft's axis that is not given is None, which is not the signature's default; so is TensorFlow's -1.
    """
    keywords: Dict[str, Any] = dict(call.attributes)
    for name in ("output_dtype", "dtype"):
        if name in keywords:
            keywords["out_dtype"] = numpy_dtype(keywords.pop(name))
    family = call.contract.partition("/")[0]
    if family == "com.microsoft":
        keywords.setdefault("axis", None)
    elif family == "tensorflow" and keywords.get("axis") == -1:
        keywords["axis"] = None
    return [arrays[role] for role in OPERANDS if role in arrays], keywords


class _Answer(NamedTuple):
    """tensor: a copy of the result's bits. array: the result itself, where it is one that its receiver could write to or
    keep: not a scalar, and not the memory of an input."""

    tensor: Tensor
    array: Optional[Array]
    notes: List[str]
    seconds: float


class _Kernel:
    """A kernel, the results that it gave last, with what they held, and small calls with their results."""

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
        """Make the call again after its first result was written over; what that shows."""
        over = _write_over(first, 0xA5)
        self._keep(first.array)
        second = _attempt(self._invoke, call)
        if not _same(second, first.tensor):
            notes = [self._cause(call, second) if over else "second-call-differs"]
            _restore(first, over)
            self._results.clear()  # what was written over may have been one of them
            return notes
        assert isinstance(second, _Answer)
        notes = [*second.notes, *self._look_again(second.array)]
        self._keep(second.array)
        return notes

    def _cause(self, call: Call, second: Union[_Answer, Exception]) -> str:
        """Why the second result is another: by the writing if all stays as it is without, and changes again with it."""
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
                notes.append("outputs-share-memory")  # from now on the new one stands for both
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
        """Make the call, and earlier ones, from several threads at once; what that shows that one thread does not."""
        if not _same(_attempt(self._invoke, call), first.tensor):
            return ["second-call-differs"]
        rounds = max(2, min(ROUNDS, int(THREADS_SECONDS / THREADS / max(first.seconds, 1e-9))))
        cases = [partial(_differs, one, right) for one, right in ((call, first.tensor), *self._calls)]
        return ["threads-differ"] if threads_differ(self._invoke, cases, rounds, next(self._seeds)) else []


def _ask(invoke: Function, call: Call) -> _Answer:
    handed = hand_out(call)
    before = memory(handed)
    start = time.perf_counter()
    with np.errstate(all="ignore"):
        result = invoke(call, handed)
    seconds = time.perf_counter() - start
    notes = ["input-written"] if memory(handed) != before else []
    if not isinstance(result, (np.ndarray, np.generic)):
        if not hasattr(result, "__array__"):
            what = "None" if result is None else "of type " + type(result).__name__
            raise TypeError("the result is %s, not an array" % what)
        result = np.asarray(result)
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


def _same(found: Union[_Answer, Exception], expected: Tensor) -> bool:
    """Equal bits, any NaN being like any other."""
    if isinstance(found, Exception):
        return False
    got = found.tensor
    if got.same_bits(expected):
        return True
    if got.dtype != expected.dtype or got.shape != expected.shape or "float" not in got.dtype:
        return False
    differ = got.codes != expected.codes
    return bool((np.isnan(to_array(got)) & np.isnan(to_array(expected)))[differ].all())


def _write_over(answer: _Answer, byte: int) -> bool:
    """Fill the result with a byte; False where it cannot be written to."""
    array = answer.array
    if array is None or not array.flags.writeable:
        return False
    array.view(answer.tensor.codes.dtype).fill(int.from_bytes(bytes([byte]) * array.itemsize, "little"))
    return True


def _restore(answer: _Answer, over: bool) -> None:
    """Give a buffer that the function may still use its values back, lest one fault be seen in all later calls."""
    if over and answer.array is not None:
        answer.array.view(answer.tensor.codes.dtype)[...] = answer.tensor.codes


def _overlap(one: Array, other: Array) -> bool:
    try:
        return np.may_share_memory(one, other) and np.shares_memory(one, other, max_work=MOST_WORK)
    except RuntimeError:  # too hard to tell
        return True


# -- short scripts ---------------------------------------------------------------------------------------

_DOTTED = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"
_TARGET = re.compile(r"([A-Za-z_]\w*\.py|%s):%s" % (_DOTTED, _DOTTED), re.ASCII)
"""Targets that Python can import and name as they are spelled."""


def short_form(call: ShortCall) -> Optional[ShortForm]:
    """A call of the function in a file of the current directory or in a module. None for a library, and for a name that
    Python does not spell so."""
    from xverify.oracles.plugin import is_library  # not in a worker, which it would delay

    if not _TARGET.fullmatch(call.full_name):
        return None
    place, _, function = call.full_name.rpartition(":")
    if not place.endswith(".py"):
        return None if is_library(place) else kernel_call(call, "import %s as kernel" % place, "kernel." + function)
    form = kernel_call(call, "import %s as kernel" % place[:-3], "kernel." + function, modules=("sys",))
    return replace(form, imports=['sys.path.insert(0, ".")  # where the kernel is', *form.imports])
