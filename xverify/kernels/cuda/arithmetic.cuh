// One element: its code's number, the formula, exact and rounded once, and the result's code. Part of dequantize.cu.

enum Type {
    NONE, INT8, UINT8, INT16, UINT16, INT32, INT64, INT4, UINT4, INT2, UINT2, FLOAT4_E2M1FN, FLOAT6_E2M3FN, FLOAT6_E3M2FN,
    FLOAT8_E4M3FN, FLOAT8_E4M3FNUZ, FLOAT8_E5M2, FLOAT8_E5M2FNUZ, FLOAT8_E8M0FNU, FLOAT16, BFLOAT16, FLOAT32
};

enum Formula { PRODUCT, QUOTIENT, MIN_COMBINED, MIN_FIRST, SCALED_SYMMETRIC, SCALED_FACTOR, SCALED_FACTOR_NARROW, TABLE };

typedef unsigned char Byte;
typedef unsigned int Word;
typedef unsigned long long Long;

#ifdef __CUDACC__
#include "instructions.cuh"
#endif

// Differences, or products of them, that float32 does not hold exactly in two parts. So may a zero point of 32 bits or more.
__device__ inline bool is_wide()
{
    return X_TYPE == INT32 || ZERO_TYPE == INT32 || ZERO_TYPE == INT64
        || (ZERO_TYPE != NONE && (X_TYPE == FLOAT8_E5M2 || X_TYPE == FLOAT8_E5M2FNUZ));
}

__device__ inline bool is_integer(int type) { return type >= INT8 && type <= UINT2; }

// True if float32 holds every product, or rounds it to what the output makes of it anyway.
//
// A scale has at most 11 bits, and the smallest is 2^-133 (bfloat16). A difference of 8-bit codes has 9 bits and of 6-bit floats at
// most 10, in units of 2^-4 or more. A float8 without a zero point has at most 4 bits, in units of 2^-17 or more. So a product has at
// most 21 bits, which float32 holds down to units of 2^-149. Only units of 2^-17 (float8_e5m2fnuz) times 2^-133 are less: such a
// product is below 2^-139, and both float16 and bfloat16 make it 0, rounded before or not. Products from 2^128 on are infinite either
// way: the next number of 21 bits or fewer below 2^128 stays finite in float32.
__device__ inline bool is_exact()
{
    const bool is_small_scale = SCALE_TYPE == FLOAT16 || SCALE_TYPE == BFLOAT16 || SCALE_TYPE == FLOAT8_E8M0FNU;
    const bool is_small_integer = is_integer(X_TYPE) && X_TYPE != INT16 && X_TYPE != UINT16
        && ZERO_TYPE != INT16 && ZERO_TYPE != UINT16;
    const bool is_small_float = X_TYPE == FLOAT4_E2M1FN || X_TYPE == FLOAT6_E2M3FN || X_TYPE == FLOAT6_E3M2FN;
    const bool is_float8 = X_TYPE == FLOAT8_E4M3FN || X_TYPE == FLOAT8_E4M3FNUZ || X_TYPE == FLOAT8_E5M2 || X_TYPE == FLOAT8_E5M2FNUZ;
    return is_small_scale && !is_wide() && (is_small_integer || is_small_float || (is_float8 && ZERO_TYPE == NONE));
}

// ---- Codes to numbers -------------------------------------------------------------------------------------------------------------

// In memory an element takes that many bits, if it is not packed.
__device__ inline int storage_bits(int type)
{
    return type == INT64 ? 64 : type == INT32 || type == FLOAT32 ? 32
        : type == INT16 || type == UINT16 || type == FLOAT16 || type == BFLOAT16 ? 16 : 8;
}

