"""TVM on the CPU, which compiles the call as an ONNX model with LLVM, and runs it in a VM.

The paths are those of `answer_by_compiling`.

TVM imports ONNX models, so ONNX's edition for the opset of the model judges it. It refuses what it does not support, such as
blocks; reports show these refusals as gaps.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, Callable, List, Mapping

from xverify.core.call import Tensor
from xverify.oracles.arrays import Array, to_array
from xverify.oracles.onnx_model import CONSTANTS, GRAPH, STATIC, answer_by_compiling, bench_model, compiled_lines
from xverify.oracles.protocol import Loaded, Oracle, Path, Setting, at_run
from xverify.oracles.short_form import ShortCall, ShortForm, is_numpy
from xverify.oracles.timing import Problem, Solve, Timing, Way

RELEASES = (
    ("0.27.*", "TVM 0.27, 2026-09"),
    ("0.26.*", "TVM 0.26, 2026-08"),
)
"""Minor releases and their months, by the upload of the first wheel to PyPI."""

ORACLES = (
    Oracle(
        name="tvm",
        title="TVM",
        claim="ONNX's edition for the opset of the model: its ONNX front end has a converter for each of them "
        "(python/tvm/relax/frontend/onnx/onnx_frontend.py, class DequantizeLinear).",
        distribution="apache-tvm",
        contracts=("ai.onnx/*",),
        judged_by=("ai.onnx/*",),
        carries_texts=False,
        module=__name__,
        needs=("onnx",),
        paths=(Path("", 0.1), Path(STATIC, 0.02), Path(CONSTANTS, 0.02)),
        surrounded=(Path(GRAPH, 0.1),),
        varies=tuple(Setting("isa", isa, ("mcpu=%s" % isa,)) for isa in ("x86-64", "haswell", "skylake-avx512")),
        timing=Timing("#332288", "<", environment=(("TVM_NUM_THREADS", "{threads}"),)),
        releases=RELEASES,
    ),
)

MODULES = 512
"""The number of compiled modules in the cache. To compile one takes about 150 ms."""


def load(*settings: str) -> Loaded:
    """Import TVM.

    Args:
        settings: "mcpu=NAME" makes code for this processor. By default it is for each x86-64 processor.
    """
    import tvm

    def run(main: Any, fed: Mapping[str, Tensor]) -> Array:
        operands = [tvm.runtime.tensor(to_array(tensor)) for tensor in fed.values()]
        with at_run():
            result = main(*operands)
        return result.numpy()

    compiled = _compiler(dict(setting.split("=", 1) for setting in settings))
    return Loaded(answer_by_compiling(compiled, run, MODULES))


def _compiler(options: Mapping[str, str]) -> Callable[[bytes], Any]:
    """A function that makes the callable ``main`` of a model."""
    import onnx
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    target = tvm.target.Target({"kind": "llvm", **options})

    def compiled(model: bytes) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the result is declared by its name only
            module = from_onnx(onnx.ModelProto.FromString(model))
        return relax.VirtualMachine(tvm.compile(module, target=target), tvm.cpu())["main"]

    return compiled


# -- short scripts and the bench -------------------------------------------------------------------------


def short_form(call: ShortCall) -> ShortForm:
    """The model, imported and compiled."""
    imports, lines, inputs = compiled_lines(call)
    lines += [
        'executable = tvm.compile(from_onnx(model), target="llvm")',
        'main = relax.VirtualMachine(executable, tvm.cpu())["main"]',
        "y = main(%s).numpy()" % ", ".join("tvm.runtime.tensor(%s)" % name for name in inputs),
    ]
    imports += ["import tvm", "from tvm import relax", "from tvm.relax.frontend.onnx import from_onnx"]
    return ShortForm(imports, lines, () if is_numpy(call.out_dtype) else ("ml_dtypes",), copies=True)


def load_bench(threads: int) -> Solve:
    """Import TVM. TVM_NUM_THREADS sets the number of threads."""
    import tvm

    compiled = _compiler({})

    def solve(problem: Problem) -> List[Way]:
        main = compiled(bench_model(problem, "ai.onnx/DequantizeLinear-23"))
        operands = [problem.x, problem.scale, problem.zero_point]
        fed = [tvm.runtime.tensor(array) for array in operands if array is not None]
        return [Way("virtual machine", partial(main, *fed), _bench_array, owns_output=True)]

    return solve


def _bench_array(result: Any) -> Array:
    return result.numpy()
