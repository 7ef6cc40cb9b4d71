"""ONNX Runtime: its CPU provider on several paths, or any other execution provider by name."""

from __future__ import annotations

import ctypes
import re
from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Callable, Dict, List, Mapping, Tuple, Union

import numpy as np

from xverify.core.call import BITS, Attribute, Call, Outcome, Tensor, code_dtype
from xverify.core.surroundings import Graph
from xverify.oracles.arrays import NUMPY_OWN, Array, answered, pack, to_array
from xverify.oracles.onnx_model import (
    ROLES,
    element_type,
    graph_bytes,
    graph_of,
    model_bytes,
    model_imports,
    model_lines,
    structure,
    type_name,
)
from xverify.oracles.protocol import Loaded, Oracle, Path, Setting
from xverify.oracles.short_form import ShortCall, ShortForm, feeds, is_numpy, setting
from xverify.oracles.timing import Problem, Solve, Timing, Way

CPU = "CPUExecutionProvider"

OFF, BASIC, EXTENDED, ALL = "DISABLE_ALL", "ENABLE_BASIC", "ENABLE_EXTENDED", "ENABLE_ALL"

PARALLEL = 573 * 128 + 1
"""The number of values from which a build with a parallel kernel splits the work.

ParDequantizeLinearStd (core/util/qmath.h) counts 366 cycles for 128 values of 8 bits: 11/64 for each byte read or
written, and 2 for each value. Eigen's cost model takes a second thread from 210 000 on. Wider types need fewer. The
wheels for Linux are built without it: there one thread does all.
"""


@dataclass(frozen=True)
class Route:
    """The way in which a path makes and runs a session."""

    share: float
    """The share of the calls."""

    constants: Tuple[str, ...] = ()
    """Roles that are initializers. If all are, the optimiser folds the call."""

    level: str = ALL
    """The level of graph optimisation: the end of its name in ONNX Runtime."""

    threads: int = 1
    """Threads for one kernel. With more than one, every call of `PARALLEL` values takes the path."""

    bound: bool = False
    """True for IO binding to an existing output."""


ROUTES: Dict[str, Route] = {
    "": Route(1.0),
    "optimization=off": Route(0.2, level=OFF),
    "initializers": Route(0.05, constants=ROLES[1:]),
    "all initializers": Route(0.03, constants=ROLES),
    "threads=4": Route(0.02, threads=4),
    "io binding": Route(0.05, bound=True),
}
"""The paths by their names. A path with initializers or threads costs a session for each call."""

UNOPTIMIZED = "graph optimization=off"

GRAPHS: Dict[str, Route] = {
    UNOPTIMIZED: Route(0.25, level=OFF),
    "graph optimization=basic": Route(0.25, level=BASIC),
    "graph optimization=extended": Route(0.25, level=EXTENDED),
    "graph optimization=all": Route(1.0, level=ALL),
}
"""The paths of calls in surroundings, the least optimised first. Each call costs a session."""

RELEASES = (
    ("1.32.*", "ONNX Runtime 1.32, 2026-11"),
    ("1.31.*", "ONNX Runtime 1.31, 2026-10"),
    ("1.30.*", "ONNX Runtime 1.30, 2026-09"),
    ("1.29.*", "ONNX Runtime 1.29, 2026-08"),
    ("1.28.*", "ONNX Runtime 1.28, 2026-07"),
    ("1.27.*", "ONNX Runtime 1.27, 2026-06"),
    ("1.26.*", "ONNX Runtime 1.26, 2026-05"),
    ("1.25.*", "ONNX Runtime 1.25, 2026-04"),
    ("1.24.*", "ONNX Runtime 1.24, 2026-02"),
    ("1.23.*", "ONNX Runtime 1.23, 2025-09"),
    ("1.22.*", "ONNX Runtime 1.22, 2025-05"),
    ("1.21.*", "ONNX Runtime 1.21, 2025-03"),
    ("1.20.*", "ONNX Runtime 1.20, 2024-11"),
    ("1.19.*", "ONNX Runtime 1.19, 2024-08"),
    ("1.18.*", "ONNX Runtime 1.18, 2024-05"),
    ("1.17.*", "ONNX Runtime 1.17, 2024-01"),
    ("1.16.*", "ONNX Runtime 1.16, 2023-09"),
    ("1.15.*", "ONNX Runtime 1.15, 2023-05"),
    ("1.14.*", "ONNX Runtime 1.14, 2023-02"),
)
"""Minor releases and their months, by the upload of the first wheel to PyPI."""

