"""The editions: one file for each family of documents, one line here for each edition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import cache, partial
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
from xverify.contracts.documents import onednn_release
from xverify.contracts.external import blamed_file
from xverify.contracts.model import Contract
from xverify.core.errors import ContractFileError, DocumentError, UnknownEditionError

_BUILDERS: Mapping[str, Callable[[], Contract]] = {
    **{f"ai.onnx/DequantizeLinear-{v}": partial(onnx.contract, v) for v in onnx.VERSIONS},
    "com.microsoft/DequantizeLinear-1@seed": microsoft.seed_contract,
    "com.microsoft/DequantizeLinear-1@installed": microsoft.installed_contract,
    "onednn/Dequantize-1@3.0": partial(onednn_dequantize.contract, "3.0"),
    "onednn/Dequantize-1@3.5": partial(onednn_dequantize.contract, "3.5"),
    "onednn/DynamicDequantize-1@multiply": partial(onednn.contract, "multiply"),
    "onednn/DynamicDequantize-1@divide": partial(onednn.contract, "divide"),
    "onednn/DynamicDequantize-1@3.0": partial(onednn.contract, "3.0"),
    "onednn/DynamicDequantize-1@3.7": partial(onednn.contract, "3.7"),
    "tensorflow/Dequantize@seed": tensorflow.seed_contract,
    "tensorflow/Dequantize@installed": tensorflow.installed_contract,
    "litert/Dequantize@spec": litert.contract,
    **{pytorch.edition(operator): partial(pytorch.contract, operator) for operator in pytorch.OPERATORS},
    torchao.ID: torchao.contract,
}

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
    "com.microsoft/DequantizeLinear-1": "com.microsoft/DequantizeLinear-1@installed",
    "onednn/Dequantize-1": "onednn/Dequantize-1@3.5",
    "onednn/DynamicDequantize-1": "onednn/DynamicDequantize-1@multiply",
    "tensorflow/Dequantize": "tensorflow/Dequantize@installed",
    "litert/Dequantize": "litert/Dequantize@spec",
    **{f"pytorch/{operator}": pytorch.edition(operator) for operator in pytorch.OPERATORS},
    "torchao/dequantize_affine": torchao.ID,
}
"""The edition that an id without one stands for."""


_PAIRS = (
    ("com.microsoft/DequantizeLinear-1@seed", "com.microsoft/DequantizeLinear-1@installed"),
    ("onednn/DynamicDequantize-1@multiply", "onednn/DynamicDequantize-1@divide"),
    ("tensorflow/Dequantize@seed", "tensorflow/Dequantize@installed"),
    *(
        (f"ai.onnx/DequantizeLinear-{a}", f"ai.onnx/DequantizeLinear-{b}")
        for a, b in zip(onnx.VERSIONS, onnx.VERSIONS[1:], strict=False)
    ),
)


def ids() -> tuple[str, ...]:
    """Every edition's id, also of those whose document cannot be read here."""
    return tuple(_BUILDERS)


def newest() -> str:
    """The edition to use when the user names none: the newest ONNX version."""
    return f"ai.onnx/DequantizeLinear-{onnx.VERSIONS[-1]}"


def matching(pattern: str) -> tuple[str, ...]:
    """The ids that a bare id or a glob pattern stands for. Empty if there are none."""
    if pattern in _BARE:
        return (_BARE[pattern],)
    return tuple(identity for identity in _BUILDERS if fnmatchcase(identity, pattern))


@cache
def get(identity: str) -> Contract:
    """The edition of that id. A bare id stands for its default edition.

    Raises:
        UnknownEditionError: There is no such id.
        DocumentError: The document of the edition cannot be read here.
    """
    builder = _BUILDERS.get(_BARE.get(identity, identity))
    if builder is None:
        raise UnknownEditionError(identity)
    return builder()


def from_file(path: Path) -> tuple[Contract, ...]:
    """Run a Python file and return the editions that it defines, see `external`.

    Raises:
        ContractFileError: The file has a mistake. The message is one sentence on the first one.
    """
    return external.load(path, {identity: partial(get, identity) for identity in _BUILDERS})


def rivals(identity: str) -> tuple[str, ...]:
    """The editions of the same operator that a run compares with this one to find conflicts."""
    return tuple(b for a, b in _PAIRS if a == identity)


def neighbours(identity: str) -> tuple[str, ...]:
    """The editions of the same operator that an implementation may follow instead of this one."""
    return tuple(b if a == identity else a for a, b in _PAIRS if identity in (a, b))


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
    "of_onednn",
    "rivals",
    "shipped",
]
