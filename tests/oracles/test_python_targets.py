"""Python functions under test: finding them by target, loading them in a worker, calling them."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from python_calls import ONNX, a_call, given_to, tensor

from xverify.core.call import Call, encode_call
from xverify.oracles.protocol import Oracle
from xverify.oracles.python_kernel import answerer
from xverify.oracles.python_target import LoadError, find_function
from xverify.workers.worker import Worker

# -- how the function is called ---------------------------------------------------------------------------


def test_each_family_has_its_keywords() -> None:
    onnx = a_call(axis=0, block_size=2, output_dtype="bfloat16")
    expected = {"axis": 0, "block_size": 2, "out_dtype": np.dtype(ml_dtypes.bfloat16)}
    assert given_to(onnx) == (("int8", "float32", "int8"), expected)
    assert given_to(a_call(zero_point=None)) == (("int8", "float32"), {})
    fours = {"x": tensor("int4", [1, -8]), "scale": tensor("bfloat16", 1), "zero_point": tensor("int4", 0)}
    assert given_to(Call(ONNX, fours, {})) == (("int4", "bfloat16", "int4"), {})
    microsoft = replace(onnx, contract="com.microsoft/DequantizeLinear-1@installed", attributes={})
    assert given_to(microsoft)[1] == {"axis": None}
    assert given_to(replace(microsoft, attributes={"axis": 2}))[1] == {"axis": 2}
    onednn = replace(
        onnx, contract="onednn/DynamicDequantize-1@multiply", attributes={"qtype": "per_channel", "axis": -1}
    )
    assert given_to(onednn)[1] == {"qtype": "per_channel", "axis": -1}
    bounds = {role: tensor("float32", value) for role, value in (("min_range", -1), ("max_range", 1))}
    ranged = Call("tensorflow/Dequantize@installed", {"input": tensor("int16", [1]), **bounds}, {})
    for attributes, keywords in (
        ({}, {}),
        ({"mode": "SCALED", "narrow_range": True, "axis": 0}, {"mode": "SCALED", "narrow_range": True, "axis": 0}),
        ({"axis": -1, "dtype": "bfloat16"}, {"axis": None, "out_dtype": np.dtype(ml_dtypes.bfloat16)}),
    ):
        assert given_to(replace(ranged, attributes=attributes)) == (("int16", "float32", "float32"), keywords)


def test_int4_comes_with_one_element_a_byte() -> None:
    seen: list[Any] = []

    def function(x: Any, scale: Any) -> Any:
        seen.append((x.itemsize, x.astype(np.int8).tolist()))
        return x.astype(np.float32)

    answerer(function)(Call(ONNX, {"x": tensor("int4", [-8, 7]), "scale": tensor("float32", 1)}, {}), "")
    assert seen[0] == (1, [-8, 7])


# -- targets ----------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of kernels that is the current directory and on the path. Modules and path are restored."""
    files = {
        "kernels.py": "from sibling_of_kernels import double\n"
        "class Kernels:\n    @staticmethod\n    def dequantize(x, *given): return x * double(1)\n"
        "def dequantize_fast(x): return x\nSCALE = 2.0\n",
        "sibling_of_kernels.py": "def double(x): return 2 * x\n",
        "empty.py": "",
        "broken.py": "import os\n\ndef dequantize(x:\n    return x\n",
        "failing.py": "from sibling_that_fails import helper\n",
        "sibling_that_fails.py": "def helper():\n    raise ValueError('no good')\n\nhelper()\n",
        "needy.py": "import no_such_package_anywhere.at_all\n",
        "leaving.py": "import sys\nsys.exit('bye')\n",
        "os.py": "raise ValueError('this hides the standard library')\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "package_of_kernels").mkdir()
    (tmp_path / "package_of_kernels" / "__init__.py").write_text("")
    (tmp_path / "package_of_kernels" / "linear.py").write_text("def dequantize(x): return x\n")
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_function_is_found_by_file_by_module_and_by_attribute(folder: Path) -> None:
    assert find_function("kernels.py:dequantize_fast")(3) == 3
    assert find_function(str(folder / "kernels.py") + ":Kernels.dequantize")(3) == 6
    assert find_function("package_of_kernels.linear:dequantize")(3) == 3
    assert find_function("numpy:add") is np.add


def test_a_file_finds_its_neighbours(folder: Path) -> None:
    (folder / "deep").mkdir()
    (folder / "deep" / "kernel.py").write_text("from neighbour_of_kernel import dequantize\n")
    (folder / "deep" / "neighbour_of_kernel.py").write_text("def dequantize(x): return 3 * x\n")
    assert find_function("deep/kernel.py:dequantize")(3) == 9


def test_a_file_of_a_package_has_relative_imports(folder: Path) -> None:
    inner = folder / "outer_package" / "inner_package"
    inner.mkdir(parents=True)
    (inner.parent / "factor.py").write_text("FACTOR = 5\n")
    (inner / "double.py").write_text("def double(x): return 2 * x\n")
    text = "from ..factor import FACTOR\nfrom .double import double\ndef dequantize(x): return FACTOR * double(x)\n"
    (inner / "kernel.py").write_text(text)
    with pytest.raises(LoadError, match=r"attempted relative import.*; put an empty __init__.py into each folder"):
        find_function("outer_package/inner_package/kernel.py:dequantize")
    for package in (inner, inner.parent):
        (package / "__init__.py").touch()
    assert find_function("outer_package/inner_package/kernel.py:dequantize")(1) == 10


def test_any_object_that_can_be_called_will_do(folder: Path) -> None:
    (folder / "objects.py").write_text(
        "import functools\n"
        "class Scale:\n"
        "    def __init__(self, factor=2): self.factor = factor\n"
        "    def __call__(self, x): return self.factor * x\n"
        "    def method(self, x): return self.factor * x\n"
        "    @classmethod\n    def of_class(cls, x): return 2 * x\n"
        "instance = Scale()\n"
        "bound = instance.method\n"
        "partial = functools.partial(Scale(4).method)\n"
        "decorated = functools.lru_cache(instance.method)\n"
    )
    names = ("instance", "bound", "instance.method", "partial", "decorated", "Scale.of_class")
    assert [find_function("objects.py:" + name)(3) for name in names] == [6, 6, 6, 12, 6, 6]
    with pytest.raises(LoadError, match=r"objects.py:Scale is a class; write kernel = Scale\(\) into the file"):
        find_function("objects.py:Scale")
    with pytest.raises(LoadError, match=r"objects.py:Scale.method is a method .* write kernel = Scale\(\).method into"):
        find_function("objects.py:Scale.method")


def test_a_file_hides_no_module_of_its_name(folder: Path) -> None:
    import json

    (folder / "json.py").write_text("def dequantize(x): return x\n")
    assert find_function("json.py:dequantize")(3) == 3
    assert sys.modules["json"] is json


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("kernels", "'kernels' names no function: write package.module:function"),
        ("kernels.py:", "names no function"),
        (":dequantize", "names no function"),
        ("kernel.py:dequantize", "there is no file .*kernel.py; there is kernels.py"),
        ("nowhere/kernels.py:dequantize", r"there is no file .*nowhere/kernels.py$"),
        ("no_kernels:dequantize", "there is no module 'no_kernels'; .*name its file: path/to/no_kernels.py:function"),
        ("package_of_kernels.no:dequantize", "there is no module 'package_of_kernels.no'"),
        ("kernels.py:dequantise_fast", "kernels.py has no 'dequantise_fast'; did you mean dequantize_fast"),
        ("kernels:zzz", "kernels has no 'zzz'; it has Kernels, dequantize_fast, double"),
        ("kernels.py:Kernels.quantize", "kernels.py:Kernels has no 'quantize'; did you mean dequantize"),
        ("empty.py:dequantize", "empty.py has no 'dequantize'; it has no function"),
        ("kernels.py:SCALE", "kernels.py:SCALE is no function but of type float"),
        ("broken.py:dequantize", "broken.py cannot be imported: SyntaxError in broken.py:3"),
        ("broken:dequantize", "broken cannot be imported: SyntaxError in broken.py:3"),
        ("failing.py:helper", r"failing.py cannot be imported: ValueError: no good \(sibling_that_fails.py:2\)"),
        ("failing:helper", r"failing cannot be imported: ValueError: no good \(sibling_that_fails.py:2\)"),
        ("needy:f", r"needy cannot be imported: ModuleNotFoundError: .*no_such_package_anywhere.* \(needy.py:1\)"),
        ("leaving.py:f", r"leaving.py cannot be imported: SystemExit: bye \(leaving.py:2\)"),
    ],
)
def test_what_cannot_be_found_is_said_in_a_sentence(folder: Path, target: str, words: str) -> None:
    with pytest.raises(LoadError, match=words):
        find_function(target)


