"""Scripts of findings on a user's kernel: they find it, call it, and tell if the fault is there."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_compiler import NATIVE, compiled
from sample_report import ONNX, call, finding, gave, refused, tensor, wrong
from scripts_run import run_file

from xverify.core.call import LAYOUTS
from xverify.report.script import script_for
from xverify.report.short_script import short_script

RIGHT = "return ((x.astype(np.int32) - (0 if zero_point is None else zero_point)) * scale).astype(np.float32)"
SIGNATURE = "def dequantize(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):"


def kernel(body: str, before: str = "") -> str:
    lines = "\n    ".join(body.splitlines())
    return f"import numpy as np\n{before}\n{SIGNATURE}\n    {lines}\n"


def run(directory: Path, one: dict[str, Any], *arguments: str, at: Path | None = None) -> tuple[int, str]:
    path = directory / "reproduce.py"
    path.write_text(script_for(one), encoding="utf-8")
    # Python takes a kernel that was replaced within the same second for the compiled one.
    shutil.rmtree(directory / "__pycache__", ignore_errors=True)
    status, stdout, stderr = run_file(path, *arguments, at=at)
    assert "Traceback" not in stderr, stderr
    return status, stdout


def doubled(name: str, verdict: str = "violation", notes: tuple[str, ...] = (), **changes: Any) -> dict[str, Any]:
    """Return a finding on [3, 4] * 0.5 whose second result is 4.0 instead of 2.0."""
    tensors = {
        "x": tensor("int8", [2], ["3", "4"], ["0x03", "0x04"]),
        "scale": tensor("float32", [], ["0.5"], ["0x3f000000"]),
    }
    got = gave("float32", [2], ["1.5", "4.0"], ["0x3fc00000", "0x40800000"])
    got["notes"] = list(notes)
    legal = [wrong([1], ("4.0", "0x40800000"), ("2.0", "0x40000000", ["exact"]))] if verdict == "violation" else []
    witness = {"call": call(ONNX, tensors, **changes.pop("attributes", {})), "got": got, "legal": legal}
    return finding(verdict, name, ONNX, "formula", "a summary", witness, **changes)


# -- Python -----------------------------------------------------------------------------------------------


def test_a_file_is_found_here_beside_the_script_or_by_the_argument(tmp_path: Path) -> None:
    elsewhere, scripts = tmp_path / "elsewhere", tmp_path / "scripts"
    elsewhere.mkdir()
    scripts.mkdir()
    one = doubled("kernels.py:dequantize")
    status, text = run(scripts, one)
    assert (status, "there is no file kernels.py here; give its path as the argument" in text) == (3, True), text
    (elsewhere / "kernels.py").write_text(kernel(RIGHT))
    for arguments, at in (((str(elsewhere / "kernels.py"),), None), ((), elsewhere)):
        status, text = run(scripts, one, *arguments, at=at)
        assert (status, "got       2.0" in text, "the discrepancy is gone" in text) == (0, True, True), text
    (scripts / "kernels.py").write_text(kernel(RIGHT.replace("scale", "scale * x.clip(3) / 2")))
    status, text = run(scripts, one, at=tmp_path)
    assert (status, "got       4.0 (0x40800000)" in text, "should be 2.0 (0x40000000; exact)" in text) == (
        1,
        True,
        True,
    ), text
    assert "not installed" not in text.split("ml_dtypes")[1]
    assert "is this script's argument, or else is looked for in the current directory" in script_for(one)
    assert "is this script's argument" not in script_for(doubled("onnxruntime"))


def test_a_module_and_an_attribute(tmp_path: Path) -> None:
    package = tmp_path / "package_here"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "linear.py").write_text(
        "import numpy as np\nclass Kernels:\n    @staticmethod\n    "
        + kernel(RIGHT).split("\n", 2)[2].replace("\n", "\n    ")
    )
    name = "package_here.linear:Kernels.dequantize"
    assert run(tmp_path, doubled(name))[0] == 0
    (tmp_path / "scripts").mkdir()
    assert run(tmp_path / "scripts", doubled(name), str(tmp_path))[0] == 0
    status, text = run(tmp_path / "scripts", doubled(name))
    assert (status, "there is no module 'package_here'" in text) == (3, True), text


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("x = (", "SyntaxError"),
        ("raise ValueError('no')", "ValueError: no"),
        ("y = 1", "kernels.py has no 'dequantize'"),
    ],
)
def test_a_kernel_that_cannot_be_loaded_exits_3(source: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(source)
    status, text = run(tmp_path, doubled("kernels.py:dequantize"))
    assert (status, "kernels.py:dequantize cannot be loaded" in text, words in text) == (3, True, True), text


def test_a_kernel_is_called_by_its_signature(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(
        kernel(f"if axis != 0 or out_dtype != np.float16: {RIGHT}\nraise ValueError('seen')")
    )
    one = doubled("kernels.py:dequantize", attributes={"axis": 0, "output_dtype": "float16"})
    status, text = run(tmp_path, one)
    assert (status, "refused, ValueError: seen" in text) == (3, True), text
    one["witness"]["call"]["contract"] = "com.microsoft/DequantizeLinear-1@installed"
    one["witness"]["call"]["attributes"] = {}
    (tmp_path / "kernels.py").write_text(kernel(f"if axis is not None: {RIGHT}\nraise ValueError('none')"))
    assert "refused, ValueError: none" in run(tmp_path, one)[1]


@pytest.mark.parametrize(("verdict", "kind"), [("wrongly-accepted", "tensor"), ("wrongly-rejected", "rejected")])
def test_acceptance_and_refusal(verdict: str, kind: str, tmp_path: Path) -> None:
    one = doubled("kernels.py:dequantize", verdict)
    if kind == "rejected":
        one["witness"]["got"] = refused("rejected", "ValueError", "no")
    (tmp_path / "kernels.py").write_text(kernel("raise ValueError('no')"))
    assert run(tmp_path, one)[0] == int(kind == "rejected")
    (tmp_path / "kernels.py").write_text(kernel(RIGHT))
    assert run(tmp_path, one)[0] == int(kind == "tensor")


def test_the_child_process_finds_a_kernel_that_ends_the_process(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    path = tmp_path / "there" / "kernels.py"
    one = doubled("kernels.py:dequantize", "crash")
    one["witness"]["got"] = refused("crash", "", "killed")
    path.write_text(kernel("import os\nos.abort()"))
    assert run(tmp_path, one, str(path))[0] == 1
    path.write_text(kernel(RIGHT))
    assert run(tmp_path, one, str(path))[0] == 0


FLAWS = {
    "input-written": ("x -= 1\n" + RIGHT, ""),
    "output-aliases-input": ("return x", ""),
    "outputs-share-memory": ("BUFFER[:] = x * scale\nreturn BUFFER", "BUFFER = np.zeros(2, np.float32)"),
    "earlier-result-changed": (
        "made = (x * scale).astype(np.float32)\nEARLIER.append(made)\nEARLIER[-2:][0][0] += 1\nreturn made",
        "EARLIER = []",
    ),
    "internal-buffer": ("return KEPT.setdefault(x.tobytes(), (x * scale).astype(np.float32))", "KEPT = {}"),
    "second-call-differs": ("TURN.append(1)\nreturn (x * scale).astype(np.float32) + len(TURN) % 2", "TURN = []"),
    "threads-differ": (
        "np.copyto(BUFFER, x)\nBUFFER[:] *= scale\nreturn BUFFER.copy()",
        "BUFFER = np.zeros(2, np.float32)",
    ),
}


@pytest.mark.parametrize("note", FLAWS)
def test_a_script_repeats_the_note_of_a_finding(note: str, tmp_path: Path) -> None:
    verdict = "nondeterministic" if note.endswith(("differ", "differs")) else "memory"
    one = doubled("kernels.py:dequantize", verdict, (note,))
    (tmp_path / "kernels.py").write_text(kernel(*FLAWS[note]))
    status, text = run(tmp_path, one)
    assert status == 1, text
    (tmp_path / "kernels.py").write_text(kernel(RIGHT))
    status, text = run(tmp_path, one)
    assert status == 0, text


# -- native -----------------------------------------------------------------------------------------------

SOURCE = r"""
#include "xverify_kernel.h"
int dequantize(const DLTensor *x, const DLTensor *scale, const DLTensor *zero_point, int64_t axis, int64_t block_size,
               DLTensor *y) {
  const int8_t *from = (const int8_t *)((const char *)x->data + x->byte_offset);
  const float factor = *(const float *)((const char *)scale->data + scale->byte_offset);
  float *to = (float *)((char *)y->data + y->byte_offset);
  int64_t columns = x->ndim > 0 ? x->shape[x->ndim - 1] : 1, rows = 1, i;
  (void)zero_point; (void)block_size; (void)axis;
  for (i = 0; i + 1 < x->ndim; i++) rows *= x->shape[i];
  if (x->ndim > 2) return 2;
  for (i = 0; i < rows * columns; i++) {
    int64_t at = (x->ndim > 1 ? i / columns * x->strides[0] : 0) + (x->ndim > 0 ? i % columns * x->strides[x->ndim - 1] : 0);
    to[i] = from[at] * factor;
  }
  FLAW
  return 0;
}
"""

NATIVE_FLAWS = {
    "written-after-output": "((char *)(to + rows * columns))[0] = 1;",
    "written-before-output": "((char *)to)[-1] = 1;",
    "input-written": "*(int8_t *)from = 9;",
    "written-beside-input": "((int8_t *)from)[-1] = 9;",
    "never-written": "",
    "second-call-differs": "static float turn; to[0] += ++turn;",
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("native")


def library(directory: Path, name: str, flaw: str, loop: str = "rows * columns; i++") -> str:
    source = directory / f"{name}.c"
    source.write_text(SOURCE.replace("FLAW", flaw).replace("rows * columns; i++", loop))
    return str(compiled(source, directory))


def native(verdict: str, notes: tuple[str, ...] = (), layout: str = "C", **changes: Any) -> dict[str, Any]:
    """Return a finding on [[1, 1, 1], [-2, -2, -2]] * 0.5 with 7.0 instead of -1.0."""
    codes = ["0x01"] * 3 + ["0xfe"] * 3
    x = {**tensor("int8", [2, 3], ["1"] * 3 + ["-2"] * 3, codes), "layout": layout}
    tensors = {"x": x, "scale": tensor("float32", [], ["0.5"], ["0x3f000000"])}
    got = gave("float32", [2, 3], ["0.5"] * 3 + ["-1.0"] * 3, ["0x3f000000"] * 3 + ["0xbf800000"] * 3)
    got["notes"] = list(notes)
    legal = [wrong([1, 0], ("7.0", "0x40e00000"), ("-1.0", "0xbf800000", ["exact"]))] if verdict == "violation" else []
    witness = {"call": call(ONNX, tensors, **changes), "got": got, "legal": legal}
    return finding(verdict, "kernel.so:dequantize", ONNX, "formula", "a summary", witness)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_library_reads_every_layout(layout: str, directory: Path) -> None:
    right = library(directory, "right", "")
    status, text = run(directory, native("violation", layout=layout), right)
    assert (status, "at [1, 0]: got       -1.0 (0xbf800000)" in text) == (0, True), text


def test_a_wrong_value_of_a_library(directory: Path) -> None:
    status, text = run(directory, native("violation"), library(directory, "wrong", "to[3] = 7;"))
    assert (status, "got       7.0 (0x40e00000)" in text) == (1, True), text
    status, text = run(directory, native("violation"), str(directory / "none.so"))
    assert (status, "there is no file" in text) == (3, True), text
    other = native("violation")
    other["subject"]["name"] = "kernel.so:no_such_symbol"
    status, text = run(directory, other, library(directory, "right", ""))
    assert (status, "cannot be loaded" in text, "no_such_symbol" in text) == (3, True, True), text


@pytest.mark.parametrize("note", NATIVE_FLAWS)
def test_a_script_repeats_the_note_of_a_library(note: str, directory: Path) -> None:
    one = native("nondeterministic" if note == "second-call-differs" else "memory", (note,))
    loop = "rows * columns - 1; i++" if note == "never-written" else "rows * columns; i++"
    flawed = library(directory, note.replace("-", "_"), NATIVE_FLAWS[note], loop)
    status, text = run(directory, one, flawed)
    assert (status, note in text or "differ" in note) == (1, True), text
    status, text = run(directory, one, library(directory, "right", ""))
    assert status == 0, text


@pytest.mark.parametrize("place", ["rows * columns", "-1"])
def test_a_read_outside_ends_the_process(place: str, directory: Path) -> None:
    one = native("crash")
    one["witness"]["got"] = refused("crash", "", "killed by SIGSEGV")
    name = "outside_" + str(len(place))
    status, text = run(directory, one, library(directory, name, f"volatile int8_t seen = from[{place}]; (void)seen;"))
    assert (status, "was killed by SIG" in text) == (1, True), text
    assert run(directory, one, library(directory, "right", ""))[0] == 0


def test_the_example_of_the_repository_on_packed_and_blocked_tensors(directory: Path) -> None:
    """int4 with a zero point, in blocks of 2 along axis 1: (x - zp) * scale by hand."""
    built = compiled(NATIVE / "dequantize.c", directory)
    x = tensor("int4", [1, 3], ["-8", "7", "3"], ["0x8", "0x7", "0x3"])
    scale = tensor("float32", [1, 2], ["0.5", "2.0"], ["0x3f000000", "0x40000000"])
    zero_point = tensor("int4", [1, 2], ["1", "-1"], ["0x1", "0xf"])
    due = np.array([-4.5, 3.0, 8.0], np.float32)
    decimals, hexes = [str(v) for v in due], [f"0x{v:08x}" for v in due.view(np.uint32)]
    legal = [wrong([0, i], ("99.0", "0x42c60000"), (decimals[i], hexes[i], ["exact"])) for i in range(3)]
    tensors = {"x": x, "scale": scale, "zero_point": zero_point}
    witness = {
        "call": call(ONNX, tensors, axis=1, block_size=2),
        "got": gave("float32", [1, 3], decimals, hexes),
        "legal": legal,
    }
    one = finding("violation", "dequantize.so:dequantize", ONNX, "formula", "a summary", witness)
    status, text = run(directory, one, str(built))
    assert (status, "got       8.0" in text) == (0, True), text


def test_every_name_of_a_script_is_defined_and_hostile_names_stay_data() -> None:
    import builtins

    for name in ("kernels.py:f", "a.b:f", "k.so:f", '"""\n:"""; import os; os._exit(7) #', "../../x.py:f"):
        tree = ast.parse(script_for(doubled(name)))
        nodes = list(ast.walk(tree))
        defined = {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef)} | set(dir(builtins))
        defined |= {
            (a.asname or a.name).split(".")[0]
            for n in nodes
            if isinstance(n, ast.Import | ast.ImportFrom)
            for a in n.names
        }
        defined |= {n.arg for n in nodes if isinstance(n, ast.arg)} | {"__name__", "__file__"}
        defined |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        defined |= {n.name or "" for n in nodes if isinstance(n, ast.ExceptHandler)}
        used = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        assert used <= defined, used - defined
        exits = [n for n in nodes if isinstance(n, ast.Call) and ast.unparse(n.func).endswith("_exit")]
        assert not [n for n in exits if ast.unparse(n.args[0]) == "7"]


# -- short scripts ----------------------------------------------------------------------------------------


def short(directory: Path, one: dict[str, Any]) -> str:
    script = short_script(one)
    assert script is not None
    assert len(script.splitlines()) < 20
    (directory / "short.py").write_text(script)
    done = subprocess.run([sys.executable, "-I", "short.py"], capture_output=True, text=True, cwd=directory, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_short_script_imports_the_kernel(tmp_path: Path) -> None:
    """The kernel's file may have an operand's name."""
    for name in ("kernels", "x"):
        (tmp_path / f"{name}.py").write_text(kernel(RIGHT))
        text = short(tmp_path, doubled(f"{name}.py:dequantize"))
        assert text.splitlines() == ["float32 (2,)", "2.0 0x40000000"]
    body = f"assert axis is None and out_dtype is np.float16\n{RIGHT}"
    (tmp_path / "kernels.py").write_text(kernel(body))
    one = doubled("kernels.py:dequantize", attributes={"output_dtype": "float16"})
    one["witness"]["call"]["contract"] = "com.microsoft/DequantizeLinear-1@installed"
    assert short(tmp_path, one).startswith("float32 (2,)")


def test_a_short_script_of_a_module() -> None:
    text = str(short_script(doubled("package.linear:Kernels.dequantize")))
    assert "import package.linear as kernel\n" in text
    assert "y = kernel.Kernels.dequantize(x, scale)\n" in text
    assert "sys" not in text


@pytest.mark.parametrize(
    "name", ["library.so:f", "a b.py:f", "a-b.py:f", "a:f()", "a;import os:f", "kernels.py:f\n", "é:f"]
)
def test_a_target_that_is_no_python_name_has_no_short_script(name: str) -> None:
    assert short_script(doubled(name)) is None
