"""The editions of oneDNN's guide: sentences, decisions, and the kernel against fractions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import exact
import numpy as np
import pytest
from kernel_arrays import codes_of
from kernel_arrays import expected as expected_codes
from quoted_text import quoted_but_absent
from walked_calls import every_nth
from written_calls import call_of

import xverify
from xverify import contracts
from xverify.contracts import documents, onednn_guide
from xverify.contracts.model import Cell
from xverify.core.call import Call
from xverify.core.dtypes import encode, numpy_dtype, tensor
from xverify.core.errors import DocumentError
from xverify.engine import select
from xverify.oracles import all_oracles, installed_version, onednn_graph_api
from xverify.strategies import breakable, openable, opened, spoiled
from xverify.strategies.layouts import layout_calls

STATIC, STATIC_3_0 = "onednn/Dequantize-1@3.5", "onednn/Dequantize-1@3.0"
CONTRACT = contracts.get(STATIC)
DYNAMIC, DYNAMIC_3_0 = "onednn/DynamicDequantize-1@3.7", "onednn/DynamicDequantize-1@3.0"
GUIDES = (STATIC_3_0, STATIC, DYNAMIC_3_0, DYNAMIC)
DOCUMENTS = os.environ.get("XVERIFY_ONEDNN_DOCUMENTS", "")
"""A git repository of oneDNN with its tags: the guides of the releases are not ours to commit."""
FIRST, LAST = onednn_graph_api.CHECKED
EVERY_RELEASE = tuple((FIRST[0], minor) for minor in range(FIRST[1], LAST[1] + 1))


def guide(identity: str, release: tuple[int, int]) -> str:
    """The guide's text on an operation in a release."""
    operation = identity.partition("/")[2].partition("-")[0]
    path = "v{}.{}:doc/graph/operations/{}.md".format(*release, operation)
    done = subprocess.run(["git", "-C", DOCUMENTS, "show", path], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.skipif(not DOCUMENTS, reason="XVERIFY_ONEDNN_DOCUMENTS does not say where a repository of oneDNN is")
@pytest.mark.parametrize("identity", GUIDES)
def test_every_sentence_is_in_the_guides_of_its_releases(identity: str) -> None:
    """No other release has all its sentences."""
    contract = contracts.get(identity)
    absent = {release: quoted_but_absent(contract, guide(identity, release)) for release in EVERY_RELEASE}
    assert {release for release, missing in absent.items() if not missing} == {
        release for release in EVERY_RELEASE if onednn_guide.judges(identity, release)
    }


def test_a_library_is_judged_by_the_guide_of_its_release() -> None:
    assert contracts.of_onednn((3, 2)) == (STATIC_3_0, DYNAMIC_3_0)
    assert contracts.of_onednn((3, 4)) == (DYNAMIC_3_0,)
    assert contracts.of_onednn((3, 6)) == (STATIC, DYNAMIC_3_0)
    assert contracts.of_onednn((3, 13)) == (STATIC, DYNAMIC)
    assert contracts.of_onednn((3, 14)) == contracts.of_onednn(None) == ()
    assert set(GUIDES) == set(onednn_guide.RELEASES)


@pytest.mark.parametrize(
    ("identity", "first", "last", "name"),
    [
        (STATIC_3_0, (3, 0), (3, 3), "oneDNN developer guide 3.0 to 3.3, Dequantize"),
        (STATIC, (3, 5), (3, 13), "oneDNN developer guide 3.5 to 3.13, Dequantize"),
        (DYNAMIC_3_0, (3, 0), (3, 6), "oneDNN developer guide 3.0 to 3.6, DynamicDequantize"),
        (DYNAMIC, (3, 7), (3, 13), "oneDNN developer guide 3.7 to 3.13, DynamicDequantize"),
    ],
)
def test_releases_that_an_edition_judges(
    identity: str, first: tuple[int, int], last: tuple[int, int], name: str
) -> None:
    """An edition judges the releases whose guide has its sentences, and no unknown release."""
    judged = [release for release in EVERY_RELEASE if onednn_guide.judges(identity, release)]
    assert judged == [(3, minor) for minor in range(first[1], last[1] + 1)]
    for release in ((2, 7), (3, first[1] - 1), (3, last[1] + 1), (4, 0), None):
        assert not onednn_guide.judges(identity, release), release
    assert onednn_guide.document(identity) == name
    for release in (*EVERY_RELEASE, None):
        assert not onednn_guide.judges("onednn/DynamicDequantize-1@multiply", release)


def test_cells_name_each_type_in_its_place() -> None:
    per_tensor = call_of(DYNAMIC, "x=uint8[2,3] scale=float32[1]")
    per_axis = call_of(DYNAMIC, "x=uint8[2,3] scale=float32[3] zp=int32[3] qtype=per_channel axis=1")
    contract = contracts.get(DYNAMIC)
    assert contract.cell(per_tensor) == Cell(DYNAMIC, "uint8", "float32", "", "float32", "per_tensor", "")
    assert contract.cell(per_axis) == Cell(DYNAMIC, "uint8", "float32", "int32", "float32", "per_axis", "")
    static = call_of(STATIC, "x=uint8[2,3] scale=float32[3] zp=int32[3] qtype=per_channel axis=1")
    assert CONTRACT.cell(static) == Cell(STATIC, "uint8", "float32", "int32", "float32", "per_axis", "")


def test_the_formula_of_an_edition() -> None:
    """The guides write out the formula for channels. The seed documents have one formula for both."""
    seeds = tuple(f"onednn/DynamicDequantize-1@{edition}" for edition in ("multiply", "divide"))
    for identity in (*GUIDES, *seeds):
        edition = contracts.get(identity)
        per_tensor = call_of(identity, "x=uint8[2,3] scale=float32[1] zp=int32[1]")
        per_channel = call_of(identity, "x=uint8[2,3] scale=float32[3] zp=int32[3] qtype=per_channel axis=1")
        names = ("exact-quotient", "float32-quotient") if identity.endswith("@divide") else ("exact", "float32")
        of_channels = f"{identity}/formula" + ("-per-channel" if identity in GUIDES else "")
        assert tuple(reading.name for reading in edition.readings(per_tensor)) == names
        assert edition.value_clause(per_tensor, None) == f"{identity}/formula"
        assert edition.value_clause(per_channel, None) == of_channels
        assert {f"{identity}/formula", of_channels} <= edition.clauses.keys()


def test_silent_clauses_and_titles_of_documents() -> None:
    silent = {"output-shape", "axis-per-tensor", "int32-overflow", "subnormal"}
    spelled, newest = silent | {"qtype-spelling"}, silent | {"qtype-spelling", "scales-rank", "qtype-per-group"}
    for identity, names, title in (
        (STATIC, silent, "the guide from release 3.5 on"), (DYNAMIC_3_0, spelled, "the guide from release 3.0 on"),
        (DYNAMIC, newest, "the guide from release 3.7 on"),
        ("onednn/DynamicDequantize-1@divide", spelled - {"axis-per-tensor"}, "the document that says divide"),
    ):  # fmt: skip
        edition = contracts.get(identity)
        assert {name.rpartition("/")[2] for name, clause in edition.clauses.items() if not clause.text} == names
        assert edition.title.rpartition(", ")[2] == title


def python_with(wheel: Path, file: str) -> str:
    """A Python with a wheel named onednn that has one file."""
    about = wheel / "onednn-2026.1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: onednn\nVersion: 2026.1.0\n")
    (about / "RECORD").write_text(f"../../libdnnl.so.3,,\n../../{file},,\n")
    python = wheel / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={wheel} exec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    return str(python)


