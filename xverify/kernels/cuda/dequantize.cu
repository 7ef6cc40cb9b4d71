// (x - zero_point) * scale, or / scale, or a mode of TensorFlow's ranges: the exact value, rounded once, to nearest even.
//
// Compiled by NVRTC once for each combination of the macros below, which are then constants, so that every `if` and `switch` on them
// folds away. tests/support/cuda_on_cpu.cpp makes variables of them, and functions for one thread of what CUDA brings: the same source is
// compiled as C++ and run on a CPU.
//
//   X_TYPE, SCALE_TYPE, ZERO_TYPE, OUT_TYPE   one of Type; ZERO_TYPE may be NONE
//   X_BITS, ZERO_BITS    bits from one element to the next in memory: 6, 4 or 2 where codes are packed, low bits first
//   FORMULA              one of Formula: with PRODUCT * scale, with QUOTIENT / scale; of a range, scale is where its lower ends are and
//                        zero where its upper; with TABLE, scale is where the results of all codes of 8 bits are
//   SPREAD               0: one scale and one zero point serve all elements
//   INDEX_BITS           32: all indices are below 2^31; or 64
//
// Every operation whose rounding matters is an intrinsic, which no compiler contracts or reorders.

#ifndef KERNEL
#define KERNEL extern "C" __global__
#endif

#include "arithmetic.cuh"
#include "ranges.cuh"

#if INDEX_BITS == 64
typedef Long Index;
__device__ inline Index upper_half(Index a, Index b) { return __umul64hi(a, b); }
#else
typedef Word Index;
__device__ inline Index upper_half(Index a, Index b) { return __umulhi(a, b); }
#endif

// Elements that a thread writes at once (16 bytes), and at most; vectors that it reads before it writes one.
#define MOST_LANES 8
#define UNROLLED 4

__device__ inline int lanes() { return OUT_TYPE == FLOAT32 ? 4 : 8; }

// Division by a number d that the host knows: floor(2^b (2^shift - d) / d) + 1 is the multiplier, for b bits of Index and the least
// 2^shift >= d. T. Granlund, P. Montgomery, "Division by invariant integers using multiplication", 1994, figure 4.1, for indices
// below 2^(b - 1), whose sum with the upper half cannot overflow.
struct Divisor {
    Index value, multiplier;
    int shift;
};

__device__ inline Index quotient(Index n, Divisor d) { return (upper_half(n, d.multiplier) + n) >> d.shift; }

// ---- Memory -----------------------------------------------------------------------------------------------------------------------

__device__ inline int storage_bits(int type)
{
    return type == INT64 ? 64 : type == INT32 || type == FLOAT32 ? 32
        : type == INT16 || type == UINT16 || type == FLOAT16 || type == BFLOAT16 ? 16 : 8;
}

__device__ inline Word element(const Byte* from, Index index, int bits)
{
    switch (bits) {
    case 32: return ((const Word*)from)[index];
    case 16: return ((const unsigned short*)from)[index];
    case 8: return from[index];
    case 6: {
        const Byte* at = from + (unsigned long long)index * 6 / 8;
        const int shift = (int)(index & 3) * 6 % 8;
        return (shift > 2 ? at[0] | at[1] << 8 : at[0]) >> shift & 63;
    }
    case 4: return from[index >> 1] >> (index & 1) * 4 & 15;
    default: return from[index >> 2] >> (index & 3) * 2 & 3;
    }
}

struct Codes {
    Word words[MOST_LANES];
};

// Bits from one code to the next in Codes. Codes of 6 bits take a byte there, so that none lies in two words.
__device__ inline int lane_bits(int bits) { return bits == 6 ? 8 : bits; }

__device__ inline Word taken(const Codes& codes, int lane, int bits)
{
    return codes.words[lane * lane_bits(bits) / 32] >> lane * lane_bits(bits) % 32 & (bits == 32 ? 0xFFFFFFFFu : (1u << bits % 32) - 1);
}

__device__ inline const Byte* address(const Byte* from, Index first, int bits) { return from + (unsigned long long)first * bits / 8; }

// True if `lanes()` elements from there on can be read as one vector. No load has the 3 or 6 bytes of a vector of 6-bit codes.
__device__ inline bool is_aligned(const Byte* from, Index first, int bits)
{
    if (bits == 6) return false;
    const int bytes = lanes() * bits / 8;
    const unsigned long long bit = ((unsigned long long)first * bits) % 8;
    return bit == 0 && (unsigned long long)address(from, first, bits) % (bytes > 16 ? 16 : bytes) == 0;
}

