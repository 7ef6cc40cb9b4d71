// A C++ kernel for ai.onnx/DequantizeLinear-25: integers of 8 and 16 bits, float32 scales, every granularity.
//
//   c++ -std=c++17 -O2 -shared -fPIC -Ioracles/native -o cpp_kernel.so examples/cpp_kernel.cpp
//   xverify gate --kernel ./cpp_kernel.so:dequantize --x-dtypes int8,uint8,int16,uint16 --scale-dtypes float32

#include <algorithm>
#include <cstdint>
#include <vector>

#include "xverify_kernel.h"

namespace {

bool same_type(DLDataType a, DLDataType b) { return a.code == b.code && a.bits == b.bits; }

bool is_float32(DLDataType type) { return type.code == kDLFloat && type.bits == 32; }

std::vector<std::int64_t> shape_of(const DLTensor& tensor) { return {tensor.shape, tensor.shape + tensor.ndim}; }

template <typename T>
T* elements(const DLTensor& tensor) {
  return reinterpret_cast<T*>(static_cast<char*>(tensor.data) + tensor.byte_offset);
}

// Where the scale and the zero point of an element are.
struct Parameters {
  enum Granularity { kPerTensor, kPerAxis, kBlocked } granularity = kPerTensor;
  std::int64_t axis = 0;
  std::int64_t block_size = 0;

  // The offset in elements of the parameter for the element of x with this index.
  std::int64_t offset(const DLTensor& parameter, const std::vector<std::int64_t>& index) const {
    if (granularity == kPerTensor) return 0;
    if (granularity == kPerAxis) return index[axis] * parameter.strides[0];
    std::int64_t sum = 0;
    for (std::size_t d = 0; d < index.size(); ++d)
      sum += (static_cast<std::int64_t>(d) == axis ? index[d] / block_size : index[d]) * parameter.strides[d];
    return sum;
  }
};

// Find the granularity of a call. Returns false if the specification forbids the call.
bool find_parameters(const DLTensor& x, const DLTensor& scale, std::int64_t axis, std::int64_t block_size,
                     Parameters* parameters) {
  if (block_size < 0) return false;
  if (scale.ndim == 0) return true;  // The axis is ignored, also one that is out of range.
  if (axis == XVERIFY_NO_AXIS) axis = 1;
  if (axis < -x.ndim || axis >= x.ndim) return false;
  parameters->axis = axis < 0 ? axis + x.ndim : axis;
  parameters->block_size = block_size;
  std::vector<std::int64_t> expected = shape_of(x);
  std::int64_t& extent = expected[parameters->axis];
  if (block_size > 0 && scale.ndim == x.ndim) {
    parameters->granularity = Parameters::kBlocked;
    extent = extent / block_size + (extent % block_size != 0);  // extent + block_size - 1 could overflow
  } else {
    parameters->granularity = Parameters::kPerAxis;
    expected = {extent};
  }
  return shape_of(scale) == expected;
}

template <typename Code>
void run(const DLTensor& x, const DLTensor& scale, const DLTensor* zero_point, const Parameters& parameters,
         const DLTensor& y) {
  const std::vector<std::int64_t> shape = shape_of(x);
  if (std::count(shape.begin(), shape.end(), 0)) return;
  std::vector<std::int64_t> index(shape.size(), 0);
  float* out = elements<float>(y);
  for (bool more = true; more;) {
    std::int64_t x_offset = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) x_offset += index[d] * x.strides[d];
    std::int32_t difference = elements<Code>(x)[x_offset];
    if (zero_point) difference -= elements<Code>(*zero_point)[parameters.offset(*zero_point, index)];
    // The difference has at most 17 bits, so float32 holds it and only the product is rounded.
    *out++ = static_cast<float>(difference) * elements<float>(scale)[parameters.offset(scale, index)];
    more = false;
    for (std::size_t d = shape.size(); d-- > 0 && !more;) {
      more = ++index[d] < shape[d];
      if (!more) index[d] = 0;
    }
  }
}

}  // namespace

extern "C" int dequantize(const DLTensor* x, const DLTensor* scale, const DLTensor* zero_point, std::int64_t axis,
                          std::int64_t block_size, DLTensor* y) {
  Parameters parameters;
  if (!find_parameters(*x, *scale, axis, block_size, &parameters)) return XVERIFY_REFUSED;
  if (zero_point && !(same_type(zero_point->dtype, x->dtype) && shape_of(*zero_point) == shape_of(*scale)))
    return XVERIFY_REFUSED;
  if (!is_float32(scale->dtype) || !is_float32(y->dtype)) return XVERIFY_UNSUPPORTED;
  const bool is_signed = x->dtype.code == kDLInt;
  if (!is_signed && x->dtype.code != kDLUInt) return XVERIFY_UNSUPPORTED;
  switch (x->dtype.bits) {
    case 8:
      is_signed ? run<std::int8_t>(*x, *scale, zero_point, parameters, *y)
                : run<std::uint8_t>(*x, *scale, zero_point, parameters, *y);
      return XVERIFY_DONE;
    case 16:
      is_signed ? run<std::int16_t>(*x, *scale, zero_point, parameters, *y)
                : run<std::uint16_t>(*x, *scale, zero_point, parameters, *y);
      return XVERIFY_DONE;
    default:
      return XVERIFY_UNSUPPORTED;
  }
}
