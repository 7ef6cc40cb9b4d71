"""Functions that every reproduction script contains; `xverify.report.script` copies their source.

They use what the head of a script imports, and no syntax newer than Python 3.8's. In this module only tests run them.
"""

# ruff: noqa: B905, UP031, UP033

from __future__ import annotations

import functools
import importlib
import os
import subprocess
import sys
import time
from dataclasses import replace
from importlib import metadata
from typing import Any

import numpy as np

from xverify.core.call import BITS, Call, Outcome, Tensor, code_dtype, decode_call

FINDING: dict[str, Any] = {}
"""The finding, as plain data. A script begins with it."""

FRACTION_BITS = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}

LIMIT_SECONDS = 60
"""Seconds after which a call counts as a hang."""

REPEAT_SECONDS = 20
"""Seconds for all repetitions of a call."""

MOST_TRIES = 20
"""Number of processes in which a crash is tried before it counts as not seen."""

TRY_SECONDS = 120
"""Seconds for all these tries."""

RETURNED = 40
"""A child whose call returned exits with this plus its result.

Any other exit status comes from the call itself.
"""


def introduce(finding: dict[str, Any], call: Call) -> None:
    """Print the finding, the versions and the call."""
    subject = finding["subject"]
    options = " [%s]" % subject["options"] if subject["options"] else ""
    print("%s: %s%s under %s" % (finding["verdict"], subject["name"], options, finding["contract"]))
    print(finding["summary"])
    if finding["text"]:
        print("the text (%s): %s" % (finding["document"], finding["text"]))
    if finding["attribution"]:
        print("its values are those of an implementation that " + finding["attribution"])
    print("found with %s %s; here are" % (subject["name"], subject["version"]), end=" ")
    packages = ["numpy", "ml_dtypes", *((finding["oracle"] or {}).get("packages", ()))]
    print(", ".join(["Python " + sys.version.split()[0]] + ["%s %s" % (name, version(name)) for name in packages]))
    print("the call:")
    for role, tensor in call.tensors.items():
        decimal = finding["call"]["tensors"].get(role, {}).get("decimal", "")
        bits = ["0x%x" % int(code) for code in tensor.codes.reshape(-1)[:8]]
        shown = ["%s (%s)" % pair for pair in zip(decimal.split(), bits)] if decimal else bits
        more = ", ..." if tensor.size > 8 else ""
        layout = "" if tensor.layout == "C" else ", layout " + tensor.layout
        print("  %s: %s %s%s: %s%s" % (role, tensor.dtype, list(tensor.shape), layout, ", ".join(shown), more))
    for name, value in call.attributes.items():
        print("  %s = %r" % (name, value))
    if call.around:
        print("  in a graph: " + finding["call"]["graph"])
    for other in finding["others"]:
        print("others gave: " + other)
    sys.stdout.flush()


def version(package: str) -> str:
    for name in (package, package[:-4] if package.endswith("-cpu") else package + "-cpu"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return "not installed"


def read_call(call: dict[str, Any]) -> Call:
    """The call, with the tensors of the literal or of the file beside this script."""
    files = {tensor["file"] for tensor in call["tensors"].values() if tensor.get("file")}
    if files:
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.path.basename(files.pop()))
        with open(path, "rb") as file:
            tensors = dict(decode_call(file.read()).tensors)
    else:
        tensors = {role: Tensor(t["dtype"], read_codes(t), t["layout"]) for role, t in call["tensors"].items()}
    return Call(call["contract"], tensors, call["attributes"], around=tuple(call["around"]))


def read_codes(tensor: dict[str, Any]) -> Any:
    codes = [int(bits, 16) for bits in tensor["bits"].split()]
    return np.array(codes, code_dtype(tensor["dtype"])).reshape(tensor["shape"])


def user_file(path: str) -> str:
    """The path of a kernel's file, or of the file that an option names.

    It is the script's argument, or a file of that name in the current folder or the script's.
    """
    base = os.path.basename(path)
    paths = [argument for argument in sys.argv[1:] if argument != "--child"]
    for path in paths or [base, os.path.join(os.path.dirname(os.path.abspath(__file__)), base)]:
        if os.path.isfile(path):
            return os.path.abspath(path)
    raise ImportError("there is no file %s here; give its path as the argument of this script" % (paths or [base])[0])


