"""com.microsoft's editions: cells, types and clauses by hand, and the page's examples.

The page takes its examples from the tests of ONNX.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx.backend.test.case.node import dequantizelinear
from written_calls import MS, call_of

from xverify import contracts
from xverify.contracts import microsoft
from xverify.contracts.model import Cell, Domain
from xverify.core.errors import DocumentError

INSTALLED, SEED = (contracts.get(MS + edition) for edition in ("installed", "seed"))
FLOATS = {TensorProto.FLOAT8E4M3FN: "float8_e4m3fn", TensorProto.FLOAT8E5M2: "float8_e5m2"}


def onnx_tests(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[Any, Any, Any]]:
    """Node, inputs and outputs of each test, by the page's name for it."""
    found: dict[str, tuple[Any, Any, Any]] = {}

    def expect(node: Any, inputs: Any, outputs: Any, name: str, **_: Any) -> None:
        found[name.removeprefix("test_dequantizelinear") or "default"] = node, inputs, outputs

    monkeypatch.setattr(dequantizelinear, "expect", expect)
    for name in dir(dequantizelinear.DequantizeLinear):
        if name.startswith("export"):
            getattr(dequantizelinear.DequantizeLinear, name)()
    return found


def codes(operand: Any) -> tuple[str, list[int]]:
    """Codes of float8 without their signs, as ONNX changed the sign of the last number in these tests."""
    if isinstance(operand, TensorProto):
        return FLOATS[operand.data_type], [code & 0x7F for code in operand.int32_data]
    return str(operand.dtype), operand.view(f"u{operand.itemsize}").reshape(-1).tolist()


def test_the_examples_are_tests_of_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    tests = onnx_tests(monkeypatch)
    assert [name for name, _, _ in microsoft.example_calls()] == ["default", "_axis", "_e4m3fn", "_e5m2"]
    for name, call, printed in microsoft.example_calls():
        _, inputs, (y,) = tests[name]
        assert call.contract == SEED.id
        assert call.origin == f"example {name}"
        for role, operand in zip(("x", "scale", "zero_point"), inputs, strict=False):
            given = call.tensors[role]
            assert (given.dtype, given.codes.reshape(-1).tolist()) == codes(operand), (name, role)
        assert len(call.tensors) == len(inputs)
        assert call.attributes == ({"axis": 1} if name == "_axis" else {})
        if name == "_axis":
            assert (call.data.shape, call.tensors["scale"].shape) == ((1, 3, 3, 2), (3,))
            y = y.reshape(call.data.shape)
            np.testing.assert_array_equal(microsoft.EXACT.evaluate(SEED.operands(call)).view(np.float32), y)
        else:
            assert printed == (np.abs(y) if "zero_point" not in call.tensors else y).tolist()


def test_cells_name_each_type_in_its_place() -> None:
    for edition in (INSTALLED, SEED):
        per_tensor = call_of(edition.id, "x=uint8[2,3] scale=float16[]")
        per_axis = call_of(edition.id, "x=int8[2,3] scale=float32[3] zp=uint8[3] axis=1")
        assert edition.cell(per_tensor) == Cell(edition.id, "uint8", "float16", "", "float16", "per_tensor", "")
        assert edition.cell(per_axis) == Cell(edition.id, "int8", "float32", "uint8", "float32", "per_axis", "")
        operands = edition.operands(per_axis)
        assert [operands.codes[role].shape for role in ("x", "scale", "zero_point")] == [(2, 3), (1, 3), (1, 3)]
        assert (operands.output_dtype, operands.shape) == ("float32", (2, 3))
        assert [reading.name for reading in edition.readings(per_axis)] == ["exact", "float32"]
        assert edition.value_clause(per_axis, None) == f"{edition.id}/formula"
        assert edition.title.endswith(f"com.microsoft DequantizeLinear, {edition.id.rpartition('@')[2]} edition")
        with pytest.raises(ValueError, match="no axis"):
            edition.operands(replace(per_axis, attributes={}))


def test_domains_of_the_editions() -> None:
    both = ("float32", "float16")
    assert SEED.domain == Domain(
        "linear", ("int8", "uint8"), both, both, ("per_tensor", "per_axis"), None, True, ("axis",), None
    )
    domain = INSTALLED.domain
    assert set(domain.scale_dtypes) == set(domain.output_dtypes) == set(both)
    assert {"int8", "uint8", "int16", "uint16", "int32"} <= set(domain.x_dtypes)
    assert domain == Domain(
        "linear", domain.x_dtypes, domain.scale_dtypes, domain.output_dtypes, ("per_tensor", "per_axis"), None, False,
        domain.attributes, None,
    )  # fmt: skip
    assert "axis" in domain.attributes
    assert list(domain.attributes) == sorted(domain.attributes)


def test_silent_clauses_and_names_of_documents() -> None:
    def silent(edition: Any) -> set[str]:
        return {name.rpartition("/")[2] for name, clause in edition.clauses.items() if not clause.text}

    open_to_all = {"axis", "axis-length", "shape-1-scale", "subnormal"}
    assert silent(SEED) == open_to_all | {"output-shape"}
    assert silent(INSTALLED) == open_to_all
    assert all(clause.note for name, clause in SEED.clauses.items() if name.rpartition("/")[2] in silent(SEED))
    assert "published page" in SEED.clauses[f"{SEED.id}/formula"].document
    assert "schema of com.microsoft" in INSTALLED.clauses[f"{INSTALLED.id}/formula"].document


def test_another_python_has_the_edition_if_its_schema_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    key = ("com.microsoft", "DequantizeLinear", 1)
    known = {"": {key: "schema"}, "same": {key: "schema"}, "other": {key: "changed"}, "none": {}}
    monkeypatch.setattr(microsoft, "schemas", lambda package, python="": known[python])
    assert [microsoft.carried(INSTALLED.id, "onnxruntime", python) for python in known] == [True, True, False, False]
    assert not microsoft.carried(SEED.id, "onnxruntime", "same")
    monkeypatch.setattr(microsoft, "schemas", lambda package, python="": {})
    with pytest.raises(DocumentError, match=r"has no schema of com\.microsoft DequantizeLinear-1"):
        microsoft.installed_contract()
    assert not microsoft.carried(INSTALLED.id, "onnxruntime", "same")
