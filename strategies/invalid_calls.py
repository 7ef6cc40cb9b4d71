"""Calls that exactly one clause forbids or leaves open: valid calls with one change.

An entry of the two tables takes a valid call and breaks (or opens) one clause, or gives None where that is impossible. The
contract then judges if exactly that clause speaks of the changed call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from xverify.arithmetic.linear_operands import ceil_div
from xverify.contracts.model import Contract
from xverify.core.call import BITS, Call, Tensor, code_dtype
from xverify.core.dtypes import FLOATS, INTEGERS, encode, tensor
from xverify.strategies.limits import block_size_of

Generator = np.random.Generator
Change = Callable[[Contract, Call, Generator], Call | None]


def _with(call: Call, **tensors: Tensor | None) -> Call:
    changed = {**call.tensors, **tensors}
    return replace(call, tensors={name: t for name, t in changed.items() if t is not None})


def _set(call: Call, **attributes: int | str | bool) -> Call:
    return replace(call, attributes={**call.attributes, **attributes})


def _retyped(old: Tensor, dtype: str, rng: Generator) -> Tensor:
    codes = rng.integers(0, 1 << min(BITS[dtype], 31), old.shape).astype(code_dtype(dtype))
    return Tensor(dtype, codes, old.layout)


def _resized(old: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The codes, repeated or cut, in another shape. An empty parameter becomes zeros."""
    codes = np.resize(old.codes, shape) if old.size else np.zeros(shape, old.codes.dtype)
    return Tensor(old.dtype, codes.astype(old.codes.dtype), old.layout)


def _parameters(call: Call, shape: tuple[int, ...]) -> Call:
    """The call with scale and zero point resized alike."""
    tensors = {role: _resized(call.tensors[role], shape) for role in ("scale", "zero_point") if role in call.tensors}
    return _with(call, **tensors)


def _foreign(admitted: tuple[str, ...], rng: Generator) -> str | None:
    others = [dtype for dtype in BITS if dtype not in admitted]
    return str(rng.choice(others)) if others else None


def _x_type(contract: Contract, call: Call, rng: Generator) -> Call | None:
    dtype = _foreign(contract.domain.x_dtypes, rng)
    if dtype is None:
        return None
    role = "x" if "x" in call.tensors else "input"
    changed = _with(call, **{role: _retyped(call.data, dtype, rng)})
    zero_point = call.tensors.get("zero_point")
    if zero_point is None or contract.domain.zero_point_dtypes is not None:
        return changed
    return _with(changed, zero_point=_retyped(zero_point, dtype, rng))


def _scale_type(contract: Contract, call: Call, rng: Generator) -> Call | None:
    dtype = _foreign(contract.domain.scale_dtypes, rng)
    return None if dtype is None else _with(call, scale=_retyped(call.tensors["scale"], dtype, rng))


def _zero_point_type(contract: Contract, call: Call, rng: Generator) -> Call | None:
    zero_point = call.tensors.get("zero_point")
    if zero_point is None:
        return None
    dtype = _foreign(contract.domain.zero_points_for(call.data.dtype), rng)
    return None if dtype is None else _with(call, zero_point=_retyped(zero_point, dtype, rng))


def _zero_point_shape(contract: Contract, call: Call, rng: Generator) -> Call | None:
    zero_point = call.tensors.get("zero_point")
    if zero_point is None:
        return None
    shapes = (
        [(2,), (1, 1), (3, 2)] if zero_point.shape == () else [(), (zero_point.shape[0] + 1, *zero_point.shape[1:])]
    )
    return _with(call, zero_point=_resized(zero_point, shapes[rng.integers(len(shapes))]))


def _granularity(contract: Contract, call: Call, rng: Generator) -> Call | None:
    old = call.tensors["scale"].shape
    shapes = [(2,), (1, 1), (2, 1, 2)]
    if old != ():
        shapes = [(old[0] + 1,), (1,), (2, 2, 2, 2, 2, 2, 2), (1, 1, 1, 1, 1, 1, 1)]
    if len(call.data.shape) > 1 and "block_size" not in contract.domain.attributes:
        shapes.append(call.data.shape)  # a scale for each element
    return _parameters(call, shapes[rng.integers(len(shapes))])


