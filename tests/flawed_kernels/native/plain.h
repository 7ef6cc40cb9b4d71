/* A plain, sound kernel for int8 and uint8 to float32, in parts that the flawed ones beside this file leave out or change.

   Everything else that ai.onnx/DequantizeLinear-25 allows is answered with XVERIFY_UNSUPPORTED. */

#ifndef PLAIN_H_
#define PLAIN_H_

#include <stdint.h>

#include "../../../oracles/native/xverify_kernel.h"

enum { MOST_DIMENSIONS = 16 };

/* Where the parameters of an element are. */
typedef struct {
  int64_t size;  /* elements of x */
  int64_t block; /* elements along the axis that share a parameter; 1 per axis */
  int axis;      /* -1: per tensor */
  int blocked;   /* the parameters have x's rank */
} Plan;

static inline int same_type(const DLTensor *a, const DLTensor *b) {
  return a->dtype.code == b->dtype.code && a->dtype.bits == b->dtype.bits;
}

static inline int same_shape(const DLTensor *a, const DLTensor *b) {
  if (a->ndim != b->ndim) return 0;
  for (int i = 0; i < a->ndim; i++)
    if (a->shape[i] != b->shape[i]) return 0;
  return 1;
}

static inline int is_float32(const DLTensor *t) { return t->dtype.code == kDLFloat && t->dtype.bits == 32; }

static inline int is_integer(const DLTensor *t, int bits) {
  return (t->dtype.code == kDLInt || t->dtype.code == kDLUInt) && t->dtype.bits == bits;
}

/* The clauses on shapes, axis and block size. */
static inline int plan_shapes(const DLTensor *x, const DLTensor *scale, int64_t axis, int64_t block_size, Plan *plan) {
  int rank = x->ndim;
  if (axis == XVERIFY_NO_AXIS) axis = 1;
  if (block_size < 0) return XVERIFY_REFUSED;
  plan->axis = -1;
  plan->block = 1;
  plan->blocked = 0;
  if (scale->ndim == 0) return XVERIFY_DONE;
  int has_rank = scale->ndim == rank && (rank > 1 || block_size > 0);
  if ((has_rank && block_size == 0) || (!has_rank && scale->ndim != 1)) return XVERIFY_REFUSED;
  if (axis < -rank || axis >= rank) return XVERIFY_REFUSED;
  if (axis < 0) axis += rank;
  if (!has_rank) {
    plan->axis = (int)axis;
    return scale->shape[0] == x->shape[axis] ? XVERIFY_DONE : XVERIFY_REFUSED;
  }
  for (int i = 0; i < rank; i++) {
    int64_t blocks = x->shape[i] / block_size + (x->shape[i] % block_size != 0);
    if (scale->shape[i] != (i == axis ? blocks : x->shape[i])) return XVERIFY_REFUSED;
  }
  plan->axis = (int)axis;
  plan->block = block_size;
  plan->blocked = 1;
  return XVERIFY_DONE;
}

/* XVERIFY_DONE and the plan of an allowed call with an x of so many bits, or what to answer. */
static inline int plan_call(const DLTensor *x, const DLTensor *scale, const DLTensor *zero_point, int64_t axis,
                            int64_t block_size, const DLTensor *y, int bits, Plan *plan) {
  if (zero_point && (!same_type(x, zero_point) || !same_shape(scale, zero_point))) return XVERIFY_REFUSED;
  int answer = plan_shapes(x, scale, axis, block_size, plan);
  if (answer != XVERIFY_DONE) return answer;
  if (!is_integer(x, bits) || !is_float32(scale) || !is_float32(y)) return XVERIFY_UNSUPPORTED;
  if (x->ndim > MOST_DIMENSIONS) return XVERIFY_UNSUPPORTED;
  plan->size = 1;
  for (int i = 0; i < x->ndim; i++) plan->size *= x->shape[i];
  return XVERIFY_DONE;
}

static inline const char *first_byte(const DLTensor *t) { return (const char *)t->data + t->byte_offset; }

/* The indices of the i-th element of x in row-major order. */
static inline void indices_of(const DLTensor *x, int64_t i, int64_t *index) {
  for (int d = x->ndim - 1; d >= 0; d--) {
    index[d] = i % x->shape[d];
    i /= x->shape[d];
  }
}

/* How many elements after the first one the parameter of an element lies. */
static inline int64_t parameter_place(const Plan *plan, const DLTensor *parameter, const int64_t *index) {
  int64_t place = 0;
  if (plan->axis < 0) return 0;
  if (!plan->blocked) return index[plan->axis] * parameter->strides[0];
  for (int d = 0; d < parameter->ndim; d++)
    place += (d == plan->axis ? index[d] / plan->block : index[d]) * parameter->strides[d];
  return place;
}

static inline float byte_value(const DLTensor *t, int64_t place) {
  const char *byte = first_byte(t) + place;
  return t->dtype.code == kDLInt ? (float)*(const int8_t *)byte : (float)*(const uint8_t *)byte;
}

static inline float scale_at(const Plan *plan, const DLTensor *scale, const int64_t *index) {
  return ((const float *)first_byte(scale))[parameter_place(plan, scale, index)];
}

static inline float zero_point_at(const Plan *plan, const DLTensor *zero_point, const int64_t *index) {
  return zero_point ? byte_value(zero_point, parameter_place(plan, zero_point, index)) : 0.0f;
}

static inline float x_at(const DLTensor *x, const int64_t *index) {
  int64_t place = 0;
  for (int d = 0; d < x->ndim; d++) place += index[d] * x->strides[d];
  return byte_value(x, place);
}

/* The right value of the i-th element. */
static inline float value_at(const Plan *plan, const DLTensor *x, const DLTensor *scale, const DLTensor *zero_point,
                             int64_t i) {
  int64_t index[MOST_DIMENSIONS];
  indices_of(x, i, index);
  return (x_at(x, index) - zero_point_at(plan, zero_point, index)) * scale_at(plan, scale, index);
}

static inline float *output_of(DLTensor *y) { return (float *)((char *)y->data + y->byte_offset); }

/* The parameters of a kernel, and its first lines. */
#define KERNEL(NAME)                                                                                              \
  int NAME(const DLTensor *x, const DLTensor *scale, const DLTensor *zero_point, int64_t axis, int64_t block_size, \
           DLTensor *y)

#define PLAN_FOR_BITS(BITS)                                                              \
  Plan plan;                                                                             \
  int answer = plan_call(x, scale, zero_point, axis, block_size, y, BITS, &plan);        \
  if (answer != XVERIFY_DONE) return answer;                                             \
  float *output = output_of(y)

#endif /* PLAIN_H_ */