// What `raw` adds to an integer of 16 bits or fewer: 2^23, at which the last bit of a float32 is 1, and the distance of the smallest
// code from 0. The difference of two such numbers is exact. It needs no conversion instruction.
__device__ inline float offset(int type)
{
    switch (type) {
    case UINT8: case UINT16: case UINT4: case UINT2: return 8388608.0f;
    case INT8: return 8388608.0f + 128.0f;
    case INT16: return 8388608.0f + 32768.0f;
    case INT4: return 8388608.0f + 8.0f;
    case INT2: return 8388608.0f + 2.0f;
    default: return 0.0f;
    }
}

// The place of a code of at most 8 bits among words of codes, `bits` from one to the next: the byte, and bits below it there.
struct Part {
    Word word;
    int byte, below;
};

__device__ inline Part part_of(const Word* words, int lane, int bits)
{
    const int in_a_byte = 8 / bits, byte = lane / in_a_byte;
    const Part part = {words[byte / 4], byte % 4, lane % in_a_byte * bits};
    return part;
}

// The bits of 2^23. They lie in memory so that they come into a register once. As a constant they would take the place that an
// instruction has for one, and each selector of bytes would then take an instruction of its own.
__constant__ Word TWO_TO_23 = 0x4B000000u;

// An integer and its `offset`: its code, with the sign's bit flipped, in the low byte of 2^23.
__device__ inline float raw_integer(Part part, Word keep, Word flip)
{
    const Word codes = ((part.word >> part.below) & keep * 0x01010101u) ^ flip * 0x01010101u;
    return __uint_as_float(__byte_perm(codes, TWO_TO_23, 0x7440 + part.byte));
}

__device__ inline float raw_integer16(const Word* words, int lane, Word flip)
{
    return __uint_as_float(__byte_perm(words[lane / 2] ^ flip * 0x00010001u, TWO_TO_23, lane % 2 ? 0x7432 : 0x7410));
}

// A float of `width` bits in the highest bits of a word, as a float32: moved to the places of float32's sign, exponent and mantissa it
// is the value times a power of two, subnormals included.
__device__ inline Word at_the_top(Part part, int width)
{
    const int up = 8 - width - part.below;
    return __byte_perm(up < 0 ? part.word >> -up : part.word << up, 0, part.byte << 12 | 0x0444);
}

__device__ inline float small_float(Word at_top, int width, int exponent_bits, float unit)
{
    const int shift = 8 - exponent_bits;
    const Word magnitude = ((1u << (width - 1)) - 1) << (32 - width - shift);
    return __fmul_rn(__uint_as_float((Word)((int)at_top >> shift) & (0x80000000u | magnitude)), unit);
}

// Of a type whose code 0x80 is NaN.
__device__ inline float fnuz(Word at_top, int exponent_bits, float unit)
{
    const float value = small_float(at_top, 8, exponent_bits, unit);
    return at_top == 0x80000000u ? __uint_as_float(0x7FC00000u) : value;
}

__device__ inline float half_of(Word pair, int lane) { return float_of_float16((unsigned short)(lane % 2 ? pair >> 16 : pair)); }

__device__ inline float float8_e4m3fn(const Word* words, int lane)
{
    if (capability() >= 890) return half_of(float16_pair_of_float8_e4m3fn((unsigned short)(words[lane / 4] >> lane / 2 % 2 * 16)), lane);
    const float value = small_float(at_the_top(part_of(words, lane, 8), 8), 8, 4, __uint_as_float(247u << 23));
    return fabsf(value) > 448.0f ? __uint_as_float(0x7FC00000u) : value;
}

// float8_e5m2 is the upper byte of a float16.
__device__ inline float float8_e5m2(const Word* words, int lane)
{
    const int byte = lane % 4 / 2 * 2;
    return half_of(__byte_perm(words[lane / 4], 0, 0x1404 + byte * 0x1010), lane);
}

__device__ inline float float8_e8m0fnu(Word code)
{
    return __uint_as_float(code == 255 ? 0x7FC00000u : code == 0 ? 0x00400000u : code << 23);
}

