#pragma once

#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_saved_variable_hooks.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "owners/node_pointer.h"

// Members of torch's classes that have no accessor without side effects: the public ones copy tensors (counts move),
// run unpack hooks or throw. An explicit instantiation may name a private member, and a renamed one does not compile.

namespace leakguard::torch_private {

template <class Tag, typename Tag::Type Member>
struct Reveal {
  friend typename Tag::Type member(Tag) {
    return Member;
  }
};

#define LEAKGUARD_REVEAL(Tag, Class, name, ...) \
  struct Tag {                                  \
    using Type = __VA_ARGS__ Class::*;          \
    friend Type member(Tag);                    \
  };                                            \
  template struct Reveal<Tag, &Class::name>

using torch::autograd::AutogradContext;
using torch::autograd::Node;
using torch::autograd::PySavedVariableHooks;
using torch::autograd::SavedVariable;

LEAKGUARD_REVEAL(SavedData, SavedVariable, data_, at::Tensor);
LEAKGUARD_REVEAL(SavedHooks, SavedVariable, hooks_, std::unique_ptr<torch::autograd::SavedVariableHooks>);
LEAKGUARD_REVEAL(SavedGradFn, SavedVariable, grad_fn_, NodePointer);
LEAKGUARD_REVEAL(SavedAccumulator, SavedVariable, grad_accumulator_, NodePointer);
LEAKGUARD_REVEAL(SavedIsOutput, SavedVariable, is_output_, bool);
LEAKGUARD_REVEAL(PackHook, PySavedVariableHooks, pack_hook_, PyObject*);
LEAKGUARD_REVEAL(UnpackHook, PySavedVariableHooks, unpack_hook_, PyObject*);
LEAKGUARD_REVEAL(PackedData, PySavedVariableHooks, data_, PyObject*);
LEAKGUARD_REVEAL(NodeMutex, Node, mutex_, std::mutex);
LEAKGUARD_REVEAL(ContextSaved, AutogradContext, saved_variables_, std::vector<SavedVariable>);
LEAKGUARD_REVEAL(ContextToSave, AutogradContext, to_save_, torch::autograd::variable_list);
LEAKGUARD_REVEAL(TensorSizes, c10::TensorImpl, sizes_and_strides_, c10::impl::SizesAndStrides);
LEAKGUARD_REVEAL(SparseIndices, at::SparseTensorImpl, indices_, at::Tensor);
LEAKGUARD_REVEAL(SparseValues, at::SparseTensorImpl, values_, at::Tensor);
LEAKGUARD_REVEAL(CompressedRows, at::SparseCsrTensorImpl, crow_indices_, at::Tensor);
LEAKGUARD_REVEAL(CompressedColumns, at::SparseCsrTensorImpl, col_indices_, at::Tensor);
LEAKGUARD_REVEAL(CompressedValues, at::SparseCsrTensorImpl, values_, at::Tensor);

#undef LEAKGUARD_REVEAL

} // namespace leakguard::torch_private
