"""Implementations that answer calls: one file each, found by itself.

A module of this package that defines ``ORACLES`` (a tuple of `Oracle`) is one. It is imported both here, for
its description, and in a worker process, to answer: so its top level imports the standard library, NumPy
and `xverify.core.call` only, and the framework is imported inside ``load``.
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
    found: Dict[str, Oracle] = {}
    for name in _modules():
        for oracle in getattr(importlib.import_module("xverify.oracles." + name), "ORACLES", ()):
            found[oracle.name] = oracle
    return dict(sorted(found.items()))


@lru_cache(maxsize=None)
def _modules() -> Tuple[str, ...]:
    """The names of this package's modules; a report of hundreds of findings asks as often."""
    return tuple(module.name for module in pkgutil.iter_modules(__path__))


def installed_version(oracle: Oracle) -> Optional[str]:
    """The version of what the oracle runs, or None when its distribution is not installed."""
    if oracle.version:
        return oracle.version
    return next(filter(None, map(version_of, (oracle.distribution, *oracle.distributions))), None)


def takes_options(oracle: Oracle) -> bool:
    """Whether something may be typed after its name and a colon."""
    return hasattr(importlib.import_module(oracle.module), "with_option")


def with_option(oracle: Oracle, option: str) -> Oracle:
    """The oracle with what is typed after its name and a colon, by its module's ``with_option``.

    ValueError with a sentence when it takes no options, or not that one.
    """
    if not takes_options(oracle):
        raise ValueError("%s takes no option, so %r means nothing" % (oracle.name, option))
    made: Oracle = importlib.import_module(oracle.module).with_option(oracle, option)
    return made


def answers(oracle: Oracle, contract: str) -> bool:
    """Whether the oracle takes calls of that edition at all."""
    return any(fnmatchcase(contract, pattern) for pattern in oracle.contracts)
