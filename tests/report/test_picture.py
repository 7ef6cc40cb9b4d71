"""Pictures follow from the witness and the named recipes, and agree with the measured bits."""

from __future__ import annotations

from typing import Any

from sample_report import call, finding, gave, tensor, wrong

from xverify.report.picture import picture

ONNX = "ai.onnx/DequantizeLinear-25"


def ignored(got: str = "0x3fc00000", **changes: Any) -> dict[str, Any]:
    """Return a finding of uint8 3 with scale 0.5 and zero point 2, where the zero point is ignored."""
    tensors = {
        "x": tensor("uint8", [], ["3"], ["0x03"]),
        "scale": tensor("float32", [], ["0.5"], ["0x3f000000"]),
        "zero_point": tensor("uint8", [], ["2"], ["0x02"]),
    }
    witness = {
        "call": call(ONNX, tensors),
        "got": gave("float32", [], ["1.5"], [got]),
        "legal": [wrong([], ("1.5", got), ("0.5", "0x3f000000", ["exact", "float32"]))],
    }
    by = {"reading": "ignored", "words": "", "explained_values": 1, "values": 1}
    return finding("violation", "onnxruntime", ONNX, "formula", "", witness, attribution=by, **changes)


def test_a_recipe_is_drawn_on_every_code_with_its_error_and_the_measured_value() -> None:
    drawn = picture([ignored()])
    assert drawn is not None
    assert drawn.got.count("L") == drawn.due.count("L") == 255
    assert drawn.error.count("M") == 256
    assert (drawn.y_labels, drawn.error_label) == (("127.5", "-1"), "1")
    assert drawn.shaded == ((0.0, 360.0),)
    assert [label for _, label in drawn.x_labels] == ["0", "128", "255"]
    ((x, _),) = drawn.measured
    assert x == round(3.5 / 256 * 360, 1)


def test_only_the_codes_with_wrong_values_are_shaded() -> None:
    wraps = ignored()
    # With wrap-around in uint8, 1 - 2 is 255. Of x = 0 and x = 1 alone the difference leaves the type.
    wraps["attribution"]["reading"] = "wrap-x"
    wraps["witness"]["call"]["tensors"]["x"] = tensor("uint8", [], ["1"], ["0x01"])
    wraps["witness"]["call"]["tensors"]["zero_point"] = tensor("uint8", [], ["8"], ["0x08"])
    wraps["witness"]["legal"] = [wrong([], ("124.5", "0x42f90000"), ("-3.5", "0xc0600000", ["exact", "float32"]))]
    drawn = picture([wraps])
    assert drawn is not None
    assert drawn.shaded == ((0.0, round(8 / 256 * 360, 1)),)


def test_a_recipe_that_does_not_give_the_measured_bits_is_not_drawn() -> None:
    assert picture([ignored(got="0x3fc00001")]) is None


def test_measured_values_make_a_picture_from_the_fourth_on() -> None:
    codes = [f"0x{code:02x}" for code in range(5)]
    unexplained = ignored(got="0x3fc00001")
    unexplained["witness"]["call"]["tensors"]["x"] = tensor("uint8", [5], [str(code) for code in range(5)], codes)
    place = unexplained["witness"]["legal"][0]
    unexplained["witness"]["legal"] = [{**place, "index": [code]} for code in range(4)]
    drawn = picture([unexplained])
    assert drawn is not None
    assert len(drawn.measured) == 4
    assert "Measured: 4 wrong values" in drawn.caption
    unexplained["witness"]["legal"] = unexplained["witness"]["legal"][:3]
    assert picture([unexplained]) is None


def test_an_indexing_mistake_is_drawn_with_the_parameters_that_it_reads() -> None:
    misread = ignored()
    tensors = misread["witness"]["call"]["tensors"]
    del tensors["zero_point"]
    tensors["x"] = tensor("int8", [1, 2], ["1", "1"], ["0x01", "0x01"])
    tensors["scale"] = tensor("float32", [2], ["0.5", "1.0"], ["0x3f000000", "0x3f800000"])
    misread["attribution"]["reading"] = "as-per-tensor@exact"
    misread["witness"]["legal"] = [wrong([0, 1], ("0.5", "0x3f000000"), ("1.0", "0x3f800000", ["exact"]))]
    drawn = picture([misread])
    assert drawn is not None
    assert (drawn.y_labels, drawn.error_label) == (("127", "-128"), "64")
    tensors["x"] = tensor("int8", [1], ["-5"], ["0xfb"])
    tensors["scale"] = tensor("float32", [], ["0.5"], ["0x3f000000"])
    misread["attribution"]["reading"] = "requantized-to-uint8@exact"
    misread["witness"]["legal"] = [wrong([0], ("0.0", "0x00000000"), ("-2.5", "0xc0200000", ["exact"]))]
    drawn = picture([misread])
    assert drawn is not None
    assert drawn.shaded == ((0.0, 180.0),), "the negative values"


def test_zeros_of_the_wrong_sign_are_drawn_where_the_difference_is_zero() -> None:
    signs = ignored(got="0x80000000")
    signs["attribution"]["reading"] = "zeros-of-the-wrong-sign"
    signs["witness"]["call"]["tensors"]["x"] = tensor("uint8", [], ["2"], ["0x02"])
    signs["witness"]["legal"] = [wrong([], ("-0.0", "0x80000000"), ("0.0", "0x00000000", ["exact", "float32"]))]
    drawn = picture([signs])
    assert drawn is not None
    assert drawn.shaded == ((round(2 / 256 * 360, 1), round(1 / 256 * 360, 1)),)
