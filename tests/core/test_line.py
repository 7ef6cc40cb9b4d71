"""Calls as lines of text: written lines are read again, and damaged ones are refused."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xverify import contracts
from xverify.core import line
from xverify.core.call import BITS, LAYOUTS, Call, Tensor, code_dtype
from xverify.core.dtypes import tensor
from xverify.core.line import call_from_line, call_to_line
from xverify.strategies.calls import calls, invalid_calls

ONNX = "ai.onnx/DequantizeLinear-25"
EDITIONS = (ONNX, "com.microsoft/DequantizeLinear-1@installed", "onednn/DynamicDequantize-1@divide",
            "tensorflow/Dequantize@installed")  # fmt: skip


def agree(a: Call, b: Call) -> bool:
    """Check that two calls are equal in all but origin."""
    types = [[type(value) for value in call.attributes.values()] for call in (a, b)]
    return a.digest() == b.digest() and types[0] == types[1]


def test_a_line_has_the_documented_form():
    call = Call(
        ONNX,
        {
            "x": tensor("int8", [[-128, 127, 0], [0, 0, -1]]),
            "scale": tensor("float32", 1.0),
            "zero_point": tensor("int8", 127),
        },
        {"axis": 1},
        "walk 3",
    )
    text = call_to_line(call)
    assert text == f"{ONNX} x=int8[2,3]:80,7f,00*3,ff scale=float32[]:3f800000 zero_point=int8[]:7f axis=1"
    back = call_from_line(text)
    assert agree(back, call)
    assert back.origin == ""
    assert back.tensors["x"].codes.tolist() == [[0x80, 0x7F, 0], [0, 0, 0xFF]]


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_every_call_of_an_edition_survives_a_round_trip(data):
    contract = contracts.get(data.draw(st.sampled_from(EDITIONS)))
    call = data.draw(st.one_of(calls(contract), invalid_calls(contract)))
    text = call_to_line(call)
    assert "\n" not in text
    assert text.isascii()
    assert agree(call_from_line(text), call)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", BITS)
def test_every_type_and_layout_survives_a_round_trip(dtype, layout):
    rng = np.random.default_rng(0)
    top = (1 << BITS[dtype]) - 1
    for shape in ((), (1,), (0, 3), (7,), (2, 3, 5)):
        codes = rng.integers(0, top, shape, np.uint64, endpoint=True).astype(code_dtype(dtype))
        extremes = np.full(shape, top, code_dtype(dtype))
        call = Call(ONNX, {"x": Tensor(dtype, codes, layout), "scale": Tensor(dtype, extremes)})
        back = call_from_line(call_to_line(call))
        assert agree(back, call)
        assert back.tensors["x"].layout == layout


@given(
    st.dictionaries(
        st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True).filter(lambda name: name != "x"),
        st.one_of(
            st.integers(-(2**63), 2**63 - 1),
            st.booleans(),
            st.text(max_size=12),
            st.sampled_from(["true", "false", "", "12", "int8[1]:00", 'a "b" c', "\\", "ein zwei", "\n"]),
        ),
        max_size=4,
    ),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12),
)
def test_any_attribute_and_edition_survives_a_round_trip(attributes, edition):
    call = Call(edition, {"x": tensor("int8", 1)}, attributes)
    text = call_to_line(call)
    assert "\n" not in text
    assert text.isascii()
    back = call_from_line(text)
    assert (back.contract, dict(back.attributes)) == (edition, attributes)
    assert [type(value) for value in back.attributes.values()] == [type(value) for value in attributes.values()]


@given(st.lists(st.tuples(st.integers(0, 255), st.integers(1, 9)), max_size=30))
def test_runs_are_counted_and_come_back(runs):
    codes = np.repeat(*(np.array([r[k] for r in runs], np.uint8) for k in (0, 1)))
    call = Call(ONNX, {"x": Tensor("uint8", codes)})
    text = call_to_line(call)
    assert agree(call_from_line(text), call)
    # Never longer than without runs.
    assert len(text) <= len(f"{ONNX} x=uint8[{codes.size}]:") + 3 * codes.size


def test_a_large_constant_is_a_short_line():
    call = Call(ONNX, {"x": Tensor("int8", np.zeros((1024, 1000), np.uint8))})
    assert call_to_line(call) == f"{ONNX} x=int8[1024,1000]:00*1024000"
    assert agree(call_from_line(call_to_line(call)), call)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the line is empty"),
        (" \n ", "the line is empty"),
        (ONNX, "after 'ai.onnx/DequantizeLinear-25' a quantized tensor is expected"),
        ("x=int8[]:00", "word 1, .*: expected an edition"),
        ("a scale=int8[]:00", "after 'a' a quantized tensor"),
        ("a x=int8[]:00 3", "word 3, '3': expected role=tensor or name=value"),
        ("a x=int8[]:00 1b=3", "word 3, '1b=3': expected role=tensor or name=value"),
        ("a x=int8[]:00 x=3", "word 3, 'x=3': 'x' was given before"),
        ("a axis=1 x=int8[]:00 axis=1", "word 4, 'axis=1': 'axis' was given before"),
        ("a x=int8[]:00 axis=", "word 3, 'axis=': expected a tensor such as"),
        ("a x=int8[]:00 axis=1.5", "word 3, 'axis=1.5': expected a tensor"),
        ("a x=int8[]:00 axis=123456789012345678901", "word 3"),
        ('a x=int8[]:00 mode="a', "word 3, .*expected a string that ends with a double quote"),
        (r'a x=int8[]:00 mode="\q"', "word 3, .*expected a string that ends with"),
        ('a x=int8[]:00 mode="a"b', "word 3, .*expected a string that ends with"),
        ("a x=int7[]:00", "word 2, .*unknown dtype 'int7'"),
        ("a x=int8[]@G:00", "word 2, .*unknown layout 'G'; expected one of C, F"),
        ("a x=int8[2]:00", "word 2, .*expected 2 codes for its shape, got 1"),
        ("a x=int8[2]:", "word 2, .*expected 2 codes for its shape, got 0"),
        ("a x=int8[2]:00*3", "word 2, .*expected 2 codes for its shape, got more"),
        ("a x=int8[1]:00,00", "word 2, .*expected 1 codes for its shape, got more"),
        ("a x=int8[0]:00", "word 2, .*expected 0 codes"),
        ("a x=int8[2]:00*0,00,00", "word 2, .*code 1 of int8 is '00\\*0'"),
        ("a x=int8[2]:00,,00", "word 2, .*code 2 of int8 is ''"),
        ("a x=int8[1]:0", "code 1 of int8 is '0'; expected 2 hex digits"),
        ("a x=int8[1]:000", "code 1 of int8 is '000'"),
        ("a x=int8[1]:FF", "code 1 of int8 is 'FF'; expected 2 hex digits in lower case"),
        ("a x=int2[2]:3,4", "code 2 of int2 is '4'; expected 1 hex digit in lower case below 4"),
        ("a x=int8[,1]:00", "expected a shape"),
        ("a x=int8[1,]:00", "expected a shape"),
        (f"a x=int8[{','.join(['1'] * 33)}]:00", "expected a shape of at most 32"),
        ("a x=int8[9999999999,0,9999999999]:", "the extents of .* are too large"),
        ("a x=int8[1048577]:00*1048577", "more than the 1048576 that are left"),
        ("a x=int8[1048576]:00*1048576 scale=int8[1]:00", "word 3, .*more than the 0 that are left"),
        ("a x=int8[5]:" + "0" * 5000, r"word 2, 'x=int8\[5\]:0{47}\.\.\.': code 1"),
        ("a x=int8[1]:00 " + " " * line.MOST_CHARACTERS, "more than 1048576 are refused"),
    ],
)
def test_the_refusal_of_a_damaged_line_names_the_word(text, message):
    with pytest.raises(ValueError, match=message):
        call_from_line(text)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_change_of_a_line_is_read_or_refused(data):
    good = f'{ONNX} x=int4[3]@F:1,2*2 scale=float32[]:3f800000 mode="a b" axis=-1'
    index = data.draw(st.integers(0, len(good) - 1))
    changed = good[:index] + data.draw(st.text('0f[]:,*=@" \\x\u00b2', max_size=3)) + good[index + 1 :]
    try:
        call = call_from_line(changed)
    except ValueError:
        return
    assert agree(call_from_line(call_to_line(call)), call)


def test_quotes_that_are_not_closed_cost_no_time():
    start = time.perf_counter()
    with pytest.raises(ValueError, match="ends with a double quote"):
        call_from_line('a x=int8[]:00 mode="' + '\\"' * 400_000)
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (Call("a", {"x": Tensor("int8", np.zeros(line.MOST_VALUES + 1, np.uint8))}), "more than 1048576 values"),
        (Call("a", {"x": Tensor("int8", np.arange(400_000).astype(np.uint8))}), "more than 1048576 characters"),
        (Call("a", {"x y": tensor("int8", 1)}), "'x y' is no name"),
        (Call("a", {"x": tensor("int8", 1)}, {"": 1}), "'' is no name"),
        (Call("a", {"x": tensor("int8", 1)}, {"x": 1}), "of the same name, 'x'"),
        (Call("a", {"x": tensor("int8", 1)}, {"axis": 10**20}), "more than 20 digits"),
    ],
)
def test_a_call_that_no_line_can_hold_is_not_written(call, message):
    with pytest.raises(ValueError, match=message):
        call_to_line(call)
