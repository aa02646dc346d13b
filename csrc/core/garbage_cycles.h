#pragma once

#include <cstddef>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/object_graph.h"
#include "core/visibility.h"

namespace leakguard {

// Two nodes that stand for one thing (an object and its wrapper, which own each other) and so are no cycle by
// themselves: {wrapper, object}.
using Twins = std::span<const std::pair<NodeId, NodeId>>;

// What keeps unreachable nodes alive: each is on a cycle, or hangs on one.
class LEAKGUARD_API GarbageCycles {
 public:
  // dead: every unreachable node, in ascending order.
  GarbageCycles(const ObjectGraph& graph, std::vector<NodeId> dead, Twins twins);

  struct Trail {
    std::vector<NodeId> cycle; // first node = last node; empty if none was found
    std::vector<NodeId> way; // from a node of the cycle to the target, both included; just the target if it is on it
  };
  // The nearest cycle that holds target, which must be dead.
  Trail trailTo(NodeId target) const;
  std::span<const NodeId> dead() const noexcept {
    return dead_;
  }

 private:
  using Index = std::uint32_t; // position in dead_; twins share the object's
  struct Referrer {
    Index from;
    NodeId from_node, to_node; // the very edge, twins told apart
  };

  Index indexOf(NodeId node) const noexcept;
  void findComponents();
  std::vector<const Referrer*> climb(Index from, const auto& isGoal, bool within_component) const;
  // One unbroken chain of nodes along the edges, with the hops between twins filled in.
  std::vector<NodeId> unfold(const std::vector<const Referrer*>& edges) const;

  std::vector<NodeId> dead_;
  std::vector<Index> representative_;
  std::vector<std::size_t> first_referrer_;
  std::vector<Referrer> referrers_;
  std::vector<Index> component_;
  std::vector<std::size_t> component_size_;
};

} // namespace leakguard
