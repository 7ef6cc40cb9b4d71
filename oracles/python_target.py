"""Import of the Python function that a target names.

A target is ``package.module:function`` or ``path/to/file.py:function``. Importing runs its author's code, so only the process
that runs the kernel may do it.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from types import FunctionType, ModuleType
from typing import Any, Callable, List, Tuple

MOST_NAMES = 8
"""The number of functions that a message lists if none has a similar name."""


class LoadError(Exception):
    """There is no such function, or its module cannot be imported. The message says what to do."""

    is_sentence = True
    """The worker reports the message without the name of the class."""


def find_function(target: str) -> Callable[..., Any]:
    """Import a target's module and find its function. After the colon, dots lead into attributes.

    Any callable object will do, except a class and a function that waits for an instance. A file becomes a module with a
    private name, so that it hides no other module. Its folder comes first on ``sys.path``, so that it finds its neighbours.
    A file in a package becomes a module of that package, so that its relative imports work.

    Raises:
        LoadError: There is no such function, or its import fails.
    """
    source, colon, path = target.rpartition(":")
    if not colon or not source or not path:
        raise LoadError("%r names no function: write package.module:function or path/to/file.py:function" % (target,))
    value: Any = _from_file(source) if source.endswith(".py") else _from_module(source)
    where = os.path.basename(source)
    for depth, name in enumerate(path.split(".")):
        if not hasattr(value, name):
            raise LoadError("%s has no %r; %s" % (where, name, _instead(value, name)))
        if isinstance(value, type) and isinstance(inspect.getattr_static(value, name), FunctionType):
            raise LoadError(_of_instance(where, value.__name__, name))
        value, where = getattr(value, name), "%s%s%s" % (where, "." if depth else ":", name)
    if isinstance(value, type):
        raise LoadError(
            "%s is a class; write kernel = %s() into the file and name kernel, or name a function"
            % (where, value.__name__)
        )
    if not callable(value):
        raise LoadError("%s is no function but of type %s; name a function" % (where, type(value).__name__))
    return value  # type: ignore[no-any-return]


def _from_file(path: str) -> ModuleType:
    path = os.path.abspath(path)
    if not os.path.isfile(path):
        near = [name for name in _names(os.path.dirname(path)) if name.endswith(".py")]
        close = difflib.get_close_matches(os.path.basename(path), near, 3, 0.5)
        raise LoadError("there is no file %s%s" % (path, "; there is " + ", ".join(close) if close else ""))
    package, root = _package_of(os.path.dirname(path))
    if root != os.path.dirname(path):
        sys.path.insert(0, root)
    sys.path.insert(0, os.path.dirname(path))
    name = package + "_xverify_target_" + os.path.basename(path)[:-3]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise LoadError("Python cannot import %s" % path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses and pickle look for a module's names
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise LoadError(_why(error, os.path.basename(path))) from error
    return module


def _package_of(folder: str) -> Tuple[str, str]:
    """The package name of a folder, with a dot at the end, and the folder of the outermost package.

    A folder that is no package has the name "".
    """
    package = ""
    while os.path.isfile(os.path.join(folder, "__init__.py")) and os.path.basename(folder).isidentifier():
        package = os.path.basename(folder) + "." + package
        folder = os.path.dirname(folder)
    return package, folder


def _of_instance(where: str, owner: str, name: str) -> str:
    return "%s.%s is a method and needs an instance; write kernel = %s().%s into the file and name kernel" % (
        where,
        name,
        owner,
        name,
    )


def _from_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name + ".").startswith(error.name + "."):
            raise LoadError(_why(error, name)) from error
        raise LoadError(
            "there is no module %r; run this where it can be imported, or name its file: path/to/%s.py:function"
            % (error.name, name.replace(".", "/"))
        ) from None
    except (Exception, SystemExit) as error:
        raise LoadError(_why(error, name)) from error


def _why(error: BaseException, what: str) -> str:
    """The reason for a failed import, with the line in the author's code."""
    if isinstance(error, SyntaxError) and error.filename:
        location = "%s:%s" % (os.path.basename(error.filename), error.lineno)
        return "%s cannot be imported: SyntaxError in %s: %s" % (what, location, error.msg)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _of_author(frame.filename)]
    location = ""
    if frames:
        folder = os.path.dirname(frames[0].filename)
        last = [frame for frame in frames if os.path.dirname(frame.filename) == folder][-1]
        location = " (%s:%s)" % (os.path.basename(last.filename), last.lineno)
    text, instead = str(error), ""
    if isinstance(error, ImportError) and "attempted relative import" in text:
        instead = (
            "; put an empty __init__.py into each folder of its package, or name the module: package.module:function"
        )
    return "%s cannot be imported: %s%s%s%s" % (what, type(error).__name__, text and ": " + text, location, instead)


def _of_author(filename: str) -> bool:
    ours = (os.path.abspath(__file__), os.path.abspath(importlib.__file__ or ""))
    return not filename.startswith("<") and os.path.abspath(filename) not in ours


def _instead(module: Any, name: str) -> str:
    functions = [n for n in dir(module) if not n.startswith("_") and callable(getattr(module, n, None))]
    close = difflib.get_close_matches(name, functions, 3, 0.5)
    if close:
        return "did you mean %s?" % ", ".join(close)
    return "it has %s" % ", ".join(functions[:MOST_NAMES]) if functions else "it has no function"


def _names(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
