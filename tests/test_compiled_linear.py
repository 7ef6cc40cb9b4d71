"""What the linear loops are told of a call, where no tensor of a test is large enough to show it."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from kernel_arrays import codes_of
from watched_loops import ranks_given

pytest.importorskip("numba")

from numba import types

from xverify.kernels.blocks import Spread
from xverify.kernels.casting import FLOAT32
from xverify.kernels.compiled import linear, loops
from xverify.kernels.compiled.build import entry
from xverify.kernels.compiled.codings import coding
from xverify.kernels.compiled.places import Places, Rows, Runs
from xverify.kernels.formula import apply
from xverify.kernels.plans import Operand

FAR = 1 << 33
"""More elements than 32 bits count."""


SMALL = {
    "one value": ((), (), Spread()),
    "a row": ((7,), (), Spread()),
    "one parameter of rank 1": ((2, 3), (1,), Spread()),
    "an axis": ((3, 5), (5,), Spread(1)),
    "an axis before others": ((2, 5, 3), (5,), Spread(1)),
    "short runs, laid out anew": ((16, 256, 2), (256,), Spread(1)),
    "short rows, laid out anew": ((4096, 300), (300,), Spread(1)),
    "blocks": ((3, 5, 4), (3, 3, 4), Spread(1, 2)),
    "blocks of the last axis": ((3, 8), (3, 2), Spread(1, 4)),
}


@pytest.mark.parametrize("name", SMALL)
def test_the_short_way_gives_what_the_long_one_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever operands are: it takes them as they are, or leaves them."""
    ranks = ranks_given(linear, monkeypatch)
    shape, parameter, spread = SMALL[name]
    rng, taken = np.random.default_rng(7), Counter[str]()
    for x_name, scale_name, zero_name, out in product(
        ("i1", "i2", ">i2"), ("f4", ">f4", "f2"), ("", "the same", "i4", ">i2"), ("f4", "f2")
    ):
        x, scale, zero_point = (
            None if not kind else rng.integers(0, 9, extents).astype(np.dtype(x_name if kind == "the same" else kind))
            for kind, extents in ((x_name, shape), (scale_name, parameter), (zero_name, parameter))
        )
        operands = [None if array is None else Operand(array.dtype, array.shape) for array in (x, scale, zero_point)]
        formula = linear.Linear.of(np.dtype(out), *operands, spread, by_division=False)
        short, want, got = formula.for_small(shape, parameter), *(np.zeros(shape, np.dtype(out)) for _ in range(2))
        if short is None or not short(got, x, scale, zero_point):
            continue
        taken[zero_name] += 1
        with np.errstate(all="ignore"):
            apply(want, x, scale, zero_point, spread, by_division=False)
        assert codes_of(got) == codes_of(want), (x_name, scale_name, zero_name, out)
    assert bool(taken) == ("anew" not in name), "what is laid out anew is never taken as it is"
    assert set(taken) <= {"", "the same"}
    assert all(wanted == given for wanted, given in ranks)


def test_there_is_an_output_for_each_byte_and_no_more() -> None:
    """One more would be written behind the table."""
    assert linear._EVERY_BYTE.dtype == np.uint8
    assert linear._EVERY_BYTE.tolist() == list(range(256))


@pytest.mark.parametrize(
    ("places", "arguments"),
    [
        (Runs(4 * FAR, 16, 0), ((FAR // 16, 4 * FAR, 16, 0), None)),
        (Runs(FAR + 32, 32, FAR // 32 + 1), ((FAR // 32, FAR + 32, 32, FAR // 32 + 1), None)),
        (Rows(4 * FAR), (None, (FAR, 4 * FAR, 1, 1, 0))),
        (Rows(16, FAR, 1, 7), (None, (FAR, 16, FAR, 1, 7))),
        (Rows(16, FAR, FAR, 7), (None, (0, 16, FAR, FAR, 7))),
    ],
)
def test_parts_of_tensors_of_more_than_2_to_the_31_elements(
    places: Places, arguments: tuple[tuple[int, ...] | None, tuple[int, ...] | None]
) -> None:
    """The piece that begins at ``FAR``, with the parameters that serve it: those of a loop that counts in Python."""
    code = coding(np.dtype(np.uint8))
    scale = np.arange(1, 65, dtype=np.float32)
    x = np.arange(3, 51, dtype=np.uint8)
    out = np.zeros(x.size, np.float32)
    kinds = linear.signature(
        types.uint8, FLOAT32, code.fields_type, types.float32, linear.array_of(types.float32), types.float32, places
    )
    runs, rows = arguments
    entry(loops.linear, kinds)(x, out, tuple(code.fields), 0.0, scale, 0.0, None, runs, rows, FAR, False)
    want = []
    for place, value in enumerate(x.tolist(), FAR):
        if runs:
            origin, line, run, stride = runs
            parameter = place // line * stride + place % line // run - origin
        else:
            assert rows
            origin, row, rows_of_line, run, stride = rows
            number = place // row
            parameter = (number // rows_of_line * stride + number % rows_of_line // run) * row + place % row - origin
        want.append(value * float(scale[parameter]))
    assert out.tolist() == want
