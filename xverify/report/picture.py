"""Pictures of wrong values: result over due value, and the error, against the code of x.

A picture needs the report alone. The witness of a finding fixes the scale, the zero point or the range. The recipe that the
finding names and the readings that its text admits then give a value for each code of x. If the recipe does not give the
witness's own bits, only the measured values are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic import indexing, range_lattice, readings
from xverify.arithmetic.linear_operands import linear_operands
from xverify.arithmetic.reading import Operands
from xverify.core.bits import canonical
from xverify.core.call import BITS, Tensor, code_dtype
from xverify.core.codec import call_from_json
from xverify.core.dtypes import QUANTIZED, encode, integer_range, values
from xverify.core.errors import DamagedFileError
from xverify.report.summary import Json
from xverify.verify.attribute import RESULTS
from xverify.verify.cause_titles import flat, operand_position

FEWEST = 4
"""Fewest measured values that make a picture without a recipe."""

MOST_CODES = 257
"""Number of codes that are drawn of a type with more than 8 bits."""

WIDTH, UPPER, LOWER = 360.0, 110.0, 60.0
"""Width of a picture, and heights of its two plots, in units of the picture."""

GAP = 18.0
"""Distance between the two plots."""


@dataclass(frozen=True)
class Picture:
    """The geometry and labels of a picture. All paths are in units of the picture."""

    got: str
    """Path of the values that the implementation gives."""
    due: str
    """Path of the nearest values that the text allows."""
    error: str
    """Path of the error, one stroke for each code."""
    shaded: tuple[tuple[float, float], ...]
    """Left side and width of each range of codes with wrong values."""
    measured: tuple[tuple[float, float], ...]
    """Positions of the values that the implementation gave in the run."""
    zero: float | None
    """Height of the value 0; None if it is outside."""
    x_labels: tuple[tuple[float, str], ...]
    y_labels: tuple[str, str]
    """Highest and lowest value."""
    error_label: str
    """Largest error."""
    caption: str


@dataclass(frozen=True)
class _Series:
    """Values against the codes of x, in the order of x."""

    x: NDArray[np.float64]
    got: NDArray[np.float64]
    due: NDArray[np.float64]
    wrong: NDArray[np.bool_]
    measured: tuple[tuple[float, float], ...]
    caption: str


def picture(findings: Sequence[Json]) -> Picture | None:
    """Draw the first finding with enough wrong values; None if there is none."""
    for finding in findings:
        series = _series(finding)
        if series is not None and series.wrong.any():
            return _drawn(series)
    return None


def _series(finding: Json) -> _Series | None:
    witness = finding["witness"]
    if witness is None or not witness["legal"] or not witness["got"] or not witness["got"]["tensor"]:
        return None
    if witness.get("in_graph"):
        return None  # a value of the graph's result may depend on several codes
    tensors = witness["call"]["tensors"]
    role = "x" if "x" in tensors else "input"
    if role not in tensors or any("hex" not in tensor for tensor in tensors.values()):
        return None
    if tensors[role]["dtype"] not in QUANTIZED or not tensors[role]["hex"]:
        return None
    try:
        return _computed(finding, role) or _measured(finding, role)
    except (ValueError, KeyError, IndexError, TypeError, DamagedFileError):
        return None  # A report may come from anywhere. A witness that makes no sense has no picture.


def _computed(finding: Json, role: str) -> _Series | None:
    """The recipe and the admitted readings on every code; None if they do not give the witness's own bits."""
    by = finding["attribution"]
    witness = finding["witness"]
    entry = witness["legal"][0]
    if by is None:
        return None
    tensors = witness["call"]["tensors"]
    fixed = {name: _element(tensor, entry["index"], tensors[role], witness["call"]) for name, tensor in tensors.items()}
    if None in fixed.values():
        return None
    out = witness["got"]["tensor"]["dtype"]
    attributes = witness["call"]["attributes"]
    options: dict[str, int | str | bool] = {}
    if role == "input":
        options = {
            "mode": str(attributes.get("mode", "MIN_COMBINED")),
            "narrow_range": bool(attributes.get("narrow_range", False)),
        }
    dtype = tensors[role]["dtype"]
    shown = _codes(dtype)
    own = np.array([fixed[role]], code_dtype(dtype))
    codes = {name: np.array(code, code_dtype(tensors[name]["dtype"])) for name, code in fixed.items()}
    codes[role] = np.concatenate([own, shown])
    dtypes = {name: tensor["dtype"] for name, tensor in tensors.items()}
    operands = Operands(codes, dtypes, out, codes[role].shape, options)
    named = range_lattice.by_name if role == "input" else readings.by_name
    mistake, _, reading = by["reading"].rpartition("@")
    misread = _misread(mistake, operands, witness, entry["index"]) if mistake else operands
    admitted = dict.fromkeys(name for legal in entry["legal"] for name in legal["readings"])
    if misread is None or not admitted:
        return None
    with np.errstate(all="ignore"):
        due = [canonical(np.asarray(named(name).evaluate(operands)), out) for name in admitted]
        if reading in RESULTS:
            got = RESULTS[reading].of(operands, lambda: due[0])
        else:
            got = canonical(np.asarray(named(reading).evaluate(misread)), out)
    legal = {int(result["hex"], 16) for result in entry["legal"]}
    if int(got[0]) != int(entry["got"], 16) or not {int(codes_of[0]) for codes_of in due} <= legal:
        return None
    numbers = values(out, got[1:])
    allowed = np.stack([values(out, codes_of[1:]) for codes_of in due])
    wrong = np.all(np.stack(due)[:, 1:] != got[1:], axis=0)
    wrong &= ~((numbers == 0) & np.any(_is_subnormal(np.stack(due)[:, 1:], out), axis=0))
    x = values(dtype, shown)
    order = np.argsort(x, kind="stable")
    every = "" if BITS[dtype] <= 8 else f" Drawn are {len(shown)} codes, evenly spread."
    caption = f"Computed from the recipe for each code of {dtype}; the ring is the measured value.{every}"
    ring = ((float(values(dtype, own)[0]), float(values(out, got[:1])[0])),)
    return _Series(x[order], numbers[order], _nearest(numbers, allowed)[order], wrong[order], ring, caption)


