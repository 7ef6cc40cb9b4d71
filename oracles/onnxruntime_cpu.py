"""ONNX Runtime: its CPU provider on several paths, or another provider by its name or library."""

from __future__ import annotations

import ctypes
import os
import re
from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from xverify.core.call import BITS, Call, Outcome, Tensor, code_dtype
from xverify.core.surroundings import Graph
from xverify.oracles.arrays import NUMPY_OWN, Array, answered, from_array, pack, to_array, unpack
from xverify.oracles.model_run import LastModel, ModelRun
from xverify.oracles.onnx_model import (
    ROLES,
    bench_call,
    element_type,
    graph_bytes,
    graph_of,
    model_bytes,
    model_imports,
    model_lines,
    named_shapes,
    structure,
    type_name,
)
from xverify.oracles.protocol import Loaded, Oracle, Path, Setting, at_run
from xverify.oracles.short_form import ShortCall, ShortForm, feeds, is_numpy, setting
from xverify.oracles.timing import Problem, Solve, Timing, Way

CPU = "CPUExecutionProvider"

OFF, BASIC, EXTENDED, LAYOUT, ALL = "DISABLE_ALL", "ENABLE_BASIC", "ENABLE_EXTENDED", "ENABLE_LAYOUT", "ENABLE_ALL"

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
    UNOPTIMIZED: Route(0.15, level=OFF),
    "graph optimization=basic": Route(0.15, level=BASIC),
    "graph optimization=extended": Route(0.15, level=EXTENDED),
    "graph optimization=layout": Route(0.0, level=LAYOUT),
    "graph optimization=all": Route(1.0, level=ALL),
}
"""The paths of calls in surroundings, the least optimised first. Each call costs a session.

A path without a share is only asked if a finding appears there. Old releases, such as 1.19, lack the level "layout".
"""

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
        judged_by=("ai.onnx/*", "com.microsoft/*@installed"),
        module=__name__,
        needs=("onnx",),
        numpy_2_from="1.19",  # the first whose release notes name NumPy 2
        paths=tuple(Path(name, way.share, PARALLEL if way.threads > 1 else 0) for name, way in ROUTES.items()),
        surrounded=tuple(Path(name, way.share) for name, way in GRAPHS.items()),
        models=tuple(GRAPHS),
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


BY_LIBRARY = "EP="
"""The beginning of an option that names the library of a plug-in execution provider."""


class ProviderError(ValueError):
    """The library of an execution provider cannot be used; the message is one sentence."""

    is_sentence = True


def with_option(oracle: Oracle, option: str) -> Oracle:
    """The oracle on an execution provider.

    Only the worker knows if the installed build has the provider, or can register its library.

    Raises:
        ValueError: It is no name of a provider, or there is no such library.
    """
    if option.startswith(BY_LIBRARY):
        return _with_library(oracle, option[len(BY_LIBRARY) :])
    if not (option.endswith("ExecutionProvider") and option.isidentifier()):
        raise ValueError(
            "%s takes the name of an execution provider after the colon, such as CUDAExecutionProvider, or the library of "
            "one, such as EP=path/to/provider.so, not %r" % (oracle.name, option)
        )
    return replace(
        oracle,
        name="%s:%s" % (oracle.name, option),
        distribution=BUILDS.get(option, oracle.distribution),
        arguments=(*oracle.arguments, *option_arguments(option)),
    )


def _with_library(oracle: Oracle, path: str) -> Oracle:
    """The oracle on the plug-in provider of a library.

    Its name has the library's name without the folder, so that its findings have the same ids everywhere.
    """
    named = os.path.basename(path)
    library = os.path.realpath(os.path.expanduser(path))  # it looks for other libraries beside itself
    if not os.path.isfile(library):
        raise ValueError(
            "there is no file %r; after %s:%s comes the path of an execution provider's library, in which == would begin "
            "a version and @ a Python" % (path, oracle.name, BY_LIBRARY)
        )
    option = BY_LIBRARY + re.sub(r"[^\w.+-]", "_", named)
    return replace(
        oracle,
        name="%s:%s" % (oracle.name, option),
        arguments=(*oracle.arguments, *option_arguments(BY_LIBRARY + library)),
        library=library,
    )


