"""LiteRT's DEQUANTIZE on the CPU, for the calls of LiteRT's own specification.

Each call has a model with this one operator. Scale, zero point and axis are the quantization parameters of its input tensor.
Zero points are int64, and 0 where the call has none. Types of 8 and more bits are the model's input. Types of 4 and 2 bits
are a packed constant in the model, like weights.

Paths: "" is the default interpreter, with XNNPACK; "delegate=off" is LiteRT's own optimised kernel; "reference" is its
reference kernel.

A call that a model cannot express raises NotImplementedError: a scale or a result other than float32, blocks, types that a model
file lacks.
"""

from __future__ import annotations

from typing import Any, Optional, Tuple, Union

import numpy as np

from xverify.core.call import BITS, Call, Outcome, Tensor
from xverify.oracles.arrays import answered, pack, to_array
from xverify.oracles.protocol import Loaded, Oracle, Path, Setting
from xverify.oracles.short_form import ShortCall, ShortForm

DELEGATE_OFF = "delegate=off"
REFERENCE = "reference"

RELEASES = (
    ("2.3.*", "LiteRT 2.3, 2026-10"),
    ("2.2.*", "LiteRT 2.2, 2026-08"),
    ("2.1.*", "LiteRT 2.1, 2025-12"),
    ("2.0.*", "LiteRT 2.0, 2025-09"),
    ("1.4.*", "LiteRT 1.4, 2025-07"),
    ("1.3.*", "LiteRT 1.3, 2025-05"),
    ("1.2.*", "LiteRT 1.2, 2025-03"),
    ("1.1.*", "LiteRT 1.1, 2025-02"),
    ("1.0.*", "LiteRT 1.0, 2024-08"),
)
"""Minor releases and their months, by the upload of the first wheel to PyPI."""

ORACLES = (
    Oracle(
        name="litert",
        title="LiteRT",
        claim="LiteRT's 8-bit quantization specification, https://ai.google.dev/edge/litert/models/quantization_spec",
        carries_texts=False,
        distribution="ai-edge-litert",
        contracts=("litert/*",),
        judged_by=("litert/Dequantize@spec",),
        module=__name__,
        paths=(Path("", 1.0), Path(DELEGATE_OFF, 0.2), Path(REFERENCE, 0.2)),
        varies=(Setting("threads", "4", ("4",)),),
        releases=RELEASES,
    ),
)

VERSION = 6
"""The version of the operator in the model: the newest one, which admits all types."""


