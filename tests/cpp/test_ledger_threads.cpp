// The ledger under threads. Worth running under ThreadSanitizer.
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "catch.h"
#include "core/growth.h"
#include "core/ledger.h"
#include "core/step_history.h"
#include "scripted_run.h"

using namespace leakguard;
using test::at;

namespace {

// An allocator of one address. The thread that frees it can be made to wait, inside the free, until somebody else has
// been handed the address: the worst that a preempted thread can do.
class DelayingAllocator {
 public:
  static constexpr uint64_t kAddress = 0x1000;

  uint64_t allocate() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return free_; });
    free_ = false;
    ++handedOut_;
    changed_.notify_all();
    return kAddress;
  }
  void freeAndDawdle() {
    std::unique_lock lock(mutex_);
    free_ = true;
    const int before = handedOut_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return handedOut_ > before; });
  }
  // How many of the next owners have told the ledger of their birth.
  void births(int count) {
    std::unique_lock lock(mutex_);
    births_ = count;
    changed_.notify_all();
  }
  void waitForBirths(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return births_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool free_ = true;
  int handedOut_ = 0;
  int births_ = 0;
};

enum class Order { ForgetThenFree, FreeThenForget };

// Two threads and one address:
//
//   thread A                          thread B
//   --------                          --------
//   retired(address)    (right)
//   free(address) ─────────────────▶  allocate() = the same address
//     .                               born(address)
//     . dawdles
//   retired(address)    (wrong: forgets B's block)
//   return
//
// Returns what the ledger knows once both are done; B's block is live.
DeviceCounts reuseUnderDelay(Order order, LostCounts& lost) {
  const auto ledger = std::make_unique<Ledger>();
  DelayingAllocator allocator;
  ledger->born(DeviceKey::Cpu, allocator.allocate(), 100, at(1));
  std::thread b([&] {
    const uint64_t address = allocator.allocate(); // waits until A has freed it
    ledger->born(DeviceKey::Cpu, address, 7, at(2));
    allocator.births(1);
  });
  std::thread a([&] {
    if (order == Order::ForgetThenFree) {
      ledger->retired(DeviceKey::Cpu, DelayingAllocator::kAddress);
    }
    allocator.freeAndDawdle();
    allocator.waitForBirths(1);
    if (order == Order::FreeThenForget) {
      ledger->retired(DeviceKey::Cpu, DelayingAllocator::kAddress);
    }
  });
  a.join();
  b.join();
  lost = ledger->lost();
  return ledger->counts(DeviceKey::Cpu);
}

} // namespace

TEST_CASE("forgotten before it is freed, an address that is used again at once keeps its new block") {
  LostCounts lost;
  const DeviceCounts counts = reuseUnderDelay(Order::ForgetThenFree, lost);
  CHECK(counts.liveBlocks == 1);
  CHECK(counts.liveBytes == 7);
  CHECK(lost.replacedBlocks == 0);
}

TEST_CASE("in the other order the new block is lost: the interleaving is a real one") {
  LostCounts lost;
  const DeviceCounts counts = reuseUnderDelay(Order::FreeThenForget, lost);
  CHECK(counts.liveBlocks == 0);
  CHECK(lost.replacedBlocks == 1);
}

