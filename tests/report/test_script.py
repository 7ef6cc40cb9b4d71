"""Reproduction scripts: they run alone, tell if the discrepancy is there, and treat text as data."""

from __future__ import annotations

import ast
import builtins
import json
import re
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample_report import (
    HOSTILE,
    ONNX,
    finding,
    gave,
    hostile_report,
    range_call,
    refused,
    sample_report,
    tensor,
    wrong,
)
from scripts_run import run, scaled

from xverify.core.call import Call, Tensor, encode_call
from xverify.oracles import all_oracles, installed_version, plugin
from xverify.report import script_main, summary
from xverify.report.script import environment, script_for, scripts_of, sources


@pytest.mark.parametrize("name", ["onnxruntime", "onnx-reference"])
def test_a_script_exits_1_while_the_value_is_wrong_and_0_when_it_is_right(name: str, tmp_path: Path) -> None:
    assert "import xverify" not in script_for(scaled(name, "2.0"))
    status, text = run(script_for(scaled(name, "2.0")), tmp_path, alone=True)
    assert (status, "got       1.5 (0x3fc00000)" in text, "should be 2.0 (0x40000000" in text) == (1, True, True), text
    status, text = run(script_for(scaled(name, "1.5")), tmp_path)
    assert (status, "the discrepancy is gone" in text) == (0, True), text


@pytest.mark.parametrize("options", ["optimization=off", "initializers"])
def test_the_path_through_onnxruntime_is_honoured(options: str, tmp_path: Path) -> None:
    subject = {"name": "onnxruntime", "version": "1", "role": "oracle", "options": options}
    assert run(script_for(scaled("onnxruntime", "2.0", subject=subject)), tmp_path)[0] == 1


@pytest.mark.parametrize("dtype", ["uint4", "float8_e4m3fn"])
@pytest.mark.parametrize("name", ["onnxruntime", "onnx-reference"])
def test_types_that_numpy_lacks(name: str, dtype: str, tmp_path: Path) -> None:
    x = tensor(dtype, [1], ["3"], [{"uint4": "0x3", "float8_e4m3fn": "0x44"}[dtype]])
    status, text = run(script_for(scaled(name, "1.5", x)), tmp_path)
    assert status == 0, text


@pytest.mark.skipif(installed_version(all_oracles()["onednn"]) is None, reason="onednn-cpu-gomp is not installed")
@pytest.mark.parametrize("around", [None, {"around": ["y>identity:0"]}])
@pytest.mark.parametrize("contract", ["onednn/Dequantize-1@3.0", "onednn/DynamicDequantize-1@3.0"])
def test_onednn_alone_and_in_a_graph(contract: str, around: dict[str, Any] | None, tmp_path: Path) -> None:
    """The script contains the library's functions, and tells right from wrong."""
    for given, expected in (("1.5", 0), ("2.0", 1)):
        one = scaled("onednn", given)
        one["contract"] = contract
        called = one["witness"]["call"]
        called.update({"contract": contract, **(around or {})})
        called["tensors"]["scale"] = tensor("float32", [1], ["0.5"], ["0x3f000000"])
        called["tensors"]["zero_point"] = tensor("int32", [1], ["0"], ["0x00000000"])
        one["subject"]["options"] = "graph policy=debug" if around else ""
        text = script_for(one)
        assert ("standalone.core.surroundings': r" in text) == bool(around)
        status, said = run(text, tmp_path)
        assert status == expected, said


@pytest.mark.parametrize(("given", "expected"), [("1.5", 0), ("2.0", 1)])
def test_an_onnxruntime_that_does_not_say_the_size_of_a_tensor(given: str, expected: int, tmp_path: Path) -> None:
    """The OrtValue of ONNX Runtime 1.15 has no tensor_size_in_bytes."""
    one = scaled("onnxruntime", given)
    one["witness"]["call"]["around"], one["subject"]["options"] = ["y>identity:0"], "graph optimization=off"
    imported = "    import onnxruntime as ort\n    from onnxruntime.capi import onnxruntime_pybind11_state as binding\n"
    text = script_for(one).replace(imported, imported + "    del ort.OrtValue.tensor_size_in_bytes\n", 1)
    status, said = run(text, tmp_path)
    assert status == expected, said


@pytest.mark.parametrize(
    "verdict", ["wrongly-accepted", "wrongly-rejected", "hang", "nondeterministic", "memory", "ambiguity"]
)
def test_a_script_checks_the_fact_of_its_verdict(verdict: str, tmp_path: Path) -> None:
    """This call is computed, in time, with equal bits, and writes to no input."""
    one = scaled("onnxruntime", "2.0", verdict=verdict)
    if verdict in ("wrongly-rejected", "hang"):
        one["witness"].update(
            got=refused("rejected" if verdict == "wrongly-rejected" else verdict, "Fail", "no"), legal=[]
        )
    one["witness"]["got"]["notes"] = ["input-written"] if verdict == "memory" else []
    expected = {"wrongly-accepted": 1, "ambiguity": 1}.get(verdict, 0)
    status, text = run(script_for(one), tmp_path)
    assert status == expected, text