@functools.lru_cache(maxsize=None)
def load() -> Any:
    """Load the implementation, and return a function of a call and a path.

    Raises:
        ImportError: It cannot be loaded; the message says why.
    """
    oracle, name = FINDING["oracle"], FINDING["subject"]["name"]
    if oracle is None:
        raise ImportError("this script does not know how to call %s; the call is above" % name)
    arguments = oracle["arguments"]
    if oracle["target"] == "library":
        arguments = [user_file(name.rpartition(":")[0]), name.rpartition(":")[2]]
    elif oracle["target"] == "file":
        arguments = ["%s:%s" % (user_file(name.rpartition(":")[0]), name.rpartition(":")[2])]
    elif oracle["target"] == "module":
        sys.path[:0] = [argument for argument in sys.argv[1:] if argument != "--child"] + [os.getcwd()]
    elif oracle["target"] == "option":
        arguments = [a.replace(oracle["file"], user_file(oracle["file"])) for a in arguments]
    try:
        return getattr(importlib.import_module(oracle["module"]), oracle["load"])(*arguments).answer
    except Exception as error:
        raise ImportError("%s cannot be loaded: %s: %s" % (name, type(error).__name__, error)) from error


def run(call: Call) -> Outcome:
    """Make the call through the sources at the end of this script."""
    answer = load()(call, FINDING["oracle"]["path"])
    return answer if isinstance(answer, Outcome) else Outcome("tensor", answer)


def attempt(call: Call) -> Outcome:
    """Make the call once; an exception is a refusal."""
    try:
        return run(call)
    except ImportError:
        raise
    except Exception as error:
        kind = "unreadable" if type(error).__name__ == "UnreadableResultError" else "rejected"
        return Outcome(kind, error=type(error).__name__, message=str(error)[:400])


def repeated(call: Call, number: int) -> Any:
    """Make the call this number of times, in limited time."""
    end = time.monotonic() + REPEAT_SECONDS
    for _ in range(number):
        if time.monotonic() < end:
            yield attempt(call)


def canonical(dtype: str, code: int) -> int:
    """The code, with one code for all NaNs. -0 and +0 stay different."""
    if dtype in FRACTION_BITS:
        magnitude = (1 << (BITS[dtype] - 1)) - 1
        infinity = magnitude >> FRACTION_BITS[dtype] << FRACTION_BITS[dtype]
        return -1 if code & magnitude > infinity else code
    return code


