// One element: its code's number, the formula, exact and rounded once, and the result's code. Part of dequantize.cu.

enum Type {
    NONE, INT8, UINT8, INT16, UINT16, INT32, INT64, INT4, UINT4, INT2, UINT2, FLOAT4_E2M1FN, FLOAT6_E2M3FN, FLOAT6_E3M2FN,
    FLOAT8_E4M3FN, FLOAT8_E4M3FNUZ, FLOAT8_E5M2, FLOAT8_E5M2FNUZ, FLOAT8_E8M0FNU, FLOAT16, BFLOAT16, FLOAT32
};

typedef unsigned char Byte;
typedef unsigned int Word;
typedef unsigned long long Long;

// Differences, or products of them, that float32 does not hold exactly in two parts. So may a zero point of 32 bits or more.
__device__ inline bool is_wide()
{
    return X_TYPE == INT32 || ZERO_TYPE == INT32 || ZERO_TYPE == INT64
        || (ZERO_TYPE != NONE && (X_TYPE == FLOAT8_E5M2 || X_TYPE == FLOAT8_E5M2FNUZ));
}

// True if float32 holds every product: a difference of at most 9 bits, and a scale of at most 11, whose smallest number, bfloat16's
// 2^-133, is a multiple of float32's.
__device__ inline bool is_exact()
{
    const bool is_of_a_byte = X_TYPE == INT8 || X_TYPE == UINT8 || X_TYPE == INT4 || X_TYPE == UINT4 || X_TYPE == INT2
        || X_TYPE == UINT2;
    return is_of_a_byte && !is_wide() && (SCALE_TYPE == FLOAT16 || SCALE_TYPE == BFLOAT16 || SCALE_TYPE == FLOAT8_E8M0FNU);
}

// ---- Codes to numbers -------------------------------------------------------------------------------------------------------------

__device__ inline float of_integer(Word code, Word keep, Word flip)
{
    return (float)((int)((code & keep) ^ flip) - (int)flip);
}

// A float of few bits: its fields moved to float32's places make its value times a power of two, subnormals included.
// infinite: the first magnitude that is infinite (those above are NaN); no_number: the one code that is NaN.
__device__ inline float of_float(Word code, Word sign, int shift, float unit, Word infinite, Word no_number)
{
    const Word magnitude = code & (sign - 1);
    float value = __fmul_rn(__uint_as_float(magnitude << shift), unit);
    if (magnitude >= infinite) value = __uint_as_float(magnitude == infinite ? 0x7F800000u : 0x7FC00000u);
    if (code == no_number) value = __uint_as_float(0x7FC00000u);
    return (code & sign) ? -value : value;
}

// The value of a code of any type but INT32 and INT64, exactly. 2^k as a float32 has the bits (127 + k) << 23.
__device__ inline float number(int type, Word code)
{
    const Word never = 0xFFFFFFFFu;
    switch (type) {
    case INT8: return of_integer(code, 0xFF, 0x80);
    case UINT8: return of_integer(code, 0xFF, 0);
    case INT16: return of_integer(code, 0xFFFF, 0x8000);
    case UINT16: return of_integer(code, 0xFFFF, 0);
    case INT4: return of_integer(code, 15, 8);
    case UINT4: return of_integer(code, 15, 0);
    case INT2: return of_integer(code, 3, 2);
    case UINT2: return of_integer(code, 3, 0);
    case FLOAT4_E2M1FN: return of_float(code & 15, 8, 22, __uint_as_float(253u << 23), never, never);
    case FLOAT6_E2M3FN: return of_float(code & 63, 32, 20, __uint_as_float(253u << 23), never, never);
    case FLOAT6_E3M2FN: return of_float(code & 63, 32, 21, __uint_as_float(251u << 23), never, never);
    case FLOAT8_E4M3FN: {
        const Word no_number = (code & 0x80) | 0x7F;
        return of_float(code, 0x80, 20, __uint_as_float(247u << 23), never, no_number);
    }
    case FLOAT8_E4M3FNUZ: return of_float(code, 0x80, 20, __uint_as_float(246u << 23), never, 0x80);
    case FLOAT8_E5M2: return of_float(code, 0x80, 21, __uint_as_float(239u << 23), 0x7C, never);
    case FLOAT8_E5M2FNUZ: return of_float(code, 0x80, 21, __uint_as_float(238u << 23), never, 0x80);
    case FLOAT8_E8M0FNU: return __uint_as_float(code == 255 ? 0x7FC00000u : code == 0 ? 0x00400000u : code << 23);
    case FLOAT16: return of_float(code, 0x8000, 13, __uint_as_float(239u << 23), 0x7C00, never);
    case BFLOAT16: return __uint_as_float(code << 16);
    default: return __uint_as_float(code);
    }
}

