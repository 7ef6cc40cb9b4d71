"""The calls of a node alone.

Constants are its own. For an x that is known at run time only, every code meets every scale and zero point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xverify.core.call import BITS, Call, Tensor, code_dtype
from xverify.core.dtypes import FLOATS, encode, integer_range, is_float
from xverify.model.nodes import Constant, Node, Operand
from xverify.model.tiles import Slices, beside, tiles

PART = 1 << 18
"""The largest number of values of a call, unless one block or one channel has more."""

DRAWS = 8
"""The number of scales and zero points that stand for those that are known at run time only."""

CHOSEN_CODES = 4096
"""The number of codes of a type of 32 bits."""

MOST_AXES = 32
"""The largest rank for an x of unknown rank, since NumPy has a limit. A larger axis counts as wrong."""

SCALE_EXPONENTS = (-12.0, 3.0)
"""The range of the drawn scales, as powers of two."""


@dataclass(frozen=True, eq=False)
class Piece:
    """One call of a node. Its tensors are read when it is made."""

    values: int
    make: Callable[[], Call]


@dataclass(frozen=True, eq=False)
class NodeCalls:
    """The calls of a node, as far as they are within the limit of values."""

    pieces: tuple[Piece, ...]
    values: int
    """The number of values of these calls."""
    of: int
    """The number of values of all calls of the node."""


def unknown(node: Node) -> str:
    """The reason why a node has no calls, as a clause of a sentence; "" if it has some."""
    for role in ("x", "scale"):
        operand = node.operands.get(role)
        if operand is None:
            return f"it has no {role}"
        if not operand.dtype:
            return f"the type of its {role} is unknown"
        if operand.dtype not in BITS:
            return f"its {role} has type {operand.dtype}, which no DequantizeLinear takes"
    return ""


def calls_of(node: Node, seed: int, most: int) -> NodeCalls:
    """The calls of a node.

    A constant x is cut into parts. For an x that is known at run time only, every code meets every scale and zero point.

    Args:
        node: The node. `unknown` must be "".
        seed: The seed of drawn scales, zero points and codes.
        most: The largest number of values of all calls. Beyond it, calls at equal distances are left out.
    """
    pieces = tuple(_pieces(node, np.random.default_rng(seed)))
    every = sum(piece.values for piece in pieces)
    if every > most and len(pieces) > 1:
        keep = max(2, len(pieces) * most // every)
        pieces = tuple(
            pieces[index] for index in dict.fromkeys(np.linspace(0, len(pieces) - 1, keep).astype(int).tolist())
        )
    return NodeCalls(pieces, sum(piece.values for piece in pieces), every)


@dataclass(frozen=True, eq=False)
class _Shapes:
    """The shapes of a node's operands, with an extent for each unknown one."""

    x: tuple[int, ...]
    scale: tuple[int, ...]
    axis: int
    """The axis of the scale, counted from the front; -1 for one scale of the whole tensor."""
    block: int
    """The block size; 0 without blocks."""

    def beside(self, tile: Slices) -> Slices:
        """The part of the scale that belongs to a tile of x."""
        return beside(tile, self.scale, self.axis, self.block)


def _pieces(node: Node, random: np.random.Generator) -> Iterator[Piece]:
    shapes = _shapes(node)
    x = node.operands["x"]
    draws = _draws(node, shapes, random)
    if x.constant is not None:
        for draw in draws if len(draws) == 1 else draws[:2]:
            for index in tiles(shapes.x, shapes.axis, shapes.block, PART):
                yield _piece(node, shapes, draw, index, x.constant)
    else:
        codes = _codes(x.dtype, random)
        for draw in draws:
            yield from _every_code(node, shapes, draw, codes)


# --- shapes -------------------------------------------------------------------------------------


