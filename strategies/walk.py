"""The coverage walk: a deterministic, stratified list of valid calls.

First comes one call for every cell, so that a small budget covers all cells. Then come every special scale, a second call for
every cell in another rank, usual blocks, every structure (rank, extent, axis, block) with every type of x, every exponent of a
scale with every code, and ordinary weights. A sweep makes the weights early. The large calls are in `xverify.strategies.large`.
The other choices of a structure follow from a hash of its number. With fixed strides, only some combinations came up: with 12
types and 6 layouts each type had one layout.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, product
from typing import TypeVar

from xverify.contracts.model import Cell, Contract, Domain
from xverify.core.call import BITS, LAYOUTS, Call
from xverify.core.dtypes import INTEGERS
from xverify.strategies.repair import Repair
from xverify.strategies.structures import Linear, Range, Structure, build
from xverify.strategies.values import (
    EVERY_EXPONENT,
    ONE_SPECIAL,
    RANGE_RECIPES,
    SCALE_RECIPES,
    ZERO_POINT_RECIPES,
    exponents_of,
    special_scales,
)

T = TypeVar("T")

TAILS = (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 300, 1000, 1023, 4099)
"""Extents near the widths of vectors and of unrolled loops."""

SHAPES: tuple[tuple[int, ...], ...] = (
    (),
    (0,),
    *((n,) for n in TAILS),
    (1, 1),
    (3, 0),
    (0, 5),
    (4, 80),
    (80, 4),
    (1, 300),
    (300, 1),
    (17, 33),
    (2, 3, 4),
    (3, 1, 65),
    (5, 0, 2),
    (1, 16, 31),
    (2, 3, 4, 5),
    (1, 3, 1, 129),
    (2, 2, 3, 2, 7),
    (1, 2, 1, 2, 1, 3),
    (2, 1, 3, 2, 2, 17),
    (16, 1025),
)
"""Shapes of rank 0 to 6: empty ones, ones, tails, extents past 256, and sizes that implementations split among threads."""

WIDE, TIES_EACH = ("int32",), 12
"""Types of x whose products float64 cannot hold, and the number of calls next to ties for each pair of scale and output."""

CELL_SHAPES = {"per_tensor": (257,), "per_axis": (4, 80), "blocked": (3, 110)}
"""Shapes with room for all 256 codes, for the calls of the cells."""

VECTOR = 64
"""The elements of the longest vector: 512 bits of 8-bit codes. A larger call enters the main loop of a kernel."""

ORDINARY = ("drawn", "table", "power-of-two", "near-power-of-two")
"""Recipes of ordinary scales: finite, not zero, and neither very large nor very small."""

SECOND_SHAPES = {"per_axis": (2, 5, 9), "blocked": (2, 2, 37)}
"""Shapes for the second calls of the cells: of another rank, and with more elements than a vector."""

USUAL_BLOCKS = (32, 128, 16, 64, 256)
"""The block sizes of quantized models. Their blocks lie along the last axis."""

BEFORE_BLOCKS = ((3,), (2, 2), (), (1, 2, 2))
"""The other extents of a call with usual blocks."""


WEIGHT_TYPES = ("int4", "uint8", "int8", "uint4")
WEIGHT_BLOCKS = (32, 16, 32, 64)
"""Types and block sizes of the weights of quantized models."""


def scale_outputs(domain: Domain) -> tuple[tuple[str, str], ...]:
    """Every pair (scale dtype, attribute output_dtype) that the domain admits. "" stands for no attribute."""
    plain = [(scale, "") for scale in domain.scale_dtypes if scale in domain.output_dtypes]
    with_attribute = product(domain.scale_dtypes, domain.output_dtypes) if domain.output_dtype_attribute else ()
    return (*plain, *with_attribute)


def zero_point_choices(domain: Domain, x_dtype: str) -> tuple[str, ...]:
    """The zero point dtypes beside a type of x, and "" if the zero point may be absent."""
    return (*domain.zero_points_for(x_dtype), *(() if domain.zero_point_required else ("",)))


def axes(domain: Domain, granularity: str, shape: tuple[int, ...]) -> tuple[int | None, ...]:
    """The axes that a structure may have. None stands for a call without the attribute.

    There is each axis counted from the front, and from the back where the edition allows it. Blocks have no axis of extent 0,
    since no text gives the shape of their scale.
    """
    if granularity == "per_tensor":
        # ONNX's text ignores the axis of such a call, even out of range. Other calls leave it out.
        return (
            (None, 0, -7, 9)
            if "axis" in domain.attributes and domain.default_axis == 1 and not _qtype(domain)
            else (None,)
        )
    if "axis" not in domain.attributes:
        return (None,)
    usable = [axis for axis, extent in enumerate(shape) if extent or granularity != "blocked"]
    choices: list[int | None] = [*usable]
    if domain.default_axis is not None:
        choices += [axis - len(shape) for axis in usable]
        if domain.default_axis in usable:
            choices.append(None)
    return tuple(choices)


def _qtype(domain: Domain) -> bool:
    return "qtype" in domain.attributes


def block_sizes(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    """Block sizes for an extent: divisors, some with a remainder, and some near the extent or past it."""
    extent = shape[axis]
    sizes = (1, 2, 3, 16, 32, 128, extent // 3, extent // 2, extent - 1, extent, extent + 1, 2 * extent + 5)
    return tuple(sorted({size for size in sizes if size >= least_block(shape)}))


def least_block(shape: Sequence[int]) -> int:
    """The smallest block size.

    In rank 1, blocks of one element could be per axis too, which the texts leave open.
    """
    return 2 if len(shape) == 1 else 1


def fits(contract: Contract, granularity: str, shape: tuple[int, ...]) -> bool:
    """True if the contract allows that granularity for a shape."""
    if contract.domain.ranks and len(shape) not in contract.domain.ranks:
        return False
    if granularity == "per_tensor":
        return True
    if not shape or (granularity == "blocked" and (not any(shape) or max(shape) < least_block(shape))):
        return False
    # For rank 1, version 19 says that per-tensor quantization applies. That leaves the call open, so it is not valid.
    return not (len(shape) == 1 and contract.id == "ai.onnx/DequantizeLinear-19")


def shapes_of(domain: Domain) -> tuple[tuple[int, ...], ...]:
    """The shapes of the walk.

    Other ranks become the largest that the edition admits: first axes are merged, or added.
    """
    if not domain.ranks:
        return SHAPES
    rank = max(domain.ranks)
    folded = ((*(1,) * (rank - len(shape)), *shape) for shape in SHAPES if len(shape) <= rank)
    merged = ((math.prod(s[: len(s) - rank + 1]), *s[len(s) - rank + 1 :]) for s in SHAPES if len(s) > rank)
    return tuple(dict.fromkeys((*folded, *merged)))


def cell_structures(contract: Contract) -> Iterator[Structure]:
    """One structure for each cell."""
    domain = contract.domain
    turn = count()
    if domain.family == "range":
        for dtype, mode, narrow, out in range_choices(domain):
            recipe = RANGE_RECIPES[next(turn) % len(RANGE_RECIPES)]
            yield Range(dtype, mode, (257,), narrow, out, range_recipe=recipe, seed=next(turn))
        return
    for granularity, (scale, out), x_dtype in product(domain.granularities, scale_outputs(domain), domain.x_dtypes):
        for zero_point in zero_point_choices(domain, x_dtype):
            n = next(turn)
            shape = CELL_SHAPES[granularity]
            axis = None if granularity == "per_tensor" or domain.default_axis == 1 else 1
            block_size = (16, 32, 100)[n % 3] if granularity == "blocked" else 0
            yield Linear(
                x_dtype, scale, granularity, shape, zero_point, out, axis, block_size,
                scale_recipe=SCALE_RECIPES[n % 2], zero_point_recipe=ZERO_POINT_RECIPES[n % 3], seed=n,
            )  # fmt: skip


def second_structures(contract: Contract) -> Iterator[Structure]:
    """A call for each cell in another rank than the lap's, with ordinary scales.

    Cells with such a call among the shapes are left out, and so are linear cells per tensor, since their lap has two ranks.
    """
    met = {_cell(s) for s in shape_structures(contract) if _is_second(s)}
    for n, structure in enumerate(cell_structures(contract)):
        if _cell(structure) in met:
            continue
        met.add(_cell(structure))
        if isinstance(structure, Range):
            yield replace(structure, shape=(3, 5, 7), range_recipe="drawn", seed=4000 + n)
            continue
        if structure.granularity == "per_tensor":
            continue
        shape, is_blocked = SECOND_SHAPES[structure.granularity], structure.granularity == "blocked"
        if not fits(contract, structure.granularity, shape):
            continue
        yield replace(
            structure, shape=shape, axis=len(shape) - 1 if is_blocked else structure.axis,
            block_size=(4, 16, 32)[n % 3] if is_blocked else 0,
            scale_recipe="drawn", zero_point_recipe="random", seed=4000 + n,
        )  # fmt: skip


def _cell(structure: Structure) -> tuple[object, ...]:
    """The types and the granularity of a structure, or its types and mode."""
    if isinstance(structure, Range):
        return structure.input_dtype, structure.mode, structure.narrow_range, structure.output_dtype
    out = structure.output_dtype or structure.scale_dtype
    return structure.x_dtype, structure.scale_dtype, structure.zero_point_dtype, out, structure.granularity


def _is_second(structure: Structure) -> bool:
    """True for a shape past one vector, in another rank than the lap's, with ordinary scales."""
    recipe = structure.range_recipe if isinstance(structure, Range) else structure.scale_recipe
    return (
        len(structure.shape) > 2 and math.prod(structure.shape) > VECTOR and recipe in ORDINARY and _varies(structure)
    )


