"""The parameters that serve the elements of a piece, compared with the definition of granularities."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
import pytest

pytest.importorskip("numba")

from xverify.kernels.blocks import BLOCK, Spread
from xverify.kernels.compiled import layout as module
from xverify.kernels.compiled.layout import Layout, Rows, Runs, layout_of
from xverify.kernels.compiled.linear import lay_out

SHAPES = ((1,), (2,), (7,), (3, 4), (4, 3), (1, 5), (5, 1), (2, 3, 4), (3, 1, 2), (2, 5, 1), (2, 3, 2, 2))


def needed(shape: tuple[int, ...], spread: Spread) -> np.ndarray:
    """Return, for each element in C order, the index of its parameter in C order."""
    assert spread.axis is not None
    index = np.indices(shape)
    index[spread.axis] //= spread.run
    extents = [*shape]
    extents[spread.axis] = -(-shape[spread.axis] // spread.run)
    return np.ravel_multi_index(tuple(index), extents).reshape(-1)


def of_axis(shape: tuple[int, ...], axis: int) -> np.ndarray:
    return np.indices(shape)[axis].reshape(-1)


def given(found: Layout, element: np.ndarray) -> np.ndarray:
    """Return each element's parameter index by the text of `loops`, the formula that loops implement."""
    if isinstance(found, Runs):
        (origin, line, run, stride), rows = found.arguments(0)
        assert rows is None
        return element // line * stride + element % line // run - origin
    runs, (origin, row, rows_of_line, run, stride) = found.arguments(0)
    assert runs is None
    number = element // row
    return (number // rows_of_line * stride + number % rows_of_line // run) * row + element % row - origin


def cases() -> list[tuple[Layout, np.ndarray]]:
    """Return layouts, and each element's parameter index, for all shapes, axes and block sizes."""
    made = []
    for shape in SHAPES:
        for axis in range(len(shape)):
            for run in (1, 2, 3, 5):
                extents = tuple(-(-extent // run) if i == axis else extent for i, extent in enumerate(shape))
                found = layout_of(shape, extents, Spread(axis, run))
                if found is not None and (run > 1 or len(shape) > 1):
                    made.append((found, needed(shape, Spread(axis, run))))
            found = layout_of(shape, (shape[axis],), Spread(axis))
            if found is not None:
                made.append((found, of_axis(shape, axis)))
    return made


def of_elements(found: Layout, count: int) -> np.ndarray:
    """Return each element's parameter index before parameters were expanded."""
    at = given(found, np.arange(count))
    if isinstance(found, Rows) and found.repeats * found.tiles > 1:
        return lay_out(np.arange(found.row // found.repeats // found.tiles), found)[at]
    return at


def test_each_element_has_its_parameter() -> None:
    made = cases()
    assert {type(found) for found, _ in made} == {Runs, Rows}
    for found, want in made:
        assert of_elements(found, want.size).tolist() == want.tolist(), found


def test_where_one_parameter_serves_all() -> None:
    assert layout_of((3, 4), (), Spread()) is None
    assert layout_of((3, 4), (1,), Spread()) is None
    assert layout_of((1, 4), (1,), Spread(0)) is None
    assert layout_of((3, 4), (3, 1), Spread(1, 4)) == Runs(12, 4, 0)
    assert layout_of((1, 4), (1, 1), Spread(1, 4)) is None


@pytest.mark.parametrize("expand", [False, True], ids=["as they are", "laid out anew"])
def test_parameters_laid_out_anew(expand: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many short rows become fewer long ones, and each element keeps its parameter."""
    if expand:
        monkeypatch.setattr(module, "_WORTH_EXPANDING", 1)
    for shape in SHAPES:
        for axis in range(len(shape)):
            found = layout_of(shape, (shape[axis],), Spread(axis))
            if found is not None:
                inner = prod(shape[axis + 1 :])
                assert (isinstance(found, Rows) and found.row >= module._LONG_ROW) == expand
                if expand:
                    assert isinstance(found, Rows)
                    assert found == Rows(shape[axis] * inner * found.tiles, repeats=inner, tiles=found.tiles)
                assert of_elements(found, prod(shape)).tolist() == of_axis(shape, axis).tolist()


def test_what_is_long_or_rare_is_not_laid_out_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WORTH_EXPANDING", 4)
    assert layout_of((3, 10), (10,), Spread(1)) == Rows(10), "3 rows"
    assert layout_of((4, 10), (10,), Spread(1)) == Rows(520, tiles=52)
    assert layout_of((4, 600), (600,), Spread(1)) == Rows(600), "long rows"
    assert layout_of((2, 2, 3), (2,), Spread(1)) == Rows(516, repeats=3, tiles=86)
    assert layout_of((2, 300, 2), (300,), Spread(1)) == Rows(600, repeats=2), (
        "runs of two are short, however many of them"
    )
    assert Rows(600, repeats=2).is_laid_out
    assert Rows(600, tiles=2).is_laid_out
    assert layout_of((3, 3), (3,), Spread(0)) == Runs(9, 3, 0), "3 runs"
    assert layout_of((4, 15), (4,), Spread(0)) == Rows(60 * 9, repeats=15, tiles=9)
    assert layout_of((4, 16), (4,), Spread(0)) == Runs(64, 16, 0), "runs of a whole chunk"
    assert layout_of((BLOCK + 1, 2), (BLOCK + 1,), Spread(0)) == Runs(2 * BLOCK + 2, 2, 0), "more than a block"


def test_blocks() -> None:
    """Blocks of one element need no division. Whole blocks in the last axis merge all lines into one."""
    assert layout_of((3, 4), (3, 4), Spread(1)) == Rows(12)
    assert layout_of((3, 4), (3, 2), Spread(1, 2)) == Runs(12, 2, 0)
    assert layout_of((3, 5), (3, 3), Spread(1, 2)) == Runs(5, 2, 3)
    assert layout_of((5, 3), (3, 3), Spread(0, 2)) == Rows(3, 5, 2, 3)
    assert layout_of((6,), (3,), Spread(0, 2)) == Runs(6, 2, 0)
    assert layout_of((3,), (3,), Spread(0)) == Rows(3)


def test_reach_is_what_a_piece_needs() -> None:
    """The reach is from the first to the last parameter; several lines or rows need whole ones."""
    for found, _ in cases():
        if isinstance(found, Rows):
            found = replace(found, repeats=1, tiles=1)
        size = 3 * (found.line if isinstance(found, Runs) else found.row * found.in_line)
        wanted = given(found, np.arange(size))
        for start, stop in product(range(size), range(1, size + 1)):
            if start >= stop:
                continue
            low, high = found.reach(start, stop)
            first, last = int(wanted[start:stop].min()), int(wanted[start:stop].max()) + 1
            if isinstance(found, Runs) and found.stride == 0 and start // found.line != (stop - 1) // found.line:
                assert (low, high) == (0, -(-found.line // found.run))
            elif isinstance(found, Rows) and start // found.row != (stop - 1) // found.row:
                assert (low, high) == (first // found.row * found.row, -(-last // found.row) * found.row), (
                    found,
                    start,
                )
            else:
                assert (low, high) == (first, last), (found, start, stop)


def test_a_piece_that_ends_in_the_next_long_row_is_cut_there() -> None:
    """Its two ends need parameters far apart, and all between them would exceed a block."""
    row = BLOCK + 1
    found = Rows(row, 4, 1, 4)
    assert found.cuts(row - 5, row + 5) == [(row - 5, row), (row, row + 5)]
    assert found.cuts(row - 5, row + 1) == [(row - 5, row), (row, row + 1)]
    assert found.cuts(row - 5, row) == [(row - 5, row)]
    assert found.cuts(row, row + 5) == [(row, row + 5)]
    assert found.cuts(3 * row - 1, 3 * row + 1) == [(3 * row - 1, 3 * row), (3 * row, 3 * row + 1)]
    assert Rows(BLOCK, 4, 1, 4).cuts(BLOCK - 5, BLOCK + 5) == [(BLOCK - 5, BLOCK + 5)]
    assert Runs(row, 2, 9).cuts(row - 5, row + 5) == [(row - 5, row + 5)]


def test_runs_that_begin_again_with_a_long_line_are_cut_there() -> None:
    line = BLOCK + 2
    found = Runs(line, 2, 0)
    assert found.cuts(line - 5, line + 5) == [(line - 5, line), (line, line + 5)]
    assert found.cuts(3, 3 * line) == [(3, line), (line, 2 * line), (2 * line, 3 * line)]
    assert found.cuts(line, 2 * line) == [(line, 2 * line)]
    assert Runs(BLOCK, 2, 0).cuts(BLOCK - 5, BLOCK + 5) == [(BLOCK - 5, BLOCK + 5)]
