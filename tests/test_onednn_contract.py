"""onednn/Dequantize-1: its sentences against the document, each decision, and the kernel against a third author."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import exact
import numpy as np
import pytest
from kernel_arrays import codes_of
from test_clauses import quoted_but_absent
from test_contracts import call_of

import xverify
from strategies import breakable, openable, opened, spoiled, walk
from strategies.layouts import layout_calls
from xverify import contracts
from xverify.core.call import Call
from xverify.core.dtypes import numpy_dtype, tensor

STATIC = "onednn/Dequantize-1"
CONTRACT = contracts.get(STATIC)
DOCUMENT = (
    Path(__file__).parent / "documents" / "onednn_3_13_dequantize.md"
)  # as release 3.13 of oneDNN (Apache 2.0) has it


def test_every_sentence_is_in_the_document() -> None:
    document = DOCUMENT.read_text()
    assert quoted_but_absent(CONTRACT, document) == []
    without = document.replace("Zero points", "Offsets").replace("A s64 list", "A list")
    assert len(quoted_but_absent(CONTRACT, without)) == 3, "the check above can't fail"


TABLE = [
    ("x=int8[2,3] scale=float32[1] zp=int32[1]=5", "allowed"),
    ("x=uint8[] scale=float32[1]", "allowed"),
    ("x=float8_e4m3fn[2] scale=float32[1]", "allowed"),
    ("x=float8_e5m2[2,3] scale=float32[3] qtype=per_channel", "allowed"),
    ("x=uint8[2,3] scale=float32[3] zp=int32[3] qtype=per_channel axis=-1", "allowed"),
    ("x=uint8[2,3] scale=float32[2] zp=int32[2] qtype=per_channel axis=-2", "allowed"),
    ("x=uint8[2,3] scale=float32[1] zp=int64[1]=-2147483000", "allowed"),
    ("x=float8_e4m3fn[2] scale=float32[1] zp=int32[1]", "forbidden zps-float8"),
    ("x=float8_e4m3fnuz[2] scale=float32[1]", "forbidden src-type"),
    ("x=int4[2] scale=float32[1]", "forbidden src-type"),
    ("x=int8[2,3] scale=bfloat16[1]", "forbidden scales-type"),
    ("x=int8[2,3] scale=float32[]", "forbidden scales-shape"),
    ("x=int8[2,3] scale=float32[3]", "forbidden scales-shape"),
    ("x=int8[2,3] scale=float32[1] zp=int32[]", "forbidden zps-shape"),
    ("x=int8[2,3] scale=float32[3] zp=int32[1] qtype=per_channel", "forbidden zps-shape"),
    ("x=int8[2,3] scale=float32[2] qtype=per_channel", "forbidden scales-shape"),
    ("x=int8[2,3] scale=float32[1] zp=float32[1]", "forbidden zps-type"),
    ("x=int8[2,3] scale=float32[1] qtype=per_group", "forbidden qtype"),
    ("x=int8[2,3] scale=float32[3] qtype=per_channel axis=2", "forbidden axis-range"),
    ("x=int8[3] scale=float32[3] qtype=per_channel", "forbidden axis-range"),
    ("x=int8[2,3] scale=float32[1] axis=2", "unspecified axis-per-tensor"),
    ("x=uint8[2]=1 scale=float32[1] zp=int32[1]=-2147483646", "allowed"),
    ("x=uint8[2]=2 scale=float32[1] zp=int32[1]=-2147483646", "unspecified int32-overflow"),
    ("x=int8[2]=0 scale=float32[1] zp=int64[1]=4294967297", "unspecified int32-overflow"),
    ("x=int8[2]=0 scale=float32[1] zp=int64[1]=-9223372036854775808", "unspecified int32-overflow"),
]


@pytest.mark.parametrize(("text", "expected"), TABLE)
def test_decisions(text: str, expected: str) -> None:
    judgement = CONTRACT.judge(call_of(STATIC, text))
    assert " ".join([judgement.verdict, *(name.rpartition("/")[2] for name in judgement.clauses)]) == expected


def test_every_clause_that_can_be_broken_is() -> None:
    """By a call of the walk that is changed in that one place."""
    assert set(breakable(CONTRACT)) == {
        "src-type", "scales-type", "scales-shape", "zps-type", "zps-shape", "zps-float8", "qtype", "axis-range",
    }  # fmt: skip
    calls, rng = list(walk(CONTRACT))[::3], np.random.default_rng(1)
    for name in breakable(CONTRACT):
        assert any(spoiled(CONTRACT, call, name, rng) for call in calls), f"no call breaks {name}"
    assert set(openable(CONTRACT)) == {"axis-per-tensor", "int32-overflow"}
    widest = [opened(CONTRACT, call, "int32-overflow", rng) for call in calls]
    assert {call.tensors["zero_point"].dtype for call in widest if call} == {"int32", "int64"}


def test_the_sentences_that_are_broken_by_values() -> None:
    """Clause "zps-absent" and the two formulas: none, and zeros, are the same; another zero point is not."""
    x, scale = tensor("int8", [[-3, 0, 7]]), tensor("float32", [0.1])
    absent, zero, one = (
        CONTRACT.readings(call)[0].evaluate(CONTRACT.operands(call)).tolist()
        for call in (
            Call(STATIC, {"x": x, "scale": scale}),
            Call(STATIC, {"x": x, "scale": scale, "zero_point": tensor("int32", [0])}),
            Call(STATIC, {"x": x, "scale": scale, "zero_point": tensor("int32", [1])}),
        )
    )
    assert absent == zero != one
    call = Call(STATIC, {"x": x, "scale": scale})
    assert CONTRACT.value_clause(call, None) == f"{STATIC}/formula"
    channels = Call(STATIC, {"x": x, "scale": tensor("float32", [1, 2, 3])}, {"qtype": "per_channel"})
    assert CONTRACT.value_clause(channels, None) == f"{STATIC}/formula-per-channel"


def test_the_document_contradicts_itself() -> None:
    (check,) = CONTRACT.text_checks()
    assert check.call is not None
    assert CONTRACT.judge(check.call).verdict == "allowed"
    found = CONTRACT.readings(check.call)[0].evaluate(CONTRACT.operands(check.call)).view(np.float32)
    assert found.tolist() == [[0.25]]
    assert "round(" in CONTRACT.clauses[f"{STATIC}/formula"].text
    assert "round(" not in CONTRACT.clauses[f"{STATIC}/formula-per-channel"].text


def kernel(call: Call) -> Any:
    arrays = {role: given.laid_out().view(numpy_dtype(given.dtype)) for role, given in call.tensors.items()}
    zps = arrays.get("zero_point")
    attributes: dict[str, Any] = dict(call.attributes)
    return xverify.dynamic_dequantize(arrays["x"], arrays["scale"], zps, contract=STATIC, **attributes)


def test_the_kernel_gives_what_the_contract_reads() -> None:
    calls = [*list(walk(CONTRACT))[::2], *list(layout_calls(CONTRACT))[::5]]
    for call in calls:
        expected = CONTRACT.readings(call)[0].evaluate(CONTRACT.operands(call)).view(np.float32)
        assert codes_of(kernel(call)) == codes_of(expected), call.origin
    assert len(calls) > 200


@pytest.mark.parametrize("x_dtype", ["int8", "uint8", "float8_e4m3fn", "float8_e5m2"])
def test_the_kernel_in_fractions(x_dtype: str) -> None:
    rng = np.random.default_rng(5)
    float8 = x_dtype.startswith("float8")
    for z_dtype in ("",) if float8 else ("", "int32", "int64"):
        x = np.arange(256, dtype=np.uint8).view(numpy_dtype(x_dtype))
        scales = rng.integers(0, 1 << 32, 256, np.uint32).view(np.float32)
        zps = rng.integers(-(2**31) + 512, 2**31 - 512, 256).astype(z_dtype or "int32")
        zps[::2] = rng.integers(-300, 300, 128)
        given = (zps,) if z_dtype else ()
        got = xverify.dynamic_dequantize(x, scales, *given, qtype="per_channel", axis=0, contract=STATIC)
        for place in range(256):
            z = int(zps[place]) % (1 << 64 if z_dtype == "int64" else 1 << 32)
            named = (z_dtype, z) if z_dtype else ("", None)
            due = exact.linear(x_dtype, place, "float32", int(scales.view(np.uint32)[place]), *named, "float32", False)
            found = int(got.view(np.uint32)[place])
            assert found == due or (np.isnan(got[place]) and due == exact.NAN["float32"]), (place, zps[place])


@pytest.mark.parametrize(("text", "expected"), [row for row in TABLE if row[1].startswith("forbidden")])
def test_the_kernel_refuses_what_is_forbidden(text: str, expected: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{STATIC}/{expected.partition(' ')[2]}: "):
        kernel(call_of(STATIC, text))