// The value of a lane of any type but INT32 and INT64, exactly, and for integers its `offset`. words: codes, `bits` from one to the
// next. Bits of a byte above a code do not count. 2^k as a float32 has the bits (127 + k) << 23.
__device__ inline float raw(int type, const Word* words, int lane, int bits)
{
    switch (type) {
    case INT8: return raw_integer(part_of(words, lane, bits), 0xFF, 0x80);
    case UINT8: return raw_integer(part_of(words, lane, bits), 0xFF, 0);
    case INT16: return raw_integer16(words, lane, 0x8000);
    case UINT16: return raw_integer16(words, lane, 0);
    case INT4: return raw_integer(part_of(words, lane, bits), 15, 8);
    case UINT4: return raw_integer(part_of(words, lane, bits), 15, 0);
    case INT2: return raw_integer(part_of(words, lane, bits), 3, 2);
    case UINT2: return raw_integer(part_of(words, lane, bits), 3, 0);
    case FLOAT4_E2M1FN: return small_float(at_the_top(part_of(words, lane, bits), 4), 4, 2, __uint_as_float(253u << 23));
    case FLOAT6_E2M3FN: return small_float(at_the_top(part_of(words, lane, bits), 6), 6, 2, __uint_as_float(253u << 23));
    case FLOAT6_E3M2FN: return small_float(at_the_top(part_of(words, lane, bits), 6), 6, 3, __uint_as_float(251u << 23));
    case FLOAT8_E4M3FN: return float8_e4m3fn(words, lane);
    case FLOAT8_E4M3FNUZ: return fnuz(at_the_top(part_of(words, lane, 8), 8), 4, __uint_as_float(246u << 23));
    case FLOAT8_E5M2: return float8_e5m2(words, lane);
    case FLOAT8_E5M2FNUZ: return fnuz(at_the_top(part_of(words, lane, 8), 8), 5, __uint_as_float(238u << 23));
    case FLOAT8_E8M0FNU: return float8_e8m0fnu(words[lane / 4] >> lane % 4 * 8 & 0xFF);
    case FLOAT16: return half_of(words[lane / 2], lane);
    case BFLOAT16: return __uint_as_float(lane % 2 ? words[lane / 2] & 0xFFFF0000u : words[lane / 2] << 16);
    default: return __uint_as_float(words[lane]);
    }
}

// The value of a code.
__device__ inline float number(int type, Word code)
{
    const float value = raw(type, &code, 0, storage_bits(type));
    return is_integer(type) ? __fsub_rn(value, offset(type)) : value;
}

// ---- Numbers to codes -------------------------------------------------------------------------------------------------------------

// A float32 that is an exact value rounded to nearest, made that value rounded to odd: toward zero, with the last bit set when
// anything was cut off. error: the exact value minus the float, of which the sign counts; 0 or NaN: nothing was cut off.
// Rounded to float16 or bfloat16 it then gives what rounding the exact value would have given (S. Boldo, G. Melquiond,
// "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
__device__ inline float to_odd(float nearest, double error)
{
    const Word bits = __float_as_uint(nearest);
    const Word inexact = error < 0.0 || error > 0.0;
    const Word beyond = inexact && (error < 0.0) != (bits >> 31 != 0);
    return __uint_as_float((bits - beyond) | inexact);
}

// The same for float64.
__device__ inline double to_odd_double(double nearest, double error)
{
    const Long bits = (Long)__double_as_longlong(nearest);
    const Long inexact = error < 0.0 || error > 0.0;
    const Long beyond = inexact && (error < 0.0) != (bits >> 63 != 0);
    return __longlong_as_double((long long)((bits - beyond) | inexact));
}

