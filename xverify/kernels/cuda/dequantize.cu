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
//   SPREAD               one of Spread: which elements share a scale and a zero point
//   INDEX_BITS           32: all indices are below 2^31; or 64
//   VECTORS              vectors of 16 bytes of output that a thread reads before it writes one, at most MOST_VECTORS
//
// Every operation whose rounding matters is an intrinsic, which no compiler contracts or reorders.

#ifndef KERNEL
#define KERNEL extern "C" __global__
#define THREADS 256
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

// THREADS are those of a block, as launch.py has them.
#define MOST_LANES 8
#define MOST_VECTORS 4

// Elements of a vector: 16 bytes of output.
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

__device__ inline const Byte* address(const Byte* from, Index first, int bits) { return from + (unsigned long long)first * bits / 8; }

// True if the `lanes()` elements behind any multiple of as many can be read as one vector.
__device__ inline bool is_aligned(const Byte* from, int bits)
{
    const int bytes = lanes() * bits / 8;
    return (unsigned long long)from % (bytes > 16 ? 16 : bytes) == 0;
}

// Reads a vector of elements. once: nothing reads them again.
__device__ inline void load(Codes& codes, const Byte* at, int bits, bool once)
{
    switch (lanes() * bits / 8) {
    case 3: case 6:
#pragma unroll
        for (int group = 0; group < MOST_LANES / 4; ++group) {
            if (group * 4 >= lanes()) break;
            const Byte* three = at + group * 3;
            const Word four = __ldg(three) | __ldg(three + 1) << 8 | __ldg(three + 2) << 16;
            codes.words[group] = (four & 0x3Fu) | (four << 2 & 0x3F00u) | (four << 4 & 0x3F0000u) | (four << 6 & 0x3F000000u);
        }
        break;
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

// Reads elements one by one into Codes.
__device__ inline void gather(Codes& codes, const Byte* from, Index first, int bits)
{
#pragma unroll
    for (int word = 0; word < MOST_LANES; ++word) codes.words[word] = 0;
#pragma unroll
    for (int lane = 0; lane < MOST_LANES; ++lane) {
        if (lane >= lanes()) break;
        codes.words[lane * lane_bits(bits) / 32] |= element(from, first + lane, bits) << lane * lane_bits(bits) % 32;
    }
}

// Writes a vector of results. streamed: past what the caches are kept for.
__device__ inline void store(Byte* to, const float* results, bool streamed)
{
    uint4 four;
    if (OUT_TYPE == FLOAT32) {
        four.x = code_of(results[0]); four.y = code_of(results[1]); four.z = code_of(results[2]); four.w = code_of(results[3]);
    } else {
        four.x = narrowed(results[0], results[1]); four.y = narrowed(results[2], results[3]);
        four.z = narrowed(results[4], results[5]); four.w = narrowed(results[6], results[7]);
    }
    if (streamed) __stcs((uint4*)to, four);
    else __stwb((uint4*)to, four);
}

__device__ inline void store_one(Byte* to, Index index, float result)
{
    if (OUT_TYPE == FLOAT32) ((Word*)to)[index] = code_of(result);
    else ((unsigned short*)to)[index] = (unsigned short)code_of(result);
}

// ---- The parameters of an element ------------------------------------------------------------------------------------------------

// ONE: one parameter serves all.
// ANY: x is (outer, extent, inner) in C order. Every `run` elements along the axis share parameters; parameter number outer index *
//   outer_stride + (index along the axis / run) * run_stride + inner index * inner_stride. inner_stride: 0 or 1.
// In all others every vector of `lanes()` elements lies in one run, and in one row of `inner` elements:
// RUNS: number index / run.
// AXIS: number index / run % extent.
// COLUMNS: number index % inner. A vector's parameters are adjacent.
// BLOCKS: number index / inner / run * inner + index % inner. A vector's parameters are adjacent.
enum Spread { ONE, ANY, RUNS, AXIS, COLUMNS, BLOCKS };

__device__ inline bool has_adjacent() { return SPREAD == COLUMNS || SPREAD == BLOCKS; }

struct Geometry {
    Divisor inner, extent, run;
    Index outer_stride, run_stride, inner_stride;
};

struct Place {
    Index inner, along, in_run, outer_base, run_base, number;
};

__device__ inline Place place_of(Index index, const Geometry& geometry)
{
    Place place;
    const Index row = quotient(index, geometry.inner);
    place.inner = index - row * geometry.inner.value;
    const Index outer = quotient(row, geometry.extent);
    place.along = row - outer * geometry.extent.value;
    const Index run = quotient(place.along, geometry.run);
    place.in_run = place.along - run * geometry.run.value;
    place.outer_base = outer * geometry.outer_stride;
    place.run_base = run * geometry.run_stride;
    place.number = place.outer_base + place.run_base + place.inner * geometry.inner_stride;
    return place;
}

__device__ inline void step(Place& place, const Geometry& geometry)
{
    if (++place.inner < geometry.inner.value) {
        place.number += geometry.inner_stride;
        return;
    }
    place.inner = 0;
    if (++place.along == geometry.extent.value) {
        place.along = place.in_run = place.run_base = 0;
        place.outer_base += geometry.outer_stride;
    } else if (++place.in_run == geometry.run.value) {
        place.in_run = 0;
        place.run_base += geometry.run_stride;
    }
    place.number = place.outer_base + place.run_base;
}

// The least number of elements from there on that share this one's parameters.
__device__ inline Index shared_for(const Place& place, const Geometry& geometry)
{
    if (geometry.inner.value > 1) return geometry.inner_stride == 0 ? geometry.inner.value - place.inner : 1;
    const Index in_run = geometry.run.value - place.in_run, in_line = geometry.extent.value - place.along;
    return in_run < in_line ? in_run : in_line;
}

__device__ inline Index number_at(Index index, const Geometry& geometry)
{
    if (SPREAD == ONE) return 0;
    if (SPREAD == ANY) return place_of(index, geometry).number;
    if (has_adjacent()) {
        const Index row = quotient(index, geometry.inner);
        const Index above = SPREAD == COLUMNS ? row : row - quotient(row, geometry.run);
        return index - above * geometry.inner.value;
    }
    const Index run = quotient(index, geometry.run);
    return SPREAD == RUNS ? run : run - quotient(run, geometry.extent) * geometry.extent.value;
}

// The parameter of a lane. Words: as in `raw`.
__device__ inline Parameter parameter_of(const Word* scales, const Word* zeros, int lane, int zero_bits, const Byte* table)
{
    Parameter parameter;
    parameter.scale = raw(SCALE_TYPE, scales, lane, storage_bits(SCALE_TYPE));
    parameter.zero = offset(X_TYPE);
    parameter.wide = 0.0;
    parameter.table = table;
    if (ZERO_TYPE == INT64) {
        parameter.wide = __ll2double_rn((long long)(zeros[0] | (Long)zeros[1] << 32));
    } else if (ZERO_TYPE == INT32) {
        parameter.wide = (double)(int)zeros[lane];
    } else if (ZERO_TYPE != NONE) {
        parameter.zero = raw(ZERO_TYPE, zeros, lane, zero_bits);
        const bool is_of_integers = is_integer(ZERO_TYPE);
        if (is_of_integers) parameter.wide = (double)__fsub_rn(parameter.zero, offset(ZERO_TYPE));
        else parameter.wide = (double)parameter.zero;
        if (is_of_integers && X_TYPE != ZERO_TYPE) parameter.zero = __fadd_rn(parameter.zero, offset(X_TYPE) - offset(ZERO_TYPE));
    }
    return completed(parameter);
}

__device__ inline Parameter parameter_at(const Byte* scale, const Byte* zero, Index number_)
{
    const Word scales[1] = {element(scale, number_, storage_bits(SCALE_TYPE))};
    Word zeros[2] = {0, 0};
    if (ZERO_TYPE == INT64) {
        zeros[0] = element(zero, 2 * number_, 32);
        zeros[1] = element(zero, 2 * number_ + 1, 32);
    } else if (ZERO_TYPE != NONE) {
        zeros[0] = element(zero, number_, ZERO_BITS);
    }
    return parameter_of(scales, zeros, 0, storage_bits(ZERO_TYPE), scale);
}

// ---- Elements and vectors ---------------------------------------------------------------------------------------------------------

struct Operands {
    const Byte *x, *scale, *zero;
    Byte* y;
};

__device__ inline void write_one(const Operands& operands, Index index, const Geometry& geometry)
{
    const Word words[1] = {element(operands.x, index, X_BITS)};
    const Parameter parameter = parameter_at(operands.scale, operands.zero, number_at(index, geometry));
    store_one(operands.y, index, result(words, 0, storage_bits(X_TYPE), parameter, true));
}

// The parameters of a vector's lanes.
__device__ inline void parameters_of(Parameter* parameters, const Operands& operands, Index first, const Geometry& geometry)
{
    if (has_adjacent()) {
        const Index number_ = number_at(first, geometry);
        Codes scales, zeros;
        load(scales, address(operands.scale, number_, storage_bits(SCALE_TYPE)), storage_bits(SCALE_TYPE), false);
        if (ZERO_TYPE != NONE) load(zeros, address(operands.zero, number_, ZERO_BITS), ZERO_BITS, false);
#pragma unroll
        for (int lane = 0; lane < MOST_LANES; ++lane) {
            if (lane >= lanes()) break;
            parameters[lane] = parameter_of(scales.words, zeros.words, lane, ZERO_BITS, operands.scale);
        }
        return;
    }
    Place place = place_of(first, geometry);
#pragma unroll
    for (int lane = 0; lane < MOST_LANES; ++lane) {
        if (lane >= lanes()) break;
        parameters[lane] = parameter_at(operands.scale, operands.zero, place.number);
        step(place, geometry);
    }
}

// True if one parameter serves the whole vector.
__device__ inline bool is_shared(Index first, const Geometry& geometry)
{
    if (SPREAD == ANY) return shared_for(place_of(first, geometry), geometry) >= (Index)lanes();
    return !has_adjacent();
}

// Writes the vector that begins with element `first`. to: its place in y.
__device__ inline void write(
    const Operands& operands, const Codes& codes, Index first, Byte* to, const Geometry& geometry, bool streamed)
{
    float results[MOST_LANES];
    bool careful = false;
    if (is_shared(first, geometry)) {
        const Parameter one = parameter_at(operands.scale, operands.zero, number_at(first, geometry));
        careful = needs_care(one.scale);
#pragma unroll
        for (int lane = 0; lane < MOST_LANES; ++lane) {
            if (lane >= lanes()) break;
            results[lane] = result(codes.words, lane, lane_bits(X_BITS), one, false);
        }
    } else {
        Parameter parameters[MOST_LANES];
        parameters_of(parameters, operands, first, geometry);
#pragma unroll
        for (int lane = 0; lane < MOST_LANES; ++lane) {
            if (lane >= lanes()) break;
            careful = careful || needs_care(parameters[lane].scale);
            results[lane] = result(codes.words, lane, lane_bits(X_BITS), parameters[lane], false);
        }
    }
    if (careful) {
#pragma unroll 1
        for (Index index = first; index < first + (Index)lanes(); ++index) write_one(operands, index, geometry);
    } else {
        store(to, results, streamed);
    }
}

// True if the elements behind the first `begin`, at which y is aligned, can be written in vectors.
__device__ inline bool has_vectors(const Operands& operands, Index begin)
{
    if (SPREAD == ONE || SPREAD == ANY) return true;
    if (has_adjacent() && !is_aligned(operands.scale, storage_bits(SCALE_TYPE))) return false;
    if (has_adjacent() && ZERO_TYPE != NONE && !is_aligned(operands.zero, ZERO_BITS)) return false;
    return begin == 0;
}

// The arguments after the arrays, which launch.py prepares. size: elements of x. head: those before y's first 16-byte boundary, at most
// size. whole: whether x is aligned there too, so that vectors of it can be read. streamed: whether x and y are so large that no cache
// keeps them. The others are those of Geometry.
struct Call {
    Long size, head, whole, streamed;
    Long inner, inner_multiplier, inner_shift, extent, extent_multiplier, extent_shift, run, run_multiplier, run_shift;
    Long outer_stride, run_stride, inner_stride;
};

// A block writes THREADS * VECTORS adjacent vectors. What the grid is too small for is written element by element, as are elements
// before and behind the vectors.
KERNEL void dequantize(
    const Byte* __restrict__ x, const Byte* __restrict__ scale, const Byte* __restrict__ zero, Byte* __restrict__ y, const Call call)
{
    const Geometry geometry = {
        {(Index)call.inner, (Index)call.inner_multiplier, (int)call.inner_shift},
        {(Index)call.extent, (Index)call.extent_multiplier, (int)call.extent_shift},
        {(Index)call.run, (Index)call.run_multiplier, (int)call.run_shift},
        (Index)call.outer_stride, (Index)call.run_stride, (Index)call.inner_stride};
    const Operands operands = {x, scale, zero, y};
    const bool streamed = call.streamed != 0;
    const Index size = (Index)call.size, begin = (Index)call.head, count = (Index)lanes(), tile = THREADS * VECTORS;
    const Index covered = gridDim.x * tile, most = has_vectors(operands, begin) ? (size - begin) / count : 0;
    const Index vectors = most < covered ? most : covered, start = blockIdx.x * tile + threadIdx.x;

    const Index first = begin + start * count;
    Byte* const to = y + (unsigned long long)first * (16 / lanes());
    // No load has the 3 or 6 bytes of a vector of 6-bit codes, so that they are read byte by byte, and need no alignment but that.
    const bool reads_vectors = X_BITS == 6 ? begin % 4 == 0 : call.whole != 0;
    if (reads_vectors && start + (VECTORS - 1) * THREADS < vectors) {
        // Without a branch between them, so that all are read before the first is written.
        const Byte* const from = address(x, first, X_BITS);
        Codes codes[MOST_VECTORS];
#pragma unroll
        for (int turn = 0; turn < MOST_VECTORS; ++turn)
            if (turn < VECTORS) load(codes[turn], from + turn * (THREADS * lanes() * X_BITS / 8), X_BITS, streamed);
#pragma unroll
        for (int turn = 0; turn < MOST_VECTORS; ++turn)
            if (turn < VECTORS)
                write(operands, codes[turn], first + turn * THREADS * count, to + turn * (THREADS * 16), geometry, streamed);
    } else {
#pragma unroll 1
        for (int turn = 0; turn < VECTORS && start + turn * THREADS < vectors; ++turn) {
            Codes codes;
            gather(codes, x, first + turn * THREADS * count, X_BITS);
            write(operands, codes, first + turn * THREADS * count, to + turn * (THREADS * 16), geometry, streamed);
        }
    }

    const Index threads = gridDim.x * (Index)THREADS, thread = blockIdx.x * (Index)THREADS + threadIdx.x;
    const Index tail = begin + vectors * count, rest = size - vectors * count;
    for (Index number_ = thread; number_ < rest; number_ += threads)
        write_one(operands, number_ < begin ? number_ : tail + (number_ - begin), geometry);
}
