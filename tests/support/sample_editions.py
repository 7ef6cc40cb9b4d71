"""The editions of the hand-made sample report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

ONNX = "ai.onnx/DequantizeLinear-21"
ONEDNN = "onednn/DynamicDequantize-1@multiply"
DIVIDE = "onednn/DynamicDequantize-1@divide"
TENSORFLOW = "tensorflow/Dequantize@installed"


def edition(identity: str, title: str, document: str, clauses: Sequence[tuple[str, str, str, int]]) -> dict[str, Any]:
    return {
        "id": identity,
        "title": title,
        "document": document,
        "clauses": [
            {"id": f"{identity}/{name}", "text": text, "document": document, "note": note, "tested": tested}
            for name, text, note, tested in clauses
        ],
        "readings": [
            {"name": "exact", "words": "rounds the exact value of (x - zero point) * scale once"},
            {"name": "float32", "words": "rounds difference and product to float32, then casts"},
        ],
    }


def plain_editions() -> list[dict[str, Any]]:
    return [
        edition(
            ONNX,
            "ONNX DequantizeLinear, version 21",
            "DequantizeLinear-21 in onnx.defs of onnx 1.23.2",
            [
                ("formula", "The dequantization formula is `y = (x - x_zero_point) * x_scale`.", "", 21_400),
                ("zero-point-type", "`x_zero_point` and `x` must have the same type.", "", 310),
                ("granularity", "`x_scale` and `x_zero_point` must have the same shape, determining the quantization's "
                 "granularity: a scalar for per-tensor/per-layer quantization, a 1-D tensor for per-axis quantization, or "
                 "have a rank identical to the input for blocked quantization.", "", 290),
                ("one-element-scale", "", "no sentence covers a 1-D scale of one element on an axis of another length", 120),
                ("subnormal", "", "no sentence mentions subnormal results", 0),
            ],
        ),
        edition(
            ONEDNN,
            "oneDNN DynamicDequantize, the document that multiplies",
            "seed 001, oneDNN graph dialect",
            [("formula", "dst = (src - zps) * scales", "", 9_100), ("axis", "the range is [-r, r-1]", "", 75)],
        ),
        edition(
            DIVIDE,
            "oneDNN DynamicDequantize, the document that divides",
            "seed 002, oneDNN developer guide",
            [("formula", "output_{i} = (input_{i} - zp) / scale", "", 900)],
        ),
        edition(
            TENSORFLOW,
            "TensorFlow Dequantize, installed edition",
            "docstring of tf.quantization.dequantize in tensorflow 2.22.0",
            [
                ("formula-min-combined", "if T == qint8: in[i] += (range(T) + 1)/ 2.0 "
                 "out[i] = min_range + (in[i]* (max_range - min_range) / range(T))", "", 4_800),
                ("formula-scaled", "const int max_expected_T = (1 << (num_bits - 1)) - 1;", "", 0),
                ("range-type", "min_range A Tensor of type float32.", "", 40),
            ],
        ),
    ]  # fmt: skip
