"""Calls inside small random graphs. The calls have structures of the walk."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, count, islice

import numpy as np

from xverify.contracts.model import Contract
from xverify.core.call import Call
from xverify.core.dtypes import INTEGERS
from xverify.core.moves import AFTER, BEFORE
from xverify.core.neighbours import (
    CHANGES,
    FLOATS,
    OPERATORS,
    QUANTIZE,
    QUANTIZING,
    coded,
    overflows,
    quantized_dtypes,
    result_dtype,
)
from xverify.core.surroundings import BEFORE_QUANTIZE, OPERATOR, comes_quantized, opset_beside, requantizes, surround
from xverify.strategies.structures import Linear, Structure, build
from xverify.strategies.walk import axes, cell_structures, fits, scale_outputs, shape_structures, zero_point_choices

MOST_VALUES = 600
"""Largest number of values in a call, weights excepted. A graph costs milliseconds anyway, and more values show nothing more."""

_ODD = (5, 13)
"""A shape of an odd number of elements."""

PER_TENSOR: tuple[tuple[int, ...], ...] = ((257,), (4, 65), (1, 5, 53), (2, 3, 1, 43), (3, 4, 3, 2, 4))
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

_WHOLE_BLOCKS = 0.5
"""Share of blocked calls without a remainder, among those of the cells."""

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

_USUAL = 0.4
"""Share of calls with the types of most models and constant parameters, among those with structures of the walk."""

_NEGATIVE = 0.3
"""Share of calls whose scales are all negative, among those with ordinary scales."""

_COMMON = ("uint8", "int8")
"""Types of x in most models. Their scales are float32."""

_CONSTANT_IDIOM = 0.75
_CONSTANT_DATA = 0.25
"""Shares of idioms whose parameters are constants, and whose x is a constant too."""

_OTHER_TYPES = 0.3
"""Share of idioms with other types of x and of the scale, once each idiom was drawn."""


@dataclass(frozen=True)
class Idiom:
    """Surroundings that models have often and that optimisers rewrite, with the form of their calls."""

    words: tuple[str, ...]
    types: tuple[str, ...] = _COMMON
    """The types of x."""
    granularity: str = "per_tensor"
    axis: int = 0
    zero_point: str = ""
    """"absent", "zero", "lowest" (the lowest code), or "" for any."""
    negative: bool = False
    """True for negative scales."""
    constants: str = ""
    """"data": x and the parameters are constants; "parameters": those alone; "": drawn."""
    odd: bool = False
    """True for an odd number of elements."""
    shape: tuple[int, ...] = ()
    """The shape of x; () for the usual shapes."""
    block_size: int = 0
    """The block size of a matrix of weights, as long as a block along the axis; 0 for the usual shapes."""


def _between(*words: str) -> tuple[Idiom, ...]:
    """An operator between DequantizeLinear and QuantizeLinear, with parameters of both signs."""
    around = (*words, "y>quantize:0")
    return (Idiom(around, constants="parameters"), Idiom(around, negative=True, constants="parameters"))


_SIGNED = ("int8",)
_NARROW = ("int4", "uint4")
_WIDER = ("uint16", "int16")

_TABLE = (6, 32)
"""The shape of a table whose rows a Gather selects."""

_SQUARE = (17, 17)
"""A shape that stays valid if an optimiser takes the parameters along the other axis."""

_WEIGHTS, _COLUMNS = 64, 8
"""Least extent of a matrix of weights along its blocks, and its other extent."""

_IDIOMS = (
    *_between("y>maxpool:1"), Idiom(("y>reshape:0",), _SIGNED, zero_point="absent", constants="parameters"),
    Idiom(("y>beside:0",), granularity="per_axis", axis=-1, constants="data"),
    Idiom(("y>matmul:0",), _NARROW, "blocked", constants="data", block_size=512),
    Idiom(("y>leakyrelu:0", "y>quantize:0"), granularity="per_axis", axis=-1, constants="parameters"),
    Idiom(("y>pair:0", "y>recast:0"), constants="parameters"),
    Idiom(("y>split:0", "y>quantize:0"), constants="data"),
    Idiom(("y>gather:0",), granularity="per_axis", axis=-1, constants="data", shape=_TABLE),
    Idiom(("constant:x",), _NARROW, constants="data", shape=_TABLE),
    Idiom(("y>transpose:0",), granularity="per_axis", axis=-1, constants="parameters", shape=_SQUARE),
    Idiom(("y>relu:0", "y>quantize:0"), ("uint8",), zero_point="lowest", negative=True, constants="parameters"),
    Idiom(("y>where:0", "y>quantize:0"), granularity="per_axis", axis=-1, constants="parameters"),
    Idiom(("y>qmatmul:0",), granularity="per_axis", axis=0, constants="parameters"),
    Idiom(("y>relu:0", "y>quantize:0"), _WIDER, constants="parameters"),
    Idiom(("y>maxpool:1",), _NARROW, constants="data"), Idiom(("y>quantize:0",), ("uint8",), zero_point="absent"),
    Idiom(("y>unsqueeze:0", "y>beside:0"), _SIGNED, zero_point="absent", constants="data"),
    Idiom(("x<quantize:0",), ("uint8",), zero_point="absent", constants="parameters"),
    Idiom(("y>argmax:-1",), negative=True, constants="parameters"),
    Idiom(("y>pair:30",), constants="parameters"), Idiom(("constant:x",), ("int4", "uint4"), constants="data", odd=True),
    Idiom(("y>reshape:0",), _SIGNED, zero_point="zero", constants="parameters"),
    Idiom(("fork:0", "y>transpose:0"), _SIGNED, zero_point="absent", constants="parameters"), *_between("y>transpose:0"),
    Idiom(("x<clip:0", "x<quantize:0"), constants="parameters"), Idiom(("y>pair:4",), constants="parameters"),
    Idiom(("y>transpose:1",), _SIGNED, zero_point="absent", constants="data"), *_between("y>relu:0"),
    Idiom(("y>quantize:0",), negative=True), Idiom(("y>pair:1001",)), *_between("y>clip:0"),
    Idiom(("y>transpose:0", "y>quantize:0"), granularity="per_axis", axis=-1, constants="parameters"),
    Idiom(("y>reshape:0",), granularity="per_axis", axis=-1, constants="parameters"),
    Idiom(("fork:1", "y>reshape:0"), _SIGNED, zero_point="absent", constants="parameters"), *_between("y>resize:0"),
    Idiom(("x<clip:1", "x<quantize:0"), negative=True, constants="parameters"), *_between("y>reshape:0"),
    Idiom(("y>pair:2001",)), Idiom(("y>pair:0",), negative=True), *_between("y>slice:0"),
    Idiom(("y>unsqueeze:0",), _SIGNED, zero_point="zero", constants="data"), *_between("y>concat:0"),
    Idiom(("x<quantize:0", "y>pair:20"), constants="parameters"), Idiom(("y>clip:4", "y>quantize:0"), negative=True),
    Idiom(("y>unsqueeze:0",), _SIGNED, zero_point="absent", constants="data"), Idiom(("y>pair:2", "y>pair:0")),
    Idiom(("x<relu:0", "x<quantize:0"), zero_point="lowest", constants="parameters"),
    Idiom(("x<clip:0", "x<quantize:0", "y>pair:20"), constants="parameters"), Idiom(("y>argmax:1",), constants="parameters"),
    Idiom(("x<transpose:0",), ("int4", "uint4"), constants="data", odd=True), *_between("y>unsqueeze:0"),
    Idiom(("y>transpose:0",), granularity="per_axis", axis=-2),
    Idiom(("shared:1", "y>transpose:0"), _SIGNED, zero_point="absent"),
    Idiom(("y>relu:0", "y>pair:0"), negative=True), Idiom(("fork:2", "y>transpose:0", "y>quantize:0"), constants="parameters"),
    Idiom(("y>transpose:0",), granularity="blocked", axis=-1), Idiom(("y>pair:3000",)), Idiom(("y>pair:4000",)),
    Idiom(("y>maxpool:1", "y>pair:0"), negative=True, constants="parameters"), Idiom(("y>clip:6", "y>quantize:0")),
    Idiom(("y>unsqueeze:-1",), granularity="per_axis", axis=-1), Idiom(("y>squeeze:0", "y>quantize:0"), constants="parameters"),
    Idiom(("x<transpose:0", "y>relu:0", "y>transpose:0"), constants="parameters"), Idiom(("y>scale:1", "y>quantize:0")),
    Idiom(("y>concat:0",), granularity="per_axis", axis=-1), Idiom(("y>quantize:30",)), Idiom(("y>clip:5", "y>quantize:30")),
    Idiom(("y>transpose:0",), granularity="blocked", axis=0, constants="parameters"), Idiom(("y>neg:0", "y>quantize:0")),
    Idiom(("y>transpose:0", "y>pair:200")), Idiom(("fork:7", "y>relu:0")), Idiom(("y>wider:0", "y>quantize:0")),
    Idiom(("y>reshape:1",), granularity="blocked", axis=-1), Idiom(("y>where:0", "y>quantize:0")),
    Idiom(("y>min:0", "y>quantize:0")),
    Idiom(("y>unsqueeze:0", "y>beside:0"), granularity="per_axis", axis=0, constants="data"),
    Idiom(("y>clip:0", "y>quantize:0"), _WIDER, constants="parameters"), *_between("y>leakyrelu:3"),
    Idiom(("y>qmatmul:1",), constants="parameters"), *_between("y>split:0"),
    Idiom(("y>gather:0",), _NARROW, "per_axis", axis=-1, constants="data", shape=_TABLE),
    Idiom(("y>gather:0",), _NARROW, "per_axis", constants="data", shape=_TABLE),
    Idiom(("y>gather:0",), (*_COMMON, *_NARROW), "blocked", axis=-1, constants="data", shape=_TABLE),
    Idiom(("y>matmul:0",), (*_COMMON, *_NARROW), "blocked", constants="data", block_size=32),
    Idiom(("y>matmul:1",), _NARROW, "blocked", axis=1, constants="data", block_size=128),
    Idiom(("y>matmul:0",), granularity="per_axis", axis=-1, constants="data"),
    Idiom(("x<quantize:0", "y>recast:0"), constants="parameters"), Idiom(("x<quantize:0", "y>maxpool:1")),
    Idiom(("x<quantize:0", "y>leakyrelu:3")), Idiom(("x<quantize:0", "y>where:0", "y>quantize:0"), negative=True),
    Idiom(("shared:3", "y>pair:0")), Idiom(("y>max:1", "y>quantize:0")), Idiom(("y>gather:-1", "y>quantize:0")),
    Idiom(("y>abs:0", "y>max:0", "y>pair:6")), Idiom(("y>unsqueeze:0", "y>maxpool:1", "y>pair:0"), constants="parameters"),
)  # fmt: skip
"""Idioms in which optimisers tend to err, the likeliest first."""


_BEGINNINGS = (21, 10, 23, 13, 24, 19, 25, 28)
"""Versions of ai.onnx whose calls begin at equal distances among the idioms, so that together a few calls of each meet most."""


def surrounded_calls(contract: Contract, seed: int, part: int = 0, parts: int = 1) -> Iterator[Call]:
    """Allowed calls in surroundings, without end.

    All idioms come once. They begin far from those of other editions and parts. Then idioms, moves of data, and operators that
    change values take turns. The calls of the last two have the walk's small structures. Those of the cells and the others take
    turns, each in a random order, again and again with other values.
    """
    rng = np.random.default_rng(seed)
    idioms = _idioms(contract, rng, part / parts)
    cells = (_reshaped(structure, rng) for structure in _without_end(_few_values(cell_structures(contract)), rng))
    shapes = _without_end(_few_values(shape_structures(contract)), rng)
    yield from islice(idioms, len(_IDIOMS))
    for number, structure in enumerate(chain.from_iterable(zip(cells, shapes, strict=False))):
        if number % 3 == 0 and (idiom := next(idioms, None)) is not None:
            yield idiom
            continue
        is_usual = rng.random() < _USUAL
        call = build(contract, _usual(contract, structure) if is_usual else structure, f"surrounded {number}")
        call = _respelled(call, rng)
        if number % 3 != 1 and (is_usual or rng.random() < _TAMED):
            call = _tamed(call, rng)
        around = (() if number % 3 == 1 else changing_words(call, rng)) or words(call, rng)
        if is_usual:
            around = _with_constants(call, around, "parameters")
        if contract.judge(call).verdict == "allowed":
            yield replace(call, around=around)


def _usual(contract: Contract, structure: Structure) -> Structure:
    """The structure with types of most models, as far as the edition has them."""
    if not isinstance(structure, Linear):
        return structure
    domain = contract.domain
    common = [dtype for dtype in _COMMON if dtype in domain.x_dtypes]
    if not common or ("float32", "") not in scale_outputs(domain):
        return structure
    x_dtype = common[structure.seed % len(common)]
    zero_points = domain.zero_points_for(x_dtype)
    zero_point = zero_points[0] if structure.zero_point_dtype and zero_points else structure.zero_point_dtype
    return replace(structure, x_dtype=x_dtype, scale_dtype="float32", output_dtype="", zero_point_dtype=zero_point)


def _with_constants(call: Call, around: tuple[str, ...], which: str) -> tuple[str, ...]:
    """The surroundings with the parameters, or all operands, as constants."""
    others = [word for word in around if not word.startswith("constant:") or word == "constant:x"]
    roles = [role for role, tensor in call.tensors.items() if tensor is not call.data or which == "data"]
    return (*others, *(word for role in roles if (word := f"constant:{role}") not in others))


def _beginning(contract: Contract, rng: np.random.Generator, share: float) -> int:
    """The number of the first idiom of an edition, moved by a share of all idioms."""
    domain, _, version = contract.id.partition("/DequantizeLinear-")
    known = domain == "ai.onnx" and version in map(str, _BEGINNINGS)
    own = _BEGINNINGS.index(int(version)) / len(_BEGINNINGS) if known else rng.random()
    return int((own + share + rng.random() / len(_BEGINNINGS)) * len(_IDIOMS)) % len(_IDIOMS)


def _idioms(contract: Contract, rng: np.random.Generator, share: float) -> Iterator[Call]:
    """Calls of the idioms, again and again: each once with its own types, then with others too.

    None without QuantizeLinear.
    """
    first = _beginning(contract, rng, share)
    made = 0
    for turn in count():
        for index in range(len(_IDIOMS)):
            idiom = _IDIOMS[(first + index) % len(_IDIOMS)]
            call = _idiom_call(contract, idiom, turn, index, rng)
            if call is not None:
                made += 1
                yield call
        if not made:
            return


def _idiom_call(contract: Contract, idiom: Idiom, turn: int, index: int, rng: np.random.Generator) -> Call | None:
    """A call of an idiom; None if the edition or its QuantizeLinear does not take it."""
    domain = contract.domain
    types, scales = [dtype for dtype in idiom.types if dtype in domain.x_dtypes], [("float32", "")]
    if turn and rng.random() < _OTHER_TYPES and idiom.types == _COMMON:
        types = [dtype for dtype in domain.x_dtypes if dtype in INTEGERS]
        scales = [pair for pair in scale_outputs(domain) if not pair[1]]
    if not types or domain.family != "linear" or idiom.granularity not in domain.granularities:
        return None
    x_dtype, scale = types[(turn + index) % len(types)], scales[int(rng.integers(len(scales)))]
    choices = zero_point_choices(domain, x_dtype)
    if idiom.zero_point == "absent":
        choices = tuple(choice for choice in choices if not choice)
    elif idiom.zero_point:
        choices = tuple(filter(None, choices))
    is_blocked = idiom.granularity == "blocked"
    shape = _ODD if idiom.odd else (6, 32) if is_blocked else PER_TENSOR[1 + int(rng.integers(len(PER_TENSOR) - 1))]
    block_size = (16 if idiom.axis else 2) if is_blocked else 0
    shape = idiom.shape or shape
    if idiom.block_size:
        block_size = idiom.block_size
        shape = (_COLUMNS, max(block_size, _WEIGHTS)) if idiom.axis else (max(block_size, _WEIGHTS), _COLUMNS)
    if not choices or scale not in scale_outputs(domain) or not fits(contract, idiom.granularity, shape):
        return None
    is_per_tensor = idiom.granularity == "per_tensor"
    axis = (
        idiom.axis if is_per_tensor or idiom.axis in axes(domain, idiom.granularity, shape) else idiom.axis % len(shape)
    )
    structure = Linear(
        x_dtype, scale[0], idiom.granularity, shape, choices[0 if turn % 2 == 0 else int(rng.integers(len(choices)))], "",
        None if is_per_tensor or "axis" not in domain.attributes else axis, block_size,
        zero_point_recipe=idiom.zero_point if idiom.zero_point in ("zero", "lowest") else "random",
        seed=int(rng.integers(2**31)),
    )  # fmt: skip
    call = _tamed(build(contract, structure, f"idiom {index} of turn {turn}"), rng, idiom.negative)
    if contract.judge(call).verdict != "allowed" or not _takes_words(call, idiom.words):
        return None
    which = idiom.constants
    if not which and rng.random() < _CONSTANT_IDIOM:
        which = "data" if rng.random() < _CONSTANT_DATA else "parameters"
    return replace(call, around=_with_constants(call, idiom.words, which) if which else idiom.words)


def _takes_words(call: Call, around: tuple[str, ...]) -> bool:
    """True if the operators of some surroundings take the types of the call."""
    if not quantized_dtypes(call) or ("x<quantize:0" in around and not comes_quantized(call)):
        return False
    named = {(word[0], word[2:].partition(":")[0]) for word in around if word[1] in "<>"} - {("x", "quantize")}
    out, scale = result_dtype(call), call.tensors["scale"].dtype
    types = {side: call.data.dtype if side == "x" else out for side, _ in named}
    if not all(
        _taken(call, side, (name,), scale if side == "x" and name in BEFORE_QUANTIZE else types[side])
        for side, name in named
    ):
        return False
    quantizes = any(("y", name) in named for name in (*QUANTIZING, "pair", "recast"))
    return not (overflows(call) and (quantizes or "fork:7" in around))


def _respelled(call: Call, rng: np.random.Generator) -> Call:
    """The call, in some draws with its axis counted from the back, or with a zero point of 0."""
    axis, zero_point = call.attributes.get("axis"), call.tensors.get("zero_point")
    if isinstance(axis, int) and axis >= 0 and rng.random() < _SPELLED_FROM_THE_BACK:
        call = replace(call, attributes={**call.attributes, "axis": axis - len(call.data.shape)})
    if zero_point is not None and rng.random() < _WITHOUT_OFFSET:
        nothing = replace(zero_point, codes=np.zeros_like(zero_point.codes))
        call = replace(call, tensors={**call.tensors, "zero_point": nothing})
    return call


def _tamed(call: Call, rng: np.random.Generator, negative: bool | None = None) -> Call:
    """The call with scales near 1, so that a quantization of its result does not saturate.

    None: some are negative.
    """
    scale = call.tensors.get("scale")
    if scale is None or scale.dtype not in FLOATS:
        return call
    factors = np.exp2(rng.uniform(-6, 2, scale.shape))
    if negative is None:
        negative = bool(rng.random() < _NEGATIVE)
        factors = factors * rng.choice([1, 1, 1, 1, 1, 1, 1, 1, 1, -1], scale.shape)
    tame = replace(scale, codes=coded(scale.dtype, -factors if negative else factors).codes)
    return replace(call, tensors={**call.tensors, "scale": tame})


def _reshaped(structure: Structure, rng: np.random.Generator) -> Structure:
    """The structure, if per tensor, with a shape of several axes, since one axis leaves little to move.

    Half of the blocked structures get whole blocks.
    """
    if isinstance(structure, Linear) and structure.granularity == "blocked" and structure.axis is not None:
        axis = int(rng.choice([0, 1, -1, -2]))
        whole = replace(structure, shape=(8, 48) if axis % 2 else (48, 8), axis=axis, block_size=16)
        return whole if rng.random() < _WHOLE_BLOCKS else structure
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
    """Random surroundings with operators that change values; empty if none takes the call's types."""
    changes = _taken(call, "y", tuple(CHANGES), result_dtype(call))
    # Infinity and NaN say more about QuantizeLinear than about what surrounds it.
    quantizes = "quantize" in changes and (not overflows(call) or rng.random() < _OVERFLOWING)
    # A float16 soon overflows among random parameters.
    apart = (*QUANTIZING, "recast", *(() if quantizes else ("pair",)))
    changes = [name for name in changes if name not in apart]
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
            if name == "argmax":  # Its result is no float.
                quantizes = False
                break
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
