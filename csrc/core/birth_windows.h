#pragma once

#include <cstdint>
#include <span>

#include "core/visibility.h"

namespace leakguard {

// Survivors of one group that were born in steps first..last.
struct BirthWindow {
  uint32_t first; // first step of birth, exact
  uint32_t last;
  uint32_t birthSteps; // distinct steps in which survivors were born, at most; never more than blocks
  uint32_t blocks;
  int64_t bytes;
};

// When the live blocks of a group were born, in at most 64 windows however long the run.
//
// Windows are sparse: a step in which nothing survives has none. When the array is full, neighbours are merged, the
// pair whose span is smallest against its age first: the latest steps stay exact, and a leak that begins late in a long
// run is seen as sharply as one that began with it. Amortised O(1) for a birth, and for the death of a young block.
//
// Not thread-safe. add and remove do not throw: without memory for more windows, the ones there are merged sooner.
class BirthWindows {
 public:
  static constexpr uint32_t kMost = 64;

  BirthWindows() = default;
  BirthWindows(const BirthWindows&) = delete;
  BirthWindows& operator=(const BirthWindows&) = delete;
  ~BirthWindows();

  // Returns the step the birth was counted in: a thread that is late for a mark is counted in the newest step seen.
  // The same step must be given to remove.
  uint32_t add(uint32_t step, int64_t bytes) noexcept;
  void remove(uint32_t birthStep, int64_t bytes) noexcept; // a block that was added

  // Oldest first; windows without survivors may be among them.
  std::span<const BirthWindow> windows() const noexcept {
    return {windows_, size_};
  }

 private:
  LEAKGUARD_SELDOM bool makeRoom(uint32_t now) noexcept;
  void dropEmpty() noexcept;
  void merge(uint32_t now) noexcept;
  bool grow() noexcept;

  BirthWindow* windows_ = nullptr;
  uint8_t size_ = 0;
  uint8_t capacity_ = 0;
};

} // namespace leakguard
