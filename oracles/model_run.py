"""A run of a whole ONNX model in an implementation, and its wire form.

Workers import this module, so it needs the standard library, NumPy and `xverify.core.call` only.
"""

from __future__ import annotations

import json
import os
import struct
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Mapping, Tuple

import numpy as np

from xverify.core.call import BITS, Tensor, code_dtype

MODEL = "model:"
"""The beginning of a path's name in a request that asks for a run of a model instead of a call."""

_MAGIC = b"xvm1"
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, eq=False)
class ModelRun:
    """A run of a model."""

    file: str
    """The model's file. Files of external data lie beside it."""
    inputs: Mapping[str, Tensor]
    """The inputs by name."""
    outputs: Tuple[str, ...] = ()
    """The names of the outputs to return. Empty: all.

    An output of booleans comes as uint8. One that is no tensor of numbers, such as strings or a sequence, is left out.
    """
    settings: Mapping[str, str] = field(default_factory=dict)
    """Further settings by name, for one implementation."""


def encode_run(run: ModelRun) -> bytes:
    """The wire form of a run."""
    header = {"file": run.file, "outputs": list(run.outputs), "settings": dict(run.settings)}
    return _packed(header, run.inputs)


def decode_run(blob: bytes) -> ModelRun:
    """Read the wire form of a run.

    Raises:
        ValueError: It is damaged.
    """
    header, inputs = _unpacked(blob)
    return ModelRun(header["file"], inputs, tuple(header["outputs"]), header["settings"])


class LastModel:
    """The model that was loaded last. Runs of the same file, unchanged, share it."""

    def __init__(self) -> None:
        self._key: Tuple[Any, ...] = ()
        self._model: Any = None

    def get(self, file: str, level: str, load: Callable[[], Any]) -> Any:
        """The loaded model of a file at a level. ``load`` loads it; its exceptions pass."""
        state = os.stat(file)
        key = (file, level, state.st_mtime_ns, state.st_size, state.st_ino)
        if key != self._key:
            self._key, self._model = (), None  # two large models at once may not fit
            self._model = load()
            self._key = key
        return self._model


def encode_results(results: Mapping[str, Tensor]) -> Tensor:
    """The outputs of a run as the bytes of one tensor, so that an `Outcome` can hold them."""
    return Tensor("uint8", np.frombuffer(_packed({}, results), np.uint8))


def decode_results(tensor: Tensor) -> Dict[str, Tensor]:
    """The outputs of a run by name.

    Raises:
        ValueError: The bytes are damaged.
    """
    return _unpacked(tensor.codes.tobytes())[1]


def _packed(header: Mapping[str, object], tensors: Mapping[str, Tensor]) -> bytes:
    listed = [(name, tensor.dtype, list(tensor.shape)) for name, tensor in tensors.items()]
    text = json.dumps({**header, "tensors": listed}).encode()
    codes = [np.ascontiguousarray(tensor.codes).tobytes() for tensor in tensors.values()]
    return b"".join([_MAGIC, _LENGTH.pack(len(text)), text, *codes])


def _unpacked(blob: bytes) -> Tuple[Dict[str, Any], Dict[str, Tensor]]:
    try:
        if blob[:4] != _MAGIC:
            raise ValueError("it does not begin with %r" % (_MAGIC,))
        (length,) = _LENGTH.unpack_from(blob, 4)
        at = 4 + _LENGTH.size + length
        header = json.loads(blob[4 + _LENGTH.size : at])
        tensors = {}
        for name, dtype, shape in header.pop("tensors"):
            if dtype not in BITS:
                raise ValueError("unknown dtype %r" % (dtype,))
            count = int(np.prod(shape, dtype=np.int64))
            codes = np.frombuffer(blob, code_dtype(dtype), count, at).reshape(shape)
            tensors[name] = Tensor(dtype, codes)
            at += codes.nbytes
        return header, tensors
    except (KeyError, TypeError, struct.error, ValueError) as error:
        raise ValueError("a damaged run of a model: %s" % (error,)) from None
