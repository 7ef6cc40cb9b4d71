"""Native kernels: the example kernel is right, and writes of a wrong kernel are noticed."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from folders import SUPPORT
from native_compiler import NATIVE, compiled, ziglang

from xverify.contracts import get
from xverify.core.call import BITS, LAYOUTS, Attribute, Call, Outcome, Tensor, code_dtype, encode_call
from xverify.core.dtypes import tensor
from xverify.oracles import xverify_numpy
from xverify.oracles.native_kernel import RefusedError, load, mirrored, stretched
from xverify.oracles.protocol import Answer, Oracle
from xverify.strategies.invalid_calls import breakable, spoiled
from xverify.strategies.walk import walk
from xverify.workers.worker import Worker

EDITION = "ai.onnx/DequantizeLinear-25"
INTEGERS = ("int2", "uint2", "int4", "uint4", "int8", "uint8", "int16", "uint16")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    directory = tmp_path_factory.mktemp("native")
    sources = {"right": NATIVE / "dequantize.c", "flawed": SUPPORT / "native_flaws.c"}
    return {name: str(compiled(source, directory)) for name, source in sources.items()}


@pytest.fixture(scope="module")
def right(libraries: dict[str, str]) -> Answer:
    return load(libraries["right"], "dequantize").answer


@pytest.fixture
def worker(libraries: dict[str, str], tmp_path: Path) -> Iterator[object]:
    """Return a function that starts a worker for a function of the flawed library."""
    started = []

    def start(symbol: str, library: str = "flawed") -> Worker:
        oracle = Oracle(
            name="kernel",
            distribution="",
            contracts=("ai.onnx/*",),
            judged_by=("*",),
            module="xverify.oracles.native_kernel",
            role="kernel",
            arguments=(libraries[library], symbol),
        )
        started.append(Worker(oracle, tmp_path))
        started[-1].start()
        return started[-1]

    yield start
    for each in started:
        each.stop()


def codes(dtype: str, shape: tuple[int, ...], layout: str = "C", seed: int = 1) -> Tensor:
    values = np.random.default_rng(seed).integers(0, 1 << min(BITS[dtype], 63), shape)
    return Tensor(dtype, values.astype(code_dtype(dtype)), layout)


def a_call(shape: tuple[int, ...] = (7, 3), layout: str = "C", dtype: str = "int16", **attributes: Attribute) -> Call:
    """A call per axis 0 with a zero point. Its scales differ, and its products are rounded."""
    scale = tensor("float32", 1.1 + np.arange(shape[0]) / 7)
    tensors = {"x": codes(dtype, shape, layout), "scale": scale, "zero_point": codes(dtype, shape[:1], seed=2)}
    return Call(EDITION, tensors, {"axis": 0, **attributes})


def expected(call: Call) -> Tensor:
    answered = xverify_numpy.load().answer(call, "")
    assert isinstance(answered, Outcome)
    assert answered.tensor is not None
    return answered.tensor


def same_values(one: Tensor, other: Tensor) -> bool:
    """True if the bits are equal; any NaN equals any NaN."""
    numbers = [np.where(np.isnan(t.codes.view("f4")), np.uint32(0x7FC00000), t.codes) for t in (one, other)]
    return one.dtype == other.dtype == "float32" and np.array_equal(*numbers)


# -- the example ------------------------------------------------------------------------------------------------------


def has(call: Call) -> bool:
    """True if the example has the call's types."""
    out = call.attributes.get("output_dtype", call.tensors["scale"].dtype)
    return call.data.dtype in INTEGERS and call.tensors["scale"].dtype == out == "float32"


def test_the_example_gives_the_bits_of_the_in_house_kernel(right):
    calls = [call for call in walk(get(EDITION)) if has(call)]
    assert len(calls) > 250
    assert {call.data.dtype for call in calls} == set(INTEGERS)
    assert {call.data.layout for call in calls} == set(LAYOUTS)
    for call in calls:
        outcome = right(call, "")
        assert outcome.notes == (), call.origin
        assert same_values(outcome.tensor, expected(call)), call.origin


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_every_layout_gives_the_same_bits(right, layout, dtype):
    for shape in ((7, 3), (5,), (2, 1, 9), (3, 0)):
        call = a_call(shape, layout, dtype)
        laid = replace(call, tensors={name: replace(t, layout=layout) for name, t in call.tensors.items()})
        still = replace(
            laid, tensors={**laid.tensors, "x": Tensor(dtype, np.full(shape, 1, code_dtype(dtype)), layout)}
        )
        for each in (laid, still):
            outcome = right(each, "")
            assert outcome.notes == ()
            assert outcome.tensor.same_bits(expected(each))


