"""The kernels' source, compiled for a card and kept on disk.

CuPy's way from a source to a kernel puts ``-ftz=true`` behind all options that it is given (cupy's issue 9576), by which
subnormal numbers become zeros. Its compiler alone adds only what the card asks for.
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
INCLUDED = ("arithmetic.cuh", "ranges.cuh")

OPTIONS = ("-std=c++17", "-fmad=false", "-ftz=false", "-prec-div=true")
"""The source contracts and flushes nothing by itself; these are the defaults, but for the first two."""


@lru_cache(maxsize=1)
def source() -> str:
    """The kernel's source, whole: what it includes stands in it, since NVRTC is given no directory."""
    text = SOURCE.read_text(encoding="utf-8")
    for name in INCLUDED:
        text = text.replace(f'#include "{name}"\n', SOURCE.with_name(name).read_text(encoding="utf-8"))
    return text


@cache
def compiled(macros: tuple[str, ...], capability: str) -> Any:
    """The kernel with these macros, for the compute capability of the current device, as CuPy's function: CuPy loads it on each
    device that it is launched on."""
    return cupy().RawModule(path=str(_file(macros, capability))).get_function("dequantize")


def binary(macros: tuple[str, ...]) -> bytes:
    """What NVRTC makes of the source for the current device: its instructions, or PTX where it does not know the card yet."""
    code, _ = cupy().cuda.compiler.compile_using_nvrtc(source(), (*OPTIONS, *macros), filename="dequantize.cu")
    # CuPy takes the last byte for the end of a text, and leaves it out; in a file of instructions it must not be missing.
    return (code.encode() if isinstance(code, str) else bytes(code)) + b"\0"


def _file(macros: tuple[str, ...], capability: str) -> Path:
    """Where that is: among what CuPy keeps, or for this process alone where nothing can be written there."""
    found = cupy()
    made_of = source(), OPTIONS, macros, capability, found.__version__, found.cuda.nvrtc.getVersion()
    name = f"xverify-{hashlib.sha256(repr(made_of).encode()).hexdigest()[:32]}.cubin"
    kept = Path(os.environ.get("CUPY_CACHE_DIR") or Path.home() / ".cupy" / "kernel_cache") / name
    if kept.is_file():
        return kept
    content = binary(macros)
    try:
        return _written(kept, content)
    except OSError:
        return _written(Path(_own().name) / name, content)


def _written(path: Path, content: bytes) -> Path:
    """The path, at which the content is as soon as anything is."""
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
    """A directory that ends with the process."""
    return TemporaryDirectory(prefix="xverify-")
