#include "cuda/out_of_memory.h"

#include <atomic>
#include <exception>
#include <mutex>

#include "core/ledger.h"
#include "cuda/trace_tracker.h"

namespace leakguard {
namespace {

struct Latest {
  std::mutex mutex;
  std::shared_ptr<const OutOfMemory> record;
  std::atomic<uint64_t> count{0};
};

Latest& latest() noexcept {
  static auto* instance = new Latest;
  return *instance;
}

void remember(CudaAllocator& inner, int64_t device, size_t asked, size_t limit, size_t free) noexcept {
  if (!followingTrace()) {
    return;
  }
  Latest& kept = latest();
  kept.count.fetch_add(1, std::memory_order_relaxed);
  try {
    auto record = std::make_shared<OutOfMemory>();
    record->device = static_cast<int>(device);
    record->asked = asked;
    record->limit = limit;
    record->deviceFree = free;
    const PendingContext* pending = pendingContext();
    record->context = pending != nullptr && pending->set ? pending->context : captureContext();
    record->live = ledger().snapshot();
    record->allocator = readAllocator(inner);
    const std::lock_guard guard(kept.mutex);
    kept.record = std::move(record);
  } catch (const std::exception&) { // no host memory either: the count stands
    return;
  }
}

} // namespace

void observeOutOfMemory(CudaAllocator& inner) {
  latest();
  inner.attachOutOfMemoryObserver([&inner](int64_t device, size_t asked, size_t limit, size_t free) noexcept {
    remember(inner, device, asked, limit, free);
  });
}

std::shared_ptr<const OutOfMemory> latestOutOfMemory() {
  Latest& kept = latest();
  const std::lock_guard guard(kept.mutex);
  return kept.record;
}

uint64_t outOfMemoryCount() noexcept {
  return latest().count.load(std::memory_order_relaxed);
}

} // namespace leakguard
