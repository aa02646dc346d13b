// _keeping: tensors held from C++ alone, as an extension would hold them. Import torch first.
#include <ATen/ATen.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/python_variable.h>

#include <vector>

namespace py = pybind11;
namespace autograd = torch::autograd;

namespace {

std::vector<at::Tensor>& kept() {
  static auto* tensors = new std::vector<at::Tensor>(); // outlives the interpreter, on purpose
  return *tensors;
}

const at::Tensor& unpacked(const py::object& object) {
  if (!THPVariable_Check(object.ptr())) {
    throw py::type_error("a tensor is needed");
  }
  return THPVariable_Unpack(object.ptr());
}

struct Square : autograd::Function<Square> {
  static at::Tensor forward(autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x * x;
  }
  static autograd::variable_list backward(
      autograd::AutogradContext* context,
      const autograd::variable_list& gradients) {
    return {gradients[0] * 2 * context->get_saved_variables()[0]};
  }
};

} // namespace

PYBIND11_MODULE(_keeping, m) {
  m.doc() = "Tensors held from C++ alone. For the tests alone.";
  m.def("keep", [](const py::object& tensor) { kept().push_back(unpacked(tensor)); });
  m.def("clear", [] { kept().clear(); });
  m.def("square", [](const py::object& tensor) {
    return py::reinterpret_steal<py::object>(THPVariable_Wrap(Square::apply(unpacked(tensor))));
  });
}
