/* Flawed kernels: elements that do not fill a vector, a thread's share or a counter. */

#include "plain.h"

enum { LANES = 16, WIDTH = 8, THREADS = 4 };

/* Only whole vectors are written. */
KERNEL(tail_never_written) {
  PLAN_FOR_BITS(8);
  for (int64_t i = 0; i < plan.size / LANES * LANES; i++) output[i] = value_at(&plan, x, scale, zero_point, i);
  return XVERIFY_DONE;
}

/* The last vector is stored whole, whatever of it is needed. */
KERNEL(tail_written_past_end) {
  PLAN_FOR_BITS(8);
  for (int64_t i = 0; i < (plan.size + WIDTH - 1) / WIDTH * WIDTH; i++)
    output[i] = i < plan.size ? value_at(&plan, x, scale, zero_point, i) : 0.0f;
  return XVERIFY_DONE;
}

/* The tail is done by one whole vector that ends with the last element; fewer elements than a vector are not thought of. */
KERNEL(short_vector_before_start) {
  PLAN_FOR_BITS(8);
  for (int64_t i = 0; i < plan.size / WIDTH * WIDTH; i++) output[i] = value_at(&plan, x, scale, zero_point, i);
  if (plan.size % WIDTH)
    for (int64_t i = plan.size - WIDTH; i < plan.size; i++)
      output[i] = i < 0 ? 0.0f : value_at(&plan, x, scale, zero_point, i);
  return XVERIFY_DONE;
}

/* The last vector of a compact x is loaded whole; what lies behind x is not used, but it is read. */
KERNEL(tail_read_past_end) {
  PLAN_FOR_BITS(8);
  int64_t stride = 1;
  for (int d = x->ndim - 1; d >= 0; stride *= x->shape[d--])
    if (x->shape[d] != 1 && x->strides[d] != stride) stride = 0;
  volatile char lane = 0;
  if (stride)
    for (int64_t i = 0; i < (plan.size + WIDTH - 1) / WIDTH * WIDTH; i++) lane = first_byte(x)[i];
  (void)lane;
  for (int64_t i = 0; i < plan.size; i++) output[i] = value_at(&plan, x, scale, zero_point, i);
  return XVERIFY_DONE;
}

/* Large inputs are cut in equal shares, of which each does its whole vectors: the rest of a share stays as it was. */
KERNEL(seams_never_written) {
  PLAN_FOR_BITS(8);
  int64_t share = plan.size < 1024 ? plan.size : plan.size / THREADS;
  int64_t done = plan.size < 1024 ? plan.size : share / LANES * LANES;
  for (int64_t start = 0; share && start < plan.size; start += share)
    for (int64_t i = start; i < start + done && i < plan.size; i++)
      output[i] = value_at(&plan, x, scale, zero_point, i);
  return XVERIFY_DONE;
}

/* A grid has no more than 65535 blocks, here of one element. */
KERNEL(never_written_from_65535) {
  PLAN_FOR_BITS(8);
  int64_t grid = plan.size < 65535 ? plan.size : 65535;
  for (int64_t i = 0; i < grid; i++) output[i] = value_at(&plan, x, scale, zero_point, i);
  return XVERIFY_DONE;
}

/* The number of rows is 16 bits wide: of 65537 rows, one is done. */
KERNEL(rows_in_16_bits) {
  PLAN_FOR_BITS(8);
  int64_t columns = x->ndim ? x->shape[x->ndim - 1] : 1;
  uint16_t rows = (uint16_t)(columns ? plan.size / columns : 0);
  for (int64_t i = 0; i < rows * columns; i++) output[i] = value_at(&plan, x, scale, zero_point, i);
  return XVERIFY_DONE;
}

/* The block along the axis is found with 8 bits, so that block 256 has the parameters of block 0. */
KERNEL(blocks_in_8_bits) {
  PLAN_FOR_BITS(8);
  int64_t index[MOST_DIMENSIONS];
  for (int64_t i = 0; i < plan.size; i++) {
    indices_of(x, i, index);
    float code = x_at(x, index);
    if (plan.blocked) index[plan.axis] = (uint8_t)(index[plan.axis] / plan.block) * plan.block;
    output[i] = (code - zero_point_at(&plan, zero_point, index)) * scale_at(&plan, scale, index);
  }
  return XVERIFY_DONE;
}

/* The rest after whole vectors is done in pairs, so that an odd rest never becomes 0. */
KERNEL(odd_rest_never_ends) {
  PLAN_FOR_BITS(8);
  int64_t whole = plan.size < WIDTH ? plan.size : plan.size / WIDTH * WIDTH;
  for (int64_t i = 0; i < whole; i++) output[i] = value_at(&plan, x, scale, zero_point, i);
  volatile int64_t rest = plan.size - whole;
  while (rest > 0) {
    int64_t step = rest & ~(int64_t)1;
    for (int64_t i = plan.size - rest; i < plan.size - rest + step; i++)
      output[i] = value_at(&plan, x, scale, zero_point, i);
    rest -= step;
  }
  return XVERIFY_DONE;
}

/* Whole vectors use a fused multiply-add, x * scale - zero_point * scale, and the tail the formula. */
KERNEL(vectors_fused) {
  PLAN_FOR_BITS(8);
  int64_t index[MOST_DIMENSIONS];
  for (int64_t i = 0; i < plan.size; i++) {
    output[i] = value_at(&plan, x, scale, zero_point, i);
    if (i >= plan.size / WIDTH * WIDTH || !zero_point) continue;
    indices_of(x, i, index);
    float factor = scale_at(&plan, scale, index);
    volatile float offset = -zero_point_at(&plan, zero_point, index) * factor;
    output[i] = (float)((double)x_at(x, index) * (double)factor + (double)offset);
  }
  return XVERIFY_DONE;
}