def load(threads: str = "1") -> Loaded:
    """Import LiteRT's interpreter and its schema.

    Args:
        threads: Number of threads for one call.
    """
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    resolvers = {
        DELEGATE_OFF: OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        REFERENCE: OpResolverType.BUILTIN_REF,
    }

    def tensor(name: str, shape: Tuple[int, ...], number: int, buffer: int) -> Any:
        described = schema.TensorT()
        described.name, described.shape, described.type, described.buffer = name, list(shape), number, buffer
        return described

    def model(call: Call, constant: bool) -> bytes:
        """A flatbuffer with input tensor 0 and output tensor 1. Buffer 1 holds a constant input's values."""
        data = call.tensors["x"]
        x = tensor("x", data.shape, number_of(schema, data.dtype), 1)
        x.quantization = parameters(schema.QuantizationParametersT(), call)
        y = tensor("y", data.shape, schema.TensorType.FLOAT32, 0)
        operator, code = schema.OperatorT(), schema.OperatorCodeT()
        operator.inputs, operator.outputs = [0], [1]
        code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.DEQUANTIZE
        code.version = VERSION
        graph = schema.SubGraphT()
        graph.tensors, graph.inputs, graph.outputs, graph.operators = [x, y], [] if constant else [0], [1], [operator]
        values = schema.BufferT()
        if constant:
            packed = pack(data.codes, BITS[data.dtype]) if BITS[data.dtype] < 8 else data.codes.reshape(-1)
            values.data = np.frombuffer(packed.tobytes(), np.uint8)
        whole = schema.ModelT()
        whole.version, whole.operatorCodes, whole.subgraphs = 3, [code], [graph]
        whole.buffers = [schema.BufferT(), values]
        builder = flatbuffers.Builder(1024)
        builder.Finish(whole.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def answer(call: Call, path: str) -> Union[Tensor, Outcome]:
        constant = BITS[call.tensors["x"].dtype] < 8
        resolver = resolvers.get(path, OpResolverType.AUTO)
        interpreter = Interpreter(
            model_content=model(call, constant), experimental_op_resolver_type=resolver, num_threads=int(threads)
        )
        interpreter.allocate_tensors()
        arrays = {} if constant else {"x": to_array(call.tensors["x"])}
        if not constant:
            interpreter.set_tensor(0, arrays["x"])
        interpreter.invoke()
        return answered(interpreter.get_tensor(1), call, arrays)

    return Loaded(answer)


_RESOLVERS = {DELEGATE_OFF: "BUILTIN_WITHOUT_DEFAULT_DELEGATES", REFERENCE: "BUILTIN_REF"}


def short_form(call: ShortCall) -> Optional[ShortForm]:
    """A model with the one operator; None for some parameters.

    Types below a byte have none, since they are constants of the model.
    """
    x, scale = call.tensors["x"], call.tensors["scale"]
    if BITS[x.dtype] < 8 or scale.dtype != "float32" or set(call.attributes) - {"axis"}:
        return None
    zeros = "zero_point.ravel().tolist()" if "zero_point" in call.tensors else "[0] * scale.size"
    imports = [
        "import flatbuffers",
        "from ai_edge_litert import schema_py_generated as schema",
        "from ai_edge_litert.interpreter import Interpreter, OpResolverType",
    ]
    body = [
        "source, result, operator = schema.TensorT(), schema.TensorT(), schema.OperatorT()",
        "source.shape, source.type, source.buffer = list(x.shape), schema.TensorType.%s, 1" % x.dtype.upper(),
        "source.quantization = q = schema.QuantizationParametersT()",
        "q.scale, q.zeroPoint, q.quantizedDimension = scale.ravel().tolist(), %s, %d"
        % (zeros, int(call.attributes.get("axis", 0))),
        "result.shape, result.type, result.buffer = list(x.shape), schema.TensorType.FLOAT32, 0",
        "operator.inputs, operator.outputs = [0], [1]",
        "code, graph, model = schema.OperatorCodeT(), schema.SubGraphT(), schema.ModelT()",
        "code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.DEQUANTIZE",
        "code.version = %d" % VERSION,
        "graph.tensors, graph.inputs, graph.outputs, graph.operators = [source, result], [0], [1], [operator]",
        "model.version, model.operatorCodes, model.subgraphs = 3, [code], [graph]",
        "model.buffers, builder = [schema.BufferT(), schema.BufferT()], flatbuffers.Builder(1024)",
        'builder.Finish(model.Pack(builder), b"TFL3")',
        "resolver = OpResolverType.%s" % _RESOLVERS.get(call.options, "AUTO"),
        "interpreter = Interpreter(model_content=bytes(builder.Output()), experimental_op_resolver_type=resolver)",
        "interpreter.allocate_tensors()",
        "interpreter.set_tensor(0, x)",
        "interpreter.invoke(); y = interpreter.get_tensor(1)",
    ]
    return ShortForm(imports, body, copies=True)


def number_of(schema: Any, dtype: str) -> int:
    """The number of a dtype in LiteRT's schema.

    Raises:
        NotImplementedError: The schema has no such type.
    """
    number = getattr(schema.TensorType, dtype.upper(), None)
    if number is None:
        raise NotImplementedError("LiteRT's schema has no type %s" % (dtype,))
    return int(number)


def parameters(made: Any, call: Call) -> Any:
    """Write a call's quantization parameters into an object of LiteRT's schema, and return it.

    Raises:
        NotImplementedError: The schema cannot express them.
    """
    x, scale, zero_point = call.tensors["x"], call.tensors["scale"], call.tensors.get("zero_point")
    if any(name != "axis" for name in call.attributes):
        raise NotImplementedError("a model has no such argument: %s" % ", ".join(call.attributes))
    if scale.dtype != "float32" or len(scale.shape) != ("axis" in call.attributes):
        raise NotImplementedError("LiteRT has no such scale: %s %s" % (scale.dtype, scale.shape))
    if zero_point is not None and "int" not in zero_point.dtype:
        raise NotImplementedError("LiteRT takes whole numbers as zero points, not %s" % (zero_point.dtype,))
    if zero_point is not None and zero_point.shape != scale.shape and zero_point.codes.size == scale.codes.size:
        raise NotImplementedError("a model has lists of zero points, without a shape %s" % (zero_point.shape,))
    zeros = np.zeros(scale.shape) if zero_point is None else to_array(zero_point)
    axis = int(call.attributes.get("axis", 0))
    if scale.shape == (1,) and -len(x.shape) <= axis < len(x.shape) and x.shape[axis] != 1:
        raise NotImplementedError("one scale is LiteRT's way to say per tensor, not per axis")
    made.scale = to_array(scale).reshape(-1).tolist()
    made.zeroPoint = zeros.astype(np.int64).reshape(-1).tolist()
    made.quantizedDimension = 0 if scale.size == 1 else axis + len(x.shape) * (axis < 0)
    return made