FEEDS_ANY = (1, 20)
"""The first release whose Python interface feeds types that NumPy lacks."""


def option_arguments(option: str) -> Tuple[str, ...]:
    """The arguments of `load` for an execution provider."""
    if option.startswith(BY_LIBRARY):
        return ("library=" + option[len(BY_LIBRARY) :],)
    return ("provider=" + option,)


def load(*settings: str) -> Loaded:
    """Import ONNX Runtime. Sessions, and refusals to create one, are cached by structure.

    Args:
        settings: "provider=NAME" or "library=PATH" of a plug-in provider; "threads=N" for one kernel, on every path;
            "denormals=zero", which treats subnormal operands and results as zero.

    Raises:
        ValueError: The installed build has no such provider, or cannot register the library.
        RuntimeError: The provider does not start here.
    """
    import onnxruntime as ort
    from onnxruntime.capi import onnxruntime_pybind11_state as binding

    if hasattr(ort, "disable_telemetry_events"):  # releases before 1.31 do not read `xverify.core.telemetry`
        ort.disable_telemetry_events()
    chosen = dict(entry.split("=", 1) for entry in settings)
    devices = _devices(ort, chosen["library"]) if "library" in chosen else []
    provider = devices[0].ep_name if devices else chosen.get("provider", CPU)
    # The optimiser computes on constants with the CPU's kernels, whatever the provider is.
    disabled = ["ConstantFolding"] if provider != CPU else None
    # Before `FEEDS_ANY`, Python cannot feed a type that NumPy lacks: there the tensor is part of the model.
    feeds_any = hasattr(ort.OrtValue, "ortvalue_from_numpy_with_onnx_type")
    sessions: OrderedDict[Tuple[Any, ...], Any] = OrderedDict()

    def start(model: Union[bytes, str], way: Route, fallback: bool = False, written: str = "") -> Any:
        """A session of a model or of its file; ``written`` is the file for the optimised model."""
        threads = int(chosen.get("threads", way.threads))
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = threads
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, "ORT_" + way.level)
        if written:
            options.optimized_model_filepath = written
        for name, wanted in (
            ("session.intra_op.allow_spinning", "0" if threads > 1 else ""),
            # Otherwise a DequantizeLinear of constants is kept, to be fused with what follows it.
            ("session.disable_quant_qdq", "1" if "x" in way.constants else ""),
            ("session.set_denormal_as_zero", "1" if chosen.get("denormals") == "zero" else ""),
            ("session.disable_cpu_ep_fallback", "1" if provider != CPU and not fallback else ""),
        ):
            if wanted:
                options.add_session_config_entry(name, wanted)
        if devices:
            options.add_provider_for_devices(devices, {})
        # ONNX Runtime's Python code has a fallback of its own, which would try the CPU as well.
        return ort.InferenceSession(
            model, options, providers=None if devices else [provider], enable_fallback=0, disabled_optimizers=disabled
        )

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

    def model_of(call: Call, constants: Sequence[str] = ()) -> bytes:
        # Providers that compile, such as OpenVINO's, take a model whose inputs have no shape, and then fail when it runs.
        return model_bytes(call, constants, named_shapes(call, static=True) if devices else None)

    def cached(call: Call, way: Route) -> Any:
        shapes = tuple(tensor.shape for tensor in call.tensors.values()) if devices else ()
        key = (structure(call), way.level, shapes)
        if key not in sessions:
            try:
                sessions[key] = create(model_of(call), way)
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

    def rewritten(call: Call, path: str, folder: str) -> str:
        """The nodes that the optimiser replaces at the path's level, as a predicate; "" if it replaces none."""
        model, file = graph_bytes(call, graph_of(call)), os.path.join(folder, "optimized.onnx")
        try:
            start(model, GRAPHS[path], written=file)
            with open(file, "rb") as optimized:
                return rewriting(nodes_of(model), nodes_of(optimized.read()))
        finally:
            if os.path.exists(file):
                os.unlink(file)

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
        if not hasattr(ort.GraphOptimizationLevel, "ORT_" + way.level):
            raise NotImplementedError("onnxruntime %s has no level %s" % (ort.__version__, way.level))
        if call.around:
            return surrounded(call, way)
        constants = [
            role
            for role, tensor in call.tensors.items()
            if role in way.constants or (tensor.dtype not in NUMPY_OWN and not feeds_any)
        ]
        fresh = constants or way.threads > 1
        session = create(model_of(call, constants), way) if fresh else cached(call, way)
        handed = {name: _fed(ort, tensor) for name, tensor in call.tensors.items() if name not in constants}
        arrays = {name: fed for name, fed in handed.items() if isinstance(fed, np.ndarray)}
        dtype = _NUMPY_TYPES.get(session.get_outputs()[0].type)
        if dtype is None:
            values = _values(ort, handed)
            with at_run():
                result = session.run_with_ort_values(None, values)[0]
            return read(result)
        if way.bound:
            result = _run_bound(session, _values(ort, handed), call.data.shape, dtype)
        else:
            feeds = {name: fed.value if isinstance(fed, _OnMemory) else fed for name, fed in handed.items()}
            with at_run():
                result = session.run(None, feeds)[0]
        return answered(result, call, arrays)

    last = LastModel()

    def run_model(run: ModelRun, level: str) -> Dict[str, Tensor]:
        """Nodes without a kernel of the provider run on the CPU."""
        way = GRAPHS[level]
        if not hasattr(ort.GraphOptimizationLevel, "ORT_" + way.level):
            raise NotImplementedError("onnxruntime %s has no level %s" % (ort.__version__, way.level))
        session = last.get(run.file, level, lambda: start(run.file, way, fallback=True))
        types = {value.name: value.type for value in session.get_outputs()}
        names = [name for name in run.outputs or types if types.get(name, "") in _READ]
        if not names:
            return {}
        is_mask = {value.name for value in session.get_inputs() if value.type == "tensor(bool)"}
        values = _values(
            ort,
            {
                name: to_array(tensor).astype(bool) if name in is_mask else _fed(ort, tensor)
                for name, tensor in run.inputs.items()
            },
        )
        with at_run():
            results = session.run_with_ort_values(names, values)
        return {name: _read_any(value) for name, value in zip(names, results)}  # noqa: B905

    if not devices and provider not in ort.get_available_providers():
        raise ValueError(
            "onnxruntime %s has no %s here; it has %s"
            % (ort.__version__, provider, ", ".join(ort.get_available_providers()))
        )
    if provider != CPU and provider not in start(_simplest(), ROUTES[""], fallback=True).get_providers():
        raise RuntimeError("%s does not start here: its device or a library that it needs is missing" % (provider,))
    if devices and not any(_succeeds(start, model, ROUTES[""]) for model in _plainest()):
        raise ProviderError("%s takes no DequantizeLinear: only the CPU provider would compute it" % (provider,))
    refusals = (binding.NotImplemented, NotImplementedError)
    return Loaded(answer, refusals, rewritten=rewritten, run_model=run_model)


