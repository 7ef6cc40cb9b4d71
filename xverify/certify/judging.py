"""Comparison of results with the expected values, and the smallest triple with a wrong result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.certify.domains import Columns, Domain, Pairs
from xverify.certify.expected import FORMATS, RECIPES, Recipe, bits_of, difference, result, simplified, values

Codes = NDArray[Any]
Mask = NDArray[np.bool_]

AT_ONCE = 1 << 15
"""Number of values computed together, so that intermediate results stay in the cache."""


@dataclass(frozen=True, eq=False)
class _Table:
    """Differences of all pairs of codes, each once."""

    differences: NDArray[np.float64]
    """The distinct differences."""
    index: NDArray[np.intp]
    """Index into `differences` for each pair, shape (zero points, codes of x)."""


@dataclass(frozen=True)
class Wrong:
    """A result that no reading gives."""

    x: int
    """Code of x."""
    zero_point: int | None
    """Code of the zero point, or None."""
    scale: int
    """Code of the scale."""
    got: int
    """Code of the result."""
    due: Mapping[str, int]
    """Code that each reading gives, by name."""
    column: int
    """Index of its column in the request."""
    code: int
    """Index of x in its column."""
    wrong: int
    """Number of wrong results in the request."""


@dataclass(frozen=True, eq=False)
class Judge:
    """Comparison of results in a domain with the values that the readings give."""

    domain: Domain
    out: str
    """Type of the results."""
    readings: tuple[str, ...]
    """Names of the readings."""
    _tables: dict[Recipe, _Table] = field(default_factory=dict)

    @cached_property
    def recipes(self) -> Mapping[str, Recipe]:
        """The recipe of each reading. Readings that cannot differ in this domain have the same recipe."""
        domain = self.domain
        return {
            name: simplified(RECIPES[name], domain.x_dtype, domain.has_zero_point, domain.scale_dtype, self.out)
            for name in self.readings
        }

    def prepare(self) -> None:
        """Compute the tables that all comparisons need, before several threads use them."""
        if isinstance(self.domain, Pairs):
            for recipe in set(self.recipes.values()):
                self._tables[recipe] = _tabulated(recipe, self.domain, self.out)

    def explaining(self, names: Sequence[str], columns: Columns, y: Codes, whole: bool) -> tuple[str, ...]:
        """Return the names of the readings that give every result.

        Args:
            names: Readings to compare with.
            columns: The operands.
            y: Codes of the results, shape (columns, codes).
            whole: True if the columns are those of complete units.
        """
        right = {
            recipe: self._differing(recipe, columns, y, whole) is None
            for recipe in dict.fromkeys(self.recipes[name] for name in names)
        }
        return tuple(name for name in names if right[self.recipes[name]])

    def smallest(self, names: Sequence[str], columns: Columns, y: Codes) -> Wrong:
        """Return the smallest triple whose result no reading gives.

        If some reading gives each result, it is the smallest triple that the first reading does not give. Triples are ordered
        by zero point, then x, then scale, each by its distance from 0. Some result must be wrong.
        """
        recipes = list(dict.fromkeys(self.recipes[name] for name in names))
        masks = [self._mask(recipe, columns, y) for recipe in recipes]
        nowhere: Mask = np.logical_and.reduce(masks)
        mask = nowhere if nowhere.any() else masks[0]
        column, code = self._least(mask, columns)
        triple = columns.some(slice(column, column + 1), slice(code, code + 1))
        return Wrong(
            x=int(triple.x[0, 0]),
            zero_point=None if triple.zero_point is None else int(triple.zero_point[0]),
            scale=int(triple.scale[0]),
            got=int(y[column, code]),
            due={name: int(next(self._elementwise(self.recipes[name], triple))[1][0, 0]) for name in self.readings},
            column=column,
            code=code,
            wrong=int(mask.sum()),
        )

    # -- comparing ----------------------------------------------------------------------------------------

    def _differing(self, recipe: Recipe, columns: Columns, y: Codes, whole: bool) -> slice | None:
        """Return the first columns with a result that is not the recipe's, or None."""
        for span, due in self._due(recipe, columns, whole):
            got = y[span]
            if not np.array_equal(got, due) and different(got, due, self.out).any():
                return span
        return None

    def _mask(self, recipe: Recipe, columns: Columns, y: Codes) -> Mask:
        parts = [different(y[span], due, self.out) for span, due in self._elementwise(recipe, columns)]
        return np.concatenate(parts)

    def _due(self, recipe: Recipe, columns: Columns, whole: bool) -> Iterator[tuple[slice, Codes]]:
        table = self._tables.get(recipe) if whole else None
        return self._elementwise(recipe, columns) if table is None else self._looked_up(recipe, table, columns)

    def _looked_up(self, recipe: Recipe, table: _Table, columns: Columns) -> Iterator[tuple[slice, Codes]]:
        zero_points, codes = table.index.shape
        together = max(1, AT_ONCE // table.index.size)
        scales = values(self.domain.scale_dtype, columns.scale[::zero_points])
        step = max(1, AT_ONCE // table.differences.size)
        for first in range(0, scales.size, step):
            rows = result(recipe, table.differences[None, :], scales[first : first + step, None], self.out)
            for begin in range(0, len(rows), together):
                some = rows[begin : begin + together]
                span = slice((first + begin) * zero_points, (first + begin + len(some)) * zero_points)
                yield span, some.take(table.index, axis=1).reshape(-1, codes)

    def _elementwise(self, recipe: Recipe, columns: Columns) -> Iterator[tuple[slice, Codes]]:
        domain, (count, codes) = self.domain, columns.shape
        step = max(1, AT_ONCE // codes)
        same = None
        if columns.difference is not None and not recipe.operands:
            same = difference(recipe, np.array([[columns.difference]]), None, self.out)
        of_row = values(domain.x_dtype, columns.x) if len(columns.x) == 1 else None
        for first in range(0, count, step):
            span = slice(first, min(first + step, count))
            away = same
            if away is None:
                x = values(domain.x_dtype, columns.x[span]) if of_row is None else of_row
                points = columns.zero_point
                zero_point = None if points is None else values(domain.x_dtype, points[span])[:, None]
                away = difference(recipe, x, zero_point, self.out)
            scale = values(domain.scale_dtype, columns.scale[span])[:, None]
            yield span, result(recipe, away, scale, self.out)

    def _least(self, mask: Mask, columns: Columns) -> tuple[int, int]:
        column, code = np.nonzero(mask)
        x = np.broadcast_to(columns.x, columns.shape)[column, code]
        keys = [_from_zero(self.domain.x_dtype, x), _from_zero(self.domain.scale_dtype, columns.scale[column])]
        if columns.zero_point is not None:
            keys.insert(0, _from_zero(self.domain.x_dtype, columns.zero_point[column]))
        left = np.arange(column.size)
        for key in keys:
            some = key[left]
            left = left[some == some.min()]
        return int(column[left[0]]), int(code[left[0]])


def _from_zero(dtype: str, codes: Codes) -> NDArray[np.int64]:
    """Return sort keys of codes: by magnitude, positive before negative, not finite last."""
    wide = codes.astype(np.int64)
    if dtype == "float8_e8m0fnu":
        return np.abs(wide - 127)
    if dtype not in FORMATS:
        number = values(dtype, codes).astype(np.int64)
        return 2 * np.abs(number) + (number < 0)
    sign = 1 << (bits_of(dtype) - 1)
    return 2 * (wide & (sign - 1)) + (wide >= sign)


def different(got: Codes, due: Codes, dtype: str) -> Mask:
    """Return a mask of the codes that differ. Any NaN equals any NaN."""
    form = FORMATS[dtype]
    unsigned = due.dtype.type
    magnitude = unsigned((1 << (form.bits - 1)) - 1)
    infinity = unsigned(((1 << form.exponent_bits) - 1) << form.mantissa_bits)
    mask: Mask = got != due
    if mask.any():
        mask &= ~(((got & magnitude) > infinity) & ((due & magnitude) > infinity))
    return mask


def _tabulated(recipe: Recipe, domain: Pairs, out: str) -> _Table:
    x = values(domain.x_dtype, np.arange(domain.codes))[None, :]
    away = difference(recipe, x, x.reshape(-1, 1) if domain.has_zero_point else None, out)
    # Compare bits, because +0 and -0 are two differences.
    bits, index = np.unique(np.ascontiguousarray(away).view(np.int64), return_inverse=True)
    return _Table(bits.view(np.float64), index.reshape(away.shape).astype(np.intp))
