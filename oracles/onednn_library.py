"""oneDNN itself: Dequantize and DynamicDequantize through its graph API, on the CPU.

The library is that of the wheel (``onednn-cpu-gomp``, or ``onednn``, a build with SYCL), or any by path:
``onednn:/path/libdnnl.so.3``. A lone call is one operation alone in a graph; for others see `xverify.oracles.onednn_graphs`.

Logical tensors have strides, so the library reads an operand as it lies in memory. It gets a copy where they cannot describe
the layout: strides that are no positive whole number of elements, and addresses that are not aligned.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from collections import OrderedDict
from ctypes import byref, c_void_p
from dataclasses import replace
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from xverify.core.call import BITS, Call, Outcome, Tensor, code_dtype
from xverify.core.surroundings import surround
from xverify.oracles.arrays import Array, fenced, hand_out, memory, pack, to_array
from xverify.oracles.onednn_graph_api import (
    DEBUG,
    DEQUANTIZE,
    DYNAMIC_DEQUANTIZE,
    FUSION,
    IN_ORDER,
    Compiled,
    Library,
    LogicalTensor,
    NoLibraryError,
    Operation,
    UnsupportedError,
)
from xverify.oracles.onednn_graphs import Framed, packed, run_steps, steps_of
from xverify.oracles.protocol import Loaded, Oracle, Path, Setting
from xverify.oracles.short_form import Program, ShortCall
from xverify.oracles.timing import Problem, Solve, Timing, Way

DISTRIBUTIONS = ("onednn-cpu-gomp", "onednn")
"""The wheels that hold the library: up to 2023.2 (oneDNN 3.2), and from 2024.0 (3.3) on."""

RELEASES = (
    ("2026.1*", "oneDNN v3.13, 2026-10"),
    ("2024.0*", "oneDNN v3.3, 2023-11"),
    ("2023.2*", "oneDNN v3.2, 2023-07"),
)
"""Versions of the wheels, by the library in them, and the months of their uploads to PyPI."""

FILE = "libdnnl.so.3"

ISAS = ("SSE41", "AVX2", "AVX512_CORE")
"""Values of ONEDNN_MAX_CPU_ISA, the widest instructions that the library may use."""

APART, FUSED = "graph policy=debug", "graph policy=fusion"
"""Paths of calls in surroundings: each operation in its own partition, or fused by the library."""

ORACLES = (
    Oracle(
        name="onednn",
        title="oneDNN",
        claim="oneDNN's developer guide for its release, in the library's sources (doc/graph/operations). The wheel contains no "
        "text. Documents that name no release do not judge it.",
        timing=Timing("#56B4E9", "v", environment=(("OMP_NUM_THREADS", "{threads}"),)),
        distribution=DISTRIBUTIONS[0],
        distributions=DISTRIBUTIONS[1:],
        contracts=("onednn/*",),
        judged_by=("onednn/*@[0-9]*",),
        module=__name__,
        surrounded=(Path(APART, 0.25), Path(FUSED, 1.0)),
        varies=(
            *(Setting("isa", isa, environment=(("ONEDNN_MAX_CPU_ISA", isa),)) for isa in ISAS),
            Setting("threads", "4", environment=(("OMP_NUM_THREADS", "4"),)),
        ),
        releases=RELEASES,
    ),
)

ATTRIBUTES = ("qtype", "axis")

COMPILED = 512
"""The number of compiled partitions in the cache. To compile one takes 100 times as long as to run it."""

VERSION_SECONDS = 60
"""Seconds within which a library must report its version."""


def with_option(oracle: Oracle, option: str) -> Oracle:
    """The oracle of the library at a path.

    Another process loads the library to read its version, because loading may change this process (flush-to-zero, for example).

    Raises:
        ValueError: There is no oneDNN at the path.
    """
    path = os.path.abspath(option)
    if not os.path.isfile(path):
        raise ValueError("there is no file %s; after %s: comes the path of a %s" % (option, oracle.name, FILE))
    command = [sys.executable, "-m", "xverify.oracles.onednn_graph_api", path]
    above = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, [above, os.environ.get("PYTHONPATH")])))
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=VERSION_SECONDS,
            env=environment,
            universal_newlines=True,
        )
    except subprocess.TimeoutExpired:
        raise ValueError("%s does not say its version within %d s" % (option, VERSION_SECONDS)) from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["status %d" % done.returncode])[-1]
        raise ValueError("%s is of no use: %s" % (option, last.partition("NoLibraryError: ")[2] or last))
    from xverify import contracts  # imported late: a worker does not have it

    version = done.stdout.strip()
    major, minor = map(int, version.split(".")[:2])
    return replace(
        oracle,
        name="%s:%s" % (oracle.name, option),
        version=version,
        judged_by=contracts.of_onednn((major, minor)),
        arguments=(path,),
        distributions=(),
    )


def option_arguments(option: str) -> Tuple[str, ...]:
    """The arguments of `load` for a library's path."""
    return (option,)


