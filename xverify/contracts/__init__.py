"""The editions: one file for each family of documents, one line here for each edition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path

from xverify.contracts import external, microsoft, onednn, onednn_dequantize, onednn_guide, onnx, tensorflow
from xverify.contracts.documents import onednn_release
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
}

_CARRIED: Mapping[str, Callable[[str, str, str], bool]] = {
    "ai.onnx": onnx.carried,
    "com.microsoft": microsoft.carried,
    "tensorflow": tensorflow.carried,
    "onednn": onednn_guide.carried,
}

_BARE = {
    "com.microsoft/DequantizeLinear-1": "com.microsoft/DequantizeLinear-1@installed",
    "onednn/Dequantize-1": "onednn/Dequantize-1@3.5",
    "onednn/DynamicDequantize-1": "onednn/DynamicDequantize-1@multiply",
    "tensorflow/Dequantize": "tensorflow/Dequantize@installed",
}
"""What an id without an edition means."""


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
    """Every edition's id, whether or not its document can be read here."""
    return tuple(_BUILDERS)


def newest() -> str:
    """The edition that is meant when none is named: the newest ONNX version."""
    return f"ai.onnx/DequantizeLinear-{onnx.VERSIONS[-1]}"


def matching(pattern: str) -> tuple[str, ...]:
    """The ids that a bare id or a glob pattern names; empty when it names none."""
    if pattern in _BARE:
        return (_BARE[pattern],)
    return tuple(identity for identity in _BUILDERS if fnmatchcase(identity, pattern))


@cache
def get(identity: str) -> Contract:
    """The edition of that id (a bare id has its default edition).

    Raises UnknownEditionError for an unknown id, DocumentError when its document cannot be read here.
    """
    builder = _BUILDERS.get(_BARE.get(identity, identity))
    if builder is None:
        raise UnknownEditionError(identity)
    return builder()


def from_file(path: Path) -> tuple[Contract, ...]:
    """The editions that a Python file defines; see `external`. The file's code is run.

    Raises ContractFileError with one sentence for the first mistake in it.
    """
    return external.load(path, {identity: partial(get, identity) for identity in _BUILDERS})


def rivals(identity: str) -> tuple[str, ...]:
    """The other editions of the same operator with which this one is compared for conflicts."""
    return tuple(b for a, b in _PAIRS if a == identity)


def carried(identity: str, distribution: str, python: str) -> bool:
    """Whether what another Python has of a distribution carries the text of that edition, as the edition has it here.

    Raises DocumentError when it cannot be read.
    """
    known = _CARRIED.get(identity.partition("/")[0])
    return known is not None and known(identity, distribution, python)


def shipped(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """The patterns of editions that a package which is installed here carries, those of oneDNN narrowed to its release."""
    if "onednn/*" not in patterns:
        return patterns
    try:
        return of_onednn(onednn_release())
    except DocumentError:
        return of_onednn(None)


def of_onednn(release: tuple[int, int] | None) -> tuple[str, ...]:
    """The editions that judge a release of oneDNN: of its own guide, and of documents that name no release; of one that is
    not known the latter."""
    return tuple(identity for identity in matching("onednn/*") if onednn_guide.judges(identity, release))


__all__ = [
    "Contract",
    "ContractFileError",
    "DocumentError",
    "UnknownEditionError",
    "carried",
    "from_file",
    "get",
    "ids",
    "matching",
    "newest",
    "of_onednn",
    "rivals",
    "shipped",
]
