"""An edition whose zero points are float32: y = (x - zero point) * scale, in float32 or rounded once."""

from __future__ import annotations

from xverify.contracts.linear import linear_operands
from xverify.contracts.model import Cell, Clause, Contract, Domain, Judgement, Operands, judged
from xverify.contracts.readings import EXACT, FLOAT32
from xverify.core.call import Call

ID = "hqq/Dequantize-1"
DOMAIN = Domain(
    "linear", ("uint8",), ("float32",), ("float32",), ("per_tensor",), ("float32",), zero_point_required=True
)
CLAUSES = {"formula": "y = (x - z) * s", "types": "x is uint8; z and s are float32.", "shape": "z and s are scalars."}


def judge(call: Call) -> Judgement:
    x, scale, zero_point = (call.tensors.get(role) for role in ("x", "scale", "zero_point"))
    if x is None or scale is None or zero_point is None:
        return judged(ID, ["types"], [])
    typed = x.dtype in DOMAIN.x_dtypes and scale.dtype == zero_point.dtype == "float32" and not call.attributes
    shaped = scale.shape == zero_point.shape == ()
    return judged(ID, [name for name, holds in (("types", typed), ("shape", shaped)) if not holds], [])


def operands(call: Call) -> Operands:
    return linear_operands(call, "float32", None)


def contract() -> Contract:
    return Contract(
        id=ID,
        title="Dequantize with float zero points",
        document="A manual",
        domain=DOMAIN,
        clauses={f"{ID}/{name}": Clause(f"{ID}/{name}", text, "A manual") for name, text in CLAUSES.items()},
        judge=judge,
        cell=lambda call: Cell(ID, call.data.dtype, "float32", "float32", "float32", "per_tensor", ""),
        operands=operands,
        readings=lambda call: (EXACT, FLOAT32),
        value_clause=lambda call, reading: f"{ID}/formula",
        like="ai.onnx/DequantizeLinear-21",
    )
