"""OpenVINO's CPU plugin, which reads the call as an ONNX model.

OpenVINO needs each input's rank, and for blocks its shape. Paths:

- "": ranks only, so that a compiled model serves many calls, except for blocks;
- "shapes=static": all extents;
- "constants": scale and zero point are in the model, as in quantized models;
- "precision=float32": INFERENCE_PRECISION_HINT forbids bfloat16 arithmetic, which is OpenVINO's default on processors that
  are fast at it.

A call in surroundings is a model of its own. OpenVINO always rewrites it.

OpenVINO imports ONNX models, so ONNX's edition for the opset of the model judges it. It refuses opsets and types that it does not
support; reports show these refusals as gaps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, List, Mapping, Optional, Union

import numpy as np

from xverify.core.call import BITS, Call, Outcome, Tensor, code_dtype
from xverify.oracles.arrays import NUMPY_OWN, Array, answered, from_array, numpy_dtype, pack, to_array, unpack
from xverify.oracles.model_run import LastModel, ModelRun
from xverify.oracles.onnx_model import (
    CompiledModels,
    graph_bytes,
    graph_of,
    model_bytes,
    model_imports,
    model_lines,
    structure,
)
from xverify.oracles.protocol import Loaded, Oracle, Path, Setting, at_run
from xverify.oracles.short_form import ShortCall, ShortForm, feeds, is_numpy

STATIC = "shapes=static"
CONSTANTS = "constants"
FLOAT32 = "precision=float32"

GRAPH, GRAPH_FLOAT32 = "graph", "graph precision=float32"

ISAS = ("SSE41", "AVX2", "AVX512_CORE")
"""Values of oneDNN's variable. OpenVINO's own generated code obeys it as well."""

ORACLES = (
    Oracle(
        name="openvino",
        title="OpenVINO",
        claim="ONNX's edition for the opset of the model, and com.microsoft's: its ONNX front end lists both among the supported "
        "operations (src/frontends/onnx/docs/supported_ops.md).",
        distribution="openvino",
        contracts=("ai.onnx/*", "com.microsoft/*"),
        judged_by=("ai.onnx/*", "com.microsoft/*@installed"),
        carries_texts=False,
        module=__name__,
        needs=("onnx",),
        paths=(Path("", 0.1), Path(FLOAT32, 0.1), Path(CONSTANTS, 0.02), Path(STATIC, 0.02)),
        surrounded=(Path(GRAPH_FLOAT32, 0.1), Path(GRAPH, 0.2)),
        models=(GRAPH_FLOAT32, GRAPH),
        varies=(
            *(Setting("isa", isa, environment=(("ONEDNN_MAX_CPU_ISA", isa),)) for isa in ISAS),
            Setting("threads", "4", ("INFERENCE_NUM_THREADS=4",)),
            Setting("denormals", "zero", ("CPU_DENORMALS_OPTIMIZATION=YES",)),
        ),
    ),
)

MODELS = 512
"""The number of compiled models in the cache.

To compile a model takes about 20 ms, to run it less than 1 ms.
"""

_TYPES: Dict[str, str] = {
    "bfloat16": "bf16",
    "int4": "i4",
    "uint4": "u4",
    "uint2": "u2",
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
    "float8_e8m0fnu": "f8e8m0",
    "float4_e2m1fn": "f4e2m1",
}
"""OpenVINO's names of the dtypes that NumPy lacks."""

_NARROW = {name: dtype for dtype, name in _TYPES.items() if BITS[dtype] <= 8}