def test_a_script_detects_a_crash_and_a_hang(tmp_path: Path) -> None:
    """Loading the framework aborts or sleeps."""
    text = script_for(scaled("onnxruntime", "2.0", verdict="crash"))
    head, tail = text.split("    import onnxruntime as ort\n", 1)
    assert run(head + "    __import__('os').abort()\n" + tail, tmp_path)[0] == 1
    sleeping = head.replace("LIMIT_SECONDS = 60", "LIMIT_SECONDS = 1") + "    __import__('time').sleep(60)\n" + tail
    status, shown = run(sleeping, tmp_path)
    assert (status, "does not answer within 1 s" in shown) == (1, True)


def test_a_call_that_is_refused_cannot_be_compared(tmp_path: Path) -> None:
    one = scaled("onnxruntime", "2.0")
    one["witness"]["call"]["attributes"] = {"no_such_attribute": 1}
    assert run(script_for(one), tmp_path)[0] == 3


@pytest.mark.parametrize(("error", "expected"), [("Fail", 3), ("AttributeError", 1)])
def test_a_function_that_a_release_lacks_is_no_refusal_of_a_call(error: str, expected: int, tmp_path: Path) -> None:
    one = scaled("onnxruntime", "2.0", verdict="wrongly-rejected")
    one["witness"].update(got=refused("rejected", error, "no"), legal=[])
    text = script_for(one)
    assert text.count("ort.InferenceSession(") == 1
    status, said = run(text.replace("ort.InferenceSession(", "ort.no_such_function("), tmp_path)
    assert (status, "no_such_function" in said) == (expected, True), said


def test_a_script_without_its_framework_exits_3(tmp_path: Path) -> None:
    text = script_for(scaled("onnxruntime", "2.0")).replace("import onnxruntime as", "import no_such_onnxruntime as")
    status, shown = run(text, tmp_path)
    assert (status, "No module named 'no_such_onnxruntime'" in shown) == (3, True), shown
    status, shown = run(script_for(scaled("an-unknown-one", "2.0")), tmp_path)
    assert (status, "does not know how to call an-unknown-one" in shown) == (3, True), shown


def test_tensorflow(tmp_path: Path) -> None:
    got = gave("float32", [2], ["0.0", "5.0"], ["0x00000000", "0x40a00000"])
    legal = [wrong([1], ("5.0", "0x40a00000"), ("6.0", "0x40c00000", ["exact"]))]
    witness = {"call": range_call(), "got": got, "legal": legal}
    one = finding(
        "violation", "tensorflow", "tensorflow/Dequantize@installed", "formula-min-combined", "a summary", witness
    )
    status, text = run(script_for(one), tmp_path, alone=True)
    assert (status, "got       6.0 (0x40c00000)" in text) == (0, True), text


@pytest.mark.parametrize("name", ["xverify-numpy", "onednn-formula-divide"])
def test_scripts_of_own_kernels_import_xverify(name: str, tmp_path: Path) -> None:
    one = scaled(name, "1.5")
    if name.startswith("onednn"):
        one["contract"] = "onednn/DynamicDequantize-1@divide"
        one["witness"]["call"]["tensors"]["scale"] = tensor("float32", [1], ["2.0"], ["0x40000000"])
    status, text = run(script_for(one), tmp_path)
    assert status == 0, text


@pytest.mark.parametrize("damage", ["", "absent", "damaged"])
def test_a_large_witness_is_read_from_the_file_beside(damage: str, tmp_path: Path) -> None:
    codes = np.full(5000, 3, np.uint8)
    scale = Tensor("float32", np.array(0x3F000000, np.uint32))
    blob = encode_call(Call(ONNX, {"x": Tensor("int8", codes, "strided"), "scale": scale}))
    large = {
        "dtype": "int8",
        "shape": [5000],
        "layout": "strided",
        "generator": "g",
        "digest": "d",
        "file": "scripts/w.call",
    }
    one = scaled("onnxruntime", "2.0", large)
    one["witness"]["legal"][0]["index"] = [4999]
    one["witness"]["got"]["tensor"] = {**large, "dtype": "float32", "layout": "C", "file": ""}
    if damage != "absent":
        (tmp_path / "w.call").write_bytes(blob[:300] if damage else blob)
    status, text = run(script_for(one), tmp_path)
    assert status == (3 if damage else 1), text


def test_a_conflict_of_texts_shows_both_sides_and_needs_nothing(tmp_path: Path) -> None:
    report = sample_report()
    for one in (f for f in report["findings"] if summary.on_texts(f)):
        text = script_for(one)
        assert "import numpy" not in text
        status, shown = run(text, tmp_path)
        assert status == 1
        assert one["summary"] in shown
        if one["witness"]:
            assert "gives 6.0 (0x40c00000)" in shown
            assert "allows 1.5 (0x3fc00000)" in shown


