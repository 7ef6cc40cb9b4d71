"""A stand-in for CuPy with NumPy's memory. `cuda_on_cpu.cpp` is its compiler and runs its launches.

`cupy_facts` lists what CuPy does and this stand-in does too, and what the stand-in only pretends.
"""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from native_compiler import compiler

from xverify.kernels.cuda.compiling import OPTIONS, SOURCE, source

CPP = Path(__file__).with_name("cuda_on_cpu.cpp")
KEPT = Path(__file__).with_name("__pycache__")

NAMED = ("X_TYPE", "SCALE_TYPE", "ZERO_TYPE", "OUT_TYPE", "FORMULA")
MACROS = (*NAMED, "X_BITS", "ZERO_BITS", "SPREAD", "VECTORS", "INDEX_BITS")

FLAGS = (
    "-std=c++17", "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror",
    "-Wno-unknown-pragmas", "-Wno-pass-failed",
)  # fmt: skip


@cache
def built() -> ctypes.CDLL:
    """Compile the kernels' source for this machine into a cache. Skip the test without a compiler."""
    command = compiler()
    if command is None:
        pytest.skip("there is no C++ compiler: pip install ziglang")
    arguments = [*command, *FLAGS, f"-I{SOURCE.parent}", str(CPP), "-lm"]
    sources = [CPP, *sorted(SOURCE.parent.glob("*.cu*"))]
    digest = hashlib.sha256(
        b"\0".join([repr(arguments).encode(), *(file.read_bytes() for file in sources)])
    ).hexdigest()
    library = KEPT / f"cuda_on_cpu-{digest[:16]}.so"
    if not library.exists():
        KEPT.mkdir(exist_ok=True)
        with TemporaryDirectory(dir=KEPT) as directory:
            made = Path(directory, library.name)
            result = subprocess.run([*arguments, "-o", made], capture_output=True, text=True, cwd=directory)
            assert result.returncode == 0, result.stderr
            made.replace(library)
        for other in set(KEPT.glob("cuda_on_cpu-*.so")) - {library}:
            other.unlink(missing_ok=True)
    return ctypes.CDLL(str(library))


DTYPES = "?bhilqBHILQefdFD"
"""NumPy's characters of the dtypes that CuPy has, beside bfloat16."""

LIES_ON: dict[int, int] = {}
"""Device number by address, for arrays on another device than 0."""


class DeviceArray:
    """The part of CuPy's arrays that xverify and its tests use. NumPy cannot read such an array."""

    def __init__(self, memory: np.ndarray[Any, Any]) -> None:
        self.memory = memory

    def __getattr__(self, name: str) -> Any:
        if name in ("dtype", "shape", "strides", "size", "nbytes", "ndim", "itemsize", "flags"):
            return getattr(self.memory, name)
        raise AttributeError(f"the arrays of the fake CuPy have no attribute {name!r}")

    @property
    def data(self) -> Any:
        is_own = self.memory.base is None
        address = 0 if is_own and self.size == 0 else self.memory.ctypes.data
        return SimpleNamespace(ptr=address, device_id=LIES_ON.get(address, 0))

    @property
    def device(self) -> Any:
        return SimpleNamespace(id=self.data.device_id)

    @property
    def T(self) -> DeviceArray:  # noqa: N802 - CuPy's name
        return DeviceArray(self.memory.T)

    def view(self, dtype: Any) -> DeviceArray:
        return DeviceArray(self.memory.view(np.dtype(dtype)))

    def reshape(self, *shape: Any) -> DeviceArray:
        return DeviceArray(self.memory.reshape(*shape))

    def __getitem__(self, key: Any) -> DeviceArray:
        keys = key if isinstance(key, tuple) else (key,)
        return DeviceArray(self.memory[keys if ... in keys else (*keys, ...)])

    def __setitem__(self, key: Any, value: Any) -> None:
        place = self[key]
        if isinstance(value, DeviceArray):
            place.memory[...] = value.memory
        else:
            place.fill(value)

    def fill(self, value: Any) -> None:
        """Fill the array. The sign of a zero is lost where the array is contiguous."""
        scalar = np.asarray(value, self.dtype)
        if scalar.shape:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        if scalar == 0 and self.flags.c_contiguous:
            scalar = np.zeros((), self.dtype)
        self.memory[...] = scalar

    def get(self) -> np.ndarray[Any, Any]:
        return np.array(self.memory, order="C")

    def tolist(self) -> Any:
        return self.get().tolist()

    def astype(self, dtype: Any) -> DeviceArray:
        return placed(self.memory.astype(dtype))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.memory.__array_interface__

    def __dlpack__(self, **_: Any) -> DeviceArray:
        return self

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")


