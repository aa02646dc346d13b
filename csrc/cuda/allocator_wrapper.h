#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

namespace leakguard {

// Note [Why the deleter is never changed]
//
// A block carries the inner allocator's own deleter and context. `recordStream` compares the deleter with the native
// one and returns silently when it differs: the block would be handed out again while another stream still reads it.
// CUDA graph trees compare it too, and refuse. So frees do not pass through the wrapper at all; the trace tracker sees
// them.
//
// What the wrapper adds is the context of an allocation, read on the calling thread before the device's lock is taken,
// and two marks that only it can make: raw allocations, and blocks born while a pool's checkpoint is restored.

// The wrapper around `inner`: every virtual function goes to it unchanged. One for each process and immortal: storages
// remember the allocator that made them. `onInit` is called after each init(), without a lock.
using CudaAllocator = c10::cuda::CUDACachingAllocator::CUDAAllocator;
CudaAllocator& wrapCudaAllocator(CudaAllocator& inner, void (*onInit)() noexcept);

// Whether allocations read their context. Off, the wrapper only forwards.
void setWrapperCaptures(bool on) noexcept;

} // namespace leakguard
