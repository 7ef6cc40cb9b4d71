"""Calls inside small graphs: what stands around the operator is drawn, and so is the call, from the structures of the walk."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain

import numpy as np

from xverify.contracts.model import Contract
from xverify.core.call import Call
from xverify.core.moves import AFTER, BEFORE
from xverify.core.surroundings import OPERATOR, opset_beside, requantizes, surround
from xverify.strategies.structures import Linear, Structure, build
from xverify.strategies.walk import cell_structures, shape_structures

MOST_VALUES = 600
"""Values of a call: a graph costs milliseconds before the first of them, and nothing in it depends on many."""

PER_TENSOR = ((257,), (4, 65), (1, 5, 53), (2, 3, 1, 43), (3, 4, 3, 2, 4))
"""Shapes for the lap's calls per tensor: room for most codes of a byte, and tails."""

_NOT_MOVED = 0.35
_MOVED_TWICE = 0.25
"""Shares of operands before which nothing stands, and two operators; the same after the result."""

_PARAMETER_MOVED = 0.15
_REQUANTIZED = 0.3
_CONSTANT_SCALE = 0.5
_OTHER_CONSTANT = 0.1
"""Of other parameters: those that are no constant although the scale is one, or the other way round; and of x, one constant."""

_SYMBOLIC = 0.15
_DRAWN = 4
"""Words that are drawn at most until one applies to the shape at hand, and does not stand for Identity."""

_SPELLED_FROM_THE_BACK = 0.3


def surrounded_calls(contract: Contract, seed: int) -> Iterator[Call]:
    """Allowed calls in surroundings, without end: the walk's small structures, those of its lap over the cells and the others in
    turn, each in a drawn order, again and again with other values. None where an edition has no such call."""
    rng = np.random.default_rng(seed)
    cells = (_reshaped(structure, rng) for structure in _without_end(_few_values(cell_structures(contract)), rng))
    shapes = _without_end(_few_values(shape_structures(contract)), rng)
    for number, structure in enumerate(chain.from_iterable(zip(cells, shapes, strict=False))):
        call = build(contract, structure, f"surrounded {number}")
        around = words(call, rng)
        if contract.judge(call).verdict == "allowed":
            yield replace(call, around=around)


def _reshaped(structure: Structure, rng: np.random.Generator) -> Structure:
    """Per tensor any shape will do: one with several axes, since of one there is little to move."""
    if isinstance(structure, Linear) and structure.granularity != "per_tensor":
        return structure
    return replace(structure, shape=PER_TENSOR[int(rng.integers(len(PER_TENSOR)))])


def _few_values(structures: Iterable[Structure]) -> list[Structure]:
    return [structure for structure in structures if math.prod(structure.shape) <= MOST_VALUES]


def _without_end(pool: Sequence[Structure], rng: np.random.Generator) -> Iterator[Structure]:
    while pool:
        for place in rng.permutation(len(pool)):
            yield replace(pool[place], seed=int(rng.integers(2**31)))


def words(call: Call, rng: np.random.Generator) -> tuple[str, ...]:
    """What stands around a call, drawn: at least one operator or one constant."""
    while True:
        found = [*_before(call, rng), *_after(call, rng), *_constants(call, rng)]
        if found:
            return (*found, *(["shapes:symbolic"] if rng.random() < _SYMBOLIC else []))


def _number(rng: np.random.Generator) -> int:
    number = int(rng.integers(12))
    return -1 - number if rng.random() < _SPELLED_FROM_THE_BACK else number


def _several(rng: np.random.Generator) -> int:
    drawn = rng.random()
    return 0 if drawn < _NOT_MOVED else 2 if drawn > 1 - _MOVED_TWICE else 1


@cache
def takes(name: str, opset: int, dtype: str) -> bool:
    """Whether the operators of a word take that type, by their schemas in that version of ai.onnx."""
    from onnx import defs

    operators = {"cut": ("Slice",), "pick": ("Gather",), "concat": ("Concat", "Slice")}.get(name, (name.capitalize(),))
    spelled = {"float32": "float", "float64": "double", "float8_e8m0fnu": "float8e8m0", "float4_e2m1fn": "float4e2m1"}
    ours = f"tensor({spelled.get(dtype, dtype.replace('_', ''))})"
    return all(ours in defs.get_schema(operator, opset).inputs[0].types for operator in operators)


_ONEDNN = ("transpose", "reshape", "squeeze", "unsqueeze", "flatten", "identity")
"""What oneDNN has an operation for, which takes float32, bfloat16 and float16 only."""


def _taken(call: Call, role: str, names: Sequence[str], dtype: str) -> list[str]:
    """Of names of words those whose operators take the type. TensorFlow's take every type that its calls have; scales of
    oneDNN's static operation are no tensors, before which something could stand."""
    if call.contract.startswith("tensorflow/"):
        return list(names)
    if call.contract.startswith("onednn/"):
        nothing = dtype not in ("float32", "bfloat16", "float16") or (
            role == "scale" and call.contract.startswith("onednn/Dequantize-")
        )
        return [] if nothing else [name for name in names if name in _ONEDNN]
    return [name for name in names if takes(name, opset_beside(call), dtype)]


def _word(call: Call, beginning: str, names: Sequence[str], rng: np.random.Generator) -> str:
    """A word of one of the names, of several that were drawn the first that applies to the call's shape."""
    drawn = ""
    for _ in range(_DRAWN):
        name = rng.choice(names)
        drawn = f"{beginning}{name}:{_number(rng)}"
        nodes = surround(replace(call, around=(drawn,))).nodes
        if name == "identity" or any(node.operator not in ("Identity", OPERATOR) for node in nodes):
            break
    return drawn


def _before(call: Call, rng: np.random.Generator) -> list[str]:
    found = []
    for role, tensor in call.tensors.items():
        many = _several(rng) if tensor is call.data else int(rng.random() < _PARAMETER_MOVED)
        known = _taken(call, role, BEFORE, tensor.dtype)
        found += [_word(call, f"{role}<", known, rng) for _ in range(many if known else 0)]
    return found


def _after(call: Call, rng: np.random.Generator) -> list[str]:
    out = call.attributes.get("output_dtype", call.tensors["scale"].dtype if "scale" in call.tensors else "float32")
    known = _taken(call, "y", AFTER, str(out))
    found = [_word(call, "y>", known, rng) for _ in range(_several(rng) if known else 0)]
    if rng.random() < _REQUANTIZED and requantizes(call):
        found.insert(int(rng.integers(len(found) + 1)), "y>requantize:0")
    return found


def _constants(call: Call, rng: np.random.Generator) -> list[str]:
    parameters = bool(rng.random() < _CONSTANT_SCALE)
    found = []
    for role, tensor in call.tensors.items():
        other = bool(rng.random() < _OTHER_CONSTANT)
        if other if tensor is call.data else parameters != other:
            found.append(f"constant:{role}")
    return found