def load(path: str = "") -> Loaded:
    """Load the library at a path, or that of the wheel. It gets one thread by default, as calls are small.

    Raises:
        ImportError: There is none.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    return Loaded(_Answers(Library(path or installed())).answer, (UnsupportedError, NotImplementedError))


def installed() -> str:
    """The path of the wheel's library.

    Raises:
        NoLibraryError: No wheel is installed here, or it has no library.
    """
    for name in DISTRIBUTIONS:
        try:
            files = importlib.metadata.distribution(name).files or []
        except importlib.metadata.PackageNotFoundError:
            continue
        for file in files:
            if file.name == FILE:
                return os.path.abspath(str(file.locate()))
    raise NoLibraryError("no %s is installed here: pip install %s" % (FILE, DISTRIBUTIONS[0]))


class _Answers:
    """A library, and the partitions that it compiled last."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._kept: OrderedDict[Operation, Compiled] = OrderedDict()

    def answer(self, call: Call, path: str) -> Outcome:
        """Make a call, with notes on writes outside the output and on elements that were not written."""
        if call.around:
            return self._surrounded(call, DEBUG if path == APART else FUSION)
        handed = fenced(hand_out(call))
        operands, operation = question(call, handed)
        before = memory(handed)
        output, compiled = Framed(operation.output), self._compiled(operation)
        addresses = [operand.ctypes.data for operand in operands]
        output.written_by(lambda address: compiled([*addresses, address]))
        written = ("input-written",) if memory(handed) != before else ()
        return Outcome("tensor", Tensor(operation.output.dtype, output.codes()), notes=(*written, *output.notes()))

    def _surrounded(self, call: Call, policy: int) -> Outcome:
        """The outcome of a call in its surroundings.

        If the library takes the graph with neither policy, it may lack the operations around the call.
        If it refuses only the fused graph, fusing broke it.
        """
        try:
            return self._run_graph(call, policy)
        except Exception as error:
            broken = policy == FUSION and self._takes(call)
            return Outcome("rejected" if broken else "unsupported", error=type(error).__name__, message=str(error))

    def _takes(self, call: Call) -> bool:
        try:
            self._run_graph(call, DEBUG)
        except Exception:
            return False
        return True

    def _run_graph(self, call: Call, policy: int) -> Outcome:
        graph = surround(call)
        _, lone = question(call, hand_out(call))
        tensors = {**graph.inputs, **graph.constants}
        if lone.kind == DEQUANTIZE:
            tensors = {name: tensor for name, tensor in tensors.items() if name.split("_")[0] in ("x", "y")}
        tensors.pop("zero", None)  # only ONNX takes the zero of a pair
        for name in [name for node in graph.nodes if node.operator == "Clip" for name in node.inputs[1:] if name]:
            del tensors[name]  # the bounds of oneDNN's Clamp are attributes
        handed = fenced({name: to_array(tensor) for name, tensor in tensors.items()})
        operands = {name: _described(tensor, handed[name]) for name, tensor in tensors.items()}
        before = memory(handed)
        steps = steps_of(call, graph, lone, {name: logical for name, (_, logical) in operands.items()})
        constants = {name for name in operands if name in graph.constants}
        codes, notes = run_steps(self._library, steps, operands, constants, policy, graph.output)
        written = ("input-written",) if memory(handed) != before else ()
        return Outcome("tensor", graph.back(Tensor(lone.output.dtype, codes)), notes=(*written, *notes))

    def _compiled(self, operation: Operation) -> Compiled:
        if operation in self._kept:
            self._kept.move_to_end(operation)
            return self._kept[operation]
        self._kept[operation] = compiled = self._library.compile(operation)
        if len(self._kept) > COMPILED:
            self._kept.popitem(last=False)[1].close()
        return compiled


