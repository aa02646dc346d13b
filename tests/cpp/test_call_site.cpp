// Places and names: one id for equal places, for ever, up to the cap.
#include <thread>

#include "catch.h"
#include "core/call_site.h"

using namespace leakguard;

namespace {

Line line(int number, int column = 4) {
  return {"train.py", "main", number, number, column, column + 10};
}

} // namespace

TEST_CASE("equal places share an id, and any difference makes another") {
  LineTable table;
  const Line base{"train.py", "main", 3, 4, 8, 20};
  const uint32_t id = table.intern(base);
  CHECK(id == 1);
  CHECK(table.intern(base) == id);
  CHECK(table.at(id) == base);
  Line other = base;
  other.file = "eval.py";
  CHECK(table.intern(other) == 2);
  other = base;
  other.function = "main.<locals>.step";
  CHECK(table.intern(other) == 3);
  other = base;
  other.column = 9;
  CHECK(table.intern(other) == 4);
  other = base;
  other.endLine = 5;
  CHECK(table.intern(other) == 5);
  CHECK(table.size() == 5);
}

TEST_CASE("names that run into each other are different places") {
  LineTable table;
  CHECK(table.intern({"a", "bc", 1, 1, 0, 0}) != table.intern({"ab", "c", 1, 1, 0, 0}));
  CHECK(table.intern({"a", "b", 1, 12, 0, 0}) != table.intern({"a", "b", 11, 2, 0, 0}));
}

TEST_CASE("the unknown place is id 0, and so are ids never given") {
  const LineTable table;
  CHECK(table.at(0) == Line{});
  CHECK(table.at(12345) == Line{});
  CHECK(table.size() == 0);
}

TEST_CASE("a full table refuses new places, counts them, and keeps the old ones") {
  LineTable table(100);
  for (int number = 1; number <= 99; ++number) {
    CHECK(table.intern(line(number)) == static_cast<uint32_t>(number));
  }
  CHECK(table.refused() == 0);
  CHECK(table.intern(line(100)) == 0);
  CHECK(table.intern(line(101)) == 0);
  CHECK(table.refused() == 2);
  CHECK(table.intern(line(50)) == 50);
  CHECK(table.at(99) == line(99));
}

TEST_CASE("a full name table gives the nameless id") {
  NameTable table(3);
  CHECK(table.intern("AddmmBackward0") == 1);
  CHECK(table.intern("MulBackward0") == 2);
  CHECK(table.intern("DivBackward0") == 0);
  CHECK(table.intern("MulBackward0") == 2);
  CHECK(table.at(1) == "AddmmBackward0");
  CHECK(table.at(0).empty());
  CHECK(table.at(3).empty());
  CHECK(table.size() == 2);
}

TEST_CASE("threads that meet places at once agree on their ids") {
  LineTable table;
  constexpr int kThreads = 4;
  constexpr int kPlaces = 2000;
  std::vector<std::vector<uint32_t>> seen(kThreads, std::vector<uint32_t>(kPlaces));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kPlaces; ++i) {
        const int number = (i + t * 500) % kPlaces;
        seen[static_cast<size_t>(t)][static_cast<size_t>(number)] = table.intern(line(number));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(table.size() == kPlaces);
  for (int number = 0; number < kPlaces; ++number) {
    for (const auto& ids : seen) {
      REQUIRE(ids[static_cast<size_t>(number)] == seen[0][static_cast<size_t>(number)]);
    }
    REQUIRE(table.at(seen[0][static_cast<size_t>(number)]).line == number);
  }
}
