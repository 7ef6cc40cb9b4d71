"""What every reproduction script contains. These functions are run here only by tests: `script` copies their source.

They use nothing but what the head of a script imports, and no syntax newer than Python 3.8's.
"""

# ruff: noqa: B905, UP031

from __future__ import annotations

import os
import struct
import subprocess
import sys
from importlib import metadata
from typing import Any

import numpy as np

WIDTHS = {
    "int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4,
    "int8": 8, "uint8": 8, "float8_e4m3fn": 8, "float8_e4m3fnuz": 8, "float8_e5m2": 8, "float8_e5m2fnuz": 8,
    "float8_e8m0fnu": 8, "int16": 16, "uint16": 16, "float16": 16, "bfloat16": 16,
    "int32": 32, "uint32": 32, "float32": 32, "int64": 64, "uint64": 64, "float64": 64,
}  # fmt: skip

FRACTION_BITS = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}

PACKAGES = {
    "onnxruntime": "onnxruntime", "onnx-reference": "onnx",
    "tensorflow": "tensorflow", "onednn-formula-multiply": "xverify", "onednn-formula-divide": "xverify",
    "xverify-numpy": "xverify",
}  # fmt: skip

LIMIT_SECONDS = 60


def read_call(call: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The tensors by role, each with its dtype, its codes (the bits of each element) and its layout."""
    files = {tensor["file"] for tensor in call["tensors"].values() if tensor.get("file")}
    if files:
        return read_file(files.pop())
    return {role: dict(tensor, codes=read_codes(tensor)) for role, tensor in call["tensors"].items()}


def read_codes(tensor: dict[str, Any]) -> Any:
    codes = [int(bits, 16) for bits in tensor["bits"].split()]
    return np.array(codes, "uint%d" % max(8, WIDTHS[tensor["dtype"]])).reshape(tensor["shape"])


def read_file(name: str) -> dict[str, dict[str, Any]]:
    """The same from the file beside this script: a JSON header, then each tensor's codes in C order."""
    import json

    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.path.basename(name)), "rb") as file:
        blob = file.read()
    (length,) = struct.unpack_from("<I", blob, 4)
    offset = 8 + length
    tensors = {}
    for role, dtype, shape, layout in json.loads(blob[8:offset].decode())["tensors"]:
        code = np.dtype("uint%d" % max(8, WIDTHS[dtype]))
        count = int(np.prod(shape, dtype=np.int64))
        codes = np.frombuffer(blob, code, count, offset).reshape(shape)
        offset += count * code.itemsize
        tensors[role] = {"dtype": dtype, "codes": codes, "layout": layout, "shape": shape}
    return tensors


def to_array(tensor: dict[str, Any]) -> Any:
    """The tensor as an array of its dtype that lies in memory as its layout says."""
    codes, layout = tensor["codes"], tensor["layout"]
    if layout == "misaligned":  # by one byte
        array = np.zeros(codes.nbytes + 1, np.uint8)[1:].view(codes.dtype).reshape(codes.shape)
        array[...] = codes
    elif codes.ndim == 0 or layout in ("C", "read-only"):
        array = np.array(codes, order="C")
    elif layout == "F":
        array = np.array(codes, order="F")
    elif layout == "reversed":
        array = np.array(codes[..., ::-1], order="C")[..., ::-1]
    elif layout == "strided":
        array = np.zeros((*codes.shape[:-1], 2 * codes.shape[-1] + 1), codes.dtype)[..., 1::2]
        array[...] = codes
    elif layout == "broadcast":  # stride 0 along each axis on which the values are constant
        axes = enumerate(codes.shape)
        still = [n > 1 and codes.size > 0 and (codes == codes.take([0], axis)).all() for axis, n in axes]
        few = np.array(codes[tuple(slice(1) if one else slice(None) for one in still)], order="C")
        strides = [0 if one else stride for one, stride in zip(still, few.strides)]
        array = np.ndarray(codes.shape, codes.dtype, few, strides=strides)
    else:  # offset
        array = np.zeros(codes.size + 1, codes.dtype)[1:].reshape(codes.shape)
        array[...] = codes
    array = array.view(numpy_dtype(tensor["dtype"]))
    array.flags.writeable = layout != "read-only"
    return array


def numpy_dtype(name: str) -> Any:
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))


def to_codes(result: Any) -> tuple[str, Any]:
    """Dtype and codes of what the implementation gave: an array, or already such a pair."""
    if isinstance(result, tuple):
        return result
    values = np.asarray(result, order="C")
    name = values.dtype.name
    codes = values.view("uint%d" % (8 * values.dtype.itemsize))
    return name, codes & np.uint8((1 << WIDTHS[name]) - 1) if WIDTHS[name] < 8 else codes


