// What the references and objects of tensors and the autograd graph are called. The other half of TensorEdges, used for
// the few objects on a path.
#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <torch/csrc/autograd/functions/tensor.h>
#include <torch/csrc/autograd/python_variable.h>

#include "owners/private_members.h"
#include "owners/saved_tensors.h"
#include "owners/tensor_edges.h"
#include "owners/torch_objects.h"

namespace leakguard {

namespace priv = torch_private;
using torch::autograd::Node;

namespace {

// "torch::autograd::CppNode<app::Square>" -> "Square", "torch::autograd::AccumulateGrad" -> "AccumulateGrad"
std::string shortNodeName(std::string name) {
  const auto open = name.find("CppNode<");
  if (open != std::string::npos && name.ends_with('>')) {
    name = name.substr(open + 8, name.size() - open - 9);
  }
  const auto bracket = name.find('<');
  const auto colon = name.rfind("::", bracket);
  return colon == std::string::npos ? name : name.substr(colon + 2);
}

std::string shapeText(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::int64_t size : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  }
  return text + "]";
}

TypeText tensorText(c10::TensorImpl* tensor) {
  const ExampleTensor example = describeTensor(tensor);
  PyObject* wrapper = tensor->pyobj_slot()->load_pyobj();
  return {
      wrapper ? shortTypeName(Py_TYPE(wrapper)) : "Tensor",
      shapeText(example.shape) + " " + example.dtype + (example.requires_grad ? ", requires grad" : "")};
}

ReferenceName inSaved(const torch::autograd::SavedVariable& variable, const char* name, const void* to) {
  const SavedReferences saved = referencesOf(variable);
  if (saved.tensor == to) {
    return {Edge::SavedTensor, name};
  }
  if (saved.grad_fn == to || saved.accumulator == to) {
    return {Edge::GradFn};
  }
  if (saved.packed == to) {
    return {Edge::PackedTensor, name};
  }
  if (saved.pack_hook == to || saved.unpack_hook == to) {
    return {Edge::Hook, "saved_tensors_hook"};
  }
  return {};
}

ReferenceName fromWrapper(PyObject* object, const void* to) {
  const void* self = nullptr;
  switch (torchTypeOf(Py_TYPE(object))) {
    case TorchType::Capsule:
      return {Edge::Attribute, "dltensor"};
    case TorchType::SavedTensor: {
      const auto* variable = savedVariableOf(object);
      return variable ? inSaved(*variable, "", to) : ReferenceName{};
    }
    case TorchType::Tensor: {
      const auto* tensor = reinterpret_cast<THPVariable*>(object);
      if (tensor->backward_hooks == to) {
        return {Edge::Hook, "tensor_hook"};
      }
      if (tensor->post_accumulate_grad_hooks == to) {
        return {Edge::Hook, "post_accumulate_grad_hook"};
      }
      self = tensorOf(object);
      break;
    }
    case TorchType::Storage:
      self = storageOf(object);
      break;
    case TorchType::CppFunction:
      self = nodeOf(object);
      break;
    case TorchType::FunctionContext: {
      const auto* context = reinterpret_cast<THPFunction*>(object);
      if (context->to_save == to) {
        return {Edge::Attribute, "to_save"};
      }
      if (context->saved_for_forward == to) {
        return {Edge::Attribute, "saved_for_forward"};
      }
      if (context->non_differentiable == to) {
        return {Edge::Attribute, "non_differentiable"};
      }
      if (context->dirty_tensors == to) {
        return {Edge::Attribute, "dirty_tensors"};
      }
      for (const auto& variable : context->saved_variables) {
        auto name = inSaved(variable, "", to);
        if (name.edge != Edge::Unknown) {
          return name;
        }
      }
      self = nodeOf(object);
      break;
    }
    case TorchType::Other:
      break;
  }
  return self == to ? ReferenceName{Edge::Self} : ReferenceName{};
}

ReferenceName fromTensor(const c10::TensorImpl* tensor, NodeKind to_kind, const void* to) {
  if (to_kind == kStorage) {
    return {Edge::Storage};
  }
  if (to_kind == kPythonObject && to == tensor->pyobj_slot()->load_pyobj()) {
    return {Edge::Self};
  }
  if (const auto* meta = metaOf(tensor)) {
    if (implOf(meta->grad_) == to) {
      return {Edge::Attribute, "grad"};
    }
    if (meta->grad_fn_.get() == to) {
      return {Edge::GradFn};
    }
    for (const auto& hook : meta->hooks_) {
      if (hookDict(hook.get()) == to) {
        return {Edge::Hook, "tensor_hook"};
      }
    }
    if (to_kind == kPythonObject) {
      return {Edge::Hook, "post_accumulate_grad_hook"};
    }
    const auto* view = viewOf(meta);
    if (view && view->has_bw_view() && implOf(view->get_backward_view().base_) == to) {
      return {Edge::Attribute, "_base"};
    }
  }
  return {Edge::Attribute, "values"}; // of a sparse tensor
}

ReferenceName fromNode(Node* node, NodeKind to_kind, const void* to) {
  const NodeRole role = roleOf(node);
  if (to_kind == kGraphNode) {
    for (const auto& edge : node->next_edges()) {
      if (edge.function.get() == to) {
        return {Edge::NextFunction};
      }
    }
    if (role == NodeRole::CopySlices && static_cast<torch::autograd::CopySlices*>(node)->fn.get() == to) {
      return {Edge::NextFunction};
    }
  }
  if (to_kind == kPythonObject && to == objectOwnedBy(node, 2)) {
    return {Edge::Self};
  }
  if (role == NodeRole::AccumulateGrad && to_kind == kTensor) {
    return {Edge::Attribute, "variable"};
  }
  ReferenceName found;
  const std::unique_lock<std::mutex> lock(node->*member(priv::NodeMutex{}), std::try_to_lock);
  if (lock.owns_lock()) {
    eachSaved(node, [&](const torch::autograd::SavedVariable& variable, const char* name) {
      if (found.edge == Edge::Unknown) {
        found = inSaved(variable, name, to);
      }
    });
  }
  if (found.edge != Edge::Unknown) {
    return found;
  }
  return to_kind == kPythonObject ? ReferenceName{Edge::Hook, "node_hook"} : ReferenceName{Edge::SavedTensor};
}

} // namespace

