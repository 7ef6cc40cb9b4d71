/* The example kernel, wrapped so that each function does one thing that a kernel must not. */

#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include <stdio.h>
#include <time.h>

#include "dequantize.c"

#define ARGUMENTS                                                                                             \
  const DLTensor *x, const DLTensor *scale, const DLTensor *zero_point, int64_t axis, int64_t block_size, DLTensor *y
#define RIGHT dequantize(x, scale, zero_point, axis, block_size, y)

static int64_t bytes_of(const DLTensor *tensor) {
  int64_t count = 1;
  for (int32_t i = 0; i < tensor->ndim; i++) count *= tensor->shape[i];
  return (count * tensor->dtype.bits + 7) / 8;
}

/* What is read is kept, so that the compiler leaves the read in. */
static volatile unsigned char kept;

int after_output(ARGUMENTS) {
  int code = RIGHT;
  float more = 1;
  if (!code) memcpy(first_byte(y) + bytes_of(y), &more, sizeof more);
  return code;
}

int byte_before_output(ARGUMENTS) {
  int code = RIGHT;
  if (!code) first_byte(y)[-1] = 1;
  return code;
}

int byte_before_output_and_refuses(ARGUMENTS) {
  first_byte(y)[-1] = 1;
  RIGHT;
  return XVERIFY_REFUSED;
}

int far_after_output(ARGUMENTS) {
  int code = RIGHT;
  if (!code) first_byte(y)[bytes_of(y) + 3000] = 1;
  return code;
}

int beside_scale(ARGUMENTS) {
  first_byte(scale)[-1] = 1;
  return RIGHT;
}

int writes_input(ARGUMENTS) {
  int code = RIGHT;
  if (!code && bytes_of(x)) first_byte(x)[0] ^= 1;
  return code;
}

/* Unpacks in place and puts everything back: harmful only where the memory can't be written. */
int writes_input_back(ARGUMENTS) {
  volatile unsigned char *byte = first_byte(x);
  *byte = *byte;
  return RIGHT;
}

int last_unwritten(ARGUMENTS) {
  unsigned char before[sizeof(float)] = {0};
  int64_t size = bytes_of(y);
  if (size) memcpy(before, first_byte(y) + size - sizeof before, sizeof before);
  int code = RIGHT;
  if (size) memcpy(first_byte(y) + size - sizeof before, before, sizeof before);
  return code;
}

int byte_after_x(ARGUMENTS) {
  kept = first_byte(x)[bytes_of(x)];
  return RIGHT;
}

int byte_before_x(ARGUMENTS) {
  kept = first_byte(x)[-1];
  return RIGHT;
}

int byte_after_zero_point(ARGUMENTS) {
  if (zero_point) kept = first_byte(zero_point)[bytes_of(zero_point)];
  return RIGHT;
}

/* The scale of the previous channel: for the first one, of nobody. */
int scale_before(ARGUMENTS) {
  DLTensor wrong = *scale;
  wrong.data = (unsigned char *)scale->data - sizeof(float);
  return dequantize(x, &wrong, zero_point, axis, block_size, y);
}

int no_byte_offset(ARGUMENTS) {
  DLTensor wrong = *x;
  wrong.byte_offset = 0;
  return dequantize(&wrong, scale, zero_point, axis, block_size, y);
}

int no_strides(ARGUMENTS) {
  DLTensor wrong = *x;
  wrong.strides = y->strides;
  return dequantize(&wrong, scale, zero_point, axis, block_size, y);
}

/* Needs more alignment than is promised, and says so. */
int aligned_only(ARGUMENTS) { return (uintptr_t)first_byte(x) % 16 ? 7 : RIGHT; }

int takes_turns(ARGUMENTS) {
  static int turn;
  return turn++ % 2 ? 7 : RIGHT;
}

int refuses_then_not(ARGUMENTS) {
  static int turn;
  return turn++ % 2 ? RIGHT : 7;
}

int counts(ARGUMENTS) {
  static unsigned char turn;
  int code = RIGHT;
  if (!code && bytes_of(y)) first_byte(y)[0] ^= turn++;
  return code;
}

/* Every output passes through one buffer. */
int shared_scratch(ARGUMENTS) {
  static unsigned char scratch[1 << 20];
  int64_t size = bytes_of(y);
  if (size > (int64_t)sizeof scratch) return RIGHT;
  DLTensor there = *y;
  there.data = scratch;
  there.byte_offset = 0;
  int code = dequantize(x, scale, zero_point, axis, block_size, &there);
  /* Long enough that threads meet here on a busy machine too. */
  nanosleep(&(struct timespec){0, 1000000}, NULL);
  if (!code) memcpy(first_byte(y), scratch, (size_t)size);
  return code;
}

/* NaNs with another payload each time: they are all NaN. */
int odd_nans(ARGUMENTS) {
  static uint32_t turn;
  int code = RIGHT;
  for (int64_t i = 0; !code && i < bytes_of(y) / 4; i++) {
    uint32_t bits = 0x7FC00000 + ++turn % 1000;
    if (float_at(y, i) != float_at(y, i)) memcpy(first_byte(y) + 4 * i, &bits, sizeof bits);
  }
  return code;
}

/* Prints what it is given. */
int describes(ARGUMENTS) {
  const DLTensor *all[] = {x, scale, zero_point, y};
  for (int i = 0; i < 4; i++) {
    const DLTensor *t = all[i];
    if (!t) continue;
    fprintf(stderr, "%d %d.%d.%d %d@%d+%d", t->ndim, t->dtype.code, t->dtype.bits, t->dtype.lanes, t->device.device_type,
            t->device.device_id, (int)t->byte_offset);
    for (int32_t d = 0; d < t->ndim; d++) fprintf(stderr, " %lld:%lld", (long long)t->shape[d], (long long)t->strides[d]);
    fprintf(stderr, "\n");
  }
  fprintf(stderr, "%lld %lld\n", (long long)axis, (long long)block_size);
  return XVERIFY_DONE;
}
