#pragma once

#include <array>
#include <cstdint>

#include "core/block.h"
#include "core/site_groups.h"

namespace leakguard {

inline constexpr int kHostShardBits = 4;
inline constexpr int kHostShards = 1 << kHostShardBits;
inline constexpr int kShards = kCudaDevices + kHostShards; // a shard for each CUDA device, then the host's

// A moment in the life of the ledger: how many blocks each shard had seen born. Two equal marks have no birth between
// them. Costs a kilobyte and no attention: taking one neither begins a step nor disturbs a StepHistory, so spans of
// births may be nested and overlap.
struct BirthMark {
  std::array<uint64_t, kShards> births{};

  bool operator==(const BirthMark&) const = default;
};

// Live blocks of a group that were born after one mark of a row and not after the next one.
struct SurvivingGroup {
  uint32_t mark = 0; // index in the row
  uint32_t group = 0;
  LiveCount live;
};

} // namespace leakguard
