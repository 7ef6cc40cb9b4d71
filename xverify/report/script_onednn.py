"""What scripts on oneDNN need of a call inside a small graph: its operations as plain data, and how they are run.

`surrounded_onednn` is copied into scripts, like the functions of `script_bodies`.
"""

# ruff: noqa: UP031

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xverify.core.call import Call
from xverify.core.surroundings import Graph
from xverify.oracles.arrays import hand_out
from xverify.oracles.onednn_graph_api import DEQUANTIZE
from xverify.oracles.onednn_graphs import packed, steps_of
from xverify.oracles.onednn_library import question
from xverify.oracles.onednn_script import onednn_functions
from xverify.report.script_graph import graph_tensors, moved_back
from xverify.report.script_values import to_array


def operations(call: Call, graph: Graph) -> list[dict[str, Any]]:
    """The graph as operations of oneDNN, in plain data: of the call's own, scales and zero points are where the call has them.
    NotImplementedError, TypeError or ValueError where oneDNN can't be told."""
    _, lone = question(call, hand_out(call))
    told = {**graph.inputs, **graph.constants}
    given = {
        name: packed(tensor.dtype, tensor.shape)
        for name, tensor in told.items()
        if name != "zero" and (lone.kind != DEQUANTIZE or name.split("_")[0] == "x")
    }
    return [
        {
            "kind": step.operation.kind,
            "inputs": list(step.inputs),
            "output": step.node.output,
            "dtype": step.operation.output.dtype,
            "extents": list(step.operation.output.shape),
            "order": step.operation.order,
            "shape": step.operation.shape,
        }
        for step in steps_of(call, graph, lone, given)
    ]


# -- copied -----------------------------------------------------------------------------------------------


