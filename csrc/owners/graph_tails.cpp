#include "owners/graph_tails.h"

#include <ATen/SequenceNumber.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "owners/node_pointer.h"
#include "owners/torch_objects.h"
#include "torch/engine_context.h"

namespace leakguard {
namespace {

struct Head {
  const void* address;
  NodePointer node;
};

} // namespace

std::uint64_t nextSequenceNumber() noexcept {
  return at::sequence_number::peek();
}

std::vector<GraphTail> graphTails(std::span<PyObject* const> tensors, std::uint64_t before, std::uint64_t least) {
  std::vector<Head> heads;
  for (PyObject* wrapper : tensors) {
    c10::TensorImpl* tensor = torchTypeOf(Py_TYPE(wrapper)) == TorchType::Tensor ? tensorOf(wrapper) : nullptr;
    const auto* meta = tensor != nullptr ? metaOf(tensor) : nullptr;
    const void* address = meta != nullptr && tensor->has_storage() ? tensor->storage().data() : nullptr;
    if (address != nullptr && meta->grad_fn_) {
      heads.push_back({address, meta->grad_fn_});
    }
  }
  // Newest first: the head of a chain comes before what it was made of.
  std::stable_sort(heads.begin(), heads.end(), [](const Head& a, const Head& b) {
    return a.node->sequence_nr() > b.node->sequence_nr();
  });
  std::unordered_set<const torch::autograd::Node*> seen;
  std::vector<NodePointer> pins; // dropped last: torch takes long chains down without recursion
  std::vector<GraphTail> tails;
  for (const Head& head : heads) {
    const std::size_t known = seen.size();
    std::uint64_t old = 0;
    std::vector<const torch::autograd::Node*> open;
    const auto visit = [&](const NodePointer& node) {
      if (node && seen.insert(&*node).second) {
        pins.push_back(node);
        open.push_back(&*node);
        // Nodes that accumulate gradients have the greatest number there is.
        old += node->sequence_nr() < before && node->thread_id() == head.node->thread_id() ? 1 : 0;
      }
    };
    visit(head.node);
    while (!open.empty()) {
      const torch::autograd::Node* node = open.back();
      open.pop_back();
      for (const torch::autograd::Edge& edge : node->next_edges()) {
        visit(edge.function);
      }
    }
    if (old >= least) {
      const auto line = forwardLineOf(head.node->thread_id(), head.node->sequence_nr()).line;
      tails.push_back({head.address, seen.size() - known, old, line, head.node->name()});
    }
  }
  std::stable_sort(tails.begin(), tails.end(), [](const GraphTail& a, const GraphTail& b) { return a.old > b.old; });
  return tails;
}

} // namespace leakguard
