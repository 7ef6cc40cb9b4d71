"""A table of every flawed kernel: its report, its mistake, and the verdicts that the gate must give.

If a report is about quantization or fusion, its mistake was carried over to dequantization. This module imports only the
standard library. The kernels import `sound`, their sibling, by its plain name.
"""

from __future__ import annotations

from dataclasses import dataclass

ONNX = "ai.onnx/DequantizeLinear-25"
MICROSOFT = "com.microsoft/DequantizeLinear-1@installed"
MULTIPLY = "onednn/DynamicDequantize-1@multiply"
DIVIDE = "onednn/DynamicDequantize-1@divide"
TENSORFLOW = "tensorflow/Dequantize@installed"


@dataclass(frozen=True)
class Flawed:
    """One flawed kernel."""

    target: str
    """The function, "file.py:function" or "native/file.c:symbol"; the path is relative to this folder."""
    contract: str
    source: str
    """The report, "owner/repository#number"."""
    what: str
    """The mistake."""
    expected: frozenset[str]
    """Verdicts, of which the gate must give one."""
    flags: tuple[str, ...] = ()
    """Options for the C compiler."""

    @property
    def name(self) -> str:
        return self.target.partition(":")[2]

    @property
    def file(self) -> str:
        return self.target.partition(":")[0]

    @property
    def native(self) -> bool:
        return self.target.startswith("native/")


@dataclass(frozen=True)
class Sound:
    """A kernel without a mistake, which the gate must pass.

    It says "not implemented" outside of its limits.
    """

    target: str
    contract: str = ONNX
    options: tuple[str, ...] = ()
    """Options of the gate beside the kernel and the contract."""
    needs: tuple[str, ...] = ()
    """Packages that the kernel imports."""
    exit_code: int = 0


SOUND = (
    Sound("sound.py:onnx"),
    Sound("sound.py:microsoft", MICROSOFT),
    Sound("sound.py:onednn_multiply", MULTIPLY),
    Sound("sound.py:onednn_divide", DIVIDE),
    Sound("sound.py:tensorflow", TENSORFLOW),
    Sound("native/plain.c:plain"),
    Sound("native/packed.c:packed"),
    Sound("naive.py:whole"),
    Sound("naive.py:blocks_of_32"),
    Sound("naive.py:blocks_of_32", options=("--block-sizes", "32", "--axes", "-1")),
    Sound("naive.py:per_tensor"),
    Sound("naive.py:per_tensor", options=("--granularity", "per_tensor")),
    Sound("naive.py:per_axis_1"),
    Sound("naive.py:contiguous"),
    Sound("naive.py:contiguous", options=("--contiguous",)),
    Sound("naive.py:matrices"),
    Sound("naive.py:matrices", options=("--ranks", "2")),
    Sound("naive.py:float32_only"),
    Sound("naive.py:symmetric"),
    Sound("jit_numba.py:dequantize", needs=("numba",)),
    Sound("eager_torch.py:dequantize", needs=("torch",)),
    Sound("compiled_jax.py:dequantize", options=("--denormals", "flush-inputs"), needs=("jax",)),
)


@dataclass(frozen=True)
class AlmostNothing:
    """A kernel that answers almost no call, and those rightly."""

    name: str
    """The function of answers_almost_nothing.py."""
    exit_code: int = 3
    """Exit code that the gate must give.

    It is 3, "no evidence", or 1 if a call is answered and then refused, or some allowed calls are refused by an error.
    """
    contract: str = ONNX
    options: tuple[str, ...] = ()
    """Options of the gate beside the kernel and the contract."""
    needs: tuple[str, ...] = ()
    """Packages that the kernel imports."""

    @property
    def target(self) -> str:
        return f"answers_almost_nothing.py:{self.name}"


ALMOST_NOTHING = (
    AlmostNothing("nothing"),
    AlmostNothing("only_refusals"),
    AlmostNothing("only_open_calls"),
    AlmostNothing("only_int32_with_zero_point"),
    AlmostNothing("only_empty_tensors"),
    AlmostNothing("only_scalars"),
    AlmostNothing("only_one_element"),
    AlmostNothing("only_two_elements"),
    AlmostNothing("only_short_vectors"),
    AlmostNothing("only_extents_of_one"),
    AlmostNothing("only_nan_scales"),
    AlmostNothing("only_infinite_scales"),
    AlmostNothing("only_zero_scales"),
    AlmostNothing("only_one_code"),
    AlmostNothing("only_x_of_zeros"),
    AlmostNothing("only_x_equal_to_zero_point"),
    AlmostNothing("one_call_of_a_hundred"),
    AlmostNothing("only_the_first_call", 1),
    AlmostNothing("only_one_structure"),
    AlmostNothing("rejects_all_but_one_cell", 1),
    AlmostNothing("rejects_everything"),
)