def _devices(ort: Any, library: str) -> List[Any]:
    """Register a plug-in provider's library, and return the first device that it offers.

    Raises:
        ProviderError: It cannot be registered, or it offers no device here.
    """
    release, file = "onnxruntime %s" % ort.__version__, os.path.basename(library)
    if not hasattr(ort, "register_execution_provider_library"):
        raise ProviderError("%s cannot register the library of an execution provider; release 1.23 can" % release)
    before = {device.ep_name for device in ort.get_ep_devices()}
    try:
        ort.register_execution_provider_library(os.path.splitext(file)[0], library)
    except Exception as error:
        reason = " ".join(str(error).rpartition("FAIL : ")[2].split())
        raise ProviderError("%s cannot register %s: %s" % (release, file, reason)) from None
    devices = [device for device in ort.get_ep_devices() if device.ep_name not in before]
    if not devices:
        raise ProviderError("%s registered %s, but the provider offers no device on this machine" % (release, file))
    return devices[:1]


# -- rewrites of a graph -----------------------------------------------------------------------------------

MOST_NODES = 5
"""The largest number of nodes on each side that a rewrite names."""


@dataclass(frozen=True)
class NodeOf:
    """A node of a model."""

    operator: str
    """The operator, with its domain unless that is ai.onnx."""

    values: Tuple[Any, ...]
    """Inputs and outputs."""

    attributes: Tuple[bytes, ...] = ()