def _axis_range(contract: Contract, call: Call, rng: Generator) -> Call | None:
    rank = len(call.data.shape)
    return _set(call, axis=int(rng.choice([rank, -rank - 1, rank + 1, 2**31 - 1, -(2**31), 2**40])))


def _axis_required(contract: Contract, call: Call, rng: Generator) -> Call | None:
    return replace(call, attributes={name: value for name, value in call.attributes.items() if name != "axis"})


def _rank(contract: Contract, call: Call, rng: Generator) -> Call | None:
    return _with(call, x=Tensor(call.data.dtype, call.data.codes[np.newaxis]))


def _block_size(contract: Contract, call: Call, rng: Generator) -> Call | None:
    if "block_size" not in contract.domain.attributes:
        return None
    if len(call.data.shape) > 1 and not rng.integers(4):
        # A scale for each element, which would be blocks of one.
        attributes = {name: value for name, value in call.attributes.items() if name != "block_size"}
        return _parameters(replace(call, attributes=attributes), call.data.shape)
    return _set(call, block_size=int(rng.choice([0, -1, -16, -(2**31)])))


def _block_shape(contract: Contract, call: Call, rng: Generator) -> Call | None:
    if "block_size" not in call.attributes:
        return None
    shape = list(call.tensors["scale"].shape)
    axis = int(rng.integers(len(shape)))
    shape[axis] += int(rng.choice([1, 2, -1]))
    return _parameters(call, tuple(shape)) if shape[axis] > 0 else None


def _output_type(contract: Contract, call: Call, rng: Generator) -> Call | None:
    outputs = contract.domain.output_dtypes
    if contract.domain.family == "range":
        return (
            _set(call, dtype=str(rng.choice(["float16", "float64", "int32"])))
            if "dtype" in contract.domain.attributes
            else None
        )
    if not contract.domain.output_dtype_attribute:
        return None
    odd = [scale for scale in contract.domain.scale_dtypes if scale not in outputs]
    if odd and rng.integers(2):
        attributes = {name: value for name, value in call.attributes.items() if name != "output_dtype"}
        plain = replace(call, attributes=attributes)
        return _with(plain, scale=_retyped(call.tensors["scale"], odd[0], rng))
    return _set(call, output_dtype=str(rng.choice(["float64", "int8", "int32", "float8_e4m3fn", "uint8"])))


def _attributes(contract: Contract, call: Call, rng: Generator) -> Call | None:
    # Attributes of other editions, and one of the operator that quantizes.
    others: dict[str, int | str | bool] = (
        {"narrow_range": True, "dtype": "float32", "round_mode": "HALF_TO_EVEN"}
        if contract.domain.family == "range"
        else {"axis": 0, "block_size": 2, "output_dtype": "float32", "saturate": 1}
    )
    name = str(rng.choice([name for name in others if name not in contract.domain.attributes]))
    return _set(call, **{name: others[name]})


def _zero_point_required(contract: Contract, call: Call, rng: Generator) -> Call | None:
    return _with(call, zero_point=None) if contract.domain.zero_point_required else None


def _qtype(contract: Contract, call: Call, rng: Generator) -> Call | None:
    return _set(call, qtype=str(rng.choice(["per_group", "per-tensor", ""])))


def _scales_shape(contract: Contract, call: Call, rng: Generator) -> Call | None:
    shape = call.tensors["scale"].shape
    shapes: list[tuple[int, ...]] = [(), (shape[0] + 1,), (*shape, 1)]
    return _with(call, scale=_resized(call.tensors["scale"], shapes[rng.integers(3)]))


def _zps_float8(contract: Contract, call: Call, rng: Generator) -> Call | None:
    if not call.data.dtype.startswith("float8") or "zero_point" in call.tensors:
        return None
    return _with(call, zero_point=tensor("int32", np.full(call.tensors["scale"].shape, rng.integers(2))))


