"""Short scripts and programs of issue bodies: literals, printed bits, commands, and hostile text."""

from __future__ import annotations

import ast
import copy
import importlib.util
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample_report import (
    HOSTILE,
    ONEDNN,
    ONNX,
    call,
    finding,
    gave,
    range_call,
    refused,
    sample_report,
    tensor,
    wrong,
)
from scripts_run import run_file

from xverify.core.call import LAYOUTS, LEAST_RANK, Tensor
from xverify.report import issue_body
from xverify.report.issue import MOST_SCRIPT_LINES
from xverify.report.short_script import MOST_SPELLED, operand, short_program, short_script


def evaluated(lines: list[str]) -> Any:
    """Return the tensor that lines of a script make."""
    import base64
    import zlib

    import ml_dtypes

    names: dict[str, Any] = {"np": np, "ml_dtypes": ml_dtypes, "base64": base64, "zlib": zlib}
    exec("\n".join(lines), names)
    return names["x"]


LITERALS = [
    Tensor("int32", np.array([0x80000000, 1, 0xFFFFFFFF], np.uint32)),
    Tensor("float32", np.array([0x7FC00000, 0x7F800000, 0xFF800000, 0x80000000, 1, 0x44FFFFFF], np.uint32)),
    Tensor("float32", np.array([0x7FC00001, 0xFFC00000], np.uint32)),
    Tensor("float16", np.array([[0x0001, 0xFC00], [0x3C01, 0x8000]], np.uint16)),
    Tensor("bfloat16", np.array([0x3F81, 0x7FC1], np.uint16)),
    Tensor("float8_e4m3fn", np.arange(256, dtype=np.uint8).reshape(16, 16)),
    Tensor("int4", np.array([0xF, 0x7, 0x8], np.uint8)),
    Tensor("float32", np.array(0x3DCCCCCD, np.uint32)),
    Tensor("int8", np.zeros((2, 0, 3), np.uint8)),
    Tensor("int8", np.full((3, 2), 0x80, np.uint8)),
    Tensor("float16", np.array([[1, 2, 3]] * 2, np.uint16)),
    Tensor("uint8", np.array([0] * 20 + [154] + [0] * 243, np.uint8).reshape(2, 132)),
    Tensor("float16", np.array([[0x3C01] * 40 + [0x8000]] * 2, np.uint16)),
    Tensor("uint8", np.random.default_rng(6).integers(0, 256, 26, np.uint8)),
    Tensor("float8_e5m2", np.random.default_rng(7).integers(0, 256, (4, 64), np.uint8)),
    Tensor("int16", np.random.default_rng(3).integers(0, 1 << 16, (7, 101), np.uint16)),
    Tensor("bfloat16", np.random.default_rng(4).integers(0, 1 << 16, 501, np.uint16)),
]


@pytest.mark.parametrize("given", LITERALS, ids=lambda t: f"{t.dtype}-{t.shape}")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_literal_gives_back_the_bits_the_shape_and_the_layout(given: Tensor, layout: str) -> None:
    laid = Tensor(given.dtype, given.codes, layout)
    lines = operand("x", laid)
    array = evaluated(lines)
    assert (array.dtype.name, array.shape) == (given.dtype, given.shape)
    codes = np.ascontiguousarray(array).view(given.codes.dtype).reshape(given.shape)
    assert (codes & ((1 << 4) - 1) == given.codes).all() if given.dtype == "int4" else (codes == given.codes).all()
    assert max(map(len, lines)) <= 300
    if given.size > 1 and (layout in LEAST_RANK or layout == "broadcast") and len(given.shape) > 0:
        assert array.strides == laid.laid_out().strides
    if layout == "read-only" and given.shape:
        assert not array.flags.writeable
    if layout == "misaligned" and given.size:
        assert array.ctypes.data % 8 == 1


@pytest.mark.parametrize(
    ("dtype", "codes", "line"),
    [
        ("uint8", [0] * 20 + [154] + [0] * 243, "x = np.array([0] * 20 + [154] + [0] * 243, np.uint8)"),
        ("uint8", range(90, 120), f'x = np.array(list(bytes.fromhex("{bytes(range(90, 120)).hex()}")), np.uint8)'),
        ("uint8", [1, 1, 2], "x = np.array([1, 1, 2], np.uint8)"),
    ],
)
def test_values_that_need_a_line(dtype: str, codes: list[int], line: str) -> None:
    assert operand("x", Tensor(dtype, np.array(codes, np.uint8))) == [line]


