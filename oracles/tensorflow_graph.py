"""TensorFlow's `tf.quantization.dequantize` in a `tf.function` on the CPU: as a graph, or through XLA.

Every operand is an argument of the function, except on a path that makes constants of some. The graph therefore knows no
more than a caller does. A call in surroundings is a function of its own. Its arguments have known extents unless the
surroundings say otherwise; its constants belong to the graph.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Dict, Iterator, List, Tuple

from xverify.core.call import Call, Outcome
from xverify.core.surroundings import Graph, surround
from xverify.oracles.arrays import answered, hand_out, to_array
from xverify.oracles.protocol import Loaded, Oracle, Path, Setting
from xverify.oracles.short_form import ShortCall, ShortForm
from xverify.oracles.tensorflow_eager import (
    CLAIM,
    KERNELS,
    QUANTIZED_TYPES,
    RELEASES,
    SHORT_IMPORTS,
    THREADS,
    attributes_of,
    import_tensorflow,
    operands,
    short_input,
    short_keywords,
)
from xverify.oracles.tensorflow_nodes import tensorflow_first_quantized, tensorflow_result, tensorflow_spelled

STATIC = "shapes=static"
UNKNOWN = "shapes=unknown"
CONSTANT = "ranges=constant"

UNOPTIMIZED = "graph optimization=off"
OPTIMIZED = "graph optimization=on"
COMPILED = "graph"
QUANTIZED = " moves=quantized"
"""The end of a path of calls in surroundings that moves the input in its quantized type.

Where the CPU has no kernel for such a move, integers are moved instead.
"""

XLA_ISAS = ("SSE4_2", "AVX2", "AVX512")
"""Values of XLA's flag xla_cpu_max_isa, the widest instructions that it compiles to."""

ORACLES = (
    Oracle(
        name="tensorflow-function",
        family="tensorflow",
        title="TensorFlow (tf.function)",
        claim=CLAIM,
        distribution="tensorflow-cpu",
        contracts=("tensorflow/*",),
        judged_by=("tensorflow/Dequantize@installed",),
        module=__name__,
        load="load_function",
        paths=(Path("", 0.2), Path(UNKNOWN, 0.05), Path(STATIC, 0.02), Path(CONSTANT, 0.02)),
        surrounded=tuple(
            Path(name, share)
            for name, share in (
                (UNOPTIMIZED, 0.05),
                (UNOPTIMIZED + QUANTIZED, 0.05),
                (OPTIMIZED + QUANTIZED, 0.05),
                (OPTIMIZED, 0.15),
            )
        ),
        varies=(*THREADS, *KERNELS),
        releases=RELEASES,
    ),
    Oracle(
        name="tensorflow-xla",
        title="TensorFlow (XLA)",
        claim=CLAIM,
        distribution="tensorflow-cpu",
        contracts=("tensorflow/*",),
        judged_by=("tensorflow/Dequantize@installed",),
        module=__name__,
        load="load_xla",
        paths=(Path("", 0.1),),
        surrounded=(Path(COMPILED + QUANTIZED, 0.05), Path(COMPILED, 0.15)),
        varies=(
            *(Setting("isa", isa, environment=(("XLA_FLAGS", "--xla_cpu_max_isa=" + isa),)) for isa in XLA_ISAS),
            *THREADS,
        ),
        releases=RELEASES,
    ),
)

FUNCTIONS = 2048
"""The number of functions, or refusals to make one, in the cache.

To make a function takes tens of milliseconds, to run it again less than one.
"""


def load_function() -> Loaded:
    """Import TensorFlow. Functions are cached by types, attributes and the known part of shapes.

    Paths: "": the rank is known, the extents are not; "shapes=unknown": not even the rank is known; "shapes=static": all is
    known; "ranges=constant": the same, and the ranges are constants of the graph, which its optimiser may fold.
    """
    return _load(False)


def load_xla() -> Loaded:
    """Import TensorFlow. XLA compiles for each shape, so functions and refusals are cached by shape too."""
    return _load(True)


