"""TensorFlow's `tf.quantization.dequantize`, eagerly, on the CPU."""

from __future__ import annotations

import os
from functools import partial
from typing import Any, Dict, List, Tuple

import numpy as np

from xverify.core.call import BITS, Call, Outcome
from xverify.oracles.arrays import Array, answered, hand_out
from xverify.oracles.protocol import Loaded, Oracle, Setting
from xverify.oracles.short_form import ShortCall, ShortForm, keywords, spelled
from xverify.oracles.timing import Problem, Solve, Timing, Way

THREADS = (Setting("threads", "4", environment=(("TF_NUM_INTRAOP_THREADS", "4"),)),)
"""The setting of threads, by a variable that `import_tensorflow` reads."""

KERNELS = tuple(
    Setting("kernels", name, environment=(("TF_ENABLE_ONEDNN_OPTS", value),))
    for name, value in (("own", "0"), ("onednn", "1"))
)
"""The settings of kernels, TensorFlow's own or oneDNN's.

Without this variable TensorFlow chooses by the processor. With AVX-512 it takes oneDNN's kernels, which lack qint32. So a default
sweep also asks its own kernels there.
"""

RELEASES = (
    ("2.21.*", "TensorFlow 2.21, 2026-03"),
    ("2.20.*", "TensorFlow 2.20, 2025-08"),
    ("2.19.*", "TensorFlow 2.19, 2025-03"),
    ("2.18.*", "TensorFlow 2.18, 2024-10"),
    ("2.17.*", "TensorFlow 2.17, 2024-07"),
    ("2.16.*", "TensorFlow 2.16, 2024-03"),
    ("2.15.*", "TensorFlow 2.15, 2023-11"),
    ("2.14.*", "TensorFlow 2.14, 2023-09"),
    ("2.13.*", "TensorFlow 2.13, 2023-07"),
    ("2.12.*", "TensorFlow 2.12, 2023-03"),
)
"""Minor releases and their months, by the upload of the first wheel to PyPI."""

CLAIM = "The docstring of tf.quantization.dequantize, read from the installed package."

ORACLES = (
    Oracle(
        name="tensorflow",
        title="TensorFlow",
        claim=CLAIM,
        timing=Timing("#009E73", "D"),
        distribution="tensorflow-cpu",
        contracts=("tensorflow/*",),
        judged_by=("tensorflow/Dequantize@installed",),
        module=__name__,
        varies=(*THREADS, *KERNELS),
        releases=RELEASES,
    ),
    Oracle(
        name="tensorflow-own-kernels",
        title="TensorFlow without oneDNN",
        claim=CLAIM,
        distribution="tensorflow-cpu",
        contracts=("tensorflow/*",),
        judged_by=("tensorflow/Dequantize@installed",),
        module=__name__,
        environment=KERNELS[0].environment,
        family="tensorflow",
        only_with="avx512f",
        releases=RELEASES,
    ),
)


def import_tensorflow() -> Any:
    """Import TensorFlow without log messages and accelerators.

    It gets one thread, unless TF_NUM_INTRAOP_THREADS says otherwise.
    """
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(int(os.environ.get("TF_NUM_INTRAOP_THREADS", "1")))
    return tf


def operands(tf: Any, call: Call, arrays: Dict[str, Array]) -> Dict[str, Any]:
    """The call's arrays as TensorFlow's tensors by role.

    An integer input gets the quantized type of its width.
    """
    quantized = {
        "int8": tf.qint8,
        "uint8": tf.quint8,
        "int16": tf.qint16,
        "uint16": tf.quint16,
        "int32": tf.qint32,
    }
    tensors = {name: tf.constant(array) for name, array in arrays.items()}
    if call.data.dtype in quantized:
        tensors["input"] = tf.bitcast(tensors["input"], quantized[call.data.dtype])
    return tensors


def attributes_of(tf: Any, call: Call) -> Dict[str, Any]:
    """The call's attributes as keywords of `tf.quantization.dequantize`."""
    attributes: Dict[str, Any] = dict(call.attributes)
    if "dtype" in attributes:
        attributes["dtype"] = tf.as_dtype(attributes["dtype"])
    return attributes


