"""The backend of a call that has been checked: NumPy, or loops that Numba compiles."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np

from xverify.kernels.blocks import Spread
from xverify.kernels.formula import apply
from xverify.kernels.plans import Operand, Plan

BACKENDS = ("numpy", "numba")


@cache
def chosen(backend: str | None) -> str:
    """The backend of that name; for None the fastest that is installed.

    Raises:
        ValueError: for another name.
        ImportError: if Numba is named and cannot be imported.
    """
    if backend is None:
        try:
            _require_numba()
        except ImportError:  # A broken installation counts as none.
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
    """Raise ImportError if Numba is missing, or compiles nothing."""
    try:
        import numba
    except Exception as error:
        raise ImportError(
            f"backend is 'numba', which cannot be imported ({error}); install it with: pip install 'xverify[numba]'"
        ) from error
    if numba.config.DISABLE_JIT:
        raise ImportError("backend is 'numba', which is told to compile nothing: unset NUMBA_DISABLE_JIT")


def planned(
    backend: str | None,
    dtype: np.dtype[Any],
    x: Operand,
    scale: Operand,
    zero_point: Operand | None,
    spread: Spread,
    by_division: bool = False,
) -> Plan:
    """The plan of operands that have been checked.

    Args:
        backend: as for `chosen`.
        dtype: the output's dtype.
        spread: how scales and zero points spread over x.
        by_division: True for / scale.
    """
    # NumPy's own dtype object, which most arrays have, compares by identity.
    dtype = np.dtype(dtype.type)
    if chosen(backend) == "numpy":
        return Plan(dtype, partial(apply, spread=spread, by_division=by_division), spread=spread)
    # Here, because importing Numba takes seconds, and it may be missing.
    from xverify.kernels.compiled.linear import Linear

    formula = Linear.of(dtype, x, scale, zero_point, spread, by_division)
    return Plan(dtype, formula, formula.for_small(x.shape), spread)