ORACLES = (
    Oracle(
        name="onnxruntime",
        title="ONNX Runtime",
        claim="ONNX's editions, whose schemas are compiled into onnxruntime; com.microsoft's text is in its own schema.",
        timing=Timing("#0072B2", "^"),
        distribution="onnxruntime",
        contracts=("ai.onnx/*", "com.microsoft/*"),
        judged_by=("ai.onnx/*", "com.microsoft/DequantizeLinear-1@installed"),
        module=__name__,
        needs=("onnx",),
        paths=tuple(Path(name, way.share, PARALLEL if way.threads > 1 else 0) for name, way in ROUTES.items()),
        surrounded=tuple(Path(name, way.share) for name, way in GRAPHS.items()),
        # It chooses kernels by the processor; no option or variable switches an instruction set off.
        varies=(
            Setting("threads", "2", ("threads=2",)),
            Setting("threads", "8", ("threads=8",)),
            Setting("denormals", "zero", ("denormals=zero",)),
        ),
        releases=RELEASES,
    ),
)

BUILDS = {
    "CUDAExecutionProvider": "onnxruntime-gpu",
    "TensorrtExecutionProvider": "onnxruntime-gpu",
    "OpenVINOExecutionProvider": "onnxruntime-openvino",
    "DmlExecutionProvider": "onnxruntime-directml",
    "QNNExecutionProvider": "onnxruntime-qnn",
}
"""Distributions of the same module, by the provider that only they have."""

SESSIONS = 1024
"""Sessions in the cache. To create one takes milliseconds, to run it microseconds."""


def with_option(oracle: Oracle, option: str) -> Oracle:
    """The oracle on an execution provider.

    Only the worker knows if the installed build has the provider.

    Raises:
        ValueError: It is no name of a provider.
    """
    if not (option.endswith("ExecutionProvider") and option.isidentifier()):
        raise ValueError(
            "%s takes the name of an execution provider after the colon, such as CUDAExecutionProvider, not %r"
            % (oracle.name, option)
        )
    return replace(
        oracle,
        name="%s:%s" % (oracle.name, option),
        distribution=BUILDS.get(option, oracle.distribution),
        arguments=(*oracle.arguments, *option_arguments(option)),
    )


def option_arguments(option: str) -> Tuple[str, ...]:
    """The arguments of `load` for an execution provider."""
    return ("provider=" + option,)


