#include "owners/tensor_edges.h"

#include <structmember.h>
#include <torch/csrc/Storage.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/tensor.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "interpreter/roots.h"
#include "owners/graph_pins.h"
#include "owners/private_members.h"
#include "owners/saved_tensors.h"
#include "owners/sparse_parts.h"
#include "owners/torch_objects.h"
#include "torch/torch_version.h"

namespace leakguard {

namespace priv = torch_private;
using torch::autograd::Node;

namespace {

// Shows what is alive: see Note [Pin when read, release last].
class GraphSink {
 public:
  GraphSink(EdgeSink& sink, LiveTargets& live) : sink_(sink), live_(live) {}
  void object(PyObject* object) {
    sink_.object(object);
  }
  void tensor(c10::TensorImpl* tensor) {
    target(kTensor, tensor);
  }
  void storage(c10::StorageImpl* storage) {
    target(kStorage, storage);
  }
  void node(Node* node) {
    target(kGraphNode, node);
  }
  void data(void* data) {
    sink_.foreign(kData, data);
  }

 private:
  template <class T>
  void target(NodeKind kind, T* target) {
    if (live_.contains(target)) {
      sink_.foreign(kind, target);
    }
  }
  EdgeSink& sink_;
  LiveTargets& live_;
};

int toSink(PyObject* object, void* sink) {
  static_cast<GraphSink*>(sink)->object(object);
  return 0;
}

// What tp_traverse of a class made in Python shows beside its base's: slots, attributes and the class. torch's own
// tp_traverse of a tensor changes its answer with the use count, which is why it is replaced.
void showClassParts(PyObject* object, GraphSink& sink) {
  PyTypeObject* type = Py_TYPE(object);
  for (PyTypeObject* base = type; base && (base->tp_flags & Py_TPFLAGS_HEAPTYPE); base = base->tp_base) {
    if (Py_SIZE(base) == 0) {
      continue; // no slots of its own
    }
    for (PyMemberDef* member = base->tp_members; member && member->name; member++) {
      if (member->type != T_OBJECT_EX || member->offset == 0) {
        continue;
      }
      sink.object(*reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + member->offset));
    }
  }
  lg_visit_attributes(object, toSink, &sink);
  if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) {
    sink.object(reinterpret_cast<PyObject*>(type));
  }
}

void showSaved(const torch::autograd::SavedVariable& variable, GraphSink& sink) {
  const SavedReferences saved = referencesOf(variable);
  sink.tensor(saved.tensor);
  sink.node(saved.grad_fn);
  sink.node(saved.accumulator);
  sink.object(saved.pack_hook);
  sink.object(saved.unpack_hook);
  sink.object(saved.packed);
}

void showContext(PyObject* object, GraphSink& sink) {
  auto* context = reinterpret_cast<THPFunction*>(object);
  sink.object(context->needs_input_grad);
  sink.object(context->to_save);
  sink.object(context->non_differentiable);
  sink.object(context->dirty_tensors);
  sink.object(context->compiled_autograd_backward_state);
  sink.object(context->saved_for_forward);
#if LEAKGUARD_TORCH_HAS_OUTPUT_GRAD_DTYPES
  sink.object(context->output_grad_dtypes);
#endif
}

// A backward pass clears the list element by element, and what it destroys may let others have the GIL in between.
void showContextSaved(PyObject* object, GraphSink& sink) {
  for (const auto& variable : reinterpret_cast<THPFunction*>(object)->saved_variables) {
    showSaved(variable, sink);
  }
}

PyTypeObject* moduleType() {
  PyObject* type = lookUp(moduleDict("torch.nn.modules.module"), "Module");
  return type && PyType_Check(type) ? reinterpret_cast<PyTypeObject*>(type) : nullptr;
}

} // namespace

TensorEdges::TensorEdges(bool with_graph) : with_graph_(with_graph), module_type_(moduleType()) {}

bool TensorEdges::ownsType(PyTypeObject* type) const noexcept {
  return torchTypeOf(type) != TorchType::Other;
}

