"""ONNX Runtime's CPU provider."""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from typing import Any, Dict, Tuple, Union

import numpy as np

from oracles.arrays import NUMPY_OWN, answered, pack, to_array
from oracles.onnx_model import element_type, model_bytes, structure
from oracles.protocol import Loaded, Oracle, Path
from xverify.core.call import BITS, Call, Outcome, Tensor, code_dtype

ORACLES = (
    Oracle(
        name="onnxruntime",
        distribution="onnxruntime",
        contracts=("ai.onnx/*", "com.microsoft/*"),
        ships=("ai.onnx/*", "com.microsoft/DequantizeLinear-1@installed"),
        module=__name__,
        paths=(Path("", 1.0), Path("optimization=off", 0.2), Path("initializers", 0.05)),
    ),
)

SESSIONS = 1024
"""Sessions kept; creating one takes milliseconds, running it microseconds."""


def load() -> Loaded:
    """Import ONNX Runtime; sessions are kept by structure, and so are refusals to create one."""
    import onnxruntime as ort
    from onnxruntime.capi import onnxruntime_pybind11_state as binding

    sessions: OrderedDict[Tuple[Any, ...], Any] = OrderedDict()

    def create(model: bytes, path: str) -> Any:
        settings = ort.SessionOptions()
        settings.log_severity_level = 4
        settings.intra_op_num_threads = 1
        if path == "optimization=off":
            settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        return ort.InferenceSession(model, settings, providers=["CPUExecutionProvider"])

    def cached(call: Call, path: str) -> Any:
        key = (structure(call), path)
        if key not in sessions:
            try:
                sessions[key] = create(model_bytes(call), path)
            except Exception as error:
                sessions[key] = error.with_traceback(None)
            if len(sessions) > SESSIONS:
                sessions.popitem(last=False)
        sessions.move_to_end(key)
        if isinstance(sessions[key], Exception):
            raise sessions[key]
        return sessions[key]

    def value(tensor: Tensor) -> Any:
        """What NumPy has no type for goes in as an OrtValue over its bytes, 4 and 2 bits packed.

        An OrtValue reads memory as if it were contiguous, and takes its shape from the array: packed bytes
        stand at the beginning of an array of the tensor's shape.
        """
        if tensor.dtype in NUMPY_OWN:
            return to_array(tensor)
        carrier = np.zeros(tensor.shape, code_dtype(tensor.dtype))
        packed = pack(tensor.codes, BITS[tensor.dtype]) if BITS[tensor.dtype] < 8 else tensor.codes.reshape(-1)
        carrier.reshape(-1)[: packed.size] = packed
        return _OnMemory(ort.OrtValue, carrier, element_type(tensor.dtype))

    def answer(call: Call, path: str) -> Union[Tensor, Outcome]:
        if path == "initializers":
            constants = [name for name in call.tensors if name != "x"]
            session = create(model_bytes(call, constants), path)
            handed = {"x": value(call.tensors["x"])}
        else:
            session = cached(call, path)
            handed = {name: value(tensor) for name, tensor in call.tensors.items()}
        feeds = {name: v.value if isinstance(v, _OnMemory) else v for name, v in handed.items()}
        arrays = {name: v for name, v in handed.items() if not isinstance(v, _OnMemory)}
        kind = session.get_outputs()[0].type
        if kind in _NUMPY_TYPES:
            return answered(session.run(None, feeds)[0], call, arrays)
        values = {
            name: ort.OrtValue.ortvalue_from_numpy(np.asarray(v, order="C")) if name in arrays else v
            for name, v in feeds.items()
        }
        return read(session.run_with_ort_values(None, values)[0])

    return Loaded(answer, (binding.NotImplemented, NotImplementedError))


class _OnMemory:
    """An OrtValue over an array, which must live as long: ONNX Runtime does not hold it."""

    def __init__(self, ort_value: Any, carrier: Any, number: int) -> None:
        self.carrier = carrier
        self.value = ort_value.ortvalue_from_numpy_with_onnx_type(carrier, number)


_NUMPY_TYPES = frozenset(["tensor(float)", "tensor(float16)", "tensor(double)"])

_RAW_TYPES: Dict[str, str] = {
    "tensor(bfloat16)": "bfloat16",
    "tensor(float8e4m3fn)": "float8_e4m3fn",
    "tensor(float8e4m3fnuz)": "float8_e4m3fnuz",
    "tensor(float8e5m2)": "float8_e5m2",
    "tensor(float8e5m2fnuz)": "float8_e5m2fnuz",
}


def read(value: Any) -> Tensor:
    """The tensor of an OrtValue whose type NumPy does not have, from its memory."""
    dtype = _RAW_TYPES[value.data_type()]
    raw = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return Tensor(dtype, np.frombuffer(raw, code_dtype(dtype)).reshape(value.shape()))
