// libcudart: device and host memory, pools, copies.
#include <algorithm>
#include <cstring>

#include "runtime.h"

using namespace fakecuda;

extern "C" {

// ----------------------------------------------------------- device memory

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  count(Count::Malloc);
  if (!pointer)
    return report(cudaErrorInvalidValue);
  *pointer = nullptr;
  REFUSE_WHILE_CAPTURING();
  if (bytes == 0)
    return cudaSuccess;
  const size_t size = roundUp(bytes, kDriverPage);
  if (size < bytes || !charge(current_device, size))
    return report(cudaErrorMemoryAllocation);
  *pointer = mapPages(size, kDriverPage);
  if (!*pointer) {
    discharge(current_device, size);
    return report(cudaErrorMemoryAllocation);
  }
  addAllocation(*pointer, {size, current_device, MemoryKind::Device});
  return cudaSuccess;
}

cudaError_t cudaFree(void* pointer) {
  count(Count::Free);
  activateDevice(current_device);
  if (!pointer)
    return cudaSuccess;
  REFUSE_WHILE_CAPTURING();
  Allocation allocation;
  void* base;
  if (!findAllocation(pointer, &allocation, &base) || base != pointer)
    return report(cudaErrorInvalidValue);
  if (allocation.kind == MemoryKind::Pool) {
    poolFree(pointer);
    return cudaSuccess;
  }
  if (allocation.kind != MemoryKind::Device)
    return report(cudaErrorInvalidValue);
  completeDevice(allocation.device); // cudaFree waits for the device
  removeAllocation(pointer, &allocation);
  unmapPages(pointer, allocation.size);
  discharge(allocation.device, allocation.size);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  activateDevice(current_device);
  getMemoryInfo(current_device, free, total);
  return cudaSuccess;
}

// ------------------------------------------------------------------- pools

// A pool handle is the device number plus one.
static cudaMemPool_t poolHandle(int device) {
  return reinterpret_cast<cudaMemPool_t>(uintptr_t(device) + 1);
}
static int poolDevice(cudaMemPool_t pool) {
  return int(reinterpret_cast<uintptr_t>(pool)) - 1;
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  if (!isDevice(device))
    return report(cudaErrorInvalidDevice);
  *pool = poolHandle(device);
  return cudaSuccess;
}

cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t handle) {
  count(Count::Malloc);
  Stream& stream = resolveStream(handle);
  *pointer = nullptr;
  if (bytes == 0)
    return cudaSuccess;
  *pointer = poolAllocate(stream.device, bytes);
  return *pointer ? cudaSuccess : report(cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) {
  count(Count::Free);
  if (!pointer)
    return cudaSuccess;
  Allocation allocation;
  void* base;
  if (!findAllocation(pointer, &allocation, &base) || base != pointer)
    return report(cudaErrorInvalidValue);
  if (allocation.kind != MemoryKind::Pool)
    return cudaFree(pointer);
  poolFree(pointer);
  return cudaSuccess;
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
  poolTrim(poolDevice(pool), keep);
  return cudaSuccess;
}

static uint64_t* poolAttribute(PoolStatistics& s, cudaMemPoolAttr which) {
  switch (which) {
    case cudaMemPoolAttrReservedMemCurrent:
      return &s.reserved;
    case cudaMemPoolAttrReservedMemHigh:
      return &s.reserved_high;
    case cudaMemPoolAttrUsedMemCurrent:
      return &s.used;
    case cudaMemPoolAttrUsedMemHigh:
      return &s.used_high;
    case cudaMemPoolAttrReleaseThreshold:
      return &s.release_threshold;
    default:
      return nullptr;
  }
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void* value) {
  Lock lock(modelMutex());
  if (const uint64_t* field = poolAttribute(poolStatistics(poolDevice(pool)), which))
    std::memcpy(value, field, sizeof *field);
  else
    *static_cast<int*>(value) = 1; // the reuse policies
  return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void* value) {
  Lock lock(modelMutex());
  auto& statistics = poolStatistics(poolDevice(pool));
  switch (which) {
    case cudaMemPoolAttrReleaseThreshold:
      std::memcpy(&statistics.release_threshold, value, 8);
      break;
    case cudaMemPoolAttrReservedMemHigh: // setting a peak resets it
      statistics.reserved_high = statistics.reserved;
      break;
    case cudaMemPoolAttrUsedMemHigh:
      statistics.used_high = statistics.used;
      break;
    default:
      break;
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetGraphMemAttribute(int, cudaGraphMemAttributeType, void* value) {
  *static_cast<uint64_t*>(value) = 0;
  return cudaSuccess;
}
// ------------------------------------------------------------- host memory

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  count(Count::HostAlloc);
  *pointer = nullptr;
  REFUSE_WHILE_CAPTURING();
  if (bytes == 0)
    return cudaSuccess;
  activateDevice(current_device);
  const size_t size = roundUp(bytes, 4096);
  *pointer = mapPages(size, 4096);
  if (!*pointer)
    return report(cudaErrorMemoryAllocation);
  addAllocation(*pointer, {size, current_device, MemoryKind::Pinned});
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* pointer) {
  count(Count::HostFree);
  if (!pointer)
    return cudaSuccess;
  Allocation allocation;
  void* base;
  if (!findAllocation(pointer, &allocation, &base) || base != pointer || allocation.kind != MemoryKind::Pinned)
    return report(cudaErrorInvalidValue);
  removeAllocation(pointer, &allocation);
  unmapPages(pointer, allocation.size);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  std::memset(attributes, 0, sizeof *attributes);
  attributes->hostPointer = const_cast<void*>(pointer);
  attributes->device = cudaInvalidDeviceId;
  attributes->type = cudaMemoryTypeUnregistered;
  Allocation allocation;
  if (!findAllocation(pointer, &allocation, nullptr))
    return cudaSuccess;
  attributes->device = allocation.device;
  attributes->devicePointer = const_cast<void*>(pointer);
  attributes->type = cudaMemoryTypeHost;
  if (allocation.onDevice()) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->hostPointer = nullptr;
  }
  return cudaSuccess;
}

// ------------------------------------------------------------------ copies

cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t bytes, cudaMemcpyKind kind, cudaStream_t handle) {
  Stream& stream = resolveStream(handle);
  return report(copy(target, source, bytes, kind, stream));
}

cudaError_t cudaMemsetAsync(void* target, int value, size_t bytes, cudaStream_t handle) {
  Stream& stream = resolveStream(handle);
  return report(fill(target, value, bytes, stream));
}

} // extern "C"
