"""TensorFlow's `tf.quantization.dequantize`, eagerly, on the CPU."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Tuple

from xverify.core.call import BITS, Call, Outcome
from xverify.oracles.arrays import Array, answered, hand_out
from xverify.oracles.protocol import Loaded, Oracle, Setting
from xverify.oracles.short_form import ShortCall, ShortForm, keywords, spelled

THREADS = (Setting("threads", "4", environment=(("TF_NUM_INTRAOP_THREADS", "4"),)),)
"""How every way of running TensorFlow may be run besides, by a variable that it reads itself."""

KERNELS = tuple(
    Setting("kernels", name, environment=(("TF_ENABLE_ONEDNN_OPTS", value),))
    for name, value in (("own", "0"), ("onednn", "1"))
)
"""Where a graph's operations have kernels of TensorFlow and of oneDNN: it chooses by the processor, unless it is told."""

ORACLES = (
    Oracle(
        name="tensorflow",
        distribution="tensorflow-cpu",
        contracts=("tensorflow/*",),
        ships=("tensorflow/Dequantize@installed",),
        module=__name__,
        varies=(*THREADS, *KERNELS),
    ),
)


def import_tensorflow() -> Any:
    """The module tensorflow, quiet, without accelerators and, if its variable does not say otherwise, with one thread: calls
    are small."""
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(int(os.environ.get("TF_NUM_INTRAOP_THREADS", "1")))
    return tf


def operands(tf: Any, call: Call, arrays: Dict[str, Array]) -> Dict[str, Any]:
    """The call's arrays as TensorFlow's tensors by role; integers in input get the quantized type of their width."""
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
    """The line that gives the input its quantized type, if it has one, and the input's name then."""
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
