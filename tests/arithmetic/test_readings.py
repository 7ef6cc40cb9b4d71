"""All admitted readings, and the legal set made of them, against fractions stage by stage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

import exact
import exact_stages
import numpy as np
import pytest
from hypothesis import given, settings
from walked_calls import EDITIONS, about

from xverify import contracts
from xverify.arithmetic.reading import Operands
from xverify.arithmetic.readings import EXACT, FLOAT32, OUTPUT, Stepwise
from xverify.contracts.model import Contract
from xverify.core.bits import canonical
from xverify.core.call import Call, Tensor
from xverify.core.dtypes import tensor
from xverify.core.errors import BrokenEnvironmentError
from xverify.strategies import build, calls
from xverify.strategies.repair import Repair
from xverify.strategies.structures import Linear, Range
from xverify.strategies.values import special_scales
from xverify.verify.legal import legal_set

OUTPUTS = ("float32", "float16", "bfloat16")
MOST_SAMPLES = 16
"""Values of a call that the slow version looks at: all of a small one, others at the ends and drawn."""

decode = cache(exact.decode)


def expected_readings(call: Call) -> tuple[str, ...]:
    """The readings that an edition should admit, first that of the in-house kernel."""
    operator, _, edition = call.contract.rpartition("-" if call.contract.startswith("ai.onnx") else "@")
    if operator.startswith("ai.onnx"):
        return tuple(exact.LINEAR)[:1] + tuple(exact.LINEAR)[2:6] if int(edition) >= 23 else ("exact", "float32")
    if operator.startswith("com.microsoft"):
        return ("exact", "float32")
    if call.contract.startswith("onednn"):
        return ("exact-quotient", "float32-quotient") if edition == "divide" else ("exact", "float32")
    if call.contract.startswith("litert"):
        return ("exact", "float32", "folded+rounded-float32", "fused+rounded-float32")
    if call.contract.startswith(("pytorch", "torchao")):
        names = tuple(exact.LINEAR)
        single = (*names[:2], names[8])
        return (
            single
            if call.attributes.get("output_dtype", "float32") == "float32"
            else (*single, *names[2:6], *names[9:11])
        )
    mode = call.attributes.get("mode", "MIN_COMBINED")
    start = {"MIN_COMBINED": "min-combined", "MIN_FIRST": "min-first"}.get(
        str(mode), "scaled-symmetric" if edition == "seed" else "scaled-float32"
    )
    return tuple(name for name in exact.RANGED if name.startswith(start))


# -- comparing ------------------------------------------------------------------------------------------


def samples(shape: tuple[int, ...], seed: int) -> list[tuple[int, ...]]:
    """The indices of the values to compare."""
    size = int(np.prod(shape, dtype=np.int64))
    if size > MOST_SAMPLES:
        drawn = np.random.default_rng(seed).integers(0, size, MOST_SAMPLES - 2)
        flat = sorted({0, size - 1, *drawn.tolist()})
    else:
        flat = list(range(size))
    return [tuple(int(i) for i in np.unravel_index(index, shape)) for index in flat]


def parameter(call: Call, role: str, index: tuple[int, ...]) -> exact.Value:
    """The scale or zero point of the value at an index, by the texts instead of by broadcasting."""
    given_tensor = call.tensors[role]
    codes, rank, shape = given_tensor.codes, len(index), given_tensor.codes.shape
    block_size = int(call.attributes.get("block_size", 0))
    if shape in ((), (1,)) and not (block_size and rank == 1):
        place: tuple[int, ...] = (0,) * len(shape)
    else:
        axis = int(call.attributes.get("axis", 1))
        axis = axis + rank if axis < 0 else axis
        if block_size and len(shape) == rank:
            place = tuple(i // block_size if n == axis else i for n, i in enumerate(index))
        else:
            place = (index[axis],)
    return decode(given_tensor.dtype, int(codes[place]))


def triple(call: Call, index: tuple[int, ...]) -> exact.Triple:
    x = call.tensors["x"]
    zero_point = parameter(call, "zero_point", index) if "zero_point" in call.tensors else Fraction(0)
    out = str(call.attributes.get("output_dtype", call.tensors["scale"].dtype))
    return exact.Triple(decode(x.dtype, int(x.codes[index])), zero_point, parameter(call, "scale", index), out)


def ranged(call: Call, index: tuple[int, ...]) -> exact.Ranged:
    x = call.tensors["input"]
    low, high = (decode("float32", int(call.tensors[role].codes)) for role in ("min_range", "max_range"))
    narrow, out = bool(call.attributes.get("narrow_range", False)), str(call.attributes.get("dtype", "float32"))
    number = decode(x.dtype, int(x.codes[index]))
    assert isinstance(number, Fraction)
    return exact.Ranged(x.dtype, number, low, high, narrow, out)


def slow_code(name: str, call: Call, index: tuple[int, ...]) -> int:
    return exact.LINEAR[name](triple(call, index)) if name in exact.LINEAR else exact.RANGED[name](ranged(call, index))


def same(dtype: str, got: int, want: int) -> bool:
    return got == want or decode(dtype, got) == decode(dtype, want) == "nan"


def check(contract: Contract, call: Call, seed: int = 0) -> int:
    """Compare every admitted reading on some values of a call, and return the number of comparisons."""
    assert contract.judge(call).verdict == "allowed", call.origin
    legal, operands = legal_set(contract, call), contract.operands(call)
    names = tuple(reading.name for reading in legal.readings)
    assert names == expected_readings(call), f"{call.contract}: {names}"
    assert legal.shape == call.data.shape
    places = samples(legal.shape, seed)
    for number, reading in enumerate(legal.readings):
        codes = reading.evaluate(operands)
        assert codes.shape == legal.shape, f"{reading.name}: {codes.shape}"
        assert (legal.codes(number) == canonical(codes, legal.dtype)).all()
        for index in places:
            got, want = int(codes[index]), slow_code(reading.name, call, index)
            where = f"{call.contract} {reading.name} at {index} of {call.origin} {dict(call.attributes)}"
            assert same(legal.dtype, got, want), f"{where}: got {got:#x}, expected {want:#x} ({legal.dtype})"
    return len(places) * len(names)


# -- the engine's readings on calls of every kind -------------------------------------------------------


@pytest.mark.parametrize("identity", EDITIONS)
def test_readings_on_the_walk(identity: str) -> None:
    """About forty calls of each edition, spread over the cells and structures of the walk."""
    contract = contracts.get(identity)
    repaired = filter(None, map(Repair(contract), about(identity, 40)))  # LiteRT's text leaves some scales open
    assert sum(check(contract, call, n) for n, call in enumerate(repaired)) > 500


@pytest.mark.parametrize("identity", EDITIONS)
def test_readings_on_drawn_calls(identity: str) -> None:
    contract = contracts.get(identity)

    @settings(max_examples=10, deadline=None)
    @given(calls(contract))
    def on_a_call(call: Call) -> None:
        check(contract, call)

    on_a_call()


@pytest.mark.parametrize("scale_dtype", ["float32", "float16", "bfloat16", "float8_e8m0fnu"])
@pytest.mark.parametrize("out", OUTPUTS)
def test_special_scales_in_every_output_type(scale_dtype: str, out: str) -> None:
    """Zeros of both signs, subnormals, ends, infinities and NaN, with types of x that need the most bits."""
    contract = contracts.get("ai.onnx/DequantizeLinear-25")
    scales = special_scales(scale_dtype)
    for number, dtype in enumerate(
        ("int32", "int8", "float8_e5m2", "float8_e5m2fnuz", "float8_e4m3fn", "float4_e2m1fn")
    ):
        call = build(contract, Linear(dtype, scale_dtype, "per_axis", (len(scales), 24), "", out, 0, seed=number))
        call = replace(call, tensors={**call.tensors, "scale": Tensor(scale_dtype, scales)})
        if dtype.startswith("float"):
            zero_point = Linear(dtype, scale_dtype, "per_axis", (len(scales), 24), dtype, out, 0, seed=number)
            call = replace(call, tensors={**build(contract, zero_point).tensors, "scale": call.tensors["scale"]})
        check(contract, call, number)


@pytest.mark.parametrize("edition", ["multiply", "divide"])
def test_special_scales_of_onednn(edition: str) -> None:
    contract = contracts.get(f"onednn/DynamicDequantize-1@{edition}")
    scales = special_scales("float32")
    for zero_point in ("", "int32", "uint8"):
        structure = Linear("uint8", "float32", "per_axis", (3, len(scales)), zero_point, axis=-1, seed=5)
        call = build(contract, structure)
        check(contract, replace(call, tensors={**call.tensors, "scale": Tensor("float32", scales)}))


@pytest.mark.parametrize("edition", ["seed", "installed"])
@pytest.mark.parametrize("mode", ["MIN_COMBINED", "MIN_FIRST", "SCALED"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32"])
def test_special_ranges(edition: str, mode: str, dtype: str) -> None:
    """The ends are zeros of both signs, subnormal, huge (their difference overflows), and neighbours."""
    contract = contracts.get(f"tensorflow/Dequantize@{edition}")
    biggest, tiny = float(np.finfo(np.float32).max), 2.0**-149
    pairs = [
        (0.0, 6.0),
        (-0.0, 1.0),
        (-1.0, -0.0),
        (-biggest, biggest),
        (-tiny, tiny),
        (0.0, tiny),
        (1.0, 1 + 2.0**-23),
    ]
    pairs += [(-tiny, biggest), (2.0**-127, 2.0**-126), (-1.1, 0.7), (-(2.0**24), 2.0**24 + 2)]
    for number, (low, high) in enumerate(pairs):
        call = build(contract, Range(dtype, mode, (18,), seed=number))
        ends = {"min_range": tensor("float32", low), "max_range": tensor("float32", high)}
        check(contract, replace(call, tensors={**call.tensors, **ends}), number)


# -- the admitted recipes are compositions of stages -----------------------------------------------------


@pytest.mark.parametrize("identity", [name for name in EDITIONS if not name.startswith("tensorflow")])
def test_an_admitted_recipe_is_its_stages(identity: str) -> None:
    """Both versions in fractions agree: the admitted recipes, and the stages of the readings."""
    contract, compared = contracts.get(identity), 0
    for number, call in enumerate(about(identity, 12)):
        for reading in contract.readings(call):
            assert isinstance(reading, Stepwise)
            for index in samples(call.data.shape, number)[:4]:
                t = triple(call, index)
                zero_point = t.zero_point if "zero_point" in call.tensors else None
                x, scale = call.tensors["x"].dtype, call.tensors["scale"].dtype
                typed_triple = exact_stages.TypedTriple(t.x, zero_point, t.scale, x, scale, t.out)
                assert exact_stages.by_stages(reading, typed_triple) == exact.LINEAR[reading.name](t), (
                    f"{reading} of {t}"
                )
                compared += 1
    assert compared > 50


# -- figures --------------------------------------------------------------------------------------------


def operands_of(x_dtype: str, x: float, scale: float, out: str, zero_point: float | None = None) -> Operands:
    given_tensors = {"x": tensor(x_dtype, [x]), "scale": tensor("float32", scale)}
    if zero_point is not None:
        given_tensors["zero_point"] = tensor(x_dtype, zero_point)
    codes = {role: t.codes for role, t in given_tensors.items()}
    return Operands(codes, {role: t.dtype for role, t in given_tensors.items()}, out, (1,))


def test_figures_of_a_stop_in_float32() -> None:
    """One rounding gives 1675. A rounding to float32 and a cast give 1676.

    S is neither recipe, since it rounds the difference to float32 first. Here that undoes the harm.
    """
    operands = operands_of("int32", 1829207725, float.fromhex("0x1.ebc2p-21"), "float16")
    stopped = Stepwise(precision="float32")
    got = [exact.decode("float16", int(reading.evaluate(operands)[0])) for reading in (EXACT, stopped, FLOAT32)]
    assert got == [1675, 1676, 1675]


@pytest.mark.parametrize(
    ("dtype", "x", "zero_point", "scale"),
    [
        ("int32", 1363960671, None, "0x1.ef60e8p+0"),
        ("int32", 22612155, None, "0x1.08991p+0"),
        ("float8_e5m2", 40960.0, float.fromhex("0x1.4p-7"), "0x1.dcf572p+0"),
        ("float8_e5m2", 2.0**-14, 3584.0, "0x1.0f390ap+0"),
    ],
)
def test_exact_and_float32_differ(dtype: str, x: float, zero_point: float | None, scale: str) -> None:
    """The difference has more than 24 bits. E keeps them, and S rounds them away."""
    operands = operands_of(dtype, x, float.fromhex(scale), "float32", zero_point)
    one = exact.Triple(Fraction(x), Fraction(zero_point or 0), Fraction(float.fromhex(scale)), "float32")
    assert exact.exactly(one) != exact.in_float32(one)
    assert [int(reading.evaluate(operands)[0]) for reading in (EXACT, FLOAT32)] == [
        exact.exactly(one),
        exact.in_float32(one),
    ]


@pytest.mark.parametrize(
    ("x", "zero_point", "scale", "code"),
    [
        (0, 0, -2.0, 0x80000000),  # +0 * -2 is -0
        (5, 5, -2.0, 0x80000000),  # an integer difference of 0 is +0
        (5, 5, 2.0, 0x00000000),
        (-3, 0, 0.0, 0x80000000),
        (-3, 0, -0.0, 0x00000000),
        (-3, 0, 2.0**-149, 0x80000003),
        (0, 0, float("inf"), 0x7FC00000),  # 0 * inf
        (-3, 0, float("inf"), 0xFF800000),
    ],
)
def test_signs_of_zero_and_infinity(x: int, zero_point: int, scale: float, code: int) -> None:
    operands = operands_of("int8", x, scale, "float32", zero_point)
    for reading in (EXACT, FLOAT32, *OUTPUT):
        assert same("float32", int(reading.evaluate(operands)[0]), code), reading.name


def test_the_four_forms_of_t_are_four() -> None:
    """On one call, E and all forms of T give different bits."""
    x, zero_point = 3001, -3002
    different = set()
    for scale in np.float32(1) + np.arange(1, 400, dtype=np.float32) * np.float32(2**-14):
        codes = [
            int(r.evaluate(operands_of("int16", x, float(scale), "float16", zero_point))[0]) for r in (EXACT, *OUTPUT)
        ]
        different |= {(a, b) for a in range(5) for b in range(a) if codes[a] != codes[b]}
    assert len(different) == 10, f"pairs that differ somewhere: {sorted(different)}"


# -- the legal set --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fixed:
    """A reading that gives these codes."""

    name: str
    given: tuple[int, ...]
    words: str = "gives what it is told to give"

    def simplified(self, operands: Operands) -> Fixed:
        return self

    def evaluate(self, operands: Operands) -> np.ndarray:
        return np.array(self.given, np.uint16)


def legal_of(*results: tuple[int, ...]) -> object:
    contract = contracts.get("ai.onnx/DequantizeLinear-21")
    readings = tuple(Fixed(f"r{n}", codes) for n, codes in enumerate(results))
    call = Call(contract.id, {"x": tensor("int8", np.zeros(len(results[0]))), "scale": tensor("float16", 1.0)})
    return legal_set(replace(contract, readings=lambda _: readings), call)


def test_the_legal_set_is_a_union() -> None:
    legal = legal_of((1, 0x3C00, 0x7C00), (1, 0x3C01, 0x7C00), (1, 0x3C00, 0x7C00))
    assert [legal.codes(n).tolist() for n in range(3)] == [
        [1, 0x3C00, 0x7C00],
        [1, 0x3C01, 0x7C00],
        [1, 0x3C00, 0x7C00],
    ]
    assert legal.index == (0, 1, 0)
    assert len(legal.distinct) == 2


def test_subnormal_where_some_reading_says_so() -> None:
    """Neither zeros nor the smallest normal number are subnormal. One reading is enough."""
    first, second = (
        (0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x3C00, 0x0000),
        (0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x3C00, 0x0001),
    )
    assert legal_of(first, second).subnormal.tolist() == [False, False, True, True, False, False, True]


def test_every_nan_is_one() -> None:
    legal = legal_of((0x7E00, 0x7C01, 0xFE00, 0x7C00), (0xFFFF, 0x7FFF, 0x7E01, 0x7C00))
    assert legal.index == (0, 0), "two readings that differ in NaN payloads only must be one"
    assert legal.codes(0).tolist() == [0xFFFF, 0xFFFF, 0xFFFF, 0x7C00]
    assert not legal.subnormal.any()


def test_a_flushing_process_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    from xverify.verify import legal

    monkeypatch.setattr(legal, "subnormals_work", lambda: False)
    with pytest.raises(BrokenEnvironmentError):
        legal_of((1,))
