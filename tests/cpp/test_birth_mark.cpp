// Births between moments: what is alive of them, by moment and group, whatever steps are marked meanwhile.
#include <algorithm>
#include <vector>

#include "catch.h"
#include "scripted_run.h"

using namespace leakguard;
using namespace leakguard::test;

namespace {

// Blocks of a group born after marks[index] and not after the next one.
LiveCount countOf(const std::vector<SurvivingGroup>& found, uint32_t index, uint32_t group) {
  const auto row = std::find_if(
      found.begin(), found.end(), [&](const SurvivingGroup& one) { return one.mark == index && one.group == group; });
  return row == found.end() ? LiveCount{} : row->live;
}

} // namespace

TEST_CASE("two marks are equal exactly when no block was born between them") {
  ScriptedRun run;
  const uint64_t old = run.allocate(1);
  const BirthMark before = run.ledger().birthMark();
  CHECK(run.ledger().birthMark() == before);
  run.free(old);
  CHECK(run.ledger().birthMark() == before); // a death is no birth
  run.free(run.allocate(1));
  CHECK_FALSE(run.ledger().birthMark() == before);
}

TEST_CASE("survivors are told by the span they were born in, and by group") {
  ScriptedRun run;
  run.allocate(1, 100);
  std::vector<BirthMark> marks{run.ledger().birthMark()};
  const uint64_t first = run.allocate(1, 10);
  run.allocate(2, 20);
  const uint32_t one = run.groupOf(at(1));
  marks.push_back(run.ledger().birthMark());
  run.allocate(1, 30);
  run.allocate(1, 40);
  run.free(run.allocate(2, 50));
  run.allocate(2, 60);
  const uint32_t two = run.groupOf(at(2));

  const std::vector<SurvivingGroup> found = run.ledger().survivors(marks);
  CHECK(found.size() == 4);
  CHECK(countOf(found, 0, one) == LiveCount{1, 10});
  CHECK(countOf(found, 0, two) == LiveCount{1, 20});
  CHECK(countOf(found, 1, one) == LiveCount{2, 70});
  CHECK(countOf(found, 1, two) == LiveCount{1, 60});

  run.free(first);
  CHECK(countOf(run.ledger().survivors(marks), 0, one) == LiveCount{});
  CHECK(run.ledger().survivors({}).empty());
}

TEST_CASE("an address that is used again is born anew") {
  ScriptedRun run;
  const uint64_t address = run.allocate(1);
  const std::vector<BirthMark> marks{run.ledger().birthMark()};
  CHECK(run.ledger().survivors(marks).empty());
  run.free(address);
  REQUIRE(run.allocate(1) == address);
  CHECK(run.ledger().survivors(marks).size() == 1);
}

TEST_CASE("a span goes on over steps, and begins none") {
  ScriptedRun run;
  const std::vector<BirthMark> marks{run.ledger().birthMark()};
  const uint32_t step = run.ledger().step();
  run.allocate(1);
  CHECK(run.ledger().step() == step);
  run.mark();
  run.allocate(1);
  run.mark();
  CHECK(countOf(run.ledger().survivors(marks), 0, run.groupOf(at(1))).blocks == 2);
}

TEST_CASE("a block that a stream still uses has been let go of") {
  ScriptedRun run;
  const std::vector<BirthMark> marks{run.ledger().birthMark()};
  run.ledger().born(cudaDevice(0), 0x1000, 512, at(1));
  run.ledger().born(cudaDevice(1), 0x1000, 512, at(1)); // the same address of another device
  CHECK(run.ledger().survivors(marks).size() == 2);
  run.ledger().freeRequested(cudaDevice(0), 0x1000);
  CHECK(run.ledger().survivors(marks).size() == 1);
}

TEST_CASE("samples may be asked of what was born since") {
  ScriptedRun run;
  run.allocate(1);
  const BirthMark mark = run.ledger().birthMark();
  const uint64_t young = run.allocate(1);
  const std::vector<uint32_t> groups{run.groupOf(at(1))};
  CHECK(run.ledger().sample(groups, 8).size() == 2);
  const std::vector<Block> recent = run.ledger().sample(groups, 8, &mark);
  REQUIRE(recent.size() == 1);
  CHECK(recent[0].address == young);
}

TEST_CASE("looking at the range of a device leaves the period as it is") {
  ScriptedRun run;
  run.free(run.allocate(1, 1000));
  run.allocate(1, 10);
  CHECK(run.ledger().range(DeviceKey::Cpu).peak == 1000);
  CHECK(run.ledger().range(DeviceKey::Cpu).peak == 1000);
  CHECK(run.ledger().takeRange(DeviceKey::Cpu).peak == 1000);
  CHECK(run.ledger().range(DeviceKey::Cpu).peak == 10);
}
