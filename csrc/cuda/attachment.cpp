#include "cuda/attachment.h"

#include <c10/core/Allocator.h>

#include <cstdlib>
#include <exception>
#include <mutex>

#include "cuda/trace_tracker.h"
#include "torch/torch_version.h"

namespace leakguard {
namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

void completeAttachment() noexcept;

struct Attachment {
  std::recursive_mutex mutex; // recursive: init() may be reached from inside
  CudaAllocator* inner = nullptr; // set once
  CudaAllocator* wrapper = nullptr;
  uint8_t priority = 0; // at which the registry took the wrapper
  CudaTracking tracking = CudaTracking::Off;
  std::string why;
};

Attachment& attachment() noexcept {
  static auto* instance = new Attachment;
  return *instance;
}

// The registry takes an allocator of equal or higher priority, and the present one's cannot be read: probe, read back.
bool takeRegistry(Attachment& at, CudaAllocator* wanted) {
  for (const int priority : {0, 1, 2, 10, 100, 255}) {
    c10::SetAllocator(c10::kCUDA, wanted, static_cast<uint8_t>(priority));
    if (c10::GetAllocator(c10::kCUDA) == wanted) {
      at.priority = static_cast<uint8_t>(priority);
      return true;
    }
  }
  return false;
}

bool wrapped(const Attachment& at) {
  return at.wrapper != nullptr && caching::allocator.load() == at.wrapper &&
      c10::GetAllocator(c10::kCUDA) == at.wrapper;
}

void takeSlots(Attachment& at) {
  at.wrapper = &wrapCudaAllocator(*at.inner, &completeAttachment);
  CudaAllocator* expected = at.inner;
  caching::allocator.compare_exchange_strong(expected, at.wrapper);
  if (c10::GetAllocator(c10::kCUDA) == at.inner) {
    takeRegistry(at, at.wrapper);
  }
}

std::string backendSentence(const std::string& backend) {
  if (backend == "cudaMallocAsync") {
    return "the cudaMallocAsync allocator reports no allocations: totals are known, not which line holds them";
  }
  return "the CUDA allocator '" + backend +
      "' reports no allocations: what it holds is known neither by line nor in total";
}

const char* const kCachingOff =
    "caching of CUDA memory is switched off: allocations go straight to the device and are not seen";
const char* const kTrackerAlone =
    "another tool holds torch's CUDA allocator slots: blocks are followed by the allocator's trace alone";

bool cachingOff(CudaAllocator& current) {
#if !LEAKGUARD_TORCH_ENABLED_KNOWS_ENVIRONMENT
  if (std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") != nullptr) { // set to anything, as torch reads it
    return true;
  }
#endif
  return !current.isEnabled();
}

// The lock is held. From Waiting to Exact or CountersOnly, once CUDA has started.
void complete(Attachment& at) {
  if (at.tracking != CudaTracking::Waiting || !at.inner->initialized()) {
    return;
  }
  at.why = attachTracker(*at.inner);
  if (!at.why.empty()) {
    at.tracking = CudaTracking::CountersOnly;
    return;
  }
  at.why = followTrace(*at.inner);
  at.tracking = CudaTracking::Exact;
}

void completeAttachment() noexcept {
  Attachment& at = attachment();
  try {
    const std::lock_guard guard(at.mutex);
    complete(at);
  } catch (const std::exception&) { // CUDA starts all the same; the next status tries again
    return;
  }
}

CudaStatus present(Attachment& at) {
  complete(at);
  CudaStatus status;
  CudaAllocator* current = caching::allocator.load();
  status.backend = current->name();
  status.tracking = at.tracking;
  status.wrapped = wrapped(at);
  status.why = at.why;
  if (at.tracking == CudaTracking::Off) {
    return status;
  }
  if (status.backend != "native") { // also when it took the slot after us
    status.tracking = CudaTracking::CountersOnly;
    status.why = backendSentence(status.backend);
  } else if (current->initialized() && cachingOff(*current)) {
    status.tracking = CudaTracking::CountersOnly;
    status.why = kCachingOff;
  } else if (!status.wrapped && status.why.empty()) {
    status.why = kTrackerAlone;
  }
  return status;
}

} // namespace

CudaStatus attachCudaAllocator() noexcept {
  Attachment& at = attachment();
  try {
    const std::lock_guard guard(at.mutex);
    CudaAllocator* current = caching::allocator.load();
    if (at.inner == nullptr && current->name() == "native") {
      at.inner = current;
    }
    if (at.inner == nullptr) {
      at.tracking = CudaTracking::CountersOnly;
      return present(at);
    }
    takeSlots(at);
    if (at.tracking == CudaTracking::Off || at.tracking == CudaTracking::CountersOnly) {
      at.tracking = CudaTracking::Waiting;
    }
    return present(at);
  } catch (const std::exception& error) {
    CudaStatus status;
    try {
      status.why = std::string("CUDA memory is not followed: ") + error.what();
    } catch (const std::exception&) { // no memory for a sentence
      return status;
    }
    return status;
  }
}

void detachCudaAllocator() noexcept {
  Attachment& at = attachment();
  const std::lock_guard guard(at.mutex);
  stopFollowing();
  at.tracking = CudaTracking::Off;
  at.why.clear();
  if (at.wrapper == nullptr) {
    return;
  }
  CudaAllocator* expected = at.wrapper;
  caching::allocator.compare_exchange_strong(expected, at.inner);
  if (c10::GetAllocator(c10::kCUDA) == at.wrapper) {
    c10::SetAllocator(c10::kCUDA, at.inner, at.priority);
  }
}

CudaStatus cudaStatus() noexcept {
  Attachment& at = attachment();
  try {
    const std::lock_guard guard(at.mutex);
    return present(at);
  } catch (const std::exception&) {
    return {};
  }
}

CudaAllocator& currentCudaAllocator() noexcept {
  return *caching::allocator.load();
}

} // namespace leakguard