ExampleTensor describeTensor(const c10::TensorImpl* tensor) {
  ExampleTensor example;
  const auto sizes = (tensor->*member(priv::TensorSizes{})).sizes_arrayref();
  example.shape.assign(sizes.begin(), sizes.end());
  example.dtype = c10::getDtypeNames(c10::typeMetaToScalarType(tensor->dtype())).first;
  const auto* meta = metaOf(tensor);
  example.requires_grad = meta && (meta->requires_grad_ || meta->grad_fn_.get() != nullptr);
  return example;
}

std::optional<ExampleTensor> TensorEdges::exampleOf(NodeKind kind, void* address) const {
  if (kind != kTensor) {
    return std::nullopt;
  }
  return describeTensor(static_cast<c10::TensorImpl*>(address));
}

TypeText TensorEdges::typeText(NodeKind kind, void* address) const {
  switch (kind) {
    case kTensor:
      return tensorText(static_cast<c10::TensorImpl*>(address));
    case kStorage:
      return {"UntypedStorage", {}};
    case kGraphNode:
      return {shortNodeName(static_cast<Node*>(address)->name()), {}};
    case kData:
      return {"memory", {}};
    default:
      break;
  }
  auto* object = static_cast<PyObject*>(address);
  switch (torchTypeOf(Py_TYPE(object))) {
    case TorchType::Tensor: {
      auto* tensor = tensorOf(object);
      return tensor ? tensorText(tensor) : TypeText{shortTypeName(Py_TYPE(object)), {}};
    }
    case TorchType::Capsule:
      return {"DLPack capsule", {}};
    default:
      return {shortTypeName(Py_TYPE(object)), {}};
  }
}

ReferenceName TensorEdges::nameOf(NodeKind from_kind, void* from, NodeKind to_kind, void* to) const {
  switch (from_kind) {
    case kPythonObject:
      return fromWrapper(static_cast<PyObject*>(from), to);
    case kTensor:
      return fromTensor(static_cast<c10::TensorImpl*>(from), to_kind, to);
    case kStorage:
      return {to_kind == kData ? Edge::Storage : Edge::Self};
    case kGraphNode:
      return fromNode(static_cast<Node*>(from), to_kind, to);
    default:
      return {};
  }
}

} // namespace leakguard
