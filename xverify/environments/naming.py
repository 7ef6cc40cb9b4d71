"""Names of implementations: NAME[:OPTION][==VERSION | @PYTHON], with KEY=FILE for a user's file."""

from __future__ import annotations

import re
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

NEWEST = "newest"
"""The version that stands for the newest release that the package index offers."""

FORM = "NAME[:OPTION][==VERSION | @PYTHON]"
"""The form of a name.

Examples: ``onnxruntime``, ``onnxruntime:CUDAExecutionProvider``, ``onnxruntime:EP=path/to/provider.so``,
``onnxruntime==1.17.0``, ``onnxruntime==newest``, ``onnxruntime@/path/to/python``.
"""


@dataclass(frozen=True)
class Name:
    """The parts of a name; missing parts are ""."""

    name: str
    option: str = ""
    version: str = ""
    python: str = ""

    @property
    def file(self) -> str:
        """The file of the user that the option names, "" without one."""
        return self.option.partition("=")[2]


def parse(text: str) -> Name:
    """Parse a name.

    Raises:
        ValueError: The text is no name; the message is one sentence.
    """
    match = re.search("==|@", text)
    head, mark, rest = (text, "", "") if match is None else (text[: match.start()], match.group(), text[match.end() :])
    name, colon, option = head.partition(":")
    if not name or (colon and not option) or (mark and not rest):
        raise ValueError(f"an implementation is named {FORM}, not {text!r}: a part of it is empty")
    if mark == "@":
        return Name(name, option, python=rest)
    if "@" in rest:
        raise ValueError(f"{text!r} names a version and a Python; a Python has its version: {head}@PYTHON")
    if mark and rest != NEWEST:
        try:
            Version(rest)
        except InvalidVersion:
            raise ValueError(f"{rest!r} in {text!r} is not a version; one is written {head}==1.17.0") from None
    return Name(name, option, version=rest)


def parse_or_none(text: str) -> Name | None:
    """Parse a name. Return None if the text is no name."""
    try:
        return parse(text)
    except ValueError:
        return None


def same_version(first: str, second: str) -> bool:
    """True if two versions are equal, for example 1.17 and 1.17.0.

    A text that is no version equals only itself.
    """
    try:
        return Version(first) == Version(second)
    except InvalidVersion:
        return first == second
