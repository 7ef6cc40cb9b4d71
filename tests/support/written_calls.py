"""Calls from a line of text, random calls, and changed calls of the walk."""

from __future__ import annotations

import re

import numpy as np
from walked_calls import every_nth

from xverify.contracts.model import Contract
from xverify.core.call import BITS, Call, Tensor, code_dtype
from xverify.core.dtypes import encode, tensor
from xverify.strategies import breakable, openable, opened, spoiled

ONNX, MS, DNN, TF = (
    "ai.onnx/DequantizeLinear-",
    "com.microsoft/DequantizeLinear-1@",
    "onednn/DynamicDequantize-1@",
    "tensorflow/Dequantize@",
)


ROLES = {"zp": "zero_point", "min": "min_range", "max": "max_range"}


def call_of(identity: str, text: str) -> Call:
    """Return a call from a line such as "x=int8[2,3] scale=float32[3] axis=1".

    "=5" after a shape fills the tensor with 5.
    """
    tensors, attributes = {}, {}
    for name, value in (part.split("=", 1) for part in text.split()):
        match = re.fullmatch(r"(\w+)\[([\d,]*)\](?:=(.+))?", value)
        if not match:
            attributes[name] = (
                int(value) if re.fullmatch(r"-?\d+", value) else {"True": True, "False": False}.get(value, value)
            )
            continue
        dtype, shape, number = match.groups()
        extents = tuple(int(extent) for extent in shape.split(",") if extent)
        fill = float(number or {"scale": 1, "max": 1}.get(name, 0))
        tensors[ROLES.get(name, name)] = tensor(dtype, np.full(extents, fill))
    return Call(identity, tensors, attributes)


T8 = ("int8", "uint8", "int32")


T19 = (*T8, "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")


T21 = (*T19, "int16", "uint16", "int4", "uint4")


T23, T25 = (*T21, "float4_e2m1fn"), (*T21, "float4_e2m1fn", "int2", "uint2")


T28 = (*T25, "float6_e2m3fn", "float6_e3m2fn")


F = ("float32", "float16", "bfloat16")


E8M0 = (*F, "float8_e8m0fnu")


TYPES = {
    10: (T8, F[:1]), 13: (T8, F[:1]), 19: (T19, F), 21: (T21, F), 23: (T23, F), 24: (T23, E8M0), 25: (T25, E8M0), 28: (T28, E8M0),
}  # fmt: skip
"""Types of x and of the scale by version, written by hand. The contracts read them from the schemas."""


def pick(rng: np.random.Generator, *options: object) -> object:
    return options[rng.integers(len(options))]


def random_call(version: int, rng: np.random.Generator) -> Call:
    """Draw a call. About half of them are allowed."""
    x_types, scale_types = TYPES[version]
    shape = tuple(int(e) for e in rng.choice([0, 1, 2, 3, 5], rng.integers(0, 4)))
    x_dtype = str(rng.choice(x_types if rng.random() < 0.92 else list(BITS)))
    scale_dtype = str(rng.choice(scale_types if rng.random() < 0.92 else list(BITS)))
    attributes: dict[str, int | str] = {}
    axis, block = int(rng.integers(-len(shape) - 1, len(shape) + 2)), int(pick(rng, 1, 2, 3, 7, 0, -1))
    from_front = axis % len(shape) if shape else 0
    blocks = tuple(-(-e // max(block, 1)) if i == from_front else e for i, e in enumerate(shape))
    like: tuple[int, ...] = pick(rng, (), (), shape[from_front : from_front + 1], blocks, blocks, (1,), shape, (2,))
    if rng.random() < (0.7 if version >= 13 else 0.05):
        attributes["axis"] = axis
    if rng.random() < (0.6 if version >= 21 else 0.05):
        attributes["block_size"] = block
    if rng.random() < (0.6 if version >= 23 else 0.05):
        attributes["output_dtype"] = str(pick(rng, *F, *F, "float64", "float8_e8m0fnu"))
    tensors = {"x": Tensor(x_dtype, np.zeros(shape, code_dtype(x_dtype)))}
    tensors["scale"] = Tensor(scale_dtype, np.ones(like, code_dtype(scale_dtype)))
    if rng.random() < 0.5:
        dtype = x_dtype if rng.random() < 0.9 else str(rng.choice(x_types))
        zero_shape = like if rng.random() < 0.9 else pick(rng, (), (1,), shape)
        tensors["zero_point"] = Tensor(
            dtype, encode("uint8", np.full(zero_shape, pick(rng, 0, 1))).astype(code_dtype(dtype))
        )
    return Call(f"{ONNX}{version}", tensors, attributes)


def changed_calls(contract: Contract) -> list[Call]:
    """Return forbidden and unspecified calls of each kind, made from some calls of the walk."""
    changed = []
    for seed, call in enumerate(every_nth(contract.id, 37)):
        for names, change in ((breakable(contract), spoiled), (openable(contract), opened)):
            made = (change(contract, call, name, np.random.default_rng(seed)) for name in names)
            changed += [call for call in made if call is not None]
    return changed
