"""The releases of oneDNN's guide, and rules that the editions of both operations share.

No wheel contains the guide. The library's sources do, and an edition has the name of the first release with its text. A
library is judged by the edition of its own release. The two documents that name no release judge no library.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from xverify.arithmetic.linear_operands import linear_operands, normal_axis
from xverify.arithmetic.reading import Operands
from xverify.contracts.documents import onednn_release
from xverify.contracts.model import Cell, Domain
from xverify.core.call import Call
from xverify.core.dtypes import integer_range, integers

Release = tuple[int, int]
"""Major and minor version of the library."""

RELEASES: Mapping[str, tuple[Release, Release]] = {
    "onednn/Dequantize-1@3.0": ((3, 0), (3, 3)),
    "onednn/Dequantize-1@3.5": ((3, 5), (3, 13)),
    "onednn/DynamicDequantize-1@3.0": ((3, 0), (3, 6)),
    "onednn/DynamicDequantize-1@3.7": ((3, 7), (3, 13)),
}
"""The first and the last release with all sentences of an edition, among releases 3.0 to 3.13.

Dequantize in release 3.4 has no edition here: zps may be omitted there, and no sentence says what that means.
"""

SILENT = {
    "output-shape": "no sentence says that the output has the shape of the input",
    "axis-per-tensor": "no sentence says whether the axis' range holds where the axis is not used",
    "int32-overflow": "no sentence says in which type the difference is taken when it leaves the range of s32",
    "subnormal": "no sentence mentions subnormal results: whether they are kept or flushed to zero is open",
}


def document(identity: str) -> str:
    """The title of an edition of the guide, with its releases."""
    first, last = (".".join(map(str, release)) for release in RELEASES[identity])
    operation = identity.partition("/")[2].partition("-")[0]
    return f"oneDNN developer guide {first} to {last}, {operation}"


def judges(identity: str, release: Release | None) -> bool:
    """True if an edition of the guide covers a release of the library.

    No edition judges an unknown release (None).
    """
    if identity not in RELEASES or release is None:
        return False
    first, last = RELEASES[identity]
    return first <= release <= last


def carried(identity: str, distribution: str, python: str) -> bool:
    """True if the edition judges the library in a Python's wheel.

    Raises:
        DocumentError: The release of that library cannot be found out.
    """
    return judges(identity, onednn_release(python))


# -- rules of both operations ----------------------------------------------------------------------------


def per_channel(call: Call) -> bool:
    """True if the call has a scale for each channel, in either spelling."""
    return call.attributes.get("qtype") in ("per_channel", "per-channel")


def judge_types_and_axis(domain: Domain, call: Call) -> tuple[int | None, list[str], list[str]]:
    """Judge the types and the axis of a call.

    Returns:
        The number of elements that scales and zps must have, or None if the axis does not give one. The names of the clauses
        that forbid the call. The names of those that leave it open.
    """
    forbidden = [
        f"{name}-type"
        for name, role, admitted in (("src", "x", domain.x_dtypes), ("scales", "scale", domain.scale_dtypes))
        if call.tensors[role].dtype not in admitted
    ]
    axis = normal_axis(int(call.attributes.get("axis", 1)), len(call.data.shape))
    if not per_channel(call):
        return 1, forbidden, ["axis-per-tensor"] if "axis" in call.attributes and axis is None else []
    return (None, [*forbidden, "axis-range"], []) if axis is None else (call.data.shape[axis], forbidden, [])


def operands(call: Call, output_dtype: str) -> Operands:
    """The operands of a call, after indexing."""
    axis = int(call.attributes.get("axis", 1)) if per_channel(call) else None
    return linear_operands(call, output_dtype, axis)


def overflows(call_operands: Operands) -> bool:
    """True if a difference leaves the range of int32."""
    codes, dtypes = call_operands.codes, call_operands.dtypes
    x = integers(dtypes["x"], codes["x"])
    # The clip keeps the difference inside int64. A zero point at its ends is still far outside int32.
    zero_point = np.clip(integers(dtypes["zero_point"], codes["zero_point"]), -(2**40), 2**40)
    lowest, highest = integer_range("int32")
    difference = x - zero_point
    return bool(np.any((difference < lowest) | (difference > highest)))


def cell(identity: str, call: Call, output_dtype: str) -> Cell:
    """The cell of a call under an edition."""
    zero_point = call.tensors["zero_point"].dtype if "zero_point" in call.tensors else ""
    granularity = "per_axis" if per_channel(call) else "per_tensor"
    return Cell(identity, call.data.dtype, call.tensors["scale"].dtype, zero_point, output_dtype, granularity, "")
