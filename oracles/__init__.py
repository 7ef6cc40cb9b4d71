"""Implementations that answer calls: one file each. A new file needs no entry anywhere else.

A module of this package that defines ``ORACLES``, a tuple of `Oracle`, is an implementation; `xverify.oracles.protocol` lists
what such a module defines. It is imported here, for its description, and in a worker, to answer calls. A worker may be
another Python, so the top level imports only the standard library, NumPy, `xverify.core.call`, ``moves``, ``surroundings`` and
`xverify.oracles`. Functions import the framework.
"""

from __future__ import annotations

import importlib
import pkgutil
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Dict, Optional, Tuple

from xverify.oracles.protocol import Oracle, version_of


class OracleFileError(ValueError):
    """A mistake in a file of this package. The message tells its author the file and the mistake."""


def all_oracles() -> Dict[str, Oracle]:
    """Every oracle of this package by name, in alphabetical order of the names.

    Raises:
        OracleFileError: A module cannot be imported, or describes an oracle wrongly.
    """
    oracles: Dict[str, Oracle] = {}
    files: Dict[str, str] = {}
    for name in _modules():
        file = "oracles/%s.py" % name
        try:
            module = importlib.import_module("xverify.oracles." + name)
        except Exception as error:
            sentence = "%s cannot be imported: %s: %s" % (file, type(error).__name__, error)
            if isinstance(error, ImportError):
                sentence += "; import a framework inside load, not at the top level"
            raise OracleFileError(sentence) from error
        listed = getattr(module, "ORACLES", ())
        if not isinstance(listed, tuple):
            raise OracleFileError("%s: ORACLES must be a tuple, got %s" % (file, type(listed).__name__))
        for oracle in listed:
            mistake = _mistake(oracle)
            if mistake:
                raise OracleFileError("%s: %s" % (file, mistake))
            if oracle.name in oracles:
                raise OracleFileError(
                    "%s and %s both define an oracle %r; rename one" % (files[oracle.name], file, oracle.name)
                )
            oracles[oracle.name], files[oracle.name] = oracle, file
    return dict(sorted(oracles.items()))


def _mistake(oracle: object) -> str:
    """The first mistake in a description, or ""."""
    if not isinstance(oracle, Oracle):
        return "ORACLES holds %s, expected Oracle" % type(oracle).__name__
    for field in (
        "contracts",
        "judged_by",
        "paths",
        "arguments",
        "surrounded",
        "untold",
        "needs",
        "distributions",
        "releases",
    ):
        value = getattr(oracle, field)
        if not isinstance(value, tuple):
            return "%s of %s must be a tuple such as (%r,), got %r" % (field, oracle.name, value, value)
    if not oracle.paths or oracle.paths[0].options:
        return 'the first of the paths of %s must be Path("", share)' % oracle.name
    return ""


@lru_cache(maxsize=None)
def _modules() -> Tuple[str, ...]:
    """The names of this package's modules. They are cached: a report calls this once for each finding."""
    return tuple(module.name for module in pkgutil.iter_modules(__path__))


def installed_version(oracle: Oracle) -> Optional[str]:
    """The version of the oracle's distribution, or None when it is not installed."""
    if oracle.version:
        return oracle.version
    return next(filter(None, map(version_of, (oracle.distribution, *oracle.distributions))), None)


def takes_options(oracle: Oracle) -> bool:
    """True if the oracle takes an option after its name and a colon."""
    return hasattr(importlib.import_module(oracle.module), "with_option")


def with_option(oracle: Oracle, option: str) -> Oracle:
    """The oracle with an option, from its module's ``with_option``.

    Raises:
        ValueError: The oracle takes no options, or not this one.
    """
    if not takes_options(oracle):
        raise ValueError("%s takes no option, so %r means nothing" % (oracle.name, option))
    changed: Oracle = importlib.import_module(oracle.module).with_option(oracle, option)
    return changed


def answers(oracle: Oracle, contract: str) -> bool:
    """True if the oracle takes calls of the edition at all."""
    return any(fnmatchcase(contract, pattern) for pattern in oracle.contracts)
