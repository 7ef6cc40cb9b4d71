/* The interface of a native kernel under test, for C11 and C++.

   A kernel is one exported function that takes DLPack tensors and has the type `xverify_dequantize` below. Build it
   as a shared library and name it to xverify as `path/to/library.so:symbol`. `dequantize.c`, beside this file, is a
   complete one.

   The DLPack types are declared here as far as kernels need them, in the binary layout of DLPack 1.x. Who has the
   real dlpack.h includes it before this file; its declarations are then used instead. */

#ifndef XVERIFY_KERNEL_H_
#define XVERIFY_KERNEL_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef DLPACK_DLPACK_H_

/* Where a tensor's memory is. xverify passes kDLCPU only; the numbers of the others are DLPack's. */
typedef enum {
  kDLCPU = 1
} DLDeviceType;

typedef struct {
  DLDeviceType device_type;
  int32_t device_id; /* 0 on the CPU */
} DLDevice;

/* DLDataType.code. The float8, float6 and float4 codes came with DLPack 1.1. */
typedef enum {
  kDLInt = 0,    /* int2, int4 (packed), int8, int16, int32, int64 */
  kDLUInt = 1,   /* uint2, uint4 (packed), uint8, uint16, uint32, uint64 */
  kDLFloat = 2,  /* IEEE float16, float32, float64 */
  kDLBfloat = 4, /* bfloat16 */
  kDLFloat8_e4m3fn = 10,
  kDLFloat8_e4m3fnuz = 11,
  kDLFloat8_e5m2 = 12,
  kDLFloat8_e5m2fnuz = 13,
  kDLFloat8_e8m0fnu = 14, /* a power of two, as a scale */
  kDLFloat6_e2m3fn = 15, /* packed */
  kDLFloat6_e3m2fn = 16, /* packed */
  kDLFloat4_e2m1fn = 17   /* packed */
} DLDataTypeCode;

typedef struct {
  uint8_t code;   /* a DLDataTypeCode */
  uint8_t bits;   /* of one element; 6, 4 and 2 are packed */
  uint16_t lanes; /* always 1 */
} DLDataType;

typedef struct {
  void *data;           /* the first element is at (char *)data + byte_offset */
  DLDevice device;      /* the CPU */
  int32_t ndim;         /* 0 for a scalar */
  DLDataType dtype;
  int64_t *shape;       /* ndim extents, any of which may be 0 */
  int64_t *strides;     /* ndim distances in elements, not bytes; may be 0 or negative. xverify never passes NULL,
                           which elsewhere means compact and row-major */
  uint64_t byte_offset; /* in bytes; not 0 in some calls */
} DLTensor;

#endif /* DLPACK_DLPACK_H_ */

/* What a kernel returns. Any value but XVERIFY_DONE and XVERIFY_UNSUPPORTED is a refusal, so a kernel may have error
   codes of its own. After anything but XVERIFY_DONE nobody looks at y. */
enum {
  XVERIFY_DONE = 0,       /* every element of y is written */
  XVERIFY_REFUSED = 1,    /* the specification forbids this call */
  XVERIFY_UNSUPPORTED = 2 /* the specification allows it, this kernel has not got it: reported, not a failure */
};

/* The `axis` of a call that has no such attribute: the edition's default (1 in ai.onnx), or "not specified". */
#define XVERIFY_NO_AXIS INT64_MIN

/* y = (x - zero_point) * scale.

   x           the quantized tensor.
   scale       a scalar, a vector along the axis, or of x's rank with one element for each block.
   zero_point  NULL when the call has none; of scale's shape otherwise. Forbidden calls are asked too: a zero point of
               another shape or type, a scale that does not fit x, a block size below 0; each must be refused.
   axis        as the call has it, negative and out of range too; XVERIFY_NO_AXIS when it has none.
   block_size  as the call has it; 0 when it has none.
   y           allocated by the caller: x's shape, compact and row-major, and the output's type in y->dtype.

   Promised: every tensor has its own memory, aligned to the size of its element and to no more. 6-, 4- and 2-bit
   types are compact and row-major, the element with the lower index in the lower bits of a byte. Four 6-bit elements
   are 24 bits in 3 bytes, the low bits of an element before its high bits; what is left of the last byte is 0. The descriptors (shape, strides) and the tensors live until the function returns, no longer.
   Asked: the kernel writes all of y and nothing else, reads nothing outside the elements, and may be called from
   several threads at once. */
typedef int (*xverify_dequantize)(const DLTensor *x, const DLTensor *scale, const DLTensor *zero_point, int64_t axis,
                                  int64_t block_size, DLTensor *y);

#ifdef __cplusplus
}
#endif

#endif /* XVERIFY_KERNEL_H_ */
