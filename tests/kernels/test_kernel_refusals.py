"""Each refusal of the in-house kernels, and their results for calls that the documents leave open."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from exact import round_to
from kernel_arrays import (
    DIVIDE,
    INSTALLED,
    MULTIPLY,
    NEWEST,
    SEED,
    coded,
)

import xverify
from xverify.contracts import get

u8, f32 = np.zeros((2, 3), np.uint8), np.float32(1)
f32x3, u8x3 = np.ones(3, np.float32), np.zeros(3, np.uint8)
blocked = np.ones((2, 2), np.float32)

LINEAR_REFUSALS: list[tuple[str, str, type[Exception], tuple[Any, ...], dict[str, Any]]] = [
    ("x-type", NEWEST, TypeError, (u8.astype(np.int64), f32), {}),
    ("x-type", "ai.onnx/DequantizeLinear-13", TypeError, (u8.astype(np.int16), f32), {}),
    ("x-type", "ai.onnx/DequantizeLinear-24", TypeError, (u8.astype(ml_dtypes.int2), f32), {}),
    (
        "x-type",
        "com.microsoft/DequantizeLinear-1@seed",
        TypeError,
        (u8.astype(np.int32), f32, np.int32(0)),
        {"axis": None},
    ),
    ("scale-type", NEWEST, TypeError, (u8, np.float64(1)), {}),
    ("scale-type", "ai.onnx/DequantizeLinear-13", TypeError, (u8, np.float16(1)), {}),
    ("scale-type", "com.microsoft/DequantizeLinear-1", TypeError, (u8, f32.astype(ml_dtypes.bfloat16)), {}),
    ("zero-point-type", NEWEST, TypeError, (u8, f32, np.int8(0)), {}),
    ("zero-point-shape", "ai.onnx/DequantizeLinear-13", ValueError, (u8, f32, np.zeros(1, np.uint8)), {}),
    ("zero-point-shape", NEWEST, ValueError, (u8, f32, np.zeros((1, 1), np.uint8)), {}),
    ("zero-point-shape", NEWEST, ValueError, (u8, f32, np.zeros(2, np.uint8)), {}),
    ("zero-point-shape", NEWEST, ValueError, (u8, f32x3, np.uint8(0)), {}),
    ("zero-point-shape", "ai.onnx/DequantizeLinear-10", ValueError, (u8, f32, u8x3), {}),
    ("zero-point-required", "com.microsoft/DequantizeLinear-1@seed", TypeError, (u8, f32), {}),
    ("output-type", NEWEST, TypeError, (u8, f32), {"out_dtype": "float64"}),
    ("output-type", NEWEST, TypeError, (u8, f32), {"out_dtype": "nonsense"}),
    ("output-type", NEWEST, TypeError, (u8, f32.astype(ml_dtypes.float8_e8m0fnu)), {}),
    ("attributes", "ai.onnx/DequantizeLinear-21", TypeError, (u8, f32), {"out_dtype": "float16"}),
    ("attributes", "ai.onnx/DequantizeLinear-19", TypeError, (u8, f32), {"block_size": 2}),
    ("attributes", "ai.onnx/DequantizeLinear-10", TypeError, (u8, f32), {"axis": 1}),
    ("attributes", "com.microsoft/DequantizeLinear-1", TypeError, (u8, f32), {"block_size": 0}),
    ("granularity", "ai.onnx/DequantizeLinear-10", ValueError, (u8, f32x3), {}),
    ("axis-length", "ai.onnx/DequantizeLinear-13", ValueError, (u8, f32x3), {"axis": 0}),
    ("granularity", NEWEST, ValueError, (u8, f32x3), {"axis": 0}),
    ("granularity", NEWEST, ValueError, (u8, f32x3[:1]), {"axis": 1}),
    ("granularity", "ai.onnx/DequantizeLinear-19", ValueError, (u8, blocked), {}),
    ("granularity", NEWEST, ValueError, (u8, np.ones((2, 3, 1), np.float32)), {"block_size": 2}),
    ("granularity", NEWEST, ValueError, (u8, np.ones((1, 1, 1), np.float32)), {}),
    ("granularity", "ai.onnx/DequantizeLinear-13", ValueError, (u8, np.ones((2, 3), np.float32)), {"axis": 0}),
    ("granularity", "com.microsoft/DequantizeLinear-1", ValueError, (u8, f32x3), {}),
    ("granularity", "com.microsoft/DequantizeLinear-1", ValueError, (u8, f32), {"axis": 1}),
    ("axis-length", "com.microsoft/DequantizeLinear-1", ValueError, (u8, f32x3), {"axis": 0}),
    ("axis", "com.microsoft/DequantizeLinear-1", ValueError, (u8, f32x3), {"axis": 2}),
    ("axis-range", NEWEST, ValueError, (u8, f32x3), {"axis": 2}),
    ("axis-range", NEWEST, ValueError, (u8, f32x3), {"axis": -3}),
    ("axis-range", NEWEST, ValueError, (u8x3, f32x3), {}),
    ("axis-range", NEWEST, ValueError, (u8x3[0].reshape(()), f32x3[:1]), {"axis": 0}),
    ("axis-range", NEWEST, ValueError, (u8, blocked), {"axis": 2, "block_size": 2}),
    ("axis-range", NEWEST, TypeError, (u8, f32x3), {"axis": 1.0}),
    ("axis-range", NEWEST, TypeError, (u8, f32x3), {"axis": True}),
    ("block-size", NEWEST, ValueError, (u8, blocked), {}),
    ("block-size", NEWEST, ValueError, (u8, blocked), {"block_size": -2}),
    ("block-size", NEWEST, TypeError, (u8, blocked), {"block_size": "2"}),
    ("block-size", NEWEST, TypeError, (u8, blocked), {"block_size": [2]}),
    ("output-type", NEWEST, TypeError, (u8, f32), {"out_dtype": ["float32"]}),
    ("block-shape", NEWEST, ValueError, (u8, blocked), {"block_size": 1}),
    ("block-shape", NEWEST, ValueError, (u8, blocked), {"block_size": 3}),
    ("block-shape", NEWEST, ValueError, (u8, blocked), {"block_size": 2, "axis": 0}),
    ("block-shape", NEWEST, ValueError, (u8x3, f32x3), {"block_size": 2, "axis": 0}),
    ("granularity", "pytorch/dequantize_per_tensor", ValueError, (u8, f32x3[:1], u8x3[:1]), {}),
    ("zero-point-dtype", "pytorch/dequantize_per_tensor", TypeError, (u8, f32, np.int32(0)), {}),
    ("output-dtype", "pytorch/dequantize_per_tensor", TypeError, (u8, f32, np.uint8(0)), {"out_dtype": "float64"}),
    ("axis-required", "pytorch/dequantize_per_channel", TypeError, (u8, f32x3), {}),
    ("scale-dtype", "pytorch/dequantize_per_channel", TypeError, (u8, f32x3.astype(np.float16)), {"axis": 1}),
    ("rank", "pytorch/dequantize_per_channel_group", ValueError, (u8x3, f32x3), {"block_size": 2}),
    ("block-size", "pytorch/dequantize_per_channel_group", ValueError, (u8, blocked), {}),
    ("block-shape", "pytorch/dequantize_per_channel_group", ValueError, (u8, blocked), {"block_size": 3}),
    ("data-type", "litert/Dequantize", TypeError, (u8, f32), {}),
    ("arguments", "litert/Dequantize", TypeError, (u8.view(np.int8), f32), {"block_size": 2}),
    ("zero-point-range", "litert/Dequantize", TypeError, (u8.view(np.int8), f32, np.int16(0)), {}),
]
ONEDNN_REFUSALS: list[tuple[str, type[Exception], tuple[Any, ...], dict[str, Any]]] = [
    ("src-type", TypeError, (u8.astype(np.int32), f32x3[:1]), {}),
    ("scales-type", TypeError, (u8, np.ones(1, np.float16)), {}),
    ("scales-shape", ValueError, (u8, f32), {}),
    ("scales-shape", ValueError, (u8, f32x3), {}),
    ("scales-shape", ValueError, (u8, f32x3[:1]), {"qtype": "per_channel"}),
    ("scales-shape", ValueError, (u8, f32x3), {"qtype": "per_channel", "axis": -2}),
    ("zps-type", TypeError, (u8, f32x3[:1], np.zeros(1, np.int16)), {}),
    ("zps-shape", ValueError, (u8, f32x3[:1], np.uint8(0)), {}),
    ("zps-shape", ValueError, (u8, f32x3, u8x3[:1]), {"qtype": "per_channel"}),
    ("qtype", ValueError, (u8, f32x3[:1]), {"qtype": "per_row"}),
    ("axis-range", ValueError, (u8, f32x3), {"qtype": "per_channel", "axis": 2}),
    ("axis-range", TypeError, (u8, f32x3), {"qtype": "per_channel", "axis": None}),
    ("qtype", ValueError, (u8, f32x3[:1]), {"qtype": ["per_tensor"]}),
]
RANGE_REFUSALS: list[tuple[str, str, type[Exception], tuple[Any, ...], dict[str, Any]]] = [
    ("input-type", SEED, TypeError, (u8.astype(np.uint32), f32, f32), {}),
    ("range-type", SEED, TypeError, (u8, np.float64(0), f32), {}),
    ("range-type", SEED, TypeError, (u8, f32, 1.0), {}),
    ("range-shape", SEED, ValueError, (u8, f32x3, f32x3), {}),
    ("range-shape", INSTALLED, ValueError, (u8, f32x3, f32x3), {"axis": 0}),
    ("range-shape", INSTALLED, ValueError, (u8, f32, f32x3), {"axis": 1}),
    ("mode", SEED, ValueError, (u8, f32, f32), {"mode": "MIN"}),
    ("attributes", SEED, TypeError, (u8, f32, f32), {"axis": 0}),
    ("attributes", SEED, TypeError, (u8, f32, f32), {"narrow_range": False}),
    ("attributes", SEED, TypeError, (u8, f32, f32), {"out_dtype": "float32"}),
    ("output-type", INSTALLED, TypeError, (u8, f32, f32), {"out_dtype": "float16"}),
    ("bfloat16-mode", INSTALLED, ValueError, (u8, f32, f32), {"out_dtype": "bfloat16", "mode": "SCALED"}),
    ("axis", INSTALLED, ValueError, (u8, f32x3, f32x3), {"axis": 2}),
    ("axis", INSTALLED, TypeError, (u8, f32x3, f32x3), {"axis": 1.0}),
]


def refused(function: Callable[..., Any], clause: str, contract: str, kind: type[Exception], *given: Any) -> None:
    operands, attributes = given
    full = get(contract).id
    with pytest.raises(kind) as caught:
        function(*operands, **attributes, contract=contract)
    assert str(caught.value).startswith(f"{full}/{clause}: ")
    assert "; expected " in str(caught.value)
    if clause != "attributes":  # the contract of TensorFlow's seed does not list the attribute that it judges
        assert f"{full}/{clause}" in get(contract).clauses


@pytest.mark.parametrize("refusal", LINEAR_REFUSALS, ids=lambda r: f"{r[1]}/{r[0]}")
def test_linear_refusals(refusal: tuple[Any, ...]) -> None:
    refused(xverify.dequantize_linear, *refusal)


@pytest.mark.parametrize("contract", [MULTIPLY, DIVIDE])
@pytest.mark.parametrize("refusal", ONEDNN_REFUSALS, ids=lambda r: r[0])
def test_onednn_refusals(refusal: tuple[Any, ...], contract: str) -> None:
    refused(xverify.dynamic_dequantize, refusal[0], contract, *refusal[1:])


@pytest.mark.parametrize("refusal", RANGE_REFUSALS, ids=lambda r: f"{r[1]}/{r[0]}")
def test_range_refusals(refusal: tuple[Any, ...]) -> None:
    refused(xverify.dequantize_range, *refusal)


def test_contracts_of_other_functions_are_refused() -> None:
    for function, contract in (
        (xverify.dequantize_linear, MULTIPLY),
        (xverify.dequantize_linear, SEED),
        (xverify.dynamic_dequantize, NEWEST),
        (xverify.dequantize_range, NEWEST),
        (xverify.dequantize_linear, "ai.onnx/DequantizeLinear-11"),
    ):
        with pytest.raises(ValueError, match="contract"):
            function(u8, f32, f32, contract=contract)


def test_an_attribute_that_equals_one_that_was_taken_is_refused_by_its_type() -> None:
    x, scale = np.zeros((2, 3), np.uint8), np.ones((2, 3), np.float32)
    for right, wrong in ({"axis": 1, "block_size": 1}, {"axis": 1, "block_size": True}), ({"axis": 0}, {"axis": False}):
        given = scale if "block_size" in right else scale[:, 0]
        xverify.dequantize_linear(x, given, **right)
        with pytest.raises(TypeError, match="expected an integer"):
            xverify.dequantize_linear(x, given, **wrong)


@pytest.mark.parametrize("backend", ["numpy", "numba"])
@pytest.mark.parametrize(
    ("out", "kind", "words"),
    [
        ([0.0] * 3, TypeError, "out is list; expected an array of float32"),
        (np.zeros(3), TypeError, "out is float64; expected an array of float32"),
        (np.zeros(3, np.int32), TypeError, "out is int32; expected an array of float32"),
        (np.zeros(4, np.float32), ValueError, r"the shape of out is \(4,\); expected \(3,\)"),
        (np.zeros((1, 3), np.float32), ValueError, r"the shape of out is \(1, 3\); expected \(3,\)"),
    ],
    ids=["list", "float64", "int32", "longer", "another-rank"],
)
def test_an_output_of_another_kind_is_refused(backend: str, out: Any, kind: type[Exception], words: str) -> None:
    if backend == "numba":
        pytest.importorskip("numba")
    before = np.array(out).tolist()
    with pytest.raises(kind, match=words):
        xverify.dequantize_linear(np.arange(3, dtype=np.uint8), np.float32(2), out=out, backend=backend)
    assert np.array(out).tolist() == before


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_operands_are_converted_to_arrays(backend: str) -> None:
    if backend == "numba":
        pytest.importorskip("numba")
    codes = [np.uint8(2), np.uint8(5)]
    assert xverify.dequantize_linear(codes, np.float32(2), np.uint8(1), backend=backend).tolist() == [2, 8]
    one = [np.float32(2)], [np.uint8(1)]
    assert xverify.dynamic_dequantize(codes, *one, backend=backend).tolist() == [2, 8]
    two = [np.float32(2)] * 2, [np.uint8(1)] * 2
    assert xverify.dequantize_linear(codes, *two, axis=0, backend=backend).tolist() == [2, 8]
    for block_size in (1 << 63, 10**30):
        whole = xverify.dequantize_linear([codes], [[np.float32(2)]], axis=1, block_size=block_size, backend=backend)
        assert whole.tolist() == [[4, 10]]


def test_zero_points_of_float8_are_refused() -> None:
    x = np.zeros((2, 3), ml_dtypes.float8_e5m2)
    given = (x, f32x3[:1], np.zeros(1, np.int32)), {}
    refused(xverify.dynamic_dequantize, "zps-float8", "onednn/Dequantize-1@3.5", TypeError, *given)


@pytest.mark.parametrize(
    ("version", "listed"), [(10, "only no attribute"), (19, "only axis$"), (21, "only axis, block_size")]
)
def test_a_refused_attribute_is_told_with_those_that_there_are(version: int, listed: str) -> None:
    with pytest.raises(TypeError, match=listed):
        xverify.dequantize_linear(u8, f32, out_dtype="float16", contract=f"ai.onnx/DequantizeLinear-{version}")


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_calls_that_documents_leave_open_have_their_natural_meaning(backend: str) -> None:
    if backend == "numba":
        pytest.importorskip("numba")
    dequantize = partial(xverify.dequantize_linear, backend=backend)
    x = np.arange(6, dtype=np.uint8).reshape(2, 3)
    plain = dequantize(x, np.float32(0.3), np.uint8(4)).tobytes()
    one, zero = np.array([0.3], np.float32), np.array([4], np.uint8)
    silent: list[tuple[str, dict[str, Any]]] = [
        ("ai.onnx/DequantizeLinear-10", {}),
        ("ai.onnx/DequantizeLinear-13", {"axis": -1}),
        ("ai.onnx/DequantizeLinear-19", {}),
        ("com.microsoft/DequantizeLinear-1", {}),
        ("com.microsoft/DequantizeLinear-1", {"axis": 1}),
    ]
    for contract, attributes in silent:
        assert dequantize(x, one, zero, contract=contract, **attributes).tobytes() == plain
    assert dequantize(x, one[0], zero[0], axis=9, block_size=7).tobytes() == plain
    opset_19 = "ai.onnx/DequantizeLinear-19"
    for contract in ("ai.onnx/DequantizeLinear-10", opset_19):
        assert dequantize(x[0], one, zero, contract=contract).tobytes() == plain[:12]
    row = dequantize(x[0], np.ones(3, np.float32), contract=opset_19)
    assert row.tolist() == [0, 1, 2]
    empty = dequantize(np.zeros((2, 0), np.uint8), np.zeros((2, 0), np.float32), axis=1, block_size=4)
    assert empty.shape == (2, 0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_signalling_nans_pass_without_a_warning(backend: str) -> None:
    """0x7F800001 is a NaN that raises the invalid flag when it is converted."""
    if backend == "numba":
        pytest.importorskip("numba")
    nan = coded("float32", 0x7F800001)
    for x in (np.arange(4, dtype=np.uint8), np.arange(4, dtype=np.int32)):
        assert np.isnan(xverify.dequantize_linear(x, nan, out_dtype="float16", backend=backend)).all()
        for contract in (DIVIDE, MULTIPLY):
            given = x.astype(np.int8), nan.reshape(1)
            assert np.isnan(xverify.dynamic_dequantize(*given, contract=contract, backend=backend)).all()
        for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED"):
            for contract in (SEED, INSTALLED):
                got = xverify.dequantize_range(x, nan, np.float32(1), mode=mode, contract=contract, backend=backend)
                assert got.shape == (4,)


def test_importing_xverify_imports_nothing_else() -> None:
    script = (
        "import sys, xverify; assert 'numpy' not in sys.modules; assert xverify.__version__; "
        "assert callable(xverify.dequantize_linear); assert 'dequantize_range' in dir(xverify); "
        "assert not {'onnx', 'tensorflow', 'onnxruntime'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = xverify.nonsense


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_zero_points_beyond_exact_differences_are_refused(backend):
    if backend == "numba":
        pytest.importorskip("numba")
    src, scales = np.array([127, -128], np.int8), np.float32([1.0 + 2.0**-23])
    for point in (1 << 40, -(1 << 40)):
        got = xverify.dynamic_dequantize(
            src, scales, np.array([point]), contract="onednn/Dequantize-1@3.5", backend=backend
        )
        due = [round_to("float32", Fraction(int(x) - point) * Fraction(float(scales[0]))) for x in src]
        assert got.view(np.uint32).tolist() == due
        for beyond in (point + 1, point - 1, -(1 << 63)):
            if abs(beyond) > 1 << 40:
                with pytest.raises(ValueError, match=rf"a zero point is {beyond}; expected at most 1099511627776"):
                    xverify.dynamic_dequantize(
                        src, scales, np.array([beyond]), contract="onednn/Dequantize-1@3.5", backend=backend
                    )
