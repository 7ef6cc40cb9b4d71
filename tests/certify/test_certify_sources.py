"""A certificate names all code that answered, also code that a kernel imports late or that changes."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from native_compiler import compiled

from xverify import cli
from xverify.certify.certificate import load
from xverify.certify.identity import versions

SOUND = """
import numpy as np


def right(x, scale, zero_point):
    column = (slice(None), None) if scale.ndim else ()
    zero_point = np.zeros(scale.shape, x.dtype) if zero_point is None else zero_point
    difference = x.astype(np.int32) - zero_point.astype(np.int32)[column]
    with np.errstate(all="ignore"):
        return (difference * scale.astype(np.float64)[column]).astype(np.float16)
"""


def certify(kernel: Path, path: Path, *more: object) -> tuple[int, str]:
    words = "certify", "--kernel", f"{kernel}:f", "--domain", "uint2-float16", "-n", 1, "-o", path, *more
    result = CliRunner().invoke(cli.main, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def written(directory: Path, text: str) -> Path:
    (directory / "sound.py").write_text(SOUND)
    kernel = directory / "kernel.py"
    kernel.write_text(text)
    return kernel


def sources(path: Path) -> list[str]:
    found: dict[str, Any] = load(path)["subject"]["sources"]
    return list(found)


def test_what_is_imported_late_is_added_and_is_no_other_code(tmp_path: Path) -> None:
    kernel = written(
        tmp_path,
        """
from sound import np, right


def f(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):
    if scale.view("u2").max() >= 0x2000:
        import late
    return right(x, scale, zero_point)
""",
    )
    (tmp_path / "late.py").write_text("")
    path = tmp_path / "c.json"
    assert certify(kernel, path, "--range", "0:64")[0] == 0
    assert sources(path) == ["kernel.py", "sound.py"]
    for units in ("0x2000:0x2040", "64:128"):
        code, said = certify(kernel, path, "--range", units)
        assert code == 0, said
        assert sources(path) == ["kernel.py", "late.py", "sound.py"]
    assert load(path)["counts"]["proven"] == 3 * 64 * 16
    (tmp_path / "late.py").write_text("# another\n")
    code, said = certify(kernel, path, "--range", "0x2040:0x2080")
    assert (code, "late.py changed" in said or "the code of the subject (late.py)" in said) in ((2, True), (3, True)), (
        said
    )


def test_a_library_that_a_kernel_loads_is_its_code(tmp_path: Path) -> None:
    kernel = written(
        tmp_path,
        """
import ctypes
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sound import np, right

library = ctypes.CDLL(str(Path(__file__).with_name("libbad.so")))


def f(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):
    return right(x, scale, zero_point) * np.float16(1 - library.bad())
""",
    )

    def build(number: int) -> None:
        (tmp_path / "libbad.c").write_text(f"int bad(void);\nint bad(void) {{ return {number}; }}\n")
        compiled(tmp_path / "libbad.c", tmp_path)

    build(0)
    path = tmp_path / "c.json"
    code, said = certify(kernel, path, "--range", "0:64")
    assert code == 0, said
    assert sources(path) == ["kernel.py", "libbad.so", "sound.py"]
    build(1)
    code, said = certify(kernel, path, "--range", "64:128")
    assert (code, "the code of the subject (libbad.so)" in said) == (2, True), said


def test_modules_from_elsewhere_and_versions_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    for package in ("one", "two"):
        (tmp_path / "other" / package).mkdir()
        (tmp_path / "other" / package / "__init__.py").write_text("")
    (tmp_path / "other" / "vendor_library.py").write_text("import one, two\nBAD = 0\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "other"))
    (tmp_path / "own").mkdir()
    kernel = written(
        tmp_path / "own",
        """
import ml_dtypes
import vendor_library
from sound import np, right


def f(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):
    return right(x, scale, zero_point) * np.float16(1 - vendor_library.BAD)
""",
    )
    path = tmp_path / "c.json"
    code, said = certify(kernel, path, "--range", "0:64")
    assert code == 0, said
    elsewhere = ["elsewhere/one.py", "elsewhere/two.py", "elsewhere/vendor_library.py"]
    assert sources(path) == [*elsewhere, "kernel.py", "sound.py"]
    (tmp_path / "other" / "vendor_library.py").write_text("import one, two\nBAD = 1\n")
    code, said = certify(kernel, path, "--range", "64:128")
    assert (code, "elsewhere/vendor_library.py" in said) == (2, True), said


def test_nothing_counts_where_the_code_changed_meanwhile(tmp_path: Path) -> None:
    kernel = written(
        tmp_path,
        """
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sound import np, right


def f(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):
    Path(__file__).write_text(Path(__file__).read_text() + "# another line")
    return right(x, scale, zero_point)
""",
    )
    path = tmp_path / "c.json"
    code, said = certify(kernel, path, "--range", "0:64")
    assert (code, "kernel.py changed while kernel.py:f was proven: nothing of this run counts" in said) == (3, True), (
        said
    )
    assert not path.exists()


def test_calls_that_take_long_together_do_not_hang(tmp_path: Path) -> None:
    kernel = written(
        tmp_path,
        """
import time

from sound import right


def f(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):
    time.sleep(0.02)
    return right(x, scale, zero_point)
""",
    )
    path = tmp_path / "c.json"
    code, said = certify(kernel, path, "--granularity", "per_tensor", "--range", "0:16", "--timeout", "1s")
    assert code == 0, said
    assert load(path)["counts"]["proven"] == 16 * 16


def test_versions_of_what_a_kernel_imports_are_kept(tmp_path: Path) -> None:
    kernel = written(
        tmp_path,
        """
import click
from sound import right


def f(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):
    return right(x, scale, zero_point)
""",
    )
    path = tmp_path / "c.json"
    assert certify(kernel, path, "--range", "0:64")[0] == 0
    assert load(path)["versions"]["click"] == version("click")


@pytest.mark.parametrize("name", [None, "cupy-cuda12x", "cupy-cuda13x", "cupy"])
def test_the_cupy_that_is_installed_is_named(name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its package's name depends on the CUDA version."""

    def installed(asked: str) -> str:
        if asked.startswith("cupy") and asked != name:
            raise PackageNotFoundError
        return "14.1.0" if asked == name else version(asked)

    monkeypatch.setattr("importlib.metadata.version", installed)
    found = versions({"python": "3.11.7", "numpy": "2.1.3"}, {})
    expected = {"cupy-cuda12x": "not installed"} if name is None else {name: "14.1.0"}
    assert {one: known for one, known in found.items() if one.startswith("cupy")} == expected
