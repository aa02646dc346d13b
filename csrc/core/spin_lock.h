#pragma once

#include <atomic>
#include <cstdint>

namespace leakguard {

// A leaf lock for critical sections of a few dozen instructions. No other lock is taken, and nothing that could wait is
// called, while one is held. It is trivially constructible in zeroed memory and may be re-initialised after a fork.
class SpinLock {
 public:
  void lock() noexcept {
    while (taken_.exchange(1, std::memory_order_acquire) != 0) {
      while (taken_.load(std::memory_order_relaxed) != 0) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
      }
    }
  }
  void unlock() noexcept {
    taken_.store(0, std::memory_order_release);
  }

 private:
  std::atomic<uint32_t> taken_{0};
};

} // namespace leakguard
