"""IREE on the CPU, which compiles the call as an ONNX model with LLVM, and runs it in this process.

The paths are those of `answer_by_compiling`. To compile a model takes 0.2 to 1 s, so few calls have a model of their own.

IREE imports ONNX models through torch-mlir, so ONNX's edition for the opset of the model judges it. It refuses what it does not
support; reports show these refusals as gaps.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from functools import partial
from typing import IO, Any, Callable, Dict, Iterator, List, Mapping, Optional

import numpy as np

from xverify.core.call import Tensor, code_dtype
from xverify.oracles.arrays import Array, from_array, numpy_dtype
from xverify.oracles.onnx_model import GRAPH, STATIC, answer_by_compiling, bench_model, compiled_lines
from xverify.oracles.protocol import Loaded, Oracle, Path, Setting, at_run
from xverify.oracles.short_form import ShortCall, ShortForm
from xverify.oracles.timing import Problem, Solve, Timing, Way

MONTHS = {9: "2025-11", 10: "2026-02", 11: "2026-03", 12: "2026-10", 13: "2026-10"}
"""Months of the minor releases of IREE 3, by the upload of the first wheel to PyPI."""

ORACLES = (
    Oracle(
        name="iree",
        title="IREE",
        claim="ONNX's edition for the opset of the model: its guide says that models in the ONNX format can be deployed with its "
        "compiler and runtime (iree.dev/guides/ml-frameworks/onnx), and its ONNX front end converts DequantizeLinear.",
        distribution="iree-base-compiler",
        contracts=("ai.onnx/*",),
        judged_by=("ai.onnx/*",),
        carries_texts=False,
        module=__name__,
        needs=("iree-base-runtime=={version}", "onnx"),
        paths=(Path("", 0.04), Path(STATIC, 0.01)),
        surrounded=(Path(GRAPH, 0.02),),
        varies=tuple(Setting("isa", isa, (isa,)) for isa in ("generic", "x86-64-v3", "x86-64-v4")),
        timing=Timing("#882255", ">"),
        releases=tuple(("3.%d.*" % minor, "IREE 3.%d, %s" % (minor, month)) for minor, month in MONTHS.items()),
    ),
)

MODULES = 1024
"""The number of compiled modules in the cache."""

_FLOAT8 = ("E4M3_FN", "E4M3_FNUZ", "E5M2", "E5M2_FNUZ", "E8M0_FNU")
_TYPES: Dict[str, str] = {
    **{"int%d" % bits: "SINT_%d" % bits for bits in (8, 16, 32)},
    **{"uint%d" % bits: "UINT_%d" % bits for bits in (8, 16, 32)},
    **{"float%d" % bits: "FLOAT_%d" % bits for bits in (16, 32, 64)},
    "bfloat16": "BFLOAT_16",
    **{"float8_" + name.replace("_", "").lower(): "FLOAT_8_" + name for name in _FLOAT8},
}
"""IREE's names of the dtypes that have whole bytes. Its front end converts no DequantizeLinear of others."""


def load(cpu: str = "host") -> Loaded:
    """Import IREE. `cpu` is LLVM's name of the processor to compile for; "host" is this one."""

    def run(module: _Module, fed: Mapping[str, Tensor]) -> Array:
        views = [module.view(tensor) for tensor in fed.values()]
        with at_run():
            result = module.run(views)
        return module.array(result)

    return Loaded(answer_by_compiling(_compiler(cpu), run, MODULES))


class _Module:
    """A compiled model in IREE's virtual machine."""

    def __init__(self, config: Any, bytecode: bytes) -> None:
        from iree import runtime

        self._runtime, self._config = runtime, config
        module = runtime.VmModule.copy_buffer(config.vm_instance, bytecode)
        self._context = runtime.VmContext(config.vm_instance, modules=[*config.default_vm_modules, module])
        self._function = module.lookup_function("call")

    def view(self, tensor: Tensor) -> Any:
        """A copy of the tensor in memory of IREE."""
        kind = getattr(self._runtime.HalElementType, _TYPES.get(tensor.dtype, ""), None)
        if kind is None:
            raise NotImplementedError("IREE's runtime has no type %s" % (tensor.dtype,))
        return self._config.device.allocator.allocate_buffer_copy(
            memory_type=self._runtime.MemoryType.DEVICE_LOCAL,
            allowed_usage=self._runtime.BufferUsage.DEFAULT,
            device=self._config.device,
            buffer=np.array(tensor.codes, order="C"),
            element_type=kind,
        )

    def run(self, views: List[Any]) -> Any:
        arguments, results = self._runtime.VmVariantList(len(views)), self._runtime.VmVariantList(1)
        for view in views:
            arguments.push_ref(view)
        self._context.invoke(self._function, arguments, results)
        return results.get_as_object(0, self._runtime.HalBufferView)

    def array(self, result: Any) -> Array:
        kinds = self._runtime.HalElementType
        dtype = next(dtype for dtype in _TYPES if int(getattr(kinds, _TYPES[dtype], -1)) == int(result.element_type))
        return np.array(result.map().asarray(result.shape, code_dtype(dtype))).view(numpy_dtype(dtype))


