"""Run tests in forks of a process that has imported their common modules, which saves a second each.

    python forks.py MODULE...

This runs in a copy of the tree, with its PYTHONPATH, and imports nothing of the tree beforehand. It prints its process id when it
is ready. It reads a line of JSON for each run: {"options": options of pytest, "output": a file}. It prints the id of the new
process, and later that process's exit status, which is negative for a signal.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any, NoReturn


def prepare(modules: list[str]) -> None:
    """Import modules, and make Numba ready to compile."""
    for module in modules:
        importlib.import_module(module)
    if "numba" in sys.modules:
        from numba import int64, njit

        njit(lambda values: values[0] + 1).compile((int64[:],))


def run(asked: dict[str, Any]) -> NoReturn:
    """Run pytest in the new process. It leads a group, so that the caller can end everything it starts."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    output = os.open(asked["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    import pytest

    sys.exit(pytest.main(asked["options"]))  # os._exit would hide threads that do not end


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