def load(*settings: str) -> Loaded:
    """Import ONNX Runtime. Sessions, and refusals to create one, are cached by structure.

    Args:
        settings: "provider=NAME"; "threads=N" for one kernel, on every path; "denormals=zero", which treats subnormal
            operands and results as zero.

    Raises:
        ValueError: The installed build has no such provider.
        RuntimeError: The provider does not start here.
    """
    import onnxruntime as ort
    from onnxruntime.capi import onnxruntime_pybind11_state as binding

    chosen = dict(entry.split("=", 1) for entry in settings)
    provider = chosen.get("provider", CPU)
    # Before release 1.20, Python cannot feed a type that NumPy lacks: there the tensor is part of the model.
    feeds_any = hasattr(ort.OrtValue, "ortvalue_from_numpy_with_onnx_type")
    sessions: OrderedDict[Tuple[Any, ...], Any] = OrderedDict()

    def start(model: bytes, way: Route, fallback: bool = False) -> Any:
        threads = int(chosen.get("threads", way.threads))
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = threads
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, "ORT_" + way.level)
        for name, wanted in (
            ("session.intra_op.allow_spinning", "0" if threads > 1 else ""),
            # Otherwise a DequantizeLinear of constants is kept, to be fused with what follows it.
            ("session.disable_quant_qdq", "1" if "x" in way.constants else ""),
            ("session.set_denormal_as_zero", "1" if chosen.get("denormals") == "zero" else ""),
            ("session.disable_cpu_ep_fallback", "1" if provider != CPU and not fallback else ""),
        ):
            if wanted:
                options.add_session_config_entry(name, wanted)
        # ONNX Runtime's Python code has a fallback of its own, which would try the CPU as well.
        return ort.InferenceSession(model, options, providers=[provider], enable_fallback=0)

    def create(model: bytes, way: Route) -> Any:
        """A session on the provider alone.

        Raises:
            NotImplementedError: It needs the CPU's help.
        """
        try:
            return start(model, way)
        except Exception:
            if provider != CPU:
                start(model, way, fallback=True)  # raises if no provider takes the call
                raise NotImplementedError("%s has no kernel for this call" % (provider,)) from None
            raise

    def cached(call: Call, way: Route) -> Any:
        key = (structure(call), way.level)
        if key not in sessions:
            try:
                sessions[key] = create(model_bytes(call), way)
            except Exception as error:
                sessions[key] = error.with_traceback(None)
            if len(sessions) > SESSIONS:
                sessions.popitem(last=False)
        sessions.move_to_end(key)
        if isinstance(sessions[key], Exception):
            raise sessions[key]
        return sessions[key]

    def run_graph(call: Call, graph: Graph, model: bytes, way: Route) -> Outcome:
        session = create(model, way)
        handed = {name: _fed(ort, tensor) for name, tensor in graph.inputs.items()}
        arrays = {name: fed for name, fed in handed.items() if isinstance(fed, np.ndarray)}
        if session.get_outputs()[0].type in _NUMPY_TYPES:
            feeds = {name: fed.value if isinstance(fed, _OnMemory) else fed for name, fed in handed.items()}
            outcome = answered(session.run(None, feeds)[0], replace(call, tensors=graph.inputs), arrays)
        else:
            outcome = Outcome("tensor", read(session.run_with_ort_values(None, _values(ort, handed))[0]))
        assert outcome.tensor is not None
        return replace(outcome, tensor=graph.back(outcome.tensor))

    def surrounded(call: Call, way: Route) -> Outcome:
        """The outcome of a call in its surroundings.

        If no level of optimisation takes the graph, the operators around the call may not be implemented. If only the
        optimised graph is refused, the optimiser broke it.
        """
        graph = graph_of(call)
        model = graph_bytes(call, graph)
        try:
            return run_graph(call, graph, model, way)
        except Exception as error:
            broken = way.level != OFF and _succeeds(run_graph, call, graph, model, GRAPHS[UNOPTIMIZED])
            return Outcome("rejected" if broken else "unsupported", error=type(error).__name__, message=str(error))

    def answer(call: Call, path: str) -> Union[Tensor, Outcome]:
        way = GRAPHS[path] if path in GRAPHS else ROUTES[path]
        if call.around:
            return surrounded(call, way)
        constants = [
            role
            for role, tensor in call.tensors.items()
            if role in way.constants or (tensor.dtype not in NUMPY_OWN and not feeds_any)
        ]
        fresh = constants or way.threads > 1
        session = create(model_bytes(call, constants), way) if fresh else cached(call, way)
        handed = {name: _fed(ort, tensor) for name, tensor in call.tensors.items() if name not in constants}
        arrays = {name: fed for name, fed in handed.items() if isinstance(fed, np.ndarray)}
        dtype = _NUMPY_TYPES.get(session.get_outputs()[0].type)
        if dtype is None:
            return read(session.run_with_ort_values(None, _values(ort, handed))[0])
        if way.bound:
            result = _run_bound(session, _values(ort, handed), call.data.shape, dtype)
        else:
            feeds = {name: fed.value if isinstance(fed, _OnMemory) else fed for name, fed in handed.items()}
            result = session.run(None, feeds)[0]
        return answered(result, call, arrays)

    if provider not in ort.get_available_providers():
        raise ValueError(
            "onnxruntime %s has no %s here; it has %s"
            % (ort.__version__, provider, ", ".join(ort.get_available_providers()))
        )
    if provider != CPU and provider not in start(_simplest(), ROUTES[""], fallback=True).get_providers():
        raise RuntimeError("%s does not start here: its device or a library that it needs is missing" % (provider,))
    return Loaded(answer, (binding.NotImplemented, NotImplementedError))


