"""The telemetry of frameworks, switched off by the environment of the processes that import them.

Sources: the strings of ONNX Runtime's library, and the files that each framework left in an empty home.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

SWITCHED_OFF = {"ORT_DISABLE_TELEMETRY": "1"}
"""Environment variables that switch telemetry off.

ONNX Runtime 1.31 and 1.32 begin with the import, so that `disable_telemetry_events` comes too late for their first event.
Releases that do not know the variable ignore it. OpenVINO reads no variable, but a file in the home: see
`xverify.workers.home`.
"""


@contextmanager
def quiet_environment() -> Iterator[dict[str, str]]:
    """The environment for a short process that imports a framework.

    Telemetry is off. A release that ignores that, such as ONNX Runtime 1.30, writes to a folder that is removed at the end.
    """
    with tempfile.TemporaryDirectory(prefix="xverify-", ignore_cleanup_errors=True) as cache:
        yield {**os.environ, **SWITCHED_OFF, "XDG_CACHE_HOME": cache}
