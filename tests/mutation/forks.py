"""Tests in forks of a process that has imported what all of them import, and nothing of the tree: a second less for each.

    python forks.py MODULE...

run in a copy of the tree, with its PYTHONPATH. It says its number when it is ready. It reads a line of JSON for each
time, {"options": pytest's, "output": a file}, says the number of the new process, and when that has ended its status; negative:
minus the signal that ended it.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any, NoReturn


def prepare(modules: list[str]) -> None:
    """Import, and have Numba get ready to compile."""
    for module in modules:
        importlib.import_module(module)
    if "numba" in sys.modules:
        from numba import int64, njit

        njit(lambda values: values[0] + 1).compile((int64[:],))


def run(asked: dict[str, Any]) -> NoReturn:
    """In the new process, which leads a group so that it can be ended with those that it starts."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    output = os.open(asked["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    import pytest

    sys.exit(pytest.main(asked["options"]))  # and not os._exit: threads that do not end are a fault


def main() -> None:
    sys.path[0] = os.getcwd()
    prepare(sys.argv[1:])
    print(os.getpid(), flush=True)
    for line in sys.stdin:
        process = os.fork()
        if not process:
            run(json.loads(line))
        print(process, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
