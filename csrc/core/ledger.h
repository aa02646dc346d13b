#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/birth_mark.h"
#include "core/block.h"
#include "core/block_table.h"
#include "core/capture.h"
#include "core/event_record.h"
#include "core/shared_count.h"
#include "core/site_groups.h"
#include "core/snapshot.h"
#include "core/spin_lock.h"
#include "core/visibility.h"

namespace leakguard {

// Exactly the blocks that are live now, with what is known of their birth.
//
// Contract. After any sequence of events that an allocator may produce, for each device:
//   live blocks            == blocks handed out and not asked back       (allocation.all.current)
//   live + pending blocks  == blocks whose address is in use             (active.all.current)
//   sum of their requested == requested_bytes.all.current
// A block whose record could not be kept is counted in lost(), never silently missing.
//
// Threads. Every function may be called from any thread, with or without the GIL, under an allocator's lock or not. A
// shard's spin lock is held for the table, then a group's for its counts; both are leaves and never nested. CUDA
// devices have one shard each (events are serialised by the device's own mutex), host memory is striped by address.
//
// The caller reports a birth after the allocator has handed the address out and a death before it takes it back, so an
// address never has two lives at once.
class LEAKGUARD_API Ledger {
 public:
  Ledger() = default;
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // Brings what born() will touch into the cache. Worth it before the context is captured: a training step's kernels
  // have driven it out.
  void prefetch(DeviceKey device, uint64_t address) const noexcept {
    const Shard& shard = shards_[shardIndex(device, address)];
    const auto* line = reinterpret_cast<const char*>(&shard);
    __builtin_prefetch(line, 1);
    __builtin_prefetch(line + 64, 1);
    __builtin_prefetch(&totals_[indexOf(device)], 1);
  }
  void born(
      DeviceKey device,
      uint64_t address,
      uint64_t requested,
      const Context& context,
      uint32_t stream = 0,
      uint16_t pool = 0) noexcept;
  // The owner let go, a stream may still use it. Unknown addresses are ignored.
  void freeRequested(DeviceKey device, uint64_t address) noexcept;
  // The address may be handed out again. Returns whether it was known (a block from before watching is not).
  bool retired(DeviceKey device, uint64_t address) noexcept;

  // Step that blocks born now belong to; begins at 0 and is raised by StepHistory::mark only.
  uint32_t step() const noexcept {
    return step_.load(std::memory_order_relaxed);
  }
  void setStep(uint32_t step) noexcept {
    step_.store(step, std::memory_order_relaxed);
  }

  bool seen(DeviceKey device) const noexcept { // a block was born on it
    return seen_[indexOf(device)].load(std::memory_order_relaxed);
  }
  DeviceCounts counts(DeviceKey device) const noexcept;
  // Highest and lowest live bytes of the device since the last call; the call starts a new period.
  struct Range {
    int64_t trough;
    int64_t peak;
  };
  Range takeRange(DeviceKey device) noexcept;
  Range range(DeviceKey device) const noexcept; // the same, and the period goes on

  BirthMark birthMark() const noexcept;
  // Live blocks born since the first of the marks (oldest first), by the mark they were born after and by group.
  std::vector<SurvivingGroup> survivors(std::span<const BirthMark> marks) const;

  Snapshot snapshot() const;
  // Live blocks of the given groups (ascending indices), at most `most` of each, spread over their births, oldest
  // first. With `since`, only of those born after it.
  std::vector<Block> sample(std::span<const uint32_t> groups, size_t most, const BirthMark* since = nullptr) const;
  LostCounts lost() const noexcept;
  size_t hostBytes() const noexcept; // of the tables

  EventRecord& record() noexcept {
    return record_;
  }
  SiteGroups& groups() noexcept {
    return groups_;
  }
  const SiteGroups& groups() const noexcept {
    return groups_;
  }

 private:
  struct Sums { // of one device in one shard
    SharedCount bornBlocks;
    SharedCount bornBytes;
    SharedCount liveBlocks;
    SharedCount pendingBlocks;
    SharedCount pendingBytes;
  };
  struct alignas(64) Shard {
    mutable SpinLock lock;
    BlockTable blocks;
    uint64_t births = 0;
    std::array<Sums, 2> sums; // CUDA: [0]; host: cpu, pinned
    uint64_t dropped = 0;
    uint64_t replaced = 0;
    uint64_t unknownBirths = 0;
  };
  // Live bytes are kept in one place, because their peak is a property of the whole device.
  struct alignas(64) Totals {
    std::atomic<int64_t> liveBytes{0};
    std::atomic<int64_t> peak{0};
    std::atomic<int64_t> trough{0};
    std::atomic<bool> seen{false}; // as in seen_, here so that a birth reads one line less
  };

  static int shardIndex(DeviceKey device, uint64_t address) noexcept {
    return isCuda(device) ? indexOf(device)
                          : kCudaDevices + static_cast<int>(scatterBits(address) >> (64 - kHostShardBits));
  }
  Shard& shardOf(DeviceKey device, uint64_t address) noexcept {
    return shards_[shardIndex(device, address)];
  }
  static int column(DeviceKey device) noexcept {
    return device == DeviceKey::Pinned ? 1 : 0;
  }
  static void leave(
      Shard& shard,
      const Block& block) noexcept; // takes a record out of the shard's sums, under its lock
  void forget(const Block& block) noexcept; // and out of those of its group and device, without it
  static void shift(Totals& totals, int64_t bytes) noexcept;

  std::array<Shard, kShards> shards_;
  std::array<Totals, kDevices> totals_;
  std::array<std::atomic<bool>, kDevices> seen_{}; // side by side: a mark asks for each device
  std::atomic<uint32_t> step_{0};
  EventRecord record_; // its flag beside the step, which a birth reads anyway
  SiteGroups groups_;
};

// The ledger of this process. Immortal: allocators are called after static destruction.
LEAKGUARD_API Ledger& ledger();

// Whether births are recorded now. Deaths of known blocks are recorded also when this is off.
LEAKGUARD_API bool watching() noexcept;
LEAKGUARD_API void setWatching(bool on) noexcept;
// False for ever in a forked child: the parent's locks may have been held at the fork, so nothing of ours is touched.
LEAKGUARD_API bool alive() noexcept;

} // namespace leakguard