// ---- Numbers to codes -------------------------------------------------------------------------------------------------------------

// The bits of a float32 that is an exact value rounded to nearest, made that value rounded to odd: toward zero, with the last bit set
// when anything was cut off. error: the exact value minus the float, of which the sign counts; 0 or NaN: nothing was cut off.
// Rounded to float16 or bfloat16 it then gives what rounding the exact value would have given (S. Boldo, G. Melquiond,
// "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
__device__ inline Word to_odd(float nearest, double error)
{
    const Word bits = __float_as_uint(nearest);
    const Word inexact = error < 0.0 || error > 0.0;
    const Word beyond = inexact && (error < 0.0) != (bits >> 31 != 0);
    return (bits - beyond) | inexact;
}

// The same for float64.
__device__ inline double to_odd_double(double nearest, double error)
{
    const Long bits = (Long)__double_as_longlong(nearest);
    const Long inexact = error < 0.0 || error > 0.0;
    const Long beyond = inexact && (error < 0.0) != (bits >> 63 != 0);
    return __longlong_as_double((long long)((bits - beyond) | inexact));
}

// The bits of a float32 to the nearest float16.
__device__ inline Word to_float16(Word bits)
{
    const Word sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return sign | 0x7E00u;
    if (magnitude >= 0x477FF000u) return sign | 0x7C00u;
    if (magnitude >= 0x38800000u) return sign | (magnitude - 0x38000000u + 0xFFFu + (magnitude >> 13 & 1)) >> 13;
    // Between 1/2 and 1 the last bit of a float32 is 2^-24, float16's smallest number.
    // So the rounding of the sum is the rounding to float16.
    return sign | (__float_as_uint(__fadd_rn(__uint_as_float(magnitude), 0.5f)) - 0x3F000000u);
}

// The bits of a float32 to the nearest bfloat16.
__device__ inline Word to_bfloat16(Word bits)
{
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (bits >> 16 & 0x8000u) | 0x7FC0u;
    return (bits + 0x7FFFu + (bits >> 16 & 1)) >> 16;
}

__device__ inline Word narrowed(Word bits) { return OUT_TYPE == FLOAT16 ? to_float16(bits) : to_bfloat16(bits); }

// The output's code for a float64 that is exact, or rounded to odd.
__device__ inline Word rounded(double value)
{
    const float nearest = __double2float_rn(value);
    if (OUT_TYPE == FLOAT32) return __float_as_uint(nearest);
    return narrowed(to_odd(nearest, __dsub_rn(value, (double)nearest)));
}

// ---- The linear formula -----------------------------------------------------------------------------------------------------------

// scale, zero: an element's; of a range its ends. wide: the zero point as a double; of a range what its formula makes of both ends.
// table: where the formula is one, the results of all 256 codes.
struct Parameter {
    float scale, zero;
    double wide;
    const Byte* table;
};

__device__ inline double number_of_x(Word code) { return X_TYPE == INT32 ? (double)(int)code : (double)number(X_TYPE, code); }

__device__ inline Word linear(Word code, Parameter parameter, bool divides)
{
    const float scale = parameter.scale;
    if (is_wide()) {
        double difference = number_of_x(code);
        if (ZERO_TYPE != NONE) difference = __dsub_rn(difference, parameter.wide);
        // Of a quotient's 49 or fewer significant bits before a midpoint, float64 rounds none to one: see xverify/kernels/formula.py.
        if (divides) return rounded(__ddiv_rn(difference, (double)scale));
        const double nearest = __dmul_rn(difference, (double)scale);
        return rounded(to_odd_double(nearest, __fma_rn(difference, (double)scale, -nearest)));
    }
    float difference = number(X_TYPE, code);
    if (ZERO_TYPE != NONE) difference = __fsub_rn(difference, parameter.zero);
    if (OUT_TYPE == FLOAT32) return __float_as_uint(divides ? __fdiv_rn(difference, scale) : __fmul_rn(difference, scale));
    if (divides) return rounded(__ddiv_rn((double)difference, (double)scale));
    if (is_exact()) return narrowed(__float_as_uint(__fmul_rn(difference, scale)));
    // The product has 42 bits or fewer: float32 holds what was cut off of it, but for products below 2^-100. Doubles are slow on many
    // cards.
    const float cut = __fmul_rz(difference, scale);
    if (cut < 7.888609052210118e-31f && cut > -7.888609052210118e-31f && difference != 0.0f)
        return rounded(__dmul_rn((double)difference, (double)scale));
    const float rest = __fmaf_rn(difference, scale, -cut);
    return narrowed(__float_as_uint(cut) | (rest < 0.0f || rest > 0.0f));
}
