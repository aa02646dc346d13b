#include "core/survivors.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace leakguard {
namespace {

// The part of a window that was born at `from` or later. At most `older` of the window was alive when step from - 1
// ended.
BirthWindow clipped(BirthWindow window, uint32_t from, const LiveCount& older) {
  if (window.first >= from) {
    return window;
  }
  const int64_t blocks = std::max<int64_t>(0, window.blocks - std::max<int64_t>(0, older.blocks));
  const auto earlier = static_cast<uint32_t>(std::clamp<int64_t>(older.blocks, 0, from - window.first));
  window.blocks = static_cast<uint32_t>(blocks);
  window.bytes = std::max<int64_t>(0, window.bytes - std::max<int64_t>(0, older.bytes));
  window.birthSteps = std::min(window.birthSteps > earlier ? window.birthSteps - earlier : 1, window.blocks);
  window.first = from;
  return window;
}

// Mean distance of the births in one window: all that is known of merged ones.
uint32_t distanceWithin(const BirthWindow& window) {
  return window.birthSteps > 1 ? (window.last - window.first) / (window.birthSteps - 1) : 0;
}

} // namespace

Survivors sumOf(std::vector<BirthWindow> windows) {
  Survivors sum;
  for (const BirthWindow& window : windows) {
    sum.birthSteps += window.birthSteps;
    sum.blocks += window.blocks;
    sum.bytes += window.bytes;
  }
  if (!windows.empty()) {
    sum.first = windows.front().first;
    sum.last = windows.back().last;
  }
  sum.windows = std::move(windows);
  return sum;
}

Survivors countable(std::span<const BirthWindow> windows, uint32_t from, uint32_t to, LiveCount older) {
  std::vector<BirthWindow> kept;
  for (const BirthWindow& whole : windows) {
    if (whole.last < from) { // all of it was alive then, as it is now
      older.blocks -= whole.blocks;
      older.bytes -= whole.bytes;
      continue;
    }
    if (whole.last > to) {
      continue;
    }
    const BirthWindow window = clipped(whole, from, older);
    if (window.blocks != 0) {
      kept.push_back(window);
    }
  }
  return sumOf(std::move(kept));
}

uint32_t longestDistance(std::span<const BirthWindow> windows) {
  uint32_t longest = 0;
  for (size_t i = 0; i < windows.size(); ++i) {
    longest = std::max(longest, distanceWithin(windows[i]));
    if (i > 0) {
      longest = std::max(longest, windows[i].first - windows[i - 1].last);
    }
  }
  return longest;
}

size_t latestPhase(std::span<const BirthWindow> windows, uint32_t enough) {
  constexpr uint32_t kPause = 8; // steps
  uint32_t births = 0;
  uint32_t longest = 1; // distance between two births after the pause
  for (size_t i = windows.size(); i-- > 1;) {
    births += windows[i].birthSteps;
    longest = std::max(longest, distanceWithin(windows[i]));
    const uint32_t pause = windows[i].first - windows[i - 1].last;
    if (births >= enough && pause >= std::max(kPause, 4 * longest)) {
      return i;
    }
    longest = std::max(longest, pause);
  }
  return 0;
}

int64_t blocksBornAfter(const Survivors& survivors, uint32_t step) {
  int64_t blocks = 0;
  for (const BirthWindow& window : survivors.windows) {
    if (window.last > step) {
      const int64_t span = window.last - window.first + 1;
      const int64_t after = window.last - std::max(step, window.first - 1);
      blocks += window.blocks * after / span;
    }
  }
  return blocks;
}

bool spread(const Survivors& survivors, uint32_t to) {
  const double length = to - survivors.first + 1.0;
  std::array<double, 4> quarters{};
  for (const BirthWindow& window : survivors.windows) {
    // A merged window's births are spread over its span.
    const double span = window.last - window.first + 1.0;
    for (size_t q = 0; q < 4; ++q) {
      const double begin = std::max<double>(window.first - survivors.first, length * static_cast<double>(q) / 4);
      const double end = std::min<double>(window.last - survivors.first + 1.0, length * static_cast<double>(q + 1) / 4);
      quarters[q] += end > begin ? window.birthSteps * (end - begin) / span : 0;
    }
  }
  const double all = survivors.birthSteps;
  const double late = quarters[2] + quarters[3];
  return quarters[1] > 0 && quarters[2] > 0 && quarters[3] > 0 && late >= 0.3 * all && quarters[3] >= 0.1 * all;
}

} // namespace leakguard
