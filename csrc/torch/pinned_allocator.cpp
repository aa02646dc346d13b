#include "torch/pinned_allocator.h"

#include <ATen/core/CachingHostAllocator.h>

#include <atomic>
#include <exception>
#include <functional>
#include <utility>

#include "core/ledger.h"
#include "torch/torch_version.h"

namespace leakguard {
namespace {

at::HostAllocator* inner = nullptr; // set once, before the wrapper is in the slot
// The one deleter of all blocks, learnt from the first: asking for it earlier would take a block, and start CUDA.
std::atomic<c10::DeleterFnPtr> innerDelete{nullptr};
uint8_t priority = 0;

void forgetAndFree(void* context) {
  if (alive()) {
    const SampledCost cost;
    ledger().retired(DeviceKey::Pinned, reinterpret_cast<uintptr_t>(context));
  }
  innerDelete.load(std::memory_order_relaxed)(context);
}

class PinnedAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr block = inner->allocate(bytes);
    void* context = block.get_context();
    if (context == nullptr) {
      return block;
    }
    c10::DeleterFnPtr known = nullptr;
    innerDelete.compare_exchange_strong(known, block.get_deleter());
    if (!block.compare_exchange_deleter(innerDelete.load(std::memory_order_relaxed), &forgetAndFree)) {
      return block;
    }
    if (watching()) {
      const SampledCost cost;
      ledger().born(DeviceKey::Pinned, reinterpret_cast<uintptr_t>(context), bytes, captureContext());
    }
    return block;
  }

  bool is_simple_data_ptr(const c10::DataPtr& block) const override {
    return inner->is_simple_data_ptr(block);
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return inner->raw_deleter() != nullptr ? &forgetAndFree : nullptr;
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    inner->copy_data(to, from, bytes);
  }
  bool record_event(void* block, void* context, c10::Stream stream) override {
    return inner->record_event(block, context, stream);
  }
  void empty_cache() override {
    inner->empty_cache();
  }
  at::HostStats get_stats() override {
    return inner->get_stats();
  }
  void reset_accumulated_stats() override {
    inner->reset_accumulated_stats();
  }
  void reset_peak_stats() override {
    inner->reset_peak_stats();
  }
  void begin_allocate_to_pool(c10::MempoolId_t pool, std::function<bool(c10::Stream)> filter) override {
    inner->begin_allocate_to_pool(pool, std::move(filter));
  }
  void end_allocate_to_pool(c10::MempoolId_t pool) override {
    inner->end_allocate_to_pool(pool);
  }
  void release_pool(c10::MempoolId_t pool) override {
    inner->release_pool(pool);
  }
#if LEAKGUARD_TORCH_HAS_HOST_HISTORY
  void record_history(
      bool on,
      c10::CachingDeviceAllocator::CreateContextFn makeContext,
      size_t entries,
      c10::CachingDeviceAllocator::RecordContext when,
      bool clear) override {
    inner->record_history(on, makeContext, entries, when, clear);
  }
  bool is_history_enabled() const override {
    return inner->is_history_enabled();
  }
  std::vector<at::HostSegmentInfo> get_segments() override {
    return inner->get_segments();
  }
  std::vector<c10::CachingDeviceAllocator::TraceEntry> get_traces() override {
    return inner->get_traces();
  }
  void record_external_register(void* block, size_t bytes) override {
    inner->record_external_register(block, bytes);
  }
  void record_external_unregister(void* block) override {
    inner->record_external_unregister(block);
  }
#endif
};

PinnedAllocator* wrapper() {
  static auto* wrapper = new PinnedAllocator;
  return wrapper;
}

at::HostAllocator* presentAllocator() {
  try {
    return at::getHostAllocator(c10::kCUDA);
  } catch (const std::exception&) { // none is registered
    return nullptr;
  }
}

} // namespace

AttachResult attachPinnedAllocator() {
  at::HostAllocator* present = presentAllocator();
  if (present == nullptr) {
    return {false, "this torch has no pinned host memory"};
  }
  if (present == wrapper()) {
    return {true, ""};
  }
  if (inner != nullptr && inner != present) {
    // Blocks handed out earlier are freed through the deleter learnt then: it cannot change.
    return {false, "another pinned-memory allocator was set after leakguard was first attached"};
  }
  inner = present;
  ledger(); // made now, not inside an allocation
  for (const int attempt : {0, 1, 10, 100, 255}) {
    priority = static_cast<uint8_t>(attempt);
    at::setHostAllocator(c10::kCUDA, wrapper(), priority);
    if (presentAllocator() == wrapper()) {
      return {true, ""};
    }
  }
  return {false, "the pinned-memory allocator slot is held at the highest priority"};
}

void detachPinnedAllocator() {
  if (pinnedAllocatorAttached()) {
    at::setHostAllocator(c10::kCUDA, inner, priority);
  }
}

bool pinnedAllocatorAttached() {
  return inner != nullptr && presentAllocator() == wrapper();
}

} // namespace leakguard
