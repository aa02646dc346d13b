#include "core/object_graph.h"

#include <algorithm>
#include <unordered_map>

namespace leakguard {

namespace {
constexpr NodeId kRootBit = 0x80000000u;
constexpr std::uint32_t kFar = 0xffffffffu;
} // namespace

void ObjectGraph::reserve(std::size_t nodes, std::size_t edges) {
  offsets_.reserve(nodes + 1);
  targets_.reserve(edges);
}

void ObjectGraph::finish() {
  beginNode();
}

std::vector<std::uint32_t> ObjectGraph::inDegrees() const {
  std::vector<std::uint32_t> degrees(nodeCount(), 0);
  for (NodeId to : targets_) {
    degrees[to]++;
  }
  return degrees;
}

std::size_t ObjectGraph::memoryBytes() const noexcept {
  return (offsets_.capacity() + targets_.capacity()) * sizeof(std::uint32_t);
}

ShortestPaths::ShortestPaths(const ObjectGraph& graph)
    : graph_(graph), distance_(graph.nodeCount(), kFar), parent_(graph.nodeCount(), kNoNode) {}

void ShortestPaths::spread(std::span<const RankedRoot> roots) {
  tier_starts_.push_back(root_count_);
  // Dial's buckets: distances are small integers, so a heap would only cost. Each tier counts on from the farthest
  // node of the one before: that alone makes whatever an earlier tier reached nearer.
  const std::uint32_t base = next_distance_;
  std::vector<std::vector<NodeId>> buckets;
  auto offer = [&](NodeId node, std::uint32_t steps, NodeId parent) {
    if (base + steps >= distance_[node]) {
      return;
    }
    distance_[node] = base + steps;
    parent_[node] = parent;
    if (buckets.size() <= steps) {
      buckets.resize(steps + 1);
    }
    buckets[steps].push_back(node);
  };
  for (std::size_t i = 0; i < roots.size(); i++) {
    offer(roots[i].node, roots[i].cost, kRootBit | static_cast<NodeId>(root_count_ + i));
  }
  root_count_ += roots.size();
  for (std::uint32_t steps = 0; steps < buckets.size(); steps++) {
    for (std::size_t i = 0; i < buckets[steps].size(); i++) {
      const NodeId node = buckets[steps][i];
      if (distance_[node] != base + steps) {
        continue;
      }
      for (NodeId next : graph_.successors(node)) {
        offer(next, steps + 1, node);
      }
    }
    std::vector<NodeId>().swap(buckets[steps]);
  }
  next_distance_ = base + static_cast<std::uint32_t>(buckets.size());
}

ShortestPaths::Path ShortestPaths::pathTo(NodeId node) const {
  Path path;
  if (!reached(node)) {
    return path;
  }
  NodeId at = node;
  for (; !(parent_[at] & kRootBit); at = parent_[at]) {
    path.nodes.push_back(at);
  }
  path.nodes.push_back(at);
  std::reverse(path.nodes.begin(), path.nodes.end());
  const std::size_t root = parent_[at] & ~kRootBit;
  const auto after = std::upper_bound(tier_starts_.begin(), tier_starts_.end(), root);
  path.tier = static_cast<std::size_t>(after - tier_starts_.begin()) - 1;
  path.root = root - tier_starts_[path.tier];
  return path;
}

std::size_t ShortestPaths::memoryBytes() const noexcept {
  return (distance_.capacity() + parent_.capacity()) * sizeof(std::uint32_t);
}

std::vector<std::uint8_t> reachableWithout(
    const ObjectGraph& graph,
    std::span<const NodeId> roots,
    std::span<const NodeId> closed) {
  std::vector<std::uint8_t> seen(graph.nodeCount(), 0);
  for (NodeId node : closed) {
    seen[node] = 1;
  }
  std::vector<NodeId> open;
  auto reach = [&](NodeId node) {
    if (seen[node]) {
      return;
    }
    seen[node] = 1;
    open.push_back(node);
  };
  for (NodeId root : roots) {
    reach(root);
  }
  while (!open.empty()) {
    const NodeId node = open.back();
    open.pop_back();
    for (NodeId next : graph.successors(node)) {
      reach(next);
    }
  }
  for (NodeId node : closed) {
    seen[node] = 0;
  }
  return seen;
}

namespace {

// Reachability under up to 64 closed sets at once: bit k of a node's mask says that the roots reach it when set k lets
// go. What they reach without passing any node of any set is reached under all of them, and found once.
class ManyClosures {
 public:
  using Mask = std::uint64_t;
  static constexpr std::size_t kAtOnce = 64;

