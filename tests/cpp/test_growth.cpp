// When a group is called growing. Each case is a loop as programs have them, played step by step; the same loops run
// under real torch in tests/scenes.
#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "catch.h"
#include "scripted_run.h"

using namespace leakguard;
using test::at;
using test::Ring;
using test::ScriptedRun;

namespace {

constexpr uint32_t kLeak = 1;
constexpr uint32_t kOther = 2;

// Plays `steps` steps. Returns the first step at whose end the line was called growing, or `steps` if never.
uint32_t play(ScriptedRun& run, uint32_t steps, const std::function<void(uint32_t)>& body, uint32_t line = kLeak) {
  uint32_t first = steps;
  for (uint32_t step = 0; step < steps; ++step) {
    body(step);
    run.endStep();
    if (first == steps && run.growing(line)) {
      first = step;
    }
  }
  return first;
}

// A clean loop is clean at every step of it, not only at its end.
void requireNeverGrows(ScriptedRun& run, uint32_t steps, const std::function<void(uint32_t)>& body) {
  for (uint32_t step = 0; step < steps; ++step) {
    body(step);
    run.endStep();
    INFO("step " << step);
    REQUIRE_FALSE(run.anythingGrows());
  }
}

// Steps in which nothing happens; after `patience` of them nothing is said to grow any more.
void requireNeverGrowsAfter(ScriptedRun& run, uint32_t patience, uint32_t steps) {
  for (uint32_t step = 0; step < steps; ++step) {
    run.endStep();
    INFO("step " << step);
    REQUIRE((step < patience || !run.anythingGrows()));
  }
}

} // namespace

TEST_CASE("one small block a step is found within 20 steps, with its rate") {
  ScriptedRun run;
  const uint32_t found = play(run, 40, [&](uint32_t) { run.allocate(kLeak, 512); });
  CHECK(found < 20);
  const std::optional<Evidence> evidence = run.growing(kLeak);
  REQUIRE(evidence.has_value());
  CHECK(evidence->bytesPerStep == Approx(512));
  CHECK(evidence->blocksPerStep == Approx(1));
  CHECK(evidence->live == LiveCount{40, 40 * 512});
  CHECK(evidence->firstStep == Growth::kWarmup);
  CHECK(evidence->lastStep == 39 - Growth::kTail);
  CHECK(evidence->birthSteps == evidence->lastStep - evidence->firstStep + 1);
  CHECK(evidence->seenAt == 39);
}

TEST_CASE("a leak is still found, at its rate, after ten thousand steps") {
  ScriptedRun run;
  play(run, 10000, [&](uint32_t) { run.allocate(kLeak, 512); });
  const std::optional<Evidence> evidence = run.growing(kLeak);
  REQUIRE(evidence.has_value());
  CHECK(evidence->bytesPerStep == Approx(512).epsilon(0.02));
  CHECK(evidence->birthSteps == evidence->lastStep - evidence->firstStep + 1);
  CHECK(evidence->firstStep == Growth::kWarmup); // also when its window has been merged with the warm-up's
}

TEST_CASE("a leak in every tenth or fiftieth step is found once it has happened often enough") {
  for (const uint32_t period : {10U, 50U}) {
    ScriptedRun run;
    const uint32_t found = play(run, 20 * period, [&](uint32_t step) {
      const uint64_t passing = run.allocate(kOther);
      if (step % period == 0) {
        run.allocate(kLeak, 4096);
      }
      run.free(passing);
    });
    CHECK(found < 12 * period);
    REQUIRE(run.growing(kLeak).has_value());
    CHECK(run.growing(kLeak)->bytesPerStep == Approx(4096.0 / period).epsilon(0.15));
    CHECK_FALSE(run.growing(kOther).has_value());
  }
}

TEST_CASE("a leak that begins at step 200 of 400 is found, and dated") {
  ScriptedRun run;
  const uint32_t found = play(run, 400, [&](uint32_t step) {
    if (step >= 200) {
      run.allocate(kLeak);
    }
  });
  CHECK(found < 230);
  REQUIRE(run.growing(kLeak).has_value());
  CHECK(run.growing(kLeak)->firstStep == 200);
}

