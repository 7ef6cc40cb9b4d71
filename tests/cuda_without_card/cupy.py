"""In the place of CuPy, for processes whose PYTHONPATH begins here: the CUDA kernels' source, compiled for the CPU."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from cuda_on_cpu import FakeCuPy, built

sys.modules[__name__] = FakeCuPy(built())  # type: ignore[assignment]
