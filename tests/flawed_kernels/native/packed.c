/* Flawed kernels: packed 4-bit types. */

#include "plain.h"

static inline float nibble_value(const DLTensor *t, int64_t i, int high_first) {
  int nibble = ((uint8_t)first_byte(t)[i / 2] >> ((i % 2) ^ high_first ? 4 : 0)) & 15;
  return (float)(t->dtype.code == kDLInt && nibble > 7 ? nibble - 16 : nibble);
}

static inline void dequantize(const Plan *plan, const DLTensor *x, const DLTensor *scale, const DLTensor *zero_point,
                              int64_t count, int high_first, float *output) {
  int64_t index[MOST_DIMENSIONS];
  for (int64_t i = 0; i < count; i++) {
    indices_of(x, i, index);
    float offset = zero_point ? nibble_value(zero_point, parameter_place(plan, zero_point, index), 0) : 0.0f;
    output[i] = (nibble_value(x, i, high_first) - offset) * scale_at(plan, scale, index);
  }
}

/* A sound one, for comparison. */
KERNEL(packed) {
  PLAN_FOR_BITS(4);
  dequantize(&plan, x, scale, zero_point, plan.size, 0, output);
  return XVERIFY_DONE;
}

/* The first element of a byte is taken from its upper half. */
KERNEL(upper_nibble_first) {
  PLAN_FOR_BITS(4);
  dequantize(&plan, x, scale, zero_point, plan.size, 1, output);
  return XVERIFY_DONE;
}
