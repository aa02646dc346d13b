// When survivors were born, against a model that remembers every step.
#include <map>
#include <random>
#include <vector>

#include "catch.h"
#include "core/birth_windows.h"

using namespace leakguard;

namespace {

struct Sums {
  uint64_t blocks = 0;
  int64_t bytes = 0;
};
Sums sumOf(const BirthWindows& windows) {
  Sums sums;
  for (const BirthWindow& window : windows.windows()) {
    sums.blocks += window.blocks;
    sums.bytes += window.bytes;
  }
  return sums;
}

void checkOrder(const BirthWindows& windows) {
  uint32_t after = 0;
  bool first = true;
  for (const BirthWindow& window : windows.windows()) {
    REQUIRE(window.first <= window.last);
    REQUIRE((first || window.first > after));
    REQUIRE(window.birthSteps <= window.last - window.first + 1);
    REQUIRE(window.birthSteps <= std::max(window.blocks, 1U));
    after = window.last;
    first = false;
  }
  REQUIRE(windows.windows().size() <= BirthWindows::kMost);
}

} // namespace

TEST_CASE("births of one step share a window") {
  BirthWindows windows;
  CHECK(windows.add(3, 100) == 3);
  CHECK(windows.add(3, 50) == 3);
  REQUIRE(windows.windows().size() == 1);
  const BirthWindow& only = windows.windows()[0];
  CHECK(only.first == 3);
  CHECK(only.last == 3);
  CHECK(only.birthSteps == 1);
  CHECK(only.blocks == 2);
  CHECK(only.bytes == 150);
}

TEST_CASE("a birth that comes late for a mark is counted in the newest step") {
  BirthWindows windows;
  windows.add(5, 10);
  CHECK(windows.add(4, 10) == 5);
  windows.remove(5, 10);
  windows.remove(5, 10);
  CHECK(sumOf(windows).blocks == 0);
}

TEST_CASE("a step whose births all died leaves no window behind") {
  BirthWindows windows;
  for (uint32_t step = 0; step < 1000; ++step) {
    windows.add(step, 8);
    windows.remove(step, 8);
  }
  CHECK(windows.windows().size() <= 2);
  CHECK(sumOf(windows).blocks == 0);
}

TEST_CASE("64 windows hold a run of any length, the first birth and the latest steps exactly") {
  BirthWindows windows;
  constexpr uint32_t kSteps = 100000;
  for (uint32_t step = 7; step < kSteps; ++step) {
    windows.add(step, 16);
  }
  checkOrder(windows);
  CHECK(windows.windows().front().first == 7);
  CHECK(windows.windows().back().last == kSteps - 1);
  CHECK(sumOf(windows).blocks == kSteps - 7);
  // The latest steps stand alone: a leak that begins late is seen as sharply as an early one.
  const auto view = windows.windows();
  for (size_t i = view.size() - 8; i < view.size(); ++i) {
    CHECK(view[i].first == view[i].last);
  }
  // Nothing was lost by merging: every step had a birth.
  uint32_t birthSteps = 0;
  for (const BirthWindow& window : view) {
    CHECK(window.birthSteps == window.last - window.first + 1);
    birthSteps += window.birthSteps;
  }
  CHECK(birthSteps == kSteps - 7);
}

TEST_CASE("windows grow coarser with age, never finer") {
  BirthWindows windows;
  for (uint32_t step = 0; step < 20000; ++step) {
    windows.add(step, 1);
  }
  const uint32_t now = 20000;
  for (const BirthWindow& window : windows.windows()) {
    const double age = now - window.first;
    const double span = window.last - window.first + 1.0;
    CHECK(span <= 0.35 * age + 1); // about 64 windows over the octaves of age
  }
}

TEST_CASE("an old window whose blocks die does not count more steps of birth than it has survivors") {
  BirthWindows windows;
  for (uint32_t step = 0; step < 4096; ++step) {
    windows.add(step, 1);
  }
  for (uint32_t step = 0; step < 4096; ++step) {
    if (step != 100) {
      windows.remove(step, 1);
    }
  }
  checkOrder(windows);
  uint32_t birthSteps = 0;
  for (const BirthWindow& window : windows.windows()) {
    birthSteps += window.blocks != 0 ? window.birthSteps : 0;
  }
  CHECK(birthSteps == 1);
}

TEST_CASE("sums agree with a model under random births and deaths") {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    BirthWindows windows;
    std::vector<std::pair<uint32_t, int64_t>> alive; // as counted
    std::map<uint32_t, uint64_t> born; // steps of birth, before they were counted
    uint32_t step = 0;
    for (int event = 0; event < 20000; ++event) {
      const uint32_t kind = random() % 10;
      if (kind < 4) {
        const int64_t bytes = random() % 5000;
        const uint32_t late = random() % 50 == 0 && step > 0 ? step - 1 : step;
        alive.emplace_back(windows.add(late, bytes), bytes);
        REQUIRE((alive.back().first == late || alive.back().first == step));
      } else if (kind < 8 && !alive.empty()) {
        // Mostly young ones, sometimes the oldest: a ring, a cache, a random victim.
        const size_t victim = kind == 4 ? 0 : kind == 5 ? random() % alive.size() : alive.size() - 1;
        windows.remove(alive[victim].first, alive[victim].second);
        alive.erase(alive.begin() + static_cast<ptrdiff_t>(victim));
      } else {
        ++step;
      }
    }
    checkOrder(windows);
    int64_t bytes = 0;
    for (const auto& [at, size] : alive) {
      bytes += size;
      bool covered = false;
      for (const BirthWindow& window : windows.windows()) {
        covered |= window.first <= at && at <= window.last && window.blocks > 0;
      }
      REQUIRE(covered);
    }
    CHECK(sumOf(windows).blocks == alive.size());
    CHECK(sumOf(windows).bytes == bytes);
  }
}
