"""What an oracle is: its description, and the function that answers calls in a worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Optional, Tuple, Type, Union

from xverify.core.call import Call, Outcome, Tensor

Answer = Callable[[Call, str], Union[Tensor, Outcome]]
"""answer(call, path) gives the result's codes, or an outcome of kind "tensor" that carries notes as well (see
`xverify.oracles.arrays.answered`); any exception is a refusal."""


@dataclass(frozen=True)
class Path:
    """A way through the same implementation: ``share`` of all calls take it (1.0: all of them), and all calls of so many
    values as ``large`` says (0: only its share of them)."""

    options: str
    share: float
    large: int = 0


@dataclass(frozen=True)
class Setting:
    """A way in which an implementation can be run besides the usual one, in a worker of its own: one value of a dimension,
    which is "isa", "threads", "denormals" or "kernels".

    arguments: for ``load``, after the oracle's own. environment: variables of the worker, besides the oracle's own.
    """

    dimension: str
    value: str
    arguments: Tuple[str, ...] = ()
    environment: Tuple[Tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        return "%s=%s" % (self.dimension, self.value)


@dataclass(frozen=True)
class Loaded:
    """A framework, imported: how it answers, which exception types say "not implemented", and after which the process cannot go
    on."""

    answer: Answer
    not_implemented: Tuple[Type[BaseException], ...] = (NotImplementedError,)
    fatal: Tuple[Type[BaseException], ...] = ()


@dataclass(frozen=True)
class Oracle:
    """An implementation at the version that is installed, or at another one in an environment of its own.

    A module whose oracle takes an option (``NAME:OPTION``) defines ``with_option(oracle, option) -> Oracle``, which gives the
    oracle with that option under that name, or raises ValueError with a sentence.

    distribution: the package whose version names the implementation. contracts: glob patterns of the
    editions it answers. ships: editions (glob patterns) whose text the installed package itself carries: only by
    those is it judged. module: where ``load`` lives; ``load(*arguments)`` is called in the worker only.
    search_path: directories that the worker puts before its ``sys.path``, to find ``module``. needs_xverify: whether
    it imports the xverify package itself; other workers see of it only what carries calls. version: of what is no installed
    distribution. strict: an exception that says "not implemented" is a refusal like any other. untold: names of
    clauses of which its interface cannot tell it that they are broken: such calls are not asked. python: the interpreter that
    its worker is started with, "" for this one; its version is then in ``version``. needs: distributions that its worker
    imports beside its own, NumPy and ml_dtypes. distributions: others under whose names further versions of it are offered.
    environment: variables that its worker sets before it imports anything of ours. varies: how it can be run besides.
    variant_of, setting: of an oracle that `xverify.engine.vary` made, the name of the one that it is compared with.
    surrounded: its paths for calls in surroundings (`Call.around`), the least optimised first, each with its share of
    such calls; without any it is asked none.
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
    surrounded: Tuple[Path, ...] = ()
    python: str = ""
    needs: Tuple[str, ...] = ()
    distributions: Tuple[str, ...] = ()
    environment: Tuple[Tuple[str, str], ...] = ()
    varies: Tuple[Setting, ...] = ()
    variant_of: str = ""
    setting: Optional[Setting] = None


def version_of(distribution: str) -> Optional[str]:
    """The version of an installed distribution; None where there is none of that name."""
    if not distribution:
        return None
    # Not before: it takes a worker, of which a gate starts many, a sixth more to start.
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