def test_the_example_refuses_what_a_clause_forbids(right):
    edition, rng = get(EDITION), np.random.default_rng(1)
    calls = list(islice((call for call in walk(edition) if has(call)), 0, None, 40))
    broken = set()
    for call in calls:
        for clause in breakable(edition):
            wrong = spoiled(edition, call, clause, rng)
            if wrong is None:
                continue
            with pytest.raises((RefusedError, NotImplementedError)):
                right(wrong, "")
            broken.add(clause)
    assert broken == set(breakable(edition))


def test_types_that_the_example_has_not_are_unsupported_not_refused(right):
    with pytest.raises(NotImplementedError, match="returned 2"):
        right(a_call(output_dtype="float16"), "")


def test_several_threads_get_the_bits_of_one(right):
    for call in (a_call(), a_call((4, 5), dtype="uint4"), a_call((0, 4)), a_call((3, 2), block_size=2)):
        kernel = replace(call, tensors={**call.tensors, "scale": call.tensors["scale"]})
        if "block_size" in call.attributes:
            parameters = {"scale": codes("float32", (2, 2)), "zero_point": codes("int16", (2, 2))}
            kernel = replace(call, tensors={**call.tensors, **parameters})
        outcome = right(kernel, "threads")
        assert outcome.notes == ()
        assert same_values(outcome.tensor, expected(kernel))


@pytest.mark.skipif(ziglang() is None, reason="ziglang is not installed: pip install ziglang")
def test_the_compiler_of_ziglang_makes_the_example_too(tmp_path):
    library = compiled(NATIVE / "dequantize.c", tmp_path, command=ziglang())
    outcome = load(str(library), "dequantize").answer(a_call(), "")
    assert outcome.tensor.same_bits(expected(a_call()))


def test_the_header_has_the_layout_of_our_structures(tmp_path):
    source = tmp_path / "sizes.c"
    source.write_text(
        '#include <stddef.h>\n#include "xverify_kernel.h"\n'
        "int64_t sizes[] = {sizeof(DLTensor), offsetof(DLTensor, device), offsetof(DLTensor, ndim), offsetof(DLTensor,"
        " dtype), offsetof(DLTensor, shape), offsetof(DLTensor, strides), offsetof(DLTensor, byte_offset), kDLCPU, kDLInt,"
        " kDLUInt, kDLFloat, kDLBfloat, kDLFloat8_e4m3fn, kDLFloat8_e4m3fnuz, kDLFloat8_e5m2, kDLFloat8_e5m2fnuz,"
        " kDLFloat8_e8m0fnu, kDLFloat6_e2m3fn, kDLFloat6_e3m2fn, kDLFloat4_e2m1fn, XVERIFY_DONE, XVERIFY_UNSUPPORTED,"
        " XVERIFY_NO_AXIS};\n"
    )
    sizes = list((ctypes.c_int64 * 23).in_dll(ctypes.CDLL(str(compiled(source, tmp_path))), "sizes"))
    from xverify.oracles import dlpack, native_kernel

    t, codes_of = dlpack.DLTensor, dlpack.TYPE_CODES
    fields = (t.device, t.ndim, t.dtype, t.shape, t.strides, t.byte_offset)
    names = (
        "int", "uint", "float", "bfloat", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
        "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn",
    )  # fmt: skip
    assert sizes[:7] == [ctypes.sizeof(t), *(field.offset for field in fields)]
    assert sizes[7:20] == [dlpack.CPU, *(codes_of[name] for name in names)]
    assert sizes[20:] == [native_kernel.DONE, native_kernel.UNSUPPORTED, native_kernel.NO_AXIS]


