#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/block.h"
#include "cuda/allocator_wrapper.h"

namespace leakguard {

// A block as the allocator sees it. `size` is what it set aside, `requested` what was asked for.
struct AllocatorBlock {
  DeviceKey device = DeviceKey::Cpu;
  uint64_t address = 0;
  uint64_t size = 0;
  uint64_t requested = 0;
  uint16_t stream = 0; // in cudaStreams()
  uint16_t pool = 0; // in cudaPools()
  bool allocated = false; // false: free was requested, a stream still uses it
};

// A stretch of device memory that the allocator holds.
struct AllocatorSegment {
  DeviceKey device = DeviceKey::Cpu;
  uint64_t address = 0;
  uint64_t size = 0;
  uint64_t active = 0; // bytes of blocks in use, allocated or pending
  uint64_t largestFree = 0; // largest piece that one allocation could take
  uint16_t stream = 0;
  uint16_t pool = 0;
  bool expandable = false;
};

struct AllocatorState {
  std::vector<AllocatorBlock> blocks; // in use only
  std::vector<AllocatorSegment> segments;
};

// Reads the allocator. Takes the devices' locks one after the other; no CUDA call. No ledger lock may be held. Throws
// what the allocator throws: c10::Error where there is no snapshot (mallocAsync, pluggable).
AllocatorState readAllocator(CudaAllocator& inner);

// How the ledger differs from the allocator on one device. Exact when nothing allocates meanwhile.
struct Reconciliation {
  uint64_t missing = 0; // blocks that the ledger lacks, and their bytes
  uint64_t missingBytes = 0;
  uint64_t extra = 0; // blocks that only the ledger has
  uint64_t extraBytes = 0;
  uint64_t differing = 0; // same address, another requested size or state
  bool exact() const noexcept {
    return missing == 0 && extra == 0 && differing == 0;
  }
};
Reconciliation reconcile(const AllocatorState& state, DeviceKey device);

// The allocator's own counters, which some back ends have where nothing else is to be had. Bytes.
struct AllocatorCounters {
  int64_t allocated = 0;
  int64_t reserved = 0;
  int64_t active = 0;
  int64_t inactiveSplit = 0;
  int64_t requested = 0;
  int64_t blocks = 0; // allocated
  int64_t activeBlocks = 0;
  int64_t retries = 0; // allocations that needed the cache flushed
  int64_t outOfMemory = 0;
};
// Throws c10::Error where the allocator has none (pluggable), or when CUDA has not started.
AllocatorCounters readCounters(CudaAllocator& inner, int device);

} // namespace leakguard