def _flawed(target: str, source: str, what: str, expected: str, contract: str = ONNX) -> Flawed:
    return Flawed(target, contract, source, what, frozenset(expected.split()))


_LINEAR = (
    _flawed("linear.py:negative_axis_one_early", "apple/coreai-torch#24",
            "A negative axis is resolved as axis + rank - 1, one dimension early.",
            "violation wrongly-rejected wrongly-accepted"),
    _flawed("linear.py:negative_axis_refused", "ROCm/AMDMIGraphX#703",
            "Negative axes were not thought of, and are refused.", "wrongly-rejected"),
    _flawed("linear.py:default_axis_zero", "apache/tvm#9028",
            "The axis of a call that gives none is 0, to make rank 1 work, instead of 1.",
            "violation wrongly-rejected wrongly-accepted"),
    _flawed("linear.py:last_axis_refused", "microsoft/onnxruntime#29475",
            "The 1-D scale is not reshaped where the axis is the last one, and its rank is then refused.",
            "wrongly-rejected"),
    _flawed("linear.py:axis_zero_taken_as_absent", "microsoft/onnxruntime#13038",
            "Quantization per channel does not work for axis 0: it is taken for no axis.", "violation", MICROSOFT),
    _flawed("linear.py:channels_last_mostly_zero", "pytorch/executorch#16429",
            "Per axis, an input in channels-last order comes out as 0 on every channel but the first.",
            "violation mixed"),
    _flawed("linear.py:int8_difference_wraps", "pytorch/executorch#20655",
            "The zero point is subtracted in int8, which wraps around.", "violation mixed"),
    _flawed("linear.py:zero_point_added", "ARM-software/ComputeLibrary#1033",
            "Zero points are added instead of subtracted.", "violation mixed"),
    _flawed("linear.py:axis_1_where_extents_agree", "ooples/AiDotNet.Tensors#193",
            "The axis is not looked at: a scale with as many elements as dimension 1 applies along dimension 1.",
            "violation mixed"),
    _flawed("linear.py:parameters_of_channel_0", "sonos/tract#2849",
            "Per axis, every channel gets the scale and zero point of channel 0.", "violation mixed"),
    _flawed("linear.py:zero_point_of_channel_0", "openvinotoolkit/nncf#2790",
            "Some hardware has only zero points per tensor; here each channel gets the zero point of channel 0.",
            "violation mixed"),
)  # fmt: skip

