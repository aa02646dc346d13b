#include "interpreter/holder_search.h"

#include <chrono>
#include <exception>

#include "interpreter/collector_paused.h"
#include "interpreter/garbage_search.h"
#include "interpreter/heap_walk.h"
#include "interpreter/holder_chain.h"
#include "interpreter/owner_search.h"

namespace leakguard {

const char* wordOf(HolderStatus status) noexcept {
  switch (status) {
    case HolderStatus::Rooted:
      return "rooted";
    case HolderStatus::Native:
      return "native";
    case HolderStatus::Garbage:
      return "garbage";
    case HolderStatus::Own:
      return "own";
    case HolderStatus::NotFound:
      break;
  }
  return "not-found";
}

namespace {

using Clock = std::chrono::steady_clock;
double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void readExamples(
    const HeapWalk& walk,
    const EdgeAdapter* adapter,
    const OwnerSearch& owners,
    std::vector<SuspectHolders>& out) {
  for (std::size_t i = 0; adapter && i < out.size(); i++) {
    const std::vector<NodeId> path = owners.pathTo(i);
    for (auto node = path.rbegin(); node != path.rend() && !out[i].example; ++node) {
      out[i].example = adapter->exampleOf(walk.kindOf(*node), walk.addressOf(*node));
    }
  }
}

WalkStatistics statisticsOf(const HeapWalk& walk, const OwnerSearch& owners, const HolderChain& chain) {
  WalkStatistics statistics;
  statistics.nodes = walk.nodeCount();
  statistics.edges = walk.graph().edgeCount();
  statistics.native_roots = walk.nativelyHeld().size();
  statistics.unreached = owners.unreached().size();
  statistics.overshown = walk.overshown().size();
  statistics.unsteady = walk.unsteady();
  statistics.memory_bytes = walk.memoryBytes() + 2 * sizeof(NodeId) * walk.nodeCount(); // and one search
  constexpr std::size_t kMostNamed = 16;
  for (NodeId node : walk.overshown()) {
    if (statistics.overshown_types.size() == kMostNamed) {
      break;
    }
    statistics.overshown_types.push_back(chain.typeText(node).type);
  }
  return statistics;
}

HolderReport search(const HolderQuery& query, EdgeAdapter* adapter) {
  HolderReport report;
  report.suspects.resize(query.addresses.size());
  const auto began = Clock::now();
  HeapWalk walk(adapter, query.muted_frames);
  walk.run();
  const double walk_seconds = secondsSince(began);
  const HolderChain chain(walk, adapter);
  OwnerSearch owners(walk, adapter, chain, query);
  owners.run(report.suspects);
  readExamples(walk, adapter, owners, report.suspects);
  report.statistics = statisticsOf(walk, owners, chain);
  explainGarbage(walk, adapter, chain, owners, report.suspects);
  if (query.meanwhile) {
    query.meanwhile(walk);
  }
  walk.releasePins();
  report.statistics.walk_seconds = walk_seconds;
  report.statistics.search_seconds = secondsSince(began) - walk_seconds;
  return report;
}

} // namespace

HolderReport searchHolders(const HolderQuery& query, EdgeAdapter* adapter) noexcept {
  const CollectorPaused paused;
  HolderReport report;
  try {
    report = search(query, adapter);
  } catch (const std::exception&) {
    report = {};
    report.suspects.resize(query.addresses.size());
  }
  report.statistics.collector_enabled = paused.wasEnabled();
  return report;
}

} // namespace leakguard
