// The ledger against what an allocator says of itself: live, pending, ever born, lost.
#include <algorithm>
#include <memory>
#include <set>

#include "catch.h"
#include "core/ledger.h"
#include "scripted_run.h"

using namespace leakguard;
using test::at;

namespace {

std::unique_ptr<Ledger> fresh() {
  return std::make_unique<Ledger>(); // too large for the stack
}

const Block* find(const Snapshot& snapshot, DeviceKey device, uint64_t address) {
  const auto found = std::find_if(snapshot.blocks.begin(), snapshot.blocks.end(), [&](const Block& block) {
    return block.device == device && block.address == address;
  });
  return found != snapshot.blocks.end() ? &*found : nullptr;
}

} // namespace

TEST_CASE("a birth is kept with all that was known of it") {
  const auto ledger = fresh();
  ledger->setStep(12);
  Context context = at(5, Phase::Backward);
  context.via = 6;
  context.forwardLine = 7;
  context.module = 8;
  context.node = 9;
  context.thread = 3;
  context.flags = block_flag::kUserLineInBackward;
  ledger->born(cudaDevice(1), 0x1000, 500, context, 4, 2);

  const Snapshot snapshot = ledger->snapshot();
  REQUIRE(snapshot.blocks.size() == 1);
  CHECK(snapshot.step == 12);
  const Block& block = snapshot.blocks[0];
  CHECK(block.address == 0x1000);
  CHECK(block.requested == 500);
  CHECK(block.device == cudaDevice(1));
  CHECK(block.step == 12);
  CHECK(block.module == 8);
  CHECK(block.node == 9);
  CHECK(block.stream == 4);
  CHECK(block.pool == 2);
  CHECK(block.thread == 3);
  CHECK(block.state == BlockState::Live);
  CHECK(block.flags == block_flag::kUserLineInBackward);
  const GroupKey key = ledger->groups().key(block.group);
  CHECK(key == GroupKey{5, 6, 7, cudaDevice(1), Phase::Backward, block_flag::kUserLineInBackward});
  CHECK(ledger->groups().module(block.group) == 8);
  CHECK(ledger->groups().node(block.group) == 9);
}

TEST_CASE("from birth over pending to retirement the sums are those of an allocator") {
  const auto ledger = fresh();
  const DeviceKey device = cudaDevice(0);
  CHECK_FALSE(ledger->seen(device));
  ledger->born(device, 0x1000, 100, at(1));
  ledger->born(device, 0x2000, 28, at(1));
  CHECK(ledger->seen(device));
  DeviceCounts counts = ledger->counts(device);
  CHECK(counts.liveBlocks == 2);
  CHECK(counts.liveBytes == 128);

  ledger->freeRequested(device, 0x1000);
  counts = ledger->counts(device);
  CHECK(counts.liveBlocks == 1);
  CHECK(counts.liveBytes == 28);
  CHECK(counts.pendingBlocks == 1);
  CHECK(counts.pendingBytes == 100);
  REQUIRE(find(ledger->snapshot(), device, 0x1000) != nullptr);
  CHECK(find(ledger->snapshot(), device, 0x1000)->state == BlockState::PendingFree);

  CHECK(ledger->retired(device, 0x1000));
  counts = ledger->counts(device);
  CHECK(counts.liveBlocks == 1);
  CHECK(counts.pendingBlocks == 0);
  CHECK(counts.pendingBytes == 0);
  CHECK(counts.bornBlocks == 2);
  CHECK(counts.bornBytes == 128);
  CHECK(ledger->retired(device, 0x2000)); // without having been asked back first, as host memory is
  CHECK(ledger->counts(device).liveBlocks == 0);
  CHECK(ledger->snapshot().blocks.empty());
}

