#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "core/visibility.h"

namespace leakguard {

// Path of a module by its bare address. Looked up in the allocator's path without a lock; entries come and go at safe
// points. An address whose module died keeps its place with no name, so that a reader never meets a moved entry; when
// the table is half full no more are taken: no path rather than a wrong one.
class LEAKGUARD_API ModuleTable {
 public:
  explicit ModuleTable(size_t capacity = size_t{1} << 16); // a power of two
  bool put(uint64_t address, uint32_t name) noexcept; // name: index in moduleNames()
  void drop(uint64_t address) noexcept;
  void clear() noexcept;

  struct Found {
    bool known = false; // registered and alive
    uint32_t name = 0;
  };
  Found find(uint64_t address) const noexcept;

 private:
  struct Slot {
    std::atomic<uint64_t> address{0};
    std::atomic<uint64_t> name{0}; // 0 = dead, else name + 1
  };
  size_t slotOf(uint64_t address) const noexcept;

  const size_t mask_;
  std::unique_ptr<Slot[]> slots_; // NOLINT(modernize-avoid-c-arrays): fixed size, atomics cannot be moved
  std::mutex writers_;
  size_t used_ = 0;
};

LEAKGUARD_API ModuleTable& modules();

} // namespace leakguard
