"""ONNX models of a call, alone or in its surroundings: as bytes, and as lines of Python."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import replace
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from xverify.core.call import BITS, Attribute, Call, Outcome, Tensor, code_dtype
from xverify.core.moves import Node
from xverify.core.neighbours import DEQUANTIZE, QUANTIZE, result_dtype
from xverify.core.surroundings import Graph, opset_beside, surround
from xverify.oracles.arrays import answered, pack
from xverify.oracles.short_form import ShortCall, keywords, spelled
from xverify.oracles.timing import Problem


def ir_version(opset: int) -> int:
    """The version of the model format that every release with that opset takes.

    ONNX 1.5 had IR 5, 1.16 with opset 21 had IR 10. Implementations do not tie types to it. The version of another domain's opset
    also gives an early one.
    """
    return 10 if opset >= 21 else 5


_NAMES = {
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "float8_e8m0fnu": "FLOAT8E8M0",
    "float4_e2m1fn": "FLOAT4E2M1",
    "float6_e2m3fn": "FLOAT6E2M3",
    "float6_e3m2fn": "FLOAT6E3M2",
}

ROLES = ("x", "scale", "zero_point")


def element_type(dtype: str) -> int:
    """The TensorProto number of a dtype.

    Raises:
        NotImplementedError: The installed onnx has none.
    """
    from onnx import TensorProto

    name = _NAMES.get(dtype, dtype.replace("_", "").upper())
    try:
        return int(TensorProto.DataType.Value(name))
    except ValueError:
        raise NotImplementedError("the installed onnx has no type %s" % (name,)) from None


def operator_set(contract: str) -> Tuple[str, int]:
    """Domain and version of an edition: "ai.onnx/DequantizeLinear-21" is ("", 21)."""
    domain, operator = contract.split("/")
    version = int(operator.split("@")[0].rpartition("-")[2])
    return ("" if domain == "ai.onnx" else domain), version


def structure(call: Call) -> Tuple[Any, ...]:
    """The key of a model whose tensors are all inputs, for caches."""
    dtypes = tuple((name, tensor.dtype) for name, tensor in call.tensors.items())
    return (call.contract.split("@")[0], dtypes, tuple(sorted(call.attributes.items())))


Shapes = Mapping[str, Sequence[Union[int, str, None]]]
"""The declared shape of each input: extents, names for them, or None where only the rank counts."""


def named_shapes(call: Call, static: bool = False) -> Shapes:
    """Shapes for `model_bytes`: all extents if ``static``, otherwise names for them.

    A scale or zero point along an axis has the name of x's extent, so that one compiled model serves every extent.
    """
    if static:
        return {role: list(tensor.shape) for role, tensor in call.tensors.items()}
    names = ["x_extent_%d" % axis for axis in range(len(call.tensors["x"].shape))]
    axis = int(call.attributes.get("axis", 1 if call.contract.startswith("ai.onnx/") else 0))
    shapes: Dict[str, Sequence[str]] = {"x": names}
    for role, tensor in call.tensors.items():
        if role != "x":
            along = len(tensor.shape) == 1 and -len(names) <= axis < len(names)
            shapes[role] = [names[axis]] if along else ["%s_extent_%d" % (role, i) for i in range(len(tensor.shape))]
    return shapes


def model_bytes(call: Call, initializers: Sequence[str] = (), shapes: Optional[Shapes] = None) -> bytes:
    """A model of the call. Its tensors are inputs, except for the initializers.

    The output is declared by its name only, so that the implementation infers its type.

    Args:
        call: The call.
        initializers: Roles whose tensors are constants of the model.
        shapes: The declared shapes of the inputs. By default an input has no shape.
    """
    import onnx
    from onnx import helper

    domain, version = operator_set(call.contract)
    names = [role if role in call.tensors else "" for role in ROLES]
    attributes: Dict[str, Any] = dict(call.attributes)
    if "output_dtype" in attributes:
        attributes["output_dtype"] = element_type(str(attributes["output_dtype"]))
    node = helper.make_node("DequantizeLinear", names if names[2] else names[:2], ["y"], domain=domain, **attributes)
    inputs = [
        helper.make_tensor_value_info(name, element_type(tensor.dtype), (shapes or {}).get(name))
        for name, tensor in call.tensors.items()
        if name not in initializers
    ]
    constants = [_constant(name, call.tensors[name]) for name in initializers]
    graph = helper.make_graph([node], "call", inputs, [onnx.ValueInfoProto(name="y")], constants)
    opsets = [helper.make_opsetid(domain, version)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version(version))
    return bytes(model.SerializeToString())


def bench_call(problem: Problem, contract: str) -> Call:
    """A call with the types, shapes and attributes of a problem of the bench. Its values are zeros."""
    operands = {"x": problem.x, "scale": problem.scale, "zero_point": problem.zero_point}
    tensors = {
        role: Tensor(array.dtype.name, np.broadcast_to(np.zeros((), code_dtype(array.dtype.name)), array.shape))
        for role, array in operands.items()
        if array is not None
    }
    attributes: Dict[str, Attribute] = {}
    if problem.case.axis is not None:
        attributes["axis"] = problem.case.axis
    if problem.case.block_size:
        attributes["block_size"] = problem.case.block_size
    return Call(contract, tensors, attributes)


def bench_model(problem: Problem, contract: str) -> bytes:
    """A model of such a call with all extents."""
    call = bench_call(problem, contract)
    return model_bytes(call, (), named_shapes(call, static=True))


def graph_of(call: Call) -> Graph:
    """The call in its surroundings."""
    return surround(call)


_LISTS: Dict[str, Tuple[str, ...]] = {
    "Reshape": ("shape",),
    "Slice": ("starts", "ends", "axes", "steps"),
    "Gather": ("indices",),
    "Squeeze": ("axes",),
    "Unsqueeze": ("axes",),
}
"""Lists of whole numbers that are inputs; the axes of the last two are attributes before opset 13."""


def graph_bytes(call: Call, graph: Graph) -> bytes:
    """A model of the call in its surroundings. Inputs are declared with their extents or names for them."""
    import onnx
    from onnx import helper

    sets = operator_sets(call)
    domain, _ = operator_set(call.contract)
    nodes, lists = [], []
    for node in graph.nodes:
        inputs, attributes = list_inputs(node, sets[""])
        lists += [helper.make_tensor(name, onnx.TensorProto.INT64, [len(v)], v) for name, v in inputs]
        for name in _TYPES & set(attributes):
            attributes[name] = element_type(str(attributes[name]))
        nodes.append(
            helper.make_node(
                node.operator,
                [*node.inputs, *(name for name, _ in inputs)],
                [node.output, *node.others],
                domain=domain if node.of_call else "",
                **attributes,
            )
        )
    declared = [
        helper.make_tensor_value_info(name, element_type(tensor.dtype), extents(name, tensor.shape, graph.symbolic))
        for name, tensor in graph.inputs.items()
    ]
    constants = [_constant(name, tensor) for name, tensor in graph.constants.items()]
    outputs = [onnx.ValueInfoProto(name=name) for name in (graph.output, *graph.others)]
    proto = helper.make_graph(nodes, "call", declared, outputs, constants + lists)
    opsets = [helper.make_opsetid(name, number) for name, number in sets.items()]
    return bytes(helper.make_model(proto, opset_imports=opsets, ir_version=ir_version(sets[""])).SerializeToString())


_TYPES = {"output_dtype", "to"}
"""Attributes that name a type."""


def operator_sets(call: Call) -> Dict[str, int]:
    """Domains and versions of a call in its surroundings."""
    domain, version = operator_set(call.contract)
    return {"": opset_beside(call), **({domain: version} if domain else {})}


def extents(name: str, shape: Sequence[int], symbolic: bool) -> List[Any]:
    """The extents of an input or output, or names for them."""
    return ["%s_extent_%d" % (name, axis) if symbolic else extent for axis, extent in enumerate(shape)]


def list_inputs(node: Node, opset: int) -> Tuple[List[Tuple[str, List[int]]], Dict[str, Any]]:
    """The further inputs of a node, under names of its own, and its attributes."""
    names = _LISTS.get(node.operator, ()) if opset >= 13 or node.operator not in ("Squeeze", "Unsqueeze") else ()
    inputs = [("%s_%s" % (node.output, name), [int(i) for i in node.attributes[name]]) for name in names]
    others = {name: value for name, value in node.attributes.items() if name not in names}
    return inputs, {name: list(value) if isinstance(value, tuple) else value for name, value in others.items()}


def _constant(name: str, tensor: Tensor) -> Any:
    from onnx import TensorProto

    raw = pack(tensor.codes, BITS[tensor.dtype]) if BITS[tensor.dtype] < 8 else tensor.codes
    return TensorProto(name=name, data_type=element_type(tensor.dtype), dims=list(tensor.shape), raw_data=raw.tobytes())


# -- models that are compiled for each call ---------------------------------------------------------------


class CompiledModels:
    """Compiled models by key, or the exceptions of those that do not compile.

    The longest unused one goes first.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._models: OrderedDict[Any, Any] = OrderedDict()

    def get(self, key: Any, compiled: Callable[[], Any]) -> Any:
        """The model of a key. ``compiled`` makes it, once.

        Raises:
            Exception: The model does not compile.
        """
        if key not in self._models:
            try:
                self._models[key] = compiled()
            except Exception as error:
                self._models[key] = error.with_traceback(None)
            if len(self._models) > self._size:
                self._models.popitem(last=False)
        self._models.move_to_end(key)
        if isinstance(self._models[key], Exception):
            raise self._models[key]
        return self._models[key]


