/* A native kernel for ai.onnx/DequantizeLinear-25: y = (x - zero_point) * scale.

     cc -O2 -shared -fPIC -o dequantize.so dequantize.c
     xverify gate --kernel ./dequantize.so:dequantize

   It has x of int2, uint2, int4, uint4, int8, uint8, int16 and uint16 with scale and output of float32, and says of
   other types that they are unsupported. It is written to be read: one loop for tensors of every rank and stride. */

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "xverify_kernel.h"

typedef enum { PER_TENSOR, PER_AXIS, BLOCKED } Granularity;

typedef struct {
  const DLTensor *x, *scale, *zero_point; /* zero_point may be NULL */
  DLTensor *y;
  Granularity granularity;
  int32_t axis;       /* in [0, rank); of no meaning per tensor */
  int64_t block_size; /* of no meaning but when blocked */
} Call;

/* ---- which calls are right ------------------------------------------------------------------------------------ */

static bool same_type(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

static bool same_shape(const DLTensor *a, const DLTensor *b) {
  if (a->ndim != b->ndim) return false;
  for (int32_t i = 0; i < a->ndim; i++)
    if (a->shape[i] != b->shape[i]) return false;
  return true;
}

/* The number of blocks that cover an extent; the last one may be short. (extent + size - 1 could overflow.) */
static int64_t blocks(int64_t extent, int64_t size) { return extent / size + (extent % size != 0); }

/* Whether the axis is in [-rank, rank); then call->axis is that axis counted from the front. */
static bool set_axis(Call *call, int64_t axis) {
  int64_t rank = call->x->ndim;
  if (axis == XVERIFY_NO_AXIS) axis = 1;
  if (axis < -rank || axis >= rank) return false;
  call->axis = (int32_t)(axis < 0 ? axis + rank : axis);
  return true;
}

/* Whether the scale fits x; then the granularity, axis and block size of the call are set.

   With a block size, a scale of x's rank is one of blocks (at rank 1 too); without, only a vector along the axis fits. */
static bool set_granularity(Call *call, int64_t axis, int64_t block_size) {
  const DLTensor *x = call->x, *scale = call->scale;
  if (block_size < 0) return false;
  call->block_size = block_size;
  if (scale->ndim == 0) {
    call->granularity = PER_TENSOR; /* the axis is ignored, even one out of range */
    return true;
  }
  if (!set_axis(call, axis)) return false;
  if (scale->ndim == x->ndim && block_size > 0) {
    call->granularity = BLOCKED;
    for (int32_t i = 0; i < x->ndim; i++) {
      int64_t expected = i == call->axis ? blocks(x->shape[i], block_size) : x->shape[i];
      if (scale->shape[i] != expected) return false;
    }
    return true;
  }
  call->granularity = PER_AXIS;
  return scale->ndim == 1 && scale->shape[0] == x->shape[call->axis];
}

/* ---- elements ------------------------------------------------------------------------------------------------- */

static bool is_float32(DLDataType type) { return type.code == kDLFloat && type.bits == 32 && type.lanes == 1; }

static bool is_small_integer(DLDataType type) {
  bool integer = type.code == kDLInt || type.code == kDLUInt;
  return integer && type.lanes == 1 && (type.bits == 2 || type.bits == 4 || type.bits == 8 || type.bits == 16);
}

static unsigned char *first_byte(const DLTensor *tensor) { return (unsigned char *)tensor->data + tensor->byte_offset; }

/* The integer at a place, counted in elements from the first one. Packed types have the first element lowest. */
static int32_t integer_at(const DLTensor *tensor, int64_t place) {
  int bits = tensor->dtype.bits;
  int32_t code;
  if (bits == 16) {
    uint16_t wide;
    memcpy(&wide, first_byte(tensor) + 2 * place, sizeof wide);
    code = wide;
  } else {
    int per_byte = 8 / bits;
    int shift = (int)(place % per_byte) * bits;
    code = (first_byte(tensor)[place / per_byte] >> shift) & ((1 << bits) - 1);
  }
  bool negative = tensor->dtype.code == kDLInt && code >> (bits - 1);
  return negative ? code - (1 << bits) : code;
}

static float float_at(const DLTensor *tensor, int64_t place) {
  float value;
  memcpy(&value, first_byte(tensor) + (ptrdiff_t)sizeof value * place, sizeof value);
  return value;
}

/* ---- the loop ------------------------------------------------------------------------------------------------- */

/* Where a tensor of parameters has the one for an element of x, given that element's index along one dimension: how
   many elements that index adds to its place. */
static int64_t parameter_step(const Call *call, const DLTensor *parameter, int32_t dimension, int64_t index) {
  bool along = dimension == call->axis;
  switch (call->granularity) {
    case PER_AXIS: return along ? index * parameter->strides[0] : 0;
    case BLOCKED: return (along ? index / call->block_size : index) * parameter->strides[dimension];
    default: return 0;
  }
}

/* The element or, dimension after dimension, the part of the tensors that begins at these places. */
static void dequantize_from(const Call *call, int32_t dimension, int64_t x, int64_t scale, int64_t zero_point,
                            int64_t y) {
  if (dimension == call->x->ndim) {
    /* Differences have 17 bits at most, so float32 holds them, and only the product is rounded. */
    int32_t subtracted = call->zero_point ? integer_at(call->zero_point, zero_point) : 0;
    float value = (float)(integer_at(call->x, x) - subtracted) * float_at(call->scale, scale);
    memcpy(first_byte(call->y) + (ptrdiff_t)sizeof value * y, &value, sizeof value);
    return;
  }
  for (int64_t i = 0; i < call->x->shape[dimension]; i++) {
    int64_t zero_step = call->zero_point ? parameter_step(call, call->zero_point, dimension, i) : 0;
    dequantize_from(call, dimension + 1, x + i * call->x->strides[dimension],
                    scale + parameter_step(call, call->scale, dimension, i), zero_point + zero_step,
                    y + i * call->y->strides[dimension]);
  }
}

int dequantize(const DLTensor *x, const DLTensor *scale, const DLTensor *zero_point, int64_t axis, int64_t block_size,
               DLTensor *y) {
  Call call = {x, scale, zero_point, y, PER_TENSOR, 0, 0};
  if (!set_granularity(&call, axis, block_size)) return XVERIFY_REFUSED;
  if (zero_point && !(same_type(zero_point->dtype, x->dtype) && same_shape(zero_point, scale))) return XVERIFY_REFUSED;
  if (!is_small_integer(x->dtype) || !is_float32(scale->dtype) || !is_float32(y->dtype)) return XVERIFY_UNSUPPORTED;
  dequantize_from(&call, 0, 0, 0, 0, 0);
  return XVERIFY_DONE;
}
