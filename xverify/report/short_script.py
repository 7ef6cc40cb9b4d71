"""The shortest script that shows a finding, for a maintainer who reads it in an issue.

`script` decides if a discrepancy is still there. This module makes about twenty lines: the framework's own calls on the
witness, and prints. The implementation's module writes the lines that make the call (`xverify.oracles.short_form`). Only
three things from a report become code: parsed numbers, names that were looked up, and ``repr`` of attributes.
"""

from __future__ import annotations

import base64
import importlib
import itertools
import re
import textwrap
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
from packaging.version import InvalidVersion, Version

from xverify.core.call import BITS, LEAST_RANK, SLACK, Call, Tensor, constant_axes
from xverify.core.codec import call_from_json, tensor_from_json
from xverify.core.dtypes import decimal
from xverify.core.surroundings import Graph
from xverify.environments.other_versions import needs_of
from xverify.oracles.onnx_model import graph_of
from xverify.oracles.protocol import Oracle
from xverify.oracles.short_form import Program, ShortCall, ShortForm, feeds, is_numpy
from xverify.report.script import environment, implementation, oracle_of
from xverify.report.summary import Json
from xverify.verify.variants import setting_of

MOST_PLACES = 4
"""The number of result elements that a script prints one by one."""

MOST_SPELLED = 300
"""The largest tensor that is spelled out: every code of a byte, and a few more. Larger ones are compressed."""

MOST_IN_LINE = 110
"""Width of a line with the values of a tensor."""

_ONNX_ROLES = ("x", "scale", "zero_point")
_RANGE_ROLES = ("input", "min_range", "max_range")


@dataclass(frozen=True)
class Short:
    """A short script or program."""

    text: str
    language: str = "python"
    packages: tuple[str, ...] = ()
    """The distributions that it needs, those of the implementation with their version."""
    command: str = ""
    """The command of a shell that builds a program and runs it. Empty for a script of Python."""


def short_script(finding: Json) -> str | None:
    """The text of `short_program`, or None if there is none."""
    short = short_program(finding)
    return None if short is None else short.text


def short_program(finding: Json) -> Short | None:
    """The script or program, or None if there is none.

    There is none for a finding on a text alone, for an implementation without a short form, for a comparison of two ways that
    no environment variable chooses, and for a witness whose values are in a file.
    """
    subject = finding["subject"]
    variables = environment(subject)
    if setting_of(subject["name"]) and finding["verdict"] == "nondeterministic" and not variables:
        return None
    oracle, call = oracle_of(subject), read_witness(finding)
    if oracle is None or call is None or not any(fnmatchcase(call.contract, pattern) for pattern in oracle.contracts):
        return None
    write = getattr(importlib.import_module(oracle.module), "short_form", None)
    form: ShortForm | Program | None = write(call) if write is not None else None
    if form is None:
        return None
    if isinstance(form, Program):
        text = "\n".join(form.lines) + "\n"
        return None if variables else Short(text, form.language, tuple(form.packages), form.command)
    tensors = call.tensors if form.operands is None else form.operands
    operands: list[str] = []
    for name, tensor in tensors.items():
        lines, comment = operand(name, tensor, form.copies), form.comments.get(name)
        alone = [f"{lines[0]}  # {comment}"] if len(lines) == 1 and "#" not in lines[0] else [f"# {comment}", *lines]
        operands += alone if comment else lines
    imports = ["import numpy as np", *form.imports]
    # The literals hold numbers only, so the modules that they need can be read off them.
    text = "\n".join(operands)
    modules = {name for name in ("base64", "ml_dtypes", "zlib") if f"{name}." in text} | set(form.modules)
    if "ml_dtypes" in modules:
        imports.insert(0, "import ml_dtypes")
    modules |= {"os"} if variables else set()
    standard = [f"import {name}" for name in sorted(modules - {"ml_dtypes"})]
    head = [*standard, *([""] if standard else []), *_set(variables, oracle, finding["verdict"]), *imports]
    script = "\n".join([*head, "", *operands, "", *_shown(finding, call, form)]) + "\n"
    return Short(script, packages=_packages(oracle, call.version, script))