def _range_type(contract: Contract, call: Call, rng: Generator) -> Call | None:
    dtype = str(rng.choice(["float16", "bfloat16", "float64", "int32"]))
    wrong = {"min_range": tensor(dtype, -1.0), "max_range": tensor(dtype, 1.0)}
    return _with(call, **{role: wrong[role] for role in _ends(rng)})


def _ends(rng: Generator) -> tuple[str, ...]:
    """One end of the range, the other, or both."""
    return (("min_range",), ("max_range",), ("min_range", "max_range"))[rng.integers(3)]


def _range_shape(contract: Contract, call: Call, rng: Generator) -> Call | None:
    shape = [(1,), (2,), (1, 1)][rng.integers(3)]
    return _with(call, **{role: _resized(call.tensors[role], shape) for role in _ends(rng)})


def _mode(contract: Contract, call: Call, rng: Generator) -> Call | None:
    return _set(call, mode=str(rng.choice(["MIN_MAX", "min_combined", ""])))


def _bfloat16_mode(contract: Contract, call: Call, rng: Generator) -> Call | None:
    if "bfloat16" not in contract.domain.output_dtypes:
        return None
    return _set(call, dtype="bfloat16", mode=str(rng.choice(["MIN_FIRST", "SCALED"])))


BREAKERS: Mapping[str, Change] = {
    "x-type": _x_type,
    "input-type": _x_type,
    "src-type": _x_type,
    "scale-type": _scale_type,
    "scales-type": _scale_type,
    "zero-point-type": _zero_point_type,
    "zero-point-range": _zero_point_type,
    "zps-type": _zero_point_type,
    "zero-point-shape": _zero_point_shape,
    "zps-shape": _zero_point_shape,
    "zero-point-required": _zero_point_required,
    "granularity": _granularity,
    "scales-shape": _scales_shape,
    "axis-range": _axis_range,
    "axis-required": _axis_required,
    "rank": _rank,
    "block-size": _block_size,
    "block-shape": _block_shape,
    "output-type": _output_type,
    "attributes": _attributes,
    "qtype": _qtype,
    "zps-float8": _zps_float8,
    "range-type": _range_type,
    "range-shape": _range_shape,
    "mode": _mode,
    "bfloat16-mode": _bfloat16_mode,
}
"""For each name of a clause, the change that breaks it."""


def _nonzero_int32(contract: Contract, call: Call, rng: Generator) -> Call | None:
    zero_point = call.tensors.get("zero_point")
    if zero_point is None or call.data.dtype != "int32":
        return None
    numbers = rng.choice([1, -1, 5, -128, 2**31 - 1, -(2**31), 2**24 + 1], zero_point.shape)
    return _with(call, zero_point=Tensor("int32", encode("int32", numbers)))


def _shape_1(contract: Contract, call: Call, rng: Generator) -> Call | None:
    return _parameters(call, (1,)) if call.tensors["scale"].shape == () else None


def _shape_1_zero_point(contract: Contract, call: Call, rng: Generator) -> Call | None:
    if "zero_point" not in call.tensors or call.tensors["scale"].shape != ():
        return None
    return _with(call, zero_point=_resized(call.tensors["zero_point"], (1,)))


def _rank_1(contract: Contract, call: Call, rng: Generator) -> Call | None:
    x = call.data
    extent = int(rng.choice([1, 3, 17]))
    shaped = _with(
        call, x=Tensor(x.dtype, np.resize(x.codes, (extent,)) if x.size else np.zeros((extent,), x.codes.dtype))
    )
    return _set(_parameters(shaped, (extent,)), axis=0)


def _block_size_unused(contract: Contract, call: Call, rng: Generator) -> Call | None:
    return _set(call, block_size=int(rng.choice([1, 2, 16]))) if "block_size" not in call.attributes else None


def _blocked_empty(contract: Contract, call: Call, rng: Generator) -> Call | None:
    block_size = block_size_of(call)
    rank = len(call.data.shape)
    if not block_size or not rank:
        return None
    axis = int(call.attributes.get("axis", 1)) % rank
    shape = tuple(0 if i == axis else e for i, e in enumerate(call.data.shape))
    return _parameters(_with(call, x=_resized(call.data, shape)), shape)


