"""One call for each flawed Python kernel that computes or refuses wrongly, which shows the flaw."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

Demonstration = tuple[tuple[Any, ...], dict[str, Any]]
"""Operands and keywords."""


def demonstrations() -> dict[str, Demonstration]:
    """Return the calls by the kernel's name."""
    return {**_linear(), **_rounding(), **_floats(), **_small_integers(), **_blocked(), **_rest()}


def _call(*operands: Any, **attributes: Any) -> Demonstration:
    return operands, attributes


def _int8(*shape: int) -> Any:
    return (np.arange(np.prod(shape, dtype=int)) * 37 % 256 - 128).astype(np.int8).reshape(shape)


def _scales(*shape: int) -> Any:
    return (np.arange(np.prod(shape, dtype=int)) * 0.3 + 0.1).astype(np.float32).reshape(shape)


def _linear() -> dict[str, Demonstration]:
    return {
        "negative_axis_one_early": _call(_int8(2, 3, 3), _scales(3), axis=-1),
        "negative_axis_refused": _call(_int8(2, 3), _scales(3), axis=-1),
        "default_axis_zero": _call(_int8(3, 3), _scales(3)),
        "last_axis_refused": _call(_int8(2, 3), _scales(3), axis=1),
        "axis_zero_taken_as_absent": _call(_int8(2, 3), _scales(2), axis=0),
        "channels_last_mostly_zero": _call(np.asfortranarray(_int8(2, 2, 3, 3)), _scales(2)),
        "int8_difference_wraps": _call(np.array([-100], np.int8), np.float32(1), np.int8(100)),
        "zero_point_added": _call(_int8(3), np.float32(1), np.int8(1)),
    }


def _rounding() -> dict[str, Demonstration]:
    every = np.arange(-128, 128).astype(np.int8)
    return {
        "zero_point_folded": _call(every, np.float32(0.1), np.int8(77)),
        "scale_near_zero_taken_as_zero": _call(every, np.float32(1e-33)),
        "scale_at_least_smallest_normal": _call(every, np.float32(0)),
        "zero_without_sign": _call(every, np.float32(-1)),
        "bfloat16_truncated": _call(every, np.float32(0.1), out_dtype="bfloat16"),
        "bfloat16_rounded_twice": _twice("bfloat16"),
        "float16_rounded_twice": _twice("float16"),
        "always_float32": _call(every, np.float16(0.5)),
        "half_operands_overflow": _call(np.uint16([65535]), np.float16(0.25)),
        "fixed_point_on_odd_extents": _call(_int8(2, 3), np.float32(0.1)),
    }


def _twice(out_dtype: str) -> Demonstration:
    """Return a call that shows a scale cast to the output type first.

    71 times the scale is just above a tie of the output type, by less than float32 can tell. 71 times the cast scale is not.
    """
    tie = 1 + 2.0 ** (-8 if out_dtype == "bfloat16" else -11)
    return _call(np.int8([71]), np.float32(tie / 71), out_dtype=out_dtype)


def _floats() -> dict[str, Demonstration]:
    def codes(dtype: Any) -> Any:
        return np.arange(256, dtype=np.uint8).view(dtype)

    e8m0 = np.array([0, 134, 255], np.uint8).view(ml_dtypes.float8_e8m0fnu)
    ones = np.full((1, 3), 100, np.int8)
    return {
        "e4m3fn_subnormals_as_normal": _call(codes(ml_dtypes.float8_e4m3fn), np.float32(0.5)),
        "e4m3fn_negative_zero_unsigned": _call(codes(ml_dtypes.float8_e4m3fn), np.float32(0.5)),
        "fnuz_nan_as_negative_zero": _call(codes(ml_dtypes.float8_e4m3fnuz), np.float32(0.5)),
        "e5m2fnuz_with_bias_of_e5m2": _call(codes(ml_dtypes.float8_e5m2fnuz), np.float32(0.5)),
        "float4_subnormals_as_normal": _call(
            np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn), np.float32(0.5)
        ),
        "e8m0_nan_found_by_value_128": _call(ones, e8m0, out_dtype="float32"),
        "e8m0_smallest_as_zero": _call(ones, e8m0, out_dtype="float32"),
    }


