"""A home for a worker, so that its framework leaves the home of the user as it is.

Frameworks keep telemetry, font lists and settings there: ONNX Runtime in ``~/.cache/Microsoft``, OpenVINO in ``~/intel``, and
what TensorFlow imports in ``~/.keras``, ``~/.cache/matplotlib`` and ``~/.config/matplotlib``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from xverify.core.telemetry import SWITCHED_OFF
from xverify.oracles.protocol import Oracle

_XDG = {
    "XDG_CACHE_HOME": ".cache",
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
}
"""Folders of the home, by the variables that may place them elsewhere."""


def has_own_home(oracle: Oracle) -> bool:
    """True if the implementation gets a home of its own.

    A kernel under test keeps the home of its user, since its code may need files there: compiled CUDA kernels, extensions of
    PyTorch, weights. It has no distribution, also where it is the reference of ``gate --like``. xverify's own kernels keep the
    home too, since Numba and CuPy keep their compiled code there.
    """
    return oracle.role != "kernel" and oracle.distribution not in ("", "xverify")


def make_home(home: Path) -> None:
    """Make the folders of a home, unless they exist, and decline OpenVINO's telemetry there.

    Raises:
        OSError: They cannot be made.
    """
    for folder in (*_XDG.values(), "intel"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    # openvino_telemetry reads this file; "0" declines, and without it the first event is sent.
    (home / "intel" / "openvino_telemetry").write_text("0", encoding="ascii")


def environment(home: Path | None, outside: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Environment variables for a worker.

    Args:
        home: The worker's own home; None if it keeps that of the user.
        outside: The environment of this process.
    """
    if home is None:
        return dict(SWITCHED_OFF)
    # Python looks for the user's packages below the home, unless this variable says where.
    packages = outside.get("PYTHONUSERBASE") or str(Path(outside.get("HOME") or Path.home()) / ".local")
    xdg = {name: str(home / folder) for name, folder in _XDG.items()}
    return {**SWITCHED_OFF, "HOME": str(home), **xdg, "PYTHONUSERBASE": packages}