def words(dtype: str, code: int) -> str:
    """A code in decimal and in hex."""
    digits = "0x%0*x" % ((BITS[dtype] + 3) // 4, code)
    if dtype == "bfloat16":
        return "%s (%s)" % (float(np.array([code << 16], np.uint32).view(np.float32)[0]), digits)
    if dtype in FRACTION_BITS:
        return "%s (%s)" % (str(np.array([code], code_dtype(dtype)).view(dtype)[0]), digits)
    return digits


def listed(tensor: Tensor, most: int = 8) -> str:
    flat = [words(tensor.dtype, int(code)) for code in tensor.codes.reshape(-1)[:most]]
    return "%s %s: %s%s" % (tensor.dtype, list(tensor.shape), ", ".join(flat), ", ..." if tensor.size > most else "")


def compare(finding: dict[str, Any], tensor: Tensor) -> int:
    """Return 1 while a wrong value is still wrong, or while the values are those of the finding."""
    dtype, codes = tensor.dtype, tensor.codes
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
        right = any(canonical(dtype, now) == canonical(dtype, int(value["hex"], 16)) for value in legal)
        # A violation is an illegal value. Otherwise the value is one of several legal ones, and must still be that one.
        wrong += (not right) if finding["verdict"] == "violation" else same
        due = " or ".join("%s (%s; %s)" % (v["decimal"], v["hex"], ", ".join(v["readings"])) for v in legal)
        print("at %s: got       %s" % (list(index), words(dtype, now)))
        print("%s  should be %s" % (" " * len("at %s" % list(index)), due))
    if finding["legal"]:
        return int(wrong > 0)
    earlier = read_codes(got).reshape(-1) if got else []
    same = len(earlier) == codes.size and all(
        canonical(dtype, int(a)) == canonical(dtype, int(b)) for a, b in zip(earlier, codes.reshape(-1))
    )
    return int(same)


def in_child(quiet: bool = False) -> int:
    """Make the call in another process. Return 1 if that process dies or does not return.

    Args:
        quiet: Leave out what the process prints.
    """
    import signal
    import tempfile

    command = [sys.executable, os.path.abspath(__file__), "--child", *sys.argv[1:]]
    with tempfile.TemporaryFile() as log:
        try:
            printed = subprocess.DEVNULL if quiet else None
            status = subprocess.run(command, stdout=printed, stderr=log, timeout=LIMIT_SECONDS).returncode
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


def in_children() -> int:
    """Make the call in other processes until one dies or does not return, or all were tried.

    Count those that do.
    """
    end = time.monotonic() + TRY_SECONDS
    status = in_child()
    if status:
        return status
    statuses: list[int] = [status]
    while len(statuses) < MOST_TRIES and time.monotonic() < end:
        statuses.append(in_child(quiet=True))
    seen = sum(status == 1 for status in statuses)
    print("seen in %d of %d tries" % (seen, len(statuses)) if seen else "not seen in %d tries" % len(statuses))
    return int(seen > 0)


def conclude(finding: dict[str, Any], call: Call) -> int:
    """Make the call, print the outcome, and return 1 if the discrepancy is still there."""
    verdict = finding["verdict"]
    earlier = finding["got"]["kind"] if finding["got"] else "tensor"
    notes: list[str] = finding["got"]["notes"] if finding["got"] else []
    outcome = attempt(call)
    tensor = outcome.tensor
    what = "unreadable" if outcome.kind == "unreadable" else "refused, %s" % outcome.error
    print("outcome: " + (listed(tensor) if tensor else "%s: %s" % (what, outcome.message)))
    sys.stdout.flush()
    if verdict in ("crash", "hang"):
        return 0
    if verdict == "wrongly-accepted":
        return int(tensor is not None)
    if earlier in ("rejected", "unsupported", "unreadable"):
        if outcome.error == "AttributeError" != finding["got"]["error"]:
            print("this version lacks a function that the call is made with")
            return 3
        return int(tensor is None)
    if tensor is None:
        print("this version refuses the call")
        return 3
    if verdict == "memory":
        # Some faults show only when a result is looked at again after later calls.
        seen = {note for answer in [outcome, *repeated(call, 4)] for note in answer.notes}
        print("noted: " + (", ".join(sorted(seen)) or "nothing"))
        return int(any(note in notes for note in seen))
    if verdict == "nondeterministic" and "[" in finding["subject"]["name"]:
        setting = finding["subject"]["name"].split("[")[1].split("]")[0]
        print("this is the answer with %s; the finding also has the answer without it" % setting)
        return compare(dict(finding, legal=[]), tensor)
    if verdict == "nondeterministic":
        flipped = {role: replace(t, codes=np.flip(t.codes) ^ 1) for role, t in call.tensors.items()}
        if "threads-differ" in notes:
            attempt(replace(call, tensors=flipped))  # a call that other threads make meanwhile
        more = [outcome, *repeated(call, 100)]
        apart = sum(not outcome.same(other) or any(note in notes for note in other.notes) for other in more)
        print("%d of %d answers differ" % (apart, len(more)))
        return int(apart > 0)
    return compare(finding, tensor)


def main(finding: dict[str, Any]) -> int:
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    os.environ.update(finding["environment"])
    child, why = "--child" in sys.argv, ""
    try:
        call = read_call(finding["call"])
        if not child:
            introduce(finding, call)
        deadly = finding["verdict"] in ("crash", "hang") and not child
        status = in_children() if deadly else conclude(finding, call)
    except Exception as error:
        status, why = 3, ": %s: %s" % (type(error).__name__, error)
    if not child or why:
        absent = (
            "the discrepancy did not show" if finding["verdict"] in ("crash", "hang") else "the discrepancy is gone"
        )
        result = {0: absent, 1: "the discrepancy is there"}
        print(result.get(status, "cannot be told here") + why)
    if child:
        sys.stdout.flush()
        os._exit(RETURNED + status)  # a crash at exit would not come from the call
    return status


def on_texts(finding: dict[str, Any]) -> int:
    """Print both sides of a conflict between documents."""
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
        due: list[str] = ["%s (%s)" % (value["decimal"], value["hex"]) for value in entry["legal"]]
        print(
            "at %s %s gives %s (%s)" % (entry["index"], finding["subject"]["name"], entry["got_decimal"], entry["got"])
        )
        print("   while %s allows %s" % (finding["contract"], " or ".join(due)))
    for other in finding["others"]:
        print("others gave: " + other)
    return 1