TEST_CASE("a block that is pending is alive to nobody's group") {
  const auto ledger = fresh();
  ledger->born(cudaDevice(0), 0x1000, 100, at(1));
  const uint32_t group = ledger->snapshot().blocks[0].group;
  ledger->freeRequested(cudaDevice(0), 0x1000);
  std::vector<LiveCount> counts;
  ledger->groups().copyCounts(counts);
  CHECK(counts[group] == LiveCount{});
  CHECK(ledger->groups().windows(group).empty());
  ledger->retired(cudaDevice(0), 0x1000);
  ledger->groups().copyCounts(counts);
  CHECK(counts[group] == LiveCount{});
}

TEST_CASE("frees of addresses that are not known change nothing: blocks from before watching") {
  const auto ledger = fresh();
  ledger->freeRequested(DeviceKey::Cpu, 0x1000);
  CHECK_FALSE(ledger->retired(DeviceKey::Cpu, 0x1000));
  ledger->born(DeviceKey::Cpu, 0x2000, 8, at(1));
  CHECK_FALSE(ledger->retired(DeviceKey::Cpu, 0x2001));
  CHECK_FALSE(ledger->retired(cudaDevice(0), 0x2000)); // another device's address space
  CHECK(ledger->counts(DeviceKey::Cpu).liveBlocks == 1);
  CHECK(ledger->counts(cudaDevice(0)).liveBlocks == 0);
}

TEST_CASE("asking a block back twice counts once") {
  const auto ledger = fresh();
  ledger->born(cudaDevice(0), 0x1000, 100, at(1));
  ledger->freeRequested(cudaDevice(0), 0x1000);
  ledger->freeRequested(cudaDevice(0), 0x1000);
  CHECK(ledger->counts(cudaDevice(0)).pendingBlocks == 1);
  CHECK(ledger->retired(cudaDevice(0), 0x1000));
  CHECK_FALSE(ledger->retired(cudaDevice(0), 0x1000));
  CHECK(ledger->counts(cudaDevice(0)).pendingBlocks == 0);
}

TEST_CASE("an address is used again by a block with another birth number") {
  const auto ledger = fresh();
  ledger->born(cudaDevice(0), 0x1000, 100, at(1));
  const uint64_t first = ledger->snapshot().blocks[0].birth;
  ledger->retired(cudaDevice(0), 0x1000);
  ledger->born(cudaDevice(0), 0x1000, 200, at(2));
  const Snapshot snapshot = ledger->snapshot();
  REQUIRE(snapshot.blocks.size() == 1);
  CHECK(snapshot.blocks[0].birth != first);
  CHECK(snapshot.blocks[0].requested == 200);
  CHECK(ledger->lost().replacedBlocks == 0);
}

TEST_CASE("a birth at an address that never died replaces the block and is counted as lost") {
  for (const bool pending : {false, true}) {
    const auto ledger = fresh();
    ledger->born(cudaDevice(0), 0x1000, 100, at(1));
    if (pending) {
      ledger->freeRequested(cudaDevice(0), 0x1000);
    }
    ledger->born(cudaDevice(0), 0x1000, 70, at(2));
    const DeviceCounts counts = ledger->counts(cudaDevice(0));
    CHECK(counts.liveBlocks == 1);
    CHECK(counts.liveBytes == 70);
    CHECK(counts.pendingBlocks == 0);
    CHECK(counts.pendingBytes == 0);
    CHECK(ledger->lost().replacedBlocks == 1);
    CHECK(ledger->lost().droppedBirths == 0);
  }
}

TEST_CASE("one address on several devices is several blocks") {
  const auto ledger = fresh();
  ledger->born(DeviceKey::Cpu, 0x1000, 1, at(1));
  ledger->born(cudaDevice(0), 0x1000, 2, at(1));
  ledger->born(cudaDevice(63), 0x1000, 4, at(1));
  CHECK(ledger->snapshot().blocks.size() == 3);
  CHECK(ledger->retired(cudaDevice(0), 0x1000));
  CHECK(find(ledger->snapshot(), cudaDevice(0), 0x1000) == nullptr);
  CHECK(find(ledger->snapshot(), cudaDevice(63), 0x1000) != nullptr);
  CHECK(ledger->counts(DeviceKey::Cpu).liveBytes == 1);
  CHECK(ledger->counts(cudaDevice(63)).liveBytes == 4);
}

