// The record of one step's births and deaths: off unless asked for, in order, bounded.
#include <memory>
#include <set>
#include <thread>

#include "catch.h"
#include "core/ledger.h"
#include "scripted_run.h"

using namespace leakguard;
using test::at;

namespace {

constexpr DeviceKey kDevice = DeviceKey::Cpu;

std::unique_ptr<Ledger> fresh() {
  return std::make_unique<Ledger>();
}

} // namespace

TEST_CASE("nothing is recorded unless somebody asks") {
  const auto ledger = fresh();
  ledger->born(kDevice, 0x100, 10, at(1));
  CHECK_FALSE(ledger->record().on());
  CHECK(ledger->record().end().blocks.empty());
}

TEST_CASE("births and deaths come in order, with the block they are of") {
  const auto ledger = fresh();
  ledger->born(kDevice, 0x100, 10, at(1));
  ledger->record().begin(16);
  ledger->born(kDevice, 0x200, 20, at(2, Phase::Forward));
  CHECK(ledger->retired(kDevice, 0x100));
  ledger->freeRequested(cudaDevice(0), 0x900); // unknown
  ledger->born(cudaDevice(0), 0x300, 30, at(3));
  ledger->freeRequested(cudaDevice(0), 0x300);
  CHECK(ledger->retired(cudaDevice(0), 0x300)); // dead already for the program
  const EventRecord::Events events = ledger->record().end();
  ledger->born(kDevice, 0x400, 40, at(4));

  REQUIRE(events.blocks.size() == 4);
  CHECK(events.missed == 0);
  const auto is = [&](size_t index, uint64_t address, uint64_t requested, BlockState state) {
    const Block& block = events.blocks[index];
    return block.address == address && block.requested == requested && block.state == state;
  };
  CHECK(is(0, 0x200, 20, BlockState::Live));
  CHECK(ledger->groups().key(events.blocks[0].group).phase == Phase::Forward);
  CHECK(is(1, 0x100, 10, BlockState::Free));
  CHECK(is(2, 0x300, 30, BlockState::Live));
  CHECK(is(3, 0x300, 30, BlockState::Free));
  CHECK(events.blocks[2].birth == events.blocks[3].birth);
  CHECK(ledger->record().end().blocks.empty());
}

TEST_CASE("what finds no room is counted") {
  const auto ledger = fresh();
  ledger->record().begin(3);
  for (uint64_t i = 1; i <= 8; ++i) {
    ledger->born(kDevice, i << 8, 1, at(1));
  }
  const EventRecord::Events events = ledger->record().end();
  CHECK(events.blocks.size() == 3);
  CHECK(events.missed == 5);
  CHECK(ledger->counts(kDevice).liveBlocks == 8);
}

TEST_CASE("an address is dead before it is born again, whichever thread has it") {
  const auto ledger = fresh();
  ledger->record().begin(1 << 16);
  const auto run = [&](uint64_t first) {
    for (uint64_t i = 0; i < 2000; ++i) {
      const uint64_t address = (first + i % 7 * 16) << 8;
      ledger->born(kDevice, address, 8, at(1));
      ledger->retired(kDevice, address);
    }
  };
  std::thread other(run, 1);
  run(2);
  other.join();
  const EventRecord::Events events = ledger->record().end();
  CHECK(events.blocks.size() == 8000);
  std::set<uint64_t> live;
  bool in_order = true;
  for (const Block& block : events.blocks) {
    in_order = in_order &&
        (block.state == BlockState::Live ? live.insert(block.address).second : live.erase(block.address) == 1);
  }
  CHECK(in_order);
  CHECK(live.empty());
}