TEST_CASE("in a long run the first step stays exact, whatever was born at the line before") {
  struct Loop {
    uint32_t filled; // steps in which the line fills a cache
    uint32_t begin;
    uint32_t period;
    uint32_t base; // steps of a worse source
  };
  for (const Loop& loop : {Loop{1, 100, 100, 0}, Loop{30, 5000, 1, 0}, Loop{30, 700, 7, 0}, Loop{3, 250, 50, 101}}) {
    ScriptedRun run;
    constexpr uint32_t kSteps = 40000;
    play(run, kSteps, [&](uint32_t step) {
      if (loop.base > 0 && step == loop.base) {
        run.history().rebase();
      }
      if (step < loop.filled) {
        run.allocate(kLeak, 64);
      } else if (step >= loop.begin && (step - loop.begin) % loop.period == 0) {
        run.allocate(kLeak, 512);
      }
    });
    INFO("begin " << loop.begin << " period " << loop.period);
    const std::optional<Evidence> evidence = run.growing(kLeak);
    REQUIRE(evidence.has_value());
    CHECK(evidence->firstStep == loop.begin);
    const uint32_t births = (kSteps - 1 - Growth::kTail - loop.begin) / loop.period + 1;
    CHECK(evidence->birthSteps == births);
    CHECK(evidence->bytesPerStep == Approx(512.0 / loop.period).epsilon(0.01));
  }
}

TEST_CASE("a leak that was not seen for a while has the first step that it had") {
  ScriptedRun run;
  bool lapsed = false;
  play(run, 30000, [&](uint32_t step) {
    if (step == 0 || (step >= 300 && step <= 3000 && step % 100 == 0) || (step >= 3350 && step % 100 == 50)) {
      run.allocate(kLeak);
    }
    lapsed = lapsed || (step > 3300 && step < 3350 && !run.growing(kLeak));
  });
  CHECK(lapsed);
  REQUIRE(run.growing(kLeak).has_value());
  CHECK(run.growing(kLeak)->firstStep == 300);
}

TEST_CASE("a leak at a line whose other blocks come and go") {
  ScriptedRun run;
  std::vector<uint64_t> batch;
  const uint32_t found = play(run, 60, [&](uint32_t) {
    for (const uint64_t block : batch) {
      run.free(block);
    }
    batch.clear();
    for (int i = 0; i < 20; ++i) {
      batch.push_back(run.allocate(kLeak));
    }
    run.allocate(kLeak);
  });
  CHECK(found < 30);
  REQUIRE(run.growing(kLeak).has_value());
  CHECK(run.growing(kLeak)->blocksPerStep == Approx(1).margin(0.3));
}

TEST_CASE("several blocks a step, of sizes that vary") {
  ScriptedRun run;
  std::mt19937 random(3);
  play(run, 100, [&](uint32_t) {
    for (int i = 0; i < 3; ++i) {
      run.allocate(kLeak, 1000 + random() % 2000);
    }
  });
  REQUIRE(run.growing(kLeak).has_value());
  CHECK(run.growing(kLeak)->blocksPerStep == Approx(3));
  CHECK(run.growing(kLeak)->bytesPerStep == Approx(6000).epsilon(0.1));
}

TEST_CASE("a leak that lets go of some of what it keeps") {
  ScriptedRun run;
  std::vector<uint64_t> kept;
  std::mt19937 random(5);
  play(run, 200, [&](uint32_t) {
    for (int i = 0; i < 4; ++i) {
      kept.push_back(run.allocate(kLeak));
    }
    const size_t victim = random() % kept.size();
    run.free(kept[victim]);
    kept.erase(kept.begin() + static_cast<ptrdiff_t>(victim));
  });
  REQUIRE(run.growing(kLeak).has_value());
  CHECK(run.growing(kLeak)->blocksPerStep == Approx(3).epsilon(0.15));
}

TEST_CASE("a leak whose line is not known grows in the unknown group") {
  ScriptedRun run;
  const Context unknown{};
  play(run, 40, [&](uint32_t) { run.allocate(unknown, 256); });
  const std::optional<Evidence> evidence = run.growing(unknown);
  REQUIRE(evidence.has_value());
  CHECK(evidence->group == 0);
  CHECK(evidence->bytesPerStep == Approx(256));
}

