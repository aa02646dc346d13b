#pragma once

#include <atomic>
#include <cstdint>

namespace leakguard {

// A number that is changed under a lock and read without it: no locked instruction on either side.
class SharedCount {
 public:
  int64_t value() const noexcept {
    return value_.load(std::memory_order_relaxed);
  }
  void add(int64_t change) noexcept { // under the lock
    value_.store(value() + change, std::memory_order_relaxed);
  }

 private:
  std::atomic<int64_t> value_{0};
};

} // namespace leakguard
