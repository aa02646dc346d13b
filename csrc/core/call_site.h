#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/visibility.h"

namespace leakguard {

// A place in a program's text. Columns are UTF-8 byte offsets as CPython reports them (PEP 657), -1 where unknown.
struct Line {
  std::string file;
  std::string function; // qualified name
  int line = 0;
  int endLine = 0;
  int column = -1;
  int endColumn = -1;
  bool operator==(const Line&) const = default;
};

// Places seen so far. Append-only: an id stays good for ever, equal places share one id, and the table owns its
// strings, so no code object is kept alive. Capped, because generated code can make a new place for every call; id 0 is
// "unknown" and is what is given once the table is full. Thread-safe; the lock is a leaf.
class LEAKGUARD_API LineTable {
 public:
  explicit LineTable(size_t capacity = size_t{1} << 16);

  uint32_t intern(const Line& line) noexcept;
  Line at(uint32_t id) const; // a copy; the unknown line for ids never given
  size_t size() const noexcept;
  uint64_t refused() const noexcept; // places not taken because the table was full

 private:
  mutable std::mutex mutex_;
  const size_t capacity_;
  std::unordered_map<std::string, uint32_t> byText_;
  std::deque<Line> lines_;
  uint64_t refused_ = 0;
};

// Names of modules, operators, autograd nodes: the same contract.
class LEAKGUARD_API NameTable {
 public:
  explicit NameTable(size_t capacity = size_t{1} << 16);

  uint32_t intern(std::string_view name) noexcept;
  std::string at(uint32_t id) const; // "" for id 0 and ids never given
  size_t size() const noexcept;

 private:
  mutable std::mutex mutex_;
  const size_t capacity_;
  std::unordered_map<std::string, uint32_t> ids_;
  std::deque<std::string> names_;
};

// The tables of this process. Immortal.
LEAKGUARD_API LineTable& lines();
LEAKGUARD_API NameTable& moduleNames();
LEAKGUARD_API NameTable& nodeNames();

} // namespace leakguard
