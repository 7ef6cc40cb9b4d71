"""The description of an implementation, and the interface of the module that calls it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Mapping, Optional, Tuple, Type, Union

from xverify.core.call import AT_RUN, Call, Outcome, Tensor
from xverify.oracles.timing import Timing

Answer = Callable[[Call, str], Union[Tensor, Outcome]]
"""answer(call, path) returns the result's codes, or an outcome.

An outcome can carry notes (see `xverify.oracles.arrays.answered`). If the function raises an exception, the implementation
refused the call.
"""


Rewritten = Callable[[Call, str, str], str]
"""rewritten(call, path, folder) returns what the optimiser does to the graph of a call in surroundings.

It is a predicate such as "rewrites Transpose, DequantizeLinear to DequantizeLinear, Transpose", or "" if nothing changes.
The function may write to the folder. It may raise any exception, which says the same as "".
"""

RunModel = Callable[[Any, str], Mapping[str, Tensor]]
"""run_model(run, level) returns the outputs of a model by name. An exception says that the model was refused.

The run is a `xverify.oracles.model_run.ModelRun`. It is not imported here, so that scripts of single calls do without it.
"""

REWRITTEN = "rewritten:"
"""The beginning of a path's name in a request that asks for the rewrite instead of the outcome."""


@contextmanager
def at_run() -> Iterator[None]:
    """Mark the exceptions of a block that runs a model which the implementation has accepted.

    Such an exception is no way to refuse a call, unless its type says "not implemented".
    """
    try:
        yield
    except Exception as error:
        error.stage = AT_RUN  # type: ignore[attr-defined]
        raise


def stage_of(error: BaseException) -> str:
    """The stage in which an exception was raised, see `Outcome.stage`."""
    return str(getattr(error, "stage", ""))


@dataclass(frozen=True)
class Path:
    """A way through the same implementation."""

    options: str
    """The path's name, which findings and reports show."""

    share: float
    """The share of all calls that take the path (1.0: all of them)."""

    large: int = 0
    """All calls of at least this number of values take the path; 0 if size does not matter."""


@dataclass(frozen=True)
class Setting:
    """A way to run an implementation that differs from the usual one. It needs its own worker."""

    dimension: str
    """One of "isa", "threads", "denormals" and "kernels"."""

    value: str
    arguments: Tuple[str, ...] = ()
    """Arguments for ``load``, after the oracle's own."""

    environment: Tuple[Tuple[str, str], ...] = ()
    """Environment variables of the worker, in addition to the oracle's own."""

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
    """Exception types after which the process cannot continue."""

    run_model: Optional[RunModel] = None
    """Runs a whole model, if the implementation imports ONNX models."""

    rewritten: Optional[Rewritten] = None
    """Names the rewrite of a call in surroundings, if the optimised graph can be read."""


