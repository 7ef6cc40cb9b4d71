"""The description of the machine, from Linux and without its help."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from xverify.core import machine

X86 = """processor\t: 0
model name\t: Some Processor 5
flags\t\t: fpu avx2 avx512_vnni sse2 avx512f avx

processor\t: 1
model name\t: Another
flags\t\t: fpu avx amx_tile
"""
ARM = """processor\t: 0
BogoMIPS\t: 50.00
Features\t: fp asimd asimdhp
"""


def machine_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str | None) -> dict[str, object]:
    """The description of a machine with this text in /proc/cpuinfo, or with no such file."""
    file = tmp_path / "cpuinfo"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    monkeypatch.setattr(machine, "Path", lambda _: file)
    return machine.machine()


def test_the_processor_is_read_from_linux_cpuinfo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert machine_with(monkeypatch, tmp_path, X86) == {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": "Some Processor 5",
        "instructions": "avx avx2 avx512f avx512_vnni",
        "cores": os.cpu_count(),
    }


def test_a_processor_without_a_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    description = machine_with(monkeypatch, tmp_path, ARM)
    assert description["processor"] == (platform.processor() or platform.machine())
    assert description["instructions"] == "asimd asimdhp"


@pytest.mark.parametrize("text", [None, "", "no colon\n"])
def test_the_processor_without_cpuinfo(text: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    description = machine_with(monkeypatch, tmp_path, text)
    assert description["processor"] == (platform.processor() or platform.machine())
    assert "instructions" not in description
