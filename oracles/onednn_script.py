"""How oneDNN is called in a script that shows one finding: `xverify.report.script` copies the source of `reproduce` and
`onednn_functions`."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np


def onednn_functions(name: str) -> Any:
    """The library at the path in a finding's name, or that of the wheel of this Python: the structure of a logical tensor,
    numbers of types, a function that calls one of the library's and raises where its status is not 0, and one that gives the
    handle which such a function makes. The numbers are those of dnnl_graph_types.h and dnnl_common_types.h."""
    import ctypes
    import os
    import sys
    from ctypes import byref, c_int, c_int64, c_size_t, c_void_p

    types = {
        "float16": 1, "bfloat16": 2, "float32": 3, "int32": 4, "int8": 5, "uint8": 6, "float8_e5m2": 9, "float8_e4m3fn": 10,
        "int4": 11, "uint4": 12,
    }  # fmt: skip
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    path = name.partition(":")[2].partition("@")[0] or os.path.join(sys.prefix, "lib", "libdnnl.so.3")
    if not os.path.isfile(path):
        raise ImportError("there is no %s: pip install onednn-cpu-gomp" % path)
    directory = os.path.dirname(os.path.abspath(path))
    driver = os.path.join(directory, "libintelocl.so")
    if os.path.isfile(driver):  # a build with SYCL finds the CPU through OpenCL
        os.environ.setdefault("OCL_ICD_FILENAMES", driver)
    waiting = [os.path.abspath(path)]
    while waiting:  # a wheel has the libraries that it needs beside it, where the loader does not look
        try:
            lib = ctypes.CDLL(waiting[-1], ctypes.RTLD_GLOBAL)
            waiting.pop()
        except OSError as error:
            missing = os.path.join(directory, str(error).partition(":")[0])
            if missing in waiting or not os.path.isfile(missing):
                raise ImportError("%s can't be loaded: %s" % (path, error)) from None
            waiting.append(missing)

    class Logical(ctypes.Structure):
        _fields_ = [
            ("id", c_size_t), ("ndims", c_int), ("dims", c_int64 * 12), ("data_type", c_int),
            ("property", c_int), ("layout_type", c_int), ("strides", c_int64 * 12),
        ]  # fmt: skip

    def check(function: str, *given: Any) -> None:
        status = getattr(lib, function)(*given)
        if status:
            raise RuntimeError("%s returned status %d" % (function, status))

    def made(function: str, *given: Any) -> Any:
        handle = c_void_p()
        check(function, byref(handle), *given)
        return handle

    return Logical, types, check, made


def reproduce(call: Dict[str, Any]) -> Any:
    """One operation in a graph, through the C functions. Operands lie in memory as in the finding where a logical tensor can
    say so."""
    import ctypes
    from ctypes import byref, c_float, c_int64, c_size_t, c_uint8, c_void_p

    name, arrays, attributes = call["name"], call["arrays"], call["attributes"]
    static = call["contract"].startswith("onednn/Dequantize-")
    structure, types, check, made = onednn_functions(name)

    def in_memory(array: Any) -> Any:
        """The array as a logical tensor can tell it; 4-bit types are packed, low bits first."""
        if array.dtype.name.endswith("int4"):
            flat = np.append(array.view(np.uint8).reshape(-1) & 15, np.zeros(array.size % 2, np.uint8))
            return flat[::2] | flat[1::2] << np.uint8(4)
        size = array.itemsize
        told = array.ctypes.data % size == 0 and all(stride >= 0 and stride % size == 0 for stride in array.strides)
        return array if told else np.array(array, order="C")

    def logical(number: int, array: Any, held: Any) -> Any:
        strides = [stride // held.itemsize for stride in held.strides]
        if held.flags.c_contiguous:
            strides = [int(np.prod([max(1, n) for n in array.shape[place + 1 :]])) for place in range(array.ndim)]
        one, kind = structure(), types[array.dtype.name]
        dims, steps = (c_int64 * 12)(*array.shape), (c_int64 * 12)(*strides)
        init = "dnnl_graph_logical_tensor_init_with_strides"
        check(init, byref(one), c_size_t(number), kind, array.ndim, dims, steps, 1)
        return one

    roles = ["x"] if static else [role for role in ("x", "scale", "zero_point") if role in arrays]
    inputs = [in_memory(arrays[role]) for role in roles]
    y = np.zeros(arrays["x"].shape, np.float32 if static else arrays["scale"].dtype)
    tensors = [logical(number, arrays[role], inputs[number]) for number, role in enumerate(roles)]
    tensors.append(logical(len(roles), y, y))
    op = made("dnnl_graph_op_create", c_size_t(0), 19 if static else 21, b"dequantize")
    for one in tensors[:-1]:
        check("dnnl_graph_op_add_input", op, byref(one))
    check("dnnl_graph_op_add_output", op, byref(tensors[-1]))
    if "qtype" in attributes:
        text = attributes["qtype"].encode()
        check("dnnl_graph_op_set_attr_str", op, 0x85, text, c_size_t(len(text)))
    if "axis" in attributes:
        check("dnnl_graph_op_set_attr_s64", op, 0x30, (c_int64 * 1)(attributes["axis"]), c_size_t(1))
    if static:
        if arrays["scale"].ndim != 1 or arrays["scale"].dtype != np.float32:
            raise TypeError("the attribute scales is a list of f32")
        scales = arrays["scale"].tolist()
        check("dnnl_graph_op_set_attr_f32", op, 0x20, (c_float * len(scales))(*scales), c_size_t(len(scales)))
    if static and "zero_point" in arrays:
        if arrays["zero_point"].ndim != 1 or arrays["zero_point"].dtype not in (np.int32, np.int64):
            raise TypeError("the attribute zps is a list of s64")
        zps = arrays["zero_point"].tolist()
        check("dnnl_graph_op_set_attr_s64", op, 0x4D, (c_int64 * len(zps))(*zps), c_size_t(len(zps)))
    engine = made("dnnl_engine_create", 1, c_size_t(0))
    stream = made("dnnl_stream_create", engine, 1)
    graph = made("dnnl_graph_graph_create", 1)
    check("dnnl_graph_add_op", graph, op)
    check("dnnl_graph_graph_finalize", graph)
    check("dnnl_graph_graph_filter", graph, 1)
    count, supported, partition = c_size_t(), c_uint8(), c_void_p()
    check("dnnl_graph_graph_get_partition_num", graph, byref(count))
    check("dnnl_graph_graph_get_partitions", graph, c_size_t(1), byref(partition))
    check("dnnl_graph_partition_is_supported", partition, byref(supported))
    if not supported.value:
        raise NotImplementedError("the partition is not supported")
    compiled = made("dnnl_graph_compiled_partition_create", partition)
    pointers = [ctypes.pointer(one) for one in tensors]
    given = (ctypes.POINTER(structure) * len(inputs))(*pointers[:-1])
    result = (ctypes.POINTER(structure) * 1)(pointers[-1])
    check(
        "dnnl_graph_partition_compile", partition, compiled, c_size_t(len(inputs)), given, c_size_t(1), result, engine
    )
    held = []
    for number, array in enumerate([*inputs, y]):
        held.append(made("dnnl_graph_tensor_create", byref(tensors[number]), engine, c_void_p(array.ctypes.data)))
    sources, target = (c_void_p * len(inputs))(*held[:-1]), (c_void_p * 1)(held[-1])
    execute = "dnnl_graph_compiled_partition_execute"
    check(execute, compiled, stream, c_size_t(len(inputs)), sources, c_size_t(1), target)
    check("dnnl_stream_wait", stream)
    return y


HELPERS = {"reproduce": (onednn_functions,)}