TEST_CASE("pageable and pinned host memory are counted apart") {
  const auto ledger = fresh();
  ledger->born(DeviceKey::Cpu, 0x1000, 10, at(1));
  ledger->born(DeviceKey::Pinned, 0x2000, 20, at(1));
  CHECK(ledger->counts(DeviceKey::Cpu).bornBytes == 10);
  CHECK(ledger->counts(DeviceKey::Pinned).bornBytes == 20);
  CHECK(ledger->counts(DeviceKey::Pinned).liveBlocks == 1);
  CHECK(ledger->retired(DeviceKey::Pinned, 0x2000));
  CHECK(ledger->counts(DeviceKey::Pinned).liveBlocks == 0);
  CHECK(ledger->counts(DeviceKey::Cpu).liveBlocks == 1);
}

TEST_CASE("a block found in a late snapshot is counted as a birth that was not seen") {
  const auto ledger = fresh();
  Context context = at(0, Phase::Other);
  context.flags = block_flag::kSeeded;
  ledger->born(cudaDevice(0), 0x1000, 10, context);
  CHECK(ledger->lost().unknownBirths == 1);
  CHECK(ledger->counts(cudaDevice(0)).liveBlocks == 1);
}

TEST_CASE("a birth that comes late for a mark is of the step it is counted in, and leaves no trace when it dies") {
  const auto ledger = fresh();
  ledger->setStep(5);
  ledger->born(DeviceKey::Cpu, 0x1000, 10, at(1));
  ledger->setStep(4); // what a thread may still have read when the mark was made
  ledger->born(DeviceKey::Cpu, 0x2000, 10, at(1));
  const Block late = *find(ledger->snapshot(), DeviceKey::Cpu, 0x2000);
  CHECK(late.step == 5);
  ledger->retired(DeviceKey::Cpu, 0x1000);
  ledger->retired(DeviceKey::Cpu, 0x2000);
  CHECK(ledger->groups().windows(late.group).empty());
}

TEST_CASE("blocks of no bytes are blocks") {
  const auto ledger = fresh();
  ledger->born(cudaDevice(0), 0x1000, 0, at(1));
  CHECK(ledger->counts(cudaDevice(0)).liveBlocks == 1);
  CHECK(ledger->retired(cudaDevice(0), 0x1000));
  CHECK(ledger->counts(cudaDevice(0)).liveBlocks == 0);
}

TEST_CASE("trough and peak are those of the time since they were last taken") {
  const auto ledger = fresh();
  const DeviceKey device = cudaDevice(0);
  ledger->takeRange(device);
  ledger->born(device, 0x1000, 100, at(1));
  ledger->born(device, 0x2000, 50, at(1));
  ledger->retired(device, 0x1000);
  Ledger::Range range = ledger->takeRange(device);
  CHECK(range.trough == 0);
  CHECK(range.peak == 150);
  range = ledger->takeRange(device);
  CHECK(range.trough == 50);
  CHECK(range.peak == 50);
  ledger->freeRequested(device, 0x2000);
  ledger->born(device, 0x3000, 20, at(1));
  range = ledger->takeRange(device);
  CHECK(range.trough == 0);
  CHECK(range.peak == 50);
}

TEST_CASE("host memory follows what is live: ten million events cost what ten thousand do") {
  const auto ledger = fresh();
  const auto events = [&](int rounds) {
    for (int round = 0; round < rounds; ++round) {
      for (uint64_t i = 1; i <= 100; ++i) {
        ledger->born(DeviceKey::Cpu, i * 64, 64, at(static_cast<uint32_t>(i)));
      }
      for (uint64_t i = 1; i <= 100; ++i) {
        ledger->retired(DeviceKey::Cpu, i * 64);
      }
      ledger->setStep(ledger->step() + 1);
    }
  };
  events(50);
  const size_t before = ledger->hostBytes();
  events(5000);
  CHECK(ledger->hostBytes() == before);
}
