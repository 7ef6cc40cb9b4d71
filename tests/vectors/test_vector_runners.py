"""The runners in examples/vectors: short, without xverify, and they name the first wrong value."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from folders import ROOT
from native_compiler import compiler
from vector_corpora import few_types, small_corpus

from xverify.vectors import corpus, jsonl

RUNNERS = ROOT / "examples" / "vectors"

PYTHON_KERNEL = """
import numpy as np

def right(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):
    if x.dtype != np.uint8 or scale.ndim or (out_dtype or np.float32) != np.float32:
        raise NotImplementedError
    pairs = x.dtype if zero_point is None else zero_point.dtype, () if zero_point is None else zero_point.shape
    if block_size or scale.dtype != np.float32 or pairs != (x.dtype, ()):
        raise ValueError("forbidden")
    with np.errstate(all="ignore"):
        return np.asarray((x.astype(np.float32) - np.float32(zero_point or 0)) * scale, np.float32)

def wraps(x, scale, zero_point=None, **attributes):
    y = right(x, scale, zero_point, **attributes)
    with np.errstate(all="ignore"):
        return y if zero_point is None else np.asarray((x - zero_point) * scale, np.float32)

def takes_anything(x, scale, zero_point=None, **attributes):
    try:
        return right(x, scale, zero_point, **attributes)
    except ValueError:
        return x

def refuses(x, scale, zero_point=None, **attributes):
    raise ValueError("never")