# -- flaws ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("symbol", "notes"),
    [
        ("after_output", {"written-after-output"}),
        ("far_after_output", {"written-after-output"}),
        ("byte_before_output", {"written-before-output"}),
        ("beside_scale", {"written-beside-input"}),
        ("writes_input", {"input-written"}),
        ("last_unwritten", {"never-written"}),
        ("scale_before", {"second-call-differs"}),
        ("takes_turns", {"second-call-differs"}),
        ("counts", {"second-call-differs"}),
        ("odd_nans", set()),
    ],
)
def test_what_a_kernel_does_to_memory_is_noted(libraries, symbol, notes):
    answer = load(libraries["flawed"], symbol).answer
    for shape in ((1,), (7, 3), (5, 333), (3, 70_000)):
        call = a_call(shape)
        if symbol == "odd_nans":
            call = replace(call, tensors={**call.tensors, "scale": tensor("float32", [np.nan] * shape[0])})
        outcome = answer(call, "")
        assert outcome.kind == "tensor"
        assert set(outcome.notes) == notes, shape


@pytest.mark.parametrize("shape", [(5,), (4096,), (3, 2048)])
def test_a_wrong_write_does_not_stay_for_the_next_call(libraries, shape):
    flawed = load(libraries["flawed"], "after_output").answer
    for _ in range(3):
        assert flawed(a_call(shape), "").notes == ("written-after-output",)
        with pytest.raises(RefusedError):
            flawed(a_call(shape, axis=3), "")


def test_a_refusal_does_not_hide_what_was_written(libraries):
    outcome = load(libraries["flawed"], "byte_before_output_and_refuses").answer(a_call(), "")
    assert (outcome.kind, outcome.error, outcome.notes) == ("rejected", "RefusedError", ("written-before-output",))


def test_a_refusal_that_is_taken_back_is_noted(libraries):
    outcome = load(libraries["flawed"], "refuses_then_not").answer(a_call(), "")
    assert (outcome.kind, outcome.notes) == ("rejected", ("second-call-differs",))


def test_the_code_that_a_kernel_refuses_with_is_named(libraries):
    with pytest.raises(RefusedError, match="returned 7"):
        load(libraries["flawed"], "aligned_only").answer(a_call((7,), "misaligned"), "")


@pytest.mark.parametrize(("symbol", "ignored"), [("no_byte_offset", "offset"), ("no_strides", "F")])
def test_a_kernel_that_ignores_where_elements_lie_gives_wrong_values(libraries, symbol, ignored):
    answer = load(libraries["flawed"], symbol).answer
    for layout in ("C", "offset", "read-only", "misaligned", "F"):
        outcome = answer(a_call(layout=layout), "")
        assert outcome.tensor.same_bits(expected(a_call(layout=layout))) == (layout != ignored), layout


@pytest.mark.parametrize(
    ("symbol", "layout", "where"),
    [
        ("byte_after_x", "C", "reads past the end of {x}: the address is 1 byte past its last byte"),
        ("byte_after_x", "misaligned", "reads past the end of {x}"),
        ("byte_before_x", "C", "reads before the beginning of {x}: the address is 1 byte before it"),
        ("byte_after_zero_point", "C", "reads past the end of zero_point (int16["),
        ("no_strides", "reversed", "reads past the end of {x}"),
        ("writes_input_back", "read-only", "writes in {x}, which is read-only"),
    ],
)
def test_a_step_out_of_an_input_ends_the_process(worker, symbol, layout, where):
    started, call = worker(symbol), a_call(layout=layout)
    outcome = started.ask(encode_call(call))
    assert outcome.kind == "crash"
    x = f"x (int16[{','.join(map(str, call.data.shape))}], {2 * call.data.size} bytes)"
    assert outcome.message.startswith(f"killed by SIGSEGV: {where.format(x=x)}")


def test_a_sound_kernel_answers_in_a_worker(worker):
    started = worker("dequantize", "right")
    for layout in LAYOUTS:
        call = a_call(layout=layout)
        outcome = started.ask(encode_call(call), "threads")
        assert (outcome.kind, outcome.notes) == ("tensor", ())
        assert outcome.tensor.same_bits(expected(call))
    assert started.ask(encode_call(a_call(axis=5))).kind == "rejected"
    assert started.ask(encode_call(a_call(output_dtype="bfloat16"))).kind == "unsupported"
    assert started.restarts == 0


