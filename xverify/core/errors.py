"""Exceptions of xverify: each message is a sentence for the user."""

from __future__ import annotations


class UsageError(ValueError):
    """The user asked for something that is not there; the message says what to do next."""


class UnableError(Exception):
    """What was asked for cannot be done here; the message is a sentence."""


class DamagedFileError(ValueError):
    """A file is not what it should be; the message is a sentence that says which file and why."""


class DocumentError(Exception):
    """A document cannot be read: its package is not installed, or does not answer."""


class ContractFileError(ValueError):
    """A file is not one of an edition; the message says where and why, and is for the author of the file."""


class UnknownEditionError(KeyError):
    """No built-in edition has that id; the message is a sentence."""

    def __str__(self) -> str:
        return (
            f"no edition is called {self.args[0]!r} here (see: xverify contracts); one that a file defines is known only "
            "where the file is named: --contract path.py"
        )


class UnknownRecipeError(KeyError):
    """No recipe has that name; the message is a sentence."""

    def __str__(self) -> str:
        return f"no recipe of arithmetic is called {self.args[0]!r}; reports and the lines of a gate name those that there are"


class BrokenEnvironmentError(RuntimeError):
    """This process flushes subnormals, so nothing that it computes can be trusted."""


class NotStartedError(RuntimeError):
    """The process could not be started; the message says why."""


class WorkerFailedError(RuntimeError):
    """The worker could not be started, or died again and again; the message is a sentence."""


class EnvironmentFailedError(RuntimeError):
    """An environment cannot be made or used; the message is a sentence."""


class RefusedError(UnableError):
    """The implementation answers no call of the domain; the message is a sentence."""


class FlushingError(UnableError):
    """This process no longer computes with subnormals, so nothing that it expects is right."""


class WrongFieldError(ValueError):
    """A field is not what it should be. keys: the way to it from the entry's table, () for the entry as a whole."""

    def __init__(self, keys: tuple[str, ...], message: str) -> None:
        super().__init__(message)
        self.keys = keys