def _misread(mistake: str, right: Operands, witness: Json, index: Sequence[int]) -> Operands | None:
    """The operands with an indexing mistake; None if it does not show for one value of x after another."""
    gather = indexing.misindexing(mistake)
    call = call_from_json(witness["call"], Path())
    axis = call.attributes.get("axis", 1)
    several = any(tensor.size > 1 for role, tensor in call.tensors.items() if role != "x")
    whole = linear_operands(call, right.output_dtype, int(axis) if several else None)
    wrong = gather.operands(call, whole)
    if wrong is not None and wrong.dtypes == whole.dtypes and _is_same(wrong, whole, "x"):
        codes = {role: _at(wrong, role, index) for role in wrong.codes}
        return replace(right, codes={**codes, "x": right.codes["x"]})
    tensors = {role: Tensor(right.dtypes[role], np.asarray(codes)) for role, codes in right.codes.items()}
    return gather.operands(replace(call, tensors=tensors, attributes={}), right)


def _at(operands: Operands, role: str, index: Sequence[int]) -> NDArray[Any]:
    """The code of an operand for one value of the result."""
    return np.asarray(np.broadcast_to(operands.codes[role], operands.shape)[tuple(index)])


def _is_same(a: Operands, b: Operands, role: str) -> bool:
    return np.array_equal(np.broadcast_to(a.codes[role], a.shape), np.broadcast_to(b.codes[role], b.shape))


def _measured(finding: Json, role: str) -> _Series | None:
    """The wrong values of the witness alone."""
    witness = finding["witness"]
    x, out = witness["call"]["tensors"][role], witness["got"]["tensor"]["dtype"]
    rows = []
    for entry in witness["legal"]:
        number = _values(x["dtype"], x["hex"][flat(entry["index"], x["shape"])])
        got = _values(out, entry["got"])
        due = np.array([_values(out, legal["hex"]) for legal in entry["legal"]])
        rows.append((number, got, float(_nearest(np.array(got), due))))
    rows.sort(key=lambda row: row[0])
    if len({row[0] for row in rows}) < FEWEST:
        return None
    numbers, got_values, due_values = (np.array(column) for column in zip(*rows, strict=True))
    rings = tuple(zip(numbers.tolist(), got_values.tolist(), strict=True))
    caption = f"Measured: {len(rows)} wrong values of one call, with x of {x['dtype']}."
    return _Series(numbers, got_values, due_values, np.ones(len(rows), bool), rings, caption)


def _codes(dtype: str) -> NDArray[Any]:
    if BITS[dtype] <= 8:
        codes = np.arange(1 << BITS[dtype], dtype=code_dtype(dtype))
        return codes[np.isfinite(values(dtype, codes))]
    lowest, highest = integer_range(dtype)
    return encode(dtype, np.linspace(lowest, highest, MOST_CODES).round())