def _small_integers() -> dict[str, Demonstration]:
    uint4 = np.arange(16).astype(ml_dtypes.uint4)
    int4 = np.arange(-8, 8).astype(ml_dtypes.int4)
    return {
        "uint4_read_as_signed": _call(uint4, np.float32(0.5)),
        "int4_without_sign_extension": _call(int4, np.float32(0.5)),
        "int4_as_nibble_minus_7": _call(int4, np.float32(0.5)),
        "uint4_zero_point_0_becomes_15": _call(uint4, np.float32(0.5), np.zeros((), ml_dtypes.uint4)),
        "odd_rows_of_int4_refused": _call(int4[:3], np.float32(0.5)),
    }


def _blocked() -> dict[str, Demonstration]:
    even, partial = _int8(2, 4), _int8(2, 5)
    return {
        "blocks_interleaved": _call(even, _scales(2, 2), axis=1, block_size=2),
        "zero_point_blocks_alternate": _call(even, _scales(2, 2), _int8(2, 2), axis=1, block_size=2),
        "block_of_flat_index": _call(partial, _scales(2, 3), axis=1, block_size=2),
        "one_dimensional_blocks_per_axis": _call(_int8(8), _scales(2), axis=0, block_size=4),
        "blocks_beyond_axis_1_refused": _call(_int8(1, 2, 4), _scales(1, 2, 2), axis=2, block_size=2),
        "block_size_from_shapes": _call(partial, _scales(2, 3), axis=1, block_size=2),
        "partial_block_refused": _call(partial, _scales(2, 3), axis=1, block_size=2),
        "partial_block_has_scale_before": _call(partial, _scales(2, 3), axis=1, block_size=2),
        "blocks_of_at_most_1024": _call(_int8(1, 3000), _scales(1, 2), axis=1, block_size=1500),
    }


def _rest() -> dict[str, Demonstration]:
    zps = np.array([30, 50, 60, 90], np.int32)
    low, high = np.float32(-6), np.float32(5)
    e4m3fn = np.ones(2, ml_dtypes.float8_e4m3fn)
    every = np.arange(-128, 128).astype(np.int8)
    return {
        "int32_zero_points_read_as_64_bits": _call(_int8(2, 4), _scales(4), zps, qtype="per_channel", axis=1),
        "rank_4_tail_without_zero_point": _call(_int8(1, 1, 2, 33), _scales(1), np.int8([3])),
        "divided_by_inverse": _call(every, np.float32([0.1]), np.int8([3])),
        "multiplied_by_inverse": _call(every, np.float32([0.3]), np.int8([3])),
        "read_in_memory_order": _call(np.asfortranarray(_int8(2, 3)), np.float32(0.5)),
        "one_dimension_comes_out_as_two": _call(np.arange(4).astype(ml_dtypes.uint4), np.float32(0.5)),
        "scale_of_another_length_taken": _call(_int8(2, 3), _scales(4)),
        "axis_below_range_taken": _call(_int8(2, 3), _scales(3), axis=-3),
        "axis_above_range_taken": _call(_int8(2, 3), _scales(3), axis=2),
        "zero_point_of_another_type_cast": _call(_int8(2), np.float32(0.5), np.array(3, np.uint8)),
        "anything_that_broadcasts_taken": _call(_int8(2, 3), _scales(1, 3)),
        "block_size_0_inferred": _call(_int8(2, 4), _scales(2, 2)),
        "blocks_too_many_taken": _call(_int8(2, 4), _scales(2, 3), axis=1, block_size=2),
        "float8_zero_point_must_be_0": _call(e4m3fn, np.float32(0.5), e4m3fn[0]),
        "scalar_scale_on_scalar_refused": _call(np.array(3, np.int8), np.float32(0.5)),
        "scale_from_larger_magnitude": _call(every, low, high, mode="SCALED"),
        "unsigned_types_as_signed_ones": _call(every.view(np.uint8), low, high, mode="SCALED"),
        "range_scale_inverted": _call(every, low, high, mode="MIN_FIRST"),
        "narrow_range_not_looked_at": _call(every, low, high, mode="SCALED", narrow_range=True),
        "first_of_several_ranges_taken": _call(every, np.float32([-6, -5]), np.float32([5, 6])),
        "layout_of_rank_4_assumed": _call(_int8(2, 3, 4), low, high),
    }