# -- in a worker ------------------------------------------------------------------------------------------


def oracle(target: str) -> Oracle:
    return Oracle(
        "kernels.py:dequantize",
        "no-distribution",
        (ONNX,),
        (ONNX,),
        "xverify.oracles.python_kernel",
        role="kernel",
        arguments=(target,),
    )


def test_a_kernel_in_a_worker(folder: Path) -> None:
    (folder / "kernel.py").write_text(
        "import numpy as np\n"
        "def dequantize(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):\n"
        "    if x.size == 0: raise NotImplementedError('empty')\n"
        "    if x.size == 1: raise MemoryError('much')\n"
        "    return x.astype(np.float32) * scale\n"
    )
    worker = Worker(oracle(str(folder / "kernel.py") + ":dequantize"), folder / "runs")
    worker.start()
    try:
        outcome = worker.ask(encode_call(a_call(zero_point=None)))
        assert (outcome.kind, outcome.notes) == ("tensor", ())
        assert outcome.tensor is not None
        assert outcome.tensor.same_bits(tensor("float32", [0.5, 1.0, 1.5, 2.0, 2.5]))
        assert worker.ask(encode_call(a_call(zero_point=None)), "threads").kind == "tensor"
        refused = worker.ask(encode_call(a_call([])))
        assert (refused.kind, refused.message) == ("unsupported", "empty")
        died = worker.ask(encode_call(a_call([1])))
        assert (died.kind, "MemoryError: much" in died.message) == ("crash", True)
    finally:
        worker.stop()


def test_a_kernel_that_cannot_be_loaded(folder: Path) -> None:
    worker = Worker(oracle(str(folder / "broken.py") + ":dequantize"), folder / "runs")
    worker.start()
    while worker.failed is None and not worker.ready:
        time.sleep(0.01)
    worker.stop()
    assert "broken.py cannot be imported: SyntaxError in broken.py:3" in str(worker.failed)
