#pragma once

#include <cstdint>
#include <memory>

#include "core/capture.h"
#include "core/snapshot.h"
#include "cuda/allocator_snapshot.h"

namespace leakguard {

// What was so when an allocation failed for good: after the allocator had flushed its cache and tried again, before
// torch threw. The training loop may catch the exception and free everything, so it is kept as a copy.
struct OutOfMemory {
  int device = 0;
  uint64_t asked = 0; // bytes, as the allocator asked the device for them
  uint64_t limit = 0; // bytes this process may take: the device's memory, or the fraction of it that is allowed
  uint64_t deviceFree = 0;
  Context context; // of the allocation that failed
  Snapshot live; // the ledger, all devices
  AllocatorState allocator;
};

// Attaches the observer. torch calls it on the failing thread without the device's lock; it takes no GIL and throws
// nothing, so torch's exception stays what it is. torch cannot detach it: while the trace is not followed, it does
// nothing.
void observeOutOfMemory(CudaAllocator& inner);

// The latest one and how many there were; nullptr before the first.
std::shared_ptr<const OutOfMemory> latestOutOfMemory();
uint64_t outOfMemoryCount() noexcept;

} // namespace leakguard