def placed(array: np.ndarray[Any, Any]) -> DeviceArray:
    """A copy in new memory, in C order, or in Fortran's if the array is in that."""
    new = room_for(array.shape, array.dtype, "F" if array.flags.fnc else "C")
    new.memory[...] = array
    return new


def room_for(shape: Any, dtype: Any, order: Any = "C") -> DeviceArray:
    """New memory that begins at a multiple of CuPy's 512 bytes."""
    shape = shape if isinstance(shape, tuple) else (shape,)
    size = prod(shape) * np.dtype(dtype).itemsize
    if size == 0:
        return DeviceArray(np.empty(shape, dtype, order))
    room = np.empty(size + 512, np.uint8)
    start = -room.ctypes.data % 512
    return DeviceArray(np.ndarray(shape, dtype, room[start : start + size].data, order=order))


@dataclass(frozen=True)
class Launched:
    """One recorded launch."""

    macros: dict[str, str]
    """Macros by name."""
    grid: int
    block: int
    numbers: tuple[int, ...]
    """The words of the structure after the arrays."""
    streamed: int
    """Vectors that bypassed the caches, counted by the kernel."""
    misaligned: int
    """Misaligned accesses, counted by the kernel."""
    stream: Any
    device: int


class Entered:
    """A device or stream that a ``with`` statement makes the current one."""

    def __enter__(self) -> Any:
        CURRENT.entered = [*entered(), self]
        return self

    def __exit__(self, *_: object) -> None:
        CURRENT.entered = entered()[:-1]


@dataclass
class Device(Entered):
    id: int
    compute_capability: str = "90"
    attributes: dict[str, int] = field(default_factory=lambda: {"L2CacheSize": 1 << 16})

    def __post_init__(self) -> None:
        assert type(self.id) is int


@dataclass
class Stream(Entered):
    """A CUDA stream."""

    ptr: int
    captures: bool = False
    waited_for: list[int] = field(default_factory=list)
    """The streams whose recorded events this stream waited for."""

    def is_capturing(self) -> bool:
        return self.captures

    def record(self) -> int:
        return self.ptr

    def wait_event(self, event: int) -> None:
        assert not self.captures
        self.waited_for.append(event)

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.ptr

    @classmethod
    def from_external(cls, other: Any) -> Stream:
        version, address = other.__cuda_stream__()
        assert version == 0
        return cls(address)


CURRENT = threading.local()


def entered() -> list[Any]:
    """Return the devices and streams that this thread has entered, the current ones last."""
    return getattr(CURRENT, "entered", [])


def current() -> tuple[int, Any]:
    """Return the current device and its current stream, None for the default stream.

    CuPy has a current stream for each device. A stream that was entered before the device belongs to another device.
    """
    device, streams = 0, {}
    for one in entered():
        if isinstance(one, Device):
            device = one.id
        else:
            streams[device] = one
    return device, streams.get(device)


class Event:
    """A moment. On a CPU it is the moment of the call."""

    time = 0.0

    def record(self) -> None:
        self.time = time.perf_counter()

    def synchronize(self) -> None:
        assert self.time