def _packages(oracle: Oracle, version: str, script: str) -> tuple[str, ...]:
    """The distributions that a script imports. Empty for code that no distribution holds."""
    try:
        number = Version(version).public
    except InvalidVersion:
        return ()
    if oracle.in_house or not oracle.distribution:
        return ()
    own = [f"{oracle.distribution}=={number}", *(need.format(version=number) for need in needs_of(oracle, number))]
    named = {re.split("[=<]", package)[0] for package in own}
    imported = [name for name in ("onnx", "numpy", "ml_dtypes") if re.search(f"^(import|from) {name}\\b", script, re.M)]
    return (*own, *(name for name in imported if name not in named))


def _set(variables: Mapping[str, str], oracle: Oracle, verdict: str) -> list[str]:
    """Lines that set environment variables before a framework is imported."""
    usual = dict(oracle.environment)
    lines = []
    for name, value in variables.items():
        other = f'"{usual[name]}" here' if name in usual else "a run without this line"
        comment = f"  # compare with {other}" if verdict == "nondeterministic" else ""
        lines.append(f'os.environ["{name}"] = "{value}"{comment}')
    return lines


# -- the call --------------------------------------------------------------------------------------------


def read_witness(finding: Json) -> ShortCall | None:
    """The call of a finding's witness.

    None for a finding on a text alone, and for a witness whose values are in a file.
    """
    witness, subject = finding["witness"], finding["subject"]
    if witness is None or subject["role"] == "edition":
        return None
    entries, attributes = witness["call"]["tensors"], witness["call"]["attributes"]
    roles = _ONNX_ROLES if "x" in entries else _RANGE_ROLES
    if not {roles[0]} <= set(entries) <= set(roles) or not all(
        re.fullmatch("[a-z_]{1,40}", name) for name in attributes
    ):
        return None
    try:
        tensors = {role: tensor_from_json(entries[role]) for role in roles if role in entries}
    except (KeyError, ValueError, OverflowError):
        return None
    graph = _graph_of_witness(witness["call"])
    if graph is not None:
        tensors = {**graph[1].inputs, **graph[1].constants}
    elif witness["call"].get("around"):
        return None
    got = (witness["got"] or {}).get("tensor")
    out = got["dtype"] if got and got["dtype"] in BITS else finding["out_dtype"]
    return ShortCall(
        contract=witness["call"]["contract"],
        tensors=tensors,
        attributes=dict(attributes),
        name=implementation(subject),
        full_name=subject["name"],
        options=subject["options"],
        out_dtype=out or "float32",
        graph=graph,
        version=subject["version"],
        ending=_ending(finding),
        shown=tuple((tuple(entry["index"]), _allowed(entry)) for entry in witness["legal"][:MOST_PLACES]),
    )


def _ending(finding: Json) -> str:
    got = finding["witness"]["got"]
    if finding["verdict"] in ("crash", "hang"):
        return str(finding["verdict"])
    return "refusal" if got is not None and got["kind"] in ("rejected", "unsupported") else ""


def _allowed(entry: Json) -> str:
    """The allowed results of an element, for a comment."""
    return _comment(" or ".join(f"{result['decimal']} {result['hex']}" for result in entry["legal"]))


def _graph_of_witness(call: Json) -> tuple[Call, Graph] | None:
    """A witness in its surroundings.

    None if it stands alone, has values in a file, is damaged, or is in a graph that cannot be made.
    """
    if not call.get("around") or not all("hex" in tensor for tensor in call["tensors"].values()):
        return None
    try:
        lone = call_from_json(call, Path())
        return lone, graph_of(lone)
    except (ValueError, KeyError, IndexError):
        return None


# -- the prints ------------------------------------------------------------------------------------------


def _shown(finding: Json, call: ShortCall, form: ShortForm) -> list[str]:
    """The call with the comment that a reader needs before it, and the prints after it."""
    verdict, got = finding["verdict"], finding["witness"]["got"]
    *before, last = form.body
    if verdict == "crash":
        return [*before, "# The process ends here instead of raising an exception.", last]
    if verdict == "hang":
        return [*before, "# This does not return.", last]
    if got is not None and got["kind"] in ("rejected", "unsupported"):
        return ["# One of the lines below raises." if before else "# This raises.", *before, last]
    if verdict == "unreadable-result":
        return [*form.body, "print(type(y), y)  # an array is due"]
    if verdict == "nondeterministic" and not setting_of(finding["subject"]["name"]):
        expression = last.partition(" = ")[2]
        repeated = f"answers = {{{expression}.tobytes() for _ in range(100)}}"
        return [*before, repeated, 'print(len(answers), "different answers to the same call")']
    if verdict == "memory":
        return _watched(call, form)
    width = BITS[call.out_dtype]
    entries = finding["witness"]["legal"][:MOST_PLACES]
    lines = [*form.body, f"bits = y.view(np.uint{max(8, width)})", "print(y.dtype, y.shape)"]
    for entry in entries:
        index = ", ".join(map(str, _index_in_graph(call, entry["index"]))) or "()"
        lines.append(f"print(y[{index}], hex(bits[{index}]))  # allowed: {_allowed(entry)}")
    if entries:
        return lines
    return [*lines[:-1], "print(y.dtype, y.shape, y.ravel()[:8], [hex(code) for code in bits.ravel()[:8]])"]


