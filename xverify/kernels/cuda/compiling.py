"""Compile the kernels' source for a card, and cache the result on disk.

CuPy's own compilation of a kernel appends ``-ftz=true`` to all options (cupy's issue 9576), which makes subnormal numbers zeros.
CuPy's interface to the compiler alone adds only the options of the card.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache, lru_cache
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any

from xverify.kernels.cuda.arrays import cupy

SOURCE = Path(__file__).with_name("dequantize.cu")
INCLUDED = ("arithmetic.cuh", "instructions.cuh", "ranges.cuh")

OPTIONS = ("-std=c++17", "-fmad=false", "-ftz=false", "-prec-div=true")
"""Options against contracted multiply-adds and flushed subnormals. All but the first two are defaults."""


@lru_cache(maxsize=1)
def source() -> str:
    """The kernel's source with its includes in place, since NVRTC gets no directory."""
    text = SOURCE.read_text(encoding="utf-8")
    for name in INCLUDED:
        text = text.replace(f'#include "{name}"\n', SOURCE.with_name(name).read_text(encoding="utf-8"))
    return text


@cache
def compiled(macros: tuple[str, ...], capability: str) -> Any:
    """The kernel with these macros for the current device's compute capability, as CuPy's function.

    CuPy loads it on each device on which it is launched.
    """
    return cupy().RawModule(path=str(_file(macros, capability))).get_function("dequantize")


def binary(macros: tuple[str, ...], capability: str) -> bytes:
    """NVRTC's output: machine code for that compute capability, or PTX if it does not know it yet."""
    compiler = cupy().cuda.compiler
    code, _ = compiler.compile_using_nvrtc(source(), (*OPTIONS, *macros), arch=capability, filename="dequantize.cu")
    # CuPy takes the last byte for the end of a text and drops it. Machine code needs it.
    return (code.encode() if isinstance(code, str) else bytes(code)) + b"\0"


def ensured(macros: tuple[str, ...], capability: str) -> bool:
    """Compile a kernel into the cache. False if it was there. Several threads may call it at once.

    Raises:
        OSError: The cache cannot be written.
    """
    cached = _cached(macros, capability)
    if cached.is_file():
        return False
    _written(cached, binary(macros, capability))
    return True


def _cached(macros: tuple[str, ...], capability: str) -> Path:
    """The kernel's file in CuPy's cache, which may not be there yet."""
    module = cupy()
    made_of = source(), OPTIONS, macros, capability, module.__version__, module.cuda.nvrtc.getVersion()
    name = f"xverify-{hashlib.sha256(repr(made_of).encode()).hexdigest()[:32]}.cubin"
    return Path(os.environ.get("CUPY_CACHE_DIR") or Path.home() / ".cupy" / "kernel_cache") / name


def _file(macros: tuple[str, ...], capability: str) -> Path:
    """The file of the kernel: in CuPy's cache, or in a temporary directory if that cannot be written."""
    cached = _cached(macros, capability)
    if cached.is_file():
        return cached
    content = binary(macros, capability)
    try:
        return _written(cached, content)
    except OSError:
        return _written(Path(_own().name) / cached.name, content)


def _written(path: Path, content: bytes) -> Path:
    """Write the content atomically, and return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, delete=False) as file:
        try:
            file.write(content)
            file.close()
            os.replace(file.name, path)
        except BaseException:  # a full disk, or Ctrl-C
            Path(file.name).unlink(missing_ok=True)
            raise
    return path


@lru_cache(maxsize=1)
def _own() -> TemporaryDirectory[str]:
    """A temporary directory that is removed at the end of the process."""
    return TemporaryDirectory(prefix="xverify-")
