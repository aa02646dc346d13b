// Live counts of siblings: the key, the cap, and what a mark copies.
#include <atomic>
#include <set>
#include <thread>

#include "catch.h"
#include "core/site_groups.h"

using namespace leakguard;

TEST_CASE("group 0 is the unknown one") {
  SiteGroups groups;
  CHECK(groups.size() == 1);
  CHECK(groups.groupFor(GroupKey{}) == 0);
  CHECK(groups.key(0) == GroupKey{});
}

TEST_CASE("every part of the key tells groups apart, and an equal key finds its group") {
  SiteGroups groups;
  const std::vector<GroupKey> keys = {
      {1, 0, 0, DeviceKey::Cpu, Phase::Forward, 0},
      {2, 0, 0, DeviceKey::Cpu, Phase::Forward, 0},
      {1, 3, 0, DeviceKey::Cpu, Phase::Forward, 0},
      {1, 0, 3, DeviceKey::Cpu, Phase::Forward, 0},
      {1, 0, 0, cudaDevice(0), Phase::Forward, 0},
      {1, 0, 0, cudaDevice(1), Phase::Forward, 0},
      {1, 0, 0, DeviceKey::Cpu, Phase::Backward, 0},
      {1, 0, 0, DeviceKey::Cpu, Phase::Forward, block_flag::kUserLineInBackward},
  };
  std::set<uint32_t> given;
  for (const GroupKey& key : keys) {
    const uint32_t group = groups.groupFor(key);
    CHECK(groups.key(group) == key);
    given.insert(group);
  }
  CHECK(given.size() == keys.size());
  for (const GroupKey& key : keys) {
    CHECK(given.count(groups.groupFor(key)) == 1);
  }
  CHECK(groups.size() == keys.size() + 1);
}

TEST_CASE("counts follow births and deaths") {
  SiteGroups groups;
  const uint32_t group = groups.groupFor({7, 0, 0, DeviceKey::Cpu, Phase::Forward, 0});
  const uint32_t counted = groups.born(group, 4, 100);
  groups.born(group, 5, 28);
  std::vector<LiveCount> counts;
  groups.copyCounts(counts);
  REQUIRE(counts.size() == groups.size());
  CHECK(counts[group] == LiveCount{2, 128});
  CHECK(counts[0] == LiveCount{});
  groups.died(group, counted, 100);
  groups.copyCounts(counts);
  CHECK(counts[group] == LiveCount{1, 28});
  REQUIRE(groups.windows(group).size() == 1);
  CHECK(groups.windows(group)[0].first == 5);
}

TEST_CASE("a group remembers the module and node of its latest birth; nothing does not wipe them") {
  SiteGroups groups;
  const uint32_t group = groups.groupFor({7, 0, 0, DeviceKey::Cpu, Phase::Forward, 0});
  groups.born(group, 1, 64, 3, 4);
  groups.born(group, 1, 64);
  CHECK(groups.module(group) == 3);
  CHECK(groups.node(group) == 4);
  groups.born(group, 2, 64, 5, 0);
  CHECK(groups.module(group) == 5);
}

TEST_CASE("ids that were never given are nobody's") {
  SiteGroups groups;
  CHECK(groups.key(99) == GroupKey{});
  CHECK(groups.module(99) == 0);
  CHECK(groups.node(99) == 0);
  CHECK(groups.windows(99).empty());
}

TEST_CASE("a full table counts what comes in the unknown group, and keeps the groups it has") {
  SiteGroups groups;
  std::vector<uint32_t> ids;
  for (uint32_t line = 1; line < SiteGroups::kMost + 500; ++line) {
    ids.push_back(groups.groupFor({line, 0, 0, DeviceKey::Cpu, Phase::Forward, 0}));
  }
  CHECK(groups.size() == SiteGroups::kMost);
  CHECK(ids.back() == 0);
  CHECK(ids[SiteGroups::kMost - 2] == SiteGroups::kMost - 1);
  for (uint32_t line = 1; line < SiteGroups::kMost; line += 997) {
    CHECK(groups.groupFor({line, 0, 0, DeviceKey::Cpu, Phase::Forward, 0}) == ids[line - 1]);
  }
  groups.born(ids.back(), 0, 10);
  std::vector<LiveCount> counts;
  groups.copyCounts(counts);
  CHECK(counts[0] == LiveCount{1, 10});
}

TEST_CASE("threads that meet a new key at once agree on its group") {
  SiteGroups groups;
  constexpr uint32_t kKeys = 600;
  constexpr int kThreads = 4;
  std::atomic<uint32_t> arrived{0}; // all meet each key at the same moment
  std::vector<std::vector<uint32_t>> seen(kThreads, std::vector<uint32_t>(kKeys));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint32_t i = 0; i < kKeys; ++i) {
        const uint32_t line = 1 + i;
        for (++arrived; arrived.load() < (i + 1) * kThreads;) {
          std::this_thread::yield();
        }
        const uint32_t group = groups.groupFor({line, 0, 0, DeviceKey::Cpu, Phase::Forward, 0});
        groups.born(group, 0, 1);
        seen[static_cast<size_t>(t)][line - 1] = group;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(groups.size() == kKeys + 1);
  std::vector<LiveCount> counts;
  groups.copyCounts(counts);
  for (uint32_t line = 1; line <= kKeys; ++line) {
    for (int t = 1; t < kThreads; ++t) {
      REQUIRE(seen[static_cast<size_t>(t)][line - 1] == seen[0][line - 1]);
    }
    REQUIRE(groups.key(seen[0][line - 1]).line == line);
    REQUIRE(counts[seen[0][line - 1]] == LiveCount{kThreads, kThreads});
  }
}
