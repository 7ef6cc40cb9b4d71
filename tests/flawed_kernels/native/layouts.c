/* Flawed kernels: strides, offsets and alignment of inputs. */

#include "plain.h"

/* x is taken for compact and row-major. */
KERNEL(strides_ignored) {
  PLAN_FOR_BITS(8);
  int64_t index[MOST_DIMENSIONS];
  for (int64_t i = 0; i < plan.size; i++) {
    indices_of(x, i, index);
    output[i] = (byte_value(x, i) - zero_point_at(&plan, zero_point, index)) * scale_at(&plan, scale, index);
  }
  return XVERIFY_DONE;
}

/* The first element of x is taken to be at its data pointer. */
KERNEL(byte_offset_ignored) {
  DLTensor moved = *x;
  moved.byte_offset = 0;
  x = &moved;
  PLAN_FOR_BITS(8);
  for (int64_t i = 0; i < plan.size; i++) output[i] = value_at(&plan, x, scale, zero_point, i);
  return XVERIFY_DONE;
}

/* The strides of the scale are taken to be in bytes. */
KERNEL(strides_taken_as_bytes) {
  PLAN_FOR_BITS(8);
  int64_t index[MOST_DIMENSIONS];
  for (int64_t i = 0; i < plan.size; i++) {
    indices_of(x, i, index);
    const char *place = first_byte(scale) + parameter_place(&plan, scale, index);
    float factor;
    for (unsigned b = 0; b < sizeof factor; b++) ((char *)&factor)[b] = place[b];
    output[i] = (x_at(x, index) - zero_point_at(&plan, zero_point, index)) * factor;
  }
  return XVERIFY_DONE;
}

/* x is read from the 16-byte boundary at or before its first element, as an aligned load does. */
KERNEL(address_aligned_down) {
  DLTensor moved = *x;
  moved.data = (void *)((uintptr_t)first_byte(x) & ~(uintptr_t)15);
  moved.byte_offset = 0;
  x = &moved;
  PLAN_FOR_BITS(8);
  for (int64_t i = 0; i < plan.size; i++) output[i] = value_at(&plan, x, scale, zero_point, i);
  return XVERIFY_DONE;
}
