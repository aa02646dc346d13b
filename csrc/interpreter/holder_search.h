#pragma once

#include <functional>
#include <vector>

#include "interpreter/edge_adapter.h"
#include "interpreter/holder.h"

namespace leakguard {

class HeapWalk;

struct HolderQuery {
  std::vector<const void*> addresses; // of Python objects, or of whatever the adapter numbers: a storage's data
  // Suspects with the same number were born at one place: their holder is what most of them have in common.
  // Empty: each stands alone.
  std::vector<int> groups;
  int muted_frames = 0; // innermost frames of this thread that belong to the asker
  int most_owners = 4; // how many owners of one suspect to look for
  std::function<void(const HeapWalk&)> meanwhile; // reads the walk too, while all that it has found is pinned; or empty
};

// One walk for all suspects. Needs the GIL, holds it throughout and leaves the collector as it found it. adapter may be
// null. Never throws: a walk that runs out of memory answers NotFound for every suspect and zero nodes.
HolderReport searchHolders(const HolderQuery& query, EdgeAdapter* adapter) noexcept;

} // namespace leakguard
