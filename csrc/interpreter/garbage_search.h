#pragma once

#include <vector>

#include "interpreter/heap_walk.h"
#include "interpreter/holder.h"
#include "interpreter/holder_chain.h"
#include "interpreter/owner_search.h"

namespace leakguard {

// For every suspect that is garbage: the cycle that keeps it, its generation, and whether the collector can free it.
// Drops the walk's pins, so nothing can be named or read afterwards.
void explainGarbage(
    HeapWalk& walk,
    EdgeAdapter* adapter,
    const HolderChain& chain,
    const OwnerSearch& owners,
    std::vector<SuspectHolders>& out);

} // namespace leakguard
