// Paths of modules by bare address: no path rather than a wrong one.
#include <atomic>
#include <thread>

#include "catch.h"
#include "core/module_table.h"

using namespace leakguard;

TEST_CASE("a module has the name it was put with, until it is dropped") {
  ModuleTable table(64);
  CHECK_FALSE(table.find(0x1000).known);
  REQUIRE(table.put(0x1000, 7));
  CHECK(table.find(0x1000).known);
  CHECK(table.find(0x1000).name == 7);
  table.drop(0x1000);
  CHECK_FALSE(table.find(0x1000).known);
}

TEST_CASE("the nameless index is a name all the same") {
  ModuleTable table(64);
  REQUIRE(table.put(0x1000, 0));
  CHECK(table.find(0x1000).known);
  CHECK(table.find(0x1000).name == 0);
}

TEST_CASE("an address that is used again has the new module's name") {
  ModuleTable table(64);
  REQUIRE(table.put(0x1000, 7));
  table.drop(0x1000);
  REQUIRE(table.put(0x1000, 9));
  CHECK(table.find(0x1000).name == 9);
}

TEST_CASE("dropping what was never put changes nothing") {
  ModuleTable table(64);
  table.drop(0x2000);
  CHECK_FALSE(table.find(0x2000).known);
  REQUIRE(table.put(0x2000, 3));
  CHECK(table.find(0x2000).name == 3);
}

TEST_CASE("a half full table takes no more, and loses none") {
  ModuleTable table(64);
  for (uint64_t i = 1; i <= 32; ++i) {
    REQUIRE(table.put(i * 4096, static_cast<uint32_t>(i)));
  }
  CHECK_FALSE(table.put(33 * 4096, 33));
  CHECK_FALSE(table.find(33 * 4096).known);
  for (uint64_t i = 1; i <= 32; ++i) {
    CHECK(table.find(i * 4096).name == i);
  }
  table.drop(4096);
  CHECK(table.put(4096, 77)); // its place is its own
  table.clear();
  for (uint64_t i = 1; i <= 32; ++i) {
    CHECK_FALSE(table.find(i * 4096).known);
  }
}

TEST_CASE("readers meet a module's own name or none while modules come and go") {
  ModuleTable table(1024);
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  const auto nameFor = [](uint64_t address) { return static_cast<uint32_t>(address >> 6); };
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&] {
      while (!done.load(std::memory_order_relaxed)) {
        for (uint64_t address = 64; address <= uint64_t{64} * 200; address += 64) {
          const ModuleTable::Found found = table.find(address);
          wrong += found.known && found.name != nameFor(address) ? 1 : 0;
        }
      }
    });
  }
  for (int round = 0; round < 300; ++round) {
    for (uint64_t address = 64; address <= uint64_t{64} * 200; address += 64) {
      table.put(address, nameFor(address));
    }
    for (uint64_t address = 64; address <= uint64_t{64} * 200; address += 64 * (1 + round % 3)) {
      table.drop(address);
    }
  }
  done = true;
  for (std::thread& reader : readers) {
    reader.join();
  }
  CHECK(wrong == 0);
}
