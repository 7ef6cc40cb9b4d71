"""What does the arithmetic of a call that has been checked: NumPy, or loops that Numba compiles."""

from __future__ import annotations

from functools import cache

BACKENDS = ("numpy", "numba")


@cache
def chosen(backend: str | None) -> str:
    """The backend of that name, or the fastest that is installed for None.

    Raises ValueError for another name, ImportError when Numba is asked for and cannot be imported.
    """
    if backend is None:
        try:
            _require_numba()
        except ImportError:  # One that is there and broken is none.
            return "numpy"
        return "numba"
    if backend not in BACKENDS:
        raise ValueError(
            f"backend is {backend!r}; expected {' or '.join(map(repr, BACKENDS))}, or None for the fastest"
        )
    if backend == "numba":
        _require_numba()
    return backend


def _require_numba() -> None:
    """ImportError where there is no Numba, or none that compiles."""
    try:
        import numba
    except Exception as error:
        raise ImportError(
            f"backend is 'numba', which cannot be imported ({error}); install it with: pip install 'xverify[numba]'"
        ) from error
    if numba.config.DISABLE_JIT:
        raise ImportError("backend is 'numba', which is told to compile nothing: unset NUMBA_DISABLE_JIT")
