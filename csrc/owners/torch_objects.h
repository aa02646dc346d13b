#pragma once

#include <Python.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_function.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

namespace leakguard {

// torch's own Python types, told apart without importing or calling anything.
enum class TorchType : std::uint8_t {
  Other,
  Tensor,
  Storage,
  FunctionContext, // a custom torch.autograd.Function
  CppFunction, // what tensor.grad_fn gives for torch's own nodes
  SavedTensor, // a saved variable of its own, as checkpointing keeps them
  Capsule,
};
TorchType torchTypeOf(PyTypeObject* type) noexcept;

// What a wrapper stands for; null when it is empty.
c10::TensorImpl* tensorOf(PyObject* wrapper) noexcept;
c10::StorageImpl* storageOf(PyObject* wrapper) noexcept;
torch::autograd::Node* nodeOf(PyObject* wrapper) noexcept; // that it owns
// The Python object that a node of so many references owns, and the one that owns it and is owned by it, or null.
PyObject* objectOwnedBy(const torch::autograd::Node* node, long references) noexcept;
PyObject* wrapperOf(const torch::autograd::Node* node) noexcept;
const torch::autograd::SavedVariable* savedVariableOf(PyObject* wrapper) noexcept;
// The tensor that a DLPack capsule keeps until somebody takes it.
c10::TensorImpl* tensorOfCapsule(PyObject* capsule) noexcept;

inline c10::TensorImpl* implOf(const at::TensorBase& tensor) noexcept {
  return tensor.defined() ? tensor.unsafeGetTensorImpl() : nullptr;
}
inline torch::autograd::AutogradMeta* metaOf(const c10::TensorImpl* tensor) noexcept {
  return static_cast<torch::autograd::AutogradMeta*>(tensor->autograd_meta());
}
inline const torch::autograd::DifferentiableViewMeta* viewOf(const torch::autograd::AutogradMeta* meta) noexcept {
  return meta->is_view_ ? static_cast<const torch::autograd::DifferentiableViewMeta*>(meta) : nullptr;
}

} // namespace leakguard
