"""Calls inside small random graphs. The calls have structures of the walk."""

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
"""Largest number of values in a call. A graph costs milliseconds anyway, and many values show nothing more."""

PER_TENSOR = ((257,), (4, 65), (1, 5, 53), (2, 3, 1, 43), (3, 4, 3, 2, 4))
"""Shapes of calls per tensor, with tails and with room for most codes of a byte."""

_NOT_MOVED = 0.35
_MOVED_TWICE = 0.25
"""Shares of operands with no operator and with two operators before them. The same holds after the result."""

_PARAMETER_MOVED = 0.15
_REQUANTIZED = 0.3
_CONSTANT_SCALE = 0.5
_OTHER_CONSTANT = 0.1
"""Share of parameters that differ from the scale in being a constant or not. Also the share of x that is a constant."""

_SYMBOLIC = 0.15
_DRAWN = 4
"""Largest number of words to draw until one applies to the shape, so that it is more than Identity."""

_SPELLED_FROM_THE_BACK = 0.3


def surrounded_calls(contract: Contract, seed: int) -> Iterator[Call]:
    """Allowed calls in surroundings, without end.

    They have the walk's small structures. Those of the cells and the others take turns, each in a random order, again and again
    with other values.
    """
    rng = np.random.default_rng(seed)
    cells = (_reshaped(structure, rng) for structure in _without_end(_few_values(cell_structures(contract)), rng))
    shapes = _without_end(_few_values(shape_structures(contract)), rng)
    for number, structure in enumerate(chain.from_iterable(zip(cells, shapes, strict=False))):
        call = build(contract, structure, f"surrounded {number}")
        around = words(call, rng)
        if contract.judge(call).verdict == "allowed":
            yield replace(call, around=around)


def _reshaped(structure: Structure, rng: np.random.Generator) -> Structure:
    """The structure, if per tensor, with a shape of several axes, since one axis leaves little to move."""
    if isinstance(structure, Linear) and structure.granularity != "per_tensor":
        return structure
    return replace(structure, shape=PER_TENSOR[int(rng.integers(len(PER_TENSOR)))])


def _few_values(structures: Iterable[Structure]) -> list[Structure]:
    return [structure for structure in structures if math.prod(structure.shape) <= MOST_VALUES]


def _without_end(pool: Sequence[Structure], rng: np.random.Generator) -> Iterator[Structure]:
    while pool:
        for index in rng.permutation(len(pool)):
            yield replace(pool[index], seed=int(rng.integers(2**31)))


def words(call: Call, rng: np.random.Generator) -> tuple[str, ...]:
    """Random surroundings of a call: at least one operator or one constant."""
    while True:
        drawn = [*_before(call, rng), *_after(call, rng), *_constants(call, rng)]
        if drawn:
            return (*drawn, *(["shapes:symbolic"] if rng.random() < _SYMBOLIC else []))


def _number(rng: np.random.Generator) -> int:
    number = int(rng.integers(12))
    return -1 - number if rng.random() < _SPELLED_FROM_THE_BACK else number


def _several(rng: np.random.Generator) -> int:
    drawn = rng.random()
    return 0 if drawn < _NOT_MOVED else 2 if drawn > 1 - _MOVED_TWICE else 1


_SPELLED = {
    "float32": "float", "float64": "double", "float8_e8m0fnu": "float8e8m0", "float4_e2m1fn": "float4e2m1",
    "float6_e2m3fn": "float6e2m3", "float6_e3m2fn": "float6e3m2",
}  # fmt: skip
"""ONNX's names of dtypes in schemas, where they are not ours without underscores."""


@cache
def takes(name: str, opset: int, dtype: str) -> bool:
    """True if the operators of a word accept a type, by their schemas in that version of ai.onnx."""
    from onnx import defs

    operators = {"cut": ("Slice",), "pick": ("Gather",), "concat": ("Concat", "Slice")}.get(name, (name.capitalize(),))
    ours = f"tensor({_SPELLED.get(dtype, dtype.replace('_', ''))})"
    return all(ours in defs.get_schema(operator, opset).inputs[0].types for operator in operators)


_ONEDNN = ("transpose", "reshape", "squeeze", "unsqueeze", "flatten", "identity")
"""Words that oneDNN has an operation for. Its operations accept float32, bfloat16 and float16 only."""


def _taken(call: Call, role: str, names: Sequence[str], dtype: str) -> list[str]:
    """The names of words whose operators accept a type.

    TensorFlow's operators accept every type of its calls. The scales of oneDNN's static operation are no tensors, so no
    operator can stand before them.
    """
    if call.contract.startswith("tensorflow/"):
        return list(names)
    if call.contract.startswith("onednn/"):
        nothing = dtype not in ("float32", "bfloat16", "float16") or (
            role == "scale" and call.contract.startswith("onednn/Dequantize-")
        )
        return [] if nothing else [name for name in names if name in _ONEDNN]
    return [name for name in names if takes(name, opset_beside(call), dtype)]


def _word(call: Call, beginning: str, names: Sequence[str], rng: np.random.Generator) -> str:
    """A random word with one of these names. A word that applies to the shape of the call is preferred."""
    drawn = ""
    for _ in range(_DRAWN):
        name = rng.choice(names)
        drawn = f"{beginning}{name}:{_number(rng)}"
        nodes = surround(replace(call, around=(drawn,))).nodes
        if name == "identity" or any(node.operator not in ("Identity", OPERATOR) for node in nodes):
            break
    return drawn


def _before(call: Call, rng: np.random.Generator) -> list[str]:
    drawn = []
    for role, tensor in call.tensors.items():
        count = _several(rng) if tensor is call.data else int(rng.random() < _PARAMETER_MOVED)
        names = _taken(call, role, BEFORE, tensor.dtype)
        drawn += [_word(call, f"{role}<", names, rng) for _ in range(count if names else 0)]
    return drawn


def _after(call: Call, rng: np.random.Generator) -> list[str]:
    out = call.attributes.get("output_dtype", call.tensors["scale"].dtype if "scale" in call.tensors else "float32")
    names = _taken(call, "y", AFTER, str(out))
    drawn = [_word(call, "y>", names, rng) for _ in range(_several(rng) if names else 0)]
    if rng.random() < _REQUANTIZED and requantizes(call):
        drawn.insert(int(rng.integers(len(drawn) + 1)), "y>requantize:0")
    return drawn


def _constants(call: Call, rng: np.random.Generator) -> list[str]:
    parameters = bool(rng.random() < _CONSTANT_SCALE)
    constants = []
    for role, tensor in call.tensors.items():
        other = bool(rng.random() < _OTHER_CONSTANT)
        if other if tensor is call.data else parameters != other:
            constants.append(f"constant:{role}")
    return constants