def _index_in_graph(call: ShortCall, index: list[int]) -> list[int]:
    """The index, in the script's ``y``, of an element of a finding's result."""
    if call.graph is None or call.graph[1].changes_values:
        return index
    graph = call.graph[1]
    flat = int(np.ravel_multi_index(tuple(index), graph.lone_shape)) if index else 0
    return [int(i) for i in np.unravel_index(int(graph.places[flat]), graph.shape)]


def _comment(text: str) -> str:
    """The text as comment lines, so that none of it becomes code."""
    # A backslash at the end of a line would make the next line of C a comment as well.
    return "".join(character for character in text if character.isprintable() and character != "\\")[:400]


def _watched(call: ShortCall, form: ShortForm) -> list[str]:
    """Lines that print whether inputs are written to, and whether the output shares memory with them."""
    names = [name for name in (call.tensors if form.operands is None else form.operands) if name in call.tensors]
    return [
        f"handed = {feeds(names)}",
        "before = {name: array.tobytes() for name, array in handed.items()}",
        *form.body,
        "for name, array in handed.items():",
        '    print(name, "unchanged:", array.tobytes() == before[name], '
        '"shared with the output:", np.may_share_memory(array, y))',
    ]


# -- tensors as literals ---------------------------------------------------------------------------------


def operand(name: str, tensor: Tensor, copied: bool = False) -> list[str]:
    """Lines that assign a tensor to a variable, with exactly its bits and its layout in memory.

    Args:
        copied: True if the layout does not matter.
    """
    if (tensor.shape == () and tensor.layout != "misaligned") or tensor.layout == "C" or copied:
        return _assigned(name, tensor)
    return [*_assigned(name, tensor), *_laid_out(name, tensor)]


