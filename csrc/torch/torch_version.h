#pragma once

// The torch this is compiled against, and every difference between the supported minors that the code has to know.
// A new minor is let in by python/leakguard/_version.py after its differences are written down here.

#include <torch/version.h>

#define LEAKGUARD_TORCH (TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR)

static_assert(
    LEAKGUARD_TORCH >= LEAKGUARD_OLDEST_TORCH && LEAKGUARD_TORCH <= LEAKGUARD_NEWEST_TORCH,
    "this torch is outside the range that leakguard supports");

// CUDAAllocator::getContextForPointer and attachOomRejectionObserver.
#define LEAKGUARD_TORCH_HAS_OOM_REJECTION (LEAKGUARD_TORCH >= 212)

// CUDAAllocator::markCaptureBegin, markCaptureEnd and allocateWithAddress; at::cuda::WorkspaceMapWithMutex keeps the
// size beside each block.
#define LEAKGUARD_TORCH_HAS_CAPTURE_MARKS (LEAKGUARD_TORCH >= 213)
#define LEAKGUARD_TORCH_HAS_SIZED_WORKSPACES (LEAKGUARD_TORCH >= 213)

// autograd::Node is counted by itself and has a Python slot, like a tensor. Before, shared_ptr counts it, its wrapper
// owns it and not the other way round, and only a custom Function's node owns a Python object: its context, which then
// does not own the node.
#define LEAKGUARD_TORCH_HAS_INTRUSIVE_NODES (LEAKGUARD_TORCH >= 213)

// CUDAAllocator::isEnabled is also false when PYTORCH_NO_CUDA_MEMORY_CACHING switches caching off; before, or perhaps
// already in 2.13, the environment has to be asked.
#define LEAKGUARD_TORCH_ENABLED_KNOWS_ENVIRONMENT (LEAKGUARD_TORCH >= 214)

// CUDAAllocator::supportsUserMetadata and annotateMemory; TraceEntry::Action::ANNOTATE.
#define LEAKGUARD_TORCH_HAS_MEMORY_ANNOTATION (LEAKGUARD_TORCH >= 214)

// HostAllocator::record_history and its five companions, the pinned allocator's own history.
#define LEAKGUARD_TORCH_HAS_HOST_HISTORY (LEAKGUARD_TORCH >= 214)

// THPFunction::output_grad_dtypes, one more reference of a custom Function's context.
#define LEAKGUARD_TORCH_HAS_OUTPUT_GRAD_DTYPES (LEAKGUARD_TORCH >= 214)