def test_the_clause_is_quoted() -> None:
    report = sample_report()
    text = scripts_of(report)[report["findings"][0]["id"]]
    assert "The dequantization formula is `y = (x - x_zero_point) * x_scale`." in text


QUOTES = '"""\n\'\'\'\\"; import os; os._exit(7) #' + HOSTILE + "\ud83d\u202e\x00\n{FINDING}"


def test_hostile_text_becomes_data_only(tmp_path: Path) -> None:
    """Only the literal differs between the script of a hostile finding and that of a harmless one."""

    def code(text: str) -> list[str]:
        tree = ast.parse(text)
        (literal,) = [node for node in tree.body if isinstance(node, ast.AnnAssign)]
        assert literal.value is not None
        ast.literal_eval(literal.value)
        return [ast.dump(node) for node in tree.body if node is not literal]

    for name in ("onnxruntime", "onnx-reference", "tensorflow", "xverify-numpy", "onednn-formula-divide"):
        clean, soiled = scaled(name, "2.0"), scaled(name, "2.0")
        soiled["summary"] = soiled["contract"] = soiled["clause"] = soiled["id"] = QUOTES
        soiled["subject"]["version"] = soiled["subject"]["options"] = QUOTES
        soiled["witness"]["call"]["attributes"] = {QUOTES: QUOTES, "n": 1}
        soiled["witness"]["call"]["tensors"][QUOTES] = tensor(QUOTES, [1], [QUOTES], [QUOTES])
        soiled["others"] = [{"name": QUOTES, "outcome": QUOTES}]
        text = script_for(soiled, {"id": QUOTES, "text": QUOTES, "document": QUOTES, "note": QUOTES})
        text.encode("utf-8")
        assert code(text) == code(script_for(clean))
    assert run(text, tmp_path)[0] == 3
    for one in hostile_report()["findings"]:
        ast.parse(script_for(one))


def undefined(text: str) -> set[str]:
    """Return the names that a source text uses and neither defines nor imports."""
    nodes = list(ast.walk(ast.parse(text)))
    names = {n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.ClassDef))} | set(dir(builtins))
    names |= {
        (a.asname or a.name).split(".")[0]
        for n in nodes
        if isinstance(n, (ast.Import, ast.ImportFrom))
        for a in n.names
    }
    names |= {n.arg for n in nodes if isinstance(n, ast.arg)} | {"__name__", "__file__"}
    names |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    names |= {n.name or "" for n in nodes if isinstance(n, ast.ExceptHandler)}
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)} - names


def test_every_script_is_complete() -> None:
    for name in [*all_oracles(), "an-unknown-one"]:
        for verdict in ("violation", "crash"):
            assert undefined(script_for(scaled(name, "2.0", verdict=verdict))) == set()
    for oracle in [*all_oracles().values(), plugin.USERS, replace(plugin.USERS, module=plugin.NATIVE_MODULE)]:
        for name, text in sources(oracle.module, oracle.load).items():
            assert undefined(text) == set(), (oracle.name, name)


def test_a_script_holds_only_the_code_that_its_call_needs() -> None:
    texts = sources("xverify.oracles.torch_cpu", "load", False)
    assert set(texts) == {
        f"xverify.{name}" for name in ("core.call", "oracles.arrays", "oracles.protocol", "oracles.torch_cpu")
    }
    assert "class Outcome" in texts["xverify.core.call"]
    assert "def encode_outcome" not in texts["xverify.core.call"]


def test_any_nan_is_the_same_and_zeros_are_not() -> None:
    for dtype, one, other in (
        ("float32", 0x7FC00000, 0xFF800001),
        ("bfloat16", 0x7FC0, 0xFFFF),
        ("float16", 0x7E00, 0xFC01),
    ):
        assert script_main.canonical(dtype, one) == script_main.canonical(dtype, other)
    infinity = struct.unpack("<I", struct.pack("<f", float("inf")))[0]
    assert script_main.canonical("float32", infinity) == infinity
    assert script_main.canonical("float32", 0) != script_main.canonical("float32", 0x80000000)


def test_scripts_of_a_report_are_those_of_its_witnesses() -> None:
    report = json.loads(json.dumps(sample_report()))
    made = scripts_of(report)
    assert set(made) == {f["id"] for f in report["findings"] if f["witness"]}
    assert all(re.match(r"#!/usr/bin/env python3\n\"\"\"Shows ", text) for text in made.values())


def test_a_script_sets_the_variables_of_an_implementation_and_of_a_setting() -> None:
    own = {"TF_ENABLE_ONEDNN_OPTS": "0"}
    for name in ("tensorflow-own-kernels", "tensorflow[kernels=own]"):
        assert environment({"name": name, "role": "oracle"}) == own
    assert (
        environment({"name": "tensorflow", "role": "oracle"})
        == environment({"name": "nowhere", "role": "oracle"})
        == {}
    )
