#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/address_table.h"
#include "core/visibility.h"

namespace leakguard {

// A directed graph of numbered objects in compressed rows. Knows nothing of what the numbers stand for.
class LEAKGUARD_API ObjectGraph {
 public:
  void reserve(std::size_t nodes, std::size_t edges);

  // Nodes are added in the order of their numbers; edges belong to the node added last and may name later nodes.
  void beginNode() {
    offsets_.push_back(static_cast<std::uint32_t>(targets_.size()));
  }
  void addEdge(NodeId to) {
    targets_.push_back(to);
  }
  void finish();

  std::size_t nodeCount() const noexcept {
    return offsets_.empty() ? 0 : offsets_.size() - 1;
  }
  std::size_t edgeCount() const noexcept {
    return targets_.size();
  }
  std::span<const NodeId> successors(NodeId node) const noexcept {
    return {targets_.data() + offsets_[node], targets_.data() + offsets_[node + 1]};
  }
  // How often each node is the end of an edge.
  std::vector<std::uint32_t> inDegrees() const;
  std::size_t memoryBytes() const noexcept;

 private:
  std::vector<std::uint32_t> offsets_;
  std::vector<NodeId> targets_;
};

// Where a search may start; the lower the cost, the better known the root is to the user.
struct RankedRoot {
  NodeId node;
  std::uint32_t cost;
};

// Shortest paths from roots, in tiers: a later tier reaches only what no earlier one did.
class LEAKGUARD_API ShortestPaths {
 public:
  explicit ShortestPaths(const ObjectGraph& graph);

  // No path leads to or through node. Call before the first spread().
  void close(NodeId node) {
    distance_[node] = 0;
  }
  void spread(std::span<const RankedRoot> roots);

  bool reached(NodeId node) const noexcept {
    return parent_[node] != kNoNode;
  }

  struct Path {
    std::size_t tier = 0; // which spread() call
    std::size_t root = 0; // index into the roots of that call
    std::vector<NodeId> nodes; // the root's node first; empty: not reached
  };
  Path pathTo(NodeId node) const;
  std::size_t memoryBytes() const noexcept;

 private:
  const ObjectGraph& graph_;
  std::vector<std::uint32_t> distance_;
  std::vector<NodeId> parent_; // a node, or a root's running number with the top bit set
  std::vector<std::size_t> tier_starts_; // running number of each tier's first root
  std::size_t root_count_ = 0;
  std::uint32_t next_distance_ = 1; // 0 is kept for closed nodes
};

// Which nodes the roots still reach when the closed ones let go: 1 reached, 0 not.
LEAKGUARD_API std::vector<std::uint8_t> reachableWithout(
    const ObjectGraph& graph,
    std::span<const NodeId> roots,
    std::span<const NodeId> closed);

// A node that stands for that many bytes.
using WeightedNode = std::pair<NodeId, std::uint64_t>;

// For each of the closed sets: the bytes that the roots still reach when that set lets go; what a closed node itself
// stands for is not among them. Costs one pass over the graph, and over what the closed nodes alone keep once for all
// sets or, when they keep each other, a few times.
LEAKGUARD_API std::vector<std::uint64_t> bytesWithout(
    const ObjectGraph& graph,
    std::span<const NodeId> roots,
    std::span<const std::vector<NodeId>> closed,
    std::span<const WeightedNode> weights);

} // namespace leakguard
