// xverify/kernels/cuda/dequantize.cu as C++: its macros are variables, its threads take turns.
//
// For one thread at a time this is all of CUDA that the source uses. Built with -ffp-contract=off, and without the C++ library, which
// ziglang would first have to build. Several threads may call it at once.

#include <math.h>
#include <stdint.h>
#include <string.h>

#define __device__ static
#define __constant__ static const
#define KERNEL static

struct Dimensions { unsigned int x; };
static thread_local Dimensions gridDim, blockDim, blockIdx, threadIdx;

struct alignas(8) uint2 { unsigned int x, y; };
struct alignas(16) uint4 { unsigned int x, y, z, w; };

template <class To, class From> static To bits_of(From value)
{
    static_assert(sizeof(To) == sizeof(From), "");
    To result;
    memcpy(&result, &value, sizeof result);
    return result;
}

static unsigned int __byte_perm(unsigned int low, unsigned int high, unsigned int selector)
{
    const unsigned long long bytes = low | (unsigned long long)high << 32;
    unsigned int result = 0;
    for (int i = 0; i < 4; ++i) result |= (unsigned int)(bytes >> (selector >> 4 * i & 7) * 8 & 0xFF) << 8 * i;
    return result;
}
static unsigned int __umulhi(unsigned int a, unsigned int b) { return (unsigned long long)a * b >> 32; }
static unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return (unsigned __int128)a * b >> 64; }
static float __uint_as_float(unsigned int bits) { return bits_of<float>(bits); }
static unsigned int __float_as_uint(float value) { return bits_of<unsigned int>(value); }
static double __longlong_as_double(long long bits) { return bits_of<double>(bits); }
static long long __double_as_longlong(double value) { return bits_of<long long>(value); }
static float __fadd_rn(float a, float b) { return a + b; }
static float __fsub_rn(float a, float b) { return a - b; }
static float __fmul_rn(float a, float b) { return a * b; }
static float __fmul_rz(float a, float b)
{
    const double exact = (double)a * b;
    const float nearest = (float)exact;
    return fabs(nearest) > fabs(exact) ? __uint_as_float(__float_as_uint(nearest) - 1) : nearest;
}
static float __fdiv_rn(float a, float b) { return a / b; }
static float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static double __dadd_rn(double a, double b) { return a + b; }
static double __dsub_rn(double a, double b) { return a - b; }
static double __dmul_rn(double a, double b) { return a * b; }
static double __ddiv_rn(double a, double b) { return a / b; }
static double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static float __double2float_rn(double value) { return (float)value; }
static double __ll2double_rn(long long value) { return (double)value; }

// The functions of instructions.cuh, by arithmetic in doubles. Every NaN becomes 0x7FFF, as on a card.

static thread_local int CAPABILITY;
static int capability() { return CAPABILITY; }

// The code of the nearest number of a format with so many bits of mantissa, whose smallest normal number is 2^least; of two as near,
// the even one.
static unsigned int nearest_code(double value, int mantissa, int least, unsigned int infinity)
{
    const unsigned int sign = signbit(value) ? 0x8000u : 0;
    if (isnan(value)) return 0x7FFFu;
    if (isinf(value)) return sign | infinity;
    int exponent = value == 0.0 ? least : ilogb(value);
    if (exponent < least) exponent = least;
    // Multiples of the last bit, at least 2^mantissa of them in a normal number. The next power of two has the next exponent.
    const double count = nearbyint(ldexp(fabs(value), mantissa - exponent));
    const double code = count + ldexp(exponent - least, mantissa);
    return sign | (code >= infinity ? infinity : (unsigned int)code);
}

static unsigned int float16_pair(float low, float high)
{
    return nearest_code(low, 10, -14, 0x7C00) | nearest_code(high, 10, -14, 0x7C00) << 16;
}

static unsigned int bfloat16_pair(float low, float high)
{
    return nearest_code(low, 7, -126, 0x7F80) | nearest_code(high, 7, -126, 0x7F80) << 16;
}

// The value of a code with so many bits of mantissa.
static double value_of(unsigned int code, int exponent_bits, int mantissa)
{
    const int exponent = code >> mantissa & ((1 << exponent_bits) - 1), bias = (1 << (exponent_bits - 1)) - 1;
    const double fraction = ldexp(code & ((1u << mantissa) - 1), -mantissa);
    const double magnitude = exponent == 0 ? ldexp(fraction, 1 - bias) : ldexp(1.0 + fraction, exponent - bias);
    return code >> (exponent_bits + mantissa) & 1 ? -magnitude : magnitude;
}

