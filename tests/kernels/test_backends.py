"""Backend selection: by name, and where Numba is missing, broken or cannot write its cache."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import xverify
from xverify.core.call import Call, Tensor
from xverify.core.dtypes import tensor
from xverify.core.errors import UsageError
from xverify.engine.select import kernel_named
from xverify.kernels.backends import chosen
from xverify.oracles import all_oracles, xverify_numpy

pytest.importorskip("numba")


def run(code: str, **environment: str) -> str:
    """Run code in a new interpreter. Return what it prints."""
    ran = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, timeout=100
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


CALL = """
import sys
import numpy as np
import xverify
assert "numba" not in sys.modules
{before}
x = np.arange(300, dtype=np.uint8)
print(xverify.dequantize_linear(x, np.float32(0.5)).sum())
try:
    xverify.dequantize_linear(x, np.float32(0.5), backend="numba")
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize("before", ["sys.modules['numba'] = None", "sys.meta_path.insert(0, Broken())"])
def test_without_numba(before: str) -> None:
    """Numba is not installed, or it is installed and its import fails."""
    broken = "class Broken:\n    def find_spec(self, name, *rest):\n        if name == 'numba': raise RuntimeError('broken')\n"
    total, said = run(CALL.format(before=broken + before)).splitlines()
    assert float(total) == np.arange(300, dtype=np.uint8).sum() / 2
    assert "pip install 'xverify[numba]'" in said


def test_a_numba_that_is_told_to_compile_nothing() -> None:
    total, said = run(CALL.format(before=""), NUMBA_DISABLE_JIT="1").splitlines()
    assert float(total) == np.arange(300, dtype=np.uint8).sum() / 2
    assert "unset NUMBA_DISABLE_JIT" in said


def test_a_cache_that_cannot_be_written() -> None:
    """The cache directory lies below a file, so it cannot be made."""
    total, *_ = run(CALL.format(before=""), NUMBA_CACHE_DIR=os.devnull + "/none").splitlines()
    assert float(total) == np.arange(300, dtype=np.uint8).sum() / 2


def test_the_fastest_backend_is_chosen_and_a_named_one_is_itself() -> None:
    assert (chosen(None), chosen("numba"), chosen("numpy")) == ("numba", "numba", "numpy")


def test_an_unknown_backend() -> None:
    with pytest.raises(ValueError, match="backend is 'cuda'; expected 'numpy' or 'numba'"):
        xverify.dequantize_linear(np.zeros(1, np.uint8), np.float32(1), backend="cuda")


def test_the_oracle() -> None:
    assert all_oracles()["xverify-numba"].role == "kernel"
    call = Call("ai.onnx/DequantizeLinear-25", {"x": tensor("int8", [1, -3]), "scale": tensor("float32", 0.5)}, {})
    outcome = xverify_numpy.load("numba").answer(call, "")
    assert outcome.tensor is not None
    assert outcome.tensor.codes.view(np.float32).tolist() == [0.5, -1.5]


def packed_call(zero_point: Tensor | None, **attributes: int) -> Call:
    tensors = {"x": tensor("int4", [[1, -3, 7], [-8, 0, 2]]), "scale": tensor("float32", [0.5, 2])}
    return Call("ai.onnx/DequantizeLinear-25", tensors | ({"zero_point": zero_point} if zero_point else {}), attributes)


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_the_oracle_with_codes_as_they_are_stored(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[np.ndarray, ...]] = []
    usual = xverify.dequantize_packed

    def watched(*operands: np.ndarray, **keywords: object) -> np.ndarray:
        asked.append(operands)
        return usual(*operands, **keywords)

    monkeypatch.setattr(xverify, "dequantize_packed", watched)
    kernel = kernel_named(f"xverify-{backend}:packed")
    assert kernel.name == f"xverify-{backend}:packed"
    answer = xverify_numpy.load(*kernel.arguments).answer
    outcome = answer(packed_call(tensor("int4", [1, -1]), axis=0), "")
    assert outcome.tensor is not None
    assert outcome.tensor.codes.view(np.float32).tolist() == [[0, -2, 3], [-14, 2, 6]]
    assert [operand.tolist() for operand in asked.pop()] == [[0xD1, 0x87, 0x20], [0.5, 2], [0xF1]]
    with pytest.raises(ValueError, match="zero-point-shape"):
        answer(packed_call(tensor("int4", [[1, -1]]), axis=0), "")
    with pytest.raises(TypeError, match="zero-point-type"):
        answer(packed_call(tensor("uint4", [1, 1]), axis=0), "")
    assert [operands[2].dtype.name for operands in asked] == ["int4", "uint4"]
    asked.clear()
    with pytest.raises(TypeError, match="zero-point-type"):  # it would be taken for packed codes
        answer(packed_call(tensor("uint8", [1, 1]), axis=0), "")
    usual_type = Call("ai.onnx/DequantizeLinear-25", {"x": tensor("int8", [1]), "scale": tensor("float32", 0.5)}, {})
    assert answer(usual_type, "").tensor is not None
    assert not asked


@pytest.mark.parametrize("name", ["xverify-numba:", "xverify-numpy:unpacked"])
def test_an_unknown_option_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="takes the option packed, not"):
        kernel_named(name)