TEST_CASE("two leaks are two pieces of evidence") {
  ScriptedRun run;
  play(run, 40, [&](uint32_t) {
    run.allocate(kLeak, 100);
    run.allocate(kOther, 200);
  });
  CHECK(run.growth().evidence().size() == 2);
  CHECK(run.growing(kOther)->bytesPerStep == Approx(200));
}

TEST_CASE("what was found is said once") {
  ScriptedRun run;
  uint32_t said = 0;
  for (uint32_t step = 0; step < 200; ++step) {
    run.allocate(kLeak);
    said += run.endStep();
  }
  CHECK(said == 1);
}

TEST_CASE("before eight steps of evidence nothing is said") {
  ScriptedRun run;
  requireNeverGrows(run, Growth::kWarmup + Growth::kFirm + Growth::kTail - 1, [&](uint32_t) { run.allocate(kLeak); });
}

TEST_CASE("parameters, optimizer state, gradients, workspaces: born once, never again") {
  ScriptedRun run;
  requireNeverGrows(run, 200, [&](uint32_t step) {
    if (step < 2) {
      for (int i = 0; i < 100; ++i) {
        run.allocate(kLeak);
      }
    }
    const uint64_t activation = run.allocate(kOther);
    run.free(activation);
  });
}

TEST_CASE("a ring at its capacity replaces its oldest") {
  for (const size_t capacity : {10U, 30U, 64U, 100U}) {
    ScriptedRun run;
    Ring ring(run, kLeak, capacity);
    for (size_t i = 0; i < capacity; ++i) {
      ring.push(); // full before the first step
    }
    requireNeverGrows(run, 1000, [&](uint32_t) { ring.push(); });
  }
}

TEST_CASE("a ring that is still filling may be called growing, and no longer once it is full") {
  for (const size_t capacity : {16U, 50U, 200U, 1000U}) {
    ScriptedRun run;
    Ring ring(run, kLeak, capacity);
    const auto size = static_cast<uint32_t>(capacity);
    const auto push = [&](uint32_t) { ring.push(); };
    play(run, size, push);
    // A third as long again is enough to see that old ones go as new ones come.
    play(run, size / 3 + Growth::kTail + 16, push);
    CHECK_FALSE(run.anythingGrows());
    requireNeverGrows(run, 2 * size, push);
  }
}

TEST_CASE("a plateau: growth that has ended") {
  ScriptedRun run;
  for (uint32_t step = 0; step < 300; ++step) {
    if (step < 40) {
      run.allocate(kLeak);
    }
    run.endStep();
    if (step > 80) {
      INFO("step " << step);
      REQUIRE_FALSE(run.anythingGrows());
    }
  }
}

TEST_CASE("births at even distances are over when the next one is well overdue") {
  // A layer is thawed every 15 steps, and gets its gradients and optimizer state; ten of them, until step 150.
  for (const uint32_t distance : {5U, 15U, 40U}) {
    ScriptedRun run;
    for (uint32_t step = 0; step < 10 * distance; ++step) {
      if (step % distance == distance - 1) {
        run.allocate(kLeak);
      }
      run.endStep();
    }
    INFO("distance " << distance);
    constexpr uint32_t kMostBetweenLooks = 16;
    requireNeverGrowsAfter(run, 2 * distance + 4 + kMostBetweenLooks, 4 * distance + 40);
  }
}

TEST_CASE("a cache that warms up with fewer and fewer new entries") {
  // One of n shapes a step, drawn at random, is kept at first sight: the coupon collector.
  for (const uint32_t shapes : {8U, 20U, 40U}) {
    for (uint32_t seed = 1; seed <= 10; ++seed) {
      ScriptedRun run;
      std::mt19937 random(seed);
      std::vector<bool> seen(shapes);
      const uint32_t calm = 4 * shapes; // by then nearly all shapes have been met
      for (uint32_t step = 0; step < 12 * shapes + 60; ++step) {
        const uint32_t shape = random() % shapes;
        if (!seen[shape]) {
          seen[shape] = true;
          run.allocate(kLeak);
        }
        run.endStep();
        if (step >= calm) {
          INFO("shapes " << shapes << ", seed " << seed << ", step " << step);
          REQUIRE_FALSE(run.anythingGrows());
        }
      }
    }
  }
}

