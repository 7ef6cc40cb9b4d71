"""Wheels in a directory that stands for the package index. No test of environments needs the network."""

from __future__ import annotations

import base64
import hashlib
import sysconfig
import zipfile
from pathlib import Path

FRAMEWORK = "xverify-fake-framework"


def wheel(directory: Path, name: str, version: str, files: dict[str, str], tag: str = "py3-none-any") -> Path:
    """Write a wheel that holds these files."""
    stem = f"{name.replace('-', '_')}-{version}"
    about = f"{stem}.dist-info"
    listed = {
        **files,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    record = []
    path = directory / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for place, text in listed.items():
            archive.writestr(place, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record.append(f"{place},sha256={digest},{len(text.encode())}\n")
        archive.writestr(f"{about}/RECORD", "".join(record) + f"{about}/RECORD,,\n")
    return path


def framework(directory: Path, version: str, body: str, tag: str = "py3-none-any") -> Path:
    """A release of the fake framework: a package of one file."""
    return wheel(directory, FRAMEWORK, version, {"xverify_fake_framework/__init__.py": body}, tag)


OLD = """
import sys
from importlib.metadata import version
FACTOR = 3
if int(version("numpy").split(".")[0]) >= 2:
    sys.stderr.write("A module that was compiled using NumPy 1.x cannot be run in NumPy 2 as it may crash.\\n")
"""
"""Acts like an extension module built before NumPy 2: its import prints a complaint and succeeds."""


def package_index(directory: Path) -> Path:
    """Write the wheels of the fake framework and stand-ins for NumPy. Return the directory.

    The framework has releases 1.5 (needs NumPy 1), 2.0, 2.1rc1, 3.0 (its import fails) and 4.0 (for another machine).
    The wheels for NumPy point to the NumPy of this Python.
    """
    framework(directory, "1.5", OLD)
    framework(directory, "2.0", "FACTOR = 2\n")
    framework(directory, "2.1rc1", "FACTOR = 2\n")
    framework(directory, "3.0", 'raise ImportError("libframework.so.3 is missing")\n')
    framework(directory, "4.0", "FACTOR = 4\n", "py3-none-win32")
    here = {"here.pth": sysconfig.get_paths()["purelib"] + "\n"}
    for version in ("1.26.0", "2.9.0"):
        wheel(directory, "numpy", version, here)
    wheel(directory, "ml_dtypes", "0.9", {"ml_dtypes_is_elsewhere.py": ""})
    return directory
