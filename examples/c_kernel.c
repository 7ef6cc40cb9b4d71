/* A C kernel for ai.onnx/DequantizeLinear-25: int8 or uint8 codes, float32 scales, per tensor or per axis.

     cc -O2 -shared -fPIC -Ioracles/native -o c_kernel.so examples/c_kernel.c
     xverify gate --kernel ./c_kernel.so:dequantize --x-dtypes int8,uint8 --scale-dtypes float32 */

#include <stdbool.h>
#include <stddef.h>

#include "xverify_kernel.h"

static bool is(DLDataType type, int code, int bits) { return type.code == code && type.bits == bits; }

static bool same_shape(const DLTensor *a, const DLTensor *b) {
  if (a->ndim != b->ndim) return false;
  for (int32_t i = 0; i < a->ndim; i++)
    if (a->shape[i] != b->shape[i]) return false;
  return true;
}

/* The 8-bit code at an offset in elements. */
static int32_t code_at(const DLTensor *tensor, int64_t offset) {
  const char *element = (const char *)tensor->data + tensor->byte_offset + offset;
  return tensor->dtype.code == kDLInt ? *(const int8_t *)element : *(const uint8_t *)element;
}

static float *floats_of(const DLTensor *tensor) { return (float *)((char *)tensor->data + tensor->byte_offset); }

int dequantize(const DLTensor *x, const DLTensor *scale, const DLTensor *zero_point, int64_t axis, int64_t block_size,
               DLTensor *y) {
  /* Refuse what the specification forbids. */
  if (block_size < 0) return XVERIFY_REFUSED;
  if (zero_point && !(is(zero_point->dtype, x->dtype.code, x->dtype.bits) && same_shape(zero_point, scale)))
    return XVERIFY_REFUSED;
  bool per_axis = scale->ndim == 1;
  if (per_axis) {
    if (axis == XVERIFY_NO_AXIS) axis = 1;
    if (axis < -x->ndim || axis >= x->ndim) return XVERIFY_REFUSED;
    if (axis < 0) axis += x->ndim;
    if (block_size == 0 && scale->shape[0] != x->shape[axis]) return XVERIFY_REFUSED;
  }

  /* Say what is allowed but not implemented here: other types, and blocks. */
  bool known_types = (is(x->dtype, kDLInt, 8) || is(x->dtype, kDLUInt, 8)) && is(scale->dtype, kDLFloat, 32) &&
                     is(y->dtype, kDLFloat, 32);
  if (!known_types || scale->ndim > 1 || (per_axis && block_size)) return XVERIFY_UNSUPPORTED;

  int64_t count = 1;
  for (int32_t d = 0; d < x->ndim; d++) count *= x->shape[d];
  for (int64_t i = 0; i < count; i++) {
    /* y is compact and row-major; x, scale and zero_point have strides. */
    int64_t rest = i, x_offset = 0, channel = 0;
    for (int32_t d = x->ndim - 1; d >= 0; d--) {
      int64_t index = rest % x->shape[d];
      rest /= x->shape[d];
      x_offset += index * x->strides[d];
      if (per_axis && d == axis) channel = index;
    }
    int32_t difference = code_at(x, x_offset);
    if (zero_point) difference -= code_at(zero_point, per_axis ? channel * zero_point->strides[0] : 0);
    /* The difference has 9 bits, so float32 holds it and only the product is rounded. */
    floats_of(y)[i] = (float)difference * floats_of(scale)[per_axis ? channel * scale->strides[0] : 0];
  }
  return XVERIFY_DONE;
}
