"""What scripts on TensorFlow need of a call inside a small graph: the body of a stand-alone script, the lines of a short one.

`surrounded_tensorflow` is copied into scripts, like the functions of `script_bodies`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xverify.core.call import Call
from xverify.core.moves import Node
from xverify.core.surroundings import Graph
from xverify.oracles.tensorflow_nodes import TENSORFLOW_NODES, tensorflow_first_quantized, tensorflow_result
from xverify.report.script_graph import graph_tensors, moved_back
from xverify.report.script_values import to_array


def function_lines(call: Call, graph: Graph, options: str, compiled: bool, keywords: str) -> list[str]:
    """Lines of Python that make ``function`` of the graph, and run it; what is fed, and the constants, are arrays by their
    names. keywords: the call's attributes, spelled after a comma."""
    dtype = call.data.dtype
    rows = [(node.operator, node.inputs, node.output, node.attributes) for node in graph.nodes]
    early = ("XLA" if compiled else "kernels") if options.endswith("moves=quantized") else ""
    cast_before = tensorflow_first_quantized(rows, dtype, early)
    inner = []
    for place, node in enumerate(graph.nodes):
        names = {name: f"tf.constant({name})" if name in graph.constants else name for name in node.inputs}
        if place == cast_before and dtype in _INTEGERS:
            cast = [name for name in node.inputs if name.split("_")[0] == "input"]
            inner += [f"{name}_quantized = tf.bitcast({names[name]}, tf.q{dtype})" for name in cast]
            names.update((name, f"{name}_quantized") for name in cast)
        values = list(names.values())
        inner.append(
            f"{node.output} = tf.quantization.dequantize({', '.join(values)}{keywords})"
            if node.of_call
            else f"{node.output} = {_spelled(node, values)}"
        )
    specs = []
    for tensor in graph.inputs.values():
        shape: object = [None] * len(tensor.shape) if graph.symbolic else list(tensor.shape)
        specs.append(f"tf.TensorSpec({shape}, tf.{tensor.dtype})")
    options_of_graphs = '{"disable_meta_optimizer": True}'
    fed = ", ".join(f"tf.constant({name})" for name in graph.inputs)
    return [
        *([f"tf.config.optimizer.set_experimental_options({options_of_graphs})"] if "=off" in options else []),
        f"def graph({', '.join(graph.inputs)}):",
        *(f"    {line}" for line in inner),
        f"    return {graph.output}",
        f"function = tf.function(graph{', jit_compile=True' if compiled else ''})",
        f"specs = [{', '.join(specs)}]",
        f"y = function.get_concrete_function(*specs)({fed}).numpy()",
    ]


_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32")


def _spelled(node: Node, values: list[str]) -> str:
    """A node that moves data as an expression, as `xverify.oracles.tensorflow_nodes.tensorflow_moved` makes it."""
    value = values[0]
    given: dict[str, Any] = {n: list(v) if isinstance(v, tuple) else v for n, v in node.attributes.items()}
    if node.operator == "Flatten":
        ends = [f"tf.reduce_prod(tf.shape({value})[{part}])" for part in (f":{given['axis']}", f"{given['axis']}:")]
        return f"tf.reshape({value}, [{', '.join(ends)}])"
    if node.operator == "Slice":
        (start,), (end,), (axis,), (step,) = (given[name] for name in ("starts", "ends", "axes", "steps"))
        if step < 0 and axis < 0:
            return f"tf.reverse({value}, [{axis}])"
        window = "::-1" if step < 0 else f"{start}:{end}"
        return f"{value}[{':, ' * axis}{window}]" if axis >= 0 else f"{value}[..., {window}{', :' * (-1 - axis)}]"
    return {
        "Transpose": "tf.transpose({0}, {perm})",
        "Reshape": "tf.reshape({0}, {shape})",
        "Squeeze": "tf.squeeze({0}, {axes})",
        "Unsqueeze": "tf.expand_dims({0}, {axes[0]})",
        "Gather": "tf.gather({0}, {indices}, axis={axis})",
        "Concat": "tf.concat([{0}, {1}], {axis})",
        "Identity": "tf.identity({0})",
    }[node.operator].format(*values, **given)


# -- copied -----------------------------------------------------------------------------------------------


def surrounded_tensorflow(call: dict[str, Any]) -> Any:
    import os

    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
    import tensorflow as tf

    graph, tensors, compiled = call["graph"], graph_tensors(call), call["name"].startswith("tensorflow-xla")
    early = ("XLA" if compiled else "kernels") if call["options"].endswith("moves=quantized") else ""
    arrays = {name: to_array(tensor) for name, tensor in tensors.items()}
    specs = {}
    for name in graph["inputs"]:
        extents = [None if isinstance(extent, str) else extent for extent in graph["extents"][name]]
        specs[name] = tf.TensorSpec(extents, tf.as_dtype(arrays[name].dtype))

    def around(**given: Any) -> Any:
        known = {name: given[name] if name in given else tf.constant(arrays[name]) for name in arrays}
        return tensorflow_result(tf, graph["nodes"], known, call["tensors"]["input"]["dtype"], early)

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": "optimization=off" in call["options"]})
    function = tf.function(around, jit_compile=compiled, autograph=False).get_concrete_function(**specs)
    return moved_back(call, function(**{name: tf.constant(arrays[name]) for name in specs}).numpy())


BODIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "tensorflow-function": surrounded_tensorflow,
    "tensorflow-xla": surrounded_tensorflow,
}

HELPERS: dict[str, tuple[Callable[..., Any], ...]] = {
    "surrounded_tensorflow": (*TENSORFLOW_NODES, graph_tensors, moved_back),
}
