"""Exceptions of xverify. Each message is a sentence for the user."""

from __future__ import annotations

NO_SPACE_LEFT = "no space left"
"""The words about a full disk in the messages of a command, by which a divided run knows why its shard ended."""


class UsageError(ValueError):
    """A request for something that does not exist. The message says what to do next."""


class UnableError(Exception):
    """A request that cannot be fulfilled on this machine."""


class NoSpaceError(UnableError):
    """A full disk. The message says which. It is no OSError, since no worker is to blame."""


class DamagedFileError(ValueError):
    """A file with wrong content. The message says which file, and what is wrong."""


class DocumentError(Exception):
    """A document that cannot be read, since its package is not installed or does not answer."""


class ContractFileError(ValueError):
    """A mistake in a file of an edition. The message tells the author of the file where it is."""


class UnknownEditionError(KeyError):
    """An id that no built-in edition has."""

    def __str__(self) -> str:
        return (
            f"no edition is called {self.args[0]!r} here (see: xverify contracts); one that a file defines is known only "
            "where the file is named: --contract path.py"
        )


class UnknownRecipeError(KeyError):
    """A name that no recipe has."""

    def __str__(self) -> str:
        return f"no recipe of arithmetic is called {self.args[0]!r}; reports and the lines of a gate name those that there are"


class BrokenEnvironmentError(RuntimeError):
    """A process that flushes subnormals, so its results cannot be trusted."""


class NotStartedError(RuntimeError):
    """A process that could not be started. The message says why."""


class WorkerFailedError(RuntimeError):
    """A worker that could not be started, or died repeatedly."""


class EnvironmentFailedError(RuntimeError):
    """An environment that cannot be made or used."""


class RefusedError(UnableError):
    """An implementation that answers no call of a domain."""


class FlushingError(UnableError):
    """A process that began to flush subnormals, so its expected results are wrong."""


class WrongFieldError(ValueError):
    """A field with a wrong value.

    keys: The keys that lead from the entry's table to the field. () stands for the whole entry.
    """

    def __init__(self, keys: tuple[str, ...], message: str) -> None:
        super().__init__(message)
        self.keys = keys
