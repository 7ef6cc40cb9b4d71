"""Readings of y = (x - zero point) * scale, composed of stages."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from itertools import groupby
from typing import Any, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic import stages
from xverify.arithmetic.batch_cast import BATCH, batch_cast
from xverify.arithmetic.reading import Operands
from xverify.arithmetic.simplify import simplified, types_of
from xverify.arithmetic.stages import StageOptions
from xverify.core.bits import canonical
from xverify.core.rounding import F64


class Bench:
    """The operands of a linear call as numbers, and the results of stages on them."""

    def __init__(self, operands: Operands) -> None:
        self.triples = stages.decoded(operands)
        self._results: dict[tuple[object, ...], Any] = {}

    def of(self, stage: Callable[..., Any], *choices: object) -> Any:
        """The result of ``stage(self.triples, *choices)``, evaluated once for equal choices."""
        key = (stage, *choices)
        result = self._results.get(key)
        if result is None:
            result = self._results[key] = stage(self.triples, *choices)
        return result


@dataclass(frozen=True)
class Stepwise(StageOptions):
    """A reading of a linear formula: one option for each stage."""

    @property
    def name(self) -> str:
        """A short name for an admitted reading, else the options that are not plain, joined by "+"."""
        return _name(self)

    @property
    def words(self) -> str:
        """The recipe as a sentence's predicate."""
        return stages.in_words(*self.options())

    def options(self) -> tuple[Any, ...]:
        """The options in the order of the stages."""
        return (
            self.subtraction, self.difference, self.scale_cast, self.operation, self.precision, self.final,
            self.subnormals, self.zero,
        )  # fmt: skip

    def departures(self, other: Stepwise) -> int:
        """The number of stages in which two readings differ."""
        return sum(a != b for a, b in zip(self.options(), other.options(), strict=True))

    def simplified(self, operands: Operands) -> Stepwise:
        """An equal reading without the stages that cannot matter for the operands' types."""
        return simplified(self, types_of(operands))

    def evaluate(self, operands: Operands) -> NDArray[Any]:
        """The output codes, in the output dtype and shape of the operands."""
        if self == EXACT and stages.is_single(operands):
            return np.broadcast_to(stages.single(operands), operands.shape)
        result = self.on(Bench(operands))
        codes = stages.finished(result, operands.output_dtype, self.final, self.subnormals, self.zero)
        return np.broadcast_to(codes, operands.shape)

    def before_cast(self) -> tuple[str, ...]:
        """The options of the stages before the final cast."""
        return (
            self.subtraction, self.difference, self.scale_cast, self.operation, self.precision, self.subnormals,
        )  # fmt: skip

    def on(self, bench: Bench) -> F64:
        """The numbers before the final cast. They broadcast to the shape of the operands."""
        triples = bench.triples
        scale = bench.of(stages.factor, self.scale_cast, self.subnormals)
        folds = triples.zero_point is not None or self.operation == "folded-always"
        if self.operation in stages.FOLDED and folds and self.folds:
            x, zero_point = bench.of(stages.operands_of, self.subtraction)
            return stages.folded(triples, x, zero_point, scale, self.operation, self.precision, self.subnormals)
        # Without a zero point there is nothing to fold: one product is left, and each of its steps is rounded.
        plain = self.operation in ("multiply", "divide", "reciprocal")
        operation, precision = self.operation if plain else "multiply", self.precision
        if not plain and precision == "once":
            precision = "output"
        difference = bench.of(
            stages.subtracted, self.subtraction, self.difference if plain or not self.folds else "exact"
        )
        narrow = self.difference != "exact" and plain
        return stages.combined(triples, difference, scale, operation, precision, self.subnormals, narrow)


def evaluate_all(readings: Sequence[Stepwise], operands: Operands) -> list[NDArray[Any]]:
    """The output codes of each reading, every NaN made canonical.

    Common stages are evaluated once, and results with the same cast are cast in batches.
    """
    out = operands.output_dtype
    if len(readings) <= 1 or math.prod(operands.shape) > BATCH:
        return [canonical(reading.evaluate(operands), out) for reading in readings]
    bench = Bench(operands)
    order = sorted(range(len(readings)), key=lambda index: readings[index].before_cast())

    def results() -> Iterator[tuple[tuple[str, ...], F64]]:
        for _, group in groupby((readings[index] for index in order), Stepwise.before_cast):
            first, *rest = group
            numbers = first.on(bench)
            for reading in (first, *rest):
                yield (reading.final, reading.subnormals, reading.zero), numbers

    def cast(numbers: F64, *options: Any) -> NDArray[Any]:
        return stages.finished(numbers, out, *options)

    codes = dict(zip(order, batch_cast(results(), operands.shape, out, cast), strict=True))
    return [codes[index] for index in range(len(readings))]


EXACT = Stepwise()
FLOAT32 = Stepwise(difference="float32", precision="float32")
OUTPUT = (
    Stepwise(difference="output"),
    Stepwise(difference="output", scale_cast="output"),
    Stepwise("operands-output", "output"),
    Stepwise("operands-output", "output", "output"),
)
EXACT_QUOTIENT = Stepwise(operation="divide")
FLOAT32_QUOTIENT = Stepwise(difference="float32", operation="divide", precision="float32")

_SHORT: Mapping[str, Stepwise] = {
    "exact": EXACT,
    "float32": FLOAT32,
    "output": OUTPUT[0],
    "output-scale-cast": OUTPUT[1],
    "operands-output": OUTPUT[2],
    "operands-output-scale-cast": OUTPUT[3],
    "exact-quotient": EXACT_QUOTIENT,
    "float32-quotient": FLOAT32_QUOTIENT,
}
"""Names of the readings that some text admits."""

_PREFIX = {"difference": "difference-", "scale_cast": "scale-", "precision": "rounded-", "zero": "zero-"}
"""Prefixes of options whose own name does not show their stage."""


def _token(stage: str, option: str) -> str:
    # "operands-output" already names a reading, which rounds the difference too.
    return "cast-operands-output" if option == "operands-output" else _PREFIX.get(stage, "") + option


@cache
def _tokens() -> Mapping[str, tuple[str, str]]:
    """Stage and option of every token that a name may have."""
    hints = get_type_hints(Stepwise)
    return {
        _token(field.name, option): (field.name, option)
        for field in fields(Stepwise)
        for option in get_args(hints[field.name])
        if option != field.default
    }


@cache
def _name(reading: Stepwise) -> str:
    for name, admitted in _SHORT.items():
        if admitted == reading:
            return name
    chosen = {(field.name, getattr(reading, field.name)) for field in fields(reading)}
    return "+".join(token for token, option in _tokens().items() if option in chosen)


@cache
def by_name(name: str) -> Stepwise:
    """The reading of that name.

    Raises:
        KeyError: There is no reading of that name.
    """
    if name in _SHORT:
        return _SHORT[name]
    chosen: dict[str, Any] = dict(_tokens()[token] for token in name.split("+"))
    reading = Stepwise(**chosen)
    if reading.name != name:
        raise KeyError(name)
    return reading
