"""The differences between two editions, and `contracts --diff`."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from written_calls import DNN, ONNX, TF

from xverify import cli, contracts
from xverify.contracts.differences import changes

FLOAT6 = ("+", "float6_e2m3fn, float6_e3m2fn")


def diff(first: str, second: str, code: int = 0) -> str:
    result = CliRunner().invoke(cli.main, ["contracts", "--diff", first, second])
    assert result.exit_code == code, result.output
    return result.output


def test_the_newest_version_has_two_more_types_and_no_other_change() -> None:
    (change,) = changes(contracts.get(ONNX + "25"), contracts.get(ONNX + "28"))
    assert (change.title, change.lines) == ("types of x, types of x_zero_point", (FLOAT6,))
    (back,) = changes(contracts.get(ONNX + "28"), contracts.get(ONNX + "25"))
    assert back.lines == (("-", FLOAT6[1]),)


def test_sentences_are_compared_one_by_one() -> None:
    by_title = {
        change.title: change.lines for change in changes(contracts.get(ONNX + "21"), contracts.get(ONNX + "23"))
    }
    assert by_title["attributes"] == (("+", "output_dtype"),)
    assert by_title["output y"] == (
        ("-", "It has same shape as input `x`."),
        ("+", "It has the same shape as input `x`."),
        ("+", "The data type is specified by the `output_dtype` attribute or, in its absence, the type of `x_scale`."),
    )
    precision = "The output type also determines the precision of the multiplication operation."
    assert by_title["summary"][-1] == ("+", precision)
    assert "subjects on which the text is silent" not in by_title


@pytest.mark.parametrize(
    ("first", "second", "line"),
    [
        (DNN + "multiply", DNN + "divide", "  + output_{i} = (input_{i} - zp) / scale"),
        (TF + "seed", "tensorflow/Dequantize", "  + narrow_range, axis, dtype"),
        ("13", ONNX + "21", "  + block_size"),
    ],
)
def test_the_text_fits_eighty_columns(first: str, second: str, line: str) -> None:
    lines = diff(first, second).splitlines()
    assert line in lines
    assert max(map(len, lines)) <= 80


def test_the_same_text_and_an_unknown_edition_are_said() -> None:
    assert diff("24", ONNX + "24") == f"{ONNX}24 and {ONNX}24 have the same text.\n"
    unknown = diff("25", "26", code=2)
    assert f"no contract matches '{ONNX}26'" in unknown
    assert unknown.count("\n") == 1
