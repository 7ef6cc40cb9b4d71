"""Indexing mistakes against loops over single elements; and what holds of every mistake for any drawn call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from strategies import calls
from xverify import contracts
from xverify.contracts.indexing import Misindexing, known, misindexing, mistakes
from xverify.contracts.model import Operands
from xverify.contracts.readings import EXACT
from xverify.core.call import BITS, LAYOUTS, Call, Tensor, code_dtype

CONTRACT = contracts.get("ai.onnx/DequantizeLinear-21")
Where = tuple[int, ...]
PARAMETERS = ("scale", "zero_point")


def codes(dtype: str, shape: tuple[int, ...], first: int = 0) -> Any:
    """Codes that differ from their neighbours, and all from one another where the type has enough."""
    numbers = np.arange(first, first + prod(shape)) * 7 % (1 << min(BITS[dtype], 16))
    return numbers.astype(code_dtype(dtype)).reshape(shape)


def a_call(
    shape: tuple[int, ...],
    parameters: tuple[int, ...],
    axis: int = 0,
    block: int = 0,
    dtype: str = "int8",
    layout: str = "C",
    zero_points: bool = True,
) -> Call:
    tensors = {
        "x": Tensor(dtype, codes(dtype, shape, 3), layout),
        "scale": Tensor("float32", codes("float32", parameters, 100)),
    }
    if zero_points:
        tensors["zero_point"] = Tensor(dtype, codes(dtype, parameters, 1))
    return Call(CONTRACT.id, tensors, {"axis": axis} | ({"block_size": block} if block else {}))


def spread(operands: Operands, role: str) -> Any:
    return np.broadcast_to(operands.codes[role], operands.shape)


# -- the mistakes of a parameter's index, element by element ----------------------------------------------


class Param:
    """A scale or zero point of more than one element, and how it lies along x, in plain Python."""

    def __init__(self, call: Call, role: str) -> None:
        self.codes = call.tensors[role].codes
        self.flat = [int(c) for c in self.codes.ravel()]
        self.shape = call.tensors["x"].shape
        self.rank = len(self.shape)
        self.axis = int(call.attributes["axis"]) % self.rank
        self.block = int(call.attributes.get("block_size", 0))
        self.extent = self.shape[self.axis]
        self.count = self.codes.shape[self.axis] if self.block else len(self.flat)
        self.full = self.extent // self.block if self.block else 0

    def at(self, where: Where, number: int) -> int:
        """The element of that number along the axis (the nearest there is), for a value of x."""
        number = min(max(number, 0), self.count - 1)
        if not self.block:
            return self.flat[number]
        return int(self.codes[(*where[: self.axis], number, *where[self.axis + 1 :])])

    def in_memory(self, number: int) -> int:
        return self.flat[min(number, len(self.flat) - 1)]

    def position(self, where: Where, shape: tuple[int, ...] | None = None) -> int:
        """The number in C order of an element of x, or of a tensor of another shape."""
        number = 0
        for index, extent in zip(where, self.shape if shape is None else shape, strict=True):
            number = number * extent + index
        return number


Wrong = Callable[[Param, Where], int | None]


def along_another(rule: Callable[[Param], int]) -> Wrong:
    def wrong(p: Param, where: Where) -> int | None:
        axis = rule(p)
        if axis == p.axis or axis not in range(p.rank):
            return None
        if not p.block:
            return p.flat[where[axis] % len(p.flat)]
        shape = list(p.shape)
        shape[axis] = (shape[axis] + p.block - 1) // p.block
        if prod(shape) > len(p.flat):
            return None
        block = list(where)
        block[axis] //= p.block
        return p.flat[p.position(tuple(block), tuple(shape))]

    return wrong


def of_blocks(number: Callable[[Param, int], int]) -> Wrong:
    return lambda p, w: p.at(w, number(p, w[p.axis])) if p.block else None


def of_channels(number: Callable[[Param, int], int]) -> Wrong:
    return lambda p, w: None if p.block else p.at(w, number(p, w[p.axis]))


def in_remainder(p: Param, i: int) -> bool:
    return p.full > 0 and i >= p.full * p.block


def with_full_blocks(p: Param, where: Where) -> int | None:
    if not p.block:
        return None
    block = (*where[: p.axis], where[p.axis] // p.block, *where[p.axis + 1 :])
    stride, number = 1, 0
    for i in reversed(range(p.rank)):
        number += block[i] * stride
        stride *= max(p.full, 1) if i == p.axis else p.shape[i]
    return p.in_memory(number)


def block_of(p: Param, where: Where) -> Where:
    return (*where[: p.axis], where[p.axis] // p.block, *where[p.axis + 1 :])


def column_order(shape: tuple[int, ...]) -> list[Where]:
    return [tuple(reversed(w)) for w in product(*(range(e) for e in reversed(shape)))]


def read_transposed(p: Param, where: Where) -> int | None:
    return p.flat[column_order(p.codes.shape).index(block_of(p, where))] if p.block else None


def transposed(p: Param, where: Where) -> int | None:
    if not p.block:
        return None
    stored = [int(p.codes[w]) for w in column_order(p.codes.shape)]
    return stored[p.position(block_of(p, where), p.codes.shape)]


def of_first_slice(p: Param, where: Where) -> int | None:
    return (
        p.at(tuple(i if n == p.axis else 0 for n, i in enumerate(where)), where[p.axis] // p.block) if p.block else None
    )


WRONG: dict[str, Wrong] = {
    "as-per-tensor": lambda p, w: p.flat[0],
    "last-axis": along_another(lambda p: p.rank - 1),
    **{f"other-axis-{n}": along_another(lambda p, n=n: n) for n in range(6)},  # type: ignore[misc]
    "axis-from-other-end": along_another(lambda p: list(reversed(range(p.rank)))[p.axis]),
    "next-axis": along_another(lambda p: p.axis + 1),
    "previous-axis": along_another(lambda p: p.axis - 1),
    "channel-index-plus-one": of_channels(lambda p, i: i + 1),
    "channel-index-minus-one": of_channels(lambda p, i: i - 1),
    "channels-reversed": of_channels(lambda p, i: list(reversed(range(p.count)))[i]),
    "remainder-as-previous-block": of_blocks(lambda p, i: p.full - 1 if in_remainder(p, i) else i // p.block),
    "remainder-as-first-block": of_blocks(lambda p, i: 0 if in_remainder(p, i) else i // p.block),
    "block-index-plus-one": of_blocks(lambda p, i: i // p.block + 1),
    "block-index-minus-one": of_blocks(lambda p, i: i // p.block - 1),
    "block-size-ignored": of_blocks(lambda p, i: i),
    "blocks-tiled": of_blocks(lambda p, i: (list(range(p.count)) * p.extent)[i]),
    "block-length-rounded-down": of_blocks(lambda p, i: i // int(p.extent / p.count)),
    "block-length-rounded-up": of_blocks(lambda p, i: i // ((p.extent + p.count - 1) // p.count)),
    "blocks-reversed": of_blocks(lambda p, i: list(reversed(range(p.count)))[i // p.block]),
    "first-block": of_blocks(lambda p, i: 0),
    "flat-blocks": lambda p, w: p.in_memory(p.position(w) // p.block) if p.block else None,
    "full-blocks-stride": with_full_blocks,
    "parameters-read-transposed": read_transposed,
    "parameters-transposed": transposed,
    "first-slice": of_first_slice,
    "flat-position-modulo-count": lambda p, w: p.flat[p.position(w) % len(p.flat)],
    "flat-chunks": lambda p, w: p.in_memory(p.position(w) // (prod(p.shape) // len(p.flat))),
}

GATHERED = (
    a_call((3, 4), (3,), 0),
    a_call((3, 4), (4,), -1),
    a_call((2, 3, 4), (3,), 1),
    a_call((2, 3, 4), (2,), 0, zero_points=False),
    a_call((5,), (5,), 0),
    a_call((2, 1, 3, 1, 2, 2), (3,), 2),
    a_call((3, 7), (3, 3), 1, 3),
    a_call((7, 3), (3, 3), 0, 3),
    a_call((4, 4), (4, 2), -1, 2),
    a_call((2, 9, 3), (2, 3, 3), 1, 4),
    a_call((2, 5, 2), (2, 5, 2), 2, 1),
    a_call((9,), (5,), 0, 2),
    a_call((2, 3), (2, 1), 1, 8),
)


@pytest.mark.parametrize("call", GATHERED, ids=lambda call: f"{call.data.shape}-{dict(call.attributes)}")
@pytest.mark.parametrize("name", WRONG)
def test_wrong_gathers_of_parameters(name: str, call: Call) -> None:
    right = CONTRACT.operands(call)
    found = misindexing(name).operands(call, right)
    changed = False
    for role in set(PARAMETERS) & set(right.codes):
        p = Param(call, role)
        expected = np.array(spread(right, role))
        for where in np.ndindex(*p.shape):
            value = WRONG[name](p, where)
            expected[where] = expected[where] if value is None else value
        changed |= not np.array_equal(expected, spread(right, role))
        if found is not None:
            np.testing.assert_array_equal(spread(found, role), expected)
    assert (found is not None) == changed


def test_every_wrong_gather_is_met_by_some_call() -> None:
    met = {m.name for call in GATHERED for m in known().values() if m.operands(call, CONTRACT.operands(call))}
    assert set(WRONG) <= met


# -- places in memory -------------------------------------------------------------------------------------


def neighbours(items: list[int], group: int, order: list[int], padding: bool) -> list[int]:
    """Groups of elements of one byte, each read in that order."""
    result = []
    for start in range(0, len(items), group):
        own = items[start : start + group]
        full = own + [0] * (group - len(own))
        for place, number in enumerate(order[: len(own)]):
            result.append(full[number] if padding or number < len(own) else own[place])
    return result


PACKED: dict[str, tuple[int, Callable[[list[int]], list[int]]]] = {
    "nibbles-swapped": (4, lambda items: neighbours(items, 2, [1, 0], True)),
    "nibbles-swapped-in-pairs": (4, lambda items: neighbours(items, 2, [1, 0], False)),
    "low-nibble-twice": (4, lambda items: neighbours(items, 2, [0, 0], True)),
    "high-nibble-twice": (4, lambda items: neighbours(items, 2, [1, 1], True)),
    "fours-reversed": (2, lambda items: neighbours(items, 4, [3, 2, 1, 0], True)),
}
X_ONLY: dict[str, Callable[[list[int]], list[int]]] = {
    "x-plus-one": lambda items: items[1:] + items[-1:],
    "x-minus-one": lambda items: items[:1] + items[:-1],
}
SMALL = (
    ((3, 4), (4,), 1, 0),
    ((3, 5), (3, 3), 1, 2),
    ((7,), (), 0, 0),
    ((), (), 0, 0),
    ((9,), (9,), 0, 0),
)


def regathered(call: Call, role: str, items: list[int]) -> Operands:
    """The right operands of the call whose tensor holds those codes."""
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
        found = misindexing(name).operands(call, right)
        wrong = rule(items[role])
        if wrong == items[role]:
            assert found is None, name
        else:
            assert found is not None, name
            np.testing.assert_array_equal(spread(found, role), spread(regathered(call, role, wrong), role), name)
    for name, (bits, _) in PACKED.items():
        assert bits == BITS[dtype] or misindexing(name).operands(call, right) is None


def as_laid(call: Call) -> tuple[list[int], int]:
    """The memory of x in its layout, written down by hand, and where its first element stands."""
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
        found = misindexing(name).operands(call, right)
        wrong = memory[start : start + len(own)]
        if len(wrong) < len(own) or wrong == own:
            assert found is None
        else:
            assert found is not None
            assert found.codes["x"].ravel().tolist() == wrong


def test_layout_ignored_of_bytes_and_of_repeated_values() -> None:
    """Two bytes an element, read one byte too early; and memory that is shorter than the tensor."""
    call = a_call((3,), (), dtype="int16")
    x = Tensor("int16", np.array([0x1122, 0x3344, 0x5566], np.uint16), "misaligned")
    call = replace(call, tensors={**call.tensors, "x": x})
    right = CONTRACT.operands(call)
    found = misindexing("strides-and-offset-ignored").operands(call, right)
    assert found is not None
    assert found.codes["x"].tolist() == [0x2200, 0x4411, 0x6633]
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
    found = misindexing("parameters-in-memory-order").operands(call, right)
    assert found is not None
    for role in PARAMETERS:
        first = spread(right, role)[0].tolist()
        assert spread(found, role).tolist() == [first, first]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_parameters_in_memory_order(layout: str) -> None:
    call = a_call((2, 3, 4), (4,), 2, layout=layout)
    right = CONTRACT.operands(call)
    found = misindexing("parameters-in-memory-order").operands(call, right)
    if layout not in ("F", "reversed"):
        assert found is None
        return
    assert found is not None
    places = column_order((2, 3, 4)) if layout == "F" else [(i, j, 3 - k) for i, j, k in np.ndindex(2, 3, 4)]
    for role in PARAMETERS:
        in_order = spread(right, role).ravel().tolist()
        for number, where in enumerate(places):
            assert spread(found, role)[where] == in_order[number]


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
        found = misindexing(f"{dtype}-as-{other}{suffix}").operands(call, right)
        assert found is not None
        assert {role: d for role, d in found.dtypes.items() if d != right.dtypes[role]} == dict.fromkeys(roles, other)
        assert all(np.array_equal(spread(found, role), spread(right, role)) for role in right.codes)
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


# -- of every mistake -------------------------------------------------------------------------------------

DRAWN = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
LINEAR = tuple(identity for identity in contracts.ids() if not identity.startswith("tensorflow"))


def content(operands: Operands) -> tuple[Any, ...]:
    return tuple((role, operands.dtypes[role], spread(operands, role).tobytes()) for role in sorted(operands.codes))


@pytest.mark.parametrize("identity", LINEAR)
@given(data=st.data())
@DRAWN
def test_mistakes_of_drawn_calls(identity: str, data: DataObject) -> None:
    contract = contracts.get(identity)
    call = data.draw(calls(contract))
    right = contract.operands(call)
    found = list(mistakes(call, right))
    contents = [content(wrong) for _, wrong in found]
    assert len({content(right), *contents}) == len(found) + 1
    order = [m.name for m in known().values()]
    assert [m.name for m, _ in found] == [name for name in order if name in {m.name for m, _ in found}]
    for mistake, wrong in found:
        assert (wrong.shape, wrong.output_dtype) == (right.shape, right.output_dtype)
        assert set(wrong.codes) == set(wrong.dtypes) == set(right.codes)
        for role, array in wrong.codes.items():
            assert array.dtype == code_dtype(wrong.dtypes[role])
            assert np.broadcast_shapes(array.shape, wrong.shape) == wrong.shape
            assert array.max(initial=0) < 1 << BITS[wrong.dtypes[role]]
            assert role in mistake.roles or array is right.codes[role]
        again = mistake.operands(call, right)
        assert again is not None
        assert content(again) == content(wrong)


def all_alone(call: Call) -> Iterator[tuple[Misindexing, Operands | None, Operands | None, Operands]]:
    right = CONTRACT.operands(call)
    for mistake in known().values():
        for role in mistake.roles if len(mistake.roles) > 1 else ():
            alone = misindexing(f"{mistake.name}-{role.replace('_', '-')}")
            yield alone, alone.operands(call, right), mistake.operands(call, right), right


@pytest.mark.parametrize("call", [GATHERED[2], GATHERED[9], a_call((3, 5), (3,), 0, dtype="int4")], ids=["a", "b", "4"])
def test_alone_a_mistake_changes_what_it_changes_with_others(call: Call) -> None:
    several = 0
    for mistake, alone, whole, right in all_alone(call):
        (role,) = mistake.roles
        several += whole is not None and alone is not None
        if whole is None:
            assert alone is None
        elif alone is None:
            assert np.array_equal(spread(whole, role), spread(right, role))
        else:
            assert np.array_equal(spread(alone, role), spread(whole, role))
            assert alone.dtypes[role] == whole.dtypes[role]
    assert several > 20


def test_the_names_are_stable_tokens_that_are_read_back() -> None:
    assert all(misindexing(name) is mistake and mistake.name == name for name, mistake in known().items())
    here = {*WRONG, *PACKED, *X_ONLY, "strides-ignored", "strides-and-offset-ignored", "parameters-in-memory-order"}
    others = {name for name, mistake in known().items() if len(mistake.roles) > 1} - here
    types = [name.split("-as-") for name in others]
    assert all(dtype != other and BITS[dtype] == BITS[other] for dtype, other in types)
    assert all(name.split() == [name] and name == name.lower() for name in known())
    assert len({mistake.words for mistake in known().values()}) == len(known())
    with pytest.raises(KeyError):
        misindexing("right")


def test_one_element_serves_all_without_mistakes_of_the_parameters() -> None:
    for parameters in ((), (1,)):
        call = a_call((2, 3), parameters)
        names = {mistake.name for mistake, _ in mistakes(call, CONTRACT.operands(call))}
        assert names == {"x-plus-one", "x-minus-one", *(f"int8-as-uint8{s}" for s in ("", "-x", "-zero-point"))} & names
        assert "x-plus-one" in names


def test_no_mistakes_without_values_or_of_ranges() -> None:
    call = a_call((0, 3), (3,), 1, layout="F")
    assert list(mistakes(call, CONTRACT.operands(call))) == []
    tensorflow = contracts.get("tensorflow/Dequantize@seed")
    tensors: Mapping[str, Tensor] = {
        "input": Tensor("int8", codes("int8", (3, 4))),
        "min_range": Tensor("float32", np.array(0xBF800000, np.uint32)),
        "max_range": Tensor("float32", np.array(0x3F800000, np.uint32)),
    }
    ranged = Call(tensorflow.id, tensors, {"mode": "MIN_COMBINED"})
    assert list(mistakes(ranged, tensorflow.operands(ranged))) == []
