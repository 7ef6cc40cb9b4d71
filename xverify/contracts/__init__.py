"""The editions: one file for each family of documents, one entry here for each owner."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache, partial
from itertools import pairwise
from pathlib import Path

from xverify.contracts import (
    external,
    litert,
    microsoft,
    onednn,
    onednn_dequantize,
    onednn_guide,
    onnx,
    pytorch,
    tensorflow,
    torchao,
)
from xverify.contracts.documents import onednn_release, schemas
from xverify.contracts.external import blamed_file
from xverify.contracts.model import Contract
from xverify.core.errors import ContractFileError, DocumentError, UnknownEditionError

Builders = Mapping[str, Callable[[], Contract]]

_FAMILIES: Mapping[str, Callable[[], Builders]] = {
    "ai.onnx": onnx.editions,
    "com.microsoft": microsoft.editions,
    "onednn": lambda: {
        "onednn/Dequantize-1@3.0": partial(onednn_dequantize.contract, "3.0"),
        "onednn/Dequantize-1@3.5": partial(onednn_dequantize.contract, "3.5"),
        "onednn/DynamicDequantize-1@multiply": partial(onednn.contract, "multiply"),
        "onednn/DynamicDequantize-1@divide": partial(onednn.contract, "divide"),
        "onednn/DynamicDequantize-1@3.0": partial(onednn.contract, "3.0"),
        "onednn/DynamicDequantize-1@3.7": partial(onednn.contract, "3.7"),
    },
    "tensorflow": lambda: {
        "tensorflow/Dequantize@seed": tensorflow.seed_contract,
        "tensorflow/Dequantize@installed": tensorflow.installed_contract,
    },
    "litert": lambda: {"litert/Dequantize@spec": litert.contract},
    "pytorch": lambda: {
        pytorch.edition(operator): partial(pytorch.contract, operator) for operator in pytorch.OPERATORS
    },
    "torchao": lambda: {torchao.ID: torchao.contract},
}
"""The editions of each owner. The versions of the first two come from the installed packages."""

_CARRIED: Mapping[str, Callable[[str, str, str], bool]] = {
    "ai.onnx": onnx.carried,
    "com.microsoft": microsoft.carried,
    "tensorflow": tensorflow.carried,
    "onednn": onednn_guide.carried,
    "litert": litert.carried,
    "pytorch": pytorch.carried,
    "torchao": torchao.carried,
}

_GUIDE = "onednn/*@[0-9]*"
"""The editions of oneDNN's guide, of all releases. Editions of documents that name no release do not match."""

_BARE = {
    "onednn/Dequantize-1": "onednn/Dequantize-1@3.5",
    "onednn/DynamicDequantize-1": "onednn/DynamicDequantize-1@multiply",
    "tensorflow/Dequantize": "tensorflow/Dequantize@installed",
    "litert/Dequantize": "litert/Dequantize@spec",
    **{f"pytorch/{operator}": pytorch.edition(operator) for operator in pytorch.OPERATORS},
    "torchao/dequantize_affine": torchao.ID,
}
"""The edition that an id without one stands for. `_full` has those whose versions are not written here."""

_PAIRS = (
    ("onednn/DynamicDequantize-1@multiply", "onednn/DynamicDequantize-1@divide"),
    ("tensorflow/Dequantize@seed", "tensorflow/Dequantize@installed"),
)
"""The editions that are compared. Those of ONNX and com.microsoft are compared with the next one."""


@cache
def _family(owner: str) -> Builders:
    return _FAMILIES[owner]()


def _builders(owners: Iterable[str]) -> Builders:
    return {identity: builder for owner in owners for identity, builder in _family(owner).items()}


def _full(identity: str) -> str:
    """The id of the edition that an id without one stands for, or the same id."""
    if identity == "ai.onnx/DequantizeLinear":
        return newest()
    if re.fullmatch(r"com\.microsoft/DequantizeLinear-\d+", identity):
        return f"{identity}@installed"
    return _BARE.get(identity, identity)