def nodes_of(model: bytes) -> List[NodeOf]:
    """The nodes of a model, in their order."""
    import onnx

    listed = []
    for node in onnx.load_model_from_string(model).graph.node:
        domain = "" if node.domain in ("", "ai.onnx") else node.domain + "."
        attributes = tuple(sorted(attribute.SerializeToString() for attribute in node.attribute))
        listed.append(NodeOf(domain + node.op_type, (tuple(node.input), tuple(node.output)), attributes))
    return listed


def rewriting(before: Sequence[NodeOf], after: Sequence[NodeOf]) -> str:
    """The difference between two lists of nodes as a predicate; "" if there is none.

    A node that is equal in both lists stays unnamed. So do the operators with which both rests begin or end alike: only
    names of values differ there.
    """
    gone = [node for node in before if node not in after]
    new = [node for node in after if node not in before]
    if [node.operator for node in gone] == [node.operator for node in new]:
        changed = [a.operator for a, b in zip(gone, new) if a.attributes != b.attributes]  # noqa: B905
        return "changes the attributes of %s" % _listed(changed) if changed else ""
    for end in (0, -1):
        while gone and new and gone[end].operator == new[end].operator:
            del gone[end], new[end]
    names, others = [node.operator for node in gone], [node.operator for node in new]
    if names and others:
        return "rewrites %s to %s" % (_listed(names), _listed(others))
    return "removes %s" % _listed(names) if names else "adds %s" % _listed(others)


def _listed(operators: Sequence[str]) -> str:
    return ", ".join([*operators[:MOST_NODES], *(["..."] if len(operators) > MOST_NODES else [])])


def _simplest() -> bytes:
    """A model with which every provider can start."""
    tensors = {"x": Tensor("uint8", np.zeros(1, np.uint8)), "scale": Tensor("float32", np.zeros((), np.uint32))}
    return model_bytes(Call("ai.onnx/DequantizeLinear-10", tensors))


def _plainest() -> Iterator[bytes]:
    """Models of one value, of which a provider with any kernel for DequantizeLinear takes at least one."""
    for dtype in ("uint8", "int8", "uint4", "int4", "uint16", "int16", "int32", "float8_e4m3fn"):
        zero = np.zeros((1, 1), code_dtype(dtype))
        for parameter, attributes in ((zero[0, 0], {}), (zero, {"axis": 1, "block_size": 1})):
            scale = Tensor("float32", parameter.astype(np.uint32))
            for more in ({}, {"zero_point": Tensor(dtype, parameter)}):
                call = Call(BENCH_CONTRACTS[0], {"x": Tensor(dtype, zero), "scale": scale, **more}, attributes)
                for constants in ((), tuple(call.tensors)[1:]):
                    yield model_bytes(call, constants, named_shapes(call, static=True))


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
    with at_run():
        session.run_with_iobinding(bound)
    return result


_NUMPY_TYPES = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(double)": "float64",
    "tensor(int8)": "int8",
    "tensor(uint8)": "uint8",
    "tensor(int16)": "int16",
    "tensor(uint16)": "uint16",
    "tensor(int32)": "int32",
}

_RAW_TYPES: Dict[str, str] = {
    "tensor(bfloat16)": "bfloat16",
    "tensor(float8e4m3fn)": "float8_e4m3fn",
    "tensor(float8e4m3fnuz)": "float8_e4m3fnuz",
    "tensor(float8e5m2)": "float8_e5m2",
    "tensor(float8e5m2fnuz)": "float8_e5m2fnuz",
    "tensor(float4e2m1)": "float4_e2m1fn",
    "tensor(int4)": "int4",
    "tensor(uint4)": "uint4",
    "tensor(int2)": "int2",
    "tensor(uint2)": "uint2",
}


