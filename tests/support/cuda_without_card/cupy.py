"""A stand-in for CuPy for processes whose PYTHONPATH has this folder: kernels run on the CPU."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from cuda_on_cpu import KEPT, FakeCuPy, built

os.environ.setdefault("CUPY_CACHE_DIR", str(KEPT / "cuda_on_cpu"))
sys.modules[__name__] = FakeCuPy(built())  # type: ignore[assignment]
