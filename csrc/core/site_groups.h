#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/birth_windows.h"
#include "core/block.h"
#include "core/shared_count.h"
#include "core/spin_lock.h"
#include "core/visibility.h"

namespace leakguard {

// What makes two blocks siblings: same device, phase, lines. Module and node are no part of it.
struct GroupKey {
  uint32_t line = 0;
  uint32_t via = 0;
  uint32_t forwardLine = 0;
  DeviceKey device = DeviceKey::Cpu;
  Phase phase = Phase::Other;
  uint8_t flags = 0; // block_flag::kUserLineInBackward, kRaw, kReplay, kSeeded, kPrivatePool
  bool operator==(const GroupKey&) const = default;
};

struct LiveCount {
  int64_t blocks = 0;
  int64_t bytes = 0;
  bool operator==(const LiveCount&) const = default;
};

// Live blocks and bytes of each group, kept as they come and go, so that a step mark copies groups and never looks at
// events. Append-only and capped: group 0 takes what comes once it is full. Thread-safe; each group has a leaf lock.
class LEAKGUARD_API SiteGroups {
 public:
  static constexpr uint32_t kMost = 1U << 15;

  SiteGroups();
  SiteGroups(const SiteGroups&) = delete;
  SiteGroups& operator=(const SiteGroups&) = delete;
  ~SiteGroups();

  uint32_t groupFor(const GroupKey& key) noexcept;
  // Returns the step it was counted in. Module and node (0 = none) are kept as the group's latest.
  uint32_t born(uint32_t group, uint32_t step, int64_t bytes, uint32_t module = 0, uint32_t node = 0) noexcept;
  void died(uint32_t group, uint32_t birthStep, int64_t bytes) noexcept;

  uint32_t size() const noexcept {
    return size_.load(std::memory_order_acquire);
  }
  GroupKey key(uint32_t group) const noexcept;
  uint32_t module(uint32_t group) const noexcept; // module of the group's latest birth, 0 = none
  uint32_t node(uint32_t group) const noexcept;
  std::vector<BirthWindow> windows(uint32_t group) const; // a copy, empty windows left out

  // Copies the counts of all groups; `counts` is resized to size().
  void copyCounts(std::vector<LiveCount>& counts) const;
  size_t hostBytes() const noexcept;

 private:
  static constexpr uint32_t kChunk = 256;
  static constexpr uint32_t kFirstSlots = 1024;
  struct alignas(64) Group { // one cache line: a birth or a death touches no more of it
    GroupKey key;
    mutable SpinLock lock;
    std::atomic<uint32_t> module{0};
    std::atomic<uint32_t> node{0};
    SharedCount blocks; // changed under the lock, like the windows
    SharedCount bytes;
    BirthWindows births;
  };
  static_assert(sizeof(Group) == 64);
  using Chunk = std::array<Group, kChunk>;
  struct Slot {
    std::atomic<uint32_t> tag{0}; // 0 = empty; never changes again
    std::atomic<uint32_t> group{0};
  };

  // Groups by key. A table that is half full is followed by one of twice the size and stays where it is: readers hold
  // no lock, and one that misses a new group in an old table asks append.
  struct Slots {
    uint32_t mask;
    std::unique_ptr<Slot[]> at; // NOLINT(modernize-avoid-c-arrays): fixed size, atomics cannot be moved
    std::unique_ptr<Slots> former;
    Slot& operator[](uint64_t hash) const noexcept {
      return at[static_cast<uint32_t>(hash) & mask];
    }
  };

  Group& group(uint32_t index) const noexcept {
    return (*chunks_[index / kChunk].load(std::memory_order_acquire))[index % kChunk];
  }
  uint32_t lookUp(const GroupKey& key, uint64_t hash, Slot** empty = nullptr) const noexcept;
  void widen() noexcept;
  LEAKGUARD_SELDOM uint32_t append(const GroupKey& key, uint64_t hash) noexcept;

  std::array<std::atomic<Chunk*>, kMost / kChunk> chunks_{};
  std::atomic<uint32_t> size_{0};
  std::atomic<Slots*> slots_; // the newest table
  SpinLock appendLock_;
};

} // namespace leakguard