_ROUNDING = (
    _flawed("rounding.py:zero_point_folded", "pytorch/pytorch#89269",
            "Another order of the conversion and the subtraction did not give the existing kernel's numbers; here "
            "x * scale - zero_point * scale.", "violation mixed"),
    _flawed("rounding.py:scale_near_zero_taken_as_zero", "openvinotoolkit/openvino#4460",
            "A multiplier of a magnitude below 1e-32 counts as 0.", "violation mixed"),
    _flawed("rounding.py:scale_at_least_smallest_normal", "google/XNNPACK#10913",
            "The scale is clamped to the smallest positive normal number from below.", "violation mixed"),
    _flawed("rounding.py:zero_without_sign", "almide/almide#1377",
            "Two implementations gave zeros of different sign; here each zero is made positive.", "violation mixed"),
    _flawed("rounding.py:bfloat16_truncated", "tenstorrent/tt-metal#19882",
            "float32 is cut off to bfloat16 instead of rounded.", "violation mixed"),
    _flawed("rounding.py:bfloat16_rounded_twice", "jax-ml/ml_dtypes#401",
            "Wider numbers are rounded to float32 first, and then to bfloat16.", "violation mixed"),
    _flawed("rounding.py:float16_rounded_twice", "JuliaLang/julia#57809",
            "Wider numbers are rounded to float32 first, and then to float16.", "violation mixed"),
    _flawed("rounding.py:always_float32", "onnx/onnx#5704",
            "The output type is float32 whatever the scale's type is.", "violation"),
    _flawed("rounding.py:half_operands_overflow", "numpy/numpy#13699",
            "A float16 intermediate overflows although the result would not.", "violation mixed", MICROSOFT),
    _flawed("rounding.py:fixed_point_on_odd_extents", "osamu620/OpenHTJ2K#411",
            "The fallback for odd heights computes in fixed point, and differs from the fast path.", "violation mixed"),
    _flawed("rounding.py:bfloat16_through_float16", "pytorch/FBGEMM#5703",
            "bfloat16 results go through float16, which overflows and rounds twice.", "violation mixed"),
    _flawed("rounding.py:float32_through_scale_type", "microsoft/DirectML#478",
            "The product is formed in the scale's type, whatever the output's type is; here float16 for float32.",
            "violation mixed"),
    _flawed("rounding.py:product_of_zero_point_in_float16", "microsoft/onnxruntime#27812",
            "scale * zero_point is rounded to float16 before a fused multiply-add.", "violation mixed"),
    _flawed("rounding.py:scale_0_taken_as_epsilon", "ModelCloud/GPTQModel#1531",
            "A scale of 0 is replaced by 1e-8, against a division by 0.", "violation mixed"),
    _flawed("rounding.py:nan_scale_gives_0", "XPU-Forces/mojo_opset#380",
            "Results whose scale does not compare as positive are set to 0; here for a scale of NaN.",
            "violation mixed"),
    _flawed("rounding.py:infinite_scale_times_0_gives_0", "torch-spyre/torch-spyre#3037",
            "Infinity times 0 is expected to be 0; here an infinite scale times a difference of 0.", "violation mixed"),
    _flawed("rounding.py:sign_of_blocked_scale_lost", "anthony-chaudhary/fak#11101",
            "Negative scales of groups are read as unsigned.", "violation mixed"),
)  # fmt: skip

_FLOATS = (
    _flawed("floats.py:e4m3fn_subnormals_as_normal", "tile-ai/tilelang#2702",
            "The decoder of float8_e4m3fn puts a leading 1 before subnormals and zeros, and reads NaN as 480.",
            "violation mixed"),
    _flawed("floats.py:e4m3fn_negative_zero_unsigned", "intel/llm-scaler#569",
            "The conversion of E4M3 did not know that 0x80 is a zero with a sign.", "violation mixed"),
    _flawed("floats.py:fnuz_nan_as_negative_zero", "triton-lang/triton#10745",
            "0x80, the NaN of the FNUZ types, is read as -0.", "violation mixed"),
    _flawed("floats.py:e5m2fnuz_with_bias_of_e5m2", "causalflow-ai/petit-kernel#3",
            "float8_e5m2fnuz is decoded with an exponent bias of 15 instead of 16.", "violation mixed"),
    _flawed("floats.py:float4_subnormals_as_normal", "tile-ai/tilelang#2704",
            "The decoder of float4_e2m1fn treats exponent 0 as that of a normal number.", "violation mixed"),
    _flawed("floats.py:e8m0_nan_found_by_value_128", "sgl-project/sglang#25519",
            "The NaN of float8_e8m0fnu is looked for by the value 128 instead of the code 255.", "violation mixed"),
    _flawed("floats.py:e8m0_smallest_as_zero", "NVIDIA/TransformerEngine#3262",
            "Shifting the code of float8_e8m0fnu into float32's exponent makes 0 of code 0 and infinity of code 255.",
            "violation mixed"),
    _flawed("floats.py:e8m0_below_float16_normal_as_zero", "1CatAI/1Cat-vLLM#222",
            "Scales of float8_e8m0fnu that are subnormal in float16 are flushed to 0 for float16 output.",
            "violation mixed"),
)  # fmt: skip

