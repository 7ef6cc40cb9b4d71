"""How a scale or a zero point is laid out along x, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from xverify.contracts.linear import linear_operands, spread
from xverify.core.call import Call
from xverify.core.dtypes import tensor

X = tensor("int8", np.zeros((2, 6)))


def laid(scale: object, axis: int | None, block_size: int = 0, x: object = X) -> np.ndarray:
    return spread(tensor("uint8", scale), x, axis, block_size)  # type: ignore[arg-type]


def test_one_element_serves_the_whole_tensor() -> None:
    for one in (3, [3], [[3]]):
        for axis, block_size in ((None, 0), (1, 0), (7, 0), (1, 2)):
            codes = laid(one, axis, block_size)
            assert codes.shape == ()
            assert codes == 3


def test_one_dimension_goes_along_the_axis_whatever_the_block_size() -> None:
    for block_size in (0, 2):
        assert laid([1, 2], 0, block_size).tolist() == [[1], [2]]
        assert laid([1, 2], -2, block_size).tolist() == [[1], [2]]
        assert laid([1, 2, 3, 4, 5, 6], 1, block_size).tolist() == [[1, 2, 3, 4, 5, 6]]


def test_blocks_are_repeated_and_the_last_may_be_partial() -> None:
    assert laid([[1, 2], [3, 4]], 1, 4).tolist() == [[1, 1, 1, 1, 2, 2], [3, 3, 3, 3, 4, 4]]
    assert laid([[1, 2, 3], [4, 5, 6]], -1, 2).tolist() == [[1, 1, 2, 2, 3, 3], [4, 4, 5, 5, 6, 6]]
    assert laid([[1, 2, 3, 4, 5, 6]], 0, 2).tolist() == [[1, 2, 3, 4, 5, 6]] * 2
    assert laid([[1, 2, 3, 4, 5, 6]], 0, 9).tolist() == [[1, 2, 3, 4, 5, 6]] * 2
    assert laid(np.arange(12).reshape(2, 6), 1, 1).tolist() == np.arange(12).reshape(2, 6).tolist()
    assert laid([5, 6], 0, 3, tensor("int8", np.zeros(4))).tolist() == [5, 5, 5, 6]


def test_several_elements_need_an_axis_that_x_has() -> None:
    with pytest.raises(ValueError, match="2 elements of a parameter, and no axis"):
        laid([1, 2], None)
    for axis in (2, -3):
        with pytest.raises(ValueError, match=rf"axis {axis} is outside \[-2, 1\]"):
            laid([1, 2], axis)


def test_operands_are_not_blocked_where_no_block_size_is_said() -> None:
    tensors = {
        "x": tensor("uint8", [1, 2, 3]),
        "scale": tensor("float32", [1, 2, 3]),
        "zero_point": tensor("uint8", [4]),
    }
    operands = linear_operands(Call("", tensors), "float16", 0)
    assert (operands.output_dtype, operands.shape) == ("float16", (3,))
    assert {role: codes.shape for role, codes in operands.codes.items()} == {"x": (3,), "scale": (3,), "zero_point": ()}
    assert operands.dtypes == {"x": "uint8", "scale": "float32", "zero_point": "uint8"}
