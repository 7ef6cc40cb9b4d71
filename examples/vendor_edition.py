"""A vendor's edition of DequantizeLinear, for ``--contract examples/vendor_edition.py``. Copy it and change it.

The vendor Acme and its manual are invented. The manual allows int8 and uint8 codes with bfloat16 scales and results. There is
one scale for the whole tensor, or one for each block of 32 elements. The difference is taken in int16, and the product is
rounded once. An edition states that in four parts: clauses (the sentences), a domain (the types), `judge` (which calls are
allowed), and the readings of the formula (which bits are right).
"""

from xverify.contracts.linear import ceil_div, linear_operands, normal_axis
from xverify.contracts.model import Cell, Clause, Contract, Domain, Judgement, Operands, Reading, judged
from xverify.contracts.readings import EXACT
from xverify.core.call import Call

# The form is "vendor/Operator-version". Use a vendor name that no built-in edition has.
ID = "acme/DequantizeLinear-1"
MANUAL = "Acme NPU operator manual, revision C, section 4.2"

# Quote the sentences word for word, because findings show them to other people. A sweep breaks a clause according to its name,
# so use the names that `xverify contracts ai.onnx/DequantizeLinear-21` lists. The name "formula" is required.
TEXTS = {
    "formula": "y = (x - x_zero_point) * x_scale; the difference is taken in int16, the product is rounded once.",
    "x-type": "x is int8 or uint8.",
    "scale-type": "x_scale is bfloat16, and so is y.",
    "zero-point-type": "x_zero_point has the type of x.",
    "zero-point-shape": "x_zero_point has the shape of x_scale.",
    "granularity": "x_scale is a scalar, or has one element for each block.",
    "block-size": "A block has 32 elements along axis; block_size must be 32 for blocks, and absent for a scalar.",
    "block-shape": "x_scale has ceil(D / 32) elements along axis, and the extents of x elsewhere.",
    "axis-range": "axis is in [-r, r-1] for x of rank r.",
    "attributes": "The attributes are axis and block_size.",
}
# A clause without text records a silence of the document. Its note names the subject.
SILENT = {"subnormal": "no sentence says whether subnormal results are kept or flushed to zero"}

# The types, granularities and attributes of the calls that a sweep makes. Without zero_point_dtypes, a zero point has the type
# of x.
DOMAIN = Domain(
    family="linear",
    x_dtypes=("int8", "uint8"),
    scale_dtypes=("bfloat16",),
    output_dtypes=("bfloat16",),
    granularities=("per_tensor", "blocked"),
    attributes=("axis", "block_size"),
)


def judge(call: Call) -> Judgement:
    """Decide if the manual allows a call. The tensors are x, scale and optionally zero_point."""
    x, scale, zero_point = call.tensors["x"], call.tensors["scale"], call.tensors.get("zero_point")
    broken = []
    if x.dtype not in DOMAIN.x_dtypes:
        broken.append("x-type")
    if scale.dtype not in DOMAIN.scale_dtypes:
        broken.append("scale-type")
    if zero_point is not None and zero_point.dtype != x.dtype:
        broken.append("zero-point-type")
    if zero_point is not None and zero_point.shape != scale.shape:
        broken.append("zero-point-shape")
    if set(call.attributes) - set(DOMAIN.attributes):
        broken.append("attributes")
    axis = normal_axis(int(call.attributes.get("axis", 1)), len(x.shape))
    if scale.shape == ():
        broken += ["block-size"] if "block_size" in call.attributes else []
    elif len(scale.shape) != len(x.shape):
        broken.append("granularity")
    elif axis is None:
        broken.append("axis-range")
    elif call.attributes.get("block_size") != 32:
        broken.append("block-size")
    elif scale.shape != tuple(ceil_div(extent, 32) if i == axis else extent for i, extent in enumerate(x.shape)):
        broken.append("block-shape")
    # The second list is for clauses that leave a call unspecified. This manual has none.
    return judged(ID, broken, [])


def cell(call: Call) -> Cell:
    """Cell of a call: the types and the granularity under which xverify counts it."""
    tensors = call.tensors
    zero_point = tensors["zero_point"].dtype if "zero_point" in tensors else ""
    granularity = "per_tensor" if tensors["scale"].shape == () else "blocked"
    return Cell(ID, tensors["x"].dtype, tensors["scale"].dtype, zero_point, "bfloat16", granularity, "")


def operands(call: Call) -> Operands:
    """Value of x, scale and zero point for each element of the output."""
    axis, block_size = call.attributes.get("axis", 1), call.attributes.get("block_size", 0)
    return linear_operands(call, "bfloat16", int(axis), int(block_size))


def readings(call: Call) -> tuple[Reading, ...]:
    """Readings that the formula admits.

    The difference of two 8-bit numbers fits in int16, so it is exact. The product is "rounded once", so one reading remains.
    Without these words, FLOAT32 from the same module would be a second reading.
    """
    return (EXACT,)


def value_clause(call: Call, reading: str | None) -> str:
    """Id of the clause that a wrong value contradicts."""
    return f"{ID}/formula"


def contract() -> Contract:
    """Edition that this file defines. xverify calls this function."""
    clauses = [Clause(f"{ID}/{name}", text, MANUAL) for name, text in TEXTS.items()]
    clauses += [Clause(f"{ID}/{name}", "", MANUAL, note) for name, note in SILENT.items()]
    return Contract(
        id=ID,
        title="Acme NPU DequantizeLinear",
        document=MANUAL,
        domain=DOMAIN,
        clauses={clause.id: clause for clause in clauses},
        judge=judge,
        cell=cell,
        operands=operands,
        readings=readings,
        value_clause=value_clause,
        # Only your kernel knows this edition. Implementations of the edition named here take calls of the same form, so a
        # sweep shows them beside your kernel. It does not judge them by Acme's text.
        like="ai.onnx/DequantizeLinear-21",
    )