_SMALL_INTEGERS = (
    _flawed("small_integers.py:uint4_read_as_signed", "1bit-MONSTER/1bit-MONSTER#1268",
            "Unsigned nibbles above 7 are read as negative.", "violation mixed"),
    _flawed("small_integers.py:int4_without_sign_extension", "tile-ai/tilelang#2482",
            "Signed nibbles are masked and not sign-extended.", "violation mixed"),
    _flawed("small_integers.py:int4_as_nibble_minus_7", "tile-ai/tilelang#2477",
            "Signed nibbles are decoded as nibble - 7 instead of as two's complement.", "violation mixed"),
    _flawed("small_integers.py:uint4_zero_point_0_becomes_15", "ModelCloud/GPTQModel#2350",
            "A zero point of 0 is stored as -1, of which four bits are 15.", "violation mixed"),
    _flawed("small_integers.py:odd_rows_of_int4_refused", "vllm-project/compressed-tensors#518",
            "Packing two elements a byte demands an even last extent.", "wrongly-rejected"),
    _flawed("small_integers.py:int8_minus_128_read_as_minus_127", "tenstorrent/tt-metal#56526",
            "An int8 with sign and magnitude has no -128, which becomes -127.", "violation mixed"),
    _flawed("small_integers.py:int4_zero_point_without_sign_extension", "AyoubMDL/onnx_quantize#51",
            "Zero points of 4 bits are packed wrongly; here the signed ones are not sign-extended.", "violation mixed"),
    _flawed("small_integers.py:uint16_zero_point_at_most_65504", "openvinotoolkit/openvino#33291",
            "uint16 zero points above 65504, float16's largest number, are clamped to it.", "violation mixed"),
    _flawed("small_integers.py:upper_nibble_of_odd_tail_taken", "RyanCodrai/turbovec#314",
            "An odd tail is handled apart, and wrongly; here the last nibble of an odd row comes from the padding.",
            "violation mixed"),
)  # fmt: skip

_BLOCKED = (
    _flawed("blocked.py:blocks_interleaved", "openvinotoolkit/openvino#32918",
            "For axes above 0, blocks are cut with the block number innermost, so that they interleave.",
            "violation mixed"),
    _flawed("blocked.py:zero_point_blocks_alternate", "rustnn/rustnn#28",
            "Parameters are expanded in an alternating pattern instead of in contiguous blocks; here the zero points.",
            "violation mixed"),
    _flawed("blocked.py:block_of_flat_index", "microsoft/onnxruntime#32663",
            "The block's number is the flat index over the block size, wrong where a row ends in a partial block.",
            "violation mixed"),
    _flawed("blocked.py:one_dimensional_blocks_per_axis", "microsoft/onnxruntime#32730",
            "A 1-D input with a block size is treated as per axis; behind the scale's end 0 is read.",
            "violation mixed"),
    _flawed("blocked.py:blocks_beyond_axis_1_refused", "openvinotoolkit/openvino#32917",
            "Blocks along an axis above 1 are refused.", "wrongly-rejected"),
    _flawed("blocked.py:block_size_from_shapes", "vllm-project/compressed-tensors#409",
            "The block's extent is computed from the shapes, here by a floor, which is not what partial blocks have.",
            "violation mixed"),
    _flawed("blocked.py:partial_block_refused", "flashinfer-ai/flashinfer#3101",
            "A reshape to whole groups fails where the extent is no multiple of the group.", "wrongly-rejected"),
    _flawed("blocked.py:partial_block_has_scale_before", "bitsandbytes-foundation/bitsandbytes#1884",
            "The scale of a last, partial block is a wrong one; here that of the block before.", "violation mixed"),
    _flawed("blocked.py:blocks_of_at_most_1024", "bitsandbytes-foundation/bitsandbytes#565",
            "Blocks of 1024 elements and more give large errors; here what is above 1024 is not counted.",
            "violation mixed"),
)  # fmt: skip