void TensorEdges::showObject(PyObject* object, EdgeSink& edges) {
  GraphSink sink(edges, live_);
  switch (torchTypeOf(Py_TYPE(object))) {
    case TorchType::Capsule:
      sink.tensor(tensorOfCapsule(object));
      break;
    case TorchType::SavedTensor:
      if (const auto* variable = savedVariableOf(object)) {
        showSaved(*variable, sink);
      }
      break;
    case TorchType::Tensor: {
      showClassParts(object, sink);
      auto* tensor = reinterpret_cast<THPVariable*>(object);
      sink.object(tensor->backward_hooks);
      sink.object(tensor->post_accumulate_grad_hooks);
      sink.tensor(tensorOf(object));
      break;
    }
    case TorchType::Storage:
      showClassParts(object, sink);
      sink.storage(storageOf(object));
      break;
    case TorchType::FunctionContext:
      showClassParts(object, sink);
      showContext(object, sink);
      if (with_graph_) {
        showContextSaved(object, sink);
      }
      sink.node(nodeOf(object));
      break;
    case TorchType::CppFunction:
      showClassParts(object, sink);
      sink.node(nodeOf(object));
      break;
    case TorchType::Other:
      break;
  }
}

void TensorEdges::showForeign(NodeKind kind, void* address, long references, EdgeSink& sink) {
  switch (kind) {
    case kTensor:
      showTensor(static_cast<c10::TensorImpl*>(address), references, sink);
      break;
    case kStorage:
      showStorage(static_cast<c10::StorageImpl*>(address), references, sink);
      break;
    case kGraphNode:
      showNode(static_cast<Node*>(address), references, sink);
      break;
    default:
      break;
  }
}

// An object of torch's with more than one owner holds one reference on its Python wrapper; with one owner, none.
void TensorEdges::showTensor(c10::TensorImpl* tensor, long references, EdgeSink& edges) {
  GraphSink sink(edges, live_);
  sink.storage(tensor->unsafe_storage().unsafeGetStorageImpl());
  if (references > 1) {
    sink.object(tensor->pyobj_slot()->load_pyobj());
  }
  eachSparsePart(tensor, [&](c10::TensorImpl* part) { sink.tensor(part); });
  const auto* meta = metaOf(tensor);
  if (meta == nullptr) {
    return;
  }
  if (with_graph_) {
    sink.tensor(implOf(meta->grad_));
    sink.node(meta->grad_fn_.get());
  }
  for (const auto& hook : meta->hooks_) {
    sink.object(hookDict(hook.get()));
  }
  sink.object(hookDict(meta->post_acc_grad_hooks_.get()));
  if (const auto* view = viewOf(meta)) {
    if (view->has_bw_view()) {
      sink.tensor(implOf(view->get_backward_view().base_));
    }
    const bool own_forward_view = view->has_fw_view() && !view->shared_view_info();
    if (own_forward_view) {
      sink.tensor(implOf(view->get_forward_view().base_));
    }
  }
}

void TensorEdges::showStorage(c10::StorageImpl* storage, long references, EdgeSink& edges) {
  GraphSink sink(edges, live_);
  if (references > 1) {
    sink.object(storage->pyobj_slot()->load_pyobj());
  }
  void* data = storage->_mutable_data_ptr_no_checks().get();
  if (data == nullptr) {
    return;
  }
  std::uint64_t size = 0;
  try {
    size = storage->nbytes();
  } catch (const std::exception&) { // a symbolic size
    return;
  }
  if (size == 0) {
    return;
  }
  auto& known = data_bytes_[data];
  known = std::max(known, size);
  sink.data(data);
}