def surrounded_onednn(call: dict[str, Any]) -> Any:
    """Several operations in a graph, through the C functions. Every operand is in C order."""
    import ctypes
    from ctypes import byref, c_float, c_int64, c_size_t, c_uint8, c_void_p

    graph, attributes, arrays = call["graph"], call["attributes"], call["arrays"]
    structure, types, check, made = onednn_functions(call["name"])
    numbers: dict[str, int] = {}
    logical: dict[str, Any] = {}

    def describe(name: str, dtype: str, shape: Any, constant: bool) -> None:
        steps = [int(np.prod([max(1, extent) for extent in shape[place + 1 :]])) for place in range(len(shape))]
        numbers[name], logical[name] = len(numbers), structure()
        dims, strides = (c_int64 * 12)(*shape), (c_int64 * 12)(*steps)
        init, number = "dnnl_graph_logical_tensor_init_with_strides", c_size_t(numbers[name])
        check(init, byref(logical[name]), number, types[dtype], len(shape), dims, strides, 2 if constant else 1)

    def listed(op: Any, attribute: int, values: Any, kind: Any = c_int64, function: str = "s64") -> None:
        check("dnnl_graph_op_set_attr_" + function, op, attribute, (kind * len(values))(*values), c_size_t(len(values)))

    def ports(partition: Any, which: str) -> list[str]:
        count = c_size_t()
        check("dnnl_graph_partition_get_%s_ports_num" % which, partition, byref(count))
        found = (structure * count.value)()
        check("dnnl_graph_partition_get_%s_ports" % which, partition, count, found)
        return [name for one in found for name, number in numbers.items() if number == one.id]

    known: dict[str, Any] = {}
    taken = {name for operation in graph["operations"] for name in operation["inputs"]}
    for name, tensor in graph_tensors(call).items():
        if name in taken:
            known[name] = np.array(to_array(tensor), order="C")
            describe(name, tensor["dtype"], known[name].shape, name in graph["constants"])
    engine = made("dnnl_engine_create", 1, c_size_t(0))
    stream = made("dnnl_stream_create", engine, 1)
    whole = made("dnnl_graph_graph_create", 1)
    by_output = {}
    for number, operation in enumerate(graph["operations"]):
        by_output[operation["output"]] = operation
        describe(operation["output"], operation["dtype"], operation["extents"], False)
        op = made("dnnl_graph_op_create", c_size_t(number), operation["kind"], b"%d" % number)
        for name in operation["inputs"]:
            check("dnnl_graph_op_add_input", op, byref(logical[name]))
        check("dnnl_graph_op_add_output", op, byref(logical[operation["output"]]))
        of_call = operation["kind"] in (19, 21, 22, 49)
        if of_call and "qtype" in attributes:
            text = attributes["qtype"].encode()
            check("dnnl_graph_op_set_attr_str", op, 0x85, text, c_size_t(len(text)))
        if of_call and "axis" in attributes:
            listed(op, 0x30, [attributes["axis"]])
        if operation["kind"] in (19, 49):
            listed(op, 0x20, arrays["scale"].tolist(), c_float, "f32")
            if "zero_point" in arrays:
                listed(op, 0x4D, arrays["zero_point"].tolist())
        if operation["order"] is not None:
            listed(op, 0x44, operation["order"])
        if operation["shape"] is not None:
            listed(op, 0x48, operation["shape"])
            listed(op, 0x64, [0], c_uint8, "bool")
        check("dnnl_graph_add_op", whole, op)
    check("dnnl_graph_graph_finalize", whole)
    check("dnnl_graph_graph_filter", whole, 2 if call["options"].endswith("policy=debug") else 1)
    count = c_size_t()
    check("dnnl_graph_graph_get_partition_num", whole, byref(count))
    handles = (c_void_p * count.value)()
    check("dnnl_graph_graph_get_partitions", whole, count, handles)
    left = [c_void_p(handle) for handle in handles]
    while left:
        ready = [one for one in left if all(name in known for name in ports(one, "input"))]
        if not ready:
            raise NotImplementedError("the partitions take what none of them gives")
        left.remove(ready[0])
        takes, (gives,) = ports(ready[0], "input"), ports(ready[0], "output")
        operation, supported = by_output[gives], c_uint8()
        check("dnnl_graph_partition_is_supported", ready[0], byref(supported))
        if not supported.value:  # then whoever asked is to do it
            if operation["kind"] not in (60, 72, 73):
                raise NotImplementedError("a partition is not supported")
            moved = known[takes[0]]
            moved = moved.transpose(operation["order"]) if operation["order"] is not None else moved
            known[gives] = np.array(moved.reshape(operation["extents"]), order="C")
            continue
        compiled = made("dnnl_graph_compiled_partition_create", ready[0])
        given = (ctypes.POINTER(structure) * len(takes))(*[ctypes.pointer(logical[name]) for name in takes])
        result = (ctypes.POINTER(structure) * 1)(ctypes.pointer(logical[gives]))
        compile_it = "dnnl_graph_partition_compile"
        check(compile_it, ready[0], compiled, c_size_t(len(takes)), given, c_size_t(1), result, engine)
        width = {1: 2, 2: 2, 3: 4, 4: 4}.get(types[operation["dtype"]], 1)
        known[gives] = np.zeros(operation["extents"], "uint%d" % (8 * width))
        held = [
            made("dnnl_graph_tensor_create", byref(logical[name]), engine, c_void_p(known[name].ctypes.data))
            for name in (*takes, gives)
        ]
        sources, target = (c_void_p * len(takes))(*held[:-1]), (c_void_p * 1)(held[-1])
        execute = "dnnl_graph_compiled_partition_execute"
        check(execute, compiled, stream, c_size_t(len(takes)), sources, c_size_t(1), target)
        check("dnnl_stream_wait", stream)
    last = graph["operations"][-1]
    return moved_back(call, (last["dtype"], known[last["output"]]))


BODIES: dict[str, Callable[[dict[str, Any]], Any]] = {"onednn": surrounded_onednn}

HELPERS: dict[str, tuple[Callable[..., Any], ...]] = {
    "surrounded_onednn": (onednn_functions, graph_tensors, moved_back)
}
