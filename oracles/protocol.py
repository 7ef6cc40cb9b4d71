"""What an oracle is: its description, and the function that answers calls in a worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Tuple, Type

from xverify.core.call import Call, Tensor

Answer = Callable[[Call, str], Tensor]
"""answer(call, path) gives the result's codes; any exception is a refusal."""


@dataclass(frozen=True)
class Path:
    """A way through the same implementation: ``share`` of all calls take it (1.0: all of them)."""

    options: str
    share: float


@dataclass(frozen=True)
class Loaded:
    """A framework, imported: how it answers, and which exception types say "not implemented"."""

    answer: Answer
    not_implemented: Tuple[Type[BaseException], ...] = (NotImplementedError,)


@dataclass(frozen=True)
class Oracle:
    """An implementation at the version that is installed.

    distribution: the package whose version names the implementation. contracts: glob patterns of the
    editions it answers. module: where ``load`` lives; ``load()`` is called in the worker only.
    ships: editions (glob patterns) whose text the installed package itself carries: only by those is it judged.
    """

    name: str
    distribution: str
    contracts: Tuple[str, ...]
    ships: Tuple[str, ...]
    module: str
    load: str = "load"
    paths: Tuple[Path, ...] = (Path("", 1.0),)
    role: str = "oracle"
