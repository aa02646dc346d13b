#pragma once

#include <cstdint>

#include "core/block.h"
#include "cuda/allocator_wrapper.h"
#include "cuda/handle_table.h"

namespace leakguard {

// The allocator's own trace, turned into ledger entries.
//
// The tracker is called synchronously on the thread that allocates or frees, under the device's recursive mutex. It
// takes no lock but leaves, makes no CUDA call and touches no Python object. What it does with each event:
//
//   ALLOC           born, with the context that the wrapper left on this thread, or read here when it left none
//   FREE_REQUESTED  no longer allocated; the address stays in use
//   FREE_COMPLETED  retired: the address may be handed out again. Later, and perhaps on another thread, when a stream
//                   still uses the block
//   others          nothing
//
// torch cannot detach a tracker: while not following, it returns at one flag.

// Attaches the tracker and the out-of-memory observer to `inner`, once for each process. `inner` must be initialized:
// torch gives the tracker to the devices that exist. Returns "" or why the allocator does not take it (mallocAsync and
// pluggable allocators do not); never throws.
const char* attachTracker(CudaAllocator& inner) noexcept;

// Begins to follow: what the ledger has of CUDA devices from an earlier time is dropped, and what `inner` holds already
// is taken from one snapshot, its birth unknown. Exact with other threads allocating meanwhile: the events of the time
// between are noted, and a seed whose address had one is dropped. Returns "" or why the snapshot failed (new blocks are
// followed all the same).
const char* followTrace(CudaAllocator& inner) noexcept;
void stopFollowing() noexcept;
bool followingTrace() noexcept;

// Streams and pools of blocks by the number that Block carries. A pool's handle joins its two numbers (see poolHandle).
HandleTable& cudaStreams() noexcept;
HandleTable& cudaPools() noexcept;
uint64_t poolHandle(c10::MempoolId_t pool) noexcept;

} // namespace leakguard