// Reads that many elements at once. once: nothing reads them again.
__device__ inline void load(Codes& codes, const Byte* from, Index first, int bits, bool once)
{
    const Byte* at = address(from, first, bits);
    switch (lanes() * bits / 8) {
    case 1: codes.words[0] = once ? __ldcs(at) : __ldg(at); break;
    case 2: codes.words[0] = once ? __ldcs((const unsigned short*)at) : __ldg((const unsigned short*)at); break;
    case 4: codes.words[0] = once ? __ldcs((const Word*)at) : __ldg((const Word*)at); break;
    case 8: {
        const uint2 two = once ? __ldcs((const uint2*)at) : __ldg((const uint2*)at);
        codes.words[0] = two.x; codes.words[1] = two.y;
        break;
    }
    default:
#pragma unroll
        for (int part = 0; part < MOST_LANES / 4; ++part) {
            if (part * 16 >= lanes() * bits / 8) break;
            const uint4 four = once ? __ldcs((const uint4*)at + part) : __ldg((const uint4*)at + part);
            codes.words[part * 4] = four.x; codes.words[part * 4 + 1] = four.y;
            codes.words[part * 4 + 2] = four.z; codes.words[part * 4 + 3] = four.w;
        }
    }
}

// Writes that many results at once. streamed: past what the caches are kept for.
__device__ inline void store(Byte* to, Index first, const Word* results, bool streamed)
{
    uint4 four;
    if (OUT_TYPE == FLOAT32) {
        four.x = results[0]; four.y = results[1]; four.z = results[2]; four.w = results[3];
    } else {
        four.x = results[0] | results[1] << 16; four.y = results[2] | results[3] << 16;
        four.z = results[4] | results[5] << 16; four.w = results[6] | results[7] << 16;
    }
    uint4* at = (uint4*)(to + (unsigned long long)first * (16 / lanes()));
    if (streamed) __stcs(at, four);
    else __stwb(at, four);
}

// ---- The parameters of an element ------------------------------------------------------------------------------------------------

// x is (outer, extent, inner) in C order. Every `run` elements along the axis share parameters; parameter number
// outer index * outer_stride + (index along the axis / run) * run_stride + inner index * inner_stride. inner_stride: 0 or 1.
struct Spread {
    Divisor inner, extent, run;
    Index outer_stride, run_stride, inner_stride;
};

struct Place {
    Index inner, along, in_run, outer_base, run_base, number;
};

__device__ inline Place place_of(Index index, const Spread& spread)
{
    Place place;
    const Index row = quotient(index, spread.inner);
    place.inner = index - row * spread.inner.value;
    const Index outer = quotient(row, spread.extent);
    place.along = row - outer * spread.extent.value;
    const Index run = quotient(place.along, spread.run);
    place.in_run = place.along - run * spread.run.value;
    place.outer_base = outer * spread.outer_stride;
    place.run_base = run * spread.run_stride;
    place.number = place.outer_base + place.run_base + place.inner * spread.inner_stride;
    return place;
}

__device__ inline void step(Place& place, const Spread& spread)
{
    if (++place.inner < spread.inner.value) {
        place.number += spread.inner_stride;
        return;
    }
    place.inner = 0;
    if (++place.along == spread.extent.value) {
        place.along = place.in_run = place.run_base = 0;
        place.outer_base += spread.outer_stride;
    } else if (++place.in_run == spread.run.value) {
        place.in_run = 0;
        place.run_base += spread.run_stride;
    }
    place.number = place.outer_base + place.run_base;
}

// The least number of elements from there on that share this one's parameters.
__device__ inline Index shared_for(const Place& place, const Spread& spread)
{
    if (spread.inner.value > 1) return spread.inner_stride == 0 ? spread.inner.value - place.inner : 1;
    const Index in_run = spread.run.value - place.in_run, in_line = spread.extent.value - place.along;
    return in_run < in_line ? in_run : in_line;
}

// The least number of elements from there on whose parameters are adjacent.
__device__ inline Index consecutive_for(const Place& place, const Spread& spread)
{
    return spread.inner_stride == 1 ? spread.inner.value - place.inner : 0;
}

__device__ inline Parameter parameter_at(const Byte* scale, const Byte* zero, Index number_)
{
    Parameter parameter;
    parameter.scale = number(SCALE_TYPE, element(scale, number_, storage_bits(SCALE_TYPE)));
    parameter.zero = 0.0f;
    parameter.wide = 0.0;
    parameter.table = scale;
    if (ZERO_TYPE == INT64) parameter.wide = __ll2double_rn(((const long long*)zero)[number_]);
    else if (ZERO_TYPE == INT32) parameter.wide = (double)(int)element(zero, number_, 32);
    else if (ZERO_TYPE != NONE) {
        parameter.zero = number(ZERO_TYPE, element(zero, number_, ZERO_BITS));
        parameter.wide = (double)parameter.zero;
    }
    return completed(parameter);
}

__device__ inline void store_one(Byte* y, Index index, Word code)
{
    if (OUT_TYPE == FLOAT32) ((Word*)y)[index] = code;
    else ((unsigned short*)y)[index] = (unsigned short)code;
}