def _varies(structure: Structure) -> bool:
    """True if x keeps several codes in its layout."""
    return structure.layout != "broadcast" or any(extent > 1 for extent in structure.shape[:-1])


def block_structures(contract: Contract) -> Iterator[Structure]:
    """Usual block sizes on the last axis for each type of x.

    There are 2 to 5 whole blocks, with a remainder and without one.
    """
    domain = contract.domain
    if "blocked" not in domain.granularities:
        return
    pairs = scale_outputs(domain)
    for n, (block_size, has_remainder, x_dtype) in enumerate(product(USUAL_BLOCKS, (False, True), domain.x_dtypes)):
        pick = Picks(400_000 + n)
        extent = block_size * pick((2, 3, 4, 5)) + (pick((1, block_size // 2, block_size - 1)) if has_remainder else 0)
        shape = (*pick(BEFORE_BLOCKS), extent)
        if not fits(contract, "blocked", shape):
            shape = (3, extent)
        scale, out = pick(pairs)
        last = (len(shape) - 1, -1) if "axis" in domain.attributes else (None,)
        yield Linear(
            x_dtype, scale, "blocked", shape, pick(zero_point_choices(domain, x_dtype)), out, pick(last), block_size,
            pick(("C", *LAYOUTS)), pick(("drawn", "table")), "random", 4000 + n,
            pick(("C", *LAYOUTS)),
        )  # fmt: skip


def weight_structures(contract: Contract) -> Iterator[Structure]:
    """Matrices as models have them: several whole blocks on both axes, or a scale for each row or column.

    The granularities take turns. Formulas of ranges have none.
    """
    domain = contract.domain
    if domain.family == "range":
        return
    types = [dtype for dtype in WEIGHT_TYPES if dtype in domain.x_dtypes]
    usual = [pair for pair in scale_outputs(domain) if not pair[1] and pair[0] in ("float32", "float16")]
    granularities = [name for name in ("blocked", "per_axis") if name in domain.granularities]
    parts = product(range(10), enumerate(usual), enumerate(types), granularities)
    for n, (number, (k, (scale, out)), (m, x_dtype), granularity) in enumerate(parts):
        pick = Picks(600_000 + n)
        block_size = pick(WEIGHT_BLOCKS)
        shape = pick(((2 * block_size, 3 * block_size), (3 * block_size, 2 * block_size)))
        if not fits(contract, granularity, shape):
            continue
        choices, zero_points = axes(domain, granularity, shape), zero_point_choices(domain, x_dtype)
        yield Linear(
            x_dtype, scale, granularity, shape, zero_points[(number // len(choices) + m // 2 + k) % len(zero_points)], out,
            choices[(number + m + 2 * k) % len(choices)], block_size if granularity == "blocked" else 0,
            scale_recipe=pick(("drawn", "table")), seed=6000 + n,
        )  # fmt: skip


def range_choices(domain: Domain) -> list[tuple[str, str, bool | None, str]]:
    """Every (input dtype, mode, narrow_range, output dtype) that the domain admits."""
    narrow: tuple[bool | None, ...] = (None, True, False) if "narrow_range" in domain.attributes else (None,)
    outputs = ("", *domain.output_dtypes) if "dtype" in domain.attributes else ("",)
    return [
        (dtype, mode, width, out)
        for width, out, mode, dtype in product(narrow, outputs, domain.modes, domain.x_dtypes)
        if out != "bfloat16" or mode == "MIN_COMBINED"
    ]


class Picks:
    """Pseudo-random choices that follow from a number. Each call makes the next choice."""

    def __init__(self, number: int) -> None:
        self._bits = int.from_bytes(hashlib.sha256(str(number).encode()).digest())

    def __call__(self, options: Sequence[T]) -> T:
        self._bits, choice = divmod(self._bits, len(options))
        return options[choice]


def shape_structures(contract: Contract) -> Iterator[Structure]:
    """Every shape and granularity with every type of x. A hash gives the other choices."""
    domain = contract.domain
    pairs, turn = scale_outputs(domain), count()
    if domain.family == "range":
        choices = range_choices(domain)
        modes = ((shape, mode, dtype) for shape, dtype, mode in product(SHAPES, domain.x_dtypes, domain.modes))
        for shape, mode, dtype in modes:
            n = next(turn)
            pick = Picks(n)
            _, _, narrow, out = pick([c for c in choices if c[:2] == (dtype, mode)])
            yield Range(dtype, mode, shape, narrow, out, pick(LAYOUTS), pick(RANGE_RECIPES), 1000 + n)
        return
    for shape, granularity, x_dtype in product(shapes_of(domain), domain.granularities, domain.x_dtypes):
        if not fits(contract, granularity, shape):
            continue
        n = next(turn)
        pick = Picks(n)
        scale, out = pick(pairs)
        axis = pick(axes(domain, granularity, shape))
        from_front = (axis if axis is not None else domain.default_axis or 0) % len(shape) if shape else 0
        yield Linear(
            x_dtype, scale, granularity, shape,
            pick(zero_point_choices(domain, x_dtype)), out, axis,
            pick(block_sizes(shape, from_front)) if granularity == "blocked" else 0,
            pick(LAYOUTS), pick(SCALE_RECIPES), pick(ZERO_POINT_RECIPES), 1000 + n, pick(LAYOUTS),
        )  # fmt: skip


def special_structures(contract: Contract) -> Iterator[Structure]:
    """Every special scale in every pair of scale and output types, per tensor if the edition admits that.

    A random scale is seldom special. Then come values next to ties, where float64 cannot hold the product.
    """
    domain = contract.domain
    if domain.family == "range":
        return
    turn = count()
    granularity = "per_tensor" if "per_tensor" in domain.granularities else domain.granularities[0]
    axis = None if granularity == "per_tensor" or domain.default_axis == 1 else 1
    block_size = 16 if granularity == "blocked" else 0
    for scale, out in scale_outputs(domain):
        for number in range(len(special_scales(scale))):
            n = next(turn)
            pick = Picks(-1 - n)
            x_dtype = pick(domain.x_dtypes)
            zero_point = pick(zero_point_choices(domain, x_dtype))
            yield Linear(
                x_dtype,
                scale,
                granularity,
                CELL_SHAPES[granularity],
                zero_point,
                out,
                axis,
                block_size,
                scale_recipe=f"{ONE_SPECIAL}{number}",
                seed=5000 + n,
            )
    for (scale, out), x_dtype in product(scale_outputs(domain), WIDE):
        for _ in range(TIES_EACH if x_dtype in domain.x_dtypes and scale == "float32" else 0):
            zero_point = Picks(-1 - (n := next(turn)))(zero_point_choices(domain, x_dtype))
            yield Linear(
                x_dtype, scale, granularity, CELL_SHAPES[granularity], zero_point, out, axis, block_size,
                scale_recipe="near-tie", zero_point_recipe="zero", seed=5000 + n,
            )  # fmt: skip


def exponent_structures(contract: Contract) -> Iterator[Structure]:
    """Every exponent of a scale with every code of a small type.

    Random scales seldom reach the exponents from which on a kernel computes in another way. Each type of x and of scale comes
    once with a scale for each row, per axis or blocked, and once with a scale for each column. There is none for editions that
    are per tensor only.
    """
    domain = contract.domain
    in_rows = [granularity for granularity in domain.granularities if granularity != "per_tensor"]
    if domain.family == "range" or not in_rows:
        return
    pairs, turn = scale_outputs(domain), count()
    plain, explicit = ([pair for pair in pairs if bool(pair[1]) == has_output] for has_output in (False, True))
    for x_dtype in domain.x_dtypes:
        next_explicit = [explicit[next(turn) % len(explicit)]] if explicit else []
        for (scale, out), is_column in product((*plain, *next_explicit), (False, True)):
            n = next(turn)
            granularity = "per_axis" if is_column else in_rows[n // 2 % len(in_rows)]
            if granularity not in in_rows:
                continue
            exponents, codes = exponents_of(scale), 1 << min(BITS[x_dtype], 8)
            zero_points = zero_point_choices(domain, x_dtype)
            # A zero point hides some sizes of float codes, so floats have none here if they may have none.
            zero_point = Picks(-100_000 - n)(zero_points if x_dtype in INTEGERS else zero_points[-1:])
            shape = (codes, exponents) if is_column else (exponents, codes)
            if granularity == "blocked":
                shape = (1, exponents * codes)
            yield Linear(
                x_dtype, scale, granularity, shape, zero_point, out,
                None if "axis" not in domain.attributes else 0 if shape[0] == exponents else 1,
                codes if granularity == "blocked" else 0,
                scale_recipe=EVERY_EXPONENT, seed=8000 + n,
            )  # fmt: skip


def walk_structures(contract: Contract) -> Iterator[tuple[Structure, str]]:
    """The structures of the whole walk, each with the origin of its call."""
    for n, structure in enumerate(cell_structures(contract)):
        yield structure, f"walk cell {n}"
    for n, structure in enumerate(special_structures(contract)):
        yield structure, f"walk special scale {n}"
    for n, structure in enumerate(second_structures(contract)):
        yield structure, f"walk second {n}"
    for n, structure in enumerate(block_structures(contract)):
        yield structure, f"walk blocks {n}"
    for n, structure in enumerate(shape_structures(contract)):
        yield structure, f"walk structure {n}"
    for n, structure in enumerate(exponent_structures(contract)):
        yield structure, f"walk exponents {n}"
    for n, structure in enumerate(weight_structures(contract)):
        yield structure, f"walk weights {n}"


def official_calls(contract: Contract) -> Iterator[Call]:
    """The calls whose results the document states. A sweep makes them early in its walk.

    The text may leave them open.
    """
    for case in contract.official_cases():
        yield case.call


def walk(contract: Contract) -> Iterator[Call]:
    """The walk without its large calls: cells, special scales, blocks, structures, exponents, weights."""
    for structure, origin in walk_structures(contract):
        yield build(contract, structure, origin)


def simplest(contract: Contract, cell: Cell) -> Call:
    """The simplest allowed call of a cell: two values, a scale near 1 and zero point 0.

    An implementation that refuses it does not support the cell. Where an edition allows no such call, the call is repaired.
    """
    if contract.domain.family == "range":
        mode, _, narrow = cell.variant.partition(" ")
        structure: Structure = Range(
            cell.x_dtype, mode, (2,), True if narrow else None, "" if cell.out_dtype == "float32" else cell.out_dtype,
            range_recipe="symmetric",
        )  # fmt: skip
    else:
        out = cell.out_dtype if contract.domain.output_dtype_attribute and cell.out_dtype != cell.scale_dtype else ""
        axis = None if contract.domain.default_axis == 1 or cell.granularity == "per_tensor" else 1
        structure = Linear(
            cell.x_dtype, cell.scale_dtype, cell.granularity, (2,) if cell.granularity == "per_tensor" else (1, 2),
            cell.zero_point_dtype, out, axis, 2 if cell.granularity == "blocked" else 0,
            scale_recipe="power-of-two", zero_point_recipe="zero",
        )  # fmt: skip
    call = build(contract, structure, "simplest of its cell")
    return Repair(contract)(call) or call