def load(*properties: str) -> Loaded:
    """Import OpenVINO. Compiled models, and refusals to compile, are cached by structure and ranks.

    Args:
        properties: Properties of the CPU plugin for every model, as NAME=VALUE.
    """
    import openvino as ov

    core = ov.Core()
    requests = CompiledModels(MODELS)

    def shaped(call: Call, constants: List[str], static: bool) -> bytes:
        """The call's model with the rank of each input, and with its extents if ``static``."""
        shapes = {role: [n if static else None for n in tensor.shape] for role, tensor in call.tensors.items()}
        return model_bytes(call, constants, shapes)

    def compiled(call: Call, path: str) -> Any:
        constants = [name for name in call.tensors if name != "x"] if path == CONSTANTS else []
        return request_of(shaped(call, constants, _shapes_known(call, path)), path)

    def request_of(model: Union[bytes, str], path: str) -> Any:
        settings = {"INFERENCE_NUM_THREADS": "1", **({"INFERENCE_PRECISION_HINT": "f32"} if FLOAT32 in path else {})}
        settings.update(dict(entry.split("=", 1) for entry in properties))
        return core.compile_model(core.read_model(model), "CPU", settings).create_infer_request()

    def cached(call: Call, path: str) -> Any:
        static = _shapes_known(call, path)
        shapes = tuple(tensor.shape if static else len(tensor.shape) for tensor in call.tensors.values())
        key = (path, structure(call), shapes)
        return requests.get(key, lambda: compiled(call, path))

    def value(tensor: Tensor, array: Array) -> Any:
        """The array's values in a tensor of OpenVINO's own memory, with 4 and 2 bits packed."""
        if tensor.dtype in NUMPY_OWN:
            return ov.Tensor(np.asarray(array, order="C"), shared_memory=False)
        if tensor.dtype not in _TYPES:
            raise NotImplementedError("OpenVINO has no type %s" % (tensor.dtype,))
        element, shape = getattr(ov.Type, _TYPES[tensor.dtype]), ov.Shape(tensor.shape)
        if not tensor.size:  # The bindings take the address of the first element.
            return ov.Tensor(element, shape)
        codes = pack(tensor.codes, BITS[tensor.dtype]) if BITS[tensor.dtype] < 8 else tensor.codes.reshape(-1)
        return ov.Tensor(np.array(codes), shape, element)

    def run(request: Any, call: Call, fed: Mapping[str, Tensor]) -> Outcome:
        arrays = {name: to_array(tensor) for name, tensor in fed.items()}
        operands = {name: value(tensor, arrays[name]) for name, tensor in fed.items()}
        with at_run():
            request.infer(operands)
        result = request.get_output_tensor(0)
        outcome = answered(data_of(result), replace(call, tensors=fed), arrays)
        narrow = narrow_tensor(result)
        return outcome if narrow is None else replace(outcome, tensor=narrow)

    def data_of(result: Any) -> Array:
        """The array of a result."""
        data = np.array(result.data, order="C")
        if result.element_type == ov.Type.bf16:  # NumPy has no such type: its bits come as float16
            data = data.view(code_dtype("bfloat16")).view(numpy_dtype("bfloat16"))
        return data

    def narrow_tensor(result: Any) -> Optional[Tensor]:
        """The tensor of a result whose type NumPy lacks. It comes as bytes, packed if codes have 4 or 2 bits."""
        dtype = _NARROW.get(result.element_type.get_type_name())
        if dtype is None:
            return None
        raw = np.array(data_of(result).reshape(-1)).view(np.uint8)
        shape = tuple(result.get_shape())
        return Tensor(dtype, unpack(raw, BITS[dtype], int(np.prod(shape, dtype=np.int64))).reshape(shape))

    last = LastModel()

    def run_model(run: ModelRun, level: str) -> Dict[str, Tensor]:
        request = last.get(run.file, level, lambda: request_of(run.file, level))
        operands = {}
        for port in request.model_inputs:
            for name in port.get_names() & set(run.inputs):
                tensor, is_mask = run.inputs[name], port.get_element_type() == ov.Type.boolean
                operands[name] = (
                    ov.Tensor(to_array(tensor).astype(bool)) if is_mask else value(tensor, to_array(tensor))
                )
        with at_run():
            request.infer(operands)
        results: Dict[str, Tensor] = {}
        for port in request.model_outputs:
            result = request.get_tensor(port)
            if result.element_type == ov.Type.string:
                continue
            narrow = narrow_tensor(result)
            if narrow is None:
                data = data_of(result)
                narrow = from_array(data.astype(np.uint8) if result.element_type == ov.Type.boolean else data)
            results.update({name: narrow for name in port.get_names() if not run.outputs or name in run.outputs})
        return results

    def surrounded(call: Call, path: str) -> Outcome:
        """The outcome of a call in its surroundings. The operators around the call may cause a refusal."""
        graph = graph_of(call)
        if call.attributes.get("block_size"):  # OpenVINO then needs all extents
            graph = replace(graph, symbolic=False)
        try:
            outcome = run(request_of(graph_bytes(call, graph), path), call, graph.inputs)
        except Exception as error:
            return Outcome("unsupported", error=type(error).__name__, message=str(error))
        assert outcome.tensor is not None
        return replace(outcome, tensor=graph.back(outcome.tensor))

    def answer(call: Call, path: str) -> Outcome:
        if call.around:
            return surrounded(call, path)
        request = compiled(call, path) if path == CONSTANTS else cached(call, path)
        return run(request, call, {n: tensor for n, tensor in call.tensors.items() if path != CONSTANTS or n == "x"})

    return Loaded(answer, run_model=run_model)