@pytest.mark.parametrize("shape", [(1,), (7, 3), (64, 1025)])
def test_a_buffer_that_threads_share_is_noted(libraries, shape):
    answer = load(libraries["flawed"], "shared_scratch").answer
    if shape == (1,):  # its own mirror image: another call, asked earlier, tells
        answer(a_call((3, 4), dtype="int8"), "")
    assert answer(a_call(shape), "").notes == ()
    tries = (answer(a_call(shape), "threads").notes for _ in range(5))  # whether calls overlap is chance
    assert next(filter(None, tries)) == ("threads-differ",)


# -- what is passed ---------------------------------------------------------------------------------------------------


def test_descriptors_are_as_the_header_says(libraries, capfd):
    answer = load(libraries["flawed"], "describes").answer
    answer(a_call((2, 3), "F", "int8"), "")
    assert capfd.readouterr().err.splitlines()[:5] == [
        "2 0.8.1 1@0+0 2:1 3:2", "1 2.32.1 1@0+0 2:1", "1 0.8.1 1@0+0 2:1", "2 2.32.1 1@0+0 2:3 3:1", "0 0",
    ]  # fmt: skip
    scalar = Call(EDITION, {"x": codes("uint4", (3, 5), "offset"), "scale": codes("bfloat16", ())}, {"block_size": -3})
    answer(scalar, "")
    assert capfd.readouterr().err.splitlines()[:4] == [
        "2 1.4.1 1@0+1 3:5 5:1", "0 4.16.1 1@0+0", "2 4.16.1 1@0+0 3:5 5:1", f"{-(2**63)} -3",
    ]  # fmt: skip
    answer(a_call((3, 2), "reversed", output_dtype="float8_e5m2"), "")
    lines = capfd.readouterr().err.splitlines()
    assert (lines[0], lines[3]) == ("2 0.16.1 1@0+0 3:2 2:-1", "2 12.8.1 1@0+0 3:2 2:1")


def test_attributes_without_an_argument_are_refused_before_the_kernel_is_asked(right):
    with pytest.raises(RefusedError, match="saturate"):
        right(a_call(saturate=1), "")
    with pytest.raises(RefusedError, match="float7"):
        right(a_call(output_dtype="float7"), "")


def test_what_cannot_be_loaded_is_a_sentence(libraries, tmp_path):
    with pytest.raises(ImportError, match=r"has no symbol 'dequantise'.*nm -D"):
        load(libraries["right"], "dequantise")
    with pytest.raises(ImportError, match=r"missing\.so can't be loaded"):
        load(str(tmp_path / "missing.so"), "dequantize")


# -- longer and other calls for threads ------------------------------------------------------------------------------


def test_a_stretched_call_is_the_call_again_and_again(right):
    blocked = Call(
        EDITION, {"x": codes("int8", (4, 6)), "scale": tensor("float32", np.ones((2, 6)))}, {"block_size": 2}
    )
    for call in (
        a_call((7, 3)),
        a_call((7,)),
        Call(EDITION, {"x": codes("int8", (3, 4)), "scale": tensor("float32", np.arange(4))}, {}),
        Call(EDITION, {"x": codes("int4", (3, 4)), "scale": tensor("float32", 2)}, {}),
        replace(blocked, attributes={"block_size": 2, "axis": 0}),
        replace(blocked, attributes={"block_size": 2, "axis": -2}),
        Call(EDITION, {"x": codes("int8", (2, 5)), "scale": tensor("float32", np.ones((2, 3)))}, {"block_size": 2}),
    ):
        long = stretched(call)
        assert 1 << 15 < long.values <= 1 << 16
        once, again = right(call, "").tensor.codes.reshape(-1), right(long, "").tensor.codes.reshape(-1)
        assert np.array_equal(again, np.tile(once, again.size // once.size))
        assert get(EDITION).judge(long).verdict == "allowed"
    short_block = replace(blocked, attributes={"block_size": 3, "axis": 0})
    assert stretched(short_block) is short_block
    for call in (a_call((4, 0)), a_call((2, 40_000))):
        assert stretched(call) is call


def test_a_mirrored_call_has_every_element_in_the_opposite_place():
    call = a_call((2, 3))
    turned = mirrored(call)
    assert np.array_equal(turned.data.codes, call.data.codes[::-1, ::-1])
    assert np.array_equal(turned.tensors["scale"].codes, call.tensors["scale"].codes[::-1])
