"""The machine and the versions of packages, for whoever reads a result elsewhere."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_INSTRUCTIONS = (
    "avx", "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8",
    "amx_bf16", "asimd", "asimdhp", "asimddp", "bf16", "i8mm", "sve", "sve2",
)  # fmt: skip
"""Those by which libraries choose among their kernels, as Linux names them: where one lacks, another kernel answers."""


def machine() -> dict[str, Any]:
    """System, architecture, processor, the vector instructions it has as far as they are known, and the number of its cores."""
    told = _told_of_processor()
    has = (told.get("flags") or told.get("Features") or "").split()
    instructions = " ".join(name for name in _INSTRUCTIONS if name in has)
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": told.get("model name") or platform.processor() or platform.machine(),
        **({"instructions": instructions} if instructions else {}),
        "cores": os.cpu_count(),
    }


def _told_of_processor() -> dict[str, str]:
    """What Linux tells of the first core, by name; nothing elsewhere."""
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8").strip().split("\n\n")[0]
    except OSError:
        return {}
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.splitlines())}


MISSING = "not installed"


def versions(distributions: Iterable[str]) -> dict[str, str]:
    """Of these distributions; `MISSING` where one is not."""
    found = {}
    for name in distributions:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = MISSING
    return found