def question(call: Call, handed: Dict[str, Array]) -> Tuple[List[Array], Operation]:
    """The operands of the library's operation, and the operation, for a call and its arrays.

    The scale and the zero point of Dequantize are attributes: lists of f32 and s64.

    Raises:
        TypeError: An unknown attribute, or a list of another type than float32, int32 or int64.
        ValueError: A list that is not 1-D.
    """
    for name in call.attributes:
        if name not in ATTRIBUTES:
            raise TypeError("the operation has no attribute %r" % (name,))
    qtype, axis = call.attributes.get("qtype"), call.attributes.get("axis")
    common: Dict[str, Any] = {
        "qtype": None if qtype is None else str(qtype),
        "axis": None if axis is None else int(axis),
    }
    if not call.contract.startswith("onednn/DynamicDequantize-"):
        common["scales"], common["zps"] = _scales(call, handed), _zps(call, handed)
        kind, roles, output = DEQUANTIZE, ["x"], "float32"
    else:
        # "It's expected that the data types of scales and dst should be the same."
        kind, roles, output = DYNAMIC_DEQUANTIZE, ["x", "scale", "zero_point"], call.tensors["scale"].dtype
    operands = [_described(call.tensors[role], handed[role]) for role in roles if role in handed]
    inputs = tuple(logical for _, logical in operands)
    return [operand for operand, _ in operands], Operation(kind, inputs, packed(output, call.data.shape), **common)


def _scales(call: Call, handed: Dict[str, Array]) -> Tuple[float, ...]:
    scale = handed["scale"]
    if scale.dtype != np.float32:
        raise TypeError("the attribute scales is a list of f32, not of %s" % scale.dtype)
    if scale.ndim != 1:
        raise ValueError("the attribute scales is a list, and scale has shape %s" % (scale.shape,))
    return tuple(scale.tolist())


def _zps(call: Call, handed: Dict[str, Array]) -> Optional[Tuple[int, ...]]:
    zps = handed.get("zero_point")
    if zps is None:
        return None
    if zps.dtype not in (np.int32, np.int64):
        raise TypeError("the attribute zps is a list of s64; zero_point is %s, not int32 or int64" % zps.dtype)
    if zps.ndim != 1:
        raise ValueError("the attribute zps is a list, and zero_point has shape %s" % (zps.shape,))
    return tuple(zps.tolist())


