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
from xverify.core.neighbours import (
    CHANGES,
    FLOATS,
    OPERATORS,
    QUANTIZE,
    coded,
    overflows,
    quantized_dtypes,
    result_dtype,
)
from xverify.core.surroundings import OPERATOR, comes_quantized, opset_beside, requantizes, surround
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
_OTHER_CONSTANT = 0.15
"""Share of parameters that differ from the scale in being a constant or not. Also the share of x that is a constant."""

_SYMBOLIC = 0.15
_DRAWN = 4
"""Largest number of words to draw until one applies to the shape, so that it is more than Identity."""

_SPELLED_FROM_THE_BACK = 0.3
_WITHOUT_OFFSET = 0.2
"""Share of calls whose zero point is 0 throughout, among those with a zero point."""

_CHANGED = 0.65
"""Share of operators after the result that change values, in surroundings that do."""

_MOST_AFTER = 4
"""Largest number of operators after the result in such surroundings."""

_ENDS_QUANTIZED = 0.45
_COMES_QUANTIZED = 0.2
_FORKED = 0.12
_SHARED = 0.1
_TAMED = 0.6
"""Share of calls with ordinary scales among those whose neighbours change values."""

_OVERFLOWING = 0.05
"""Share of calls with infinity or NaN in the result that are quantized all the same."""

_OWN_PARAMETERS = 0.3
"""Share of quantizing words with the call's own parameters. In the others, each parameter is the call's half of the time."""

_TELLING = (
    ("y>quantize:0",), ("y>relu:0", "y>quantize:0"), ("y>quantize:1",), ("y>pair:0",), ("x<quantize:0", "y>quantize:0"),
    ("y>maxpool:1", "y>quantize:0"), ("y>transpose:0", "y>quantize:0"), ("x<transpose:0", "y>relu:0", "y>transpose:0"),
    ("y>clip:4", "y>quantize:0"), ("y>pair:4",), ("y>pair:1", "y>pair:0"), ("x<quantize:0", "y>pair:20", "y>quantize:5"),
    ("y>resize:0", "y>quantize:0"), ("fork:0", "y>quantize:0"), ("shared:1",), ("y>pair:5",), ("y>pair:1000",),
    ("y>clip:5", "y>quantize:30"), ("y>quantize:4",), ("y>maxpool:0", "y>quantize:24"), ("y>neg:0", "y>quantize:0"),
    ("y>reshape:0", "y>quantize:0"), ("fork:7", "y>relu:0"), ("y>scale:1", "y>quantize:0"), ("y>relu:0", "y>pair:0"),
    ("y>wider:0", "y>quantize:0"), ("y>min:0", "y>quantize:0"), ("shared:3", "y>pair:0"), ("y>where:0", "y>quantize:0"),
    ("y>gather:-1", "y>quantize:0"), ("y>abs:0", "y>max:0", "y>pair:6"), ("y>unsqueeze:0", "y>maxpool:1", "y>pair:0"),
)  # fmt: skip
"""Surroundings in which optimisers tend to err, the likeliest first."""


