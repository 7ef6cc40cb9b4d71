"""The benchmark of the CUDA kernels with the fake CuPy: output, peers, and reasons for no figures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmark_scripts import script
from cuda_on_cpu import DeviceArray, FakeCuPy
from folders import ROOT

from xverify.bench.cases import case_of
from xverify.core.call import code_dtype
from xverify.core.dtypes import numpy_dtype

CARD = script("card")
FEW = [
    "--types",
    "uint8",
    "--granularities",
    "per-tensor",
    "--sizes",
    "96",
    "--rounds",
    "1",
    "--calls",
    "2",
    "--modes",
    "",
]


def numpy_library(name: str = "NumPy", scaled_by: float = 1) -> Any:
    """A peer that computes with NumPy in the memory of the fake's arrays."""
    return CARD.Library(
        name,
        array=lambda codes: codes.memory,
        view=lambda array, name: array.view(numpy_dtype(name)),
        cast=lambda array, name: array.astype(numpy_dtype(name)),
        stack=lambda arrays: np.stack(arrays, -1),
        floats=("float8_e5m2",),
        compiled=lambda function: lambda *operands: function(*operands) * np.float32(scaled_by),
        codes=lambda result, name: result.astype(numpy_dtype(name)).view(code_dtype(name)),
    )


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The peers of the benchmark, to be filled by a test."""
    listed: list[Any] = []
    monkeypatch.setattr(CARD, "libraries", lambda cupy: listed)
    return listed


def test_the_benchmark(cupy: FakeCuPy, peers: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "card.json"
    options = [
        "--types",
        "uint8,packed-uint2:bfloat16,int32:float16",
        "--sizes",
        "1,1024",
        "--rounds",
        "3",
        "--calls",
        "2",
    ]
    assert CARD.main([*options, "--json", str(file)]) == 0
    figures = json.loads(file.read_text())["figures"]
    # A case of one element for each pair. uint8 to float32 has the three range modes too, in three granularities.
    assert [figure["right"] for figure in figures] == [True] * (3 + 15 + 9)
    assert {figure["x"]: figure["packed"] for figure in figures} == {"uint8": False, "uint2": True, "int32": False}
    assert [figure["mode"] for figure in figures[1:5]] == ["", "MIN_COMBINED", "MIN_FIRST", "SCALED"]
    assert len(capsys.readouterr().out.splitlines()) == 2 + 3 + 15 + 9
    single, first = figures[:2]
    assert (single["elements"], single["host_us"] > 0) == (1, True)
    assert (first["x"], first["granularity"], first["elements"]) == ("uint8", "per-tensor", 1024)
    # This is a ratio of times. Its last bit depends on the order of the operations.
    assert first["per_cent"] == pytest.approx(100 * first["kernel_bytes_per_second"] / first["copy_bytes_per_second"])
    for wrong, sentence in (
        (["--modes", "MAX"], "'MAX' is no mode; there are MIN_COMBINED"),
        (["--calls", "0"], "expected 1 or more"),
        (["--json", str(tmp_path / "none" / "card.json")], "card.json does not exist"),
    ):
        with pytest.raises(SystemExit, match="2"):
            CARD.main([*options, *wrong])
        assert sentence in capsys.readouterr().err


def test_wrong_bits_are_named(
    cupy: FakeCuPy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(CARD, "expected", lambda case, operands: np.full(case.shape, 7, case.out_dtype))
    assert CARD.main([*FEW, "--no-peers"]) == 1
    assert "OTHER BITS THAN NUMPY'S" in capsys.readouterr().out


def test_an_interrupt_ends_the_benchmark_with_a_sentence(
    cupy: FakeCuPy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(CARD, "measure", interrupted)
    assert CARD.main([*FEW, "--no-peers", "--json", str(tmp_path / "card.json")]) == 130
    assert capsys.readouterr().err == (f"card.py was interrupted: the figures so far are in {tmp_path / 'card.json'}\n")
    assert json.loads((tmp_path / "card.json").read_text())["figures"] == []


@pytest.mark.parametrize("wrong", ["abc", "8.0", "80,", ""])
def test_a_wrong_capability_is_refused(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        script("cuda_instructions").main(["--capabilities", wrong])
    assert "is no compute capability; write it without a dot: 80,90" in capsys.readouterr().err


def test_any_nan_equals_any_nan() -> None:
    codes = np.uint32([0x7FC00000, 0xFFC00001, 0x3F800000])
    assert CARD.same_bits(np.uint32([0x7F800001, 0x7FC00000, 0x3F800000]), codes, "float32")
    assert not CARD.same_bits(np.uint32([0x7F800000, 0x7FC00000, 0x3F800000]), codes, "float32")
    assert not CARD.same_bits(np.uint32([0]), np.uint32([0x80000000]), "float32")


@pytest.mark.parametrize("granularity", ["per-tensor", "per-axis", "per-axis-last", "blocked", "blocked-first"])
@pytest.mark.parametrize(
    "pair", ["uint8:float32", "int4:bfloat16", "packed-int4:float16", "packed-uint2:float32", "packed-float6_e3m2fn:float16",
             "float4_e2m1fn:float32", "float8_e4m3fn:float16", "float8_e5m2:bfloat16", "int16:float32"],
)  # fmt: skip
def test_the_naive_expression_of_peers_is_right(cupy: FakeCuPy, pair: str, granularity: str) -> None:
    case = case_of(*pair.split(":"), granularity, 96 * 128)
    data = CARD.drawn(case, "", 1)
    there = [CARD.sent(cupy, array) for array in data.arrays]
    library = numpy_library()
    work = CARD.naive(library, case, there, lambda array: CARD.sent(cupy, array))
    assert CARD.same_bits(library.codes(work(), case.out_dtype), data.right, case.out_dtype)


def test_a_peer_with_other_bits_is_marked_and_one_that_fails_gives_its_reason(
    cupy: FakeCuPy, peers: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: Any) -> Any:
        raise RuntimeError("no such type\nin this library")

    peers += ["PyTorch is not installed", numpy_library(), numpy_library("wrong", 1.5)]
    peers.append(numpy_library("broken")._replace(array=broken))
    assert CARD.main([*FEW, "--json", str(tmp_path / "card.json")]) == 0, "only the kernel's bits count"
    output = capsys.readouterr().out
    assert "not measured: PyTorch is not installed" in output
    assert "not measured: broken, uint8 to float32, per-tensor: RuntimeError: no such type\n" in output
    (figure,) = json.loads((tmp_path / "card.json").read_text())["figures"]
    assert {name: peer.get("right") for name, peer in figure["peers"].items()} == {
        "NumPy": True, "wrong": False, "broken": None
    }  # fmt: skip
    assert [line.count("OTHER BITS") for line in output.splitlines() if line.startswith("uint8")] == [1]


def test_cases_after_the_time_limit_are_listed(cupy: FakeCuPy, capsys: pytest.CaptureFixture[str]) -> None:
    assert CARD.main([*FEW, "--no-peers", "--seconds", "0"]) == 0
    assert "not measured: uint8 to float32, per-tensor, 96 elements: the 0 s are over" in capsys.readouterr().out


def test_a_case_that_fails_does_not_stop_the_others(
    cupy: FakeCuPy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measure = CARD.measure

    def failing(module: Any, case: Any, *rest: Any) -> Any:
        return 1 / 0 if case.elements == 64 else measure(module, case, *rest)

    monkeypatch.setattr(CARD, "measure", failing)
    assert CARD.main([*FEW, "--no-peers", "--sizes", "64,96"]) == 1
    output = capsys.readouterr().out
    assert "64 elements: FAILED: ZeroDivisionError: division by zero" in output
    assert sum(line.startswith("uint8 to float32") for line in output.splitlines()) == 1


def test_without_a_card_the_reason_is_given(
    cupy: FakeCuPy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unusable(shape: Any, dtype: Any) -> DeviceArray:
        raise RuntimeError("cudaErrorMemoryAllocation: out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(cupy, "empty", unusable)
        assert CARD.main(FEW) == 3
        assert capsys.readouterr().err == "nothing was measured: cudaErrorMemoryAllocation: out of memory\n"
    cupy.devices = 0
    assert CARD.main(FEW) == 3
    assert "nothing was measured: CuPy finds no CUDA device here (it counts 0 devices)" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert CARD.main(FEW) == 3
    assert "nothing was measured: the CUDA kernels need CuPy (import of cupy halted" in capsys.readouterr().err


def test_no_script_hides_a_package_that_cupy_imports() -> None:
    """The folder of a script is the first in which Python looks for modules."""
    names = {file.stem for file in (ROOT / "benchmarks").glob("*.py")}
    assert not names & {"cuda", "cupy", "numpy", "torch", "triton", "fastrlock"}