def _load(compiled: bool) -> Loaded:
    tf = import_tensorflow()
    functions: OrderedDict[Tuple[Any, ...], Any] = OrderedDict()

    def traced_shape(shape: Tuple[int, ...], path: str) -> Any:
        """The part of a shape that is known when the graph is made."""
        if path == UNKNOWN:
            return None
        return shape if compiled or path in (STATIC, CONSTANT) else (None,) * len(shape)

    def make(call: Call, specs: Dict[str, Any], constants: Dict[str, Any]) -> Any:
        attributes = attributes_of(tf, call)

        def dequantize(**inputs: Any) -> Any:
            return tf.quantization.dequantize(**inputs, **constants, **attributes)

        return tf.function(dequantize, jit_compile=compiled, autograph=False).get_concrete_function(**specs)

    def cached(key: Tuple[Any, ...], call: Call, specs: Dict[str, Any]) -> Any:
        if key not in functions:
            try:
                functions[key] = make(call, specs, {})
            except Exception as error:
                functions[key] = error.with_traceback(None)
            if len(functions) > FUNCTIONS:
                functions.popitem(last=False)
        functions.move_to_end(key)
        if isinstance(functions[key], Exception):
            raise functions[key]
        return functions[key]

    def run_graph(call: Call, graph: Graph, path: str) -> Outcome:
        nodes = [(node.operator, node.inputs, node.output, node.attributes) for node in graph.nodes]
        early = ("XLA" if compiled else "kernels") if path.endswith(QUANTIZED) else ""
        arrays = {name: to_array(tensor) for name, tensor in graph.inputs.items()}

        def around(**inputs: Any) -> Any:
            constants = {name: tf.constant(to_array(tensor)) for name, tensor in graph.constants.items()}
            outputs = [graph.output, *graph.others]
            return tensorflow_result(tf, nodes, {**inputs, **constants}, call.data.dtype, early, outputs)

        fed = {name: tf.constant(array) for name, array in arrays.items()}
        specs = {
            name: tf.TensorSpec([None] * array.ndim if graph.symbolic else array.shape, fed[name].dtype)
            for name, array in arrays.items()
        }
        with _optimizer(tf, not path.startswith(UNOPTIMIZED)):
            function = tf.function(around, jit_compile=compiled, autograph=False).get_concrete_function(**specs)
            result = function(**fed)[0].numpy()
        outcome = answered(result, replace(call, tensors=graph.inputs), arrays)
        assert outcome.tensor is not None
        return replace(outcome, tensor=graph.back(outcome.tensor))

    def surrounded(call: Call, path: str) -> Outcome:
        """The outcome of a call in its surroundings.

        If the graph is refused without optimisation too, the operators around the call may not be implemented.
        If only the optimised graph is refused, the optimiser broke it.
        """
        graph = surround(call)
        try:
            return run_graph(call, graph, path)
        except Exception as error:
            broken = False
            if path.startswith(OPTIMIZED):
                broken = _succeeds(run_graph, call, graph, path.replace(OPTIMIZED, UNOPTIMIZED))
            kind = "rejected" if broken else "unsupported"
            return Outcome(kind, error=type(error).__name__, message=_without_counters(str(error)))

    def answer(call: Call, path: str) -> Outcome:
        if call.around:
            return surrounded(call, path)
        if path.startswith("graph"):  # a finding on such a path, whose shrunk call needs no surroundings
            return run_graph(call, surround(call), path)
        arrays = hand_out(call)
        fed = operands(tf, call, arrays)
        constants = {name: fed.pop(name) for name in ("min_range", "max_range") if path == CONSTANT}
        specs = {
            name: tf.TensorSpec(traced_shape(call.tensors[name].shape, path), value.dtype)
            for name, value in fed.items()
        }
        if path == CONSTANT:
            return answered(make(call, specs, constants)(**fed).numpy(), call, arrays)
        types = tuple((name, spec.dtype.name, str(spec.shape)) for name, spec in specs.items())
        key = (path, types, tuple(sorted(call.attributes.items())))
        function = cached(key, call, specs)
        try:
            result = function(**fed).numpy()
        except Exception as error:
            if compiled:  # XLA compiles at the first call, for these types and shapes
                functions[key] = error.with_traceback(None)
            raise
        return answered(result, call, arrays)

    def steady(call: Call, path: str) -> Outcome:
        try:
            return answer(call, path)
        except tf.errors.OpError as error:
            error._message = _without_counters(error.message)
            raise

    return Loaded(steady, (tf.errors.UnimplementedError, NotImplementedError))


