// Instructions of a card for which CUDA has no built-in function. Part of dequantize.cu.
// tests/support/cuda_on_cpu.cpp has functions of the same names for a CPU.

// The compute capability times 100. Instructions that it has not are in branches that the compiler drops.
__device__ inline int capability() { return __CUDA_ARCH__; }

// Two float32 rounded to nearest float16, the first in the low half.
__device__ inline Word float16_pair(float low, float high)
{
    Word pair;
    if (capability() >= 800) {
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    } else {
        unsigned short first, second;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(first) : "f"(low));
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(second) : "f"(high));
        pair = first | (Word)second << 16;
    }
    return pair;
}

// The same to bfloat16. Only for capability() >= 800.
__device__ inline Word bfloat16_pair(float low, float high)
{
    Word pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

// The value of a float16 with these bits.
__device__ inline float float_of_float16(unsigned short bits)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

// Two codes of float8_e4m3fn, the first in the low byte, as two float16. Only for capability() >= 890.
__device__ inline Word float16_pair_of_float8_e4m3fn(unsigned short codes)
{
    Word pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(codes));
    return pair;
}
