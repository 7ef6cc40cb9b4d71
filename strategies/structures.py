"""Structures of calls: everything about a call except its numbers, which follow from a seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.arithmetic.linear_operands import ceil_div
from xverify.contracts.model import Contract
from xverify.core.call import BITS, Attribute, Call, Tensor
from xverify.strategies import values


@dataclass(frozen=True)
class Linear:
    """The structure of a linear call. "" and None stand for an absent tensor or attribute."""

    x_dtype: str
    scale_dtype: str
    granularity: str
    shape: tuple[int, ...]
    zero_point_dtype: str = ""
    output_dtype: str = ""
    axis: int | None = None
    block_size: int = 0
    layout: str = "C"
    scale_recipe: str = "drawn"
    zero_point_recipe: str = "random"
    seed: int = 0
    parameter_layout: str = "C"


@dataclass(frozen=True)
class Range:
    """The structure of a call of TensorFlow's Dequantize. None stands for an absent attribute."""

    input_dtype: str
    mode: str
    shape: tuple[int, ...]
    narrow_range: bool | None = None
    output_dtype: str = ""
    layout: str = "C"
    range_recipe: str = "drawn"
    seed: int = 0


Structure = Linear | Range


def build(contract: Contract, structure: Structure, origin: str = "") -> Call:
    """Make the call of a structure under a contract.

    origin: A note on what made the call, for reports.
    """
    rng = np.random.default_rng(structure.seed)
    if isinstance(structure, Range):
        return _range_call(contract, structure, rng, origin)
    if contract.domain.whole_blocks and structure.block_size:
        axis = structure.axis if structure.axis is not None else (contract.domain.default_axis or 0)
        structure = replace(structure, block_size=gcd(structure.block_size, structure.shape[axis]))
    return _linear_call(contract, structure, rng, origin)


def laid_out(dtype: str, codes: NDArray[Any], layout: str) -> Tensor:
    """A tensor in a layout. For the layout "broadcast", its codes are made equal along the last axis."""
    if layout == "broadcast" and codes.ndim:
        codes = np.ascontiguousarray(np.broadcast_to(codes[..., :1], codes.shape))
    return Tensor(dtype, codes, layout)


def _parameter_shape(structure: Linear, axis: int, one_element: bool) -> tuple[int, ...]:
    shape = structure.shape
    if structure.granularity == "per_tensor":
        return (1,) if one_element else ()
    from_front = axis % len(shape)
    if structure.granularity == "per_axis":
        return (shape[from_front],)
    return tuple(ceil_div(e, structure.block_size) if i == from_front else e for i, e in enumerate(shape))


def _linear_call(contract: Contract, structure: Linear, rng: np.random.Generator, origin: str) -> Call:
    domain = contract.domain
    qtype = "qtype" in domain.attributes
    axis = structure.axis if structure.axis is not None else (domain.default_axis or 0)
    parameters = _parameter_shape(structure, axis, one_element=qtype)
    periodic = structure.scale_recipe == values.EVERY_EXPONENT
    x_codes = values.data(structure.x_dtype, structure.shape, rng, periodic=periodic)
    scale = values.scales(structure.scale_dtype, parameters, structure.scale_recipe, rng)
    if structure.scale_recipe == "near-tie" and scale.size:
        out = structure.output_dtype or structure.scale_dtype
        x_codes = values.near_ties(x_codes, structure.x_dtype, scale, structure.scale_dtype, out, rng)
    x = laid_out(structure.x_dtype, x_codes, structure.layout)
    tensors = {"x": x, "scale": laid_out(structure.scale_dtype, scale, structure.parameter_layout)}
    if structure.zero_point_dtype:
        recipe = structure.zero_point_recipe
        # The text says that the zero point of int32 is supposed to be 0. `opened` makes other values.
        must_be_zero = structure.x_dtype == "int32" and contract.id.startswith("ai.onnx")
        if structure.zero_point_dtype != structure.x_dtype and recipe in ("lowest", "highest"):
            # With an int32 zero point at its ends the difference overflows, which the text leaves open. See `opened`.
            recipe = "random"
        codes = values.zero_points(structure.zero_point_dtype, parameters, "zero" if must_be_zero else recipe, rng)
        if structure.zero_point_dtype == "int32" and qtype:
            # This keeps x - zero point inside int32 for every 8-bit x.
            codes = np.clip(codes.view(np.int32), -(2**31) + 512, 2**31 - 512).astype(np.int32).view(np.uint32)
        tensors["zero_point"] = laid_out(structure.zero_point_dtype, codes, structure.parameter_layout)
    attributes: dict[str, Attribute] = {}
    if structure.granularity != "per_tensor" and qtype:
        attributes["qtype"] = "per_channel"
    if structure.axis is not None:
        attributes["axis"] = structure.axis
    if structure.granularity == "blocked":
        attributes["block_size"] = structure.block_size
    if structure.output_dtype:
        attributes["output_dtype"] = structure.output_dtype
    return Call(contract.id, tensors, attributes, origin)


def _range_call(contract: Contract, structure: Range, rng: np.random.Generator, origin: str) -> Call:
    data = values.data(structure.input_dtype, structure.shape, rng)
    low, high = values.ranges((), structure.range_recipe, (1 << BITS[structure.input_dtype]) - 1, rng)
    if structure.range_recipe == "symmetric" and structure.input_dtype == "int32":
        data = values.symmetric_ties(data, high, rng)
    tensors = {
        "input": laid_out(structure.input_dtype, data, structure.layout),
        "min_range": Tensor("float32", low),
        "max_range": Tensor("float32", high),
    }
    attributes: dict[str, Attribute] = {"mode": structure.mode}
    if structure.narrow_range is not None:
        attributes["narrow_range"] = structure.narrow_range
    if structure.output_dtype:
        attributes["dtype"] = structure.output_dtype
    return Call(contract.id, tensors, attributes, origin)
