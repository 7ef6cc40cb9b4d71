"""Functions that every script of a difference contains; `xverify.model.script` copies their source.

They use what the head of a script imports, and no syntax newer than Python 3.8's. In this module only tests run them.
"""

# ruff: noqa: UP031

from __future__ import annotations

import base64
import importlib
import os
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np

DIFFERENCE: dict[str, Any] = {}
"""The difference, as plain data. A script begins with it."""

MODEL = b""
"""The part of the model."""


def number(dtype: str, code: int) -> str:
    """The value of a code in decimal, or "" for a type that NumPy lacks."""
    if dtype not in ("float32", "float16", "float64"):
        return ""
    bits = {"float16": "uint16", "float32": "uint32", "float64": "uint64"}[dtype]
    return " (%s)" % np.array([code], bits).view(dtype)[0]


def value_of(dtype: str, code: int) -> float:
    """The value of a code of an integer type, or of a float type of 16 or more bits."""
    if dtype == "bfloat16":
        return float(np.array([code << 16], "uint32").view("float32")[0])
    if "float" in dtype:
        return float(np.array([code], "uint" + dtype[5:]).view(dtype)[0])
    bits = int(dtype.lstrip("uint"))
    return float(code - (1 << bits) if dtype[0] == "i" and code >> (bits - 1) else code)


def inputs_of(module: Any) -> dict[str, Any]:
    """The inputs of the part."""
    tensors = {}
    for name, entry in DIFFERENCE["inputs"].items():
        codes = np.frombuffer(base64.b64decode(entry["codes"]), module.code_dtype(entry["dtype"]))
        tensors[name] = module.Tensor(entry["dtype"], codes.reshape(entry["shape"]))
    return tensors


def run(level: str) -> Any:
    """The outputs of the part at a level, by name."""
    call = importlib.import_module("standalone.core.call")
    runs = importlib.import_module("standalone.oracles.model_run")
    loaded = getattr(importlib.import_module(DIFFERENCE["module"]), DIFFERENCE["load"])(*DIFFERENCE["arguments"])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "part.onnx")
        with open(path, "wb") as file:
            file.write(MODEL)
        return loaded.run_model(runs.ModelRun(path, inputs_of(call)), level)


def canonical(tensor: Any) -> Any:
    """The codes, with the same code for every NaN."""
    codes, fraction = tensor.codes, {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}.get(tensor.dtype)
    if fraction is None:
        return codes
    magnitude = codes & codes.dtype.type((1 << (8 * codes.dtype.itemsize - 1)) - 1)
    infinity = ((1 << (8 * codes.dtype.itemsize - 1 - fraction)) - 1) << fraction
    return np.where(magnitude > infinity, codes.dtype.type(infinity + 1), codes)


def show_wrong(tensor: Any) -> int:
    """Compare an element with the legal bits, the bits of another implementation, or the bounds of sums."""
    index = tuple(DIFFERENCE["index"])
    if len(index) != tensor.codes.ndim or any(i >= extent for i, extent in zip(index, tensor.codes.shape)):  # noqa: B905
        print("the value %s has shape %s here" % (DIFFERENCE["value"], list(tensor.codes.shape)))
        return 3
    got = int(canonical(tensor)[index])
    legal = [int(code, 16) for code in DIFFERENCE["legal"]]
    width = 2 * tensor.codes.dtype.itemsize
    print("%s%s of type %s" % (DIFFERENCE["value"], list(index), tensor.dtype))
    if DIFFERENCE["bounds"]:
        value, (least, most) = value_of(tensor.dtype, got), DIFFERENCE["bounds"]
        print("  gives %.9g (0x%0*x)" % (value, width, got))
        ends = "%.9g" % least if least == most else "%.9g to %.9g" % (least, most)
        print("  every order of %s sums gives %s" % (DIFFERENCE["sums"], ends))
        return 0 if least <= value <= most else 1
    judged, right = ("differs", DIFFERENCE["against"]) if DIFFERENCE["kind"] == "differs" else ("wrong", "legal")
    print("  %s: 0x%0*x%s" % ("gives" if got in legal else judged, width, got, number(tensor.dtype, got)))
    for code in legal:
        print("  %s: 0x%0*x%s" % (right, width, code, number(tensor.dtype, code)))
    return 0 if got in legal else 1


def show_other(outputs: Any, others: Any) -> int:
    """Compare the outputs of two runs."""
    count = 0
    for name in sorted(set(outputs) & set(others)):
        a, b = canonical(outputs[name]), canonical(others[name])
        differing = np.argwhere(a != b) if a.shape == b.shape else np.zeros((0, 0), int)
        for index in differing[:4]:
            x, y = int(a[tuple(index)]), int(b[tuple(index)])
            width, dtype = 2 * a.dtype.itemsize, outputs[name].dtype
            print("%s%s of type %s" % (name, index.tolist(), dtype))
            print("  %s: 0x%0*x%s" % (DIFFERENCE["level"], width, x, number(dtype, x)))
            print("  %s: 0x%0*x%s" % (DIFFERENCE["other"], width, y, number(dtype, y)))
        count += len(differing) if a.shape == b.shape else max(1, a.size)
    print("%d elements differ" % count)
    return 1 if count else 0


def in_child() -> int:
    """Run the part in a process of its own, since it ended or did not answer."""
    try:
        ended = subprocess.run([sys.executable, os.path.abspath(__file__), "--child"], timeout=120)
    except subprocess.TimeoutExpired:
        print("the run gave no answer within 120 s")
        return 1 if DIFFERENCE["kind"] == "hang" else 3
    if ended.returncode in (0, 3):
        print("the run ended without a crash")
        return ended.returncode
    print("the process ended with status %d" % ended.returncode)
    return 1


def main(arguments: Any) -> int:
    """Print the difference, run the part, and compare."""
    if not arguments:
        level = " [%s]" % DIFFERENCE["level"] if DIFFERENCE["level"] else ""
        print("%s%s: %s at the node %r" % (DIFFERENCE["oracle"], level, DIFFERENCE["kind"], DIFFERENCE["node"]))
        if DIFFERENCE["message"]:
            print(DIFFERENCE["message"])
        sys.stdout.flush()
        if DIFFERENCE["kind"] in ("crash", "hang"):
            return in_child()
    os.environ.update(DIFFERENCE["environment"])
    try:
        if not DIFFERENCE["module"]:
            raise ImportError("this script does not know how to run %s" % DIFFERENCE["oracle"])
        outputs = run(DIFFERENCE["level"])
        others = run(DIFFERENCE["other"]) if DIFFERENCE["other"] else None
    except Exception as error:
        print("the part was not run: %s: %s" % (type(error).__name__, str(error)[:500]))
        return 1 if DIFFERENCE["kind"] == "rejected" and not isinstance(error, ImportError) else 3
    if arguments:
        return 0
    if DIFFERENCE["kind"] == "differs" and others is not None:
        return show_other(outputs, others)
    if DIFFERENCE["value"] not in outputs or not (DIFFERENCE["legal"] or DIFFERENCE["bounds"]):
        print("the part was run; its outputs are %s" % ", ".join(sorted(outputs)))
        return 3 if DIFFERENCE["kind"] != "rejected" else 0
    return show_wrong(outputs[DIFFERENCE["value"]])
