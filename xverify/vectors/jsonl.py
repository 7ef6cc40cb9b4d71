"""The JSON form of a corpus: one call on each line.

Keys have a fixed order, and there are no spaces outside strings. Both are part of the format. So a program without a JSON
library can search a line. docs/vectors.md describes the format.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.contracts.model import Contract
from xverify.core.call import BITS
from xverify.vectors.choose import Vector

FILE = "vectors.jsonl"


def hex_codes(dtype: str, codes: NDArray[Any]) -> str:
    """The codes in C order. Each is a number in hex with as many digits as its dtype needs."""
    text = np.asarray(codes, order="C").astype(codes.dtype.newbyteorder(">")).tobytes().hex()
    return text[1::2] if BITS[dtype] <= 4 else text


def line(contract: Contract, vector: Vector) -> str:
    """One call as a line of JSON, with the line's end."""
    call = vector.call
    entry: dict[str, Any] = {
        "id": vector.id,
        "attributes": dict(sorted(call.attributes.items())),
        "inputs": [
            {"name": role, "dtype": t.dtype, "shape": list(t.shape), "codes": hex_codes(t.dtype, t.codes)}
            for role, t in call.tensors.items()
        ],
    }
    if vector.clauses:
        entry["refused"] = [{"clause": name, "sentence": contract.clauses[name].text} for name in vector.clauses]
    else:
        entry["output"] = {"dtype": vector.output_dtype, "shape": list(vector.legal[0].shape)}
        entry["legal"] = [hex_codes(vector.output_dtype, codes) for codes in vector.legal]
        entry["cell"] = vector.cell
        if len(vector.legal) > 1:
            entry["readings"] = [list(names) for names in vector.readings]
    return json.dumps(entry, separators=(",", ":"), ensure_ascii=True) + "\n"