// The nearest bfloat16, of cards that have no instruction for it.
__device__ inline Word to_bfloat16(float value)
{
    const Word bits = __float_as_uint(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (bits >> 16 & 0x8000u) | 0x7FC0u;
    return (bits + 0x7FFFu + (bits >> 16 & 1)) >> 16;
}

// Two float32 rounded to the output's type of 16 bits, the first in the low half.
__device__ inline Word narrowed(float low, float high)
{
    if (OUT_TYPE == FLOAT16) return float16_pair(low, high);
    if (capability() >= 800) return bfloat16_pair(low, high);
    return to_bfloat16(low) | to_bfloat16(high) << 16;
}

// The output's code for a float32 that rounds to it.
__device__ inline Word code_of(float value)
{
    return OUT_TYPE == FLOAT32 ? __float_as_uint(value) : narrowed(value, 0.0f) & 0xFFFFu;
}

// A float32 that the output's type rounds as it would a float64 that is exact, or rounded to odd.
__device__ inline float to_round(double value)
{
    const float nearest = __double2float_rn(value);
    return OUT_TYPE == FLOAT32 ? nearest : to_odd(nearest, __dsub_rn(value, (double)nearest));
}

// ---- The linear formula -----------------------------------------------------------------------------------------------------------

// scale: an element's; of a range its lower end. zero: what is subtracted from `raw` of an element; of a range its upper end.
// wide: the zero point as a double; of a range what its formula makes of both ends. table: where the formula is one, the results of
// all 256 codes.
struct Parameter {
    float scale, zero;
    double wide;
    const Byte* table;
};

__device__ inline double number_of_x(const Word* words, int lane, int bits)
{
    if (X_TYPE == INT32) return (double)(int)words[lane];
    const float value = raw(X_TYPE, words, lane, bits);
    return (double)(is_integer(X_TYPE) ? __fsub_rn(value, offset(X_TYPE)) : value);
}

// True if the rest of a product that was cut off to float32 may be no float32. Then only `careful` products are right. The product has
// 43 bits or fewer, the last of which is 2^-140 or more for scales from 2^-100 on. Of products below, float16 makes 0 in any case.
// A scale of 0 leaves no rest. The other formulas multiply in float64: their `scale` is a lower end, and often 0.
__device__ inline bool needs_care(float scale)
{
    const bool is_product = FORMULA == PRODUCT || FORMULA == SCALED_FACTOR || FORMULA == SCALED_FACTOR_NARROW;
    return OUT_TYPE == BFLOAT16 && is_product && !is_wide() && !is_exact() && scale != 0.0f && fabsf(scale) < 7.888609052210118e-31f;
}

// A float32 that the output's type rounds as it would the exact value.
__device__ inline float linear(const Word* words, int lane, int bits, Parameter parameter, bool divides, bool careful)
{
    const float scale = parameter.scale;
    if (is_wide()) {
        double difference = number_of_x(words, lane, bits);
        if (ZERO_TYPE != NONE) difference = __dsub_rn(difference, parameter.wide);
        // Of a quotient's 49 or fewer significant bits before a midpoint, float64 rounds none to one: see xverify/kernels/formula.py.
        if (divides) return to_round(__ddiv_rn(difference, (double)scale));
        const double nearest = __dmul_rn(difference, (double)scale);
        return to_round(to_odd_double(nearest, __fma_rn(difference, (double)scale, -nearest)));
    }
    float difference = raw(X_TYPE, words, lane, bits);
    if (ZERO_TYPE != NONE || is_integer(X_TYPE)) difference = __fsub_rn(difference, parameter.zero);
    if (divides) return OUT_TYPE == FLOAT32 ? __fdiv_rn(difference, scale) : to_round(__ddiv_rn((double)difference, (double)scale));
    if (OUT_TYPE == FLOAT32 || is_exact()) return __fmul_rn(difference, scale);
    if (careful && needs_care(scale)) return to_round(__dmul_rn((double)difference, (double)scale));
    const float cut = __fmul_rz(difference, scale);
    const float rest = __fmaf_rn(difference, scale, -cut);
    return __uint_as_float(__float_as_uint(cut) | (rest < 0.0f || rest > 0.0f));
}