_BLOCK_SIZES = (
    _flawed("block_sizes.py:blocks_of_32_assumed", "1bit-MONSTER/1bit-MONSTER#625",
            "A block size of 32 is assumed everywhere, for blocks of 64, 128 and 256 too.", "violation mixed"),
    _flawed("block_sizes.py:blocks_of_128_assumed_in_256", "mit-han-lab/llm-awq#21",
            "Only blocks of 128 are right: those of 256 are taken as two of 128.", "violation mixed"),
    _flawed("block_sizes.py:later_blocks_alternate", "NVIDIA/Model-Optimizer#2421",
            "Scales of a second group are not paired with their group; here every later block gets one of the first two.",
            "violation mixed"),
    _flawed("block_sizes.py:rest_after_128_has_scales_of_next_row", "ikawrakow/ik_llama.cpp#213",
            "Two rows are done at a time, which is wrong where a row is no multiple of 128.", "violation mixed"),
    _flawed("block_sizes.py:rows_of_scales_padded_to_8", "ROCm/aiter#2900",
            "The pitch of scale rows is taken to be padded to a multiple of 8 blocks.", "violation mixed"),
    _flawed("block_sizes.py:padding_of_odd_zero_points_ignored", "microsoft/onnxruntime#26506",
            "An odd number of 4-bit zero points is padded for each row, which the index does not take into account.",
            "violation mixed"),
    _flawed("block_sizes.py:halves_of_blocks_interleaved", "paiml/aprender#1656",
            "The two halves of a block of 32 come out interleaved.", "violation mixed"),
    _flawed("block_sizes.py:codes_of_first_block_repeated", "1bit-MONSTER/1bit-MONSTER#153",
            "Codes are indexed by the column within the block, so that every block has those of the first.",
            "violation mixed"),
    _flawed("block_sizes.py:extent_below_block_not_scaled", "pytorch/FBGEMM#2919",
            "The scale is not applied where there are fewer elements than a block has.", "violation mixed"),
    _flawed("block_sizes.py:second_half_of_256_has_next_scale", "paiml/aprender#1924",
            "A block of 256 is two groups of 128; here the second gets the scale of the next block.",
            "violation mixed"),
    _flawed("block_sizes.py:only_first_block_of_256_written", "1bit-MONSTER/1bit-MONSTER#488",
            "A return inside the loop over blocks of 256 leaves all but the first at 0.", "violation mixed"),
    _flawed("block_sizes.py:pair_of_nibbles_shares_block", "Comfy-Org/comfy-kitchen#50",
            "The block is computed once for two nibbles, wrong where an odd block ends between them.",
            "violation mixed"),
    _flawed("block_sizes.py:blocks_after_whole_16_left_out", "sgl-project/sglang#4231",
            "16 blocks are done at a time; here a rest of fewer than 16 is left out.", "violation mixed"),
    _flawed("block_sizes.py:last_partial_block_left_out", "Xilinx/brevitas#1134",
            "Cases with a partial last block were not covered; here it is left out.", "violation mixed"),
)  # fmt: skip

_STRIDES = (
    _flawed("strides.py:last_stride_of_1_taken_as_contiguous", "NVIDIA/TransformerEngine#2746",
            "Only the last stride is looked at, so that the pitch of rows is ignored.", "violation mixed"),
    _flawed("strides.py:contiguous_matrices_taken_as_contiguous", "ml-explore/mlx#4370",
            "A slice x[:, :k, :] is read as if its matrices followed one another.", "violation mixed"),
    _flawed("strides.py:pitch_of_scale_ignored", "ml-explore/mlx#4055",
            "A slice of the rows of weights and scales is read as contiguous; here that of the scales.",
            "violation mixed"),
    _flawed("strides.py:stride_of_scale_ignored", "NVIDIA/TensorRT-LLM#18750",
            "Scales are not checked to be contiguous; here the stride of a 1-D scale is ignored.", "violation mixed"),
    _flawed("strides.py:transposed_scale_read_as_stored", "vllm-project/vllm-ascend#13797",
            "A transposed scale is read in the order of memory.", "violation mixed"),
    _flawed("strides.py:strides_of_zero_point_from_shape", "huggingface/optimum-quanto#26",
            "Strides are deduced from the shape, which is wrong for tensors that are not contiguous; here the zero point.",
            "violation mixed"),
    _flawed("strides.py:channels_last_written_as_channels_first", "pytorch/FBGEMM#2919",
            "Results are written with the strides of x into a contiguous output; here for channels-last order.",
            "violation mixed"),
    _flawed("strides.py:reversed_rows_read_forwards", "pydata/numexpr#63",
            "A negative stride gives wrong results; here the dimension is read forwards.", "violation mixed"),
)  # fmt: skip