def test_an_installed_library_is_judged_by_its_release_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of the wheel's files give the release, in any Python."""
    newer = python_with(tmp_path / "newer", "libdnnl.so.3.13")
    assert documents.onednn_release(newer) == (3, 13)
    assert [i for i in contracts.matching("onednn/*") if contracts.carried(i, "onednn", newer)] == list(
        contracts.of_onednn((3, 13))
    )
    unnamed = python_with(tmp_path / "unnamed", "libdnnl.so")
    with pytest.raises(DocumentError, match="no wheel of oneDNN with a file that names its release"):
        contracts.carried(STATIC, "onednn", unnamed)
    for python, release in ((newer, (3, 13)), (unnamed, None)):
        monkeypatch.setattr(contracts, "onednn_release", lambda python=python: documents.onednn_release(python))
        assert contracts.shipped(("onednn/*@[0-9]*",)) == contracts.of_onednn(release)
        assert contracts.shipped(("*",)) == ("*",)


@pytest.mark.skipif(installed_version(all_oracles()["onednn"]) is None, reason="onednn-cpu-gomp is not installed")
def test_the_oracle_that_a_sweep_takes_is_judged_by_its_release() -> None:
    (_, oracle), sentences = select.oracles_named(["onednn"], None)
    assert oracle.judged_by == contracts.of_onednn(documents.onednn_release())
    assert sentences == ()


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


