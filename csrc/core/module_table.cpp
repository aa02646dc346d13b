#include "core/module_table.h"

#include "core/block_table.h"

namespace leakguard {

ModuleTable::ModuleTable(size_t capacity) : mask_(capacity - 1), slots_(new Slot[capacity]) {}

size_t ModuleTable::slotOf(uint64_t address) const noexcept {
  size_t at = mixBits(address >> 4) & mask_;
  for (;;) { // ends: never more than half full
    const uint64_t seen = slots_[at].address.load(std::memory_order_acquire);
    if (seen == address || seen == 0) {
      return at;
    }
    at = (at + 1) & mask_;
  }
}

bool ModuleTable::put(uint64_t address, uint32_t name) noexcept {
  const std::lock_guard guard(writers_);
  Slot& slot = slots_[slotOf(address)];
  if (slot.address.load(std::memory_order_relaxed) == 0) {
    if ((used_ + 1) * 2 > mask_ + 1) {
      return false;
    }
    ++used_;
    slot.name.store(uint64_t{name} + 1, std::memory_order_relaxed);
    slot.address.store(address, std::memory_order_release);
    return true;
  }
  slot.name.store(uint64_t{name} + 1, std::memory_order_relaxed);
  return true;
}

void ModuleTable::drop(uint64_t address) noexcept {
  const std::lock_guard guard(writers_);
  slots_[slotOf(address)].name.store(0, std::memory_order_relaxed);
}

void ModuleTable::clear() noexcept {
  const std::lock_guard guard(writers_);
  for (size_t i = 0; i <= mask_; ++i) {
    slots_[i].name.store(0, std::memory_order_relaxed);
  }
}

ModuleTable::Found ModuleTable::find(uint64_t address) const noexcept {
  const Slot& slot = slots_[slotOf(address)];
  if (slot.address.load(std::memory_order_acquire) != address) { // free, or taken for another address since
    return {false, 0};
  }
  const uint64_t name = slot.name.load(std::memory_order_relaxed);
  return {name != 0, name != 0 ? static_cast<uint32_t>(name - 1) : 0};
}

ModuleTable& modules() {
  static auto* table = new ModuleTable;
  return *table;
}

} // namespace leakguard