def canonical(dtype: str, code: int) -> int:
    """The code, with every NaN the same: any NaN equals any NaN, while -0 and +0 differ."""
    if dtype in FRACTION_BITS:
        magnitude = (1 << (WIDTHS[dtype] - 1)) - 1
        infinity = magnitude >> FRACTION_BITS[dtype] << FRACTION_BITS[dtype]
        return -1 if code & magnitude > infinity else code
    return code


def words(dtype: str, code: int) -> str:
    """A code in decimal and in hex."""
    digits = "0x%0*x" % (max(1, WIDTHS[dtype] // 4), code)
    if dtype == "bfloat16":
        return "%s (%s)" % (float(np.array([code << 16], np.uint32).view(np.float32)[0]), digits)
    if dtype in FRACTION_BITS:
        return "%s (%s)" % (str(np.array([code], "uint%d" % WIDTHS[dtype]).view(dtype)[0]), digits)
    return digits


def listed(dtype: str, codes: Any, most: int = 8) -> str:
    flat = [words(dtype, int(code)) for code in codes.reshape(-1)[:most]]
    return "%s %s: %s%s" % (dtype, list(codes.shape), ", ".join(flat), ", ..." if codes.size > most else "")


def introduce(finding: dict[str, Any], tensors: dict[str, dict[str, Any]]) -> None:
    """Say what this is about, with which versions, and what is called."""
    subject = finding["subject"]
    options = " [%s]" % subject["options"] if subject["options"] else ""
    print("%s: %s%s under %s" % (finding["verdict"], subject["name"], options, finding["contract"]))
    print(finding["summary"])
    if finding["text"]:
        print("the text (%s): %s" % (finding["document"], finding["text"]))
    if finding["attribution"]:
        print("its values are those of an implementation that " + finding["attribution"])
    print("found with %s %s; here are" % (subject["name"], subject["version"]), end=" ")
    packages = ["numpy", "ml_dtypes", PACKAGES.get(subject["name"], subject["name"])]
    print(", ".join(["Python " + sys.version.split()[0]] + ["%s %s" % (name, version(name)) for name in packages]))
    print("the call:")
    for role, tensor in tensors.items():
        decimal = finding["call"]["tensors"].get(role, {}).get("decimal", "")
        bits = ["0x%x" % int(code) for code in tensor["codes"].reshape(-1)[:8]]
        shown = ["%s (%s)" % pair for pair in zip(decimal.split(), bits)] if decimal else bits
        more = ", ..." if tensor["codes"].size > 8 else ""
        layout = "" if tensor["layout"] == "C" else ", layout " + tensor["layout"]
        print("  %s: %s %s%s: %s%s" % (role, tensor["dtype"], tensor["shape"], layout, ", ".join(shown), more))
    for name, value in finding["call"]["attributes"].items():
        print("  %s = %r" % (name, value))
    for other in finding["others"]:
        print("others gave: " + other)
    sys.stdout.flush()


def version(package: str) -> str:
    for name in (package, package + "-cpu"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return "not installed"


def memory(arrays: dict[str, Any]) -> list[bytes]:
    """All bytes of the memory that the arrays lie in, those between their elements too."""
    return [(array if array.base is None else array.base).tobytes("A") for array in arrays.values()]


def attempt(finding: dict[str, Any], tensors: dict[str, dict[str, Any]]) -> tuple[str, Any, list[str]]:
    """Make the call once: ("tensor", (dtype, codes), notes) or ("refused", sentence, [])."""
    arrays = {role: to_array(tensor) for role, tensor in tensors.items()}
    before = memory(arrays)
    call = {
        "contract": finding["call"]["contract"],
        "tensors": tensors,
        "arrays": arrays,
        "attributes": dict(finding["call"]["attributes"]),
        "options": finding["subject"]["options"],
        "name": finding["subject"]["name"],
    }
    try:
        result = run(call)
    except ImportError:
        raise
    except Exception as error:
        return "refused", "%s: %s" % (type(error).__name__, str(error)[:400]), []
    notes = ["input-written"] if memory(arrays) != before else []
    if isinstance(result, np.ndarray) and any(np.may_share_memory(result, array) for array in arrays.values()):
        notes.append("output-aliases-input")
    return "tensor", to_codes(result), notes


def compare(finding: dict[str, Any], dtype: str, codes: Any) -> int:
    """1 while some value that was wrong still is, or while the values are those that were given."""
    got = finding["got"] and finding["got"]["tensor"]
    if got and (dtype, list(codes.shape)) != (got["dtype"], got["shape"]):
        if finding["verdict"] == "violation" and not finding["legal"]:
            print("the type or shape is no longer %s %s" % (got["dtype"], got["shape"]))
            return 0
    elif got and not finding["legal"] and "bits" not in got:
        print("the earlier values were not kept: compare those above")
        return 3
    wrong = 0
    for entry in finding["legal"]:
        index = tuple(entry["index"])
        if len(index) != codes.ndim or any(i >= extent for i, extent in zip(index, codes.shape)):
            continue
        now, legal = int(codes[index]), entry["legal"]
        same = canonical(dtype, now) == canonical(dtype, int(entry["got"], 16))
        right = any(canonical(dtype, now) == canonical(dtype, int(one["hex"], 16)) for one in legal)
        # In a violation the value is illegal; otherwise it is one of several, and it matters that it is still that one.
        wrong += (not right) if finding["verdict"] == "violation" else same
        due = " or ".join("%s (%s; %s)" % (one["decimal"], one["hex"], ", ".join(one["readings"])) for one in legal)
        print("at %s: got       %s" % (list(index), words(dtype, now)))
        print("%s  should be %s" % (" " * len("at %s" % list(index)), due))
    if finding["legal"]:
        return int(wrong > 0)
    kept = read_codes(got).reshape(-1) if got else []
    same = len(kept) == codes.size and all(
        canonical(dtype, int(a)) == canonical(dtype, int(b)) for a, b in zip(kept, codes.reshape(-1))
    )
    return int(same)


def in_child() -> int:
    """Make the call in a process of its own: 1 when that dies or does not answer."""
    try:
        child = subprocess.run([sys.executable, os.path.abspath(__file__), "--child"], timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        print("the call does not answer within %d s" % LIMIT_SECONDS)
        return 1
    if child.returncode in (0, 3):
        return child.returncode
    print("the process that made the call died, status %d" % child.returncode)
    return 1


def conclude(finding: dict[str, Any], tensors: dict[str, dict[str, Any]]) -> int:
    """Make the call, show what comes of it, and tell whether the discrepancy is there."""
    kind, result, notes = attempt(finding, tensors)
    print("what comes of it: " + (listed(*result) if kind == "tensor" else "refused, " + result))
    sys.stdout.flush()
    verdict = finding["verdict"]
    was = finding["got"]["kind"] if finding["got"] else "tensor"
    if verdict in ("crash", "hang"):
        return 0
    if verdict == "wrongly-accepted":
        return int(kind == "tensor")
    if was in ("rejected", "unsupported"):
        return int(kind == "refused")
    if kind == "refused":
        print("this version refuses the call")
        return 3
    if verdict == "memory":
        print("noted: " + (", ".join(notes) or "nothing"))
        return int(any(note in finding["got"]["notes"] for note in notes))
    if verdict == "nondeterministic":
        again = [attempt(finding, tensors) for _ in range(100)]
        apart = sum(one[0] != kind or one[1][1].tobytes() != result[1].tobytes() for one in again)
        print("of 100 more answers %d differ from this one" % apart)
        return int(apart > 0)
    return compare(finding, *result)


def main(finding: dict[str, Any]) -> int:
    try:
        tensors = read_call(finding["call"])
        if "--child" not in sys.argv:
            introduce(finding, tensors)
        if finding["verdict"] in ("crash", "hang") and "--child" not in sys.argv:
            status = in_child()
        else:
            status = conclude(finding, tensors)
    except Exception as error:
        print("cannot be told here: %s: %s" % (type(error).__name__, error))
        return 3
    if "--child" not in sys.argv:
        print({0: "the discrepancy is gone", 1: "the discrepancy is there"}.get(status, "cannot be told here"))
    return status


def on_texts(finding: dict[str, Any]) -> int:
    """A conflict: print what both sides say."""
    print("%s: %s" % (finding["verdict"], finding["summary"]))
    if finding["text"]:
        print("%s (%s): %s" % (finding["clause"], finding["document"], finding["text"]))
    call = finding["call"] or {"tensors": {}, "attributes": {}}
    for role, tensor in call["tensors"].items():
        shown = tensor.get("decimal", "in " + tensor.get("file", "")), tensor.get("bits", "")
        print("  %s: %s %s: %s (%s)" % (role, tensor["dtype"], tensor["shape"], *shown))
    for name, value in call["attributes"].items():
        print("  %s = %r" % (name, value))
    for entry in finding["legal"]:
        due: list[str] = ["%s (%s)" % (one["decimal"], one["hex"]) for one in entry["legal"]]
        print(
            "at %s %s gives %s (%s)" % (entry["index"], finding["subject"]["name"], entry["got_decimal"], entry["got"])
        )
        print("   while %s allows %s" % (finding["contract"], " or ".join(due)))
    for other in finding["others"]:
        print("others gave: " + other)
    return 1


def run(call: dict[str, Any]) -> Any:
    """Stands for the implementation's body, which takes this name in a script."""
    raise NotImplementedError


CONSTANTS = ("WIDTHS", "FRACTION_BITS", "PACKAGES", "LIMIT_SECONDS")

PARTS = (
    read_call, read_codes, read_file, to_array, numpy_dtype, to_codes, canonical, words, listed, introduce, version,
    memory, attempt, compare, in_child, conclude, main,
)  # fmt: skip
"""In the order in which a script has them."""