TEST_CASE("threads that allocate, free their own and each other's blocks end with exact sums") {
  const auto ledger = std::make_unique<Ledger>();
  constexpr int kThreads = 4;
  constexpr int kRounds = 6000;
  struct Given {
    DeviceKey device;
    uint64_t address;
  };
  std::mutex mailLock;
  std::vector<Given> mail; // blocks handed to whoever comes by: freed by another thread
  std::vector<std::map<uint64_t, uint64_t>> left(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<uint32_t>(t));
      std::map<uint64_t, uint64_t>& mine = left[static_cast<size_t>(t)];
      const DeviceKey device = t == 3 ? DeviceKey::Pinned : DeviceKey::Cpu;
      uint64_t next = (static_cast<uint64_t>(t) + 1) << 32;
      for (int round = 0; round < kRounds; ++round) {
        const uint64_t bytes = random() % 4096;
        next += 64;
        ledger->born(device, next, bytes, at(random() % 50));
        if (random() % 8 == 0) {
          const std::lock_guard guard(mailLock);
          mail.push_back({device, next});
        } else {
          mine[next] = bytes;
        }
        if (random() % 2 == 0 && !mine.empty()) {
          const uint64_t victim = mine.begin()->first;
          mine.erase(mine.begin());
          if (random() % 4 == 0) {
            ledger->freeRequested(device, victim);
          }
          ledger->retired(device, victim);
        }
        std::vector<Given> taken;
        if (random() % 16 == 0) {
          const std::lock_guard guard(mailLock);
          taken.swap(mail);
        }
        for (const Given& given : taken) {
          ledger->retired(given.device, given.address);
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const Given& given : mail) {
    ledger->retired(given.device, given.address);
  }
  std::map<uint64_t, uint64_t> expected;
  for (const auto& mine : left) {
    expected.insert(mine.begin(), mine.end());
  }
  std::map<uint64_t, uint64_t> live;
  for (const Block& block : ledger->snapshot().blocks) {
    live[block.address] = block.requested;
  }
  CHECK(live == expected);
  int64_t groupBlocks = 0;
  std::vector<LiveCount> counts;
  ledger->groups().copyCounts(counts);
  for (const LiveCount& count : counts) {
    groupBlocks += count.blocks;
  }
  CHECK(groupBlocks == static_cast<int64_t>(expected.size()));
  CHECK(
      ledger->counts(DeviceKey::Cpu).liveBlocks + ledger->counts(DeviceKey::Pinned).liveBlocks ==
      static_cast<int64_t>(expected.size()));
  CHECK(ledger->counts(DeviceKey::Cpu).bornBlocks == uint64_t{3} * kRounds);
  CHECK(ledger->counts(DeviceKey::Pinned).bornBlocks == kRounds);
  CHECK(ledger->lost().replacedBlocks == 0);
}

TEST_CASE("marks, snapshots and looks may run while others allocate") {
  const auto ledger = std::make_unique<Ledger>();
  StepHistory history(*ledger);
  Growth growth(ledger->groups(), history);
  constexpr uint64_t kRounds = 300;
  constexpr int kWorkers = 3;
  std::atomic<int> working{kWorkers};
  std::vector<std::thread> threads;
  for (uint64_t t = 1; t <= kWorkers; ++t) {
    threads.emplace_back([&, t] {
      const DeviceKey device = t == 1 ? cudaDevice(0) : DeviceKey::Cpu;
      const uint64_t base = t << 40;
      for (uint64_t round = 1; round <= kRounds; ++round) {
        for (uint64_t i = 1; i <= 64; ++i) {
          ledger->born(device, base + i * 64, 32, at(static_cast<uint32_t>(i)));
        }
        ledger->born(device, base + 0x100000 + round * 64, 32, at(100)); // stays
        for (uint64_t i = 1; i <= 64; ++i) {
          ledger->freeRequested(device, base + i * 64);
          ledger->retired(device, base + i * 64);
        }
      }
      --working;
    });
  }
  std::atomic<int> torn{0};
  std::thread reader([&] {
    while (working > 0) {
      for (const Block& block : ledger->snapshot().blocks) {
        torn += block.state == BlockState::Free || block.requested != 32 ? 1 : 0;
      }
      ledger->hostBytes();
      ledger->lost();
      history.rows();
      growth.evidence();
    }
  });
  while (working > 0) {
    history.mark(0.0);
    growth.observe();
    std::this_thread::yield();
  }
  reader.join();
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(torn == 0);
  const Snapshot left = ledger->snapshot();
  for (const Block& block : left.blocks) {
    REQUIRE(ledger->groups().key(block.group).line == 100); // what was freed is gone
  }
  CHECK(left.blocks.size() == kWorkers * kRounds);
  CHECK(ledger->counts(cudaDevice(0)).liveBlocks == int64_t{kRounds});
  CHECK(ledger->counts(DeviceKey::Cpu).liveBlocks == int64_t{kRounds} * (kWorkers - 1));
  history.mark(0.0);
  uint64_t inWindows = 0;
  for (uint32_t group = 0; group < ledger->groups().size(); ++group) {
    for (const BirthWindow& window : ledger->groups().windows(group)) {
      inWindows += window.blocks;
    }
  }
  CHECK(inWindows == left.blocks.size());
}
