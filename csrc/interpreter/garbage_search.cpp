#include "interpreter/garbage_search.h"

#include <algorithm>

#include "core/garbage_cycles.h"
#include "interpreter/collector_verdict.h"

namespace leakguard {

namespace {

std::vector<std::pair<NodeId, NodeId>> wrapperTwins(const HeapWalk& walk, const EdgeAdapter* adapter) {
  std::vector<std::pair<NodeId, NodeId>> twins;
  for (NodeId node : walk.foreignNodes()) {
    const NodeId wrapper = walk.find(adapter->wrapper(walk.kindOf(node), walk.addressOf(node)));
    if (wrapper != kNoNode) {
      twins.emplace_back(wrapper, node);
    }
  }
  return twins;
}

// The Python objects of a cycle, wrappers of its foreign nodes included: what the collector could clear.
std::vector<PyObject*> clearableOn(const HeapWalk& walk, const EdgeAdapter* adapter, const std::vector<NodeId>& cycle) {
  std::vector<PyObject*> objects;
  for (NodeId node : cycle) {
    PyObject* object = walk.kindOf(node) >= kFirstForeign ? adapter->wrapper(walk.kindOf(node), walk.addressOf(node))
                                                          : walk.objectAt(node);
    if (object != nullptr) {
      objects.push_back(object);
    }
  }
  return objects;
}

} // namespace

void explainGarbage(
    HeapWalk& walk,
    EdgeAdapter* adapter,
    const HolderChain& chain,
    const OwnerSearch& owners,
    std::vector<SuspectHolders>& out) {
  std::vector<std::size_t> garbage;
  for (std::size_t i = 0; i < out.size(); i++) {
    if (out[i].status == HolderStatus::Garbage) {
      garbage.push_back(i);
    }
  }
  if (garbage.empty()) {
    return;
  }
  const GarbageCycles cycles(walk.graph(), owners.unreached(), wrapperTwins(walk, adapter));
  std::vector<std::vector<PyObject*>> clearable;
  for (std::size_t i : garbage) {
    const auto trail = cycles.trailTo(owners.suspects()[i]);
    clearable.push_back(clearableOn(walk, adapter, trail.cycle));
    OwnerChain& described = out[i].chain;
    described.root.kind = described.root.text = "garbage cycle";
    GarbageVerdict& verdict = out[i].garbage.emplace();
    if (trail.cycle.empty()) {
      continue;
    }
    for (const auto& link : chain.fromCycle(trail.cycle, trail.way, verdict.cycle_links)) {
      described.links.push_back(link.text);
    }
    for (PyObject* object : clearable.back()) {
      verdict.generation = std::max(verdict.generation, walk.generationOf(walk.find(object)));
    }
    described.retained_bytes = out[i].all_owners_bytes = owners.garbageBytesFrom(trail.cycle.front());
  }
  std::vector<PyObject*> candidates;
  for (NodeId node : owners.unreached()) {
    const int generation = walk.generationOf(node);
    if (generation >= 0 && generation != LG_PERMANENT) {
      candidates.push_back(walk.objectAt(node));
    }
  }
  // With our pins on them the collector would see other counts; an object that dies with its pin spoils the picture.
  if (walk.releasePins()) {
    return;
  }
  const CollectorVerdict verdict(candidates);
  for (std::size_t g = 0; g < garbage.size(); g++) {
    // one object that the collector finds dead is enough: clearing it opens the cycle
    out[garbage[g]].garbage->collectable =
        std::any_of(clearable[g].begin(), clearable[g].end(), [&](PyObject* object) { return verdict.frees(object); });
  }
}

} // namespace leakguard
