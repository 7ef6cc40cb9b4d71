/* Flawed kernels: the process ends. */

#include <stdlib.h>

#include "plain.h"

/* The zero point is used without a look at whether there is one. */
KERNEL(absent_zero_point_read) {
  PLAN_FOR_BITS(8);
  volatile int32_t dimensions = ((const volatile DLTensor *)zero_point)->ndim;
  (void)dimensions;
  for (int64_t i = 0; i < plan.size; i++) output[i] = value_at(&plan, x, scale, zero_point, i);
  return XVERIFY_DONE;
}

/* The axis is used per tensor too, where it need not be one of x; here a check catches that, and aborts. */
KERNEL(axis_used_on_scalars) {
  PLAN_FOR_BITS(8);
  if (x->ndim == 0) abort();
  for (int64_t i = 0; i < plan.size; i++) output[i] = value_at(&plan, x, scale, zero_point, i);
  return XVERIFY_DONE;
}

/* The number of rows is the size divided by the last extent; the trap is that of a division by 0. */
KERNEL(division_by_empty_extent) {
  PLAN_FOR_BITS(8);
  if (x->ndim > 0 && x->shape[x->ndim - 1] == 0) __builtin_trap();
  for (int64_t i = 0; i < plan.size; i++) output[i] = value_at(&plan, x, scale, zero_point, i);
  return XVERIFY_DONE;
}
