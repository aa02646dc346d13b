#pragma once

#include <cstdint>

#include "core/visibility.h"

namespace leakguard {

// The CPU allocator with the ledger around it: everything that torch allocates for CPU tensors.
//
// The wrapper stands in the allocator slot while attached. Every block it hands out carries our deleter in place of the
// inner one (the context stays what it was): forget first, then free, so that an address handed out again is never
// forgotten for its former owner. Blocks outlive detaching; the wrapper and the deleter are immortal.
//
// Not thread-safe against itself: call under the GIL or before threads start. `why` of a failure is a static string.
struct AttachResult {
  bool attached;
  const char* why; // "" when attached
};
LEAKGUARD_API AttachResult attachCpuAllocator();
// Puts the inner allocator back, if the slot still holds ours.
LEAKGUARD_API void detachCpuAllocator();
LEAKGUARD_API bool cpuAllocatorAttached(); // false also when another tool has taken the slot since
// The wrapper itself, a c10::Allocator*, to hand to what takes an allocator by its address. Attach first.
LEAKGUARD_API uintptr_t cpuAllocatorAddress();

} // namespace leakguard
