#include "owners/holders.h"

#include <chrono>

#include "owners/graph_at_rest.h"
#include "owners/tensor_edges.h"

namespace leakguard {

TensorHolders findHolders(HolderQuery query, const FactQuery* facts) noexcept {
  TensorHolders holders;
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  holders.graph_seen = waitForGraphAtRest();
  holders.waited_seconds = std::chrono::duration<double>(Clock::now() - began).count();
  TensorEdges edges(holders.graph_seen);
  if (facts != nullptr) {
    query.meanwhile = [&](const HeapWalk& walk) { holders.facts = readFacts(walk, edges, *facts, holders.graph_seen); };
  }
  holders.report = searchHolders(query, &edges);
  return holders;
}

} // namespace leakguard
