"""oneDNN's graph API, a C interface, through ctypes: compile one operation and run it.

`xverify.oracles.onednn_graphs` makes graphs of several operations.

Numbers and structures come from include/oneapi/dnnl/dnnl_common_types.h, dnnl_graph_types.h and dnnl_graph.h in the sources of
each release from 3.0 to 3.13. Those used here are the same in all of them, except for data types that came later
(`DATA_TYPES`).
"""

from __future__ import annotations

import ctypes
import os
import sys
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_int32, c_int64, c_size_t, c_uint, c_uint8, c_void_p
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

CHECKED = ((3, 0), (3, 13))
"""The first and the last release (major, minor) whose headers agree with the numbers below."""

MOST_DIMENSIONS = 12  # DNNL_MAX_NDIMS

DATA_TYPES: Dict[str, Tuple[int, Tuple[int, int]]] = {
    "float16": (1, (3, 0)), "bfloat16": (2, (3, 0)), "float32": (3, (3, 0)), "int32": (4, (3, 0)),
    "int8": (5, (3, 0)), "uint8": (6, (3, 0)), "float64": (7, (3, 0)),
    "float8_e5m2": (9, (3, 4)), "float8_e4m3fn": (10, (3, 4)),
    "int4": (11, (3, 5)), "uint4": (12, (3, 5)),
    "float8_e8m0fnu": (13, (3, 6)),
    "float4_e2m1fn": (14, (3, 7)),
    "int64": (16, (3, 11)),
}  # fmt: skip
"""dnnl_data_type_t of each dtype, and the first release that has it."""

DEQUANTIZE, DYNAMIC_DEQUANTIZE = 19, 21  # dnnl_graph_op_kind_t
QUANTIZE, DYNAMIC_QUANTIZE = 49, 22
REORDER, STATIC_RESHAPE, STATIC_TRANSPOSE = 60, 72, 73
ABS, CLAMP, MAXIMUM, MINIMUM, MULTIPLY, RELU, TYPE_CAST = 0, 10, 40, 43, 46, 58, 77
SCALES, AXIS, ZPS, QTYPE = 0x20, 0x30, 0x4D, 0x85  # dnnl_graph_op_attr_t
MAX, MIN = 0x04, 0x05
ORDER, SHAPE, SPECIAL_ZERO = 0x44, 0x48, 0x64
CPU = 1  # dnnl_engine_kind_t
STRIDED = 2  # dnnl_graph_layout_type_t
VARIABLE, CONSTANT = 1, 2  # dnnl_graph_tensor_property_t
FUSION, DEBUG = 1, 2  # dnnl_graph_partition_policy_t
IN_ORDER = 1  # dnnl_stream_flags_t

UNIMPLEMENTED = 3
STATUSES = (
    "dnnl_success", "dnnl_out_of_memory", "dnnl_invalid_arguments", "dnnl_unimplemented", "dnnl_last_impl_reached",
    "dnnl_runtime_error", "dnnl_not_required", "dnnl_invalid_graph", "dnnl_invalid_graph_op", "dnnl_invalid_shape",
    "dnnl_invalid_data_type",
)  # fmt: skip
"""dnnl_status_t in its order."""


class RefusedError(ValueError):
    """A function of the library returned a status that is not 0."""


class UnsupportedError(NotImplementedError):
    """The library does not support the operation: dnnl_unimplemented, or no supported partition."""


class NoLibraryError(ImportError):
    """The file is no oneDNN that this module can use; the message says what to do."""


class Version(ctypes.Structure):
    """dnnl_version_t."""

    _fields_ = [
        ("major", c_int), ("minor", c_int), ("patch", c_int), ("hash", c_char_p), ("cpu", c_uint), ("gpu", c_uint),
    ]  # fmt: skip