def surrounded_calls(contract: Contract, seed: int) -> Iterator[Call]:
    """Allowed calls in surroundings, without end.

    They have the walk's small structures. Those of the cells and the others take turns, each in a random order, again and again
    with other values. Surroundings that tell much, moves of data, and operators that change values take turns too.
    """
    rng = np.random.default_rng(seed)
    cells = (_reshaped(structure, rng) for structure in _without_end(_few_values(cell_structures(contract)), rng))
    shapes = _without_end(_few_values(shape_structures(contract)), rng)
    for number, structure in enumerate(chain.from_iterable(zip(cells, shapes, strict=False))):
        call = build(contract, structure, f"surrounded {number}")
        call = _respelled(call, rng)
        if number % 3 != 1 and rng.random() < _TAMED:
            call = _tamed(call, rng)
        if number % 3 == 1:
            around = words(call, rng)
        else:
            telling = _telling(call, number // 3, rng) if number % 3 == 0 else ()
            around = telling or changing_words(call, rng) or words(call, rng)
        if contract.judge(call).verdict == "allowed":
            yield replace(call, around=around)


def _respelled(call: Call, rng: np.random.Generator) -> Call:
    """The call, some of the time with its axis counted from the back, or with a zero point of 0: optimisers treat both apart."""
    axis, zero_point = call.attributes.get("axis"), call.tensors.get("zero_point")
    if isinstance(axis, int) and axis >= 0 and rng.random() < _SPELLED_FROM_THE_BACK:
        call = replace(call, attributes={**call.attributes, "axis": axis - len(call.data.shape)})
    if zero_point is not None and rng.random() < _WITHOUT_OFFSET:
        nothing = replace(zero_point, codes=np.zeros_like(zero_point.codes))
        call = replace(call, tensors={**call.tensors, "zero_point": nothing})
    return call


def _tamed(call: Call, rng: np.random.Generator) -> Call:
    """The call with scales near 1, so that a quantization of its result does not saturate."""
    scale = call.tensors.get("scale")
    if scale is None or scale.dtype not in FLOATS:
        return call
    factors = np.exp2(rng.uniform(-6, 2, scale.shape)) * rng.choice([1, 1, 1, 1, 1, -1], scale.shape)
    tame = replace(scale, codes=coded(scale.dtype, factors).codes)
    return replace(call, tensors={**call.tensors, "scale": tame})


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


def changing_words(call: Call, rng: np.random.Generator) -> tuple[str, ...]:
    """Random surroundings of a call with operators that change values; empty if there are none of its types."""
    changes = _taken(call, "y", tuple(CHANGES), result_dtype(call))
    # Infinity and NaN say more about QuantizeLinear than about what surrounds it.
    quantizes = "quantize" in changes and (not overflows(call) or rng.random() < _OVERFLOWING)
    changes = [name for name in changes if name != "quantize" and (quantizes or name != "pair")]
    if not changes:
        return ()
    moves = _taken(call, "y", AFTER, result_dtype(call))
    drawn = _before(call, rng)
    if rng.random() < _COMES_QUANTIZED and quantizes and comes_quantized(call):
        drawn.append("x<quantize:0")
    for _ in range(int(rng.integers(1, _MOST_AFTER + 1))):
        if rng.random() < _CHANGED or not moves:
            name = str(rng.choice(changes))
            drawn.append(f"y>{name}:{_parameters(call, rng) if name == 'pair' else int(rng.integers(12))}")
        else:
            drawn.append(_word(call, "y>", moves, rng))
    if rng.random() < _ENDS_QUANTIZED and quantizes:
        drawn.append(f"y>quantize:{_parameters(call, rng)}")
    if rng.random() < _FORKED:
        drawn.append(f"fork:{int(rng.integers(8 if quantizes else 6))}")  # The last two quantize.
    if rng.random() < _SHARED and quantized_dtypes(call):
        drawn.append(f"shared:{int(rng.integers(4))}")
    return (*drawn, *_constants(call, rng), *(["shapes:symbolic"] if rng.random() < _SYMBOLIC else []))


def _parameters(call: Call, rng: np.random.Generator) -> int:
    """A number of a quantizing word, see `xverify.core.neighbours`."""
    if rng.random() < _OWN_PARAMETERS:
        return 0
    digits = [int(rng.integers(10)) if rng.random() < 0.5 else 0 for _ in range(4)]
    dtype = int(rng.integers(1, len(quantized_dtypes(call)) + 1)) if rng.random() < 0.4 else 0
    return sum(digit * 10**place for place, digit in enumerate((*digits, dtype)))


def _telling(call: Call, number: int, rng: np.random.Generator) -> tuple[str, ...]:
    """The surroundings of that number in `_TELLING`, with random constants; empty if an operator does not take the call."""
    drawn = _TELLING[number % len(_TELLING)]
    if not quantized_dtypes(call) or ("x<quantize:0" in drawn and not comes_quantized(call)):
        return ()
    named = {(word[0], word[2:].partition(":")[0]) for word in drawn if word[1] in "<>"} - {("x", "quantize")}
    out = result_dtype(call)
    if not all(_taken(call, side, (name,), call.data.dtype if side == "x" else out) for side, name in named):
        return ()
    if overflows(call) and ({("y", "quantize"), ("y", "pair")} & named or "fork:7" in drawn):
        return ()
    return (*drawn, *_constants(call, rng))


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

    known = {"cut": ("Slice",), "pick": ("Gather",), "concat": ("Concat", "Slice"), **OPERATORS}
    operators = known.get(name, (name.capitalize(),))
    ours = f"tensor({_SPELLED.get(dtype, dtype.replace('_', ''))})"
    # The last input of Where is a value, and the second one of DequantizeLinear is the scale.
    places = {"Where": 2, OPERATOR: 1}
    return all(ours in defs.get_schema(o, opset).inputs[places.get(o, 0)].types for o in operators)


TENSORFLOW_CHANGES = ("relu", "neg", "abs", "max", "min", "clip", "scale", "wider", "where")
"""Words for values that TensorFlow's oracle has an operator for."""

_ONEDNN = ("transpose", "reshape", "squeeze", "unsqueeze", "flatten", "identity")
ONEDNN_CHANGES = ("relu", "abs", "max", "min", "clip", "scale", "wider")
"""Words that oneDNN has an operation for. Its operations accept float32, bfloat16 and float16 only."""


def _taken(call: Call, role: str, names: Sequence[str], dtype: str) -> list[str]:
    """The names of words whose operators accept a type.

    TensorFlow's operators accept every type of its calls. The scales of oneDNN's static operation are no tensors, so no
    operator can stand before them.
    """
    if call.contract.startswith("tensorflow/"):
        return [name for name in names if name not in CHANGES or name in TENSORFLOW_CHANGES]
    if call.contract.startswith("onednn/"):
        nothing = dtype not in ("float32", "bfloat16", "float16") or (
            role == "scale" and call.contract.startswith("onednn/Dequantize-")
        )
        # It has no float64.
        known = {*_ONEDNN, *ONEDNN_CHANGES} - ({"wider"} if dtype == "float32" else set())
        return [] if nothing else [name for name in names if name in known]
    quantizes = _taken_quantizing(call)
    taken = [name for name in names if takes(name, opset_beside(call), dtype)]
    return [name for name in taken if quantizes or QUANTIZE not in OPERATORS.get(name, ())]


def _taken_quantizing(call: Call) -> bool:
    """True if QuantizeLinear takes the call's result, and DequantizeLinear gives it back."""
    dtype = result_dtype(call)
    return bool(quantized_dtypes(call)) and takes("pair", opset_beside(call), dtype)


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
    names = _taken(call, "y", AFTER, result_dtype(call))
    drawn = [_word(call, "y>", names, rng) for _ in range(_several(rng) if names else 0)]
    # Where QuantizeLinear has a contract, the word "pair" stands for more.
    if rng.random() < _REQUANTIZED and not quantized_dtypes(call) and requantizes(call):
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