def _odd_axis(contract: Contract, call: Call, rng: Generator) -> Call | None:
    rank = len(call.data.shape)
    if contract.domain.family == "range":
        if rank == 0:
            return None
        axis = int(rng.integers(rank))
        count = (call.data.shape[axis],)
        steps = np.arange(count[0], dtype=np.float64)
        ranges = {"min_range": tensor("float32", -1.5 - steps), "max_range": tensor("float32", 0.7 + 2 * steps)}
        return _set(_with(call, **ranges), axis=axis)
    if "axis" not in call.attributes or rank == 0:
        return None
    return _set(call, axis=int(rng.choice([int(call.attributes["axis"]) - rank, -rank - 1, rank])))


def _axis_length(contract: Contract, call: Call, rng: Generator) -> Call | None:
    shape = call.tensors["scale"].shape
    return _parameters(call, (int(rng.choice([1, shape[0] + 1])),)) if len(shape) == 1 else None


def _axis_per_tensor(contract: Contract, call: Call, rng: Generator) -> Call | None:
    axes = [
        axis for axis in (0, len(call.data.shape) + 1) if contract.judge(_set(call, axis=axis)).verdict != "allowed"
    ]
    is_used = call.attributes.get("qtype", "per_tensor") != "per_tensor"
    return None if is_used else _set(call, axis=axes[rng.integers(len(axes))])


def _int32_overflow(contract: Contract, call: Call, rng: Generator) -> Call | None:
    zero_point = call.tensors.get("zero_point")
    if zero_point is None or zero_point.dtype != "int32":
        return None
    if contract.asked_as.startswith("onednn/Dequantize-1") and rng.integers(2):
        # Its zero points are a list of s64, which holds wider numbers too.
        return _with(call, zero_point=tensor("int64", np.full(zero_point.shape, 2**32 + 1)))
    return _with(call, zero_point=tensor("int32", np.full(zero_point.shape, -(2**31))))


def _other_integer(contract: Contract, call: Call, rng: Generator) -> Call | None:
    dtype = str(rng.choice([dtype for dtype in INTEGERS if dtype not in contract.domain.x_dtypes]))
    roles = [role for role in ("x", "zero_point") if role in call.tensors]
    return _with(call, **{role: _retyped(call.tensors[role], dtype, rng) for role in roles})


def _odd_scale(contract: Contract, call: Call, rng: Generator) -> Call | None:
    scale = call.tensors["scale"]
    number = float(rng.choice([-0.5, 0.0, -0.0, 1e-39, np.inf, -np.inf, np.nan]))
    return _with(call, scale=tensor(scale.dtype, np.full(scale.shape, number)))


def _other_scale(contract: Contract, call: Call, rng: Generator) -> Call | None:
    dtype = str(rng.choice([dtype for dtype in FLOATS if dtype not in contract.domain.scale_dtypes]))
    return _with(call, scale=tensor(dtype, np.full(call.tensors["scale"].shape, 0.5)))


def _other_zero_point(contract: Contract, call: Call, rng: Generator) -> Call | None:
    zero_point = call.tensors.get("zero_point")
    if zero_point is None:
        return None
    dtype = str(
        rng.choice([dtype for dtype in INTEGERS if dtype not in contract.domain.zero_points_for(call.data.dtype)])
    )
    return _with(call, zero_point=_retyped(zero_point, dtype, rng))


def _other_output(contract: Contract, call: Call, rng: Generator) -> Call | None:
    return _set(call, output_dtype=str(rng.choice(["float64", "int32", "float8_e4m3fn"])))


def _groups_of_one(contract: Contract, call: Call, rng: Generator) -> Call | None:
    return _set(_parameters(call, call.data.shape), block_size=1)


def _partial_block(contract: Contract, call: Call, rng: Generator) -> Call | None:
    if not call.attributes.get("block_size"):
        return None
    shape, axis = call.data.shape, int(call.attributes.get("axis", contract.domain.default_axis or 0))
    sizes = [size for size in range(2, shape[axis] + 2) if shape[axis] % size]
    if not sizes:
        return None
    size = int(rng.choice(sizes))
    blocks = [ceil_div(extent, size) if i == axis % len(shape) else extent for i, extent in enumerate(shape)]
    return _set(_parameters(call, tuple(blocks)), block_size=size)