TEST_CASE("buckets of sequence lengths, the rare ones last") {
  // Zipf-like draws over 60 lengths; a buffer is kept for each length met.
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    ScriptedRun run;
    std::mt19937 random(seed);
    std::vector<bool> seen(60);
    std::vector<double> weights;
    for (int i = 1; i <= 60; ++i) {
      weights.push_back(1.0 / i);
    }
    std::discrete_distribution<size_t> draw(weights.begin(), weights.end());
    for (uint32_t step = 0; step < 1500; ++step) {
      for (int i = 0; i < 4; ++i) {
        const size_t length = draw(random);
        if (!seen[length]) {
          seen[length] = true;
          run.allocate(kLeak);
        }
      }
      run.endStep();
      if (step > 400) {
        INFO("seed " << seed << ", step " << step);
        REQUIRE_FALSE(run.anythingGrows());
      }
    }
  }
}

TEST_CASE("a buffer that is filled through an epoch and emptied at its end") {
  for (const uint32_t epoch : {20U, 50U}) {
    ScriptedRun run;
    Ring buffer(run, kLeak, 1000000);
    for (uint32_t step = 0; step < 12 * epoch; ++step) {
      buffer.push();
      run.endStep();
      if (step % epoch == epoch - 1) {
        buffer.clear();
      }
      if (step > 2 * epoch) { // it has been seen to empty
        INFO("epoch " << epoch << ", step " << step);
        REQUIRE_FALSE(run.anythingGrows());
      }
    }
  }
}

TEST_CASE("a list that is trimmed to a part of its length whenever it is too long") {
  for (const uint32_t longest : {40U, 100U, 300U}) {
    for (const double part : {0.1, 0.25, 0.4, 0.5, 0.6, 0.7, 0.9}) {
      ScriptedRun run;
      std::deque<uint64_t> list;
      uint32_t trims = 0;
      for (uint32_t step = 0; step < 12 * longest; ++step) {
        list.push_back(run.allocate(kLeak));
        if (list.size() > longest) {
          ++trims;
          while (static_cast<double>(list.size()) > part * longest) {
            run.free(list.front());
            list.pop_front();
          }
        }
        run.endStep();
        if (trims > 1 && step > longest + longest / 3 + 18) { // it has been seen to trim, as a ring to be full
          INFO("longest " << longest << ", trimmed to " << part << ", step " << step);
          REQUIRE_FALSE(run.anythingGrows());
        }
      }
    }
  }
}

TEST_CASE("a leak at a line that also keeps blocks through several steps") {
  // Gradients are accumulated over four steps: up to 24 blocks of the same line come and go with them.
  ScriptedRun run;
  std::vector<uint64_t> accumulated;
  const uint32_t found = play(run, 120, [&](uint32_t step) {
    if (step % 4 == 0) {
      for (const uint64_t block : accumulated) {
        run.free(block);
      }
      accumulated.clear();
    }
    for (int i = 0; i < 6; ++i) {
      accumulated.push_back(run.allocate(kLeak));
    }
    run.allocate(kLeak);
  });
  CHECK(found < 80);
  CHECK(run.growing(kLeak).has_value());
}

TEST_CASE("a leak beside a buffer that is emptied every epoch") {
  ScriptedRun run;
  Ring buffer(run, kOther, 1000000);
  play(run, 300, [&](uint32_t step) {
    buffer.push();
    run.allocate(kLeak);
    if (step % 30 == 29) {
      buffer.clear();
    }
  });
  CHECK(run.growing(kLeak).has_value());
  CHECK_FALSE(run.growing(kOther).has_value());
}

TEST_CASE("phases: bursts of births, each kept, with long pauses") {
  // A new part of the model is unfrozen every 100 steps; each brings its state in one step.
  ScriptedRun run;
  requireNeverGrows(run, 700, [&](uint32_t step) {
    if (step % 100 == 0) {
      for (int i = 0; i < 50; ++i) {
        run.allocate(kLeak);
      }
    }
  });
}