def _assigned(name: str, tensor: Tensor) -> list[str]:
    own = is_numpy(tensor.dtype)
    dtype = tensor.dtype if own else tensor.codes.dtype.name
    values = _decimals(tensor) if own else None
    bits = tensor.codes.reshape(-1)
    view = "" if own else f".view(ml_dtypes.{tensor.dtype})"
    if values is None:
        digits = -(-BITS[tensor.dtype] // 4)
        values = [f"0x{int(code):0{digits}x}" for code in bits]
        if own:
            dtype, view = tensor.codes.dtype.name, f".view(np.{tensor.dtype})"
    comment = f"  # {first_values(tensor)}" if view and tensor.size else ""
    if tensor.size > 1 and (bits == bits[0]).all():
        shape = _extents(tensor.shape)
        return [f"{name} = np.full({shape}, {values[0]}, np.{dtype}){view}{comment}"]
    reshape = "" if len(tensor.shape) < 2 else f".reshape{_extents(tensor.shape)}"
    listed = ", ".join(values)
    for text in [f"[{listed}]", _in_runs(values)] if tensor.shape else [listed]:
        line = f"{name} = np.array({text}, np.{dtype}){reshape}{view}{comment}"
        if len(line) <= MOST_IN_LINE or not tensor.shape:
            return [line]
    if tensor.size > MOST_SPELLED:
        packed = base64.b64encode(zlib.compress(np.asarray(tensor.codes, order="C").tobytes(), 9)).decode()
        made = f'np.frombuffer(zlib.decompress(base64.b64decode({name}_bytes)), "<{_kind(tensor, own)}"){reshape}'
        if len(packed) <= 96:
            return [f'{name}_bytes = "{packed}"', f"{name} = {made}{view}"]
        lines = textwrap.wrap(packed, 96)
        return [f"{name}_bytes = (", *(f'    "{line}"' for line in lines), ")", f"{name} = {made}{view}"]
    if dtype == "uint8":  # Many bytes are as readable in hexadecimal, and shorter.
        rows = [f'"{line}"' for line in textwrap.wrap(bits.astype(np.uint8).tobytes().hex(), 104)]
        made = f", np.uint8){reshape}{view}{comment}"
        if len(rows) == 1 and len(name + rows[0] + made) + 35 <= MOST_IN_LINE:
            return [f"{name} = np.array(list(bytes.fromhex({rows[0]})){made}"]
        return [
            f"{name} = np.array(list(bytes.fromhex(",
            *(f"    {line}" for line in rows[:-1]),
            f"    {rows[-1]})){made}",
        ]
    folded = textwrap.wrap(listed, 104, break_long_words=False, break_on_hyphens=False)
    return [f"{name} = np.array([", *(f"    {part}" for part in folded), f"], np.{dtype}){reshape}{view}{comment}"]


def _in_runs(values: list[str]) -> str:
    """Equal values in succession, as Python: [0] * 20 + [154] + [0] * 7."""
    runs = [(value, len(list(run))) for value, run in itertools.groupby(values)]
    return " + ".join(f"[{value}]" + (f" * {count}" if count > 1 else "") for value, count in runs)


def _decimals(tensor: Tensor) -> list[str] | None:
    """The values in decimal, or None if decimals lose bits (those of a NaN, for example)."""
    codes = [int(code) for code in tensor.codes.reshape(-1)]
    texts = [decimal(tensor.dtype, code) for code in codes]
    if not tensor.dtype.startswith("float"):
        return texts
    with np.errstate(all="ignore"):
        again = np.array([float(text) for text in texts], np.float64).astype(tensor.dtype).view(tensor.codes.dtype)
    if again.tolist() != codes:
        return None
    return [re.sub(r"\b(nan|inf)\b", r"np.\1", text) for text in texts]


def _laid_out(name: str, tensor: Tensor) -> list[str]:
    """The line that gives a tensor its layout in memory, if that is not NumPy's own."""
    constant, rank = constant_axes(tensor.codes), len(tensor.shape)
    if (tensor.layout == "broadcast" and not any(constant)) or rank < LEAST_RANK.get(tensor.layout, 0):
        return []
    wider = [(0, 0)] * (rank - 1) + [(0, SLACK)]
    permuted = f"np.moveaxis(np.moveaxis({name}, 1, -1).copy(), -1, 1)"
    if rank == 2:
        permuted = f"np.pad({name}.T.copy(), {wider})[..., :-{SLACK}].T"
    few = ", ".join(":1" if still else ":" for still in constant)
    line = {
        "F": f"{name} = np.asfortranarray({name})",
        "reversed": f"{name} = {name}[..., ::-1].copy()[..., ::-1]",
        "strided": f"{name} = np.concatenate([{name}[..., :1], np.repeat({name}, 2, axis=-1)], -1)[..., 1::2]",
        "offset": f"{name} = np.concatenate([np.zeros(1, {name}.dtype), {name}.ravel()])[1:].reshape({name}.shape)",
        "read-only": f"{name}.flags.writeable = False",
        "misaligned": f"{name} = np.frombuffer(bytearray(1) + {name}.tobytes(), {name}.dtype, -1, 1).reshape({name}.shape)",
        "row-slice": f"{name} = np.pad({name}, {wider})[..., :-{SLACK}]",
        "permuted": f"{name} = {permuted}",
        "broadcast": f"{name} = np.broadcast_to({name}[{few}].copy(), {name}.shape)",
    }[tensor.layout]
    return [f"{line}  # memory layout: {tensor.layout}"]


def first_values(tensor: Tensor) -> str:
    """The first values in decimal."""
    codes = tensor.codes.reshape(-1)
    shown = ", ".join(decimal(tensor.dtype, int(code)) for code in codes[:8])
    return shown + (", ..." if codes.size > 8 else "")


def _extents(shape: tuple[int, ...]) -> str:
    return "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def _kind(tensor: Tensor, own: bool) -> str:
    """NumPy's short name of the bytes' type: i4, f2, u1."""
    dtype = np.dtype(tensor.dtype) if own else tensor.codes.dtype
    return f"{dtype.kind}{dtype.itemsize}"
