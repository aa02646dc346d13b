#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace leakguard {

using NodeId = std::uint32_t;
inline constexpr NodeId kNoNode = 0xffffffffu;

// Numbers addresses densely in the order they are first seen. Open addressing at 12 bytes a slot: a walk of a million
// objects makes several million look-ups, and each is one cache miss at best. Not thread-safe. Null is no address.
class AddressTable {
 public:
  AddressTable() {
    rehash(1u << 12);
  }

  NodeId find(const void* address) const noexcept {
    for (std::size_t i = home(address);; i = (i + 1) & mask_) {
      if (slots_[i].address == address) {
        return slots_[i].id;
      }
      if (slots_[i].address == nullptr) {
        return kNoNode;
      }
    }
  }

  // The number of address; next if it is new.
  NodeId insert(const void* address, NodeId next) {
    std::size_t i = home(address);
    for (; slots_[i].address != nullptr; i = (i + 1) & mask_) {
      if (slots_[i].address == address) {
        return slots_[i].id;
      }
    }
    slots_[i] = {address, next};
    if (++used_ * 10 > slots_.size() * 7) {
      rehash(slots_.size() * 2);
    }
    return next;
  }

  void reserve(std::size_t addresses) {
    std::size_t capacity = slots_.size();
    while (addresses * 10 > capacity * 7) {
      capacity *= 2;
    }
    if (capacity != slots_.size()) {
      rehash(capacity);
    }
  }

  void prefetch(const void* address) const noexcept {
    __builtin_prefetch(&slots_[home(address)]);
  }
  std::size_t memoryBytes() const noexcept {
    return slots_.capacity() * sizeof(Slot);
  }

 private:
  struct __attribute__((packed, aligned(4))) Slot {
    const void* address;
    NodeId id;
  };

  std::size_t home(const void* address) const noexcept {
    return static_cast<std::size_t>((reinterpret_cast<std::uintptr_t>(address) >> 4) * 0x9E3779B97F4A7C15ull >> shift_);
  }

  void rehash(std::size_t capacity) {
    std::vector<Slot> old(capacity, Slot{nullptr, 0});
    old.swap(slots_);
    mask_ = capacity - 1;
    shift_ = 64 - std::countr_zero(capacity);
    for (const Slot& slot : old) {
      if (slot.address == nullptr) {
        continue;
      }
      std::size_t i = home(slot.address);
      while (slots_[i].address != nullptr) {
        i = (i + 1) & mask_;
      }
      slots_[i] = slot;
    }
  }

  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
  std::size_t used_ = 0;
  int shift_ = 0;
};

} // namespace leakguard