_EXTENTS = (
    _flawed("extents.py:columns_above_65535_left_out", "ggml-org/llama.cpp#13384",
            "The columns are the grid's y dimension, which has at most 65535 blocks.", "violation mixed"),
    _flawed("extents.py:rows_above_65535_left_out", "vllm-project/vllm#45255",
            "The rows are the grid's y dimension, which has at most 65535 blocks.", "violation mixed"),
    _flawed("extents.py:rows_above_65535_left_out_of_strided_x", "ggml-org/llama.cpp#19999",
            "On the path for inputs that are not contiguous, the rows are the grid's y dimension.", "violation mixed"),
    _flawed("extents.py:rows_above_262140_left_out", "NVIDIA/TensorRT-LLM#18546",
            "Four rows a block and at most 65535 blocks leave rows above 262140 out.", "violation mixed"),
    _flawed("extents.py:matrices_above_65535_left_out", "lablup/mlxcel#648",
            "The matrices are the grid's z dimension, which has at most 65535 blocks.", "violation mixed"),
    _flawed("extents.py:blocks_above_65535_left_out", "ml-explore/mlx#2267",
            "The number of blocks along y is more than CUDA's 65535; here blocks of the quantization.",
            "violation mixed"),
    _flawed("extents.py:rows_of_scales_above_65535_clamped", "ggml-org/ggml#877",
            "Rows above 65535 cannot be fetched; here rows of a blocked scale, of which the last one is repeated.",
            "violation mixed"),
    _flawed("extents.py:channels_above_65535_left_out", "Dao-AILab/causal-conv1d#32",
            "The channels are the grid's y dimension: 2**16 of them fail.", "violation mixed"),
    _flawed("extents.py:channels_above_1024_left_out", "NVIDIA/DeepLearningExamples#512",
            "A thread for each channel: CUDA's blocks have at most 1024 threads.", "violation mixed"),
    _flawed("extents.py:rows_left_in_16_bits", "ml-explore/mlx#3856",
            "The number of rows left is cast to 16 bits: tiles 32768 rows and more before the end are not stored.",
            "violation mixed"),
    _flawed("extents.py:last_share_of_threads_left_out", "openpaperwork/libpillowfight#10",
            "The share of a thread is rounded down, so that the rest belongs to no thread; here from 2**18 elements on.",
            "violation mixed"),
    _flawed("extents.py:tail_of_fours_left_out", "meta-pytorch/torchcomms#4014",
            "Four elements at a time, and a tail that is thought to be always empty; here from 2**18 elements on.",
            "violation mixed"),
    _flawed("extents.py:index_in_float32", "gpujs/gpu.js#314",
            "Indices are float32, which skips some above 2**24.", "violation mixed"),
)  # fmt: skip

_DYNAMIC = (
    _flawed("dynamic.py:int32_zero_points_read_as_64_bits", "pytorch/executorch#21773",
            "Zero points of 32 bits are read as if they had 64: neighbours are glued together.",
            "violation mixed", MULTIPLY),
    _flawed("dynamic.py:rank_4_tail_without_zero_point", "uxlfoundation/oneDNN#2204",
            "For some 4-D inputs a source zero point gives wrong results; here the tail goes without it.",
            "violation mixed", MULTIPLY),
    _flawed("dynamic.py:divided_by_inverse", "pytorch/pytorch#41342",
            "The inverse of the scale is computed first, and then divided by.", "violation mixed", MULTIPLY),
    _flawed("dynamic.py:multiplied_by_inverse", "tensorflow/tensorflow#55310",
            "Multiplying by the scale's reciprocal loses precision.", "violation mixed", DIVIDE),
    _flawed("dynamic.py:scales_of_first_call", "uxlfoundation/oneDNN#567",
            "Scales are kept in a cached primitive: if their values are not in its key, a later call gets old ones.",
            "violation mixed nondeterministic", MULTIPLY),
)  # fmt: skip

_MEMORY = (
    _flawed("memory.py:input_used_as_scratch", "pytorch/ao#289",
            "The zero point is subtracted in place, in the caller's input.", "memory"),
    _flawed("memory.py:scales_inverted_in_place", "bitsandbytes-foundation/bitsandbytes#1863",
            "Scales that the caller provides are changed in place.", "memory", DIVIDE),
    _flawed("memory.py:output_buffer_kept", "pytorch/TensorRT#3275",
            "An output buffer kept for the next call: that call overwrites the result of this one.", "memory"),
    _flawed("memory.py:output_in_shared_pool", "microsoft/onnxruntime#10103",
            "One large buffer serves outputs of every shape, which damages those still in use.", "memory"),
    _flawed("memory.py:output_in_donated_input", "ml-explore/mlx#4479",
            "The input's buffer is donated to the output where the sizes agree.", "memory wrongly-rejected"),
    _flawed("memory.py:scratch_shared_by_threads", "bitsandbytes-foundation/bitsandbytes#1061",
            "A synchronisation between writing and reading scratch memory is missing.", "nondeterministic violation"),
    _flawed("memory.py:tail_of_output_uninitialised", "pytorch/FBGEMM#5054",
            "Some of the output is never written and shows what the memory held.",
            "violation nondeterministic memory mixed"),
    _flawed("memory.py:read_in_memory_order", "bitsandbytes-foundation/bitsandbytes#1995",
            "Non-contiguous inputs are read in the order of memory.", "violation mixed"),
    _flawed("memory.py:one_dimension_comes_out_as_two", "bitsandbytes-foundation/bitsandbytes#2047",
            "4-bit inputs of shape (n,) with an even n come out in shape (1, n).", "violation"),
)  # fmt: skip

