"""The machine and the versions of packages, as a report states them."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

_INSTRUCTIONS = (
    "avx", "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8",
    "amx_bf16", "asimd", "asimdhp", "asimddp", "bf16", "i8mm", "sve", "sve2",
)  # fmt: skip
"""Instruction sets by which libraries choose among their kernels, by their names in Linux."""


def machine() -> dict[str, Any]:
    """System, architecture, processor, vector instructions if they are known, and number of cores."""
    processor = _processor_entry()
    instructions = " ".join(name for name in _INSTRUCTIONS if name in _flags(processor))
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": processor.get("model name") or platform.processor() or platform.machine(),
        **({"instructions": instructions} if instructions else {}),
        "cores": os.cpu_count(),
    }


def instruction_sets() -> frozenset[str]:
    """The processor's flags, by their names in Linux. Empty on other systems."""
    return frozenset(_flags(_processor_entry()))


def _flags(processor: Mapping[str, str]) -> list[str]:
    return (processor.get("flags") or processor.get("Features") or "").split()


def _processor_entry() -> dict[str, str]:
    """The entry of the first core in Linux's /proc/cpuinfo. Empty on other systems."""
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8").strip().split("\n\n")[0]
    except OSError:
        return {}
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.splitlines())}


MISSING = "not installed"
"""The version of a distribution that is not installed."""


def versions(distributions: Iterable[str]) -> dict[str, str]:
    """The versions of distributions by name, `MISSING` for one that is not installed."""
    installed = {}
    for name in distributions:
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            installed[name] = MISSING
    return installed