"""

JAVASCRIPT_KERNEL = """
class NotImplementedError extends Error { get name() { return "NotImplementedError"; } }
const floats = new Float32Array(1), words = new Uint32Array(floats.buffer);
exports.kernel = ({ x, scale, zero_point }, attributes, output) => {
  if (!output || x.dtype !== "uint8" || scale.shape.length || output.dtype !== "float32") throw new NotImplementedError();
  words[0] = scale.codes[0];
  const s = floats[0], z = zero_point ? zero_point.codes[0] : 0;
  return x.codes.map((code) => { floats[0] = (code - z WRAP) * s; return words[0]; });
};
"""


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    corpus.write(small_corpus(), folder, ["jsonl"])
    return folder / jsonl.FILE


def ran(command: list[object], folder: Path) -> tuple[int, str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [str(word) for word in command]
    ended = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout + ended.stderr


def require_first_wrong_value(text: str, lines: Path) -> None:
    """Check that the text names a call, an index, the code and the legal code at that index."""
    match = re.search(r"WRONG call (\w{16}): index (\d+) got (\w+) legal (\w+)", text)
    assert match, text
    call = next(call for call in map(json.loads, lines.read_text().splitlines()) if call["id"] == match[1])
    legal = {int(result[8 * int(match[2]) :][:8], 16) for result in call["legal"]}
    assert int(match[4], 16) in legal
    assert int(match[3], 16) not in legal


@pytest.mark.parametrize("name", ["run_vectors.py", "run_vectors.c", "run_vectors.js"])
def test_a_runner_is_short_and_knows_nothing_of_xverify(name: str) -> None:
    text = (RUNNERS / name).read_text()
    assert len(text.splitlines()) <= 60
    assert not re.search(r"(import|include|require).*xverify", text)


def test_the_runner_in_python(lines: Path, tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(PYTHON_KERNEL)

    def run(name: str) -> tuple[int, str]:
        return ran([sys.executable, RUNNERS / "run_vectors.py", lines, f"kernels:{name}"], tmp_path)

    code, text = run("right")
    assert (code, "WRONG" in text) == (0, False), text
    counts = re.search(r"(\d+) calls right, (\d+) calls skipped", text)
    assert counts
    assert int(counts[1]) > 20
    assert int(counts[2]) > 20
    code, text = run("wraps")
    assert code == 1
    require_first_wrong_value(text, lines)
    assert "refused a legal call" in run("refuses")[1]


def test_the_runner_in_c(lines: Path, tmp_path: Path) -> None:
    command = compiler()
    if command is None:
        pytest.skip("there is no C compiler: pip install ziglang")
    for flags in ((), ("-DWRAP_AROUND",)):
        sources = [RUNNERS / "run_vectors.c", RUNNERS / "kernel.c"]
        code, text = ran(
            [*command, "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", *flags, *sources, "-o", "run"], tmp_path
        )
        assert code == 0, text
        code, text = ran([tmp_path / "run", lines], tmp_path)
        if flags:
            assert code == 1
            require_first_wrong_value(text, lines)
        else:
            assert code == 0, text
            assert re.search(r"[1-9]\d* calls right, [1-9]\d* calls skipped", text)


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
def test_the_runner_in_javascript(lines: Path, tmp_path: Path) -> None:
    for wrap in ("", "& 255"):
        (tmp_path / "kernel.js").write_text(JAVASCRIPT_KERNEL.replace("WRAP", wrap))
        code, text = ran(["node", RUNNERS / "run_vectors.js", lines, "kernel.js"], tmp_path)
        assert code == (1 if wrap else 0), text
        if wrap:
            require_first_wrong_value(text, lines)
        else:
            assert re.search(r"[1-9]\d* calls right, [1-9]\d* calls skipped", text)


HEAD = '{"id":"%016d","attributes":{},"inputs":[{"name":"x","dtype":"uint8","shape":[2],"codes":"0102"}]'

C_KERNEL = """
#include <stdint.h>
#include "run_vectors.h"
int kernel(const tensor *in, int count, const char *attributes, tensor *y) {
  (void)in, (void)count, (void)attributes;
  if (REFUSES) return REFUSED;
  memcpy(y->data, (uint16_t[]){VALUES}, 4);
  return DONE;
}
"""


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ("0x3c00, 0x4000", ""),  # the first result
        ("0x3c01, 0x4001", ""),  # the second result
        ("0x3c00, 0x4001", "index 1 got 4001 legal 4000"),  # legal values of two results
        ("0x3c02, 0x4000", "index 0 got 3c02 legal 3c00 or 3c01"),
    ],
)
def test_one_result_must_give_all_values(values: str, fault: str, tmp_path: Path) -> None:
    tail = ',"output":{"dtype":"float16","shape":[2]},"legal":["3c004000","3c014001"],"cell":"c","readings":[["a"],["b"]]}\n'
    (tmp_path / "lines").write_text(HEAD % 1 + tail)
    for text in _each_runner(values, tmp_path):
        assert f"WRONG call {1:016}: {fault}\n" in text if fault else "1 calls right" in text


@pytest.mark.parametrize(("values", "is_right"), [("0xfe01, 0x8000", True), ("0xfe01, 0x0000", False)])
def test_every_nan_is_legal_and_zeros_have_signs(values: str, is_right: bool, tmp_path: Path) -> None:
    tail = ',"output":{"dtype":"float16","shape":[2]},"legal":["7fff8000"],"cell":"c"}\n'
    (tmp_path / "lines").write_text(HEAD % 1 + tail)
    for text in _each_runner(values, tmp_path):
        assert ("1 calls right" if is_right else "index 1 got 0 legal 8000") in text


def test_a_call_that_must_be_refused(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text(HEAD % 1 + ',"refused":[{"clause":"e/axis","sentence":"No axis."}]}\n')
    assert all("WRONG" in text for text in _each_runner("0, 0", tmp_path))
    assert all("1 calls right" in text for text in _each_runner("", tmp_path))


def _each_runner(values: str, folder: Path) -> list[str]:
    """Output of each runner for a kernel that returns two float16 codes; "": that refuses every call."""
    array = f"np.array([{values}], np.uint16).view(np.float16)" if values else "1 / 0"
    (folder / "fixed.py").write_text(f"import numpy as np\ndef kernel(x): return {array}\n")
    commands: list[list[object]] = [[sys.executable, RUNNERS / "run_vectors.py", "lines", "fixed:kernel"]]
    (folder / "kernel.c").write_text(
        C_KERNEL.replace("VALUES", values or "0").replace("REFUSES", "0" if values else "1")
    )
    if command := compiler():
        sources = [RUNNERS / "run_vectors.c", "kernel.c"]
        code, text = ran([*command, "-std=gnu11", f"-I{RUNNERS}", *sources, "-o", "run"], folder)
        assert code == 0, text
        commands.append([folder / "run", "lines"])
    if shutil.which("node"):
        body = f"return [{values}]" if values else "throw new Error()"
        (folder / "fixed.js").write_text(f"exports.kernel = () => {{ {body} }};")
        commands.append(["node", RUNNERS / "run_vectors.js", "lines", "fixed.js"])
    return [ran(command, folder)[1] for command in commands]


def test_a_run_without_a_right_call_fails(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("")
    outputs = _each_runner("0, 0", tmp_path)
    assert all(text.startswith("0 calls right") for text in outputs)
    assert ran([sys.executable, RUNNERS / "run_vectors.py", "lines", "fixed:kernel"], tmp_path)[0] == 1
    if compiler():
        assert ran([tmp_path / "run", "lines"], tmp_path)[0] == 1
        (tmp_path / "lines").write_text((HEAD % 1) + "\n")
        code, text = ran([tmp_path / "run", "lines"], tmp_path)
        assert (code, text) == (2, "lines is not a whole vectors.jsonl\n")
    if shutil.which("node"):
        assert ran(["node", RUNNERS / "run_vectors.js", "lines", "fixed.js"], tmp_path)[0] == 1


def test_the_calls_of_a_cell_have_a_reading_in_common(tmp_path: Path) -> None:
    tails = [
        ',"output":{"dtype":"float16","shape":[2]},"legal":["00000000","00000001"],"cell":"c","readings":[["a"],["b"]]}\n',
        ',"output":{"dtype":"float16","shape":[2]},"legal":["00000001","00000000"],"cell":"c","readings":[["a"],["b"]]}\n',
    ]
    (tmp_path / "lines").write_text("".join(HEAD % number + tail for number, tail in enumerate(tails)))
    (tmp_path / "zeros.py").write_text("import numpy as np\ndef kernel(x): return np.zeros(2, np.float16)\n")
    code, text = ran([sys.executable, RUNNERS / "run_vectors.py", "lines", "zeros:kernel"], tmp_path)
    assert (code, text) == (1, f"WRONG call {1:016}: no one reading explains all calls of c\n")


def test_the_edition_of_the_runners_has_several_legal_results() -> None:
    assert any(len(vector.legal) > 1 for vector in small_corpus().vectors), few_types().id
