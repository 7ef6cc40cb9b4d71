"""Codes of fewer than 8 bits as models store them, and the option ``packed`` of the in-house kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Tuple

import numpy as np

from xverify.core.call import BITS
from xverify.oracles.arrays import Array, pack
from xverify.oracles.protocol import Oracle

PACKED = "packed"


def with_option(oracle: Oracle, option: str) -> Oracle:
    """The same kernel with packed codes.

    Raises:
        ValueError: The option is not `PACKED`.
    """
    if option != PACKED:
        raise ValueError("%s takes the option %s, not %r" % (oracle.name, PACKED, option))
    return replace(
        oracle, name="%s:%s" % (oracle.name, option), arguments=(*oracle.arguments, *option_arguments(option))
    )


def option_arguments(option: str) -> Tuple[str, ...]:
    """The arguments of ``load`` for the option."""
    return (option,)


def is_packable(array: Any) -> bool:
    """True if codes of the array's type share bytes."""
    return BITS.get(array.dtype.name, 8) < 8


def in_packed_form(array: Any) -> Array:
    """Pack codes, one a byte, into the bytes that models store. The type must be one that `is_packable`."""
    bits = BITS[array.dtype.name]
    codes: Array = array.view(np.uint8) & np.uint8((1 << bits) - 1)
    return pack(codes, bits)
