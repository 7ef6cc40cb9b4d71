"""Short scripts for people: the lines of Python that make one call.

A module of an oracle may define ``short_form(call: ShortCall) -> Union[ShortForm, Program, None]``.
`xverify.report.short_script` adds the operands before the lines of a `ShortForm`, and the prints after them. A `Program` is
complete. None: there is no short way to make this call.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from xverify.core.call import BITS, Attribute, Call, Tensor
from xverify.core.surroundings import Graph
from xverify.oracles.arrays import NUMPY_OWN


@dataclass(frozen=True)
class ShortCall:
    """A call that a short script makes."""

    contract: str
    tensors: Dict[str, Tensor]
    """By role, in the operator's order. In a graph: the graph's inputs and constants, by name."""

    attributes: Dict[str, Attribute]
    name: str
    """The oracle's name."""

    full_name: str
    """The oracle's name with its option, setting and version. For a kernel of a user: its target."""

    options: str
    """The path through the implementation."""

    out_dtype: str
    graph: Optional[Tuple[Call, Graph]] = None
    """The lone call and its graph, for a call in surroundings."""

    version: str = ""
    """The implementation's version."""

    ending: str = ""
    """The ending that a reader must expect: "crash", "hang", "refusal"; "" if the call gives a result."""

    shown: Tuple[Tuple[Tuple[int, ...], str], ...] = ()
    """The elements of the result that a program prints: index, and the results that are allowed."""


@dataclass(frozen=True)
class ShortForm:
    """The lines that make a call."""

    imports: List[str]
    """Imports, and other lines before the operands."""

    body: List[str]
    """The lines after the operands. The last one assigns ``y``."""

    modules: Tuple[str, ...] = ()
    """Further modules that the body uses."""

    operands: Optional[Dict[str, Tensor]] = None
    """The tensors that are spelled out, by the name of the variable. None: those of the call."""

    comments: Dict[str, str] = field(default_factory=dict)
    """Comments before operands, by the name of the variable."""

    copies: bool = False
    """True if the framework copies its operands, so that their layout in memory does not matter."""


@dataclass(frozen=True)
class Program:
    """A whole program in another language than Python."""

    language: str
    """The language of its code block in Markdown."""

    lines: List[str]

    packages: List[str]
    """The packages of Python that hold what it needs, with their versions."""

    command: str
    """The command of a shell that builds it and runs it."""


def is_numpy(dtype: str) -> bool:
    """True if NumPy itself has the dtype."""
    return dtype in NUMPY_OWN


def spelled(value: object) -> str:
    """An attribute as a literal."""
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_.@/-]*", value)
    return '"%s"' % value if plain else repr(value)


def feeds(names: Sequence[str]) -> str:
    """A dictionary of variables by their own names."""
    return "{" + ", ".join('"%s": %s' % (name, name) for name in names) + "}"


def keywords(words: Mapping[str, str]) -> str:
    """Keyword arguments, each after a comma."""
    return "".join(", %s=%s" % pair for pair in words.items())


def setting(call: ShortCall, dimension: str) -> str:
    """The value of a setting in the path or the name: "8" for onnxruntime[threads=8]. "" if there is none."""
    match = re.search(r"\b%s=(\w+)" % dimension, call.options + " " + call.full_name)
    return match.group(1) if match else ""


def kernel_call(
    call: ShortCall,
    statement: str,
    function: str,
    more: Optional[Mapping[str, str]] = None,
    modules: Tuple[str, ...] = (),
) -> ShortForm:
    """A call by the signature of kernels under test.

    Args:
        statement: The import of the kernel.
        more: Keywords in addition to the call's attributes.
    """
    words: Dict[str, Any] = {name: spelled(value) for name, value in call.attributes.items()}
    for name in ("output_dtype", "dtype"):
        if words.pop(name, "").strip('"') in BITS:
            dtype = str(call.attributes[name])
            words["out_dtype"] = ("np.%s" if is_numpy(dtype) else "ml_dtypes.%s") % dtype
    if call.contract.startswith(("com.microsoft/", "litert/", "pytorch/Tensor.dequantize@", "torchao/")):
        words.setdefault("axis", "None")
    if call.contract.startswith("tensorflow/") and words.get("axis") == "-1":
        words["axis"] = "None"
    line = "y = %s(%s%s)" % (function, ", ".join(call.tensors), keywords({**words, **(more or {})}))
    if str(words.get("out_dtype", "")).startswith("ml_dtypes."):
        modules = (*modules, "ml_dtypes")
    return ShortForm([statement], [line], modules)
