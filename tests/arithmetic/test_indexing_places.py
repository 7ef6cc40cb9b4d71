"""Mistakes of memory and of types: order inside bytes, ignored layouts, codes read as another type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from indexed_calls import CONTRACT, PACKED, PARAMETERS, X_ONLY, a_call, column_order, spread

from xverify.arithmetic.indexing import misindexing
from xverify.arithmetic.reading import Operands
from xverify.arithmetic.readings import EXACT
from xverify.core.call import BITS, LAYOUTS, Call, Tensor

# -- places in memory -------------------------------------------------------------------------------------

SMALL = (
    ((3, 4), (4,), 1, 0),
    ((3, 5), (3, 3), 1, 2),
    ((7,), (), 0, 0),
    ((), (), 0, 0),
    ((9,), (9,), 0, 0),
)


def regathered(call: Call, role: str, items: list[int]) -> Operands:
    """The right operands of the call with these codes in its tensor."""
    tensor = call.tensors[role]
    array = np.array(items, tensor.codes.dtype).reshape(tensor.shape)
    return CONTRACT.operands(replace(call, tensors={**call.tensors, role: Tensor(tensor.dtype, array)}))


@pytest.mark.parametrize("structure", SMALL, ids=str)
@pytest.mark.parametrize("dtype", ["int4", "uint4", "float4_e2m1fn", "int2", "int8"])
def test_order_within_bytes_and_shifts(dtype: str, structure: tuple[Any, ...]) -> None:
    shape, parameters, axis, block = structure
    call = a_call(shape, parameters, axis, block, dtype)
    right = CONTRACT.operands(call)
    items = {role: [int(c) for c in call.tensors[role].codes.ravel()] for role in ("x", "zero_point")}
    rows: list[tuple[str, str, Callable[[list[int]], list[int]]]]
    rows = [
        (f"{n}-{r}", r.replace("-", "_"), f)
        for n, (b, f) in PACKED.items()
        if b == BITS[dtype]
        for r in ("x", "zero-point")
    ]
    rows += [(n, "x", f) for n, f in X_ONLY.items()]
    for name, role, rule in rows:
        reread = misindexing(name).operands(call, right)
        wrong = rule(items[role])
        if wrong == items[role]:
            assert reread is None, name
        else:
            assert reread is not None, name
            np.testing.assert_array_equal(spread(reread, role), spread(regathered(call, role, wrong), role), name)
    for name, (bits, _) in PACKED.items():
        assert bits == BITS[dtype] or misindexing(name).operands(call, right) is None


def as_laid(call: Call) -> tuple[list[int], int]:
    """The memory of x in its layout, written by hand, and the index of its first element."""
    x = call.tensors["x"]
    items = [int(c) for c in x.codes.ravel()]
    last = x.shape[-1] if x.shape else 1
    rows = [items[i : i + last] for i in range(0, len(items), last)]
    if x.layout == "F":
        return [int(x.codes[w]) for w in column_order(x.shape)], 0
    if x.layout == "reversed" and x.shape:
        return [item for row in rows for item in reversed(row)], last - 1
    if x.layout == "strided" and x.shape:
        return [item for row in rows for item in [0, *(c for code in row for c in (code, 0))]], 1
    if x.layout == "row-slice" and len(x.shape) > 1:
        return [item for row in rows for item in [*row, 0, 0, 0]], 0
    if x.layout == "permuted" and len(x.shape) == 2:
        return [item for column in zip(*rows, strict=True) for item in [*column, 0, 0, 0]], 0
    if x.layout == "permuted" and len(x.shape) == 3:
        return [int(x.codes[i, j, k]) for i, k, j in np.ndindex(x.shape[0], x.shape[2], x.shape[1])], 0
    if (x.layout == "offset" and x.shape) or x.layout == "misaligned":
        return [0, *items], 1
    return items, 0


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 2), (5,), (), (4, 1)], ids=str)
def test_layout_ignored(layout: str, shape: tuple[int, ...]) -> None:
    call = a_call(shape, (), layout=layout)
    right = CONTRACT.operands(call)
    memory, first = as_laid(call)
    own = [int(c) for c in call.tensors["x"].codes.ravel()]
    for name, start in (("strides-ignored", first), ("strides-and-offset-ignored", 0)):
        reread = misindexing(name).operands(call, right)
        wrong = memory[start : start + len(own)]
        if len(wrong) < len(own) or wrong == own:
            assert reread is None
        else:
            assert reread is not None
            assert reread.codes["x"].ravel().tolist() == wrong


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 2), (5,), (), (4, 1)], ids=str)
def test_memory_order_reads_x_as_it_lies_in_memory(layout: str, shape: tuple[int, ...]) -> None:
    call = a_call(shape, (), layout=layout)
    codes, rank = call.tensors["x"].codes, len(shape)
    orders = {("F", 2): (1, 0), ("F", 3): (2, 1, 0), ("permuted", 2): (1, 0), ("permuted", 3): (0, 2, 1)}
    expected = [int(code) for code in codes.transpose(orders.get((layout, rank), range(rank))).ravel()]
    reread = misindexing("memory-order").operands(call, CONTRACT.operands(call))
    reread_codes = codes if reread is None else reread.codes["x"]
    assert reread_codes.ravel().tolist() == expected


def test_layout_ignored_of_bytes_and_of_repeated_values() -> None:
    """Elements of two bytes are read one byte too early, and the memory may be shorter than the tensor."""
    call = a_call((3,), (), dtype="int16")
    x = Tensor("int16", np.array([0x1122, 0x3344, 0x5566], np.uint16), "misaligned")
    call = replace(call, tensors={**call.tensors, "x": x})
    right = CONTRACT.operands(call)
    reread = misindexing("strides-and-offset-ignored").operands(call, right)
    assert reread is not None
    assert reread.codes["x"].tolist() == [0x2200, 0x4411, 0x6633]
    assert misindexing("strides-ignored").operands(call, right) is None
    rows = Tensor("int16", np.array([[1, 2], [1, 2]], np.uint16), "broadcast")
    call = replace(call, tensors={**call.tensors, "x": rows})
    for name in ("strides-ignored", "strides-and-offset-ignored"):
        assert misindexing(name).operands(call, CONTRACT.operands(call)) is None


def test_parameters_in_memory_order_of_repeated_values() -> None:
    """Both rows of x are one in memory, so the parameters of the first row serve both."""
    call = a_call((2, 3), (2,), 0)
    x = Tensor("int8", np.array([[1, 2, 3], [1, 2, 3]], np.uint8), "broadcast")
    call = replace(call, tensors={**call.tensors, "x": x})
    right = CONTRACT.operands(call)
    reread = misindexing("parameters-in-memory-order").operands(call, right)
    assert reread is not None
    for role in PARAMETERS:
        first = spread(right, role)[0].tolist()
        assert spread(reread, role).tolist() == [first, first]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_parameters_in_memory_order(layout: str) -> None:
    call = a_call((2, 3, 4), (4,), 2, layout=layout)
    right = CONTRACT.operands(call)
    reread = misindexing("parameters-in-memory-order").operands(call, right)
    if layout not in ("F", "reversed", "permuted"):
        assert reread is None
        return
    assert reread is not None
    places = {
        "F": column_order((2, 3, 4)),
        "reversed": [(i, j, 3 - k) for i, j, k in np.ndindex(2, 3, 4)],
        "permuted": [(i, j, k) for i, k, j in np.ndindex(2, 4, 3)],
    }[layout]
    for role in PARAMETERS:
        in_order = spread(right, role).ravel().tolist()
        for number, where in enumerate(places):
            assert spread(reread, role)[where] == in_order[number]


# -- types ------------------------------------------------------------------------------------------------

PAIRS = [
    ("int4", "uint4"),
    ("uint2", "int2"),
    ("int8", "uint8"),
    ("uint16", "int16"),
    ("float8_e4m3fn", "float8_e5m2"),
    ("float8_e5m2fnuz", "float8_e4m3fnuz"),
]


@pytest.mark.parametrize(("dtype", "other"), PAIRS)
def test_another_type_is_that_of_a_call_with_that_type(dtype: str, other: str) -> None:
    call = a_call((4, 8), (4,), 0, dtype=dtype)
    highest = (1 << BITS[dtype]) - 1
    downwards = {r: (highest - t.codes) & highest for r, t in call.tensors.items() if t.dtype == dtype}
    call = replace(call, tensors={**call.tensors, **{r: Tensor(dtype, c) for r, c in downwards.items()}})
    right = CONTRACT.operands(call)
    for suffix, roles in (("", ("x", "zero_point")), ("-x", ("x",)), ("-zero-point", ("zero_point",))):
        reread = misindexing(f"{dtype}-as-{other}{suffix}").operands(call, right)
        assert reread is not None
        assert {role: d for role, d in reread.dtypes.items() if d != right.dtypes[role]} == dict.fromkeys(roles, other)
        assert all(np.array_equal(spread(reread, role), spread(right, role)) for role in right.codes)
    both = misindexing(f"{dtype}-as-{other}").operands(call, right)
    tensors = {r: Tensor(other, t.codes) if t.dtype == dtype else t for r, t in call.tensors.items()}
    retyped = EXACT.evaluate(CONTRACT.operands(replace(call, tensors=tensors)))
    assert both is not None
    np.testing.assert_array_equal(EXACT.evaluate(both), retyped)


def test_a_type_that_gives_the_same_numbers_is_no_mistake() -> None:
    scale_of_one = Tensor("float16", np.array(0x3C00, np.uint16))
    tensors = {"x": Tensor("int4", np.arange(8, dtype=np.uint8)), "scale": scale_of_one}
    call = Call(CONTRACT.id, tensors)
    right = CONTRACT.operands(call)
    assert misindexing("int4-as-uint4").operands(call, right) is None
    scale = misindexing("float16-as-bfloat16").operands(call, right)
    assert scale is not None
    assert scale.dtypes == {"x": "int4", "scale": "bfloat16"}
    assert scale.output_dtype == "float16"
