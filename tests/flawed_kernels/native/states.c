/* Flawed kernels: state that outlives a call, and inputs written. */

#include <sched.h>

#include "plain.h"

/* A call's 256 outputs are tabulated first, in a table that all threads share. */
KERNEL(table_shared_by_threads) {
  PLAN_FOR_BITS(8);
  static volatile float table[256];
  if (plan.axis >= 0 || plan.size == 0) {
    for (int64_t i = 0; i < plan.size; i++) output[i] = value_at(&plan, x, scale, zero_point, i);
    return XVERIFY_DONE;
  }
  int64_t index[MOST_DIMENSIONS] = {0};
  float factor = scale_at(&plan, scale, index), offset = zero_point_at(&plan, zero_point, index);
  for (int code = 0; code < 256; code++)
    table[code] = ((x->dtype.code == kDLInt ? (float)(int8_t)code : (float)code) - offset) * factor;
  sched_yield();
  for (int64_t i = 0; i < plan.size; i++) {
    indices_of(x, i, index);
    output[i] = table[(uint8_t)(int)x_at(x, index)];
  }
  return XVERIFY_DONE;
}

/* The caller's scale is used as scratch memory. */
KERNEL(scale_written) {
  PLAN_FOR_BITS(8);
  for (int64_t i = 0; i < plan.size; i++) output[i] = value_at(&plan, x, scale, zero_point, i);
  if (plan.axis < 0 && plan.size) {
    float *first = (float *)first_byte(scale);
    *first = *first * 0.5f;
  }
  return XVERIFY_DONE;
}

/* Sets flush-to-zero as the start-up code of a library built with -ffast-math does, and leaves it so. */
KERNEL(subnormals_flushed) {
  PLAN_FOR_BITS(8);
#if defined(__x86_64__) || defined(__i386__)
  unsigned control;
  __asm__ volatile("stmxcsr %0" : "=m"(control));
  control |= 0x8040;
  __asm__ volatile("ldmxcsr %0" : : "m"(control));
#elif defined(__aarch64__)
  uint64_t control;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  __asm__ volatile("msr fpcr, %0" : : "r"(control | (1ull << 24)));
#endif
  for (int64_t i = 0; i < plan.size; i++) output[i] = value_at(&plan, x, scale, zero_point, i);
  return XVERIFY_DONE;
}