def _compiler(cpu: str, driver: str = "local-sync") -> Callable[[bytes], _Module]:
    """A function that compiles a model."""
    import onnx
    from iree import runtime
    from iree.compiler import ir
    from iree.compiler.api import Output, Session, Source
    from iree.compiler.extras import onnx_importer

    config = runtime.Config(driver)
    flags = ("--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu")

    def imported(model: bytes) -> str:
        """The model in the torch dialect, as iree-import-onnx makes it."""
        info = onnx_importer.ModelInfo(onnx.shape_inference.infer_shapes(onnx.ModelProto.FromString(model)))
        module = info.create_module(context=ir.Context())
        onnx_importer.NodeImporter.define_function(info.main_graph, module.operation).import_all()
        return str(module)

    def compiled(model: bytes) -> _Module:
        session = Session()
        session.set_flags(*flags, "--iree-llvmcpu-target-cpu=" + cpu, "--iree-input-type=onnx")
        source = Source.wrap_buffer(session, imported(model).encode() + b"\0")
        with session, session.invocation() as invocation, tempfile.TemporaryFile() as messages:
            invocation.enable_console_diagnostics()
            with _standard_error_in(messages):
                made = invocation.parse_source(source) and invocation.execute()
            if not made:
                messages.seek(0)
                reasons = re.findall("error: (.*)", messages.read().decode())
                raise RuntimeError("; ".join(reasons) or "no reason is given")
            output = Output.open_membuffer()
            invocation.output_vm_bytecode(output)
            bytecode = bytes(output.map_memory())
            output.close()
        return _Module(config, bytecode)

    return compiled


@contextlib.contextmanager
def _standard_error_in(file: IO[bytes]) -> Iterator[None]:
    """Write to a file what the compiler writes to the standard error of the process."""
    kept = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


# -- short scripts and the bench -------------------------------------------------------------------------


def short_form(call: ShortCall) -> Optional[ShortForm]:
    """The model, imported and compiled. None for bfloat16 before 3.12, whose arrays for NumPy lack it."""
    release = tuple(map(int, re.findall(r"\d{1,4}", call.version)[:2]))
    if release < (3, 12) and "bfloat16" in (call.out_dtype, *(tensor.dtype for tensor in call.tensors.values())):
        return None
    (imported,), lines, inputs = compiled_lines(call)
    lines += [
        "info = onnx_importer.ModelInfo(shape_inference.infer_shapes(model))",
        "module = info.create_module(context=ir.Context())",
        "onnx_importer.NodeImporter.define_function(info.main_graph, module.operation).import_all()",
        'arguments = ["--iree-llvmcpu-target-cpu=host"]',
        'binary = compile_str(str(module), input_type="onnx", target_backends=["llvm-cpu"], extra_args=arguments)',
        'y = load_vm_flatbuffer(binary, driver="local-sync").g(%s).to_host()' % ", ".join(inputs),
    ]
    imports = [
        imported + ", shape_inference",
        "from iree.compiler import compile_str, ir",
        "from iree.compiler.extras import onnx_importer",
        "from iree.runtime import load_vm_flatbuffer",
    ]
    return ShortForm(imports, lines, copies=True)


def load_bench(threads: int) -> Solve:
    """Import IREE. Several threads are as many as the processor has cores."""
    compiled = _compiler("host", "local-sync" if threads == 1 else "local-task")

    def solve(problem: Problem) -> List[Way]:
        module = compiled(bench_model(problem, "ai.onnx/DequantizeLinear-21"))
        operands = [problem.x, problem.scale, problem.zero_point]
        views = [module.view(from_array(array)) for array in operands if array is not None]
        return [Way("virtual machine", partial(module.run, views), module.array, owns_output=True)]

    return solve
