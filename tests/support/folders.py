"""Folders that the tests use."""

from __future__ import annotations

from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
TESTS = SUPPORT.parent
ROOT = TESTS.parent
FLAWED_KERNELS = TESTS / "flawed_kernels"