  ManyClosures(const ObjectGraph& graph, std::span<const NodeId> roots, std::span<const std::vector<NodeId>> closed)
      : graph_(graph), masks_(graph.nodeCount(), 0), is_closed_(graph.nodeCount(), false) {
    for (const std::vector<NodeId>& nodes : closed) {
      for (NodeId node : nodes) {
        is_closed_[node] = true;
      }
    }
    auto reach = [&](NodeId node) {
      if (is_closed_[node]) {
        gates_.push_back(node);
      } else if (masks_[node] == 0) {
        masks_[node] = kAlways;
        open_.push_back(node);
      }
    };
    for (NodeId root : roots) {
      reach(root);
    }
    while (!open_.empty()) {
      const NodeId node = open_.back();
      open_.pop_back();
      for (NodeId next : graph_.successors(node)) {
        reach(next);
      }
    }
  }

  // The masks under these sets; valid until the next call.
  const std::vector<Mask>& under(std::span<const std::vector<NodeId>> sets) {
    for (NodeId node : touched_) {
      masks_[node] = 0;
    }
    touched_.clear();
    closing_.clear();
    for (std::size_t k = 0; k < sets.size(); k++) {
      for (NodeId node : sets[k]) {
        closing_[node] |= Mask{1} << k;
      }
    }
    const Mask every = sets.size() == kAtOnce ? kAlways : (Mask{1} << sets.size()) - 1;
    for (NodeId gate : gates_) {
      add(gate, every);
    }
    while (!open_.empty()) {
      const NodeId node = open_.back();
      open_.pop_back();
      for (NodeId next : graph_.successors(node)) {
        add(next, masks_[node]);
      }
    }
    return masks_;
  }

 private:
  static constexpr Mask kAlways = ~Mask{0};

  void add(NodeId node, Mask mask) {
    if (is_closed_[node]) {
      const auto closing = closing_.find(node);
      mask &= closing == closing_.end() ? kAlways : ~closing->second;
    }
    if ((mask & ~masks_[node]) == 0) {
      return;
    }
    if (masks_[node] == 0) {
      touched_.push_back(node);
    }
    masks_[node] |= mask;
    open_.push_back(node);
  }

  const ObjectGraph& graph_;
  std::vector<Mask> masks_;
  std::vector<bool> is_closed_; // by one of the sets
  std::vector<NodeId> gates_; // closed nodes that are reached first
  std::vector<NodeId> touched_; // what is reached through them only
  std::vector<NodeId> open_;
  std::unordered_map<NodeId, Mask> closing_;
};

} // namespace

std::vector<std::uint64_t> bytesWithout(
    const ObjectGraph& graph,
    std::span<const NodeId> roots,
    std::span<const std::vector<NodeId>> closed,
    std::span<const WeightedNode> weights) {
  std::vector<std::uint64_t> bytes(closed.size(), 0);
  ManyClosures closures(graph, roots, closed);
  for (std::size_t first = 0; first < closed.size(); first += ManyClosures::kAtOnce) {
    const auto sets = closed.subspan(first, std::min(ManyClosures::kAtOnce, closed.size() - first));
    const std::vector<ManyClosures::Mask>& masks = closures.under(sets);
    for (const auto& [node, weight] : weights) {
      for (std::size_t k = 0; k < sets.size(); k++) {
        bytes[first + k] += masks[node] >> k & 1 ? weight : 0;
      }
    }
  }
  return bytes;
}

} // namespace leakguard