@contextmanager
def _optimizer(tf: Any, on: bool) -> Iterator[None]:
    """Switch TensorFlow's graph optimiser on or off. TensorFlow reads this when a function first runs."""
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not on})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})


def _without_counters(message: str) -> str:
    """A message without the numbers of functions, which TensorFlow counts in each process."""
    return re.sub(r"(__inference_\w+?)_\d+\b", r"\1", message)


def _succeeds(function: Any, *arguments: Any) -> bool:
    try:
        function(*arguments)
    except Exception:
        return False
    return True


# -- short scripts ---------------------------------------------------------------------------------------


def short_form(call: ShortCall) -> ShortForm:
    """A function of the call. Its graph knows as much as the path lets it."""
    compiled = call.name == "tensorflow-xla"
    compile_it = ", jit_compile=True" if compiled else ""
    if call.graph is not None:
        lines = _graph_lines(*call.graph, call.options, compiled, short_keywords(call))
        return ShortForm(SHORT_IMPORTS, lines, ("os",))
    first, data = short_input(call)
    fed = ["input"] if call.options == CONSTANT else list(call.tensors)
    static = compiled or call.options in (STATIC, CONSTANT)
    specs = []
    for role in fed:
        tensor = call.tensors[role]
        shape: Any = list(tensor.shape) if static else [None] * len(tensor.shape)
        dtype = QUANTIZED_TYPES.get(tensor.dtype, tensor.dtype) if role == "input" else tensor.dtype
        specs.append("tf.TensorSpec(%s, tf.%s)" % (None if call.options == UNKNOWN else shape, dtype))
    inner = "tf.quantization.dequantize(%s%s)" % (", ".join(call.tensors), short_keywords(call))
    arguments = ", ".join([data, *("tf.constant(%s)" % role for role in fed if role != "input")])
    body = [
        "function = tf.function(lambda %s: %s%s)" % (", ".join(fed), inner, compile_it),
        "specs = [%s]" % ", ".join(specs),
        "y = function.get_concrete_function(*specs)(%s).numpy()" % arguments,
    ]
    return ShortForm(SHORT_IMPORTS, [*first, *body], ("os",))


def _graph_lines(call: Call, graph: Graph, options: str, compiled: bool, words: str) -> List[str]:
    """Lines that make ``function`` of the graph, and run it. Inputs and constants are arrays by name.

    Args:
        words: The call's attributes, spelled after a comma.
    """
    dtype = call.data.dtype
    rows = [(node.operator, node.inputs, node.output, node.attributes) for node in graph.nodes]
    early = ("XLA" if compiled else "kernels") if options.endswith(QUANTIZED) else ""
    cast_before = tensorflow_first_quantized(rows, dtype, early)
    inner = []
    for index, node in enumerate(graph.nodes):
        names = {name: "tf.constant(%s)" % name if name in graph.constants else name for name in node.inputs}
        if index == cast_before and dtype in QUANTIZED_TYPES:
            cast = [name for name in node.inputs if name.split("_")[0] == "input"]
            inner += ["%s_quantized = tf.bitcast(%s, tf.q%s)" % (name, names[name], dtype) for name in cast]
            names.update((name, name + "_quantized") for name in cast)
        values = list(names.values())
        dequantized = "tf.quantization.dequantize(%s%s)" % (", ".join(values), words)
        moved = dequantized if node.of_call else tensorflow_spelled(node.operator, values, node.attributes)
        inner.append("%s = %s" % (node.output, moved))
    specs = [
        "tf.TensorSpec(%s, tf.%s)"
        % ([None] * len(tensor.shape) if graph.symbolic else list(tensor.shape), tensor.dtype)
        for tensor in graph.inputs.values()
    ]
    off = 'tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})'
    return [
        *([off] if options.startswith(UNOPTIMIZED) else []),
        "def graph(%s):" % ", ".join(graph.inputs),
        *("    " + line for line in inner),
        "    return " + ", ".join((graph.output, *graph.others)),
        "function = tf.function(graph%s)" % (", jit_compile=True" if compiled else ""),
        "specs = [%s]" % ", ".join(specs),
        "y = function.get_concrete_function(*specs)(%s)%s.numpy()"
        % (", ".join("tf.constant(%s)" % n for n in graph.inputs), "[0]" if graph.others else ""),
    ]