def _scales_rank(contract: Contract, call: Call, rng: Generator) -> Call | None:
    shape = call.tensors["scale"].shape
    return _parameters(call, () if shape == (1,) and rng.integers(2) else (*shape, 1))


def _hyphenated(contract: Contract, call: Call, rng: Generator) -> Call | None:
    return _set(call, qtype=str(call.attributes.get("qtype", "per_tensor")).replace("_", "-"))


def _per_group(contract: Contract, call: Call, rng: Generator) -> Call | None:
    return _set(call, qtype="per_group")


def _range_order(contract: Contract, call: Call, rng: Generator) -> Call | None:
    pairs = [(1.0, -1.0), (2.0, 2.0), (0.0, 0.0), (np.nan, 1.0), (-1.0, np.inf), (-np.inf, np.inf), (-0.0, 0.0)]
    low, high = pairs[rng.integers(len(pairs))]
    return _with(call, min_range=tensor("float32", low), max_range=tensor("float32", high))


OPENERS: Mapping[str, Change] = {
    "data-type": _other_integer,
    "scale-value": _odd_scale,
    "scale-dtype": _other_scale,
    "zero-point-dtype": _other_zero_point,
    "output-dtype": _other_output,
    "arguments": _attributes,
    "block-size-1": _groups_of_one,
    "partial-block": _partial_block,
    "qparam-shape": _shape_1,
    "int32-zero-point": _nonzero_int32,
    "shape-1-scale": _shape_1,
    "shape-1-zero-point": _shape_1_zero_point,
    "rank-1": _rank_1,
    "block-size-unused": _block_size_unused,
    "blocked-empty-axis": _blocked_empty,
    "axis": _odd_axis,
    "axis-length": _axis_length,
    "axis-per-tensor": _axis_per_tensor,
    "int32-overflow": _int32_overflow,
    "scales-rank": _scales_rank,
    "qtype-per-group": _per_group,
    "qtype-spelling": _hyphenated,
    "range-order": _range_order,
}
"""For each name of a clause, the change to a call that the clause leaves open."""


def _named(contract: Contract, table: Mapping[str, Change]) -> tuple[str, ...]:
    return tuple(name for name in table if f"{contract.id}/{name}" in contract.clauses)


def breakable(contract: Contract) -> tuple[str, ...]:
    """Names of the clauses of this contract that a call can break."""
    names = _named(contract, BREAKERS)
    # No call of such an edition can break this clause, as there is no attribute to set.
    domain = contract.domain
    out = {"output-type"} if domain.family == "linear" and not domain.output_dtype_attribute else set()
    if domain.family == "range" and "dtype" not in domain.attributes:
        out = {"output-type"}
    return tuple(name for name in names if name not in out)


def openable(contract: Contract) -> tuple[str, ...]:
    """Names of the clauses of this contract that leave some calls open."""
    return _named(contract, OPENERS)


def spoiled(contract: Contract, call: Call, name: str, rng: Generator) -> Call | None:
    """The call changed so that exactly one clause forbids it, or None where that is impossible.

    name: The name of the clause.
    """
    return _exactly(contract, BREAKERS[name](contract, call, rng), name, "forbidden", "breaks")


def opened(contract: Contract, call: Call, name: str, rng: Generator) -> Call | None:
    """The call changed so that exactly one clause leaves it open, or None where that is impossible.

    name: The name of the clause.
    """
    return _exactly(contract, OPENERS[name](contract, call, rng), name, "unspecified", "opens")


def _exactly(contract: Contract, call: Call | None, name: str, verdict: str, word: str) -> Call | None:
    if call is None:
        return None
    judgement = contract.judge(call)
    if judgement.verdict != verdict or judgement.clauses != (f"{contract.id}/{name}",):
        return None
    return replace(call, origin=f"{call.origin}, {word} {name}")
