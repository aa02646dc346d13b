#pragma once

#include <cstdint>
#include <vector>

#include "core/block.h"

namespace leakguard {

// Sums over one device. Bytes are requested bytes.
struct DeviceCounts {
  int64_t liveBlocks = 0; // allocated
  int64_t liveBytes = 0;
  int64_t pendingBlocks = 0; // free requested, not completed
  int64_t pendingBytes = 0;
  uint64_t bornBlocks = 0; // ever
  uint64_t bornBytes = 0;
};

// What went wrong inside; all zero in a healthy run.
struct LostCounts {
  uint64_t droppedBirths = 0; // no memory for the record
  uint64_t unknownBirths = 0; // blocks found later, whose birth was not seen
  uint64_t replacedBlocks = 0; // an address was born twice without having died
};

// A plain copy of the live set. Taken shard by shard: each shard is consistent, the whole only if nothing allocates.
struct Snapshot {
  uint32_t step = 0;
  std::vector<Block> blocks;
};

} // namespace leakguard
