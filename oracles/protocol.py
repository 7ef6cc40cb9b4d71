"""What an oracle is: its description, and the function that answers calls in a worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Tuple, Type, Union

from xverify.core.call import Call, Outcome, Tensor

Answer = Callable[[Call, str], Union[Tensor, Outcome]]
"""answer(call, path) gives the result's codes, or an outcome of kind "tensor" that carries notes as well (see
`oracles.arrays.answered`); any exception is a refusal."""


@dataclass(frozen=True)
class Path:
    """A way through the same implementation: ``share`` of all calls take it (1.0: all of them)."""

    options: str
    share: float


@dataclass(frozen=True)
class Loaded:
    """A framework, imported: how it answers, which exception types say "not implemented", and after which the process cannot go
    on."""

    answer: Answer
    not_implemented: Tuple[Type[BaseException], ...] = (NotImplementedError,)
    fatal: Tuple[Type[BaseException], ...] = ()


@dataclass(frozen=True)
class Oracle:
    """An implementation at the version that is installed.

    distribution: the package whose version names the implementation. contracts: glob patterns of the
    editions it answers. ships: editions (glob patterns) whose text the installed package itself carries: only by
    those is it judged. module: where ``load`` lives; ``load(*arguments)`` is called in the worker only.
    search_path: directories that the worker puts before its ``sys.path``, to find ``module``. needs_xverify: whether
    it imports the xverify package itself; other workers see of it only what carries calls. version: of what is no installed
    distribution. strict: an exception that says "not implemented" is a refusal like any other. untold: names of
    clauses of which its interface cannot tell it that they are broken: such calls are not asked.
    """

    name: str
    distribution: str
    contracts: Tuple[str, ...]
    ships: Tuple[str, ...]
    module: str
    load: str = "load"
    paths: Tuple[Path, ...] = (Path("", 1.0),)
    role: str = "oracle"
    arguments: Tuple[str, ...] = ()
    search_path: Tuple[str, ...] = ()
    needs_xverify: bool = False
    version: str = ""
    strict: bool = False
    untold: Tuple[str, ...] = ()