def _shapes(node: Node) -> _Shapes:
    x, scale = node.operands["x"], node.operands["scale"]
    block = max(0, int(node.attributes.get("block_size", 0)))
    known = _shape_of(x)
    scale_shape = _shape_of(scale) or ()
    typed = int(node.attributes.get("axis", 1))
    if block and len(scale_shape) != (len(scale_shape) if known is None else len(known)):
        block = 0
    rank = len(known) if known is not None else len(scale_shape) if block else _rank(typed, scale_shape)
    axis = typed + rank if typed < 0 else typed
    if not scale_shape or not 0 <= axis < rank:
        return _Shapes(tuple(extent or 1 for extent in known or (1,) * rank), _filled(scale_shape, 1), -1, 0)
    if block:
        extents = [
            s if s is not None else (1 if e is None else -(-e // block) if i == axis else e)
            for i, (s, e) in enumerate(zip(scale_shape, known or (None,) * rank, strict=True))
        ]
        whole = tuple(extent * block if i == axis else extent for i, extent in enumerate(extents))
        shape = whole if known is None else tuple(w if e is None else e for w, e in zip(whole, known, strict=True))
        if any(s != (-(-e // block) if i == axis else e) for i, (s, e) in enumerate(zip(extents, shape, strict=True))):
            return _Shapes(shape, tuple(extents), -1, 0)  # the edition forbids it, so nothing may be cut
        return _Shapes(shape, tuple(extents), axis, block)
    if len(scale_shape) != 1:
        return _Shapes(_filled(known or (None,) * rank, 1), _filled(scale_shape, 1), -1, 0)
    along = known[axis] if known is not None else None
    channels = scale_shape[0] if scale_shape[0] is not None else along or 2
    shape = tuple((e or channels) if i == axis else (e or 1) for i, e in enumerate(known or (None,) * rank))
    if along not in (None, channels):
        return _Shapes(shape, (channels,), -1, 0)
    return _Shapes(shape, (channels,), axis, 0)


def _shape_of(operand: Operand) -> tuple[int | None, ...] | None:
    return operand.shape if operand.constant is None else operand.constant.shape


def _filled(shape: Sequence[int | None], extent: int) -> tuple[int, ...]:
    return tuple(extent if e is None else e for e in shape)


def _rank(axis: int, scale_shape: Sequence[int | None]) -> int:
    """The smallest rank of x that has the axis, and a second axis for the codes if the scale is 1-D."""
    return 1 if not scale_shape else min(MOST_AXES, max(2, axis + 1, -axis))


# --- operands -----------------------------------------------------------------------------------

_Draw = dict[str, Tensor]
"""The drawn operands by role. A constant operand has no entry."""


def _draws(node: Node, shapes: _Shapes, random: np.random.Generator) -> list[_Draw]:
    """The scales and zero points that stand for those of run time. One empty entry if both are constant."""
    roles = [role for role in ("scale", "zero_point") if role in node.operands]
    drawn = [role for role in roles if node.operands[role].constant is None]
    if not drawn:
        return [{}]
    x = node.operands["x"]
    count = DRAWS if not math.prod(shapes.scale) > 1 else 2
    draws = []
    for number in range(count):
        draw = {}
        for role in drawn:
            operand = node.operands[role]
            if role == "scale":
                exponents = np.zeros(shapes.scale) if number == 0 else random.uniform(*SCALE_EXPONENTS, shapes.scale)
                draw[role] = Tensor(operand.dtype, np.asarray(encode(operand.dtype, np.exp2(exponents))))
            else:
                dtype = operand.dtype if operand.dtype in BITS else x.dtype
                draw[role] = Tensor(dtype, np.asarray(encode(dtype, _zero_points(dtype, number, shapes.scale, random))))
        draws.append(draw)
    return draws


def _zero_points(dtype: str, number: int, shape: tuple[int, ...], random: np.random.Generator) -> NDArray[np.int64]:
    """Zero points: 0, the lowest, the highest, and then drawn ones. Floats and int32 admit 0 only."""
    if is_float(dtype) or BITS[dtype] > 16 or number == 0:
        return np.zeros(shape, np.int64)
    low, high = integer_range(dtype)
    if number in (1, 2):
        return np.full(shape, (low, high)[number - 1], np.int64)
    return random.integers(low, high + 1, shape)


def _codes(dtype: str, random: np.random.Generator) -> NDArray[np.unsignedinteger]:
    """All codes of a type of at most 16 bits; of a wider one, the edges and drawn ones."""
    bits = BITS[dtype]
    if bits <= 16:
        return np.arange(1 << bits, dtype=np.int64).astype(code_dtype(dtype))
    if dtype in FLOATS:
        return random.integers(0, 1 << bits, CHOSEN_CODES, np.uint64).astype(code_dtype(dtype))
    powers = [1 << bit for bit in range(bits)]
    edges = [code for power in powers for code in (power - 1, power, power + 1, -power, -power - 1, 1 - power)]
    drawn = random.integers(0, 1 << bits, CHOSEN_CODES - len(edges), np.uint64).astype(np.int64).tolist()
    return (np.array([*edges, *drawn], np.int64) & np.int64((1 << bits) - 1)).astype(code_dtype(dtype))


def _operand(operand: Operand, draw: _Draw, role: str, index: Slices, scale: tuple[int, ...]) -> Tensor:
    if operand.constant is None:
        return Tensor(draw[role].dtype, np.array(draw[role].codes[index]))
    # A zero point of another shape than the scale's is read whole, so that the edition can judge it.
    shape = operand.constant.shape
    return operand.constant.part(index if shape == scale else tuple(slice(0, extent) for extent in shape))


def _call(node: Node, shapes: _Shapes, x: Tensor, draw: _Draw, beside: Slices) -> Call:
    tensors = {"x": x}
    for role in ("scale", "zero_point"):
        if role in node.operands:
            tensors[role] = _operand(node.operands[role], draw, role, beside, shapes.scale)
    return Call(node.contract, tensors, dict(node.attributes), f"node {node.name}")


def _piece(node: Node, shapes: _Shapes, draw: _Draw, index: Slices, constant: Constant) -> Piece:
    values = math.prod(each.stop - each.start for each in index)
    return Piece(
        values,
        lambda: _call(node, shapes, constant.part(index), draw, shapes.beside(index)),
    )


def _every_code(node: Node, shapes: _Shapes, draw: _Draw, codes: NDArray[np.unsignedinteger]) -> Iterator[Piece]:
    """Calls in which every code of x meets every scale."""
    dtype, count, rank = node.operands["x"].dtype, len(codes), len(shapes.x)
    if shapes.block:
        yield from _every_code_in_blocks(node, shapes, draw, codes)
        return
    if shapes.axis < 0:
        x = codes.reshape((1,) * (rank - 1) + (count,))
        whole = tuple(slice(0, extent) for extent in shapes.scale)
        yield Piece(count, lambda: _call(node, shapes, Tensor(dtype, x), draw, whole))
        return
    channels, axis = shapes.scale[0], shapes.axis
    if rank == 1:
        steps = range(0, count, -(-count // 256))
        for step in steps:
            shifted = codes[(np.arange(channels) + step) % count]
            yield Piece(channels, lambda x=shifted: _call(node, shapes, Tensor(dtype, x), draw, (slice(0, channels),)))  # type: ignore[misc]
        return
    other = rank - 1 if axis != rank - 1 else rank - 2
    size = max(1, PART // count)
    for start in range(0, channels, size):
        part = slice(start, min(start + size, channels))

        def make(part: slice = part) -> Call:
            shape = [1] * rank
            shape[other] = count
            row = codes.reshape(shape)
            shape[axis] = part.stop - part.start
            return _call(node, shapes, Tensor(dtype, np.array(np.broadcast_to(row, shape))), draw, (part,))

        yield Piece((part.stop - part.start) * count, make)


def _every_code_in_blocks(
    node: Node, shapes: _Shapes, draw: _Draw, codes: NDArray[np.unsignedinteger]
) -> Iterator[Piece]:
    """The same for blocks. The elements of a block have successive codes; further calls go on with them."""
    dtype, count, axis, block = node.operands["x"].dtype, len(codes), shapes.axis, shapes.block
    for index in tiles(shapes.x, axis, block, PART):
        shape = [each.stop - each.start for each in index]
        for first in range(0, count, block):

            def make(index: Slices = index, shape: list[int] = shape, first: int = first) -> Call:
                within = np.arange(index[axis].start, index[axis].stop) % block
                along = [1] * len(shape)
                along[axis] = len(within)
                row = codes[(within + first) % count].reshape(along)
                x = Tensor(dtype, np.array(np.broadcast_to(row, shape)))
                return _call(node, shapes, x, draw, shapes.beside(index))

            yield Piece(math.prod(shape), make)