STATIC, CONSTANTS, GRAPH = "shapes=static", "constants", "graph"
"""Paths of `answer_by_compiling`."""


def answer_by_compiling(
    compiled: Callable[[bytes], Any], run: Callable[[Any, Mapping[str, Tensor]], Any], size: int
) -> Callable[[Call, str], Outcome]:
    """A function that answers calls with models that are compiled for them.

    Paths:

    - "": inputs have names for extents, so that one compiled model serves many calls, except for blocks;
    - `STATIC`: all extents;
    - `CONSTANTS`: scale and zero point are in the model, as in quantized models;
    - `GRAPH`: a call in surroundings, a model of its own. The operators around the call may cause a refusal.

    Args:
        compiled: Compiles the bytes of a model.
        run: Runs a compiled model on the inputs, and returns the result as an array.
        size: The number of compiled models in the cache.
    """
    models = CompiledModels(size)

    def outcome(model: Any, call: Call, fed: Mapping[str, Tensor]) -> Outcome:
        return answered(run(model, fed), replace(call, tensors=dict(fed)), {})

    def answer(call: Call, path: str) -> Outcome:
        if call.around:
            graph = graph_of(call)
            try:
                result = outcome(compiled(graph_bytes(call, graph)), call, graph.inputs)
            except Exception as error:
                return Outcome("unsupported", error=type(error).__name__, message=str(error))
            assert result.tensor is not None
            return replace(result, tensor=graph.back(result.tensor))
        if path == CONSTANTS:
            constants = [name for name in call.tensors if name != "x"]
            model = compiled(model_bytes(call, constants, named_shapes(call, static=True)))
            return outcome(model, call, {"x": call.tensors["x"]})
        shapes = named_shapes(call, static=path == STATIC or bool(call.attributes.get("block_size")))
        key = (structure(call), tuple((role, tuple(shape)) for role, shape in shapes.items()))
        return outcome(models.get(key, lambda: compiled(model_bytes(call, (), shapes))), call, call.tensors)

    return answer


