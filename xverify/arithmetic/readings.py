"""Readings of y = (x - zero point) * scale: recipes of arithmetic on triples (x, zero point, scale)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
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
    """The operands of a linear call as numbers, and every stage that was evaluated on them."""

    def __init__(self, operands: Operands) -> None:
        self.given = stages.decoded(operands)
        self._known: dict[tuple[object, ...], Any] = {}

    def of(self, stage: Callable[..., Any], *choices: object) -> Any:
        """What ``stage(self.given, *choices)`` returns, evaluated once for equal choices."""
        key = (stage, *choices)
        if key not in self._known:
            self._known[key] = stage(self.given, *choices)
        return self._known[key]


@dataclass(frozen=True)
class Stepwise(StageOptions):
    """A reading of a linear formula: one option for each stage."""

    @property
    def name(self) -> str:
        """The admitted readings have short names; others that of each stage which is not plain."""
        return _name(self)

    @property
    def words(self) -> str:
        return stages.in_words(*self.options())

    def options(self) -> tuple[Any, ...]:
        """The option of each stage, in the order of the stages."""
        return (
            self.subtraction, self.difference, self.scale_cast, self.operation, self.precision, self.final,
            self.subnormals, self.zero,
        )  # fmt: skip

    def departures(self, other: Stepwise) -> int:
        """In how many stages two readings differ."""
        return sum(a != b for a, b in zip(self.options(), other.options(), strict=True))

    def simplified(self, operands: Operands) -> Stepwise:
        """An equal reading without the stages that cannot matter for the operands' types."""
        return simplified(self, types_of(operands))

    def evaluate(self, operands: Operands) -> NDArray[Any]:
        if self == EXACT and stages.is_single(operands):
            return np.broadcast_to(stages.single(operands), operands.shape)
        result = self.on(Bench(operands))
        codes = stages.finished(result, operands.output_dtype, self.final, self.subnormals, self.zero)
        return np.broadcast_to(codes, operands.shape)

    def on(self, bench: Bench) -> F64:
        """What is cast in the end, broadcastable to the shape of the operands."""
        given = bench.given
        scale = bench.of(stages.factor, self.scale_cast, self.subnormals)
        if self.operation in ("folded", "fused") and given.zero_point is not None and self.folds:
            x, zero_point = bench.of(stages.operands_of, self.subtraction)
            fused = self.operation == "fused"
            return stages.folded(given, x, zero_point, scale, fused, self.precision, self.subnormals)
        # Without a zero point to fold in there is one product, each step of which is rounded as it would be.
        plain = self.operation in ("multiply", "divide", "reciprocal")
        operation, precision = self.operation if plain else "multiply", self.precision
        if not plain and precision == "once":
            precision = "output"
        difference = bench.of(
            stages.subtracted, self.subtraction, self.difference if plain or not self.folds else "exact"
        )
        narrow = self.difference != "exact" and plain
        return stages.combined(given, difference, scale, operation, precision, self.subnormals, narrow)


def evaluate_all(readings: Sequence[Stepwise], operands: Operands) -> list[NDArray[Any]]:
    """The output codes of each reading, as its ``evaluate`` gives them but for NaN, which is made canonical; stages in common
    are evaluated once, and what is cast in the same way is cast together."""
    out = operands.output_dtype
    if len(readings) <= 1 or math.prod(operands.shape) > BATCH:
        return [canonical(reading.evaluate(operands), out) for reading in readings]
    bench = Bench(operands)
    results = (((reading.final, reading.subnormals, reading.zero), reading.on(bench)) for reading in readings)

    def cast(numbers: F64, *way: Any) -> NDArray[Any]:
        return stages.finished(numbers, out, *way)

    return batch_cast(results, operands.shape, out, cast)


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
"""What stands before an option in a name, where the option alone would not say its stage."""


def _token(stage: str, option: str) -> str:
    # "operands-output" is the short name of a reading that rounds the difference too.
    return "cast-operands-output" if option == "operands-output" else _PREFIX.get(stage, "") + option


@cache
def _tokens() -> Mapping[str, tuple[str, str]]:
    """Stage and option of every word that a name is made of."""
    hints = get_type_hints(Stepwise)
    return {
        _token(field.name, option): (field.name, option)
        for field in fields(Stepwise)
        for option in get_args(hints[field.name])
        if option != field.default
    }


@cache
def _name(reading: Stepwise) -> str:
    for name, known in _SHORT.items():
        if known == reading:
            return name
    given = {(field.name, getattr(reading, field.name)) for field in fields(reading)}
    return "+".join(token for token, stage in _tokens().items() if stage in given)


@cache
def by_name(name: str) -> Stepwise:
    """The reading of that name. Raises KeyError when there is none."""
    if name in _SHORT:
        return _SHORT[name]
    chosen: dict[str, Any] = dict(_tokens()[token] for token in name.split("+"))
    reading = Stepwise(**chosen)
    if reading.name != name:
        raise KeyError(name)
    return reading