DYNAMIC_TABLE = [
    ("x=int8[2,3] scale=float32[1] zp=uint8[1]", "allowed"),
    ("x=uint8[2,3] scale=bfloat16[3] zp=int8[3] qtype=per_channel", "allowed"),
    ("x=int4[2,3] scale=float16[1] zp=uint4[1]", "allowed"),
    ("x=uint4[2,3] scale=float16[2] zp=int32[2] qtype=per_channel axis=-2", "allowed"),
    ("x=int4[2,3] scale=float16[1] zp=int8[1]", "forbidden zps-type"),
    ("x=int8[2,3] scale=float16[1] zp=int4[1]", "forbidden zps-type"),
    ("x=float8_e5m2[2,3] scale=float16[1]", "forbidden src-type"),
    ("x=int8[2,3] scale=float64[1]", "forbidden scales-type"),
    ("x=int8[2,3] scale=float32[2]", "forbidden scales-shape"),
    ("x=int8[2,3] scale=float32[2,1]", "forbidden scales-shape"),
    ("x=int8[2,3] scale=float32[1] zp=int8[2]", "forbidden zps-shape"),
    ("x=int8[2,3] scale=float32[3] qtype=per_channel axis=2", "forbidden axis-range"),
    ("x=int8[2,3] scale=float32[1] qtype=per-tensor", "unspecified qtype-spelling"),
    ("x=int8[2,3] scale=float32[3] qtype=per-channel", "unspecified qtype-spelling"),
    ("x=int8[2,3] scale=float32[1] qtype=per_row", "forbidden qtype"),
    ("x=int8[2,3] scale=float32[1] qtype=per_group", "unspecified qtype-per-group"),
    ("x=int8[4,6] scale=float32[2,6] qtype=per_group", "unspecified qtype-per-group"),
    ("x=int8[2,3] scale=float32[]", "unspecified scales-rank"),
    ("x=int8[2,3] scale=float32[1] zp=int8[]", "unspecified scales-rank"),
    ("x=int8[2,3] scale=float32[1,1] zp=int8[1,1]", "unspecified scales-rank"),
    ("x=int8[2,3] scale=float32[3,1] qtype=per_channel", "unspecified scales-rank"),
    ("x=int8[2,3] scale=float32[3,1] zp=int32[1,3]=9 qtype=per_channel", "unspecified scales-rank"),
    (
        "x=int8[2,3]=-2 scale=float32[3,1] zp=int32[3,1]=2147483647 qtype=per_channel",
        "unspecified scales-rank int32-overflow",
    ),
    ("x=int4[2] scale=float32[1] zp=int32[1]=2147483647", "allowed"),
    ("x=int4[2]=-2 scale=float32[1] zp=int32[1]=2147483647", "unspecified int32-overflow"),
    ("x=int8[2,3] scale=float32[1] axis=2", "unspecified axis-per-tensor"),
]
STATIC_3_0_TABLE = [
    ("x=int8[2,3] scale=float32[1] zp=int32[1]=5", "allowed"),
    ("x=uint8[2,3] scale=float32[3] zp=int64[3] qtype=per_channel axis=-1", "allowed"),
    ("x=int8[2,3] scale=float32[1]", "forbidden zero-point-required"),
    ("x=float8_e4m3fn[2] scale=float32[1] zp=int32[1]", "forbidden src-type"),
    ("x=int8[2,3] scale=float32[1] zp=uint8[1]", "forbidden zps-type"),
    ("x=int8[2,3] scale=float32[1] zp=int32[3]", "forbidden zps-shape"),
    ("x=int8[2,3] scale=float32[3] zp=int32[1]", "forbidden scales-shape"),
    ("x=int8[2,3] scale=float32[1] zp=int32[1] qtype=per_group", "forbidden qtype"),
    ("x=int8[2,3] scale=float32[3] zp=int32[3] qtype=per-channel", "forbidden qtype"),
    ("x=int8[2,3] scale=float32[1] zp=int32[1] axis=2", "unspecified axis-per-tensor"),
    ("x=int8[2]=0 scale=float32[1] zp=int64[1]=4294967297", "unspecified int32-overflow"),
]
DYNAMIC_3_0_TABLE = [
    ("x=int8[2,3] scale=float32[1] zp=uint8[1]", "allowed"),
    ("x=uint8[2,3] scale=float32[3] qtype=per_channel axis=-1", "allowed"),
    ("x=int4[2,3] scale=float32[1]", "forbidden src-type"),
    ("x=int8[2,3] scale=float16[1]", "forbidden scales-type"),
    ("x=int8[2,3] scale=float32[1] zp=int16[1]", "forbidden zps-type"),
    ("x=int8[2,3] scale=float32[]", "forbidden scales-shape"),
    ("x=int8[2,3] scale=float32[1] zp=int8[1,1]", "forbidden zps-shape"),
    ("x=int8[2,3] scale=float32[1] qtype=per_group", "forbidden qtype"),
    ("x=int8[2,3] scale=float32[1] qtype=per-tensor", "unspecified qtype-spelling"),
    ("x=int8[2,3] scale=float32[3] qtype=per_channel axis=2", "forbidden axis-range"),
    ("x=int8[2]=-2 scale=float32[1] zp=int32[1]=2147483647", "unspecified int32-overflow"),
]
TABLES = {STATIC: TABLE, DYNAMIC: DYNAMIC_TABLE, STATIC_3_0: STATIC_3_0_TABLE, DYNAMIC_3_0: DYNAMIC_3_0_TABLE}
EVERY = [(identity, *row) for identity, table in TABLES.items() for row in table]


