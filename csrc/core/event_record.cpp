#include "core/event_record.h"

#include <mutex>
#include <utility>

namespace leakguard {

void EventRecord::begin(size_t most) {
  (void)end();
  Events fresh;
  fresh.blocks.reserve(most);
  const std::lock_guard guard(lock_);
  events_ = std::move(fresh);
  on_.store(true, std::memory_order_relaxed);
}

void EventRecord::add(const Block& block, BlockState state) noexcept {
  const std::lock_guard guard(lock_);
  if (!on_.load(std::memory_order_relaxed)) {
    return; // it ended meanwhile
  }
  if (events_.blocks.size() == events_.blocks.capacity()) {
    ++events_.missed;
    return;
  }
  events_.blocks.push_back(block);
  events_.blocks.back().state = state;
}

EventRecord::Events EventRecord::end() noexcept {
  const std::lock_guard guard(lock_);
  on_.store(false, std::memory_order_relaxed);
  return std::exchange(events_, {});
}

} // namespace leakguard
