"""`xverify explain`: typed numbers, the bits of every reading, their legality, and who gives them."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from typing import Any

import exact
import numpy as np
import pytest
from click.testing import CliRunner
from folders import SUPPORT

from xverify import cli
from xverify.contracts import get
from xverify.core.call import Outcome, Tensor, code_dtype
from xverify.core.errors import UsageError
from xverify.engine import explain as explaining
from xverify.engine.numerals import code_of, holds, numeral
from xverify.engine.question import Question, make_call
from xverify.oracles.protocol import Loaded, Oracle, Path
from xverify.report.explained import which

FLOATS = [
    "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float4_e2m1fn",
    "float6_e2m3fn", "float6_e3m2fn",
]  # fmt: skip
NEWEST = "ai.onnx/DequantizeLinear-25"


def explain(*words: object, code: int = 0) -> str:
    """Run the command. Check its exit code, and return its output with white space folded."""
    result = CliRunner(env={"COLUMNS": "200"}).invoke(cli.main, ["explain", *map(str, words)])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return " ".join(result.output.split())


def explained(*words: object) -> Any:
    """Run the command with its output as JSON."""
    return json.loads(explain(*words, "--format", "json"))


def legal(data: Any) -> list[int]:
    return [int(result["hex"], 16) for result in data["results"] if result["legal"]]


# -- a zero point of another type ----------------------------------------------------------------------


@pytest.mark.parametrize(("zero_point", "code"), [("0.1", 0x3DCCCCCD), ("bits:0x00000001", 1), ("-inf", 0xFF800000)])
def test_float_zero_points_are_explained(zero_point: str, code: int) -> None:
    edition = str(SUPPORT / "float_zero_point_edition.py")
    words = ("--contract", edition, "--x", 218, f"--zero-point={zero_point}", "--scale", 0.7, "--no-oracles")
    data = explained(*words)
    difference = exact.subtract(Fraction(218), exact.decode("float32", code))
    scale = exact.decode("float32", exact.round_to("float32", Fraction(7, 10)))
    results = [exact.multiply(value, scale) for value in (difference, exact.rounded("float32", difference))]
    assert set(legal(data)) == {exact.round_to("float32", value) for value in results}


# -- numbers ------------------------------------------------------------------------------------------


def width(dtype: str) -> int:
    form = exact.FORMATS[dtype]
    return 1 + form.exponent_bits + form.mantissa_bits


def nearest(dtype: str, value: Fraction, negative: bool) -> int | None:
    """Return the code of the nearest number, ties to even, or None beyond the finite numbers."""
    if width(dtype) > 8:
        code = exact.round_to(dtype, value if value or not negative else "-0")
        return None if exact.decode(dtype, code) in ("inf", "-inf") else code
    sign = 1 << (width(dtype) - 1)
    finite = {code: v for code in range(sign) if isinstance(v := exact.decode(dtype, code), Fraction)}
    largest, below = sorted(finite.values())[-1:-3:-1]
    if abs(value) >= largest + (largest - below) / 2:
        return None
    code = min(finite, key=lambda c: (abs(finite[c] - abs(value)), c % 2))
    return code | sign if negative and (code or not dtype.endswith("fnuz")) else code


@pytest.mark.parametrize("dtype", FLOATS)
def test_decimals_and_hex_floats_are_rounded_once_to_nearest_even(dtype):
    rng = random.Random(dtype)
    rounded = beyond = 0
    for _ in range(100):
        mantissa, power = rng.getrandbits(rng.choice([3, 8, 12, 40])), rng.randint(-12, 1)
        decimal = Fraction(mantissa) * Fraction(10) ** power
        binary = Fraction(mantissa) * Fraction(2) ** (3 * power)
        for text, value in ((f"{mantissa}e{power}", decimal), (f"-0x{mantissa:x}p{3 * power}", -binary)):
            due = nearest(dtype, value, text.startswith("-"))
            if due is None:
                beyond += 1
                with pytest.raises(UsageError, match="outside the finite range"):
                    code_of(numeral(text, "x"), dtype, "x")
            else:
                rounded += value != exact.decode(dtype, due)
                assert code_of(numeral(text, "x"), dtype, "x") == due, text
    assert rounded > 20
    assert beyond > 0 or width(dtype) == 32 or dtype == "bfloat16"


def test_a_decimal_halfway_but_for_its_last_digit_is_not_rounded_twice():
    # 1 + 2^-24 lies between two float32 numbers: float() would take the digit beyond 2^-53 away, and round to even.
    half = Fraction(1) + Fraction(1, 2**24)
    text = f"{half.numerator * 10**24 // half.denominator}e-24"
    assert Fraction(text) == half
    assert code_of(numeral(text, "x"), "float32", "x") == 0x3F800000
    above = "1.000000059604644775390625" + "0" * 30 + "1"
    assert float(above) == float(half)
    assert code_of(numeral(above, "x"), "float32", "x") == 0x3F800001


@pytest.mark.parametrize(
    ("text", "dtype", "code"),
    [
        ("0x1.ec2efap+2", "float32", 0x40F6177D),
        ("bits:0x3f800000", "float32", 0x3F800000),
        ("bits:218", "int8", 0xDA),
        ("-0.0", "float16", 0x8000),
        ("-0", "float8_e4m3fnuz", 0),
        ("nan", "bfloat16", 0x7FC0),
        ("-inf", "float32", 0xFF800000),
        ("inf", "float8_e5m2", 0x7C),
        ("-3", "int4", 0xD),
        ("1.5e1", "uint8", 15),
        ("0xda", "uint8", 218),
        ("3.4028235e+38", "float32", 0x7F7FFFFF),
        ("0.5", "float8_e8m0fnu", 126),
        ("1e-400", "float32", 0),
    ],
)
def test_what_can_be_typed(text, dtype, code):
    assert code_of(numeral(text, "x"), dtype, "x") == code


@pytest.mark.parametrize(
    ("text", "dtype", "complaint"),
    [
        ("300", "uint8", "outside the range of uint8, 0 to 255"),
        ("-9", "int4", "outside the range of int4, -8 to 7"),
        ("1.5", "int8", "whole numbers from -128 to 127"),
        ("65520", "float16", "outside the finite range of float16"),
        ("-1", "float8_e8m0fnu", "outside the finite range"),
        ("0", "float8_e8m0fnu", "outside the finite range"),
        ("nan", "uint8", "has no NaN"),
        ("nan", "float4_e2m1fn", "has no NaN"),
        ("nan", "float6_e2m3fn", "has no NaN"),
        ("-inf", "float6_e3m2fn", "has no infinity"),
        ("7.75", "float6_e2m3fn", "outside the finite range of float6_e2m3fn, -7.5 to 7.5"),
        ("inf", "float8_e4m3fn", "has no infinity"),
        ("bits:0x100", "uint8", "8-bit codes"),
        ("bits:x", "uint8", "after bits: comes a whole number"),
        ("0x", "uint8", "no digits"),
        ("1e999999999", "float32", "larger exponent"),
        ("1" * 2000, "float32", "more digits"),
        ("1/3", "float32", "is a number such as"),
        ("", "float32", "is a number such as"),
    ],
)
def test_what_cannot_be_typed_is_said_in_one_sentence(text, dtype, complaint):
    with pytest.raises(UsageError, match=r"^x") as error:
        code_of(numeral(text, "x"), dtype, "x")
    assert complaint in str(error.value)


def test_holding_is_exact():
    assert holds(numeral("0.5", "x"), "float8_e4m3fn")
    assert not holds(numeral("0.1", "x"), "float32")
    assert not holds(numeral("256", "x"), "uint8")


# -- readings and clauses -----------------------------------------------------------------------------


@pytest.mark.parametrize("zero_point", [None, 3, 255])
def test_the_legal_bits_are_the_exact_value_rounded_once(zero_point):
    rng = random.Random(zero_point)
    for _ in range(5):
        x, code = rng.randrange(256), rng.randrange(0x3D000000, 0x45000000)
        words = ["--x", x, "--scale", f"bits:{code:#x}", "--no-oracles", "--contract", "ai.onnx/DequantizeLinear-21"]
        words += [] if zero_point is None else ["--zero-point", zero_point]
        data = explained(*words)
        due = exact.round_to("float32", (x - (zero_point or 0)) * exact.decode("float32", code))
        assert data["verdict"] == "allowed"
        assert legal(data) == [due]
        assert data["clauses"][0]["id"].endswith("/formula")
        assert "(x - x_zero_point) * x_scale" in data["clauses"][0]["text"]


def test_readings_that_are_not_admitted_are_told_apart_by_their_bits():
    data = explained(
        "--x", 2, "--zero-point", 5, "--scale", 0.5, "--contract", "ai.onnx/DequantizeLinear-13", "--no-oracles"
    )
    given = {result["decimal"]: result for result in data["results"]}
    assert given["-1.5"]["legal"]
    # The zero point left out; wrap-around in uint8; the quotient.
    for decimal in ("1.0", "126.5", "-6.0"):
        assert given[decimal]["legal"] is False
        assert given[decimal]["readings"]
        assert not given[decimal]["admitted"]
        assert given[decimal]["ulp"] > 0
    assert len({result["hex"] for result in data["results"]}) == len(data["results"])
    text = explain("--x", 2, "--zero-point", 5, "--scale", 0.5, "--no-oracles")
    assert "subtracts exactly" in text
    assert "formula, DequantizeLinear-25 in onnx.defs of onnx" in text


def test_what_was_not_said_is_assumed_aloud():
    text = explain("--x", -3, "--scale", 0.1, "--no-oracles")
    assert NEWEST in text
    assert "assumed x of int8, the first type of the edition that holds -3" in text
    assert "assumed a scale of float32" in text
    assert "scale 0.1 rounded to 0.1 (0x3dcccccd) in float32" in text
    assert "assumed x of uint16" in explain("--x", 300, "--scale", 1, "--no-oracles")
    assert "assumed x of int8" in explain("--x", 3, "--zero-point", -1, "--scale", 1, "--no-oracles")
    assert "assumed a zero point of 0" in explain(
        "--x", 3, "--scale", 1, "--contract", "com.microsoft/DequantizeLinear-1@seed", "--no-oracles"
    )


def test_types_can_be_chosen():
    data = explained(
        "--x", 1.5, "--x-dtype", "float8_e4m3fn", "--scale", 3, "--scale-dtype", "bfloat16", "--out-dtype", "float16",
        "--no-oracles",
    )  # fmt: skip
    assert data["out_dtype"] == "float16"
    assert legal(data) == [exact.round_to("float16", Fraction(9, 2))]
    assert data["call"]["tensors"]["scale"]["hex"] == ["0x4040"]


def test_ranges_of_tensorflow_by_its_first_document():
    data = explained(
        "--contract", "tensorflow/Dequantize@seed", "--x", 7, "--min", -1.0, "--max", 2.5, "--mode", "SCALED",
        "--no-oracles",
    )  # fmt: skip
    low, high = exact.round_to("float32", Fraction(-1)), exact.round_to("float32", Fraction(5, 2))
    assert exact.scaled_symmetric("uint8", 7, low, high) in legal(data)
    assert data["clauses"][0]["id"] == "tensorflow/Dequantize@seed/formula-scaled"
    default = explained("--contract", "tensorflow/Dequantize@seed", "--x", 7, "--min", -1, "--max", 2.5, "--no-oracles")
    assert "assumed mode MIN_COMBINED" in default["assumed"]
    assert exact.min_combined("uint8", 7, low, high) in legal(default)


def test_a_call_that_is_forbidden_or_left_open_is_shown_with_the_clause_and_without_a_legal_result():
    forbidden = explained(
        "--x", 3, "--x-dtype", "int16", "--scale", 0.5, "--contract", "ai.onnx/DequantizeLinear-13", "--no-oracles"
    )
    assert forbidden["verdict"] == "forbidden"
    assert forbidden["clauses"][0]["id"] == "ai.onnx/DequantizeLinear-13/x-type"
    assert {result["legal"] for result in forbidden["results"]} == {None}
    assert forbidden["results"][0]["decimal"] == "1.5"
    words = [
        "--x",
        100000,
        "--zero-point",
        5,
        "--scale",
        1,
        "--contract",
        "ai.onnx/DequantizeLinear-21",
        "--no-oracles",
    ]
    opened = explained(*words)
    assert opened["verdict"] == "unspecified"
    assert opened["clauses"][0]["id"].endswith("/int32-zero-point")
    assert {result["legal"] for result in opened["results"]} == {None}
    text = explain(*words)
    assert "leaves this call open" in text
    assert "zero point is supposed to be 0" in text
    nowhere = explain(
        "--contract", "tensorflow/Dequantize@seed", "--x", 1, "--min", 0, "--max", 1, "--mode", "NOPE", "--no-oracles"
    )
    assert "forbids this call" in nowhere
    assert "no formula for the mode 'NOPE'" in nowhere


def test_a_subnormal_result_is_said_to_be_open():
    assert "may also be a zero" in explain("--x", 3, "--scale", "0x1p-140", "--no-oracles")
    assert "come out as zero" not in explain("--x", 3, "--scale", "0x1p-10", "--no-oracles")


def test_the_zero_of_a_flushed_result_is_not_called_illegal():
    """A zero of the other sign is illegal."""
    given = explained("--x", -3, "--x-dtype", "int8", "--scale", "0x1p-140", "--no-oracles")["results"]
    flushed = next(result for result in given if result["hex"] == "0x80000000")
    assert (flushed["legal"], flushed["clause"].rpartition("/")[2]) == (None, "subnormal")
    assert all(result["legal"] is not None for result in given if result is not flushed)
    assert " open " in explain("--x", 3, "--scale", "0x1p-140", "--no-oracles")


def test_nan_has_no_bits_of_its_own():
    data = explained("--x", 3, "--scale", "nan", "--no-oracles")
    assert [(r["decimal"], r["hex"]) for r in data["results"] if r["legal"]] == [("nan", "any NaN")]


@pytest.mark.parametrize(("columns", "beside"), [("80", False), ("150", True)])
def test_readings_stand_below_a_result_where_the_terminal_is_narrow(columns, beside):
    words = ["explain", "--x", "218", "--zero-point", "3", "--scale", "0x1.ec2efap+2", "--no-oracles"]
    lines = CliRunner(env={"COLUMNS": columns}).invoke(cli.main, words).output.splitlines()
    place = next(i for i, line in enumerate(lines) if line.startswith("1653.429 "))
    assert ("subtracts exactly" in lines[place]) == beside
    assert ("subtracts exactly" in lines[place + 1]) == (not beside)
    assert all(
        len(line.rstrip()) <= int(columns) for line in lines[place : place + 30] if "DequantizeLinear" not in line
    )


def test_all_names_every_reading_and_otherwise_few_are():
    words = ["--x", 2, "--zero-point", 5, "--scale", 0.5, "--no-oracles"]
    names = {reading["name"] for result in explained(*words)["results"] for reading in result["readings"]}
    whole, short = explain(*words, "--all"), explain(*words)
    assert len(names) > 20
    assert all(f"({name})" in whole for name in names)
    assert "more)" in short
    assert len(short) < len(whole)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--x", "3"], "--scale is missing"),
        (["--x", "3", "--scale", "1", "--min", "2"], "has no --min; it takes --x, --scale, --zero-point"),
        (["--x", "3", "--scale", "1", "--narrow-range"], "has no --narrow-range"),
        (["--contract", "tensorflow/Dequantize@seed", "--x", "3", "--scale", "1"], "has no --scale"),
        (["--contract", "tensorflow/Dequantize@seed", "--x", "3", "--min", "1"], "--max is missing"),
        (["--x", "300000000000", "--scale", "1"], "no type of ai.onnx/DequantizeLinear-25 holds 300000000000"),
        (["--x", "-3", "--x-dtype", "uint8", "--scale", "1"], "x: -3 is outside the range of uint8, 0 to 255"),
        (["--x", "3", "--scale", "one"], "scale is a number such as"),
        (["--x", "3", "--x-dtype", "unit8", "--scale", "1"], "did you mean uint8?"),
        (["--x", "3", "--scale", "1", "--out-dtype", "float64"], "'float64' is no type of out here"),
        (
            ["--x", "3", "--scale", "1", "--out-dtype", "float16", "--contract", "ai.onnx/DequantizeLinear-13"],
            "no attribute for the output's type: here it is float32, not float16",
        ),
        (["--x", "3", "--scale", "1", "--contract", "ai.onnx/*"], "editions, and one is wanted here"),
        (["--x", "3", "--scale", "1", "--contract", "acme/X-1"], "no contract matches 'acme/X-1'"),
        (["--x", "3", "--scale", "1", "--oracle", "onnxruntim"], "did you mean onnxruntime?"),
        (["--x", "3", "--scale", "1", "--limit", "soon"], "a time is a number above zero"),
        (["--scale", "1"], "Missing option '--x'"),
    ],
)
def test_a_mistake_is_one_clear_sentence(words, complaint):
    assert complaint in explain(*words, code=2)


# -- implementations ----------------------------------------------------------------------------------


def test_the_kernel_in_house_gives_the_first_reading():
    data = explained("--x", 218, "--scale", "0x1.ec2efap+2", "--oracle", "xverify-numpy", "--oracle", "tensorflow")
    (answer,) = data["implementations"]
    due = exact.round_to("float32", 218 * exact.decode("float32", 0x40F6177D))
    assert (answer["name"], int(answer["hex"], 16), answer["legal"]) == ("xverify-numpy", due, True)
    assert data["not_asked"] == [f"tensorflow does not take calls of {NEWEST}"]


def test_what_is_not_installed_is_named_with_its_install_line(monkeypatch):
    monkeypatch.setattr(explaining, "installed_version", lambda oracle: None)
    text = explain("--x", 3, "--scale", 1, "--oracle", "onnxruntime")
    assert "onnxruntime is not installed: pip install onnxruntime" in text


def load_double() -> Loaded:
    """Return an implementation that forgets the scale, refuses on one path, and hangs on another."""

    def answer(call: Any, path: str) -> Any:
        if path == "refuses":
            raise ValueError("not today")
        x = call.tensors["x"]
        return Tensor("float32", (x.codes.astype(np.float32) * np.float32(2)).view(np.uint32))

    return Loaded(answer)


def load_hanging() -> Loaded:
    """Sleep, so that the worker never becomes ready."""
    import time

    time.sleep(1000)
    return load_double()


def oracle(load: str, paths: tuple[str, ...] = ("",)) -> Oracle:
    where = __file__.rpartition("/")[0]
    ways = tuple(Path(name, 1.0) for name in paths)
    return Oracle(
        load, "numpy", ("*",), (), "test_explain", load, ways, search_path=(where, str(SUPPORT)), needs_xverify=True
    )


def test_each_way_through_an_implementation_is_told_from_those_that_differ_and_a_hang_holds_up_nobody(tmp_path):
    contract = get("ai.onnx/DequantizeLinear-21")
    call, _ = make_call(contract, Question("5", "0.5"))
    explanation = explaining.explain(contract, call)
    known = [oracle("load_double", ("", "again", "refuses")), oracle("load_hanging")]
    gave, refused, hung = explaining.ask(explanation, known, tmp_path, 10.0)
    assert gave.paths == ("", "again")
    assert gave.code == exact.round_to("float32", Fraction(10))
    assert refused.paths == ("refuses",)
    assert refused.outcome is not None
    assert refused.outcome.error == "ValueError"
    assert hung.outcome is None
    assert "10 s" in hung.problem
    # 5 * 2 is what dividing by the scale gives: a known reading, and an illegal one.
    assert which(explanation, gave.code).startswith("is illegal: given by ")


def test_an_answer_that_is_no_result_is_said_to_be_none():
    contract = get("ai.onnx/DequantizeLinear-21")
    call, _ = make_call(contract, Question("5", "0x1p-140"))
    explanation = explaining.explain(contract, call)
    assert which(explanation, 0x12345678) == "is explained by no known reading"
    assert which(explanation, exact.round_to("float32", 5 * Fraction(1, 2**140))).startswith("is legal: exact")
    assert "flush" in which(explanation, 0)
    two = Outcome("tensor", Tensor("float32", np.array([1, 2], code_dtype("float32"))))
    assert explaining._single_code(explanation, two) is None
