#pragma once

// The torch this is compiled against, and every difference between the supported minors that the code has to know.
// A new minor is let in by python/leakguard/_version.py after its differences are written down here.

#include <torch/version.h>

#define LEAKGUARD_TORCH (TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR)

static_assert(
    LEAKGUARD_TORCH >= LEAKGUARD_OLDEST_TORCH && LEAKGUARD_TORCH <= LEAKGUARD_NEWEST_TORCH,
    "this torch is outside the range that leakguard supports");

// CUDAAllocator::supportsUserMetadata and annotateMemory; TraceEntry::Action::ANNOTATE.
#define LEAKGUARD_TORCH_HAS_MEMORY_ANNOTATION (LEAKGUARD_TORCH >= 214)

// HostAllocator::record_history and its five companions, the pinned allocator's own history.
#define LEAKGUARD_TORCH_HAS_HOST_HISTORY (LEAKGUARD_TORCH >= 214)