_REFUSALS = (
    _flawed("refusals.py:scale_of_another_length_taken", "robertknight/rten#1417",
            "The scale's length was not compared with the axis' extent.", "wrongly-accepted"),
    _flawed("refusals.py:axis_below_range_taken", "tensorflow/tensorflow#100175",
            "The axis has no lower bound.", "wrongly-accepted"),
    _flawed("refusals.py:axis_above_range_taken", "tensorflow/tensorflow#42105",
            "An axis far above the rank is not refused.", "wrongly-accepted"),
    _flawed("refusals.py:zero_point_of_another_type_cast", "openvinotoolkit/openvino#1123",
            "A zero point of another type than the input's was converted, without a check.", "wrongly-accepted"),
    _flawed("refusals.py:anything_that_broadcasts_taken", "ROCm/AMDMIGraphX#3526",
            "The parameters' shapes are not checked against the input's: what broadcasts is computed.",
            "wrongly-accepted"),
    _flawed("refusals.py:block_size_0_inferred", "ROCm/AMDMIGraphX#3412",
            "A reviewer asks that a block size that is not given be inferred from the shapes.", "wrongly-accepted"),
    _flawed("refusals.py:blocks_too_many_taken", "microsoft/onnxruntime#25931",
            "The check of the scale's shape against the input's was removed; here scales left over are not noticed.",
            "wrongly-accepted"),
    _flawed("refusals.py:block_size_0_never_ends", "ml-explore/mlx#550",
            "A group size of 0 keeps the call busy for ever.", "hang"),
    _flawed("refusals.py:float8_zero_point_must_be_0", "onnx/onnx#5408",
            "Zero points other than 0 are refused for float8.", "wrongly-rejected"),
    _flawed("refusals.py:scalar_scale_on_scalar_refused", "openvinotoolkit/openvino#5260",
            "Scalars are reshaped along the axis, which fails; here for a scalar input.", "wrongly-rejected"),
    _flawed("refusals.py:output_of_another_type_refused", "microsoft/onnxruntime#32728",
            "An output type other than the scale's type fails with a mismatch of types.", "wrongly-rejected"),
)  # fmt: skip

_RANGES = (
    _flawed("range_modes.py:scale_from_larger_magnitude", "tensorflow/tensorflow#56086",
            "The scale factor of SCALED is computed by another formula than the reference kernel's.",
            "violation mixed", TENSORFLOW),
    _flawed("range_modes.py:unsigned_types_as_signed_ones", "NervanaSystems/ngraph-tf#237",
            "The largest value of unsigned types is taken to be that of signed ones.", "violation mixed", TENSORFLOW),
    _flawed("range_modes.py:range_scale_inverted", "tensorflow/tensorflow#3461",
            "MIN_FIRST's range_scale is written as steps over range.", "violation mixed", TENSORFLOW),
    _flawed("range_modes.py:narrow_range_not_looked_at", "openvinotoolkit/openvino#6617",
            "narrow_range shifts the lowest quantized value, which is not taken into account.",
            "violation mixed", TENSORFLOW),
    _flawed("range_modes.py:first_of_several_ranges_taken", "tensorflow/tensorflow#99456",
            "Ranges that are not scalars are not refused as they should be; here the first is taken.",
            "wrongly-accepted", TENSORFLOW),
    _flawed("range_modes.py:several_ranges_abort", "tensorflow/tensorflow#57714",
            "A range of two elements aborts the process.", "crash", TENSORFLOW),
    _flawed("range_modes.py:layout_of_rank_4_assumed", "tensorflow/tensorflow#56086",
            "Inputs that are not 4-D get a wrong memory layout.", "violation mixed", TENSORFLOW),
)  # fmt: skip

