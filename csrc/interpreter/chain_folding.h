#pragma once

#include <string>
#include <vector>

#include "interpreter/holder_chain.h"

namespace leakguard {

// Folds one path into links, step by step. A step is judged with the one before it (`last_`), for plumbing comes in
// pairs and triples: function, closure tuple, cell, contents.
class ChainFolding {
 public:
  using Link = HolderChain::Link;

  ChainFolding(const HolderChain& chain, const HeapWalk& walk, const EdgeAdapter* adapter)
      : chain_(chain), walk_(walk), adapter_(adapter) {}

  // The path begins at node. beginAtModule: it is a module's dictionary.
  void begin(NodeId node) {
    previous_ = node;
  }
  void beginAtModule();
  // A link of its own for the node the path begins at.
  void push(Edge edge, std::string name, NodeId node);
  // The last link was bound in this frame: at the slot's first assignment, or (-1) where the frame is now.
  void locate(const LgFrame& frame, long slot);
  void step(NodeId to);

  std::size_t size() const {
    return links_.size();
  }
  std::vector<Link> finish();

 private:
  void merge(NodeId to);
  void nextFunction(Edge last, NodeId to);
  void item(const ReferenceName& reference, Edge last, NodeId to);
  void itemOfModule(const ReferenceName& reference, NodeId to);
  void attribute(PyObject* owner, const std::string& name, NodeId to);
  void cellContents(Edge last, NodeId to);
  void local(const ReferenceName& reference, NodeId from, NodeId to);
  PyObject* tableOwner() const;

  const HolderChain& chain_;
  const HeapWalk& walk_;
  const EdgeAdapter* adapter_;
  std::vector<Link> links_;
  NodeId previous_ = kNoNode;
  NodeId table_owner_ = kNoNode; // whose dictionary, closure or defaults the path went into last
  Edge last_ = Edge::Unknown;
  long closure_index_ = -1;
  bool at_module_ = false;
  bool in_attribute_table_ = false;
};

} // namespace leakguard