TEST_CASE("a line that filled a cache long before it leaks is judged by its latest births") {
  ScriptedRun run;
  play(run, 20, [&](uint32_t) { run.allocate(kLeak, 10); });
  requireNeverGrowsAfter(run, 40, 180);
  const uint32_t first = run.history().steps();
  const uint32_t found = play(run, 20, [&](uint32_t) { run.allocate(kLeak, 1000); });
  CHECK(found <= 12);
  REQUIRE(run.growing(kLeak).has_value());
  CHECK(run.growing(kLeak)->firstStep == first);
  CHECK(run.growing(kLeak)->bytesPerStep == Approx(1000));
  // And the rate stays what it was when the leak is older than the pause before it.
  play(run, 500, [&](uint32_t) { run.allocate(kLeak, 1000); });
  CHECK(run.growing(kLeak)->bytesPerStep == Approx(1000).epsilon(0.1));
}

TEST_CASE("bursts of births with pauses between them are one leak, at its mean rate") {
  // Validation keeps what it sees: the last 10 of every 60 steps.
  ScriptedRun run;
  play(run, 300, [&](uint32_t step) {
    if (step % 60 >= 50) {
      run.allocate(kLeak, 600);
    }
  });
  for (uint32_t step = 300; step < 900; ++step) { // also in the middle of a pause
    if (step % 60 >= 50) {
      run.allocate(kLeak, 600);
    }
    run.endStep();
    INFO("step " << step);
    REQUIRE(run.growing(kLeak).has_value());
    REQUIRE(run.growing(kLeak)->bytesPerStep == Approx(100).epsilon(0.25));
  }
}

TEST_CASE("what was seen under a worse source of steps does not come back") {
  ScriptedRun run;
  play(run, 40, [&](uint32_t) { run.allocate(kLeak); });
  REQUIRE(run.growing(kLeak).has_value());
  run.history().rebase();
  run.mark(); // a step of the better source, before growth has looked again
  CHECK_FALSE(run.growing(kLeak).has_value());
}

TEST_CASE("batches in flight: prefetched, used, dropped") {
  for (const size_t depth : {1U, 2U, 4U, 8U}) {
    ScriptedRun run;
    Ring ahead(run, kLeak, depth);
    requireNeverGrows(run, 300, [&](uint32_t) { ahead.push(); });
  }
}

TEST_CASE("a prefetch queue whose length wavers") {
  ScriptedRun run;
  std::mt19937 random(11);
  std::deque<uint64_t> queue;
  requireNeverGrows(run, 1000, [&](uint32_t) {
    for (uint32_t i = random() % 4; i > 0 && queue.size() < 12; --i) {
      queue.push_back(run.allocate(kLeak));
    }
    if (queue.size() > 1) {
      run.free(queue.front());
      queue.pop_front();
    }
  });
}

TEST_CASE("random victims: a replay buffer at its capacity") {
  ScriptedRun run;
  std::mt19937 random(13);
  std::vector<uint64_t> buffer;
  for (int i = 0; i < 200; ++i) {
    buffer.push_back(run.allocate(kLeak));
  }
  requireNeverGrows(run, 1500, [&](uint32_t) {
    uint64_t& victim = buffer[random() % buffer.size()];
    run.free(victim);
    victim = run.allocate(kLeak);
  });
}

TEST_CASE("evaluation every 25 steps keeps its results until the next one") {
  ScriptedRun run;
  std::vector<uint64_t> results;
  requireNeverGrows(run, 600, [&](uint32_t step) {
    if (step % 25 == 0) {
      for (const uint64_t block : results) {
        run.free(block);
      }
      results.clear();
      for (int i = 0; i < 30; ++i) {
        results.push_back(run.allocate(kLeak));
      }
    }
  });
}

TEST_CASE("a function that returned since the last mark takes its leak along; it was a leak all the same") {
  ScriptedRun run;
  Ring history(run, kLeak, 1000000);
  play(run, 50, [&](uint32_t) { history.push(); });
  REQUIRE(run.growing(kLeak).has_value());
  history.clear(); // the local list dies
  CHECK(run.growing(kLeak).has_value());
  CHECK(run.growing(kLeak)->live.blocks >= 40); // as it was at the last look
}

