"""A right kernel in JAX: int8 and uint8, the scale's type as output.

XLA flushes subnormal inputs and results to zero.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from arguments import check, spread, support

jax.config.update("jax_platforms", "cpu")


@jax.jit
def _affine(x, zero_point, scale):
    difference = x.astype(jnp.int32) - zero_point.astype(jnp.int32)
    return (difference.astype(jnp.float32) * scale.astype(jnp.float32)).astype(scale.dtype)


def dequantize(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):
    support(x, scale, out_dtype, ("int8", "uint8"))
    granularity = check(x, scale, zero_point, axis, block_size)
    if zero_point is None:
        zero_point = np.zeros(scale.shape, x.dtype)
    operands = (x, *(spread(array, x, granularity, axis, block_size) for array in (zero_point, scale)))
    flat = [np.broadcast_to(operand, x.shape).reshape(-1) for operand in operands]
    # JAX compiles for each size: few sizes take seconds, and thousands minutes.
    padding = (1 << x.size.bit_length()) - x.size
    result = _affine(*(np.concatenate([operand, np.zeros(padding, operand.dtype)]) for operand in flat))
    return result[: x.size].reshape(x.shape)
