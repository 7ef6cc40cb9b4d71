"""The legal set: the results of an edition's readings for a call, or a fixed result instead."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from xverify import contracts
from xverify.arithmetic.reading import Operands
from xverify.arithmetic.readings import EXACT, FLOAT32
from xverify.contracts.model import FixedResult
from xverify.core.call import Call, Outcome, Tensor
from xverify.core.dtypes import tensor, values
from xverify.core.errors import BrokenEnvironmentError
from xverify.verify import legal
from xverify.verify.compare import compare
from xverify.verify.findings import Subject
from xverify.verify.legal import AsGiven, Legal, legal_set
from xverify.verify.tally import Tally
from xverify.verify.verdicts import judge

ONNX = contracts.get("ai.onnx/DequantizeLinear-13")
SINGLE = 16777217
"""Times 3, the two admitted readings differ on this number."""


def call_of(x: object, scale: float = 3.0, dtype: str = "int32") -> Call:
    return Call(ONNX.id, {"x": tensor(dtype, x), "scale": tensor("float32", scale)})


def test_the_legal_set_has_the_result_of_every_reading() -> None:
    call = call_of([[1, SINGLE], [2, 3]])
    found = legal_set(ONNX, call)
    assert (found.dtype, found.shape, found.may_flush) == ("float32", (2, 2), True)
    assert found.readings == ONNX.readings(call)
    assert [reading.name for reading in found.readings] == ["exact", "float32"]
    assert len(found.distinct) == 2
    for number, (reading, expected) in enumerate(zip((EXACT, FLOAT32), (50331652.0, 50331648.0), strict=True)):
        assert values("float32", found.codes(number)).tolist() == [[3.0, expected], [6.0, 9.0]]
        assert (found.codes(number) == reading.evaluate(ONNX.operands(call))).all()
    assert found.subnormal.shape == (2, 2)
    assert not found.subnormal.any()


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,), (2, 3), (2, 1, 3, 1)])
def test_the_legal_set_has_the_shape_of_the_result(shape: tuple[int, ...]) -> None:
    x = np.arange(int(np.prod(shape))).reshape(shape)
    found = legal_set(ONNX, call_of(x, 2.0**-149))
    assert found.shape == found.subnormal.shape == shape
    assert {codes.shape for codes in found.distinct} == {shape}
    assert (found.subnormal == (x != 0)).all()


def test_editions_with_equal_readings_share_the_legal_set_of_equal_operands() -> None:
    call, newer = call_of([1, SINGLE]), contracts.get("ai.onnx/DequantizeLinear-19")
    found = legal_set(ONNX, call)
    assert legal_set(newer, call.under(newer.id)) is found
    with pytest.raises(ValueError, match="read-only"):
        found.codes(0)[0] = 7
    for other in (replace(ONNX, denormals="keep"), replace(ONNX, readings=lambda call: (FLOAT32,))):
        assert legal_set(other, call) is not found
    for changed in (call_of([1, 3]), call_of([1, SINGLE], 2.0), call_of([[1, SINGLE]])):
        assert legal_set(ONNX, changed) is not found


def test_legal_sets_of_large_calls_are_not_kept() -> None:
    call = call_of(np.arange(legal.MOST_CACHED + 1))
    assert legal_set(ONNX, call) is not legal_set(ONNX, call)


def test_readings_that_agree_share_one_array() -> None:
    found = legal_set(ONNX, call_of([1, 2, 3]))
    assert (len(found.readings), len(found.distinct), found.index) == (2, 1, (0, 0))
    assert found.codes(0) is found.codes(1)


def test_subnormals_may_be_flushed_unless_the_user_has_them_kept() -> None:
    call = call_of([1, 2], 2.0**-149)
    kept = legal_set(replace(ONNX, denormals="keep"), call)
    assert (legal_set(ONNX, call).may_flush, kept.may_flush) == (True, False)
    assert kept.subnormal.all()
    found = legal_set(ONNX, call)
    parts = (found.dtype, found.shape, found.readings, found.distinct, found.index, found.subnormal)
    assert compare(Legal(*parts), tensor("float32", [0.0, 0.0])).flushed_values == 2, "where nothing else is said"


def test_a_process_that_flushes_computes_no_legal_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legal, "subnormals_work", lambda: False)
    given = replace(ONNX, fixed_result=lambda call: FixedResult("float32", np.zeros(1, np.uint32)))
    for contract in (ONNX, given):
        with pytest.raises(BrokenEnvironmentError, match="flushes subnormal"):
            legal_set(contract, call_of([1]))


# -- an implementation in place of the text ----------------------------------------------------------------

GIVEN = np.array([[0x3F800000, 0x7FC00001, 0x00000001], [0x80000000, 0xFFFFFFFF, 0x7F800000]], np.uint32)


def given_as(codes: np.ndarray, x: object) -> tuple[Legal, object]:
    contract = replace(ONNX, fixed_result=lambda call: FixedResult("float32", codes))
    judged = judge(contract, call_of(x, dtype="int8"))
    assert judged.legal is not None
    return judged.legal, judged


@pytest.mark.parametrize("codes", [GIVEN, np.asfortranarray(GIVEN), GIVEN[:, ::-1], GIVEN.reshape(-1), GIVEN[0, 0]])
def test_a_fixed_result_is_the_only_legal_result(codes: np.ndarray) -> None:
    codes = np.asarray(codes)
    found, _ = given_as(codes, np.zeros(codes.shape))
    assert (found.dtype, found.shape, found.may_flush) == ("float32", codes.shape, False)
    assert found.subnormal.tolist() == (codes == 1).tolist()
    assert len(found.readings) == 1
    assert compare(found, Tensor("float32", np.array(codes))).explains == (True,)
    for place in np.ndindex(codes.shape):
        other = np.array(codes)
        other[place] ^= 0x80000001
        number_of_wrong = compare(found, Tensor("float32", other)).wrong_values
        assert number_of_wrong == (0 if np.isnan(codes[place].view(np.float32)) else 1), "any NaN is any NaN"


def test_a_kernel_is_tallied_beside_an_implementation() -> None:
    """Equal bits agree. A flushed subnormal is wrong, since the implementation gave the subnormal."""
    _, judged = given_as(GIVEN, np.zeros(GIVEN.shape))
    subject, tally = Subject("one", "1", "kernel"), Tally(characterise=False)
    assert tally.observe(judged, subject, Outcome("tensor", Tensor("float32", GIVEN)), True) == []
    assert (tally.status(subject, judged.cell), tally.cells[subject, judged.cell].alive) == ("agrees", ("given",))
    flushed = np.where(GIVEN == 1, 0, GIVEN).astype(np.uint32)
    assert tally.observe(judged, subject, Outcome("tensor", Tensor("float32", flushed)), True) == []
    assert (tally.cells[subject, judged.cell].wrong, tally.status(subject, judged.cell)) == (1, "violation")


def test_a_fixed_result_is_no_recipe() -> None:
    """A fixed result has no values for other calls."""
    operands = ONNX.operands(call_of([1]))
    assert AsGiven().simplified(operands) == AsGiven()
    with pytest.raises(NotImplementedError):
        AsGiven().evaluate(operands)


# -- subnormal inputs --------------------------------------------------------------------------------------

TINY = 2.0**-140
"""A subnormal number of float32 and of bfloat16."""


@pytest.mark.parametrize(
    ("scale_dtype", "scale", "x", "got", "wrong"),
    [
        # A subnormal scale that counts as zero gives zeros of the sign of the product, also in place of normal results.
        ("float32", TINY, [1, -1], [0.0, -0.0], []),
        ("float32", -127 * 2.0**-133, [127, -128], [-0.0, 0.0], []),
        ("bfloat16", TINY, [1, -1], [0.0, -0.0], []),
        ("float32", 127 * 2.0**-133, [127, -128], [-0.0, 0.0], [0, 1]),
        ("float32", 2.0**-126, [1, -1], [0.0, -0.0], [0, 1]),
        # A subnormal number of float16 is a normal number of float32.
        ("float16", 2.0**-20, [64, -64], [0.0, -0.0], [0, 1]),
    ],
)
def test_subnormal_inputs_may_count_as_zero_where_the_user_accepts_that(scale_dtype, scale, x, got, wrong) -> None:
    call = Call(ONNX.id, {"x": tensor("int8", x), "scale": tensor(scale_dtype, scale)})
    result = tensor(scale_dtype, got)
    compared = compare(legal_set(replace(ONNX, denormals="flush-inputs"), call), result)
    assert np.flatnonzero(compared.wrong).tolist() == wrong
    right = tensor(scale_dtype, np.multiply(x, scale))
    for mode in ("keep", "flush", "flush-inputs"):
        assert compare(legal_set(replace(ONNX, denormals=mode), call), right).clean


def test_a_subnormal_power_of_two_may_count_as_zero_though_its_type_has_no_zero() -> None:
    call = Call("acme", {"x": tensor("int8", [1, -3]), "scale": Tensor("float8_e8m0fnu", np.array(0, np.uint8))})
    operands = Operands(
        {r: t.codes for r, t in call.tensors.items()}, {"x": "int8", "scale": "float8_e8m0fnu"}, "float32", (2,)
    )
    contract = replace(ONNX, operands=lambda _: operands, readings=lambda _: (EXACT,), denormals="flush-inputs")
    (zeros,) = legal_set(contract, call).flushed_inputs
    assert zeros.tolist() == [0, 0x80000000]


def test_a_result_that_is_rounded_up_to_the_smallest_normal_number_may_be_flushed() -> None:
    """15/16 * 17/16 * 2^-126 is a subnormal number of float32, and a tie of bfloat16 that goes to 2^-126."""
    newest = contracts.get("ai.onnx/DequantizeLinear-25")
    call = Call(
        newest.id, {"x": tensor("float8_e4m3fn", [0.9375, 1.0]), "scale": tensor("bfloat16", 1.0625 * 2.0**-126)}
    )
    compared = compare(legal_set(newest, call), tensor("bfloat16", [0.0, 0.0]))
    assert (compared.flushed.tolist(), compared.wrong.tolist()) == ([True, False], [False, True])
    assert compare(legal_set(replace(newest, denormals="keep"), call), tensor("bfloat16", [0.0, 0.0])).wrong_values == 2
    assert compare(legal_set(newest, call), tensor("bfloat16", [2.0**-126, 1.0625 * 2.0**-126])).clean


def test_more_modes_accept_more() -> None:
    call = call_of([64, -64], TINY, "int8")
    zeros, modes = tensor("float32", [0.0, -0.0]), ("keep", "flush", "flush-inputs")
    accepted = [compare(legal_set(replace(ONNX, denormals=mode), call), zeros).wrong_values for mode in modes]
    assert accepted == [2, 0, 0]
    normal = call_of([127, -128], 2.0**-127, "int8")
    accepted = [compare(legal_set(replace(ONNX, denormals=mode), normal), zeros).wrong_values for mode in modes]
    assert accepted == [2, 2, 0]


# -- subnormal intermediate results of a range formula ------------------------------------------------------

INSTALLED = contracts.get("tensorflow/Dequantize@installed")


@pytest.mark.parametrize(
    ("mode", "low", "high", "got", "wrong"),
    [
        # The step 2^-120 / 255 is subnormal: 0 gives min. -1 and other results near it follow from no flushing.
        ("MIN_COMBINED", 0.0, 2.0**-120, [0.0, 0.0], []),
        ("MIN_COMBINED", 1.0, 1.0, [1.0, 0.0], [1]),
        ("MIN_COMBINED", 0.0, 2.0**-120, [0.0, -0.0], [1]),
        ("MIN_COMBINED", 0.0, 2.0**-100, [0.0, 0.0], [1]),
        ("SCALED", 0.0, 2.0**-120, [0.0, 0.0], []),
        ("SCALED", 0.0, 2.0**-100, [0.0, 0.0], [1]),
    ],
)
def test_subnormal_steps_may_count_as_zero(mode, low, high, got, wrong) -> None:
    ends = {"min_range": tensor("float32", low), "max_range": tensor("float32", high)}
    call = Call(INSTALLED.id, {"input": tensor("uint8", [0, 200]), **ends}, {"mode": mode})
    assert np.flatnonzero(compare(legal_set(INSTALLED, call), tensor("float32", got)).wrong).tolist() == wrong
    kept = compare(legal_set(replace(INSTALLED, denormals="keep"), call), tensor("float32", got))
    assert kept.wrong[1]