def _shapes_known(call: Call, path: str) -> bool:
    return path in (STATIC, CONSTANTS) or bool(call.attributes.get("block_size"))


# -- short scripts ---------------------------------------------------------------------------------------


def short_form(call: ShortCall) -> Optional[ShortForm]:
    """The model, compiled with the path's settings. None for types of the result that NumPy lacks."""
    if not is_numpy(call.out_dtype) and call.out_dtype != "bfloat16":
        return None
    constants = [name for name in call.tensors if name != "x"] if call.options == CONSTANTS else []
    if call.graph is not None:
        constants = list(call.graph[1].constants)
    # OpenVINO needs the rank of each input, and for blocks its extents.
    known = call.options in (STATIC, CONSTANTS) or bool(call.attributes.get("block_size"))
    shapes = {name: [extent if known else None for extent in tensor.shape] for name, tensor in call.tensors.items()}
    lines = [*model_lines(call, constants, shapes), "model = ov.Core().read_model(model.SerializeToString())"]
    operands: Dict[str, Tensor] = {}
    comments: Dict[str, str] = {}
    values: List[str] = []
    for name, tensor in call.tensors.items():
        if name in constants or is_numpy(tensor.dtype):
            operands[name] = tensor
            continue
        if tensor.dtype not in _TYPES:
            return None
        codes = pack(tensor.codes, BITS[tensor.dtype]) if BITS[tensor.dtype] < 8 else tensor.codes.reshape(-1)
        operands[name + "_bits"] = Tensor(codes.dtype.name, codes)
        comments[name + "_bits"] = "the bits of %s" % tensor.dtype
        described = (name, name, list(tensor.shape), _TYPES[tensor.dtype])
        values.append("%s = ov.Tensor(%s_bits, ov.Shape(%s), ov.Type.%s)" % described)
    hint = ', {"INFERENCE_PRECISION_HINT": "f32"}' if FLOAT32 in call.options else ""
    fed = feeds([name for name in call.tensors if name not in constants])
    # NumPy has no bfloat16: OpenVINO hands out its bits as float16.
    view, modules = ("", ()) if is_numpy(call.out_dtype) else (".view(ml_dtypes.bfloat16)", ("ml_dtypes",))
    lines += ['y = ov.compile_model(model, "CPU"%s)(%s)[0]%s' % (hint, fed, view)]
    imports = [model_imports(call, constants), "import openvino as ov"]
    return ShortForm(imports, [*values, *lines], modules, operands, comments, copies=True)
