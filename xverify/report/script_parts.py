"""What every reproduction script contains. These functions are run here only by tests: `script` copies their source.

They use nothing but what the head of a script imports, and no syntax newer than Python 3.8's.
"""

# ruff: noqa: B905, UP031

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata
from typing import Any

import numpy as np

from xverify.report.script_values import (
    FRACTION_BITS,
    WIDTHS,
    canonical,
    listed,
    memory,
    numpy_dtype,
    read_call,
    read_codes,
    read_file,
    to_array,
    to_codes,
    words,
)  # fmt: skip

PACKAGES = {
    "onnxruntime": "onnxruntime", "onnx-reference": "onnx",
    "tensorflow": "tensorflow", "onednn-formula-multiply": "xverify", "onednn-formula-divide": "xverify",
    "xverify-numpy": "xverify", "onednn": "onednn-cpu-gomp", "tensorflow-function": "tensorflow",
    "tensorflow-xla": "tensorflow", "litert": "ai-edge-litert", "openvino": "openvino", "torch": "torch",
}  # fmt: skip

LIMIT_SECONDS = 60

RETURNED = 40
"""Added to the exit status of a child whose call came back: any other status is one that the call ended it with."""


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
    packages = ["numpy", "ml_dtypes"]
    names = [known for known in PACKAGES if re.match(re.escape(known) + r"($|[:@[]|==)", subject["name"])]
    if names or ":" not in subject["name"]:  # a target is no package
        packages.append(PACKAGES[names[0]] if names else subject["name"])
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
    if finding["call"].get("around"):
        print("  in a graph: " + finding["call"]["around"])
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


def make(finding: dict[str, Any], tensors: dict[str, dict[str, Any]]) -> tuple[Any, list[str]]:
    """Make the call once: what it gives, and what is noted besides."""
    arrays = {role: to_array(tensor) for role, tensor in tensors.items()}
    before = memory(arrays)
    notes: list[str] = []  # a body may add to them
    call = {
        "contract": finding["call"]["contract"],
        "tensors": tensors,
        "arrays": arrays,
        "attributes": dict(finding["call"]["attributes"]),
        "graph": finding["call"].get("graph"),
        "options": finding["subject"]["options"],
        "name": finding["subject"]["name"],
        "verdict": finding["verdict"],
        "notes": notes,
    }
    result = run(call)
    if memory(arrays) != before:
        notes.append("input-written")
    if isinstance(result, np.ndarray) and any(np.may_share_memory(result, array) for array in arrays.values()):
        notes.append("output-aliases-input")
    return result, sorted(set(notes))


def attempt(finding: dict[str, Any], tensors: dict[str, dict[str, Any]]) -> tuple[str, Any, list[str]]:
    """Make the call once: ("tensor", (dtype, codes), notes) or ("refused", sentence, [])."""
    try:
        result, notes = make(finding, tensors)
        dtype, codes = to_codes(result)
    except ImportError:
        raise
    except Exception as error:
        return "refused", "%s: %s" % (type(error).__name__, str(error)[:400]), []
    return "tensor", (dtype, codes.copy()), notes


def again(finding: dict[str, Any], tensors: dict[str, dict[str, Any]]) -> list[str]:
    """What becomes of results when the call is made again, and when one of them was written to."""
    results = [result for result, _ in (make(finding, tensors) for _ in range(3)) if isinstance(result, np.ndarray)]
    if len(results) < 3:
        return []
    notes = ["outputs-share-memory"] if np.may_share_memory(results[0], results[1]) else []
    before, kept = [result.tobytes() for result in results], results[2].copy()
    results.append(make(finding, tensors)[0])  # all are kept, so that none takes the memory of another
    if [result.tobytes() for result in results[:3]] != before:
        notes.append("earlier-result-changed")
    if results[2].flags.writeable:
        results[2].view(np.dtype("uint%d" % (8 * kept.itemsize))).fill(0x5A)
        if to_codes(make(finding, tensors)[0])[1].tobytes() != to_codes(kept)[1].tobytes():
            notes.append("internal-buffer")
    return notes


