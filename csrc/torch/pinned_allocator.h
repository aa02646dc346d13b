#pragma once

#include "core/visibility.h"
#include "torch/cpu_allocator.h"

namespace leakguard {

// Page-locked host memory (pin_memory=True, DataLoader's pinned batches) with the ledger around it: device row
// `pinned`.
//
// As for the CPU, every block carries our deleter in place of the inner one. The key in the ledger is the block's
// context, not its data pointer: torch hands the context to record_event, so it must stay what it is. A block that a
// copy still reads after its tensor died is the allocator's own affair and counted as free.
//
// torch has pinned memory on CUDA builds only; elsewhere the result says so. Threads: as for the CPU allocator.
LEAKGUARD_API AttachResult attachPinnedAllocator();
LEAKGUARD_API void detachPinnedAllocator();
LEAKGUARD_API bool pinnedAllocatorAttached();

} // namespace leakguard