// The results of a vector, with whatever parameters serve its elements.
__device__ inline void results_of(
    Word* results, const Codes& codes, Index first, const Byte* scale, const Byte* zero, Parameter one, const Spread& spread)
{
    if (SPREAD) {
        const Index count = (Index)lanes();
        Place place = place_of(first, spread);
        if (shared_for(place, spread) >= count) {
            one = parameter_at(scale, zero, place.number);
        } else if (ZERO_TYPE != INT64 && consecutive_for(place, spread) >= count
                   && is_aligned(scale, place.number, storage_bits(SCALE_TYPE))
                   && (ZERO_TYPE == NONE || is_aligned(zero, place.number, ZERO_BITS))) {
            Codes scales, zeros;
            load(scales, scale, place.number, storage_bits(SCALE_TYPE), false);
            if (ZERO_TYPE != NONE) load(zeros, zero, place.number, ZERO_BITS, false);
#pragma unroll
            for (int lane = 0; lane < MOST_LANES; ++lane) {
                if (lane >= lanes()) break;
                one.scale = number(SCALE_TYPE, taken(scales, lane, storage_bits(SCALE_TYPE)));
                if (ZERO_TYPE != NONE) {
                    const Word code = taken(zeros, lane, ZERO_BITS);
                    one.zero = ZERO_TYPE == INT32 ? 0.0f : number(ZERO_TYPE, code);
                    one.wide = ZERO_TYPE == INT32 ? (double)(int)code : (double)one.zero;
                }
                results[lane] = result(taken(codes, lane, X_BITS), completed(one));
            }
            return;
        } else {
#pragma unroll
            for (int lane = 0; lane < MOST_LANES; ++lane) {
                if (lane >= lanes()) break;
                results[lane] = result(taken(codes, lane, X_BITS), parameter_at(scale, zero, place.number));
                step(place, spread);
            }
            return;
        }
    }
#pragma unroll
    for (int lane = 0; lane < MOST_LANES; ++lane) {
        if (lane >= lanes()) break;
        results[lane] = result(taken(codes, lane, X_BITS), one);
    }
}

// The arguments after the arrays, which launch.py prepares. size: elements of x. head: those before y's first 16-byte boundary, at most
// size. whole: whether x is aligned there too, so that vectors of it can be read. streamed: whether x and y are so large that no cache
// keeps them. The others are those of Spread.
struct Call {
    Long size, head, whole, streamed;
    Long inner, inner_multiplier, inner_shift, extent, extent_multiplier, extent_shift, run, run_multiplier, run_shift;
    Long outer_stride, run_stride, inner_stride;
};

// The grid may be of any size.
KERNEL void dequantize(
    const Byte* __restrict__ x, const Byte* __restrict__ scale, const Byte* __restrict__ zero, Byte* __restrict__ y, const Call call)
{
    const Spread spread = {
        {(Index)call.inner, (Index)call.inner_multiplier, (int)call.inner_shift},
        {(Index)call.extent, (Index)call.extent_multiplier, (int)call.extent_shift},
        {(Index)call.run, (Index)call.run_multiplier, (int)call.run_shift},
        (Index)call.outer_stride, (Index)call.run_stride, (Index)call.inner_stride};
    const Index size = (Index)call.size;
    const bool whole = call.whole != 0, streamed = call.streamed != 0;
    const Index count = (Index)lanes(), begin = (Index)call.head, vectors = (size - begin) / count;
    const Index threads = (Index)gridDim.x * blockDim.x, thread = (Index)blockIdx.x * blockDim.x + threadIdx.x;
    Parameter one = {0.0f, 0.0f, 0.0, scale};
    if (!SPREAD) one = parameter_at(scale, zero, 0);

    for (Index start = thread; start < vectors; start += threads * UNROLLED) {
        Codes codes[UNROLLED];
#pragma unroll
        for (int turn = 0; turn < UNROLLED; ++turn) {
            const Index vector = start + (Index)turn * threads;
            if (vector >= vectors) break;
            const Index first = begin + vector * count;
            if (whole) {
                load(codes[turn], x, first, X_BITS, streamed);
            } else {
#pragma unroll
                for (int word = 0; word < MOST_LANES; ++word) codes[turn].words[word] = 0;
#pragma unroll
                for (int lane = 0; lane < MOST_LANES; ++lane) {
                    if (lane >= lanes()) break;
                    codes[turn].words[lane * lane_bits(X_BITS) / 32] |= element(x, first + lane, X_BITS)
                        << lane * lane_bits(X_BITS) % 32;
                }
            }
        }
#pragma unroll
        for (int turn = 0; turn < UNROLLED; ++turn) {
            const Index vector = start + (Index)turn * threads;
            if (vector >= vectors) break;
            const Index first = begin + vector * count;
            Word results[MOST_LANES];
            results_of(results, codes[turn], first, scale, zero, one, spread);
            store(y, first, results, streamed);
        }
    }

    const Index tail = begin + vectors * count, rest = begin + size - tail;
    for (Index number_ = thread; number_ < rest; number_ += threads) {
        const Index index = number_ < begin ? number_ : tail + (number_ - begin);
        if (SPREAD) one = parameter_at(scale, zero, place_of(index, spread).number);
        store_one(y, index, result(element(x, index, X_BITS), one));
    }
}
