"""A report made by hand, with every status, every verdict, text findings and large calls."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from sample_editions import DIVIDE, ONEDNN, ONNX, TENSORFLOW, plain_editions

from xverify.report.schema import upgraded

VERSIONS = {
    "onnxruntime": "1.27.0",
    "onnx-reference": "1.23.2",
    "tensorflow": "2.22.0",
    "xverify-numpy": "0.1.0",
}


def tensor(
    dtype: str, shape: Sequence[int], data: Sequence[str], hexes: Sequence[str], layout: str = "C"
) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "layout": layout, "data": list(data), "hex": list(hexes)}


def call(contract: str, tensors: Mapping[str, Any], **attributes: Any) -> dict[str, Any]:
    return {"contract": contract, "tensors": dict(tensors), "attributes": attributes, "origin": "walk"}


def linear_call(**attributes: Any) -> dict[str, Any]:
    """Return a call of (-2^31 - 1) * 1 in float32: x and zero point are int32, the scale is 1."""
    return call(
        ONNX,
        {
            "x": tensor("int32", [1], ["-2147483648"], ["0x80000000"]),
            "scale": tensor("float32", [], ["1.0"], ["0x3f800000"]),
            "zero_point": tensor("int32", [], ["1"], ["0x00000001"]),
        },
        **attributes,
    )


def small_call(x: str = "3", code: str = "0x03", **attributes: Any) -> dict[str, Any]:
    """Return a call of x * 0.5 with one int8."""
    return call(
        ONNX,
        {
            "x": tensor("int8", [1], [x], [code]),
            "scale": tensor("float32", [], ["0.5"], ["0x3f000000"]),
        },
        **attributes,
    )


def range_call() -> dict[str, Any]:
    return call(
        TENSORFLOW,
        {
            "input": tensor("uint8", [2], ["0", "255"], ["0x00", "0xff"]),
            "min_range": tensor("float32", [], ["0.0"], ["0x00000000"]),
            "max_range": tensor("float32", [], ["6.0"], ["0x40c00000"]),
        },
        mode="MIN_COMBINED",
    )


def gave(dtype: str, shape: Sequence[int], data: Sequence[str], hexes: Sequence[str]) -> dict[str, Any]:
    return {
        "kind": "tensor",
        "tensor": tensor(dtype, shape, data, hexes),
        "error": "",
        "message": "",
        "notes": [],
    }


def refused(kind: str, error: str, message: str) -> dict[str, Any]:
    return {"kind": kind, "tensor": None, "error": error, "message": message, "notes": []}


def wrong(index: Sequence[int], got: tuple[str, str], *legal: tuple[str, str, list[str]]) -> dict[str, Any]:
    entries = [{"decimal": d, "hex": h, "readings": names} for d, h, names in legal]
    return {"index": list(index), "got_decimal": got[0], "got": got[1], "legal": entries}


def cell_key(
    contract: str, x_dtype: str = "int8", granularity: str = "per_tensor", variant: str = ""
) -> dict[str, str]:
    scale = "float32"
    return {
        "contract": contract,
        "x_dtype": x_dtype,
        "scale_dtype": scale,
        "zero_point_dtype": "" if contract == TENSORFLOW else x_dtype,
        "out_dtype": "float32",
        "granularity": granularity,
        "variant": variant,
    }


def finding(
    verdict: str,
    name: str,
    contract: str,
    clause: str,
    summary: str,
    witness: dict[str, Any] | None,
    **changes: Any,
) -> dict[str, Any]:
    role = "edition" if "/" in name else "kernel" if name.startswith("xverify") else "oracle"
    key = cell_key(contract, x_dtype="int32" if verdict == "violation" else "int8")
    made = {
        "id": f"{verdict}-{abs(hash_of(verdict + name + contract)):010x}",
        "verdict": verdict,
        "contract": contract,
        "clause": f"{contract}/{clause}",
        "subject": {"name": name, "version": VERSIONS.get(name, "the document"), "role": role, "options": ""},
        **{k: key[k] for k in ("x_dtype", "scale_dtype", "out_dtype", "granularity", "variant")},
        "cells": [] if witness is None else [key],
        "attribution": None,
        "cases": 412,
        "values": 88_204,
        "max_ulp": 3,
        "witness": witness,
        "others": [{"name": "xverify-numpy", "outcome": "float32 [-2147483648.0 (0xcf000000)]"}],
        "shrunk": "minimal",
        "reproduce": "scripts/x.py" if witness else "",
        "known": False,
        "summary": summary,
    }
    return {**made, **changes}


def hash_of(text: str) -> int:
    """Return a small hash that is the same in every process."""
    value = 5381
    for character in text:
        value = (value * 33 + ord(character)) & 0xFFFFFFFFFF
    return value


def findings() -> list[dict[str, Any]]:
    wrapped = {
        "call": linear_call(),
        "got": gave("float32", [1], ["2147483648.0"], ["0x4f000000"]),
        "legal": [
            wrong([0], ("2147483648.0", "0x4f000000"), ("-2147483648.0", "0xcf000000", ["exact", "float32"])),
        ],
    }
    third = {
        "call": range_call(),
        "got": gave("float32", [2], ["0.0", "5.9999995"], ["0x00000000", "0x40bfffff"]),
        "legal": [
            wrong(
                [1],
                ("5.9999995", "0x40bfffff"),
                ("6.0", "0x40c00000", ["min-combined-exact", "min-combined-float32-product-first"]),
                ("5.9999995", "0x40bfffff", ["min-combined-float32-factor-first"]),
            )
        ],
    }
    plain = gave("float32", [1], ["1.5"], ["0x3fc00000"])
    large = call(ONNX, {**small_call()["tensors"], "x": {
        "dtype": "int8", "shape": [65537], "layout": "strided", "generator": "walk 412: every code, permuted",
        "digest": "0123456789abcdef0123456789abcdef", "file": "scripts/nondeterministic.call"}})  # fmt: skip
    return [
        finding(
            "violation",
            "onnxruntime",
            ONNX,
            "formula",
            "onnxruntime subtracts in int32 with wrap-around, which contradicts 'formula'",
            wrapped,
            attribution={
                "reading": "wraps-int32",
                "words": "subtracts in int32 with wrap-around, rounds the product to float32",
                "explained_values": 88_204,
                "values": 88_204,
                "elsewhere": {"reading": "exact", "words": "rounds the exact value of (x - zero point) * scale once"},
            },
            region={"name": "difference-overflows", "words": "|x - zero point| >= 2^31"},
            max_ulp=2_130_706_432,
            cells=[cell_key(ONNX, "int32", g) for g in ("per_tensor", "per_axis", "blocked")],
        ),
        finding("mixed", "tensorflow", TENSORFLOW, "formula-min-combined",
                "tensorflow gives legal values that no single reading explains (uint8, float32, to float32, per tensor)", third,
                region={"name": "none", "words": "no simple region"},
                ulp_histogram=[{"from": 1, "to": 1, "count": 80_000}, {"from": 2, "to": 3, "count": 8_203},
                               {"from": -1, "to": -1, "count": 1}]),
        finding("ambiguity", "onnx-reference", ONNX, "one-element-scale",
                "the clause 'one-element-scale' leaves the call open, and onnx-reference computes what onnxruntime refuses",
                {"call": small_call(axis=0), "got": plain, "legal": []}, shrunk="not reached", max_ulp=0),
        finding("conflict", DIVIDE, ONEDNN, "formula",
                f"{ONEDNN} and {DIVIDE} allow the same call and no result satisfies both",
                {"call": {**small_call(), "contract": ONEDNN}, "got": gave("float32", [1], ["6.0"], ["0x40c00000"]),
                 "legal": [wrong([0], ("6.0", "0x40c00000"), ("1.5", "0x3fc00000", ["exact", "float32"]))]},
                detail=f"{DIVIDE}/formula",
                followed=[{"subject": "onednn-formula-multiply", "contract": ONEDNN, "values": 1_204, "of": 1_204},
                          {"subject": "onednn-formula-divide", "contract": DIVIDE, "values": 1_204, "of": 1_204}]),
        finding("conflict", TENSORFLOW, TENSORFLOW, "formula-scaled",
                f"{TENSORFLOW} contradicts itself: the text declares max_scale_factor twice", None,
                cases=0, values=0, max_ulp=0, others=[], shrunk="not shrinkable"),
        finding("wrongly-accepted", "onnx-reference", ONNX, "zero-point-type",
                "onnx-reference computes a call that the clause 'zero-point-type' forbids",
                {"call": call(ONNX, {**small_call()["tensors"], "zero_point": tensor("uint8", [], ["0"], ["0x00"])}),
                 "got": plain, "legal": []}, known=True),
        finding("wrongly-rejected", "onnxruntime", ONNX, "granularity",
                "onnxruntime refuses an allowed blocked call with x of int8 (Fail), though it answers others of the same cell",
                {"call": small_call(axis=0, block_size=2), "got": refused("rejected", "Fail", "[ONNXRuntimeError] : 1 : FAIL"),
                 "legal": []}, subject={"name": "onnxruntime", "version": "1.27.0", "role": "oracle",
                                        "options": "optimization=off"}, granularity="blocked",
                cells=[cell_key(ONNX, "int8", "blocked")]),
        finding("unreadable-result", "onnxruntime", ONNX, "output-type", "onnxruntime returns what xverify cannot read from an "
                "allowed call (int8, float32, to float32, per tensor): the result is None; return a NumPy array",
                {"call": small_call(), "got": refused("unreadable", "NoneType", "the result is None; return a NumPy array"),
                 "legal": []}, detail="NoneType"),
        finding("crash", "tensorflow", TENSORFLOW, "range-type", "tensorflow ends the process on a forbidden call: Fatal Python "
                "error: Aborted", {"call": range_call(), "got": refused("crash", "SIGABRT", "Fatal Python error: Aborted"),
                                   "legal": []}),
        finding("hang", "onnxruntime", ONNX, "formula", "onnxruntime does not answer on an allowed call (allowed): ",
                {"call": small_call(), "got": refused("hang", "", "no answer in 10 s"), "legal": []}),
        finding("nondeterministic", "onnxruntime", ONNX, "formula", "onnxruntime answers the same call twice with different bits",
                {"call": large, "got": {**plain, "tensor": {"dtype": "float32", "shape": [65537], "layout": "C", "generator":
                                        "the implementation's result", "digest": "", "file": ""}}, "legal": []}),
        finding("memory", "xverify-numpy", ONNX, "formula", "xverify-numpy writes to its inputs",
                {"call": small_call(), "got": {**plain, "notes": ["input-written"]}, "legal": []}),
        finding("not-followed", "xverify-numpy", DIVIDE, "formula",
                f"xverify-numpy does not follow {DIVIDE} (900 of 1 204 values differ); it follows {ONEDNN}",
                {"call": {**small_call(), "contract": DIVIDE}, "got": gave("float32", [1], ["6.0"], ["0x40c00000"]),
                 "legal": [wrong([0], ("6.0", "0x40c00000"), ("1.5", "0x3fc00000", ["exact", "float32"]))]},
                cells=[cell_key(DIVIDE)], values=900,
                followed=[{"subject": "xverify-numpy", "contract": DIVIDE, "values": 304, "of": 1_204}]),
        finding("changed", "onnxruntime", ONNX, "formula", "fixed in onnxruntime 1.27.0: 1.17.0 subtracts in int32 with "
                "wrap-around, which contradicts 'formula'", {"call": small_call(), "got": plain, "legal": []}, max_ulp=0,
                reference="onnxruntime==1.17.0", readings=["wraps-int32"],
                change={"name": "onnxruntime", "older": "1.17.0", "newer": "1.27.0", "kind": "fixed", "what": "wraps-int32",
                        "step": "fixed: values", "judged": True}),
    ]  # fmt: skip


def cells() -> list[dict[str, Any]]:
    made = []

    def add(key: dict[str, str], subject: str, status: str, reading: list[str], values: int = 104_000) -> None:
        cell: dict[str, Any] = {**key, "subject": subject, "cases": 300, "values": values, "status": status}
        cell |= {"reading": reading, "attribution": None, "remaining": None}
        if reading and (subject == "xverify-numpy" or reading == ["float32"]):
            words = {"exact": "rounds the exact value of (x - zero point) * scale once"}.get(
                reading[0], "rounds each step"
            )
            cell["attribution"] = {"reading": reading[0], "words": words, "values": values, "legal": True}
            cell["remaining"] = {"equal": 12, "others": [], "more": 0}
        if status == "violation":
            cell["attribution"] = {"reading": "wraps-int32", "words": "subtracts in int32 with wrap-around",
                                   "values": values, "legal": False}  # fmt: skip
            cell["remaining"] = {"equal": 0, "others": [f"wraps-{n}" for n in range(8)], "more": 3}
        if subject.startswith("onnxruntime["):
            # Reports had this form before every cell named its recipe.
            del cell["attribution"], cell["remaining"]
        made.append(cell)

    for x_dtype in ("int8", "uint8", "int16", "int32", "float8_e4m3fn", "uint4"):
        for granularity in ("per_tensor", "per_axis", "blocked"):
            key = cell_key(ONNX, x_dtype, granularity)
            add(key, "onnxruntime", "violation" if x_dtype == "int32" else "agrees", ["exact", "float32"])
            status = "wrongly-rejected" if (x_dtype, granularity) == ("int8", "blocked") else "agrees"
            add(key, "onnxruntime[optimization=off]", status, ["exact", "float32"], 21_000)
            add(key, "onnx-reference", "unsupported" if x_dtype == "uint4" else "agrees", ["float32"])
            add(key, "xverify-numpy", "agrees", ["exact"])
    for granularity in ("per_tensor", "per_axis"):
        key = cell_key(ONEDNN, "int8", granularity)
        add(key, "xverify-numpy", "agrees", ["exact", "float32"])
    for mode, status in (("MIN_COMBINED", "mixed"), ("MIN_FIRST", "agrees"), ("SCALED", "ambiguous")):
        key = cell_key(TENSORFLOW, "uint8", variant=mode)
        add(key, "tensorflow", status, [] if status == "mixed" else ["scaled-float32"])
        add(key, "xverify-numpy", "agrees", ["min-combined-exact"])
    add(cell_key(TENSORFLOW, "int8", variant="MIN_FIRST narrow"), "tensorflow", "crash", [], 12)
    add(cell_key(TENSORFLOW, "int8", "per_axis"), "tensorflow", "unspecified", [], 4_000)
    add(cell_key(DIVIDE), "xverify-numpy", "not-judged-differs", [], 900)
    return made


def editions() -> list[dict[str, Any]]:
    made = plain_editions()
    standing = {
        f"{ONNX}/formula": (["xverify-numpy"], ["onnxruntime"], [("onnx-reference", "not told apart")]),
        f"{ONNX}/zero-point-type": (["onnxruntime", "xverify-numpy"], ["onnx-reference"], []),
        f"{ONNX}/granularity": ([], [], [("onnx-reference", "refuses")]),
    }
    ids = {(f["clause"], f["subject"]["name"]): f["id"] for f in reversed(findings())}
    for clause in (clause for one in made for clause in one["clauses"]):
        if clause["id"] in standing:
            follow, depart, untold = standing[clause["id"]]
            clause["follow"] = follow
            clause["depart"] = [{"subject": name, "finding": ids[clause["id"], name]} for name in depart]
            clause["untold"] = [{"subject": name, "why": why} for name, why in untold]
    return made


def workers() -> list[dict[str, Any]]:
    rows = [
        ("onnxruntime", "optimization=off, initializers", 24_113, 6.31, "answered"),
        ("onnx-reference", "", 20_120, 14.02, "answered"),
        ("tensorflow", "", 5_204, 11.8, "answered"),
        ("xverify-numpy", "", 31_077, 4.4, "answered"),
        ("openvino", "", 0, 0.0, "openvino cannot be imported: No module named 'openvino'"),
    ]
    return [
        {
            "name": n,
            "version": VERSIONS.get(n, "not installed"),
            "options": o,
            "calls": c,
            "seconds": s,
            "status": status,
        }
        for n, o, c, s, status in rows
    ]


def sample_report() -> dict[str, Any]:
    """Return a fresh report that a test may change."""
    report = {
        "schema": "xverify.report/1",  # `upgraded` adds the causes
        "run": {
            "id": "20260803-141502-7f3a",
            "command": "xverify sweep --budget 60s --seed 0",
            "seed": 0,
            "started": "2026-08-03T14:15:02Z",
            "seconds": 67.2,
            "own_seconds": {"judging": 24.1, "making calls": 17.9, "waiting for answers": 0.0, "shrinking": 11.2},
            "budget": 60.0,
            "cases": None,
            "complete": True,
            "machine": {
                "system": "Linux",
                "architecture": "x86_64",
                "processor": "AMD EPYC 9V74",
                "instructions": "avx2 avx512f",
                "cores": 2,
            },
            "versions": {"xverify": "0.1.0", "python": "3.11.9", "numpy": "2.3.1", "onnx": "1.23.2", "tensorflow-cpu": "2.22.0"},
            "phases": {"walk": 9_120, "hypothesis": 20_904, "invalid": 1_610, "unspecified": 830},
            "workers": workers(),
        },
        "editions": editions(),
        "coverage": {
            "cases": 32_464,
            "values": 6_204_311,
            "cells": cells(),
            "trust": {
                "met": {"rank 0": 512, "rank 4": 810, "blocks with a remainder": 214, "subnormal results": 90_112,
                        "codes of int8": 256, "NaN scales": 3_411, "rejections of forbidden calls": 1_402},
                "not_met": ["rank 6", "extents past 65 536", "12 of the 256 codes of float8_e5m2"],
            },
        },
        "findings": findings(),
    }  # fmt: skip
    return dict(upgraded(copy.deepcopy(report)))


HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"' onclick='x' javascript:alert(3) {{7*7}} [bold]"
)
"""Text that does harm wherever it is not escaped."""


def hostile_report() -> dict[str, Any]:
    """Return the sample with hostile text added to every free string, ids and names included."""
    kept = {"schema", "verdict", "role", "kind", "severity", "status", "shrunk", "hex", "dtype", "layout"}

    def soil(value: Any, name: str = "") -> Any:
        if isinstance(value, str) and name not in kept:
            return value + HOSTILE
        if isinstance(value, list):
            return [soil(item, name) for item in value]
        if isinstance(value, dict):
            return {(k + HOSTILE if name in ("met", "versions") else k): soil(v, k) for k, v in value.items()}
        return value

    report = soil(sample_report())
    for cell, clean in zip(report["coverage"]["cells"], cells(), strict=True):
        cell["status"] = clean["status"]
    for tensor_entry in _tensors(report):
        tensor_entry["dtype"] += HOSTILE
    return dict(report)


def _tensors(report: dict[str, Any]) -> list[dict[str, Any]]:
    witnesses = [f["witness"] for f in report["findings"] if f["witness"]]
    return [tensor for witness in witnesses for tensor in witness["call"]["tensors"].values()]
