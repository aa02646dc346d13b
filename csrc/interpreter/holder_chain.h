#pragma once

#include <string>
#include <vector>

#include "interpreter/heap_walk.h"
#include "interpreter/holder.h"

namespace leakguard {

// Edge words of globals that no program has chosen to keep.
inline constexpr const char* kNotebookOutput = "notebook output";
inline constexpr const char* kLastException = "last exception";

// Turns paths of nodes into the links a user would recognise: x.__dict__['k'] is x.k, a function's closure tuple, cell
// and contents are one closure variable, a tensor and its implementation are one, a thousand next_functions are one.
// Needs the GIL and the walk's pins; runs no user code.
class HolderChain {
 public:
  struct Link {
    HolderLink text;
    Edge edge;
    NodeId entered; // first node of the link: what the reference before it points at
    NodeId node; // the node the link is described by
  };

  HolderChain(const HeapWalk& walk, EdgeAdapter* adapter) : walk_(walk), adapter_(adapter) {}

  // nodes: from the root's node to the suspect.
  std::vector<Link> fromRoot(const HeapWalk::Root& root, const std::vector<NodeId>& nodes) const;
  std::vector<Link> fromNative(const std::vector<NodeId>& nodes) const;
  // ring: first node = last node; way: from that node to the suspect. cycle_links: how many links the ring gave.
  std::vector<Link> fromCycle(const std::vector<NodeId>& ring, const std::vector<NodeId>& way, std::size_t& cycle_links)
      const;

  HolderRoot describeRoot(const HeapWalk::Root& root, const std::vector<Link>& links) const;
  TypeText typeText(NodeId node) const;
  ReferenceName nameOf(NodeId from, NodeId to) const;

 private:
  void nameGlobalOfSession(const HeapWalk::Root& root, Link& first) const;

  const HeapWalk& walk_;
  EdgeAdapter* adapter_;
};

} // namespace leakguard
