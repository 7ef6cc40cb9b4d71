"""Behaviour of CuPy on which xverify relies, beside what the fake CuPy pretends.

`FACTS` are observations that the fake gives too. tests/kernels/test_cuda_stand_in.py makes each of them with the fake, and
on a card with the real CuPy. `PRETENCES` are the differences, which no test with the fake can notice.

Sources are files of CuPy 14.2.0. The first three facts were seen on an H200 with CuPy 14.2; the others are read from the
source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

NEGATIVE_ZERO = np.float32(-0.0)


class Fact(NamedTuple):
    """An observation that the real CuPy and the fake give."""

    statement: str
    source: str
    """File and function."""
    observed: Callable[[Any], Any]
    """Make the observation with a module."""
    expected: Any


class Pretence(NamedTuple):
    """A difference between the fake and the real CuPy."""

    subject: str
    fake: str
    real: str
    source: str
    """File and function of CuPy, or a page of NVIDIA's documentation."""


def bits(module: Any, array: Any) -> list[int]:
    """The codes of an array on the device, in C order."""
    host = module.asnumpy(array)
    return [int(code) for code in host.view(f"u{host.itemsize}").ravel()]


def filled(module: Any, step: int, by_assignment: bool) -> list[int]:
    """The codes of the two elements of a view that is filled with -0.0. Its elements are ``step`` apart."""
    room = module.asarray(np.ones(4, np.float32))
    view = room[: 2 * step : step]
    if by_assignment:
        view[...] = NEGATIVE_ZERO
    else:
        view.fill(NEGATIVE_ZERO)
    return bits(module, view)


def raised(action: Callable[[], Any]) -> str:
    """The type and the first words of an exception."""
    try:
        action()
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split()[:2])}"
    return ""


def order_kept(module: Any) -> list[bool]:
    """Contiguity in C order of copies of a C array, a Fortran array and an array with gaps."""
    array = np.arange(12, dtype=np.int8).reshape(3, 4)
    return [bool(module.asarray(each).flags.c_contiguous) for each in (array, array.T, array[:, ::2])]


def shared(module: Any) -> list[int]:
    """An array after an element, a slice and a view of it were written."""
    array = module.asarray(np.zeros(4, np.uint8))
    array[0].fill(1)
    array[1:2][...] = 2
    array.view(np.uint16)[1] = 0x0403
    return bits(module, array)


_CORE, _CREATION = "cupy/_core/core.pyx", "cupy/_creation/basic.py"

