#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/block.h"
#include "core/visibility.h"

namespace leakguard {

// The live blocks of one shard, by address: open addressing with linear probing and backward-shift deletion over 8-byte
// slots, records in a chunked slab that is reused. Memory follows the most blocks that were ever live at once.
//
// Not thread-safe: the shard's lock is held around every call. Records move never; a reference is good until the block
// is erased. Throws std::bad_alloc when a chunk or the slots cannot grow; the table is unchanged then.
class BlockTable {
 public:
  struct Inserted {
    Block& block; // uninitialised but for its address when `fresh`
    bool fresh; // false: the address was already there, the old record is returned
  };

  BlockTable() = default;
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;
  ~BlockTable();

  Inserted insert(uint64_t address);
  Block* find(uint64_t address) noexcept;
  // Copies the record to `out` and removes it; false when the address is not there.
  bool erase(uint64_t address, Block& out) noexcept;

  size_t size() const noexcept {
    return count_;
  }
  size_t hostBytes() const noexcept;

  template <class Visitor>
  void forEach(Visitor visit) const {
    for (uint32_t index = 0; index < used_; ++index) { // slab order: sequential reads
      const Block& block = chunks_[index / kChunk][index % kChunk];
      if (block.state != BlockState::Free) {
        visit(block);
      }
    }
  }

 private:
  static constexpr uint32_t kChunk = 32;
  struct Slot {
    uint32_t record; // index + 1; 0 = empty
    uint32_t hash;
  };

  Block& record(uint32_t index) noexcept {
    return chunks_[index / kChunk][index % kChunk];
  }
  static uint32_t hashOf(uint64_t address) noexcept;
  uint32_t slotOf(uint64_t address, uint32_t hash) noexcept; // the slot that holds it, or the empty one it would take
  LEAKGUARD_SELDOM void grow();
  LEAKGUARD_SELDOM void addChunk();
  uint32_t takeRecord();

  Slot* slots_ = nullptr;
  uint32_t mask_ = 0;
  uint32_t count_ = 0;
  std::vector<Block*> chunks_;
  uint32_t used_ = 0; // records ever taken
  uint32_t freeRecord_ = 0; // index + 1 of the first free record; the next one stands in its `group`
};

// Spreads the bits of a key over all of the result.
constexpr uint64_t mixBits(uint64_t x) noexcept {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ULL;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ULL;
  x ^= x >> 32;
  return x;
}

// For a key whose bits need not all reach all of the result: one multiplication. Its upper bits are the well mixed
// ones.
constexpr uint64_t scatterBits(uint64_t x) noexcept {
  return x * 0x9e3779b97f4a7c15ULL;
}

} // namespace leakguard