def _simplest() -> bytes:
    """A model with which every provider can start."""
    tensors = {"x": Tensor("uint8", np.zeros(1, np.uint8)), "scale": Tensor("float32", np.zeros((), np.uint32))}
    return model_bytes(Call("ai.onnx/DequantizeLinear-10", tensors))


def _succeeds(function: Callable[..., Any], *arguments: Any) -> bool:
    try:
        function(*arguments)
    except Exception:
        return False
    return True


class _OnMemory:
    """An OrtValue over an array. It keeps the array alive, since ONNX Runtime does not."""

    def __init__(self, ort_value: Any, carrier: Any, number: int) -> None:
        self.carrier = carrier
        self.value = ort_value.ortvalue_from_numpy_with_onnx_type(carrier, number)


def _fed(ort: Any, tensor: Tensor) -> Union[Array, _OnMemory]:
    """The array. For a dtype that NumPy lacks: an OrtValue over the bytes, narrow codes packed.

    An OrtValue reads memory as if it were contiguous, and takes its shape from the array. Packed bytes therefore lie at the
    beginning of an array of the tensor's shape.
    """
    if tensor.dtype in NUMPY_OWN:
        return to_array(tensor)
    return _OnMemory(ort.OrtValue, _carrier(tensor), element_type(tensor.dtype))


def _carrier(tensor: Tensor) -> Array:
    """An array of the tensor's shape whose memory begins with its bytes."""
    carrier = np.zeros(tensor.shape, code_dtype(tensor.dtype))
    packed = pack(tensor.codes, BITS[tensor.dtype]) if BITS[tensor.dtype] < 8 else tensor.codes.reshape(-1)
    carrier.reshape(-1)[: packed.size] = packed
    return carrier


def _values(ort: Any, handed: Mapping[str, Union[Array, _OnMemory]]) -> Dict[str, Any]:
    """All operands as OrtValues."""
    return {
        name: fed.value if isinstance(fed, _OnMemory) else ort.OrtValue.ortvalue_from_numpy(np.asarray(fed, order="C"))
        for name, fed in handed.items()
    }


def _run_bound(session: Any, values: Mapping[str, Any], shape: Tuple[int, ...], dtype: str) -> Array:
    """Run with all inputs and the output bound. The output's memory is filled with another value before."""
    result = np.full(shape, 0xA5, code_dtype(dtype)).view(dtype)
    bound = session.io_binding()
    for name, value in values.items():
        bound.bind_ortvalue_input(name, value)
    bound.bind_output("y", "cpu", 0, np.dtype(dtype).type, list(shape), result.ctypes.data)
    session.run_with_iobinding(bound)
    return result


_NUMPY_TYPES = {"tensor(float)": "float32", "tensor(float16)": "float16", "tensor(double)": "float64"}

_RAW_TYPES: Dict[str, str] = {
    "tensor(bfloat16)": "bfloat16",
    "tensor(float8e4m3fn)": "float8_e4m3fn",
    "tensor(float8e4m3fnuz)": "float8_e4m3fnuz",
    "tensor(float8e5m2)": "float8_e5m2",
    "tensor(float8e5m2fnuz)": "float8_e5m2fnuz",
}


