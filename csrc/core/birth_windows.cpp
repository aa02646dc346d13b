#include "core/birth_windows.h"

#include <algorithm>
#include <cstdlib>

namespace leakguard {

BirthWindows::~BirthWindows() {
  std::free(windows_);
}

bool BirthWindows::grow() noexcept {
  const uint32_t capacity = capacity_ == 0 ? 2 : capacity_ * 2U;
  void* windows = std::realloc(windows_, capacity * sizeof(BirthWindow));
  if (windows == nullptr) {
    return false;
  }
  windows_ = static_cast<BirthWindow*>(windows);
  capacity_ = static_cast<uint8_t>(capacity);
  return true;
}

void BirthWindows::dropEmpty() noexcept {
  uint8_t kept = 0;
  for (uint8_t i = 0; i < size_; ++i) {
    if (windows_[i].blocks != 0) {
      windows_[kept++] = windows_[i];
    }
  }
  size_ = kept;
}

void BirthWindows::merge(uint32_t now) noexcept {
  const uint8_t enough = capacity_ * 3 / 4; // well below the capacity, so that merging is rare
  while (size_ > enough && size_ > 1) {
    uint8_t best = 0;
    double bestCost = 2.0;
    for (uint8_t i = 0; i + 1 < size_; ++i) {
      const double span = windows_[i + 1].last - windows_[i].first + 1.0;
      const double cost = span / (now - windows_[i].first + 1.0);
      if (cost < bestCost) {
        bestCost = cost;
        best = i;
      }
    }
    BirthWindow& into = windows_[best];
    const BirthWindow& from = windows_[best + 1];
    into.last = from.last;
    into.birthSteps += from.birthSteps;
    into.blocks += from.blocks;
    into.bytes += from.bytes;
    --size_;
    for (uint8_t i = best + 1; i < size_; ++i) {
      windows_[i] = windows_[i + 1];
    }
  }
}

uint32_t BirthWindows::add(uint32_t step, int64_t bytes) noexcept {
  if (size_ > 0) {
    BirthWindow& newest = windows_[size_ - 1];
    if (newest.last >= step) {
      ++newest.blocks;
      newest.bytes += bytes;
      return newest.last;
    }
    if (newest.blocks == 0) { // nothing of it survived: its place is free
      newest = {step, step, 1, 1, bytes};
      return step;
    }
  }
  if (size_ < capacity_ || makeRoom(step)) {
    windows_[size_++] = {step, step, 1, 1, bytes};
  }
  return step;
}

// Room for one window more; false when there is no memory for the first: then a birth has none, and its death finds
// none.
bool BirthWindows::makeRoom(uint32_t now) noexcept {
  dropEmpty();
  if (size_ == capacity_ && (capacity_ == kMost || !grow())) {
    if (capacity_ == 0) {
      return false;
    }
    merge(now);
  }
  return true;
}

void BirthWindows::remove(uint32_t birthStep, int64_t bytes) noexcept {
  for (uint8_t i = size_; i-- > 0;) {
    BirthWindow& window = windows_[i];
    if (window.first <= birthStep && birthStep <= window.last && window.blocks > 0) {
      --window.blocks;
      window.bytes -= bytes;
      // Which of a merged window's steps lost its survivor is not known; there cannot be more such steps than
      // survivors.
      window.birthSteps = std::min(window.birthSteps, std::max(window.blocks, 1U));
      return;
    }
  }
}

} // namespace leakguard
