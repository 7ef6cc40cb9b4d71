"""One call for each flawed Python kernel that computes or refuses wrongly, which shows the flaw."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

Demonstration = tuple[tuple[Any, ...], dict[str, Any]]
"""Operands and keywords."""


def demonstrations() -> dict[str, Demonstration]:
    """Return the calls by the kernel's name."""
    return {
        **_linear(), **_rounding(), **_floats(), **_small_integers(), **_blocked(), **_block_sizes(), **_strides(), **_rest(),
    }  # fmt: skip


def large_demonstrations() -> dict[str, Demonstration]:
    """Return the calls of kernels that are wrong on large tensors only."""
    many, half = 65600, np.float32(0.5)
    blocked = {"axis": 1, "block_size": 2}
    strided = np.ones((many, 4), np.int8)[:, ::2]
    return {
        "columns_above_65535_left_out": _call(np.ones((1, many), np.int8), half),
        "rows_above_65535_left_out": _call(np.ones((many, 2), np.int8), half),
        "rows_above_65535_left_out_of_strided_x": _call(strided, half),
        "rows_above_262140_left_out": _call(np.ones((262150, 1), np.int8), half),
        "matrices_above_65535_left_out": _call(np.ones((many, 1, 2), np.int8), half),
        "blocks_above_65535_left_out": _call(np.ones((1, 2 * many), np.int8), _scales(1, many), **blocked),
        "rows_of_scales_above_65535_clamped": _call(np.ones((many, 4), np.int8), _scales(many, 2), **blocked),
        "channels_above_65535_left_out": _call(np.ones((1, many), np.int8), _scales(many)),
        "channels_above_1024_left_out": _call(np.ones((1, 1030), np.int8), _scales(1030)),
        "rows_left_in_16_bits": _call(np.ones((32801, 1), np.int8), half),
        "last_share_of_threads_left_out": _call(np.ones(262150, np.int8), half),
        "tail_of_fours_left_out": _call(np.ones(262150, np.int8), half),
        "index_in_float32": _call(_int8((1 << 24) + 5), half),
    }


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
        "axis_1_where_extents_agree": _call(_int8(3, 3), _scales(3), axis=0),
        "parameters_of_channel_0": _call(_int8(2, 3), _scales(3), axis=1),
        "zero_point_of_channel_0": _call(_int8(2, 3), _scales(3), np.int8([1, 2, 3]), axis=1),
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
        "bfloat16_through_float16": _call(np.int8([100]), np.float32(1e4), out_dtype="bfloat16"),
        "float32_through_scale_type": _call(every, np.float16(0.1), out_dtype="float32"),
        "product_of_zero_point_in_float16": _call(every.view(np.uint8), np.float16(0.1), np.uint8(77)),
        "scale_0_taken_as_epsilon": _call(every, np.float32(0)),
        "nan_scale_gives_0": _call(every, np.float32(np.nan)),
        "infinite_scale_times_0_gives_0": _call(every, np.float32(np.inf)),
        "sign_of_blocked_scale_lost": _call(_int8(2, 4), -_scales(2, 2), axis=1, block_size=2),
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
        "e8m0_below_float16_normal_as_zero": _call(
            ones, np.array([105, 127, 130], np.uint8).view(e8m0.dtype), out_dtype="float16"
        ),
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
        "int8_minus_128_read_as_minus_127": _call(np.int8([-128, 127]), np.float32(0.5)),
        "int4_zero_point_without_sign_extension": _call(int4, np.float32(0.5), int4[0]),
        "uint16_zero_point_at_most_65504": _call(np.uint16([3]), np.float32(0.5), np.uint16(65535)),
        "upper_nibble_of_odd_tail_taken": _call(int4[:3], np.float32(0.5)),
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


def _int4(*shape: int) -> Any:
    index = np.arange(np.prod(shape, dtype=int))
    return ((index * 5 + index // 32) % 16 - 8).astype(ml_dtypes.int4).reshape(shape)


def _block_sizes() -> dict[str, Demonstration]:
    of_32 = {"axis": 1, "block_size": 32}
    of_256 = {"axis": 1, "block_size": 256}
    return {
        "blocks_of_32_assumed": _call(_int8(2, 128), _scales(2, 2), axis=1, block_size=64),
        "blocks_of_128_assumed_in_256": _call(_int8(2, 512), _scales(2, 2), **of_256),
        "later_blocks_alternate": _call(_int8(2, 96), _scales(2, 3), **of_32),
        "rest_after_128_has_scales_of_next_row": _call(_int8(2, 160), _scales(2, 5), **of_32),
        "rows_of_scales_padded_to_8": _call(_int8(2, 96), _scales(2, 3), **of_32),
        "padding_of_odd_zero_points_ignored": _call(_int4(2, 96), _scales(2, 3), _int4(2, 3), **of_32),
        "halves_of_blocks_interleaved": _call(_int4(1, 32), _scales(1, 1), **of_32),
        "codes_of_first_block_repeated": _call(_int4(1, 63), _scales(1, 2), **of_32),
        "extent_below_block_not_scaled": _call(_int8(1, 8), _scales(1, 1), **of_32),
        "second_half_of_256_has_next_scale": _call(_int8(1, 512), _scales(1, 2), **of_256),
        "only_first_block_of_256_written": _call(_int8(1, 512), _scales(1, 2), **of_256),
        "pair_of_nibbles_shares_block": _call(_int4(1, 9), _scales(1, 3), axis=1, block_size=3),
        "blocks_after_whole_16_left_out": _call(_int8(1, 34), _scales(1, 17), axis=1, block_size=2),
        "last_partial_block_left_out": _call(_int8(1, 40), _scales(1, 2), **of_32),
    }


def _strides() -> dict[str, Demonstration]:
    half, blocked = np.float32(0.5), {"axis": 1, "block_size": 2}
    x, ones = _int8(2, 4), np.int8([[1, 1, 1, 1], [1, 1, 1, 1]])
    return {
        "last_stride_of_1_taken_as_contiguous": _call(_int8(3, 8)[:, :5], half),
        "contiguous_matrices_taken_as_contiguous": _call(_int8(2, 4, 3)[:, :2], half),
        "pitch_of_scale_ignored": _call(ones, _scales(2, 5)[:, :2], **blocked),
        "stride_of_scale_ignored": _call(x, _scales(8)[::2], axis=1),
        "transposed_scale_read_as_stored": _call(ones, _scales(2, 2).T, **blocked),
        "strides_of_zero_point_from_shape": _call(x, _scales(4), _int8(8)[::2], axis=1),
        "channels_last_written_as_channels_first": _call(_int8(2, 3, 4, 2).transpose(0, 3, 1, 2), half),
        "reversed_rows_read_forwards": _call(_int8(4)[::-1], half),
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
        "output_of_another_type_refused": _call(_int8(2), np.float32(0.5), out_dtype="float16"),
        "scale_from_larger_magnitude": _call(every, low, high, mode="SCALED"),
        "unsigned_types_as_signed_ones": _call(every.view(np.uint8), low, high, mode="SCALED"),
        "range_scale_inverted": _call(every, low, high, mode="MIN_FIRST"),
        "narrow_range_not_looked_at": _call(every, low, high, mode="SCALED", narrow_range=True),
        "first_of_several_ranges_taken": _call(every, np.float32([-6, -5]), np.float32([5, 6])),
        "layout_of_rank_4_assumed": _call(_int8(2, 3, 4), low, high),
    }
