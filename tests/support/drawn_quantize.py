"""QuantizeLinear nodes, drawn near ties and from random bits, compared element by element with exact fractions.

``PYTHONPATH=.:tests/support python tests/support/drawn_quantize.py 1000000 1`` compares a million elements of seed 1.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import numpy as np
from exact_quantize import NAN, RANGES, Node, legal
from numpy.typing import NDArray

from xverify.contracts.quantize import quantize
from xverify.core.call import BITS, Tensor, code_dtype
from xverify.core.dtypes import values
from xverify.core.rounding import cast

Codes = NDArray[Any]
EIGHT, SIXTEEN, FOUR, TWO = ("uint8", "int8"), ("uint16", "int16"), ("uint4", "int4"), ("uint2", "int2")
OUTPUTS = {
    0: (*EIGHT, *SIXTEEN, *FOUR), 10: EIGHT, 13: EIGHT, 19: (*EIGHT, *NAN), 21: (*EIGHT, *SIXTEEN, *FOUR, *NAN),
    23: (*EIGHT, *SIXTEEN, *FOUR, *NAN, "float4_e2m1fn"), 24: (*EIGHT, *SIXTEEN, *FOUR, *NAN, "float4_e2m1fn"),
    25: (*EIGHT, *SIXTEEN, *FOUR, *TWO, *NAN, "float4_e2m1fn"),
    28: tuple(d for d in ("float6_e2m3fn", "float6_e3m2fn") if d in BITS) or EIGHT,
}  # fmt: skip
"""The types of y by opset. 0 is com.microsoft."""


def compare(node: Node, x: Codes, scale: Codes, zero_point: Codes | None) -> Counter[str]:
    """Compare each element's legal codes with exact fractions.

    Every element has its own scale and zero point: the node is blocked with a block size of 1.

    Returns:
        The numbers of elements, of those that are open, and of those with two codes or more.

    Raises:
        AssertionError: The legal codes of an element differ.
    """

    def column(dtype: str, codes: Codes) -> Tensor:
        return Tensor(dtype, np.broadcast_to(codes.astype(code_dtype(dtype)), x.shape).reshape(-1, 1))

    attributes: dict[str, Any] = {"axis": 0, "block_size": 1, "saturate": int(node.saturate)}
    if node.precision:
        attributes["precision"] = node.precision
    offset = None if zero_point is None else column(node.y, zero_point)
    if offset is None:
        attributes["output_dtype"] = node.y
    domain, operands = "" if node.opset else "com.microsoft", (column(node.x, x), column(node.scale, scale))
    result = quantize(node.opset or 1, domain, *operands, offset, attributes)
    assert result.dtype == node.y
    counts: Counter[str] = Counter(elements=x.size)
    columns = (operands[0], operands[1], *([] if offset is None else [offset]))
    rows = zip(*(tensor.codes[:, 0].tolist() for tensor in columns), strict=True)
    legal_codes = np.stack(result.alternatives)[:, :, 0].T.tolist()
    for row, is_open, codes in zip(rows, result.open[:, 0].tolist(), legal_codes, strict=True):
        due = legal(node, row[0], row[1], row[2] if len(row) > 2 else None)
        assert due == (None if is_open else frozenset(codes)), (node, [hex(code) for code in row])
        counts["open"] += due is None
        counts["ambiguous"] += due is not None and len(due) > 1
    return counts


def halves(dtype: str) -> NDArray[np.float64]:
    """Every number that lies between two neighbours of a type, and some beyond the largest one."""
    if dtype in RANGES:
        lowest, highest = RANGES[dtype]
        # With the zero point at one end of the range, quotients of the whole width count.
        span = highest - lowest
        return np.arange(2 * (lowest - span) - 3, 2 * (highest + span) + 4, 2) / 2.0
    numbers = values(dtype, np.arange(1 << (BITS[dtype] - 1), dtype=code_dtype(dtype)))
    numbers = numbers[np.isfinite(numbers)]
    middles = np.append((numbers[1:] + numbers[:-1]) / 2, numbers[-1] + (numbers[-1] - numbers[-2]) / 2)
    return np.concatenate([middles, -middles])


def _floats(dtype: str, numbers: NDArray[np.float64]) -> Codes:
    if dtype == "int32":
        return np.asarray(np.clip(np.rint(numbers), -(2**31), 2**31 - 1).astype(np.int64) & 0xFFFFFFFF)
    if dtype == "float8_e8m0fnu":
        return np.clip(np.rint(np.log2(np.abs(numbers))) + 127, 0, 254).astype(np.int64)
    return cast(numbers, dtype).astype(np.int64)


def draw(rng: np.random.Generator, size: int) -> tuple[Node, Codes, Codes, Codes | None]:
    """A node and its operands."""

    def choice(options: tuple[str, ...]) -> str:
        return str(rng.choice(options))

    opset = int(rng.choice(list(OUTPUTS)))
    y = choice(OUTPUTS[opset])
    floats: tuple[str, ...] = ("float32", "float16", "bfloat16", "int32")
    x = choice(("float32", "float16") if opset == 0 else ("float32", "int32") if opset < 19 else floats)
    scales = (*floats, "float8_e8m0fnu") if opset >= 24 else floats
    scale = choice(scales) if opset >= 23 else x if opset in (0, 19, 21) else "float32"
    precision = choice(("", "float32", "float16", "bfloat16")) if opset >= 23 else ""
    node = Node(opset, x, scale, y, precision, opset < 19 or bool(rng.random() < 0.7))
    kind = rng.integers(6)
    if kind == 0:
        operands = [rng.integers(0, 1 << BITS[dtype], size) for dtype in (x, scale)]
    else:
        lowest, highest = {1: (-140, 120), 2: (-127, -117)}.get(int(kind), (-6, 6))
        exponents = rng.uniform(lowest, highest, size)
        sizes = np.exp2(exponents) * rng.choice([-1, 1], size)
        divisors = _floats(scale, np.ceil(np.abs(sizes) * 100) if scale == "int32" else sizes)
        with np.errstate(all="ignore"):
            products = rng.choice(halves(y), size) * values(scale, divisors.astype(code_dtype(scale)))
        products[0] = rng.choice([np.inf, -np.inf, 0.0, -0.0])
        near = _floats(x, np.nan_to_num(products, posinf=np.inf, neginf=-np.inf)) + (
            rng.integers(-2, 3, size) if kind > 3 else 0
        )
        operands = [np.clip(near, 0, (1 << BITS[x]) - 1), divisors]
    offsets = rng.integers(0, 1 << BITS[y], size) if rng.random() < 0.7 else None
    if offsets is not None and y not in RANGES and rng.random() < 0.5:
        offsets *= 0
    return node, operands[0], operands[1], offsets


def compare_drawn(elements: int, seed: int) -> Counter[str]:
    """Compare that many drawn elements, 20 to a node."""
    rng = np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    while counts["elements"] < elements:
        counts += compare(*draw(rng, 20))
        counts["nodes"] += 1
    return counts


def compare_ties(dtype: str, scales: list[float], zero_points: list[int] | None) -> Counter[str]:
    """Compare every tie of a type, and its two neighbours in float32, under float32 scales of at most 8 bits.

    Args:
        dtype: The type of y.
        scales: The scales. They must be exact in float32.
        zero_points: Codes; None for an absent zero point.
    """
    counts: Counter[str] = Counter()
    ties = halves(dtype)
    for scale in scales:
        codes = _floats("float32", ties * scale)
        assert np.array_equal(values("float32", codes.astype(np.uint32)), ties * scale)
        x = np.concatenate([codes - 1, codes, codes + 1])
        divisor = _floats("float32", np.asarray([scale]))
        for zero_point in [None] if zero_points is None else zero_points:
            offset = None if zero_point is None else np.asarray([zero_point])
            counts += compare(Node(21, "float32", "float32", dtype), x, divisor, offset)
    return counts


if __name__ == "__main__":
    print(dict(compare_drawn(int(sys.argv[1]), int(sys.argv[2]))))
