"""Hand-made legal sets and results for tests of the comparator and of mutants of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from xverify.arithmetic.reading import Operands
from xverify.contracts.model import FixedResult
from xverify.core.call import Tensor, code_dtype


@dataclass(frozen=True, eq=False)
class Fixed:
    """A reading with fixed codes."""

    name: str
    codes: np.ndarray

    def simplified(self, operands: Operands) -> Fixed:
        return self

    def evaluate(self, operands: Operands) -> np.ndarray:
        return self.codes


def legal_of(
    suite: SimpleNamespace, dtype: str, shape: tuple[int, ...], readings: Sequence[Sequence[int]], keeps: bool = False
) -> Any:
    given = tuple(Fixed(f"r{n}", np.array(codes, code_dtype(dtype)).reshape(shape)) for n, codes in enumerate(readings))
    contract = SimpleNamespace(
        operands=lambda _: Operands({"x": np.zeros(shape, np.uint16)}, {"x": "int16"}, dtype, shape),
        readings=lambda _: given,
        denormals="keep" if keeps else "flush",
        fixed_result=None,
    )
    return suite.legal.legal_set(contract, None)


ONE, NEXT, MANY, TWO = 0x3F800000, 0x3F800001, 0x3F80000A, 0x40000000
MINUS, PLUS_0, MINUS_0, INF, NAN = 0x80000000, 0x00000000, 0x80000000, 0x7F800000, 0x7FC00000
SMALLEST, LARGEST_SUBNORMAL, NORMAL = 0x00000001, 0x007FFFFF, 0x00800000
NOT_A_NUMBER = (NAN, 0xFFC00000, 0x7F800001, 0xFFFFFFFF, 0x7FFFFFFF)


@dataclass(frozen=True)
class Case:
    """The expected answer of the comparator for one result."""

    name: str
    readings: tuple[tuple[int, ...], ...]
    """Codes by reading."""
    got: tuple[int, ...]
    wrong: tuple[int, ...] = ()
    """Indices of wrong values."""
    flushed: tuple[int, ...] = ()
    """Indices of flushed values."""
    explains: tuple[bool, ...] = (True,)
    max_ulp: int = 0
    """The largest distance of a wrong value; -1 if a NaN makes it undefined."""
    dtype: str = "float32"


CASES = [
    Case("equal", ((ONE, MANY, INF),), (ONE, MANY, INF)),
    Case("nothing", ((),), ()),
    Case("one step up", ((ONE, ONE),), (ONE, NEXT), (1,), (), (False,), 1),
    Case("one step down", ((NEXT, ONE),), (ONE, ONE), (0,), (), (False,), 1),
    Case("ten steps, and one", ((ONE, ONE, ONE),), (MANY, NEXT, ONE), (0, 1), (), (False,), 10),
    Case("only the last", ((ONE,) * 9,), (ONE,) * 8 + (NEXT,), (8,), (), (False,), 1),
    Case("only the first", ((ONE,) * 9,), (NEXT,) + (ONE,) * 8, (0,), (), (False,), 1),
    Case("one of many", ((ONE,) * 1000,), (ONE,) * 577 + (NEXT,) + (ONE,) * 422, (577,), (), (False,), 1),
    Case("all", ((ONE,) * 3,), (NEXT,) * 3, (0, 1, 2), (), (False,), 1),
    Case("the sign", ((ONE,),), (ONE | MINUS,), (0,), (), (False,), 2 * ONE + 1),
    Case("minus zero for zero", ((PLUS_0,),), (MINUS_0,), (0,), (), (False,), 1),
    Case("zero for minus zero", ((MINUS_0,),), (PLUS_0,), (0,), (), (False,), 1),
    Case("zeros as they are", ((MINUS_0, PLUS_0),), (MINUS_0, PLUS_0)),
    Case("any NaN is any NaN", ((NAN,) * 5,), NOT_A_NUMBER),
    Case("any NaN is any NaN, the other way", (NOT_A_NUMBER,), (NAN,) * 5),
    Case("NaN for a number", ((ONE,),), (NAN,), (0,), (), (False,), -1),
    Case("a number for NaN", ((NAN,),), (ONE,), (0,), (), (False,), -1),
    Case("infinity for NaN", ((NAN,),), (INF,), (0,), (), (False,), -1),
    Case("NaN for infinity", ((INF,),), (0x7F800001,), (0,), (), (False,), -1),
    Case("NaN, and one step", ((ONE, ONE),), (NAN, NEXT), (0, 1), (), (False,), -1),
    Case("infinity for the largest number", ((INF - 1,),), (INF,), (0,), (), (False,), 1),
    Case("minus infinity for infinity", ((INF,),), (INF | MINUS,), (0,), (), (False,), 2 * INF + 1),
    # With two readings, each value may follow either. Each reading says if it explains all values.
    Case("the first reading", ((ONE, ONE), (NEXT, NEXT)), (ONE, ONE), explains=(True, False)),
    Case("the second reading", ((ONE, ONE), (NEXT, NEXT)), (NEXT, NEXT), explains=(False, True)),
    Case("now one, now the other", ((ONE, ONE), (NEXT, NEXT)), (ONE, NEXT), explains=(False, False)),
    Case("readings that agree", ((ONE, MANY), (ONE, MANY)), (ONE, MANY), explains=(True, True)),
    Case("readings that agree here", ((ONE, MANY), (ONE, ONE)), (ONE, ONE), explains=(False, True)),
    Case("neither reading", ((ONE, ONE), (MANY, MANY)), (ONE, NEXT), (1,), (), (False, False), 1),
    Case("nearest of two", ((ONE, ONE), (MANY, MANY)), (ONE, MANY - 1), (1,), (), (False, False), 1),
    Case("between the readings", ((ONE,), (ONE + 4,)), (ONE + 2,), (0,), (), (False, False), 2),
    Case("farthest of two", ((ONE, ONE), (MANY, NAN)), (ONE + 3, MANY), (0, 1), (), (False, False), 10),
    Case("three, the last", ((ONE,), (NEXT,), (MANY,)), (MANY,), explains=(False, False, True)),
    Case("three, two alike", ((ONE,), (NEXT,), (ONE,)), (ONE,), explains=(True, False, True)),
    Case("one reading has NaN", ((NAN, ONE), (ONE, ONE)), (0xFFFFFFFF, ONE), explains=(True, False)),
    Case("readings of different NaN", ((NAN, ONE), (0xFFFFFFFF, ONE)), (0x7F800001, ONE), explains=(True, True)),
    Case("NaN against one number", ((NAN,), (ONE,)), (NEXT,), (0,), (), (False, False), 1),
    # A subnormal result that became zero is flushed. Nothing else is.
    Case("kept", ((SMALLEST, LARGEST_SUBNORMAL),), (SMALLEST, LARGEST_SUBNORMAL)),
    Case("flushed", ((SMALLEST, LARGEST_SUBNORMAL),), (PLUS_0, PLUS_0), (), (0, 1), (True,)),
    Case("flushed to a zero of its sign", ((SMALLEST | MINUS, SMALLEST),), (MINUS_0, PLUS_0), (), (0, 1), (True,)),
    Case("flushed to minus zero only", ((SMALLEST, SMALLEST | MINUS),), (MINUS_0, MINUS_0), (0,), (1,), (False,), 2),
    Case("flushed to zero only", ((SMALLEST, SMALLEST | MINUS),), (PLUS_0, PLUS_0), (1,), (0,), (False,), 2),
    Case("flushed beside kept", ((SMALLEST, SMALLEST, ONE),), (PLUS_0, SMALLEST, ONE), (), (0,), (True,)),
    Case("wrong among subnormals", ((SMALLEST + 1,),), (SMALLEST,), (0,), (), (False,), 1),
    Case("a subnormal's sign", ((SMALLEST,),), (SMALLEST | MINUS,), (0,), (), (False,), 3),
    Case("zero for the smallest normal", ((NORMAL,),), (PLUS_0,), (0,), (), (False,), NORMAL),
    Case("zero for one", ((ONE,),), (PLUS_0,), (0,), (), (False,), ONE),
    Case("a subnormal for zero", ((PLUS_0,),), (SMALLEST,), (0,), (), (False,), 1),
    Case("the normal for a subnormal", ((LARGEST_SUBNORMAL,),), (NORMAL,), (0,), (), (False,), 1),
    Case("two for a subnormal", ((SMALLEST,),), (TWO,), (0,), (), (False,), TWO - 1),
    Case("minus two for a subnormal", ((SMALLEST | MINUS,),), (TWO | MINUS,), (0,), (), (False,), TWO - 1),
    Case("zero for NaN", ((NAN,),), (PLUS_0,), (0,), (), (False,), -1),
    Case("flushed and wrong", ((SMALLEST, ONE),), (PLUS_0, NEXT), (1,), (0,), (False,), 1),
    Case("one reading is subnormal", ((NORMAL,), (LARGEST_SUBNORMAL,)), (PLUS_0,), (), (0,), (True, True)),
    Case("a zero that is legal", ((PLUS_0,), (SMALLEST,)), (PLUS_0,), explains=(True, False)),
    Case("legal zero, wrong one", ((PLUS_0, ONE), (SMALLEST, ONE)), (PLUS_0, NEXT), (1,), (), (False, False), 1),
    Case("legal zero, flushed zero", ((PLUS_0, SMALLEST), (SMALLEST, ONE)), (PLUS_0, PLUS_0), (), (1,), (True, False)),
    Case("flushed, alike", ((SMALLEST, ONE), (SMALLEST, NEXT), (SMALLEST, ONE)), (PLUS_0, ONE), (), (0,), (True, False, True)),
    Case("flushed, by reading", ((SMALLEST, ONE), (SMALLEST, NEXT)), (PLUS_0, NEXT), (), (0,), (False, True)),
    # The narrower types have their own NaN, zero and subnormals.
    Case("float16 subnormals", ((0x03FF, 0x0400, 1),), (0, 0, 0x8000), (1, 2), (0,), (False,), 0x400, "float16"),
    Case("float16 two", ((0x0001,),), (0x4000,), (0,), (), (False,), 0x3FFF, "float16"),
    Case("bfloat16 two", ((0x0001,),), (0x4000,), (0,), (), (False,), 0x3FFF, "bfloat16"),
    Case("float16 NaN", ((0x7E00, 0x7C00),), (0xFC01, 0x7C01), (1,), (), (False,), -1, "float16"),
    Case("float16 wrong", ((0x3C00, 0x0000),), (0x3C02, 0x8000), (0, 1), (), (False,), 2, "float16"),
    Case("bfloat16 subnormals", ((0x007F, 0x0080, 0x8001),), (0, 0x8000, 0x8000), (1,), (0, 2), (False,), 0x81, "bfloat16"),
    Case("bfloat16 NaN", ((0x7FC0, 0x7F80),), (0xFF81, 0x7F80), dtype="bfloat16"),
]  # fmt: skip


def check_case(suite: SimpleNamespace, case: Case, shape: tuple[int, ...]) -> None:
    """Compare in one shape. Check every part of the answer."""
    legal = legal_of(suite, case.dtype, shape, case.readings)
    given = Tensor(case.dtype, np.array(case.got, code_dtype(case.dtype)).reshape(shape))
    answer = suite.compare.compare(legal, given)
    masks = [np.nonzero(np.asarray(mask).reshape(-1))[0].tolist() for mask in (answer.wrong, answer.flushed)]
    assert masks == [list(case.wrong), list(case.flushed)], f"{case.name} {shape}: (wrong, flushed) {masks}"
    assert answer.explains == case.explains, f"{case.name} {shape}: explains {answer.explains}"
    assert answer.max_ulp == case.max_ulp, f"{case.name} {shape}: {answer.max_ulp} ULP, expected {case.max_ulp}"
    assert (answer.wrong_values, answer.flushed_values) == (len(case.wrong), len(case.flushed)), case.name
    assert answer.clean == (not case.wrong and not case.flushed), case.name
    assert answer.wrong.shape == answer.flushed.shape == shape, case.name


def shapes_of(case: Case) -> list[tuple[int, ...]]:
    size = len(case.got)
    return [(size,), (1, size, 1), *([()] if size == 1 else []), *([(2, size // 2)] if size % 2 == 0 else [])]


def check_wrong_kind(suite: SimpleNamespace) -> None:
    legal = legal_of(suite, "float32", (2,), ((ONE, ONE),))
    for dtype, shape in (("float32", (1,)), ("float32", (2, 1)), ("float32", ()), ("int32", (2,)), ("float16", (2,))):
        with pytest.raises(ValueError, match="the legal set is float32"):
            suite.compare.compare(legal, Tensor(dtype, np.zeros(shape, code_dtype(dtype))))


def check_layouts(suite: SimpleNamespace) -> None:
    """A result may have any memory layout."""
    codes = np.array([[ONE, NEXT, MANY], [INF, PLUS_0, NAN]], np.uint32)
    legal = legal_of(suite, "float32", (2, 3), (codes.reshape(-1).tolist(),))
    wide = np.zeros((2, 7), np.uint32)
    wide[:, 1::2] = codes
    for laid_out in (np.asfortranarray(codes), wide[:, 1::2], codes[:, ::-1].copy()[:, ::-1]):
        assert suite.compare.compare(legal, Tensor("float32", laid_out)).clean
    turned = suite.compare.compare(legal, Tensor("float32", np.asfortranarray(codes[::-1, ::-1])))
    assert turned.wrong.all()
    misread = suite.compare.compare(legal, Tensor("float32", codes.reshape(-1).reshape((2, 3), order="F")))
    assert misread.wrong_values == 4, "the same memory in another order is another result"


def check_every_code(suite: SimpleNamespace) -> None:
    """Every float16 code is right against itself, and wrong against the next code.

    Two NaNs are an exception. Zero is right for the positive subnormals.
    """
    codes = np.arange(1 << 16, dtype=np.uint16)
    magnitude = codes & 0x7FFF
    nan = magnitude > 0x7C00
    legal = legal_of(suite, "float16", codes.shape, (codes.tolist(),))
    same = suite.compare.compare(legal, Tensor("float16", codes))
    assert same.clean
    following = np.roll(codes, -1)
    moved = suite.compare.compare(legal, Tensor("float16", following))
    assert not moved.flushed.any()
    assert (moved.wrong == ~(nan & np.roll(nan, -1))).all()
    zeros = suite.compare.compare(legal, Tensor("float16", np.zeros_like(codes)))
    assert (zeros.flushed == ((codes > 0) & (codes < 0x400))).all()
    assert (zeros.wrong == ((codes != 0) & ~zeros.flushed)).all()


def check_large(suite: SimpleNamespace) -> None:
    """One wrong value is detected at every position of the blocks that are compared together."""
    block = suite.large.BLOCK
    codes = np.arange(2 * block + 1, dtype=np.uint32)
    reading, none = Fixed("r", codes), np.zeros(codes.shape, np.bool_)
    legal = suite.legal.Legal("float32", codes.shape, (reading,), (codes,), (0,), none)
    assert suite.compare.compare(legal, Tensor("float32", codes)).clean
    for place in (0, 1, block - 1, block, block + 1, 2 * block - 1, 2 * block):
        amiss = codes.copy()
        amiss[place] += 1
        answer = suite.compare.compare(legal, Tensor("float32", amiss))
        assert (np.flatnonzero(answer.wrong).tolist(), answer.explains) == ([place], (False,))


def check_shared_arrays(suite: SimpleNamespace) -> None:
    """Readings that agree share one array, also if they differ in NaN payloads. Each keeps its index."""
    legal = legal_of(suite, "float32", (2,), ((ONE, NAN), (NEXT, NAN), (ONE, 0xFFFFFFFF)))
    assert (len(legal.distinct), legal.index) == (2, (0, 1, 0))
    assert [int(legal.codes(n)[0]) for n in range(3)] == [ONE, NEXT, ONE]


def check_kept_subnormals(suite: SimpleNamespace) -> None:
    """If a contract keeps subnormals, a flushed one is wrong. The legal set still marks it."""
    legal = legal_of(suite, "float32", (2,), ((SMALLEST, ONE),), keeps=True)
    assert legal.subnormal.tolist() == [True, False]
    flushed = suite.compare.compare(legal, Tensor("float32", np.array([PLUS_0, ONE], np.uint32)))
    assert (flushed.wrong_values, flushed.flushed_values, flushed.max_ulp) == (1, 0, 1)
    assert suite.compare.compare(legal, Tensor("float32", np.array([SMALLEST, ONE], np.uint32))).clean


def check_given(suite: SimpleNamespace) -> None:
    """A fixed result admits nothing else: any NaN for a NaN, no zero for a subnormal, no lost sign."""
    for dtype, codes in (("float32", [ONE, NAN, SMALLEST, MINUS_0]), ("float16", [0x3C00, 0x7E00, 1, 0x8000])):
        result = FixedResult(dtype, np.array(codes, code_dtype(dtype)))
        legal = suite.legal.legal_set(SimpleNamespace(fixed_result=lambda _, result=result: result), None)
        assert (legal.dtype, legal.shape, len(legal.readings)) == (dtype, (4,), 1)
        assert suite.compare.compare(legal, Tensor(dtype, np.array(codes, code_dtype(dtype)))).clean
        other = suite.compare.compare(legal, Tensor(dtype, np.array([*codes[:2], 0, 0], code_dtype(dtype))))
        assert (other.wrong_values, other.flushed_values) == (2, 0)
    legal = suite.legal.legal_set(
        SimpleNamespace(fixed_result=lambda _: FixedResult("float32", np.array([NAN], np.uint32))), None
    )
    assert suite.compare.compare(legal, Tensor("float32", np.array([0xFFC00001], np.uint32))).clean


def battery(suite: SimpleNamespace) -> None:
    """Run every check. Raise an exception if an answer is wrong."""
    for case in CASES:
        for shape in shapes_of(case):
            check_case(suite, case, shape)
    for check in (
        check_wrong_kind,
        check_layouts,
        check_every_code,
        check_large,
        check_shared_arrays,
        check_kept_subnormals,
        check_given,
    ):
        check(suite)