void TensorEdges::showNode(Node* node, long references, EdgeSink& edges) {
  GraphSink sink(edges, live_);
  sink.object(objectOwnedBy(node, references));
  if (!with_graph_) {
    return;
  }
  for (const auto& edge : node->next_edges()) {
    sink.node(edge.function.get());
  }
  for (const auto& hook : node->pre_hooks()) {
    sink.object(hookDict(hook.get()));
  }
  for (const auto& hook : node->post_hooks()) {
    sink.object(hookDict(hook.get()));
  }
  const NodeRole role = roleOf(node);
  if (role == NodeRole::AccumulateGrad) {
    // its tensor_pre_hooks() are the tensor's own list
    sink.tensor(implOf(static_cast<torch::autograd::AccumulateGrad*>(node)->variable));
    return;
  }
  for (const auto& hook : node->tensor_pre_hooks()) {
    sink.object(hookDict(hook.get()));
  }
  for (const auto& [output, hook] : node->retains_grad_hooks()) {
    sink.object(hookDict(hook.get()));
  }
  if (role == NodeRole::CopySlices) {
    sink.node(static_cast<torch::autograd::CopySlices*>(node)->fn.get());
  }
  // A backward pass drops the saved tensors under this mutex. Taken: it is doing so now, and what is left is not ours.
  const std::unique_lock<std::mutex> lock(node->*member(priv::NodeMutex{}), std::try_to_lock);
  if (!lock.owns_lock()) {
    return;
  }
  eachSaved(node, [&](const torch::autograd::SavedVariable& variable, const char*) { showSaved(variable, sink); });
  if (role == NodeRole::CppFunction) {
    for (const at::Tensor& tensor : tensorsToSave(node)) {
      sink.tensor(implOf(tensor));
    }
  }
}

long TensorEdges::pin(NodeKind kind, void* address) noexcept {
  switch (kind) {
    case kTensor:
      return pinTarget(static_cast<c10::TensorImpl*>(address));
    case kStorage:
      return pinTarget(static_cast<c10::StorageImpl*>(address));
    case kGraphNode:
      return node_pins_.pin(static_cast<Node*>(address));
    default:
      return -1; // memory is not counted, its storages are
  }
}

void TensorEdges::unpin(NodeKind kind, void* address) noexcept {
  switch (kind) {
    case kTensor:
      unpinTarget(static_cast<c10::TensorImpl*>(address));
      break;
    case kStorage:
      unpinTarget(static_cast<c10::StorageImpl*>(address));
      break;
    case kGraphNode:
      node_pins_.unpin(static_cast<Node*>(address));
      break;
    default:
      break;
  }
}

long TensorEdges::references(NodeKind kind, void* address) const noexcept {
  switch (kind) {
    case kTensor:
      return useCount(static_cast<c10::TensorImpl*>(address));
    case kStorage:
      return useCount(static_cast<c10::StorageImpl*>(address));
    case kGraphNode:
      return useCount(static_cast<Node*>(address));
    default:
      return -1;
  }
}

PyObject* TensorEdges::wrapper(NodeKind kind, void* address) const noexcept {
  switch (kind) {
    case kTensor:
      return static_cast<c10::TensorImpl*>(address)->pyobj_slot()->load_pyobj();
    case kStorage:
      return static_cast<c10::StorageImpl*>(address)->pyobj_slot()->load_pyobj();
    case kGraphNode:
      return wrapperOf(static_cast<Node*>(address));
    default:
      return nullptr;
  }
}

std::uint64_t TensorEdges::bytes(NodeKind kind, void* address) const noexcept {
  if (kind != kData) {
    return 0;
  }
  const auto known = data_bytes_.find(address);
  return known == data_bytes_.end() ? 0 : known->second;
}

AttributeMeaning TensorEdges::attributeMeaning(PyTypeObject* owner, std::string_view attribute) const noexcept {
  if (module_type_ == nullptr || !PyType_IsSubtype(owner, module_type_)) {
    return AttributeMeaning::Plain;
  }
  if (attribute == "_parameters" || attribute == "_buffers" || attribute == "_modules") {
    return AttributeMeaning::Table;
  }
  const bool hooks = attribute.starts_with('_') && attribute.ends_with("_hooks");
  return hooks ? AttributeMeaning::HookTable : AttributeMeaning::Plain;
}

} // namespace leakguard