static float float_of_float16(unsigned short code)
{
    const unsigned int magnitude = code & 0x7FFFu;
    if (magnitude > 0x7C00u) return NAN;
    if (magnitude == 0x7C00u) return code >> 15 ? -INFINITY : INFINITY;
    return (float)value_of(code, 5, 10);
}

static unsigned int float16_pair_of_float8_e4m3fn(unsigned short codes)
{
    unsigned int pair = 0;
    for (int i = 0; i < 2; ++i) {
        const unsigned int code = codes >> 8 * i & 0xFF;
        pair |= ((code & 0x7F) == 0x7F ? 0x7FFFu : nearest_code(value_of(code, 4, 3), 10, -14, 0x7C00)) << 16 * i;
    }
    return pair;
}

// What the last run did: vectors of 16 bytes written, those of them that were streamed, and accesses that a card would refuse.
static thread_local unsigned long long streamed_stores, misaligned;

template <class T> static void check(const T* at) { misaligned += (uintptr_t)at % sizeof(T) != 0; }
template <class T> static T __ldcs(const T* at) { check(at); return *at; }
template <class T> static T __ldg(const T* at) { check(at); return *at; }
template <class T> static void __stwb(T* at, T value) { check(at); *at = value; }
template <class T> static void __stcs(T* at, T value) { check(at); ++streamed_stores; *at = value; }

#define THREADS blockDim.x

static thread_local int X_TYPE, SCALE_TYPE, ZERO_TYPE, OUT_TYPE, FORMULA, X_BITS, ZERO_BITS, SPREAD, VECTORS;

namespace narrow {
#define INDEX_BITS 32
#include "dequantize.cu"
#undef INDEX_BITS
}

#undef MOST_LANES
#undef MOST_VECTORS

namespace wide {
#define INDEX_BITS 64
#include "dequantize.cu"
}

static_assert(sizeof(narrow::Call) == sizeof(wide::Call), "");

// The names of the types and of the formulas in the order of their numbers, so that macros can be given by name as to NVRTC.
static const char* const TYPES[] = {
    "NONE", "INT8", "UINT8", "INT16", "UINT16", "INT32", "INT64", "INT4", "UINT4", "INT2", "UINT2", "FLOAT4_E2M1FN", "FLOAT6_E2M3FN",
    "FLOAT6_E3M2FN", "FLOAT8_E4M3FN", "FLOAT8_E4M3FNUZ", "FLOAT8_E5M2", "FLOAT8_E5M2FNUZ", "FLOAT8_E8M0FNU", "FLOAT16", "BFLOAT16", "FLOAT32"};
static const char* const FORMULAS[] = {
    "PRODUCT", "QUOTIENT", "MIN_COMBINED", "MIN_FIRST", "SCALED_SYMMETRIC", "SCALED_FACTOR", "SCALED_FACTOR_NARROW", "TABLE"};
static_assert(narrow::FLOAT32 + 1 == sizeof TYPES / sizeof *TYPES, "");
static_assert(narrow::TABLE + 1 == sizeof FORMULAS / sizeof *FORMULAS, "");

extern "C" int number_of(const char* name)
{
    for (int type = 0; type <= narrow::FLOAT32; ++type)
        if (!strcmp(TYPES[type], name)) return type;
    for (int formula = 0; formula <= narrow::TABLE; ++formula)
        if (!strcmp(FORMULAS[formula], name)) return formula;
    return -1;
}

// macros: in the order of the variables above, and INDEX_BITS. capability: as instructions.cuh says. call: the kernel's argument after
// the four arrays. The threads run in an order that no card has: results must not depend on it.
extern "C" void run(
    const int* macros, int capability, unsigned grid, unsigned block, const unsigned char* x, const unsigned char* scale,
    const unsigned char* zero, unsigned char* y, const void* call, unsigned long long* counted)
{
    int* const variables[] = {&X_TYPE, &SCALE_TYPE, &ZERO_TYPE, &OUT_TYPE, &FORMULA, &X_BITS, &ZERO_BITS, &SPREAD, &VECTORS};
    for (int i = 0; i < 9; ++i) *variables[i] = macros[i];
    CAPABILITY = capability;
    streamed_stores = misaligned = 0;
    gridDim.x = grid;
    blockDim.x = block;
    for (blockIdx.x = grid; blockIdx.x-- > 0;)
        for (threadIdx.x = block; threadIdx.x-- > 0;) {
            if (macros[9] == 64) wide::dequantize(x, scale, zero, y, *(const wide::Call*)call);
            else narrow::dequantize(x, scale, zero, y, *(const narrow::Call*)call);
        }
    counted[0] = streamed_stores;
    counted[1] = misaligned;
}

// Bytes of the structure that a launch passes.
extern "C" int bytes_of_call() { return sizeof(narrow::Call); }