TEST_CASE("steps of a worse source, before a rebase, are no evidence") {
  ScriptedRun run;
  play(run, 30, [&](uint32_t) { run.allocate(kLeak); });
  REQUIRE(run.growing(kLeak).has_value());
  run.history().rebase();
  requireNeverGrows(run, 60, [&](uint32_t) {});
}

TEST_CASE("a second watch judges by what it has seen itself") {
  ScriptedRun run;
  play(run, 100, [&](uint32_t) { run.allocate(kLeak); });
  run.beginWatch();
  requireNeverGrows(run, 60, [&](uint32_t) {}); // the former blocks are still there, and no more come
  run.beginWatch();
  const uint32_t base = run.history().base();
  play(run, 40, [&](uint32_t) { run.allocate(kLeak, 10); });
  REQUIRE(run.growing(kLeak).has_value());
  CHECK(run.growing(kLeak)->firstStep == base + Growth::kWarmup);
  CHECK(run.growing(kLeak)->bytesPerStep == Approx(10));
}

TEST_CASE("a watch that begins late finds as soon as one that began with the process") {
  for (const uint32_t earlier : {0U, 1000U}) {
    ScriptedRun run;
    play(run, earlier, [](uint32_t) {});
    run.beginWatch();
    uint64_t block = 0;
    uint32_t seen = 0; // how many of the two lines were found
    for (uint32_t step = 0; step < 20; ++step) {
      run.allocate(kLeak);
      const uint64_t larger = run.allocate(kOther, 512 * (step + 1));
      if (block != 0) {
        run.free(block);
      }
      block = larger;
      seen += run.endStep();
    }
    INFO("after " << earlier << " steps");
    CHECK(seen == 2);
  }
}

TEST_CASE("nothing to judge: no steps, no groups, a group that is not there") {
  ScriptedRun run;
  CHECK(run.growth().evidence().empty());
  CHECK(run.growth().observe() == 0);
  CHECK_FALSE(Growth::judge(0, {}, run.history()).has_value());
  for (int step = 0; step < 30; ++step) {
    run.mark();
  }
  CHECK_FALSE(Growth::judge(77, {}, run.history()).has_value());
}

TEST_CASE("a block replaced by a larger one in each step swells, at its rate") {
  for (const uint32_t start : {0U, 100U}) {
    for (const uint32_t every : {1U, 5U}) {
      ScriptedRun run;
      uint64_t block = 0;
      uint64_t bytes = 0;
      play(run, start + 60, [&](uint32_t step) {
        run.free(run.allocate(kOther, 64 * step));
        if (step < start || step % every != 0) {
          return;
        }
        bytes += 512;
        const uint64_t larger = run.allocate(kLeak, bytes);
        if (block != 0) {
          run.free(block);
        }
        block = larger;
      });
      INFO("from step " << start << ", every " << every);
      const std::optional<Evidence> evidence = run.growing(kLeak);
      REQUIRE(evidence.has_value());
      CHECK(evidence->blocksPerStep == 0);
      CHECK(evidence->bytesPerStep == Approx(512.0 / every).epsilon(0.1));
      CHECK(evidence->live.bytes == static_cast<int64_t>(bytes));
      CHECK_FALSE(run.growing(kOther).has_value());
    }
  }
}

TEST_CASE("a block whose size wavers, doubles, falls now and then, or has stopped growing does not swell") {
  const std::vector<std::function<uint64_t(uint32_t)>> sizes = {
      [](uint32_t step) { return 64 * (1 + step * 37 % 11); },
      [](uint32_t step) { return 64U << (step / 20); },
      [](uint32_t step) { return 64 * (1 + step % 6); },
      [](uint32_t step) { return 64 * (1 + std::min(step, 7U)); },
  };
  for (const auto& sizeAt : sizes) {
    ScriptedRun run;
    uint64_t block = 0;
    requireNeverGrows(run, 120, [&](uint32_t step) {
      const uint64_t next = run.allocate(kLeak, sizeAt(step));
      if (block != 0) {
        run.free(block);
      }
      block = next;
    });
  }
}