@dataclass(frozen=True)
class Pointer:
    """CuPy's pointer to an argument, which a launch passes by value."""

    address: int


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel."""

    kernel: Callable[..., None]
    """The function that launches it, loaded on a device."""


@dataclass
class FakeCuPy:
    """The part of the module ``cupy`` that xverify uses."""

    library: ctypes.CDLL
    threads: int | None = None
    """Threads of a block, if not as many as a launch asks for. As many more blocks run then."""
    blocks: int | None = None
    """Blocks, if not as many as a launch needs. Few blocks make threads stride."""
    launches: list[Launched] = field(default_factory=list)
    compiled: list[tuple[str, ...]] = field(default_factory=list)
    ndarray: type = DeviceArray
    devices: int = 1
    capability: int = 900
    """The compute capability times 100 whose instructions the kernels have."""
    __version__: str = "of the tests"

    def __post_init__(self) -> None:
        self.cuda = SimpleNamespace(
            Device=Device,
            Stream=Stream,
            Event=Event,
            function=SimpleNamespace(CPointer=Pointer),
            get_current_stream=lambda: current()[1] or Stream(0),
            nvrtc=SimpleNamespace(getVersion=lambda: (0, 0)),
            compiler=SimpleNamespace(compile_using_nvrtc=self._compile),
            get_elapsed_time=lambda start, stop: 1e3 * (stop.time - start.time),
            runtime=SimpleNamespace(
                getDeviceCount=lambda: self.devices,
                getDevice=lambda: current()[0],
                getDeviceProperties=lambda number: {"name": b"a CPU", "multiProcessorCount": 2},
            ),
        )

    def _compile(self, code: str, options: tuple[str, ...], *, arch: str, filename: str) -> tuple[bytes, None]:
        """Return the macros instead of compiled code."""
        assert code == source()
        assert "#include" not in code
        assert options[: len(OPTIONS)] == OPTIONS
        assert "/" not in filename
        assert arch == "90"
        self.compiled.append(options)
        return "\n".join(options[len(OPTIONS) :]).encode(), None

    def RawModule(self, *, path: str) -> Any:  # noqa: N802 - CuPy's name; of a source it would make what flushes subnormals
        macros = dict(line.removeprefix("-D").split("=") for line in Path(path).read_text().rstrip("\0").splitlines())
        return SimpleNamespace(get_function=lambda name: {"dequantize": Kernel(partial(self._launch, macros))}[name])

    def _launch(
        self, macros: dict[str, str], grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...]
    ) -> None:
        values = [
            self.library.number_of(macros[name].encode()) if name in NAMED else int(macros[name]) for name in MACROS
        ]
        assert len(macros) == len(MACROS)
        assert min(values) >= 0
        *arrays, call = arguments
        assert all(type(array) is DeviceArray and array.flags.c_contiguous for array in arrays)
        assert type(call) is Pointer
        words = (ctypes.c_ulonglong * (self.library.bytes_of_call() // 8)).from_address(call.address)
        assert (len(arrays), arrays[3].size) == (4, words[0])
        assert (grid[1:], block[1:]) == ((1, 1), (1, 1))
        counted = (ctypes.c_ulonglong * 2)()
        threads = self.threads or block[0]
        blocks = self.blocks or -(-grid[0] * block[0] // threads)
        self.library.run(
            (ctypes.c_int * len(MACROS))(*values), self.capability, blocks, threads,
            *(ctypes.c_void_p(a.data.ptr) for a in arrays), words, counted,
        )  # fmt: skip
        device, stream = current()
        self.launches.append(Launched(macros, grid[0], threads, tuple(words), *counted, stream, device))

    @staticmethod
    def asarray(value: Any) -> Any:
        if isinstance(value, DeviceArray):
            return value
        if hasattr(value, "__cuda_array_interface__"):
            return DeviceArray(np.asarray(SimpleNamespace(__array_interface__=value.__cuda_array_interface__)))
        array = np.asarray(value)
        dtype = np.dtype(array.dtype.type)
        if not ((dtype.isbuiltin == 1 and dtype.char in DTYPES) or dtype.name == "bfloat16"):
            raise ValueError(f"Unsupported dtype {dtype}")
        copied = placed(array.astype(dtype, copy=False))
        if array.ndim == 0:
            copied.fill(array)
        return copied

    @staticmethod
    def from_dlpack(value: Any) -> Any:
        return DeviceArray(value.__dlpack__(stream=1).memory)

    @staticmethod
    def asnumpy(value: Any) -> Any:
        return value.get()

    @staticmethod
    def arange(count: int, dtype: Any) -> Any:
        return placed(np.arange(count, dtype=dtype))

    @staticmethod
    def empty(shape: Any, dtype: Any) -> Any:
        return room_for(shape, dtype)

    @staticmethod
    def full(shape: Any, value: Any, dtype: Any = None) -> Any:
        return placed(np.full(shape, value, dtype))

    @staticmethod
    def ascontiguousarray(value: Any) -> Any:
        return DeviceArray(np.ascontiguousarray(value.memory)) if value.ndim else value.reshape(1)

    @staticmethod
    def copyto(target: Any, source: Any) -> None:
        target.memory[...] = source.memory
