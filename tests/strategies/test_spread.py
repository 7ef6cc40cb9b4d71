"""The placement of scales and zero points along x, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from xverify.arithmetic.linear_operands import Blocked, linear_operands, on_grid, spread
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
    with pytest.raises(ValueError, match="a parameter has 2 elements, but the call names no axis"):
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


def blocked(shape: tuple[int, ...], blocks: tuple[int, ...], block_size: int, roles: str = "both") -> Call:
    """A blocked call whose codes all differ."""
    x = np.arange(int(np.prod(shape)), dtype=np.uint16).reshape(shape)
    tensors = {"x": tensor("uint16", x), "scale": tensor("float32", np.arange(1, 1 + np.prod(blocks)).reshape(blocks))}
    if roles == "both":
        tensors["zero_point"] = tensor("uint16", np.arange(5, 5 + np.prod(blocks)).reshape(blocks))
    return Call("", tensors, {"block_size": block_size})


@pytest.mark.parametrize("roles", ["both", "scale"])
@pytest.mark.parametrize(
    ("shape", "blocks", "axis", "block_size"),
    [((2, 6), (2, 3), 1, 2), ((2, 6), (2, 2), -1, 3), ((6, 2), (2, 2), 0, 3), ((2, 4, 3), (2, 2, 3), 1, 2), ((6,), (2,), 0, 3)],
)  # fmt: skip
def test_whole_blocks_are_a_dimension_of_their_own(
    shape: tuple[int, ...], blocks: tuple[int, ...], axis: int, block_size: int, roles: str
) -> None:
    call = blocked(shape, blocks, block_size, roles)
    operands = linear_operands(call, "float32", axis, block_size)
    index = axis % len(shape)
    fine = on_grid(operands)
    assert fine.shape == (*blocks[: index + 1], block_size, *blocks[index + 1 :])
    assert fine.codes["x"].base is not None, "x was copied"
    assert fine.codes["scale"].size == np.prod(blocks)
    assert set(operands.codes) == set(fine.codes) == set(operands.dtypes)
    assert len(operands.codes) == len(fine.codes)
    for role, codes in operands.codes.items():
        given = call.tensors[role]
        expected = given.codes if role == "x" else spread(given, call.tensors["x"], axis, block_size)
        np.testing.assert_array_equal(codes, expected)
        assert codes.shape == shape
        assert operands.codes[role] is codes
        spread_out = np.broadcast_to(fine.codes[role], fine.shape)
        np.testing.assert_array_equal(spread_out.reshape(shape), expected, role)


@pytest.mark.parametrize(
    ("shape", "blocks", "axis", "block_size"),
    [
        ((2, 5), (2, 3), 1, 2), ((2, 5), (2, 2), 1, 2), ((2, 6), (2, 6), 1, 1), ((4, 2), (4,), 0, 2), ((1, 4), (1, 1), 1, 4),
        ((2, 0), (2, 0), 1, 2), ((2, 4), (), None, 2), ((2, 4), (1,), 7, 2),
    ],
    ids=["a remainder", "too few blocks", "blocks of one", "per axis", "one block", "nothing", "no axis", "an axis too far"],
)  # fmt: skip
def test_others_are_as_they_were(
    shape: tuple[int, ...], blocks: tuple[int, ...], axis: int | None, block_size: int
) -> None:
    call = blocked(shape, blocks, block_size)
    operands = linear_operands(call, "float32", axis, block_size)
    assert not isinstance(operands.codes, Blocked)
    assert on_grid(operands) is operands
    for role in ("scale", "zero_point"):
        expected = spread(call.tensors[role], call.tensors["x"], axis, block_size)
        np.testing.assert_array_equal(operands.codes[role], expected)


def test_one_zero_point_for_all_blocks_is_not_repeated() -> None:
    call = blocked((2, 6), (2, 3), 2, "scale")
    alone = {**call.tensors, "zero_point": tensor("uint16", [7])}
    operands = linear_operands(Call("", alone), "float32", 1, 2)
    assert on_grid(operands) is operands
    assert operands.codes["scale"].shape == (2, 6)
    assert operands.codes["zero_point"].shape == ()
