#include "core/site_groups.h"

#include <mutex>
#include <new>

#include "core/block_table.h"

namespace leakguard {
namespace {

uint64_t hashOf(const GroupKey& key) noexcept {
  const uint64_t rest = static_cast<uint64_t>(key.device) | static_cast<uint64_t>(key.phase) << 8 |
      static_cast<uint64_t>(key.flags) << 16 | static_cast<uint64_t>(key.forwardLine) << 32;
  const uint64_t lines = static_cast<uint64_t>(key.line) << 32 | key.via;
  const uint64_t mixed = scatterBits(lines + 1) ^ (rest + 1) * 0xd6e8feb86659fd93ULL;
  return scatterBits(mixed ^ mixed >> 32);
}

uint32_t tagOf(uint64_t hash) noexcept {
  const auto tag = static_cast<uint32_t>(hash >> 32);
  return tag != 0 ? tag : 1;
}

constexpr uint32_t kNone = ~0U;
constexpr uint32_t kProbes = 64;

} // namespace

SiteGroups::SiteGroups()
    : slots_(new Slots{kFirstSlots - 1, std::make_unique<Slot[]>(kFirstSlots), nullptr}) { // NOLINT: as in the header
  append(GroupKey{}, hashOf(GroupKey{})); // group 0: unknown, and everything once the table is full
}

SiteGroups::~SiteGroups() {
  for (auto& chunk : chunks_) {
    delete chunk.load();
  }
  delete slots_.load();
}

uint32_t SiteGroups::lookUp(const GroupKey& key, uint64_t hash, Slot** empty) const noexcept {
  const uint32_t tag = tagOf(hash);
  const Slots& slots = *slots_.load(std::memory_order_acquire);
  for (uint32_t probe = 0; probe < kProbes; ++probe) {
    Slot& slot = slots[hash + probe];
    const uint32_t seen = slot.tag.load(std::memory_order_acquire);
    if (seen == 0) {
      if (empty != nullptr) {
        *empty = &slot;
      }
      return kNone;
    }
    if (seen == tag) {
      const uint32_t candidate = slot.group.load(std::memory_order_relaxed);
      if (group(candidate).key == key) {
        return candidate;
      }
    }
  }
  return kNone;
}

uint32_t SiteGroups::groupFor(const GroupKey& key) noexcept {
  const uint64_t hash = hashOf(key);
  const uint32_t known = lookUp(key, hash);
  return known != kNone ? known : append(key, hash);
}

void SiteGroups::widen() noexcept {
  Slots* present = slots_.load(std::memory_order_relaxed);
  const uint32_t capacity = (present->mask + 1) * 2;
  std::unique_ptr<Slot[]> at(new (std::nothrow) Slot[capacity]); // NOLINT: as in the header
  std::unique_ptr<Slots> wider(at ? new (std::nothrow) Slots{capacity - 1, std::move(at), nullptr} : nullptr);
  if (wider == nullptr) {
    return; // the present one goes on until its probes end nowhere
  }
  for (uint32_t index = 0; index < size_.load(std::memory_order_relaxed); ++index) {
    const uint64_t hash = hashOf(group(index).key);
    uint64_t place = hash;
    while ((*wider)[place].tag.load(std::memory_order_relaxed) != 0) {
      ++place;
    }
    (*wider)[place].group.store(index, std::memory_order_relaxed);
    (*wider)[place].tag.store(tagOf(hash), std::memory_order_relaxed);
  }
  wider->former.reset(present);
  slots_.store(wider.release(), std::memory_order_release);
}

uint32_t SiteGroups::append(const GroupKey& key, uint64_t hash) noexcept {
  const std::lock_guard guard(appendLock_);
  const uint32_t index = size_.load(std::memory_order_relaxed);
  if (index * 2 > slots_.load(std::memory_order_relaxed)->mask && index < kMost) {
    widen();
  }
  Slot* slot = nullptr;
  if (const uint32_t known = lookUp(key, hash, &slot); known != kNone) {
    return known; // another thread was first
  }
  if (slot == nullptr || index >= kMost) {
    return 0;
  }
  std::atomic<Chunk*>& chunk = chunks_[index / kChunk];
  if (chunk.load(std::memory_order_relaxed) == nullptr) {
    auto* fresh = new (std::nothrow) Chunk;
    if (fresh == nullptr) {
      return 0;
    }
    chunk.store(fresh, std::memory_order_release);
  }
  group(index).key = key;
  size_.store(index + 1, std::memory_order_release);
  slot->group.store(index, std::memory_order_relaxed);
  slot->tag.store(tagOf(hash), std::memory_order_release);
  return index;
}

uint32_t SiteGroups::born(uint32_t index, uint32_t step, int64_t bytes, uint32_t module, uint32_t node) noexcept {
  Group& into = group(index);
  const std::lock_guard guard(into.lock);
  if (module != 0) {
    into.module.store(module, std::memory_order_relaxed);
  }
  if (node != 0) {
    into.node.store(node, std::memory_order_relaxed);
  }
  into.blocks.add(1);
  into.bytes.add(bytes);
  return into.births.add(step, bytes);
}

void SiteGroups::died(uint32_t index, uint32_t birthStep, int64_t bytes) noexcept {
  Group& from = group(index);
  const std::lock_guard guard(from.lock);
  from.births.remove(birthStep, bytes);
  from.blocks.add(-1);
  from.bytes.add(-bytes);
}

GroupKey SiteGroups::key(uint32_t index) const noexcept {
  return index < size() ? group(index).key : GroupKey{};
}

uint32_t SiteGroups::module(uint32_t index) const noexcept {
  return index < size() ? group(index).module.load(std::memory_order_relaxed) : 0;
}

uint32_t SiteGroups::node(uint32_t index) const noexcept {
  return index < size() ? group(index).node.load(std::memory_order_relaxed) : 0;
}

std::vector<BirthWindow> SiteGroups::windows(uint32_t index) const {
  std::vector<BirthWindow> copy;
  if (index >= size()) {
    return copy;
  }
  copy.reserve(BirthWindows::kMost); // before the lock: nothing allocates under it
  const Group& from = group(index);
  const std::lock_guard guard(from.lock);
  for (const BirthWindow& window : from.births.windows()) {
    if (window.blocks != 0) {
      copy.push_back(window);
    }
  }
  return copy;
}

void SiteGroups::copyCounts(std::vector<LiveCount>& counts) const {
  const uint32_t size = this->size();
  counts.resize(size);
  for (uint32_t base = 0; base < size; base += kChunk) {
    const Chunk& chunk = *chunks_[base / kChunk].load(std::memory_order_acquire);
    const uint32_t here = size - base < kChunk ? size - base : kChunk;
    for (uint32_t i = 0; i < here; ++i) {
      counts[base + i] = {chunk[i].blocks.value(), chunk[i].bytes.value()};
    }
  }
}

size_t SiteGroups::hostBytes() const noexcept {
  const uint32_t chunks = (size() + kChunk - 1) / kChunk;
  const size_t slots = size_t{2} * (slots_.load(std::memory_order_acquire)->mask + 1) - kFirstSlots; // former ones too
  return slots * sizeof(Slot) + chunks * sizeof(Chunk) + size() * size_t{4} * sizeof(BirthWindow);
}

} // namespace leakguard
