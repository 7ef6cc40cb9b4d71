// TensorFlow's modes, exact and rounded once, as xverify/kernels/range_formula.py computes them, and the choice of the formula.
// Part of dequantize.cu.
//
// float64 estimates the value. Where it does not say to which of two results that is rounded, the sum that the value is a quotient of
// is compared with what their middle would have made it, without a rounding.

__device__ inline bool x_has_a_sign() { return X_TYPE == INT8 || X_TYPE == INT16 || X_TYPE == INT32; }
__device__ inline double levels() { return X_TYPE == INT32 ? 4294967295.0 : X_TYPE == INT16 || X_TYPE == UINT16 ? 65535.0 : 255.0; }
__device__ inline double lowest() { return x_has_a_sign() ? -(levels() + 1.0) / 2.0 : 0.0; }
__device__ inline double highest() { return lowest() + levels(); }
__device__ inline Word rounded(double value) { return code_of(to_round(value)); }
__device__ inline bool is_finite(float value) { return (__float_as_uint(value) & 0x7F800000u) != 0x7F800000u; }

// ---- Sums without a rounding ------------------------------------------------------------------------------------------------------

// What the rounding of a + b to nearest left of it. D. E. Knuth, "The Art of Computer Programming", volume 2, 4.2.2, theorem B.
__device__ inline double left_of_sum(double a, double b, double sum)
{
    const double part = __dsub_rn(sum, a);
    return __dadd_rn(__dsub_rn(a, __dsub_rn(sum, part)), __dsub_rn(b, part));
}

#define TERMS 6

// A number with the sign of the terms' exact sum, 0 where that is 0. Each pass leaves the sum as it is: its rounded value is the last
// term then, and what the roundings left are the others, until the last outweighs them. It ends: a pass whose sum cancels makes all
// terms 2^-47 of what they were or less, and they are multiples of the least bit that any of them began with.
__device__ inline double sign_of_sum(double* terms)
{
    for (;;) {
        double rest = 0.0;
#pragma unroll
        for (int i = 1; i < TERMS; ++i) {
            const double sum = __dadd_rn(terms[i - 1], terms[i]);
            terms[i - 1] = left_of_sum(terms[i - 1], terms[i], sum);
            terms[i] = sum;
            rest = __dadd_rn(rest, fabs(terms[i - 1]));
        }
        if (!(rest > 0.5 * fabs(terms[TERMS - 1]))) return terms[TERMS - 1];  // a NaN too, which no finite operand makes
    }
}

// A product as two terms.
__device__ inline void put_product(double* terms, double a, double b)
{
    terms[0] = __dmul_rn(a, b);
    terms[1] = __fma_rn(a, b, -terms[0]);
}

// The number of an output's code; of an infinity the power of two beyond the largest number, from whose middle on it is rounded to.
__device__ inline double number_or_beyond(Word code)
{
    const float value = number(OUT_TYPE, code);
    if (is_finite(value)) return (double)value;
    return value < 0.0f ? -3.402823669209384634e38 : 3.402823669209384634e38;
}

// sum / divisor, rounded once. terms: the first four are the sum, the last two are written here. estimate: within 2^-41 of the
// quotient, relatively, so that the two results that it lies between are neighbours.
__device__ inline Word nearest(double estimate, double divisor, double* terms)
{
    const double bound = fabs(estimate) * 9.094947017729282e-13;  // 2^-40
    const Word below = rounded(__dsub_rn(estimate, bound)), above = rounded(__dadd_rn(estimate, bound));
    if (below == above) return below;
    put_product(terms + 4, -0.5 * (number_or_beyond(below) + number_or_beyond(above)), divisor);
    const double side = sign_of_sum(terms);
    // In the middle it is the even one; of both zeros, between which 0 lies, +0.
    return side < 0.0 || (side == 0.0 && above & 1) ? below : above;
}

// ---- The modes --------------------------------------------------------------------------------------------------------------------

// A range as it was read (scale: its lower end, zero: its upper), with what is the same for all its elements; other formulas'
// parameters as they are.
__device__ inline Parameter completed(Parameter one)
{
    const double low = one.scale, high = one.zero;
    if (FORMULA == MIN_FIRST) {
        const double values = levels() + 1.0;
        one.wide = __ddiv_rn(__dmul_rn(__dsub_rn(high, low), values / levels()), values);
    } else if (FORMULA == SCALED_SYMMETRIC) {
        one.wide = fabs(low) > fabs(high) || low != low ? fabs(low) : fabs(high);
    } else if (FORMULA == SCALED_FACTOR || FORMULA == SCALED_FACTOR_NARROW) {
        const float above = __fdiv_rn(one.zero, __double2float_rn(highest()));
        const float below = __fdiv_rn(one.scale, __double2float_rn(lowest() + (FORMULA == SCALED_FACTOR_NARROW)));
        one.scale = !x_has_a_sign() || below < above ? above : below;
        one.zero = offset(X_TYPE);
        one.wide = 0.0;
    }
    return one;
}

__device__ inline Word min_combined(double x, Parameter range)
{
    const double low = range.scale, high = range.zero, count = x + (X_TYPE == INT8 ? 128.0 : 0.0);
    if (!is_finite(range.scale) || !is_finite(range.zero))
        return rounded(__dadd_rn(low, __ddiv_rn(__dmul_rn(count, __dsub_rn(high, low)), levels())));
    double terms[TERMS];
    put_product(terms, low, levels() - count);
    put_product(terms + 2, high, count);
    double total = __dadd_rn(terms[0], terms[2]);
    // Of 16 bits both products are exact, so that their rounded sum is relatively near. Of 32 bits what their roundings left may
    // count: where the sum is so small, it is exact, and the value is 0 or at least 2^-59 of the products.
    if (X_TYPE == INT32) total = __dadd_rn(total, __dadd_rn(terms[1], terms[3]));
    return nearest(__ddiv_rn(total, levels()), levels(), terms);
}

__device__ inline float min_first(double x, Parameter range)
{
    return to_round(__dadd_rn((double)range.scale, __dmul_rn(x - lowest(), range.wide)));
}

__device__ inline Word scaled_symmetric(double x, Parameter range)
{
    const double buckets = x_has_a_sign() ? 2.0 * highest() : levels(), length = 2.0 * range.wide;
    double terms[TERMS] = {0.0};
    put_product(terms, x, length);
    const double estimate = __ddiv_rn(terms[0], buckets);
    return is_finite((float)range.wide) ? nearest(estimate, buckets, terms) : rounded(estimate);
}

__device__ inline Word from_table(Word code, const Byte* table)
{
    return OUT_TYPE == FLOAT32 ? __ldg((const Word*)table + code) : __ldg((const unsigned short*)table + code);
}

// A float32 that the output's type rounds as it would the exact value of a lane: words and bits as in `raw`. careful: right for all
// scales, not only for those that do not need care.
__device__ inline float result(const Word* words, int lane, int bits, Parameter parameter, bool careful)
{
    switch (FORMULA) {
    case MIN_COMBINED: return number(OUT_TYPE, min_combined(number_of_x(words, lane, bits), parameter));
    case MIN_FIRST: return min_first(number_of_x(words, lane, bits), parameter);
    case SCALED_SYMMETRIC: return number(OUT_TYPE, scaled_symmetric(number_of_x(words, lane, bits), parameter));
    case TABLE: return number(OUT_TYPE, from_table(words[lane / 4] >> lane % 4 * 8 & 0xFF, parameter.table));
    default: return linear(words, lane, bits, parameter, FORMULA == QUOTIENT, careful);
    }
}
