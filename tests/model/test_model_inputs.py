"""Inputs of models: from files, and drawn."""

from __future__ import annotations

from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from xverify.core.errors import DamagedFileError, UsageError
from xverify.model import inputs
from xverify.model.nodes import Operand


def model(*operands):
    return SimpleNamespace(inputs=operands)


def written(folder, **arrays):
    path = folder / "x.npz"
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize(
    ("dtype", "array", "codes"),
    [
        ("float32", np.array([1.0, -0.0], np.float32), [0x3F800000, 0x80000000]),
        ("float32", np.array([1.0], ">f4"), [0x3F800000]),
        ("bool", np.array([True, False]), [1, 0]),
        ("int4", np.array([-8, 7], np.int8), [8, 7]),
        ("uint4", np.array([15], np.uint8), [15]),
        ("int4", np.array([-1, 2]).astype(ml_dtypes.int4), [15, 2]),
        ("bfloat16", np.array([1.0]).astype(ml_dtypes.bfloat16), [0x3F80]),
        ("bfloat16", np.array([0x3F80], np.uint16), [0x3F80]),
        ("float8_e4m3fn", np.array([0x38], np.uint8), [0x38]),
        ("int64", np.array([-1]), [(1 << 64) - 1]),
    ],
)
def test_an_array_of_each_kind(tmp_path, dtype, array, codes):
    tensor = inputs.given(written(tmp_path, x=array), model(Operand("x", dtype, (None,))))["x"]
    assert tensor.dtype == ("uint8" if dtype == "bool" else dtype)
    assert tensor.codes.tolist() == codes


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "no array for the input 'x'; the model's inputs are x, n"),
        ({"x": np.zeros((2, 3), np.float32), "n": np.int8(1), "z": np.zeros(1)}, "array 'z', which is no input"),
        ({"x": np.zeros((2, 4), np.float32), "n": np.int8(1)}, r"shape \(2, 4\), and the input has \(\?, 3\)"),
        ({"x": np.zeros(3, np.float32), "n": np.int8(1)}, r"shape \(3,\)"),
        ({"x": np.zeros((2, 3)), "n": np.int8(1)}, "dtype float64, and the input has float32"),
        ({"x": np.zeros((2, 3), np.float32), "n": np.int8(8)}, "dtype int8, and the input has int4"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path, arrays, message):
    operands = model(Operand("x", "float32", (None, 3)), Operand("n", "int4", ()))
    with pytest.raises(UsageError, match=message):
        inputs.given(written(tmp_path, **arrays), operands)


def test_files_that_are_refused(tmp_path, monkeypatch):
    operands = model(Operand("x", "float32", None))
    text, objects = tmp_path / "text.npz", written(tmp_path, x=np.array([{}], object))
    text.write_text("no zip file")
    for path in (text, objects):
        with pytest.raises(DamagedFileError, match=r"is no \.npz file of arrays: [^\n]*; write it by numpy.savez"):
            inputs.given(path, operands)
    monkeypatch.setattr(inputs, "LARGEST", 100)
    with pytest.raises(UsageError, match="100 are allowed"):
        inputs.given(written(tmp_path, x=np.zeros(1000, np.float32)), operands)


def test_drawn_inputs_have_equal_extents_under_equal_names():
    operands = model(
        Operand("ids", "int64", (None, None), None, ("batch", "length")),
        Operand("mask", "bool", (None,), None, ("length",)),
        Operand("x", "float32", (None, 3, None)),
        Operand("codes", "uint8", (4096,)),
    )
    tensors = inputs.drawn(operands, 1)
    assert {name: tensor.shape for name, tensor in tensors.items()} == {
        "ids": (2, 8), "mask": (8,), "x": (2, 3, 8), "codes": (4096,)
    }  # fmt: skip
    assert int(tensors["ids"].codes.max()) < inputs.INDICES
    assert set(tensors["mask"].codes.tolist()) <= {0, 1}
    assert len(set(tensors["codes"].codes.tolist())) == 256
    again = inputs.drawn(operands, 1)
    assert all(tensors[name].same_bits(again[name]) for name in tensors)
    other = inputs.drawn(operands, 1, {"length": 5, "x:2": 1})
    assert (other["ids"].shape, other["mask"].shape, other["x"].shape) == ((2, 5), (5,), (2, 3, 1))


def test_what_cannot_be_drawn():
    with pytest.raises(UsageError, match="has the type string, which cannot be drawn"):
        inputs.drawn(model(Operand("x", "string", ())), 1)
    with pytest.raises(UsageError, match="at most 268435456 are drawn"):
        inputs.drawn(model(Operand("x", "int8", (1 << 20, 1 << 20))), 1)
    with pytest.raises(UsageError, match="no extent is called 'b'; the model's inputs have n, x:0"):
        inputs.drawn(model(Operand("x", "int8", (None,), None, ("n",))), 1, {"b": 2})
