#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/block_table.h"

namespace leakguard {

// Small numbers for handles (streams, pools), so that a block stores two bytes for them. Append-only and lock-free, for
// use under an allocator's lock. Handle 0 has number 0. Once the table is full, kOverflow stands for every further
// handle.
class HandleTable {
 public:
  static constexpr uint16_t kOverflow = 0xffff;

  uint16_t numberOf(uint64_t handle) noexcept {
    if (handle == 0) {
      return 0;
    }
    size_t slot = mixBits(handle) % kSlots;
    for (size_t probes = 0; probes < kSlots; ++probes, slot = (slot + 1) % kSlots) {
      uint64_t seen = handles_[slot].load(std::memory_order_relaxed);
      if (seen == 0 && handles_[slot].compare_exchange_strong(seen, handle, std::memory_order_relaxed)) {
        seen = handle;
      }
      if (seen == handle) {
        return static_cast<uint16_t>(slot + 1);
      }
    }
    return kOverflow;
  }

  uint64_t handle(uint16_t number) const noexcept { // 0 for 0 and for kOverflow
    return number == 0 || number > kSlots ? 0 : handles_[number - 1].load(std::memory_order_relaxed);
  }

 private:
  static constexpr size_t kSlots = 4096;
  std::array<std::atomic<uint64_t>, kSlots> handles_{};
};

} // namespace leakguard
