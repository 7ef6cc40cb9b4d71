"""In the place of CuPy, for processes whose PYTHONPATH begins here: the CUDA kernels' source, compiled for the CPU."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from cuda_arrays import library
from cuda_on_cpu import FakeCuPy

sys.modules[__name__] = FakeCuPy(library())  # type: ignore[assignment]
