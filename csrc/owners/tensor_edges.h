#pragma once

#include <Python.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <torch/csrc/autograd/function.h>

#include <unordered_map>

#include "interpreter/edge_adapter.h"
#include "owners/graph_pins.h"

namespace leakguard {

inline constexpr NodeKind kTensor = kFirstForeign;
inline constexpr NodeKind kStorage = kFirstForeign + 1;
inline constexpr NodeKind kGraphNode = kFirstForeign + 2;
inline constexpr NodeKind kData = kFirstForeign + 3; // the memory itself, by its address; several storages may share it

// The references of tensors, storages and autograd nodes, read raw: no count moves but for the pins, no hook runs and
// no tensor is asked anything a subclass could answer in Python. Lives for one walk. Needs the GIL.
class TensorEdges final : public EdgeAdapter {
 public:
  // with_graph: false leaves out .grad and the autograd graph, for a walk while another thread runs a backward pass.
  explicit TensorEdges(bool with_graph);

  bool ownsType(PyTypeObject* type) const noexcept override;
  void showObject(PyObject* object, EdgeSink& sink) override;
  void showForeign(NodeKind kind, void* address, long references, EdgeSink& sink) override;
  long pin(NodeKind kind, void* address) noexcept override;
  void unpin(NodeKind kind, void* address) noexcept override;
  long references(NodeKind kind, void* address) const noexcept override;
  PyObject* wrapper(NodeKind kind, void* address) const noexcept override;
  std::uint64_t bytes(NodeKind kind, void* address) const noexcept override;
  TypeText typeText(NodeKind kind, void* address) const override;
  ReferenceName nameOf(NodeKind from_kind, void* from, NodeKind to_kind, void* to) const override;
  std::optional<ExampleTensor> exampleOf(NodeKind kind, void* address) const override;
  AttributeMeaning attributeMeaning(PyTypeObject* owner, std::string_view attribute) const noexcept override;

 private:
  void showTensor(c10::TensorImpl* tensor, long references, EdgeSink& sink);
  void showStorage(c10::StorageImpl* storage, long references, EdgeSink& sink);
  void showNode(torch::autograd::Node* node, long references, EdgeSink& sink);

  LiveTargets live_;
  NodePins node_pins_;
  bool with_graph_;
  PyTypeObject* module_type_; // torch.nn.Module, or null
  std::unordered_map<const void*, std::uint64_t> data_bytes_; // of every kData node
};

// Shape, type and flags of a tensor, without asking the tensor.
ExampleTensor describeTensor(const c10::TensorImpl* tensor);

} // namespace leakguard