def from_threads(finding: dict[str, Any], tensors: dict[str, dict[str, Any]]) -> list[tuple[str, Any, list[str]]]:
    """Answers to the call while other threads make one of other values. All pause between the kernel's instructions,
    since Python would let each finish first."""
    import random
    import threading
    import time

    answers: list[tuple[str, Any, list[str]]] = []
    others = {role: dict(tensor, codes=np.flip(tensor["codes"]) ^ 1) for role, tensor in tensors.items()}

    def work(number: int) -> None:
        drawn = random.Random(number)

        def pause(frame: Any, event: str, argument: Any) -> Any:
            if frame.f_code.co_filename == __file__:
                return None
            frame.f_trace_opcodes = True
            if drawn.randrange(6) == 0:
                time.sleep(1e-6)
            return pause

        for _ in range(100):
            sys.settrace(pause)
            try:
                one = attempt(finding, others if number % 2 else tensors)
            finally:
                sys.settrace(None)
            if number % 2 == 0:
                answers.append(one)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


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
    """Make the call in a process of its own, and say how that ended: 1 when it dies or does not answer."""
    import signal
    import tempfile

    command = [sys.executable, os.path.abspath(__file__), "--child", *sys.argv[1:]]
    with tempfile.TemporaryFile() as log:
        try:
            status = subprocess.run(command, stderr=log, timeout=LIMIT_SECONDS).returncode
        except subprocess.TimeoutExpired:
            print("the call does not answer within %d s" % LIMIT_SECONDS)
            return 1
        log.seek(max(0, log.seek(0, os.SEEK_END) - 16000))
        text = log.read().decode(errors="replace").splitlines()
    lines = [line for line in text if not line.startswith("    @ ")]  # native frames, without line numbers
    if status in (RETURNED, RETURNED + 3):
        return status - RETURNED
    try:
        ending = "was killed by " + signal.Signals(-status).name if status < 0 else "ended in the middle of it"
    except ValueError:
        ending = "was killed by signal %d" % -status
    print("the child process that made the call %s (exit status %d)" % (ending, status))
    for line in lines[-8:]:
        print("  its stderr: " + line)
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
    known: list[str] = finding["got"]["notes"] if finding["got"] else []
    if verdict == "memory":
        if not any(note in known for note in notes):
            notes += again(finding, tensors)
        print("noted: " + (", ".join(notes) or "nothing"))
        return int(any(note in known for note in notes))
    if verdict == "nondeterministic" and "[" in finding["subject"]["name"]:
        print(
            "it is run with %s; how it answers without, stands above"
            % finding["subject"]["name"].split("[")[1].split("]")[0]
        )
        return compare(dict(finding, legal=[]), *result)
    if verdict == "nondeterministic":
        threads = "threads-differ" in known
        more = from_threads(finding, tensors) if threads else [attempt(finding, tensors) for _ in range(100)]
        apart = sum(one[0] != kind or one[1][1].tobytes() != result[1].tobytes() for one in more)
        print("of %d more answers %d differ from this one" % (len(more), apart))
        return int(apart > 0 or "second-call-differs" in notes)
    return compare(finding, *result)


def main(finding: dict[str, Any]) -> int:
    os.environ.update(finding["environment"])
    child, why = "--child" in sys.argv, ""
    try:
        tensors = read_call(finding["call"])
        if not child:
            introduce(finding, tensors)
        deadly = finding["verdict"] in ("crash", "hang") and not child
        status = in_child() if deadly else conclude(finding, tensors)
    except Exception as error:
        status, why = 3, ": %s: %s" % (type(error).__name__, error)
    if not child or why:
        told = {0: "the discrepancy is gone", 1: "the discrepancy is there"}
        print(told.get(status, "cannot be told here") + why)
    if child:
        sys.stdout.flush()
        os._exit(RETURNED + status)  # what is torn down afterwards is not the call
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


CONSTANTS: dict[str, Any] = {
    "WIDTHS": WIDTHS,
    "FRACTION_BITS": FRACTION_BITS,
    "PACKAGES": PACKAGES,
    "LIMIT_SECONDS": LIMIT_SECONDS,
    "RETURNED": RETURNED,
}

PARTS = (
    read_call, read_codes, read_file, to_array, numpy_dtype, to_codes, canonical, words, listed, introduce, version,
    memory, make, attempt, again, from_threads, compare, in_child, conclude, main,
)  # fmt: skip
"""In the order in which a script has them."""
