#pragma once

#include <Python.h>

#include "interpreter/holder.h"
#include "interpreter/holder_search.h"
#include "owners/memory_facts.h"

namespace leakguard {

struct TensorHolders {
  HolderReport report;
  bool graph_seen = true; // false: another thread was in a backward pass, and the graph was left out
  double waited_seconds = 0; // for such a thread, with the GIL released
  MemoryFacts facts; // empty when nobody asked, and when the walk ran out of memory
};

// Who keeps the storages at these data addresses alive, through the Python heap, the autograd graph and what C++ holds.
// One walk for all. Needs the GIL; releases it only while it waits, before the walk, for up to 50 ms for other threads
// to leave a backward pass. Runs no user code, except that memory another thread dropped meanwhile is freed on return.
// Never throws.
// With `facts`, the same walk also reads what refers to all memory.
TensorHolders findHolders(HolderQuery query, const FactQuery* facts = nullptr) noexcept;

} // namespace leakguard