def read(value: Any) -> Tensor:
    """The tensor of an OrtValue whose type NumPy lacks, from its memory."""
    dtype = _RAW_TYPES[value.data_type()]
    shape, code = tuple(value.shape()), code_dtype(dtype)
    elements = int(np.prod(shape, dtype=np.int64))
    size = -(-elements * BITS[dtype] // 8)
    # data_ptr() of an empty tensor may be null.
    raw = np.frombuffer(ctypes.string_at(value.data_ptr(), size) if size else b"", code)
    return Tensor(dtype, unpack(raw, BITS[dtype], elements).reshape(shape))


_READ = frozenset([*_NUMPY_TYPES, *_RAW_TYPES, "tensor(uint32)", "tensor(int64)", "tensor(uint64)", "tensor(bool)"])
"""The types of outputs that a run of a model returns."""


def _read_any(value: Any) -> Tensor:
    """The tensor of an OrtValue. Booleans become uint8."""
    if value.data_type() in _RAW_TYPES:
        return read(value)
    array = value.numpy()
    return from_array(array.astype(np.uint8) if array.dtype == bool else array)


# -- short scripts ---------------------------------------------------------------------------------------


def short_form(call: ShortCall) -> Optional[ShortForm]:
    """The model, and a session of the call's path.

    None for a graph with inputs that Python cannot feed to the release.
    """
    way = {**ROUTES, **GRAPHS}.get(call.options, ROUTES[""])
    release = tuple(map(int, re.findall(r"\d+", call.version)[:2])) or FEEDS_ANY
    # These are part of the model, as in `load`.
    unfed = [role for role, tensor in call.tensors.items() if release < FEEDS_ANY and not is_numpy(tensor.dtype)]
    constants = [role for role in call.tensors if role in way.constants or role in unfed]
    if call.graph is not None:
        constants = list(call.graph[1].constants)
        if not set(unfed) <= set(constants):
            return None
    provider = _provider(call)
    library = provider[len(BY_LIBRARY) :] if provider.startswith(BY_LIBRARY) else ""
    body = model_lines(
        call, constants, {role: tensor.shape for role, tensor in call.tensors.items()} if library else None
    )
    options = _option_lines(call, way, provider) + (_library_lines(library) if library else [])
    body += ["options = ort.SessionOptions()", *options] if options else []
    keywords = ["model.SerializeToString()", *(["options"] if options else [])]
    keywords += [] if library else ['providers=["%s"]' % provider]
    keywords += ["enable_fallback=0"] if provider != CPU else []
    keywords += ['disabled_optimizers=["ConstantFolding"]'] if provider != CPU and constants else []
    body.append("session = ort.InferenceSession(%s)" % ", ".join(keywords))
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
    imports = ["import onnxruntime as ort", model_imports(call, constants)]
    modules: Tuple[str, ...] = ("os",) if library else ()
    if is_numpy(call.out_dtype) and way.bound:
        last = [*_bound_lines(call, fed), "y = bound()"]
    elif is_numpy(call.out_dtype):
        last = ["y = session.run(None, %s)[0]" % feeds(fed)]
    else:
        code, modules = code_dtype(call.out_dtype), (*modules, "ctypes", "ml_dtypes")
        last = [
            *("%s = ort.OrtValue.ortvalue_from_numpy(%s)" % (role, role) for role in fed if role in operands),
            "result = session.run_with_ort_values(None, %s)[0]" % feeds(fed),
            "memory = ctypes.string_at(result.data_ptr(), int(np.prod(result.shape())) * %d)" % code.itemsize,
            "y = np.frombuffer(memory, np.%s).reshape(result.shape()).view(ml_dtypes.%s)" % (code.name, call.out_dtype),
        ]
    return ShortForm(imports, [*values, *body, *last], modules, operands, comments)


def _provider(call: ShortCall) -> str:
    """The execution provider in a name such as onnxruntime:CUDAExecutionProvider, or EP= and its file."""
    match = re.match(r"\w+:((?:EP=)?[\w.+-]+)", call.full_name)
    return match.group(1) if match else CPU


def _library_lines(library: str) -> List[str]:
    """Lines that register a plug-in provider's library, and add its first device to the options."""
    return [
        'library = os.path.abspath("%s")  # the path of the provider\'s library' % library,
        "before = {device.ep_name for device in ort.get_ep_devices()}",
        'ort.register_execution_provider_library("%s", library)' % os.path.splitext(library)[0],
        "devices = [device for device in ort.get_ep_devices() if device.ep_name not in before]",
        "options.add_provider_for_devices(devices[:1], {})",
    ]


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
                model = model_bytes(bench_call(problem, contract))
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
