// A C++ kernel in a Python module made with pybind11, for ai.onnx/DequantizeLinear-25: 8-bit codes, float32 scales,
// every granularity.
//
//   pip install pybind11
//   c++ -std=c++17 -O2 -shared -fPIC $(python -m pybind11 --includes) examples/pybind_kernel.cpp
//       -o pybind_kernel$(python -c "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))")
//   xverify gate --kernel pybind_kernel:dequantize --x-dtypes int8,uint8 --scale-dtypes float32
//
// The second and third line are one command. The gate looks for the module in the current directory. It names the module, not
// the file: a file that ends in .so is a library with the C interface.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>
#include <vector>

namespace py = pybind11;

namespace {

[[noreturn]] void not_implemented(const std::string& reason) {
  PyErr_SetString(PyExc_NotImplementedError, reason.c_str());
  throw py::error_already_set();
}

// The name of a NumPy type. Types of ml_dtypes, such as int4 and bfloat16, have names of their own.
std::string name_of(const py::dtype& type) { return type.attr("name").cast<std::string>(); }

std::vector<py::ssize_t> shape_of(const py::array& array) { return {array.shape(), array.shape() + array.ndim()}; }

// Strides in bytes by which the parameter of an element is found: 0 on the axes that it does not depend on.
struct Walk {
  std::vector<py::ssize_t> strides;
  std::size_t axis = 0;
  py::ssize_t block_size = 1;

  py::ssize_t offset(const std::vector<py::ssize_t>& index) const {
    py::ssize_t sum = 0;
    for (std::size_t d = 0; d < strides.size(); ++d) sum += (d == axis ? index[d] / block_size : index[d]) * strides[d];
    return sum;
  }
};

// The walk through a parameter. Throws ValueError if the specification forbids its shape.
Walk walk_of(const py::array& x, const py::array& parameter, py::ssize_t axis, py::ssize_t block_size) {
  Walk walk{std::vector<py::ssize_t>(x.ndim(), 0)};
  if (parameter.ndim() == 0) return walk;  // The axis is ignored, also one that is out of range.
  if (axis < -x.ndim() || axis >= x.ndim()) throw py::value_error("axis is out of range");
  walk.axis = static_cast<std::size_t>(axis < 0 ? axis + x.ndim() : axis);
  std::vector<py::ssize_t> expected = shape_of(x);
  py::ssize_t& extent = expected[walk.axis];
  if (block_size > 0 && parameter.ndim() == x.ndim()) {
    extent = extent / block_size + (extent % block_size != 0);  // extent + block_size - 1 could overflow
    walk.block_size = block_size;
    walk.strides.assign(parameter.strides(), parameter.strides() + parameter.ndim());
  } else {
    expected = {extent};
    if (parameter.ndim() == 1) walk.strides[walk.axis] = parameter.strides(0);
  }
  if (shape_of(parameter) != expected) throw py::value_error("scale does not fit x");
  return walk;
}

template <typename T>
T at(const py::array& array, py::ssize_t offset) {
  return *reinterpret_cast<const T*>(static_cast<const char*>(array.data()) + offset);
}

template <typename Code>
void run(const py::array& x, const py::array& scale, const py::array* zero_point, const Walk& of_scale,
         const Walk& of_zero_point, float* out) {
  const std::vector<py::ssize_t> shape = shape_of(x);
  std::vector<py::ssize_t> index(shape.size(), 0);
  for (py::ssize_t i = 0; i < x.size(); ++i) {
    py::ssize_t x_offset = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) x_offset += index[d] * x.strides(d);
    std::int32_t difference = at<Code>(x, x_offset);
    if (zero_point) difference -= at<Code>(*zero_point, of_zero_point.offset(index));
    // The difference has 9 bits, so float32 holds it and only the product is rounded.
    out[i] = static_cast<float>(difference) * at<float>(scale, of_scale.offset(index));
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

py::array_t<float> dequantize(const py::array& x, const py::array& scale, const py::object& zero_point,
                              py::ssize_t axis, py::ssize_t block_size, const py::object& out_dtype) {
  if (block_size < 0) throw py::value_error("block_size must not be negative");
  const Walk of_scale = walk_of(x, scale, axis, block_size);
  Walk of_zero_point;
  py::array offset;
  if (!zero_point.is_none()) {
    offset = zero_point.cast<py::array>();
    if (!offset.dtype().is(x.dtype()) && !offset.dtype().equal(x.dtype()))
      throw py::value_error("zero_point must have the type of x");
    if (shape_of(offset) != shape_of(scale)) throw py::value_error("zero_point must have the shape of scale");
    of_zero_point = walk_of(x, offset, axis, block_size);
  }
  const std::string type = name_of(x.dtype());
  const std::string output = out_dtype.is_none() ? name_of(scale.dtype()) : name_of(py::dtype::from_args(out_dtype));
  if ((type != "int8" && type != "uint8") || name_of(scale.dtype()) != "float32" || output != "float32")
    not_implemented(type + ", " + name_of(scale.dtype()) + ", " + output);
  py::array_t<float> y(shape_of(x));
  const py::array* given = zero_point.is_none() ? nullptr : &offset;
  if (type == "int8")
    run<std::int8_t>(x, scale, given, of_scale, of_zero_point, y.mutable_data());
  else
    run<std::uint8_t>(x, scale, given, of_scale, of_zero_point, y.mutable_data());
  return y;
}

}  // namespace

PYBIND11_MODULE(pybind_kernel, module) {
  module.def("dequantize", &dequantize, py::arg("x"), py::arg("scale"), py::arg("zero_point") = py::none(), py::kw_only(),
             py::arg("axis") = 1, py::arg("block_size") = 0, py::arg("out_dtype") = py::none());
}
