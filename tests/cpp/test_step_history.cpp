// Marks: what is kept of a long run, what two of them differ by, and how a second watch begins.
#include <set>

#include "catch.h"
#include "scripted_run.h"

using namespace leakguard;
using test::at;
using test::ScriptedRun;

TEST_CASE("a mark ends the running step and raises the ledger's") {
  ScriptedRun run;
  CHECK(run.history().steps() == 0);
  CHECK(run.ledger().step() == 0);
  run.allocate(1);
  CHECK(run.mark() == 0);
  CHECK(run.history().steps() == 1);
  CHECK(run.ledger().step() == 1);
  run.allocate(1);
  CHECK(run.ledger().groups().windows(run.groupOf(at(1))).back().first == 1);
}

TEST_CASE("a row says what its step allocated, touched and consumed") {
  ScriptedRun run;
  const uint64_t kept = run.allocate(1, 100);
  run.mark();
  const uint64_t passing = run.allocate(1, 1000);
  run.free(passing);
  run.free(kept);
  run.allocate(1, 30);
  run.mark();
  const std::vector<Mark> rows = run.history().rows();
  REQUIRE(rows.size() == 2);
  REQUIRE(rows[0].devices.size() == 1);
  CHECK(rows[0].devices[0].device == DeviceKey::Cpu);
  CHECK(rows[0].devices[0].allocated == 100);
  CHECK(rows[0].devices[0].trough == 0);
  CHECK(rows[0].devices[0].peak == 100);
  CHECK(rows[0].devices[0].consumed == 100);
  CHECK(rows[1].devices[0].allocated == 30);
  CHECK(rows[1].devices[0].trough == 0);
  CHECK(rows[1].devices[0].peak == 1100);
  CHECK(rows[1].devices[0].consumed == 1030);
  CHECK(rows[1].firstStep == 1);
  CHECK(rows[1].step == 1);
  CHECK(run.history().rows(1).size() == 1);
  CHECK(run.history().rows(1)[0].step == 1);
  CHECK(run.history().rows(2).empty());
}

TEST_CASE("the last 64 steps are kept, older ones ever more sparsely, and no step falls between two rows") {
  ScriptedRun run;
  constexpr uint32_t kSteps = 5000;
  for (uint32_t step = 0; step < kSteps; ++step) {
    run.allocate(1, 8);
    run.mark();
  }
  const std::vector<Mark> rows = run.history().rows();
  CHECK(rows.size() < 64 + 8 * 8); // about eight to an octave
  uint32_t next = 0;
  int64_t consumed = 0;
  for (const Mark& row : rows) {
    CHECK(row.firstStep == next);
    CHECK(row.step >= row.firstStep);
    consumed += row.devices[0].consumed;
    next = row.step + 1;
  }
  CHECK(next == kSteps);
  CHECK(consumed == int64_t{8} * kSteps);
  for (uint32_t step = kSteps - 64; step < kSteps; ++step) {
    CHECK(run.history().nearest(step) == step);
  }
  for (uint32_t age = 65; age < kSteps; age += 13) {
    const std::optional<uint32_t> near = run.history().nearest(kSteps - age);
    REQUIRE(near.has_value());
    CHECK(*near <= kSteps - age);
    CHECK(kSteps - age - *near <= age / 4); // distances double with age
  }
}

TEST_CASE("the first mark is kept for ever: what the run began with") {
  ScriptedRun run;
  run.allocate(1);
  for (uint32_t step = 0; step < 1000; ++step) {
    run.mark();
  }
  CHECK(run.history().nearest(0) == 0U);
  run.beginWatch(); // at a step that is no multiple of anything
  const uint32_t base = run.history().base();
  for (uint32_t step = 0; step < 3000; ++step) {
    run.mark();
  }
  CHECK(run.history().nearest(base) == base);
  CHECK(run.history().nearest(base + 1).has_value());
  run.history().rebase();
  const uint32_t rebased = run.history().base();
  for (uint32_t step = 0; step < 3000; ++step) {
    run.mark();
  }
  CHECK(run.history().nearest(base) == base);
  CHECK(run.history().nearest(rebased + 1) == rebased + 1);
}

TEST_CASE("a thinned row keeps the lowest trough and the highest peak of its steps") {
  ScriptedRun run;
  for (uint32_t step = 0; step < 1000; ++step) {
    const uint64_t spike = run.allocate(1, step == 501 ? 9000 : 10);
    run.mark();
    run.free(spike);
  }
  int64_t highest = 0;
  for (const Mark& row : run.history().rows()) {
    if (row.firstStep <= 501 && 501 <= row.step) {
      highest = row.devices[0].peak;
    }
  }
  CHECK(highest == 9000);
}

TEST_CASE("memory of the history grows with the logarithm of the steps") {
  ScriptedRun run;
  for (uint32_t line = 1; line <= 100; ++line) {
    run.allocate(line);
  }
  for (uint32_t step = 0; step < 128; ++step) {
    run.mark();
  }
  const size_t early = run.history().hostBytes();
  for (uint32_t step = 0; step < 20000; ++step) {
    run.mark();
  }
  CHECK(run.history().hostBytes() < 3 * early);
}

