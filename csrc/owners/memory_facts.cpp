#include "owners/memory_facts.h"

#include <torch/csrc/Storage.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_function.h>

#include <algorithm>
#include <functional>
#include <mutex>

#include "interpreter/collector_paused.h"
#include "interpreter/heap_walk.h"
#include "owners/graph_at_rest.h"
#include "owners/private_members.h"
#include "owners/saved_tensors.h"
#include "owners/sparse_parts.h"
#include "owners/tensor_edges.h"
#include "owners/torch_objects.h"

namespace leakguard {

namespace priv = torch_private;
using torch::autograd::Node;
using torch::autograd::SavedVariable;

namespace {

uint64_t dataOf(c10::StorageImpl* storage) noexcept {
  return storage == nullptr ? 0 : reinterpret_cast<uintptr_t>(storage->_mutable_data_ptr_no_checks().get());
}

// Reads what a walk has pinned: of what it has not seen, another thread may be dropping the last reference.
class FactReader {
 public:
  FactReader(const HeapWalk& walk, const TensorEdges& edges, const FactQuery& query, MemoryFacts& found)
      : walk_(walk), edges_(edges), query_(query), found_(found) {}

  void read(NodeId node) {
    switch (walk_.kindOf(node)) {
      case kPythonObject:
        readObject(walk_.objectAt(node));
        break;
      case kTensor:
        readTensor(static_cast<c10::TensorImpl*>(walk_.addressOf(node)));
        break;
      case kStorage: {
        auto* storage = static_cast<c10::StorageImpl*>(walk_.addressOf(node));
        if (edges_.wrapper(kStorage, storage) != nullptr) {
          add(dataOf(storage), memory_fact::kTensor);
        }
        break;
      }
      case kGraphNode:
        readNode(static_cast<Node*>(walk_.addressOf(node)));
        break;
      default:
        break;
    }
  }

 private:
  void add(uint64_t address, uint8_t fact) {
    if (address != 0 && fact != 0) {
      found_.facts[address] |= fact;
    }
  }

  void addTensor(c10::TensorImpl* tensor, uint8_t fact) {
    if (tensor == nullptr || walk_.find(tensor) == kNoNode) {
      return;
    }
    c10::StorageImpl* storage = tensor->unsafe_storage().unsafeGetStorageImpl();
    if (storage != nullptr && walk_.find(storage) != kNoNode) {
      add(dataOf(storage), fact);
    }
    eachSparsePart(tensor, [&](c10::TensorImpl* part) { addTensor(part, fact); });
  }

  void readTensor(c10::TensorImpl* tensor) {
    uint8_t facts = 0;
    if (PyObject* wrapper = edges_.wrapper(kTensor, tensor); wrapper != nullptr) {
      facts |= memory_fact::kTensor;
      facts |= PyType_IsSubtype(Py_TYPE(wrapper), query_.parameter) != 0 ? memory_fact::kParameter : 0;
    }
    const auto* meta = metaOf(tensor);
    if (meta != nullptr && found_.graph_seen) {
      addTensor(implOf(meta->grad_), memory_fact::kGradient);
      // A view has an operation of its own, which made no memory: its base knows.
      const auto* view = viewOf(meta);
      const bool own_memory = view == nullptr || !view->has_bw_view();
      facts |= own_memory && meta->grad_fn_ ? memory_fact::kComputed : 0;
    }
    addTensor(tensor, facts);
  }

  void readSaved(const SavedVariable& variable) {
    const SavedReferences saved = referencesOf(variable);
    const bool computed = saved.is_output || saved.grad_fn != nullptr;
    addTensor(saved.tensor, memory_fact::kSaved | (computed ? memory_fact::kComputed : 0));
  }

  void readObject(PyObject* object) {
    if (std::any_of(query_.types.begin(), query_.types.end(), [object](PyTypeObject* type) {
          return PyType_IsSubtype(Py_TYPE(object), type) != 0;
        })) {
      found_.instances.push_back(object);
    }
    if (!found_.graph_seen) {
      return;
    }
    switch (torchTypeOf(Py_TYPE(object))) {
      case TorchType::SavedTensor:
        if (const auto* variable = savedVariableOf(object)) {
          readSaved(*variable);
        }
        break;
      case TorchType::FunctionContext:
        for (const SavedVariable& variable : reinterpret_cast<THPFunction*>(object)->saved_variables) {
          readSaved(variable);
        }
        break;
      default:
        break;
    }
  }

  void readNode(Node* node) {
    const std::unique_lock<std::mutex> lock(node->*member(priv::NodeMutex{}), std::try_to_lock);
    if (lock.owns_lock()) { // else a backward pass drops its saved tensors now
      eachSaved(node, [&](const SavedVariable& variable, const char*) { readSaved(variable); });
    }
  }

  const HeapWalk& walk_;
  const TensorEdges& edges_;
  const FactQuery& query_;
  MemoryFacts& found_;
};

} // namespace

MemoryFacts readFacts(const HeapWalk& walk, const TensorEdges& edges, const FactQuery& query, bool graph_seen) {
  MemoryFacts found;
  found.graph_seen = graph_seen;
  FactReader reader(walk, edges, query, found);
  for (NodeId node = 0; node < walk.nodeCount(); ++node) {
    reader.read(node);
  }
  for (PyObject* instance : found.instances) {
    Py_INCREF(instance);
  }
  return found;
}

MemoryFacts memoryFacts(const FactQuery& query) {
  const bool in_own_pass = torch::autograd::get_current_node() != nullptr;
  const bool graph_seen = in_own_pass || waitForGraphAtRest();
  const CollectorPaused paused;
  TensorEdges edges(graph_seen);
  HeapWalk walk(&edges, 0); // its pins go before the collector is let run again
  walk.run();
  return readFacts(walk, edges, query, graph_seen);
}

std::vector<uint64_t> dataAddresses(PyObject* wrapper, bool gradient) {
  std::vector<uint64_t> addresses;
  const std::function<void(c10::TensorImpl*)> add = [&](c10::TensorImpl* tensor) {
    if (tensor == nullptr) {
      return;
    }
    if (const uint64_t address = dataOf(tensor->unsafe_storage().unsafeGetStorageImpl()); address != 0) {
      addresses.push_back(address);
    }
    eachSparsePart(tensor, add);
  };
  if (torchTypeOf(Py_TYPE(wrapper)) == TorchType::Tensor) {
    const auto* meta = metaOf(tensorOf(wrapper));
    add(!gradient ? tensorOf(wrapper) : meta != nullptr ? implOf(meta->grad_) : nullptr);
  }
  return addresses;
}

} // namespace leakguard
