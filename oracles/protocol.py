"""The description of an implementation, and the interface of the module that calls it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Optional, Tuple, Type, Union

from xverify.core.call import Call, Outcome, Tensor
from xverify.oracles.timing import Timing

Answer = Callable[[Call, str], Union[Tensor, Outcome]]
"""answer(call, path) returns the result's codes, or an outcome, which can carry notes (see `xverify.oracles.arrays.answered`).
An exception is a refusal."""


@dataclass(frozen=True)
class Path:
    """A way through the same implementation."""

    options: str
    """The path's name, which findings and reports show."""

    share: float
    """The share of all calls that take the path (1.0: all of them)."""

    large: int = 0
    """All calls of at least so many values take the path (0: only its share of them)."""


@dataclass(frozen=True)
class Setting:
    """A way in which an implementation can be run besides the usual one, in a worker of its own."""

    dimension: str
    """"isa", "threads", "denormals" or "kernels"."""

    value: str
    arguments: Tuple[str, ...] = ()
    """Arguments for ``load``, after the oracle's own."""

    environment: Tuple[Tuple[str, str], ...] = ()
    """Variables of the worker, besides the oracle's own."""

    @property
    def name(self) -> str:
        return "%s=%s" % (self.dimension, self.value)


@dataclass(frozen=True)
class Loaded:
    """An implementation whose framework is imported."""

    answer: Answer
    not_implemented: Tuple[Type[BaseException], ...] = (NotImplementedError,)
    """Exception types that say "not implemented"."""

    fatal: Tuple[Type[BaseException], ...] = ()
    """Exception types after which the process cannot go on."""


@dataclass(frozen=True)
class Oracle:
    """An implementation at the version that is installed, or at another one in an environment of its own.

    This is all that other parts of xverify know of an implementation. Its module, one file of ``oracles/``, defines:

    - ``ORACLES``: a tuple of these descriptions;
    - ``load(*arguments) -> Loaded``: imports the framework, and answers calls. A worker calls it. A reproduction script
      contains the source that it reaches (`xverify.report.script`);
    - ``short_form(call) -> ShortForm``, optional: the lines of a short script for issues (`xverify.oracles.short_form`);
    - ``load_bench(threads, *arguments) -> Solve``, where `timing` is given (`xverify.oracles.timing`);
    - ``with_option(oracle, option) -> Oracle``, optional: the oracle for ``NAME:OPTION``, or ValueError with a sentence;
      and ``option_arguments(option)``: the arguments for ``load`` that stand for it.
    """

    name: str
    """The name that users type, and the key in reports."""

    distribution: str
    """The package whose version names the implementation."""

    contracts: Tuple[str, ...]
    """Glob patterns of the editions that it answers."""

    ships: Tuple[str, ...]
    """Glob patterns of the editions whose text the installed package itself carries. Only those judge it."""

    module: str
    """The module of ``load``."""

    load: str = "load"
    paths: Tuple[Path, ...] = (Path("", 1.0),)
    role: str = "oracle"
    """"oracle", or "kernel" for an implementation of our own or of a user."""

    arguments: Tuple[str, ...] = ()
    """The arguments of ``load``."""

    title: str = ""
    """The name in prose; "" for `name`."""

    claim: str = ""
    """Which documents it claims to implement, and where it says so."""

    timing: Optional[Timing] = None
    """The settings of the bench. None: the bench leaves it out."""

    search_path: Tuple[str, ...] = ()
    """Directories that the worker puts before its ``sys.path``, to find ``module``."""

    needs_xverify: bool = False
    """True if it imports the xverify package itself; other workers see of it only what carries calls."""

    version: str = ""
    """The version of what is no installed distribution."""

    strict: bool = False
    """True if an exception that says "not implemented" is a refusal like any other."""

    untold: Tuple[str, ...] = ()
    """Names of clauses whose violation its interface cannot express: it gets no such calls."""

    surrounded: Tuple[Path, ...] = ()
    """Its paths for calls in surroundings (`Call.around`), the least optimised first, each with its share of such calls.
    Without any it gets none."""

    python: str = ""
    """The interpreter of its worker, "" for this one. Its version is then in `version`."""

    needs: Tuple[str, ...] = ()
    """Distributions that its worker imports beside its own, NumPy and ml_dtypes."""

    distributions: Tuple[str, ...] = ()
    """Further distributions under whose names versions of it are offered."""

    environment: Tuple[Tuple[str, str], ...] = ()
    """Variables that its worker sets before it imports anything of ours."""

    varies: Tuple[Setting, ...] = ()
    """The settings in which it can be run besides."""

    variant_of: str = ""
    """The name of the oracle that a variant is compared with (`xverify.engine.vary`)."""

    setting: Optional[Setting] = None
    """The setting of a variant."""


def version_of(distribution: str) -> Optional[str]:
    """The version of an installed distribution, or None."""
    if not distribution:
        return None
    # Imported late: it would make the start of a worker, of which a gate starts many, a sixth slower.
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
