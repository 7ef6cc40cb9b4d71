"""What the linear loops are told of a call, where no tensor of a test is large enough to show it."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba")

from numba import types

from xverify.kernels.casting import FLOAT32
from xverify.kernels.compiled import linear, loops
from xverify.kernels.compiled.build import entry
from xverify.kernels.compiled.codings import coding
from xverify.kernels.compiled.places import Places, Rows, Runs

FAR = 1 << 33
"""More elements than 32 bits count."""


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