def read(value: Any) -> Tensor:
    """The tensor of an OrtValue whose type NumPy lacks, from its memory."""
    dtype = _RAW_TYPES[value.data_type()]
    shape, code = tuple(value.shape()), code_dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * code.itemsize
    # data_ptr() of an empty tensor may be null.
    raw = ctypes.string_at(value.data_ptr(), size) if size else b""
    return Tensor(dtype, np.frombuffer(raw, code).reshape(shape))


# -- short scripts ---------------------------------------------------------------------------------------


def short_form(call: ShortCall) -> ShortForm:
    """The model, and a session of the call's path."""
    way = {**ROUTES, **GRAPHS}.get(call.options, ROUTES[""])
    constants = [role for role in call.tensors if role in way.constants]
    if call.graph is not None:
        constants = list(call.graph[1].constants)
    provider = _provider(call)
    body = model_lines(call, constants)
    options = _option_lines(call, way, provider)
    body += ["options = ort.SessionOptions()", *options] if options else []
    body.append(
        'session = ort.InferenceSession(model.SerializeToString()%s, providers=["%s"]%s)'
        % (", options" if options else "", provider, "" if provider == CPU else ", enable_fallback=0")
    )
    fed = [role for role in call.tensors if role not in constants]
    operands: Dict[str, Tensor] = {}
    comments: Dict[str, str] = {}
    values: List[str] = []
    for role, tensor in call.tensors.items():
        if role in constants or is_numpy(tensor.dtype):
            operands[role] = tensor
            continue
        # The array of bytes must outlive the OrtValue, so it has a name of its own.
        carrier = _carrier(tensor)
        operands[role + "_bits"] = Tensor(carrier.dtype.name, carrier)
        comments[role + "_bits"] = _comment(tensor)
        arguments = "%s_bits, %s" % (role, type_name(tensor.dtype))
        values.append("%s = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(%s)" % (role, arguments))
    imports = ["import onnxruntime as ort", model_imports(constants)]
    modules: Tuple[str, ...] = ()
    if is_numpy(call.out_dtype) and way.bound:
        last = [*_bound_lines(call, fed), "y = bound()"]
    elif is_numpy(call.out_dtype):
        last = ["y = session.run(None, %s)[0]" % feeds(fed)]
    else:
        code, modules = code_dtype(call.out_dtype), ("ctypes", "ml_dtypes")
        last = [
            *("%s = ort.OrtValue.ortvalue_from_numpy(%s)" % (role, role) for role in fed if role in operands),
            "result = session.run_with_ort_values(None, %s)[0]" % feeds(fed),
            "memory = ctypes.string_at(result.data_ptr(), int(np.prod(result.shape())) * %d)" % code.itemsize,
            "y = np.frombuffer(memory, np.%s).reshape(result.shape()).view(ml_dtypes.%s)" % (code.name, call.out_dtype),
        ]
    return ShortForm(imports, [*values, *body, *last], modules, operands, comments)


def _provider(call: ShortCall) -> str:
    """The execution provider in a name such as onnxruntime:CUDAExecutionProvider."""
    match = re.match(r"\w+:(\w+)", call.full_name)
    return match.group(1) if match else CPU


def _option_lines(call: ShortCall, way: Route, provider: str) -> List[str]:
    """The lines that set session options for the path, or for the setting in the name."""
    entries = {
        "session.disable_quant_qdq": "x" in way.constants,
        "session.set_denormal_as_zero": setting(call, "denormals") == "zero",
        "session.disable_cpu_ep_fallback": provider != CPU,
    }
    lines = ['options.add_session_config_entry("%s", "1")' % name for name, wanted in entries.items() if wanted]
    if way.level != ALL:
        lines.append("options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_" + way.level)
    threads = setting(call, "threads")
    return [*lines, "options.intra_op_num_threads = %d" % int(threads)] if threads else lines