class Logical(ctypes.Structure):
    """dnnl_graph_logical_tensor_t. Functions of the library return a tensor's number in ``id``."""

    _fields_ = [
        ("id", c_size_t), ("ndims", c_int), ("dims", c_int64 * MOST_DIMENSIONS), ("data_type", c_int),
        ("property", c_int), ("layout_type", c_int), ("strides", c_int64 * MOST_DIMENSIONS),
    ]  # fmt: skip


class LogicalTensor(NamedTuple):
    """A tensor's dtype, its shape, and its strides in elements."""

    dtype: str
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]


class Operation(NamedTuple):
    """One operation of a graph. The library takes its default for a field that is None."""

    kind: int
    """dnnl_graph_op_kind_t."""
    inputs: Tuple[LogicalTensor, ...]
    output: LogicalTensor
    qtype: Optional[str] = None
    axis: Optional[int] = None
    scales: Optional[Tuple[float, ...]] = None
    zps: Optional[Tuple[int, ...]] = None
    order: Optional[Tuple[int, ...]] = None
    shape: Optional[Tuple[int, ...]] = None
    bounds: Optional[Tuple[float, float]] = None
    """The bounds of Clamp."""


_ARGUMENTS: Dict[str, Tuple[Any, ...]] = {
    "dnnl_engine_create": (POINTER(c_void_p), c_int, c_size_t),
    "dnnl_stream_create": (POINTER(c_void_p), c_void_p, c_uint),
    "dnnl_stream_wait": (c_void_p,),
    "dnnl_graph_graph_create": (POINTER(c_void_p), c_int),
    "dnnl_graph_graph_destroy": (c_void_p,),
    "dnnl_graph_op_create": (POINTER(c_void_p), c_size_t, c_int, c_char_p),
    "dnnl_graph_op_destroy": (c_void_p,),
    "dnnl_graph_op_add_input": (c_void_p, POINTER(Logical)),
    "dnnl_graph_op_add_output": (c_void_p, POINTER(Logical)),
    "dnnl_graph_op_set_attr_f32": (c_void_p, c_int, POINTER(c_float), c_size_t),
    "dnnl_graph_op_set_attr_s64": (c_void_p, c_int, POINTER(c_int64), c_size_t),
    "dnnl_graph_op_set_attr_bool": (c_void_p, c_int, POINTER(c_uint8), c_size_t),
    "dnnl_graph_op_set_attr_str": (c_void_p, c_int, c_char_p, c_size_t),
    "dnnl_graph_logical_tensor_init_with_strides": (
        POINTER(Logical), c_size_t, c_int, c_int32, POINTER(c_int64), POINTER(c_int64), c_int,
    ),
    "dnnl_graph_add_op": (c_void_p, c_void_p),
    "dnnl_graph_graph_finalize": (c_void_p,),
    "dnnl_graph_graph_filter": (c_void_p, c_int),
    "dnnl_graph_graph_get_partition_num": (c_void_p, POINTER(c_size_t)),
    "dnnl_graph_graph_get_partitions": (c_void_p, c_size_t, POINTER(c_void_p)),
    "dnnl_graph_partition_is_supported": (c_void_p, POINTER(c_uint8)),
    "dnnl_graph_partition_get_input_ports_num": (c_void_p, POINTER(c_size_t)),
    "dnnl_graph_partition_get_input_ports": (c_void_p, c_size_t, POINTER(Logical)),
    "dnnl_graph_partition_get_output_ports_num": (c_void_p, POINTER(c_size_t)),
    "dnnl_graph_partition_get_output_ports": (c_void_p, c_size_t, POINTER(Logical)),
    "dnnl_graph_partition_destroy": (c_void_p,),
    "dnnl_graph_compiled_partition_create": (POINTER(c_void_p), c_void_p),
    "dnnl_graph_compiled_partition_destroy": (c_void_p,),
    "dnnl_graph_partition_compile": (
        c_void_p, c_void_p, c_size_t, POINTER(POINTER(Logical)), c_size_t, POINTER(POINTER(Logical)), c_void_p,
    ),
    "dnnl_graph_tensor_create": (POINTER(c_void_p), POINTER(Logical), c_void_p, c_void_p),
    "dnnl_graph_tensor_destroy": (c_void_p,),
    "dnnl_graph_compiled_partition_execute": (
        c_void_p, c_void_p, c_size_t, POINTER(c_void_p), c_size_t, POINTER(c_void_p),
    ),
}  # fmt: skip
"""The functions used here, with the types of their arguments. Each returns a dnnl_status_t."""