def compiled_lines(call: ShortCall) -> Tuple[List[str], List[str], List[str]]:
    """Imports and lines of Python that make ``model`` for such a call, and the names of its inputs."""
    constants = [name for name in call.tensors if name != "x"] if call.options == CONSTANTS else []
    if call.graph is not None:
        constants = list(call.graph[1].constants)
    static = bool(call.options) or bool(call.attributes.get("block_size"))
    shapes = None if call.graph else named_shapes(Call(call.contract, call.tensors, call.attributes), static)
    inputs = [name for name in call.tensors if name not in constants]
    return [model_imports(call, constants)], model_lines(call, constants, shapes), inputs


# -- lines of Python, for short scripts ------------------------------------------------------------------


def type_name(dtype: str) -> str:
    """ONNX's name of a dtype in Python: TensorProto.FLOAT.

    An attribute of a report may be any text, which must not become code.
    """
    known = dtype.replace("_", "").upper() if dtype in (*BITS, "bool") else "UNDEFINED"
    return "TensorProto." + _NAMES.get(dtype, known)


def model_imports(call: ShortCall, constants: Sequence[str]) -> str:
    """The import that `model_lines` needs."""
    lists = call.graph is not None and any(node.operator in _LISTS for node in call.graph[1].nodes)
    return "from onnx import TensorProto, helper" + (", numpy_helper" if constants or lists else "")


def model_lines(call: ShortCall, constants: Sequence[str] = (), shapes: Optional[Shapes] = None) -> List[str]:
    """Lines of Python that make ``model`` with onnx.helper; tensors are arrays by their names.

    The inputs and outputs have types and ranks, as the checker of onnx demands.

    Args:
        constants: Roles of a lone call that are initializers.
        shapes: The declared shapes of a lone call's inputs. By default no extent is known.
    """
    if call.graph is not None:
        return _graph_lines(*call.graph)
    domain, version = _spelled_operator_set(call.contract)
    words = {name: _spelled(name, value) for name, value in call.attributes.items()}
    if domain:
        words["domain"] = spelled(domain)
    names = ", ".join('"%s"' % role for role in call.tensors)
    declared = shapes or {role: [None] * len(tensor.shape) for role, tensor in call.tensors.items()}
    inputs = [_value(role, call.tensors[role].dtype, declared[role]) for role in call.tensors if role not in constants]
    result = result_dtype(Call(call.contract, call.tensors, call.attributes))
    output = _value("y", result if result in BITS else call.out_dtype, declared["x"])
    initializers = ", ".join('numpy_helper.from_array(%s, "%s")' % (role, role) for role in constants)
    return [
        'node = helper.make_node("DequantizeLinear", [%s], ["y"]%s)' % (names, keywords(words)),
        *_listed("inputs = [", inputs, "]"),
        "output = " + output,
        'graph = helper.make_graph([node], "g", inputs, [output]%s)' % (", [%s]" % initializers if constants else ""),
        _model_line({domain: version}, version),
    ]