def _described(tensor: Tensor, array: Array) -> Tuple[Array, LogicalTensor]:
    """The array that the library reads, which may be a copy, and the logical tensor that describes it."""
    if BITS[tensor.dtype] < 8:
        return pack(tensor.codes, BITS[tensor.dtype]), packed(tensor.dtype, tensor.shape)
    size = array.itemsize
    describable = array.ctypes.data % size == 0 and all(stride > 0 and stride % size == 0 for stride in array.strides)
    if not describable or array.flags.c_contiguous:
        # NumPy's strides along extents of 0 and 1 may be anything.
        dense = array if describable else fenced({"": np.array(array, order="C")})[""]
        return dense, packed(tensor.dtype, tensor.shape)
    return array, LogicalTensor(tensor.dtype, tensor.shape, tuple(stride // size for stride in array.strides))


# -- short programs --------------------------------------------------------------------------------------

_C_TYPES = {
    "uint8": ("uint8_t", "u8"),
    "int8": ("int8_t", "s8"),
    "int32": ("int32_t", "s32"),
    "float32": ("float", "f32"),
    "float16": ("uint16_t", "f16"),
    "bfloat16": ("uint16_t", "bf16"),
    "float8_e5m2": ("uint8_t", "f8_e5m2"),
    "float8_e4m3fn": ("uint8_t", "f8_e4m3"),
    "int4": ("uint8_t", "s4"),
    "uint4": ("uint8_t", "u4"),
}
"""The type in C and the type in oneDNN of the dtypes that a program spells out.

C lacks some of them, so a program has their codes.
"""

_C_VALUES = ("uint8", "int8", "int32", "float32")
"""The dtypes whose values C spells."""

_MOST_LINES = 30
"""Lines of a program, which an issue shows whole."""

_LINE = 132
"""Width of a line with several statements."""

_C_ENDINGS = {
    "crash": "// The process ends in one of the calls below, instead of returning a status.",
    "hang": "// One of the calls below does not return.",
    "refusal": "// One of the calls below returns a status that is not dnnl_success.",
}


def short_form(call: ShortCall) -> Optional[Program]:
    """A program in C that makes the call through the graph API.

    None for a call in a graph, for types and layouts that it does not spell, and for one that needs too many lines.
    """
    roles, output, attributes = _parts(call)
    operands = {role: call.tensors[role] for role in roles if role in call.tensors}
    plain = all(tensor.dtype in _C_TYPES and tensor.layout == "C" for tensor in operands.values())
    if (
        call.graph is not None
        or not plain
        or output not in _C_TYPES
        or attributes is None
        or not call.tensors["x"].size
    ):
        return None
    kind = "dequantize" if len(roles) == 1 else "dynamic_dequantize"
    x = call.tensors["x"]
    data = ["%s %s[] = {%s};%s" % (_C_TYPES[t.dtype][0], role, *_numbers(t)) for role, t in operands.items()]
    rows = [*((role, t.dtype, t.shape) for role, t in operands.items()), ("y", output, x.shape)]
    last = len(operands)
    flat = [(int(np.ravel_multi_index(index, x.shape)) if index else 0, allowed) for index, allowed in call.shown[:2]]
    shown = 'printf("%.9g 0x%08x\\n", y[{0}], ((uint32_t *)y)[{0}]);'
    if output != "float32":
        shown = 'printf("0x%0{1}x\\n", y[{0}]);'
    prints = [
        shown.format(place, BITS[output] // 4) + ("  // allowed: " + allowed if allowed else "")
        for place, allowed in flat or [(0, "")]
    ]
    body = [
        *_packed([*data, "%s y[%d];" % (_C_TYPES[output][0], x.size)]),
        "struct { void *data; dnnl_data_type_t type; int rank; dnnl_dims_t dims; } of[] = {",
        "  %s};" % ", ".join("{%s, dnnl_%s, %d, {%s}}" % (n, _C_TYPES[d][1], len(s), _extents(s)) for n, d, s in rows),
        *_packed(
            [
                "dnnl_engine_t engine; dnnl_stream_t stream; dnnl_graph_graph_t graph; dnnl_graph_op_t op;",
                "dnnl_graph_partition_t part; dnnl_graph_compiled_partition_t compiled;",
                "dnnl_graph_logical_tensor_t t[%d]; const dnnl_graph_logical_tensor_t *p[%d];" % (last + 1, last + 1),
                "dnnl_graph_tensor_t m[%d];" % (last + 1),
            ]
        ),
        *([_C_ENDINGS[call.ending]] if call.ending in _C_ENDINGS else []),
        *_packed(
            [
                "DO(dnnl_engine_create(&engine, dnnl_cpu, 0));",
                "DO(dnnl_stream_create(&stream, engine, 1));",
                'DO(dnnl_graph_op_create(&op, 0, dnnl_graph_op_%s, "dequantize"));' % kind,
                *attributes,
            ]
        ),
        "for (int i = 0; i <= %d; i++) {" % last,
        "  DO(dnnl_graph_logical_tensor_init_with_dims(&t[i], i, of[i].type, of[i].rank, of[i].dims, "
        "dnnl_graph_layout_type_strided, dnnl_graph_tensor_property_variable));",
        "  DO(i < %d ? dnnl_graph_op_add_input(op, &t[i]) : dnnl_graph_op_add_output(op, &t[i]));" % last,
        "  DO(dnnl_graph_tensor_create(&m[i], p[i] = &t[i], engine, of[i].data)); }",
        *_packed(
            [
                "DO(dnnl_graph_graph_create(&graph, dnnl_cpu));",
                "DO(dnnl_graph_add_op(graph, op));",
                "DO(dnnl_graph_graph_finalize(graph));",
                "DO(dnnl_graph_graph_filter(graph, dnnl_graph_partition_policy_fusion));",
                "DO(dnnl_graph_graph_get_partitions(graph, 1, &part));",
                "DO(dnnl_graph_compiled_partition_create(&compiled, part));",
                "DO(dnnl_graph_partition_compile(part, compiled, %d, p, 1, p + %d, engine));" % (last, last),
                "DO(dnnl_graph_compiled_partition_execute(compiled, stream, %d, (void *)m, 1, (void *)(m + %d)));"
                % (last, last),
                "DO(dnnl_stream_wait(stream));",
            ]
        ),
        *prints,
    ]
    lines = [
        "#include <stdio.h>",
        "#include <oneapi/dnnl/dnnl_graph.h>",
        '#define DO(call) do { int s = call; if (s) return printf("status %d of %s\\n", s, #call); } while (0)',
        "int main(void) {",
        *("  " + line for line in body),
        "}",
    ]
    short = len(lines) <= _MOST_LINES and max(map(len, lines)) <= 400
    return Program("c", lines, *_built(call)) if short else None


def _packed(statements: Sequence[str]) -> List[str]:
    """Lines with as many statements as fit."""
    rows = [""]
    for statement in statements:
        if rows[-1] and len(rows[-1]) + 1 + len(statement) > _LINE:
            rows.append("")
        rows[-1] += " " * bool(rows[-1]) + statement
    return rows


def _built(call: ShortCall) -> Tuple[List[str], str]:
    """The wheels of the library and its headers, and the command that builds the program and runs it."""
    if ":" in call.full_name or not re.fullmatch(r"20\d\d[0-9.]*", call.version):
        return [], "cc dequantize.c -ldnnl && ./a.out"
    old = call.version < "2024"
    names = ("onednn-cpu-gomp", "onednn-devel-cpu-gomp") if old else ("onednn", "onednn-devel")
    # A build with SYCL finds the processor through OpenCL, whose driver is beside the library.
    driver = "" if old else "OCL_ICD_FILENAMES=$L/libintelocl.so "
    return ["%s==%s" % (name, call.version) for name in names], (
        "L=$(python -c 'import sys; print(sys.prefix)')/lib; "
        "CPATH=$L/../include LIBRARY_PATH=$L LD_LIBRARY_PATH=$L cc dequantize.c -ldnnl && "
        "LD_LIBRARY_PATH=$L %s./a.out" % driver
    )


def _extents(shape: Tuple[int, ...]) -> str:
    return ", ".join(map(str, shape)) or "0"


def _parts(call: ShortCall) -> Tuple[List[str], str, Optional[List[str]]]:
    """Roles of a program's tensors, dtype of the output, and attributes; None if C has no spelling."""
    dynamic = call.contract.startswith("onednn/DynamicDequantize-")
    roles = ["x", "scale", "zero_point"] if dynamic else ["x"]
    if dynamic and "scale" not in call.tensors:  # a forbidden call
        return roles, "float32", None
    output = call.tensors["scale"].dtype if dynamic else "float32"
    lines = []
    for name in call.attributes:
        value = call.attributes[name]
        if name == "qtype" and re.fullmatch("[a-z_]{1,30}", str(value)):
            lines.append(
                'DO(dnnl_graph_op_set_attr_str(op, dnnl_graph_op_attr_qtype, "%s", %d));' % (value, len(str(value)))
            )
        elif name == "axis":
            lines.append(
                "DO(dnnl_graph_op_set_attr_s64(op, dnnl_graph_op_attr_axis, (int64_t[]){%d}, 1));" % int(value)
            )
        else:
            return roles, output, None
    for role, name, kind, spelled in (("scale", "scales", "f32", "float"), ("zero_point", "zps", "s64", "int64_t")):
        if not dynamic and role in call.tensors:
            tensor = call.tensors[role]
            listed = "(%s[]){%s}, %d" % (spelled, _numbers(tensor)[0], tensor.size)
            lines.append("DO(dnnl_graph_op_set_attr_%s(op, dnnl_graph_op_attr_%s, %s));" % (kind, name, listed))
    return roles, output, lines


def _numbers(tensor: Tensor) -> Tuple[str, str]:
    """A tensor as C spells it, with exactly its bits, and a comment with values if these are codes."""
    if tensor.dtype not in _C_VALUES:
        bits = BITS[tensor.dtype]
        codes = pack(tensor.codes, bits) if bits < 8 else tensor.codes.reshape(-1)
        values = to_array(tensor).reshape(-1)[:8].astype(np.float64)
        comment = ", ".join("%g" % value for value in values) + ", ..." * (tensor.size > 8)
        return ", ".join("0x%0*x" % (max(bits, 8) // 4, code) for code in codes.tolist()), " /* %s */" % comment
    values = tensor.codes.reshape(-1).view(tensor.dtype).tolist()
    if tensor.dtype == "float32":
        return ", ".join(_spelled_float(value) for value in values), ""
    return ", ".join("-2147483647 - 1" if value == -(2**31) else str(value) for value in values), ""


def _spelled_float(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return "0.0f / 0.0f" if value != value else "%s1.0f / 0.0f" % ("-" if value < 0 else "")
    text = str(np.float32(value))
    return text + ("f" if "." in text or "e" in text else ".0f")


# -- the bench -------------------------------------------------------------------------------------------
#
# Scales and zero points are attributes of Dequantize, so they are compiled in, and its output is float32. For other
# outputs the bench times DynamicDequantize, whose scales are an operand.


def load_bench(threads: int) -> Solve:
    """Load the wheel's library. The process's environment sets the number of its OpenMP threads."""
    library = Library(installed())
    stream = library.made("dnnl_stream_create", library.engine, IN_ORDER)

    def solve(problem: Problem) -> List[Way]:
        if problem.case.block_size:
            raise NotImplementedError("oneDNN's Dequantize and DynamicDequantize have no blocks in this release")
        operation, operands = (_static if problem.case.out_dtype == "float32" else _dynamic)(problem)
        compiled = library.compile(operation)
        addressed = [*operands, problem.out]
        logical = [library.logical(i, described) for i, described in enumerate((*operation.inputs, operation.output))]
        tensors = [
            library.made("dnnl_graph_tensor_create", byref(described), library.engine, c_void_p(array.ctypes.data))
            for described, array in zip(logical, addressed)  # noqa: B905
        ]
        inputs, output = (c_void_p * len(operands))(*tensors[:-1]), (c_void_p * 1)(tensors[-1])
        handle = compiled.handle
        execute = "dnnl_graph_compiled_partition_execute"

        def run() -> None:
            library.call(execute, handle, stream, len(operands), inputs, 1, output)
            library.call("dnnl_stream_wait", stream)

        return [Way("compiled partition", run, memory=addressed)]

    return solve


def _static(problem: Problem) -> Tuple[Operation, List[Array]]:
    case = problem.case
    zero_point = problem.zero_point
    zps = (0,) * problem.scale.size if zero_point is None else tuple(int(i) for i in zero_point.reshape(-1))
    operation = Operation(
        DEQUANTIZE,
        (_logical(problem.x),),
        _logical(problem.out),
        qtype="per_tensor" if case.axis is None else "per_channel",
        axis=case.axis,
        scales=tuple(float(i) for i in problem.scale.reshape(-1)),
        zps=zps,
    )
    return operation, [_bytes(problem.x)]


def _dynamic(problem: Problem) -> Tuple[Operation, List[Array]]:
    case = problem.case
    operands = [problem.x, problem.scale.reshape(-1)]
    if problem.zero_point is not None:
        operands.append(problem.zero_point.reshape(-1))
    operation = Operation(
        DYNAMIC_DEQUANTIZE,
        tuple(_logical(operand) for operand in operands),
        _logical(problem.out),
        qtype="per_tensor" if case.axis is None else "per_channel",
        axis=case.axis,
    )
    return operation, [_bytes(operand) for operand in operands]


def _logical(array: Array) -> LogicalTensor:
    return packed(array.dtype.name, array.shape)


def _bytes(array: Array) -> Array:
    """The memory that the library reads. Types of less than a byte are packed."""
    bits = BITS[array.dtype.name]
    if bits >= 8:
        return array
    return np.asarray(pack(array.view(code_dtype(array.dtype.name)) & np.uint8((1 << bits) - 1), bits))
