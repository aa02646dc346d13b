// The table of live blocks against a plain map, under insertions and removals that collide, wrap and grow.
#include <random>
#include <set>
#include <unordered_map>

#include "catch.h"
#include "core/block_table.h"

using namespace leakguard;

namespace {

Block& put(BlockTable& table, uint64_t address, uint64_t requested) {
  auto [block, fresh] = table.insert(address);
  REQUIRE(fresh);
  block.requested = requested;
  block.state = BlockState::Live;
  return block;
}

std::set<uint64_t> addressesIn(const BlockTable& table) {
  std::set<uint64_t> seen;
  table.forEach([&](const Block& block) { seen.insert(block.address); });
  return seen;
}

} // namespace

TEST_CASE("an empty table finds and erases nothing") {
  BlockTable table;
  Block out{};
  CHECK(table.find(64) == nullptr);
  CHECK_FALSE(table.erase(64, out));
  CHECK(table.size() == 0);
  CHECK(table.hostBytes() == 0);
  CHECK(addressesIn(table).empty());
}

TEST_CASE("a block is found by its address until it is erased") {
  BlockTable table;
  put(table, 4096, 100);
  REQUIRE(table.find(4096) != nullptr);
  CHECK(table.find(4096)->requested == 100);
  CHECK(table.find(4097) == nullptr);
  Block out{};
  REQUIRE(table.erase(4096, out));
  CHECK(out.address == 4096);
  CHECK(out.requested == 100);
  CHECK(out.state == BlockState::Live);
  CHECK(table.find(4096) == nullptr);
  CHECK_FALSE(table.erase(4096, out));
}

TEST_CASE("an address that is there already is not inserted again") {
  BlockTable table;
  put(table, 4096, 100);
  const auto [block, fresh] = table.insert(4096);
  CHECK_FALSE(fresh);
  CHECK(block.requested == 100);
  CHECK(table.size() == 1);
}

TEST_CASE("records never move while the table grows") {
  BlockTable table;
  Block& first = put(table, 64, 7);
  for (uint64_t i = 2; i < 5000; ++i) {
    put(table, i * 64, i);
  }
  CHECK(table.find(64) == &first);
  CHECK(first.requested == 7);
}

TEST_CASE("addresses whose hashes share a home stay apart and survive each other's removal") {
  // 64 slots at first: gather addresses whose low hash bits are equal, so that they form one run of probes.
  std::vector<uint64_t> sharing;
  for (uint64_t address = 16; sharing.size() < 24; address += 16) {
    if ((mixBits(address) & 63) == 62) { // near the end: the run wraps around
      sharing.push_back(address);
    }
  }
  for (size_t gone = 0; gone < sharing.size(); ++gone) {
    BlockTable table;
    for (const uint64_t address : sharing) {
      put(table, address, address * 3);
    }
    Block out{};
    REQUIRE(table.erase(sharing[gone], out));
    CHECK(out.requested == sharing[gone] * 3);
    for (size_t i = 0; i < sharing.size(); ++i) {
      const Block* found = table.find(sharing[i]);
      CHECK((found != nullptr) == (i != gone));
      CHECK((found == nullptr || found->requested == sharing[i] * 3));
    }
  }
}

TEST_CASE("the table agrees with a map under random insertions and removals") {
  std::mt19937_64 random(20240817);
  BlockTable table;
  std::unordered_map<uint64_t, uint64_t> model;
  for (int event = 0; event < 200000; ++event) {
    // Waves: mostly births, then mostly deaths, so that it grows, empties and re-uses its records.
    const bool birth = random() % 100 < ((event / 20000) % 2 == 0 ? 70U : 30U);
    const uint64_t address = (random() % 6000 + 1) * 64;
    if (birth) {
      const auto [block, fresh] = table.insert(address);
      REQUIRE(fresh == (model.count(address) == 0));
      block.requested = static_cast<uint64_t>(event);
      block.state = BlockState::Live;
      model[address] = static_cast<uint64_t>(event);
    } else {
      Block out{};
      const auto known = model.find(address);
      REQUIRE(table.erase(address, out) == (known != model.end()));
      if (known != model.end()) {
        REQUIRE(out.requested == known->second);
        model.erase(known);
      }
    }
    REQUIRE(table.size() == model.size());
  }
  std::set<uint64_t> expected;
  for (const auto& [address, requested] : model) {
    expected.insert(address);
    REQUIRE(table.find(address) != nullptr);
    CHECK(table.find(address)->requested == requested);
  }
  CHECK(addressesIn(table) == expected);
}

TEST_CASE("memory follows the most blocks that were live at once, not how many there were") {
  BlockTable table;
  for (uint64_t i = 1; i <= 1000; ++i) {
    put(table, i * 64, 1);
  }
  Block out{};
  const size_t before = table.hostBytes();
  for (uint64_t i = 1; i <= 200000; ++i) {
    REQUIRE(table.erase(i * 64, out));
    put(table, (i + 1000) * 64, 1);
  }
  CHECK(table.hostBytes() == before);
}

TEST_CASE("a live block costs at most 136 bytes of host memory") {
  for (const uint64_t blocks : {1000U, 10000U, 50000U, 100000U}) {
    BlockTable table;
    for (uint64_t i = 1; i <= blocks; ++i) {
      put(table, i * 512, 1);
    }
    CHECK(static_cast<double>(table.hostBytes()) / static_cast<double>(blocks) <= 136.0);
  }
}
