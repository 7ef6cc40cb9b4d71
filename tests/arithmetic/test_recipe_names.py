"""Names of recipes and of indexing mistakes, and whether a recipe gives a result."""

from __future__ import annotations

import numpy as np
import pytest
from cell_calls import ONNX, WRAPS
from lattice_oracles import follows

from xverify import contracts
from xverify.arithmetic import indexing, lattice, range_lattice
from xverify.arithmetic.readings import EXACT, EXACT_QUOTIENT, FLOAT32, OUTPUT, by_name
from xverify.core.call import Call, Tensor
from xverify.core.dtypes import tensor
from xverify.strategies import build
from xverify.strategies.structures import Linear
from xverify.verify.attribute import Misread, gives, named


def test_a_name_finds_its_recipe() -> None:
    tensorflow = contracts.get("tensorflow/Dequantize@installed")
    first = build(ONNX, Linear("int8", "float32", "blocked", (3, 110), "int8", axis=1, block_size=32))
    drawn_readings = lattice.near(lattice.types_of(ONNX.operands(first)), (EXACT, *OUTPUT))
    for reading in (FLOAT32, EXACT_QUOTIENT, *drawn_readings[::7]):
        assert named(ONNX, reading.name) == reading == by_name(reading.name)
    for mistake, _ in indexing.mistakes(first, ONNX.operands(first)):
        recipe = Misread(mistake, FLOAT32)
        again = named(ONNX, recipe.name)
        assert again == recipe
        assert again.words == recipe.words
    for reading in range_lattice.RANGE_READINGS[::97]:
        assert named(tensorflow, reading.name) is reading
    for contract, name in ((ONNX, "wrap-nothing"), (ONNX, "no-mistake@exact"), (tensorflow, "exact"), (ONNX, "")):
        with pytest.raises(KeyError):
            named(contract, name)


def test_what_a_recipe_gives() -> None:
    call = build(ONNX, Linear("int8", "float32", "per_axis", (4, 80), "int8", axis=0))
    mistake = indexing.misindexing("channels-reversed")
    for recipe in (EXACT, WRAPS, Misread(mistake, EXACT)):
        given = follows(ONNX, recipe)(call).tensor
        assert [gives(ONNX, call, given, other) for other in (EXACT, WRAPS, Misread(mistake, EXACT))].count(True) == 1
        assert gives(ONNX, call, given, recipe)
        odd = Tensor(given.dtype, given.codes ^ np.eye(4, 80, dtype=np.uint32))
        assert not gives(ONNX, call, odd, recipe)
        assert gives(ONNX, call, odd, recipe, where=np.eye(4, 80) == 0)
        assert not gives(ONNX, call, odd, recipe, where=np.eye(4, 80) == 1)
        assert not gives(ONNX, call, tensor("float32", np.zeros((4, 81))), recipe)
        assert not gives(ONNX, call, tensor("float64", np.zeros((4, 80))), recipe)
    alone = build(ONNX, Linear("int8", "float32", "per_tensor", (80,), "int8"))
    right = follows(ONNX, EXACT)(alone).tensor
    assert gives(ONNX, alone, right, Misread(mistake, EXACT)), "where a mistake cannot be made it is not made"


def test_a_reading_and_any_nan() -> None:
    call = Call(ONNX.id, {"x": tensor("int8", [1]), "scale": tensor("float32", np.nan)})
    for code in (0x7FC00000, 0xFFC00001, 0x7F800001):
        assert gives(ONNX, call, Tensor("float32", np.array([code], np.uint32)), EXACT)
    assert not gives(ONNX, call, Tensor("float32", np.array([0x7F800000], np.uint32)), EXACT)
