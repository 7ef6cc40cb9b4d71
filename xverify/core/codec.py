"""Calls and outcomes as JSON, for reports, witnesses and replay files.

Files are read as data. They are limited in size and never unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from xverify.core.call import (
    BITS,
    LAYOUTS,
    Call,
    Outcome,
    Tensor,
    code_dtype,
    decode_call,
    encode_call,
    read_around,
)
from xverify.core.dtypes import decimal, hexadecimal
from xverify.core.errors import DamagedFileError

MOST_INLINE = 4096
"""Largest number of values of a tensor inside JSON. Larger ones lie in a file beside the report."""

MOST_BYTES = 256 << 20
"""Largest size of a file that is read, in bytes."""


def read_json(path: Path, limit: int = MOST_BYTES) -> Any:
    """Read the JSON in a file.

    Raises:
        DamagedFileError: The file cannot be read, is too large, or is not JSON.
    """
    try:
        size = path.stat().st_size
        if size > limit:
            raise DamagedFileError(f"{path} has {size} bytes; more than {limit} are refused")
        return json.loads(path.read_bytes().decode("utf-8"), parse_constant=_no_number)
    except OSError as error:
        raise DamagedFileError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # Python also refuses numbers of thousands of digits.
        raise DamagedFileError(f"{path} is not JSON: {error}") from None


def _no_number(name: str) -> Any:
    raise ValueError(f"it has {name}, which is no number of JSON")


def tensor_to_json(tensor: Tensor, generator: str = "", file: str = "", digest: str = "") -> dict[str, Any]:
    """A tensor as dtype, shape, layout, decimals and bits in hex.

    A large tensor has generator, digest and file in place of its values.
    """
    head = {"dtype": tensor.dtype, "shape": list(tensor.shape), "layout": tensor.layout}
    if tensor.size > MOST_INLINE:
        return {**head, "generator": generator, "digest": digest, "file": file}
    codes = [int(code) for code in tensor.codes.reshape(-1)]
    return {
        **head,
        "data": [decimal(tensor.dtype, code) for code in codes],
        "hex": [hexadecimal(tensor.dtype, code) for code in codes],
    }


def call_to_json(call: Call, file: str = "") -> dict[str, Any]:
    """A call as JSON. ``file`` is the name of the file beside it that holds a call with large tensors."""
    digest = call.digest()
    return {
        "contract": call.contract,
        "tensors": {role: tensor_to_json(t, call.origin, file, digest) for role, t in call.tensors.items()},
        "attributes": dict(call.attributes),
        **({"around": list(call.around)} if call.around else {}),
        "origin": call.origin,
    }


def is_large(call: Call) -> bool:
    """True if a tensor of the call is too large for JSON."""
    return any(tensor.size > MOST_INLINE for tensor in call.tensors.values())


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    """An outcome as JSON. A large result has no values there, since the call gives them again."""
    tensor = None if outcome.tensor is None else tensor_to_json(outcome.tensor, "the implementation's result")
    return {
        "kind": outcome.kind,
        "tensor": tensor,
        "error": outcome.error,
        "message": outcome.message,
        "notes": list(outcome.notes),
        **({"stage": outcome.stage} if outcome.stage else {}),
    }


def tensor_from_json(entry: Mapping[str, Any]) -> Tensor:
    """Read a tensor from JSON with its values. Only the bits count, not the decimals.

    Raises:
        ValueError: The entry is damaged.
    """
    dtype, shape, layout = entry["dtype"], entry["shape"], entry.get("layout", "C")
    if dtype not in BITS:
        raise ValueError(f"unknown dtype {dtype!r}")
    if layout not in LAYOUTS:
        raise ValueError(f"unknown layout {layout!r}")
    if not isinstance(shape, list) or not all(isinstance(e, int) and 0 <= e < 2**31 for e in shape) or len(shape) > 32:
        raise ValueError(f"a shape must be a list of extents, not {shape!r}")
    codes = [int(text, 16) for text in entry["hex"]]
    if any(not 0 <= code < 1 << BITS[dtype] for code in codes):
        raise ValueError(f"a code is outside the {BITS[dtype]} bits of {dtype}")
    return Tensor(dtype, np.array(codes, code_dtype(dtype)).reshape(shape), layout)


def call_from_json(entry: Any, directory: Path) -> Call:
    """Read a call from JSON.

    Args:
        entry: The JSON.
        directory: The only folder with files of large calls.

    Raises:
        DamagedFileError: The entry is no call, or its file is missing or was changed.
    """
    try:
        large = [t for t in entry["tensors"].values() if "hex" not in t]
        if large:
            return _call_from_file(directory / Path(large[0]["file"]).name, large[0]["digest"])
        attributes = dict(entry["attributes"])
        if not all(isinstance(v, (int, str, bool)) for v in attributes.values()):
            raise ValueError("an attribute must be a whole number, a string or a boolean")
        tensors = {str(role): tensor_from_json(t) for role, t in entry["tensors"].items()}
        if not tensors.keys() & {"x", "input"}:
            raise ValueError("it has no quantized tensor")
        around = read_around(entry.get("around", []))
        return Call(str(entry["contract"]), tensors, attributes, str(entry.get("origin", "")), around)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        if isinstance(error, DamagedFileError):
            raise
        reason = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise DamagedFileError(f"the witness is damaged: {reason}") from None


def _call_from_file(path: Path, digest: str) -> Call:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise DamagedFileError(f"{path} has more than {MOST_BYTES} bytes")
        call = decode_call(path.read_bytes())
    except OSError as error:
        raise DamagedFileError(f"{path} cannot be read: {error.strerror}") from None
    if call.digest() != digest:
        raise DamagedFileError(f"{path} is not the call that was written: its digest is {call.digest()}")
    return call


def write_call(call: Call, path: Path) -> None:
    """Write the wire form of a call to a file."""
    path.write_bytes(encode_call(call))