class Library:
    """A loaded oneDNN, with an engine and a stream on the CPU.

    Attributes:
        release: (major, minor).
        version: Such as "3.2.0".
    """

    def __init__(self, path: str) -> None:
        """Load the shared library at a path.

        Raises:
            NoLibraryError: It is not a oneDNN of one of the `CHECKED` releases.
        """
        self._library = _loaded(path)
        about = _version(self._library, path)
        self.release = (about.major, about.minor)
        self.version = "%d.%d.%d" % (about.major, about.minor, about.patch)
        if not CHECKED[0] <= self.release <= CHECKED[1]:
            raise NoLibraryError(
                "%s is oneDNN %s; the numbers of its interface were checked for releases %d.%d to %d.%d only: compare those "
                "in oracles/onednn_graph_api.py with its headers, then widen CHECKED there"
                % (path, self.version, *CHECKED[0], *CHECKED[1])
            )
        for name, arguments in _ARGUMENTS.items():
            try:
                function = getattr(self._library, name)
            except AttributeError:
                raise NoLibraryError(
                    "%s, oneDNN %s, has no %s: it was built without the graph API" % (path, self.version, name)
                ) from None
            function.argtypes, function.restype = arguments, c_int
        try:
            self.engine = self.made("dnnl_engine_create", CPU, 0)
            self._stream = self.made("dnnl_stream_create", self.engine, IN_ORDER)
        except (RefusedError, UnsupportedError) as error:
            raise NoLibraryError("%s, oneDNN %s, has no CPU engine here: %s" % (path, self.version, error)) from None

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function.

        Raises:
            UnsupportedError: The status is dnnl_unimplemented.
            RefusedError: The status is another error.
        """
        status = int(getattr(self._library, name)(*arguments))
        if status == 0:
            return
        word = STATUSES[status] if 0 < status < len(STATUSES) else "status %d" % status
        raise (UnsupportedError if status == UNIMPLEMENTED else RefusedError)("%s returned %s" % (name, word))

    def made(self, name: str, *arguments: Any) -> c_void_p:
        handle = c_void_p()
        self.call(name, byref(handle), *arguments)
        return handle

    # -- compiling ----------------------------------------------------------------------------------------

    def compile(self, operation: Operation) -> Compiled:
        """Compile the operation, alone in a graph.

        Raises:
            UnsupportedError: The library does not support it.
            RefusedError: A function refuses it; the message names the function.
        """
        logical = [self.logical(number, tensor) for number, tensor in enumerate((*operation.inputs, operation.output))]
        op = self.made("dnnl_graph_op_create", 0, operation.kind, b"dequantize")
        try:
            for tensor in logical[:-1]:
                self.call("dnnl_graph_op_add_input", op, byref(tensor))
            self.call("dnnl_graph_op_add_output", op, byref(logical[-1]))
            self.set_attributes(op, operation)
            graph = self.made("dnnl_graph_graph_create", CPU)
            try:
                self.call("dnnl_graph_add_op", graph, op)
                self.call("dnnl_graph_graph_finalize", graph)
                self.call("dnnl_graph_graph_filter", graph, FUSION)
                return Compiled(self, self._compiled(graph, logical), logical)
            finally:
                self.call("dnnl_graph_graph_destroy", graph)
        finally:
            self.call("dnnl_graph_op_destroy", op)

    def logical(self, number: int, tensor: LogicalTensor) -> Logical:
        kind, since = DATA_TYPES.get(tensor.dtype, (0, CHECKED[1]))
        if not kind or since > self.release:
            raise UnsupportedError("oneDNN %s has no data type %s" % (self.version, tensor.dtype))
        rank = len(tensor.shape)
        if rank > MOST_DIMENSIONS:
            raise UnsupportedError("a logical tensor has up to %d dimensions, not %d" % (MOST_DIMENSIONS, rank))
        logical = Logical()
        dims, strides = (c_int64 * MOST_DIMENSIONS)(*tensor.shape), (c_int64 * MOST_DIMENSIONS)(*tensor.strides)
        name = "dnnl_graph_logical_tensor_init_with_strides"
        self.call(name, byref(logical), number, kind, rank, dims, strides, VARIABLE)
        return logical

    def set_attributes(self, op: c_void_p, operation: Operation) -> None:
        if operation.qtype is not None:
            # The length must be the string's. With a wrong one the library silently keeps its default.
            text = operation.qtype.encode()
            self.call("dnnl_graph_op_set_attr_str", op, QTYPE, text, len(text))
        if operation.axis is not None:
            self.call("dnnl_graph_op_set_attr_s64", op, AXIS, (c_int64 * 1)(operation.axis), 1)
        if operation.scales is not None:
            count = len(operation.scales)
            self.call("dnnl_graph_op_set_attr_f32", op, SCALES, (c_float * count)(*operation.scales), count)
        if operation.zps is not None:
            count = len(operation.zps)
            self.call("dnnl_graph_op_set_attr_s64", op, ZPS, (c_int64 * count)(*operation.zps), count)
        for name, bound in () if operation.bounds is None else ((MIN, operation.bounds[0]), (MAX, operation.bounds[1])):
            self.call("dnnl_graph_op_set_attr_f32", op, name, (c_float * 1)(bound), 1)
        for name, values in ((ORDER, operation.order), (SHAPE, operation.shape)):
            if values is not None:
                self.call("dnnl_graph_op_set_attr_s64", op, name, (c_int64 * len(values))(*values), len(values))
        if operation.shape is not None:
            self.call("dnnl_graph_op_set_attr_bool", op, SPECIAL_ZERO, (c_uint8 * 1)(0), 1)

    def _compiled(self, graph: c_void_p, logical: Sequence[Logical]) -> c_void_p:
        partitions = self.partitions(graph)
        try:
            for partition in partitions:
                if self.supports(partition):
                    return self.compile_partition(partition, logical)
        finally:
            for partition in partitions:
                self.call("dnnl_graph_partition_destroy", partition)
        raise UnsupportedError("no partition of the graph is supported")

    def partitions(self, graph: c_void_p) -> List[c_void_p]:
        """The partitions of a filtered graph. The caller destroys them."""
        count = c_size_t()
        self.call("dnnl_graph_graph_get_partition_num", graph, byref(count))
        addresses = (c_void_p * count.value)()
        self.call("dnnl_graph_graph_get_partitions", graph, count.value, addresses)
        return [c_void_p(address) for address in addresses]

    def supports(self, partition: c_void_p) -> bool:
        supported = c_uint8()
        self.call("dnnl_graph_partition_is_supported", partition, byref(supported))
        return bool(supported.value)

    def ports(self, partition: c_void_p, which: str) -> List[int]:
        """Numbers of the tensors that a partition takes ("input") or gives ("output")."""
        count = c_size_t()
        self.call("dnnl_graph_partition_get_%s_ports_num" % which, partition, byref(count))
        ports = (Logical * count.value)()
        self.call("dnnl_graph_partition_get_%s_ports" % which, partition, count.value, ports)
        return [int(port.id) for port in ports]

    def compile_partition(self, partition: c_void_p, logical: Sequence[Logical]) -> c_void_p:
        """Compile the partition for its inputs and, last, its output."""
        compiled = self.made("dnnl_graph_compiled_partition_create", partition)
        inputs = _pointers(logical[:-1])
        outputs = _pointers(logical[-1:])
        try:
            name = "dnnl_graph_partition_compile"
            self.call(name, partition, compiled, len(inputs), inputs, len(outputs), outputs, self.engine)
        except Exception:
            self.call("dnnl_graph_compiled_partition_destroy", compiled)
            raise
        return compiled

    # -- running ------------------------------------------------------------------------------------------

    def execute(self, compiled: c_void_p, logical: Sequence[Logical], addresses: Sequence[int]) -> None:
        """Run a compiled partition on memory at these addresses: each input, then the output."""
        tensors: List[c_void_p] = []
        try:
            for number, address in enumerate(addresses):
                described = byref(logical[number])
                tensors.append(self.made("dnnl_graph_tensor_create", described, self.engine, c_void_p(address)))
            inputs = (c_void_p * (len(tensors) - 1))(*tensors[:-1])
            output = (c_void_p * 1)(tensors[-1])
            name = "dnnl_graph_compiled_partition_execute"
            self.call(name, compiled, self._stream, len(inputs), inputs, 1, output)
            self.call("dnnl_stream_wait", self._stream)
        finally:
            for tensor in tensors:
                self.call("dnnl_graph_tensor_destroy", tensor)


class Compiled:
    """A compiled partition and its logical tensors."""

    def __init__(self, library: Library, handle: c_void_p, logical: Sequence[Logical]) -> None:
        self._library, self.handle, self._logical = library, handle, tuple(logical)

    def __call__(self, addresses: Sequence[int]) -> None:
        """Run it on memory at these addresses: each input, then the output.

        Raises:
            UnsupportedError: The library does not support it.
            RefusedError: The library refuses it.
        """
        self._library.execute(self.handle, self._logical, addresses)

    def close(self) -> None:
        """Free the library's memory. The partition cannot run after that."""
        self._library.call("dnnl_graph_compiled_partition_destroy", self.handle)


