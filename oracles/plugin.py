"""Kernels under test that a user names by file or module.

A target is ``package.module:function``, ``path/file.py:function`` or ``path/library.so:symbol``. This module imports none of
the user's code; the worker does.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Optional

from xverify.oracles.protocol import Oracle
from xverify.oracles.protocol import Path as PathOf

LIBRARIES = (".so", ".dylib", ".dll")
"""The endings of native libraries; a version may follow, as in libkernel.so.3."""

THREADS_SHARE = 1 / 32
"""The share of the calls that several threads make at once."""

PATHS = (PathOf("", 1.0), PathOf("threads", THREADS_SHARE))

NATIVE_CONTRACTS = ("ai.onnx/*", "com.microsoft/*")
"""The editions that the C interface has arguments for."""

NATIVE_MODULE = "xverify.oracles.native_kernel"
"""The module that runs a user's native library; `USERS` names the one for Python."""

UNTOLD = ("attributes",)
"""Clauses whose violation a user's kernel never sees: it gets no attribute that the edition lacks."""

USERS = Oracle(
    name="",
    distribution="",
    contracts=("*",),
    judged_by=("*",),
    module="xverify.oracles.python_kernel",
    paths=PATHS,
    role="kernel",
    untold=UNTOLD,
    needs_xverify=True,
)
"""The description that all Python kernels of users share. A native kernel has its own."""

_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class TargetError(ValueError):
    """The target is no kernel; the message says what a target looks like."""


def plugin(target: str) -> Oracle:
    """The oracle of a kernel that a user names.

    Its name holds no directory, so that its findings have the same ids everywhere. Its version is a digest of the file, or the
    version of the distribution that holds the module.

    Raises:
        TargetError: The target is no kernel.
    """
    where, colon, function = target.rpartition(":")
    if not colon or not where or not function:
        raise TargetError(
            "%r is no kernel: name package.module:function, path/file.py:function or path/library.so:symbol" % target
        )
    path = Path(where)
    if where.endswith(".py") or is_library(path.name):
        if not path.is_file():
            raise TargetError("there is no file %s (of the kernel %r)" % (where, target))
        native = is_library(path.name)
        where = str(path.resolve())
        version = "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()[:12]
        named = replace(USERS, name="%s:%s" % (path.name, function), version=version)
        if not native:
            return replace(named, arguments=("%s:%s" % (where, function),))
        return replace(
            named,
            contracts=NATIVE_CONTRACTS,
            module=NATIVE_MODULE,
            arguments=(where, function),
            needs_xverify=False,
        )
    if not _MODULE.fullmatch(where):
        raise TargetError("%r is neither a module, nor a .py file, nor a library (of the kernel %r)" % (where, target))
    version = _version_of(where) or "unversioned"
    return replace(USERS, name=target, arguments=(target,), search_path=(os.getcwd(),), version=version)


def distinguished(reference: Oracle, kernel: Oracle) -> Oracle:
    """The reference under a name that differs from the kernel's.

    Two builds of one file have the same name, so the reference gets the folders in which their paths begin to differ.

    Raises:
        TargetError: They are the same.
    """
    if reference.name != kernel.name:
        return reference
    folders, others = (
        Path(oracle.arguments[0]).parent.parts if oracle.arguments else () for oracle in (reference, kernel)
    )
    if folders == others:
        raise TargetError("%s is compared with itself: name another one after --like" % kernel.name)
    count = 1
    while folders[-count:] == others[-count:]:
        count += 1
    return replace(reference, name="/".join((*folders[-count:], reference.name)))


def is_library(name: str) -> bool:
    """True if a file's name is that of a native library."""
    return name.endswith(LIBRARIES) or ".so." in name


def _version_of(module: str) -> Optional[str]:
    """The version of the distribution that contains a module. The module is not imported."""
    for distribution in importlib.metadata.packages_distributions().get(module.partition(".")[0], ()):
        return importlib.metadata.version(distribution)
    return None