FACTS = (
    Fact(
        "asarray of a 0-d -0.0 gives +0.0",
        f"{_CORE}: _array_default fills",
        lambda m: bits(m, m.asarray(np.asarray(NEGATIVE_ZERO))),
        [0],
    ),
    Fact(
        "fill(-0.0) of a contiguous array gives +0.0",
        f"{_CORE}: ndarray.fill sets memory to 0 where value == 0",
        lambda m: filled(m, 1, False),
        [0, 0],
    ),
    Fact(
        "a[...] = -0.0 of a contiguous array gives +0.0",
        "cupy/_core/_routines_indexing.pyx: _scatter_op fills",
        lambda m: filled(m, 1, True),
        [0, 0],
    ),
    Fact(
        "fill(-0.0) of an array with gaps keeps the sign",
        f"{_CORE}: ndarray.fill",
        lambda m: filled(m, 2, False),
        [0x80000000] * 2,
    ),
    Fact(
        "full keeps the sign of -0.0",
        f"{_CREATION}: full; cupy/_manipulation/basic.py: copyto",
        lambda m: bits(m, m.full((), NEGATIVE_ZERO, np.float32)),
        [0x80000000],
    ),
    Fact(
        "asarray of a 1-d array keeps every bit",
        f"{_CORE}: _array_default copies memory",
        lambda m: bits(m, m.asarray(np.uint32([0x80000000, 0xFF800001, 1]).view(np.float32))),
        [0x80000000, 0xFF800001, 1],
    ),
    Fact(
        "asarray of a 0-d unsigned integer keeps every bit",
        f"{_CORE}: ndarray.fill",
        lambda m: [bits(m, m.asarray(np.asarray(kind(1 << top)))) for kind, top in ((np.uint8, 7), (np.uint32, 31))],
        [[0x80], [0x80000000]],
    ),
    Fact(
        "asarray turns big-endian arrays into native ones",
        "cupy/_core/_dtype.pyx: normalize_dtype",
        lambda m: (m.asarray(np.array([1], ">u2")).dtype.isnative, bits(m, m.asarray(np.array([1], ">u2")))),
        (True, [1]),
    ),
    Fact(
        "there is no array of ml_dtypes' types, except bfloat16",
        "cupy/_core/_dtype.pyx: check_supported_dtype; cupy/_core/_scalar.pyx: get_typename",
        lambda m: [
            raised(lambda dtype=dtype: m.asarray(np.zeros(1, dtype)))
            for dtype in (ml_dtypes.float8_e4m3fn, ml_dtypes.int4, ml_dtypes.bfloat16)
        ],
        ["ValueError: Unsupported dtype", "ValueError: Unsupported dtype", ""],
    ),
    Fact("asarray keeps Fortran's order and closes gaps", f"{_CORE}: _array_default", order_kept, [True, False, True]),
    Fact(
        "ascontiguousarray of a 0-d array has one dimension",
        f"{_CORE}: ascontiguousarray",
        lambda m: m.ascontiguousarray(m.empty((), np.uint8)).shape,
        (1,),
    ),
    Fact(
        "an empty array lies at address 0",
        "cupy/cuda/memory.pyx: SingleDeviceMemoryPool.malloc",
        lambda m: (m.empty((0, 3), np.uint8).data.ptr, m.empty((0, 3), np.uint8).shape),
        (0, (0, 3)),
    ),
    Fact(
        "a new array lies at a multiple of 512 bytes",
        "cupy/cuda/memory.pyx: ALLOCATION_UNIT_SIZE",
        lambda m: [m.empty(size, np.uint8).data.ptr % 512 for size in (1, 513)],
        [0, 0],
    ),
    Fact("elements, slices and views share the array's memory", f"{_CORE}: ndarray.view", shared, [1, 2, 3, 4]),
    Fact(
        "an element is a 0-d array",
        "cupy/_core/_routines_indexing.pyx: _ndarray_getitem",
        lambda m: (type(m.empty(2, np.uint8)[1]) is m.ndarray, m.empty(2, np.uint8)[1].shape),
        (True, ()),
    ),
    Fact(
        "a NumPy array cannot be assigned",
        "cupy/_core/_routines_indexing.pyx: _scatter_op; cupy/_core/core.pyx: ndarray.fill",
        lambda m: raised(lambda: m.empty(2, np.uint8).__setitem__(..., np.zeros(2, np.uint8))),
        "ValueError: non-scalar numpy.ndarray",
    ),
    Fact(
        "NumPy cannot read an array on the device",
        f"{_CORE}: ndarray.__array__",
        lambda m: raised(lambda: np.asarray(m.empty(2, np.uint8))),
        "TypeError: Implicit conversion",
    ),
    Fact(
        "asnumpy gives a NumPy array in C order, also of a 0-d array",
        f"{_CORE}: ndarray.get",
        lambda m: [
            (type(host) is np.ndarray, host.shape, host.flags.c_contiguous)
            for host in (m.asnumpy(m.empty((), np.uint8)), m.asnumpy(m.empty((3, 2), np.uint8).T))
        ],
        [(True, (), True), (True, (2, 3), True)],
    ),
)

PRETENCES = (
    Pretence(
        "compilation",
        "takes no time, and gives back the macros",
        "NVRTC compiles for 0.2 to 0.4 s; RawModule of a source adds -ftz=true",
        "cupy/cuda/compiler.py: compile_using_nvrtc; cupy's issue 9576",
    ),
    Pretence(
        "launches",
        "run at once in the calling thread, and check that arrays are aligned",
        "run later; a misaligned access ends the context with an error at a later call",
        "CUDA C++ Programming Guide: Asynchronous Concurrent Execution",
    ),
    Pretence(
        "kernel arguments",
        "those that xverify passes, in their order and with their types",
        "CuPy's arrays, scalars, NumPy arrays of one element, and what a CPointer points to; a Python integer as 64 bits",
        "cupy/cuda/function.pyx: _pointer",
    ),
    Pretence(
        "streams, events and captures",
        "objects that only record what they were asked for; an event has the time of the process",
        "order the work on the card",
        "cupy/cuda/stream.pyx",
    ),
    Pretence(
        "from_dlpack",
        "takes the array as it is, and waits for nothing",
        "asks the producer to make CuPy's current stream wait for its work",
        "cupy/_core/dlpack.pyx: from_dlpack",
    ),
    Pretence(
        "asarray of a host array",
        "copies before it returns",
        "copies into pinned memory before it returns, and from there on the current stream",
        "cupy/_core/core.pyx: _array_default",
    ),
    Pretence(
        "devices",
        "any number exists; memory is where `LIES_ON` says",
        "an unknown number raises CUDARuntimeError",
        "cupy/cuda/device.pyx",
    ),
    Pretence(
        "attributes",
        "the few that xverify and its tests use; any other raises AttributeError",
        "NumPy's, and those of CUDA",
        "cupy/_core/core.pyx: ndarray",
    ),
    Pretence(
        "a card's arithmetic",
        "the C++ compiler's on this processor",
        "the instructions that NVRTC chooses",
        "tests/support/cuda_on_cpu.cpp",
    ),
)
"""Differences that only a run on a card can notice."""
