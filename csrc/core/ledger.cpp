#include "core/ledger.h"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

namespace leakguard {

// A peak is a value that a death follows, and a trough one that a birth follows: where blocks come one after another
// there is nothing to record, and the latest value is looked at by whoever asks for the range.
void Ledger::shift(Totals& totals, int64_t bytes) noexcept {
  const int64_t before = totals.liveBytes.fetch_add(bytes, std::memory_order_relaxed);
  std::atomic<int64_t>& extreme = bytes >= 0 ? totals.trough : totals.peak;
  int64_t seen = extreme.load(std::memory_order_relaxed);
  while ((bytes >= 0 ? before < seen : before > seen) &&
         !extreme.compare_exchange_weak(seen, before, std::memory_order_relaxed)) {
  }
}

void Ledger::born(
    DeviceKey device,
    uint64_t address,
    uint64_t requested,
    const Context& context,
    uint32_t stream,
    uint16_t pool) noexcept {
  constexpr uint8_t kOfKey = block_flag::kUserLineInBackward | block_flag::kRaw | block_flag::kReplay |
      block_flag::kSeeded | block_flag::kPrivatePool;
  GroupKey key{context.line, context.via, context.forwardLine, device, context.phase, uint8_t(context.flags & kOfKey)};
  Shard& shard = shardOf(device, address);
  // Locked instructions keep later loads waiting: what is needed behind them is asked for before.
  __builtin_prefetch(&shard, 1);
  __builtin_prefetch(&shard.sums[column(device)], 1);
  __builtin_prefetch(&totals_[indexOf(device)], 1);
  const uint32_t group = groups_.groupFor(key);
  const uint32_t counted = groups_.born(group, step(), static_cast<int64_t>(requested), context.module, context.node);

  Block old{};
  uint64_t birth = 0;
  bool dropped = false;
  {
    const std::lock_guard guard(shard.lock);
    try {
      const auto [block, fresh] = shard.blocks.insert(address);
      if (!fresh) {
        old = block;
        leave(shard, old);
        ++shard.replaced;
      }
      block.requested = requested;
      block.birth = birth = ++shard.births;
      block.step = counted;
      block.group = group;
      block.module = context.module;
      block.node = context.node;
      block.stream = stream;
      block.thread = context.thread;
      block.pool = pool;
      block.device = device;
      block.state = BlockState::Live;
      block.flags = context.flags;
      Sums& sums = shard.sums[column(device)];
      sums.bornBlocks.add(1);
      sums.bornBytes.add(static_cast<int64_t>(requested));
      sums.liveBlocks.add(1);
      shard.unknownBirths += (context.flags & block_flag::kSeeded) != 0 ? 1 : 0;
    } catch (const std::exception&) {
      ++shard.dropped;
      dropped = true;
    }
  }
  if (dropped) {
    groups_.died(group, counted, static_cast<int64_t>(requested));
    return;
  }
  if (old.state != BlockState::Free) {
    forget(old);
  }
  if (record_.on()) [[unlikely]] {
    Block made{};
    made.address = address;
    made.requested = requested;
    made.birth = birth;
    made.step = counted;
    made.group = group;
    made.module = context.module;
    made.node = context.node;
    made.stream = stream;
    made.thread = context.thread;
    made.pool = pool;
    made.device = device;
    made.flags = context.flags;
    record_.add(made, BlockState::Live);
  }
  Totals& totals = totals_[indexOf(device)];
  if (!totals.seen.load(std::memory_order_relaxed)) {
    totals.seen.store(true, std::memory_order_relaxed);
    seen_[indexOf(device)].store(true, std::memory_order_relaxed);
  }
  shift(totals, static_cast<int64_t>(requested));
}

void Ledger::leave(Shard& shard, const Block& block) noexcept {
  Sums& sums = shard.sums[column(block.device)];
  if (block.state == BlockState::PendingFree) {
    sums.pendingBlocks.add(-1);
    sums.pendingBytes.add(-static_cast<int64_t>(block.requested));
  } else {
    sums.liveBlocks.add(-1);
  }
}

void Ledger::forget(const Block& block) noexcept {
  if (block.state == BlockState::PendingFree) {
    return; // since its free was requested
  }
  if (record_.on()) [[unlikely]] {
    record_.add(block, BlockState::Free);
  }
  const auto bytes = static_cast<int64_t>(block.requested);
  groups_.died(block.group, block.step, bytes);
  shift(totals_[indexOf(block.device)], -bytes);
}

void Ledger::freeRequested(DeviceKey device, uint64_t address) noexcept {
  Shard& shard = shardOf(device, address);
  Block asked{};
  {
    const std::lock_guard guard(shard.lock);
    Block* block = shard.blocks.find(address);
    if (block == nullptr || block->state == BlockState::PendingFree) {
      return;
    }
    asked = *block;
    leave(shard, asked);
    block->state = BlockState::PendingFree;
    Sums& sums = shard.sums[column(device)];
    sums.pendingBlocks.add(1);
    sums.pendingBytes.add(static_cast<int64_t>(asked.requested));
  }
  forget(asked);
}

bool Ledger::retired(DeviceKey device, uint64_t address) noexcept {
  Shard& shard = shardOf(device, address);
  Block dead{};
  {
    const std::lock_guard guard(shard.lock);
    if (!shard.blocks.erase(address, dead)) {
      return false;
    }
    leave(shard, dead);
  }
  forget(dead);
  return true;
}

DeviceCounts Ledger::counts(DeviceKey device) const noexcept {
  DeviceCounts counts;
  counts.liveBytes = totals_[indexOf(device)].liveBytes.load(std::memory_order_relaxed);
  const bool cuda = isCuda(device);
  const int first = cuda ? indexOf(device) : kCudaDevices;
  const int last = cuda ? first + 1 : kCudaDevices + kHostShards;
  for (int i = first; i < last; ++i) {
    const Sums& sums = shards_[i].sums[column(device)];
    counts.liveBlocks += sums.liveBlocks.value();
    counts.pendingBlocks += sums.pendingBlocks.value();
    counts.pendingBytes += sums.pendingBytes.value();
    counts.bornBlocks += static_cast<uint64_t>(sums.bornBlocks.value());
    counts.bornBytes += static_cast<uint64_t>(sums.bornBytes.value());
  }
  return counts;
}

Ledger::Range Ledger::takeRange(DeviceKey device) noexcept {
  Totals& totals = totals_[indexOf(device)];
  const int64_t now = totals.liveBytes.load(std::memory_order_relaxed);
  const Range range{
      totals.trough.exchange(now, std::memory_order_relaxed), totals.peak.exchange(now, std::memory_order_relaxed)};
  return {range.trough < now ? range.trough : now, range.peak > now ? range.peak : now};
}

Ledger::Range Ledger::range(DeviceKey device) const noexcept {
  const Totals& totals = totals_[indexOf(device)];
  const int64_t now = totals.liveBytes.load(std::memory_order_relaxed);
  return {
      std::min(totals.trough.load(std::memory_order_relaxed), now),
      std::max(totals.peak.load(std::memory_order_relaxed), now)};
}

BirthMark Ledger::birthMark() const noexcept {
  BirthMark mark;
  for (int i = 0; i < kShards; ++i) {
    const std::lock_guard guard(shards_[i].lock);
    mark.births[i] = shards_[i].births;
  }
  return mark;
}

std::vector<SurvivingGroup> Ledger::survivors(std::span<const BirthMark> marks) const {
  std::map<std::pair<uint32_t, uint32_t>, LiveCount> found;
  if (marks.empty()) {
    return {};
  }
  for (const Block& block : snapshot().blocks) {
    const int shard = shardIndex(block.device, block.address);
    if (block.state != BlockState::Live || block.birth <= marks.front().births[shard]) {
      continue;
    }
    const auto after = std::partition_point(
        marks.begin(), marks.end(), [&](const BirthMark& mark) { return mark.births[shard] < block.birth; });
    LiveCount& live = found[{static_cast<uint32_t>(after - marks.begin() - 1), block.group}];
    ++live.blocks;
    live.bytes += static_cast<int64_t>(block.requested);
  }
  std::vector<SurvivingGroup> survivors;
  survivors.reserve(found.size());
  for (const auto& [key, live] : found) {
    survivors.push_back({key.first, key.second, live});
  }
  return survivors;
}

Snapshot Ledger::snapshot() const {
  Snapshot copy;
  copy.step = step();
  for (const Shard& shard : shards_) {
    // Room is made outside the lock; what was born in between is fetched by trying again.
    for (;;) {
      size_t wanted = 0;
      {
        const std::lock_guard guard(shard.lock);
        wanted = copy.blocks.size() + shard.blocks.size();
        if (wanted <= copy.blocks.capacity()) {
          shard.blocks.forEach([&](const Block& block) { copy.blocks.push_back(block); });
          break;
        }
      }
      copy.blocks.reserve(wanted + wanted / 4 + 16);
    }
  }
  return copy;
}

std::vector<Block> Ledger::sample(std::span<const uint32_t> groups, size_t most, const BirthMark* since) const {
  std::vector<Block> wanted;
  for (const Block& block : snapshot().blocks) {
    const bool recent = since == nullptr || block.birth > since->births[shardIndex(block.device, block.address)];
    if (block.state == BlockState::Live && recent && std::binary_search(groups.begin(), groups.end(), block.group)) {
      wanted.push_back(block);
    }
  }
  std::sort(wanted.begin(), wanted.end(), [](const Block& a, const Block& b) {
    return std::tie(a.group, a.step, a.birth) < std::tie(b.group, b.step, b.birth);
  });
  std::vector<Block> spread;
  for (auto begin = wanted.begin(); begin != wanted.end();) {
    const auto end = std::find_if(begin, wanted.end(), [&](const Block& block) { return block.group != begin->group; });
    const auto count = static_cast<size_t>(end - begin);
    const size_t taken = std::min(count, most);
    for (size_t i = 0; i < taken; ++i) {
      spread.push_back(begin[static_cast<std::ptrdiff_t>(taken == 1 ? 0 : i * (count - 1) / (taken - 1))]);
    }
    begin = end;
  }
  return spread;
}

LostCounts Ledger::lost() const noexcept {
  LostCounts lost;
  for (const Shard& shard : shards_) {
    const std::lock_guard guard(shard.lock);
    lost.droppedBirths += shard.dropped;
    lost.replacedBlocks += shard.replaced;
    lost.unknownBirths += shard.unknownBirths;
  }
  return lost;
}

size_t Ledger::hostBytes() const noexcept {
  size_t bytes = sizeof(Ledger) + groups_.hostBytes();
  for (const Shard& shard : shards_) {
    const std::lock_guard guard(shard.lock);
    bytes += shard.blocks.hostBytes();
  }
  return bytes;
}

namespace {

std::atomic<bool> watchingNow{false};
std::atomic<bool> aliveNow{true};

void silenceInChild() noexcept {
  watchingNow.store(false, std::memory_order_relaxed);
  aliveNow.store(false, std::memory_order_relaxed);
}

} // namespace

Ledger& ledger() {
  static auto* instance = [] {
    pthread_atfork(nullptr, nullptr, silenceInChild);
    return new Ledger;
  }();
  return *instance;
}

bool watching() noexcept {
  return watchingNow.load(std::memory_order_relaxed);
}

void setWatching(bool on) noexcept {
  watchingNow.store(on && alive(), std::memory_order_relaxed);
}

bool alive() noexcept {
  return aliveNow.load(std::memory_order_relaxed);
}

} // namespace leakguard