def test_a_large_tensor_is_short() -> None:
    codes = np.random.default_rng(5).integers(0, 1 << 16, 4096, np.uint16)
    lines = operand("x", Tensor("float16", codes))
    assert codes.size > MOST_SPELLED
    assert len("\n".join(lines)) < 12_500


def made(name: str, options: str = "", x: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Return a finding on 3 * 0.5 in float32."""
    given = call(
        ONNX, {"x": x or tensor("int8", [1], ["3"], ["0x03"]), "scale": tensor("float32", [], ["0.5"], ["0x3f000000"])}
    )
    witness = {
        "call": given,
        "got": gave("float32", [1], ["1.5"], ["0x3fc00000"]),
        "legal": [wrong([0], ("1.5", "0x3fc00000"), ("2.0", "0x40000000", ["exact"]))],
    }
    subject = {"name": name, "version": "1", "role": "oracle", "options": options}
    return finding("violation", name, ONNX, "formula", "a summary", witness, subject=subject, **changes)


def outcome(script: str | None, directory: Path) -> str:
    """Return the output of a script that runs in another directory, without xverify on the path."""
    assert script is not None
    path = directory / "script.py"
    path.write_text(script)
    status, stdout, stderr = run_file(path)
    assert status == 0, stderr
    return stdout


@pytest.mark.parametrize("name", ["onnxruntime", "onnx-reference"])
@pytest.mark.parametrize(
    ("dtype", "code"), [("int8", "0x03"), ("uint4", "0x3"), ("int2", "0x1"), ("float8_e4m3fn", "0x44")]
)
def test_short_scripts_run_and_print_the_bits(name: str, dtype: str, code: str, tmp_path: Path) -> None:
    one = made(name, x=tensor(dtype, [1], ["3"], [code]))
    one["contract"] = one["witness"]["call"]["contract"] = "ai.onnx/DequantizeLinear-25"
    script = short_script(one)
    assert script is not None
    assert len(script.splitlines()) < 30
    assert "xverify" not in script
    expected = "0.5 0x3f000000" if dtype == "int2" else "1.5 0x3fc00000"
    assert outcome(script, tmp_path).splitlines() == ["float32 (1,)", expected]


@pytest.mark.parametrize(
    ("options", "sign"), [("optimization=off", "ORT_DISABLE_ALL"), ("initializers", 'from_array(scale, "scale")')]
)
def test_short_scripts_take_the_path_through_onnxruntime(options: str, sign: str, tmp_path: Path) -> None:
    script = short_script(made("onnxruntime", options))
    assert sign in str(script)
    assert "1.5 0x3fc00000" in outcome(script, tmp_path)


def test_a_short_script_reads_bfloat16_from_memory() -> None:
    """ONNX Runtime's CPU provider has no such output yet, and NumPy could not take it."""
    one = made("onnxruntime")
    one["witness"]["got"] = gave("bfloat16", [1], ["1.5"], ["0x3fc0"])
    script = str(short_script(one))
    ast.parse(script)
    for line in ("import ctypes", "import ml_dtypes", "reshape(result.shape()).view(ml_dtypes.bfloat16)", "np.uint16"):
        assert line in script


def test_short_scripts_of_memory_and_of_different_answers(tmp_path: Path) -> None:
    assert outcome(short_script({**made("onnxruntime"), "verdict": "nondeterministic"}), tmp_path).startswith(
        "1 different"
    )
    lines = outcome(short_script({**made("onnxruntime"), "verdict": "memory"}), tmp_path).splitlines()
    assert lines == [f"{name} unchanged: True shared with the output: False" for name in ("x", "scale")]


def test_a_short_script_of_tensorflow(tmp_path: Path) -> None:
    witness = {
        "call": range_call(),
        "got": gave("float32", [2], ["0.0", "6.0"], ["0x00000000", "0x40c00000"]),
        "legal": [wrong([1], ("6.0", "0x40c00000"), ("5.0", "0x40a00000", ["exact"]))],
    }
    one = finding("violation", "tensorflow", "tensorflow/Dequantize@installed", "formula", "a summary", witness)
    script = short_script(one)
    assert "tf.quint8" in str(script)
    assert "6.0 0x40c00000" in outcome(script, tmp_path)


def of_onednn(allowed: str = "2.0") -> dict[str, Any]:
    """Return a finding on -128 * 0.5 of oneDNN's DynamicDequantize."""
    one = made("onednn", x=tensor("int8", [2], ["1", "-128"], ["0x01", "0x80"]))
    one["contract"] = one["witness"]["call"]["contract"] = "onednn/DynamicDequantize-1@3.0"
    one["witness"]["call"]["tensors"]["scale"]["shape"] = [1]
    one["witness"]["legal"] = [wrong([1], ("-64.0", "0xc2800000"), (allowed, "0x40000000", ["exact"]))]
    return one


def test_a_short_program_of_onednn_is_in_c() -> None:
    short = short_program(of_onednn())
    assert short is not None
    assert short.language == "c"
    assert len(short.text.splitlines()) <= MOST_SCRIPT_LINES
    assert "int8_t x[] = {1, -128};" in short.text
    assert "float scale[] = {0.5f};" in short.text
    hostile = short_program(of_onednn('2.0 \\\n"; system("true"); // ' + "\\"))
    assert hostile is not None
    assert [line.partition("  // allowed")[0] for line in hostile.text.splitlines()] == [
        line.partition("  // allowed")[0] for line in short.text.splitlines()
    ]
    assert not any(line.endswith("\\") for line in hostile.text.splitlines())


def in_float16() -> dict[str, Any]:
    """Return the finding with scale and result in float16."""
    one = of_onednn()
    one["witness"]["call"]["tensors"]["scale"] = tensor("float16", [1], ["0.5"], ["0x3800"])
    one["witness"]["got"] = gave("float16", [2], ["0.5", "-64.0"], ["0x3800", "0xd400"])
    return one


def test_a_program_has_the_codes_of_types_that_c_lacks() -> None:
    text = str(short_script(in_float16()))
    for part in (
        "uint16_t scale[] = {0x3800}; /* 0.5 */",
        "uint16_t y[2];",
        "{y, dnnl_f16, 1, {2}}",
        '"0x%04x\\n", y[1]);',
    ):
        assert part in text
    one = of_onednn()
    one["witness"]["call"]["tensors"]["x"] = tensor("int4", [3], ["1", "-8", "7"], ["0x1", "0x8", "0x7"])
    one["witness"]["legal"] = []
    text = str(short_script(one))
    assert "uint8_t x[] = {0x81, 0x07}; /* 1, -8, 7 */" in text
    assert "{x, dnnl_s4, 1, {3}}" in text


@pytest.mark.parametrize(
    ("version", "name", "wheels"),
    [
        ("2026.1.0", "onednn==2026.1.0", "pip install onednn==2026.1.0 onednn-devel==2026.1.0"),
        ("2023.2.0", "onednn", "pip install onednn-cpu-gomp==2023.2.0 onednn-devel-cpu-gomp==2023.2.0"),
        ("3.5", "onednn:/path/libdnnl.so.3", ""),
        ("2026.1; rm x", "onednn", ""),
    ],
)
def test_the_commands_of_a_program(version: str, name: str, wheels: str) -> None:
    one = of_onednn()
    one["subject"] = {**one["subject"], "name": name, "version": version}
    text = issue_body({**sample_report(), "findings": [one], "causes": []}, one["id"])
    assert ("pip install" in text) == bool(wheels)
    assert wheels in text
    assert ("libintelocl" in text) == version.startswith("2026.1.")
    assert "cc dequantize.c -ldnnl && " in text
    assert "rm x" not in text.split("```c")[1]


def test_an_install_line_names_what_a_script_imports() -> None:
    report = {**sample_report(), "causes": []}
    report["run"] = {**report["run"], "versions": {"numpy": "2.4.6", "onnx": "1.23.2"}}
    for name, version, words in (
        ("onnxruntime", "1.27.0", "To run it: `pip install onnxruntime==1.27.0 onnx==1.23.2 numpy==2.4.6` in"),
        ("onnx-reference", "1.23.2", "`pip install onnx==1.23.2 numpy==2.4.6` in a virtual environment."),
        ("onnxruntime", "1.18.0", "`pip install onnxruntime==1.18.0 onnx==1.23.2 'numpy<2'` in"),
        ("onnxruntime", "1.27`; rm x", ""),
        ("xverify-numpy", "0.1.0", ""),
    ):
        one = {**made(name), "id": "violation-0123456789"}
        one["subject"] = {**one["subject"], "version": version}
        text = issue_body({**report, "findings": [one]}, one["id"])
        assert ("pip install" in text) == bool(words)
        assert words in text


def test_an_install_line_for_an_old_numpy_lets_pip_choose_ml_dtypes() -> None:
    report = {**sample_report(), "causes": []}
    report["run"] = {**report["run"], "versions": {"onnx": "1.23.2", "ml_dtypes": "0.6.0"}}
    one = made("onnxruntime", "all initializers", x=tensor("float8_e4m3fn", [1], ["3"], ["0x44"]))
    for version, words in (("1.18.0", "'numpy<2' ml_dtypes`"), ("1.27.0", " ml_dtypes==0.6.0`")):
        one["subject"] = {**one["subject"], "version": version}
        assert words in issue_body({**report, "findings": [one]}, one["id"])


@pytest.mark.parametrize(("one", "printed"), [(of_onednn(), "-64 0xc2800000\n"), (in_float16(), "")])
def test_the_program_of_onednn_runs(one: dict[str, Any], printed: str, tmp_path: Path) -> None:
    """TensorFlow's wheel has oneDNN's headers.

    The installed library is too old for float16, so that program is only compiled.
    """
    from xverify.oracles.onednn_library import installed

    compiler, tensorflow = shutil.which("cc"), importlib.util.find_spec("tensorflow")
    if compiler is None or tensorflow is None or tensorflow.origin is None:
        pytest.skip("no C compiler, or no headers")
    headers = Path(tensorflow.origin).parent / "include" / "external" / "onednn" / "include"
    source, program = tmp_path / "a.c", tmp_path / "a.out"
    source.write_text(str(short_script(one)))
    library = Path(installed())
    command = [
        compiler,
        "-Wall",
        "-Werror",
        source,
        f"-I{headers}",
        library,
        f"-Wl,-rpath,{library.parent}",
        "-o",
        program,
    ]
    subprocess.run(list(map(str, command)), check=True, timeout=60)
    if printed:
        done = subprocess.run([str(program)], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (0, printed)


def test_findings_that_a_short_script_cannot_show_have_none() -> None:
    assert short_script(made("an-unknown-one")) is None
    report = sample_report()
    by_verdict = {one["verdict"]: one for one in report["findings"]}
    assert short_script(by_verdict["conflict"]) is None
    assert short_script(by_verdict["nondeterministic"]) is None, "its values are in a file"
    damaged = made("onnxruntime", x=tensor("int8", [2], ["3"], ["0x03"]))
    assert short_script(damaged) is None
    assert "No short script makes this call. Attached is `scripts/" in issue_body(
        {**report, "findings": [made("an-unknown-one")]}, made("an-unknown-one")["id"]
    )


QUOTES = '"""\n\'\'\'\\"; import os; os._exit(7) #' + HOSTILE + "\ud83d\u202e\x00\n{x}"


@pytest.mark.parametrize(
    "name", ["onnxruntime", "onnx-reference", "tensorflow", "onednn-formula-divide", "xverify-numpy"]
)
def test_text_becomes_no_code(name: str) -> None:
    """Hostile text changes neither the statements of a script nor their number."""

    def shape(script: str | None) -> list[str]:
        tree = ast.parse(str(script))
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant):
                node.value = 0
        return [ast.dump(node) for node in tree.body]

    clean = made(name)
    if name == "tensorflow":
        clean["witness"]["call"] = range_call()
    clean["witness"]["call"]["attributes"] = {"mode": "text", "axis": 1}
    soiled = copy.deepcopy(clean)
    soiled["summary"] = soiled["id"] = soiled["clause"] = QUOTES
    soiled["witness"]["call"]["attributes"]["mode"] = QUOTES
    for one in soiled["witness"]["legal"][0]["legal"]:
        one.update(decimal=QUOTES, hex=QUOTES)
    assert shape(short_script(soiled)) == shape(short_script(clean))
    soiled["witness"]["call"]["attributes"] = {QUOTES: 1}
    assert short_script(soiled) is None


def test_a_refusal_raises_where_the_script_says_so(tmp_path: Path) -> None:
    one = made("onnx-reference")
    one["verdict"] = "wrongly-rejected"
    one["witness"].update(got=refused("rejected", "Fail", "no"), legal=[])
    script = str(short_script(one))
    assert "# One of the lines below raises." in script
    assert "print" not in script
    assert ONEDNN not in script