def _bound_lines(call: ShortCall, roles: List[str]) -> List[str]:
    """Lines that define a function which runs the session with everything bound."""
    how = {role: "cpu" if is_numpy(call.tensors[role].dtype) else "ortvalue" for role in roles}
    return [
        "def bound():",
        "    binding = session.io_binding()",
        *['    binding.bind_%s_input("%s", %s)' % (how[role], role, role) for role in roles],
        "    y = np.full(%s, 0.5, np.%s)" % (list(call.tensors["x"].shape), call.out_dtype),
        '    binding.bind_output("y", "cpu", 0, y.dtype.type, y.shape, y.ctypes.data)',
        "    session.run_with_iobinding(binding)",
        "    return y",
    ]


def _comment(tensor: Tensor) -> str:
    """The meaning of a tensor's bytes, and its first values."""
    from xverify.core.dtypes import decimal

    shown = ", ".join(decimal(tensor.dtype, int(code)) for code in tensor.codes.reshape(-1)[:8])
    several = {4: "two 4-bit values a byte, low bits first", 2: "four 2-bit values a byte, low bits first"}
    how = several.get(BITS[tensor.dtype], "the bits of " + tensor.dtype)
    return "%s: %s%s" % (how, shown, ", ..." if tensor.size > 8 else "")


# -- the bench -------------------------------------------------------------------------------------------

BENCH_CONTRACTS = ("ai.onnx/DequantizeLinear-21", "ai.onnx/DequantizeLinear-25")
"""The editions of the bench's model, tried in turn. The first has the most types."""


def load_bench(threads: int) -> Solve:
    """Import ONNX Runtime. The solver uses IO binding to existing operands and an existing output."""
    import onnxruntime as ort

    def session_of(problem: Problem) -> Any:
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = threads
        refusals: List[Exception] = []
        for contract in BENCH_CONTRACTS:
            try:
                model = model_bytes(_types_of(problem, contract))
                return ort.InferenceSession(model, options, providers=[CPU], enable_fallback=0)
            except Exception as error:
                refusals.append(error)
        raise refusals[-1]

    def value(array: Array) -> Tuple[Array, Any]:
        """An OrtValue over memory, and the memory. A type that NumPy lacks goes in as packed bytes."""
        dtype = array.dtype.name
        if dtype in NUMPY_OWN:
            return array, ort.OrtValue.ortvalue_from_numpy(array)
        codes = array.view(code_dtype(dtype))
        if BITS[dtype] < 8:
            codes = _carrier(Tensor(dtype, codes & np.uint8((1 << BITS[dtype]) - 1)))
        return codes, ort.OrtValue.ortvalue_from_numpy_with_onnx_type(codes, element_type(dtype))

    def solve(problem: Problem) -> List[Way]:
        session = session_of(problem)
        bound = session.io_binding()
        operands = {"x": problem.x, "scale": problem.scale, "zero_point": problem.zero_point}
        values = {role: value(array) for role, array in operands.items() if array is not None}
        for role, (_, ort_value) in values.items():
            bound.bind_ortvalue_input(role, ort_value)
        out, dtype = problem.out, problem.out.dtype.name
        kind = out.dtype.type if dtype in NUMPY_OWN else element_type(dtype)
        bound.bind_output("y", "cpu", 0, kind, list(out.shape), out.ctypes.data)
        return [Way("run_with_iobinding", partial(session.run_with_iobinding, bound), memory=values)]

    return solve


def _types_of(problem: Problem, contract: str) -> Call:
    """A call with the problem's types and attributes; the model's inputs have no shape."""
    operands = {"x": problem.x, "scale": problem.scale, "zero_point": problem.zero_point}
    tensors = {
        role: Tensor(array.dtype.name, np.zeros((), code_dtype(array.dtype.name)))
        for role, array in operands.items()
        if array is not None
    }
    attributes: Dict[str, Attribute] = {}
    if problem.case.axis is not None:
        attributes["axis"] = problem.case.axis
    if problem.case.block_size:
        attributes["block_size"] = problem.case.block_size
    return Call(contract, tensors, attributes)