@pytest.mark.parametrize(("identity", "text", "expected"), EVERY)
def test_decisions(identity: str, text: str, expected: str) -> None:
    judgement = contracts.get(identity).judge(call_of(identity, text))
    assert " ".join([judgement.verdict, *(name.rpartition("/")[2] for name in judgement.clauses)]) == expected


def test_every_clause_that_can_be_broken_is() -> None:
    """A single change to a call of the walk breaks it."""
    assert set(breakable(CONTRACT)) == {
        "src-type", "scales-type", "scales-shape", "zps-type", "zps-shape", "zps-float8", "qtype", "axis-range",
    }  # fmt: skip
    rng = np.random.default_rng(1)
    older = contracts.get(STATIC_3_0)
    assert set(breakable(older)) == {
        "src-type", "scales-type", "scales-shape", "zps-type", "zps-shape", "zero-point-required", "qtype", "axis-range",
    }  # fmt: skip
    for contract in (CONTRACT, older):
        calls = every_nth(contract.id, 5)
        for name in breakable(contract):
            assert any(spoiled(contract, call, name, rng) for call in calls), f"no call breaks {name}"
        assert set(openable(contract)) == {"axis-per-tensor", "int32-overflow"}
        widest = [opened(contract, call, "int32-overflow", rng) for call in calls]
        assert {call.tensors["zero_point"].dtype for call in widest if call} == {"int32", "int64"}


def test_the_sentences_that_are_broken_by_values() -> None:
    """By "zps-absent" and the formulas, absent zero points equal zeros and no others."""
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


@pytest.mark.parametrize("identity", [STATIC, STATIC_3_0])
def test_the_document_contradicts_itself(identity: str) -> None:
    contract = contracts.get(identity)
    (check,) = contract.text_checks()
    assert check.call is not None
    assert contract.judge(check.call).verdict == "allowed"
    result = contract.readings(check.call)[0].evaluate(contract.operands(check.call)).view(np.float32)
    assert result.tolist() == [[0.25]]
    assert "round(" in contract.clauses[f"{identity}/formula"].text
    assert "round(" not in contract.clauses[f"{identity}/formula-per-channel"].text


