/* What run_vectors.c asks of a C kernel. Elements of fewer than 8 bits have a byte of their own, with their bits lowest. */
#include <stdlib.h>
#include <string.h>

typedef struct {
  char name[16], dtype[16]; /* such as "scale" and "float8_e4m3fn" */
  int rank;
  long shape[16], size; /* size is the number of elements */
  void *data;           /* the elements in C order */
} tensor;

enum { DONE, REFUSED, NOT_IMPLEMENTED };

/* Write y and return DONE, or return REFUSED or NOT_IMPLEMENTED. `in` has `count` tensors, in the order of the corpus: x, scale, and
   perhaps zero_point. y has the dtype and shape of the result. For a call that must be refused, its dtype is "". */
int kernel(const tensor *in, int count, const char *attributes, tensor *y);

/* The value of an attribute that is a whole number or a boolean, or the default. `attributes` is JSON, such as {"axis":1}. */
static inline long attribute(const char *attributes, const char *name, long otherwise) {
  const char *at = strstr(attributes, name), *value = at ? at + strlen(name) + 2 : "";
  return !at ? otherwise : *value == 't' ? 1 : atol(value);
}

/* The bits of an element: the first number in the name of its type. */
static inline int bits_of(const char *dtype) { return atoi(dtype + strcspn(dtype, "0123456789")); }

/* The bytes of an element in memory. */
static inline int bytes_of(const char *dtype) { return bits_of(dtype) < 8 ? 1 : bits_of(dtype) / 8; }
