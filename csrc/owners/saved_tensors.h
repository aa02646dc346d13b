#pragma once

#include <Python.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <functional>

namespace leakguard {

enum class NodeRole : std::uint8_t {
  Plain,
  AccumulateGrad,
  PythonFunction, // a custom torch.autograd.Function
  CopySlices,
  CppFunction, // a custom C++ Function
};
NodeRole roleOf(const torch::autograd::Node* node);

// Calls use(variable, name) for every saved variable of a node, with the name it has in derivatives.yaml ("mat1"). The
// node's mutex must be held. Takes no reference and runs no hook. Those of a PythonFunction belong to its context.
using UseSaved = std::function<void(const torch::autograd::SavedVariable&, const char*)>;
void eachSaved(const torch::autograd::Node* node, const UseSaved& use);

// Tensors a C++ Function's context has been given and not yet saved.
const torch::autograd::variable_list& tensorsToSave(const torch::autograd::Node* cpp_function);

// Every reference a saved variable holds; null where there is none.
struct SavedReferences {
  c10::TensorImpl* tensor = nullptr;
  bool is_output = false; // of the node that saves it
  torch::autograd::Node* grad_fn = nullptr;
  torch::autograd::Node* accumulator = nullptr;
  PyObject* pack_hook = nullptr;
  PyObject* unpack_hook = nullptr;
  PyObject* packed = nullptr;
};
SavedReferences referencesOf(const torch::autograd::SavedVariable& variable);

// The hook dictionary inside one of torch's Python hook objects, or null.
PyObject* hookDict(const torch::autograd::FunctionPreHook* hook);
PyObject* hookDict(const torch::autograd::FunctionPostHook* hook);
PyObject* hookDict(const torch::autograd::PostAccumulateGradHook* hook);

} // namespace leakguard