def kernel(call: Call) -> Any:
    arrays = {role: operand.laid_out().view(numpy_dtype(operand.dtype)) for role, operand in call.tensors.items()}
    zps = arrays.get("zero_point")
    attributes: dict[str, Any] = dict(call.attributes)
    # NumPy's, with which test_compiled.py and the gate compare what is compiled.
    return xverify.dynamic_dequantize(
        arrays["x"], arrays["scale"], zps, contract=call.contract, backend="numpy", **attributes
    )


@pytest.mark.parametrize("identity", GUIDES)
def test_the_kernel_equals_the_first_reading(identity: str) -> None:
    contract = contracts.get(identity)
    calls = [*every_nth(identity, 2), *list(layout_calls(contract))[::5]]
    for call in calls:
        dtype = numpy_dtype(call.tensors["scale"].dtype)
        expected = contract.readings(call)[0].evaluate(contract.operands(call)).view(dtype)
        assert codes_of(kernel(call)) == codes_of(expected), call.origin
    assert len(calls) > 100


@pytest.mark.parametrize("x_dtype", ["int8", "uint8", "float8_e4m3fn", "float8_e5m2"])
def test_the_kernel_in_fractions(x_dtype: str) -> None:
    rng = np.random.default_rng(5)
    float8 = x_dtype.startswith("float8")
    for z_dtype in ("",) if float8 else ("", "int32", "int64"):
        x = np.arange(256, dtype=np.uint8).view(numpy_dtype(x_dtype))
        scales = rng.integers(0, 1 << 32, 256, np.uint32).view(np.float32)
        zps = rng.integers(-(2**31) + 512, 2**31 - 512, 256).astype(z_dtype or "int32")
        zps[::2] = rng.integers(-300, 300, 128)
        optional = (zps,) if z_dtype else ()
        result = xverify.dynamic_dequantize(x, scales, *optional, qtype="per_channel", axis=0, contract=STATIC)
        for index in range(256):
            z = int(zps[index]) % (1 << 64 if z_dtype == "int64" else 1 << 32)
            named = (z_dtype, z) if z_dtype else ("", None)
            expected = exact.linear(
                x_dtype, index, "float32", int(scales.view(np.uint32)[index]), *named, "float32", False
            )
            code = int(result.view(np.uint32)[index])
            assert code == expected or (np.isnan(result[index]) and expected == exact.NAN["float32"]), (
                index,
                zps[index],
            )


@pytest.mark.parametrize(("identity", "text", "expected"), [row for row in EVERY if row[2].startswith("forbidden")])
def test_the_kernel_refuses_forbidden_calls(identity: str, text: str, expected: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(identity)}/{expected.partition(' ')[2]}: "):
        kernel(call_of(identity, text))


@pytest.mark.parametrize("z_dtype", ["", "int4", "uint4", "int32"])
@pytest.mark.parametrize("out", ["float32", "float16", "bfloat16"])
def test_four_bits_in_fractions(out: str, z_dtype: str) -> None:
    """The output has the type of the scales."""
    rng = np.random.default_rng(7)
    bits = 32 if out == "float32" else 16
    for x_dtype in ("int4", "uint4"):
        x = np.tile(encode(x_dtype, np.arange(16)), 8).view(numpy_dtype(x_dtype))
        scales = rng.integers(0, 1 << bits, x.size).astype(f"u{bits // 8}").view(numpy_dtype(out))
        numbers = (
            rng.integers(0, 8, x.size) if z_dtype != "int32" else rng.integers(-(2**31) + 512, 2**31 - 512, x.size)
        )
        zps = encode(z_dtype, numbers).view(numpy_dtype(z_dtype)) if z_dtype else None
        got = xverify.dynamic_dequantize(x, scales, zps, qtype="per_channel", axis=0, contract=DYNAMIC)
        assert codes_of(got) == expected_codes(x, scales, zps, out)
