"""The command passes right kernels, and none that answers almost nothing. `make alarms` does more."""

from __future__ import annotations

from pathlib import Path

import pytest
from detection import installed, whole_gate
from flawed_kernels.table import ALMOST_NOTHING, SOUND, AlmostNothing, Sound
from native_compiler import NATIVE, compiler

from xverify import contracts

SOUND_EXAMPLE = Sound(str(NATIVE / "dequantize.c") + ":dequantize")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all gates, so that each source is compiled once."""
    return tmp_path_factory.mktemp("gates")


def named(kernels):
    return [pytest.param(kernel, id=" ".join((kernel.target, *kernel.options))) for kernel in kernels]


@pytest.mark.parametrize("sound", named((*SOUND, SOUND_EXAMPLE)))
def test_a_sound_kernel_passes(sound: Sound, folder: Path):
    """The gate walks a few types. `make gate` and `make alarms` walk the whole domain."""
    if ".c:" in sound.target and compiler() is None:
        pytest.skip("there is no C compiler: pip install ziglang")
    if not installed(sound):
        pytest.skip(f"needs {', '.join(sound.needs)}")
    types = [name for name in ("int8", "uint4") if name in contracts.get(sound.contract).domain.x_dtypes]
    few = ("--walk-only", "--x-dtypes", ",".join(types), "--scale-dtypes", "float32")
    whole = whole_gate(sound, 0, folder, 120, few)
    assert whole.exit_code == 0, whole.lines


@pytest.mark.parametrize("kernel", named({kernel.exit_code: kernel for kernel in ALMOST_NOTHING}.values()))
def test_a_kernel_that_answers_almost_nothing_does_not_pass(kernel: AlmostNothing, folder: Path):
    """One for each exit code. `test_gate_evidence.py` gates all of them in its own process."""
    whole = whole_gate(kernel, 0, folder, 120, ("--walk-only", "--x-dtypes", "int8", "--scale-dtypes", "float32"))
    assert whole.exit_code == kernel.exit_code, whole.lines
