"""One recipe for many cells, so that an implementation's cells become one finding, not one per type."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace

from xverify.arithmetic.lattice import simplicity
from xverify.arithmetic.reading import Operands, Reading
from xverify.arithmetic.readings import EXACT, EXACT_QUOTIENT, FLOAT32, FLOAT32_QUOTIENT, OUTPUT, Stepwise

Group = tuple[Hashable, Operands, Sequence[Reading]]

MOST = 64
"""The number of readings of a cell, simplest first, that are considered."""


def common(cells: Sequence[Group], shown: Sequence[Sequence[Reading]] | None = None) -> list[Reading | None]:
    """Choose for each cell a reading that explains it, with few different ones per group.

    The reading that explains most cells comes first, then the one that explains most of the remaining cells, and so on.

    Args:
        cells: for each cell its group, operands of its types, and the simplified readings that explain it, the simplest first.
        shown: for each cell those of its readings that its values show. Only readings that some cell shows are chosen: a
            combination of the mistakes of two cells explains both, and may be made in neither. None for all readings.

    Returns:
        A reading for each cell; None where nothing explains it.
    """
    chosen: list[Reading | None] = [None] * len(cells)
    own = [readings for _, _, readings in cells] if shown is None else shown
    indices: dict[Hashable, list[int]] = defaultdict(list)
    for index, (group, _, readings) in enumerate(cells):
        if readings:
            indices[group].append(index)
    for group_indices in indices.values():
        explains = _explains(
            [cells[index] for index in group_indices], [own[index] for index in group_indices], group_indices
        )
        left = set(group_indices)
        while left:
            counts = Counter({reading: len(explained & left) for reading, explained in explains.items()})
            best, _ = max(counts.items(), key=lambda item: item[1])
            for index in explains[best] & left:
                chosen[index] = best
            left -= explains[best]
        _leave_idle_mistakes(cells, group_indices, chosen, explains)
    return chosen


def _leave_idle_mistakes(
    cells: Sequence[Group],
    indices: Sequence[int],
    chosen: list[Reading | None],
    explains: dict[Reading, set[int]],
) -> None:
    """Choose another reading for each cell whose types do not show the chosen one's subtraction.

    Such a cell shows another mistake, such as a rounding, and belongs to the cells that show only that one.
    """
    taken = {chosen[index] for index in indices}
    for index in indices:
        plain = _without_idle_subtraction(chosen[index], cells[index][1])
        if plain is not None:
            others = (reading for reading, explained in explains.items() if reading in taken and index in explained)
            chosen[index] = next(filter(_subtracts, others), plain)


def _without_idle_subtraction(reading: Reading | None, operands: Operands) -> Reading | None:
    """The reading with an exact subtraction; None if it has one, or if the types show the difference."""
    if not isinstance(reading, Stepwise) or _subtracts(reading):
        return None
    exact = replace(reading, subtraction="exact")
    return exact if exact.simplified(operands) == reading.simplified(operands) else None


def _subtracts(reading: Reading) -> bool:
    """True if the reading subtracts the zero point that the text names, whatever the rounding."""
    return not isinstance(reading, Stepwise) or reading.subtraction.startswith(("exact", "operands-", "negated"))


def _explains(
    cells: Sequence[Group], shown: Sequence[Sequence[Reading]], indices: Sequence[int]
) -> dict[Reading, set[int]]:
    """The cells that each candidate explains, the simplest candidates first."""
    # Cells of the same types simplify a reading in the same way.
    kinds = [_kind(operands) for _, operands, _ in cells]
    of_kind = {kind: operands for kind, (_, operands, _) in zip(kinds, cells, strict=True)}
    sets = [{reading.simplified(operands) for reading in readings[:MOST]} for _, operands, readings in cells]
    candidates: dict[Reading, set[int]] = {}
    for reading in _candidates(cells, shown):
        simple = {kind: reading.simplified(operands) for kind, operands in of_kind.items()}
        explained = {
            index for index, kind, simplified in zip(indices, kinds, sets, strict=True) if simple[kind] in simplified
        }
        if explained:
            candidates[reading] = explained
    return candidates


def _kind(operands: Operands) -> Hashable:
    """Everything that the simplification of a reading depends on: the types and the options."""
    return tuple(sorted(operands.dtypes.items())), operands.output_dtype, tuple(sorted(operands.options.items()))


def _candidates(cells: Sequence[Group], shown: Sequence[Sequence[Reading]]) -> list[Reading]:
    """The readings that cells show, and their general forms, which may name the output type as such."""
    candidates: dict[Reading, None] = {}
    for (_, operands, _), readings in zip(cells, shown, strict=True):
        for reading in readings[:MOST]:
            candidates[reading] = None
            if isinstance(reading, Stepwise):
                candidates[_general(reading, operands.output_dtype)] = None
    if any(isinstance(reading, Stepwise) for reading in candidates):
        candidates.update(dict.fromkeys((EXACT, FLOAT32, *OUTPUT, EXACT_QUOTIENT, FLOAT32_QUOTIENT)))
    return _sorted(candidates)


def _sorted(readings: Iterable[Reading]) -> list[Reading]:
    """Linear readings by simplicity. Other readings keep their order."""
    return sorted(readings, key=lambda r: simplicity(r) if isinstance(r, Stepwise) else ())


def _general(reading: Stepwise, out: str) -> Stepwise:
    """The reading with the output type replaced by a reference to it."""
    return replace(
        reading,
        subtraction="operands-output" if reading.subtraction == f"operands-{out}" else reading.subtraction,
        difference="output" if reading.difference == out else reading.difference,
        scale_cast="output" if reading.scale_cast == out else reading.scale_cast,
        precision="output" if reading.precision == out else reading.precision,
    )