_LINE = 110
"""Width of a line that holds several items."""


def _listed(start: str, items: Sequence[str], end: str) -> List[str]:
    """A list as Python, with as many items in a line as fit."""
    rows = [start + end * (not items)]
    for index, item in enumerate(items):
        ended = item + (end if index == len(items) - 1 else ",")
        if index and len(rows[-1]) + 1 + len(ended) > _LINE:
            rows.append(" " * len(start) + ended)
        else:
            rows[-1] += " " * bool(index) + ended
    return rows


def _value(name: str, dtype: str, shape: Sequence[Any]) -> str:
    return 'helper.make_tensor_value_info("%s", %s, %s)' % (name, type_name(dtype), _spelled_shape(shape))


def _spelled_shape(shape: Sequence[Any]) -> str:
    return str(list(shape)).replace("'", '"')


def _model_line(sets: Mapping[str, int], version: int) -> str:
    opsets = ", ".join("helper.make_opsetid(%s, %d)" % (spelled(name), number) for name, number in sets.items())
    return "model = helper.make_model(graph, opset_imports=[%s], ir_version=%d)" % (opsets, ir_version(version))


def _spelled_operator_set(contract: str) -> Tuple[str, int]:
    """Domain and version of an edition in a report, which may be any text."""
    domain, _, operator = contract.partition("/")
    version = int(re.sub(r"\D", "", operator.partition("@")[0].rpartition("-")[2])[:6] or 0)
    return ("" if domain == "ai.onnx" else domain), version


def _graph_lines(call: Call, graph: Graph) -> List[str]:
    domain, sets = operator_set(call.contract)[0], operator_sets(call)
    nodes: List[str] = []
    constants = ['"%s": %s' % (name, name) for name in graph.constants]
    types = {name: tensor.dtype for name, tensor in (*graph.inputs.items(), *graph.constants.items())}
    for node in graph.nodes:
        inputs, attributes = list_inputs(node, sets[""])
        constants += ['"%s": np.array(%s, np.int64)' % pair for pair in inputs]
        types[node.output] = _type_of_output(node, types)
        names = ", ".join('"%s"' % name for name in (*node.inputs, *(name for name, _ in inputs)))
        words = {name: _spelled(name, value) for name, value in attributes.items()}
        if node.of_call and domain:
            words["domain"] = spelled(domain)
        outputs = ", ".join('"%s"' % name for name in (node.output, *node.others))
        nodes.append('    helper.make_node("%s", [%s], [%s]%s),' % (node.operator, names, outputs, keywords(words)))
    declared = {name: extents(name, tensor.shape, graph.symbolic) for name, tensor in graph.inputs.items()}
    values = ['"%s": (%s, %s)' % (n, type_name(types[n]), _spelled_shape(declared[n])) for n in declared]
    results = [
        _value(name, types[name], extents(name, shape, graph.symbolic))
        for name, shape in ((graph.output, graph.shape), *graph.others.items())
    ]
    return [
        *("nodes = [", *nodes, "]"),
        *_listed("types = {", values, "}"),
        "inputs = [helper.make_tensor_value_info(name, *of) for name, of in types.items()]",
        *_listed("outputs = [", results, "]"),
        *(_listed("constants = {", constants, "}") if constants else []),
        *(["tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]"] * bool(constants)),
        'graph = helper.make_graph(nodes, "g", inputs, outputs%s)' % (", tensors" * bool(constants)),
        _model_line(sets, sets[""]),
    ]


def _type_of_output(node: Node, types: Mapping[str, str]) -> str:
    """The dtype of a node's output, given those of its inputs."""
    given = [types.get(name, "") for name in node.inputs]
    if node.operator == QUANTIZE:
        return str(node.attributes.get("output_dtype", given[2] if len(given) > 2 else "uint8"))
    if node.operator == DEQUANTIZE:
        return str(node.attributes.get("output_dtype", given[1]))
    if node.operator == "ArgMax":
        return "int64"
    return str(node.attributes.get("to", given[1 if node.operator == "Where" else 0]))


def _spelled(name: str, value: Any) -> str:
    """An attribute as Python. The output's type becomes one of ONNX's names."""
    return type_name(str(value)) if name in _TYPES and value in (*BITS, "bool") else spelled(value)
