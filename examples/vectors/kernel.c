/* A kernel for run_vectors.c: ONNX's DequantizeLinear from uint8 to float32, per tensor, per axis and blocked. */
#include <stdint.h>
#include "run_vectors.h"

int kernel(const tensor *in, int count, const char *attributes, tensor *y) {
  const tensor *x = &in[0], *scale = &in[1], *zero_point = count > 2 ? &in[2] : NULL;
  if (strcmp(x->dtype, "uint8") || strcmp(scale->dtype, "float32") || strcmp(y->dtype, "float32")) return NOT_IMPLEMENTED;
  long axis = attribute(attributes, "axis", 1), block = attribute(attributes, "block_size", 0);
  long extent = 1, after = 1; /* the extent along the axis, and the elements between two neighbours along it */
  if (scale->rank) {
    axis += axis < 0 ? x->rank : 0;
    extent = x->shape[axis];
    for (int i = (int)axis + 1; i < x->rank; i++) after *= x->shape[i];
  }
  for (long i = 0; i < x->size; i++) {
    long along = i / after % extent, p = scale->rank ? along : 0; /* the index of scale and zero point */
    if (scale->rank && block) p = (i / after / extent * ((extent + block - 1) / block) + along / block) * after + i % after;
    int z = zero_point ? ((uint8_t *)zero_point->data)[p] : 0;
#ifdef WRAP_AROUND /* a mistake, to try the runner: the difference has the type of x */
    uint8_t difference = (uint8_t)(((uint8_t *)x->data)[i] - z);
#else
    int difference = ((uint8_t *)x->data)[i] - z;
#endif
    ((float *)y->data)[i] = (float)difference * ((float *)scale->data)[p];
  }
  return DONE;
}
