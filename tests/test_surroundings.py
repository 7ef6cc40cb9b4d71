"""The call inside a small graph: what stands around it, and that its outcome is that of the lone call."""

from __future__ import annotations

import json

import pytest

from xverify.core.call import Call, decode_call, encode_call
from xverify.core.codec import DamagedFileError, call_from_json, call_to_json
from xverify.core.dtypes import tensor
from xverify.core.line import call_from_line, call_to_line

ONNX = "ai.onnx/DequantizeLinear-25"
LONE = Call(ONNX, {"x": tensor("int8", [[1, 2], [3, 4]]), "scale": tensor("float32", 2.0)}, {"axis": 1}, "by hand")
WORDS = ("x<transpose:1", "x<reshape:0", "y>squeeze:-1", "constant:scale")
AROUND = Call(ONNX, LONE.tensors, LONE.attributes, "by hand", WORDS)


# -- as part of a call ------------------------------------------------------------------------------------


def test_what_stands_around_is_part_of_a_call():
    assert len({LONE.digest(), AROUND.digest(), Call(ONNX, LONE.tensors, LONE.attributes, "", WORDS[:1]).digest()}) == 3
    assert AROUND.under("ai.onnx/DequantizeLinear-21").around == WORDS


def test_every_form_of_a_call_carries_it(tmp_path):
    assert decode_call(encode_call(AROUND)).around == WORDS
    assert call_from_json(json.loads(json.dumps(call_to_json(AROUND))), tmp_path).around == WORDS
    assert call_to_line(AROUND) == f"{call_to_line(LONE)} {' '.join(WORDS)}"
    assert call_from_line(call_to_line(AROUND)).digest() == AROUND.digest()


def test_a_lone_call_is_written_as_before(tmp_path):
    assert b"around" not in encode_call(LONE)
    assert "around" not in call_to_json(LONE)
    assert call_from_json(call_to_json(LONE), tmp_path).around == decode_call(encode_call(LONE)).around == ()


@pytest.mark.parametrize("damaged", ["x<transpose:1", [1], {"x": 1}, None])
def test_a_damaged_list_is_refused(damaged, tmp_path):
    with pytest.raises(DamagedFileError, match="a list of strings"):
        call_from_json({**call_to_json(LONE), "around": damaged}, tmp_path)
    blob = encode_call(LONE)
    head = json.loads(blob[8 : 8 + int.from_bytes(blob[4:8], "little")])
    text = json.dumps({**head, "around": damaged}).encode()
    changed = blob[:4] + len(text).to_bytes(4, "little") + text + blob[8 + int.from_bytes(blob[4:8], "little") :]
    with pytest.raises(ValueError, match="a list of strings"):
        decode_call(changed)


@pytest.mark.parametrize("word", ["x<transpose 1", "x", "x<", "x=<1", ""])
def test_a_word_that_no_line_can_hold_is_not_written(word):
    with pytest.raises(ValueError, match="is no word that a line can hold"):
        call_to_line(Call(ONNX, LONE.tensors, {}, "", (word,)))