def load() -> Loaded:
    """Import TensorFlow."""
    tf = import_tensorflow()

    def answer(call: Call, path: str) -> Outcome:
        arrays = hand_out(call)
        result = tf.quantization.dequantize(**operands(tf, call, arrays), **attributes_of(tf, call))
        return answered(result.numpy(), call, arrays)

    return Loaded(answer, (tf.errors.UnimplementedError, NotImplementedError))


# -- short scripts ---------------------------------------------------------------------------------------

SHORT_IMPORTS = [
    'os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # seen on the CPU',
    "import tensorflow as tf",
]

QUANTIZED_TYPES = {"int8": "qint8", "uint8": "quint8", "int16": "qint16", "uint16": "quint16", "int32": "qint32"}


def short_form(call: ShortCall) -> ShortForm:
    """A call of `tf.quantization.dequantize`."""
    first, data = short_input(call)
    operands = ", ".join([data, *(role for role in call.tensors if role != "input")])
    line = "y = tf.quantization.dequantize(%s%s).numpy()" % (operands, short_keywords(call))
    return ShortForm(SHORT_IMPORTS, [*first, line], ("os",), copies=True)


def short_input(call: ShortCall) -> Tuple[List[str], str]:
    """The lines that give the input its quantized type, if it has one, and the input's new name."""
    quantized = QUANTIZED_TYPES.get(call.tensors["input"].dtype)
    if quantized is None:
        return [], "tf.constant(input)"
    return ["quantized = tf.bitcast(tf.constant(input), tf.%s)" % quantized], "quantized"


def short_keywords(call: ShortCall) -> str:
    """The call's attributes as keywords."""
    words = {name: spelled(value) for name, value in call.attributes.items()}
    if words.get("dtype", "").strip('"') in BITS:
        words["dtype"] = "tf.%s" % call.attributes["dtype"]
    return keywords(words)


# -- the bench -------------------------------------------------------------------------------------------


def load_bench(threads: int) -> Solve:
    """Import TensorFlow, with this number of threads for one operation.

    A range replaces the scale and the zero point. In MIN_COMBINED and MIN_FIRST the lowest code means min_range and the highest
    max_range; they round at different steps. SCALED has no zero point. TensorFlow allocates its outputs.
    """
    os.environ["TF_NUM_INTRAOP_THREADS"] = str(threads)
    tf = import_tensorflow()

    def solve(problem: Problem) -> List[Way]:
        case = problem.case
        if case.x_dtype not in QUANTIZED_TYPES:
            raise NotImplementedError("TensorFlow has no quantized type for %s" % case.x_dtype)
        if case.out_dtype != "float32":
            raise NotImplementedError(
                "TensorFlow's min_range and max_range are float32, its output is not %s" % case.out_dtype
            )
        if case.block_size:
            raise NotImplementedError("TensorFlow has no blocks")
        if case.x_dtype == "int32":
            raise NotImplementedError("TensorFlow's ranges of qint32 have no float32 ends that stand for the scale")
        x = tf.bitcast(tf.constant(problem.x), getattr(tf, "q" + case.x_dtype))
        low, high = (tf.constant(end) for end in _range(problem))
        axis = {} if case.axis is None else {"axis": case.axis}
        modes = ("MIN_FIRST", "MIN_COMBINED") if case.axis is None else ("MIN_COMBINED",)
        dequantize = tf.quantization.dequantize
        return [
            Way(mode, partial(dequantize, x, low, high, mode=mode, **axis), lambda y: y.numpy(), owns_output=True)
            for mode in modes
        ]

    return solve


def _range(problem: Problem) -> Tuple[Array, Array]:
    """The values of the lowest and the highest code."""
    from xverify.core.dtypes import integer_range

    lowest, highest = integer_range(problem.case.x_dtype)
    zero_point = 0 if problem.zero_point is None else problem.zero_point.astype(np.float64)
    scale = problem.scale.astype(np.float64)
    low, high = ((end - zero_point) * scale for end in (lowest, highest))
    return np.asarray(low, np.float32), np.asarray(high, np.float32)
