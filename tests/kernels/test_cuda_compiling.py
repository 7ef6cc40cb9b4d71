"""Compilation of the CUDA kernels' source, and the cache on disk. No test needs a GPU.

Where CuPy is installed, NVIDIA's compiler is checked too.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from cuda_arrays import on_device, random, scales
from cuda_on_cpu import FakeCuPy
from kernel_arrays import SEED, dtype_of

from xverify.kernels.blocks import Spread
from xverify.kernels.cuda import (
    dequantize_linear,
    dequantize_packed,
    dequantize_range,
    dynamic_dequantize,
    linear,
    ranges,
)  # fmt: skip
from xverify.kernels.cuda.compiling import compiled, source
from xverify.kernels.cuda.launch import MORE, THREADS, Launch, loaded
from xverify.kernels.cuda.prepare import kernels, main, prepare
from xverify.kernels.plans import Operand


def asked(cupy: FakeCuPy) -> int:
    """Call in a process that has no kernel loaded. Return how often the compiler ran so far."""
    compiled.cache_clear()
    loaded.cache_clear()
    linear.linear_plan.cache_clear()
    got = dequantize_linear(on_device(np.arange(3, dtype=np.uint8)), on_device(np.float32([2, 4, 8])), axis=0)
    assert got.tolist() == [0, 4, 16]
    return len(cupy.compiled)


def test_compiled_kernels_are_cached_on_disk(cupy: FakeCuPy, tmp_path: Path) -> None:
    assert [asked(cupy), asked(cupy)] == [1, 1]
    (kept,) = tmp_path.iterdir()
    assert re.fullmatch(r"xverify-[0-9a-f]{32}\.cubin", kept.name)


def test_kernels_are_cached_in_cupys_folder(cupy: FakeCuPy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUPY_CACHE_DIR")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    asked(cupy)
    assert [file.suffix for file in (tmp_path / ".cupy" / "kernel_cache").iterdir()] == [".cubin"]


def test_another_compiler_has_files_of_its_own(cupy: FakeCuPy, tmp_path: Path) -> None:
    asked(cupy)
    cupy.cuda.nvrtc.getVersion = lambda: (13, 1)
    assert asked(cupy) == 2
    assert len(list(tmp_path.iterdir())) == 2


def test_nothing_is_left_of_a_file_that_could_not_be_written(
    cupy: FakeCuPy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = os.replace

    def replaced(source: str, target: Path) -> None:
        if target.is_relative_to(tmp_path):
            raise OSError("no space left")
        replace(source, target)

    monkeypatch.setattr(os, "replace", replaced)
    assert asked(cupy) == 1
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_can_be_kept_it_is_compiled_in_each_process(
    cupy: FakeCuPy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert [asked(cupy), asked(cupy)] == [1, 2]


def test_the_source_has_the_launchs_numbers() -> None:
    assert f"#define THREADS {THREADS}\n" in source()
    assert f"#define MOST_VECTORS {MORE}\n" in source()


@pytest.mark.parametrize("packed", [False, True])
def test_prepared_kernels_are_not_compiled_in_a_call(cupy: FakeCuPy, packed: bool) -> None:
    onednn = "onednn/Dequantize-1@3.5"
    wanted = kernels([SEED, onednn, "ai.onnx/DequantizeLinear-25"], packed)
    assert prepare(wanted, "90", 2) == len(wanted) == len(set(wanted)) == len(cupy.compiled)
    assert prepare(wanted, "90", 2) == 0
    x, table = random("uint8", (6, 8), 1), on_device(np.zeros(ranges.LOOK_UP_FROM, np.uint8))
    scale, scales_of_columns = on_device(np.float32([2])), scales("float32", (8,), 1)
    for name in ("int4", "float4_e2m1fn"):
        for factor, axis in ((scales_of_columns[0], None), (scales_of_columns, 1), (scales_of_columns[:6], 0)):
            if packed:
                dequantize_packed(on_device(x.ravel()[:24]), on_device(factor), dtype=name, shape=x.shape, axis=axis)
            else:
                dequantize_linear(on_device(x), on_device(factor), x_dtype=name, axis=axis)
    if not packed:
        dynamic_dequantize(on_device(x), scale, on_device(np.int64([1])), contract=onednn)
        for codes in (on_device(x), table):
            dequantize_range(codes, scale.reshape(()), scale.reshape(()), mode="SCALED", contract=SEED)
    assert len(cupy.compiled) == len(wanted)
    assert len(cupy.launches) == (6 if packed else 10)


def test_prepare_refuses_wrong_options_and_a_cache_that_cannot_be_written(
    cupy: FakeCuPy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for options, sentence in (
        (["--contract", "ai.onx/*"], "no edition matches 'ai.onx/*'"),
        (["--jobs", "0"], "--jobs is 0; expected 1 or more"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(options)
        assert sentence in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert main(["--contract", SEED, "--jobs", "1"]) == 3
    assert "CuPy's cache cannot be written: [Errno 20]" in capsys.readouterr().err
    assert len(cupy.compiled) < len(kernels([SEED])), "the first failure ends it"


PTX = """
import sys
from xverify.kernels.cuda import compiling
way = f"-arch=compute_{sys.argv[1]}", "ptx"
compiling.cupy().cuda.compiler._get_arch_for_options_for_nvrtc = lambda arch: way
sys.stdout.buffer.write(compiling.binary(tuple(sys.argv[2:]), sys.argv[1]))
"""
"""Prints the PTX that CuPy compiles for a compute capability. No GPU needs to be there."""


def ptx_of(capability: str, launch: Launch) -> str:
    """Return the PTX that NVRTC generates for a launch."""
    made = subprocess.run([sys.executable, "-c", PTX, capability, *launch.macros], capture_output=True)
    assert made.returncode == 0, made.stderr.decode()
    return made.stdout.decode()


@pytest.mark.skipif(find_spec("cupy") is None, reason="CuPy is not installed; pip install -e '.[cuda]'")
@pytest.mark.parametrize("capability", ["75", "80", "90"])
def test_cupy_and_nvrtc_flush_and_contract_nothing(capability: str) -> None:
    """The kernels contain every kind of product, subnormal ones included."""
    for x, out, formula in (
        ("float4_e2m1fn", "float32", "PRODUCT"), ("uint8", "float16", "PRODUCT"), ("int32", "bfloat16", "PRODUCT"),
        ("int16", "float32", "MIN_COMBINED"), ("int8", "float32", "SCALED_FACTOR"),
    ):  # fmt: skip
        end = Operand(np.dtype(np.float32), (9,))
        given = Operand(dtype_of(x), (7, 9)), end, None if formula == "PRODUCT" else end.dtype, Spread(1), formula
        ptx = ptx_of(capability, Launch.of(dtype_of(out), *given))
        found = set(re.findall(r"\b(?:fma|mul|sub|add|div|cvt|setp)\.[a-z0-9.]*", ptx))
        assert any(".f32" in instruction for instruction in found)
        assert not [instruction for instruction in found if ".ftz" in instruction]


@pytest.mark.skipif(find_spec("cupy") is None, reason="CuPy is not installed; pip install -e '.[cuda]'")
@pytest.mark.parametrize(
    ("capability", "x", "out", "conversions"),
    [
        ("75", "uint8", "float16", {"cvt.rn.f16.f32", "cvt.f32.f16"}),
        ("75", "uint8", "bfloat16", set()),
        ("80", "uint8", "float16", {"cvt.rn.f16x2.f32", "cvt.f32.f16"}),
        ("80", "float8_e4m3fn", "float32", set()),
        ("90", "float8_e4m3fn", "bfloat16", {"cvt.rn.f16x2.e4m3x2", "cvt.f32.f16", "cvt.rn.bf16x2.f32"}),
        ("90", "float8_e5m2", "bfloat16", {"cvt.f32.f16", "cvt.rn.bf16x2.f32"}),
    ],
)
def test_conversions_are_those_of_the_card(capability: str, x: str, out: str, conversions: set[str]) -> None:
    """Integers take none. Vectors are loaded and stored at once, and nothing lies in local memory."""
    scale = Operand(dtype_of(out), ())
    ptx = ptx_of(capability, Launch.of(dtype_of(out), Operand(dtype_of(x), (7, 9)), scale, None, Spread()))
    assert set(re.findall(r"\bcvt\.[a-z0-9.]*f[a-z0-9.]*", ptx)) == conversions
    assert re.search(r"st\.global\.cs\.v4", ptx)
    assert ".local" not in ptx
