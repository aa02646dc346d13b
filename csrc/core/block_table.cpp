#include "core/block_table.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace leakguard {

BlockTable::~BlockTable() {
  std::free(slots_);
  for (Block* chunk : chunks_) {
    std::free(chunk);
  }
}

size_t BlockTable::hostBytes() const noexcept {
  const size_t slots = slots_ != nullptr ? (size_t{mask_} + 1) * sizeof(Slot) : 0;
  return slots + chunks_.size() * kChunk * sizeof(Block) + chunks_.capacity() * sizeof(Block*);
}

uint32_t BlockTable::takeRecord() {
  if (freeRecord_ != 0) {
    const uint32_t index = freeRecord_ - 1;
    freeRecord_ = record(index).group;
    return index;
  }
  if (used_ / kChunk == chunks_.size()) {
    addChunk();
  }
  return used_++;
}

void BlockTable::addChunk() {
  if (chunks_.size() == chunks_.capacity()) {
    chunks_.reserve(chunks_.empty() ? 4 : chunks_.size() * 2); // so that push_back below cannot throw
  }
  auto* chunk = static_cast<Block*>(std::calloc(kChunk, sizeof(Block)));
  if (chunk == nullptr) {
    throw std::bad_alloc();
  }
  chunks_.push_back(chunk);
}

uint32_t BlockTable::hashOf(uint64_t address) noexcept {
  return static_cast<uint32_t>(scatterBits(address) >> 32);
}

void BlockTable::grow() {
  const uint32_t capacity = slots_ != nullptr ? (mask_ + 1) * 2 : 32;
  auto* slots = static_cast<Slot*>(std::calloc(capacity, sizeof(Slot)));
  if (slots == nullptr) {
    throw std::bad_alloc();
  }
  const uint32_t mask = capacity - 1;
  if (slots_ != nullptr) {
    for (uint32_t i = 0; i <= mask_; ++i) {
      if (slots_[i].record != 0) {
        uint32_t at = slots_[i].hash & mask;
        while (slots[at].record != 0) {
          at = (at + 1) & mask;
        }
        slots[at] = slots_[i];
      }
    }
    std::free(slots_);
  }
  slots_ = slots;
  mask_ = mask;
}

uint32_t BlockTable::slotOf(uint64_t address, uint32_t hash) noexcept {
  uint32_t at = hash & mask_;
  while (slots_[at].record != 0 && (slots_[at].hash != hash || record(slots_[at].record - 1).address != address)) {
    at = (at + 1) & mask_;
  }
  return at;
}

BlockTable::Inserted BlockTable::insert(uint64_t address) {
  if (slots_ == nullptr || (uint64_t{count_} + 1) * 4 > (uint64_t{mask_} + 1) * 3) {
    grow();
  }
  const uint32_t hash = hashOf(address);
  const uint32_t at = slotOf(address, hash);
  if (slots_[at].record != 0) {
    return {record(slots_[at].record - 1), false};
  }
  const uint32_t index = takeRecord();
  slots_[at] = {index + 1, hash};
  ++count_;
  Block& block = record(index);
  block.address = address;
  return {block, true};
}

Block* BlockTable::find(uint64_t address) noexcept {
  if (slots_ == nullptr) {
    return nullptr;
  }
  const uint32_t at = slotOf(address, hashOf(address));
  return slots_[at].record != 0 ? &record(slots_[at].record - 1) : nullptr;
}

bool BlockTable::erase(uint64_t address, Block& out) noexcept {
  if (slots_ == nullptr) {
    return false;
  }
  uint32_t hole = slotOf(address, hashOf(address));
  if (slots_[hole].record == 0) {
    return false;
  }
  const uint32_t index = slots_[hole].record - 1;
  Block& dead = record(index);
  out = dead;
  dead.state = BlockState::Free;
  dead.group = freeRecord_;
  freeRecord_ = index + 1;
  --count_;
  for (uint32_t at = (hole + 1) & mask_; slots_[at].record != 0; at = (at + 1) & mask_) {
    const uint32_t home = slots_[at].hash & mask_;
    if (((at - home) & mask_) >= ((at - hole) & mask_)) { // may move back without passing its home
      slots_[hole] = slots_[at];
      hole = at;
    }
  }
  slots_[hole].record = 0;
  return true;
}

} // namespace leakguard
