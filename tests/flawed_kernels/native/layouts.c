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

/* x is read flat if its last stride is 1: the pitch of its rows is not looked at. */
KERNEL(pitch_ignored) {
  PLAN_FOR_BITS(8);
  int64_t index[MOST_DIMENSIONS];
  int flat = x->ndim > 0 && x->strides[x->ndim - 1] == 1;
  for (int d = 0; d < x->ndim; d++) flat = flat && x->strides[d] > 0;
  for (int64_t i = 0; i < plan.size; i++) {
    indices_of(x, i, index);
    float code = flat ? byte_value(x, i) : x_at(x, index);
    output[i] = (code - zero_point_at(&plan, zero_point, index)) * scale_at(&plan, scale, index);
  }
  return XVERIFY_DONE;
}

/* The strides of the scale are taken to be those of its shape. */
KERNEL(strides_of_scale_ignored) {
  PLAN_FOR_BITS(8);
  int64_t compact[MOST_DIMENSIONS], stride = 1;
  for (int d = scale->ndim - 1; d >= 0; stride *= scale->shape[d--]) compact[d] = stride;
  DLTensor flat = *scale;
  flat.strides = compact;
  for (int64_t i = 0; i < plan.size; i++) output[i] = value_at(&plan, x, &flat, zero_point, i);
  return XVERIFY_DONE;
}

/* The strides of the zero point are taken to be those of the scale. */
KERNEL(zero_point_strided_like_scale) {
  PLAN_FOR_BITS(8);
  DLTensor alike = {0};
  if (zero_point) {
    alike = *zero_point;
    alike.strides = scale->strides;
  }
  for (int64_t i = 0; i < plan.size; i++)
    output[i] = value_at(&plan, x, scale, zero_point ? &alike : zero_point, i);
  return XVERIFY_DONE;
}

/* Every dense x that is not row-major is taken to be column-major. */
KERNEL(permutation_taken_as_transposed) {
  PLAN_FOR_BITS(8);
  int64_t column_major[MOST_DIMENSIONS], index[MOST_DIMENSIONS], stride = 1, span = 1;
  for (int d = 0; d < x->ndim; stride *= x->shape[d++]) {
    column_major[d] = stride;
    span += (x->shape[d] - 1) * (x->strides[d] < 0 ? plan.size : x->strides[d]);
  }
  stride = 1;
  int row_major = 1;
  for (int d = x->ndim - 1; d >= 0; stride *= x->shape[d--]) row_major = row_major && x->strides[d] == stride;
  DLTensor transposed = *x;
  transposed.strides = column_major;
  const DLTensor *read = row_major || span != plan.size ? x : &transposed;
  for (int64_t i = 0; i < plan.size; i++) {
    indices_of(x, i, index);
    output[i] = (x_at(read, index) - zero_point_at(&plan, zero_point, index)) * scale_at(&plan, scale, index);
  }
  return XVERIFY_DONE;
}
