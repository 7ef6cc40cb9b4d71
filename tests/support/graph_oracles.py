"""Implementations for `test_surroundings_elsewhere`. Only the worker imports their frameworks."""

from __future__ import annotations

import contextlib
import io
import sys
from typing import Any

import numpy as np
import sample_report

from xverify.core.call import Call, Outcome, Tensor, code_dtype
from xverify.core.codec import call_to_json, tensor_to_json
from xverify.core.surroundings import surround
from xverify.oracles.arrays import from_array
from xverify.oracles.onednn_library import load as load_onednn_library
from xverify.oracles.openvino_cpu import load as load_openvino_cpu
from xverify.oracles.protocol import Answer, Loaded
from xverify.oracles.tensorflow_graph import load_function, load_xla
from xverify.report.script import script_for
from xverify.report.short_script import short_script


def load_tensorflow() -> Loaded:
    """Load both oracles of `xverify.oracles.tensorflow_graph`.

    A path is "function" or "xla", a blank, and the oracle's own path. A prefix selects another answer: "script" or "short" runs
    that script, and "count" returns how many nodes the optimiser left.
    """
    import tensorflow as tf

    loaded = {"function": load_function(), "xla": load_xla()}
    answers: dict[str, Answer] = {name: one.answer for name, one in loaded.items()}

    def answer(call: Call, path: str) -> Tensor | Outcome:
        way, _, rest = path.partition(" ")
        if way in answers:
            return answers[way](call, rest)
        name, _, own = rest.partition(" ")
        if way == "count":
            return counted(lambda: answers[name](call, own))
        try:
            return scripted(way, f"tensorflow-{name}", own, call)
        finally:
            tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})

    return Loaded(answer, loaded["xla"].not_implemented)


def load_openvino() -> Loaded:
    """Load `xverify.oracles.openvino_cpu`. The prefix "script " of a path runs the script instead."""
    loaded = load_openvino_cpu()

    def answer(call: Call, path: str) -> Tensor | Outcome:
        if path.startswith("script "):
            return scripted("script", "openvino", path.removeprefix("script "), call)
        return loaded.answer(call, path)

    return Loaded(answer)


def load_onednn() -> Loaded:
    """Load `xverify.oracles.onednn_library`. The prefix "script " of a path runs the script instead."""
    loaded = load_onednn_library()

    def answer(call: Call, path: str) -> Tensor | Outcome:
        if path.startswith("script "):
            return scripted("script", "onednn", path.removeprefix("script "), call)
        return loaded.answer(call, path)

    return Loaded(answer, loaded.not_implemented)


def counted(run: Any) -> Tensor:
    """Return the number of Transpose and Dequantize nodes in the optimised graph of a run."""
    from tensorflow.python.eager import context

    context.enable_run_metadata()
    try:
        run()
        graphs = context.export_run_metadata().function_graphs
    finally:
        context.disable_run_metadata()
    left = [node.op for graph in graphs for node in graph.post_optimization_graph.node]
    return from_array(np.array([sum(op in ("Transpose", "Dequantize") for op in left)], np.int32))


def scripted(way: str, name: str, options: str, call: Call) -> Tensor:
    """Return the result of a script for a call. The script runs in this process."""
    out = str(call.attributes.get("output_dtype", call.attributes.get("dtype", "float32")))
    bits = tensor_to_json(Tensor(out, np.zeros(call.data.shape, code_dtype(out))))
    got = {"kind": "tensor", "error": "", "message": "", "notes": [], "tensor": bits}
    witness = {"call": call_to_json(call), "got": got, "legal": []}
    subject = {"name": name, "version": "1", "role": "oracle", "options": options}
    finding = sample_report.finding("violation", name, call.contract, "formula", "a summary", witness, subject=subject)
    known: dict[str, Any] = {"__name__": "script"}
    with contextlib.redirect_stdout(io.StringIO()):
        if way == "short":
            exec(compile(str(short_script(finding)), "short", "exec"), known)
            return surround(call).back(from_array(known["y"]))
        for module in [module for module in sys.modules if module.partition(".")[0] == "standalone"]:
            del sys.modules[module]  # the previous script put it there
        known["__file__"] = "script"
        exec(compile(script_for(finding), "script", "exec"), known)
        outcome = known["run"](known["read_call"](known["FINDING"]["call"]))
    assert outcome.tensor is not None, outcome.message
    return Tensor(outcome.tensor.dtype, outcome.tensor.codes)
