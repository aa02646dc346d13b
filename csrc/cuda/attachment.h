#pragma once

#include <cstdint>
#include <string>

#include "cuda/allocator_wrapper.h"

namespace leakguard {

// What can be seen of CUDA memory in this process.
enum class CudaTracking : uint8_t {
  Off, // not attached, or detached
  Waiting, // CUDA has not started; attached from its first moment on
  Exact, // every block
  CountersOnly // this back end reports no blocks: totals at best
};

struct CudaStatus {
  CudaTracking tracking = CudaTracking::Off;
  bool wrapped = false; // both allocator slots hold the wrapper; without it contexts are read under the device's lock
  std::string backend; // as torch names it
  std::string why; // a sentence for the report on what is not seen or is not as usual; "" when all is well
};

// Puts the wrapper into torch's two allocator slots (each only if it holds the native allocator) and follows the trace.
// Works before and after CUDA starts; called again, it completes what had to wait. What fails is said in the status:
// nothing throws, and CUDA starts whatever happens here. Any thread, GIL or not; not from inside an allocation.
CudaStatus attachCudaAllocator() noexcept;
// Stops following and takes the wrapper out of the slots that still hold it. The tracker stays, at one flag test.
void detachCudaAllocator() noexcept;
// The present state; completes a waiting attachment. Cheap enough for every step.
CudaStatus cudaStatus() noexcept;

// What torch allocates CUDA memory with at this moment, the wrapper included.
CudaAllocator& currentCudaAllocator() noexcept;

} // namespace leakguard
