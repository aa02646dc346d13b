#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace leakguard {

// Plain values: what keeps one tensor's memory alive. Nothing in here refers to a live object.

// One reference on the way from a root to the memory.
struct HolderLink {
  std::string edge; // kind of reference, in a report's words
  std::string name; // bare identifier as the user wrote it; empty for an index
  std::string type; // type of the object the reference leads to
  std::string detail; // what tells this one from others of its type: "38 items", "[64, 10] float32"
  std::string file; // where the name is bound, if that is known
  int line = 0; // 1-based; 0: not known
  std::uint32_t count = 1; // how many like references in a row this one stands for
};

// A container that can grow, as it declares itself.
struct HolderContainer {
  std::string type;
  std::int64_t length = 0;
  std::optional<std::int64_t> limit; // deque(maxlen=...), lru_cache(maxsize=...), queue.Queue(maxsize=...)
};

enum class HolderStatus : std::uint8_t {
  Rooted, // reached from a root with a name
  Native, // reached only from an object that C or C++ code holds
  Garbage, // reached from no root: a cycle
  Own, // reached only from the asker's own frames
  NotFound, // no Python object and no autograd node leads to it
};
const char* wordOf(HolderStatus status) noexcept;

struct HolderRoot {
  std::string kind; // "module global", "local", "temporary", "native reference", "garbage cycle", ...
  std::string text; // one phrase: "local 'total' in main() at train.py:31"
  std::string name; // the global's or local's
  std::string module; // of a module global
  std::string function; // of a local
  std::string file;
  int line = 0;
  std::string thread; // name of another thread, empty for the asker's own
};

struct OwnerChain {
  HolderRoot root;
  std::vector<HolderLink> links;
  std::size_t holder = 0; // index in links: what would have to let go
  std::optional<HolderContainer> container; // the holder, when it is one
  bool owner_resets = false; // the object whose attribute the holder is has methods update and reset
  std::uint64_t retained_bytes = 0; // storage bytes that only this holder keeps
};

struct GarbageVerdict {
  std::size_t cycle_links = 0; // how many of the chain's links are the cycle itself
  std::optional<bool> collectable; // whether a collection of that generation frees it; nothing: not known
  int generation = -1; // oldest on the cycle: 0, 1, 2; 3 after gc.freeze(); -1: none is tracked
};

struct ExampleTensor {
  std::vector<std::int64_t> shape;
  std::string dtype;
  bool requires_grad = false;
};

struct SuspectHolders {
  HolderStatus status = HolderStatus::NotFound;
  OwnerChain chain;
  std::vector<OwnerChain> other_owners; // each keeps the suspect alive without the first
  std::uint64_t all_owners_bytes = 0; // freed if every owner named here lets go
  std::optional<GarbageVerdict> garbage;
  std::optional<ExampleTensor> example;
};

struct WalkStatistics {
  std::size_t nodes = 0;
  std::size_t edges = 0;
  std::size_t native_roots = 0;
  std::size_t unreached = 0;
  std::size_t overshown = 0; // must be 0: more references found than counted
  std::size_t unsteady = 0; // changed by another thread meanwhile
  std::size_t memory_bytes = 0;
  double walk_seconds = 0; // the GIL was held for both
  double search_seconds = 0;
  bool collector_enabled = true;
  std::vector<std::string> overshown_types;
};

struct HolderReport {
  std::vector<SuspectHolders> suspects; // in the order asked
  WalkStatistics statistics;
};

} // namespace leakguard