_NATIVE = (
    _flawed("native/tails.c:tail_never_written", "facebookresearch/faiss#5539",
            "Lanes beyond a shorter last vector are undefined; here they are never written.",
            "memory violation nondeterministic"),
    _flawed("native/tails.c:tail_written_past_end", "huggingface/candle#3880",
            "The last store is not checked against the end of the output.", "memory crash"),
    _flawed("native/tails.c:short_vector_before_start", "AdamNiederer/faster#25",
            "Fewer elements than a vector has are undefined behaviour; here the vector begins before the output.",
            "memory crash"),
    _flawed("native/tails.c:tail_read_past_end", "google/XNNPACK#4190",
            "The rest is loaded as a whole vector, past the end of the input.", "crash memory"),
    _flawed("native/tails.c:seams_never_written", "filecoin-project/lotus#13455",
            "A thread's share is no multiple of what it does at once, and its rest is left.",
            "memory violation nondeterministic"),
    _flawed("native/tails.c:never_written_from_65535", "flagos-ai/FlagGems-vllm#725",
            "A grid of more than 65535 blocks is not possible.", "memory violation nondeterministic"),
    _flawed("native/tails.c:odd_rest_never_ends", "numpy/numpy#19394",
            "A vector loop never ends on some inputs.", "hang"),
    _flawed("native/tails.c:vectors_fused", "osamu620/OpenHTJ2K#352",
            "Vectors are computed with a fused multiply-add, and the tail without.", "violation mixed"),
    _flawed("native/states.c:table_shared_by_threads", "emericg/EGM96#5",
            "A static array is written by several threads.", "nondeterministic violation"),
    _flawed("native/states.c:scale_written", "bitsandbytes-foundation/bitsandbytes#1587",
            "The scales that the caller passes are overwritten.", "memory crash"),
    _flawed("native/states.c:subnormals_flushed", "llvm/llvm-project#57589",
            "A library built with -ffast-math sets flush-to-zero for the thread that loads it.", "violation mixed"),
    _flawed("native/layouts.c:strides_ignored", "NVIDIA/cudf#10849",
            "DLPack's strides are ignored.", "violation crash mixed nondeterministic"),
    _flawed("native/layouts.c:byte_offset_ignored", "NVIDIA/cuda-python#2592",
            "DLPack's byte_offset is ignored.", "violation crash mixed nondeterministic"),
    _flawed("native/layouts.c:strides_taken_as_bytes", "dmlc/dlpack#30",
            "Whether DLPack's strides are in bytes or elements was not said.", "violation crash mixed nondeterministic"),
    _flawed("native/layouts.c:address_aligned_down", "dmlc/dlpack#83",
            "The data pointer is taken to be aligned.", "violation crash mixed nondeterministic"),
    _flawed("native/tails.c:rows_in_16_bits", "ml-explore/mlx#4010",
            "The number of rows is narrowed to 16 bits.", "memory violation nondeterministic"),
    _flawed("native/tails.c:blocks_in_8_bits", "microsoft/onnxruntime#32128",
            "The index of the block is kept in a narrow register; here of 8 bits, so that block 256 is block 0 again.",
            "violation mixed"),
    _flawed("native/layouts.c:pitch_ignored", "qualcomm/aimet#2316",
            "The kernel does not know strides; here the pitch of rows.", "violation crash mixed nondeterministic"),
    _flawed("native/layouts.c:strides_of_scale_ignored", "vllm-project/vllm#44542",
            "Slices of scales that are not contiguous do not work; here their strides are ignored.",
            "violation crash mixed nondeterministic"),
    _flawed("native/layouts.c:zero_point_strided_like_scale", "pytorch/FBGEMM#4796",
            "One tensor's strides are used for another; here the scale's for the zero point.",
            "violation crash mixed nondeterministic"),
    _flawed("native/layouts.c:permutation_taken_as_transposed", "ROCm/aiter#1631",
            "Strides are hardcoded; here those of column-major order for every permutation.", "violation mixed"),
    _flawed("native/crashes.c:absent_zero_point_read", "microsoft/onnxruntime#4032",
            "A call without the optional zero point ends in a segmentation fault.", "crash"),
    _flawed("native/crashes.c:axis_used_on_scalars", "microsoft/onnxruntime#3508",
            "A scalar input ends the process, since the axis is used without a check.", "crash"),
    _flawed("native/crashes.c:division_by_empty_extent", "microsoft/onnxruntime#4559",
            "A tensor with an extent of 0 ends the process.", "crash"),
    _flawed("native/packed.c:upper_nibble_first", "openvinotoolkit/openvino#32144",
            "Two paths take the two nibbles of a byte in different orders.", "violation mixed"),
)  # fmt: skip

FLAWED: tuple[Flawed, ...] = (
    *_LINEAR, *_ROUNDING, *_FLOATS, *_SMALL_INTEGERS, *_BLOCKED, *_BLOCK_SIZES, *_STRIDES, *_EXTENTS,
    *_DYNAMIC, *_MEMORY, *_REFUSALS, *_RANGES, *_NATIVE,
)  # fmt: skip
