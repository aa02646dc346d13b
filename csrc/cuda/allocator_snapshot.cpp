#include "cuda/allocator_snapshot.h"

#include <algorithm>
#include <unordered_map>

#include "core/ledger.h"
#include "cuda/trace_tracker.h"

namespace leakguard {

AllocatorState readAllocator(CudaAllocator& inner) {
  AllocatorState state;
  for (const auto& from : inner.snapshot({0, 0}, /*include_traces=*/false).segments) {
    AllocatorSegment segment;
    segment.device = cudaDevice(from.device);
    segment.address = from.address;
    segment.size = from.total_size;
    segment.active = from.active_size;
    segment.stream = cudaStreams().numberOf(reinterpret_cast<uintptr_t>(from.stream));
    segment.pool = cudaPools().numberOf(poolHandle(from.owner_private_pool_id));
    segment.expandable = from.is_expandable;
    uint64_t address = from.address;
    for (const auto& block : from.blocks) {
      if (block.active || block.allocated) {
        state.blocks.push_back(
            {segment.device, address, block.size, block.requested_size, segment.stream, segment.pool, block.allocated});
      } else {
        segment.largestFree = std::max<uint64_t>(segment.largestFree, block.size);
      }
      address += block.size;
    }
    state.segments.push_back(segment);
  }
  return state;
}

Reconciliation reconcile(const AllocatorState& state, DeviceKey device) {
  std::unordered_map<uint64_t, Block> ours;
  for (const Block& block : ledger().snapshot().blocks) {
    if (block.device == device) {
      ours.emplace(block.address, block);
    }
  }
  Reconciliation result;
  for (const AllocatorBlock& theirs : state.blocks) {
    if (theirs.device != device) {
      continue;
    }
    const auto found = ours.find(theirs.address);
    if (found == ours.end()) {
      ++result.missing;
      result.missingBytes += theirs.requested;
      continue;
    }
    const bool live = found->second.state == BlockState::Live;
    result.differing += found->second.requested != theirs.requested || live != theirs.allocated ? 1 : 0;
    ours.erase(found);
  }
  for (const auto& [address, block] : ours) {
    ++result.extra;
    result.extraBytes += block.requested;
  }
  return result;
}

AllocatorCounters readCounters(CudaAllocator& inner, int device) {
  const auto stats = inner.getDeviceStats(static_cast<c10::DeviceIndex>(device));
  constexpr size_t kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  AllocatorCounters counters;
  counters.allocated = stats.allocated_bytes[kAll].current;
  counters.reserved = stats.reserved_bytes[kAll].current;
  counters.active = stats.active_bytes[kAll].current;
  counters.inactiveSplit = stats.inactive_split_bytes[kAll].current;
  counters.requested = stats.requested_bytes[kAll].current;
  counters.blocks = stats.allocation[kAll].current;
  counters.activeBlocks = stats.active[kAll].current;
  counters.retries = stats.num_alloc_retries;
  counters.outOfMemory = stats.num_ooms;
  return counters;
}

} // namespace leakguard