def ids() -> tuple[str, ...]:
    """Every edition's id, also of those whose document cannot be read here."""
    return tuple(_builders(_FAMILIES))


def newest() -> str:
    """The edition to use when the user names none: the newest ONNX version."""
    return tuple(_family("ai.onnx"))[-1]


def newest_run() -> str:
    """The newest ONNX edition that the installed onnxruntime also has, or the newest if it has none."""
    try:
        theirs = schemas("onnxruntime")
    except DocumentError:
        return newest()
    return next((i for i in reversed(tuple(_family("ai.onnx"))) if onnx.key(i) in theirs), newest())


def matching(pattern: str) -> tuple[str, ...]:
    """The ids that a bare id or a glob pattern stands for. Empty if there are none."""
    pattern = _full(pattern)
    owner = pattern.partition("/")[0]
    builders = _builders([owner] if owner in _FAMILIES else _FAMILIES)
    matched = tuple(identity for identity in builders if fnmatchcase(identity, pattern))
    return (pattern,) if not matched and onnx.missing(pattern) else matched


@cache
def get(identity: str) -> Contract:
    """The edition of that id. A bare id stands for its default edition.

    Raises:
        UnknownEditionError: There is no such id.
        DocumentError: The document of the edition cannot be read here.
    """
    identity = _full(identity)
    owner = identity.partition("/")[0]
    builder = _family(owner).get(identity) if owner in _FAMILIES else None
    if builder is None and (version := onnx.missing(identity)):
        return onnx.contract(version)
    if builder is None:
        raise UnknownEditionError(identity)
    return builder()


def from_file(path: Path) -> tuple[Contract, ...]:
    """Run a Python file and return the editions that it defines, see `external`.

    Raises:
        ContractFileError: The file has a mistake. The message is one sentence on the first one.
    """
    return external.load(path, {identity: partial(get, identity) for identity in ids()})


def rivals(identity: str) -> tuple[str, ...]:
    """The editions of the same operator that a run compares with this one to find conflicts."""
    return tuple(b for a, b in _pairs(identity) if a == identity)


def neighbours(identity: str) -> tuple[str, ...]:
    """The editions of the same operator that an implementation may follow instead of this one."""
    return tuple(b if a == identity else a for a, b in _pairs(identity) if identity in (a, b))


def _pairs(identity: str) -> Iterable[tuple[str, str]]:
    owner = identity.partition("/")[0]
    return pairwise(_family(owner)) if owner in ("ai.onnx", "com.microsoft") else _PAIRS


def carried(identity: str, distribution: str, python: str) -> bool:
    """True if another Python's version of a distribution carries the text of an edition, unchanged.

    Args:
        identity: The edition's id.
        distribution: The name of the package, such as "onnxruntime".
        python: The path of the other Python.

    Raises:
        DocumentError: The text of the other version cannot be read.
    """
    is_carried = _CARRIED.get(identity.partition("/")[0])
    return is_carried is not None and is_carried(identity, distribution, python)


def shipped(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """The patterns, with the editions of the installed release for PyTorch, torchao and oneDNN's guide."""
    if "pytorch/*" in patterns:
        return pytorch.judging_installed()
    if "torchao/*" in patterns:
        return torchao.judging_installed()
    if _GUIDE not in patterns:
        return patterns
    try:
        return of_onednn(onednn_release())
    except DocumentError:
        return of_onednn(None)


def of_onednn(release: tuple[int, int] | None) -> tuple[str, ...]:
    """The editions that judge a release of oneDNN: those of its own guide.

    release: None if the release is not known. Then no edition judges it.
    """
    return tuple(identity for identity in matching("onednn/*") if onednn_guide.judges(identity, release))


__all__ = [
    "Contract",
    "ContractFileError",
    "DocumentError",
    "UnknownEditionError",
    "blamed_file",
    "carried",
    "from_file",
    "get",
    "ids",
    "matching",
    "neighbours",
    "newest",
    "newest_run",
    "of_onednn",
    "rivals",
    "shipped",
]
