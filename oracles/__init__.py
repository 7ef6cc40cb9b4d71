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


def all_oracles() -> Dict[str, Oracle]:
    """Every oracle of this package by name, in alphabetical order of the names."""
    modules = (importlib.import_module("xverify.oracles." + name) for name in _modules())
    return dict(sorted((oracle.name, oracle) for module in modules for oracle in getattr(module, "ORACLES", ())))


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
