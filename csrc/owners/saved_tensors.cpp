#include "owners/saved_tensors.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/generated/Functions.h>
#include <torch/csrc/autograd/python_hook.h>

#include <cstring>
#include <string_view>
#include <typeinfo>
#include <unordered_map>
#include <vector>

#include "owners/private_members.h"

namespace leakguard {

namespace gen = torch::autograd::generated;
namespace priv = torch_private;
using torch::autograd::Node;
using torch::autograd::SavedVariable;

namespace {

struct SavedField {
  std::size_t offset;
  bool is_list;
  const char* name;
};
struct SavingNode {
  const char* type;
  std::vector<SavedField> fields;
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
const std::vector<SavingNode>& savingNodes() {
  static const auto* nodes = new std::vector<SavingNode>{
#include "saved_fields.inc"
  };
  return *nodes;
}
#pragma GCC diagnostic pop

// The layout before the part that depends on T is the same for every CppNode<T>.
struct AnyFunction : torch::autograd::Function<AnyFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext*, at::Tensor x) {
    return x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*, torch::autograd::variable_list g) {
    return g;
  }
};
const torch::autograd::AutogradContext& contextOf(const Node* cpp_function) {
  return static_cast<const torch::autograd::CppNode<AnyFunction>*>(cpp_function)->ctx_;
}

struct NodeType {
  const SavingNode* saving = nullptr;
  NodeRole role = NodeRole::Plain;
};

NodeRole roleFromName(std::string_view type) {
  // torch does not export these classes' type information: dynamic_cast and typeid(Class) would not link
  if (type == "N5torch8autograd14AccumulateGradE") {
    return NodeRole::AccumulateGrad;
  }
  if (type == "N5torch8autograd6PyNodeE") {
    return NodeRole::PythonFunction;
  }
  if (type == "N5torch8autograd10CopySlicesE") {
    return NodeRole::CopySlices;
  }
  if (type.starts_with("N5torch8autograd7CppNodeI")) {
    return NodeRole::CppFunction;
  }
  return NodeRole::Plain;
}

// Guarded by the GIL. Looked up by vtable: comparing type names for each of a hundred thousand nodes would show.
const NodeType& typeOf(const Node* node) {
  static auto* by_vtable = new std::unordered_map<const void*, NodeType>();
  static const auto* by_name = [] {
    auto* map = new std::unordered_map<std::string_view, const SavingNode*>();
    for (const SavingNode& saving : savingNodes()) {
      map->emplace(saving.type, &saving);
    }
    return map;
  }();
  const void* vtable = *reinterpret_cast<const void* const*>(node);
  if (const auto known = by_vtable->find(vtable); known != by_vtable->end()) {
    return known->second;
  }
  const char* name = typeid(*node).name();
  const auto saving = by_name->find(name);
  const NodeType type{saving == by_name->end() ? nullptr : saving->second, roleFromName(name)};
  return by_vtable->emplace(vtable, type).first->second;
}

template <class PyHook, class Hook>
PyObject* dictIfNamed(const Hook* hook, const char* type) {
  return hook && std::strcmp(typeid(*hook).name(), type) == 0 ? static_cast<const PyHook*>(hook)->dict : nullptr;
}

} // namespace

NodeRole roleOf(const Node* node) {
  return typeOf(node).role;
}

void eachSaved(const Node* node, const UseSaved& use) {
  const NodeType& type = typeOf(node);
  if (type.saving) {
    for (const SavedField& field : type.saving->fields) {
      const char* at = reinterpret_cast<const char*>(node) + field.offset;
      if (field.is_list) {
        for (const auto& variable : *reinterpret_cast<const std::vector<SavedVariable>*>(at)) {
          use(variable, field.name);
        }
      } else {
        use(*reinterpret_cast<const SavedVariable*>(at), field.name);
      }
    }
  }
  if (type.role == NodeRole::CppFunction) {
    for (const auto& variable : contextOf(node).*member(priv::ContextSaved{})) {
      use(variable, "saved_variables");
    }
  }
}

const torch::autograd::variable_list& tensorsToSave(const Node* cpp_function) {
  return contextOf(cpp_function).*member(priv::ContextToSave{});
}

SavedReferences referencesOf(const SavedVariable& variable) {
  SavedReferences references;
  const at::Tensor& data = variable.*member(priv::SavedData{});
  if (data.defined()) {
    references.tensor = data.unsafeGetTensorImpl();
  }
  references.is_output = variable.*member(priv::SavedIsOutput{});
  references.grad_fn = (variable.*member(priv::SavedGradFn{})).get();
  references.accumulator = (variable.*member(priv::SavedAccumulator{})).get();
  const auto* hooks = (variable.*member(priv::SavedHooks{})).get();
  if (hooks && std::strcmp(typeid(*hooks).name(), "N5torch8autograd20PySavedVariableHooksE") == 0) {
    const auto* python = static_cast<const torch::autograd::PySavedVariableHooks*>(hooks);
    references.pack_hook = python->*member(priv::PackHook{});
    references.unpack_hook = python->*member(priv::UnpackHook{});
    references.packed = python->*member(priv::PackedData{});
  }
  return references;
}

PyObject* hookDict(const torch::autograd::FunctionPreHook* hook) {
  PyObject* dict =
      dictIfNamed<torch::autograd::PyFunctionTensorPreHook>(hook, "N5torch8autograd23PyFunctionTensorPreHookE");
  return dict ? dict : dictIfNamed<torch::autograd::PyFunctionPreHook>(hook, "N5torch8autograd17PyFunctionPreHookE");
}

PyObject* hookDict(const torch::autograd::FunctionPostHook* hook) {
  return dictIfNamed<torch::autograd::PyFunctionPostHook>(hook, "N5torch8autograd18PyFunctionPostHookE");
}

PyObject* hookDict(const torch::autograd::PostAccumulateGradHook* hook) {
  return dictIfNamed<torch::autograd::PyFunctionTensorPostAccGradHooks>(
      hook, "N5torch8autograd32PyFunctionTensorPostAccGradHooksE");
}

} // namespace leakguard