def version_at(path: str) -> str:
    """Load the oneDNN at a path and return its version, such as "3.2.0".

    Raises:
        NoLibraryError: The file is no oneDNN.
    """
    about = _version(_loaded(path), path)
    return "%d.%d.%d" % (about.major, about.minor, about.patch)


def _pointers(logical: Sequence[Logical]) -> Any:
    return (POINTER(Logical) * len(logical))(*(ctypes.pointer(tensor) for tensor in logical))


def _loaded(path: str) -> Any:
    """Load the library at a path, and before it those that it needs.

    A wheel has them in the same folder, where the loader does not look. A build with SYCL finds the CPU through OpenCL, whose
    driver is also there.
    """
    path = os.path.abspath(path)
    directory = os.path.dirname(path)
    if not os.path.isfile(path):
        raise NoLibraryError("there is no file %s; name a libdnnl.so.3" % path)
    driver = os.path.join(directory, "libintelocl.so")
    if os.path.isfile(driver):
        os.environ.setdefault("OCL_ICD_FILENAMES", driver)
    try:
        return _with_neighbours(path, directory, [])
    except OSError as error:
        raise NoLibraryError("%s can't be loaded: %s" % (path, error)) from None


def _with_neighbours(path: str, directory: str, above: List[str]) -> Any:
    """Load a library, and before it each library that the loader misses and this directory has."""
    while True:
        try:
            return ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
        except OSError as error:
            missing = os.path.join(directory, str(error).partition(":")[0])
            if missing in (path, *above) or not os.path.isfile(missing):
                raise
            _with_neighbours(missing, directory, [path, *above])


def _version(library: Any, path: str) -> Version:
    try:
        function = library.dnnl_version
    except AttributeError:
        raise NoLibraryError("%s is no oneDNN: it has no symbol dnnl_version" % path) from None
    function.argtypes, function.restype = (), POINTER(Version)
    about: Version = function().contents
    return about


if __name__ == "__main__":
    print(version_at(sys.argv[1]))
