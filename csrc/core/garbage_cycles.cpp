#include "core/garbage_cycles.h"

#include <algorithm>

namespace leakguard {

namespace {
constexpr std::uint32_t kNone = 0xffffffffu;
}

GarbageCycles::GarbageCycles(const ObjectGraph& graph, std::vector<NodeId> dead, Twins twins)
    : dead_(std::move(dead)), representative_(dead_.size()), first_referrer_(dead_.size() + 1, 0) {
  for (Index i = 0; i < dead_.size(); i++) {
    representative_[i] = i;
  }
  for (const auto& [wrapper, object] : twins) {
    const Index w = indexOf(wrapper);
    const Index o = indexOf(object);
    if (w != kNone && o != kNone) {
      representative_[w] = o;
    }
  }
  auto eachEdge = [&](const auto& use) {
    for (Index i = 0; i < dead_.size(); i++) {
      for (NodeId to : graph.successors(dead_[i])) {
        const Index t = indexOf(to);
        const bool hop_between_twins = t != kNone && t != i && representative_[i] == representative_[t];
        if (t == kNone || hop_between_twins) {
          continue;
        }
        use(Referrer{representative_[i], dead_[i], to}, representative_[t]);
      }
    }
  };
  eachEdge([&](const Referrer&, Index to) { first_referrer_[to + 1]++; });
  for (std::size_t i = 1; i < first_referrer_.size(); i++) {
    first_referrer_[i] += first_referrer_[i - 1];
  }
  referrers_.resize(first_referrer_.back());
  std::vector<std::size_t> next(first_referrer_.begin(), first_referrer_.end() - 1);
  eachEdge([&](const Referrer& referrer, Index to) { referrers_[next[to]++] = referrer; });
  findComponents();
}

GarbageCycles::Index GarbageCycles::indexOf(NodeId node) const noexcept {
  const auto at = std::lower_bound(dead_.begin(), dead_.end(), node);
  return at == dead_.end() || *at != node ? kNone : static_cast<Index>(at - dead_.begin());
}

// Tarjan's strongly connected components over the referrers, without recursion: garbage may be a very long chain.
void GarbageCycles::findComponents() {
  const std::size_t count = dead_.size();
  component_.assign(count, kNone);
  std::vector<Index> order(count, kNone), low(count, 0), open;
  struct Visit {
    Index node;
    std::size_t edge;
  };
  std::vector<Visit> visits;
  Index counter = 0;
  auto enter = [&](Index node) {
    order[node] = low[node] = counter++;
    open.push_back(node);
    visits.push_back({node, first_referrer_[node]});
  };
  for (Index start = 0; start < count; start++) {
    if (order[start] != kNone || representative_[start] != start) {
      continue;
    }
    enter(start);
    while (!visits.empty()) {
      Visit& visit = visits.back();
      const Index node = visit.node;
      if (visit.edge < first_referrer_[node + 1]) {
        const Index up = referrers_[visit.edge++].from;
        if (order[up] == kNone) {
          enter(up);
        } else if (component_[up] == kNone) {
          low[node] = std::min(low[node], order[up]);
        }
        continue;
      }
      visits.pop_back();
      if (!visits.empty()) {
        low[visits.back().node] = std::min(low[visits.back().node], low[node]);
      }
      if (low[node] != order[node]) {
        continue;
      }
      std::size_t size = 0;
      for (Index member = kNone; member != node; size++) {
        member = open.back();
        open.pop_back();
        component_[member] = static_cast<Index>(component_size_.size());
      }
      component_size_.push_back(size);
    }
  }
}

// Shortest way against the references from a node to one that isGoal accepts; the edges, goal's first.
std::vector<const GarbageCycles::Referrer*> GarbageCycles::climb(Index from, const auto& isGoal, bool within_component)
    const {
  struct Came {
    Index down;
    const Referrer* edge;
  };
  std::unordered_map<Index, Came> came;
  std::vector<Index> open{from};
  for (std::size_t i = 0; i < open.size(); i++) {
    const Index node = open[i];
    for (std::size_t e = first_referrer_[node]; e < first_referrer_[node + 1]; e++) {
      const Referrer& edge = referrers_[e];
      if (within_component && component_[edge.from] != component_[from]) {
        continue;
      }
      if (isGoal(edge.from)) {
        std::vector<const Referrer*> edges{&edge};
        for (Index at = node; at != from; at = came.at(at).down) {
          edges.push_back(came.at(at).edge);
        }
        return edges;
      }
      if (edge.from != from && came.emplace(edge.from, Came{node, &edge}).second) {
        open.push_back(edge.from);
      }
    }
  }
  return {};
}

std::vector<NodeId> GarbageCycles::unfold(const std::vector<const Referrer*>& edges) const {
  std::vector<NodeId> nodes;
  for (const Referrer* edge : edges) {
    if (nodes.empty() || nodes.back() != edge->from_node) {
      nodes.push_back(edge->from_node);
    }
    nodes.push_back(edge->to_node);
  }
  return nodes;
}

GarbageCycles::Trail GarbageCycles::trailTo(NodeId target) const {
  Trail trail;
  const Index found = indexOf(target);
  if (found == kNone) {
    return trail;
  }
  const Index start = representative_[found];
  auto selfHeld = [&](Index node) {
    for (std::size_t e = first_referrer_[node]; e < first_referrer_[node + 1]; e++) {
      if (referrers_[e].from == node) {
        return true;
      }
    }
    return false;
  };
  auto onCycle = [&](Index node) { return component_size_[component_[node]] > 1 || selfHeld(node); };
  Index entry = start;
  if (onCycle(start)) {
    trail.way = {target};
  } else {
    const auto edges = climb(start, onCycle, false);
    if (edges.empty()) {
      return trail;
    }
    entry = edges.front()->from;
    trail.way = unfold(edges);
    if (trail.way.back() != target) {
      trail.way.push_back(target);
    }
  }
  trail.cycle = unfold(climb(
      entry, [&](Index node) { return node == entry; }, true));
  if (trail.cycle.empty()) {
    return trail;
  }
  // close the ring on one and the same node, and let the way leave from there
  if (trail.cycle.back() != trail.cycle.front()) {
    trail.cycle.push_back(trail.cycle.front());
  }
  if (trail.way.front() != trail.cycle.front()) {
    trail.way.insert(trail.way.begin(), trail.cycle.front());
  }
  return trail;
}

} // namespace leakguard
