"""Indexing mistakes of parameters against loops over elements, and properties of all mistakes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from indexed_calls import CONTRACT, PACKED, PARAMETERS, WRONG, X_ONLY, Param, a_call, codes, spread
from walked_calls import EDITIONS

from xverify import contracts
from xverify.arithmetic.indexing import Misindexing, all_mistakes, misindexing, mistakes
from xverify.arithmetic.reading import Operands
from xverify.core.call import BITS, Call, Tensor, code_dtype
from xverify.core.dtypes import NAN_AS_NUMBER, values
from xverify.strategies import calls

# -- the mistakes of a parameter's index, element by element ----------------------------------------------

GATHERED = (
    a_call((3, 4), (3,), 0),
    a_call((3, 4), (4,), -1),
    a_call((2, 3, 4), (3,), 1),
    a_call((2, 3, 4), (2,), 0, zero_points=False),
    a_call((2, 3, 4), (4,), -1),
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
    reread = misindexing(name).operands(call, right)
    changed = False
    for role in set(PARAMETERS) & set(right.codes):
        p = Param(call, role)
        expected = np.array(spread(right, role))
        for where in np.ndindex(*p.shape):
            value = WRONG[name](p, where)
            expected[where] = expected[where] if value is None else value
        changed |= not np.array_equal(expected, spread(right, role))
        if reread is not None:
            np.testing.assert_array_equal(spread(reread, role), expected)
    assert (reread is not None) == changed


def test_every_wrong_gather_is_met_by_some_call() -> None:
    met = {m.name for call in GATHERED for m in all_mistakes().values() if m.operands(call, CONTRACT.operands(call))}
    assert set(WRONG) <= met


# -- of every mistake -------------------------------------------------------------------------------------

DRAWN = settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
LINEAR = tuple(identity for identity in EDITIONS if not identity.startswith("tensorflow"))


def content(operands: Operands) -> tuple[Any, ...]:
    return tuple((role, operands.dtypes[role], spread(operands, role).tobytes()) for role in sorted(operands.codes))


@pytest.mark.parametrize("identity", LINEAR)
@given(data=st.data())
@DRAWN
def test_mistakes_of_drawn_calls(identity: str, data: DataObject) -> None:
    contract = contracts.get(identity)
    call = data.draw(calls(contract))
    right = contract.operands(call)
    pairs = list(mistakes(call, right))
    contents = [content(wrong) for _, wrong in pairs]
    assert len({content(right), *contents}) == len(pairs) + 1
    order = [m.name for m in all_mistakes().values()]
    assert [m.name for m, _ in pairs] == [name for name in order if name in {m.name for m, _ in pairs}]
    for mistake, wrong in pairs:
        assert (wrong.shape, wrong.output_dtype) == (right.shape, right.output_dtype)
        assert set(wrong.codes) == set(wrong.dtypes) == set(right.codes)
        for role, array in wrong.codes.items():
            dtype, _ = NAN_AS_NUMBER.get(wrong.dtypes[role], (wrong.dtypes[role], {}))
            assert array.dtype == code_dtype(dtype)
            assert np.broadcast_shapes(array.shape, wrong.shape) == wrong.shape
            assert array.max(initial=0) < 1 << BITS[dtype]
            assert role in mistake.roles or array is right.codes[role]
        again = mistake.operands(call, right)
        assert again is not None
        assert content(again) == content(wrong)


REQUANTIZED = (
    "requantized", "requantized-without-zero-point", "requantized-to-uint8", "requantized-to-int8",
)  # fmt: skip
"""Mistakes that read all operands of data from the same result."""


def all_alone(call: Call) -> Iterator[tuple[Misindexing, Operands | None, Operands | None, Operands]]:
    right = CONTRACT.operands(call)
    for mistake in all_mistakes().values():
        for role in mistake.roles if len(mistake.roles) > 1 and mistake.name not in REQUANTIZED else ():
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
    assert all(misindexing(name) is mistake and mistake.name == name for name, mistake in all_mistakes().items())
    here = {
        *WRONG,
        *PACKED,
        *X_ONLY,
        *REQUANTIZED,
        *NAN_AS_NUMBER,
        "strides-ignored",
        "parameter-strides-ignored",
        "strides-and-offset-ignored",
        "memory-order",
        "parameters-in-memory-order",
        "parameters-swapped",
    }
    others = {name for name, mistake in all_mistakes().items() if len(mistake.roles) > 1} - here
    types = [name.split("-as-") for name in others]
    assert all(dtype != other and BITS[dtype] == BITS[other] for dtype, other in types)
    assert all(name.split() == [name] and name == name.lower() for name in all_mistakes())
    assert len({mistake.words for mistake in all_mistakes().values()}) == len(all_mistakes())
    with pytest.raises(KeyError):
        misindexing("right")


def test_parameters_of_float_types_may_be_swapped() -> None:
    mistake = misindexing("parameters-swapped")
    by_role = {role: np.array([code], np.uint16) for role, code in (("x", 1), ("scale", 2), ("zero_point", 3))}
    call = Call("acme", {role: Tensor("uint16", array) for role, array in by_role.items()})
    for zero_point, swaps in (("bfloat16", True), ("int16", False)):
        right = Operands(by_role, {"x": "int16", "scale": "float16", "zero_point": zero_point}, "float32", (1,))
        wrong = mistake.operands(call, right)
        assert (wrong is not None) == swaps
        if wrong is not None:
            assert (wrong.codes["scale"], wrong.codes["zero_point"]) == (by_role["zero_point"], by_role["scale"])
            assert (wrong.dtypes["scale"], wrong.dtypes["zero_point"]) == ("bfloat16", "float16")


def test_a_scale_of_16_bits_read_as_float32_takes_two_elements_and_bytes_behind() -> None:
    scale = Tensor("bfloat16", np.array([0x3F80, 0x4000, 0x4040], np.uint16))
    call = Call(CONTRACT.id, {"x": Tensor("int8", np.ones((2, 3), np.uint8)), "scale": scale}, {"axis": 1})
    wrong = misindexing("16-bit-scale-as-float32").operands(call, CONTRACT.operands(call))
    assert wrong is not None
    assert wrong.dtypes["scale"] == "float32"
    assert wrong.codes["scale"].reshape(-1).tolist() == [0x40003F80, 0x40404040, 0x40404040]


@pytest.mark.parametrize(
    ("dtype", "code", "other", "taken"),
    [
        ("float32", 0x3F800001, 0x3F7FFFF0, True),  # 1 + 2^-23 and 1 - 2^-20
        ("float32", 0x3F800008, 0x3F800000, True),
        ("float32", 0x3F800009, 0x3F800001, False),
        ("float32", 0x3F800001, 0x40000000, False),
        ("float16", 0x3C01, 0x3C00, False),
        ("bfloat16", 0x3F80, 0x3F80, False),
    ],
)
def test_scales_near_1_are_taken_as_1_if_all_are(dtype: str, code: int, other: int, taken: bool) -> None:
    scale = Tensor(dtype, np.array([code, other], code_dtype(dtype)))
    call = Call(CONTRACT.id, {"x": Tensor("int8", np.ones((3, 2), np.uint8)), "scale": scale}, {"axis": 1})
    wrong = misindexing("scale-near-one").operands(call, CONTRACT.operands(call))
    assert (wrong is not None) == taken
    if wrong is not None:
        assert values("float32", wrong.codes["scale"]).reshape(-1).tolist() == [1.0, 1.0]


def test_the_result_of_a_node_before_an_operand_has_no_gaps() -> None:
    scale = Tensor("bfloat16", np.array([0x3F80, 0x4000], np.uint16), "strided")
    call = Call(CONTRACT.id, {"x": Tensor("int8", np.ones((3, 2), np.uint8)), "scale": scale}, {"axis": 1})
    mistakes_by_name = {name: misindexing(name) for name in ("16-bit-scale-as-float32", "parameter-strides-ignored")}
    moved = replace(call, around=("scale<squeeze:0",))
    wide, no_gaps = (mistake.operands(moved, CONTRACT.operands(moved)) for mistake in mistakes_by_name.values())
    assert wide is not None
    assert wide.codes["scale"].reshape(-1).tolist() == [0x40003F80, 0x40404040]
    assert no_gaps is None
    assert all(mistake.operands(call, CONTRACT.operands(call)) for mistake in mistakes_by_name.values())


def test_one_element_serves_all_without_mistakes_of_the_parameters() -> None:
    for parameters in ((), (1,)):
        call = a_call((2, 3), parameters)
        names = {mistake.name for mistake, _ in mistakes(call, CONTRACT.operands(call))} - {*REQUANTIZED}
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
