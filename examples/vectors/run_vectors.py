"""Run a corpus of `xverify vectors` on a Python kernel: python run_vectors.py CORPUS/vectors.jsonl package.module:function
The kernel gets the inputs as NumPy arrays and the attributes as keywords; an output type comes as out_dtype. Any exception
refuses the call, and NotImplementedError skips it. ml_dtypes has the types that NumPy lacks; without it, their calls are skipped.
"""

import importlib
import json
import sys
from pathlib import Path

import numpy as np


def dtype_of(name):
    return np.dtype(name) if hasattr(np, name) else np.dtype(getattr(importlib.import_module("ml_dtypes"), name))


def array_of(text, dtype, shape):
    one_digit = len(text) == np.prod(shape)  # types of 2 and 4 bits
    raw, width = bytes.fromhex("".join("0" + d for d in text) if one_digit else text), dtype_of(dtype).itemsize
    return np.frombuffer(raw, f">u{width}").astype(f"u{width}").view(dtype_of(dtype)).reshape(shape)


def check(call, kernel, cells):  # returns "right" or "skipped", or a sentence on the first wrong value
    try:
        inputs = [array_of(t["codes"], t["dtype"], t["shape"]) for t in call["inputs"]]
        keywords = dict(call["attributes"])
        for name in {"output_dtype", "dtype"} & keywords.keys():
            keywords["out_dtype"] = dtype_of(keywords.pop(name))
        got = np.asarray(kernel(*inputs, **keywords))
    except (NotImplementedError, ImportError):
        return "skipped"
    except Exception as error:
        return "right" if "refused" in call else f"the kernel refused a legal call: {error!r}"
    if "refused" in call:
        return f"the kernel answered a call that {call['refused'][0]['clause']} forbids"
    dtype, shape = call["output"]["dtype"], call["output"]["shape"]
    if (got.dtype.name, list(got.shape)) != (dtype, shape):
        return f"got {got.dtype.name}{list(got.shape)} legal {dtype}{shape}"
    got, legal = got.reshape(1, -1), np.stack([array_of(text, dtype, shape).reshape(-1) for text in call["legal"]])
    bits, due = (array.view(f"u{got.itemsize}") for array in (got, legal))
    same = (bits == due) | (np.isnan(got) & np.isnan(legal))
    alive = np.logical_and.accumulate(same, axis=1)  # for each result, True where it gives all values up to here
    if not alive.any(axis=0).all():
        at = int(alive.any(axis=0).argmin())
        left = sorted({f"{code:x}" for code in due[alive[:, at - 1] | (at == 0), at]})
        return f"index {at} got {bits[0, at]:x} legal {' or '.join(left)}"
    if len(legal) > 1:  # the calls of a cell must have a reading in common
        names = {name for row, group in zip(same, call["readings"], strict=True) if row.all() for name in group}
        cells[call["cell"]] = names & cells.get(call["cell"], names)
    return "right" if cells.get(call["cell"], True) else f"no one reading explains all calls of {call['cell']}"


if __name__ == "__main__":
    sys.path.insert(0, "")
    (module, _, function), cells, counts = sys.argv[2].partition(":"), {}, {"right": 0, "skipped": 0}
    for call in map(json.loads, Path(sys.argv[1]).read_text().splitlines()):
        word = check(call, getattr(importlib.import_module(module), function), cells)
        counts[word if word in counts else sys.exit(f"WRONG call {call['id']}: {word}")] += 1
    sys.exit(print(", ".join(f"{count} calls {word}" for word, count in counts.items())) or not counts["right"])
