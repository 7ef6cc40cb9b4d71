"""Bit-for-bit verification of every implementation of dequantization.

The public functions are imported on first use, so that `import xverify` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xverify.kernels import dequantize_linear, dequantize_packed, dequantize_range, dynamic_dequantize

__version__ = "0.1.0"

__all__ = ["__version__", "dequantize_linear", "dequantize_packed", "dequantize_range", "dynamic_dequantize"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        # Kept, so that the next access is an ordinary one and does not come here.
        globals()[name] = getattr(import_module("xverify.kernels"), name)
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
