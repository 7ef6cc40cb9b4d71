"""What the editions of oneDNN's operations share, and which release of the library each edition of its guide is of.

No wheel carries the guide. That of a release lies in the library's sources, and an edition is named after the first release
whose text it is; a library is judged by the edition of its own release, and by the two documents that name none.
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
"""For each edition of the guide the first and the last release in which all its sentences stand, of those that were read (3.0
to 3.13). That of Dequantize in 3.4 is none of these: zps may be omitted, and no sentence says what that means."""

SILENT = {
    "output-shape": "no sentence says that the output has the shape of the input",
    "axis-per-tensor": "no sentence says whether the axis' range holds where the axis is not used",
    "int32-overflow": "no sentence says in which type the difference is taken when it leaves the range of s32",
    "subnormal": "no sentence mentions subnormal results: whether they are kept or flushed to zero is open",
}


def document(identity: str) -> str:
    """How an edition of the guide is called, with the releases whose text it is."""
    first, last = (".".join(map(str, release)) for release in RELEASES[identity])
    operation = identity.partition("/")[2].partition("-")[0]
    return f"oneDNN developer guide {first} to {last}, {operation}"


def judges(identity: str, release: Release | None) -> bool:
    """Whether an edition judges that release of the library: its own guide does, and every document that names no release. Of a
    release that is not known only the latter do."""
    if identity not in RELEASES or release is None:
        return identity not in RELEASES
    first, last = RELEASES[identity]
    return first <= release <= last


def carried(identity: str, distribution: str, python: str) -> bool:
    """Whether that edition judges the library that a Python's wheel holds. Raises DocumentError when its release is not
    known."""
    return judges(identity, onednn_release(python))


# -- what calls of both operations are -------------------------------------------------------------------


def per_channel(call: Call) -> bool:
    return call.attributes.get("qtype") in ("per_channel", "per-channel")


def begun(domain: Domain, call: Call) -> tuple[int | None, list[str], list[str]]:
    """What both operations say of a call: how many elements scales and zps must have (None where the axis does not say it), and
    the names of the clauses that forbid its types or its axis, or leave the axis open."""
    forbidden = [
        f"{name}-type"
        for name, role, admitted in (("src", "x", domain.x_dtypes), ("scales", "scale", domain.scale_dtypes))
        if call.tensors[role].dtype not in admitted
    ]
    place = normal_axis(int(call.attributes.get("axis", 1)), len(call.data.shape))
    if not per_channel(call):
        return 1, forbidden, ["axis-per-tensor"] if "axis" in call.attributes and place is None else []
    return (None, [*forbidden, "axis-range"], []) if place is None else (call.data.shape[place], forbidden, [])


def operands(call: Call, output_dtype: str) -> Operands:
    axis = int(call.attributes.get("axis", 1)) if per_channel(call) else None
    return linear_operands(call, output_dtype, axis)


def overflows(given: Operands) -> bool:
    """Whether some difference leaves the range of int32."""
    x = integers(given.dtypes["x"], given.codes["x"])
    # A zero point that alone is far outside stays so; without this its difference could leave int64.
    zero_point = np.clip(integers(given.dtypes["zero_point"], given.codes["zero_point"]), -(2**40), 2**40)
    lowest, highest = integer_range("int32")
    difference = x - zero_point
    return bool(np.any((difference < lowest) | (difference > highest)))


def cell(identity: str, call: Call, output_dtype: str) -> Cell:
    zero_point = call.tensors["zero_point"].dtype if "zero_point" in call.tensors else ""
    granularity = "per_axis" if per_channel(call) else "per_tensor"
    return Cell(identity, call.data.dtype, call.tensors["scale"].dtype, zero_point, output_dtype, granularity, "")
