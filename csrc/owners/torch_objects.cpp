#include "owners/torch_objects.h"

#include <ATen/dlpack.h>
#include <dlfcn.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/Storage.h>
#include <torch/csrc/autograd/python_cpp_function.h>
#include <torch/csrc/autograd/python_variable.h>

#include <cstring>

#include "owners/saved_tensors.h"
#include "torch/torch_version.h"

namespace leakguard {

namespace {

bool isCppFunction(PyTypeObject* type) {
  alignas(PyObject) unsigned char object[sizeof(PyObject)] = {}; // torch's check looks at the type alone
  auto* stand_in = reinterpret_cast<PyObject*>(object);
  stand_in->ob_type = type;
  return torch::autograd::THPCppFunction_Check(stand_in);
}

} // namespace

TorchType torchTypeOf(PyTypeObject* type) noexcept {
  if (type == &PyCapsule_Type) {
    return TorchType::Capsule;
  }
  if (THPVariableClass == nullptr || THPStorageClass == nullptr) {
    return TorchType::Other; // torch is half imported
  }
  if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(THPVariableClass))) {
    return TorchType::Tensor;
  }
  if (PyType_IsSubtype(type, THPStorageClass)) {
    return TorchType::Storage;
  }
  if (PyType_IsSubtype(type, &THPFunctionType)) {
    return TorchType::FunctionContext;
  }
  if (isCppFunction(type)) {
    return TorchType::CppFunction;
  }
  if (std::strcmp(type->tp_name, "torch._C._autograd.SavedTensor") == 0) {
    return TorchType::SavedTensor;
  }
  return TorchType::Other;
}

c10::TensorImpl* tensorOf(PyObject* wrapper) noexcept {
  return implOf(reinterpret_cast<THPVariable*>(wrapper)->cdata);
}

c10::StorageImpl* storageOf(PyObject* wrapper) noexcept {
  return reinterpret_cast<THPStorage*>(wrapper)->cdata.unsafeGetStorageImpl();
}

torch::autograd::Node* nodeOf(PyObject* wrapper) noexcept {
  if (torchTypeOf(Py_TYPE(wrapper)) == TorchType::FunctionContext) {
#if LEAKGUARD_TORCH_HAS_INTRUSIVE_NODES
    return reinterpret_cast<THPFunction*>(wrapper)->cdata.get();
#else
    return nullptr; // a weak reference
#endif
  }
  return reinterpret_cast<torch::autograd::THPCppFunction*>(wrapper)->cdata.get();
}

#if LEAKGUARD_TORCH_HAS_INTRUSIVE_NODES
PyObject* objectOwnedBy(const torch::autograd::Node* node, long references) noexcept {
  return references > 1 ? node->pyobj_slot()->load_pyobj() : nullptr;
}
PyObject* wrapperOf(const torch::autograd::Node* node) noexcept {
  return node->pyobj_slot()->load_pyobj();
}
#else
PyObject* objectOwnedBy(const torch::autograd::Node* node, long /*references*/) noexcept {
  const bool custom = roleOf(node) == NodeRole::PythonFunction;
  return custom ? static_cast<const torch::autograd::PyNode*>(node)->obj : nullptr;
}
PyObject* wrapperOf(const torch::autograd::Node* /*node*/) noexcept {
  return nullptr;
}
#endif

const torch::autograd::SavedVariable* savedVariableOf(PyObject* wrapper) noexcept {
  const auto* instance = reinterpret_cast<pybind11::detail::instance*>(wrapper);
  if (!instance->owned || !instance->simple_layout) {
    return nullptr; // not owned: a view into a node
  }
  return static_cast<const torch::autograd::SavedVariable*>(instance->simple_value_holder[0]);
}

c10::TensorImpl* tensorOfCapsule(PyObject* capsule) noexcept {
  // a capsule's name is a C string it borrows; one that was taken is called "used_dltensor"
  const char* name = PyCapsule_GetName(capsule);
  if (name == nullptr || std::strcmp(name, "dltensor") != 0) {
    PyErr_Clear();
    return nullptr;
  }
  const auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, name));
  Dl_info library;
  if (managed == nullptr || managed->manager_ctx == nullptr || managed->deleter == nullptr ||
      dladdr(reinterpret_cast<void*>(managed->deleter), &library) == 0 || library.dli_fname == nullptr ||
      std::strstr(library.dli_fname, "libtorch") == nullptr) {
    PyErr_Clear();
    return nullptr; // another library's: its context is none of ours
  }
  return *static_cast<c10::TensorImpl**>(managed->manager_ctx); // torch's context begins with the tensor
}

} // namespace leakguard