TEST_CASE("a diff names the groups that changed, by how much, and what there is now") {
  ScriptedRun run;
  const uint64_t dying = run.allocate(1, 100);
  run.allocate(2, 7);
  run.mark();
  run.free(dying);
  run.allocate(3, 50);
  run.allocate(3, 50);
  run.mark();
  const auto changes = run.history().diff(0, 1);
  REQUIRE(changes.has_value());
  REQUIRE(changes->size() == 2);
  CHECK((*changes)[0].group == run.groupOf(at(1)));
  CHECK((*changes)[0].change == LiveCount{-1, -100});
  CHECK((*changes)[0].now == LiveCount{0, 0});
  CHECK((*changes)[1].group == run.groupOf(at(3)));
  CHECK((*changes)[1].change == LiveCount{2, 100});
  CHECK((*changes)[1].now == LiveCount{2, 100});
  const auto back = run.history().diff(1, 0);
  REQUIRE(back.has_value());
  CHECK((*back)[1].change == LiveCount{-2, -100});
  CHECK(run.history().diff(1, 1)->empty());
}

TEST_CASE("a diff with a step that has no mark is refused") {
  ScriptedRun run;
  CHECK_FALSE(run.history().diff(0, 0).has_value());
  for (uint32_t step = 0; step < 300; ++step) {
    run.mark();
  }
  CHECK_FALSE(run.history().diff(0, 300).has_value());
  std::optional<uint32_t> thinned;
  for (uint32_t step = 1; step < 200 && !thinned; ++step) {
    if (run.history().nearest(step) != step) {
      thinned = step;
    }
  }
  REQUIRE(thinned.has_value());
  CHECK_FALSE(run.history().diff(*thinned, 299).has_value());
  CHECK(run.history().diff(*run.history().nearest(*thinned), 299).has_value());
}

TEST_CASE("counts of a group at a step are those of the nearest mark before it") {
  ScriptedRun run;
  run.mark();
  run.allocate(1, 5);
  run.mark();
  const uint32_t group = run.groupOf(at(1));
  CHECK(run.history().countAt(0, group) == LiveCount{});
  CHECK(run.history().countAt(1, group) == LiveCount{1, 5});
  CHECK(run.history().countAt(99, group) == LiveCount{1, 5});
  CHECK(run.history().countAt(1, 12345) == LiveCount{});
}

TEST_CASE("a tide remembers how high a group stood before it ebbed, and how long that took") {
  ScriptedRun run;
  test::Ring buffer(run, 1, 1000);
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (int step = 0; step < 20; ++step) {
      buffer.push();
      run.mark();
    }
    const Tide high = run.history().tide(run.groupOf(at(1)));
    CHECK(high.peak == 20);
    buffer.clear();
  }
  run.mark();
  const Tide tide = run.history().tide(run.groupOf(at(1)));
  CHECK(tide.formerPeak == 20);
  CHECK(tide.formerLength >= 19);
  CHECK(tide.formerLength <= 21);
  CHECK(tide.rising == 60);
}

TEST_CASE("a few blocks that come and go make no tide") {
  ScriptedRun run;
  for (int step = 0; step < 40; ++step) {
    const uint64_t a = run.allocate(1);
    const uint64_t b = run.allocate(1);
    run.mark();
    run.free(a);
    run.free(b);
    run.mark();
  }
  CHECK(run.history().tide(run.groupOf(at(1))).formerPeak == 0);
}

TEST_CASE("to lose half is an ebb, to lose a quarter is none") {
  for (const bool half : {true, false}) {
    ScriptedRun run;
    std::vector<uint64_t> blocks;
    for (int i = 0; i < 40; ++i) {
      blocks.push_back(run.allocate(1));
    }
    run.mark();
    for (int i = 0; i < (half ? 20 : 10); ++i) {
      run.free(blocks.back());
      blocks.pop_back();
    }
    run.mark();
    CHECK(run.history().tide(run.groupOf(at(1))).formerPeak == (half ? 40 : 0));
  }
}

TEST_CASE("a second watch goes on counting steps, and what was there before is older than its base") {
  ScriptedRun run;
  run.allocate(1, 100);
  for (int step = 0; step < 5; ++step) {
    run.mark();
  }
  run.allocate(1, 100); // between two marks, when the first watch ends
  run.beginWatch();
  const uint32_t base = run.history().base();
  CHECK(base == run.history().steps());
  CHECK(base > 5);
  CHECK(run.ledger().step() == base);
  for (const BirthWindow& window : run.ledger().groups().windows(run.groupOf(at(1)))) {
    CHECK(window.last < base);
  }
  run.allocate(1, 8);
  run.mark();
  const std::vector<Mark> rows = run.history().rows();
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].step == base);
  CHECK(rows[0].devices[0].consumed == 8); // not what the first watch saw
}

TEST_CASE("rebasing sets aside the steps of a worse source") {
  ScriptedRun run;
  CHECK(run.history().base() == 0);
  run.mark();
  run.mark();
  run.history().rebase();
  CHECK(run.history().base() == 2);
  CHECK(run.history().steps() == 2);
  run.mark();
  CHECK(run.history().base() == 2);
}
