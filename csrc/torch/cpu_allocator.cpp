#include "torch/cpu_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include "core/ledger.h"

namespace leakguard {
namespace {

c10::Allocator* inner = nullptr; // set before the wrapper is in the slot, then constant while it is
c10::DeleterFnPtr innerDelete = nullptr;
uint8_t priority = 0;

void forgetAndFree(void* context) {
  if (context != nullptr && alive()) {
    const SampledCost cost;
    ledger().retired(DeviceKey::Cpu, reinterpret_cast<uintptr_t>(context));
  }
  innerDelete(context);
}

class CpuAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr block = inner->allocate(bytes);
    void* context = block.get_context();
    if (context == nullptr || !block.compare_exchange_deleter(innerDelete, &forgetAndFree)) {
      return block; // empty, or of a kind that frees itself in its own way
    }
    if (watching()) {
      const SampledCost cost;
      ledger().prefetch(DeviceKey::Cpu, reinterpret_cast<uintptr_t>(context));
      ledger().born(DeviceKey::Cpu, reinterpret_cast<uintptr_t>(context), bytes, captureContext());
    }
    return block;
  }

  bool is_simple_data_ptr(const c10::DataPtr& block) const override {
    return block.get() == block.get_context();
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return &forgetAndFree;
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    inner->copy_data(to, from, bytes);
  }
};

CpuAllocator* wrapper() {
  static auto* wrapper = new CpuAllocator;
  return wrapper;
}

} // namespace

AttachResult attachCpuAllocator() {
  c10::Allocator* present = c10::GetAllocator(c10::kCPU);
  if (present == wrapper()) {
    return {true, ""};
  }
  if (present->raw_deleter() == nullptr) {
    return {false, "the CPU allocator in use frees its blocks in a way that cannot be followed"};
  }
  if (inner != nullptr && innerDelete != present->raw_deleter()) {
    // Blocks handed out earlier are freed through innerDelete: it cannot change.
    return {false, "another CPU allocator was set after leakguard was first attached"};
  }
  inner = present;
  innerDelete = present->raw_deleter();
  ledger(); // made now, not inside an allocation
  // The slot takes an allocator of equal or higher priority; the present one's cannot be read.
  for (const int attempt : {0, 1, 10, 100, 255}) {
    priority = static_cast<uint8_t>(attempt);
    c10::SetCPUAllocator(wrapper(), priority);
    if (c10::GetAllocator(c10::kCPU) == wrapper()) {
      return {true, ""};
    }
  }
  return {false, "the CPU allocator slot is held at the highest priority"};
}

void detachCpuAllocator() {
  if (cpuAllocatorAttached()) {
    c10::SetCPUAllocator(inner, priority);
  }
}

uintptr_t cpuAllocatorAddress() {
  return reinterpret_cast<uintptr_t>(static_cast<c10::Allocator*>(wrapper()));
}

bool cpuAllocatorAttached() {
  return c10::GetAllocator(c10::kCPU) == wrapper();
}

} // namespace leakguard