def _element(tensor: Json, index: Sequence[int], x: Json, call: Json) -> int | None:
    """The code that an operand has for one value of the result; None if the report does not tell."""
    position = operand_position(tensor, index, x["shape"], call["attributes"])
    return None if position is None else int(tensor["hex"][position], 16)


def _values(dtype: str, code: str) -> float:
    return float(values(dtype, np.array([int(code, 16)], code_dtype(dtype)))[0])


def _is_subnormal(codes: NDArray[Any], dtype: str) -> NDArray[np.bool_]:
    """The mask of values that an implementation may flush: nonzero, with the exponent 0."""
    mantissa = {"float32": 23, "float16": 10, "bfloat16": 7}.get(dtype, 0)
    magnitude = codes & codes.dtype.type((1 << (BITS[dtype] - 1)) - 1)
    return np.asarray((magnitude > 0) & (magnitude < (1 << mantissa)))


def _nearest(got: NDArray[np.float64], due: NDArray[np.float64]) -> NDArray[np.float64]:
    """The due value that is nearest to each value."""
    with np.errstate(invalid="ignore"):
        distance = np.abs(due - got)
    distance[np.isnan(distance)] = np.inf
    return np.asarray(np.take_along_axis(due, distance.argmin(axis=0)[np.newaxis], axis=0)[0])


# -- geometry ----------------------------------------------------------------------------------------------------------


def _drawn(series: _Series) -> Picture:
    count = len(series.x)
    across = (np.arange(count) + 0.5) / count * WIDTH
    seen = np.concatenate([series.got, series.due])
    finite_seen = seen[np.isfinite(seen)]
    low, high = float(finite_seen.min(initial=0.0)), float(finite_seen.max(initial=0.0))
    span = (high - low) or 1.0

    def up(number: float) -> float:
        """The height of a number. An infinity lies on the edge of the plot."""
        if math.isinf(number):
            return 0.0 if number > 0 else UPPER
        return round(UPPER - 4 - (number - low) / span * (UPPER - 8), 1)

    with np.errstate(invalid="ignore"):
        error = series.got - series.due
    largest = float(np.abs(error[np.isfinite(error)]).max(initial=0.0)) or 1.0
    top, middle = UPPER + GAP, UPPER + GAP + LOWER / 2
    reach = np.where(np.isnan(error), 0.0, np.clip(error / largest, -1, 1)) * (LOWER / 2 - 2)
    strokes = [
        f"M{across[i]:.1f} {middle:.1f}V{middle - reach[i]:.1f}"
        if not math.isnan(error[i])
        else f"M{across[i]:.1f} {top:.1f}V{top + LOWER:.1f}"
        for i in np.flatnonzero(series.wrong & (error != 0))
    ]
    measured = [
        (round(float(np.interp(x, series.x, across)), 1), up(number))
        for x, number in series.measured
        if not math.isnan(number) and series.x[0] <= x <= series.x[-1]
    ]
    labels = sorted({0, count // 2, count - 1})
    return Picture(
        got=_path(across, series.got, up),
        due=_path(across, series.due, up),
        error="".join(strokes),
        shaded=_ranges(series.wrong, WIDTH / count),
        measured=tuple(measured),
        zero=up(0.0) if low < high else None,
        x_labels=tuple((round(float(across[i]), 1), _plain(float(series.x[i]))) for i in labels),
        y_labels=(
            "inf" if np.isposinf(seen).any() else _plain(high),
            "-inf" if np.isneginf(seen).any() else _plain(low),
        ),
        error_label="inf" if np.isinf(error[series.wrong]).any() else _plain(largest),
        caption=series.caption,
    )


def _path(across: NDArray[np.float64], numbers: NDArray[np.float64], up: Any) -> str:
    """A line through the values. A NaN interrupts it."""
    parts, draws = [], False
    for x, number in zip(across.tolist(), numbers.tolist(), strict=True):
        if not math.isnan(number):
            parts.append(f"{'L' if draws else 'M'}{x:.1f} {up(number)}")
        draws = not math.isnan(number)
    return "".join(parts)


def _ranges(wrong: NDArray[np.bool_], step: float) -> tuple[tuple[float, float], ...]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], wrong, [False]]).astype(np.int8)))
    pairs = zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
    return tuple((round(start * step, 1), round((end - start) * step, 1)) for start, end in pairs)


def _plain(number: float) -> str:
    number += 0.0  # -0 becomes 0.
    return f"{number:.0f}" if number == int(number) and abs(number) < 1e10 else f"{number:.4g}"
