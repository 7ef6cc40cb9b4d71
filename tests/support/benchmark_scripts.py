"""The scripts of `benchmarks/` as modules."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

from folders import ROOT


def script(name: str) -> Any:
    """Import ``benchmarks/NAME.py``."""
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module
