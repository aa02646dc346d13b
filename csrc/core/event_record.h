#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/block.h"
#include "core/spin_lock.h"
#include "core/visibility.h"

namespace leakguard {

// Births and deaths one after another, for the length of a step that somebody wants to see from inside. Off it costs
// one test of a flag. The room is made when it begins; what finds no room is counted, never waited for.
//
// A block is born when the program has it and dead when the program lets go of it, whether a stream still uses it or
// not. Thread-safe; the lock is a leaf, and no shard's lock is held around it. An address's death comes before its next
// birth.
class LEAKGUARD_API EventRecord {
 public:
  struct Events {
    std::vector<Block> blocks; // in order; BlockState::Live was born, BlockState::Free died
    uint64_t missed = 0; // for want of room
  };

  bool on() const noexcept {
    return on_.load(std::memory_order_relaxed);
  }
  void begin(size_t most); // drops what an earlier one has not been asked for; throws std::bad_alloc, and is off then
  void add(const Block& block, BlockState state) noexcept;
  Events end() noexcept;

 private:
  std::atomic<bool> on_{false};
  SpinLock lock_;
  Events events_;
};

} // namespace leakguard
