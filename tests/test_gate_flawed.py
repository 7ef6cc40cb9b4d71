"""The gate stops every flawed kernel, and no sound one. For how soon, and for more seeds: make detection."""

from __future__ import annotations

from pathlib import Path

import pytest
from detection import KERNELS, detect, until_walked
from flawed_kernels.table import FLAWED, SOUND, Flawed, Sound
from native_compiler import NATIVE, compiler

SOUND_EXAMPLE = Sound(str(NATIVE / "dequantize.c") + ":dequantize", SOUND[0].contract)


def compilable(target: str) -> None:
    if ".c:" in target and compiler() is None:
        pytest.skip("there is no C compiler: pip install ziglang")


@pytest.mark.parametrize("flawed", FLAWED, ids=lambda flawed: flawed.name)
def test_a_flawed_kernel_is_stopped(flawed: Flawed, tmp_path: Path):
    compilable(flawed.target)
    found = detect(flawed, 0, tmp_path, budget=60)
    assert found.verdicts & flawed.expected, f"{found.verdicts or 'nothing'} for {sorted(flawed.expected)}"
    assert found.seconds is not None


@pytest.mark.parametrize("sound", [*SOUND, SOUND_EXAMPLE], ids=lambda sound: sound.target.rpartition(":")[2])
def test_a_sound_kernel_is_not(sound: Sound, tmp_path: Path):
    """With one type of scale; `make gate` walks the whole domain with the in-house kernel, `make alarms` with these."""
    compilable(sound.target)
    report = until_walked(sound, 0, tmp_path, ("float32",))
    assert [finding["summary"] for finding in report["findings"]] == []
    assert report["gate"]["outcome"] == "pass", report["gate"]["reason"]


def test_every_kernel_is_where_the_table_says():
    assert all((KERNELS / flawed.target.rpartition(":")[0]).is_file() for flawed in FLAWED)
    assert len({flawed.source for flawed in FLAWED}) >= 40
    assert sum(flawed.native for flawed in FLAWED) >= 12
