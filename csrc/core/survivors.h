#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/birth_windows.h"
#include "core/site_groups.h"

namespace leakguard {

// The windows of a group that count, oldest first, and what they add up to. Steps; bytes are requested bytes.
struct Survivors {
  std::vector<BirthWindow> windows;
  uint32_t birthSteps = 0;
  int64_t blocks = 0;
  int64_t bytes = 0;
  uint32_t first = 0;
  uint32_t last = 0;
};

Survivors sumOf(std::vector<BirthWindow> windows);
// Survivors born in steps from..to; `older` was alive when step from - 1 ended.
Survivors countable(std::span<const BirthWindow> windows, uint32_t from, uint32_t to, LiveCount older);
uint32_t longestDistance(std::span<const BirthWindow> windows); // between two births
// Index of the first window after the latest long pause with `enough` births after it; 0 when there is none.
size_t latestPhase(std::span<const BirthWindow> windows, uint32_t enough);
int64_t blocksBornAfter(const Survivors& survivors, uint32_t step); // a merged window's are spread over its span
// Whether the births are spread over their time: some in each of the last three quarters, enough in the second half.
bool spread(const Survivors& survivors, uint32_t to);

} // namespace leakguard