@dataclass(frozen=True)
class Oracle:
    """An implementation, at the installed version or at another one in its own environment.

    Other parts of xverify know an implementation only by this description. Its module, one file of ``oracles/``, defines:

    - ``ORACLES``: a tuple of these descriptions;
    - ``load(*arguments) -> Loaded``: imports the framework, and returns the function that answers calls. A worker calls it.
      A reproduction script contains the source that it reaches (`xverify.report.script`);
    - ``short_form(call: ShortCall)``, optional: a `ShortForm` or a `Program`, a short script for issues, or None if
      there is no short way (`xverify.oracles.short_form`);
    - ``load_bench(threads, *arguments) -> Solve``, if it has a `timing` (`xverify.oracles.timing`);
    - ``with_option(oracle, option) -> Oracle``, optional: the oracle for ``NAME:OPTION``, or ValueError with a sentence;
      and ``option_arguments(option)``: the arguments for ``load`` that stand for it. An option ``KEY=FILE`` names a file
      of the user. The oracle's name then has ``KEY=`` and the file's name without its folder.
    """

    name: str
    """The name that users type, and the key in reports."""

    distribution: str
    """The package whose version the implementation has."""

    contracts: Tuple[str, ...]
    """Glob patterns of the editions that it answers."""

    judged_by: Tuple[str, ...]
    """Glob patterns of the editions that judge it: those whose text it ships, or that it claims to implement (`claim`).

    Only these editions can produce violations. Where results differ from another edition that it answers, the finding is
    "not followed".
    """

    module: str
    """The module of ``load``."""

    load: str = "load"
    paths: Tuple[Path, ...] = (Path("", 1.0),)
    role: str = "oracle"
    """oracle, or kernel for an in-house implementation or one of a user."""

    arguments: Tuple[str, ...] = ()
    """The arguments of ``load``."""

    title: str = ""
    """The name in prose; "" for `name`."""

    claim: str = ""
    """The documents that it claims to implement, and the source of the claim. Reports show it."""

    carries_texts: bool = True
    """True if each version is judged only by the editions whose text its own package contains.

    False if the package contains no text. Then `judged_by` holds for each version.
    """

    releases: Tuple[Tuple[str, str], ...] = ()
    """Glob patterns of versions, each with the release as upstream names it and its month: "oneDNN v3.2, 2023-06".

    The first pattern that matches counts. Calendar versions such as 2025.2.0 need no entry.
    """

    timing: Optional[Timing] = None
    """The settings of the bench. None: the bench leaves it out."""

    search_path: Tuple[str, ...] = ()
    """Directories that the worker puts before its ``sys.path``, to find ``module``."""

    needs_xverify: bool = False
    """True if it imports the xverify package itself. Other workers see only the modules that carry calls."""

    version: str = ""
    """The version of an implementation that is not an installed distribution."""

    strict: bool = False
    """True if NotImplementedError counts as a refusal, not as a missing feature."""

    untold: Tuple[str, ...] = ()
    """Names of clauses that its interface cannot violate. It gets no calls that violate them."""

    surrounded: Tuple[Path, ...] = ()
    """Its paths for calls in surroundings (`Call.around`), each with its share: the least optimised first, the default one last.

    Without paths it gets no such calls.
    """

    models: Tuple[str, ...] = ()
    """The optimisation levels at which it runs whole models: the least optimised first, the default one last.

    Empty: it runs no models.
    """

    python: str = ""
    """The interpreter of its worker, "" for this one. Its version is then in `version`."""

    needs: Tuple[str, ...] = ()
    """Distributions that its worker imports in addition to its own, NumPy and ml_dtypes.

    One that must have the implementation's own version is "NAME=={version}".
    """

    numpy_2_from: str = ""
    """The first release that works with NumPy 2. Older ones get a NumPy before it. "" if the packages state what they need.

    It matters where a release accepts NumPy 2 by its metadata, imports with it, and then fails in a call.
    """

    distributions: Tuple[str, ...] = ()
    """Other packages that contain the same implementation."""

    environment: Tuple[Tuple[str, str], ...] = ()
    """Environment variables that its worker sets before it imports any module of xverify."""

    only_with: str = ""
    """An instruction set, by its name in Linux. A sweep without names leaves the implementation out on other processors."""

    varies: Tuple[Setting, ...] = ()
    """Further settings in which it can run."""

    variant_of: str = ""
    """The name of the oracle that a variant is compared with (`xverify.engine.vary`)."""

    setting: Optional[Setting] = None
    """The setting of a variant."""

    library: str = ""
    """The file of the user that its option names, "" without one."""

    family: str = ""
    """The implementation whose kernels it runs, "" for its own. One fix of these kernels changes all front ends."""

    @property
    def kernels(self) -> str:
        """The implementation whose kernels it runs, without a version."""
        return self.family or (self.variant_of or self.name).partition("==")[0].partition("@")[0]

    @property
    def in_house(self) -> bool:
        """True for code of xverify itself, which says nothing about how others read a text."""
        return self.distribution == "xverify"


def version_of(distribution: str) -> Optional[str]:
    """The version of an installed distribution, or None."""
    if not distribution:
        return None
    # Imported late: it would make the start of a worker a sixth slower, and a gate starts many.
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
